"""Sets of a given average size: against the rule that gives them."""

import math

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot import metrics
from tests.errors.expected import raises_input_error
from tests.metrics import naive


@pytest.mark.parametrize("k", [0, 0.5, 1, 2.3, 4, 9])
@pytest.mark.parametrize("levels", [None, 5])
def test_against_the_rule(k, levels):
    scores, targets = naive.table(40, 5, seed=0, levels=levels)
    given = mh.AverageK(k).fit(scores)(scores).labels.numpy()
    outcome = metrics.AverageKAccuracy(k).update(scores[:9], targets[:9]).update(scores[9:], targets[9:]).compute()
    assert outcome["accuracy"] == (given & (targets > 0)).sum() / (targets > 0).sum()
    assert outcome["mean_size"] == given.sum() / 40
    assert outcome["threshold"] == float(mh.AverageK(k).fit(scores).threshold)
    assert outcome.details["sizes"].tolist() == np.bincount(given.sum(1), minlength=6).tolist()
    if levels is None and k < 5:
        assert outcome["mean_size"] == math.floor(k * 40 + 1e-6) / 40


def test_with_a_threshold_fitted_elsewhere():
    (val, _), (scores, targets) = naive.table(50, 5, seed=1), naive.table(40, 5, seed=2)
    rule = mh.AverageK(2).fit(val)
    given = rule(scores).labels.numpy()
    outcome = metrics.AverageKAccuracy(2, threshold=rule.threshold).update(scores, targets).compute()
    assert outcome["accuracy"] == (given & (targets > 0)).sum() / (targets > 0).sum()
    assert outcome["mean_size"] == given.sum() / 40


def test_unknown_cells_do_not_move_the_threshold():
    scores, targets = naive.table(40, 5, seed=3, unknown=0.3)
    outcome = metrics.AverageKAccuracy(1.5).update(scores, targets).compute()
    known = np.sort(scores[targets >= 0])[::-1]
    rows = (targets >= 0).any(1).sum()
    count = math.floor(1.5 * rows + 1e-6)
    assert outcome["threshold"] == pytest.approx((known[count - 1] + known[count]) / 2)
    assert outcome["mean_size"] == count / rows


def test_rows_with_one_label_each():
    """The share of rows whose label is in the set, as the paper counts."""
    draw = np.random.default_rng(4)
    scores, labels = draw.normal(size=(60, 7)), draw.integers(7, size=60)
    outcome = metrics.AverageKAccuracy(2).update(scores, mh.one_hot(torch.tensor(labels), 7)).compute()
    assert outcome["accuracy"] == (scores[np.arange(60), labels] >= outcome["threshold"]).mean()


def test_with_a_threshold_only_sums_are_kept():
    metric = metrics.AverageKAccuracy(2, threshold=0.5).update(np.zeros((100, 4)), np.zeros((100, 4)))
    assert sum(value.numel() for value in metric.state.values()) == 8


def test_rows_without_labels_count_in_the_size():
    outcome = (
        metrics.AverageKAccuracy(1).update(np.array([[0.9, 0.8], [0.1, 0.2]]), np.array([[0, 0], [1, 0]])).compute()
    )
    assert outcome["accuracy"] == 0.0
    assert outcome["mean_size"] == 1.0
    assert outcome.counts == {"rows": 2, "present labels": 1, "rows without labels": 1}


@pytest.mark.parametrize("threshold", [math.nan, "0.5x", torch.zeros(2)])
def test_bad_thresholds_are_refused(threshold):
    with raises_input_error("threshold", "AverageKAccuracy", rule="be one number", hint="Pass `rule.thr"):
        metrics.AverageKAccuracy(2, threshold=threshold)
