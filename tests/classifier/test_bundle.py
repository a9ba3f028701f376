"""A classifier survives its way through a folder, and damage is one sentence."""

import json

import pytest
import torch
from torch import nn

import manyhot as mh
from manyhot.backbones import create_backbone
from manyhot.classifier import Classifier
from manyhot.heads import MLPHead
from manyhot.network import Network
from tests.classifier.networks import LABELS, body, held_out, of_features, pictures, small
from tests.errors.expected import raises_input_error

HEADS = {
    "linear": (lambda: mh.LinearHead(8, 4, bias="shared"), "plain"),
    "cosine": (lambda: mh.CosineHead(8, 4, bias="label", scale=12.5), "log-softmax"),
    "hidden": (lambda: MLPHead(8, 4, hidden=5, dropout=0.3), "plain"),
    "two": (lambda: mh.heads.TwoHeads(8, 4), "multi"),
}


def full(**parts):
    scores, targets = held_out()
    calibrator = mh.IsotonicCalibration(link=mh.SigmoidLink()).fit(scores, targets)
    rule = mh.Abstain(mh.LabelThresholds(precision=0.9), at_most=0.2).fit(calibrator(scores), targets)
    return of_features(link=mh.links.AsymmetricLink(4, 0, 0.05), calibrator=calibrator, rule=rule, **parts)


def identical(table, other):
    for kind in ("scores", "probs", "decisions", "abstain"):
        assert torch.equal(getattr(table, kind), getattr(other, kind))


@pytest.mark.parametrize(("head", "reading"), HEADS.values(), ids=HEADS)
def test_heads_come_back(head, reading, tmp_path):
    network = Network(None, head(), reading=reading).eval()
    Classifier(network, LABELS, link=mh.SigmoidLink()).save(tmp_path)
    features = torch.randn(5, 8)
    back = Classifier.load(tmp_path)
    assert torch.equal(back.network.scores(features), network.scores(features))
    assert back.network.head.extra_repr() == network.head.extra_repr()


@pytest.mark.parametrize("version", [1, 2])
def test_a_head_with_another_name_now_comes_back(version, tmp_path):
    build, reading = HEADS["hidden"]
    network = Network(None, build(), reading=reading).eval()
    Classifier(network, LABELS, link=mh.SigmoidLink()).save(tmp_path)
    path = tmp_path / "classifier.json"
    content = json.loads(path.read_text())
    assert (content["format"], content["head"]["kind"]) == (3, "MLPHead")
    path.write_text(json.dumps(content | {"format": version, "head": content["head"] | {"kind": "HiddenHead"}}))
    features = torch.randn(5, 8)
    assert torch.equal(Classifier.load(tmp_path).network.scores(features), network.scores(features))
    path.write_text(json.dumps(content | {"head": content["head"] | {"kind": "HiddenHead"}}))
    with raises_input_error(rule="as `save` wrote it"):
        Classifier.load(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_precision_of_a_network_comes_back(dtype, tmp_path):
    classifier, features = full(), torch.randn(64, 8)
    classifier.network.to(dtype)
    classifier.save(tmp_path)
    back = Classifier.load(tmp_path)
    assert back.network.head.weight.dtype == dtype
    identical(back.predict(features), classifier.predict(features))


def test_calibrator_rule_and_names_come_back_exactly(tmp_path):
    classifier, features = full(), torch.randn(64, 8)
    classifier.save(tmp_path / "new" / "folder")
    back = mh.load(tmp_path / "new" / "folder")
    identical(back.predict(features), classifier.predict(features))
    assert back.labels.names == LABELS
    assert repr(back) == repr(classifier)
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "classifier.json",
        "model.safetensors",
    ]


def test_a_calibrator_that_lost_a_buffer_is_refused(tmp_path):
    scores, targets = held_out(4)
    of_features(calibrator=mh.BetaCalibration().fit(scores, targets)).save(tmp_path)
    content = json.loads((tmp_path / "classifier.json").read_text())
    del content["calibrator"]["buffers"]["intercept"]
    (tmp_path / "classifier.json").write_text(json.dumps(content))
    with raises_input_error(rule="hold a classifier.json as `save` wrote it"):
        Classifier.load(tmp_path)


def test_a_backbone_of_timm_is_built_anew(tmp_path):
    backbone = create_backbone(pretrained=False, size=32, seed=5)
    classifier = Classifier(Network(backbone, mh.LinearHead(1280, 4)), LABELS, link=mh.SigmoidLink(), rule=mh.TopK(1))
    classifier.save(tmp_path)
    back = Classifier.load(tmp_path)
    assert back.preprocessing == classifier.preprocessing
    assert torch.equal(back.predict(pictures()).scores, classifier.predict(pictures()).scores)


