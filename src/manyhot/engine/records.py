"""What a run writes down of each epoch: a table, and TensorBoard where wanted."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manyhot.files import whole_file

Epoch = dict[str, Any]


def write_table(history: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Writes one row an epoch; the whole table each time, so that a run which goes on leaves no row twice."""
    columns = list(dict.fromkeys(name for epoch in history for name in epoch))
    with whole_file(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows([_cell(epoch.get(name)) for name in columns] for epoch in history)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Board:
    """The same figures for TensorBoard.

    Args:
        folder: Where it looks for them.
        steps: How many steps were done before; what an earlier run wrote after them is taken back.
    """

    def __init__(self, folder: Path, *, steps: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ImportError(
                "`tensorboard=True` needs tensorboard. Install it with: pip install 'manyhot[vision]'"
            ) from None
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
