"""`manyhot inspect`, `train`, `compare` and `demo`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli.console import error_console, print_json, print_notes, progress
from manyhot.cli.options import (
    DATA_OPTIONS,
    SETTING_OPTIONS,
    ConfigOption,
    CorrectionsOption,
    DataArgument,
    JsonOption,
    OverwriteOption,
    RunOption,
    SetOption,
    build_settings,
    build_source,
    with_options,
)
from manyhot.errors import InputError
from manyhot.settings import DataSource, TrainSettings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from manyhot.training import Comparison, Run

ImagesOption = Annotated[bool, typer.Option("--images/--no-images", help="Look at the images, or at the labels alone.")]
DecodeOption = Annotated[
    bool, typer.Option("--decode/--headers", help="Decode every image, or read headers, which misses damaged pixels.")
]
NearOption = Annotated[
    bool, typer.Option("--near", help="Also find near-duplicates, which look the same and differ in bytes.")
]
AllLabelsOption = Annotated[bool, typer.Option("--all-labels", help="Show every label.")]
ReadersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Images that are read at once (default: one a core).")
]


@with_options(DataSource, *DATA_OPTIONS)
def inspect(
    data: DataArgument,
    corrections: CorrectionsOption = None,
    images: ImagesOption = True,
    decode: DecodeOption = True,
    near: NearOption = False,
    all_labels: AllLabelsOption = False,
    workers: ReadersOption = None,
    as_json: JsonOption = False,
    **options: Any,
) -> None:
    """Inspect a dataset before training: labels, splits, broken files, duplicates.

    [b]Examples[/b]

    manyhot inspect photos.csv

    manyhot inspect photos/ --headers

    manyhot inspect table.tsv --path-column file --labels-column tags --separator ";" --no-images

    manyhot inspect annotations.json --root images/ --json > inspection.json
    """
    from manyhot.data.inspection import inspect_dataset
    from manyhot.data.inspection_report import as_rich
    from manyhot.training.prepare import read_source

    console = error_console()
    source = build_source(data, None, corrections, options)
    dataset = read_source(source, notes=lambda note: print_notes([note], console))
    with progress("Looking at images", len(dataset), console) as advance:
        inspection = inspect_dataset(dataset, images=images, decode=decode, near=near, workers=workers, advance=advance)
    if as_json:
        print_json(inspection.to_dict(), indent=1)
        return
    from rich.console import Console

    Console().print(as_rich(inspection, all_labels=all_labels))


OptionalDataArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DATA...",
        help="A table of paths and labels (CSV, TSV, Parquet, JSON), a folder of images, COCO JSON, or shards.",
    ),
]
NoReportOption = Annotated[bool, typer.Option("--no-report", help="Write no report.html into the run folder.")]
ResumeOption = Annotated[
    Path | None, typer.Option("--resume", metavar="RUN", help="Go on with a run that was broken off; needs no DATA.")
]


FOLDER_VARIABLE = "MANYHOT_RUN_FOLDER"


@with_options(DataSource, *DATA_OPTIONS)
@with_options(TrainSettings, *SETTING_OPTIONS)
def train(
    data: OptionalDataArgument = None,
    out: RunOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    resume: ResumeOption = None,
    corrections: CorrectionsOption = None,
    no_report: NoReportOption = False,
    as_json: JsonOption = False,
    **options: Any,
) -> None:
    """Train a classifier on your images, calibrate it, fit its decision rule, and evaluate it on held-out images.

    [b]Examples[/b]

    manyhot train photos.csv

    manyhot train photos.csv --loss SPA --rule "AverageK(3)" -o runs/spa

    manyhot train coco/instances.json --root coco/images --tune all --set precision=bf16

    manyhot train photos.csv --config runs/spa/config.yaml --set lr=0.003

    manyhot train photos.csv --corrections runs/spa/reviewed.csv

    manyhot train --resume runs/spa
    """
    from manyhot.distributed import rank
    from manyhot.training import Run
    from manyhot.training import train as train_classifier
    from manyhot.training.run import link_last_run

    console = error_console()
    if resume is not None:
        typed = {"DATA": data, "--out": out, "--config": config, "--set": set_, "--corrections": corrections}
        check_resume(typed | {"--" + name.replace("_", "-"): value for name, value in options.items()})
        config, out = Run(resume).folder / "config.yaml", resume
    settings, source = build_settings(config, set_, options), build_source(data, config, corrections, options)
    if not source.paths:
        hint = "Name a table or a folder, such as: manyhot train photos.csv."
        raise InputError("DATA", "manyhot train", "be given", "nothing", hint)
    folder = choose_run_folder(out, source.paths[0], resume=resume is not None)
    try:
        run = train_classifier(
            source,
            settings,
            folder=folder,
            resume=resume is not None,
            watch=lambda total: progress("Looking at images", total, console),
            notes=lambda note: print_notes([note], console),
        )
    except KeyboardInterrupt:
        begun = (folder / "config.yaml").is_file()
        console.print(f"Stopped. Go on with: manyhot train --resume {quote(str(folder))}" if begun else "Stopped.")
        raise typer.Exit(130) from None
    if rank() > 0:
        return
    link_last_run(folder)
    page = None if no_report else try_write_report(run, console)
    if as_json:
        print_json({"run": str(folder), "report": None if page is None else str(page), **run.figures})
        return
    print_run(run, page)


def try_write_report(run: Run, console: Console) -> Path | None:
    """Writes the report into the run folder, or prints why there is none."""
    from manyhot.report.page import try_report

    try:
        with console.status("Writing the report ..."):
            return try_report(run, console.print)
    except KeyboardInterrupt:
        console.print("Stopped before the report was written; the run itself is whole.")
        return None


def check_resume(typed: dict[str, Any]) -> None:
    """Rejects settings beside --resume: the run continues with its own."""
    for option, value in typed.items():
        if value is not None:
            hint = "Leave it out, or start a new run with --config RUN/config.yaml."
            raise InputError(option, "manyhot train", "be left out with --resume", repr(value), hint)


def choose_run_folder(out: Path | None, data: str, *, resume: bool) -> Path:
    """The folder of the run: that of --out, if no other run is in it, or a new one.

    Rank 0 chooses, and passes the folder to the processes that it starts.
    """
    from manyhot.distributed import rank
    from manyhot.training.run import CONFIG, new_folder

    if rank() > 0:
        folder_name = out or os.environ.get(FOLDER_VARIABLE)
        if folder_name is None:
            hint = "Name a folder, which all processes share."
            raise InputError(
                "--out", "manyhot train", "be given where another program starts the processes", "none", hint
            )
        return Path(folder_name)
    folder = out or new_folder(data)
    if folder.exists() and not folder.is_dir():
        raise InputError("--out", "manyhot train", "name a folder", repr(str(folder)), "Choose another name.")
    if not resume and (folder / CONFIG).exists():
        hint = f"Choose another name, or go on with it: manyhot train --resume {quote(str(folder))}."
        raise InputError("--out", "manyhot train", "be a folder without a run in it", repr(str(folder)), hint)
    os.environ[FOLDER_VARIABLE] = str(folder)
    return folder


def print_run(run: Run, page: Path | None) -> None:
    """Prints the results of the training, and the next commands."""
    from rich.console import Console
    from rich.table import Table

    from manyhot.training.run import probability_sources, summary, too_small_of

    figures, console = run.figures, Console(highlight=False)
    rows = ", ".join(f"{name} {count:,}" for name, count in figures["rows"].items())
    console.print(f"Trained in {figures['seconds']:.0f} s; rows: {rows}.", markup=False)
    if figures["bad images"]:
        console.print(f"{len(figures['bad images']):,} images could not be read:", markup=False)
        for name, reason in list(figures["bad images"].items())[:5]:
            console.print(f"  {name}: {reason}", markup=False, soft_wrap=True)
    split = figures["judged"]
    if split is not None:
        # Without a test split, the metrics are of the rows that the calibrator and the rule were fitted on.
        what = "held out from training" if split == "test" else "used for fitting, hence too optimistic"
        title, small = f"On the rows of {split!r}, {what}", too_small_of(figures)
        if small is not None:
            console.print(f"{title}. {small}", markup=False)
        else:
            table = Table(title=title, title_style="bold")
            table.add_column("")
            columns = probability_sources(figures)
            for way in columns:
                table.add_column(way, justify="right")
            for name, *values in summary(figures):
                table.add_row(name, *values[-len(columns) :])
            console.print(table)
    folder = quote(str(run.folder))
    if page is not None:
        console.print(f"Report: {page}", markup=False, soft_wrap=True)
    console.print(f"Wrote {run.folder}. Next:", markup=False, soft_wrap=True)
    evaluate_command = f"manyhot evaluate {folder}/predictions.parquet --split {split} --by-label"
    commands = [f"manyhot predict {folder} IMAGES...", evaluate_command, f"manyhot export {folder}"]
    for command in commands if split else commands[::2]:
        console.print(f"  {command}", markup=False, soft_wrap=True)


LossesOption = Annotated[
    list[str] | None,
    typer.Option("--losses", "-l", help="A loss as in Python or by its short name; repeat it, or say all (default)."),
]


@with_options(DataSource, *DATA_OPTIONS)
@with_options(TrainSettings, *(name for name in SETTING_OPTIONS if name != "loss"))
def compare(
    data: DataArgument,
    losses: LossesOption = None,
    out: RunOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    corrections: CorrectionsOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
    **options: Any,
) -> None:
    """Train with each of several losses on the same rows for the same number of steps, and compare the results.

    Existing runs of the same settings are not trained again.

    [b]Examples[/b]

    manyhot compare photos.csv

    manyhot compare photos.csv -l BCE -l SPA -l "AsymmetricLoss(gamma_neg=2)" --epochs 10

    manyhot compare photos.csv --losses all -o runs/photos-losses
    """
    from manyhot.distributed import rank
    from manyhot.training import compare as compare_losses
    from manyhot.training.comparison import announced

    console = error_console()
    comparison = compare_losses(
        build_source(data, None, corrections, options),
        losses or ["all"],
        build_settings(config, set_, {"loss": None, **options}),
        folder=out,
        progress=announced(console),
        watch=lambda total: progress("Looking at images", total, console),
        overwrite=overwrite,
        notes=lambda note: print_notes([note], console),
    )
    if rank() == 0:
        print_comparison(comparison, as_json=as_json)


def print_comparison(comparison: Comparison, *, as_json: bool) -> None:
    """Prints the table, and where the plot was written."""
    image, split = None if comparison.too_small else save_plot(comparison), comparison.split
    if as_json:
        print_json({"folder": str(comparison.folder), "picture": image, **comparison.to_dict()})
        return
    from rich.console import Console

    console = Console(highlight=False)
    if comparison.too_small:
        console.print(f"On the rows of {split!r}: {comparison.too_small}", markup=False)
        console.print(f"Wrote {comparison.folder}: comparison.json, one run a loss.", markup=False, soft_wrap=True)
        return
    console.print(comparison_table(comparison))
    best = comparison.best("log_loss_per_row")
    console.print(
        f"Best probabilities: {best}. Best ranking: {comparison.best('map')}. Of losses that hardly differ, "
        "take the one with the lower log loss: everything else follows from honest probabilities.",
        markup=False,
    )
    where = f"{image}" if image else "no plot (pip install 'manyhot[report]')"
    console.print(f"Wrote {comparison.folder}: comparison.json, one run a loss, {where}.", markup=False, soft_wrap=True)
    text = comparison.rows[best]["loss"]
    console.print(f"Next: manyhot train DATA --loss {quote(text)}", markup=False, soft_wrap=True)


def save_plot(comparison: Comparison) -> str | None:
    """Writes the plot; returns None without matplotlib."""
    from manyhot.report.plot_comparison import draw_comparison

    try:
        figure = draw_comparison(comparison)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        return None
    path = comparison.folder / "comparison.png"
    figure.savefig(path, dpi=120)
    return str(path)


def comparison_table(comparison: Comparison) -> Table:
    """One row per loss: ranking, probabilities before and after calibration, decisions."""
    from rich.table import Table

    split = comparison.split
    table = Table(title=f"Evaluated on the rows of {split!r}", title_style="bold")
    table.add_column("Loss")
    for heading in ("mAP\n%", "mAP rows\n%", "Log loss\nown link", "Log loss\ncalibr.", "ACE %\nown", "ACE %\ncalibr."):
        table.add_column(heading, justify="right")
    table.add_column("F1\n%", justify="right")
    table.add_column("Time\ns", justify="right")
    for name, row in comparison.rows.items():
        before, after = row["before"] or {}, row["after"]
        cells = [
            format_cell(comparison, name, "map", after, 100, 1),
            format_cell(comparison, name, "map_sample", after, 100, 1),
            format_cell(None, name, "log_loss_per_row", before, 1, 3),
            format_cell(comparison, name, "log_loss_per_row", after, 1, 3),
            format_cell(None, name, "ace", before, 100, 1),
            format_cell(comparison, name, "ace", after, 100, 1),
            format_cell(comparison, name, "micro_f", after, 100, 1),
        ]
        table.add_row(name, *cells, f"{row['seconds']:.0f}")
    return table


def format_cell(
    comparison: Comparison | None, loss: str, figure: str, values: dict[str, Any], unit: float, digits: int
) -> str:
    """A figure as text, bold for the best loss."""
    value = values.get(figure)
    if value is None:
        return "–"
    text = f"{unit * value:.{digits}f}"
    return f"[b]{text}[/b]" if comparison is not None and comparison.best(figure) == loss else text


DemoFolderOption = Annotated[
    Path, typer.Option("--out", "-o", metavar="FOLDER", help="The folder for images and runs.")
]
SamplesOption = Annotated[
    int, typer.Option("--samples", min=100, help="Scenes to train on; a quarter more than that are held out.")
]
DemoEpochsOption = Annotated[int, typer.Option("--epochs", min=1, help="Passes over the scenes for each loss.")]
DemoSeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of scenes and networks.")]


def demo(
    out: DemoFolderOption = Path("demo-output"),
    samples: SamplesOption = 6000,
    epochs: DemoEpochsOption = 20,
    seed: DemoSeedOption = 0,
) -> None:
    """Train, calibrate, compare and decide on scenes of handwritten digits; downloads nothing, takes a minute.

    [b]Examples[/b]

    manyhot demo

    manyhot demo --samples 2000 --seed 1 -o /tmp/demo
    """
    from rich.console import Console

    from manyhot.demo import run_demo

    console = Console()
    run_demo(out, console, samples=samples, epochs=epochs, seed=seed)
    console.print(next_steps(out), highlight=False, markup=False, soft_wrap=True)


def next_steps(out: Path) -> str:
    """What was written, and commands to try with it."""
    page = out / "runs" / "last" / "report.html"
    report = "  runs/last/report.html  all about one of them, on one page\n" if page.is_file() else ""
    return (
        f"In {out}:\n"
        "  reliability.png      predicted probabilities against observed frequencies\n"
        "  scenes.png           scenes, their labels and their probabilities\n"
        "  scenes/scenes.csv    the images and their labels, as a table like one of your own\n"
        "  runs/                a run folder for each loss, and comparison.json\n"
        f"{report}"
        "Try next:\n"
        f"  {program()} predict {out}/runs/last {out}/scenes/test/00000.png {out}/scenes/test/00001.png\n"
        f"  {program()} evaluate {out}/runs/last/predictions.parquet --split test --by-label\n"
        f'  {program()} decide {out}/runs/last/predictions.parquet --rule "AverageK(1.5)" --fit-on val\n'
        f"  {program()} inspect {out}/scenes/scenes.csv\n"
        f"  {program()} export {out}/runs/last\n"
        f"  {program()} train YOUR_PHOTOS.csv"
    )


def program() -> str:
    """How to call the command line from here."""
    beside = Path(sys.executable).with_name("manyhot")
    return os.path.relpath(beside) if beside.exists() else "manyhot"
