"""Options that several commands share, and functions that open tables, datasets and runs."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from manyhot.cli.console import print_notes
from manyhot.errors import InputError, suggest
from manyhot.settings import DataSource, TrainSettings, default_text, parse_overrides, read_settings, setting_types

if TYPE_CHECKING:
    from rich.console import Console

    from manyhot.classifier import Classifier
    from manyhot.predictions.predictions import PredictionTable

Kind = Literal["scores", "probs"]

PredictionsFile = Annotated[
    str,
    typer.Argument(metavar="PREDICTIONS", help="A table of predictions: Parquet, a folder of parts, CSV, TSV or NPZ."),
]
KindOption = Annotated[
    Kind | None, typer.Option(help="What the numbers of a table of another program are; never guessed.")
]
TargetsOption = Annotated[
    Path | None, typer.Option(help="A table of the true labels by id, if they are not in the tables themselves.")
]
FitOnOption = Annotated[str | None, typer.Option(metavar="SPLIT", help="The split to fit on; all rows are written.")]
FitTableOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="Another table to fit on, instead of a split.")
]
AtMostOption = Annotated[int, typer.Option(min=1, help="Fit on at most this many rows, sampled with --seed.")]
FitSeedOption = Annotated[int, typer.Option(help="Random seed.")]
OutTableOption = Annotated[
    Path | None, typer.Option("--out", "-o", help="The table to write (default: beside PREDICTIONS).")
]
SaveOption = Annotated[Path | None, typer.Option(help="Also write the fitted calibrator or rule to this JSON file.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def open_table(path: str, kind: Kind | None, targets: Path | None, console: Console) -> PredictionTable:
    """Opens a table of this package or of another program, and prints what was detected."""
    from manyhot.predictions import read_predictions

    table = read_predictions(path, kind=kind, targets=targets)
    print_notes(table.notes, console)
    return table


def check_output_path(
    path: Path,
    option: str,
    owner: str = "manyhot",
    *,
    overwrite: bool,
    suffixes: Collection[str] = (),
    example: str = "",
) -> Path:
    """The path, if it may be written; checked before the work begins, so that nothing is computed in vain.

    Args:
        path: The file to write.
        option: The option that names it.
        owner: The command.
        overwrite: Whether it may replace another file.
        suffixes: Those that it may have; empty for any.
        example: A name with one of them.
    """
    folder = next(parent for parent in (*path.absolute().parents, path) if parent.exists())
    got, hint = repr(str(path)), "Choose another name, or pass --overwrite."
    if suffixes and path.suffix.lower() not in suffixes:
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
    raise InputError(option, owner, rule, got, hint)


def table_path(path: Path, *, overwrite: bool, save: Path | None = None) -> Path:
    """The path of the table to write; rejects suffixes of other formats, with which it could not be opened again."""
    if path.name.lower().endswith((".csv", ".tsv", ".gz", ".npz", ".npy", ".json")):
        hint = "Let the name end with .parquet."
        raise InputError("--out", "manyhot", "name a Parquet file", repr(str(path)), hint)
    if save is not None:
        if save.absolute() == path.absolute():
            rule = "name another file than --out"
            raise InputError("--save", "manyhot", rule, repr(str(save)), "Rename one of them.")
        check_output_path(save, "--save", overwrite=overwrite)
    return check_output_path(path, "--out", overwrite=overwrite)


def path_beside(path: str, what: str) -> Path:
    """`photos.parquet` -> `photos.calibrated.parquet`, for any kind of table."""
    name = Path(path.rstrip("/").removesuffix("/*.parquet"))
    stem = name.name.removesuffix(".gz")
    if not name.exists():  # a pattern
        stem = re.sub(r"[*?\[\]]+", "", stem)
    for ending in (".parquet", ".csv", ".tsv", ".npz", ".npy"):
        stem = stem.removesuffix(ending)
    return name.with_name(f"{stem.rstrip('-_.') or 'predictions'}.{what}.parquet")


DATA = typer.Argument(
    metavar="DATA...",
    help="A table of paths and labels (CSV, TSV, Parquet, JSON), a folder of images, COCO JSON, or shards.",
)
RunOption = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FOLDER", file_okay=False, help="The run folder (default: runs/ and the name of DATA)."
    ),
]
# Settings with an option of their own; --set takes all of them.
SETTING_OPTIONS = (
    *("loss", "backbone", "size", "tune", "epochs", "batch_size", "lr", "calibrator", "rule", "seed", "workers"),
    "on_bad_image",
)
DATA_OPTIONS = ("layout", "path_column", "labels_column", "split_column", "separator", "root", "unlisted")
# Options of the same commands that are no settings.
OTHER_OPTIONS = {
    "config": Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="YAML file of settings, such as the config.yaml of a run."),
    ],
    "set_": Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any training setting, such as lr=0.01. Repeatable."),
    ],
    "corrections": Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A table of corrected labels, such as the reviewed.csv of the studio, applied to DATA. Repeatable.",
        ),
    ],
}


def with_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command an option for each of these settings, passed to its `**options`; None if not typed."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [one.replace(kind=one.KEYWORD_ONLY) for one in signature.parameters.values() if one.name != "options"]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option_of(name))
            for name in names
        ]
        command.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        return command

    return decorate


FIELDS = {item.name: item for cls in (TrainSettings, DataSource) for item in fields(cls)}
KINDS = setting_types(TrainSettings) | setting_types(DataSource)


def option_of(name: str) -> Any:
    """The option of a setting, with its description and default."""
    if name in OTHER_OPTIONS:
        return OTHER_OPTIONS[name]
    text = FIELDS[name].metadata["description"]
    default = default_text(name) if name in SETTING_OPTIONS else ""
    option = typer.Option(help=f"{text} (default: {default})" if default else text)
    return Annotated[KINDS[name] | None, option]


def build_settings(options: dict[str, Any]) -> TrainSettings:
    """Settings of a file, overridden by --set and then by options."""
    settings = {} if options["config"] is None else read_settings(options["config"])
    settings.pop("data", None)
    typed = {name: options[name] for name in SETTING_OPTIONS if options.get(name) is not None}
    return TrainSettings.build(settings | parse_overrides(options["set_"] or []) | typed)


def build_source(data: list[str] | None, options: dict[str, Any]) -> DataSource:
    """How data are read: as the options say, or as the file of settings says where no DATA are given."""
    typed = {name: options[name] for name in DATA_OPTIONS}
    source = DataSource.build(*(data or ()), corrections=options["corrections"] or (), **typed)
    if data or options.get("config") is None:
        return source
    stored = read_settings(options["config"]).get("data") or {}
    others = {name: stored.get(name) for name, value in typed.items() if value is None}
    corrections = dict.fromkeys([*stored.get("corrections", ()), *source.corrections])
    return replace(source, paths=tuple(stored.get("paths", ())), corrections=tuple(corrections), **others)


RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of a run, or one that Classifier.save wrote.")
]


def open_run(run: Path, owner: str) -> Classifier:
    """The classifier of a folder; the error for a folder without one, before anything is imported, suggests others."""
    if not (run / "classifier.json").is_file():
        if (run / "config.yaml").is_file():
            hint = f"Let it finish: manyhot train --resume {run}."
            raise InputError("RUN", owner, "be a finished run", f"{str(run)!r} without a classifier.json", hint)
        got = f"{str(run)!r}, {'which is none' if run.exists() else 'where there is nothing'}"
        raise InputError("RUN", owner, "be a folder with a classifier.json", got, _suggest_run(run))
    from manyhot.classifier import Classifier

    return Classifier.load(run)


def _suggest_run(run: Path) -> str:
    """A hint with the run that was probably meant, or with some of the existing runs."""
    files = [file for parent in (run, run.parent, Path("runs")) for file in sorted(parent.glob("*/classifier.json"))]
    runs = list(dict.fromkeys(str(file.parent) for file in files))
    listed = f"There {'are' if len(runs) > 1 else 'is'} {', '.join(runs[:5])}{' ...' if len(runs) > 5 else '.'}"
    return suggest(str(run), runs, listed if runs else "Train one first: manyhot train photos.csv.", cutoff=0.8)
