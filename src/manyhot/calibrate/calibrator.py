"""The contract of a calibrator, and the evidence that it maps to probabilities."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.cells import as_scores, as_targets, as_weights
from manyhot.links import Link, NoLink, SoftmaxLink
from manyhot.refusal import refusal
from manyhot.state import Fitted

# Log-odds up to which a link is believed. Beyond, one that says exactly 0 or 1 would leave no order among scores.
BELIEVED = 8.0
# How near to its limit a link is believed that never reaches `BELIEVED`. Closer, all scores mean nearly the same; here
# a step in the score still moves the log-odds by about as much.
NEAR_LIMIT = 1.0
# How far out limits are looked for, in powers of two.
FAR_OUT = 64


class Calibrator(Fitted):
    """Turns scores into probabilities that held-out data bear out.

    Args:
        link: What the scores already mean, where calibration starts; without one the scores themselves are the
            starting point.
    """

    link: Link | None

    def __init__(self, link: Link | None = None) -> None:
        super().__init__()
        given: object = link
        if not isinstance(given, Link | None):
            remedy = "Pass `loss.link`, or leave it out."
            raise refusal("link", type(self).__name__, "be a link or None", type(given).__name__, remedy)
        self.link = None if isinstance(link, NoLink) else link

    def fit(self, scores: Any, targets: Any, *, weights: Any = None) -> Self:
        """Learns from held-out data; unknown cells are left out.

        Args:
            scores: (N, K).
            targets: (N, K): 1 present, 0 absent, -1 unknown.
            weights: (N,) or (N, K), how much each row or cell counts in proportion to the others; the same for all by
                default. They are rescaled to a mean of 1 over the known cells whose weight is not 0, because the number
                of cells, not the sum of their weights, says how far to believe them.
        """
        owner = type(self).__name__
        scores = self._check(scores)
        targets = as_targets(owner, targets, scores)
        given = as_weights(owner, weights, scores)
        known = (targets >= 0).double()
        cell_weights = known if given is None else with_mean_one(given * known)
        # The loss that the link belongs to may go on learning, and must not take the fitted calibrator with it.
        self.link = copy.deepcopy(self.link)
        with torch.no_grad():
            evidence = self.evidence(scores.double())
            return self.fit_cells(evidence, targets.clamp(min=0).double(), cell_weights)

    @abstractmethod
    def fit_cells(self, evidence: Tensor, targets: Tensor, weights: Tensor) -> Self:
        """Learns from checked cells, all (N, K) in float64; the weight of an unknown cell is 0."""

    @abstractmethod
    def map(self, evidence: Tensor) -> Tensor:
        """Log-odds of evidence (N, K); increasing in each column, and finite."""

    def log_odds(self, scores: Any) -> Tensor:
        """Log-odds of the calibrated probabilities, shaped like `scores`."""
        self.require_fitted()
        checked = self._check(scores)
        # In float64 inside, because a map of few numbers must not lose order among many scores.
        return self.map(self.evidence(checked.double())).to(checked.dtype)

    def forward(self, scores: Any) -> Tensor:
        """Probability of each label, shaped like `scores`; never exactly 0 or 1."""
        probs = torch.sigmoid(self.log_odds(scores))
        numbers = torch.finfo(probs.dtype)
        return probs.clamp(numbers.tiny, 1 - numbers.eps / 2)

    def evidence(self, scores: Tensor) -> Tensor:
        """What the scores already mean, as finite log-odds; the scores themselves without a link."""
        if self.link is None:
            return scores
        return believed_log_odds(self.link, scores)

    def _check(self, values: Any) -> Tensor:
        owner = type(self).__name__
        scores = as_scores(owner, values)
        if not bool(scores.isfinite().all()):
            row, column = (int(place) for place in (~scores.isfinite()).nonzero()[0])
            got = f"{float(scores[row, column]):g} at row {row}, column {column}"
            raise refusal("scores", owner, "be finite", got, "Clip them, for example to -30 and 30.")
        return scores


def with_mean_one(weights: Tensor) -> Tensor:
    """Weights (N, K) in the same proportions, with a mean of 1 over those that are not 0."""
    total = weights.sum()
    return weights * torch.where(total > 0, (weights > 0).sum() / total, 1.0)


def believed_log_odds(link: Link, scores: Tensor) -> Tensor:
    """Log-odds of a link as far as they are believed; beyond, they follow the scores, so that order survives.

    Finite and strictly increasing in the score for every link, also for one that says exactly 0 or 1, or that does
    not reach beyond a limit.

    Args:
        link: What the scores mean.
        scores: (N, K).

    Example:
        >>> link = mh.AsymmetricLink(4, 0, 0.05)
        >>> scores = torch.tensor([[-5.0], [-4.0], [0.0], [30.0], [31.0]])
        >>> link.log_odds(scores).flatten()
        tensor([   -inf,    -inf, -1.9225,  3.2796,  3.2796])
        >>> believed_log_odds(link, scores).flatten()
        tensor([-11.5174, -10.5174,  -1.9225,  29.7279,  30.7279])
    """
    if isinstance(link, SoftmaxLink):
        # Against the other scores of its row a score always moves the log-odds by its own step; a single class has
        # nothing to stand against, and is nearly certain.
        return link.log_odds(scores) if scores.shape[-1] > 1 else BELIEVED + scores
    low, high = believed_scores(link, scores)
    inside = scores.clamp(low, high)
    return link.log_odds(inside) + (scores - inside)


def believed_scores(link: Link, scores: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest and the highest score that a link is believed at, both (1, K)."""
    sizes = 2.0 ** torch.arange(FAR_OUT, dtype=scores.dtype, device=scores.device).unsqueeze(1)
    trials = link.log_odds(torch.cat([-sizes, sizes]).expand(-1, scores.shape[-1]))
    # A link by automatic differentiation says NaN where both slopes have vanished, which is no limit.
    low = trials.nan_to_num(torch.inf, neginf=-torch.inf).amin(0, keepdim=True)
    high = trials.nan_to_num(-torch.inf, posinf=torch.inf).amax(0, keepdim=True)
    near = ((high - low) / 4).clamp(max=NEAR_LIMIT)
    bounds = torch.cat([(low + near).clamp(min=-BELIEVED), (high - near).clamp(max=BELIEVED)])
    lowest, highest = link.scores_of_log_odds(bounds + link.log_pos_weight(scores)).to(scores.dtype).split(1)
    return lowest, highest
