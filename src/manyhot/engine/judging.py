"""What a validation says of an epoch, and which of two epochs was better."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from torch import Tensor

from manyhot.links import Link, NoLink, QuasibinaryLink
from manyhot.metrics.precision import MeanAveragePrecision
from manyhot.metrics.probability import LogLoss

Judge = Callable[[Tensor, Tensor], Mapping[str, float]]

# A figure whose name has one of these words is an error: less of it is better.
WORSE_WHEN_HIGHER = ("loss", "error", "brier")


class StandardJudge:
    """Mean average precision over labels, and the log loss where the scores mean probabilities.

    Args:
        link: Of the loss that is trained with.
    """

    def __init__(self, link: Link) -> None:
        self.link = link

    def names(self) -> list[str]:
        """The figures that it gives."""
        return ["mAP"] if isinstance(self.link, NoLink) else ["mAP", "log loss"]

    def __call__(self, scores: Tensor, targets: Tensor) -> dict[str, float]:
        """The figures of (N, K) scores and targets."""
        figures = {"mAP": MeanAveragePrecision().update(scores, targets).compute().value}
        if not isinstance(self.link, NoLink):
            figures["log loss"] = self._log_loss(scores, targets)
        return figures

    def _log_loss(self, scores: Tensor, targets: Tensor) -> float:
        """The log loss; not a number as long as the link has seen no label."""
        if isinstance(self.link, QuasibinaryLink) and not bool(self.link.fitted):
            return math.nan
        buffer = next(self.link.buffers(), scores)  # the link may be on a GPU, with the loss
        return LogLoss().update(self.link.probs(scores.to(buffer.device)).cpu(), targets).compute().value


def is_better(name: str, value: float, than: float | None) -> bool:
    """Whether a figure beats the best one so far; one that is not a number beats nothing.

    Example:
        >>> is_better("mAP", 0.6, 0.5), is_better("log loss", 0.6, 0.5)
        (True, False)
    """
    if math.isnan(value):
        return False
    if than is None:
        return True
    return value < than if any(word in name.lower() for word in WORSE_WHEN_HIGHER) else value > than
