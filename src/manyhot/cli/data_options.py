"""How to read data: the options of every verb that takes samples and their labels."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyhot.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from manyhot.data.dataset import Dataset


class Unlisted(StrEnum):
    """What a label means that is not named for a row."""

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
        help="If it is not detected right: table, folders, imagefolder, coco, voc, open_images, webdataset or npz.",
    ),
]
PathColumnOption = Annotated[str | None, typer.Option("--path-column", help="The column of image paths.")]
LabelsColumnOption = Annotated[str | None, typer.Option("--labels-column", help="The column of label names.")]
SplitColumnOption = Annotated[str | None, typer.Option("--split-column", help="The column of splits.")]
SeparatorOption = Annotated[
    str | None, typer.Option("--separator", help="What stands between two label names, such as '|' or ';'.")
]
RootOption = Annotated[
    Path | None, typer.Option("--root", help="The folder that image paths are relative to (default: beside DATA).")
]
UnlistedOption = Annotated[
    Unlisted | None,
    typer.Option(
        "--unlisted",
        help="What it means that a label is not named for an image (default: absent; unknown for blank cells).",
    ),
]
CorrectionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--corrections",
        metavar="FILE",
        help="A table of corrected labels, such as the reviewed.csv of the studio: what it knows holds. Repeat it.",
    ),
]


def read(
    data: list[str],
    *,
    layout: str | None = None,
    path_column: str | None = None,
    labels_column: str | None = None,
    split_column: str | None = None,
    separator: str | None = None,
    root: Path | None = None,
    unlisted: Unlisted | None = None,
    tell: Console | None = None,
) -> Dataset:
    """The data set of what was typed; says what was detected."""
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
    if tell is not None:
        options.tell_notes(dataset.notes, tell)
    return dataset


def correct(dataset: Dataset, corrections: Iterable[str], tell: Console) -> Dataset:
    """The data set with what tables of corrections know, of which later ones hold; says how much that is."""
    from manyhot.data import read_corrections

    for path in corrections:
        told = len(dataset.notes)
        dataset = dataset.corrected(read_corrections(path))
        options.tell_notes([f"{Path(path).name}: {note}" for note in dataset.notes[told:]], tell)
    return dataset
