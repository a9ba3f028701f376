"""The forms in which tables come, by the names of their files."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from manyhot.refusal import refusal

TEXT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
ARCHIVE_SUFFIXES = (".npz", ".npy")
MAGIC = b"PAR1"  # what every Parquet file begins with


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether a file is CSV or TSV."""
    return os.fspath(path).lower().endswith(TEXT_SUFFIXES)


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file is an array or an archive of NumPy."""
    return os.fspath(path).lower().endswith(ARCHIVE_SUFFIXES)


def is_parquet(path: Path) -> bool:
    """Whether a file begins like Parquet."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def find_parquet(path: str | os.PathLike[str], owner: str, argument: str = "path") -> list[Path]:
    """The files of a path, which may be one file, a folder of parts or a pattern; sorted by name."""
    text = os.fspath(path)
    if os.path.isfile(text):
        return [Path(text)]
    is_folder = os.path.isdir(text)
    found = glob.glob(os.path.join(glob.escape(text), "*.parquet")) if is_folder else glob.glob(text, recursive=True)
    files = sorted(Path(name) for name in found if os.path.isfile(name))
    if not files:
        got = f"{text!r}, a folder without any" if is_folder else f"{text!r}, where there is nothing"
        remedy = "Check the path, or write the table there first."
        raise refusal(argument, owner, "be a Parquet file, a folder of them or a pattern", got, remedy)
    return files


def check_form(path: str | os.PathLike[str], owner: str, argument: str) -> None:
    """Refuses a path that leads to nothing, or to a form that cannot be read."""
    if is_text(path) or is_archive(path):
        if not os.path.isfile(path):
            got = f"{os.fspath(path)!r}, where there is none"
            raise refusal(argument, owner, "be a file", got, "Check the path.")
    elif not is_parquet(find_parquet(path, owner, argument)[0]):
        rule = f"be a Parquet file or end with {', '.join((*TEXT_SUFFIXES, *ARCHIVE_SUFFIXES))}"
        raise refusal(argument, owner, rule, repr(os.fspath(path)), "Rename the file, or convert it first.")
