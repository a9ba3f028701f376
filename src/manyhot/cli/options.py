"""The base classes of commands, options of settings, and the paths that commands write to."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from typer import Option

from manyhot.cli.console import print_notes
from manyhot.errors import InputError
from manyhot.settings import DataSource, TrainSettings, default_text, setting_types

if TYPE_CHECKING:
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


# Settings with an option of their own; --set takes all of them.
SETTING_OPTIONS = (
    *("backbone", "size", "tune", "epochs", "batch_size", "lr", "calibrator", "rule", "seed", "workers"),
    "on_bad_image",
)
DATA_OPTIONS = ("layout", "path_column", "labels_column", "split_column", "separator", "root", "unlisted")
KINDS = setting_types(TrainSettings) | setting_types(DataSource)
DESCRIPTIONS = {
    item.name: item.metadata.get("description") for cls in (TrainSettings, DataSource) for item in fields(cls)
}
CommandClass = TypeVar("CommandClass", bound=type[Command])


def with_settings(*names: str) -> Callable[[CommandClass], CommandClass]:
    """Gives a command an option for each of these settings; None if it is not typed."""

    def decorate(command: CommandClass) -> CommandClass:
        for name in names:
            default = "" if name in DATA_OPTIONS else default_text(name)
            text = f"{DESCRIPTIONS[name]} (default: {default})" if default else DESCRIPTIONS[name]
            setattr(command, name, Option(None, help=text))
            command.__annotations__[name] = KINDS[name] | None
        return command

    return decorate


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


def path_beside(path: str, what: str) -> Path:
    """`photos.parquet` -> `photos.calibrated.parquet`, for any kind of table."""
    name = Path(path.rstrip("/").removesuffix("/*.parquet"))
    stem = re.sub(r"(\.(parquet|csv|tsv|npz|npy|gz))+$", "", name.name)
    if not name.exists():  # a pattern
        stem = re.sub(r"[*?\[\]]+", "", stem)
    return name.with_name(f"{stem.rstrip('-_.') or 'predictions'}.{what}.parquet")