def test_a_network_of_ones_own_is_asked_for(tmp_path):
    classifier = small(rule=mh.TopK(1))
    classifier.save(tmp_path)
    sentence = r"must be given for a network of your own, 'Sequential'; got none\. Build that network and pass it"
    with raises_input_error(match=sentence):
        Classifier.load(tmp_path)
    other = body()
    for parameter in other.parameters():
        parameter.data.zero_()
    back = Classifier.load(tmp_path, backbone=other)
    assert torch.equal(back.predict(pictures()).scores, classifier.predict(pictures()).scores)
    wrong = nn.Sequential(nn.Conv2d(3, 8, 5), nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    with raises_input_error(rule="hold weights of the network's shapes, (8, 3, 5, 5)", got="(8, 3, 3, 3)"):
        Classifier.load(tmp_path, backbone=wrong)
    of_features().save(tmp_path)
    with raises_input_error(match=r"`backbone` of `Classifier\.load` must be left out for a classifier of fea"):
        Classifier.load(tmp_path, backbone=other)


def test_weights_that_share_memory_are_saved_and_those_too_many_named(tmp_path):
    classifier = of_features()
    classifier.network.head.register_parameter("again", classifier.network.head.weight)
    classifier.save(tmp_path)
    with raises_input_error(rule="shapes, nothing", got="(4, 8) for 'head.again'"):
        Classifier.load(tmp_path)


def test_rules_of_ones_own_are_registered(tmp_path, monkeypatch):
    class Everything(mh.Rule):
        def __init__(self):
            super().__init__(fitted=True)

        def decide(self, values):
            return values > -1

    of_features(rule=Everything()).save(tmp_path)
    with raises_input_error(match="register your own class"):
        Classifier.load(tmp_path)
    monkeypatch.setattr("manyhot.registry._registered", {})
    mh.registry.register(Everything)
    assert bool(Classifier.load(tmp_path).predict(torch.randn(2, 8)).decisions.all())


def test_a_head_of_ones_own_is_refused(tmp_path):
    class Own(mh.LinearHead):
        pass

    classifier = Classifier(Network(None, Own(8, 4)), LABELS, link=mh.SigmoidLink())
    with raises_input_error("head", "Classifier.save", rule="be one of LinearHead, CosineHead"):
        classifier.save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_saving_again_replaces_and_a_mixture_is_refused(tmp_path):
    classifier = of_features()
    classifier.save(tmp_path)
    before = (tmp_path / "classifier.json").read_text()
    with torch.no_grad():
        classifier.network.head.weight.add_(1)
    classifier.save(tmp_path)
    assert torch.equal(Classifier.load(tmp_path).network.head.weight, classifier.network.head.weight)
    (tmp_path / "classifier.json").write_text(before)
    with raises_input_error(rule="hold the weights that its classifier.json was written with", got="others"):
        Classifier.load(tmp_path)


def test_folders_without_a_classifier_are_refused(tmp_path):
    with raises_input_error(rule="be a folder with a classifier"):
        Classifier.load(tmp_path / "none")
    with raises_input_error(got="without a classifier.json", hint="Pass the folder of a run"):
        mh.load(tmp_path)
    full().save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with raises_input_error(rule="hold model.safetensors", hint="Copy it there"):
        Classifier.load(tmp_path)


@pytest.mark.parametrize("keep", [0, 5, 40, -1])
def test_cut_off_weights_are_refused(tmp_path, keep):
    full().save(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with raises_input_error(rule="hold whole weights"):
        Classifier.load(tmp_path)


def test_changed_weights_are_refused(tmp_path):
    full().save(tmp_path)
    path = tmp_path / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with raises_input_error(rule="hold the weights that its"):
        Classifier.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 4, "manyhot": "9.0"}, r"must have format 3 or older; got .* of format 4, written by manyhot 9\.0"),
        ({"format": None}, "which is none"),
        ({"labels": ["a", "a", "b", "c"]}, "must be distinct; got 'a' twice"),
        ({"labels": ["a"]}, "must have as many names as the head has labels, 4; got 1"),
        ({"labels": 3}, "must be a list of strings"),
        ({"head": {"kind": "Linear", "in_features": 8, "num_labels": 4}}, r"as `save` wrote it; got .*KeyError"),
        ({"head": {"kind": "LinearHead", "in_features": "8", "num_labels": 4}}, "must be a whole number"),
        (
            {"head": {"kind": "LinearHead", "in_features": 9, "num_labels": 4, "bias": "label"}},
            r"\(4, 9\); got \(4, 8\)",
        ),
        ({"head": None}, "as `save` wrote it"),
        ({"reading": "loud"}, "must be one of 'plain'"),
        ({"link": None}, "must be a link; got NoneType"),
        ({"link": {"kind": "os.system", "arguments": {}, "buffers": {}}}, "must be a link, a calibrator or a rule"),
        ({"rule": {"kind": "TopK", "arguments": {"kk": 1}, "buffers": {}}}, "as `save` wrote it; got .*TypeError"),
        ({"rule": 5}, "as `save` wrote it"),
        ({"weights": {}}, "as `save` wrote it"),
        ({"backbone": {"kind": "magic"}}, "must be what `Backbone.spec` holds"),
        ({"preprocessing": {"size": 3}}, "must have the entries"),
    ],
)
def test_edited_json_is_one_sentence(tmp_path, change, words):
    full().save(tmp_path)
    path = tmp_path / "classifier.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with raises_input_error(match=words):
        Classifier.load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\udcff"])
def test_what_is_no_json_is_refused(tmp_path, text):
    full().save(tmp_path)
    (tmp_path / "classifier.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with raises_input_error(rule="hold a classifier.json"):
        Classifier.load(tmp_path)


def test_each_missing_entry_is_one_sentence(tmp_path):
    full().save(tmp_path)
    path = tmp_path / "classifier.json"
    content = json.loads(path.read_text())
    for name in set(content) - {"manyhot"}:
        path.write_text(json.dumps({key: value for key, value in content.items() if key != name}))
        with raises_input_error(rule="classifier.json"):
            Classifier.load(tmp_path)
