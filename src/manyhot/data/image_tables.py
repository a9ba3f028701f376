"""Tables of images: one row per image, or one row per image and label, with label names or one column per label."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files, ImageSource, ParquetImages
from manyhot.data.targets import SparseTargets, index_names
from manyhot.errors import InputError
from manyhot.image_paths import resolve_image_files
from manyhot.labels import UNKNOWN, Labels
from manyhot.tables.arrow import as_numpy, as_strings, pa
from manyhot.tables.columns import (
    BLANK_CELLS,
    Array,
    ColumnRoles,
    ReadOptions,
    assign_image_roles,
    canonical_splits,
    describe_separator,
    detect_separator,
    encode,
    kind_of_type,
    list_entries,
    preview_names,
    splits_from_paths,
)
from manyhot.tables.reader import TableFile, check_same_columns, open_table


def read_image_tables(files: Sequence[Path], options: ReadOptions, *, with_labels: bool = True) -> Dataset:
    """All rows of tables of the same columns, with rows of the same image joined.

    Args:
        files: One or several; without a column of splits, these are taken from the names of files or folders.
        options: What the user said.
        with_labels: Whether labels are wanted; otherwise paths alone are read.
    """
    tables = [open_table(path, delimiter=options.delimiter) for path in files]
    rows = TableRows(tables, assign_image_roles(tables[0], options, with_labels=with_labels), options)
    labels, targets, labels_note = rows.labels()
    ids, image_rows, images, image_notes = rows.images()
    splits, split_notes = rows.splits()
    count, roles = len(rows.file_of_row), rows.roles
    opening = f"Read {count:,} rows of {files[0].name if len(files) == 1 else f'{len(files)} files'}"
    opening += f"; {'images' if rows.embedded else 'paths'} in column {roles.path!r}{labels_note}"
    opening += "." if roles.split is None else f"; splits in column {roles.split!r}."
    notes = [*tables[0].notes, opening]
    if len(ids) < count:
        notes.append(f"Rows of the same image were joined: {count:,} rows, {len(ids):,} images.")
        targets = join_rows(targets, image_rows, len(ids))
    notes += image_notes
    left_out = roles.left_out(tables[0].columns)
    if left_out and labels_note:
        notes.append(f"Left out columns {preview_names(left_out)}.")
    notes += split_notes
    return Dataset(labels, targets, ids, images=images, splits=join_splits(ids, image_rows, splits), notes=notes)


class TableRows:
    """The rows of some tables, as they came.

    Args:
        tables: Of the same columns.
        roles: The columns to read.
        options: What the user said.
    """

    def __init__(self, tables: Sequence[TableFile], roles: ColumnRoles, options: ReadOptions) -> None:
        self.tables, self.roles, self.options = tables, roles, options
        check_same_columns(tables, roles.used)
        # Images stay on disk; only their number is needed here.
        self.embedded = tables[0].columns[str(roles.path)] == "image"
        read = replace(roles, path=None) if self.embedded else roles
        pieces = [list(table.batches(read)) for table in tables]
        self.file_of_row = np.repeat(np.arange(len(tables)), [sum(map(len, some)) for some in pieces])
        if not len(self.file_of_row):
            hint = "Write one row for each image."
            raise InputError("path", rule="have rows", got=f"{str(tables[0].path)!r} without any", hint=hint)
        self.columns = pa.Table.from_batches(chain.from_iterable(pieces))

    def encode(self, name: str) -> tuple[list[str], Array]:
        """The distinct texts of a column in the order in which they occur, and which of them each row has."""
        return encode(self.columns.column(name).combine_chunks())

    def labels(self) -> tuple[Labels, SparseTargets, str]:
        """Labels, targets (rows, K), and a clause about them."""
        column = self.roles.lists
        if self.roles.targets:
            return self._labels_of_columns()
        if column is None:
            return Labels([]), SparseTargets.from_rows([()] * len(self.file_of_row), num_labels=0), ""
        labels, targets, separation = read_label_lists(self.columns.column(column), self.options)
        names = self.tables[0].class_names(column)
        if names is not None and all(name.isdecimal() and int(name) < len(names) for name in labels.names):
            labels = Labels([str(names[int(name)]) for name in labels.names])
        return labels, targets, f"; labels in column {column!r}, {separation}"

    def _labels_of_columns(self) -> tuple[Labels, SparseTargets, str]:
        """Labels, targets, and a clause where each label has a column."""
        names, unknown = list(self.roles.targets.values()), self.options.unlisted != "absent"
        columns = self.columns.select(names).columns
        cells = np.stack([as_numpy(column.fill_null(UNKNOWN if unknown else 0)) for column in columns], axis=1)
        note = f"; one column per label, {preview_names(names)}"
        if any(column.null_count for column in columns):
            note += f"; blank cells are {'unknown' if unknown else 'absent'}"
            if unknown and (cells != 0).all():
                note += " (no cell is 0: choose unlisted 'absent' if a blank means that the label is not there)"
        return Labels(list(self.roles.targets)), SparseTargets.from_dense(cells), note

    def images(self) -> tuple[list[str], Array, ImageSource, list[str]]:
        """Distinct ids, the image of each row, the images, and where they were found."""
        files = [table.path for table in self.tables]
        if self.embedded:
            source = ParquetImages(files, str(self.roles.path))
            return [source.name(row) for row in range(len(source))], np.arange(len(source)), source, []
        written, codes = self.encode(str(self.roles.path))
        if "" in written:
            got = f"a blank in row {int(np.argmax(codes == written.index(''))) + 1}"
            hint = "Fill it in, or drop the row."
            raise InputError("path_column", rule="have a path in every row", got=got, hint=hint)
        folders = list(dict.fromkeys(file.parent for file in files))
        if len(folders) == 1:
            located, root, notes = resolve_image_files(written, folders[0], self.options)
            return written, codes, Files(located, root=root), notes
        # One name in two folders is two images, unless it says where the image lies.
        folder_of_row = np.array([folders.index(file.parent) for file in files])[self.file_of_row]
        folder_of_row[np.array([os.path.isabs(name) for name in written])[codes]] = 0
        keys, image_rows = encode(pa.array(codes + len(written) * folder_of_row))
        folder_of_image, names = np.divmod(keys, len(written))
        ids, resolved = np.empty((2, len(keys)), dtype=object)
        common, notes = os.path.commonpath(folders), list[str]()
        for number, folder in enumerate(folders):
            members = folder_of_image == number
            inside = [written[name] for name in names[members]]
            paths, root, more = resolve_image_files(inside, folder, self.options)
            notes += [note for note in more if note not in notes]
            prefix = os.path.relpath(folder, common)
            ids[members] = [os.path.join(prefix, name) for name in inside]
            resolved[members] = [os.path.join(root, path) for path in paths]
        return ids.tolist(), image_rows, Files(resolved.tolist()), notes

    def splits(self) -> tuple[Array | None, list[str]]:
        """The split of each row, and notes."""
        column = self.roles.split
        if column is None:
            return splits_by_file([table.path for table in self.tables], self.file_of_row, self.options)
        names, codes = self.encode(column)
        return canonical_splits(codes, names, column)


def read_label_lists(column: Any, options: ReadOptions, *, unit: str = "row") -> tuple[Labels, SparseTargets, str]:
    """The labels of a chunked column of texts or lists, the targets of its rows, and how the names were separated.

    Spaces around a name are not part of it, and a blank text or an empty list is a row without labels. With
    `label_names` of the options a separator is found more surely. `unit` says in notes what has the names.
    """
    column, codes, separator = column.combine_chunks(), None, options.separator or ""
    kind = kind_of_type(column.type)
    if kind == "structure" or (kind == "list" and pa.types.is_nested(column.type.value_type)):
        hint = "Name another column."
        raise InputError("labels_column", rule="hold lists of names", got=str(column.type), hint=hint)
    if kind != "list":
        texts, codes = encode(as_strings(column))
        if options.separator is None:
            counts = np.bincount(codes, minlength=len(texts)).tolist()
            separator = detect_separator(dict(zip(texts, counts, strict=True)), options.label_names)
        separation = describe_separator(separator, unit) + " as detected" * (options.separator is None)
        # Programs write a blank cell as "nan" or "NULL", and people write "none".
        known = ("", *(options.label_names or ()))
        blank = [text for text in texts if text.strip() in BLANK_CELLS and text.strip() not in known]
        separation += f", and {blank[0]!r} for a row without any" if blank else ""
        if options.separator is None and not separator and any(" " in text.strip() for text in texts):
            separation += " (choose the separator ' ' if spaces separate names)"
        column = pa.array(["" if text in blank else text for text in texts], "string")
    rows, name_codes, names = list_entries(column, separator)
    unlisted = options.unlisted or "absent"
    labels, targets = index_names(rows, names, codes=name_codes, num_rows=len(column), unlisted=unlisted)
    return (labels, targets, "as lists") if codes is None else (labels, targets.take(codes), separation)


def splits_by_file(
    files: Sequence[Path], file_of_row: Array, options: ReadOptions, *, noun: str = "files"
) -> tuple[Array | None, list[str]]:
    """The split of each row by the name of the file that it is in, and notes."""
    by_file = splits_from_paths(files) if options.split_column is None else None
    if by_file is None:
        return None, []
    return np.array(by_file, dtype=object)[file_of_row], [f"Splits are taken from the names of the {noun}."]


def join_splits(ids: Sequence[str], image_rows: Array, splits: Array | None) -> Array | None:
    """The split of each image, which several rows may name; raises an error if they disagree."""
    if splits is None:
        return None
    first = np.empty(len(ids), dtype=object)
    first[image_rows[::-1]] = splits[::-1]
    other = np.flatnonzero(splits != first[image_rows])
    if len(other):
        image = image_rows[other[0]]
        raise conflicting_splits_error(ids[image], first[image], splits[other[0]])
    return first


def conflicting_splits_error(image: str, first: str, second: str) -> InputError:
    """The error for an image in two splits."""
    got = f"{image!r} in {first!r} and {second!r}"
    hint = "Keep one of them: an image seen in training proves nothing in a test."
    return InputError("split", rule="be one for each image", got=got, hint=hint)


def join_rows(targets: SparseTargets, image_rows: Array, images: int) -> SparseTargets:
    """Targets of images, of which several rows may speak: what one of them knows holds, and present before absent."""
    rows, columns, values = targets.cells()
    rows = image_rows[rows]
    if targets.unlisted == "absent" and (values == -1).any():
        # Unknown only where no row says that the label is absent, which such rows do by not listing it.
        keys = rows * targets.num_labels + columns
        unknown, inverse, repeated = np.unique(keys[values == -1], return_inverse=True, return_counts=True)
        repeats = np.bincount(image_rows, minlength=images)[unknown // max(targets.num_labels, 1)]
        selected = values != -1
        selected[values == -1] = (repeated == repeats)[inverse]
        rows, columns, values = rows[selected], columns[selected], values[selected]
    shape = (images, targets.num_labels)
    return SparseTargets.from_cells(rows, columns, values, shape=shape, unlisted=targets.unlisted)
