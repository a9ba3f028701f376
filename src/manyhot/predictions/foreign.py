"""A foreign table on its way in: batch by batch, each column in its role."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.predictions.cells import read_cells, read_target_cells
from manyhot.predictions.columns import refuse_repeated
from manyhot.predictions.joining import TargetsSource
from manyhot.predictions.label_lists import LabelLists, NameReader
from manyhot.predictions.memory import Predictions, concatenate
from manyhot.predictions.roles import Roles, Wish, assign_predictions, listed
from manyhot.predictions.row_texts import RowTexts
from manyhot.predictions.sources import Source
from manyhot.predictions.stored import StoredPredictions, open_predictions
from manyhot.predictions.texts import Texts
from manyhot.predictions.writer import PredictionsWriter
from manyhot.refusal import refusal


class Import:
    """One foreign table.

    Args:
        source: The table.
        wish: What the user said about it.
        link: What its scores mean.
        with_targets: Whether targets are to be looked for in the table; not if they come from elsewhere.

    Attributes:
        labels: The labels that were found.
        notes: What was found out; complete when the last batch has been made.
    """

    def __init__(self, source: Source, wish: Wish, link: Link | None, *, with_targets: bool) -> None:
        self._source, self._wish, self._link = source, wish, link
        self._roles = assign_predictions(source.columns, wish, with_targets=with_targets)
        self.labels = Labels(list(self._roles.cells))
        self._names, self._texts = NameReader(self.labels, wish), RowTexts()
        self.notes = [*source.notes, *describe_roles(self._roles, wish)]

    def batches(self) -> Iterator[Predictions]:
        """The table in pieces; one without rows if it has none."""
        start = 0
        for piece in self._source.pieces(self._roles):
            if len(piece):
                yield self._batch(piece, start)
                start += len(piece)
        if start == 0:
            yield self._empty()
        if self._roles.lists is not None:
            self.notes += self._names.notes(self._roles.lists, "")
        self.notes += self._texts.notes()

    def _batch(self, piece: Any, start: int) -> Predictions:
        roles = self._roles
        cells = read_cells(piece, roles.cells.values(), self._source.dtype(roles))
        self._check(cells, start)
        paths = None if roles.path is None else Texts(self._texts.paths(piece.column(roles.path)))
        ids = paths if roles.id is None else Texts(self._texts.ids(piece.column(roles.id)))
        splits = None if roles.split is None else Texts(self._texts.splits(piece.column(roles.split), roles.split))
        ids = Texts(range(start, start + len(piece))) if ids is None else ids
        texts = {"ids": ids, "paths": paths, "splits": splits}
        return self._table(cells, self._targets(piece), texts)

    def _empty(self) -> Predictions:
        roles = self._roles
        cells = torch.empty(0, len(self.labels), dtype=self._source.dtype(roles))
        has_targets = bool(roles.targets) or roles.lists is not None
        texts = {
            "paths": None if roles.path is None else Texts([]),
            "splits": None if roles.split is None else Texts([]),
        }
        return self._table(cells, cells.to(torch.int8) if has_targets else None, texts)

    def _table(self, cells: Tensor, targets: Tensor | None, texts: dict[str, Texts | None]) -> Predictions:
        return Predictions(
            scores=cells if self._wish.kind == "scores" else None,
            probs=cells if self._wish.kind == "probs" else None,
            targets=targets,
            labels=self.labels,
            ids=texts.get("ids"),
            paths=texts["paths"],
            splits=texts["splits"],
            link=self._link,
        )

    def _targets(self, piece: Any) -> Tensor | None:
        """The targets in the table itself: one column a label, or lists of names."""
        if self._roles.targets:
            return read_target_cells(piece, self._roles.targets, self.labels, self._wish.owner)
        if self._roles.lists is None:
            return None
        owners, columns = self._names.read(piece.column(self._roles.lists))
        return LabelLists(owners, columns, len(piece)).targets(np.arange(len(piece)), len(self.labels))

    def _check(self, cells: Tensor, start: int) -> None:
        """Refuses a blank cell, and a probability that is none, by the name of its column."""
        low, high = (float(bound) for bound in torch.aminmax(cells)) if cells.numel() else (0.0, 1.0)
        blank, is_probs = math.isnan(low), self._wish.kind == "probs"
        if not blank and (not is_probs or (low >= 0 and high <= 1)):
            return
        bad = cells.isnan() if blank else (cells < 0) | (cells > 1)
        rule, found = "have a number in every cell of its labels", "none"
        remedy = "Fill or drop these rows, or name the columns of labels with `labels`."
        if not blank:
            rule, found = "hold probabilities between 0 and 1", f"{float(cells[bad][0]):g}"
            remedy = "Say kind='scores', or name the columns of labels with `labels`."
        row, column = (int(place) for place in bad.nonzero()[0])
        got = f"{found} in column {list(self._roles.cells.values())[column]!r}, row {start + row}"
        raise refusal("table", self._wish.owner, rule, got, remedy)


def describe_roles(roles: Roles, wish: Wish) -> list[str]:
    """What was taken for what, in plain sentences."""
    notes = [f"Read {len(roles.cells):,} columns as {wish.kind} of labels: {listed(roles.cells)}."]
    if roles.id is not None:
        notes.append(f"Ids are in column {roles.id!r}.")
    else:
        notes.append("Ids are row numbers." if roles.path is None else f"Ids are the paths in column {roles.path!r}.")
    if roles.split is not None:
        notes.append(f"Splits are in column {roles.split!r}.")
    if roles.targets:
        notes.append(f"Targets are in {len(roles.targets):,} columns: {listed(list(roles.targets.values()))}.")
        without = [name for name in roles.cells if name not in roles.targets]
        notes += [f"Targets of {listed(without)} are unknown: they have no column."] if without else []
    if roles.left_out:
        notes.append(f"Left out columns: {listed(roles.left_out)}.")
    return notes


def with_targets(batches: Iterable[Predictions], targets: TargetsSource, notes: list[str]) -> Iterator[Predictions]:
    """The batches with targets from elsewhere, and with splits from there where they have none of their own."""
    start, splits = 0, False
    for batch in batches:
        given = batch.columns()
        found = targets.columns(given["ids"], given["paths"], start)
        if given["splits"] is not None:
            found.pop("splits", None)
        splits = "splits" in found
        yield batch.replace(**found)
        start += len(batch)
    notes += targets.finish(start)
    notes += ["Splits come from the same file as the targets."] if splits else []


def collect(batches: Iterable[Predictions], notes: list[str]) -> Predictions:
    """All batches in memory, with different ids."""
    table = concatenate(list(batches))
    refuse_repeated(table.columns()["ids"], "Name the column of ids with `id_column`.")
    table.notes = notes
    return table


def stream(batches: Iterable[Predictions], labels: Labels, to: str | os.PathLike[str]) -> StoredPredictions:
    """All batches in a file, of which one at a time is in memory."""
    ids = []
    with PredictionsWriter(to, labels) as writer:
        for batch in batches:
            writer.write(batch)
            ids.append(batch.columns()["ids"])
        # The texts alone are small, and a file with an id twice must not come to be.
        if not ids[0].numbered:
            refuse_repeated(Texts.joined(ids), "Name the column of ids with `id_column`.")
    return open_predictions(to)


def watched(batches: Iterable[Predictions], notes: list[str]) -> Iterator[Predictions]:
    """The batches as they are; notes it if what was called scores looks like probabilities, which is no proof."""
    low, high = math.inf, -math.inf
    for batch in batches:
        if batch.scores is not None and batch.probs is None and len(batch):
            bounds = torch.aminmax(batch.scores)
            low, high = min(low, float(bounds.min)), max(high, float(bounds.max))
        yield batch
    if 0 <= low <= high <= 1:
        notes.append("All scores lie between 0 and 1. If they are probabilities, say kind='probs'.")
