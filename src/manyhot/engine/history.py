"""What a run records: the table of epochs, TensorBoard, and the normaliser of the quasibinary loss."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyhot.errors import require
from manyhot.files import atomic_write
from manyhot.losses import Loss, QuasibinaryLoss

EpochRecord = dict[str, Any]


def write_csv(history: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Writes one row an epoch; the whole table each time, so that a run which goes on leaves no row twice."""
    columns = list(dict.fromkeys(name for epoch in history for name in epoch))
    with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows([_cell(epoch.get(name)) for name in columns] for epoch in history)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class TensorBoardLog:
    """The same figures for TensorBoard.

    Args:
        folder: Where it looks for them.
        steps: How many steps were done before; what an earlier run wrote after them is taken back.
    """

    def __init__(self, folder: Path, *, steps: int) -> None:
        require("tensorboard", "Runs with `tensorboard=True`", extra="vision")
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder), purge_step=steps + 1)

    def write(self, epoch: Mapping[str, Any]) -> None:
        """Adds the figures of an epoch."""
        for name, value in epoch.items():
            if isinstance(value, float):
                self.writer.add_scalar(name, value, global_step=epoch["steps"])
        self.writer.flush()

    def close(self) -> None:
        """Ends the file."""
        self.writer.close()


# A run is noted down at this many of its steps, and at fewer than twice as many.
TRACE_POINTS = 500


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
        self.every = max(1, total // TRACE_POINTS)
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
