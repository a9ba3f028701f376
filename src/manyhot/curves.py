"""Curves of the losses that add over labels: the loss of a present and of an absent label, and their slopes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from manyhot.autograd import reusable
from manyhot.checks import check_number
from manyhot.numerics import power, softplus, softplus_branch, surprisal_ratio
from manyhot.serialization import stable_repr


class Asymmetry(NamedTuple):
    """The six numbers of the strictly proper asymmetric loss: scale, steepness and position of both branches."""

    zeta_pos: float = 1.0
    k_pos: float = 1.0
    b_pos: float = 0.0
    zeta_neg: float = 5.0
    k_neg: float = 3.0
    b_neg: float = 1.0

    def check(self, owner: str) -> Asymmetry:
        """Returns itself; raises an error for numbers with which the loss would not be strictly proper."""
        for name in ("zeta_pos", "k_pos", "zeta_neg", "k_neg"):
            check_number(name, owner, getattr(self, name), low=0, low_open=True)
        for name in ("b_pos", "b_neg"):
            check_number(name, owner, getattr(self, name))
        return Asymmetry(*(float(number) for number in self))

    @property
    def log_slope_ratio(self) -> float:
        """log of the largest slope of the absent branch over that of the present branch."""
        return math.log(self.k_neg / self.zeta_neg) - math.log(self.k_pos / self.zeta_pos)


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
        return (
            f"{type(self).__name__}({', '.join(f'{name}={stable_repr(value)}' for name, value in vars(self).items())})"
        )

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
        values = torch.lerp(absent, present, targets, out=reusable(absent))
        return values, torch.lerp(absent_slope, present_slope, targets, out=reusable(absent_slope))


class BinaryCrossEntropyCurve(Curve):
    """softplus(-score) for a present label, softplus(score) for an absent one."""

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        return Branches(softplus(-scores), softplus(scores), -torch.sigmoid(-scores), torch.sigmoid(scores))

    def cells(
        self, scores: Tensor, targets: Tensor, pos_weight: Tensor | None = None, *, hard: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Both branches with one softplus, since they differ by the score itself."""
        if pos_weight is not None:
            return super().cells(scores, targets, pos_weight)
        # softplus(-|s|) + max(s, 0) - y s, of which nothing cancels for targets of 0 and 1.
        gap = scores.abs()
        gap = softplus(torch.neg(gap, out=reusable(gap)))
        linear = scores.clamp(min=0)
        linear = torch.addcmul(linear, scores, targets, value=-1, out=reusable(linear))
        slopes = torch.sigmoid(scores)
        return torch.add(gap, linear, out=reusable(gap)), torch.sub(slopes, targets, out=reusable(slopes))


class FocalCurve(Curve):
    """Cross-entropy times the probability of the wrong answer, to a power for each branch."""

    def __init__(self, gamma_neg: float, gamma_pos: float) -> None:
        self.gamma_neg, self.gamma_pos = gamma_neg, gamma_pos

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        p, q = torch.sigmoid(scores), torch.sigmoid(-scores)
        present, present_slope = focal_branch(p, q, softplus(-scores), self.gamma_pos)
        absent, absent_slope = self.absent_branch(scores, p, q)
        return Branches(present, absent, torch.neg(present_slope, out=reusable(present_slope)), absent_slope)

    def absent_branch(self, scores: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """Loss of an absent label and its steepness."""
        return focal_branch(q, p, softplus(scores), self.gamma_neg)


def focal_branch(right: Tensor, wrong: Tensor, surprise: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """wrong^gamma * surprise and its steepness, with surprise = -log(right)."""
    if gamma == 0:
        return surprise, wrong.clone()
    focus = power(wrong, gamma)
    steepness = torch.addcmul(wrong, right, surprise, value=gamma)
    steepness = torch.mul(steepness, focus, out=reusable(steepness))
    return torch.mul(surprise, focus, out=reusable(surprise)), steepness


class ShiftedFocalCurve(FocalCurve):
    """The focal curve whose absent branch sees r = max(p - margin, 0) instead of p."""

    def __init__(self, gamma_neg: float, gamma_pos: float, margin: float) -> None:
        super().__init__(gamma_neg, gamma_pos)
        self.margin = margin

    def absent_branch(self, scores: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """r^gamma * surprise and its steepness, with surprise = -log(1 - r)."""
        r = p - self.margin
        r = torch.clamp(r, min=0, out=reusable(r))
        # 1 - r, which would cancel where p is 1 to the last digit and the margin is small; never 0
        rest = q + max(self.margin, torch.finfo(q.dtype).tiny)
        ratio = surprisal_ratio(rest)
        # The slope is p r^g (g q surprise / r + q / (1 - r)).
        steepness = torch.div(q, rest, out=reusable(rest))
        steepness = torch.addcmul(steepness, ratio, q, value=self.gamma_neg, out=reusable(steepness))
        focus = power(r, self.gamma_neg)
        steepness = torch.mul(steepness, focus, out=reusable(steepness))
        steepness = torch.mul(steepness, p, out=reusable(steepness))
        if self.gamma_neg == 0:  # 0^0 = 1 would leave a slope below the margin, where the loss is flat
            steepness = steepness * (p > self.margin)
        surprise = torch.mul(ratio, r, out=reusable(ratio))
        return torch.mul(surprise, focus, out=reusable(surprise)), steepness


class StrictlyProperAsymmetricCurve(Curve):
    """Two softplus branches of different scale, steepness and position."""

    quicker_if_hard: ClassVar[bool] = True

    def __init__(self, shape: Asymmetry) -> None:
        self.shape = shape

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        s = self.shape
        present, present_slope = softplus_branch(scores, -s.k_pos, s.b_pos, s.zeta_pos)
        absent, absent_slope = softplus_branch(scores, s.k_neg, s.b_neg, s.zeta_neg)
        return Branches(present, absent, present_slope, absent_slope)

    def cells(
        self, scores: Tensor, targets: Tensor, pos_weight: Tensor | None = None, *, hard: bool = False
    ) -> tuple[Tensor, Tensor]:
        """For hard targets c softplus(k s + d), with c, k and d those of the target's branch: one softplus, not two."""
        if not hard:
            return super().cells(scores, targets, pos_weight)
        s, absent = self.shape, 1 - targets
        present_scale = 1 / s.zeta_pos if pos_weight is None else pos_weight / s.zeta_pos
        c = either(targets, absent, present_scale, 1 / s.zeta_neg)
        k = either(targets, absent, -s.k_pos, s.k_neg)
        bend = either(targets, absent, s.k_pos * s.b_pos, -s.k_neg * s.b_neg)
        bend = torch.addcmul(bend, k, scores, out=reusable(bend))
        values = softplus(bend)
        slopes = torch.sigmoid(bend, out=reusable(bend))
        slopes = torch.mul(slopes, k, out=reusable(slopes))
        return torch.mul(values, c, out=reusable(values)), torch.mul(slopes, c, out=reusable(slopes))


def either(present: Tensor, absent: Tensor, if_present: Tensor | float, if_absent: float) -> Tensor:
    """One number where a label is present, another where it is absent; exact, since one of the summands is zero."""
    result = absent * if_absent
    if isinstance(if_present, Tensor):
        return torch.addcmul(result, present, if_present, out=reusable(result))
    return torch.add(result, present, alpha=if_present, out=reusable(result))
