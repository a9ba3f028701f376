"""The labels file of a review: written, read, and compared with what was written before."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from manyhot.data.annotations import OPEN_IMAGES_COLUMNS
from manyhot.errors import InputError
from manyhot.image_paths import is_image
from manyhot.predictions.columns import is_encodable
from manyhot.tables.columns import (
    BLANK_CELLS,
    CELL_VALUES,
    FLAG_COLUMNS,
    IMAGE_COLUMNS,
    INDEX_COLUMNS,
    LABEL_COLUMNS,
    SPLIT_COLUMNS,
    TARGET_PREFIX,
    find_column,
    normalise_name,
)
from manyhot.tables.reader import SAMPLE_ROWS, find_delimiter

PATH, SPLIT, DEFAULT_SPLIT = "path", "split", "train"
CELL_TEXTS = {1: "1", 0: "0", -1: "-1", None: ""}


@dataclass
class LabelsTable:
    """The rows of a labels file.

    Attributes:
        labels: K names.
        ids: Which sample each row is about; empty for a file that was read.
        paths: N texts.
        splits: N texts, or None where not known.
        cells: N rows of K: 1 present, 0 absent, -1 unknown, None for cells without an edit.
    """

    labels: list[str]
    ids: list[str]
    paths: list[str]
    splits: list[str | None]
    cells: list[Sequence[int | None]]

    def rows(self) -> dict[str, list[int]]:
        """The row numbers of each path as it stands in the file, without those that it cannot hold."""
        result: dict[str, list[int]] = {}
        for row, path in enumerate(self.paths):
            if is_encodable(path):
                result.setdefault(written_path(path), []).append(row)
        return result


def format_labels_file(table: LabelsTable) -> tuple[str, list[str]]:
    """The text of a labels file, and what people should know about it.

    The first column is `path`. `split` follows if some splits are known; rows without one are then rows to train on.
    Names or columns that `read_data` would take for something else make all labels be written as `target:name`.
    """
    with_splits = any(split is not None for split in table.splits)
    columns = [index for index, name in enumerate(table.labels) if is_encodable(name)]
    rows = [row for row, path in enumerate(table.paths) if is_encodable(path)]
    names = [table.labels[index] for index in columns]
    unseen = _has_unseen_columns([[table.cells[row][index] for index in columns] for row in rows])
    mistaken = set(names).issuperset(OPEN_IMAGES_COLUMNS) or any(
        _is_ambiguous(name, with_splits=with_splits) for name in names
    )
    prefix = TARGET_PREFIX if unseen or mistaken else ""
    # Signs that readers take for the end of a column or a line, and that Python 3.11 writes without quotes.
    odd = any(character in text for character in "\r;|\t" for text in (*names, *table.paths))
    odd |= any(name != name.strip() for name in names)  # spaces around a name are kept within quotes alone
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL)
    writer.writerow([PATH, *([SPLIT] if with_splits else []), *(prefix + name for name in names)])
    for row in rows:
        cells = table.cells[row]
        split = [table.splits[row] or DEFAULT_SPLIT] if with_splits else []
        writer.writerow([written_path(table.paths[row]), *split, *(CELL_TEXTS[cells[index]] for index in columns)])
    left_out = len(table.paths) - len(rows), len(table.labels) - len(columns)
    kinds = [
        f"{n:,} {kind}{'' if n == 1 else 's'}" for n, kind in zip(left_out, ("picture", "label"), strict=True) if n
    ]
    notes = [f"The labels file cannot hold {' and '.join(kinds)}, whose names are no Unicode."] if kinds else []
    return text.getvalue(), notes


def _has_unseen_columns(cells: Sequence[Sequence[int | None]]) -> bool:
    """Whether the first rows, by which `read_data` knows a column of labels, are blank in one that has cells."""

    def filled(rows: Sequence[Sequence[int | None]]) -> set[int]:
        return {index for row in rows for index, value in enumerate(row) if value is not None}

    filled_columns = filled(cells[:SAMPLE_ROWS])
    return not filled_columns or not filled(cells[SAMPLE_ROWS:]) <= filled_columns


def _is_ambiguous(name: str, *, with_splits: bool) -> bool:
    """Whether `read_data` would not take a column of this name for a label."""
    taken = (*LABEL_COLUMNS, *INDEX_COLUMNS, *(() if with_splits else (*SPLIT_COLUMNS, *FLAG_COLUMNS)))
    return name in (PATH, SPLIT) or normalise_name(name) in taken or is_image(name) or name.startswith(TARGET_PREFIX)


def written_path(path: str) -> str:
    """A path as the file has it: a space at its beginning would be trimmed when it is read."""
    return (f"./{path}" if path[:1].isspace() else path).strip()


def parse_labels_file(path: Path, data: bytes) -> LabelsTable:
    """The rows of a labels file that somebody may have changed, also by a spreadsheet that separates by semicolons.

    Args:
        path: The file, for errors.
        data: What is in it.

    Raises:
        InputError: It holds something else; the message names the line.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _file_error(path, "be text in UTF-8", str(error)) from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=find_delimiter(text.split("\n", 1)[0]), strict=True)
    try:
        header = next(reader, [])
        path_column = find_column(IMAGE_COLUMNS, header)
        if path_column is None:
            raise _file_error(path, "have a column of paths", f"the columns {', '.join(map(repr, header[:6]))}")
        result = _LabelsFileParser(path, header, path_column)
        for row in reader:
            if row:
                result.add(row, reader.line_num)
    except csv.Error as error:
        raise _file_error(path, "be a table", f"{error} in line {reader.line_num:,}") from None
    return result.table


