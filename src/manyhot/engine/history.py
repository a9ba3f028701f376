"""What a run records: tables of figures by epoch, and of what the loss reports of itself by step."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyhot.files import atomic_write
from manyhot.losses import Loss

EpochRecord = dict[str, Any]

# A run is recorded at this many of its steps, and at fewer than twice as many.
TRACE_POINTS = 500


def write_csv(records: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Writes one row per record; the whole table each time, so that a run which goes on leaves no row twice."""
    columns = list(dict.fromkeys(name for record in records for name in record))
    with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(columns)
        for record in records:
            values = [record.get(name) for name in columns]
            table.writerow(f"{value:.6g}" if isinstance(value, float) else value for value in values)


class LossTrace:
    """Records the `diagnostics` of a loss, or of the part that gives it its link, at evenly spaced steps.

    Args:
        loss: The one that is trained.
        total: Steps of the whole run.
    """

    def __init__(self, loss: Loss, total: int) -> None:
        parts = [part for part in loss.modules() if isinstance(part, Loss) and part.link is loss.link]
        self.part = next((part for part in parts if part.diagnostics() is not None), loss)
        self.every = max(1, total // TRACE_POINTS)
        # Values stay on the device until somebody asks for them, because reading makes it wait.
        self.rows: list[list[Any]] = []

    def record(self, step: int) -> None:
        """Takes in the values after this step, from 1, if it is one of those that are wanted."""
        if (step - 1) % self.every == 0 and (now := self.part.diagnostics()) is not None:
            self.rows.append([step, *(value.detach().clone() for value in now[1].values())])

    def read(self) -> list[list[float]]:
        """The step and the values of each record."""
        self.rows = [[float(value) for value in row] for row in self.rows]
        return self.rows

    def state(self) -> dict[str, Tensor]:
        """All records, for a checkpoint."""
        return {"points": torch.tensor(self.read(), dtype=torch.float64)} if self.rows else {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Takes up what a checkpoint holds."""
        self.rows = state["points"].tolist() if state else []

    def table(self) -> tuple[str, list[dict[str, Any]]]:
        """The name of the table and its rows; a value that was not a number is None."""
        name, columns = self.part.diagnostics() or ("", {})
        records = []
        for step, *values in self.read():
            known = [None if math.isnan(value) else value for value in values]
            records.append({"step": int(step), **dict(zip(columns, known, strict=True))})
        return name, records
