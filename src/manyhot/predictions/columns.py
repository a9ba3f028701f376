"""Columns of predictions: strings, targets in common forms, and conversion between tensors and Arrow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import rows_as_lists, to_dense_tensor
from manyhot.data.targets import SparseTargets, check_range
from manyhot.errors import InputError
from manyhot.labels import Labels
from manyhot.tables.arrow import as_numpy, pa


class StringColumn:
    """One text per row.

    Args:
        values: A list of texts, a range of row numbers, or a column of Arrow. The latter two become a list when it is
            asked for, because a million texts take longer than the probabilities of three labels.
    """

    def __init__(self, values: Any) -> None:
        self.values = values
        self._in_arrow = not isinstance(values, list | range)
        self._list: list[str] | None = values if isinstance(values, list) else None

    @property
    def numbered(self) -> bool:
        """Whether these are default ids, the row numbers."""
        return isinstance(self.values, range)

    @classmethod
    def check(cls, name: str, values: Any, rows: int) -> StringColumn:
        """The texts of an argument, numbers as digits; rejects a wrong number of rows and missing values."""
        if isinstance(values, StringColumn) and len(values) == rows:
            return values
        strings = values.tolist() if hasattr(values, "tolist") else values
        if isinstance(strings, str) or not isinstance(strings, Iterable):
            got = repr(strings) if isinstance(strings, str) else type(strings).__name__
            raise InputError(name, "Predictions", "be a list with one text per row", got, "Pass a list of strings.")
        strings = list(strings)
        if len(strings) != rows:
            hint = "Pass one for each row, in the order of the rows."
            raise InputError(name, "Predictions", f"have one text per row, {rows}", str(len(strings)), hint)
        for row, text in enumerate(strings):
            if isinstance(text, str):
                continue
            if isinstance(text, bool) or not isinstance(text, Integral):
                got = f"{text!r} in row {row}"
                raise InputError(name, "Predictions", "be texts or whole numbers", got, "Fill or drop these rows.")
            strings[row] = str(int(text))
        return cls(strings)

    @classmethod
    def concatenated(cls, parts: Sequence[StringColumn]) -> StringColumn:
        """The texts of several tables, one after the other."""
        if not all(part._in_arrow for part in parts):
            return cls([text for part in parts for text in part.tolist()])
        chunks = [chunk for part in parts for chunk in getattr(part.values, "chunks", [part.values])]
        return cls(pa.chunked_array(chunks, pa.string()))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> StringColumn:
        """The texts of a slice, or of an array of row numbers."""
        if isinstance(rows, slice):
            whole = rows.start == 0 and rows.stop >= len(self)
            return self if whole else StringColumn(self.values[rows])  # itself, because it keeps its list
        if self._in_arrow:
            return StringColumn(self.values.take(pa.array(rows)))
        return StringColumn([str(self.values[row]) for row in rows.tolist()])

    def tolist(self) -> list[str]:
        """The texts as a list, made once."""
        if self._list is None:
            self._list = self.values.to_pylist() if self._in_arrow else [str(number) for number in self.values]
        return self._list

    def equal(self, text: str) -> np.ndarray[Any, Any]:
        """(N,) bool, true where a row has this text."""
        if self._in_arrow:
            return as_numpy(pa.compute.equal(self.values, text))
        return np.array([value == text for value in self.tolist()], dtype=np.bool_)

    def counts(self) -> dict[str, int]:
        """How many rows have each text, in the order in which the texts first occur."""
        if self._in_arrow:
            return {pair["values"]: pair["counts"] for pair in self.values.value_counts().to_pylist()}
        return dict(Counter(self.tolist()))

    def first_duplicate(self) -> str | None:
        """A text that occurs twice, or None if all differ."""
        distinct = self.values if self.numbered else self.values.unique() if self._in_arrow else set(self.values)
        if len(distinct) == len(self):
            return None
        return next(text for text, count in self.counts().items() if count > 1)

    def arrow(self, name: str) -> Any:
        """The texts as a column of Arrow; rejects texts that UTF-8 cannot encode."""
        if self._in_arrow:
            return self.values
        strings = self.tolist()
        try:
            return pa.array(strings, pa.string())
        except UnicodeEncodeError:
            got = repr(next(text for text in strings if not is_encodable(text)))
            raise InputError(name, "save", "be valid Unicode", got, "Rename it, or replace the bad bytes.") from None


def is_encodable(text: str) -> bool:
    """Whether UTF-8 can hold a text: not so the odd bytes of a file name that is in another encoding."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def to_arrow_columns(cells: Tensor) -> list[Any]:
    """One column of Arrow for each column of (N, K), in memory of their own; targets that are -1 become nulls."""
    cells = cells[:, None] if cells.ndim == 1 else cells
    transposed = torch.empty(cells.shape[::-1], dtype=cells.dtype).copy_(cells.cpu().T).numpy()
    if cells.dtype != torch.int8:
        return [pa.array(column) for column in transposed]
    unknown = transposed < 0
    return [pa.array(row, mask=mask if mask.any() else None) for row, mask in zip(transposed, unknown, strict=True)]


