"""A first look at the targets of a table: what there is to be judged."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from manyhot.predictions.table import Table

# Cells that are in work at a time: small beside what torch itself takes, large enough to be fast.
CELLS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Survey:
    """How many rows, labels and cells there are.

    Attributes:
        rows: The rows of the table.
        unknown_rows: Rows without a known cell.
        empty_rows: Rows in which cells are known and none is present.
        most: The most labels of a row.
        known: (K,), the known cells of each label.
        present: (K,), the present cells of each label.
    """

    rows: int
    unknown_rows: int
    empty_rows: int
    most: int
    known: Tensor
    present: Tensor

    @property
    def labelled_rows(self) -> int:
        """Rows with a label."""
        return self.rows - self.unknown_rows - self.empty_rows

    @property
    def known_cells(self) -> int:
        """Cells whose target is known."""
        return int(self.known.sum())

    @property
    def single_label(self) -> bool:
        """Whether there are labels to choose from, and every row has one at the most."""
        return len(self.known) > 1 and self.most == 1

    def counts(self) -> dict[str, int]:
        """What a reader wants to know first."""
        return {
            "rows": self.rows,
            "labels": len(self.known),
            "present cells": int(self.present.sum()),
            "unknown cells": self.rows * len(self.known) - self.known_cells,
            "rows without labels": self.empty_rows,
            "rows without known cells": self.unknown_rows,
            "labels without positives": int((self.present == 0).sum()),
        }


def rows_at_once(table: Table) -> int:
    """How many rows of a table to work with at a time."""
    return max(1, CELLS_AT_ONCE // max(1, len(table.labels)))


def survey(table: Table) -> Survey:
    """Goes through the targets of a table once."""
    rows = unknown = empty = most = 0
    known = present = torch.zeros(len(table.labels), dtype=torch.int64)
    for batch in table.batches(rows_at_once(table), kinds=["targets"]):
        targets = batch.targets
        assert targets is not None
        marks, seen = targets > 0, targets >= 0
        counts, some = marks.sum(1), seen.any(1)
        rows += len(targets)
        unknown += int((~some).sum())
        empty += int((some & (counts == 0)).sum())
        most = max(most, int(counts.max()) if counts.numel() else 0)
        known, present = known + seen.sum(0).cpu(), present + marks.sum(0).cpu()
    return Survey(rows, unknown, empty, most, known, present)
