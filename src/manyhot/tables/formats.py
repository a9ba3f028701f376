"""File formats of tables by name, files of a folder or pattern, and partitions."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from urllib.parse import unquote

from manyhot.errors import InputError

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


def find_parquet(path: str | os.PathLike[str], owner: str, argument: str = "path") -> list[Path]:
    """The files of a path, sorted: one file, a pattern, or a folder with parts in it or in its folders.

    Of the folder of a run it is the table of the run. Names that begin with a dot or an underscore are left out: such
    files are being written, or are none of the parts.
    """
    text = os.fspath(path)
    if os.path.isfile(text):
        return [Path(text)]
    is_folder = os.path.isdir(text)
    files = _parquet_files_in(Path(text)) if is_folder else [Path(name) for name in glob.glob(text, recursive=True)]
    files = sorted(file for file in files if file.is_file())
    if not files:
        got = f"{text!r}, a folder without any" if is_folder else f"{text!r}, where there is nothing"
        hint = "Check the path, or write the table there first."
        raise InputError(argument, owner, "be a Parquet file, a folder of them or a pattern", got, hint)
    return files


def _parquet_files_in(folder: Path) -> list[Path]:
    table = folder / RUN_TABLE
    if table.is_file() and (folder / "classifier.json").is_file():
        return [table]
    candidates = folder.rglob("*.parquet")
    return [file for file in candidates if not any(part[0] in "._" for part in file.relative_to(folder).parts)]


def hive_partitions(path: Path) -> dict[str, str]:
    """What folders such as `split=test` say about all rows of a file.

    Example:
        >>> hive_partitions(Path("parts/split=test/fold=3/0.parquet"))
        {'split': 'test', 'fold': '3'}
    """
    pairs = (part.partition("=") for part in path.parts[:-1])
    return {name: "" if value == NULL_PARTITION else unquote(value) for name, equals, value in pairs if equals and name}


def check_format(path: str | os.PathLike[str], owner: str, argument: str) -> None:
    """Checks that a path leads to files in a known format."""
    if is_text(path) or is_archive(path):
        if not os.path.isfile(path):
            got = f"{os.fspath(path)!r}, where there is none"
            raise InputError(argument, owner, "be a file", got, "Check the path.")
    elif not is_parquet(find_parquet(path, owner, argument)[0]):
        rule = f"be a Parquet file or end with {', '.join((*TEXT_SUFFIXES, *ARCHIVE_SUFFIXES))}"
        raise InputError(argument, owner, rule, repr(os.fspath(path)), "Rename the file, or convert it first.")