class _LabelsFileParser:
    """Rows of texts on their way to a table."""

    def __init__(self, path: Path, header: Sequence[str], path_column: str) -> None:
        self.path, self.width, self.header = path, len(header), header
        twice = next((name for name in header if header.count(name) > 1), None)
        if twice is not None:
            raise _file_error(path, "have columns of different names", f"{twice!r} twice")
        split = find_column((*SPLIT_COLUMNS, *FLAG_COLUMNS), [name for name in header if name != path_column])
        self.path_index, self.split_index = header.index(path_column), None if split is None else header.index(split)
        rest = [name for name in header if name not in (path_column, split)]
        self.prefix = TARGET_PREFIX if any(name.startswith(TARGET_PREFIX) for name in rest) else ""
        stray = next((name for name in rest if not name.startswith(self.prefix)), None)
        if stray is not None:
            raise _file_error(path, f"begin all labels with {TARGET_PREFIX!r}, or none", repr(stray))
        self.label_indices = [index for index, name in enumerate(header) if name in rest]
        self.table = LabelsTable(
            [header[index].removeprefix(self.prefix) for index in self.label_indices], [], [], [], []
        )

    def add(self, row: Sequence[str], line: int) -> None:
        """Takes the next row."""
        if len(row) != self.width:
            got = f"{len(row)} in line {line:,}"
            raise _file_error(self.path, f"have {self.width} columns in every line", got)
        image = row[self.path_index].strip()
        if not image:
            raise _file_error(self.path, "have a path in every line", f"none in line {line:,}")
        split = "" if self.split_index is None else row[self.split_index].strip()
        self.table.paths.append(image)
        self.table.splits.append(split or None)
        self.table.cells.append([self._value(row[index], self.header[index], line) for index in self.label_indices])

    def _value(self, text: str, column: str, line: int) -> int | None:
        plain = text.strip()
        if plain in BLANK_CELLS:
            return None
        value = CELL_VALUES.get(plain.lower())
        if value is None:
            got = f"{plain!r} in line {line:,}, column {column!r}"
            raise _file_error(self.path, "hold 1, 0, -1 or blank for each label", got)
        return value


def _file_error(path: Path, rule: str, got: str) -> InputError:
    hint = "Repair it, or name another labels file; this one was left as it is."
    return InputError("file", "Review", rule, f"{got} of {str(path)!r}", hint)


