"""Tables: one row an image, or one row an image and label, with names of labels or one column a label."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.data.readers.columns import IMAGE, MARK, Columns, choose_columns
from manyhot.data.readers.found import Found
from manyhot.data.readers.label_columns import LabelColumns
from manyhot.data.readers.names import read_names
from manyhot.data.readers.opening import OpenTable, ParquetTable, open_table
from manyhot.data.readers.places import place_images
from manyhot.data.readers.said import Said
from manyhot.data.readers.splits import name_splits, splits_of_files
from manyhot.data.sources import Files, ImageSource, ParquetImages
from manyhot.data.targets import SparseTargets
from manyhot.labels import Labels
from manyhot.predictions.arrow import as_numpy, as_strings, import_arrow
from manyhot.predictions.roles import listed
from manyhot.refusal import refusal
from manyhot.vocabulary import is_flag

Array = np.ndarray[Any, Any]


def read_tables(files: Sequence[Path], said: Said, *, with_labels: bool = True) -> Found:
    """All rows of tables of the same columns.

    Args:
        files: One or several; their names, or those of their folders, tell the splits where no column does.
        said: What the user said.
        with_labels: Whether labels are wanted; otherwise paths alone are read.
    """
    tables = [open_table(path, said) for path in files]
    look = tables[0].look()
    columns = choose_columns(look, said, with_labels=with_labels)
    for table in tables[1:]:
        missing = [name for name in columns.used if name not in table.look().kinds]
        if missing:
            got, remedy = f"{str(table.path)!r} without {missing[0]!r}", "Read files of the same columns."
            raise refusal("path", said.owner, "hold the same columns in all files", got, remedy)
    rows = _Rows(tables, columns, said, pictures=look.kinds[columns.path] == IMAGE)
    return rows.found()


class _Rows:
    """The rows of some tables, as they came."""

    def __init__(self, tables: Sequence[OpenTable], columns: Columns, said: Said, *, pictures: bool) -> None:
        self.tables, self.columns, self.said, self.pictures = tables, columns, said, pictures
        self.cells = LabelColumns(columns.cells, said)
        self.sizes: list[int] = []
        self.texts: dict[str, list[Any]] = {}
        texts = [name for name in columns.used if name not in columns.cells]
        # Pictures stay on disk; only their number counts here.
        texts = [name for name in texts if not (pictures and name == columns.path)]
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
        chunks = [_uniform(chunk) for chunk in self.texts.get(name, ())]
        if len({chunk.type for chunk in chunks}) > 1:
            got, remedy = f"both in column {name!r}", "Write it in the same way in all files."
            raise refusal("path", self.said.owner, "hold either lists or texts in a column", got, remedy)
        return pa.chunked_array(chunks, chunks[0].type if chunks else pa.string())

    def _encode(self, name: str) -> tuple[list[str], Array]:
        """The distinct texts of a column in the order in which they occur, and which of them each row has."""
        texts = import_arrow().compute.utf8_trim_whitespace(as_strings(self.column(name)))
        encoded = texts.combine_chunks().dictionary_encode()
        return encoded.dictionary.to_pylist(), as_numpy(encoded.indices).astype(np.int64)

    def found(self) -> Found:
        """The images, with rows of the same image joined."""
        if not len(self.files):
            got = f"{str(self.tables[0].path)!r} without any"
            raise refusal("path", self.said.owner, "have rows", got, "Write one row for each image.")
        names, targets, labels_note = self._labels()
        ids, owners, images, notes = self._pictures() if self.pictures else self._images()
        splits, split_notes = self._splits(ids, owners)
        if len(ids) < len(self.files):
            notes.insert(0, f"Rows of the same image were joined: {len(self.files):,} rows, {len(ids):,} images.")
            targets = join_rows(targets, owners, len(ids))
        left_out = self.columns.left_out
        notes += [f"Left out columns {listed(left_out)}."] if left_out and labels_note else []
        form = [note for table in self.tables[:1] for note in table.notes]
        return Found(ids, images, names, targets, splits, [*form, self._opening(labels_note), *notes, *split_notes])

    def _opening(self, labels_note: str) -> str:
        kind = "images" if self.pictures else "paths"
        files = self.tables[0].path.name if len(self.tables) == 1 else f"{len(self.tables)} files"
        parts = [f"Read {len(self.files):,} rows of {files}; {kind} in column {self.columns.path!r}", labels_note]
        if self.columns.split is not None:
            parts.append(f"splits in column {self.columns.split!r}")
        return "; ".join(part for part in parts if part) + "."

    def _labels(self) -> tuple[list[str], SparseTargets, str]:
        """Names, targets (rows, K), and a clause about them."""
        if self.columns.cells:
            names = [name.removeprefix(MARK) for name in self.columns.cells]
            return names, self.cells.targets(len(self.files)), self.cells.note()
        if self.columns.lists is None:
            return [], SparseTargets.from_rows([[]] * len(self.files), num_labels=0), ""
        column = self.columns.lists
        named = read_names(self.said.owner, self.column(column), self.said.separator, self.said.label_names)
        targets, names = named.targets, named.names
        targets.unlisted = self.said.means("absent")
        classes = self.tables[0].class_names(column)
        if classes is not None and all(name.isdecimal() and int(name) < len(classes) for name in names):
            names = [str(classes[int(name)]) for name in names]
        return Labels(names).names, targets, f"labels in column {column!r}, {named.how}"

    def _images(self) -> tuple[list[str], Array, ImageSource, list[str]]:
        """Distinct paths, the image of each row, the files, and where they were found."""
        written, codes = self._encode(self.columns.path)
        if "" in written:
            got = f"a blank in row {int(np.argmax(codes == written.index(''))) + 1}"
            remedy = "Fill it in, or drop the row."
            raise refusal("path_column", self.said.owner, "have a path in every row", got, remedy)
        folders = [table.path.parent for table in self.tables]
        if len(set(folders)) == 1:
            files, notes = place_images(written, folders[0], self.said)
            return written, codes, files, notes
        return self._place_by_folder(written, codes, folders)

    def _place_by_folder(
        self, written: Sequence[str], codes: Array, folders: Sequence[Path]
    ) -> tuple[list[str], Array, ImageSource, list[str]]:
        """The same for tables in several folders, where one name in two folders is two images."""
        keys = codes + len(written) * np.array([folders.index(folder) for folder in folders])[self.files]
        distinct, first, owners = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.argsort(order)
        places, names = np.divmod(distinct[order], len(written))
        ids, paths = [""] * len(order), [""] * len(order)
        common, notes = os.path.commonpath(folders), []
        for place in np.unique(places).tolist():
            mine = np.flatnonzero(places == place).tolist()
            raw = [written[names[row]] for row in mine]
            files, more = place_images(raw, folders[place], self.said)
            notes += [note for note in more if note not in notes]
            for row, name, path in zip(mine, raw, files.paths, strict=True):
                ids[row] = os.path.join(os.path.relpath(folders[place], common), name)
                paths[row] = os.path.join(files.root, path)
        return ids, rank[owners], Files(paths), notes

    def _pictures(self) -> tuple[list[str], Array, ImageSource, list[str]]:
        """One image a row, out of the table itself."""
        source = ParquetImages([table.path for table in self.tables], self.columns.path)
        return [source.name(row) for row in range(len(source))], np.arange(len(source)), source, []

    def _splits(self, ids: Sequence[str], owners: Array) -> tuple[Array | None, list[str]]:
        if self.columns.split is not None:
            names, codes = self._encode(self.columns.split)
            splits, notes = name_splits(self.said.owner, codes, names, flag=is_flag(self.columns.split))
        elif self.said.split_column is None and (by_file := splits_of_files([table.path for table in self.tables])):
            splits, notes = np.array(by_file, dtype=object)[self.files], ["Splits are told by the names of the files."]
        else:
            return None, []
        if splits is None:
            return None, notes
        return join_splits(self.said.owner, ids, owners, splits), notes


def _uniform(chunk: Any) -> Any:
    """A piece of a column as texts or as lists of texts, which files may write in several types."""
    pa = import_arrow()
    if not (pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type)):
        return as_strings(chunk)
    return chunk if pa.types.is_nested(chunk.type.value_type) else chunk.cast(pa.list_(pa.string()))


def join_splits(owner: str, ids: Sequence[str], owners: Array, splits: Array) -> Array:
    """The split of each image, where several rows may speak of one; refuses rows that disagree."""
    first = np.empty(len(ids), dtype=object)
    first[owners[::-1]] = splits[::-1]
    other = splits != first[owners]
    if other.any():
        row = int(np.argmax(other))
        image = int(owners[row])
        got = f"{ids[image]!r} in {first[image]!r} and {splits[row]!r}"
        remedy = "Keep one of them: an image seen in training proves nothing in a test."
        raise refusal("split", owner, "be one for each image", got, remedy)
    return first


def join_rows(targets: SparseTargets, owners: Array, images: int) -> SparseTargets:
    """Targets of images, of which several rows may speak: what one of them knows holds, and present before absent."""
    rows, columns, values = targets.cells()
    rows = owners[rows]
    if targets.unlisted == "absent" and (values == -1).any():
        # Unknown only where no row says that the label is absent, which such rows do by not listing it.
        keys = rows * targets.num_labels + columns
        unknown, place, said = np.unique(keys[values == -1], return_inverse=True, return_counts=True)
        repeats = np.bincount(owners, minlength=images)[unknown // max(targets.num_labels, 1)]
        kept = values != -1
        kept[values == -1] = (said == repeats)[place]
        rows, columns, values = rows[kept], columns[kept], values[kept]
    shape = (images, targets.num_labels)
    return SparseTargets.from_cells(rows, columns, values, shape=shape, unlisted=targets.unlisted)
