"""The labels file: an ordinary table with one row a picture and one column a label, as `read_data` takes it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from manyhot.data.readers.columns import IMAGES, MARK
from manyhot.data.readers.open_images import is_open_images
from manyhot.image_formats import is_image
from manyhot.predictions.delimited import SAMPLE_ROWS, find_delimiter
from manyhot.predictions.texts import encodable
from manyhot.refusal import Refusal, refusal
from manyhot.vocabulary import CELLS, FLAGS, INDEXES, LABELS, MISSING, SPLITS, known_column, plain_name

PATH, SPLIT, DEFAULT_SPLIT = "path", "split", "train"
TEXTS = {1: "1", 0: "0", -1: "-1", None: ""}


@dataclass
class LabelsTable:
    """The rows of a labels file.

    Attributes:
        labels: K names.
        ids: Which sample each row is about; empty for a file that was read.
        paths: N texts.
        splits: N texts, or None where not known.
        cells: N rows of K: 1 present, 0 absent, -1 unknown, None where nobody said anything.
    """

    labels: list[str]
    ids: list[str]
    paths: list[str]
    splits: list[str | None]
    cells: list[Sequence[int | None]]

    def rows(self) -> dict[str, list[int]]:
        """The row numbers of each path as it stands in the file, without those that it cannot hold."""
        found: dict[str, list[int]] = {}
        for row, path in enumerate(self.paths):
            if encodable(path):
                found.setdefault(written_path(path), []).append(row)
        return found


def write_table(table: LabelsTable) -> tuple[str, list[str]]:
    """The text of a labels file, and what people should know about it.

    The first column is `path`. `split` follows if some splits are known; rows without one are then rows to train on.
    Names or columns that `read_data` would take for something else make all labels be written as `target:name`.
    """
    with_splits = any(split is not None for split in table.splits)
    columns = [place for place, name in enumerate(table.labels) if encodable(name)]
    rows = [row for row, path in enumerate(table.paths) if encodable(path)]
    names = [table.labels[place] for place in columns]
    unseen = _is_unseen([[table.cells[row][place] for place in columns] for row in rows])
    mistaken = is_open_images(names) or any(_is_ambiguous(name, with_splits=with_splits) for name in names)
    mark = MARK if unseen or mistaken else ""
    # Signs that readers take for the end of a column or a line, and that Python 3.11 writes without quotes.
    odd = any(sign in text for sign in "\r;|\t" for text in (*names, *table.paths))
    odd |= any(name != name.strip() for name in names)  # spaces around a name are kept within quotes alone
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL)
    writer.writerow([PATH, *([SPLIT] if with_splits else []), *(mark + name for name in names)])
    for row in rows:
        cells = table.cells[row]
        split = [table.splits[row] or DEFAULT_SPLIT] if with_splits else []
        writer.writerow([written_path(table.paths[row]), *split, *(TEXTS[cells[place]] for place in columns)])
    left_out = len(table.paths) - len(rows), len(table.labels) - len(columns)
    kinds = [
        f"{n:,} {kind}{'' if n == 1 else 's'}" for n, kind in zip(left_out, ("picture", "label"), strict=True) if n
    ]
    notes = [f"The labels file cannot hold {' and '.join(kinds)}, whose names are no Unicode."] if kinds else []
    return text.getvalue(), notes


def _is_unseen(cells: Sequence[Sequence[int | None]]) -> bool:
    """Whether the first rows, by which `read_data` knows a column of labels, are blank in one that has cells."""

    def filled(rows: Sequence[Sequence[int | None]]) -> set[int]:
        return {place for row in rows for place, value in enumerate(row) if value is not None}

    seen = filled(cells[:SAMPLE_ROWS])
    return not seen or not filled(cells[SAMPLE_ROWS:]) <= seen


def _is_ambiguous(name: str, *, with_splits: bool) -> bool:
    """Whether `read_data` would not take a column of this name for a label."""
    taken = (*LABELS, *INDEXES, *(() if with_splits else (*SPLITS, *FLAGS)))
    return name in (PATH, SPLIT) or plain_name(name) in taken or is_image(name) or name.startswith(MARK)


def written_path(path: str) -> str:
    """A path as the file has it: a space at its beginning would be trimmed when it is read."""
    return (f"./{path}" if path[:1].isspace() else path).strip()


def read_table(path: Path, data: bytes) -> LabelsTable:
    """The rows of a labels file that somebody may have changed, also by a spreadsheet that separates by semicolons.

    Args:
        path: The file, for errors.
        data: What is in it.

    Raises:
        Refusal: It holds something else; the sentence names the line.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(path, "be text in UTF-8", str(error)) from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=find_delimiter(text.split("\n", 1)[0]), strict=True)
    try:
        header = next(reader, [])
        path_column = known_column(IMAGES, header)
        if path_column is None:
            raise _refused(path, "have a column of paths", f"the columns {', '.join(map(repr, header[:6]))}")
        found = _Reading(path, header, path_column)
        for row in reader:
            if row:
                found.add(row, reader.line_num)
    except csv.Error as error:
        raise _refused(path, "be a table", f"{error} in line {reader.line_num:,}") from None
    return found.table


class _Reading:
    """Rows of texts on their way to a table."""

    def __init__(self, path: Path, header: Sequence[str], path_column: str) -> None:
        self.path, self.width, self.header = path, len(header), header
        twice = next((name for name in header if header.count(name) > 1), None)
        if twice is not None:
            raise _refused(path, "have columns of different names", f"{twice!r} twice")
        split = known_column((*SPLITS, *FLAGS), [name for name in header if name != path_column])
        self.path_place, self.split_place = header.index(path_column), None if split is None else header.index(split)
        rest = [name for name in header if name not in (path_column, split)]
        self.mark = MARK if any(name.startswith(MARK) for name in rest) else ""
        stray = next((name for name in rest if not name.startswith(self.mark)), None)
        if stray is not None:
            raise _refused(path, f"begin all labels with {MARK!r}, or none", repr(stray))
        self.places = [place for place, name in enumerate(header) if name in rest]
        self.table = LabelsTable([header[place].removeprefix(self.mark) for place in self.places], [], [], [], [])

    def add(self, row: Sequence[str], line: int) -> None:
        """Takes the next row."""
        if len(row) != self.width:
            got = f"{len(row)} in line {line:,}"
            raise _refused(self.path, f"have {self.width} columns in every line", got)
        image = row[self.path_place].strip()
        if not image:
            raise _refused(self.path, "have a path in every line", f"none in line {line:,}")
        split = "" if self.split_place is None else row[self.split_place].strip()
        self.table.paths.append(image)
        self.table.splits.append(split or None)
        self.table.cells.append([self._value(row[place], self.header[place], line) for place in self.places])

    def _value(self, text: str, column: str, line: int) -> int | None:
        plain = text.strip()
        if plain in MISSING:
            return None
        value = CELLS.get(plain.lower())
        if value is None:
            got = f"{plain!r} in line {line:,}, column {column!r}"
            raise _refused(self.path, "hold 1, 0, -1 or blank for each label", got)
        return value


def _refused(path: Path, rule: str, got: str) -> Refusal:
    remedy = "Repair it, or name another labels file; this one was left as it is."
    return refusal("file", "Review", rule, f"{got} of {str(path)!r}", remedy)
