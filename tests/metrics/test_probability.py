"""Brier score and log loss against naive loops, closed forms and scikit-learn."""

import math

import pytest
import sklearn.metrics
import torch

from manyhot.metrics import BrierScore, LogLoss
from tests.metrics.test_calibration import calibrated, with_unknown

BRIER, LOG = (lambda p, t: (p - t) ** 2), (lambda p, t: -math.log(p if t else 1 - p))


@pytest.mark.parametrize(("metric", "name", "loss"), [(BrierScore, "brier", BRIER), (LogLoss, "log_loss", LOG)])
def test_against_a_loop(metric, name, loss):
    probs, targets = calibrated(80, 5)
    targets = with_unknown(targets)
    targets[3], targets[:, 1] = -1, -1
    cells = [
        [loss(p, t) for p, t in zip(row, marks, strict=True) if t >= 0]
        for row, marks in zip(probs.tolist(), targets.tolist(), strict=True)
    ]
    rows = [row for row in cells if row]
    outcome = metric().update(probs, targets).compute()
    assert outcome[name] == pytest.approx(sum(map(sum, rows)) / sum(map(len, rows)), rel=1e-13)
    assert outcome[f"{name}_per_row"] == pytest.approx(sum(map(sum, rows)) / len(rows), rel=1e-13)
    wanted = {"cells": sum(map(len, rows)), "rows": len(rows), "labels": 4, "labels without cells": 1}
    assert wanted.items() <= outcome.counts.items()
    assert math.isnan(outcome.details["by_label"][1])
    known = targets[:, 2] >= 0
    column = [loss(p, t) for p, t in zip(probs[known, 2].tolist(), targets[known, 2].tolist(), strict=True)]
    assert outcome.details["by_label"][2].item() == pytest.approx(sum(column) / len(column), rel=1e-13)


def test_scikit_learn_agrees_label_by_label():
    probs, targets = calibrated(300, 3)
    brier = BrierScore().update(probs, targets).compute().details["by_label"]
    log_loss = LogLoss().update(probs, targets).compute().details["by_label"]
    for k in range(3):
        column, marks = probs[:, k].numpy(), targets[:, k].numpy()
        assert brier[k].item() == pytest.approx(sklearn.metrics.brier_score_loss(marks, column), rel=1e-12)
        assert log_loss[k].item() == pytest.approx(sklearn.metrics.log_loss(marks, column, labels=[0, 1]), rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_certain_and_wrong_costs_the_logarithm_of_the_precision(dtype):
    probs = torch.tensor([[0.0, 1.0, 1.0, 0.0]], dtype=dtype)
    outcome = LogLoss().update(probs, torch.tensor([[1, 0, 1, 0]])).compute()
    epsilon = torch.finfo(dtype).eps
    assert outcome["log_loss"] == pytest.approx(-math.log(epsilon) / 2, rel=1e-12)
    assert outcome.counts["cells certain and wrong"] == outcome.counts["cells raised to epsilon"] == 2


def test_what_is_right_is_never_moved():
    """Clipping both sides, as is usual, would charge a right certainty."""
    outcome = LogLoss(epsilon=0.01).update(torch.tensor([[1.0, 0.0, 0.995]]), torch.tensor([[1, 0, 0]])).compute()
    assert outcome["log_loss_per_row"] == pytest.approx(-math.log(0.01))
    assert outcome.counts["cells raised to epsilon"] == 1
    assert outcome.counts["cells certain and wrong"] == 0


def test_a_certain_mistake_never_costs_less_than_a_near_one():
    near = LogLoss().update(torch.tensor([[1e-30]]), torch.tensor([[1]])).compute()
    certain = LogLoss().update(torch.tensor([[0.0]]), torch.tensor([[1]])).compute()
    assert certain["log_loss"] >= near["log_loss"]


def test_the_true_probability_is_the_best_answer():
    _, targets = calibrated(4000, 1)
    share = float(targets.double().mean())
    for metric in (BrierScore, LogLoss):
        scores = [
            metric().update(torch.full((4000, 1), p), targets).compute().value for p in (share, share - 0.05, 0.5)
        ]
        assert scores[0] < min(scores[1:])


def test_epsilon_is_checked():
    with pytest.raises(ValueError, match=r"`epsilon` of `LogLoss` must be a number above 0 and at most 0\.5; got 0"):
        LogLoss(epsilon=0)


@pytest.mark.parametrize("metric", [BrierScore, LogLoss])
def test_scores_are_refused(metric):
    with pytest.raises(ValueError, match="Turn scores into probabilities with a link or a calibrator"):
        metric().update(torch.tensor([[3.0]]), torch.tensor([[1]]))
