"""Losses that add over labels: one curve for a present label, one for an absent label, and their slopes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from manyhot.checks import Batch
from manyhot.links.link import Link
from manyhot.losses.loss import Loss, Term
from manyhot.slopes import elementwise, elementwise_sum, spare
from manyhot.spelling import spell


class Branches(NamedTuple):
    """What one score costs if its label is present and if it is absent, and the derivatives of both."""

    present: Tensor
    absent: Tensor
    present_slope: Tensor
    absent_slope: Tensor


class Curve(ABC):
    """The two branches of an additive loss, with their slopes in closed form."""

    quicker_if_hard: ClassVar[bool] = False

    def __repr__(self) -> str:
        """The curve and its numbers."""
        return f"{type(self).__name__}({', '.join(f'{name}={spell(value)}' for name, value in vars(self).items())})"

    @abstractmethod
    def branches(self, scores: Tensor) -> Branches:
        """Values and slopes of both branches, each in a tensor of its own that is shaped like `scores`."""

    def cells(
        self, scores: Tensor, targets: Tensor, pos_weight: Tensor | None = None, *, hard: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Loss and slope of every cell; a soft target mixes the branches.

        Args:
            scores: (N, K).
            targets: (N, K) in [0, 1].
            pos_weight: (K,) or (), multiplies the branch of present labels.
            hard: Whether all targets are 0 or 1; looked up for curves that are `quicker_if_hard`.
        """
        present, absent, present_slope, absent_slope = self.branches(scores)
        if pos_weight is not None:
            present, present_slope = present * pos_weight, present_slope * pos_weight
        values = torch.lerp(absent, present, targets, out=spare(absent))
        return values, torch.lerp(absent_slope, present_slope, targets, out=spare(absent_slope))


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

    def slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """How steeply the loss of an absent label rises with its score, and that of a present one falls."""
        _, _, present, absent = self.curve.branches(scores)
        weight = self.link.pos_weight_like(scores)
        return absent, -present if weight is None else -weight * present

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The mean over known cells, or the sum over cells by the number of rows for "batchmean"."""
        weight = self.link.pos_weight_like(batch.scores)
        hard = self.curve.quicker_if_hard and not batch.targets.requires_grad and batch.no_soft_targets()

        def cells(scores: Tensor, targets: Tensor, *known: Tensor) -> tuple[Tensor, Tensor]:
            values, slopes = self.curve.cells(scores, targets, weight, hard=hard)
            return (values * known[0], slopes * known[0]) if known else (values, slopes)

        constants = (batch.targets,) if batch.known is None else (batch.targets, batch.known)
        if batch.targets.requires_grad:  # learned soft targets: only the plain formula knows their gradient
            values = cells(batch.scores, *constants)[0]
        elif self.reduction == "none":
            values = elementwise(cells, batch.scores, *constants)
        else:
            values = elementwise_sum(cells, batch.scores, *constants)
        if self.reduction == "batchmean":
            return [Term(values, batch.rows().sum())]
        return [Term(values, batch.targets.numel() if batch.known is None else batch.known.sum())]
