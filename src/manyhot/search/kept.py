"""Columns in memory, for the next query that names them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from manyhot.predictions.arrow import import_arrow
from manyhot.search.relation import SAMPLE_ROWS, Relation
from manyhot.search.sql import quote_name

CELL_BYTES = 4
# Rows in one piece of a column, which one thread works on.
PIECE_ROWS = 131072
# Picking rows pays if not more than this share of them is left after the first label.
WORTH_PICKING = 0.25

Array = np.ndarray[Any, Any]
Bound = tuple[int, float | None, float | None]

Column = int | str
"""The probabilities of a label by its number, or the texts of "id" or "path"."""


class Loader(Protocol):
    """What gives whole columns: files, or a table in memory."""

    @property
    def size(self) -> int:
        """How many rows there are."""

    def load(self, columns: Sequence[Column]) -> list[Any]:
        """The columns of Arrow, in the order of the rows."""


class KeptColumns:
    """Columns that have been asked for, in memory up to a limit; those not asked for longest go first.

    Args:
        loader: What reads them.
        limit: The most bytes to keep; None for no limit.
    """

    def __init__(self, loader: Loader, limit: int | None) -> None:
        self._loader, self._limit = loader, limit
        self._kept: OrderedDict[Column, Any] = OrderedDict()
        self._samples: dict[Column, Array] = {}
        self._relations: dict[tuple[int, ...], Relation] = {}
        self._rows = _numbers(loader.size) if limit != 0 else np.zeros(0)
        self._step = max(1, loader.size // SAMPLE_ROWS)

    def relation(self, labels: Sequence[int]) -> Relation | None:
        """The columns of these labels as a table in memory; None if they are more than may be kept."""
        if self._limit is not None and (self._limit == 0 or self._bytes(labels) > self._limit):
            return None
        columns = dict(zip(labels, self.columns(labels), strict=True))
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
                "kept": _table(self._rows, columns),
                "kept_sample": _table(self._rows[:: self._step], samples),
            },
        )

    def guess(self, literals: Sequence[tuple[int, bool]], place: int) -> float:
        """The probability that labels are present, or absent, which takes this place among those of the sample."""
        probs = np.ones(len(self._rows[:: self._step]))
        for label, wanted in literals:
            self.columns([label])
            cells = self._samples[label].astype(np.float64)
            probs *= cells if wanted else 1 - cells
        place = min(place, len(probs))
        return float(np.partition(probs, -place)[-place]) if place else 0.0

    def pick(self, relation: Relation, bounds: Sequence[Bound]) -> Relation:
        """The relation without rows of which one label alone says that they are not wanted, where that is quick.

        A comparison of one column with a number runs as fast as memory; after that of the label that rules out the
        most rows, few are left to look at.
        """
        rows = None
        for bound in sorted(bounds, key=lambda bound: _within(self._samples[bound[0]], bound).mean()):
            (cells,) = self.columns(bound[:1])
            if rows is None:
                rows = np.flatnonzero(_within(cells, bound))
                if len(rows) > WORTH_PICKING * len(self._rows):
                    return relation
            else:
                rows = rows[_within(cells[rows], bound)]
        if rows is None:
            return relation
        picked = {label: self.columns([label])[0][rows] for label in relation.labels}
        return replace(relation, rows="picked", tables={"picked": _table(self._rows[rows], picked)})

    def columns(self, wanted: Sequence[Column]) -> list[Any]:
        """Whole columns, read now unless they are in memory: arrays of probabilities, and Arrow's arrays of texts."""
        missing = [column for column in wanted if column not in self._kept]
        for column, values in zip(missing, self._loader.load(missing) if missing else [], strict=True):
            whole = values.combine_chunks() if hasattr(values, "combine_chunks") else values
            self._kept[column] = whole.to_numpy() if isinstance(column, int) else whole
            if isinstance(column, int):
                self._samples[column] = self._kept[column][:: self._step].copy()
        for column in wanted:
            self._kept.move_to_end(column)
        found = [self._kept[column] for column in wanted]
        self._forget(len(wanted))
        return found

    def _bytes(self, labels: Sequence[int]) -> int:
        return self._loader.size * CELL_BYTES * len(labels)

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


def _within(cells: Array, bound: Bound) -> Array:
    """Which of some probabilities lie within a bound, of which rounding to their precision excludes nothing."""
    _, low, high = bound
    number = cells.dtype.type
    inside: Array
    if low is not None:
        inside = cells >= np.nextafter(number(low), number(-1))
    else:
        assert high is not None
        inside = cells <= np.nextafter(number(high), number(2))
    return inside


def _table(rows: Array, columns: dict[int, Array]) -> Any:
    """A table of Arrow that shares the memory of arrays, in pieces for several threads."""
    pa = import_arrow()
    arrays = {"row": rows} | {f"label_{label}": cells for label, cells in columns.items()}
    starts = range(0, max(len(rows), 1), PIECE_ROWS)
    pieces = {name: [pa.array(cells[start : start + PIECE_ROWS]) for start in starts] for name, cells in arrays.items()}
    return pa.table({name: pa.chunked_array(chunks) for name, chunks in pieces.items()})
