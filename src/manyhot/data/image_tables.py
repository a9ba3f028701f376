"""Tables of images: one row per image, or one row per image and label, with label names or one column per label."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files, ImageSource, ParquetImages
from manyhot.data.targets import SparseTargets
from manyhot.errors import InputError
from manyhot.image_paths import resolve_image_files
from manyhot.labels import Labels
from manyhot.tables.arrow import as_numpy, as_strings, import_arrow
from manyhot.tables.columns import (
    BLANK_CELLS,
    IMAGE,
    Array,
    ColumnRoles,
    ReadOptions,
    assign_image_roles,
    canonical_splits,
    describe_separator,
    find_separator,
    is_flag,
    is_list_column,
    list_entries,
    preview_names,
    sort_names,
    split_column,
    splits_from_paths,
)
from manyhot.tables.reader import TableFile, check_same_columns, open_table


def read_image_tables(files: Sequence[Path], options: ReadOptions, *, with_labels: bool = True) -> Dataset:
    """All rows of tables of the same columns.

    Args:
        files: One or several; without a column of splits, these are taken from the names of files or folders.
        options: What the user said.
        with_labels: Whether labels are wanted; otherwise paths alone are read.
    """
    tables = [open_table(path, delimiter=options.delimiter) for path in files]
    roles = assign_image_roles(tables[0], options, with_labels=with_labels)
    check_same_columns(tables, roles.used)
    return _TableRows(tables, roles, options).dataset()


def read_label_lists(
    column: Any, separator: str | None, label_names: Sequence[str] | None
) -> tuple[list[str], SparseTargets, str]:
    """Sorted label names of a column of texts or lists, the targets of its rows, and how the names were separated.

    Spaces around a name are not part of it, and a blank text or an empty list is a row without labels.

    Args:
        column: A chunked array of Arrow.
        separator: What the user said; None to detect it.
        label_names: The labels to keep, if the user said so, by which a separator is found more surely.
    """
    column = column.combine_chunks()
    if is_list_column(column):
        return *_index_lists(column), "as lists"
    encoded = as_strings(column).dictionary_encode()
    texts, codes = encoded.dictionary.to_pylist(), as_numpy(encoded.indices).astype(np.int64)
    used = separator
    if used is None:
        used = find_separator(texts, np.bincount(codes, minlength=len(texts)), label_names)
    # Programs write a blank cell as "nan" or "NULL", and people write "none".
    blank = [text for text in texts if text.strip() in BLANK_CELLS and text.strip() not in ("", *(label_names or ()))]
    filled = import_arrow().array(["" if text in blank else text for text in texts], import_arrow().string())
    names, targets = _index_lists(split_column(filled, used))
    separation = describe_separator(used, "row") + " as detected" * (separator is None)
    separation += f", and {blank[0]!r} for a row without any" if blank else ""
    if separator is None and not used and any(" " in text.strip() for text in texts):
        separation += " (choose the separator ' ' if spaces separate names)"
    return names, targets.take(codes), separation


def _index_lists(column: Any) -> tuple[list[str], SparseTargets]:
    """Sorted names of a column of lists, and the targets of its rows; a blank name is none."""
    if import_arrow().types.is_nested(column.type.value_type):
        hint = "Name another column."
        raise InputError("labels_column", rule="hold lists of names", got=str(column.type), hint=hint)
    rows, codes, distinct = list_entries(column)
    names = sort_names({name for name in distinct if name})
    index = {name: position for position, name in enumerate(names)}
    columns = np.array([index.get(name, -1) for name in distinct], dtype=np.int64)[codes]
    shape = (len(column), len(names))
    return names, SparseTargets.from_cells(rows[columns >= 0], columns[columns >= 0], shape=shape)


class LabelColumns:
    """Cells of some columns, batch by batch; only those that say something are kept.

    Args:
        columns: The column of each label.
        options: What the user said; `unlisted` is what a blank means.
    """

    def __init__(self, columns: dict[str, str], options: ReadOptions) -> None:
        self.columns = list(columns.values())
        self._blank = 0 if options.unlisted_or("unknown") == "absent" else -1
        self._unlisted: int | None = None
        self._parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int8))]
        self._rows, self._any_blank, self._any_absent = 0, False, False

    def add(self, batch: Any) -> None:
        """Takes the next rows."""
        if not self.columns or not batch.num_rows:
            return
        table = np.stack([self._column(batch, name) for name in self.columns], axis=1)
        if self._unlisted is None:
            # The more common of absent and unknown in the first rows is not stored.
            self._unlisted = -1 if 2 * np.count_nonzero(table == -1) > table.size else 0
        rows, columns = np.nonzero(table != self._unlisted)
        self._parts.append((rows + self._rows, columns, table[rows, columns]))
        self._rows += batch.num_rows

    def _column(self, batch: Any, name: str) -> Array:
        pa = import_arrow()
        column = batch.column(name)
        types, got = pa.types, f"text in column {name!r}"
        checks = (types.is_boolean, types.is_integer, types.is_floating, types.is_null)
        if any(fits(column.type) for fits in checks):
            numbers = as_numpy(column.cast(pa.float32()).fill_null(float("nan")))
            values = np.where(np.isnan(numbers), self._blank, numbers)
            wrong = (values != 0) & (values != 1) & (values != -1)
            if not wrong.any():
                self._any_blank = self._any_blank or bool(np.isnan(numbers).any())
                self._any_absent = self._any_absent or bool((numbers == 0).any())
                return values.astype(np.int8)
            got = f"{values[wrong][0]:g} in column {name!r}, row {self._rows + int(np.argmax(wrong)) + 1}"
        hint = "Repair or remove that column[, or name the columns of labels with {labels}]."
        raise InputError("path", rule="hold 1, 0, -1 or blank for each label", got=got, hint=hint)

    def targets(self, rows: int) -> SparseTargets:
        """(rows, K)."""
        unlisted = "unknown" if self._unlisted == -1 else "absent"
        cells = (np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))
        return SparseTargets.from_cells(*cells, shape=(rows, len(self.columns)), unlisted=unlisted)

    def note(self) -> str:
        """A clause about the columns."""
        note = f"one column per label, {preview_names(self.columns)}"
        if self._any_blank:
            note += f"; blank cells are {'unknown' if self._blank else 'absent'}"
            if self._blank and not self._any_absent:
                note += " (no cell is 0: choose unlisted 'absent' if a blank means that the label is not there)"
        return note


class _TableRows:
    """The rows of some tables, as they came."""

    def __init__(self, tables: Sequence[TableFile], roles: ColumnRoles, options: ReadOptions) -> None:
        self.tables, self.roles, self.options = tables, roles, options
        # Images stay on disk; only their number is needed here.
        self.embedded = tables[0].columns[str(roles.path)] == IMAGE
        read = replace(roles, path=None) if self.embedded else roles
        self.cells = LabelColumns(roles.targets, options)
        self.chunks: dict[str, list[Any]] = {name: [] for name in read.texts}
        sizes = []
        for table in tables:
            size = 0
            for piece in table.batches(read) if read.used else ():
                for name, chunks in self.chunks.items():
                    chunks.append(piece.column(name))
                self.cells.add(piece)
                size += piece.num_rows
            sizes.append(size if table.rows is None else table.rows)
        self.files = np.repeat(np.arange(len(tables)), sizes)

    def column(self, name: str) -> Any:
        """All rows of a column of texts or lists."""
        pa = import_arrow()
        chunks = [_as_strings_or_lists(chunk) for chunk in self.chunks[name]]
        if len({chunk.type for chunk in chunks}) > 1:
            rule, got = "hold either lists or texts in a column", f"both in column {name!r}"
            raise InputError("path", rule=rule, got=got, hint="Write it in the same way in all files.")
        return pa.chunked_array(chunks, chunks[0].type if chunks else pa.string())

    def _encode(self, name: str) -> tuple[list[str], Array]:
        """The distinct texts of a column in the order in which they occur, and which of them each row has."""
        texts = import_arrow().compute.utf8_trim_whitespace(as_strings(self.column(name)))
        encoded = texts.combine_chunks().dictionary_encode()
        return encoded.dictionary.to_pylist(), as_numpy(encoded.indices).astype(np.int64)

    def dataset(self) -> Dataset:
        """The images, with rows of the same image joined."""
        if not len(self.files):
            got = f"{str(self.tables[0].path)!r} without any"
            raise InputError("path", rule="have rows", got=got, hint="Write one row for each image.")
        labels, targets, labels_note = self._labels()
        ids, image_rows, images, notes = self._embedded_images() if self.embedded else self._images()
        splits, split_notes = self._splits(ids, image_rows)
        if len(ids) < len(self.files):
            notes.insert(0, f"Rows of the same image were joined: {len(self.files):,} rows, {len(ids):,} images.")
            targets = join_rows(targets, image_rows, len(ids))
        left_out = self.roles.left_out
        notes += [f"Left out columns {preview_names(left_out)}."] if left_out and labels_note else []
        notes = [*self.tables[0].notes, self._opening(labels_note), *notes, *split_notes]
        return Dataset(labels, targets, ids, images=images, splits=splits, notes=notes)

    def _opening(self, labels_note: str) -> str:
        kind = "images" if self.embedded else "paths"
        files = self.tables[0].path.name if len(self.tables) == 1 else f"{len(self.tables)} files"
        parts = [f"Read {len(self.files):,} rows of {files}; {kind} in column {self.roles.path!r}", labels_note]
        if self.roles.split is not None:
            parts.append(f"splits in column {self.roles.split!r}")
        return "; ".join(part for part in parts if part) + "."

    def _labels(self) -> tuple[Labels, SparseTargets, str]:
        """Labels, targets (rows, K), and a clause about them."""
        rows, column = len(self.files), self.roles.lists
        if self.roles.targets:
            return Labels(list(self.roles.targets)), self.cells.targets(rows), self.cells.note()
        if column is None:
            return Labels([]), SparseTargets.from_rows([[]] * rows, num_labels=0), ""
        options = self.options
        names, targets, separation = read_label_lists(self.column(column), options.separator, options.label_names)
        targets.unlisted = options.unlisted_or("absent")
        classes = self.tables[0].class_names(column)
        if classes is not None and all(name.isdecimal() and int(name) < len(classes) for name in names):
            names = [str(classes[int(name)]) for name in names]
        return Labels(names), targets, f"labels in column {column!r}, {separation}"

    def _images(self) -> tuple[list[str], Array, ImageSource, list[str]]:
        """Distinct paths, the image of each row, the files, and where they were found."""
        written, codes = self._encode(str(self.roles.path))
        if "" in written:
            got = f"a blank in row {int(np.argmax(codes == written.index(''))) + 1}"
            hint = "Fill it in, or drop the row."
            raise InputError("path_column", rule="have a path in every row", got=got, hint=hint)
        folders = [table.path.parent for table in self.tables]
        if len(set(folders)) == 1:
            files = resolve_image_files(written, folders[0], self.options)
            return written, codes, Files(files.paths, root=files.root), files.notes
        return self._resolve_by_folder(written, codes, folders)

    def _resolve_by_folder(
        self, written: Sequence[str], codes: Array, folders: Sequence[Path]
    ) -> tuple[list[str], Array, ImageSource, list[str]]:
        """The same for tables in several folders, where one name in two folders is two images."""
        keys = codes + len(written) * np.array([folders.index(folder) for folder in folders])[self.files]
        distinct, first, image_rows = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.argsort(order)
        folder_indices, names = np.divmod(distinct[order], len(written))
        ids, paths = [""] * len(order), [""] * len(order)
        common, notes = os.path.commonpath(folders), []
        for folder_index in np.unique(folder_indices).tolist():
            members = np.flatnonzero(folder_indices == folder_index).tolist()
            raw_paths = [written[names[row]] for row in members]
            files = resolve_image_files(raw_paths, folders[folder_index], self.options)
            notes += [note for note in files.notes if note not in notes]
            for row, name, path in zip(members, raw_paths, files.paths, strict=True):
                ids[row] = os.path.join(os.path.relpath(folders[folder_index], common), name)
                paths[row] = os.path.join(files.root, path)
        return ids, rank[image_rows], Files(paths), notes

    def _embedded_images(self) -> tuple[list[str], Array, ImageSource, list[str]]:
        """One image a row, out of the table itself."""
        source = ParquetImages([table.path for table in self.tables], str(self.roles.path))
        return [source.name(row) for row in range(len(source))], np.arange(len(source)), source, []

    def _splits(self, ids: Sequence[str], image_rows: Array) -> tuple[Array | None, list[str]]:
        column, owner = self.roles.split, self.options.owner
        if column is not None:
            names, codes = self._encode(column)
            splits, notes = canonical_splits(owner, codes, names, flag=is_flag(column))
        else:
            by_file = splits_from_paths([table.path for table in self.tables])
            if by_file is None or self.options.split_column is not None:
                return None, []
            splits = np.array(by_file, dtype=object)[self.files]
            notes = ["Splits are taken from the names of the files."]
        return None if splits is None else join_splits(owner, ids, image_rows, splits), notes


def _as_strings_or_lists(chunk: Any) -> Any:
    """A piece of a column as texts or as lists of texts, which files may write in several types."""
    pa = import_arrow()
    if not (pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type)):
        return as_strings(chunk)
    return chunk if pa.types.is_nested(chunk.type.value_type) else chunk.cast(pa.list_(pa.string()))


def join_splits(owner: str, ids: Sequence[str], image_rows: Array, splits: Array) -> Array:
    """The split of each image, which several rows may name; raises an error if they disagree."""
    first = np.empty(len(ids), dtype=object)
    first[image_rows[::-1]] = splits[::-1]
    other = splits != first[image_rows]
    if other.any():
        row = int(np.argmax(other))
        image = int(image_rows[row])
        got = f"{ids[image]!r} in {first[image]!r} and {splits[row]!r}"
        hint = "Keep one of them: an image seen in training proves nothing in a test."
        raise InputError("split", owner, "be one for each image", got, hint)
    return first


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
