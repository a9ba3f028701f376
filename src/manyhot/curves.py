"""Curves of the losses that add over labels: the loss of a present and of an absent label, their slopes, and log-odds.

At the score that minimises p l1 + (1 - p) l0 the slopes balance: the log-odds that a score means are the logarithm of
the ratio of the slopes.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from manyhot.autograd import in_chunks, with_slope
from manyhot.checks import check_number
from manyhot.numerics import log_softplus, logit, power, softplus, softplus_branch, surprisal_ratio, times
from manyhot.serialization import ConstructorRepr


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
        for name, value in self._asdict().items():
            check_number(name, owner, value, "(-inf, inf)" if name.startswith("b_") else "(0, inf)")
        return Asymmetry(*map(float, self))


class Branches(NamedTuple):
    """What one score costs if its label is present and if it is absent, and the derivatives of both."""

    present: Tensor
    absent: Tensor
    present_slope: Tensor
    absent_slope: Tensor


class Curve(ConstructorRepr, ABC):
    """The two branches of an additive loss, with their slopes in closed form.

    Attributes:
        quicker_if_hard: Whether `cells` is quicker if it knows that all targets are 0 or 1.
    """

    quicker_if_hard: ClassVar[bool] = False

    @abstractmethod
    def branches(self, scores: Tensor) -> Branches:
        """Values and slopes of both branches, shaped like `scores`."""

    def cells(
        self, scores: Tensor, targets: Tensor, pos_weight: Tensor | None = None, *, hard: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Loss and slope of every cell; a soft target mixes the branches.

        Args:
            scores: (N, K).
            targets: (N, K) in [0, 1].
            pos_weight: (K,), (N, K) or (), multiplies the branch of present labels.
            hard: Whether all targets are 0 or 1; looked up for curves that are `quicker_if_hard`.
        """
        present, absent, present_slope, absent_slope = self.branches(scores)
        if pos_weight is not None:
            present, present_slope = present * pos_weight, present_slope * pos_weight
        return torch.lerp(absent, present, targets), torch.lerp(absent_slope, present_slope, targets)

    def log_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of l0' and -l1'; override it where the slopes underflow."""
        _, _, present, absent = self.branches(scores)
        return torch.log(absent.clamp(min=0)), torch.log((-present).clamp(min=0))

    def log_odds(self, scores: Tensor) -> Tensor:
        """Logarithm of l0' / -l1'."""
        absent, present = self.log_slopes(scores)
        return absent - present


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
        linear = torch.addcmul(scores.clamp(min=0), scores, targets, value=-1)
        return linear.add_(softplus(scores.abs().neg_())), torch.sigmoid(scores) - targets

    def log_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """log p and log(1 - p)."""
        return -softplus(-scores), -softplus(scores)

    def log_odds(self, scores: Tensor) -> Tensor:
        """The scores."""
        return scores


class FocalCurve(Curve):
    """Cross-entropy times the probability of the wrong answer, to a power for each branch.

    With a margin, the absent branch sees r = max(p - margin, 0) instead of p.
    """

    def __init__(self, gamma_neg: float, gamma_pos: float, margin: float = 0.0) -> None:
        self.gamma_neg = check_number("gamma_neg", "", gamma_neg, "[0, inf)")
        self.gamma_pos = check_number("gamma_pos", "", gamma_pos, "[0, inf)")
        self.margin = check_number("margin", "", margin, "[0, 1)")

    def branches(self, scores: Tensor) -> Branches:
        """Both branches."""
        p, q = torch.sigmoid(scores), torch.sigmoid(-scores)
        present, steepness = focal_branch(p, q, softplus(-scores), self.gamma_pos)
        if self.margin > 0:
            absent, absent_slope = self._shifted_branch(p, q)
        else:
            absent, absent_slope = focal_branch(q, p, softplus(scores), self.gamma_neg)
        return Branches(present, absent, steepness.neg_(), absent_slope)

    def _shifted_branch(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """r^gamma * surprise and its slope, with surprise = -log(1 - r)."""
        r = F.softshrink(p, self.margin)
        rest = self._rest(q)
        ratio = surprisal_ratio(rest)
        # The slope is p r^g (g q surprise / r + q / (1 - r)).
        focus = power(r, self.gamma_neg)
        steepness = torch.addcmul(q / rest, ratio, q, value=self.gamma_neg).mul_(focus).mul_(p)
        if self.gamma_neg == 0:  # 0^0 = 1 would leave a slope below the margin, where the loss is flat
            steepness = steepness * (p > self.margin)
        return times(ratio, r).mul_(focus), steepness

    def _rest(self, q: Tensor) -> Tensor:
        """1 - r, which would cancel where p is 1 to the last digit and the margin is small; never 0, and never 1."""
        limits = torch.finfo(q.dtype)
        return (q + max(self.margin, limits.tiny)).clamp(max=1 - limits.eps)

    def log_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The slopes by p, times that of p itself."""
        slope = -softplus(scores) - softplus(-scores)
        return self._log_absent_slope(scores) + slope, log_focal_slope(-scores, self.gamma_pos) + slope

    def log_odds(self, scores: Tensor) -> Tensor:
        """By the slopes by p, which are nearer to each other."""
        return self._log_absent_slope(scores) - log_focal_slope(-scores, self.gamma_pos)

    def _log_absent_slope(self, scores: Tensor) -> Tensor:
        """log h(r; gamma_neg), see `log_focal_slope`."""
        if self.margin == 0:
            return log_focal_slope(scores, self.gamma_neg)
        excess = scores - logit(self.margin)
        visible = excess > 0
        excess, scores = torch.where(visible, excess, 1.0), torch.where(visible, scores, 0.0)
        # sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - e^(b-a)): no cancellation just above the margin.
        log_r = -softplus(-scores) + math.log1p(-self.margin) + torch.log(-torch.expm1(-excess))
        rest = self._rest(torch.sigmoid(-scores))
        focus = self.gamma_neg * rest * surprisal_ratio(rest)
        return torch.where(visible, self.gamma_neg * log_r + torch.log1p(focus) - torch.log(rest), -torch.inf)


