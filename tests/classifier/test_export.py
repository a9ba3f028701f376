"""The ONNX file answers as the classifier does, link by link, calibrator by calibrator, rule by rule."""

import json
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image
from torch import nn

import manyhot as mh
from manyhot.backbones import Preprocessing, create_backbone
from manyhot.classifier import Classifier
from manyhot.classifier import onnx_export as onnx_check
from manyhot.classifier.onnx_export import AnswerGraph, exporter_silenced
from manyhot.network import Network
from tests.classifier.networks import LABELS, held_out, of_features, pictures, small
from tests.errors.expected import raises_input_error
from tests.laws.table import RULES

pytestmark = pytest.mark.slow

LINKS = {
    "sigmoid": mh.SigmoidLink(),
    "weights": mh.SigmoidLink(pos_weight=[1.0, 3.0, 0.1, 2.0, 1.0]),
    "asymmetric": mh.links.AsymmetricLink(4, 1, 0),
    "margin": mh.links.AsymmetricLink(4, 0, 0.05),
    "spa": mh.links.StrictlyProperAsymmetricLink(),
    "quasibinary": mh.links.QuasibinaryLink().fit([(torch.linspace(-2, 2, 25).view(5, 5), torch.eye(5))]),
    "softmax": mh.links.SoftmaxLink(),
}
# Every calibrator, every `sharing` and every link, each at least once; all pairs would take minutes.
CALIBRATORS = {
    "temperature": lambda: mh.TemperatureScaling(link=LINKS["margin"]),
    "temperature-all": lambda: mh.TemperatureScaling(sharing="all"),
    "affine": lambda: mh.PlattScaling(link=LINKS["softmax"]),
    "affine-label": lambda: mh.PlattScaling(sharing="none", link=LINKS["weights"]),
    "beta": lambda: mh.BetaCalibration(link=LINKS["spa"]),
    "isotonic": lambda: mh.IsotonicCalibration(link=LINKS["quasibinary"]),
    "isotonic-all": lambda: mh.IsotonicCalibration(sharing="all", link=LINKS["asymmetric"]),
    "isotonic-label": lambda: mh.IsotonicCalibration(sharing="none", link=LINKS["sigmoid"]),
}
# Rules of every kind; those that are left out differ from one of these in how they are fitted alone.
KINDS_OF_RULES = [
    "threshold",
    "nothing",
    "costs-of-labels",
    "top-k",
    "top-none",
    "top-more-than-there-are",
    "label-thresholds-precision",
    "average-k",
    "uniform",
    "classes",
    "expected-f-2",
    "misses",
    "ask-none",
    "none-ask",
]


def calibrators():
    scores, targets = held_out(5)
    fitted = {name: make().fit(scores, targets) for name, make in CALIBRATORS.items()}
    fitted["constant"] = mh.calibrate.QuasibinaryConstant().fit(scores, targets)
    single = nn.functional.one_hot(scores.argmax(1), 5) * (targets.sum(1, keepdim=True) > 0)
    return fitted | {"softmax": mh.calibrate.SoftmaxTemperature().fit(scores, single)}


class Each(nn.Module):
    """Several functions of the same tensor."""

    def __init__(self, parts, call):
        super().__init__()
        self.parts, self.call = nn.ModuleList(parts), call

    def forward(self, values):
        return tuple(output for part in self.parts for output in self.call(part, values))


class Same(nn.Module):
    """A network whose input are the scores."""

    def scores(self, inputs):
        return inputs


def graph_of(link=LINKS["sigmoid"], calibrator=None, preprocessing=None):
    """The graph of a classifier whose input are the scores."""
    parts = {"link": link, "calibrator": calibrator, "rule": None, "preprocessing": preprocessing}
    return AnswerGraph(SimpleNamespace(network=Same(), **parts))


def decided(rule, values):
    decision = rule(values)
    return decision.labels, decision.abstain


def traced(module, values, axes=("N",)):
    """A module as ONNX Runtime runs it, with some axes of any length."""
    shapes = (dict(enumerate(axes)),)
    with exporter_silenced():
        program = torch.onnx.export(
            module.eval(), (values,), dynamo=True, verbose=False, optimize=False, dynamic_shapes=shapes
        )
    return onnxruntime.InferenceSession(program.model_proto.SerializeToString())


def run(module, values):
    """What ONNX Runtime makes of a module that was traced with two rows."""
    session = traced(module, values[:2])
    outputs = session.run(None, {session.get_inputs()[0].name: values.numpy()})
    return [torch.from_numpy(output) for output in outputs]


