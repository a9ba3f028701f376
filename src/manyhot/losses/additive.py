"""Losses that add over labels: one curve for a present label, one for an absent label, and their slopes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from manyhot.checks import Batch
from manyhot.links.link import Link
from manyhot.losses.loss import Loss, Term


class Branches(NamedTuple):
    """What one score costs if its label is present and if it is absent, and the derivatives of both."""

    present: Tensor
    absent: Tensor
    present_slope: Tensor
    absent_slope: Tensor


class Curve(ABC):
    """The two branches of an additive loss, with slopes in closed form.

    The slopes are written out because they share their exponentials with the values, which makes forward and backward
    together about as fast as a forward pass alone, and because they stay finite where automatic differentiation
    multiplies zero by infinity.
    """

    @abstractmethod
    def branches(self, scores: Tensor) -> Branches:
        """Values and slopes of both branches, each shaped like `scores`."""

    def cells(self, scores: Tensor, targets: Tensor, pos_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """Loss and slope of every cell; a soft target mixes the branches."""
        present, absent, present_slope, absent_slope = self.branches(scores)
        if pos_weight is not None:
            present, present_slope = present * pos_weight, present_slope * pos_weight
        return torch.lerp(absent, present, targets), torch.lerp(absent_slope, present_slope, targets)


class _Cells(torch.autograd.Function):
    @staticmethod
    def forward(scores: Tensor, targets: Tensor, pos_weight: Tensor | None, curve: Curve) -> tuple[Tensor, Tensor]:
        return curve.cells(scores, targets, pos_weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        scores, targets, pos_weight, ctx.curve = inputs
        _, slopes = output
        ctx.mark_non_differentiable(slopes)
        ctx.save_for_backward(scores, targets, pos_weight, slopes)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        scores, targets, pos_weight, slopes = ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives are wanted: the slopes themselves must be part of the graph
            slopes = ctx.curve.cells(scores, targets, pos_weight)[1]
        return grad * slopes, None, None, None


def cell_losses(curve: Curve, scores: Tensor, targets: Tensor, pos_weight: Tensor | None = None) -> Tensor:
    """Loss of every cell.

    Args:
        curve: The two branches.
        scores: (N, K).
        targets: (N, K) in [0, 1].
        pos_weight: (K,) or (), multiplies the branch of present labels.
    """
    if torch.is_grad_enabled() and scores.requires_grad and not targets.requires_grad:
        cells: Tensor = _Cells.apply(scores, targets, pos_weight, curve)[0]  # type: ignore[no-untyped-call]
        return cells
    return curve.cells(scores, targets, pos_weight)[0]


class AdditiveLoss(Loss):
    """A loss that adds over labels: a curve, and the link that follows from it.

    Write your own by giving both; `manyhot.testing.check_loss` proves that they belong together, and
    `manyhot.ratio_link` finds the link of a curve for which none is written down.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1} or [0, 1]; returns (), or (N, K) for reduction "none".
    Link: p = l0' / (l0' - l1') with the slopes of the two branches.
    No-label rows: K absent labels, as in any other row.

    Args:
        curve: The loss of present and absent labels.
        link: What the scores mean; its `pos_weight` also weights the loss of present labels.
        reduction: "mean" over known cells, "batchmean" (sum over labels, mean over rows), "sum" or "none".
    """

    adds_over_labels: ClassVar[bool] = True
    reductions = ("mean", "batchmean", "sum", "none")
    soft_targets: ClassVar[bool] = True
    link: Link

    def __init__(self, curve: Curve, link: Link, reduction: str = "mean") -> None:
        super().__init__(link, reduction)
        self.curve = curve

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The mean over known cells, or the sum over cells by the number of rows for "batchmean"."""
        weight = None if self.link.pos_weight is None else self.link.log_pos_weight(batch.scores).exp()
        cells = batch.mask(cell_losses(self.curve, batch.scores, batch.targets, weight))
        if self.reduction == "batchmean":
            return [Term(cells, batch.rows().sum())]
        return [Term(cells, cells.numel() if batch.known is None else batch.known.sum())]
