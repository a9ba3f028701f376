"""Reading predictions of any origin (CSV, TSV, Parquet, data frames, NumPy archives), with targets joined to them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import as_tensor, check_choice, check_target_values
from manyhot.data.targets import SparseTargets
from manyhot.errors import InputError, owned
from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.predictions.columns import StringColumn, as_dense_targets, fill_from_arrow
from manyhot.predictions.metadata import METADATA_KEY
from manyhot.predictions.parquet import PredictionsWriter, StoredPredictions, open_predictions
from manyhot.predictions.predictions import (
    Predictions,
    PredictionTable,
    check_unique,
    concatenate,
    select_labels,
)
from manyhot.tables.arrow import (
    as_numpy,
    as_strings,
    check_format,
    find_parquet,
    import_arrow,
    is_archive,
    is_text,
    read_footer,
)
from manyhot.tables.columns import (
    ColumnRoles,
    LabelNameReader,
    ReadOptions,
    assign_target_roles,
    assign_value_roles,
    is_flag,
    preview_names,
    rename_splits,
)
from manyhot.tables.reader import (
    TableFile,
    check_same_columns,
    empty_batch,
    open_tables,
    read_archive,
    read_target_array,
)

OTHER_LABELS = ("refuse", "leave out")


@owned("read_predictions")
def read_predictions(
    source: Any,
    *,
    kind: str | None = None,
    labels: Sequence[str] | None = None,
    targets: Any = None,
    id_column: str | None = None,
    labels_column: str | None = None,
    separator: str | None = None,
    other_labels: str = "refuse",
    delimiter: str | None = None,
    dtype: torch.dtype | None = None,
    split: str | None = None,
    link: Link | None = None,
    to: str | os.PathLike[str] | None = None,
) -> PredictionTable:
    r"""A table of predictions of any origin: one row per sample, one column per label.

    Tables of this package are opened and stay on disk. CSV and TSV, also compressed by gzip, other Parquet files, data
    frames and NumPy archives are read into memory, or streamed to Parquet if they do not fit there.

    Columns of numbers are labels, except for ids (`id`, `image_id`, `sample_id`). Columns such as `path`, `split` and
    `labels` are known by the same names as in `read_data`, and splits get their usual names. Targets come from columns
    `target:dog`, from a column of label names, or from elsewhere. `notes` of the table say what was taken for what. An
    index of pandas that is not a mere count becomes the ids. An archive holds `scores` or `probs` (N, K), or one table
    of another name, and where there are any `targets`, `labels` or `names`, `ids`, `paths` and `splits`; an .npy file
    holds the scores or probabilities alone. Nothing in it is executed.

    Args:
        source: A file, or a folder or pattern of Parquet files; or a data frame of pandas or polars, or a table of
            Arrow.
        kind: What the numbers are, "scores" or "probs". None only for tables of this package, which know it.
        labels: The labels to take; by default all columns of numbers. Names all columns of an archive without names.
        targets: Another file (CSV, TSV or Parquet), joined by id or path: with a column of label names, or one column
            per label with 1, 0, and blank or -1 for unknown. Or targets in the order of the rows, as an .npz or .npy
            file or as `Predictions` takes them. Rows that are not in the file are unknown.
        id_column: The column of ids, if it has another name.
        labels_column: The column of label names, if it has another name.
        separator: What separates these names; detected by default.
        other_labels: "leave out" to drop names that are none of the labels; by default they raise an error.
        delimiter: What separates the columns of a table of text; detected by default.
        dtype: `torch.float32` or `torch.float64`; by default the first for text, and what the columns of others hold.
        split: The split to restrict the table to; all rows by default.
        link: What the scores mean, if you know; by default what the table says.
        to: A Parquet file to stream the table to. Then only a piece of it is in memory at a time, and the returned
            table is that file.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "scores.csv")
        >>> _ = path.write_text("id,cat,dog,labels\na,0.9,0.2,cat\nb,0.1,0.3,\n")
        >>> table = read_predictions(path, kind="probs")
        >>> table.targets
        tensor([[1, 0],
                [0, 0]], dtype=torch.int8)
        >>> table.notes[0]
        "Read 2 columns as probs of labels: 'cat', 'dog'."
        >>> import pandas
        >>> frame = pandas.DataFrame({"cat": [2.0, -1.0], "dog": [0.5, 3.0]}, index=["a", "b"])
        >>> read_predictions(frame, kind="scores", link=mh.SigmoidLink())
        Predictions(2 rows x 2 labels; scores; link SigmoidLink)
    """
    with _path_is("source"):
        is_path = isinstance(source, str | os.PathLike)
        is_stored = is_path and _is_manyhot_table(source)
        _check_arguments(kind, other_labels, separator, dtype, known=is_stored)
        names = None if labels is None else Labels(labels).names
        options = ReadOptions(
            "read_predictions",
            label_names=names,
            id_column=id_column,
            labels_column=labels_column,
            separator=separator,
            leave_out=other_labels == "leave out",
        )
        batches: Iterable[Predictions]
        if is_stored:
            stored = _open_stored(source, kind)
            notes = [f"Opened {stored!r}."]
            if targets is None and labels is None and link is None and to is None:
                return _of_split(stored, split, notes)
            taken = select_labels(stored, names)
            batches = (batch.read(labels=taken) for batch in stored.batches())
            batches = batches if link is None else (batch.replace(link=link) for batch in batches)
        elif is_path and is_archive(source):
            archive, notes = _read_archive(Path(source), str(kind), options, link, with_targets=targets is None)
            taken, batches = archive.labels, [archive]
        else:
            # Where targets come from another file, the column of label names is one of that file.
            own = options if targets is None else replace(options, labels_column=None)
            tables = open_tables(source, delimiter=delimiter, double=dtype == torch.float64)
            foreign = ForeignTable(tables, own, str(kind), link, dtype, with_targets=targets is None)
            taken, notes, batches = foreign.labels, foreign.notes, foreign.batches()
        if targets is not None:
            batches = _join_targets(batches, _open_targets(targets, taken, options), notes)
        batches = _note_likely_probs(batches, notes)
        return _of_split(_load(batches) if to is None else _write(batches, taken, to), split, notes)


@contextmanager
def _path_is(argument: str) -> Iterator[None]:
    """Names the argument that a file was passed as, in errors about it."""
    try:
        yield
    except InputError as error:
        if error.argument == "path" and not error.owner:
            error.argument = argument
        raise


def _check_arguments(
    kind: str | None, other_labels: str, separator: str | None, dtype: torch.dtype | None, *, known: bool
) -> None:
    """Checks the options that do not depend on the table; one of this package knows its kind."""
    if kind not in ("scores", "probs") and not (known and kind is None):
        hint = "Say 'scores' for any real numbers and 'probs' for probabilities: nothing is guessed."
        got = "nothing" if kind is None else repr(kind)
        raise InputError("kind", rule="be 'scores' or 'probs'", got=got, hint=hint)
    check_choice("other_labels", "", other_labels, OTHER_LABELS)
    if separator == "":
        hint = "Leave it out to have it detected."
        raise InputError("separator", rule="be a character", got="''", hint=hint)
    if dtype not in (None, torch.float32, torch.float64):
        hint = "Read the numbers in one of these, and convert them later."
        raise InputError("dtype", rule="be torch.float32 or torch.float64", got=str(dtype), hint=hint)


def _is_manyhot_table(path: str | os.PathLike[str]) -> bool:
    """Whether a path leads to tables of this package; raises an error if it cannot be read."""
    check_format(path, "", "path")
    if is_text(path) or is_archive(path):
        return False
    return METADATA_KEY in (read_footer(find_parquet(path, "")[0], "").metadata or {})


def _open_stored(path: str | os.PathLike[str], kind: str | None) -> StoredPredictions:
    """A table of this package; raises an error if it does not hold the stated kind."""
    table = open_predictions(path)
    if kind is not None and kind not in table.kinds:
        rule = f"be among those of the table, {', '.join(table.kinds)}"
        raise InputError("kind", rule=rule, got=repr(kind), hint="Leave it out: the table knows what it holds.")
    return table


def _of_split(table: PredictionTable, split: str | None, notes: list[str]) -> PredictionTable:
    table = table if split is None else table.of_split(split)
    table.notes = notes
    return table


def _load(batches: Iterable[Predictions]) -> Predictions:
    """All batches in memory, with different ids."""
    table = concatenate(list(batches))
    check_unique(table.columns()["ids"], "Name the column of ids with {id_column}.")
    return table


def _write(batches: Iterable[Predictions], labels: Labels, to: str | os.PathLike[str]) -> StoredPredictions:
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


def _note_likely_probs(batches: Iterable[Predictions], notes: list[str]) -> Iterator[Predictions]:
    """The batches as they are; notes it if what was called scores looks like probabilities, which is no proof."""
    low, high = math.inf, -math.inf
    for batch in batches:
        if batch.scores is not None and batch.probs is None and len(batch):
            bounds = torch.aminmax(batch.scores)
            low, high = min(low, float(bounds.min)), max(high, float(bounds.max))
        yield batch
    if 0 <= low <= high <= 1:
        notes.append("All scores lie between 0 and 1. If they are probabilities, choose the kind 'probs'.")


def _read_archive(
    path: Path, kind: str, options: ReadOptions, link: Link | None, *, with_targets: bool
) -> tuple[Predictions, list[str]]:
    """A NumPy archive, and what was taken from where."""
    columns, notes = read_archive(path, kind)
    if not with_targets:
        columns.pop("targets", None)
    table = Predictions(**({"labels": options.label_names} | columns), link=link)
    return table.read(labels=options.label_names) if "labels" in columns else table, notes


class ForeignTable:
    """A table of another program, which may lie in several files of the same columns.

    Args:
        files: The table.
        options: Options of the user.
        kind: What its numbers are, "scores" or "probs".
        link: What its scores mean.
        dtype: The type in which they are kept; as wide as the widest column by default.
        with_targets: Whether the table may hold targets; False if they come from another source.

    Attributes:
        labels: The labels of the table.
        notes: What was detected; complete after the last batch.
    """

    def __init__(
        self,
        files: Sequence[TableFile],
        options: ReadOptions,
        kind: str,
        link: Link | None,
        dtype: torch.dtype | None,
        *,
        with_targets: bool,
    ) -> None:
        self._files, self._kind, self._link = files, kind, link
        self._roles = assign_value_roles(files[0].columns, options, kind, with_targets=with_targets)
        check_same_columns(files, self._roles.used)
        double = not files[0].doubles.isdisjoint(self._roles.cells.values())
        self._dtype = dtype or (torch.float64 if double else torch.float32)
        self.labels = Labels(list(self._roles.cells))
        self._names: LabelNameReader | None = None
        if self._roles.lists is not None:
            self._names = LabelNameReader(self.labels.names, options.separator, leave_out=options.leave_out)
        self._strings = StringReader()
        self.notes = [*files[0].notes, *_describe_roles(self._roles, kind)]

    def batches(self) -> Iterator[Predictions]:
        """The table in pieces; one without rows if it has none."""
        start = 0
        for file in self._files:
            for piece in file.batches(self._roles):
                if len(piece):
                    yield self._batch(piece, start)
                    start += len(piece)
        if start == 0:
            yield self._batch(empty_batch(self._roles.used), 0)
        if self._names is not None:
            self.notes += self._names.notes(str(self._roles.lists))
        self.notes += self._strings.notes

    def _batch(self, piece: Any, start: int) -> Predictions:
        roles, strings = self._roles, self._strings
        cells = _read_values(piece, roles.cells.values(), self._dtype)
        self._check(cells, start)
        targets: Tensor | None = None
        if roles.targets:
            targets = _read_target_columns(piece, roles.targets, self.labels)
        elif self._names is not None:
            rows, columns = self._names.read(piece.column(roles.lists))
            targets = SparseTargets.from_cells(rows, columns, shape=(len(cells), len(self.labels))).dense()
        paths = None if roles.path is None else StringColumn(strings.paths(piece.column(roles.path)))
        ids = StringColumn(range(start, start + len(piece))) if paths is None else paths
        splits = None if roles.split is None else strings.splits(piece.column(roles.split), roles.split)
        return Predictions(
            scores=cells if self._kind == "scores" else None,
            probs=cells if self._kind == "probs" else None,
            targets=targets,
            labels=self.labels,
            ids=ids if roles.id is None else StringColumn(strings.ids(piece.column(roles.id))),
            paths=paths,
            splits=None if splits is None else StringColumn(splits),
            link=self._link,
        )

    def _check(self, cells: Tensor, start: int) -> None:
        """Rejects blank cells and invalid probabilities; the error names the column."""
        low, high = (float(bound) for bound in torch.aminmax(cells)) if cells.numel() else (0.0, 1.0)
        blank, is_probs = math.isnan(low), self._kind == "probs"
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
        raise InputError("table", rule=rule, got=got, hint=hint)


def _describe_roles(roles: ColumnRoles, kind: str) -> list[str]:
    """Notes about the role of each column."""
    notes = [f"Read {len(roles.cells):,} columns as {kind} of labels: {preview_names(roles.cells)}."]
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


def _read_values(piece: Any, columns: Iterable[str], dtype: torch.dtype) -> Tensor:
    """(n, K) of columns of a foreign record batch, whatever type of number they hold; NaN where there is none."""
    pa = import_arrow()
    positions = {name: position for position, name in enumerate(piece.schema.names)}
    selected = [piece.column(positions[name]) for name in columns]
    numbers = [
        column
        if pa.types.is_primitive(column.type) and not pa.types.is_null(column.type)
        else column.cast(pa.float64())
        for column in selected
    ]
    cells = torch.empty(len(piece), len(numbers), dtype=dtype)
    fill_from_arrow(cells, numbers)
    return cells


def _read_target_columns(piece: Any, columns: Mapping[str, str], labels: Labels) -> Tensor:
    """Targets (n, K) of a foreign record batch; -1 where a cell is blank or a label has no column."""
    present = [position for position, name in enumerate(labels.names) if name in columns]
    cells = _read_values(piece, [columns[labels.names[position]] for position in present], torch.float32)
    targets = torch.full((len(piece), len(labels)), -1.0)
    targets[:, present] = torch.where(cells.isnan(), -1.0, cells)
    return targets


class StringReader:
    """Reads columns of texts, batch after batch, and collects notes; spaces around a text are not part of it."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def ids(self, column: Any) -> Any:
        """Ids as they are."""
        return import_arrow().compute.utf8_trim_whitespace(as_strings(column))

    def paths(self, column: Any) -> Any:
        """Paths with slashes, also where Windows wrote them."""
        compute = import_arrow().compute
        strings = self.ids(column)
        if not compute.any(compute.match_substring(strings, "\\")).as_py():
            return strings
        self._note("Backslashes in paths are read as slashes.")
        return with_slashes(strings)

    def splits(self, column: Any, name: str) -> Any:
        """Splits of a column of this name under their usual names."""
        pa = import_arrow()
        coded = self.ids(column).dictionary_encode()
        canonical, notes = rename_splits(coded.dictionary.to_pylist(), flag=is_flag(name))
        self._note(*notes)
        return pa.array(canonical, pa.string()).take(coded.indices)

    def _note(self, *notes: str) -> None:
        self.notes += [note for note in notes if note not in self.notes]


