"""What a threshold is tuned for, and the cut-off that serves it best, exactly, of all that there are.

A cut-off worth a look lies right below a present value: lowering it to the next absent ones gives more labels and none
of them is right. So there are as many candidates as positives, which are few.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
PROBES = 16


class Curve(NamedTuple):
    """Cut-offs right below present values.

    Attributes:
        right: (C,), how many positives each cut-off gives, from the lowest cut-off to the highest.
        given: (C,), how many cells it gives.
        positives: How many positives there are.
    """

    right: Array
    given: Array
    positives: int


def number_from(ascending: Array, values: Array) -> Array:
    """How many of the ascending numbers are at least as large as each value."""
    return len(ascending) - np.searchsorted(ascending, values)


class Goal(ABC):
    """A goal of tuning, which knows the best of many cut-offs."""

    @abstractmethod
    def best(self, curve: Curve) -> int | None:
        """The place of the best cut-off in a curve of at least one; None if none reaches the goal."""

    @abstractmethod
    def floor(self, present: Array, count: Callable[[Array], Array]) -> Any:
        """A present value below which the best cut-off cannot lie, found without looking at all.

        Args:
            present: (P,) ascending, not empty.
            count: How many cells are at least as large as each of a few values.
        """


class FBeta(Goal):
    """The largest F-beta, (1 + beta^2) right / (beta^2 positives + given); of equal ones the highest cut-off."""

    def __init__(self, beta: float) -> None:
        self.weight = beta**2

    def score(self, curve: Curve) -> Array:
        """F-beta of every cut-off."""
        return (1 + self.weight) * curve.right / (self.weight * curve.positives + curve.given)

    def best(self, curve: Curve) -> int | None:
        """The highest of the cut-offs with the largest F-beta."""
        score = self.score(curve)
        return len(score) - 1 - int(score[::-1].argmax())

    def floor(self, present: Array, count: Callable[[Array], Array]) -> Any:
        """From where on even all positives could not make up for the number of cells given."""

        def most(curve: Curve) -> float:
            return float(curve.positives * ((1 + self.weight) / self.score(curve).max() - self.weight))

        return _probe(present, count, most)


class Precision(Goal):
    """The most positives among the cut-offs that give at least this share of right labels."""

    def __init__(self, share: float) -> None:
        self.share = share

    def best(self, curve: Curve) -> int | None:
        """The lowest cut-off that reaches the precision."""
        reached = np.flatnonzero(curve.right >= self.share * curve.given * (1 - 1e-12))
        return int(reached[0]) if len(reached) else None

    def floor(self, present: Array, count: Callable[[Array], Array]) -> Any:
        """From where on even all positives would be too small a share of the cells given."""
        return _probe(present, count, lambda curve: curve.positives / self.share)


class Recall(Goal):
    """The largest share of right labels among the cut-offs that give at least this share of the positives."""

    def __init__(self, share: float) -> None:
        self.share = share

    def best(self, curve: Curve) -> int | None:
        """The highest of the cut-offs with the largest precision, of those that reach the recall."""
        precision = self.precision(curve)
        return len(precision) - 1 - int(precision[::-1].argmax())

    def floor(self, present: Array, count: Callable[[Array], Array]) -> Any:
        """From where on even all positives would be a smaller share of the cells given."""
        return _probe(present, count, lambda curve: float(curve.positives / self.precision(curve).max()))

    def precision(self, curve: Curve) -> Array:
        """The precision of every cut-off, 0 of those that miss the recall; the lowest of all never does."""
        wanted = self.share * curve.positives * (1 - 1e-12)
        return np.where(curve.right >= wanted, curve.right / curve.given, 0.0)


def _probe(present: Array, count: Callable[[Array], Array], most: Callable[[Curve], float]) -> Any:
    """The highest of some present values from which on more cells are given than the best cut-off may give.

    Args:
        present: (P,) ascending.
        count: How many cells are at least as large as each of a few values.
        most: How many cells the best cut-off gives at the most, as far as a few cut-offs can tell.
    """
    low, high = 0, len(present) - 1
    for _ in range(2):
        places = np.unique(np.linspace(low, high, PROBES).astype(np.int64))
        values = present[places]
        curve = Curve(number_from(present, values), count(values), len(present))
        enough = np.flatnonzero(curve.given >= most(curve))
        if len(enough) == 0:
            break
        low, high = places[enough[-1]], places[min(enough[-1] + 1, len(places) - 1)]
    return present[low]
