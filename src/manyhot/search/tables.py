"""Any table of predictions as columns of Arrow; only here does search compute probabilities from scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhot.predictions.arrow import import_arrow
from manyhot.search.kept import Column

if TYPE_CHECKING:
    from manyhot.predictions.table import Table


class TableColumns:
    """The columns of any table of predictions.

    Args:
        table: In memory or on disk; it must have probabilities, or scores and what turns them into such.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.labels = table.labels.names
        self.size = len(table)
        first = next(table.batches(1))
        self.cell_bytes = first.probabilities().element_size()  # refuses at once what has none
        self.texts = ["id"] if first.paths is None else ["id", "path"]

    def load(self, columns: Sequence[Column]) -> list[Any]:
        """The columns of Arrow."""
        labels = [column for column in columns if isinstance(column, int)]
        names = [self.labels[label] for label in labels]
        loaded: dict[Column, Any] = {}
        if labels:
            part = self.table.read(labels=names)
            cells = part.probabilities().detach().cpu().numpy()
            for place, label in enumerate(labels):
                loaded[label] = import_arrow().array(np.ascontiguousarray(cells[:, place]))
        if len(labels) < len(columns):
            texts = self.table.read(labels=[], kinds=self.table.kinds[:1])
            loaded |= {"id": import_arrow().array(texts.ids), "path": import_arrow().array(texts.paths or [])}
        return [loaded[column] for column in columns]
