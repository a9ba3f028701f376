"""A table that a query is put to, wherever its columns are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

# A query is put to a sample of about so many rows first, to learn what cannot be among the best.
SAMPLE_ROWS = 32768

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Cells:
    """The columns of a relation in memory.

    Attributes:
        rows: (N,), the numbers of the rows.
        probs: The probabilities (N,) of each label, by its number.
        samples: Some of these, taken from the same rows for all labels.
    """

    rows: Array
    probs: dict[int, Array]
    samples: dict[int, Array]


@dataclass(frozen=True)
class Relation:
    """A table in the database.

    Attributes:
        rows: The rows as SQL that can stand after FROM.
        sample: The same, of some of the rows.
        share: How many of the rows are in the sample, as a share.
        labels: The SQL name of the column of each label, by its number.
        row: SQL names that tell a row: its texts, or its number.
        order: SQL names that put rows in the order of the table.
        narrow: Whether all probabilities are of single precision.
        tables: What the database has to know under these names first.
        cells: The columns themselves, if they are in memory.
    """

    rows: str
    sample: str
    share: float
    labels: dict[int, str]
    row: tuple[str, ...]
    order: tuple[str, ...]
    narrow: bool
    tables: dict[str, Any] = field(default_factory=dict)
    cells: Cells | None = None
