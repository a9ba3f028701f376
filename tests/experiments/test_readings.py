"""Scores of every kind of loss read as probabilities."""

import pytest
import torch

import manyhot as mh
from experiments.metrics import comparable, own_reading, readings
from tests.experiments.outputs import many, single

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
    output = many(loss)
    result = readings(output)
    assert set(result) == names | FITTED
    assert own_reading(loss) == own
    for reading in result.values():
        for split in ("val", "test"):
            probs = reading.probs(split)
            assert probs.shape == output.scores[split].shape
            assert bool(((probs >= 0) & (probs <= 1)).all())


@pytest.mark.parametrize("loss", [mh.losses.SoftmaxCrossEntropyLoss(), mh.losses.NoisedTopKLoss(2)])
def test_losses_that_ignore_constants_are_read_by_softmax(loss):
    output = single(loss)
    assert set(readings(output)) == {"softmax"} | FITTED
    expected = torch.softmax(output.scores["test"], 1)
    torch.testing.assert_close(readings(output)["softmax"].probs(), expected)


def test_adding_a_constant_to_a_row_changes_no_reading_of_a_softmax_loss():
    output, moved = single(mh.losses.SoftmaxCrossEntropyLoss()), single(mh.losses.SoftmaxCrossEntropyLoss())
    for scores in moved.scores.values():
        scores += 5 * torch.randn(len(scores), 1, generator=torch.Generator().manual_seed(3))
    for name, reading in readings(output).items():
        torch.testing.assert_close(readings(moved)[name].probs(), reading.probs(), rtol=1e-3, atol=1e-5)


def test_links_give_their_own_probabilities():
    output = many(mh.QuasibinaryLoss())
    result = readings(output)
    test = output.scores["test"]
    torch.testing.assert_close(result["own link"].probs(), output.loss.link.probs(test))
    torch.testing.assert_close(result["moving average"].probs(), output.moving_link.probs(test))
    assert float(result["moving average"].probs().sum()) < float(result["own link"].probs().sum())


def test_only_what_is_wanted_is_fitted():
    assert set(readings(many(mh.AsymmetricLoss()), among=("own link", "softmax"))) == {"own link"}


def test_temperature_of_a_softmax_over_several_labels_minimises_its_loss():
    output = many(mh.losses.MultiLabelSoftmaxLoss())
    scores, targets = comparable(output)["val"], output.targets["val"]
    best = float(readings(output)["temperature"].means.temperature)
    values = {factor: float(output.loss(scores / (best * factor), targets)) for factor in (0.98, 1.0, 1.02)}
    assert min(values, key=values.__getitem__) == 1.0


def test_temperature_and_calibration_mend_scores_that_are_too_sure():
    output = many(mh.BinaryCrossEntropyLoss())
    result = readings(output)
    assert float(result["temperature"].means.temperature) == pytest.approx(1.5, rel=0.15)
    losses = {
        name: mh.metrics.LogLoss().update(reading.probs(), output.targets["test"]).compute().value
        for name, reading in result.items()
    }
    assert losses["temperature"] < losses["sigmoid"]
    assert losses["calibrated"] < losses["sigmoid"]


def test_half_precision_is_read_in_single():
    output = many(mh.BinaryCrossEntropyLoss())
    for split in output.scores:
        output.scores[split] = output.scores[split].bfloat16()
    assert {reading.probs().dtype for reading in readings(output).values()} == {torch.float32}
