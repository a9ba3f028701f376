"""Reading predictions of any origin (CSV, TSV, Parquet, data frames, NumPy archives), with targets joined to them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import check_choice, check_target_values
from manyhot.data.targets import LabelLists
from manyhot.errors import InputError
from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.predictions.columns import StringColumn, read_target_columns, read_value_columns
from manyhot.predictions.metadata import METADATA_KEY
from manyhot.predictions.parquet import PredictionsWriter, StoredPredictions, open_predictions
from manyhot.predictions.predictions import (
    Predictions,
    PredictionTable,
    as_tensor,
    check_unique,
    concatenate,
    select_labels,
)
from manyhot.predictions.targets import as_dense_targets
from manyhot.tables.arrow import as_numpy, as_strings, import_arrow, read_footer
from manyhot.tables.columns import (
    ColumnRoles,
    PredictionReadOptions,
    assign_prediction_roles,
    assign_target_roles,
    preview_names,
)
from manyhot.tables.formats import check_format, find_parquet, is_archive, is_text
from manyhot.tables.label_cells import LabelNameReader
from manyhot.tables.reader import (
    DataFrameTable,
    ParquetFiles,
    TableSource,
    open_source,
    open_text,
    read_archive,
    read_target_array,
)
from manyhot.tables.vocabulary import canonical_split, is_flag


class StringReader:
    """Reads columns of texts, batch after batch; spaces around a text are not part of it."""

    def __init__(self) -> None:
        self._renamed: dict[str, str] = {}
        self._backslashes = False

    def ids(self, column: Any) -> Any:
        """Ids as they are."""
        return import_arrow().compute.utf8_trim_whitespace(as_strings(column))

    def paths(self, column: Any) -> Any:
        """Paths with slashes, also where Windows wrote them."""
        compute = import_arrow().compute
        strings = self.ids(column)
        if not compute.any(compute.match_substring(strings, "\\")).as_py():
            return strings
        self._backslashes = True
        return with_slashes(strings)

    def splits(self, column: Any, name: str) -> Any:
        """Splits of a column of this name under their usual names."""
        pa = import_arrow()
        strings = self.ids(column)
        coded = strings.combine_chunks() if isinstance(strings, pa.ChunkedArray) else strings
        coded = coded.dictionary_encode()
        names = coded.dictionary.to_pylist()
        canonical = [canonical_split(text, flag=is_flag(name)) for text in names]
        self._renamed |= {text: new for text, new in zip(names, canonical, strict=True) if text != new}
        return pa.array(canonical, pa.string()).take(coded.indices)

    def notes(self) -> list[str]:
        """What was changed."""
        notes = [f"Split {name!r} is read as {new!r}." for name, new in self._renamed.items()]
        return notes + ["Backslashes in paths are read as slashes."] * self._backslashes


def with_slashes(strings: Any) -> Any:
    """Texts of Arrow with slashes for backslashes."""
    return import_arrow().compute.replace_substring(strings, "\\", "/")


class TargetsSource(Protocol):
    """Where the targets of a batch come from."""

    def columns(self, ids: StringColumn, paths: StringColumn | None, start: int) -> dict[str, Any]:
        """Targets (n, K), and splits where known, of rows with these ids and paths; `start` numbers the first row."""

    def finish(self, rows: int) -> list[str]:
        """Notes, after all `rows` rows were read; raises an error for targets that do not fit them."""


def open_targets(source: Any, labels: Labels, options: PredictionReadOptions) -> TargetsSource:
    """Targets of a file, or of anything that `Predictions` takes."""
    if not isinstance(source, str | os.PathLike):
        return AlignedTargets(as_dense_targets(source, labels), options.owner)
    check_format(source, options.owner, "targets")
    if is_archive(source):
        return AlignedTargets(as_dense_targets(read_target_array(Path(source), options.owner), labels), options.owner)
    return JoinedTargets(source, labels, options)


class AlignedTargets:
    """Targets in the order of the predictions."""

    def __init__(self, targets: Any, owner: str) -> None:
        self._targets, self._owner = as_tensor(targets), owner

    def columns(self, ids: StringColumn, paths: StringColumn | None, start: int) -> dict[str, Any]:
        """The next rows."""
        stop = start + len(ids)
        if stop > len(self._targets):
            self._raise_row_count(f"at least {stop}")
        return {"targets": self._targets[start:stop]}

    def finish(self, rows: int) -> list[str]:
        """Raises an error if targets are left over."""
        if rows != len(self._targets):
            self._raise_row_count(str(rows))
        return ["Targets are taken row by row."]

    def _raise_row_count(self, rows: str) -> None:
        hint = "Pass a table of targets with an id column to join them."
        rule = f"have as many rows as the predictions, {rows}"
        raise InputError("targets", self._owner, rule, str(len(self._targets)), hint)


class JoinedTargets:
    """Targets of another file, looked up by id or path; rows that are not in it are unknown.

    Args:
        path: CSV, TSV or Parquet.
        labels: The labels of the predictions.
        options: Options of the user.
    """

    def __init__(self, path: str | os.PathLike[str], labels: Labels, options: PredictionReadOptions) -> None:
        self._labels, self._options, self._name = labels, options, Path(path).name
        source = open_source(path, options.owner)
        named = options.id_column if options.id_column in source.columns else None
        self._roles = assign_target_roles(source.columns, replace(options, id_column=named), labels)
        self._key = self._roles.key
        if self._key is None:
            rule, got = "have a column of ids or paths", f"the columns {preview_names(source.columns)}"
            raise InputError("targets", options.owner, rule, got, "Name it with {id_column}.")
        self._notes, self._strings = list(source.notes), StringReader()
        self._matched_rows, self._example = 0, ""
        self._load(list(source.pieces(self._roles)))

    def columns(self, ids: StringColumn, paths: StringColumn | None, start: int) -> dict[str, Any]:
        """The targets of the rows of these ids, or of these paths where the file has only paths."""
        source = ids if paths is None or self._roles.id is not None else paths
        keys = [key.replace("\\", "/") for key in source.tolist()]
        positions = np.fromiter((self._positions.get(key, -1) for key in keys), dtype=np.int64, count=len(keys))
        matched = positions >= 0
        rows = positions[matched]
        self._used[rows] = True
        self._matched_rows += len(rows)
        self._example = keys[0] if keys else ""
        count = len(self._labels)
        targets = torch.full((len(keys), count), -1, dtype=torch.int8)
        entries = self._rows[torch.from_numpy(rows)] if self._lists is None else self._lists.targets(rows, count)
        targets[torch.from_numpy(matched)] = entries
        if self._splits is None:
            return {"targets": targets}
        pa = import_arrow()
        splits = self._splits.take(pa.array(positions, mask=~matched))
        return {"targets": targets, "splits": StringColumn(as_strings(splits))}

    def finish(self, rows: int) -> list[str]:
        """Raises an error if the file shares no id with the predictions."""
        if rows and not self._matched_rows:
            example = next(iter(self._positions), "nothing")
            got = f"{example!r} where the predictions have {self._example!r}"
            rule = f"share the ids in column {self._key!r} with the predictions"
            raise InputError("targets", self._options.owner, rule, got, "Name the column of ids with {id_column}.")
        notes = [
            f"Targets of {self._name} are joined by column {self._key!r}: "
            f"{self._matched_rows:,} of {rows:,} rows have some."
        ]
        if self._matched_rows < rows:
            notes.append(f"All labels of the other {rows - self._matched_rows:,} rows are unknown.")
        if not self._used.all():
            notes.append(f"{int((~self._used).sum()):,} ids of {self._name} are not among the predictions.")
        if self._roles.lists is None and len(self._roles.targets) < len(self._labels):
            without = [name for name in self._labels.names if name not in self._roles.targets]
            notes.append(f"{self._name} has no column for {preview_names(without)}: unknown in all rows.")
        return self._notes + notes + self._strings.notes()

    def _load(self, pieces: list[Any]) -> None:
        """Keys without repetition, and for each its split and either its lists of names or its row of targets."""
        pa = import_arrow()
        assert self._key is not None
        keys = pa.chunked_array([self._strings.ids(piece.column(self._key)) for piece in pieces], pa.string())
        keys = with_slashes(keys)  # what Windows wrote is joined with what Linux wrote, and the other way round
        coded = keys.combine_chunks().dictionary_encode()
        positions = as_numpy(coded.indices).astype(np.int64)
        self._positions = {key: position for position, key in enumerate(coded.dictionary.to_pylist())}
        self._used = np.zeros(len(self._positions), dtype=np.bool_)
        first = np.full(len(self._positions), len(positions))
        np.minimum.at(first, positions, np.arange(len(positions)))
        self._splits: Any = None
        if self._roles.split is not None:
            chunks = [self._strings.splits(piece.column(self._roles.split), self._roles.split) for piece in pieces]
            self._splits = pa.chunked_array(chunks, pa.string()).take(pa.array(first))
        self._lists: LabelLists | None = None
        if self._roles.lists is not None:
            self._lists = self._load_lists(pieces, positions)
            return
        if len(self._positions) < len(positions):
            duplicate = next(text for text, count in StringColumn(keys).counts().items() if count > 1)
            got, hint = f"{duplicate!r} twice", "Keep one row of each."
            raise InputError("targets", self._options.owner, "have one row per id", got, hint)
        rows = [torch.empty(0, len(self._labels), dtype=torch.int8)]
        for piece in pieces:
            cells = read_target_columns(piece, self._roles.targets, self._labels, self._options.owner)
            check_target_values(self._options.owner, cells)
            rows.append(cells.to(torch.int8))
        self._rows = torch.cat(rows)

    def _load_lists(self, pieces: list[Any], positions: np.ndarray[Any, Any]) -> LabelLists:
        """The lists of names of each key; several rows of one key are put together."""
        assert self._roles.lists is not None
        reader = LabelNameReader(self._labels, self._options)
        owners, columns, start = [], [], 0
        for piece in pieces:
            rows, entries = reader.read(piece.column(self._roles.lists))
            owners.append(positions[start + rows])
            columns.append(entries)
            start += len(piece)
        self._notes += reader.notes(self._roles.lists, self._name)
        nothing = np.empty(0, np.int64)
        return LabelLists(np.concatenate([nothing, *owners]), np.concatenate([nothing, *columns]), len(self._positions))


class ForeignTable:
    """One foreign table.

    Args:
        source: The table.
        options: Options of the user.
        link: What its scores mean.
        with_targets: Whether the table may hold targets; False if they come from another source.

    Attributes:
        labels: The labels of the table.
        notes: What was detected; complete after the last batch.
    """

    def __init__(
        self, source: TableSource, options: PredictionReadOptions, link: Link | None, *, with_targets: bool
    ) -> None:
        self._source, self._options, self._link = source, options, link
        self._roles = assign_prediction_roles(source.columns, options, with_targets=with_targets)
        self.labels = Labels(list(self._roles.cells))
        self._names, self._strings = LabelNameReader(self.labels, options), StringReader()
        self.notes = [*source.notes, *describe_roles(self._roles, options)]

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
        self.notes += self._strings.notes()

    def _batch(self, piece: Any, start: int) -> Predictions:
        roles = self._roles
        cells = read_value_columns(piece, roles.cells.values(), self._source.dtype(roles))
        self._check(cells, start)
        paths = None if roles.path is None else StringColumn(self._strings.paths(piece.column(roles.path)))
        ids = paths if roles.id is None else StringColumn(self._strings.ids(piece.column(roles.id)))
        splits = (
            None if roles.split is None else StringColumn(self._strings.splits(piece.column(roles.split), roles.split))
        )
        ids = StringColumn(range(start, start + len(piece))) if ids is None else ids
        strings = {"ids": ids, "paths": paths, "splits": splits}
        return self._table(cells, self._targets(piece), strings)

    def _empty(self) -> Predictions:
        roles = self._roles
        cells = torch.empty(0, len(self.labels), dtype=self._source.dtype(roles))
        has_targets = bool(roles.targets) or roles.lists is not None
        strings = {
            "paths": None if roles.path is None else StringColumn([]),
            "splits": None if roles.split is None else StringColumn([]),
        }
        return self._table(cells, cells.to(torch.int8) if has_targets else None, strings)

    def _table(self, cells: Tensor, targets: Tensor | None, strings: dict[str, StringColumn | None]) -> Predictions:
        return Predictions(
            scores=cells if self._options.kind == "scores" else None,
            probs=cells if self._options.kind == "probs" else None,
            targets=targets,
            labels=self.labels,
            ids=strings.get("ids"),
            paths=strings["paths"],
            splits=strings["splits"],
            link=self._link,
        )

    def _targets(self, piece: Any) -> Tensor | None:
        """The targets in the table itself: one column per label, or lists of names."""
        if self._roles.targets:
            return read_target_columns(piece, self._roles.targets, self.labels, self._options.owner)
        if self._roles.lists is None:
            return None
        owners, columns = self._names.read(piece.column(self._roles.lists))
        return LabelLists(owners, columns, len(piece)).targets(np.arange(len(piece)), len(self.labels))

    def _check(self, cells: Tensor, start: int) -> None:
        """Rejects blank cells and invalid probabilities; the error names the column."""
        low, high = (float(bound) for bound in torch.aminmax(cells)) if cells.numel() else (0.0, 1.0)
        blank, is_probs = math.isnan(low), self._options.kind == "probs"
        if not blank and (not is_probs or (low >= 0 and high <= 1)):
            return
        invalid = cells.isnan() if blank else (cells < 0) | (cells > 1)
        rule, content = "have a number in every cell of its labels", "none"
        hint = "Fill or drop these rows, or name the columns of labels with {labels}."
        if not blank:
            rule, content = "hold probabilities between 0 and 1", f"{float(cells[invalid][0]):g}"
            hint = "Say `{kind='scores'}`, or name the columns of labels with {labels}."
        row, column = (int(position) for position in invalid.nonzero()[0])
        got = f"{content} in column {list(self._roles.cells.values())[column]!r}, row {start + row}"
        raise InputError("table", self._options.owner, rule, got, hint)


def describe_roles(roles: ColumnRoles, options: PredictionReadOptions) -> list[str]:
    """Notes about the role of each column."""
    notes = [f"Read {len(roles.cells):,} columns as {options.kind} of labels: {preview_names(roles.cells)}."]
    if roles.id is not None:
        notes.append(f"Ids are in column {roles.id!r}.")
    else:
        notes.append("Ids are row numbers." if roles.path is None else f"Ids are the paths in column {roles.path!r}.")
    if roles.split is not None:
        notes.append(f"Splits are in column {roles.split!r}.")
    if roles.targets:
        notes.append(f"Targets are in {len(roles.targets):,} columns: {preview_names(list(roles.targets.values()))}.")
        without = [name for name in roles.cells if name not in roles.targets]
        notes += [f"Targets of {preview_names(without)} are unknown: they have no column."] if without else []
    if roles.left_out:
        notes.append(f"Left out columns: {preview_names(roles.left_out)}.")
    return notes


def join_targets(batches: Iterable[Predictions], targets: TargetsSource, notes: list[str]) -> Iterator[Predictions]:
    """The batches with targets from elsewhere, and with splits from there where they have none of their own."""
    start, splits = 0, False
    for batch in batches:
        columns = batch.columns()
        content = targets.columns(columns["ids"], columns["paths"], start)
        if columns["splits"] is not None:
            content.pop("splits", None)
        splits = "splits" in content
        yield batch.replace(**content)
        start += len(batch)
    notes += targets.finish(start)
    notes += ["Splits come from the same file as the targets."] if splits else []


def collect_batches(batches: Iterable[Predictions], notes: list[str]) -> Predictions:
    """All batches in memory, with different ids."""
    table = concatenate(list(batches))
    check_unique(table.columns()["ids"], "Name the column of ids with {id_column}.")
    table.notes = notes
    return table


def write_batches(batches: Iterable[Predictions], labels: Labels, to: str | os.PathLike[str]) -> StoredPredictions:
    """All batches in a file, of which one at a time is in memory."""
    ids = []
    with PredictionsWriter(to, labels) as writer:
        for batch in batches:
            writer.write(batch)
            ids.append(batch.columns()["ids"])
        # The texts alone are small, and a file with an id twice must not come to be.
        if not ids[0].numbered:
            check_unique(StringColumn.concatenated(ids), "Name the column of ids with {id_column}.")
    return open_predictions(to)


def note_likely_probs(batches: Iterable[Predictions], notes: list[str]) -> Iterator[Predictions]:
    """The batches as they are; notes it if what was called scores looks like probabilities, which is no proof."""
    low, high = math.inf, -math.inf
    for batch in batches:
        if batch.scores is not None and batch.probs is None and len(batch):
            bounds = torch.aminmax(batch.scores)
            low, high = min(low, float(bounds.min)), max(high, float(bounds.max))
        yield batch
    if 0 <= low <= high <= 1:
        notes.append("All scores lie between 0 and 1. If they are probabilities, choose the kind 'probs'.")


OTHER_LABELS = ("refuse", "leave out")


@dataclass(frozen=True)
class PredictionStream:
    """Batches on their way in.

    Attributes:
        batches: Tables in memory, one after the other; to be gone through once.
        labels: Their labels.
        notes: What was detected; complete after the last batch.
    """

    batches: Iterable[Predictions]
    labels: Labels
    notes: list[str]

    def with_targets(self, targets: Any, options: PredictionReadOptions) -> PredictionStream:
        """The same with targets from elsewhere, if there are any."""
        if targets is None:
            return self
        source = open_targets(targets, self.labels, options)
        return replace(self, batches=join_targets(self.batches, source, self.notes))


def from_csv(
    path: str | os.PathLike[str],
    *,
    kind: str,
    labels: Sequence[str] | None = None,
    targets: Any = None,
    id_column: str | None = None,
    labels_column: str | None = None,
    separator: str | None = None,
    other_labels: str = "refuse",
    delimiter: str | None = None,
    link: Link | None = None,
    dtype: torch.dtype = torch.float32,
) -> Predictions:
    r"""A table in memory from CSV or TSV, also compressed by gzip: one row per sample, one column per label.

    Columns of numbers are labels, except for ids (`id`, `image_id`, `sample_id`). Columns such as `path`, `split` and
    `labels` are known by the same names as in `read_data`, and splits get their usual names. Targets come from columns
    `target:dog`, from a column of label names, or from elsewhere. `notes` of the table say what was taken for what. A
    file that does not fit in memory can be streamed to Parquet with `read_predictions(..., to=...)`.

    Args:
        path: The file, with a header.
        kind: What the numbers are, "scores" or "probs"; there is no default.
        labels: The columns to take as labels; all columns of numbers by default.
        targets: Another file (CSV, TSV or Parquet), joined by id or path: with a column of label names, or one column
            per label with 1, 0, and blank or -1 for unknown. Or targets in the order of the rows, as an .npz or .npy
            file or as `Predictions` takes them. Rows that are not in the file are unknown.
        id_column: The column of ids, if it has another name.
        labels_column: The column of label names, if it has another name.
        separator: What separates these names; by default the one of `|`, `;`, `,` and space that fits them best.
        other_labels: "leave out" to drop names that are none of the labels; by default they raise an error.
        delimiter: What separates the columns; found out by default.
        link: What the scores mean, if you know.
        dtype: `torch.float32` or `torch.float64`.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "scores.csv")
        >>> _ = path.write_text("id,cat,dog,labels\na,0.9,0.2,cat\nb,0.1,0.3,\n")
        >>> table = from_csv(path, kind="probs")
        >>> table.targets
        tensor([[1, 0],
                [0, 0]], dtype=torch.int8)
        >>> table.notes[0]
        "Read 2 columns as probs of labels: 'cat', 'dog'."
    """
    options = make_read_options("from_csv", kind, labels, id_column, labels_column, separator, other_labels)
    source = open_text(path, "from_csv", delimiter=delimiter, dtype=dtype)
    return load_stream(stream_table(source, options, targets, link))


def from_parquet(
    path: str | os.PathLike[str],
    *,
    kind: str,
    labels: Sequence[str] | None = None,
    targets: Any = None,
    id_column: str | None = None,
    labels_column: str | None = None,
    separator: str | None = None,
    other_labels: str = "refuse",
    link: Link | None = None,
) -> Predictions:
    """A table in memory from Parquet files of another program: one row per sample and one column per label.

    Columns and arguments are those of `from_csv`; label names may also be lists, and numbers keep their precision.

    Args:
        path: A file, a folder or a pattern.
        kind: What the numbers are, "scores" or "probs"; there is no default.
        labels: The columns to take as labels; all columns of numbers by default.
        targets: Targets from elsewhere, as in `from_csv`.
        id_column: The column of ids, if it has another name.
        labels_column: The column of label names, if it has another name.
        separator: What separates these names in a text.
        other_labels: "leave out" to drop names that are none of the labels; by default they raise an error.
        link: What the scores mean, if you know.
    """
    options = make_read_options("from_parquet", kind, labels, id_column, labels_column, separator, other_labels)
    return load_stream(stream_table(ParquetFiles(path, "from_parquet"), options, targets, link))


def from_frame(
    frame: Any,
    *,
    kind: str,
    labels: Sequence[str] | None = None,
    targets: Any = None,
    id_column: str | None = None,
    labels_column: str | None = None,
    separator: str | None = None,
    other_labels: str = "refuse",
    link: Link | None = None,
) -> Predictions:
    """A table in memory from a data frame of pandas or polars, or a table of Arrow: rows are samples, columns labels.

    Columns and arguments are those of `from_parquet`. An index of pandas that is not a mere count becomes the ids.

    Args:
        frame: The data frame.
        kind: What the numbers are, "scores" or "probs"; there is no default.
        labels: The columns to take as labels; all columns of numbers by default.
        targets: Targets from elsewhere, as in `from_csv`.
        id_column: The column of ids, if it has another name.
        labels_column: The column of label names, if it has another name.
        separator: What separates these names in a text.
        other_labels: "leave out" to drop names that are none of the labels; by default they raise an error.
        link: What the scores mean, if you know.

    Example:
        >>> import pandas
        >>> frame = pandas.DataFrame({"cat": [2.0, -1.0], "dog": [0.5, 3.0]}, index=["a", "b"])
        >>> from_frame(frame, kind="scores", link=mh.SigmoidLink())
        Predictions(2 rows x 2 labels; scores; link SigmoidLink)
    """
    options = make_read_options("from_frame", kind, labels, id_column, labels_column, separator, other_labels)
    return load_stream(stream_table(DataFrameTable(frame, "from_frame"), options, targets, link))


def from_npz(
    path: str | os.PathLike[str],
    *,
    kind: str,
    labels: Sequence[str] | None = None,
    targets: Any = None,
    id_column: str | None = None,
    labels_column: str | None = None,
    separator: str | None = None,
    other_labels: str = "refuse",
    link: Link | None = None,
) -> Predictions:
    """A table in memory from a NumPy archive, of which nothing is ever executed.

    The archive holds `scores` or `probs` (N, K), or one table of another name, and where there are any `targets`,
    `labels` or `names`, `ids`, `paths` and `splits`. An .npy file holds the scores or probabilities alone.

    Args:
        path: The .npz or .npy file.
        kind: What the numbers are, "scores" or "probs"; there is no default.
        labels: The labels to take, if the archive names its columns; otherwise the names of all columns.
        targets: Targets from elsewhere, as in `from_csv`.
        id_column: The column of ids in a file of targets.
        labels_column: The column of label names in a file of targets.
        separator: What separates these names.
        other_labels: "leave out" to drop names that are none of the labels; by default they raise an error.
        link: What the scores mean, if you know.
    """
    options = make_read_options("from_npz", kind, labels, id_column, labels_column, separator, other_labels)
    return load_stream(stream_archive(path, options, targets, link))


def stream_table(
    source: TableSource, options: PredictionReadOptions, targets: Any, link: Link | None
) -> PredictionStream:
    """A table of rows, with targets from elsewhere if there are any."""
    # Where targets come from another file, the column of label names is one of that file.
    table_options = options if targets is None else replace(options, labels_column=None)
    table = ForeignTable(source, table_options, link, with_targets=targets is None)
    return PredictionStream(table.batches(), table.labels, table.notes).with_targets(targets, options)


def stream_archive(
    path: str | os.PathLike[str], options: PredictionReadOptions, targets: Any, link: Link | None
) -> PredictionStream:
    """A NumPy archive, with targets from elsewhere if there are any."""
    columns, notes = read_archive(Path(path), options.owner, options.kind)
    if targets is not None:
        columns.pop("targets", None)
    named = "labels" in columns
    if not named:
        columns["labels"] = options.labels
    table = Predictions(**columns, link=link)
    if named and options.labels is not None:
        table = table.read(labels=options.labels)
    return PredictionStream([table], table.labels, notes).with_targets(targets, options)


def load_stream(predictions: PredictionStream) -> Predictions:
    """All batches together."""
    return collect_batches(note_likely_probs(predictions.batches, predictions.notes), predictions.notes)


def make_read_options(
    owner: str,
    kind: str | None,
    labels: Sequence[str] | None,
    id_column: str | None,
    labels_column: str | None,
    separator: str | None,
    other_labels: str,
) -> PredictionReadOptions:
    """The options of the user, checked."""
    if kind not in ("scores", "probs"):
        hint = "Say 'scores' for any real numbers and 'probs' for probabilities: nothing is guessed."
        got = "nothing" if kind is None else repr(kind)
        raise InputError("kind", owner, "be 'scores' or 'probs'", got, hint)
    check_choice("other_labels", owner, other_labels, OTHER_LABELS)
    if separator == "":
        raise InputError("separator", owner, "be a character", "''", "Leave it out to have it detected.")
    names = None if labels is None else Labels(labels).names
    return PredictionReadOptions(owner, kind, names, id_column, labels_column, separator, other_labels == "leave out")


def read_predictions(
    path: str | os.PathLike[str],
    *,
    kind: str | None,
    labels: Sequence[str] | None = None,
    targets: Any = None,
    id_column: str | None = None,
    labels_column: str | None = None,
    separator: str | None = None,
    other_labels: str = "refuse",
    split: str | None = None,
    link: Link | None = None,
    to: str | os.PathLike[str] | None = None,
) -> tuple[PredictionTable, list[str]]:
    """A table of any origin, and notes about what was detected in it.

    Tables of this package are opened and stay on disk. CSV, TSV, .npz, .npy and other Parquet files are read into
    memory, or streamed to Parquet if they do not fit there.

    Args:
        path: A file, or a folder or pattern of Parquet files.
        kind: What the numbers are, "scores" or "probs". None only for tables of this package, which know it.
        labels: The labels to take; all by default.
        targets: Targets from elsewhere, as in `from_csv`.
        id_column: The column of ids, if it has another name.
        labels_column: The column of label names, if it has another name.
        separator: What separates these names.
        other_labels: "leave out" to drop names that are none of the labels; by default they raise an error.
        split: The split to restrict the table to; all rows by default.
        link: What the scores mean, if you know; by default what the table says.
        to: A Parquet file to stream the table to. Then only a piece of it is in memory at a time, and the returned
            table is that file.
    """
    owner = "read_predictions"
    is_manyhot = is_manyhot_table(path, owner)
    # A table of this package knows its kinds, but the options need one.
    stated_kind = "probs" if is_manyhot and kind is None else kind
    options = make_read_options(owner, stated_kind, labels, id_column, labels_column, separator, other_labels)
    table: PredictionTable
    if is_manyhot:
        table = open_stored(path, kind, owner)
        notes = [f"Opened {table!r}."]
        if targets is not None or labels is not None or link is not None or to is not None:
            table = load_or_write(stream_stored(table, options, targets, link, notes), to)
    else:
        predictions = stream_file(path, options, targets, link)
        table, notes = load_or_write(predictions, to), predictions.notes
    table = table if split is None else table.of_split(split)
    table.notes = notes
    return table, notes


def stream_file(
    path: str | os.PathLike[str], options: PredictionReadOptions, targets: Any, link: Link | None
) -> PredictionStream:
    """A file of another program, by the ending of its name."""
    if is_archive(path):
        return stream_archive(path, options, targets, link)
    return stream_table(open_source(path, options.owner), options, targets, link)


def stream_stored(
    table: PredictionTable, options: PredictionReadOptions, targets: Any, link: Link | None, notes: list[str]
) -> PredictionStream:
    """A table of this package of which something is to be changed."""
    labels = select_labels(table, options.labels)
    batches = (batch.read(labels=labels) for batch in table.batches())
    linked = batches if link is None else (batch.replace(link=link) for batch in batches)
    return PredictionStream(linked, labels, notes).with_targets(targets, options)


def load_or_write(predictions: PredictionStream, to: str | os.PathLike[str] | None) -> PredictionTable:
    """All batches in memory, or in a file."""
    return (
        load_stream(predictions)
        if to is None
        else write_batches(note_likely_probs(predictions.batches, predictions.notes), predictions.labels, to)
    )


def open_stored(path: str | os.PathLike[str], kind: str | None, owner: str) -> StoredPredictions:
    """A table of this package; raises an error if it does not hold the stated kind."""
    table = open_predictions(path)
    if kind is not None and kind not in table.kinds:
        rule = f"be among those of the table, {', '.join(table.kinds)}"
        raise InputError("kind", owner, rule, repr(kind), "Leave it out: the table knows what it holds.")
    return table


def is_manyhot_table(path: str | os.PathLike[str], owner: str) -> bool:
    """Whether a path leads to tables of this package; raises an error if it cannot be read."""
    check_format(path, owner, "path")
    if is_text(path) or is_archive(path):
        return False
    return METADATA_KEY in (read_footer(find_parquet(path, owner)[0], owner).metadata or {})
