"""The branches of the binary losses: what a present and an absent label cost at a score, and how steeply."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from manyhot.links.additive import Asymmetry
from manyhot.losses.additive import Branches, Curve
from manyhot.numerics import power, softplus, softplus_branch, surprise_by_share
from manyhot.slopes import spare


class CrossEntropyCurve(Curve):
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
        gap = softplus(torch.neg(gap, out=spare(gap)))
        linear = scores.clamp(min=0)
        linear = torch.addcmul(linear, scores, targets, value=-1, out=spare(linear))
        slopes = torch.sigmoid(scores)
        return torch.add(gap, linear, out=spare(gap)), torch.sub(slopes, targets, out=spare(slopes))


class FocalCurve(Curve):
    """Cross-entropy times the probability of the wrong answer, to a power for each branch."""

    def __init__(self, gamma_neg: float, gamma_pos: float) -> None:
        self.gamma_neg, self.gamma_pos = gamma_neg, gamma_pos

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        p, q = torch.sigmoid(scores), torch.sigmoid(-scores)
        present, present_slope = focal_branch(p, q, softplus(-scores), self.gamma_pos)
        absent, absent_slope = self.absent_branch(scores, p, q)
        return Branches(present, absent, torch.neg(present_slope, out=spare(present_slope)), absent_slope)

    def absent_branch(self, scores: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """Loss of an absent label and its steepness."""
        return focal_branch(q, p, softplus(scores), self.gamma_neg)


def focal_branch(right: Tensor, wrong: Tensor, surprise: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """wrong^gamma * surprise and its steepness, with surprise = -log(right)."""
    if gamma == 0:
        return surprise, wrong.clone()
    focus = power(wrong, gamma)
    steepness = torch.addcmul(wrong, right, surprise, value=gamma)
    steepness = torch.mul(steepness, focus, out=spare(steepness))
    return torch.mul(surprise, focus, out=spare(surprise)), steepness


class ShiftedFocalCurve(FocalCurve):
    """The focal curve whose absent branch sees r = max(p - margin, 0) instead of p."""

    def __init__(self, gamma_neg: float, gamma_pos: float, margin: float) -> None:
        super().__init__(gamma_neg, gamma_pos)
        self.margin = margin

    def absent_branch(self, scores: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """r^gamma * surprise and its steepness, with surprise = -log(1 - r)."""
        r = p - self.margin
        r = torch.clamp(r, min=0, out=spare(r))
        # 1 - r, which would cancel where p is 1 to the last digit and the margin is small; never 0
        rest = q + max(self.margin, torch.finfo(q.dtype).tiny)
        ratio = surprise_by_share(rest)
        # The slope is p r^g (g q surprise / r + q / (1 - r)).
        steepness = torch.div(q, rest, out=spare(rest))
        steepness = torch.addcmul(steepness, ratio, q, value=self.gamma_neg, out=spare(steepness))
        focus = power(r, self.gamma_neg)
        steepness = torch.mul(steepness, focus, out=spare(steepness))
        steepness = torch.mul(steepness, p, out=spare(steepness))
        if self.gamma_neg == 0:  # 0^0 = 1 would leave a slope below the margin, where the loss is flat
            steepness = steepness * (p > self.margin)
        surprise = torch.mul(ratio, r, out=spare(ratio))
        return torch.mul(surprise, focus, out=spare(surprise)), steepness


class StrictlyProperAsymmetricCurve(Curve):
    """Two softplus branches of different scale, steepness and place."""

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
        bend = torch.addcmul(bend, k, scores, out=spare(bend))
        values = softplus(bend)
        slopes = torch.sigmoid(bend, out=spare(bend))
        slopes = torch.mul(slopes, k, out=spare(slopes))
        return torch.mul(values, c, out=spare(values)), torch.mul(slopes, c, out=spare(slopes))


def either(present: Tensor, absent: Tensor, if_present: Tensor | float, if_absent: float) -> Tensor:
    """One number where a label is present, another where it is absent; exact, since one of the summands is zero."""
    result = absent * if_absent
    if isinstance(if_present, Tensor):
        return torch.addcmul(result, present, if_present, out=spare(result))
    return torch.add(result, present, alpha=if_present, out=spare(result))
