"""pyarrow, imported where a table is read or written and nowhere else; and its errors in our words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from manyhot.refusal import refusal


def import_arrow() -> ModuleType:
    """pyarrow with its modules for Parquet, CSV and computing, or the sentence that says how to get it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Tables on disk need pyarrow. Install it with `pip install manyhot[tables]`.") from None
    module: ModuleType = pyarrow
    return module


@contextmanager
def in_our_words(argument: str, owner: str, rule: str, name: object, remedy: str) -> Iterator[None]:
    """Turns what pyarrow says about the content of a file into a refusal that names the file."""
    pa = import_arrow()
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise refusal(argument, owner, rule, f"{str(name)!r} ({first_line(error)})", remedy) from None


def first_line(error: BaseException) -> str:
    """What an error says, without the lines that only its makers understand and without a full stop."""
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


def with_texts(piece: Any, texts: Mapping[str, str], columns: Sequence[str]) -> Any:
    """These columns of a record batch, some of which are not in it and say the same text in every row."""
    pa = import_arrow()
    found = [
        pa.repeat(pa.scalar(texts[name], pa.string()), len(piece)) if name in texts else piece.column(name)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(found, list(columns))


def as_numpy(column: Any) -> np.ndarray[Any, Any]:
    """A column of numbers or truth values without nulls as an array, read-only where it can share memory."""
    # Not `to_numpy`, which imports pandas where that is installed and then costs more than reading a whole column.
    pa = import_arrow()
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_boolean(whole.type):
        return np.from_dlpack(whole.cast(pa.uint8())).view(np.bool_)
    return np.from_dlpack(whole)


def as_strings(column: Any) -> Any:
    """A column of Arrow as strings without nulls: numbers as digits, categories by name, an empty string for a null."""
    pa = import_arrow()
    if not pa.types.is_string(column.type):
        column = column.cast(pa.string())
    return column.fill_null("") if column.null_count else column
