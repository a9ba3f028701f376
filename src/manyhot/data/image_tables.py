"""Tables of images: one row per image, or one row per image and label, with label names or one column per label."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files, ImageSource, ParquetImages
from manyhot.data.targets import SparseTargets, index_targets
from manyhot.errors import InputError
from manyhot.image_paths import resolve_image_files
from manyhot.labels import Labels
from manyhot.tables.arrow import as_numpy, as_strings, import_arrow
from manyhot.tables.columns import IMAGE, TARGET_PREFIX, ImageTableRoles, ReadOptions, choose_columns, preview_names
from manyhot.tables.label_cells import (
    describe_separator,
    find_separator,
    read_cell_words,
    sort_names,
    split_names,
)
from manyhot.tables.reader import OpenTable, ParquetTable, open_table
from manyhot.tables.vocabulary import BLANK_CELLS, canonical_splits, is_flag, splits_from_paths


class NamedTargets(NamedTuple):
    """Labels of rows.

    Attributes:
        names: All label names, sorted.
        targets: (N, K), with present cells only.
        separation: How the names were separated, as the end of a note.
    """

    names: list[str]
    targets: SparseTargets
    separation: str


def read_label_lists(owner: str, column: Any, separator: str | None, label_names: Sequence[str] | None) -> NamedTargets:
    """Labels of a column of texts or lists of Arrow.

    Spaces around a name are not part of it, and a blank text or an empty list is a row without labels.

    Args:
        owner: The function that was called, for errors.
        column: A chunked array.
        separator: What the user said; None to find out.
        label_names: The labels to keep, if the user said so, by which a separator is found more surely.
    """
    pa = import_arrow()
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return _read_arrow_lists(owner, column)
    encoded = as_strings(column).combine_chunks().dictionary_encode()
    texts, codes = encoded.dictionary.to_pylist(), as_numpy(encoded.indices).astype(np.int64)
    detected = separator is None
    if separator is None:
        separator = find_separator(texts, np.bincount(codes, minlength=len(texts)), label_names)
    # Programs write a blank cell as "nan" or "NULL", and people write "none".
    blank = [
        text
        for text in texts
        if text.strip() in BLANK_CELLS and text.strip() and text.strip() not in (label_names or ())
    ]
    rows = [[] if text in blank else split_names(owner, text, separator) for text in texts]
    names, targets = index_targets(rows)
    separation = f"{describe_separator(separator, 'row')}{' as detected' if detected else ''}"
    separation += f", and {blank[0]!r} for a row without any" if blank else ""
    if detected and not separator and any(" " in text.strip() for text in texts):
        separation += " (choose the separator ' ' if spaces separate names)"
    return NamedTargets(names, targets.take(codes), separation)


def _read_arrow_lists(owner: str, column: Any) -> NamedTargets:
    pa = import_arrow()
    values = pa.compute.list_flatten(column)
    if pa.types.is_nested(values.type):
        raise InputError("labels_column", owner, "hold lists of names", str(column.type), "Name another column.")
    texts = pa.compute.utf8_trim_whitespace(as_strings(values))
    rows = as_numpy(pa.compute.list_parent_indices(column)).astype(np.int64)
    encoded = texts.combine_chunks().dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    names = sort_names({name for name in distinct if name})
    columns = {name: index for index, name in enumerate(names)}
    label_columns = np.array([columns.get(name, -1) for name in distinct], dtype=np.int64)[as_numpy(encoded.indices)]
    valid = label_columns >= 0
    targets = SparseTargets.from_cells(rows[valid], label_columns[valid], shape=(len(column), len(names)))
    return NamedTargets(names, targets, "as lists")


Array = np.ndarray[Any, Any]

CELL_RULE = "hold 1, 0, -1 or blank for each label"


class LabelColumns:
    """Cells of some columns, batch by batch; only those that say something are kept.

    Args:
        names: The columns.
        options: What the user said; `unlisted` is what a blank means.
    """

    def __init__(self, names: Sequence[str], options: ReadOptions) -> None:
        self.names, self._owner = list(names), options.owner
        self._blank = 0 if options.unlisted_or("unknown") == "absent" else -1
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
            # The more common of absent and unknown in the first rows is not stored.
            self._unlisted = -1 if 2 * np.count_nonzero(table == -1) > table.size else 0
        rows, columns = np.nonzero(table != self._unlisted)
        self._parts.append((rows + self._rows, columns, table[rows, columns]))
        self._rows += batch.num_rows

    def _column(self, batch: Any, name: str) -> Array:
        pa = import_arrow()
        column = read_cell_words(batch.column(name), name, self._owner, "path")
        types = pa.types
        if not any(
            fits(column.type) for fits in (types.is_boolean, types.is_integer, types.is_floating, types.is_null)
        ):
            hint = "Repair or remove that column[, or name the columns of labels with {labels}]."
            raise InputError("path", self._owner, CELL_RULE, f"text in column {name!r}", hint)
        numbers = as_numpy(column.cast(pa.float32()).fill_null(float("nan")))
        blank = np.isnan(numbers)
        self._counts["blank"] += int(blank.sum())
        values = np.where(blank, self._blank, numbers)
        wrong = (values != 0) & (values != 1) & (values != -1)
        if wrong.any():
            got = f"{values[wrong][0]:g} in column {name!r}, row {self._rows + int(np.argmax(wrong)) + 1}"
            hint = "Repair or remove that column[, or name the columns of labels with {labels}]."
            raise InputError("path", self._owner, CELL_RULE, got, hint)
        self._counts["absent"] += int(np.count_nonzero(numbers == 0))
        return values.astype(np.int8)

    def targets(self, rows: int) -> SparseTargets:
        """(rows, K)."""
        unlisted = "unknown" if self._unlisted == -1 else "absent"
        parts = self._parts or [(np.empty(0, np.int64),) * 3]
        row, column, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return SparseTargets.from_cells(row, column, value, shape=(rows, len(self.names)), unlisted=unlisted)

    def note(self) -> str:
        """A clause about the columns."""
        note = f"one column per label, {preview_names(self.names)}"
        if self._counts["blank"]:
            note += f"; blank cells are {'unknown' if self._blank else 'absent'}"
            if self._blank and not self._counts["absent"]:
                note += " (no cell is 0: choose unlisted 'absent' if a blank means that the label is not there)"
        return note


def read_image_tables(files: Sequence[Path], options: ReadOptions, *, with_labels: bool = True) -> Dataset:
    """All rows of tables of the same columns.

    Args:
        files: One or several; without a column of splits, these are taken from the names of files or folders.
        options: What the user said.
        with_labels: Whether labels are wanted; otherwise paths alone are read.
    """
    tables = [open_table(path, options) for path in files]
    preview = tables[0].preview()
    columns = choose_columns(preview, options, with_labels=with_labels)
    for table in tables[1:]:
        missing = [name for name in columns.used if name not in table.preview().kinds]
        if missing:
            got, hint = f"{str(table.path)!r} without {missing[0]!r}", "Read files of the same columns."
            raise InputError("path", options.owner, "hold the same columns in all files", got, hint)
    rows = _TableRows(tables, columns, options, embedded=preview.kinds[columns.path] == IMAGE)
    return rows.read()


class _TableRows:
    """The rows of some tables, as they came."""

    def __init__(
        self, tables: Sequence[OpenTable], columns: ImageTableRoles, options: ReadOptions, *, embedded: bool
    ) -> None:
        self.tables, self.columns, self.options, self.embedded = tables, columns, options, embedded
        self.cells = LabelColumns(columns.cells, options)
        self.sizes: list[int] = []
        self.texts: dict[str, list[Any]] = {}
        texts = [name for name in columns.used if name not in columns.cells]
        # Images stay on disk; only their number is needed here.
        texts = [name for name in texts if not (embedded and name == columns.path)]
        for table in tables:
            size = 0
            for piece in table.pieces(texts, columns.cells):
                for name in texts:
                    self.texts.setdefault(name, []).append(piece.column(name))
                self.cells.add(piece)
                size += piece.num_rows
            self.sizes.append(table.rows if isinstance(table, ParquetTable) else size)
        self.files = np.repeat(np.arange(len(tables)), self.sizes)

    def column(self, name: str) -> Any:
        """All rows of a column of texts or lists."""
        pa = import_arrow()
        chunks = [_as_strings_or_lists(chunk) for chunk in self.texts.get(name, ())]
        if len({chunk.type for chunk in chunks}) > 1:
            got, hint = f"both in column {name!r}", "Write it in the same way in all files."
            raise InputError("path", self.options.owner, "hold either lists or texts in a column", got, hint)
        return pa.chunked_array(chunks, chunks[0].type if chunks else pa.string())

    def _encode(self, name: str) -> tuple[list[str], Array]:
        """The distinct texts of a column in the order in which they occur, and which of them each row has."""
        texts = import_arrow().compute.utf8_trim_whitespace(as_strings(self.column(name)))
        encoded = texts.combine_chunks().dictionary_encode()
        return encoded.dictionary.to_pylist(), as_numpy(encoded.indices).astype(np.int64)

    def read(self) -> Dataset:
        """The images, with rows of the same image joined."""
        if not len(self.files):
            got = f"{str(self.tables[0].path)!r} without any"
            raise InputError("path", self.options.owner, "have rows", got, "Write one row for each image.")
        labels, targets, labels_note = self._labels()
        ids, image_rows, images, notes = self._embedded_images() if self.embedded else self._images()
        splits, split_notes = self._splits(ids, image_rows)
        if len(ids) < len(self.files):
            notes.insert(0, f"Rows of the same image were joined: {len(self.files):,} rows, {len(ids):,} images.")
            targets = join_rows(targets, image_rows, len(ids))
        left_out = self.columns.left_out
        notes += [f"Left out columns {preview_names(left_out)}."] if left_out and labels_note else []
        form = [note for table in self.tables[:1] for note in table.notes]
        notes = [*form, self._opening(labels_note), *notes, *split_notes]
        return Dataset(labels, targets, ids, images=images, splits=splits, notes=notes)

    def _opening(self, labels_note: str) -> str:
        kind = "images" if self.embedded else "paths"
        files = self.tables[0].path.name if len(self.tables) == 1 else f"{len(self.tables)} files"
        parts = [f"Read {len(self.files):,} rows of {files}; {kind} in column {self.columns.path!r}", labels_note]
        if self.columns.split is not None:
            parts.append(f"splits in column {self.columns.split!r}")
        return "; ".join(part for part in parts if part) + "."

    def _labels(self) -> tuple[Labels, SparseTargets, str]:
        """Labels, targets (rows, K), and a clause about them."""
        if self.columns.cells:
            names = [name.removeprefix(TARGET_PREFIX) for name in self.columns.cells]
            return Labels(names), self.cells.targets(len(self.files)), self.cells.note()
        if self.columns.lists is None:
            return Labels([]), SparseTargets.from_rows([[]] * len(self.files), num_labels=0), ""
        column = self.columns.lists
        named = read_label_lists(
            self.options.owner, self.column(column), self.options.separator, self.options.label_names
        )
        targets, names = named.targets, named.names
        targets.unlisted = self.options.unlisted_or("absent")
        classes = self.tables[0].class_names(column)
        if classes is not None and all(name.isdecimal() and int(name) < len(classes) for name in names):
            names = [str(classes[int(name)]) for name in names]
        return Labels(names), targets, f"labels in column {column!r}, {named.separation}"

    def _images(self) -> tuple[list[str], Array, ImageSource, list[str]]:
        """Distinct paths, the image of each row, the files, and where they were found."""
        written, codes = self._encode(self.columns.path)
        if "" in written:
            got = f"a blank in row {int(np.argmax(codes == written.index(''))) + 1}"
            hint = "Fill it in, or drop the row."
            raise InputError("path_column", self.options.owner, "have a path in every row", got, hint)
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
        source = ParquetImages([table.path for table in self.tables], self.columns.path)
        return [source.name(row) for row in range(len(source))], np.arange(len(source)), source, []

    def _splits(self, ids: Sequence[str], image_rows: Array) -> tuple[Array | None, list[str]]:
        if self.columns.split is not None:
            names, codes = self._encode(self.columns.split)
            splits, notes = canonical_splits(self.options.owner, codes, names, flag=is_flag(self.columns.split))
        elif self.options.split_column is None and (
            by_file := splits_from_paths([table.path for table in self.tables])
        ):
            splits, notes = (
                np.array(by_file, dtype=object)[self.files],
                ["Splits are taken from the names of the files."],
            )
        else:
            return None, []
        if splits is None:
            return None, notes
        return join_splits(self.options.owner, ids, image_rows, splits), notes


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
