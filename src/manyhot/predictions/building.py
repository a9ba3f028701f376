"""Tables in memory, filled with pieces of Arrow as these come from files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from manyhot.cells import as_probs, as_scores
from manyhot.checks import check_values
from manyhot.labels import Labels
from manyhot.predictions.arrow import as_numpy, as_strings, import_arrow
from manyhot.predictions.cells import fill
from manyhot.predictions.header import ABSTAIN, TEXT_COLUMNS, column_names
from manyhot.predictions.memory import Predictions
from manyhot.predictions.parts import Part
from manyhot.predictions.texts import Texts


@dataclass(frozen=True)
class Wanted:
    """What is to be read of each row.

    Attributes:
        labels: Of which labels.
        dtypes: Which kinds, and in which types.
        texts: Which of ids, paths and splits.
        abstain: Whether also where a rule abstained.
    """

    labels: Labels
    dtypes: dict[str, torch.dtype]
    texts: tuple[str, ...]
    abstain: bool

    @classmethod
    def of(cls, parts: list[Part], labels: Labels, kinds: tuple[str, ...]) -> Wanted:
        """What the parts of a table hold of these labels and kinds; float64 if any part has that."""
        dtypes = {}
        for kind in kinds:
            found = {part.dtype(kind) for part in parts}
            dtypes[kind] = torch.float64 if torch.float64 in found else found.pop()
        return cls(labels, dtypes, parts[0].texts, parts[0].abstain and "decisions" in kinds)

    @property
    def columns(self) -> list[str]:
        """The names of these columns in the files."""
        of_rows = [TEXT_COLUMNS[name] for name in self.texts] + [ABSTAIN] * self.abstain
        return of_rows + [name for kind in self.dtypes for name in column_names(kind, self.labels.names)]


class Builder:
    """A table of a known number of rows, to be filled.

    Args:
        wanted: What each row holds.
        rows: How many rows there will be.

    Attributes:
        room: How many rows are still to come.
    """

    def __init__(self, wanted: Wanted, rows: int) -> None:
        self.wanted, self.rows, self.room = wanted, rows, rows
        shape = rows, len(wanted.labels)
        self._cells = {kind: torch.empty(shape, dtype=dtype) for kind, dtype in wanted.dtypes.items()}
        self._abstain = torch.empty(rows, dtype=torch.bool) if wanted.abstain else None
        self._texts: dict[str, list[Any]] = {name: [] for name in wanted.texts}

    def add(self, piece: Any) -> Any:
        """Takes as many rows of a record batch as there is room for, and returns the rest of it."""
        fitting = piece.slice(0, self.room)
        start = self.rows - self.room
        stop = start + len(fitting)
        places = {name: place for place, name in enumerate(fitting.schema.names)}
        for kind, cells in self._cells.items():
            named = column_names(kind, self.wanted.labels.names)
            fill(cells[start:stop], [fitting.column(places[name]) for name in named])
        for name, chunks in self._texts.items():
            chunks.append(as_strings(fitting.column(places[TEXT_COLUMNS[name]])))
        if self._abstain is not None:
            self._abstain.numpy()[start:stop] = as_numpy(fitting.column(places[ABSTAIN]))
        self.room -= len(fitting)
        return piece.slice(len(fitting))

    def table(self, made_by: dict[str, Any]) -> Predictions:
        """The filled table; its values are checked, because other programs may have written them."""
        owner = "StoredPredictions"
        for kind, cells in self._cells.items():
            if kind == "targets":
                check_values(owner, cells)
            elif kind != "decisions":
                (as_probs if kind == "probs" else as_scores)(owner, cells, name=kind)
        pa = import_arrow()
        texts = {name: Texts(pa.chunked_array(chunks, pa.string())) for name, chunks in self._texts.items()}
        return Predictions.trusted(self.wanted.labels, self._cells | texts | {"abstain": self._abstain}, made_by)
