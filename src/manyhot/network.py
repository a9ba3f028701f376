"""A network: a backbone that computes features, a head that computes scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyhot.checks import check_choice
from manyhot.heads import TwoHeads

READINGS = ("plain", "log-softmax", "multi")


class Network(nn.Module):
    """A backbone and a head, from samples to scores.

    Args:
        backbone: From samples to features (N, D); None where the samples are features already.
        head: From features to the input of the loss.
        reading: How the output of the head becomes one score per cell that is comparable across rows: "plain" for the
            output itself, "log-softmax" for losses that ignore a constant added to a row, "multi" for `TwoHeads`.
    """

    def __init__(self, backbone: nn.Module | None, head: nn.Module, *, reading: str = "plain") -> None:
        super().__init__()
        self.backbone, self.head = backbone, head
        self.reading = check_choice("reading", "Network", reading, READINGS)

    def forward(self, inputs: Tensor) -> Tensor:
        """The input of the loss: (N, K), or (N, M, K) for several heads."""
        outputs: Tensor = self.head(inputs if self.backbone is None else self.backbone(inputs))
        return outputs

    def scores(self, inputs: Tensor) -> Tensor:
        """(N, K), the scores of each sample for calibrators, rules and metrics."""
        return self.read(self(inputs))

    def read(self, outputs: Tensor) -> Tensor:
        """(N, K) scores of the output of `forward`."""
        if self.reading == "multi":
            return TwoHeads.select(outputs, "multi")
        wide = outputs if outputs.dtype == torch.float64 else outputs.float()
        wide = wide.mean(1) if wide.ndim == 3 else wide  # heads that were trained side by side
        return wide.log_softmax(1) if self.reading == "log-softmax" else wide