def with_slashes(strings: Any) -> Any:
    """Texts of Arrow with slashes for backslashes."""
    return import_arrow().compute.replace_substring(strings, "\\", "/")


def _open_targets(source: Any, labels: Labels, options: ReadOptions) -> AlignedTargets | JoinedTargets:
    """Targets of a file, or of anything that `Predictions` takes."""
    if not isinstance(source, str | os.PathLike):
        return AlignedTargets(as_dense_targets(source, labels))
    with _path_is("targets"):
        check_format(source, "", "path")
        if is_archive(source):
            return AlignedTargets(as_dense_targets(read_target_array(Path(source)), labels))
        return JoinedTargets(source, labels, options)


class AlignedTargets:
    """Targets in the order of the predictions."""

    def __init__(self, targets: Any) -> None:
        self._targets = as_tensor("read_predictions", targets, "targets")

    def columns(self, ids: StringColumn, paths: StringColumn | None, start: int) -> dict[str, Any]:
        """Targets (n, K) of the next rows; `start` numbers the first one."""
        stop = start + len(ids)
        if stop > len(self._targets):
            self._raise_row_count(f"at least {stop}")
        return {"targets": self._targets[start:stop]}

    def finish(self, rows: int) -> list[str]:
        """Notes, after all `rows` rows were read; raises an error if targets are left over."""
        if rows != len(self._targets):
            self._raise_row_count(str(rows))
        return ["Targets are taken row by row."]

    def _raise_row_count(self, rows: str) -> None:
        hint = "Pass a table of targets with an id column to join them."
        rule = f"have as many rows as the predictions, {rows}"
        raise InputError("targets", rule=rule, got=str(len(self._targets)), hint=hint)


