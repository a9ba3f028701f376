"""What a validation says of an epoch, and which of two epochs was better."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from torch import Tensor

from manyhot.links import Link, NoLink, QuasibinaryLink
from manyhot.metrics.precision import MeanAveragePrecision
from manyhot.metrics.probability import LogLoss

Judge = Callable[[Tensor, Tensor], Mapping[str, float]]

# A figure whose name holds one of these is better when lower; of the short ones, only whole words count.
LOWER_IS_BETTER = ("loss", "error", "brier", "divergence", "regret", "perplexity")
LOWER_IS_BETTER_WORDS = {"ece", "ace", "mce", "nll", "kl", "mse", "rmse", "mae", "fpr", "fpr95", "fnr", "risk"}

LOG_LOSS = "log loss per row"


class StandardJudge:
    """Mean average precision over labels, and the log loss per row where the scores mean probabilities.

    Args:
        link: Of the loss that is trained with.
    """

    def __init__(self, link: Link) -> None:
        self.link = link

    def names(self) -> list[str]:
        """The figures that it gives."""
        return ["mAP"] if isinstance(self.link, NoLink) else ["mAP", LOG_LOSS]

    def __call__(self, scores: Tensor, targets: Tensor) -> dict[str, float]:
        """The figures of (N, K) scores and targets."""
        figures = {"mAP": MeanAveragePrecision().update(scores, targets).compute().value}
        if not isinstance(self.link, NoLink):
            figures[LOG_LOSS] = self._log_loss(scores, targets)
        return figures

    def _log_loss(self, scores: Tensor, targets: Tensor) -> float:
        """Mean over rows of the sum over known labels; not a number as long as the link has seen no label."""
        if isinstance(self.link, QuasibinaryLink) and not bool(self.link.fitted):
            return math.nan
        buffer = next(self.link.buffers(), scores)  # the link may be on a GPU, with the loss
        outcome = LogLoss().update(self.link.probs(scores.to(buffer.device)).cpu(), targets).compute()
        return outcome.values["log_loss_per_row"]


def lower_is_better(name: str) -> bool:
    """Whether less of a figure is better, by its name.

    Example:
        >>> [name for name in ("mAP", "log loss", "ECE", "top-5 error", "label_ace", "pace") if lower_is_better(name)]
        ['log loss', 'ECE', 'top-5 error', 'label_ace']
    """
    plain = name.lower()
    words = set(re.findall(r"[a-z0-9]+", plain))
    return bool(words & LOWER_IS_BETTER_WORDS) or any(part in plain for part in LOWER_IS_BETTER)


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
    return value < than if lower_is_better(name) else value > than
