"""Links, calibrators and rules survive their way through a file, and a file cannot do harm."""

import json

import pytest
import torch

import manyhot as mh
from manyhot.files import atomic_write
from manyhot.serialization import from_dict, to_dict
from tests.errors.expected import raises_input_error

LINKS = {
    "sigmoid": mh.SigmoidLink(),
    "sigmoid-weights": mh.SigmoidLink(pos_weight=[1.0, 3.0, 0.1]),
    "asymmetric": mh.links.AsymmetricLink(4, 0, 0.05),
    "spa": mh.links.StrictlyProperAsymmetricLink(),
    "spa-own": mh.StrictlyProperAsymmetricLoss(k_pos=2, b_pos=-0.5, pos_weight=2.0).link,
    "quasibinary": mh.links.QuasibinaryLink().fit([(torch.randn(5, 3), torch.eye(5, 3))]),
    "softmax": mh.links.SoftmaxLink(),
}


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_links_come_back_exactly(link, tmp_path):
    scores = torch.linspace(-9, 9, 30, dtype=torch.float64).reshape(10, 3)
    mh.save(link, tmp_path / "link.json")
    back = mh.load(tmp_path / "link.json")
    assert type(back) is type(link)
    assert torch.equal(back.log_odds(scores), link.log_odds(scores))


def test_a_link_without_probabilities_comes_back(tmp_path):
    mh.save(mh.TwoWayLoss().link, tmp_path / "link.json")
    with raises_input_error("link", "TwoWayLoss"):
        mh.load(tmp_path / "link.json").probs(torch.zeros(1, 1))


def test_a_derived_link_cannot_be_saved(tmp_path):
    link = mh.ratio_link(lambda scores, targets: (torch.sigmoid(scores) - targets) ** 2)
    with raises_input_error(
        rule="keep its constructor's arguments as attributes to be saved", got="RatioLink without 'loss'"
    ):
        mh.save(link, tmp_path / "link.json")
    assert not list(tmp_path.iterdir())


def test_infinite_and_missing_numbers_are_valid_json(tmp_path):
    rule = mh.LabelThresholds(precision=0.99).fit(
        torch.tensor([[0.9, 0.2], [0.8, 0.1]]), torch.tensor([[0, 1], [0, 0]])
    )
    mh.save(rule, tmp_path / "rule.json")
    json.loads((tmp_path / "rule.json").read_text(), parse_constant=pytest.fail)
    back = mh.load(tmp_path / "rule.json")
    for name, buffer in rule.named_buffers():
        torch.testing.assert_close(dict(back.named_buffers())[name], buffer, equal_nan=True, rtol=0, atol=0)


def test_a_file_can_name_nothing_but_links_calibrators_and_rules():
    for kind in ("os.system", "LinearHead", "evaluate", "", None):
        with raises_input_error(rule="be a link, a calibrator or a rule of manyhot"):
            from_dict({"kind": kind, "arguments": {}, "buffers": {}})


def test_own_classes_are_registered(tmp_path, monkeypatch):
    class Half(mh.Threshold):
        pass

    mh.save(Half(0.25), tmp_path / "rule.json")
    with raises_input_error(got="'Half'", hint="Update manyhot, or register your own class with"):
        mh.load(tmp_path / "rule.json")
    monkeypatch.setattr("manyhot.registry._registered", {})
    assert mh.registry.register(Half) is Half
    assert isinstance(mh.load(tmp_path / "rule.json"), Half)


def test_what_is_no_file_of_ours_is_refused(tmp_path):
    (tmp_path / "text.json").write_text("no json")
    (tmp_path / "other.json").write_text('{"format": 99}')
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with raises_input_error("path", "load", rule="be a JSON file", hint="Pass a file"):
        mh.load(tmp_path / "text.json")
    with raises_input_error(rule="be a JSON file"):
        mh.load(tmp_path / "bytes.json")
    with raises_input_error(rule="hold format 1 to 4 of manyhot"):
        mh.load(tmp_path / "other.json")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), atomic_write(path) as part:
        part.write_text("half of the new \ud800", encoding="utf-8")
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["file.txt"]
    with atomic_write(path) as part:
        part.write_text("new")
    assert path.read_text() == "new"


def test_state_dict_gives_a_fresh_module_its_shape():
    fitted = mh.SigmoidLink(pos_weight=[1.0, 2.0, 3.0])
    fresh = mh.SigmoidLink(pos_weight=1.0)
    fresh.load_state_dict(fitted.state_dict())
    assert torch.equal(fresh.pos_weight, fitted.pos_weight)


def test_describe_holds_plain_values():
    assert to_dict(mh.links.AsymmetricLink(4, 0, 0.05))["arguments"] == {
        "gamma_neg": 4.0,
        "gamma_pos": 0.0,
        "margin": 0.05,
        "pos_weight": None,
    }


