"""The branches of the binary losses: what a present and an absent label cost at a score, and how steeply."""

from __future__ import annotations

import torch
from torch import Tensor

from manyhot.links.additive import Asymmetry
from manyhot.losses.additive import Branches, Curve
from manyhot.numerics import power, softplus, softplus_branch
from manyhot.slopes import spare


class CrossEntropyCurve(Curve):
    """softplus(-score) for a present label, softplus(score) for an absent one."""

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        return Branches(softplus(-scores), softplus(scores), -torch.sigmoid(-scores), torch.sigmoid(scores))


class FocalCurve(Curve):
    """Cross-entropy times the probability of the wrong answer, to a power for each branch."""

    def __init__(self, gamma_neg: float, gamma_pos: float) -> None:
        self.gamma_neg, self.gamma_pos = gamma_neg, gamma_pos

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        p, q = torch.sigmoid(scores), torch.sigmoid(-scores)
        present, present_slope = focal_branch(p, q, softplus(-scores), self.gamma_pos)
        absent, absent_slope = focal_branch(q, p, softplus(scores), self.gamma_neg)
        return Branches(present, absent, torch.neg(present_slope, out=spare(present_slope)), absent_slope)


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

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        p, q = torch.sigmoid(scores), torch.sigmoid(-scores)
        present, present_slope = focal_branch(p, q, softplus(-scores), self.gamma_pos)
        absent, absent_slope = self.shifted_branch(p, q)
        return Branches(present, absent, torch.neg(present_slope, out=spare(present_slope)), absent_slope)

    def shifted_branch(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """r^gamma * surprise and its steepness, with surprise = -log(1 - r)."""
        r = p - self.margin
        r = torch.clamp(r, min=0, out=spare(r))
        surprise = torch.neg(r)
        surprise = torch.log1p(surprise, out=spare(surprise))
        surprise = torch.neg(surprise, out=spare(surprise))
        # The slope is p (1 - p) r^g (g surprise / r + 1 / (1 - r)); the first summand is finite at r = 0 only as a product.
        steepness = surprise / r.clamp(min=1e-30)
        steepness = torch.add(1 / (1 - r), steepness, alpha=self.gamma_neg, out=spare(steepness))
        focus = power(r, self.gamma_neg)
        steepness = torch.mul(steepness, focus, out=spare(steepness))
        steepness = torch.mul(steepness, p, out=spare(steepness))
        steepness = torch.mul(steepness, q, out=spare(steepness))
        if self.gamma_neg == 0:  # 0^0 = 1 would leave a slope below the margin, where the loss is flat
            steepness = steepness * (p > self.margin)
        return torch.mul(surprise, focus, out=spare(surprise)), steepness


class StrictlyProperAsymmetricCurve(Curve):
    """Two softplus branches of different scale, steepness and place."""

    def __init__(self, shape: Asymmetry) -> None:
        self.shape = shape

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        s = self.shape
        present, present_slope = softplus_branch(scores, -s.k_pos, s.b_pos, s.zeta_pos)
        absent, absent_slope = softplus_branch(scores, s.k_neg, s.b_neg, s.zeta_neg)
        return Branches(present, absent, present_slope, absent_slope)
