"""Targets that come from elsewhere: another file, joined by id, or an array, row by row."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from manyhot.checks import check_values
from manyhot.labels import Labels
from manyhot.predictions.archives import read_targets
from manyhot.predictions.arrow import as_numpy, as_strings, import_arrow
from manyhot.predictions.cells import read_target_cells
from manyhot.predictions.columns import as_tensor
from manyhot.predictions.forms import check_form, is_archive
from manyhot.predictions.label_lists import LabelLists, NameReader
from manyhot.predictions.roles import Wish, assign_targets_file, listed
from manyhot.predictions.row_texts import RowTexts, with_slashes
from manyhot.predictions.sources import open_source
from manyhot.predictions.targets import dense
from manyhot.predictions.texts import Texts
from manyhot.refusal import refusal


class TargetsSource(Protocol):
    """Where the targets of a batch come from."""

    def columns(self, ids: Texts, paths: Texts | None, start: int) -> dict[str, Any]:
        """Targets (n, K), and splits where known, of rows with these ids and paths; `start` numbers the first row."""

    def finish(self, rows: int) -> list[str]:
        """What was found out, once all `rows` rows have been asked for; refuses targets that do not fit them."""


def open_targets(given: Any, labels: Labels, wish: Wish) -> TargetsSource:
    """Targets of a file, or of anything that `Predictions` takes."""
    if not isinstance(given, str | os.PathLike):
        return Aligned(dense(given, labels), wish.owner)
    check_form(given, wish.owner, "targets")
    if is_archive(given):
        return Aligned(dense(read_targets(Path(given), wish.owner), labels), wish.owner)
    return Joined(given, labels, wish)


class Aligned:
    """Targets in the order of the predictions."""

    def __init__(self, targets: Any, owner: str) -> None:
        self._targets, self._owner = as_tensor(targets), owner

    def columns(self, ids: Texts, paths: Texts | None, start: int) -> dict[str, Any]:
        """The next rows."""
        stop = start + len(ids)
        if stop > len(self._targets):
            self._refuse_count(f"at least {stop}")
        return {"targets": self._targets[start:stop]}

    def finish(self, rows: int) -> list[str]:
        """Refuses targets that are left over."""
        if rows != len(self._targets):
            self._refuse_count(str(rows))
        return ["Targets are taken row by row."]

    def _refuse_count(self, rows: str) -> None:
        remedy = "Pass a table of targets with an id column to join them."
        rule = f"have as many rows as the predictions, {rows}"
        raise refusal("targets", self._owner, rule, str(len(self._targets)), remedy)


class Joined:
    """Targets of another file, looked up by id or path; rows that are not in it are unknown.

    Args:
        path: CSV, TSV or Parquet.
        labels: The labels of the predictions.
        wish: What the user said about the columns.
    """

    def __init__(self, path: str | os.PathLike[str], labels: Labels, wish: Wish) -> None:
        self._labels, self._wish, self._name = labels, wish, Path(path).name
        source = open_source(path, wish.owner)
        named = wish.id_column if wish.id_column in source.columns else None
        self._roles = assign_targets_file(source.columns, replace(wish, id_column=named), labels)
        self._key = self._roles.key
        if self._key is None:
            rule, got = "have a column of ids or paths", f"the columns {listed(source.columns)}"
            raise refusal("targets", wish.owner, rule, got, "Name it with `id_column`.")
        self._notes, self._texts = list(source.notes), RowTexts()
        self._found, self._example = 0, ""
        self._load(list(source.pieces(self._roles)))

    def columns(self, ids: Texts, paths: Texts | None, start: int) -> dict[str, Any]:
        """The targets of the rows of these ids, or of these paths where the file has only paths."""
        given = ids if paths is None or self._roles.id is not None else paths
        keys = [key.replace("\\", "/") for key in given.tolist()]
        places = np.fromiter((self._places.get(key, -1) for key in keys), dtype=np.int64, count=len(keys))
        known = places >= 0
        rows = places[known]
        self._met[rows] = True
        self._found += len(rows)
        self._example = keys[0] if keys else ""
        count = len(self._labels)
        targets = torch.full((len(keys), count), -1, dtype=torch.int8)
        found = self._rows[torch.from_numpy(rows)] if self._lists is None else self._lists.targets(rows, count)
        targets[torch.from_numpy(known)] = found
        if self._splits is None:
            return {"targets": targets}
        pa = import_arrow()
        splits = self._splits.take(pa.array(places, mask=~known))
        return {"targets": targets, "splits": Texts(as_strings(splits))}

    def finish(self, rows: int) -> list[str]:
        """Refuses a file that shares no id with the predictions."""
        if rows and not self._found:
            theirs = next(iter(self._places), "nothing")
            got = f"{theirs!r} where the predictions have {self._example!r}"
            rule = f"share the ids in column {self._key!r} with the predictions"
            raise refusal("targets", self._wish.owner, rule, got, "Name the column of ids with `id_column`.")
        notes = [
            f"Targets of {self._name} are joined by column {self._key!r}: {self._found:,} of {rows:,} rows have some."
        ]
        if self._found < rows:
            notes.append(f"All labels of the other {rows - self._found:,} rows are unknown.")
        if not self._met.all():
            notes.append(f"{int((~self._met).sum()):,} ids of {self._name} are not among the predictions.")
        if self._roles.lists is None and len(self._roles.targets) < len(self._labels):
            without = [name for name in self._labels.names if name not in self._roles.targets]
            notes.append(f"{self._name} has no column for {listed(without)}: unknown in all rows.")
        return self._notes + notes + self._texts.notes()

    def _load(self, pieces: list[Any]) -> None:
        """Keys without repetition, and for each its split and either its lists of names or its row of targets."""
        pa = import_arrow()
        assert self._key is not None
        keys = pa.chunked_array([self._texts.ids(piece.column(self._key)) for piece in pieces], pa.string())
        keys = with_slashes(keys)  # what Windows wrote is joined with what Linux wrote, and the other way round
        coded = keys.combine_chunks().dictionary_encode()
        places = as_numpy(coded.indices).astype(np.int64)
        self._places = {key: place for place, key in enumerate(coded.dictionary.to_pylist())}
        self._met = np.zeros(len(self._places), dtype=np.bool_)
        first = np.full(len(self._places), len(places))
        np.minimum.at(first, places, np.arange(len(places)))
        self._splits: Any = None
        if self._roles.split is not None:
            chunks = [self._texts.splits(piece.column(self._roles.split), self._roles.split) for piece in pieces]
            self._splits = pa.chunked_array(chunks, pa.string()).take(pa.array(first))
        self._lists: LabelLists | None = None
        if self._roles.lists is not None:
            self._lists = self._load_lists(pieces, places)
            return
        if len(self._places) < len(places):
            twice = next(text for text, count in Texts(keys).counts().items() if count > 1)
            got, remedy = f"{twice!r} twice", "Keep one row of each."
            raise refusal("targets", self._wish.owner, "have one row an id", got, remedy)
        rows = [torch.empty(0, len(self._labels), dtype=torch.int8)]
        for piece in pieces:
            cells = read_target_cells(piece, self._roles.targets, self._labels, self._wish.owner)
            check_values(self._wish.owner, cells)
            rows.append(cells.to(torch.int8))
        self._rows = torch.cat(rows)

    def _load_lists(self, pieces: list[Any], places: np.ndarray[Any, Any]) -> LabelLists:
        """The lists of names of each key; several rows of one key are put together."""
        assert self._roles.lists is not None
        reader = NameReader(self._labels, self._wish)
        owners, columns, start = [], [], 0
        for piece in pieces:
            rows, found = reader.read(piece.column(self._roles.lists))
            owners.append(places[start + rows])
            columns.append(found)
            start += len(piece)
        self._notes += reader.notes(self._roles.lists, self._name)
        nothing = np.empty(0, np.int64)
        return LabelLists(np.concatenate([nothing, *owners]), np.concatenate([nothing, *columns]), len(self._places))
