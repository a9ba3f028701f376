"""`manyhot inspect`, `train`, `compare` and `demo`."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli.console import error_console, print_json, print_notes, progress
from manyhot.cli.options import (
    DATA,
    DATA_OPTIONS,
    SETTING_OPTIONS,
    JsonOption,
    OverwriteOption,
    RunOption,
    build_settings,
    build_source,
    with_options,
)
from manyhot.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from manyhot.training import Comparison, Run


@with_options("corrections", *DATA_OPTIONS)
def inspect(
    data: Annotated[list[str], DATA],
    images: Annotated[bool, typer.Option(help="Look at the images, or at the labels alone.")] = True,
    decode: Annotated[
        bool,
        typer.Option("--decode/--headers", help="Decode every image, or read headers, which misses damaged pixels."),
    ] = True,
    near: Annotated[
        bool, typer.Option("--near", help="Also find near-duplicates, which look the same and differ in bytes.")
    ] = False,
    all_labels: Annotated[bool, typer.Option("--all-labels", help="Show every label.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Images that are read at once (default: one a core).")
    ] = None,
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
    source = build_source(data, options)
    dataset = read_source(source, notes=lambda note: print_notes([note], console))
    with progress("Looking at images", len(dataset), console) as advance:
        inspection = inspect_dataset(dataset, images=images, decode=decode, near=near, workers=workers, advance=advance)
    if as_json:
        print_json(inspection.to_dict(), indent=1)
        return
    from rich.console import Console

    Console().print(as_rich(inspection, all_labels=all_labels))


FOLDER_VARIABLE = "MANYHOT_RUN_FOLDER"


@with_options("config", "set_", *SETTING_OPTIONS, "corrections", *DATA_OPTIONS)
def train(
    data: Annotated[list[str] | None, DATA] = None,
    out: RunOption = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with a run that was broken off; needs no DATA.")
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.html into the run folder.")] = False,
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
        check_resume({"DATA": data, "out": out, **options})
        options["config"], out = Run(resume).folder / "config.yaml", resume
    settings, source = build_settings(options), build_source(data, options)
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
    for name, value in typed.items():
        if value is not None:
            option = name if name == "DATA" else f"--{name.rstrip('_').replace('_', '-')}"
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
            rule = "be given where another program starts the processes"
            raise InputError("--out", "manyhot train", rule, "none", "Name a folder, which all processes share.")
        return Path(folder_name)
    folder = out or new_folder(data)
    if not resume and (folder / CONFIG).exists():
        hint = f"Choose another name, or go on with it: manyhot train --resume {quote(str(folder))}."
        raise InputError("--out", "manyhot train", "be a folder without a run in it", repr(str(folder)), hint)
    os.environ[FOLDER_VARIABLE] = str(folder)
    return folder


def print_run(run: Run, page: Path | None) -> None:
    """Prints the results of the training, and the next commands."""
    from rich.console import Console
    from rich.table import Column, Table

    from manyhot.training.run import summary

    figures, split = run.figures, run.figures["judged"]
    rows = ", ".join(f"{name} {count:,}" for name, count in figures["rows"].items())
    typer.echo(f"Trained in {figures['seconds']:.0f} s; rows: {rows}.")
    if figures["bad images"]:
        typer.echo(f"{len(figures['bad images']):,} images could not be read:")
        for name, reason in list(figures["bad images"].items())[:5]:
            typer.echo(f"  {name}: {reason}")
    after = run.evaluation
    if after is not None:
        # Without a test split, the metrics are of the rows that the calibrator and the rule were fitted on.
        what = "held out from training" if split == "test" else "used for fitting, hence too optimistic"
        title = f"On the rows of {split!r}, {what}"
        if after.too_small is not None:
            typer.echo(f"{title}. {after.too_small}")
        else:
            (first, *ways), *lines = summary(after, run.evaluation_before, calibrated=figures["calibrated"])
            table = Table(first, *(Column(way, justify="right") for way in ways), title=title, title_style="bold")
            for line in lines:
                table.add_row(*line)
            Console(highlight=False).print(table)
    folder = quote(str(run.folder))
    if page is not None:
        typer.echo(f"Report: {page}")
    typer.echo(f"Wrote {run.folder}. Next:\n  manyhot predict {folder} IMAGES...")
    if split:
        typer.echo(f"  manyhot evaluate {folder}/predictions.parquet --split {split} --by-label")
    typer.echo(f"  manyhot export {folder}")


@with_options("config", "set_", *(name for name in SETTING_OPTIONS if name != "loss"), "corrections", *DATA_OPTIONS)
def compare(
    data: Annotated[list[str], DATA],
    losses: Annotated[
        list[str] | None,
        typer.Option(
            "--losses", "-l", help="A loss as in Python or by its short name; repeat it, or say all (default)."
        ),
    ] = None,
    out: RunOption = None,
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
        build_source(data, options),
        losses or ["all"],
        build_settings(options),
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
    image = None if comparison.too_small else save_plot(comparison)
    if as_json:
        print_json({"folder": str(comparison.folder), "picture": image, **comparison.to_dict()})
        return
    written = f"Wrote {comparison.folder}: comparison.json, one run a loss"
    if comparison.too_small:
        typer.echo(f"On the rows of {comparison.split!r}: {comparison.too_small}\n{written}.")
        return
    from rich.console import Console

    Console(highlight=False).print(comparison_table(comparison))
    best = comparison.best("log_loss_per_row")
    typer.echo(
        f"Best probabilities: {best}. Best ranking: {comparison.best('map')}. Of losses that hardly differ, "
        "take the one with the lower log loss: everything else follows from honest probabilities."
    )
    plot = image or "no plot (pip install 'manyhot[report]')"
    typer.echo(f"{written}, {plot}.")
    typer.echo(f"Next: manyhot train DATA --loss {quote(comparison.rows[best]['loss'])}")


def save_plot(comparison: Comparison) -> str | None:
    """Writes the plot; returns None without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        return None
    from manyhot.report.plot_comparison import draw_comparison

    path = comparison.folder / "comparison.png"
    draw_comparison(comparison).savefig(path, dpi=120)
    return str(path)


