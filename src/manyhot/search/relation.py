"""A table that a query is put to, wherever its columns are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# A query is put to a sample of about so many rows first, to learn what cannot be among the best.
SAMPLE_ROWS = 32768


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
        tables: What has to be registered under these names first.
    """

    rows: str
    sample: str
    share: float
    labels: dict[int, str]
    row: tuple[str, ...]
    order: tuple[str, ...]
    narrow: bool
    tables: dict[str, Any] = field(default_factory=dict)
