"""Run folders on the command line: found, or the nearest ones named."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyhot.refusal import refusal

if TYPE_CHECKING:
    from manyhot.classifier import Classifier

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of a run, or one that Classifier.save wrote.")
]


def open_run(run: Path, owner: str) -> Classifier:
    """The classifier of a folder, or the error that names the folders there are."""
    check_run(run, owner)
    from manyhot.classifier import Classifier

    return Classifier.load(run)


def check_run(run: Path, owner: str) -> None:
    """Refuses a folder without a classifier, before anything is imported."""
    if is_run(run):
        return
    if (run / "config.yaml").is_file():
        remedy = f"Let it finish: manyhot train --resume {run}."
        raise refusal("RUN", owner, "be a finished run", f"{str(run)!r} without a classifier.json", remedy)
    got = f"{str(run)!r}, {'where there is nothing' if not run.exists() else 'which is none'}"
    raise refusal("RUN", owner, "be a folder with a classifier.json", got, _advice(run))


def is_run(folder: Path) -> bool:
    """Whether a folder holds a classifier."""
    return (folder / "classifier.json").is_file()


def _advice(run: Path) -> str:
    """The run that was probably meant, or some that are there."""
    places = [place for place in (run, run.parent, Path("runs")) if place.is_dir()]
    found = dict.fromkeys(str(folder) for place in places for folder in sorted(place.iterdir()) if is_run(folder))
    near = difflib.get_close_matches(str(run), found, n=1, cutoff=0.8)
    if near:
        return f"Did you mean {near[0]}?"
    if found:
        names = list(found)
        return f"There {'are' if len(names) > 1 else 'is'} {', '.join(names[:5])}{' ...' if len(names) > 5 else '.'}"
    return "Train one first: manyhot train photos.csv."
