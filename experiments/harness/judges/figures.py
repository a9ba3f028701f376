"""Figures as JSON holds them: plain numbers of a few digits, None for what is not defined."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

# More than any table shows, and a third of the bytes of a whole float.
DIGITS = 7


def number(value: Any) -> float | None:
    """A float of a few significant digits; None for NaN and infinity, which JSON has no word for."""
    value = float(value)
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def numbers(values: Tensor) -> list[float | None]:
    """The numbers of a vector."""
    return [number(value) for value in values.tolist()]


def named(values: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers by name."""
    return {name: number(value) for name, value in values.items()}


def labelled(targets: Tensor) -> Tensor:
    """(N,) bool, the rows that carry a label."""
    return (targets > 0).any(1)
