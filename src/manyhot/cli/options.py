"""The base class of commands, options that several commands share, and functions that open tables and runs."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from typer import Argument, Option

from manyhot.cli.console import print_notes
from manyhot.errors import InputError, suggest

if TYPE_CHECKING:
    from manyhot.classifier import Classifier
    from manyhot.predictions.predictions import PredictionTable

Kind = Literal["scores", "probs"]


class Command:
    """A command: its annotated attributes are its arguments and options, its docstring is its help.

    Args:
        typed: Their values by name; the default of an option that is left out.
    """

    def __init__(self, **typed: Any) -> None:
        for name in self.parameters():
            setattr(self, name, typed[name] if name in typed else getattr(type(self), name).default)

    def execute(self) -> None:
        """Runs the command."""
        raise NotImplementedError

    @classmethod
    def parameters(cls) -> dict[str, Any]:
        """The type of each argument and option by name, those of the class itself first."""
        parts = [inspect.get_annotations(part, eval_str=True) for part in cls.__mro__]
        return {name: kind for part in parts for name, kind in part.items()}

    @classmethod
    def as_function(cls) -> Callable[..., None]:
        """The function that typer takes for a command."""

        def call(**typed: Any) -> None:
            cls(**typed).execute()

        parameters = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=getattr(cls, name), annotation=kind)
            for name, kind in cls.parameters().items()
        ]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__doc__ = cls.__doc__
        return call


class TableCommand(Command):
    """A command on tables of predictions: what those of other programs hold."""

    kind: Kind | None = Option(None, help="What the numbers of a table of another program are; never guessed.")
    targets: Path | None = Option(None, help="A table of the true labels by id, if the table itself has none.")

    def open_table(self, path: str) -> PredictionTable:
        """Opens a table of this package or of another program, and prints what was detected."""
        from manyhot.predictions import read_predictions

        table = read_predictions(path, kind=self.kind, targets=self.targets)
        print_notes(*table.notes)
        return table


PREDICTIONS = Argument(
    metavar="PREDICTIONS", help="A table of predictions: Parquet, a folder of parts, CSV, TSV or NPZ."
)
RUN = Argument(metavar="RUN", help="The folder of a run, or one that Classifier.save wrote.")
OUT_TABLE = Option(None, "--out", "-o", help="The table to write (default: beside PREDICTIONS).")
OVERWRITE = Option(False, "--overwrite", help="Replace existing files.")
JSON = Option(False, "--json", help="Print JSON instead of tables.")


def check_output_path(path: Path, option: str, *, overwrite: bool, suffixes: Collection[str] = ()) -> Path:
    """The path, if it may be written; checked before the work begins, so that nothing is computed in vain.

    Args:
        path: The file to write.
        option: The option that names it.
        overwrite: Whether it may replace another file.
        suffixes: Those that it may have, the usual one first; empty for any.
    """
    folder = next(parent for parent in (*path.absolute().parents, path) if parent.exists())
    got, hint = repr(str(path)), "Choose another name, or pass --overwrite."
    if suffixes and path.suffix.lower() not in suffixes:
        example = f"{path.stem or 'new'}{next(iter(suffixes))}"
        rule, hint = f"end with {', '.join(suffixes)}", f"Rename it, for example {example}."
    elif path.exists() and not path.is_file():
        rule, hint = "name a file", "Name a file in a folder of yours."
        got += ", a folder" if path.is_dir() else ", which is none"
    elif path.exists() and not overwrite:
        rule = "name a file that is not there yet"
    elif not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        rule, hint = "lie in a folder you may write to", "Choose another place."
        got = f"{str(folder)!r}, {'where you may not write' if folder.is_dir() else 'which is no folder'}"
    else:
        return path
    raise InputError(option, "", rule, got, hint)


def table_path(path: Path, *, overwrite: bool) -> Path:
    """The path of the table to write; rejects suffixes of other formats, with which it could not be opened again."""
    if path.name.lower().endswith((".csv", ".tsv", ".gz", ".npz", ".npy", ".json")):
        raise InputError("--out", "", "name a Parquet file", repr(str(path)), "Let the name end with .parquet.")
    return check_output_path(path, "--out", overwrite=overwrite)


def path_beside(path: str, what: str) -> Path:
    """`photos.parquet` -> `photos.calibrated.parquet`, for any kind of table."""
    name = Path(path.rstrip("/").removesuffix("/*.parquet"))
    stem = re.sub(r"(\.(parquet|csv|tsv|npz|npy|gz))+$", "", name.name)
    if not name.exists():  # a pattern
        stem = re.sub(r"[*?\[\]]+", "", stem)
    return name.with_name(f"{stem.rstrip('-_.') or 'predictions'}.{what}.parquet")


def open_run(run: Path) -> Classifier:
    """The classifier of a folder; the error for a folder without one, before anything is imported, suggests others."""
    if not (run / "classifier.json").is_file():
        if (run / "config.yaml").is_file():
            hint = f"Let it finish: manyhot train --resume {run}."
            raise InputError("RUN", "", "be a finished run", f"{str(run)!r} without a classifier.json", hint)
        got = f"{str(run)!r}, {'which is none' if run.exists() else 'where there is nothing'}"
        raise InputError("RUN", "", "be a folder with a classifier.json", got, _suggest_run(run))
    from manyhot.classifier import Classifier

    return Classifier.load(run)


def _suggest_run(run: Path) -> str:
    """A hint with the run that was probably meant, or with some of the existing runs."""
    files = [file for parent in (run, run.parent, Path("runs")) for file in sorted(parent.glob("*/classifier.json"))]
    runs = list(dict.fromkeys(str(file.parent) for file in files))
    listed = f"There {'are' if len(runs) > 1 else 'is'} {', '.join(runs[:5])}{' ...' if len(runs) > 5 else '.'}"
    return suggest(str(run), runs, listed if runs else "Train one first: manyhot train photos.csv.", cutoff=0.8)
