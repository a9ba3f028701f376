"""The same answers, whatever form samples come in and however many come at once."""

import numpy as np
import pytest
import torch
from PIL import Image

import manyhot as mh
from manyhot.classifier import Answer, Classifier
from manyhot.data import from_arrays, read_images
from manyhot.images import UnreadableImage
from manyhot.network import Network
from tests.classifier.networks import LABELS, files, held_out, of_features, pictures, small
from tests.errors.expected import raises_input_error


def same(table, other):
    torch.testing.assert_close(table.scores, other.scores, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(table.probs, other.probs, rtol=1e-5, atol=1e-6)
    assert torch.equal(table.decisions, other.decisions)


@pytest.fixture
def classifier():
    scores, targets = held_out()
    return small(calibrator=mh.PlattScaling(sharing="none").fit(scores, targets), rule=mh.Threshold(0.4))


def test_batches_order_and_single_images_do_not_matter(classifier, tmp_path):
    paths = files(tmp_path)
    whole = classifier.predict(paths)
    assert whole.paths == [str(path) for path in paths]
    assert whole.kinds == ("scores", "probs", "decisions")
    for size in (1, 2, 3):
        same(whole, classifier.predict(paths, batch_size=size))
    same(whole.take([4, 0, 2]), classifier.predict([paths[4], paths[0], paths[2]]))
    for row, path in enumerate(paths):
        same(whole.take([row]), classifier.predict(path))


def test_what_is_predicted_is_what_the_parts_compute(classifier, tmp_path):
    path = files(tmp_path)[3]
    pixels = classifier.preprocessing.prepare(Image.open(path)).unsqueeze(0)
    network = classifier.network.eval()
    scores = network.head(network.backbone(pixels))
    table = classifier.predict(path)
    torch.testing.assert_close(table.scores, scores)
    torch.testing.assert_close(table.probs, classifier.calibrator(scores))
    assert torch.equal(table.decisions, classifier.calibrator(scores) >= 0.4)


def test_every_form_of_a_picture_gives_the_same(classifier, tmp_path):
    paths, arrays = files(tmp_path), pictures()
    whole = classifier.predict(paths)
    same(whole, classifier.predict(tmp_path))
    same(whole, classifier.predict(str(tmp_path / "*.png")))
    same(whole, classifier.predict(arrays))
    same(whole, classifier.predict([Image.fromarray(pixels) for pixels in arrays]))
    same(whole, classifier.predict([torch.from_numpy(pixels.copy()).permute(2, 0, 1) for pixels in arrays]))
    same(whole, classifier.predict(read_images(tmp_path)))
    one = classifier.predict(np.stack([arrays[0], arrays[0]]))
    same(whole.take([0, 0]), one)
    same(whole.take([0]), classifier.predict(torch.from_numpy(arrays[0].copy()).permute(2, 0, 1)[None]))
    with Image.open(paths[0]) as picture:
        same(whole.take([0]), classifier.predict(picture))


def test_grey_and_transparent_and_turned_pictures_are_taken(classifier):
    grey = pictures()[0][..., 0]
    same(classifier.predict(grey), classifier.predict(np.repeat(grey[..., None], 3, 2)))
    same(classifier.predict(Image.fromarray(grey)), classifier.predict(grey))
    same(classifier.predict(Image.fromarray(grey).convert("P")), classifier.predict(grey))
    turned = Image.fromarray(pictures()[1])
    turned.getexif()[0x0112] = 3
    same(classifier.predict(turned), classifier.predict(pictures()[1][::-1, ::-1]))


@pytest.mark.parametrize("mode", ["I;16", "I", "F"])
def test_an_opened_image_of_many_bits_is_read_as_its_file(classifier, tmp_path, mode):
    deep = np.linspace(0, 1 if mode == "F" else 65535, 600).reshape(20, 30)
    image = Image.fromarray(deep.astype({"I;16": np.uint16, "I": np.int32, "F": np.float32}[mode]))
    image.save(tmp_path / "deep.tif")
    with Image.open(tmp_path / "deep.tif") as opened:
        assert opened.mode == mode
        same(classifier.predict(opened), classifier.predict(tmp_path / "deep.tif"))
        assert opened.mode == mode


def test_bad_images_are_left_out_by_name(classifier, tmp_path):
    paths = files(tmp_path)
    good = classifier.predict([paths[0], paths[2]])
    paths[1].write_bytes(paths[1].read_bytes()[:60])
    table = classifier.predict(paths[:3], batch_size=1)
    same(table, good)
    assert table.ids == [str(paths[0]), str(paths[2])]
    (note,) = [note for note in table.notes if note.startswith("Left out ")]
    assert str(paths[1]) in note
    assert list(table.unreadable) == [str(paths[1])]
    with raises_input_error(match=r"1\.png", kind=UnreadableImage):
        classifier.predict(paths[:3], on_bad_image="fail")
    table = classifier.predict(paths[1])
    assert (len(table), table.scores.shape) == (0, (0, 4))


def test_targets_and_splits_of_a_data_set_come_along(classifier):
    arrays = np.stack([pictures()[0]] * 3)
    data = from_arrays(arrays, [["dog"], [], ["fish", "cat"]], labels=sorted(LABELS), splits=["val", "test", "test"])
    table = classifier.predict(data)
    assert table.labels.decode(table.targets) == [["dog"], [], ["cat", "fish"]]
    assert table.split_sizes() == {"val": 1, "test": 2}
    other = classifier.predict(from_arrays(arrays, [["dog"], [], ["owl"]]))
    assert other.targets is None
    assert "Left out the true labels, because there are none for 'cat'." in other.notes


def test_features_need_no_backbone():
    classifier, features = of_features(rule=mh.TopK(1)), torch.randn(10, 8)
    table = classifier.predict(features)
    torch.testing.assert_close(table.scores, classifier.network.head(features).detach())
    same(table, classifier.predict(features.numpy(), batch_size=3))
    same(table, classifier.predict(features.tolist()))
    same(table, classifier.predict(from_arrays(features, [[0]] * 10)))
    assert [len(part) for part in classifier.predict_parts(features, rows=4, batch_size=2)] == [4, 4, 2]
    assert len(classifier.predict(torch.empty(0, 8))) == 0


def test_progress_is_told_in_samples():
    counts = []
    of_features().predict(torch.randn(10, 8), batch_size=4, advance=counts.append)
    assert counts == [4, 4, 2]


def test_the_network_keeps_its_mode(classifier, tmp_path):
    classifier.network.train()
    before = {name: value.clone() for name, value in classifier.network.state_dict().items()}
    table = classifier.predict(files(tmp_path))
    assert classifier.network.training
    assert classifier.network.backbone.module[1].training
    assert all(torch.equal(value, before[name]) for name, value in classifier.network.state_dict().items())
    classifier.network.eval()
    same(table, classifier.predict(tmp_path))


def test_scores_that_only_rank_stay_scores():
    classifier = of_features(link=mh.TwoWayLoss().link)
    table = classifier.predict(torch.randn(3, 8))
    assert table.kinds == ("scores",)
    with raises_input_error(
        "link",
        "TwoWayLoss",
        rule="be that of a loss which adds over labels to give probabilities",
        got="a loss whose scores only rank",
        hint="Fit a calibrator on held-out scores",
    ):
        table.probabilities()
    with raises_input_error(hint="Fit a calibrator"):
        classifier.answers(torch.randn(3, 8))
    scores = torch.randn(50, 4)
    ranked = of_features(link=mh.TwoWayLoss().link, rule=mh.AverageK(1).fit(scores))
    table = ranked.predict(torch.randn(3, 8))
    assert torch.equal(table.decisions, table.scores >= ranked.rule.threshold.float())
    with raises_input_error(
        "rule",
        "Classifier",
        rule="only compare where there are no probabilities",
        got="ExpectedFBeta",
        hint="Pass a fitted",
    ):
        of_features(link=mh.TwoWayLoss().link, rule=mh.ExpectedFBeta())


def test_answers_are_for_people():
    head = mh.LinearHead(2, 3, bias="none")
    head.weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    network = Network(None, head)
    plain = Classifier(network, ["cat", "dog", "bird"], link=mh.SigmoidLink())
    (answer,) = plain.answers([[3.0, 1.0]])
    assert (answer.labels, list(answer.probs), answer.none, answer.abstain) == (
        ["cat", "dog"],
        ["cat", "dog", "bird"],
        False,
        False,
    )
    assert answer.probs["cat"] == pytest.approx(torch.sigmoid(torch.tensor(3.0)).item())
    assert repr(answer) == "Answer('0': cat 95.3 %, dog 73 %; not bird 1.8 %)"
    assert list(plain.answers([[3.0, 1.0]], top=0)[0].probs) == ["cat", "dog"]
    none = Classifier(network, ["cat", "dog", "bird"], link=mh.SigmoidLink(), rule=mh.Threshold(1.0))
    (answer,) = none.answers([[9.0, -9.0]], top=2)
    assert (answer.labels, answer.none) == ([], True)
    assert repr(answer) == "Answer('0': none of these; not cat 99.988 %, bird 50 %)"
    asking = mh.Abstain(mh.Threshold(0.5), at_most=1.0).fit(torch.rand(9, 3))
    (answer,) = Classifier(network, ["cat", "dog", "bird"], link=mh.SigmoidLink(), rule=asking).answers([[3.0, 1.0]])
    assert (answer.abstain, answer.none) == (True, False)
    assert repr(answer).startswith("Answer('0': abstained; cat 95.3 %")
    assert isinstance(answer, Answer)


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (torch.rand(3, 20, 20), r"must be images \(3, H, W\).* got \(3, 20, 20\) of float32\. Scale values"),
        (np.zeros((4, 4), np.float32), r"must be images \(H, W\).* got \(4, 4\) of float32"),
        (17, r"must be paths, images, a data set, or arrays or tensors of pixels; got int\."),
        (from_arrays(torch.eye(3), [[0]] * 3), "must hold images; got a data set of features"),
    ],
)
def test_what_is_no_picture_is_refused(classifier, samples, words):
    with raises_input_error(match=words):
        classifier.predict(samples)


