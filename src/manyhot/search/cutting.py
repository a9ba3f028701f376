"""Where a ranked list ends that is to be as precise, or as complete, as somebody wants."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from manyhot.poisson_binomial import Bin
from manyhot.refusal import refusal

# Sums of the same numbers in another order differ by rounding; a wish for all of them must still end.
ROUNDING = 1e-12


def check_k(k: object, owner: str) -> int | None:
    """How many to give at the most, or None for no limit."""
    if k is None:
        return None
    number = 0 if isinstance(k, bool) or not isinstance(k, Integral) else int(k)
    if not 1 <= number < 10**18:
        raise refusal(
            "k",
            owner,
            "be a whole number from 1 on, of 18 digits at the most",
            repr(k),
            "Pass how many samples you want.",
        )
    return number


def check_share(argument: str, owner: str, share: object) -> float | None:
    """A share above 0 and up to 1, or None."""
    if share is None:
        return None
    number = 0.0 if isinstance(share, bool) or not isinstance(share, Real) else float(share)
    if not 0 < number <= 1:
        raise refusal(argument, owner, "lie above 0 and not above 1", repr(share), "Pass a share such as 0.9.")
    return number


def check_level(argument: str, owner: str, level: object) -> float:
    """A probability above 0 and below 1."""
    number = 0.0 if isinstance(level, bool) or not isinstance(level, Real) else float(level)
    if not 0 < number < 1:
        raise refusal(argument, owner, "lie above 0 and below 1", repr(level), "Pass 0.95, for example.")
    return number


def bin_of_cut(bins: Sequence[Bin], *, precision: float | None, recall: float | None) -> int:
    """The bin within which the list ends; all better ones belong to it as a whole."""
    total = sum(group.first for group in bins)
    count, seen = 0, 0.0
    for group in sorted(bins, reverse=True):
        count, seen = count + group.rows, seen + group.first
        if precision is not None and seen < precision * count * (1 + ROUNDING):
            return group.place
        if recall is not None and seen >= recall * total * (1 - ROUNDING):
            return group.place
    return 0


def length_of_cut(probs: Any, total: float, *, precision: float | None, recall: float | None) -> int:
    """How many of the probabilities, which fall, belong to the list.

    Args:
        probs: The most probable first, at least as many as belong to it.
        total: The sum over all samples there are.
        precision: The list goes on as long as the mean of its probabilities is this or more.
        recall: It ends as soon as it holds this share of `total`.
    """
    sums = np.cumsum(np.asarray(probs, dtype=np.float64))
    length = len(sums)
    if precision is not None:
        below = np.flatnonzero(sums < precision * np.arange(1, len(sums) + 1) * (1 - ROUNDING))
        length = int(below[0]) if len(below) else length
    if recall is not None and total <= 0:
        return 0
    if recall is not None:
        enough = np.flatnonzero(sums >= recall * total * (1 - ROUNDING))
        length = min(length, int(enough[0]) + 1) if len(enough) else length
    return length