class JoinedTargets:
    """Targets of another file, looked up by id or path; rows that are not in it are unknown.

    Args:
        path: CSV, TSV or Parquet.
        labels: The labels of the predictions.
        options: Options of the user.
    """

    def __init__(self, path: str | os.PathLike[str], labels: Labels, options: ReadOptions) -> None:
        self._labels, self._options, self._name = labels, options, Path(path).name
        files = open_tables(path)
        columns = files[0].columns
        named = options.id_column if options.id_column in columns else None
        self._roles = assign_target_roles(columns, replace(options, id_column=named), labels)
        if self._roles.key is None:
            rule, got = "have a column of ids or paths", f"the columns {preview_names(columns)}"
            raise InputError("targets", rule=rule, got=got, hint="Name it with {id_column}.")
        check_same_columns(files, self._roles.used)
        self._key, self._notes, self._strings = self._roles.key, list(files[0].notes), StringReader()
        self._matched_rows, self._example = 0, ""
        pieces = [piece for file in files for piece in file.batches(self._roles)]
        self._load(pieces or [empty_batch(self._roles.used)])

    def columns(self, ids: StringColumn, paths: StringColumn | None, start: int) -> dict[str, Any]:
        """Targets (n, K), and splits where known, of these ids, or of these paths where the file has only paths."""
        source = ids if paths is None or self._roles.id is not None else paths
        keys = [key.replace("\\", "/") for key in source.tolist()]
        positions = np.fromiter((self._positions.get(key, -1) for key in keys), dtype=np.int64, count=len(keys))
        matched = positions >= 0
        rows = positions[matched]
        self._used[rows] = True
        self._matched_rows += len(rows)
        self._example = keys[0] if keys else ""
        targets = torch.full((len(keys), len(self._labels)), -1, dtype=torch.int8)
        targets[torch.from_numpy(matched)] = self._targets.dense(rows)
        if self._splits is None:
            return {"targets": targets}
        pa = import_arrow()
        splits = self._splits.take(pa.array(positions, mask=~matched))
        return {"targets": targets, "splits": StringColumn(as_strings(splits))}

    def finish(self, rows: int) -> list[str]:
        """Notes, after all `rows` rows were read; raises an error if the file shares no id with the predictions."""
        if rows and not self._matched_rows:
            example = next(iter(self._positions), "nothing")
            got = f"{example!r} where the predictions have {self._example!r}"
            rule = f"share the ids in column {self._key!r} with the predictions"
            raise InputError("targets", rule=rule, got=got, hint="Name the column of ids with {id_column}.")
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
        return self._notes + notes + self._strings.notes

    def _load(self, pieces: list[Any]) -> None:
        """Keys without repetition, and for each its split and either its lists of names or its row of targets."""
        pa, roles, strings = import_arrow(), self._roles, self._strings
        keys = pa.chunked_array([strings.ids(piece.column(self._key)) for piece in pieces])
        keys = with_slashes(keys)  # what Windows wrote is joined with what Linux wrote, and the other way round
        coded = keys.combine_chunks().dictionary_encode()
        rows = as_numpy(coded.indices).astype(np.int64)
        self._positions = {key: position for position, key in enumerate(coded.dictionary.to_pylist())}
        self._used = np.zeros(len(self._positions), dtype=np.bool_)
        self._splits: Any = None
        if roles.split is not None:
            splits = pa.chunked_array([strings.splits(piece.column(roles.split), roles.split) for piece in pieces])
            self._splits = splits.take(pa.array(np.unique(rows, return_index=True)[1]))
        if roles.lists is not None:  # several rows of one key are put together
            reader = LabelNameReader(self._labels.names, self._options.separator, leave_out=self._options.leave_out)
            starts = np.cumsum([0, *(len(piece) for piece in pieces)])
            cells = [reader.read(piece.column(roles.lists)) for piece in pieces]
            owners = np.concatenate([rows[start + own] for start, (own, _) in zip(starts, cells, strict=False)])
            columns = np.concatenate([columns for _, columns in cells])
            shape = (len(self._positions), len(self._labels))
            self._targets = SparseTargets.from_cells(owners, columns, shape=shape)
            self._notes += reader.notes(roles.lists, f" of {self._name}")
            return
        if len(self._positions) < len(rows):
            duplicate = next(text for text, count in StringColumn(keys).counts().items() if count > 1)
            got, hint = f"{duplicate!r} twice", "Keep one row of each."
            raise InputError("targets", rule="have one row per id", got=got, hint=hint)
        parts = []
        for piece in pieces:
            values = _read_target_columns(piece, roles.targets, self._labels)
            check_target_values("", values)
            parts.append(values.to(torch.int8))
        self._targets = SparseTargets.from_dense(torch.cat(parts))


def _join_targets(
    batches: Iterable[Predictions], targets: AlignedTargets | JoinedTargets, notes: list[str]
) -> Iterator[Predictions]:
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
