"""Files of tables by name and folder, and pyarrow: imported on first use, with its errors as `InputError`."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import numpy as np

from manyhot.errors import InputError, as_input_error, owned, require

TEXT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
ARCHIVE_SUFFIXES = (".npz", ".npy")
RUN_TABLE = "predictions.parquet"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # the folder of rows that have none
PARQUET_MAGIC = b"PAR1"  # the first bytes of every Parquet file


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether a file is CSV or TSV."""
    return os.fspath(path).lower().endswith(TEXT_SUFFIXES)


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file is an array or an archive of NumPy."""
    return os.fspath(path).lower().endswith(ARCHIVE_SUFFIXES)


def is_parquet(path: Path) -> bool:
    """Whether a file begins like Parquet."""
    with path.open("rb") as file:
        return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


def find_parquet(path: str | os.PathLike[str], owner: str = "") -> list[Path]:
    """The files of a path, sorted: one file, a pattern, or a folder with parts in it or in its folders.

    Of the folder of a run it is the table of the run. Names that begin with a dot or an underscore are left out: such
    files are being written, or are none of the parts.
    """
    text, folder = os.fspath(path), Path(path)
    is_folder = os.path.isdir(text)
    if os.path.isfile(text):
        return [folder]
    if not is_folder:
        candidates = [Path(name) for name in glob.glob(text, recursive=True)]
    elif (folder / RUN_TABLE).is_file() and (folder / "classifier.json").is_file():
        candidates = [folder / RUN_TABLE]
    else:
        names = folder.rglob("*.parquet")
        candidates = [name for name in names if not any(part[0] in "._" for part in name.relative_to(folder).parts)]
    files = sorted(file for file in candidates if file.is_file())
    if not files:
        got = f"{text!r}, {'a folder without any' if is_folder else 'where there is nothing'}"
        hint = "Check the path, or write the table there first."
        raise InputError("path", owner, "be a Parquet file, a folder of them or a pattern", got, hint)
    return files


def hive_partitions(path: Path) -> dict[str, str]:
    """What folders such as `split=test` say about all rows of a file.

    Example:
        >>> hive_partitions(Path("parts/split=test/fold=3/0.parquet"))
        {'split': 'test', 'fold': '3'}
    """
    pairs = (part.partition("=") for part in path.parts[:-1])
    return {name: "" if value == NULL_PARTITION else unquote(value) for name, equals, value in pairs if equals and name}


def read_metadata(path: str | os.PathLike[str]) -> dict[bytes, bytes]:
    """The metadata in the first Parquet file of a path, none of other files; or the error that they are unknown."""
    if is_text(path) or is_archive(path):
        if os.path.isfile(path):
            return {}
        got = f"{os.fspath(path)!r}, where there is none"
        raise InputError("path", rule="be a file", got=got, hint="Check the path.")
    file = find_parquet(path)[0]
    if not is_parquet(file):
        rule = f"be a Parquet file or end with {', '.join((*TEXT_SUFFIXES, *ARCHIVE_SUFFIXES))}"
        hint = "Rename the file, or convert it first."
        raise InputError("path", rule=rule, got=repr(os.fspath(path)), hint=hint)
    metadata: dict[bytes, bytes] | None = read_footer(file, "").metadata
    return metadata or {}


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


def missing_path_error(path: object) -> InputError:
    """The error for a path that leads nowhere."""
    got = f"{str(path)!r}, where there is nothing"
    return InputError("path", rule="lead to data", got=got, hint="Check the path.")


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


def read_footer(path: Path, owner: str = "open_predictions") -> Any:
    """The Parquet metadata of a file, or the error that says what the file is instead."""
    if not is_parquet(path):
        empty = path.stat().st_size == 0
        got = f"{str(path)!r}, which {'is empty' if empty else 'is not one'}"
        hint = "Write it again." if empty else "Import other files with {read_predictions}."
        raise InputError("path", owner, "be a Parquet file", got, hint)
    hint = "It was cut short; write or copy it again."
    with owned(owner), arrow_as_input_error(path, "be a whole Parquet file", hint):
        return pa.parquet.read_metadata(path)