@dataclass
class FileChange:
    """What a person said about one sample in the file.

    Attributes:
        sample: Its id.
        labels: As in an edit.
        done: As in an edit.
        path: How the file names it; for samples that are new.
        split: What the file says; for samples that are new.
    """

    sample: str
    labels: dict[str, int | None] = field(default_factory=dict)
    done: bool | None = None
    path: str = ""
    split: str | None = None


class SampleResolver:
    """Which sample a path of the file is about.

    Args:
        folder: The folder of the file.
        ids: The samples of the collection.
        paths: Their paths, as the file has them.
    """

    def __init__(self, folder: Path, ids: list[str], paths: list[str]) -> None:
        self.folder = os.path.abspath(folder)
        # Where two samples have one path, the first one is meant.
        self._by_text = dict(zip(map(written_path, reversed(paths)), reversed(ids), strict=True))
        self._by_absolute: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        """The sample by its path, or by where that leads; otherwise the path is the id of a new one."""
        if path in self._by_text:
            return self._by_text[path]
        if not self._by_absolute:
            self._by_absolute = {self._absolute(text): name for text, name in self._by_text.items()}
        return self._by_absolute.get(self._absolute(path), path)

    def _absolute(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.folder, path))


def diff_tables(file: LabelsTable, base: LabelsTable, naming: SampleResolver) -> list[FileChange]:
    """What is in a file and was not in what the studio had written.

    Only the cells that differ are edits, so that what was said in the studio since then stays; one that was blanked
    withdraws what was said. A row that is gone takes back all that was said about it. A row that is new says what its
    cells hold; if all are blank, somebody has put it there to say that all is well. A column that is gone says nothing.

    Args:
        file: What is in the file.
        base: What the studio wrote.
        naming: Which sample a path is about.
    """
    pairs, gone = _match_rows(file, base, naming)
    positions = {name: position for position, name in enumerate(base.labels)}
    changes: list[FileChange] = []
    for row, (path, before) in enumerate(zip(file.paths, pairs, strict=True)):
        name = naming(path) if before is None else base.ids[before]
        change = FileChange(name, path=path, split=file.splits[row])
        for label, value in zip(file.labels, file.cells[row], strict=True):
            was = base.cells[before][positions[label]] if before is not None and label in positions else None
            if value != was:
                change.labels[label] = value
        if before is None and not change.labels:
            change.done = True
        if before is None or change.labels:
            changes.append(change)
    return changes + [FileChange(name, done=False) for name in gone]


def _match_rows(file: LabelsTable, base: LabelsTable, naming: SampleResolver) -> tuple[list[int | None], list[str]]:
    """The row that each row of the file had before, or None for a new one; and the samples whose rows are gone."""
    waiting = base.rows()
    pairs = [rows.pop(0) if (rows := waiting.get(path)) else None for path in file.paths]
    left = {base.ids[row]: row for rows in waiting.values() for row in rows}
    for row, path in enumerate(file.paths):
        if pairs[row] is None:  # it may name its image in another way
            pairs[row] = left.pop(naming(path), None)
    return pairs, list(left)


def nearest_base(file: LabelsTable, bases: Sequence[LabelsTable], naming: SampleResolver) -> LabelsTable:
    """Of the tables that the studio may have written last, the one that the file differs least from, or the latest."""

    def distance(base: LabelsTable) -> int:
        changes = diff_tables(file, base, naming)
        return sum(max(len(change.labels), 1) for change in changes)

    return bases[0] if len(bases) == 1 else min(reversed(bases), key=distance)


def count_moved_splits(file: LabelsTable, base: LabelsTable) -> int:
    """How many rows have another split than was written."""
    before = {path: base.splits[rows[0]] or DEFAULT_SPLIT for path, rows in base.rows().items()}
    pairs = zip(file.paths, file.splits, strict=True)
    return sum(split is not None and before.get(path, split) != split for path, split in pairs)
