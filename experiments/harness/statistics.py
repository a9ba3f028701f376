"""Means over seeds with 95 % intervals, and differences between arms seed by seed."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from manyhot.refusal import refusal

# What 97.5 % of Student's t stay below, for 1 to 10 degrees of freedom; beyond, an expansion is as exact.
QUANTILES = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139)
NORMAL_QUANTILE = 1.959963985


@dataclass(frozen=True)
class Interval:
    """A mean, and how far it may be off.

    Attributes:
        mean: Of the values.
        half: Half the width of the 95 % interval; None for a single value, which tells nothing about it.
        n: How many values there were.
    """

    mean: float
    half: float | None
    n: int

    @property
    def is_significant(self) -> bool:
        """Whether 0 lies outside."""
        return self.half is not None and abs(self.mean) > self.half


def over_seeds(values: Sequence[float | None]) -> Interval | None:
    """The mean over seeds with its 95 % interval by Student's t; None if a value is not defined.

    Args:
        values: One for each seed.
    """
    if not values:
        raise refusal("values", "over_seeds", "hold a value for each seed", "none", "Pass at least one.")
    if any(value is None for value in values):
        return None
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return Interval(mean, student_quantile(count - 1) * math.sqrt(variance / count), count)


def paired(a: Sequence[float | None], b: Sequence[float | None]) -> Interval | None:
    """The mean of `a` less `b`, seed by seed: what the seeds share cancels out; None if a value is not defined.

    Args:
        a: One value for each seed.
        b: Values of the same seeds in the same order.
    """
    if len(a) != len(b):
        raise refusal("b", "paired", f"have the {len(a)} seeds of `a`", str(len(b)), "Run both with the same seeds.")
    both = zip(a, b, strict=True)
    return over_seeds([None if one is None or other is None else one - other for one, other in both])


def student_quantile(degrees: int) -> float:
    """What 97.5 % of Student's t with so many degrees of freedom stay below."""
    if degrees <= len(QUANTILES):
        return QUANTILES[degrees - 1]
    z = NORMAL_QUANTILE
    # Cornish and Fisher, in powers of 1 / degrees.
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / degrees**power for power, term in enumerate(terms))


@dataclass(frozen=True)
class Spread:
    """How much a figure varies from seed to seed, as all arms of a table tell it together.

    Two or three seeds of one arm tell next to nothing about it; those of twenty arms do, if it is about the same for
    all of them.

    Attributes:
        deviation: Standard deviation over seeds; None where no arm has two.
        degrees: Degrees of freedom: seeds beyond the first, over all arms.
    """

    deviation: float | None
    degrees: int

    @classmethod
    def of(cls, arms: Iterable[Sequence[float | None]]) -> "Spread":
        """From the values of each arm, one for each seed; those that are not defined are left out."""
        squares, degrees = 0.0, 0
        for values in arms:
            known = [value for value in values if value is not None]
            if len(known) > 1:
                mean = math.fsum(known) / len(known)
                squares += math.fsum((value - mean) ** 2 for value in known)
                degrees += len(known) - 1
        return cls(math.sqrt(squares / degrees) if degrees else None, degrees)

    def mean(self, values: Sequence[float | None]) -> Interval | None:
        """The mean of an arm with its 95 % interval; None where nothing is defined."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return Interval(math.fsum(known) / len(known), self._half(1 / len(known)), len(known))

    def gap(self, one: Sequence[float | None], other: Sequence[float | None]) -> Interval | None:
        """The mean of one arm less that of another, whose seeds may be others."""
        a, b = self.mean(one), self.mean(other)
        if a is None or b is None:
            return None
        return Interval(a.mean - b.mean, self._half(1 / a.n + 1 / b.n), min(a.n, b.n))

    def _half(self, share: float) -> float | None:
        if self.deviation is None:
            return None
        return student_quantile(self.degrees) * self.deviation * math.sqrt(share)
