"""The ways to read scores as probabilities: as the literature does, by the link of the loss, or fitted on "val"."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.harness.training import Outcome
from manyhot.calibrate import Beta, Calibrator, SoftmaxTemperature, Temperature
from manyhot.calibrate.calibrator import believed_log_odds
from manyhot.labels import one_hot
from manyhot.links import Link, NoLink, SigmoidLink, SoftmaxLink
from manyhot.losses import Loss, NoisedTopKLoss
from manyhot.training.choices import reading_of

SIGMOID, SOFTMAX, LINK = "sigmoid", "softmax", "own link"
MOVING, TEMPERATURE, CALIBRATED = "moving average", "temperature", "calibrated"


@dataclass(frozen=True)
class Reading:
    """One way to read the scores of an outcome.

    Attributes:
        means: What the scores mean: a link, or a calibrator that was fitted on "val".
        scores: (N, K) of "val" and "test".
        keeps_order: Whether all cells rank as their scores do, because one map without ties serves them all.
    """

    means: Link | Calibrator
    scores: dict[str, Tensor]
    keeps_order: bool = False

    def log_odds(self, split: str = "test") -> Tensor:
        """(N, K); they rank like the probabilities, and do not round to 0 or 1."""
        return self.means.log_odds(self.scores[split])

    def ranking(self, split: str = "test") -> Tensor:
        """(N, K), to find the first labels by: as log-odds, but scores that a link cuts off at 0 or 1 do not tie."""
        scores = self.scores[split]
        return believed_log_odds(self.means, scores) if isinstance(self.means, Link) else self.means.log_odds(scores)

    def probs(self, split: str = "test") -> Tensor:
        """(N, K)."""
        return torch.sigmoid(self.log_odds(split))


def ignores_constants(loss: Loss) -> bool:
    """Whether the loss is the same after adding a constant to a row, so that only a softmax compares rows."""
    return reading_of(loss) == "log-softmax" or isinstance(loss.link, SoftmaxLink) or isinstance(loss, NoisedTopKLoss)


def comparable(outcome: Outcome) -> dict[str, Tensor]:
    """Scores (N, K) of each split that can be compared from row to row, on the CPU."""
    plain = {split: _wide(scores).cpu() for split, scores in outcome.scores.items()}
    if not ignores_constants(outcome.loss):
        return plain
    return {split: scores.log_softmax(1) for split, scores in plain.items()}


def own_reading(loss: Loss) -> str:
    """The name of the reading that belongs to a loss: by its link, or as the literature reads it if it has none."""
    if ignores_constants(loss):
        return SOFTMAX
    return SIGMOID if isinstance(loss.link, NoLink) or _is_plain_sigmoid(loss.link) else LINK


@torch.no_grad()
def readings(outcome: Outcome, *, among: Collection[str] | None = None) -> dict[str, Reading]:
    """All ways to read the scores that make sense for the loss, by name.

    A link that is the plain sigmoid or the softmax is listed under that name alone; see `own_reading`.

    Args:
        outcome: Of a run.
        among: Only these, as far as there are any; what is fitted in vain costs time.
    """
    scores, targets, loss = comparable(outcome), outcome.targets["val"].cpu(), outcome.loss

    def wanted(name: str) -> bool:
        return among is None or name in among

    found: dict[str, Link | Calibrator] = {}
    if wanted(SOFTMAX) and ignores_constants(loss):
        found[SOFTMAX] = SoftmaxLink()
    if wanted(SIGMOID) and not ignores_constants(loss):
        found[SIGMOID] = SigmoidLink()
    if wanted(LINK) and own_reading(loss) == LINK:
        found[LINK] = loss.link
    if wanted(MOVING) and outcome.moving_link is not None:
        found[MOVING] = outcome.moving_link
    if wanted(TEMPERATURE):
        found[TEMPERATURE] = _temperature(loss, scores["val"], targets)
    if wanted(CALIBRATED):
        found[CALIBRATED] = Beta(link=loss.link).fit(scores["val"], targets)
    # A temperature on the scores of a row changes how rows compare after a softmax.
    in_order = {SOFTMAX} if ignores_constants(loss) else {SIGMOID, TEMPERATURE}
    return {name: Reading(means, scores, name in in_order) for name, means in found.items()}


def _temperature(loss: Loss, scores: Tensor, targets: Tensor) -> Calibrator:
    """One temperature for all labels."""
    if not ignores_constants(loss):
        return Temperature(per="all").fit(scores, targets)
    # A row of several labels stands once for each, sharing one weight: just as the softmax loss shares its target.
    rows, columns = (targets > 0).nonzero(as_tuple=True)
    single = torch.where(targets[rows] < 0, -1, one_hot(columns, targets.shape[1]))
    weights = 1 / (targets > 0).sum(1)[rows]
    return SoftmaxTemperature().fit(scores[rows], single, weights=weights)


def _is_plain_sigmoid(link: Link) -> bool:
    return isinstance(link, SigmoidLink) and link.pos_weight is None


def _wide(scores: Tensor) -> Tensor:
    return scores.detach() if scores.dtype == torch.float64 else scores.detach().float()
