"""The branches of the binary losses: what a present and an absent label cost at a score, and how steeply."""

from __future__ import annotations

import torch
from torch import Tensor

from manyhot.links.additive import Asymmetry
from manyhot.losses.additive import Branches, Curve
from manyhot.numerics import power, softplus


class CrossEntropyCurve(Curve):
    """softplus(-score) for a present label, softplus(score) for an absent one."""

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        return Branches(softplus(-scores), softplus(scores), -torch.sigmoid(-scores), torch.sigmoid(scores))

    def cells(self, scores: Tensor, targets: Tensor, pos_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """Both branches with one softplus: they differ by the score itself."""
        if pos_weight is not None:
            return super().cells(scores, targets, pos_weight)
        # softplus(-|s|) + max(s, 0) - y s cancels nothing for targets of 0 and 1.
        linear = torch.addcmul(scores.clamp(min=0), scores, targets, value=-1)
        return linear + softplus(-scores.abs()), torch.sigmoid(scores) - targets


class FocalCurve(Curve):
    """Cross-entropy times the probability of the wrong answer, to a power for each branch."""

    def __init__(self, gamma_neg: float, gamma_pos: float) -> None:
        self.gamma_neg, self.gamma_pos = gamma_neg, gamma_pos

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        p, q, gap = torch.sigmoid(scores), torch.sigmoid(-scores), softplus(-scores.abs())
        positive = scores.clamp(min=0)
        present, present_slope = focal_branch(p, q, gap + positive - scores, self.gamma_pos)
        absent, absent_slope = focal_branch(q, p, gap + positive, self.gamma_neg)
        return Branches(present, absent, -present_slope, absent_slope)


def focal_branch(right: Tensor, wrong: Tensor, surprise: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """wrong^gamma * surprise and its steepness, with surprise = -log(right)."""
    if gamma == 0:
        return surprise, wrong
    focus = power(wrong, gamma)
    return focus * surprise, focus * torch.addcmul(wrong, right, surprise, value=gamma)


class ShiftedFocalCurve(FocalCurve):
    """The focal curve whose absent branch sees r = max(p - margin, 0) instead of p."""

    def __init__(self, gamma_neg: float, gamma_pos: float, margin: float) -> None:
        super().__init__(gamma_neg, gamma_pos)
        self.margin = margin

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        p = torch.sigmoid(scores)
        q = torch.sigmoid(-scores)
        present, present_slope = focal_branch(p, q, softplus(-scores), self.gamma_pos)
        r = (p - self.margin).clamp(min=0)
        surprise, focus = -torch.log1p(-r), power(r, self.gamma_neg)
        steepness = self.gamma_neg * surprise / r.clamp(min=1e-30) + 1 / (1 - r)
        absent_slope = p * q * focus * steepness
        if self.gamma_neg == 0:  # 0^0 = 1 would leave a slope below the margin, where the loss is flat
            absent_slope = absent_slope * (p > self.margin)
        return Branches(present, focus * surprise, -present_slope, absent_slope)


class StrictlyProperAsymmetricCurve(Curve):
    """Two softplus branches of different scale, steepness and place."""

    def __init__(self, shape: Asymmetry) -> None:
        self.shape = shape

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        s = self.shape
        present, absent = -s.k_pos * (scores - s.b_pos), s.k_neg * (scores - s.b_neg)
        return Branches(
            softplus(present) / s.zeta_pos,
            softplus(absent) / s.zeta_neg,
            torch.sigmoid(present) * (-s.k_pos / s.zeta_pos),
            torch.sigmoid(absent) * (s.k_neg / s.zeta_neg),
        )
