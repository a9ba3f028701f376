"""What a calibrator was fitted on, scores or probabilities, is kept with it and checked where it is used."""

import json

import pytest
import torch

import manyhot as mh
from manyhot.classifier import Classifier
from manyhot.network import Network
from manyhot.serialization import from_dict, to_dict
from tests.errors.expected import raises_input_error

CALIBRATORS = {
    "temperature": mh.TemperatureScaling,
    "affine": mh.PlattScaling,
    "beta": mh.BetaCalibration,
    "isotonic": mh.IsotonicCalibration,
    "quasibinary": mh.calibrate.QuasibinaryConstant,
    "softmax": mh.calibrate.SoftmaxTemperature,
    "beta-asl": lambda: mh.BetaCalibration(link=mh.AsymmetricLoss().link),
    "beta-weighted": lambda: mh.BetaCalibration(link=mh.links.AsymmetricLink(4, 0, 0.2, pos_weight=[1e3, 1.0, 1e-3])),
}


def data(seed=0):
    draw = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(200, 3, generator=draw) - 1
    return scores, torch.eye(3, dtype=torch.int8)[torch.randint(3, (200,), generator=draw)]


def as_format_1(calibrator):
    """The description that was written before kinds and bounds were kept."""
    content = json.loads(json.dumps(to_dict(calibrator)))
    return {
        "kind": content["kind"],
        "arguments": content["arguments"],
        "buffers": {k: v for k, v in content["buffers"].items() if k not in ("bounds", "kind_number")},
    }


@pytest.mark.parametrize("kind", [mh.TemperatureScaling, mh.PlattScaling, mh.BetaCalibration, mh.IsotonicCalibration])
def test_probabilities_are_calibrated_as_the_log_odds_that_they_are(kind, tmp_path):
    scores, targets = data()
    scores, probs = scores.double(), torch.sigmoid(scores.double())
    calibrator = kind().fit(probs, targets, kind="probs")
    torch.testing.assert_close(calibrator(probs), kind().fit(scores, targets)(scores))
    mh.save(calibrator, tmp_path / "calibrator.json")
    loaded = mh.load(tmp_path / "calibrator.json")
    assert loaded.kind == "probs"
    assert torch.equal(loaded(probs), calibrator(probs))
    with raises_input_error("scores", rule="lie between 0 and 1 with `kind` 'probs'", got="-3"):
        loaded(scores)
    with raises_input_error("kind", rule="be 'probs', on which it was fitted", got="'scores'"):
        loaded(probs, kind="scores")


def test_a_softmax_is_calibrated_from_its_probabilities():
    scores, targets = data()
    calibrator = mh.calibrate.SoftmaxTemperature().fit(torch.softmax(scores.double(), 1), targets, kind="probs")
    want = mh.calibrate.SoftmaxTemperature().fit(scores.double(), targets)
    torch.testing.assert_close(calibrator(torch.softmax(scores.double(), 1)), want(scores.double()))


def test_what_a_value_or_a_link_proves_wrong_is_refused():
    scores, targets = data()
    with raises_input_error(
        rule="lie between 0 and 1 with `kind` 'probs'",
        got="-3.25168 at row 0, column 0",
        hint='Pass probabilities, or fit it on scores with `kind="scores"`.',
    ):
        mh.BetaCalibration().fit(scores, targets, kind="probs")
    with raises_input_error("kind", "BetaCalibration", rule="be 'scores' where there is a link", got="'probs'"):
        mh.BetaCalibration(link=mh.SigmoidLink()).fit(torch.sigmoid(scores), targets, kind="probs")
    with raises_input_error("kind", "BetaCalibration", rule="be one of 'scores', 'probs'", got="'logits'"):
        mh.BetaCalibration().fit(scores, targets, kind="logits")


