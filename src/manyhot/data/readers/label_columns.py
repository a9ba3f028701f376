"""One column a label: 1 present, 0 absent, blank or -1 unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from manyhot.data.readers.said import Said
from manyhot.data.targets import SparseTargets
from manyhot.predictions.arrow import as_numpy, import_arrow
from manyhot.predictions.cells import read_words
from manyhot.predictions.roles import listed
from manyhot.refusal import refusal

Array = np.ndarray[Any, Any]

RULE = "hold 1, 0, -1 or blank for each label"


class LabelColumns:
    """Cells of some columns, batch by batch; only those that say something are kept.

    Args:
        names: The columns.
        said: What the user said; `unlisted` is what a blank means.
    """

    def __init__(self, names: Sequence[str], said: Said) -> None:
        self.names, self._owner = list(names), said.owner
        self._blank = 0 if said.means("unknown") == "absent" else -1
        self._unlisted: int | None = None
        self._parts: list[tuple[Array, Array, Array]] = []
        self._rows = 0
        self._counts = {"blank": 0, "absent": 0}

    def add(self, batch: Any) -> None:
        """Takes the next rows."""
        if not self.names or not batch.num_rows:
            return
        table = np.stack([self._column(batch, name) for name in self.names], axis=1)
        if self._unlisted is None:
            # Whichever of absent and unknown is common is not stored; the first rows tell.
            self._unlisted = -1 if 2 * np.count_nonzero(table == -1) > table.size else 0
        rows, columns = np.nonzero(table != self._unlisted)
        self._parts.append((rows + self._rows, columns, table[rows, columns]))
        self._rows += batch.num_rows

    def _column(self, batch: Any, name: str) -> Array:
        pa = import_arrow()
        column = read_words(batch.column(name), name, self._owner, "path")
        types = pa.types
        if not any(
            fits(column.type) for fits in (types.is_boolean, types.is_integer, types.is_floating, types.is_null)
        ):
            remedy = "Name the columns of labels with `labels`."
            raise refusal("path", self._owner, RULE, f"text in column {name!r}", remedy)
        numbers = as_numpy(column.cast(pa.float32()).fill_null(float("nan")))
        blank = np.isnan(numbers)
        self._counts["blank"] += int(blank.sum())
        values = np.where(blank, self._blank, numbers)
        wrong = (values != 0) & (values != 1) & (values != -1)
        if wrong.any():
            got = f"{values[wrong][0]:g} in column {name!r}, row {self._rows + int(np.argmax(wrong)) + 1}"
            remedy = "Name the columns of labels with `labels`."
            raise refusal("path", self._owner, RULE, got, remedy)
        self._counts["absent"] += int(np.count_nonzero(numbers == 0))
        return values.astype(np.int8)

    def targets(self, rows: int) -> SparseTargets:
        """(rows, K)."""
        unlisted = "unknown" if self._unlisted == -1 else "absent"
        parts = self._parts or [(np.empty(0, np.int64),) * 3]
        row, column, value = (np.concatenate(some) for some in zip(*parts, strict=True))
        return SparseTargets.from_cells(row, column, value, shape=(rows, len(self.names)), unlisted=unlisted)

    def note(self) -> str:
        """A clause about the columns."""
        note = f"one column a label, {listed(self.names)}"
        if self._counts["blank"]:
            note += f"; blank cells are {'unknown' if self._blank else 'absent'}"
            if self._blank and not self._counts["absent"]:
                note += " (no cell is 0: pass unlisted='absent' if a blank means that the label is not there)"
        return note
