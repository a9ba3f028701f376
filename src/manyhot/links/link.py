"""The contract of a link, and the inverse of any increasing one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from manyhot.checks import kind_of
from manyhot.refusal import refusal
from manyhot.spelling import Spelled
from manyhot.state import ExactState

PosWeight = Tensor | Sequence[float] | float | None


class Link(Spelled, ExactState, ABC):
    """Turns scores into probabilities and back.

    A subclass gives the log-odds of one score for a loss without `pos_weight`; everything else follows. Weighting
    present labels by `pos_weight` moves the log-odds down by its logarithm, whatever the loss, so it is handled here
    once.

    Args:
        pos_weight: (K,) or one number, the factor on the loss of present labels.
    """

    pos_weight: Tensor | None
    clips: bool = False  # whether probabilities are cut off at 1, so that different scores mean the same

    def __init__(self, pos_weight: PosWeight = None) -> None:
        super().__init__()
        weight = None if pos_weight is None else torch.as_tensor(pos_weight, dtype=torch.float64).detach().clone()
        if weight is not None and (weight.ndim > 1 or not bool((weight.isfinite() & (weight > 0)).all())):
            remedy = "Pass for example (n - n_present) / n_present of each label."
            raise refusal(
                "pos_weight", type(self).__name__, "be (K,) of positive numbers", str(weight.tolist()), remedy
            )
        self.register_buffer("pos_weight", weight)

    @abstractmethod
    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """Log-odds of a label when `pos_weight` is 1; increasing in the score."""

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest probability that scores can reach or approach."""
        return 0.0, 1.0

    @property
    def finite(self) -> bool:
        """Whether every score has finite log-odds: no score means exactly 0 or 1."""
        return True

    @property
    def keeps_order(self) -> bool:
        """Whether probabilities have the order of the scores over all rows and labels, but for being cut off at 1."""
        weights = [buffer for name, buffer in self.named_buffers() if name.endswith("pos_weight")]
        return self.finite and all(weight.numel() == 1 for weight in weights)

    def log_odds(self, scores: Tensor) -> Tensor:
        """log(p / (1 - p)) of the probabilities, exact where they themselves have long been rounded to 0 or 1."""
        log_odds = self.unweighted_log_odds(self._check(scores))
        return log_odds if self.pos_weight is None else log_odds - self.log_pos_weight(log_odds)

    def probs(self, scores: Tensor) -> Tensor:
        """Probability of each label, shaped like `scores`."""
        return torch.sigmoid(self.log_odds(scores))

    def scores(self, probs: Tensor) -> Tensor:
        """The scores that mean `probs`: minus infinity for 0, infinity for what lies above the range."""
        probs = self._check(probs, "probs")
        log_odds = torch.logit(probs.double())
        if self.pos_weight is not None:
            log_odds = log_odds + self.log_pos_weight(log_odds)
        return self.scores_of_log_odds(log_odds).to(probs.dtype)

    def initial_scores(self, probs: Tensor) -> Tensor:
        """The scores to begin training with where samples have these probabilities."""
        return self.scores(probs)

    def scores_of_log_odds(self, log_odds: Tensor) -> Tensor:
        """Inverse of `unweighted_log_odds`; subclasses with a closed form override it."""
        return invert_increasing(self.unweighted_log_odds, log_odds)

    def pos_weight_like(self, like: Tensor) -> Tensor | None:
        """`pos_weight` in the type of `like`, checked against its number of labels."""
        return None if self.pos_weight is None else self._checked_pos_weight(like).to(like.dtype)

    def log_pos_weight(self, like: Tensor) -> Tensor:
        """log(pos_weight) in the type of `like`."""
        return self._checked_pos_weight(like).log().to(like.dtype)

    def _checked_pos_weight(self, like: Tensor) -> Tensor:
        if self.pos_weight is None:
            return torch.ones((), dtype=torch.float64, device=like.device)
        if self.pos_weight.ndim == 1 and like.shape[-1] != self.pos_weight.shape[0]:
            got = f"{self.pos_weight.shape[0]} weights for {like.shape[-1]} labels"
            raise refusal(
                "pos_weight", type(self).__name__, "have one weight a label", got, "Compute it on these labels."
            )
        return self.pos_weight

    def _check(self, values: Tensor, name: str = "scores") -> Tensor:
        if not isinstance(values, Tensor) or not values.is_floating_point():
            rule = "be a tensor of floating-point numbers"
            remedy = "Call `.float()` on them." if isinstance(values, Tensor) else "Pass `torch.as_tensor` of them."
            raise refusal(name, type(self).__name__, rule, kind_of(values), remedy)
        return values if values.dtype == torch.float64 else values.float()


class NoLink(Link):
    """The link of a loss that mixes labels or rows: its scores mean no probability, and asking for one is an error.

    Args:
        owner: Name of the loss, for the error.
    """

    def __init__(self, owner: str) -> None:
        super().__init__()
        self.owner = owner

    @property
    def finite(self) -> bool:
        """There are no log-odds."""
        return False

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """Refused."""
        raise self._refusal()

    def probs(self, scores: Tensor) -> Tensor:
        """Refused."""
        raise self._refusal()

    def scores(self, probs: Tensor) -> Tensor:
        """Refused."""
        raise self._refusal()

    def _refusal(self) -> ValueError:
        remedy = "Fit a calibrator on held-out scores and targets."
        rule = "be that of a loss which adds over labels to give probabilities"
        return refusal("link", self.owner, rule, "a loss whose scores only rank", remedy)


def invert_increasing(function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Solves function(x) = values by bisection in float64, for an increasing function of one variable.

    Values below the function's range give minus infinity, values above it infinity.
    """
    values = values.double()
    low, high = torch.full_like(values, -1.0), torch.full_like(values, 1.0)
    for _ in range(50):
        too_high, too_low = function(low) >= values, function(high) <= values
        if not bool((too_high | too_low).any()):
            break
        low, high = torch.where(too_high, 2 * low, low), torch.where(too_low, 2 * high, high)
    beyond, below = function(high) <= values, function(low) >= values
    for _ in range(120):
        middle = (low + high) / 2
        if not bool(((middle > low) & (middle < high)).any()):
            break
        above = function(middle) > values
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return torch.where(beyond, torch.inf, torch.where(below, -torch.inf, (low + high) / 2))
