"""Rows with a label against rows without: against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from manyhot import metrics
from tests.metrics import naive


def table(seed, levels):
    scores, targets = naive.table(150, 4, seed=seed, levels=levels, rate=0.15)
    return scores, targets, scores.max(1), targets.max(1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("levels", [None, 10])
def test_against_scikit_learn(seed, levels):
    scores, targets, largest, inside = table(seed, levels)
    outcome = metrics.OpenSetScores().update(scores, targets).compute()
    assert outcome["auroc"] == pytest.approx(roc_auc_score(inside, largest))
    assert outcome["aupr_in"] == pytest.approx(average_precision_score(inside, largest))
    assert outcome["aupr_out"] == pytest.approx(average_precision_score(1 - inside, -largest))
    false, true, _ = roc_curve(inside, largest, drop_intermediate=False)
    assert outcome["fpr95"] == pytest.approx(false[np.argmax(true >= 0.95)])
    assert outcome["mmc"] == pytest.approx(largest[inside == 0].mean())
    assert outcome.counts == {"IN rows": inside.sum(), "OUT rows": (inside == 0).sum()}


def test_the_95_per_cent_of_twenty_are_nineteen():
    """0.95 * 20 is 19.000000000000004 or 18.999999999999996 in floating point."""
    inside = np.arange(1, 21)[:, None].astype(float)
    outside = np.array([[1.5], [0.5]])
    outcome = metrics.OpenSetScores().update(inside, np.ones((20, 1))).update(outside, np.zeros((2, 1))).compute()
    assert outcome["fpr95"] == 0.0
    again = metrics.OpenSetScores().update(inside, np.ones((20, 1))).update(outside + 0.5, np.zeros((2, 1))).compute()
    assert again["fpr95"] == 0.5


def test_one_side_empty():
    scores = np.array([[0.2, 0.4], [0.9, 0.1]])
    only_out = metrics.OpenSetScores().update(scores, np.zeros((2, 2))).compute()
    assert only_out["mmc"] == pytest.approx(0.65)
    only_in = metrics.OpenSetScores().update(scores, np.eye(2)).compute()
    assert math.isnan(only_in["mmc"])
    for outcome in (only_out, only_in):
        assert all(math.isnan(outcome[name]) for name in ("auroc", "aupr_in", "aupr_out", "fpr95"))


def test_kind_and_maximum_are_those_of_known_cells():
    scores = np.array([[0.9, 0.3, 0.2], [0.8, 0.1, 0.6], [0.5, 0.5, 0.5]])
    targets = np.array([[-1, 0, 0], [-1, 0, 1], [-1, -1, -1]])
    outcome = metrics.OpenSetScores().update(scores, targets).compute()
    assert outcome["mmc"] == pytest.approx(0.3)
    assert outcome.counts == {"IN rows": 1, "OUT rows": 1}