def focal_branch(right: Tensor, wrong: Tensor, surprise: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """wrong^gamma * surprise and its steepness, with surprise = -log(right)."""
    if gamma == 0:
        return surprise, wrong.clone()
    focus = power(wrong, gamma)
    steepness = torch.addcmul(wrong, right, surprise, value=gamma).mul_(focus)
    return times(surprise, focus), steepness


def log_focal_slope(scores: Tensor, gamma: float) -> Tensor:
    """log h(sigmoid(score); gamma) with h(w; g) = w^g / (1 - w) - g w^(g-1) log(1 - w)."""
    if gamma == 0:
        return softplus(scores)
    log_w = -softplus(-scores)
    focus = math.log(gamma) + log_softplus(scores) - log_w
    return gamma * log_w + torch.logaddexp(softplus(scores), focus)


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
        """For hard targets c softplus(k (s - b)), with c, k and b of the target: one softplus instead of two."""
        if not hard:
            return super().cells(scores, targets, pos_weight)
        s, absent = self.shape, 1 - targets
        present_scale = targets * (1 / s.zeta_pos)
        if pos_weight is not None:
            present_scale = present_scale * pos_weight
        # One number where a label is present, another where it is absent; exact, since one of the summands is zero.
        c = present_scale.add_(absent, alpha=1 / s.zeta_neg)
        k = (targets * -s.k_pos).add_(absent, alpha=s.k_neg)
        bend = torch.sub(scores, targets, alpha=s.b_pos).sub_(absent, alpha=s.b_neg).mul_(k)
        return softplus(bend).mul_(c), times(torch.sigmoid(bend), k).mul_(c)

    def log_odds(self, scores: Tensor) -> Tensor:
        """Logarithm of l0' / -l1', with its slope in closed form for losses that compare log-odds."""
        return with_slope(functools.partial(in_chunks, self._log_odds_and_slopes), scores)

    def _log_odds_and_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        s = self.shape
        present, absent = (scores - s.b_pos).mul_(s.k_pos), (scores - s.b_neg).mul_(-s.k_neg)
        ratio = math.log(s.k_neg / s.zeta_neg) - math.log(s.k_pos / s.zeta_pos)
        slopes = (torch.sigmoid(present) * s.k_pos).add_(torch.sigmoid(absent), alpha=s.k_neg)
        return softplus(present).sub_(softplus(absent)).add_(ratio), slopes

    def log_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Those of the two softplus branches."""
        s = self.shape
        absent = math.log(s.k_neg / s.zeta_neg) - softplus(-s.k_neg * (scores - s.b_neg))
        return absent, math.log(s.k_pos / s.zeta_pos) - softplus(s.k_pos * (scores - s.b_pos))
