"""The base class of all losses: input checks, reductions, and the link."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from manyhot.checks import LossBatch, check_choice, prepare_batch
from manyhot.errors import InputError
from manyhot.links import Link, NoLink
from manyhot.serialization import ConstructorRepr


@dataclass(frozen=True)
class Term:
    """One mean of a loss.

    Attributes:
        values: What is added up, of any shape.
        count: What the sum is divided by; nothing is divided by zero.
    """

    values: Tensor
    count: Tensor | float

    def mean(self) -> Tensor:
        """Sum over count, and a zero attached to the graph when there is nothing to count."""
        return divide(self.values.sum() if self.values.ndim else self.values, self.count)


def divide(total: Tensor, count: Tensor | float) -> Tensor:
    """`total` / `count`, and `total` where the count is zero."""
    return total / (count + count.logical_not() if isinstance(count, Tensor) else count or 1)


class Loss(ConstructorRepr, nn.Module, ABC):
    """A sum of means over cells, rows or columns of a batch.

    Args:
        link: How the scores map to probabilities. Without one, the link raises an error when asked for probabilities,
            and the scores need a calibrator.
        reduction: One of the class's `reductions`.

    Attributes:
        adds_over_labels: Whether the loss is a sum over cells, so that it has one link.
        mixes_rows: Whether the value of a row depends on other rows, as in losses with batch statistics.
        reductions: The reductions that make sense for this loss.
        soft_targets: Whether targets between 0 and 1 are allowed.
        single_label: Whether a row may carry at most one label.
        heads: How many heads the scores come from.
        extra: The name of the tensor that the loss takes besides scores and targets, "rows" or "noise"; "" for none.
    """

    adds_over_labels: bool = False
    mixes_rows: bool = False
    reductions: ClassVar[Sequence[str]] = ("mean",)
    soft_targets: bool = False
    single_label: bool = False
    heads: int = 1
    extra: ClassVar[str] = ""
    link: Link

    def __init__(self, link: Link | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.link = NoLink(type(self).__name__) if link is None else link
        self.reduction = check_choice("reduction", type(self).__name__, reduction, self.reductions)

    if TYPE_CHECKING:  # torch's own `__call__` has no types

        def __call__(  # noqa: D102
            self, scores: Tensor, targets: Tensor, extra: Tensor | None = None, **named: Tensor
        ) -> Tensor: ...

    def forward(self, scores: Tensor, targets: Tensor, extra: Tensor | None = None) -> Tensor:
        """The loss of a batch.

        Args:
            scores: (N, K), any real numbers; (N, 2, K) for two heads.
            targets: (N, K): 1 present, 0 absent, -1 unknown. Unknown cells are left out of every term.
            extra: A further tensor with one entry per row, for the losses that take one under a name of its own.
        """
        return self.reduce(self.terms(self.check(scores, targets, extra)))

    @abstractmethod
    def terms(self, batch: LossBatch) -> list[Term]:
        """The means that the loss is the sum of."""

    def sample_noise(self, scores: Tensor) -> Tensor | None:
        """New noise for a batch, for a loss whose `extra` is "noise"."""
        return None

    def diagnostics(self) -> tuple[str, dict[str, Tensor]] | None:
        """The name of a table and its columns now, which training records at some hundred steps; by default none."""
        return None

    def check(self, scores: Tensor, targets: Tensor, extra: Tensor | None = None) -> LossBatch:
        """The batch in the form in which the terms are computed; raises an error if it is invalid."""
        name = type(self).__name__
        if extra is not None and not self.extra:
            raise InputError("arguments", name, "be at most 2", "3", "Leave the others out.")
        single, heads = self.single_label, self.heads
        batch = prepare_batch(name, scores, targets, soft=self.soft_targets, single=single, heads=heads)
        return batch if extra is None else replace(batch, extra=extra)

    def reduce(self, terms: Sequence[Term]) -> Tensor:
        """One number, or the values as they are for the reduction "none"."""
        if self.reduction == "none":
            return terms[0].values
        if self.reduction == "sum":
            return terms[0].values.sum()
        first, *others = (term.mean() for term in terms)
        return sum(others, start=first)


class RowLoss(Loss):
    """A mean over rows, whose values can also be had one by one.

    Args:
        reduction: "mean" over rows, "sum" or "none".
    """

    reductions = ("mean", "sum", "none")

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
