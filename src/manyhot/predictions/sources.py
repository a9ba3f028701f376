"""Foreign tables that Arrow reads as they are: Parquet files and data frames."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import torch

from manyhot.predictions.arrow import first_line, import_arrow, in_our_words, with_texts
from manyhot.predictions.delimited import DelimitedText
from manyhot.predictions.forms import find_parquet, is_text, partitions
from manyhot.predictions.header import read_footer
from manyhot.predictions.parts import DECODED_ROWS
from manyhot.predictions.roles import BLANK, INDEX, LIST, NUMBER, TEXT, TRUTH, WHOLE, Roles
from manyhot.refusal import refusal


class Source(Protocol):
    """A foreign table.

    Attributes:
        columns: What each column holds, by name.
        notes: What was found out about the form of the table.
    """

    columns: dict[str, str]
    notes: list[str]

    def pieces(self, roles: Roles) -> Iterator[Any]:
        """Record batches of the columns that have a role; numbers of any type."""

    def dtype(self, roles: Roles) -> torch.dtype:
        """The type in which scores or probabilities are kept."""


class ParquetFiles:
    """Parquet files of any origin, with the same columns."""

    def __init__(self, path: str | os.PathLike[str], owner: str) -> None:
        self.paths, self.owner = find_parquet(path, owner), owner
        self._schema = read_footer(self.paths[0], owner).schema.to_arrow_schema()
        self.columns = _holdings(self._schema) | _index_of_pandas(self._schema)
        self._folders = {path: partitions(path) for path in self.paths}
        # What the folders of all files say, such as `split=test`, is a column too.
        shared = [name for name in self._folders[self.paths[0]] if all(name in told for told in self._folders.values())]
        self.columns |= {name: TEXT for name in shared if name not in self.columns}
        self.notes: list[str] = []

    def dtype(self, roles: Roles) -> torch.dtype:
        """As wide as the widest column."""
        return _widest(self._schema, roles)

    def pieces(self, roles: Roles) -> Iterator[Any]:
        """Record batches of the columns that have a role, file by file."""
        pa = import_arrow()
        for path in self.paths:
            there = read_footer(path, self.owner).schema.to_arrow_schema().names
            told = {name: text for name, text in self._folders[path].items() if name not in self._schema.names}
            inside = [name for name in roles.used if name not in told]
            for name in inside:
                if name not in there:
                    got, remedy = f"{str(path)!r} without {name!r}", "Read files of the same columns."
                    raise refusal("path", self.owner, "hold the same columns in all files", got, remedy)
            with (
                in_our_words("path", self.owner, "be a whole Parquet file", path, "Write or copy it again."),
                pa.parquet.ParquetFile(path, pre_buffer=False) as file,
            ):
                for piece in file.iter_batches(DECODED_ROWS, columns=inside):
                    yield with_texts(piece, told, roles.used)


class Frame:
    """A data frame of pandas or polars, or a table of Arrow."""

    def __init__(self, frame: Any, owner: str) -> None:
        pa = import_arrow()
        self.notes: list[str] = []
        if not (isinstance(frame, pa.Table) or hasattr(frame, "to_arrow") or _is_pandas(frame)):
            rule = "be a data frame of pandas or polars or a table of Arrow"
            raise refusal("frame", owner, rule, type(frame).__name__, "Pass arrays to `Predictions` itself.")
        names = frame.column_names if isinstance(frame, pa.Table) else [str(name) for name in frame.columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise refusal("frame", owner, "have columns of different names", f"{twice!r} twice", "Rename one of them.")
        if isinstance(frame, pa.Table):
            self._table = frame
        else:
            self._table = _from_pandas(frame, owner) if _is_pandas(frame) else frame.to_arrow()
        self.columns = _holdings(self._table.schema)

    def dtype(self, roles: Roles) -> torch.dtype:
        """As wide as the widest column."""
        return _widest(self._table.schema, roles)

    def pieces(self, roles: Roles) -> Iterator[Any]:
        """Record batches of the columns that have a role."""
        yield from self._table.select(roles.used).to_batches()


def open_source(path: str | os.PathLike[str], owner: str) -> Source:
    """A file of text or of Parquet, by the ending of its name."""
    return open_text(path, owner) if is_text(path) else ParquetFiles(path, owner)


def open_text(
    path: str | os.PathLike[str], owner: str, *, delimiter: str | None = None, dtype: torch.dtype = torch.float32
) -> DelimitedText:
    """A CSV or TSV file."""
    if not os.path.isfile(path):
        raise refusal("path", owner, "be a file", f"{os.fspath(path)!r}, where there is none", "Check the path.")
    return DelimitedText(Path(path), owner, delimiter, dtype)


def _is_pandas(frame: Any) -> bool:
    return hasattr(frame, "columns") and hasattr(frame, "iloc")


def _from_pandas(frame: Any, owner: str) -> Any:
    pa = import_arrow()
    # An index of one level may tell rows apart; its name would only be taken for that of a label.
    plain = frame.rename_axis(index=None) if frame.index.nlevels == 1 else frame.reset_index(drop=True)
    try:
        return pa.Table.from_pandas(plain.rename(columns=str))
    except (pa.ArrowException, TypeError, ValueError) as error:
        got = f"one that Arrow cannot take ({first_line(error)})"
        raise refusal("frame", owner, "have columns of one type each", got, "Convert or drop that column.") from None


def _holdings(schema: Any) -> dict[str, str]:
    """What the columns of a schema hold, by name."""
    return {field.name: _holds(field.type) for field in schema}


def _index_of_pandas(schema: Any) -> dict[str, str]:
    """The index that pandas wrote as a column, if it is one of one level; it is no label, whatever its name."""
    metadata = (schema.metadata or {}).get(b"pandas")
    names = json.loads(metadata).get("index_columns", []) if metadata else []
    is_column = len(names) == 1 and isinstance(names[0], str) and names[0] in schema.names
    return {names[0]: INDEX} if is_column else {}


def _widest(schema: Any, roles: Roles) -> torch.dtype:
    wide = import_arrow().float64()
    return torch.float64 if any(schema.field(name).type == wide for name in roles.cells.values()) else torch.float32


def _holds(kind: Any) -> str:
    types = import_arrow().types
    if types.is_dictionary(kind):
        return _holds(kind.value_type)
    if types.is_floating(kind):
        return NUMBER
    if types.is_integer(kind):
        return WHOLE
    if types.is_boolean(kind):
        return TRUTH
    if types.is_list(kind) or types.is_large_list(kind):
        return LIST
    if types.is_null(kind):
        return BLANK
    return TEXT
