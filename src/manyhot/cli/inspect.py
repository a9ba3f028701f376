"""`manyhot inspect`: what is in a data set, and what is wrong with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from manyhot.cli import data_options, options
from manyhot.cli.data_options import (
    CorrectionsOption,
    DataArgument,
    LabelsColumnOption,
    LayoutOption,
    PathColumnOption,
    RootOption,
    SeparatorOption,
    SplitColumnOption,
    UnlistedOption,
)
from manyhot.cli.options import JsonOption

if TYPE_CHECKING:
    from rich.console import Console

    from manyhot.data.dataset import Dataset
    from manyhot.data.survey import Survey

ImagesOption = Annotated[bool, typer.Option("--images/--no-images", help="Look at the images, or at the labels alone.")]
DecodeOption = Annotated[
    bool, typer.Option("--decode/--headers", help="Decode every image, or read headers, which misses damaged pixels.")
]
NearOption = Annotated[bool, typer.Option("--near", help="Also find images that look the same and differ in bytes.")]
AllLabelsOption = Annotated[bool, typer.Option("--all-labels", help="Show every label.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Images that are read at once (default: one a core).")
]


def inspect(
    data: DataArgument,
    layout: LayoutOption = None,
    path_column: PathColumnOption = None,
    labels_column: LabelsColumnOption = None,
    split_column: SplitColumnOption = None,
    separator: SeparatorOption = None,
    root: RootOption = None,
    unlisted: UnlistedOption = None,
    corrections: CorrectionsOption = None,
    images: ImagesOption = True,
    decode: DecodeOption = True,
    near: NearOption = False,
    all_labels: AllLabelsOption = False,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look through a data set before training: labels, splits, broken files, duplicates.

    [b]Examples[/b]

    manyhot inspect photos.csv

    manyhot inspect photos/ --headers

    manyhot inspect table.tsv --path-column file --labels-column tags --separator ";" --no-images

    manyhot inspect annotations.json --root images/ --json > survey.json
    """
    tell = options.console()
    dataset = data_options.read(
        data,
        layout=layout,
        path_column=path_column,
        labels_column=labels_column,
        split_column=split_column,
        separator=separator,
        root=root,
        unlisted=unlisted,
        tell=tell,
    )
    dataset = data_options.correct(dataset, corrections or (), tell)
    found = look_through(dataset, images=images, decode=decode, near=near, workers=workers, tell=tell)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
        return
    from rich.console import Console

    from manyhot.data.survey.showing import as_rich

    Console().print(as_rich(found, all_labels=all_labels))


def look_through(
    dataset: Dataset, *, images: bool, decode: bool, near: bool, workers: int | None, tell: Console
) -> Survey:
    """The survey, with a bar while images are read."""
    from rich.progress import Progress

    from manyhot.data.survey import survey

    with Progress(console=tell, transient=True, disable=not tell.is_terminal) as progress:
        task = progress.add_task("Looking at images", total=len(dataset), visible=images and dataset.images is not None)
        return survey(
            dataset,
            images=images,
            decode=decode,
            near=near,
            workers=workers,
            advance=lambda number: progress.advance(task, number),
        )
