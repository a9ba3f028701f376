"""Scores of every kind of loss read as probabilities."""

import pytest
import torch

import manyhot as mh
from experiments.metrics import comparable, own_reading, readings
from tests.experiments.outcomes import many, single

FITTED = {"temperature", "calibrated"}


@pytest.mark.parametrize(
    ("loss", "names", "own"),
    [
        (mh.BinaryCrossEntropyLoss(), {"sigmoid"}, "sigmoid"),
        (mh.BinaryCrossEntropyLoss(pos_weight=3.0), {"sigmoid", "own link"}, "own link"),
        (mh.AsymmetricLoss(), {"sigmoid", "own link"}, "own link"),
        (mh.LabelPairRegulariser(mh.StrictlyProperAsymmetricLoss(), 0.1), {"sigmoid", "own link"}, "own link"),
        (mh.LabelPairRegulariser(mh.AsymmetricLoss(), 0.1, link=mh.SigmoidLink()), {"sigmoid"}, "sigmoid"),
        (mh.QuasibinaryLoss(), {"sigmoid", "own link", "moving average"}, "own link"),
        (mh.TwoWayLoss(), {"sigmoid"}, "sigmoid"),
        (mh.losses.MultiLabelSoftmaxLoss(), {"softmax"}, "softmax"),
    ],
)
def test_each_loss_has_the_readings_that_make_sense(loss, names, own):
    outcome = many(loss)
    found = readings(outcome)
    assert set(found) == names | FITTED
    assert own_reading(loss) == own
    for reading in found.values():
        for split in ("val", "test"):
            probs = reading.probs(split)
            assert probs.shape == outcome.scores[split].shape
            assert bool(((probs >= 0) & (probs <= 1)).all())


@pytest.mark.parametrize("loss", [mh.losses.SoftmaxCrossEntropyLoss(), mh.losses.NoisedTopKLoss(2)])
def test_losses_that_ignore_constants_are_read_by_softmax(loss):
    outcome = single(loss)
    assert set(readings(outcome)) == {"softmax"} | FITTED
    expected = torch.softmax(outcome.scores["test"], 1)
    torch.testing.assert_close(readings(outcome)["softmax"].probs(), expected)


def test_adding_a_constant_to_a_row_changes_no_reading_of_a_softmax_loss():
    outcome, moved = single(mh.losses.SoftmaxCrossEntropyLoss()), single(mh.losses.SoftmaxCrossEntropyLoss())
    for scores in moved.scores.values():
        scores += 5 * torch.randn(len(scores), 1, generator=torch.Generator().manual_seed(3))
    for name, reading in readings(outcome).items():
        torch.testing.assert_close(readings(moved)[name].probs(), reading.probs(), rtol=1e-3, atol=1e-5)


def test_links_give_their_own_probabilities():
    outcome = many(mh.QuasibinaryLoss())
    found = readings(outcome)
    test = outcome.scores["test"]
    torch.testing.assert_close(found["own link"].probs(), outcome.loss.link.probs(test))
    torch.testing.assert_close(found["moving average"].probs(), outcome.moving_link.probs(test))
    assert float(found["moving average"].probs().sum()) < float(found["own link"].probs().sum())


def test_only_what_is_wanted_is_fitted():
    assert set(readings(many(mh.AsymmetricLoss()), among=("own link", "softmax"))) == {"own link"}


def test_temperature_of_a_softmax_over_several_labels_minimises_its_loss():
    outcome = many(mh.losses.MultiLabelSoftmaxLoss())
    scores, targets = comparable(outcome)["val"], outcome.targets["val"]
    best = float(readings(outcome)["temperature"].means.temperature)
    values = {factor: float(outcome.loss(scores / (best * factor), targets)) for factor in (0.98, 1.0, 1.02)}
    assert min(values, key=values.__getitem__) == 1.0


def test_temperature_and_calibration_mend_scores_that_are_too_sure():
    outcome = many(mh.BinaryCrossEntropyLoss())
    found = readings(outcome)
    assert float(found["temperature"].means.temperature) == pytest.approx(1.5, rel=0.15)
    losses = {
        name: mh.metrics.LogLoss().update(reading.probs(), outcome.targets["test"]).compute().value
        for name, reading in found.items()
    }
    assert losses["temperature"] < losses["sigmoid"]
    assert losses["calibrated"] < losses["sigmoid"]


def test_half_precision_is_read_in_single():
    outcome = many(mh.BinaryCrossEntropyLoss())
    for split in outcome.scores:
        outcome.scores[split] = outcome.scores[split].bfloat16()
    assert {reading.probs().dtype for reading in readings(outcome).values()} == {torch.float32}