def test_every_link_and_calibrator():
    scores = torch.cat([3 * torch.randn(60, 5), torch.tensor([[-40.0, 40.0, 0.0, 9.0, -9.0], [0.0] * 5])])
    fitted = calibrators()
    graphs = [graph_of(link) for link in LINKS.values()] + [graph_of(calibrator=each) for each in fitted.values()]
    wanted = [link.probs(scores) for link in LINKS.values()] + [each(scores) for each in fitted.values()]
    outputs = run(Each(graphs, lambda graph, values: [graph(values)["probs"]]), scores)
    for name, given, own in zip([*LINKS, *fitted], outputs, wanted, strict=True):
        torch.testing.assert_close(given, own, rtol=0, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")
    for given in outputs[len(LINKS) :]:
        assert given.dtype == torch.float32
        assert bool(((given > 0) & (given < 1)).all())


def test_every_rule():
    scores, targets = held_out(5)
    probs = torch.sigmoid(scores)
    made = {name: RULES[name].make() for name in KINDS_OF_RULES}
    rules = {name: rule if bool(rule.fitted) else rule.fit(probs, targets) for name, rule in made.items()}
    ties = torch.tensor([[0.5, 0.5, 0.5, 0.5, 0.5], [1.0, 1.0, 0.0, 0.0, 0.3], [0.0] * 5, [0.3, 0.7, 0.3, 0.7, 0.3]])
    rows = torch.cat([ties, torch.rand(100, 5)])
    outputs = run(Each(rules.values(), decided), rows)
    inner = {type(rule.rule) for rule in rules.values() if hasattr(rule, "rule")}
    assert {type(case.make()) for case in RULES.values()} == {type(rule) for rule in rules.values()} | inner
    for place, (name, rule) in enumerate(rules.items()):
        decision = rule(rows)
        assert torch.equal(outputs[2 * place], decision.labels), name
        assert torch.equal(outputs[2 * place + 1], decision.abstain), name


def test_a_rule_of_your_own_around_another_one():
    class Others(mh.Rule):
        def __init__(self):
            super().__init__(fitted=True)
            self.rule = mh.TopK(2)

        def decide(self, values):
            return ~self.rule(values).labels

    rows = torch.rand(20, 5)
    labels, abstain = run(Each([Others()], decided), rows)
    assert torch.equal(labels, Others()(rows).labels)
    assert not bool(abstain.any())


@pytest.mark.parametrize("resize", ["squash", "crop"])
@pytest.mark.parametrize(("interpolation", "size"), [("bilinear", (40, 56)), ("bicubic", (40, 56)), ("bicubic", 40)])
def test_pictures_are_resized_as_by_pillow(resize, interpolation, size):
    preprocessing = Preprocessing(size=size, resize=resize, interpolation=interpolation)
    images = torch.zeros(2, 50, 61, 3, dtype=torch.uint8)
    session = traced(graph_of(preprocessing=preprocessing), images, ("N", "H", "W"))
    draw = np.random.default_rng(0)
    for size in [(40, 56), (7, 5), (91, 33), (33, 191), (120, 57), (200, 301), (1, 1), (1, 90), (39, 57)]:
        images = draw.integers(0, 256, (2, *size, 3), dtype=np.uint8)
        pixels, *_ = session.run(None, {"inputs": images})
        own = torch.stack([preprocessing.prepare(Image.fromarray(image)) for image in images])
        off = (torch.from_numpy(pixels).int() - own.int()).abs()
        assert int(off.max()) <= 2, size
        assert float((off > 0).float().mean()) < 0.08, size


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    scores, targets = held_out()
    calibrator = mh.IsotonicCalibration().fit(scores, targets)
    rule = mh.Abstain(mh.ExpectedFBeta(), at_most=0.5).fit(calibrator(scores))
    classifier = small(resize="crop", interpolation="bicubic", calibrator=calibrator, rule=rule)
    path = tmp_path_factory.mktemp("export") / "model.onnx"
    classifier.export(path)
    return classifier, path


def test_the_file_alone_answers_as_the_classifier(exported):
    classifier, path = exported
    session = onnxruntime.InferenceSession(path)
    for pixels in pictures():
        images = np.stack([pixels, pixels[::-1]])
        scores, probs, decisions, abstain, names = session.run(None, {"images": images})
        table = classifier.predict(images)
        assert names.tolist() == LABELS
        torch.testing.assert_close(torch.from_numpy(scores), table.scores, rtol=0.01, atol=0.01)
        torch.testing.assert_close(torch.from_numpy(probs), table.probs, rtol=0, atol=0.01)
        own = classifier.rule(torch.from_numpy(probs))
        assert torch.equal(torch.from_numpy(decisions), own.labels)
        assert torch.equal(torch.from_numpy(abstain), own.abstain)


def test_the_file_is_one_and_tells_its_names_but_not_where_it_was_made(exported):
    classifier, path = exported
    assert [item.name for item in path.parent.iterdir()] == ["model.onnx"]
    data = path.read_bytes()
    for trace in (b"/manyhot", b"site-packages", b".py", b"stack_trace", b"torch.fx", str(path.parent).encode()):
        assert trace not in data
    session = onnxruntime.InferenceSession(path)
    told = session.get_modelmeta().custom_metadata_map
    assert json.loads(told["labels"]) == LABELS
    assert json.loads(told["rule"])["kind"] == "Abstain"
    assert json.loads(told["calibrator"])["kind"] == "IsotonicCalibration"
    assert Preprocessing.restore(json.loads(told["preprocessing"])) == classifier.preprocessing
    assert told["manyhot"] == mh.__version__
    shapes = {each.name: (each.type, each.shape) for each in (*session.get_inputs(), *session.get_outputs())}
    assert shapes == {
        "images": ("tensor(uint8)", ["N", "H", "W", 3]),
        "scores": ("tensor(float)", ["N", 4]),
        "probs": ("tensor(float)", ["N", 4]),
        "decisions": ("tensor(bool)", ["N", 4]),
        "abstain": ("tensor(bool)", ["N"]),
        "labels": ("tensor(string)", [4]),
    }
    assert not any(each.data_location for each in onnx.load(path).graph.initializer)


def test_features_in_scores_alone_out(tmp_path):
    classifier = Classifier(Network(None, mh.heads.TwoHeads(8, 4), reading="multi"), LABELS, link=mh.TwoWayLoss().link)
    classifier.export(tmp_path / "new" / "model.onnx", label_names=False, opset=20)
    session = onnxruntime.InferenceSession(tmp_path / "new" / "model.onnx")
    assert [each.name for each in session.get_outputs()] == ["scores"]
    features = torch.randn(5, 8)
    (scores,) = session.run(None, {"features": features.numpy()})
    torch.testing.assert_close(torch.from_numpy(scores), classifier.predict(features).scores)
    assert onnx.load(tmp_path / "new" / "model.onnx").opset_import[0].version == 20


def test_efficientnet_lite0(tmp_path):
    backbone = create_backbone(size=96)
    torch.manual_seed(0)
    classifier = Classifier(
        Network(backbone, mh.LinearHead(1280, 4)), LABELS, link=mh.SigmoidLink(), rule=mh.Threshold(0.5)
    )
    path = tmp_path / "model.onnx"
    classifier.export(path)
    weights = sum(parameter.numel() for parameter in classifier.network.parameters()) * 4
    assert path.stat().st_size < weights + 500_000
    session = onnxruntime.InferenceSession(path)
    image = pictures()[4]
    scores, probs, *_ = session.run(None, {"images": image[None]})
    table = classifier.predict(image)
    torch.testing.assert_close(torch.from_numpy(scores), table.scores, rtol=0, atol=0.01)
    torch.testing.assert_close(torch.from_numpy(probs), table.probs, rtol=0, atol=0.005)


def test_a_file_that_disagrees_is_not_written(tmp_path, monkeypatch):
    classifier = of_features(rule=mh.TopK(1))
    monkeypatch.setattr(onnx_check, "PROB_TOLERANCE", -1.0)
    with raises_input_error(
        "probs",
        "Classifier.export",
        rule="agree with the classifier to within -1",
        got="a difference of 3e-08",
        hint="Nothing was written.",
    ):
        classifier.export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_the_check_finds_what_is_wrong():
    classifier, features = of_features(rule=mh.TopK(1)), torch.randn(4, 8)
    table = classifier.predict(features)
    kinds = ("scores", "probs", "decisions", "abstain")
    right = {kind: getattr(table, kind).numpy() for kind in kinds}
    onnx_check.compare(classifier, features, right)
    wrong = {
        "scores": right["scores"] + 0.1,
        "probs": right["probs"] + 1e-3,
        "decisions": ~right["decisions"],
        "abstain": ~right["abstain"],
    }
    for kind, values in wrong.items():
        with raises_input_error(match=f"`{kind}` must agree with the classifier"):
            onnx_check.compare(classifier, features, right | {kind: values})
    with raises_input_error("scores", rule="agree"):
        onnx_check.compare(classifier, features, right | {"scores": right["scores"] * np.nan})


def test_a_rule_that_reads_values_is_named(tmp_path):
    class Moody(mh.Rule):
        def __init__(self):
            super().__init__(fitted=True)

        def decide(self, values):
            return values > (0.5 if float(values.sum()) > 1 else 0.1)

    with raises_input_error("rule", "Classifier.export", rule="be one that ONNX can express", got="Moody"):
        of_features(rule=Moody()).export(tmp_path / "model.onnx")


def test_bad_arguments_are_refused(tmp_path):
    with raises_input_error("opset", "Classifier.export", rule="be a whole number, at least 18", got="17"):
        of_features().export(tmp_path / "model.onnx", opset=17)
    with raises_input_error(rule="be a file"):
        of_features().export(tmp_path)


def test_a_file_that_does_not_run_is_not_written(tmp_path, monkeypatch):
    classifier = of_features()
    monkeypatch.setattr(onnx_check, "_random_samples", lambda _: [(np.zeros((2, 3), np.float32), torch.zeros(2, 3))])
    with raises_input_error(
        rule="be one that ONNX Runtime takes",
        got="[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions",
        hint="Nothing was written.",
    ):
        classifier.export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
