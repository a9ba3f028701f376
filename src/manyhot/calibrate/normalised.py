"""Calibrators of scores that are divided by a sum: one constant for all cells, or one temperature for rows."""

from __future__ import annotations

from functools import partial
from typing import Self

import torch
from torch import Tensor

from manyhot.calibrate.calibrator import NEAREST, Calibrator, believed_log_odds, find_bounds
from manyhot.calibrate.maps import FLATTEST
from manyhot.calibrate.newton import Likelihood, minimise_bounded
from manyhot.links import QuasibinaryLink, SoftmaxLink
from manyhot.numerics import hide
from manyhot.refusal import refusal

# How many cells are computed with at a time.
AT_A_TIME = 1 << 21


class Normalised(Calibrator):
    """A calibrator whose number has the place of a link."""

    def evidence(self, scores: Tensor) -> Tensor:
        """The scores themselves: none is read through a link."""
        return scores

    def as_scores(self, values: Tensor, kind: str) -> Tensor:
        """Scores of values of a kind: of probabilities, their logarithms."""
        if kind == "scores" or self.kind is None:  # files that do not say what they were fitted on used log-odds
            return super().as_scores(values, kind)
        return values.clamp(min=NEAREST).log()


class QuasibinaryConstant(Normalised):
    """The constant C of the quasibinary classifier, exact over held-out data.

    p = e^score / C, with log C = log(sum of e^score over known cells) - log(number of labels present)

    The moving average that training leaves in `QuasibinaryLink` lags behind the weights; this does not. Where p would
    come to 1 and beyond, log-odds follow the score instead, so that order survives. Data without any label count as
    half a label.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; probabilities (N, K).

    Attributes:
        log_normaliser: log C.

    Reference: Liao, Gavves, Oh and Snoek, Quasibinary Classifier for Images with Zero and Multiple Labels.

    Example:
        >>> scores, targets = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 0]])
        >>> mh.QuasibinaryConstant().fit(scores, targets)(scores)
        tensor([[0.6103, 0.0826],
                [0.0826, 0.2245]])
    """

    log_normaliser: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("log_normaliser", torch.zeros((), dtype=torch.float64))

    def fit_cells(self, evidence: Tensor, targets: Tensor, weights: Tensor) -> Self:
        """Sums over all cells."""
        log_sum = torch.logsumexp((evidence + weights.log()).flatten(), dim=0)
        labels = (weights * targets).sum().clamp(min=0.5)
        log_normaliser = torch.where(log_sum > -torch.inf, log_sum - labels.log(), 0.0)
        return self.learn(log_normaliser=log_normaliser, bounds=find_bounds(link_of(log_normaliser), 1))

    def map(self, evidence: Tensor) -> Tensor:
        """Log-odds of scores (N, K)."""
        return believed_log_odds(link_of(self.log_normaliser), evidence, self.bounds)

    def old_bounds(self, buffers: dict[str, Tensor]) -> Tensor:
        """Those of the constant."""
        return find_bounds(link_of(buffers["log_normaliser"]), 1)


def link_of(log_normaliser: Tensor) -> QuasibinaryLink:
    """The link with this constant."""
    link = QuasibinaryLink()
    link.log_normaliser, link.fitted = log_normaliser, torch.ones_like(log_normaliser, dtype=torch.bool)
    return link


class SoftmaxTemperature(Normalised):
    """One temperature for softmax scores, where every row carries exactly one label.

    p = softmax(scores / temperature)

    The temperature minimises the mean negative log-likelihood of the labels of the rows. It is positive, and finite
    also where every label has the highest score of its row.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1} with one label a row at the most; probabilities (N, K), rows of
        which sum to 1.
    No-label rows: left out, since softmax has no probability for "none". A row counts with the weight of its label's
        cell. Unknown cells, and those of weight 0, are left out of the sum of their row.

    Attributes:
        temperature: ().

    Reference: Guo, Pleiss, Sun and Weinberger, On Calibration of Modern Neural Networks, ICML 2017.

    Example:
        >>> scores = torch.tensor([[4.0, 0.0], [4.0, 1.0], [1.0, 4.0], [3.0, 1.0]])
        >>> targets = torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]])
        >>> mh.SoftmaxTemperature().fit(scores, targets)(scores)
        tensor([[0.8896, 0.1104],
                [0.8271, 0.1729],
                [0.1729, 0.8271],
                [0.7395, 0.2605]])
    """

    temperature: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("temperature", torch.ones((), dtype=torch.float64))

    def fit_cells(self, evidence: Tensor, targets: Tensor, weights: Tensor) -> Self:
        """Finds the temperature by Newton's method."""
        seen = (weights > 0).to(weights.dtype)
        labels = seen * targets
        if evidence.numel() and bool(labels.sum(1).amax() > 1):
            remedy = "Calibrate rows with several labels by `Affine` or `Isotonic`."
            rule = "have one label a row at the most"
            raise refusal("targets", type(self).__name__, rule, "a row with several", remedy)
        gaps = evidence - (labels * evidence).sum(1, keepdim=True)
        row_weights = (labels * weights).sum(1)
        spread = (row_weights.unsqueeze(1) * seen * gaps.square()).sum() / row_weights.sum()
        unit = torch.where(spread > 0, spread, 1.0).sqrt()
        start = unit.new_ones(1)
        likelihood_at = partial(softmax_likelihood, hide(gaps, seen) / unit, row_weights)
        slope = minimise_bounded(likelihood_at, start, FLATTEST * start)
        return self.learn(temperature=unit / slope.squeeze())

    def map(self, evidence: Tensor) -> Tensor:
        """Log-odds of scores (N, K)."""
        return believed_log_odds(SoftmaxLink(), evidence / self.temperature)


def softmax_likelihood(gaps: Tensor, weights: Tensor, slope: Tensor) -> Likelihood:
    """How well softmax with a slope (1, 1) explains the labels of rows.

    Args:
        gaps: (N, K), scores less the score of the label.
        weights: (N,), 0 for rows without a label.
        slope: The inverse temperature.
    """
    value, gradient, information = (slope.new_zeros(()) for _ in range(3))
    rows = max(1, AT_A_TIME // max(1, gaps.shape[1]))
    for part, weight in zip(gaps.split(rows), weights.split(rows), strict=True):
        probs = torch.softmax(slope * part, dim=1)
        mean = (probs * part).sum(1)
        value += (weight * torch.logsumexp(slope * part, dim=1)).sum()
        gradient += (weight * mean).sum()
        information += (weight * (probs * (part - mean.unsqueeze(1)).square()).sum(1)).sum()
    return Likelihood(value.view(1), gradient.view(1, 1), information.view(1, 1, 1))
