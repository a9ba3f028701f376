"""Distribution of the number of matches among independent samples, each with its own probability.

The number has a Poisson-binomial distribution. A few sums over the samples determine it closely enough, so the samples
themselves never leave the database.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

# Probabilities are counted in bins of this width, from 0 to 1; those of 1 have a bin of their own.
BINS = 512
# Above this variance the distribution is normal but for its skewness, which the interval takes into account.
LARGE_VARIANCE = 10_000.0
# So many standard deviations around the mean are looked at; what lies beyond has a probability below 1e-30.
WINDOW_STDS = 12.0
# What is smaller than the exponential of minus this is lost beside 1.
NEGLIGIBLE_EXPONENT = 60.0

Array = np.ndarray[Any, Any]


class Bin(NamedTuple):
    """The samples whose probabilities lie in one bin.

    Attributes:
        position: Which bin, from 0 for the least probable.
        rows: How many samples.
        first: The sum of their probabilities; `second` and `third` those of the squares and of the cubes.
    """

    position: int
    rows: int
    first: float
    second: float
    third: float


def count_interval(bins: Sequence[Bin] | Array, level: float) -> tuple[int, int]:
    """The shortest numbers, cut off evenly on both sides, between which the count lies with probability `level`.

    Example:
        >>> from manyhot.poisson_binomial import Bin, count_interval
        >>> count_interval([Bin(256, 100, 50.0, 25.0, 12.5)], 0.95)  # a hundred tosses of a coin
        (40, 60)
    """
    columns = np.array(bins, np.float64).reshape(-1, 5).T
    _, rows, first, second, third = columns
    mean, variance = float(first.sum()), max(0.0, float((first - second).sum()))
    tail = max((1 - level) / 2, 1e-15)
    if variance > LARGE_VARIANCE:
        skewness = float((first - 3 * second + 2 * third).sum())
        low, high = (_skewed_normal(mean, variance, skewness, share) for share in (tail, 1 - tail))
        return max(0, math.ceil(low - 0.5)), min(int(rows.sum()), math.floor(high + 0.5))
    start, shares = _distribution(columns, mean, variance)
    below = np.cumsum(shares)
    low, high = (start + int(np.searchsorted(below, share)) for share in (tail, 1 - tail))
    return max(0, low), min(int(rows.sum()), high)


def _skewed_normal(mean: float, variance: float, skewness: float, share: float) -> float:
    """The quantile of a distribution of these cumulants, by the first terms of Cornish and Fisher."""
    normal = NormalDist().inv_cdf(share)
    return mean + math.sqrt(variance) * normal + skewness / (6 * variance) * (normal**2 - 1)


def _distribution(columns: Array, mean: float, variance: float) -> tuple[int, Array]:
    """The number at which a window around the mean starts, and the probability of each count in it, from bins (5, B).

    By the discrete Fourier transform of the characteristic function, the product over samples of 1 - p + p exp(i t).
    """
    reach = math.ceil(WINDOW_STDS * math.sqrt(variance)) + 16
    start = math.floor(mean) - reach
    size = 2 * reach + 2
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    # The function is at most exp(-variance (1 - cos t)); where that is nothing, it is left at 0.
    angles = angles[variance * (1 - np.cos(angles)) < NEGLIGIBLE_EXPONENT]
    step = np.expm1(1j * angles)
    # The logarithm of 1 + p step for tiny p, summed over the samples of the lowest bin.
    lowest = columns[0] == 0
    _, _, first, second, third = columns[:, lowest].sum(1)
    logs = first * step - second * step**2 / 2 + third * step**3 / 3
    _, rows, sums, _, _ = columns[:, ~lowest]
    means = (sums / rows)[:, None]
    # Real and imaginary part of log(1 + p step), apart because minus infinity times a complex number is none.
    with np.errstate(divide="ignore"):
        sizes = np.log1p(2 * means * (1 - means) * step.real) / 2
    turns = np.arctan2(means * step.imag, 1 + means * step.real)
    logs = logs + (rows @ sizes + 1j * (rows @ turns))
    shares = np.fft.irfft(np.conj(np.exp(logs - 1j * angles * start)), size)
    return start, np.clip(shares, 0, None)
