"""What the verbs have in common: their options, how they open tables, and how they tell what they do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from manyhot.refusal import refusal

if TYPE_CHECKING:
    from rich.console import Console

    from manyhot.predictions.table import Table

Item = TypeVar("Item")


class Kind(StrEnum):
    """What the numbers of a foreign table are; nobody can tell by looking at them."""

    scores = "scores"
    probs = "probs"


PredictionsFile = Annotated[
    str,
    typer.Argument(metavar="PREDICTIONS", help="A table of predictions: Parquet, a folder of parts, CSV, TSV or NPZ."),
]
KindOption = Annotated[
    Kind | None, typer.Option("--kind", help="What the numbers of a table from elsewhere are; never guessed.")
]
TargetsOption = Annotated[
    Path | None,
    typer.Option("--targets", help="A table of the true labels by id, if they are not in the tables themselves."),
]
FitOnOption = Annotated[
    str | None, typer.Option("--fit-on", metavar="SPLIT", help="The split to learn from; all rows are written.")
]
FitTableOption = Annotated[
    str | None, typer.Option("--fit-table", metavar="FILE", help="Another table to learn from, instead of a split.")
]
AtMostOption = Annotated[
    int, typer.Option("--at-most", min=1, help="Learn from this many rows at the most, drawn by --seed.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of what is drawn.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", help="The table to write (default: beside PREDICTIONS).")
]
SaveOption = Annotated[Path | None, typer.Option("--save", help="Also write what was learnt to this JSON file.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there already.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def console() -> Console:
    """Where people are told what happens: the error stream, so that output can be piped; of one process alone."""
    from rich.console import Console

    from manyhot.distributed import rank

    # Names of labels and files are shown as they are: `[red]` is no colour.
    return Console(stderr=True, soft_wrap=True, markup=False, highlight=False, quiet=rank() > 0)


def open_table(path: str, kind: Kind | None, targets: Path | None, tell: Console) -> Table:
    """The table of a file, of this package or from elsewhere; says what was detected."""
    from manyhot.predictions import import_predictions

    table, notes = import_predictions(path, kind=None if kind is None else kind.value, targets=targets)
    tell_notes(notes, tell)
    return table


def tell_notes(notes: list[str], tell: Console) -> None:
    """What was detected, a line each."""
    from manyhot.terminal import printable

    for note in notes:
        typed = note.replace("kind='probs'", "--kind probs").replace("separator=", "--separator ")
        tell.print(printable(typed), style="dim")


def free_path(path: Path, *, overwrite: bool, option: str) -> Path:
    """The path, or the error that keeps what is there; said before the work begins, not after it."""
    if path.exists() and not path.is_file():
        got = f"{str(path)!r}, a folder" if path.is_dir() else f"{str(path)!r}, which is none"
        raise refusal(option, "manyhot", "name a file", got, "Name a file in a folder of yours.")
    if path.exists() and not overwrite:
        remedy = "Choose another name, or pass --overwrite."
        raise refusal(option, "manyhot", "name a file that is not there yet", repr(str(path)), remedy)
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        why = "where you may not write" if folder.is_dir() else "which is no folder"
        remedy = "Choose another place."
        raise refusal(option, "manyhot", "lie in a folder you may write to", f"{str(folder)!r}, {why}", remedy)
    return path


def table_path(path: Path, *, overwrite: bool, save: Path | None = None) -> Path:
    """The path of the table to write; refuses endings of other forms, under which nobody could open it again."""
    if path.name.lower().endswith((".csv", ".tsv", ".gz", ".npz", ".npy", ".json")):
        remedy = "Let the name end with .parquet."
        raise refusal("--out", "manyhot", "name a Parquet file", repr(str(path)), remedy)
    if save is not None:
        if save.absolute() == path.absolute():
            raise refusal("--save", "manyhot", "name another file than --out", repr(str(save)), "Rename one of them.")
        free_path(save, overwrite=overwrite, option="--save")
    return free_path(path, overwrite=overwrite, option="--out")


def beside(path: str, what: str) -> Path:
    """`photos.parquet` -> `photos.calibrated.parquet`, for any kind of table."""
    name = Path(path.rstrip("/").removesuffix("/*.parquet"))
    stem = name.name.removesuffix(".gz")
    if not name.exists():  # a pattern
        stem = re.sub(r"[*?\[\]]+", "", stem)
    for ending in (".parquet", ".csv", ".tsv", ".npz", ".npy"):
        stem = stem.removesuffix(ending)
    return name.with_name(f"{stem.rstrip('-_.') or 'predictions'}.{what}.parquet")


def bar(items: Iterable[Item], total: int, text: str, tell: Console) -> Iterator[Item]:
    """Passes items on and counts their lengths: a bar with the time left in a terminal, silence elsewhere."""
    from rich.progress import Progress

    with Progress(console=tell, transient=True, disable=not tell.is_terminal) as progress:
        task = progress.add_task(text, total=total)
        for item in items:
            yield item
            progress.advance(task, len(item))  # type: ignore[arg-type]
