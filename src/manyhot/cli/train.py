"""`manyhot train`: from a table of photos to a classifier that can be trusted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli import options
from manyhot.cli.data_options import (
    CorrectionsOption,
    LabelsColumnOption,
    LayoutOption,
    PathColumnOption,
    RootOption,
    SeparatorOption,
    SplitColumnOption,
    UnlistedOption,
)
from manyhot.cli.options import JsonOption
from manyhot.cli.train_options import (
    READING,
    TYPED,
    BackboneOption,
    BadImageOption,
    BatchOption,
    CalibratorOption,
    ConfigOption,
    EpochsOption,
    NoReportOption,
    RateOption,
    RuleOption,
    RunOption,
    SeedOption,
    SetOption,
    SizeOption,
    TuneOption,
    WorkersOption,
    add_corrections,
    build_recipe,
    describe_source,
    extraction_bar,
    read_source,
)
from manyhot.presets import LOSSES, short_name
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from rich.console import Console

    from manyhot.training import Run

OptionalData = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DATA...",
        help="A table of paths and labels (CSV, TSV, Parquet, JSON), a folder of images, COCO JSON, or shards.",
    ),
]
LossOption = Annotated[
    str | None,
    typer.Option(
        "--loss",
        help="Any loss as in Python, or a short name: BCE, focal, ASL, SPA, two-way ... "
        f"(default: {short_name(LOSSES['head'])}; with --tune all {short_name(LOSSES['all'])}).",
    ),
]
ResumeOption = Annotated[
    Path | None, typer.Option("--resume", metavar="RUN", help="Go on with a run that was broken off; needs no DATA.")
]


FOLDER_VARIABLE = "MANYHOT_RUN_FOLDER"


def train(
    data: OptionalData = None,
    out: RunOption = None,
    loss: LossOption = None,
    backbone: BackboneOption = None,
    size: SizeOption = None,
    tune: TuneOption = None,
    epochs: EpochsOption = None,
    batch_size: BatchOption = None,
    lr: RateOption = None,
    calibrator: CalibratorOption = None,
    rule: RuleOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    resume: ResumeOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    on_bad_image: BadImageOption = None,
    layout: LayoutOption = None,
    path_column: PathColumnOption = None,
    labels_column: LabelsColumnOption = None,
    split_column: SplitColumnOption = None,
    separator: SeparatorOption = None,
    root: RootOption = None,
    unlisted: UnlistedOption = None,
    corrections: CorrectionsOption = None,
    no_report: NoReportOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a classifier on your images, calibrate it, choose its decisions, and judge it on images it has not seen.

    [b]Examples[/b]

    manyhot train photos.csv

    manyhot train photos.csv --loss SPA --rule "AverageK(3)" -o runs/spa

    manyhot train coco/instances.json --root coco/images --tune all --set precision=bf16

    manyhot train photos.csv --config runs/spa/config.yaml --set lr=0.003

    manyhot train photos.csv --corrections runs/spa/reviewed.csv

    manyhot train --resume runs/spa
    """
    given = dict(locals())
    from manyhot.distributed import rank
    from manyhot.training import Run
    from manyhot.training import train as train_classifier
    from manyhot.training.run import point_to_last

    tell = options.console()
    if resume is not None:
        check_resume(given)
        config, out = Run(resume).folder / "config.yaml", resume
    recipe, source = build_recipe(config, set_, given)
    source = describe_source(data, given) if data else add_corrections(source, given)
    dataset = read_source(source, "train", tell, recipe)
    goes_on = resume is not None
    folder = run_folder(out, source["paths"][0], resume=goes_on)
    say = lambda note: options.tell_notes([note], tell)  # noqa: E731
    watch = lambda total: extraction_bar(total, tell)  # noqa: E731
    try:
        run = train_classifier(dataset, recipe, folder=folder, source=source, resume=goes_on, watch=watch, notes=say)
    except KeyboardInterrupt:
        begun = (folder / "config.yaml").is_file()
        tell.print(f"Stopped. Go on with: manyhot train --resume {quote(str(folder))}" if begun else "Stopped.")
        raise typer.Exit(130) from None
    if rank() > 0:
        return
    point_to_last(folder)
    page = None if no_report else write_page(run, tell)
    if as_json:
        typer.echo(json.dumps({"run": str(folder), "report": None if page is None else str(page), **run.figures}))
        return
    show_run(run, page)


