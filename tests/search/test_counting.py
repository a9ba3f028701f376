"""Intervals of counts against the distribution itself, built up sample by sample."""

import math

import numpy as np
import pytest

from manyhot.poisson_binomial import BINS, LARGE_VARIANCE, Bin, count_interval


def bins_of(probs):
    places = np.floor(np.asarray(probs) * BINS).astype(int)
    groups = {place: probs[places == place] for place in np.unique(places)}
    return [Bin(int(place), len(p), p.sum(), (p**2).sum(), (p**3).sum()) for place, p in groups.items()]


def exact(probs, level):
    shares = np.array([1.0])
    for prob in probs:
        shares = np.append(shares * (1 - prob), 0) + np.append(0, shares * prob)
    below = np.cumsum(shares)
    tail = (1 - level) / 2
    return tuple(int(np.searchsorted(below, share)) for share in (tail, 1 - tail))


POPULATIONS = {
    "few": lambda draw: draw.random(7),
    "coins": lambda draw: np.full(300, 0.5),
    "rare": lambda draw: draw.random(2000) ** 8 * 0.01,
    "hardly any": lambda draw: np.full(50, 1e-9),
    "certain": lambda draw: np.ones(40),
    "certain and rare": lambda draw: np.concatenate([np.ones(100), np.full(1500, 0.001)]),
    "mixed": lambda draw: 1 / (1 + np.exp(-3 * draw.standard_normal(1500) + 2)),
    "nearly certain": lambda draw: 1 - draw.random(900) * 1e-3,
}


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("name", POPULATIONS)
def test_the_interval_is_that_of_the_distribution(name, level):
    probs = POPULATIONS[name](np.random.default_rng(1))
    got, want = count_interval(bins_of(probs), level), exact(probs, level)
    # The samples of a bin count with their mean, which can move a limit that lies at the edge by one.
    assert np.abs(np.subtract(got, want)).max() <= (0 if name != "few" else 1)


def test_no_samples_have_no_matches():
    assert count_interval([], 0.95) == (0, 0)


def test_large_collections_join_on_to_small_ones_without_a_jump():
    draw = np.random.default_rng(2)
    probs = draw.random(62_000) * 0.98
    small, large = (bins_of(probs[:count]) for count in (58_500, 62_000))
    assert sum(group.first - group.second for group in small) < LARGE_VARIANCE
    assert sum(group.first - group.second for group in large) > LARGE_VARIANCE
    for bins in (small, large):
        mean = sum(group.first for group in bins)
        spread = 1.959964 * math.sqrt(sum(group.first - group.second for group in bins))
        low, high = count_interval(bins, 0.95)
        assert abs(low - (mean - spread)) < 2
        assert abs(high - (mean + spread)) < 2


def test_the_share_of_true_counts_within_is_the_level():
    draw = np.random.default_rng(3)
    probs = draw.random((400, 60)) ** 3
    counts = (draw.random(probs.shape) < probs).sum(1)
    inside = [
        low <= count <= high
        for row, count in zip(probs, counts, strict=True)
        for low, high in [count_interval(bins_of(row), 0.9)]
    ]
    assert 0.87 < np.mean(inside) < 0.97
