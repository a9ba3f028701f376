"""How the normaliser of the quasibinary loss moves while a network is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from manyhot.losses import Loss, QuasibinaryLoss

# A run is noted down at this many of its steps, and at fewer than twice as many.
POINTS = 500


class TracePoint(NamedTuple):
    """log C after a step.

    Attributes:
        step: How many steps of the run were done.
        batch: That of the batch of this step; None if it had no label.
        average: The moving average that the link keeps.
    """

    step: int
    batch: float | None
    average: float


class NormaliserTrace:
    """Notes down log C at evenly spaced steps; of a loss that does not read its scores by it, nothing.

    Values stay on the device until somebody asks for them, because reading makes it wait.

    Args:
        loss: The one that is trained.
        total: Steps of the whole run.
    """

    def __init__(self, loss: Loss, total: int) -> None:
        parts = [part for part in loss.modules() if isinstance(part, QuasibinaryLoss) and part.link is loss.link]
        self.loss = parts[0] if parts else None
        self.every = max(1, total // POINTS)
        self.read = torch.empty(0, 3, dtype=torch.float64)
        self.pending: list[tuple[int, Tensor, Tensor]] = []

    def note(self, step: int) -> None:
        """Notes down the values after this step, from 1, if it is one of those that are wanted."""
        if self.loss is not None and (step - 1) % self.every == 0:
            batch, average = self.loss.log_batch_normaliser, self.loss.link.log_normaliser
            self.pending.append((step, batch.detach().clone(), average.detach().clone()))

    def tensors(self) -> dict[str, Tensor]:
        """All that was noted, for a checkpoint."""
        if self.pending:
            steps, batches, averages = zip(*self.pending, strict=True)
            columns = [torch.tensor(steps), torch.stack(batches).cpu(), torch.stack(averages).cpu()]
            new = torch.stack([column.double() for column in columns], dim=1)
            self.read, self.pending = torch.cat([self.read, new]), []
        return {} if self.loss is None else {"trace.points": self.read}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up what a checkpoint holds."""
        self.read = tensors.get("points", self.read)

    def points(self) -> list[TracePoint]:
        """All that was noted, in the order of steps."""
        rows = self.tensors().get("trace.points", self.read).tolist()
        return [TracePoint(int(step), None if math.isnan(batch) else batch, average) for step, batch, average in rows]
