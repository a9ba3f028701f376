"""A network: a backbone that computes features, a head that computes scores; and the pass that scores a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from typing import Any

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


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Evaluation mode within the block; every module gets its own mode back afterwards."""
    training = [module for module in network.modules() if module.training]
    if training:
        network.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def score_batch(
    network: nn.Module, inputs: Tensor, *, autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> Tensor:
    """Scores of a `Network`, or features of a backbone, in float32 on the CPU: in evaluation mode, without gradients.

    Between two batches the network is in the mode it was in, so that the caller may train it meanwhile.

    Args:
        network: A `Network`, or a module from inputs to features.
        inputs: What it takes, on any device.
        autocast: Makes the context of the precision in which it computes.
    """
    own = next(chain(network.parameters(), network.buffers()), inputs)
    floating = inputs.is_floating_point() and own.is_floating_point()
    inputs = inputs.to(own.device, own.dtype if floating else inputs.dtype, non_blocking=True)
    compute = network.scores if isinstance(network, Network) else network
    with evaluation_mode(network), torch.no_grad(), autocast():
        outputs: Tensor = compute(inputs)
        return outputs.float().cpu()
