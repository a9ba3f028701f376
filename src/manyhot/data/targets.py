"""Sparse targets: a million rows of 500 labels need the memory of the cells that are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import as_tensor, check_target_values, describe_type, sparse_entries
from manyhot.errors import InputError
from manyhot.labels import UNKNOWN, Labels
from manyhot.tables.columns import Array, sort_names

UNLISTED = {"absent": 0, "unknown": UNKNOWN}
# Pairs of labels counted at once, to bound what is in memory.
PAIRS = 2**22


class SparseTargets:
    """Targets (N, K) of which only the cells that say something are stored, row by row.

    Args:
        starts: (N + 1,) where the cells of each row begin, and where those of the last one end.
        columns: (M,) the label of each stored cell, ascending within a row.
        values: (M,) 1 present, 0 absent, -1 unknown; all present by default.
        num_labels: Number K of labels.
        unlisted: What a cell that is not stored means, "absent" or "unknown".
        unknown_labels: (K,) bool, labels of which it means "unknown" in any case.

    Example:
        >>> targets = SparseTargets.from_rows([[2], [], [0, 1]], num_labels=3)
        >>> targets.dense([0, 2])
        tensor([[0, 0, 1],
                [1, 1, 0]], dtype=torch.int8)
        >>> targets.counts()
        array([1, 1, 1])
    """

    def __init__(
        self,
        starts: Array,
        columns: Array,
        values: Array | None = None,
        *,
        num_labels: int,
        unlisted: str = "absent",
        unknown_labels: Array | None = None,
    ) -> None:
        self.starts = np.ascontiguousarray(starts, dtype=np.int64)
        self.columns = np.ascontiguousarray(columns, dtype=np.int32)
        self.values = None if values is None else np.ascontiguousarray(values, dtype=np.int8)
        self.num_labels = num_labels
        rule, hint = "name columns from 0 to", "Count the labels again."
        check_range("columns", "SparseTargets", self.columns, num_labels, hint, rule)
        if unlisted not in UNLISTED:
            rule, hint = "be one of 'absent', 'unknown'", "Pick one of these."
            raise InputError("unlisted", "SparseTargets", rule, repr(unlisted), hint)
        self.unlisted, self.unknown_labels = unlisted, unknown_labels

    @property
    def background(self) -> Array:
        """(K,) the value of cells that are not stored, 0 or -1."""
        background = np.full(self.num_labels, UNLISTED[self.unlisted], dtype=np.int8)
        if self.unknown_labels is not None:
            background[self.unknown_labels] = UNKNOWN
        return background

    @classmethod
    def from_rows(cls, rows: Iterable[Iterable[int]], *, num_labels: int, unlisted: str = "absent") -> SparseTargets:
        """Targets of the columns that are present in each row; a column that is named twice counts once."""
        lists = [sorted(set(row)) for row in rows]
        columns = np.fromiter((column for row in lists for column in row), dtype=np.int64)
        starts = np.cumsum([0, *(len(row) for row in lists)])
        return cls(starts, columns, num_labels=num_labels, unlisted=unlisted)

    @classmethod
    def from_cells(
        cls,
        rows: Array,
        columns: Array,
        values: Array | None = None,
        *,
        shape: tuple[int, ...],
        unlisted: str = "absent",
        unknown_labels: Array | None = None,
    ) -> SparseTargets:
        """Targets of single cells in any order; of a cell that comes twice, the higher value holds.

        Args:
            rows: (M,) row numbers.
            columns: (M,) label numbers.
            values: (M,) 1, 0 or -1; all 1 by default.
            shape: (N, K).
            unlisted: What a cell that is not among these means.
            unknown_labels: As in the constructor.
        """
        values = np.ones(len(rows), dtype=np.int8) if values is None else np.asarray(values, dtype=np.int8)
        rows, columns = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
        # One key for all three, which is faster than `np.lexsort`, above all where cells are in order already.
        cells = rows * shape[1] + columns
        order = np.argsort(3 * cells + (1 - values), kind="stable")
        cells = cells[order]
        order = order[np.diff(cells, prepend=cells[:1] - 1) != 0]
        starts = np.cumsum(np.append(0, np.bincount(rows[order], minlength=shape[0])))
        columns, values = columns[order], values[order]
        stored = None if (values == 1).all() else values
        return cls(starts, columns, stored, num_labels=shape[1], unlisted=unlisted, unknown_labels=unknown_labels)

    @classmethod
    def from_dense(cls, targets: Tensor | Array) -> SparseTargets:
        """Targets (N, K) of 1, 0 and -1; whichever of absent and unknown is rarer gets stored."""
        cells = as_tensor("SparseTargets", targets, "targets").detach().cpu()
        if cells.ndim != 2:
            hint = "Pass one row per sample and one column per label."
            raise InputError("targets", "SparseTargets", "be (N, K)", str(tuple(cells.shape)), hint)
        check_target_values("SparseTargets", cells)
        dense = cells.numpy()
        # Whichever most cells are is not stored.
        unlisted = "unknown" if 2 * np.count_nonzero(dense == UNKNOWN) > dense.size else "absent"
        rows, columns = np.nonzero(dense != UNLISTED[unlisted])
        return cls.from_cells(rows, columns, dense[rows, columns], shape=dense.shape, unlisted=unlisted)

    @classmethod
    def from_sparse(cls, matrix: Any, *, owner: str = "SparseTargets") -> SparseTargets:
        """Targets of a sparse matrix of SciPy, of which cells that are not stored are absent; none is stored twice."""
        rows, columns, values = sparse_entries(owner, matrix)
        return cls.from_cells(rows, columns, values, shape=matrix.shape)

    def __len__(self) -> int:
        """The number N of rows."""
        return len(self.starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        return len(self), self.num_labels

    def __repr__(self) -> str:
        return f"SparseTargets({len(self):,} rows x {self.num_labels:,} labels; {len(self.columns):,} cells stored)"

    def dense(self, rows: Any = None) -> Tensor:
        """(n, K) int8 of the rows of these numbers, of all rows by default: 1 present, 0 absent, -1 unknown."""
        part = self if rows is None else self.take(rows)
        dense = np.broadcast_to(self.background, part.shape).copy()
        rows, columns, values = part.cells()
        dense[rows, columns] = values
        return torch.from_numpy(dense)

    def take(self, rows: Any) -> SparseTargets:
        """The rows of these numbers in their order, or those where a mask is true."""
        rows = as_row_numbers("SparseTargets", rows, len(self))
        lengths = self.starts[rows + 1] - self.starts[rows]
        taken = copy(self)
        taken.starts = np.cumsum(np.append(0, lengths))
        # Each cell's place: where its row starts here, plus how far it is from the first cell of its row.
        indices = np.arange(taken.starts[-1]) + np.repeat(self.starts[rows] - taken.starts[:-1], lengths)
        taken.columns = self.columns[indices]
        taken.values = None if self.values is None else self.values[indices]
        return taken

    def cells(self) -> tuple[Array, Array, Array]:
        """Rows, columns and values of the stored cells, row by row."""
        values = np.ones(len(self.columns), dtype=np.int8) if self.values is None else self.values
        return np.repeat(np.arange(len(self)), np.diff(self.starts)), self.columns, values

    def present(self) -> tuple[Array, Array]:
        """Rows and columns of the present labels, row by row."""
        rows, columns, values = self.cells()
        return (rows, columns) if self.values is None else (rows[values == 1], columns[values == 1])

    def counts(self) -> Array:
        """(K,) in how many rows each label is present."""
        return np.bincount(self.present()[1], minlength=self.num_labels)

    def known(self) -> Array:
        """(K,) in how many rows each label is known to be present or absent."""
        values = self.cells()[2]
        known, unknown = (np.bincount(self.columns[at], minlength=self.num_labels) for at in (values >= 0, values < 0))
        return np.where(self.background == 0, len(self) - unknown, known)

    def rates(self) -> Tensor:
        """(K,) float64, share of rows with each label among those where it is known, kept off 0 and 1 by half a row."""
        return torch.from_numpy((self.counts() + 0.5) / (self.known() + 1))

    def sizes(self) -> Array:
        """(N,) how many labels are present in each row."""
        return np.bincount(self.present()[0], minlength=len(self))

    def cooccurrence(self) -> Array:
        """(K, K) in how many rows each pair of labels is present together; the diagonal holds the counts."""
        K = self.num_labels
        dense = np.zeros(K * K, dtype=np.int64)
        rows, columns = self.present()
        starts = np.searchsorted(rows, np.arange(len(self) + 1))
        sizes = np.diff(starts)
        for size in np.unique(sizes[sizes > 0]).tolist():
            firsts = starts[:-1][sizes == size]
            for some in np.array_split(firsts, 1 + len(firsts) * size**2 // PAIRS):
                sets = columns[some[:, None] + np.arange(size)].astype(np.int64)
                dense += np.bincount((K * sets[:, :, None] + sets[:, None, :]).ravel(), minlength=K * K)
        return dense.reshape(K, K)

    def select(self, columns: Sequence[int]) -> SparseTargets:
        """The labels of these columns in their order, -1 for a new label of which no cell is stored; all rows stay."""
        indices = np.full(self.num_labels + 1, -1, dtype=np.int64)
        indices[list(columns)] = np.arange(len(columns))
        rows, old, values = self.cells()
        selected = indices[old] >= 0
        unknown_labels = self.unknown_labels
        if unknown_labels is not None:
            unknown_labels = np.append(unknown_labels, False)[list(columns)]
        cells = rows[selected], indices[old[selected]], values[selected]
        shape = (len(self), len(columns))
        return SparseTargets.from_cells(*cells, shape=shape, unlisted=self.unlisted, unknown_labels=unknown_labels)

    def extended(self, rows: int = 0, labels: int = 0) -> SparseTargets:
        """The same targets with more rows and more labels, which are unknown."""
        N, K = self.shape
        listed = np.flatnonzero(self.background == 0)
        added = np.repeat(np.arange(N, N + rows), len(listed)), np.tile(listed, rows)
        unknown_cells = (*added, np.full(rows * len(listed), UNKNOWN))
        cells = (np.concatenate(pair) for pair in zip(self.cells(), unknown_cells, strict=True))
        mask = self.unknown_labels
        if labels:
            mask = np.append(np.zeros(K, dtype=bool) if mask is None else mask, np.ones(labels, dtype=bool))
        shape = (N + rows, K + labels)
        return SparseTargets.from_cells(*cells, shape=shape, unlisted=self.unlisted, unknown_labels=mask)


def check_range(argument: str, owner: str, numbers: Any, end: int, hint: str, rule: str = "lie between 0 and") -> None:
    """Raises an error for a number below 0, or not below `end`."""
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < end):
        invalid = numbers.min() if numbers.min() < 0 else numbers.max()
        raise InputError(argument, owner, f"{rule} {end - 1}", str(int(invalid)), hint)


def as_row_numbers(owner: str, rows: Any, count: int) -> Array:
    """(n,) the numbers of some of `count` rows, which are given by numbers or by a mask; anything else is an error."""
    numbers = np.asarray(rows.cpu() if isinstance(rows, Tensor) else rows)
    if numbers.dtype == np.bool_ and numbers.shape == (count,):
        return np.flatnonzero(numbers)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        got = f"{numbers.shape} of {numbers.dtype}" if numbers.dtype.kind in "biuf" else describe_type(rows)
        hint = "Pass row numbers, or a mask with one entry per row."
        raise InputError("rows", owner, f"be (n,) whole numbers or ({count},) bool", got, hint)
    check_range("rows", owner, numbers, count, "Count the rows from 0.")
    return numbers.astype(np.int64)


def index_names(
    rows: Any, names: Sequence[str], values: Any = None, *, codes: Any = None, num_rows: int, unlisted: str = "absent"
) -> tuple[Labels, SparseTargets]:
    """Labels in order, and targets (N, K) of cells that name their label; a blank name is none.

    Args:
        rows: (M,) row numbers.
        names: (M,) the name of each cell, or those that `codes` refers to.
        values: (M,) 1, 0 or -1; all 1 by default.
        codes: (M,) the position in `names` of the name of each cell.
        num_rows: N.
        unlisted: What a cell that is not among these means.

    Example:
        >>> labels, targets = index_names([0, 0, 2], ["dog", "", "cat"], num_rows=3)
        >>> labels, targets.present()
        (Labels(2: cat, dog), (array([0, 2]), array([1, 0], dtype=int32)))
    """
    labels = Labels(sort_names({name for name in names if name}))
    index = {name: column for column, name in enumerate(labels.names)}
    columns = np.array([index.get(name, -1) for name in names], dtype=np.int64)
    columns = columns if codes is None else columns[codes]
    values = np.ones(len(columns), dtype=np.int8) if values is None else values
    cells = (np.asarray(part)[columns >= 0] for part in (rows, columns, values))
    return labels, SparseTargets.from_cells(*cells, shape=(num_rows, len(labels)), unlisted=unlisted)
