"""pyarrow, imported on first use: its errors as `InputError`, and columns as NumPy arrays and strings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from manyhot.errors import InputError, require
from manyhot.tables.formats import is_parquet


def import_arrow() -> ModuleType:
    """pyarrow with its modules for Parquet, CSV and computing; the error says how to install it."""
    module: ModuleType = require("pyarrow", "Tables on disk", extra="tables")
    for name in ("compute", "csv", "parquet"):
        import_module(f"pyarrow.{name}")
    return module


@contextmanager
def arrow_as_input_error(argument: str, owner: str, rule: str, name: object, hint: str) -> Iterator[None]:
    """Turns errors of pyarrow about the content of a file into an `InputError` that names the file."""
    pa = import_arrow()
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise InputError(argument, owner, rule, f"{str(name)!r} ({first_line(error)})", hint) from None


def first_line(error: BaseException) -> str:
    """What an error says, reduced to its first line without the full stop."""
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


def with_constant_columns(piece: Any, constants: Mapping[str, str], columns: Sequence[str]) -> Any:
    """These columns of a record batch, some of which are not in it and have one constant text."""
    pa = import_arrow()
    arrays = [
        pa.repeat(pa.scalar(constants[name], pa.string()), len(piece)) if name in constants else piece.column(name)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def as_numpy(column: Any) -> np.ndarray[Any, Any]:
    """A column of numbers or truth values without nulls as an array, read-only where it can share memory."""
    # Not `to_numpy`, which imports pandas where that is installed and then costs more than reading a whole column.
    pa = import_arrow()
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_boolean(array.type):
        return np.from_dlpack(array.cast(pa.uint8())).view(np.bool_)
    return np.from_dlpack(array)


def as_strings(column: Any) -> Any:
    """A column of Arrow as strings without nulls: numbers as digits, categories by name, an empty string for a null."""
    pa = import_arrow()
    if not pa.types.is_string(column.type):
        column = column.cast(pa.string())
    return column.fill_null("") if column.null_count else column


def read_footer(path: Path, owner: str = "open_predictions") -> Any:
    """The Parquet metadata of a file, or the error that says what the file is instead."""
    pa = import_arrow()
    if not is_parquet(path):
        empty = path.stat().st_size == 0
        got = f"{str(path)!r}, which {'is empty' if empty else 'is not one'}"
        hint = "Write it again." if empty else "Import other files with {read_predictions}."
        raise InputError("path", owner, "be a Parquet file", got, hint)
    with arrow_as_input_error(
        "path", owner, "be a whole Parquet file", path, "It was cut short; write or copy it again."
    ):
        return pa.parquet.read_metadata(path)
