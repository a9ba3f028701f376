"""Tuning of the thresholds of all labels, a few columns at a time.

In numpy, because its sorting and counting are several times as fast as torch's on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from manyhot.decide.cuts import row_blocks
from manyhot.decide.goals import Array, Curve, Goal, number_from

# Sets of cells up to this size are sorted whole; of larger ones, first those are left out that cannot matter.
SMALL = 1 << 16
# Columns copied at once, as many float32 numbers as a line of the cache holds, in tiles of rows that stay in it.
COLUMNS, ROWS = 16, 4096
# Cells of all labels looked at in one go: few enough to stay in the cache while they are counted several times.
BLOCK = 1 << 18


class Tuned(NamedTuple):
    """What was found for each label.

    Attributes:
        thresholds: (K,), in the type of the values.
        common: The threshold that is best for all labels together; NaN if nobody needed it.
        reached: (K,), whether the label's own cells settled its threshold.
    """

    thresholds: Array
    common: Any
    reached: Array


def tune(values: Array, targets: Array, goal: Goal, shrink: float) -> Tuned:
    """The thresholds of all labels for values and targets (N, K) of 1, 0 and -1."""
    labels = values.shape[1]
    thresholds, reached = np.full(labels, np.inf, dtype=values.dtype), np.zeros(labels, dtype=bool)
    common = values.dtype.type(np.nan)
    if shrink > 0 or not (targets == 1).any(0).all():
        cut = _all_cells(values, targets).best(goal)
        common = values.dtype.type(np.inf) if cut is None else cut.threshold()
    for label, cells in enumerate(_columns(values, targets)):
        if len(cells.present) == 0:
            thresholds[label] = common
            continue
        cut = cells.best(goal, common)
        if cut is not None:
            thresholds[label], reached[label] = cut.drawn_towards(common, shrink), True
    return Tuned(thresholds, common, reached)


class _Cells:
    """The known cells of one label, or of all of them.

    Args:
        blocks: Returns the cells in one or more blocks, whenever it is called.
        present: The values of present cells.
        size: How many cells there are.
    """

    def __init__(self, blocks: Callable[[], Iterable[Array]], present: Array, size: int) -> None:
        self.blocks, self.present, self.size = blocks, np.sort(present), size

    def count(self, values: Array) -> Array:
        """How many cells are at least as large as each value."""
        counts = np.zeros(len(values), dtype=np.int64)
        for block in self.blocks():
            counts += [np.count_nonzero(block >= value) for value in values]
        return counts

    def above(self, floor: Any) -> Array:
        """The cells that are at least as large as a floor, ascending."""
        found = np.concatenate([block[block >= floor] for block in self.blocks()])
        found.sort()
        return found

    def below(self, value: Any) -> Any:
        """The largest cell below a value, or minus infinity."""
        low = value.dtype.type(-np.inf)
        return max(block[block < value].max(initial=low) for block in self.blocks())

    def best(self, goal: Goal, common: Any = np.nan) -> _Cut | None:
        """The best cut-off for a goal, together with all cells down to the common threshold; None if there is none."""
        if len(self.present) == 0:
            return None
        floor = self.present[0] if self.size <= SMALL else goal.floor(self.present, self.count)
        values = _distinct(self.present[self.present >= floor])
        upper = self.above(np.fmin(floor, common))
        curve = Curve(number_from(self.present, values), number_from(upper, values), len(self.present))
        place = goal.best(curve)
        return None if place is None else _Cut(self, upper, int(curve.given[place]))


class _Cut(NamedTuple):
    """A cut-off: the `given` largest of the cells of which `upper` are the largest, ascending."""

    cells: _Cells
    upper: Array
    given: int

    def threshold(self) -> Any:
        """Halfway between the smallest cell that is given and the largest that is not."""
        if self.given == 0:
            return self.upper.dtype.type(np.inf)
        high = self.upper[-self.given]
        low = self.upper[-self.given - 1] if self.given < len(self.upper) else self.cells.below(high)
        # Nothing reaches an infinite threshold, so infinite cells are given from the largest number on.
        middle = np.finfo(high.dtype).max if high == np.inf else low / 2 + high / 2
        return middle if middle > low else high

    def drawn_towards(self, common: Any, shrink: float) -> Any:
        """The threshold that gives a number of cells between this cut-off's and that of the common threshold."""
        own, positives = self.threshold(), len(self.cells.present)
        if shrink == 0 or not np.isfinite(common):
            return own
        weight, shared = positives / (positives + shrink), int(number_from(self.upper, common))
        # Half a cell more, so that giving none has a logarithm.
        mean = math.exp(weight * math.log(self.given + 0.5) + (1 - weight) * math.log(shared + 0.5)) - 0.5
        return np.clip(self._replace(given=round(mean)).threshold(), min(own, common), max(own, common))


def _distinct(ascending: Array) -> Array:
    new = np.ones(len(ascending), dtype=bool)
    new[1:] = ascending[1:] > ascending[:-1]
    return np.compress(new, ascending)


def _columns(values: Array, targets: Array) -> Iterator[_Cells]:
    """The known cells of each label, to be used before the next ones are asked for."""
    rows, labels = values.shape
    block, marks = np.empty((COLUMNS, rows), values.dtype), np.empty((COLUMNS, rows), targets.dtype)
    for first in range(0, labels, COLUMNS):
        columns = slice(first, min(first + COLUMNS, labels))
        width = columns.stop - first
        for start in range(0, rows, ROWS):
            tile = slice(start, start + ROWS)
            block[:width, tile], marks[:width, tile] = values[tile, columns].T, targets[tile, columns].T
        for cells, marked in zip(block[:width], marks[:width], strict=True):
            known = cells[marked >= 0] if (marked < 0).any() else cells
            yield _Cells(lambda known=known: [known], cells[marked == 1], len(known))  # type: ignore[misc]


def _all_cells(values: Array, targets: Array) -> _Cells:
    """The known cells of all labels, a few rows at a time."""
    size = int(np.count_nonzero(targets >= 0))

    def blocks() -> Iterator[Array]:
        for rows in row_blocks(values.shape, BLOCK):
            yield values[rows].ravel() if size == values.size else values[rows][targets[rows] >= 0]

    return _Cells(blocks, values[targets == 1], size)
