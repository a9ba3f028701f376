"""Intervals over seeds against scipy."""

import pytest
from scipy import stats

from experiments.tables import MeanInterval, over_seeds, paired
from tests.errors.expected import raises_input_error


def test_interval_over_seeds():
    values = [0.617, 0.621, 0.609]
    low, high = stats.t.interval(0.95, 2, loc=sum(values) / 3, scale=stats.sem(values))
    result = over_seeds(values)
    assert (result.mean - result.half, result.mean + result.half) == pytest.approx((low, high))
    assert result.n == 3


def test_one_seed_has_no_interval():
    assert over_seeds([0.5]) == MeanInterval(0.5, None, 1)
    assert not over_seeds([0.5]).is_significant


def test_what_is_not_defined_has_no_mean():
    assert over_seeds([0.5, None, 0.6]) is None
    assert paired([0.5, None], [0.4, 0.3]) is None


def test_pairs_cancel_what_seeds_share():
    a, b = [0.61, 0.65, 0.57], [0.60, 0.641, 0.561]
    result = paired(a, b)
    test = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (result.mean - result.half, result.mean + result.half) == pytest.approx((test.low, test.high))
    assert result.is_significant
    assert over_seeds(a).half > result.mean


def test_refusals():
    with raises_input_error("values", "over_seeds", rule="hold a value for each seed", got="none"):
        over_seeds([])
    with raises_input_error("b", "paired", rule="have the 2 seeds of `a`"):
        paired([1, 2], [1, 2, 3])
