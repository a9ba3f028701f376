"""Metrics that are sums over rows: what each row adds can be had, and so be drawn again cheaply."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.metrics.metric import Metric, State


class RowSums(Metric):
    """A metric that collects sums to which each row adds its own part."""

    @abstractmethod
    def rows(self, values: Any, targets: Any) -> dict[str, Tensor] | None:
        """What each row adds to the state, each (N, ...); None where a setting needs more than such sums."""

    def update(self, values: Any, targets: Any) -> Self:
        """Collects a batch of values and targets, both (N, K); returns itself."""
        parts = self.rows(values, targets)
        assert parts is not None, "a metric whose rows cannot be told apart collects in another way"
        return self.collect(**{name: part.sum(0) for name, part in parts.items()})


def zeros(names: Iterable[str], dtype: torch.dtype) -> State:
    """Sums of these names before the first batch, of a shape that it will tell."""
    return {name: torch.zeros((), dtype=dtype) for name in names}


def by_label(total: Tensor) -> Tensor:
    """A sum by label, (K,); of no labels as long as no batch has told their number."""
    return total if total.ndim else total.new_zeros(0)


def divide(part: float, whole: float) -> float:
    """`part / whole`, NaN where there is nothing."""
    return part / whole if whole else math.nan