def write_page(run: Run, tell: Console) -> Path | None:
    """The report in the run folder, or the sentence why there is none."""
    from manyhot.report.page.trying import try_report

    try:
        with tell.status("Writing the report ..."):
            return try_report(run, tell.print)
    except KeyboardInterrupt:
        tell.print("Stopped before the report was written; the run itself is whole.")
        return None


def check_resume(given: dict[str, Any]) -> None:
    """Refuses settings beside --resume: the run goes on with its own."""
    for name in ("data", "out", "config", "set_", "corrections", *TYPED, *READING):
        if given[name] is not None:
            option = {"data": "DATA", "set_": "--set"}.get(name, "--" + name.replace("_", "-"))
            remedy = "Leave it out, or start a new run with --config RUN/config.yaml."
            raise refusal(option, "manyhot train", "be left out with --resume", repr(given[name]), remedy)


def run_folder(out: Path | None, data: str, *, resume: bool) -> Path:
    """The folder of the run: the one that was asked for, if no other run is in it, or a new one.

    Of several processes, the first one chooses, and those that it starts are told.
    """
    from manyhot.distributed import rank
    from manyhot.training.run import CONFIG, new_folder

    if rank() > 0:
        told = out or os.environ.get(FOLDER_VARIABLE)
        if told is None:
            remedy = "Name a folder, which all processes share."
            raise refusal(
                "--out", "manyhot train", "be given where another program starts the processes", "none", remedy
            )
        return Path(told)
    folder = out or new_folder(data)
    if folder.exists() and not folder.is_dir():
        raise refusal("--out", "manyhot train", "name a folder", repr(str(folder)), "Choose another name.")
    if not resume and (folder / CONFIG).exists():
        remedy = f"Choose another name, or go on with it: manyhot train --resume {quote(str(folder))}."
        raise refusal("--out", "manyhot train", "be a folder without a run in it", repr(str(folder)), remedy)
    os.environ[FOLDER_VARIABLE] = str(folder)
    return folder


def show_run(run: Run, page: Path | None) -> None:
    """What came of the training, and what to do next."""
    from rich.console import Console
    from rich.table import Table

    from manyhot.training.showing import summary, too_small_of, ways

    figures, console = run.figures, Console(highlight=False)
    rows = ", ".join(f"{name} {count:,}" for name, count in figures["rows"].items())
    console.print(f"Trained in {figures['seconds']:.0f} s; rows: {rows}.", markup=False)
    if figures["bad images"]:
        console.print(f"{len(figures['bad images']):,} images could not be read:", markup=False)
        for name, reason in list(figures["bad images"].items())[:5]:
            console.print(f"  {name}: {reason}", markup=False, soft_wrap=True)
    if figures["judged"] is not None:
        # Without rows to judge by, those that the calibrator and the rule were learnt from are all there is.
        what = "which the network has not seen" if figures["judged"] == "test" else "which it was tuned on: too rosy"
        title, small = f"On the rows of {figures['judged']!r}, {what}", too_small_of(figures)
        if small is not None:
            console.print(f"{title}. {small}", markup=False)
        else:
            table = Table(title=title, title_style="bold")
            table.add_column("")
            columns = ways(figures)
            for way in columns:
                table.add_column(way, justify="right")
            for name, *values in summary(figures):
                table.add_row(name, *values[-len(columns) :])
            console.print(table)
    folder = quote(str(run.folder))
    if page is not None:
        console.print(f"Report: {page}", markup=False, soft_wrap=True)
    console.print(f"Wrote {run.folder}. Next:", markup=False, soft_wrap=True)
    judge = f"manyhot evaluate {folder}/predictions.parquet --split {figures['judged']} --by-label"
    commands = [f"manyhot predict {folder} IMAGES...", judge, f"manyhot export {folder}"]
    for command in commands if figures["judged"] else commands[::2]:
        console.print(f"  {command}", markup=False, soft_wrap=True)
