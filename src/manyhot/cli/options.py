"""Options that several commands share, and functions that open tables, datasets and runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli.console import print_notes
from manyhot.errors import InputError, suggest
from manyhot.presets import CALIBRATOR, RULE

if TYPE_CHECKING:
    from rich.console import Console

    from manyhot.classifier import Classifier
    from manyhot.data.dataset import Dataset
    from manyhot.predictions.predictions import PredictionTable
    from manyhot.training import TrainSettings


class Kind(StrEnum):
    """What the numbers of a table from another program are; the numbers themselves do not show it."""

    scores = "scores"
    probs = "probs"


PredictionsFile = Annotated[
    str,
    typer.Argument(metavar="PREDICTIONS", help="A table of predictions: Parquet, a folder of parts, CSV, TSV or NPZ."),
]
KindOption = Annotated[
    Kind | None, typer.Option("--kind", help="What the numbers of a table of another program are; never guessed.")
]
TargetsOption = Annotated[
    Path | None,
    typer.Option("--targets", help="A table of the true labels by id, if they are not in the tables themselves."),
]
FitOnOption = Annotated[
    str | None, typer.Option("--fit-on", metavar="SPLIT", help="The split to fit on; all rows are written.")
]
FitTableOption = Annotated[
    str | None, typer.Option("--fit-table", metavar="FILE", help="Another table to fit on, instead of a split.")
]
AtMostOption = Annotated[
    int, typer.Option("--at-most", min=1, help="Fit on at most this many rows, sampled with --seed.")
]
FitSeedOption = Annotated[int, typer.Option("--seed", help="Random seed.")]
OutTableOption = Annotated[
    Path | None, typer.Option("--out", "-o", help="The table to write (default: beside PREDICTIONS).")
]
SaveOption = Annotated[
    Path | None, typer.Option("--save", help="Also write the fitted calibrator or rule to this JSON file.")
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def open_table(path: str, kind: Kind | None, targets: Path | None, console: Console) -> PredictionTable:
    """Opens a table of this package or of another program, and prints what was detected."""
    from manyhot.predictions import read_predictions

    table = read_predictions(path, kind=None if kind is None else kind.value, targets=targets)
    print_notes(table.notes, console)
    return table


def check_output_path(path: Path, *, overwrite: bool, option: str) -> Path:
    """The path, if it may be written; checked before the work begins, so that nothing is computed in vain."""
    if path.exists() and not path.is_file():
        got = f"{str(path)!r}, a folder" if path.is_dir() else f"{str(path)!r}, which is none"
        raise InputError(option, "manyhot", "name a file", got, "Name a file in a folder of yours.")
    if path.exists() and not overwrite:
        hint = "Choose another name, or pass --overwrite."
        raise InputError(option, "manyhot", "name a file that is not there yet", repr(str(path)), hint)
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        why = "where you may not write" if folder.is_dir() else "which is no folder"
        hint = "Choose another place."
        raise InputError(option, "manyhot", "lie in a folder you may write to", f"{str(folder)!r}, {why}", hint)
    return path


def table_path(path: Path, *, overwrite: bool, save: Path | None = None) -> Path:
    """The path of the table to write; rejects suffixes of other formats, with which it could not be opened again."""
    if path.name.lower().endswith((".csv", ".tsv", ".gz", ".npz", ".npy", ".json")):
        hint = "Let the name end with .parquet."
        raise InputError("--out", "manyhot", "name a Parquet file", repr(str(path)), hint)
    if save is not None:
        if save.absolute() == path.absolute():
            raise InputError(
                "--save", "manyhot", "name another file than --out", repr(str(save)), "Rename one of them."
            )
        check_output_path(save, overwrite=overwrite, option="--save")
    return check_output_path(path, overwrite=overwrite, option="--out")


def path_beside(path: str, what: str) -> Path:
    """`photos.parquet` -> `photos.calibrated.parquet`, for any kind of table."""
    name = Path(path.rstrip("/").removesuffix("/*.parquet"))
    stem = name.name.removesuffix(".gz")
    if not name.exists():  # a pattern
        stem = re.sub(r"[*?\[\]]+", "", stem)
    for ending in (".parquet", ".csv", ".tsv", ".npz", ".npy"):
        stem = stem.removesuffix(ending)
    return name.with_name(f"{stem.rstrip('-_.') or 'predictions'}.{what}.parquet")


class Unlisted(StrEnum):
    """What it means that a label is not listed for a row."""

    absent = "absent"
    unknown = "unknown"


DataArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...",
        help="A table of paths and labels (CSV, TSV, Parquet, JSON), a folder of images, COCO JSON, or shards.",
    ),
]
LayoutOption = Annotated[
    str | None,
    typer.Option(
        "--layout",
        help="If it is not detected correctly: table, folders, imagefolder, coco, voc, open_images, webdataset or npz.",
    ),
]
PathColumnOption = Annotated[str | None, typer.Option("--path-column", help="The column of image paths.")]
LabelsColumnOption = Annotated[str | None, typer.Option("--labels-column", help="The column of label names.")]
SplitColumnOption = Annotated[str | None, typer.Option("--split-column", help="The column of splits.")]
SeparatorOption = Annotated[
    str | None, typer.Option("--separator", help="What separates two label names, such as '|' or ';'.")
]
RootOption = Annotated[
    Path | None, typer.Option("--root", help="The folder that image paths are relative to (default: beside DATA).")
]
UnlistedOption = Annotated[
    Unlisted | None,
    typer.Option(
        "--unlisted",
        help="What it means that a label is not listed for an image (default: absent; unknown for blank cells).",
    ),
]
CorrectionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--corrections",
        metavar="FILE",
        help="A table of corrected labels, such as the reviewed.csv of the studio, applied to DATA. Repeatable.",
    ),
]


def read_dataset(
    data: list[str],
    *,
    layout: str | None = None,
    path_column: str | None = None,
    labels_column: str | None = None,
    split_column: str | None = None,
    separator: str | None = None,
    root: Path | None = None,
    unlisted: Unlisted | None = None,
    console: Console | None = None,
) -> Dataset:
    """Reads the dataset with the options of the command, and prints what was detected."""
    from manyhot.data import read_data

    dataset = read_data(
        data[0] if len(data) == 1 else data,
        layout=layout,
        path_column=path_column,
        labels_column=labels_column,
        split_column=split_column,
        separator=separator,
        root=root,
        unlisted=None if unlisted is None else unlisted.value,
    )
    if console is not None:
        print_notes(dataset.notes, console)
    return dataset


def apply_corrections(dataset: Dataset, corrections: Iterable[str], console: Console) -> Dataset:
    """The dataset with labels corrected by tables, of which later ones win; prints how many were changed."""
    from manyhot.data import read_corrections

    for path in corrections:
        known_notes = len(dataset.notes)
        dataset = dataset.corrected(read_corrections(path))
        print_notes([f"{Path(path).name}: {note}" for note in dataset.notes[known_notes:]], console)
    return dataset


class Tune(StrEnum):
    """Which part of the network is trained."""

    head = "head"
    all = "all"


class OnUnreadableImage(StrEnum):
    """What happens to images that cannot be read."""

    skip = "skip"
    fail = "fail"


RunOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FOLDER", help="The run folder (default: runs/ and the name of DATA)."),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="YAML file of settings, such as the config.yaml of a run."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any training setting, such as lr=0.01. Repeatable."),
]
BackboneOption = Annotated[
    str | None,
    typer.Option("--backbone", help="Any model of timm, or efficientnet_lite0, which needs no download (default)."),
]
ImageSizeOption = Annotated[int | None, typer.Option("--size", min=8, help="Input size of the backbone in pixels.")]
TuneOption = Annotated[
    Tune | None,
    typer.Option("--tune", help="Train the head on frozen features (default; a CPU is enough), or all of the network."),
]
EpochsOption = Annotated[int | None, typer.Option("--epochs", min=1, help="Passes over the training data.")]
BatchOption = Annotated[int | None, typer.Option("--batch-size", min=1, help="Rows per optimisation step.")]
LearningRateOption = Annotated[float | None, typer.Option("--lr", help="The highest learning rate.")]
CalibratorOption = Annotated[
    str | None, typer.Option("--calibrator", help=f"As in Python: {CALIBRATOR} by default, or none.")
]
RuleOption = Annotated[str | None, typer.Option("--rule", help=f"As in Python: {RULE} by default, or none.")]
OnUnreadableImageOption = Annotated[
    OnUnreadableImage | None,
    typer.Option("--on-bad-image", help="Skip images that cannot be read and list them, or stop."),
]
WorkersOption = Annotated[int | None, typer.Option("--workers", min=0, help="Processes that read images.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Random seed.")]
NoReportOption = Annotated[bool, typer.Option("--no-report", help="Write no report.html into the run folder.")]


# Options that are training settings, and options of how data are read.
SETTING_OPTIONS = (
    "loss",
    "backbone",
    "size",
    "tune",
    "epochs",
    "batch_size",
    "lr",
    "calibrator",
    "rule",
    "seed",
    "workers",
    "on_bad_image",
)
DATA_OPTIONS = ("layout", "path_column", "labels_column", "split_column", "separator", "root", "unlisted")


def build_settings(
    config: Path | None, overrides: list[str] | None, arguments: dict[str, Any]
) -> tuple[TrainSettings, dict[str, Any]]:
    """Settings of a file, overridden by --set and then by options; and how data were read according to the file."""
    from manyhot.settings import TrainSettings, parse_overrides, read_settings

    settings = read_settings(config) if config is not None else {}
    source = settings.pop("data", {})
    settings |= parse_overrides(overrides or [])
    options = {name: arguments[name] for name in SETTING_OPTIONS if arguments.get(name) is not None}
    settings |= {name: value.value if isinstance(value, StrEnum) else value for name, value in options.items()}
    return TrainSettings.build(settings), dict(source or {})


def describe_source(data: list[str], arguments: dict[str, Any]) -> dict[str, Any]:
    """How data are read, for the settings of a run: the options that were passed.

    Paths and patterns are made absolute, because a run may be resumed from another folder.
    """
    paths = [str(Path(path).absolute()) if Path(path).exists() or set(path) & set("*?[{") else path for path in data]
    source: dict[str, Any] = {"paths": paths}
    source |= {name: str(arguments[name]) for name in DATA_OPTIONS if arguments[name] is not None}
    if arguments["root"] is not None:
        source["root"] = str(Path(arguments["root"]).absolute())
    return add_corrections(source, arguments)


def add_corrections(source: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """How data are read, with the corrections of --corrections after those of the settings."""
    # Links of folders are resolved: `runs/last` points to another run as soon as this one has finished.
    from manyhot.data.corrections import real_path

    files = [*source.get("corrections", ()), *map(real_path, arguments.get("corrections") or ())]
    return source | {"corrections": list(dict.fromkeys(files))} if files else source


def read_source(source: dict[str, Any], command: str, console: Console, settings: TrainSettings) -> Dataset:
    """Reads the dataset that the settings describe.

    Missing splits are drawn before labels are corrected, because the draw depends on the labels: a held-out image
    stays held out when its labels are corrected.
    """
    from manyhot.training.prepare import with_all_splits

    if not source.get("paths"):
        hint = f"Name a table or a folder, such as: manyhot {command} photos.csv."
        raise InputError("DATA", f"manyhot {command}", "be given", "nothing", hint)
    reading = {name: source.get(name) for name in DATA_OPTIONS}
    reading["root"] = Path(reading["root"]) if reading["root"] else None
    reading["unlisted"] = Unlisted(reading["unlisted"]) if reading["unlisted"] else None
    dataset = read_dataset(source["paths"], **reading, console=console)
    if not source.get("corrections"):
        return dataset
    known_notes = len(dataset.notes)
    dataset = with_all_splits(dataset, settings)
    print_notes(dataset.notes[known_notes:], console)
    return apply_corrections(dataset, source["corrections"], console)


RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder of a run, or one that Classifier.save wrote.")
]


def open_run(run: Path, owner: str) -> Classifier:
    """The classifier of a folder; the error for a folder without one suggests others."""
    check_run_folder(run, owner)
    from manyhot.classifier import Classifier

    return Classifier.load(run)


def check_run_folder(run: Path, owner: str) -> None:
    """Rejects a folder without a classifier, before anything is imported."""
    if has_classifier(run):
        return
    if (run / "config.yaml").is_file():
        hint = f"Let it finish: manyhot train --resume {run}."
        raise InputError("RUN", owner, "be a finished run", f"{str(run)!r} without a classifier.json", hint)
    got = f"{str(run)!r}, {'where there is nothing' if not run.exists() else 'which is none'}"
    raise InputError("RUN", owner, "be a folder with a classifier.json", got, _suggest_run(run))


def has_classifier(folder: Path) -> bool:
    """Whether a folder holds a classifier."""
    return (folder / "classifier.json").is_file()


def _suggest_run(run: Path) -> str:
    """A hint with the run that was probably meant, or with some of the existing runs."""
    parents = [parent for parent in (run, run.parent, Path("runs")) if parent.is_dir()]
    runs = dict.fromkeys(
        str(folder) for parent in parents for folder in sorted(parent.iterdir()) if has_classifier(folder)
    )
    otherwise = "Train one first: manyhot train photos.csv."
    if runs:
        names = list(runs)
        listed = f"{', '.join(names[:5])}{' ...' if len(names) > 5 else '.'}"
        otherwise = f"There {'are' if len(names) > 1 else 'is'} {listed}"
    return suggest(str(run), runs, otherwise, cutoff=0.8)
