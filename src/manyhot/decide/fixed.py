"""Rules without anything to learn: one threshold, thresholds from costs, and the largest of each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from manyhot.checks import check_count
from manyhot.decide.cuts import reached, row_blocks
from manyhot.decide.rule import Rule
from manyhot.refusal import refusal


class Threshold(Rule):
    """Gives each label whose value is at least the threshold: the plain start, and 0.5 is right for right-or-wrong.

    With calibrated probabilities, 0.5 makes the fewest wrong cells. A value equal to the threshold is accepted; only
    rules of open-set decisions (`UniformThreshold`, `ClassThresholds`, `NoneOfThese`) ask for strictly more.

    Args:
        threshold: One number for all labels; infinite ones give everything or nothing.

    Example:
        >>> Threshold(0.5)(torch.tensor([[0.9, 0.5, 0.1]])).labels
        tensor([[ True,  True, False]])
    """

    def __init__(self, threshold: float = 0.5) -> None:
        super().__init__(fitted=True)
        self.threshold = _threshold(threshold)

    def decide(self, values: Tensor) -> Tensor:
        """Labels with a value of at least the threshold."""
        return reached(values, torch.tensor(self.threshold, dtype=torch.float64))


def _threshold(value: object) -> float:
    if not isinstance(value, bool) and isinstance(value, Real) and not math.isnan(value):
        return float(value)
    raise refusal("threshold", "Threshold", "be a number", repr(value), "Pass for example 0.5.")


class CostThresholds(Rule):
    """Gives a label where leaving it out would cost more on average: for errors of known and unequal cost.

    A label of probability p is given if (1 - p) false_positive <= p false_negative, that is if p is at least
    false_positive / (false_positive + false_negative). This makes the expected cost as small as it can be, as far as
    the probabilities are right. Only the ratio of the two costs counts.

    Args:
        false_positive: What a wrongly given label costs; one number, or (K,) for each label.
        false_negative: What a missed label costs; one number, or (K,) for each label.

    Attributes:
        thresholds: (K,), or one number without dimensions for all labels.

    Example:
        >>> rule = CostThresholds(false_negative=4)   # to miss is four times as bad: from 20 % on
        >>> rule(torch.tensor([[0.25, 0.1]])).labels
        tensor([[ True, False]])
    """

    thresholds: Tensor
    needs_probs = True

    def __init__(
        self, false_positive: float | Sequence[float] = 1.0, false_negative: float | Sequence[float] = 1.0
    ) -> None:
        super().__init__(fitted=True)
        self.false_positive = _costs("false_positive", false_positive)
        self.false_negative = _costs("false_negative", false_negative)
        given = torch.tensor(self.false_positive, dtype=torch.float64)
        missed = torch.tensor(self.false_negative, dtype=torch.float64)
        if given.ndim and missed.ndim and given.shape != missed.shape:
            rule = f"have one cost a label like `false_positive` ({len(given)})"
            remedy = "Pass one number, or as many as there are labels."
            raise refusal("false_negative", "CostThresholds", rule, str(len(missed)), remedy)
        if not bool((given + missed > 0).all()):
            rule = "be above 0 where `false_positive` is 0"
            raise refusal("false_negative", "CostThresholds", rule, "0", "Pass what an error costs.")
        self.register_buffer("thresholds", given / (given + missed))

    def decide(self, values: Tensor) -> Tensor:
        """Labels with a probability of at least the threshold of their costs."""
        if self.thresholds.ndim and values.shape[1] != len(self.thresholds):
            rule, remedy = f"have the {len(self.thresholds)} labels that costs are given for", "Pass one cost a label."
            raise refusal("values", "CostThresholds", rule, str(values.shape[1]), remedy)
        return values >= self.thresholds.to(values)


def _costs(argument: str, value: Any) -> float | tuple[float, ...]:
    try:
        costs = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        costs = torch.tensor(torch.nan)
    if costs.ndim <= 1 and bool((costs.isfinite() & (costs >= 0)).all()):
        return tuple(costs.tolist()) if costs.ndim else float(costs)
    remedy = "Pass what one such error costs."
    raise refusal(argument, "CostThresholds", "be one number or (K,), finite and not negative", repr(value), remedy)


class TopK(Rule):
    """Gives each row its k largest labels, ties to the lower index: for lists of fixed length.

    Args:
        k: How many labels a row; rows with fewer labels than that get all.

    Example:
        >>> TopK(2)(torch.tensor([[0.9, 0.5, 0.5]])).labels
        tensor([[ True,  True, False]])
    """

    def __init__(self, k: int) -> None:
        super().__init__(fitted=True)
        self.k = check_count("k", "TopK", k, low=0)

    def decide(self, values: Tensor) -> Tensor:
        """The k largest labels of each row."""
        if self.k >= values.shape[1]:
            return torch.ones_like(values, dtype=torch.bool)
        labels = torch.zeros_like(values, dtype=torch.bool)
        if self.k:
            for rows in row_blocks(values.shape):
                labels[rows] = _largest(values[rows], self.k)
        return labels


def _largest(values: Tensor, k: int) -> Tensor:
    """The k largest of each row; `topk` alone would leave it open which of equal values it takes."""
    least = values.topk(k, dim=1).values[:, -1:]
    above, equal = values > least, values == least
    wanted = k - above.sum(1, keepdim=True)
    return above | (equal & (equal.cumsum(1, dtype=torch.int32) <= wanted))
