"""Reading predictions of any origin (CSV, TSV, Parquet, data frames, NumPy archives), with targets joined to them."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import as_tensor, check_choice
from manyhot.data.targets import SparseTargets
from manyhot.errors import InputError, owned
from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.predictions.columns import StringColumn, as_dense_targets, fill_from_arrow
from manyhot.predictions.parquet import PredictionsWriter, StoredPredictions, open_predictions
from manyhot.predictions.predictions import Predictions, PredictionTable, check_unique, concatenate, select_labels
from manyhot.tables.arrow import as_strings, pa
from manyhot.tables.columns import (
    ColumnRoles,
    LabelNameReader,
    ReadOptions,
    assign_target_roles,
    assign_value_roles,
    encode,
    preview_names,
    rename_splits,
)
from manyhot.tables.metadata import METADATA_KEY
from manyhot.tables.reader import TableFile, check_same_columns, is_archive, open_tables, read_arrays, read_metadata


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
        stored = open_predictions(source) if is_path and METADATA_KEY in read_metadata(source) else None
        _check_kind(kind, None if stored is None else stored.kinds)
        check_choice("other_labels", "", other_labels, ("refuse", "leave out"))
        if separator == "":
            hint = "Leave it out to have it detected."
            raise InputError("separator", rule="be a character", got="''", hint=hint)
        if dtype not in (None, torch.float32, torch.float64):
            hint = "Read the numbers in one of these, and convert them later."
            raise InputError("dtype", rule="be torch.float32 or torch.float64", got=str(dtype), hint=hint)
        options = ReadOptions(
            label_names=None if labels is None else Labels(labels).names,
            id_column=id_column,
            labels_column=labels_column,
            separator=separator,
            leave_out=other_labels == "leave out",
        )
        notes = [f"Opened {stored!r}."]  # complete after the last batch
        if stored is not None and targets is None and labels is None and link is None and to is None:
            return _of_split(stored, split, notes)
        if stored is not None:
            taken = select_labels(stored, options.label_names)
            batches: Iterable[Predictions] = (batch.read(labels=taken) for batch in stored.batches())
            batches = batches if link is None else (batch.replace(link=link) for batch in batches)
        elif is_path and is_archive(source):
            archive = _read_archive(Path(source), str(kind), options, link, with_targets=targets is None)
            taken, notes, batches = archive.labels, archive.notes, [archive]
        else:
            # Where targets come from another file, the column of label names is one of that file.
            own = options if targets is None else replace(options, labels_column=None)
            files = open_tables(source, delimiter=delimiter, double=dtype == torch.float64)
            roles = assign_value_roles(files[0].columns, own, str(kind), with_targets=targets is None)
            described = _describe_roles(roles, str(kind), files[0].columns)
            taken, notes = Labels(list(roles.cells)), [*files[0].notes, *described]
            batches = RowReader(files, roles, taken, own).predictions(str(kind), link, dtype, notes)
        batches = batches if targets is None else _add_targets(batches, targets, taken, options, notes)
        batches = _check_batches(batches, notes)
        table = concatenate(list(batches)) if to is None else _write(batches, taken, to)
        return _of_split(table, split, notes)


@contextmanager
def _path_is(argument: str) -> Iterator[None]:
    """Names the argument that a file was passed as, in errors about it."""
    try:
        yield
    except InputError as error:
        if error.argument == "path" and not error.owner:
            error.argument = argument
        raise


def _check_kind(kind: str | None, kinds: tuple[str, ...] | None) -> None:
    """Checks what the numbers are said to be; a table of this package has `kinds` and knows it."""
    if kind not in ("scores", "probs") and (kinds is None or kind is not None):
        hint = "Say 'scores' for any real numbers and 'probs' for probabilities: nothing is guessed."
        got = "nothing" if kind is None else repr(kind)
        raise InputError("kind", rule="be 'scores' or 'probs'", got=got, hint=hint)
    if kinds is not None and kind not in (None, *kinds):
        rule = f"be among those of the table, {', '.join(kinds)}"
        raise InputError("kind", rule=rule, got=repr(kind), hint="Leave it out: the table knows what it holds.")


def _of_split(table: PredictionTable, split: str | None, notes: list[str]) -> PredictionTable:
    table = table if split is None else table.of_split(split)
    table.notes = notes
    return table


ARRAY_NAMES = {
    "targets": ("targets",),
    "labels": ("labels", "names"),
    "ids": ("ids", "id"),
    "paths": ("paths", "path"),
    "splits": ("splits", "split"),
}


def _read_archive(path: Path, kind: str, options: ReadOptions, link: Link | None, *, with_targets: bool) -> Predictions:
    """The table in a NumPy archive; its notes say what was taken from where."""
    arrays, names_of = read_arrays(path), ARRAY_NAMES
    if "labels" in arrays and arrays["labels"].ndim == 2:  # often the name of the targets
        names_of = names_of | {"targets": ("targets", "labels"), "labels": ("names",)}
    taken = {role: name for role, names in names_of.items() for name in reversed(names) if name in arrays}
    floats = [name for name, array in arrays.items() if array.ndim == 2 and array.dtype.kind == "f"]
    # Where no array is called scores or probabilities, as `kind` says, one alone may hold them.
    tables = [kind] if kind in arrays else [n for n in floats if n not in ("scores", "probs", *taken.values())]
    if len(tables) != 1:
        rule, got = f"hold an array `{kind}`", f"the arrays {preview_names(arrays)}"
        raise InputError("path", rule=rule, got=got, hint=f"Save them with `np.savez(path, {kind}={kind})`.")
    taken = {kind: tables[0], **taken}
    if not with_targets:
        taken.pop("targets", None)
    notes = [f"Read array {name!r} as {role}." for role, name in taken.items()]
    left_out = [name for name in arrays if name not in taken.values()]
    notes += [f"Left out {preview_names(left_out)}."] if left_out else []
    columns: dict[str, Any] = {"labels": options.label_names} | {role: arrays[name] for role, name in taken.items()}
    if "labels" in taken:
        columns["labels"] = columns["labels"].astype(str).tolist()
    if "splits" in columns and columns["splits"].ndim == 1:
        columns["splits"], renamed = rename_splits([str(name) for name in columns["splits"].tolist()])
        notes += renamed
    table = Predictions(**columns, link=link)
    table = table.read(labels=options.label_names) if "labels" in taken else table
    table.notes = notes
    return table


def _read_target_array(path: Path) -> Any:
    """The targets of an archive: its array `targets`, its only array, or the sparse matrix that SciPy saved there."""
    arrays = read_arrays(path)
    if {"format", "shape", "data"} <= arrays.keys():
        return import_module("scipy.sparse").load_npz(path)
    if "targets" not in arrays and len(arrays) != 1:
        rule, got = "hold an array `targets`", f"the arrays {preview_names(arrays)}"
        raise InputError("targets", rule=rule, got=got, hint="Save them under that name.")
    return arrays.get("targets", next(iter(arrays.values())))


def _write(batches: Iterable[Predictions], labels: Labels, to: str | os.PathLike[str]) -> StoredPredictions:
    """All batches in a file, of which one at a time is in memory."""
    with PredictionsWriter(to, labels) as writer:
        for batch in batches:
            writer.write(batch)
    return open_predictions(to)


def _check_batches(batches: Iterable[Predictions], notes: list[str]) -> Iterator[Predictions]:
    """The batches as they are; rejects an id that comes twice, before a file of them is complete.

    It also notes if what was called scores looks like probabilities, which is no proof.
    """
    ids, low, high = [], math.inf, -math.inf
    for batch in batches:
        ids.append(batch.columns()["ids"])  # the texts alone are small
        if batch.scores is not None and batch.probs is None and len(batch):
            bounds = torch.aminmax(batch.scores)
            low, high = min(low, float(bounds.min)), max(high, float(bounds.max))
        yield batch
    if not ids[0].numbered:
        check_unique(StringColumn.concatenated(ids), "Name the column of ids with {id_column}.")
    if 0 <= low <= high <= 1:
        notes.append("All scores lie between 0 and 1. If they are probabilities, choose the kind 'probs'.")


class RowReader:
    """Reads the rows of a table of another program, which may lie in several files of the same columns.

    Args:
        files: The table.
        roles: The columns by what they hold.
        labels: The labels of its targets.
        options: Options of the user.

    Attributes:
        notes: What was noticed so far, each once.
        names: Reads the lists of label names, if there are any.
    """

    def __init__(self, files: Sequence[TableFile], roles: ColumnRoles, labels: Labels, options: ReadOptions) -> None:
        check_same_columns(files, roles.used)
        self.roles, self.labels, self._files = roles, labels, files
        self.notes: dict[str, None] = {}
        self.names: LabelNameReader | None = None
        if roles.lists is not None:
            self.names = LabelNameReader(labels.names, options.separator, leave_out=options.leave_out)

    def batches(self) -> Iterator[Any]:
        """Record batches of the columns that have a role; one without rows if there are none."""
        pieces = (piece for file in self._files for piece in file.batches(self.roles) if len(piece))
        without_rows = pa.RecordBatch.from_pydict(dict.fromkeys(self.roles.used, pa.array((), "string")))
        return chain([next(pieces, without_rows)], pieces)

    def all_rows(self) -> Any:
        """All of them as one record batch."""
        table = pa.Table.from_batches(self.batches())
        return pa.RecordBatch.from_pydict({name: table.column(name).combine_chunks() for name in table.column_names})

    def paths(self, piece: Any) -> Any:
        """Paths with slashes, also where Windows wrote them."""
        written = piece.column(self.roles.path)
        paths = with_slashes(written)
        if not paths.equals(written):
            self.notes["Backslashes in paths are read as slashes."] = None
        return paths

    def splits(self, piece: Any) -> Any:
        """Splits under their usual names."""
        coded = piece.column(self.roles.split).dictionary_encode()
        names, notes = rename_splits(coded.dictionary.to_pylist(), str(self.roles.split))
        self.notes |= dict.fromkeys(notes)
        return pa.array(names, pa.string()).take(coded.indices)

    def targets(self, piece: Any) -> Tensor | None:
        """Targets (n, K), -1 where a cell is blank or a label has no column; None if the table has none."""
        shape, columns = (len(piece), len(self.labels)), self.roles.targets
        if not columns:
            present = None if self.names is None else self.names.read(piece.column(self.roles.lists))
            return None if present is None else SparseTargets.from_cells(*present, shape=shape).dense()
        targets = torch.full(shape, -1, dtype=torch.int8)
        columns_of = [self.labels.column(name) for name in columns]
        targets[:, columns_of] = _read_values(piece, columns.values(), torch.int8)
        return targets

    def predictions(
        self, kind: str, link: Link | None, dtype: torch.dtype | None, notes: list[str]
    ) -> Iterator[Predictions]:
        """A table of scores or probabilities, in numbers as wide as its widest column by default."""
        roles, start = self.roles, 0
        double = dtype is None and not self._files[0].doubles.isdisjoint(roles.cells.values())
        for piece in self.batches():
            cells: Any = _read_values(piece, roles.cells.values(), torch.float64 if double else dtype or torch.float32)
            _check_values(cells, kind, roles, start)
            rows: dict[str, Any] = {"ids": StringColumn(range(start, start + len(piece)))}
            if roles.path is not None:
                rows["ids"] = rows["paths"] = StringColumn(self.paths(piece))
            if roles.id is not None:
                rows["ids"] = StringColumn(piece.column(roles.id))
            if roles.split is not None:
                rows["splits"] = StringColumn(self.splits(piece))
            yield Predictions(**{kind: cells}, **rows, targets=self.targets(piece), labels=self.labels, link=link)
            start += len(piece)
        notes += [] if self.names is None else self.names.notes(str(roles.lists))
        notes += self.notes


def with_slashes(texts: Any) -> Any:
    """Texts of Arrow with slashes for backslashes."""
    return pa.compute.replace_substring(texts, "\\", "/")


def _read_values(piece: Any, columns: Collection[str], dtype: torch.dtype) -> Tensor:
    """(n, K) of columns of a record batch, whatever type of number they hold; NaN or -1 where there is none."""
    cells = torch.empty(len(piece), len(columns), dtype=dtype)
    fill_from_arrow(cells, [piece.column(name) for name in columns])
    return cells


def _check_values(cells: Tensor, kind: str, roles: ColumnRoles, start: int) -> None:
    """Rejects blank cells and invalid probabilities; the error names the column."""
    low, high = (float(bound) for bound in torch.aminmax(cells)) if cells.numel() else (0.0, 1.0)
    if math.isnan(low):
        invalid, rule = cells.isnan(), "have a number in every cell of its labels"
        hint = "Fill or drop these rows, or name the columns of labels with {labels}."
    elif kind == "probs" and (low < 0 or high > 1):
        invalid, rule = (cells < 0) | (cells > 1), "hold probabilities between 0 and 1"
        hint = "Say `{kind='scores'}`, or name the columns of labels with {labels}."
    else:
        return
    row, column = invalid.nonzero()[0].tolist()
    content = "none" if math.isnan(low) else f"{float(cells[row, column]):g}"
    got = f"{content} in column {list(roles.cells.values())[column]!r}, row {start + row}"
    raise InputError("table", rule=rule, got=got, hint=hint)


def _describe_roles(roles: ColumnRoles, kind: str, columns: Iterable[str]) -> list[str]:
    """Notes about the role of each column."""
    notes = [f"Read {len(roles.cells):,} columns as {kind} of labels: {preview_names(roles.cells)}."]
    by_path = "Ids are row numbers." if roles.path is None else f"Ids are the paths in column {roles.path!r}."
    notes.append(by_path if roles.id is None else f"Ids are in column {roles.id!r}.")
    if roles.split is not None:
        notes.append(f"Splits are in column {roles.split!r}.")
    if roles.targets:
        notes.append(f"Targets are in {len(roles.targets):,} columns: {preview_names(list(roles.targets.values()))}.")
        without = [name for name in roles.cells if name not in roles.targets]
        notes += [f"Targets of {preview_names(without)} are unknown: they have no column."] if without else []
    left_out = roles.left_out(columns)
    notes += [f"Left out columns: {preview_names(left_out)}."] if left_out else []
    return notes


def _add_targets(
    batches: Iterable[Predictions], source: Any, labels: Labels, options: ReadOptions, notes: list[str]
) -> Iterator[Predictions]:
    """The batches with targets of a file, or of anything that `Predictions` takes."""
    if isinstance(source, str | os.PathLike):
        with _path_is("targets"):
            read_metadata(source)  # checks the format
            if not is_archive(source):
                return TargetsFile(source, labels, options).join(batches, notes)
            source = _read_target_array(Path(source))
    return _align_targets(batches, as_dense_targets(source, labels), notes)


def _align_targets(batches: Iterable[Predictions], targets: Any, notes: list[str]) -> Iterator[Predictions]:
    """The batches with targets in the order of their rows."""
    targets, rows = torch.atleast_1d(as_tensor("read_predictions", targets, "targets")), 0
    for batch in batches:
        rows += len(batch)
        if rows > len(targets):
            break
        yield batch.replace(targets=targets[rows - len(batch) : rows])
    if rows != len(targets):
        hint = "Pass a table of targets with an id column to join them."
        rule = f"have as many rows as the predictions, {'at least ' if rows > len(targets) else ''}{rows}"
        raise InputError("targets", rule=rule, got=str(len(targets)), hint=hint)
    notes.append("Targets are taken row by row.")


class TargetsFile:
    """Targets of another file, looked up by id or path; rows that are not in it are unknown.

    Args:
        path: CSV, TSV or Parquet.
        labels: The labels of the predictions.
        options: Options of the user.
    """

    def __init__(self, path: str | os.PathLike[str], labels: Labels, options: ReadOptions) -> None:
        files = open_tables(path)
        columns = files[0].columns
        named = options.id_column if options.id_column in columns else None
        roles = assign_target_roles(columns, replace(options, id_column=named), labels)
        if roles.key is None:
            rule, got = "have a column of ids or paths", f"the columns {preview_names(columns)}"
            raise InputError("targets", rule=rule, got=got, hint="Name it with {id_column}.")
        self._name, self._notes = Path(path).name, list(files[0].notes)
        table = RowReader(files, roles, labels, options)
        self._rows, piece = table, table.all_rows()
        # Keys without repetition, and for each its split and either its lists of names or its row of targets. What
        # Windows wrote is joined with what Linux wrote, and the other way round.
        keys = with_slashes(piece.column(roles.key))
        names, rows = encode(keys)
        self._positions = {key: position for position, key in enumerate(names)}
        self._splits: Any = None
        if roles.split is not None:
            self._splits = table.splits(piece).take(pa.array(np.unique(rows, return_index=True)[1]))
        if table.names is not None:  # several rows of one key are put together
            owners, present = table.names.read(piece.column(roles.lists))
            self._targets = SparseTargets.from_cells(rows[owners], present, shape=(len(names), len(labels)))
            self._notes += table.names.notes(str(roles.lists), f" of {self._name}")
            return
        if len(self._positions) < len(rows):
            got, hint = f"{StringColumn(keys).first_duplicate()!r} twice", "Keep one row of each."
            raise InputError("targets", rule="have one row per id", got=got, hint=hint)
        self._targets = SparseTargets.from_dense(cast(Tensor, table.targets(piece)))

    def join(self, batches: Iterable[Predictions], notes: list[str]) -> Iterator[Predictions]:
        """The batches with their targets by id, or by path where the file has only paths.

        They get its splits too, where it has some and they have none.
        """
        roles, labels = self._rows.roles, self._rows.labels
        no_row, targets = len(self._positions), self._targets.extended(1)  # whose last row is unknown
        used = np.zeros(no_row, dtype=np.bool_)
        rows, matched_rows, example, splits = 0, 0, "", False
        for batch in batches:
            columns = batch.columns()
            by_path = roles.id is None and "paths" in columns
            keys = [key.replace("\\", "/") for key in columns["paths" if by_path else "ids"].tolist()]
            positions = np.array([self._positions.get(key, no_row) for key in keys], dtype=np.int64)
            matched = positions < no_row
            content: dict[str, Any] = {"targets": targets.dense(positions)}
            splits = self._splits is not None and "splits" not in columns
            if splits:
                content["splits"] = StringColumn(as_strings(self._splits.take(pa.array(positions, mask=~matched))))
            yield batch.replace(**content)
            used[positions[matched]] = True
            rows, matched_rows = rows + len(keys), matched_rows + int(matched.sum())
            example = keys[0] if keys else ""
        if rows and not matched_rows:
            got = f"{next(iter(self._positions), 'nothing')!r} where the predictions have {example!r}"
            rule = f"share the ids in column {roles.key!r} with the predictions"
            raise InputError("targets", rule=rule, got=got, hint="Name the column of ids with {id_column}.")
        share = f"{matched_rows:,} of {rows:,} rows have some."
        notes += [*self._notes, f"Targets of {self._name} are joined by column {roles.key!r}: {share}"]
        others, unused = rows - matched_rows, int((~used).sum())
        notes += [f"All labels of the other {others:,} rows are unknown."] if others else []
        notes += [f"{unused:,} ids of {self._name} are not among the predictions."] if unused else []
        without = [name for name in labels.names if name not in roles.targets] if roles.lists is None else []
        notes += [f"{self._name} has no column for {preview_names(without)}: unknown in all rows."] if without else []
        notes += self._rows.notes
        notes += ["Splits come from the same file as the targets."] if splits else []
