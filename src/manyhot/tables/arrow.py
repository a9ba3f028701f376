"""pyarrow, imported on first use, with its errors as `InputError`; its columns as strings and as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from manyhot.errors import as_input_error, require


@cache
def import_arrow() -> ModuleType:
    """pyarrow with its modules for Parquet, CSV and computing; the error says how to install it."""
    module: ModuleType = require("pyarrow", "Tables on disk", extra="tables")
    for name in ("compute", "csv", "parquet"):
        import_module(f"pyarrow.{name}")
    return module


class _LazyArrow:
    """Stands for pyarrow, which is imported when something of it is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_arrow(), name)


pa: Any = _LazyArrow()


def arrow_as_input_error(path: Path, rule: str, hint: str) -> AbstractContextManager[None]:
    """Turns errors of pyarrow about the content of a file into an `InputError` that names the file."""
    return as_input_error(repr(str(path)), (pa.ArrowException, OSError), rule, hint)


def with_constant_columns(piece: Any, constants: Mapping[str, str], columns: Sequence[str]) -> Any:
    """These columns of a record batch, some of which are not in it and have one constant text."""
    for name, text in constants.items():
        piece = piece.append_column(name, pa.repeat(text, len(piece)))
    return piece.select(columns)


def as_numpy(column: Any) -> np.ndarray[Any, Any]:
    """A column of numbers or truth values without nulls as an array, read-only where it can share memory."""
    # Not `to_numpy`, which imports pandas where that is installed and then costs more than reading a whole column.
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_boolean(array.type):
        return np.from_dlpack(array.cast(pa.uint8())).view(np.bool_)
    return np.from_dlpack(array)


def as_strings(column: Any) -> Any:
    """A column of Arrow as strings without nulls: numbers as digits, categories by name, an empty string for a null."""
    if not pa.types.is_string(column.type):
        column = column.cast(pa.string())
    return column.fill_null("") if column.null_count else column
