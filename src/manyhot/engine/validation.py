"""Scores of a dataset, on one process or several, and the metrics that decide which epoch is best."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import check_int
from manyhot.data.loading import Batches
from manyhot.distributed import gather
from manyhot.engine.devices import DeviceContext, open_device_context
from manyhot.engine.optim import groups_of_epoch
from manyhot.errors import InputError
from manyhot.evaluation.catalog import METRIC_INFO
from manyhot.links import Link
from manyhot.metrics.calibration import LogLoss
from manyhot.metrics.ranking import MeanAveragePrecision
from manyhot.network import Network, score_batch
from manyhot.settings import FitSettings

MetricFunction = Callable[[Tensor, Tensor], Mapping[str, float]]

# A figure that is not in the catalogue is better when lower if its name holds one of these; of the short ones, only
# whole words count.
LOWER_IS_BETTER = ("loss", "error", "brier", "divergence", "regret", "perplexity")
LOWER_IS_BETTER_WORDS = {"ece", "ace", "mce", "nll", "kl", "mse", "rmse", "mae", "fpr", "fpr95", "fnr", "risk"}

LOG_LOSS = "log loss per row"


class StandardMetrics:
    """Mean average precision over labels, and the log loss per row where the scores mean probabilities.

    Args:
        link: Of the loss that is trained with.
    """

    def __init__(self, link: Link) -> None:
        self.link = link

    def names(self) -> list[str]:
        """The figures that it gives."""
        return ["mAP", LOG_LOSS] if self.link.gives_probs else ["mAP"]

    def __call__(self, scores: Tensor, targets: Tensor) -> dict[str, float]:
        """The figures of (N, K) scores and targets."""
        figures = {"mAP": MeanAveragePrecision().update(scores, targets).compute().value}
        if self.link.needs_fit and not bool(self.link.fitted):
            figures[LOG_LOSS] = math.nan  # as long as the link has seen no label
        elif self.link.gives_probs:
            buffer = next(self.link.buffers(), scores)  # the link may be on a GPU, with the loss
            result = LogLoss().update(self.link.probs(scores.to(buffer.device)).cpu(), targets).compute()
            figures[LOG_LOSS] = result.values["log_loss_per_row"]
        return figures


def lower_is_better(name: str) -> bool:
    """Whether less of a figure is better, by its name.

    Example:
        >>> [name for name in ("mAP", "log loss", "ECE", "top-5 error", "label_ace", "pace") if lower_is_better(name)]
        ['log loss', 'ECE', 'top-5 error', 'label_ace']
    """
    if name in METRIC_INFO:
        return METRIC_INFO[name].higher_is_better is False
    lowered = name.lower()
    words = set(re.findall(r"[a-z0-9]+", lowered))
    return bool(words & LOWER_IS_BETTER_WORDS) or any(part in lowered for part in LOWER_IS_BETTER)


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


def check_monitor(monitor: str, figures: Iterable[str], hint: str) -> None:
    """Raises an error if the monitored figure is none of those that are measured."""
    if monitor not in (names := list(figures)):
        rule = f"be one of the figures {', '.join(map(repr, names))}"
        raise InputError("monitor", "FitSettings", rule, repr(monitor), hint)


def score(
    network: Network, data: Batches, *, batch_size: int = 256, settings: FitSettings | DeviceContext | None = None
) -> tuple[Tensor, Tensor]:
    """The scores of every row that can be read, in the order of rows, the same on every process.

    Nothing is drawn or augmented, no row is scored twice, and the network stays in the mode it was in.

    Args:
        network: Gives the scores.
        data: The rows.
        batch_size: Rows at a time, over all processes.
        settings: Where to run and in which precision; by default the network stays where it is.

    Returns:
        Scores (n, K) in float32 and the numbers (n,) of their rows, both on the CPU.

    Example:
        >>> from manyhot.data.loading import FeatureBatches
        >>> from manyhot.data.targets import SparseTargets
        >>> data = FeatureBatches(torch.eye(3), SparseTargets.from_rows([[0], [], [1]], num_labels=2))
        >>> from manyhot.network import Network, score_batch
        >>> network = Network(None, mh.LinearHead(3, 2))
        >>> scores, rows = score(network, data, batch_size=2)
        >>> scores.shape, rows
        (torch.Size([3, 2]), tensor([0, 1, 2]))
    """
    check_int("batch_size", "score", batch_size, low=1)
    if settings is None:
        context = DeviceContext(next(network.parameters(), torch.empty(0)).device)
    else:
        context = open_device_context(settings) if isinstance(settings, FitSettings) else settings
        network.to(context.device)
    groups = groups_of_epoch(np.arange(len(data), dtype=np.int64), batch_size, 1, context.share)
    parts = [(torch.empty(0, data.targets.num_labels), torch.empty(0, dtype=torch.int64))]
    for batch in data.load(groups, epoch=None):
        if len(batch.rows):
            scores = score_batch(network, batch.inputs, autocast=context.autocast)
            parts.append((scores, batch.rows.cpu()))
    scores, rows = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    if context.world > 1:
        scores, rows = (torch.cat(gather(tensor)) for tensor in (scores, rows))
        order = rows.argsort()
        scores, rows = scores[order], rows[order]
    return scores, rows
