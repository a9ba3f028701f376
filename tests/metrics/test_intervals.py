"""Intervals of drawing rows again: the same by every way, and right as often as they say."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from manyhot.decide.rule import Decision
from manyhot.metrics import BrierScore, CalibrationError, FScores, LogLoss, MeanAveragePrecision, SetAccuracy, bootstrap
from manyhot.metrics.bootstrapping import draw_rows, interval_of
from tests.metrics.test_calibration import calibrated, with_unknown


def sets(rows=60):
    probs, targets = calibrated(rows, 3)
    decision = Decision(probs >= 0.4, torch.arange(rows) % 7 == 0)
    return decision, with_unknown(targets)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (BrierScore, "probs"),
        (LogLoss, "probs"),
        (CalibrationError, "probs"),
        (lambda: CalibrationError(average="macro"), "probs"),
        (lambda: CalibrationError(4, mass="equal"), "probs"),
        (lambda: CalibrationError(top_k=2), "probs"),
        (FScores, "decisions"),
        (SetAccuracy, "decisions"),
        (MeanAveragePrecision, "probs"),
    ],
)
def test_every_way_of_drawing_is_that_of_taking_the_rows(make, kind):
    decision, targets = sets()
    probs, _ = calibrated(60, 3)
    given = decision if kind == "decisions" else probs
    intervals = bootstrap(make, given, targets, replicates=40, level=0.8, seed=3)
    drawn = []
    for rows in draw_rows(60, 40, 3):
        taken = Decision(decision.labels[rows], decision.abstain[rows]) if kind == "decisions" else probs[rows]
        drawn.append(make().update(taken, targets[rows]).compute().values)
    whole = make().update(given, targets).compute().values
    assert intervals.keys() == whole.keys()
    for name, interval in intervals.items():
        values = [one[name] for one in drawn]
        low, high = np.quantile(values, [0.1, 0.9]) + whole[name] - np.mean(values)
        low, high = max(low, 0), min(high, 1) if max(values) <= 1 else high
        assert (interval.value, interval.low, interval.high) == pytest.approx((whole[name], low, high), rel=1e-12)
        assert interval.undefined == 0


@pytest.mark.slow
def test_an_interval_holds_the_truth_as_often_as_it_says():
    """Uniform and true probabilities have a Brier score of 1/6, and answered at one half they are right in 3/4."""
    brier = right = 0
    for trial in range(150):
        draw = torch.Generator().manual_seed(trial)
        probs = torch.rand(120, 2, generator=draw)
        targets = (torch.rand(120, 2, generator=draw) < probs).to(torch.int8)
        interval = bootstrap(BrierScore, probs, targets, replicates=200, level=0.9, seed=trial)["brier"]
        brier += interval.low <= 1 / 6 <= interval.high
        interval = bootstrap(SetAccuracy, probs >= 0.5, targets, replicates=200, level=0.9, seed=trial)["hamming_loss"]
        right += interval.low <= 1 / 4 <= interval.high
    assert 0.84 <= brier / 150 <= 0.95
    assert 0.84 <= right / 150 <= 0.95


def test_the_width_is_that_of_a_mean():
    probs = torch.full((2000, 1), 0.5)
    targets = torch.arange(2000).unsqueeze(1) % 2
    probs[:1000] = 0.75  # squares of 1/16, 9/16 and 1/4
    interval = bootstrap(BrierScore, probs, targets, replicates=2000)["brier"]
    squares = (probs - targets).square()
    error = 1.96 * float(squares.std()) / math.sqrt(2000)
    assert interval.high - interval.value == pytest.approx(error, rel=0.1)
    assert interval.value - interval.low == pytest.approx(error, rel=0.1)


def test_the_same_seed_gives_the_same_interval():
    probs, targets = calibrated(50, 2)
    first, again, other = (bootstrap(BrierScore, probs, targets, replicates=50, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_draws_without_a_value_are_left_out_and_counted():
    """A label that one of 50 rows carries is missing from about one draw in e."""
    decisions, targets = torch.ones(50, 1, dtype=torch.bool), torch.zeros(50, 1)
    targets[7] = 1
    interval = bootstrap(FScores, decisions, targets, replicates=600)["macro_f_supported"]
    assert interval.undefined / 600 == pytest.approx((1 - 1 / 50) ** 50, abs=0.06)
    assert 0 < interval.low <= interval.value <= interval.high


def test_nothing_to_draw_from():
    interval = bootstrap(BrierScore, torch.zeros(0, 3), torch.zeros(0, 3), replicates=5)["brier"]
    assert math.isnan(interval.value)
    assert math.isnan(interval.low)
    assert interval.undefined == 5
    one = bootstrap(BrierScore, np.array([[0.5]]), np.array([[1]]), replicates=5)["brier"]
    assert one.value == one.low == one.high == 0.25


def test_an_interval_holds_its_value_even_if_drawing_pushes_it_up():
    """Each label has few cells a bin, so that the noise of drawing adds to the error of every draw."""
    probs, targets = calibrated(150, 8)
    interval = bootstrap(lambda: CalibrationError(average="macro"), probs, targets, replicates=100)["ece"]
    drawn = [
        CalibrationError(average="macro").update(probs[rows], targets[rows]).compute().value
        for rows in draw_rows(150, 100, 0)
    ]
    assert np.quantile(drawn, 0.025) > interval.value
    assert interval.low < interval.value < interval.high
    assert interval.high - interval.low == pytest.approx(np.diff(np.quantile(drawn, [0.025, 0.975])).item())


def test_shares_stay_shares():
    high = interval_of(0.98, [0.9, 0.91, 0.92, 1.0], 0.9)
    assert (high.low, high.high) == pytest.approx((np.quantile([0.9, 0.91, 0.92, 1.0], 0.05) + 0.0475, 1.0))
    low = interval_of(0.01, [0.02, 0.06, 0.07, 0.08], 0.9)
    assert low.low == 0
    assert interval_of(9.0, [8.0, 12.0], 0.9).high > 10.0


def test_many_draws_at_a_time_are_as_one(monkeypatch):
    probs, targets = calibrated(50, 2)
    whole = bootstrap(LogLoss, probs, targets, replicates=30)
    monkeypatch.setattr("manyhot.metrics.bootstrapping._DRAWS_AT_ONCE", 70)
    monkeypatch.setattr("manyhot.sorting.CELLS_AT_ONCE", 30)
    parts = bootstrap(LogLoss, probs, targets, replicates=30)
    for name, interval in whole.items():
        assert (parts[name].low, parts[name].high) == pytest.approx((interval.low, interval.high), rel=1e-12)


def test_refusals():
    probs, targets = calibrated(5, 2)
    with pytest.raises(ValueError, match="`level` of `bootstrap` must be a number above 0 and below 1; got 95"):
        bootstrap(BrierScore, probs, targets, level=95)
    with pytest.raises(ValueError, match="`replicates` of `bootstrap` must be a whole number, at least 1; got 0"):
        bootstrap(BrierScore, probs, targets, replicates=0)
    with pytest.raises(ValueError, match="`targets` of `BrierScore` must be"):
        bootstrap(BrierScore, probs, targets[:3])


def test_arrays_backwards_and_data_frames():
    probs, targets = (table.numpy() for table in calibrated(50, 3))
    want = bootstrap(BrierScore, probs[::-1].copy(), targets[::-1].copy(), replicates=5)
    assert bootstrap(BrierScore, probs[::-1], targets[::-1], replicates=5) == want
    frames = pd.DataFrame(probs[::-1]), pd.DataFrame(targets[::-1])
    assert bootstrap(BrierScore, *frames, replicates=5) == want


def test_rows_with_parts_larger_than_themselves_come_few_at_a_time(monkeypatch):
    sizes = []

    class Watched(CalibrationError):
        def rows(self, values, targets):
            sizes.append(len(values))
            return super().rows(values, targets)

    monkeypatch.setattr("manyhot.sorting.CELLS_AT_ONCE", 2560)
    probs, targets = calibrated(95, 1)
    got = bootstrap(lambda: Watched(100), probs, targets, replicates=5)
    assert max(sizes) == 10
    assert got == bootstrap(lambda: CalibrationError(100), probs, targets, replicates=5)