def test_a_fit_that_fails_leaves_nothing_to_use():
    scores, targets = data()
    calibrator = mh.BetaCalibration().fit(scores, targets)
    with raises_input_error(rule="lie between 0 and 1"):
        calibrator.fit(scores, targets, kind="probs")
    with raises_input_error(rule="be fitted before use"):
        calibrator(scores)


def test_tables_and_classifiers_take_scores_only():
    scores, targets = data()
    names = [str(column) for column in range(scores.shape[1])]
    network = Network(None, mh.LinearHead(2, len(names)))
    calibrator = mh.BetaCalibration().fit(torch.sigmoid(scores), targets, kind="probs")
    with raises_input_error("kind", "BetaCalibration", rule="be 'probs', on which it was fitted", got="'scores'"):
        mh.Predictions(scores=scores, calibrator=calibrator).probabilities()
    with raises_input_error("kind", "BetaCalibration", rule="be 'probs'"):
        Classifier(network, names, link=mh.SigmoidLink(), calibrator=calibrator)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_files_that_do_not_say_give_the_same_numbers_as_before(name):
    scores, targets = data()
    calibrator = CALIBRATORS[name]().fit(scores, targets)
    old = from_dict(as_format_1(calibrator))
    assert old.kind is None
    assert torch.equal(old(scores), calibrator(scores))
    assert torch.equal(old(scores, kind="scores"), calibrator(scores))
    probs = torch.sigmoid(scores.double())
    if old.link is None:
        torch.testing.assert_close(old(probs, kind="probs"), calibrator(scores.double()))
    else:
        with raises_input_error(rule="be 'scores', on which it was fitted", got="'probs'"):
            old(probs, kind="probs")


def test_the_bounds_of_a_link_are_searched_in_fit_alone(monkeypatch):
    scores, targets = data()
    calibrator = mh.BetaCalibration(link=mh.AsymmetricLoss().link).fit(scores, targets)
    want, calls = calibrator(scores), []
    log_odds = mh.links.AsymmetricLink.unweighted_log_odds
    counted = lambda link, values: calls.append(values.shape) or log_odds(link, values)  # noqa: E731
    monkeypatch.setattr(mh.links.AsymmetricLink, "unweighted_log_odds", counted)
    assert torch.equal(calibrator(scores), want)
    assert calls == [scores.shape]


@pytest.mark.parametrize("name", CALIBRATORS)
def test_a_file_with_other_buffers_is_refused(name, tmp_path):
    scores, targets = data()
    content = to_dict(CALIBRATORS[name]().fit(scores, targets))
    broken = [
        {**content, "buffers": {key: value for key, value in content["buffers"].items() if key != left_out}}
        for left_out in content["buffers"]
    ]
    broken.append({**content, "buffers": {**content["buffers"], "more": content["buffers"]["fitted"]}})
    for each in broken:
        (tmp_path / "calibrator.json").write_text(json.dumps(each))
        with raises_input_error(rule="hold all that `save` wrote"):
            mh.load(tmp_path / "calibrator.json")


def test_links_are_taken_without_a_keyword():
    link = mh.AsymmetricLoss().link
    for kind in (mh.TemperatureScaling, mh.PlattScaling, mh.BetaCalibration, mh.IsotonicCalibration):
        assert kind(link).link is link
    with raises_input_error(
        "link", "BetaCalibration", rule="be a link or None", got="AsymmetricLoss", hint="Pass `loss.l"
    ):
        mh.BetaCalibration(mh.AsymmetricLoss())


def test_a_temperature_says_that_it_cannot_make_a_label_rare():
    """Where scores of a label are mostly above 0, no temperature gives it a small probability."""
    scores, targets = data()
    targets[:, 0] = 0
    probs = mh.TemperatureScaling().fit(scores.abs(), targets)(scores.abs())
    assert float(probs[:, 0].min()) >= 0.5
    assert "A label that is never present" in mh.TemperatureScaling.__doc__
    assert float(mh.PlattScaling().fit(scores.abs(), targets)(scores.abs())[:, 0].max()) < 0.1