@pytest.mark.parametrize(
    "broken",
    [
        {"arguments": None},
        {"arguments": {"threshold": 0.3, "other": 1}},
        {"arguments": {"threshold": {"number": "many"}}},
        {"buffers": {"forward": {"tensor": "bool", "shape": [], "values": [True]}}},
        {"buffers": {"fitted": {"tensor": "bool", "shape": [2], "values": [True]}}},
        {"buffers": {"fitted": {"tensor": "nn", "shape": [], "values": [True]}}},
        {"buffers": {"fitted": 1}},
    ],
    ids=str,
)
def test_a_broken_file_is_refused(broken, tmp_path):
    content = {"format": 1, **to_dict(mh.Threshold(0.3)), **broken}
    (tmp_path / "rule.json").write_text(json.dumps(content))
    with raises_input_error("path", "load", rule="hold all that `save` wrote"):
        mh.load(tmp_path / "rule.json")


def test_only_what_learns_can_be_saved(tmp_path):
    with raises_input_error("module", "save", rule="be a link, a calibrator or a rule", got="FScores"):
        mh.save(mh.metrics.FScores(), tmp_path / "metric.json")


def test_a_loss_is_saved_by_its_link(tmp_path):
    with raises_input_error(got="BinaryCrossEntropyLoss", hint="Save its `link`; a loss itself goes into a chec"):
        mh.save(mh.BinaryCrossEntropyLoss(), tmp_path / "loss.json")


@pytest.mark.parametrize(
    "module",
    [*LINKS.values(), mh.Threshold(0.3), mh.TopK(2), mh.AverageK(1.5), mh.LabelThresholds()],
    ids=lambda module: type(module).__name__,
)
def test_buffers_are_exactly_those_of_the_class(module):
    content = to_dict(module)
    for name in content["buffers"]:
        fewer = {key: value for key, value in content["buffers"].items() if key != name}
        with pytest.raises(ValueError, match=f"{type(module).__name__} without its buffer '{name}'"):
            from_dict({**content, "buffers": fewer})
    more = {**content["buffers"], "more": {"tensor": "bool", "shape": [], "values": [True]}}
    with pytest.raises(ValueError, match=f"{type(module).__name__} with an unknown buffer 'more'"):
        from_dict({**content, "buffers": more})


def test_a_table_whose_calibrator_lost_a_buffer_is_refused(tmp_path, monkeypatch):
    scores = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    calibrator = mh.PlattScaling().fit(scores, (scores > 0).int())
    described = to_dict(calibrator)
    described["buffers"].pop("slopes")
    monkeypatch.setattr("manyhot.predictions.parquet.to_dict", lambda module: described)
    mh.Predictions(scores=scores, calibrator=calibrator).save(tmp_path / "table.parquet")
    with raises_input_error(
        rule="hold a calibrator as `save` wrote it", got="ValueError: PlattScaling without its buffer 'slopes'"
    ):
        mh.Predictions.open(tmp_path / "table.parquet")


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("slopes", {"shape": [1, 2], "values": [1.0, 1.0]}, r"whose buffer '\w+' is torch.float64 of shape"),
        ("slopes", {"shape": [3, 1]}, r"whose buffer 'slopes' is torch.float64 of shape \(3, 1\)"),
        ("slopes", {"shape": [3]}, r"whose buffer 'slopes' is torch.float64 of shape \(3,\)"),
        ("intercept", {"tensor": "float32"}, r"whose buffer 'intercept' is torch.float32 of shape \(3,\)"),
        ("bounds", {"shape": [1, 2]}, r"whose buffer 'bounds' is torch.float64 of shape \(1, 2\)"),
        ("fitted", {"shape": [1]}, r"whose buffer 'fitted' is torch.bool of shape \(1,\)"),
    ],
)
def test_a_buffer_of_another_shape_or_type_is_refused(name, change, words, tmp_path):
    scores = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    content = to_dict(mh.PlattScaling().fit(scores, (scores > 0).int()))
    content["buffers"][name] |= change
    (tmp_path / "calibrator.json").write_text(json.dumps(content))
    with raises_input_error("path", "load", rule="hold all that `save` wrote", match=f"PlattScaling {words}"):
        mh.load(tmp_path / "calibrator.json")


@pytest.mark.parametrize("number", [2, -2])
def test_a_calibrator_of_an_unknown_kind_of_input_is_refused(number, tmp_path):
    scores = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    content = to_dict(mh.PlattScaling().fit(scores, (scores > 0).int()))
    content["buffers"]["kind_number"]["values"] = [number]
    (tmp_path / "calibrator.json").write_text(json.dumps(content))
    with raises_input_error("kind_number", "PlattScaling", rule="be 0 for scores", got=str(number)):
        mh.load(tmp_path / "calibrator.json")