def test_what_are_no_features_is_refused():
    classifier = of_features()
    with raises_input_error(rule="be features (N, D) with D = 8", got="(3, 5)"):
        classifier.predict(torch.randn(3, 5))
    with raises_input_error(rule="be features (N, D) with D = 8", got="()"):
        classifier.predict(1.5)
    with raises_input_error(hint="this classifier has no backbone to read images with"):
        classifier.predict("cat.jpg")
    with raises_input_error(rule="hold features", got="a data set of images"):
        classifier.predict(from_arrays(np.zeros((1, 4, 4, 3), np.uint8), [[0]]))


def test_parts_that_do_not_fit_are_refused():
    network = Network(None, mh.LinearHead(8, 4))
    with raises_input_error("labels", "Classifier", rule="have as many names as the head has labels, 4"):
        Classifier(network, ["cat"], link=mh.SigmoidLink())
    with raises_input_error("link", "Classifier", rule="be a link", got="NoneType", hint="Pass `loss.link`"):
        Classifier(network, LABELS, link=None)
    with raises_input_error("state", "PlattScaling", rule="be fitted before use"):
        Classifier(network, LABELS, link=mh.SigmoidLink(), calibrator=mh.PlattScaling())
    of_probs = mh.PlattScaling().fit(torch.rand(9, 4), torch.ones(9, 4), kind="probs")
    with raises_input_error("kind", "PlattScaling", rule="be 'probs', on which it was fitted", got="'scores'"):
        Classifier(network, LABELS, link=mh.SigmoidLink(), calibrator=of_probs)
    with raises_input_error(rule="be a Network", got="Linear"):
        Classifier(torch.nn.Linear(2, 2), LABELS, link=mh.SigmoidLink())
    with raises_input_error(rule="have a Backbone or none", got="Flatten"):
        Classifier(Network(torch.nn.Flatten(), mh.LinearHead(8, 4)), LABELS, link=mh.SigmoidLink())
    with raises_input_error(rule="have a head of manyhot", got="Linear"):
        Classifier(Network(None, torch.nn.Linear(8, 4)), LABELS, link=mh.SigmoidLink())


def test_it_tells_what_it_is():
    assert repr(of_features(rule=mh.TopK(2))) == "Classifier(features; 4 labels; link SigmoidLink; rule TopK(2))"
    assert repr(small()).startswith("Classifier(Sequential; 4 labels")