def fill_from_arrow(cells: Tensor, columns: Sequence[Any]) -> None:
    """Writes columns of Arrow into (n, K); nulls become -1 in targets and NaN in scores and probabilities."""
    # The columns are laid side by side first, because torch turns such a block around tile by tile, much faster than
    # columns could be spread over rows one at a time.
    transposed = torch.empty(len(columns), len(cells), dtype=cells.dtype)
    blank = -1 if cells.dtype == torch.int8 else math.nan
    for row, column in zip(transposed.numpy(), columns, strict=True):
        floating, whole = column.type in (pa.float32(), pa.float64()), pa.types.is_signed_integer(column.type)
        as_it_is = whole and blank == -1 if column.null_count else whole or pa.types.is_boolean(column.type)
        column = column if floating or as_it_is else column.cast(pa.float64(), safe=False)
        row[:] = as_numpy(column.fill_null(blank) if column.null_count else column)
    cells.copy_(transposed.T)


def index_targets(rows: Iterable[Iterable[int]], num_labels: int) -> Tensor:
    """Targets (N, K) of a list of label columns for each row; what is not listed is absent.

    Args:
        rows: For each row the columns of its labels, of any number.
        num_labels: K.

    Example:
        >>> index_targets([[2, 0], []], 3)
        tensor([[1, 0, 1],
                [0, 0, 0]], dtype=torch.int8)
    """
    columns = [np.asarray(list(row)) for row in rows]
    for row, entries in enumerate(columns):
        if entries.size and not np.issubdtype(entries.dtype, np.integer):
            hint = "Pass column numbers; encode names with `Labels`."
            raise InputError("rows", "index_targets", "hold whole numbers", f"{entries[0]!r} in row {row}", hint)
    flat = np.concatenate([[], *columns], dtype=np.int64, casting="unsafe")
    check_range("rows", "index_targets", flat, num_labels, "Count the labels from 0, or raise `num_labels`.")
    return SparseTargets.from_rows(columns, num_labels=num_labels).dense()


def as_dense_targets(targets: Any, labels: Labels) -> Any:
    """Targets as a table of numbers: sparse matrices filled in, names encoded, anything else as it came."""
    if isinstance(targets, Tensor):
        return to_dense_tensor("Predictions", targets)
    if hasattr(targets, "tocoo") and hasattr(targets, "nnz"):
        return SparseTargets.from_sparse(targets, owner="Predictions").dense()
    targets = rows_as_lists(targets)
    if not isinstance(targets, list | tuple):
        return targets
    named = [_may_be_names(row) for row in targets]
    if all(named):
        return labels.encode(targets)
    if any(isinstance(row, str) or (names and row) for row, names in zip(targets, named, strict=True)):
        hint = "Pass ['cat', 'dog'] for a row of these two, and [] for one without labels."
        got = f"{targets[named.index(False)]!r} in row {named.index(False)}"
        raise InputError("targets", "Predictions", "be a list of label names for each row", got, hint)
    return targets


def _may_be_names(row: Any) -> bool:
    """Whether a row is a list of label names, which may be empty."""
    return isinstance(row, list | tuple | set | frozenset) and all(isinstance(name, str) for name in row)
