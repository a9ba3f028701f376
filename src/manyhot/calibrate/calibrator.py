"""The base class of calibrators, and the range in which the log-odds of a link are reliable."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from manyhot.checks import as_scores, as_targets, as_weights, check_choice
from manyhot.errors import InputError
from manyhot.links import Link, SoftmaxLink, most_weights
from manyhot.serialization import Fitted

# Log-odds up to which a link is reliable. Beyond, probabilities of exactly 0 or 1 would lose the order of scores.
RELIABLE_LOG_ODDS = 8.0
# Distance in log-odds that is kept from the limit of a link that never reaches `RELIABLE_LOG_ODDS`. Closer to it the
# link is flat; at this distance a step in the score still moves the log-odds by about as much.
LIMIT_MARGIN = 1.0
# The largest score at which limits are searched for, as a power of two.
SEARCH_POWERS = 64
# The bounds of a link that is reliable everywhere.
UNBOUNDED = torch.tensor([[-1.0], [1.0]], dtype=torch.float64) * torch.finfo(torch.float64).max


# What a calibrator can be fitted on; -1 stands for a calibrator of an old file, which does not record it.
KINDS = ("scores", "probs")
UNKNOWN_KIND = -1
# Probabilities are clipped to this distance from 0 and 1 before their log-odds are taken.
PROB_EPSILON = 1e-15
KIND_NAMES = {"scores": "scores", "probs": "probabilities"}


class Calibrator(Fitted):
    """Turns scores into calibrated probabilities, fitted on held-out data.

    Args:
        link: What the scores already mean, where calibration starts; without one the scores themselves are the
            starting point.

    Attributes:
        bounds: (2, K) or (2, 1), the scores between which the log-odds of the link are taken, found by `fit`.
        kind_number: The index in `KINDS` of what it was fitted on; -1 for a file of an older format.
    """

    link: Link | None

    def __init__(self, link: Link | None = None) -> None:
        super().__init__()
        candidate: object = link
        if not isinstance(candidate, Link | None):
            hint = "Pass `loss.link`, or leave it out."
            raise InputError("link", type(self).__name__, "be a link or None", type(candidate).__name__, hint)
        self.link = link if link is not None and link.gives_probs else None
        self.bounds: Tensor = nn.Buffer(torch.zeros(2, 0, dtype=torch.float64))
        self.kind_number: Tensor = nn.Buffer(torch.tensor(UNKNOWN_KIND, dtype=torch.int8))

    @property
    def kind(self) -> str | None:
        """What it was fitted on, "scores" or "probs"; None before, and for a file of an older format."""
        return None if self.kind_number < 0 else KINDS[int(self.kind_number)]

    def fit(self, scores: Any, targets: Any, *, weights: Any = None, kind: str = "scores") -> Self:
        """Learns from held-out data; unknown cells are left out.

        Args:
            scores: (N, K), or probabilities.
            targets: (N, K): 1 present, 0 absent, -1 unknown.
            weights: (N,) or (N, K), how much each row or cell counts in proportion to the others; the same for all by
                default. They are rescaled to a mean of 1 over the known cells whose weight is not 0, so that shrinkage
                depends on the number of cells and not on the sum of their weights.
            kind: "scores", or "probs" for probabilities that are to be calibrated. It is saved, and the calibrator
                takes the same from then on.

        Example:
            >>> probs, targets = torch.tensor([[0.9], [0.8], [0.3], [0.6]]), torch.tensor([[1], [0], [0], [1]])
            >>> calibrator = mh.PlattScaling(sharing="all").fit(probs, targets, kind="probs")
            >>> calibrator(probs).flatten()
            tensor([0.8765, 0.7660, 0.2794, 0.5619])
        """
        owner = type(self).__name__
        number = KINDS.index(check_choice("kind", owner, kind, KINDS))
        if kind == "probs" and self.link is not None:
            hint = "Leave the link out, or pass the scores that it reads."
            raise InputError("kind", owner, "be 'scores' where there is a link", repr(kind), hint)
        # If this fails, an earlier fit no longer belongs to the new settings.
        self.fitted = torch.zeros_like(self.fitted)
        self.kind_number = torch.full_like(self.kind_number, number)
        values = self._check(scores, kind)
        targets = as_targets(owner, targets, values)
        checked_weights = as_weights(owner, weights, values)
        known = (targets >= 0).double()
        cell_weights = known if checked_weights is None else normalise_weights(checked_weights * known)
        # The loss that the link belongs to may be trained further, which must not change the fitted calibrator.
        self.link = copy.deepcopy(self.link)
        with torch.no_grad():
            self.bounds = find_bounds(self.link, values.shape[1]).to(values.device)
            input_log_odds = self.input_log_odds(self.as_scores(values.double(), kind))
            return self.fit_cells(input_log_odds, targets.clamp(min=0).double(), cell_weights)

    @abstractmethod
    def fit_cells(self, input_log_odds: Tensor, targets: Tensor, weights: Tensor) -> Self:
        """Learns from checked cells, all (N, K) in float64; the weight of an unknown cell is 0."""

    @abstractmethod
    def map(self, input_log_odds: Tensor) -> Tensor:
        """Calibrated log-odds of input log-odds (N, K); increasing in each column, and finite."""

    def log_odds(self, scores: Any, *, kind: str | None = None) -> Tensor:
        """Log-odds of the calibrated probabilities, shaped like `scores`.

        Args:
            scores: (N, K), of the kind that it was fitted on.
            kind: "scores" or "probs" to have it checked that the calibrator was fitted on that; not checked by default.
        """
        input_log_odds, dtype = self.read(scores, kind)
        return self.map(input_log_odds).to(dtype)

    def read(self, scores: Any, kind: str | None = None) -> tuple[Tensor, torch.dtype]:
        """Input log-odds (N, K) of scores, checked as by `log_odds`, and the type of its result.

        They are in float64, because a map of few numbers must not lose order among many scores.
        """
        if torch.compiler.is_exporting():  # a graph reads no values, and takes scores
            kind, checked = "scores", scores
        else:
            self.require_fitted()
            kind = self.require_kind(kind)
            checked = self._check(scores, kind)
        return self.input_log_odds(self.as_scores(checked.double(), kind)), checked.dtype

    if TYPE_CHECKING:  # torch's own `__call__` has no types

        def __call__(self, scores: Any, *, kind: str | None = None) -> Tensor: ...  # noqa: D102

    def forward(self, scores: Any, *, kind: str | None = None) -> Tensor:
        """Probability of each label, shaped like `scores`; never exactly 0 or 1. For `kind` see `log_odds`."""
        probs = torch.sigmoid(self.log_odds(scores, kind=kind))
        numbers = torch.finfo(probs.dtype)
        return probs.clamp(numbers.tiny, 1 - numbers.eps / 2)

    def input_log_odds(self, scores: Tensor) -> Tensor:
        """What the scores already mean, as finite log-odds; the scores themselves without a link."""
        if self.link is None:
            return scores
        return bounded_log_odds(self.link, scores, self.bounds)

    def require_kind(self, kind: str | None) -> str:
        """The kind of its input, "scores" or "probs"; raises an error if `kind` is another one. None is not checked."""
        owner = type(self).__name__
        if kind is None:
            return self.kind or "scores"
        check_choice("kind", owner, kind, KINDS)
        # A file of an older format does not record it; but a link has never been applied to probabilities.
        fitted_on = self.kind or (kind if self.link is None else "scores")
        if kind != fitted_on:
            hint = f"Pass {KIND_NAMES[fitted_on]}, or fit a calibrator on {KIND_NAMES[kind]}."
            raise InputError("kind", owner, f"be {fitted_on!r}, on which it was fitted", repr(kind), hint)
        return kind

    def as_scores(self, values: Tensor, kind: str) -> Tensor:
        """Scores of values of a kind: of probabilities, their log-odds."""
        return values if kind == "scores" else torch.logit(values, eps=PROB_EPSILON)

    def restore(self, version: int, buffers: dict[str, Tensor]) -> None:
        """Takes the buffers of a file; format 1 stored neither the kind nor the bounds."""
        if version > 1:
            super().restore(version, buffers)
        else:
            super().restore(version, {"bounds": UNBOUNDED.clone(), "kind_number": self.kind_number, **buffers})
            if self.link is not None and bool(self.fitted):
                self.bounds = find_bounds(self.link, most_weights(self.link))
        number = int(self.kind_number)
        if number not in range(UNKNOWN_KIND, len(KINDS)):
            rule = f"be 0 for scores, 1 for probabilities, or {UNKNOWN_KIND} for either"
            raise InputError("kind_number", type(self).__name__, rule, str(number), "Save it again.")

    def _check(self, values: Any, kind: str) -> Tensor:
        owner = type(self).__name__
        scores = as_scores(owner, values)
        invalid, rule, hint = ~scores.isfinite(), "be finite", "Clip them, for example to -30 and 30."
        if kind == "probs" and not bool(invalid.any()):
            invalid, rule = (scores < 0) | (scores > 1), "lie between 0 and 1 with `kind` 'probs'"
            hint = 'Pass probabilities, or fit it on scores with `kind="scores"`.'
        if bool(invalid.any()):
            row, column = invalid.nonzero()[0].tolist()
            raise InputError("scores", owner, rule, f"{scores[row, column]:g} at row {row}, column {column}", hint)
        return scores


def normalise_weights(weights: Tensor) -> Tensor:
    """Weights (N, K) in the same proportions, with a mean of 1 over those that are not 0."""
    counted = weights > 0
    if not bool(counted.any()):
        return weights
    # By the largest first, so that neither the sum nor its inverse overflows.
    weights = weights / weights.max()
    return weights * (counted.sum() / weights.sum())


def bounded_log_odds(link: Link, scores: Tensor, bounds: Tensor | None = None) -> Tensor:
    """Log-odds of the link, extended with slope 1 outside its reliable range.

    They are finite and strictly increasing in the score for every link, also for one that gives probabilities of
    exactly 0 or 1, or whose probabilities have another limit.

    Args:
        link: What the scores mean.
        scores: (N, K).
        bounds: The result of `find_bounds` for the link; computed by default, which takes many evaluations of the link.

    Example:
        >>> link = mh.links.AsymmetricLink(4, 0, 0.05)
        >>> scores = torch.tensor([[-5.0], [-4.0], [0.0], [30.0], [31.0]])
        >>> link.log_odds(scores).flatten()
        tensor([   -inf,    -inf, -1.9225,  3.2796,  3.2796])
        >>> bounded_log_odds(link, scores).flatten()
        tensor([-11.5174, -10.5174,  -1.9225,  29.7279,  30.7279])
    """
    if isinstance(link, SoftmaxLink):
        # Against the other scores of its row a score always moves the log-odds by its own step; a single class has
        # no other score to compare with, and is nearly certain.
        return link.log_odds(scores) if scores.shape[-1] > 1 else RELIABLE_LOG_ODDS + scores
    low, high = find_bounds(link, scores.shape[-1]).to(scores) if bounds is None else bounds
    inside = torch.minimum(torch.maximum(scores, low), high)
    return link.log_odds(inside) + (scores - inside)


def find_bounds(link: Link | None, labels: int) -> Tensor:
    """The lowest and the highest score at which a link is reliable, (2, K), or (2, 1) if all labels have the same."""
    if link is None or isinstance(link, SoftmaxLink):
        return UNBOUNDED.clone()
    trials = link.log_odds_of_powers(SEARCH_POWERS, labels)
    low = trials.nan_to_num(torch.inf, neginf=-torch.inf).amin(0, keepdim=True)
    high = trials.nan_to_num(-torch.inf, posinf=torch.inf).amax(0, keepdim=True)
    near = ((high - low) / 4).clamp(max=LIMIT_MARGIN)
    limits = torch.cat([(low + near).clamp(min=-RELIABLE_LOG_ODDS), (high - near).clamp(max=RELIABLE_LOG_ODDS)])
    bounds = link.scores_of_log_odds(limits + link.log_pos_weight(limits)).double()
    return bounds[:, :1] if bool((bounds == bounds[:, :1]).all()) else bounds
