"""Columns in memory, for the next query that names them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from manyhot.predictions.arrow import import_arrow
from manyhot.search.relation import SAMPLE_ROWS, Array, Cells, Relation
from manyhot.search.sql import quote_name

# Rows in one piece of a column, which one thread works on.
PIECE_ROWS = 131072

Column = int | str
"""The probabilities of a label by its number, or the texts of "id" or "path"."""


class Loader(Protocol):
    """What gives whole columns: files, or a table in memory."""

    @property
    def size(self) -> int:
        """How many rows there are."""

    @property
    def cell_bytes(self) -> int:
        """How many bytes a probability takes."""

    def load(self, columns: Sequence[Column]) -> list[Any]:
        """The columns of Arrow, in the order of the rows."""


class KeptColumns:
    """Columns that have been asked for, in memory up to a limit; those not asked for longest go first.

    Several threads may ask at once.

    Args:
        loader: What reads them.
        limit: The most bytes to keep; None for no limit.
    """

    def __init__(self, loader: Loader, limit: int | None) -> None:
        self._loader, self._limit = loader, limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[Column, Any] = OrderedDict()
        self._samples: dict[Column, Array] = {}
        self._relations: dict[tuple[int, ...], Relation] = {}
        self._rows = _numbers(loader.size) if limit != 0 else np.zeros(0)
        self._step = max(1, loader.size // SAMPLE_ROWS)

    def relation(self, labels: Sequence[int]) -> Relation | None:
        """The columns of these labels as a table in memory; None if they are more than may be kept."""
        needed = self._loader.size * self._loader.cell_bytes * len(labels)
        if self._limit is not None and (self._limit == 0 or needed > self._limit):
            return None
        with self._lock:
            columns = dict(zip(labels, self._columns(labels), strict=True))
            relation = self._relations.get(tuple(labels))
            if relation is None:
                relation = self._relations[tuple(labels)] = self._new_relation(columns)
        return relation

    def _new_relation(self, columns: dict[int, Array]) -> Relation:
        samples = {label: self._samples[label] for label in columns}
        return Relation(
            rows="kept",
            sample="kept_sample",
            share=1 / self._step,
            labels={label: quote_name(f"label_{label}") for label in columns},
            row=(quote_name("row"),),
            order=(quote_name("row"),),
            narrow=all(cells.dtype == np.float32 for cells in columns.values()),
            tables={
                "kept": table_of(self._rows, columns),
                "kept_sample": table_of(self._rows[:: self._step], samples),
            },
            cells=Cells(self._rows, columns, samples),
        )

    def texts(self, names: Sequence[str]) -> list[Any]:
        """Whole columns of texts, as arrays of Arrow."""
        with self._lock:
            return self._columns(names)

    def _columns(self, wanted: Sequence[Column]) -> list[Any]:
        """Whole columns, read now unless they are in memory: arrays of probabilities, and Arrow's arrays of texts."""
        missing = [column for column in wanted if column not in self._kept]
        for column, values in zip(missing, self._loader.load(missing) if missing else [], strict=True):
            whole = values.combine_chunks() if hasattr(values, "combine_chunks") else values
            if isinstance(column, int):
                cells = self._kept[column] = whole.to_numpy()
                self._samples[column] = cells[:: self._step].copy()
            else:
                self._kept[column] = whole
        for column in wanted:
            self._kept.move_to_end(column)
        found = [self._kept[column] for column in wanted]
        self._forget(len(wanted))
        return found

    def _forget(self, recent: int) -> None:
        """Lets go of the oldest columns beyond the limit, but not of those that were asked for just now."""
        while self._limit is not None and len(self._kept) > recent:
            if sum(values.nbytes for values in self._kept.values()) <= self._limit:
                return
            column, _ = self._kept.popitem(last=False)
            self._samples.pop(column, None)
            self._relations.clear()


def _numbers(rows: int) -> Array:
    return np.arange(rows, dtype=np.int32 if rows < 2**31 else np.int64)


def table_of(rows: Array, columns: dict[int, Array]) -> Any:
    """A table of Arrow that shares the memory of arrays, in pieces for several threads."""
    pa = import_arrow()
    arrays = {"row": rows} | {f"label_{label}": cells for label, cells in columns.items()}
    starts = range(0, max(len(rows), 1), PIECE_ROWS)
    pieces = {name: [pa.array(cells[start : start + PIECE_ROWS]) for start in starts] for name, cells in arrays.items()}
    return pa.table({name: pa.chunked_array(chunks) for name, chunks in pieces.items()})