# Heading, evaluation before or after calibration, figure, unit and digits.
COLUMNS = (
    ("mAP\n%", "after", "map", 100, 1),
    ("mAP rows\n%", "after", "map_sample", 100, 1),
    ("Log loss\nown link", "before", "log_loss_per_row", 1, 3),
    ("Log loss\ncalibr.", "after", "log_loss_per_row", 1, 3),
    ("ACE %\nown", "before", "ace", 100, 1),
    ("ACE %\ncalibr.", "after", "ace", 100, 1),
    ("F1\n%", "after", "micro_f", 100, 1),
)


def comparison_table(comparison: Comparison) -> Table:
    """One row per loss: ranking, probabilities before and after calibration, decisions; the best in bold."""
    from rich.table import Table

    table = Table("Loss", title=f"Evaluated on the rows of {comparison.split!r}", title_style="bold")
    for heading in (*(column[0] for column in COLUMNS), "Time\ns"):
        table.add_column(heading, justify="right")
    for name, row in comparison.rows.items():
        cells = []
        for _, stage, figure, unit, digits in COLUMNS:
            value = (row[stage] or {}).get(figure)
            text = "–" if value is None else f"{unit * value:.{digits}f}"
            best = stage == "after" and value is not None and comparison.best(figure) == name
            cells.append(f"[b]{text}[/b]" if best else text)
        table.add_row(name, *cells, f"{row['seconds']:.0f}")
    return table


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="The folder for images and runs.")] = Path(
        "demo-output"
    ),
    samples: Annotated[
        int, typer.Option(min=100, help="Scenes to train on; a quarter more than that are held out.")
    ] = 6000,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the scenes for each loss.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of scenes and networks.")] = 0,
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
