"""Links of the losses that add over labels, in closed form."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyhot.cells import as_tensor
from manyhot.checks import check_number, values_can_be_read
from manyhot.links.link import Link, PosWeight
from manyhot.numerics import log_softplus, logit, power, softplus, softplus_branch, surprise_by_share
from manyhot.refusal import refusal
from manyhot.slopes import elementwise, spare


class AdditiveLink(Link):
    """The link of a loss that adds over labels, which knows its slopes too, so that losses can be added."""

    @abstractmethod
    def log_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of l0' and -l1' without `pos_weight`; their difference is the log-odds."""


class SigmoidLink(AdditiveLink):
    """Scores of binary cross-entropy: log-odds as they stand, onto (0, 1).

    Example:
        >>> SigmoidLink().probs(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([0.2689, 0.5000, 0.7311])
        >>> SigmoidLink(pos_weight=3.0).probs(torch.tensor([0.0]))
        tensor([0.2500])
    """

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """The scores."""
        return scores

    def scores_of_log_odds(self, log_odds: Tensor) -> Tensor:
        """The log-odds."""
        return log_odds

    def log_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """log p and log(1 - p)."""
        return -softplus(-scores), -softplus(scores)


class AsymmetricLink(AdditiveLink):
    r"""Scores of focal and asymmetric losses: the map phi, increasing.

    With `margin` 0 the link is onto (0, 1). With a margin, scores up to logit(margin) all mean 0, and with
    `gamma_pos` 0 no score means more than a limit below 1 (0.964 for `gamma_neg` 4 and `margin` 0.05): the loss does
    not care what is beyond.

    Args:
        gamma_neg: Focusing of absent labels.
        gamma_pos: Focusing of present labels.
        margin: Probability shift of absent labels.
        pos_weight: Factor on the loss of present labels.

    Reference: Cheng and Vasconcelos, Towards Calibrated Multi-label Deep Neural Networks, CVPR 2024, Theorem 2.

    Example:
        >>> AsymmetricLink(gamma_neg=4, gamma_pos=0, margin=0.05).probs(torch.tensor([-3.0, 0.0, 3.0]))
        tensor([0.0000, 0.1276, 0.9286])
    """

    def __init__(
        self, gamma_neg: float, gamma_pos: float = 0.0, margin: float = 0.0, *, pos_weight: PosWeight = None
    ) -> None:
        super().__init__(pos_weight)
        self.gamma_neg = check_number("gamma_neg", "AsymmetricLink", gamma_neg, low=0)
        self.gamma_pos = check_number("gamma_pos", "AsymmetricLink", gamma_pos, low=0)
        self.margin = check_number("margin", "AsymmetricLink", margin, low=0, high=1, high_open=True)

    @property
    def range(self) -> tuple[float, float]:
        """(0, 1), or less with a margin and no focusing of present labels."""
        if self.margin == 0 or self.gamma_pos > 0:
            return 0.0, 1.0
        top = self.unweighted_log_odds(torch.tensor(1e4, dtype=torch.float64))
        lightest = 1.0 if self.pos_weight is None else float(self.pos_weight.min())
        return 0.0, float(torch.sigmoid(top - math.log(lightest)))

    @property
    def finite(self) -> bool:
        """Not with a margin."""
        return self.margin == 0

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """Logarithm of the ratio of the two slopes."""
        absent, present = self._log_slopes_by_sigmoid(scores)
        return absent - present

    def log_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The slopes by p = sigmoid(score), times that of p itself."""
        absent, present = self._log_slopes_by_sigmoid(scores)
        slope = -softplus(scores) - softplus(-scores)
        return absent + slope, present + slope

    def _log_slopes_by_sigmoid(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        shifted = self.margin > 0
        absent = self._log_shifted_slope(scores) if shifted else log_focal_slope(scores, self.gamma_neg)
        return absent, log_focal_slope(-scores, self.gamma_pos)

    def _log_shifted_slope(self, scores: Tensor) -> Tensor:
        """log h(w; gamma_neg) at w = max(sigmoid(score) - margin, 0)."""
        over = scores - logit(self.margin)
        visible = over > 0
        over = torch.where(visible, over, 1.0)
        scores = torch.where(visible, scores, 0.0)
        # sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - e^(b-a)): no cancellation just above the margin.
        log_w = -softplus(-scores) + math.log1p(-self.margin) + torch.log(-torch.expm1(-over))
        tiny = torch.finfo(scores.dtype).tiny
        rest = torch.sigmoid(-scores) + max(self.margin, tiny)  # 1 - w, which would cancel; never 0
        focus = self.gamma_neg * rest * surprise_by_share(rest)
        return torch.where(visible, self.gamma_neg * log_w + torch.log1p(focus) - torch.log(rest), -torch.inf)


def log_focal_slope(scores: Tensor, gamma: float) -> Tensor:
    """log h(sigmoid(score); gamma) with h(w; g) = w^g / (1 - w) - g w^(g-1) log(1 - w)."""
    if gamma == 0:
        return softplus(scores)
    log_w = -softplus(-scores)
    focus = math.log(gamma) + log_softplus(scores) - log_w
    return gamma * log_w + torch.logaddexp(softplus(scores), focus)


def phi(probs: Any, *, gamma_neg: float, gamma_pos: float = 0.0, margin: float = 0.0) -> Tensor:
    """Honest probabilities of a model trained with a focal or asymmetric loss, from its plain sigmoid outputs.

    Use it when only the outputs of the sigmoid are left; from scores, `AsymmetricLink` keeps more digits.

    Args:
        probs: sigmoid(score), a tensor, an array or a list of any shape.
        gamma_neg: Focusing of absent labels that the model was trained with.
        gamma_pos: Focusing of present labels.
        margin: Probability shift of absent labels.

    Reference: Cheng and Vasconcelos, CVPR 2024, equations 14 and 15, in a form without 0/0 at both ends.

    Example:
        >>> phi([0.0, 0.5, 1.0], gamma_neg=4)
        tensor([0.0000, 0.1908, 1.0000])
    """
    check_number("gamma_neg", "phi", gamma_neg, low=0)
    check_number("gamma_pos", "phi", gamma_pos, low=0)
    check_number("margin", "phi", margin, low=0, high=1, high_open=True)
    probs = as_tensor("phi", probs, "probs")
    probs = probs if probs.dtype == torch.float64 else probs.float()
    outside = ~((probs >= 0) & (probs <= 1))
    if values_can_be_read(probs) and bool(outside.any()):
        remedy = "Pass sigmoid(scores), or give the scores to `AsymmetricLink`."
        raise refusal("probs", "phi", "lie between 0 and 1", f"{float(probs[outside][0]):g}", remedy)
    shifted = (probs - margin).clamp(min=0)
    absent = probs * _bounded_slope(shifted, gamma_neg)
    present = (1 - shifted) * _bounded_slope(1 - probs, gamma_pos)
    honest = absent / (absent + present)
    return torch.where(shifted > 0, honest, 0.0) if margin > 0 else honest


def _bounded_slope(w: Tensor, gamma: float) -> Tensor:
    """(1 - w) h(w; gamma), finite on [0, 1]."""
    inner = torch.where((w > 0) & (w < 1), w, 0.5)
    ratio = torch.where(w <= 0, 1.0, torch.where(w >= 1, 0.0, (1 - inner) * -torch.log1p(-inner) / inner))
    return power(w, gamma) * (1 + gamma * ratio)


class Asymmetry(NamedTuple):
    """The six numbers of the strictly proper asymmetric loss: scale, steepness and place of both branches."""

    zeta_pos: float = 1.0
    k_pos: float = 1.0
    b_pos: float = 0.0
    zeta_neg: float = 5.0
    k_neg: float = 3.0
    b_neg: float = 1.0

    def check(self, owner: str) -> Asymmetry:
        """Returns itself, or refuses numbers with which the loss would not be strictly proper."""
        for name in ("zeta_pos", "k_pos", "zeta_neg", "k_neg"):
            check_number(name, owner, getattr(self, name), low=0, low_open=True)
        for name in ("b_pos", "b_neg"):
            check_number(name, owner, getattr(self, name))
        return Asymmetry(*(float(number) for number in self))

    @property
    def log_slope_ratio(self) -> float:
        """log of the largest slope of the absent branch over that of the present branch."""
        return math.log(self.k_neg / self.zeta_neg) - math.log(self.k_pos / self.zeta_pos)


class StrictlyProperAsymmetricLink(AdditiveLink):
    """Scores of the strictly proper asymmetric loss: increasing, onto (0, 1).

    Args:
        shape: The six numbers of the loss.
        pos_weight: Factor on the loss of present labels.

    Reference: Cheng and Vasconcelos, CVPR 2024. Equation 17 is printed with the sign of both sigmoid arguments flipped;
        this is the link that the loss really has.

    Example:
        >>> StrictlyProperAsymmetricLink().probs(torch.tensor([0.0, 1.0, 3.0]))
        tensor([0.0538, 0.5273, 0.9266])
    """

    def __init__(self, shape: Asymmetry | None = None, *, pos_weight: PosWeight = None) -> None:
        super().__init__(pos_weight)
        self.shape = Asymmetry(*(shape or ())).check("StrictlyProperAsymmetricLink")

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """Logarithm of the ratio of the two slopes."""
        return elementwise(self.log_odds_and_slopes, scores)

    def log_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Those of the two softplus branches."""
        s = self.shape
        absent = math.log(s.k_neg / s.zeta_neg) - softplus(-s.k_neg * (scores - s.b_neg))
        return absent, math.log(s.k_pos / s.zeta_pos) - softplus(s.k_pos * (scores - s.b_pos))

    def log_odds_and_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """log_slope_ratio - softplus(-k_neg (s - b_neg)) + softplus(k_pos (s - b_pos)), and its slope."""
        s = self.shape
        low, low_slope = softplus_branch(scores, -s.k_neg, s.b_neg)
        high, high_slope = softplus_branch(scores, s.k_pos, s.b_pos)
        log_odds = torch.sub(high, low, out=spare(high))
        return (
            torch.add(log_odds, s.log_slope_ratio, out=spare(log_odds)),
            torch.sub(high_slope, low_slope, out=spare(high_slope)),
        )
