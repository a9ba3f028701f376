"""The files of a table on disk: what they hold, whether they belong together, and reading them piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from manyhot.predictions.arrow import as_strings, import_arrow, in_our_words, with_texts
from manyhot.predictions.forms import partitions
from manyhot.predictions.header import ABSTAIN, OWNER, TEXT_COLUMNS, Header, column_names, read_footer
from manyhot.predictions.layout import DTYPES
from manyhot.refusal import refusal

# What is decoded at once. Arrow holds a few times as many cells beyond the result; with fewer rows than these the time
# for each piece begins to count.
DECODED_ROWS, LEAST_DECODED_ROWS, DECODED_CELLS = 8192, 1024, 2**21
# What is read ahead of each column. Without it a whole column chunk would be held: other programs write a million rows
# in one.
BUFFER_BYTES = 65536


class Part:
    """One file of a table.

    Args:
        path: The file.

    Attributes:
        header: What its metadata says.
        texts: Which of ids, paths and splits it holds.
        abstain: Whether it says where a rule abstained.
        rows: How many rows it has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = _stamp(path)
        self._metadata = read_footer(path)
        self.header = Header.parse(self._metadata.metadata, path)
        self.rows: int = self._metadata.num_rows
        self._types = {field.name: field.type for field in self._metadata.schema.to_arrow_schema()}
        self._check_columns()
        split = TEXT_COLUMNS["splits"]
        # The column of a file counts more than the folder that it lies in.
        told = {} if split in self._types else partitions(path)
        self._of_folder = {split: told[split]} if split in told else {}
        there = (*self._types, *self._of_folder)
        self.texts = tuple(name for name, column in TEXT_COLUMNS.items() if column in there)
        self.abstain = ABSTAIN in self._types

    def dtype(self, kind: str) -> torch.dtype:
        """The type in which a kind is read: what was written, or float64 if any label has that."""
        if kind in DTYPES:
            return DTYPES[kind]
        wide = import_arrow().float64()
        named = column_names(kind, self.header.labels)
        return torch.float64 if any(self._types[name] == wide for name in named) else torch.float32

    def pieces(self, columns: list[str], split: str | None) -> Iterator[Any]:
        """Record batches of these columns, in order, restricted to a split if one is named."""
        pa = import_arrow()
        split_column = TEXT_COLUMNS["splits"]
        wanted = columns if split is None or split_column in columns else [*columns, split_column]
        if split is not None and self._of_folder.get(split_column, split) != split:
            return
        inside = [name for name in wanted if name not in self._of_folder] or [TEXT_COLUMNS["ids"]]
        rows = min(DECODED_ROWS, max(LEAST_DECODED_ROWS, DECODED_CELLS // max(len(wanted), 1)))
        groups = [group for group in range(self._metadata.num_row_groups) if self._may_hold(group, split)]
        with (
            in_our_words("path", OWNER, "be a whole Parquet file", self.path, "Write it again."),
            pa.parquet.ParquetFile(
                self.path,
                metadata=self._metadata,
                buffer_size=BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            ) as file,
        ):
            self._refuse_change()
            for piece in file.iter_batches(rows, row_groups=groups, columns=inside):
                piece = with_texts(piece, self._of_folder, wanted) if self._of_folder else piece
                if split is not None:
                    piece = piece.filter(pa.compute.equal(as_strings(piece.column(split_column)), split))
                if len(piece):
                    yield piece

    def _refuse_change(self) -> None:
        """Refuses a file that is another than the one whose footer was read: its pages would lie elsewhere."""
        if self._stamp != _stamp(self.path):
            rule, got = "stay as it is while it is read", f"{str(self.path)!r}, which changed"
            raise refusal("path", OWNER, rule, got, "Open it again.")

    def _may_hold(self, group: int, split: str | None) -> bool:
        """Whether a row group can have rows of a split, as far as its statistics say."""
        if not split or self._of_folder:  # a null, of which statistics say nothing, is read as an empty name
            return True
        place = list(self._types).index(TEXT_COLUMNS["splits"])
        bounds = self._metadata.row_group(group).column(place).statistics
        if bounds is None or not bounds.has_min_max or not isinstance(bounds.min, str):
            return True
        return bool(bounds.min <= split <= bounds.max)

    def _check_columns(self) -> None:
        """Refuses a file that has lost columns since it was written."""
        for kind in self.header.kinds:
            for name in column_names(kind, self.header.labels):
                if name not in self._types:
                    got = f"{str(self.path)!r} without {name!r}"
                    raise refusal("path", OWNER, "hold the columns of its metadata", got, "Write the file again.")
        if TEXT_COLUMNS["ids"] not in self._types:
            got = f"{str(self.path)!r} without 'id'"
            raise refusal("path", OWNER, "hold the columns of its metadata", got, "Write the file again.")


def check_alike(parts: list[Part]) -> None:
    """Refuses parts that do not belong to one table."""
    first = parts[0]
    for part in parts[1:]:
        for name in ("labels", "kinds", "link", "calibrator", "rule"):
            mine, others = getattr(part.header, name), getattr(first.header, name)
            if mine != others:
                said = f" ({', '.join(mine)})" if name == "kinds" else ""
                _refuse_part(part, first, name, f"others{said}")
        if (part.texts, part.abstain) != (first.texts, first.abstain):
            _refuse_part(part, first, "columns for rows", ", ".join(part.texts))


def _refuse_part(part: Part, first: Part, what: str, got: str) -> None:
    rule = f"hold parts with the same {what} as {first.path.name!r}"
    remedy = "Open the parts that belong together, by a pattern or a folder of their own."
    raise refusal("path", OWNER, rule, f"{part.path.name!r} with {got}", remedy)


def _stamp(path: Path) -> tuple[int, int, int]:
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns
