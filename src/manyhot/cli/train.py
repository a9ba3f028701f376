"""`manyhot inspect`, `train`, `compare` and `demo`."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from manyhot.cli.console import error_console, print_json, print_notes, print_table, progress
from manyhot.cli.options import DATA_OPTIONS, JSON, OVERWRITE, SETTING_OPTIONS, Command, with_settings
from manyhot.errors import InputError
from manyhot.settings import DataSource, TrainSettings, parse_overrides, read_settings

if TYPE_CHECKING:
    from manyhot.training import Comparison, Run


DATA_HELP = "A table of paths and labels (CSV, TSV, Parquet, JSON), a folder of images, COCO JSON, or shards."


@with_settings(*DATA_OPTIONS)
class DataCommand(Command):
    """A command on data: how they are read."""

    data: list[str] | None = Argument(metavar="DATA...", help=DATA_HELP)
    corrections: list[str] | None = Option(
        None,
        metavar="FILE",
        help="A table of corrected labels, such as the reviewed.csv of the studio, applied to DATA. Repeatable.",
    )

    def source(self) -> DataSource:
        """How data are read, as the options say."""
        typed = {name: getattr(self, name) for name in DATA_OPTIONS}
        return DataSource.build(*self.data or (), corrections=self.corrections or (), **typed)


@with_settings(*SETTING_OPTIONS)
class TrainingCommand(DataCommand):
    """A command that trains: its settings."""

    out: Path | None = Option(
        None,
        "--out",
        "-o",
        metavar="FOLDER",
        file_okay=False,
        help="The run folder (default: runs/ and the name of DATA).",
    )
    config: Path | None = Option(
        None, "--config", "-c", metavar="FILE", help="YAML file of settings, such as the config.yaml of a run."
    )
    set_: list[str] | None = Option(None, "--set", metavar="NAME=VALUE", help="Any setting, e.g. lr=0.01. Repeatable.")

    def stored(self) -> dict[str, Any]:
        """The settings of the file of --config."""
        return {} if self.config is None else read_settings(self.config)

    def settings(self) -> TrainSettings:
        """Settings of a file, overridden by --set and then by options."""
        stored = {name: value for name, value in self.stored().items() if name != "data"}
        options = {name: getattr(self, name, None) for name in ("loss", *SETTING_OPTIONS)}
        typed = {name: value for name, value in options.items() if value is not None}
        return TrainSettings.build(stored | parse_overrides(self.set_ or []) | typed)

    def source(self) -> DataSource:
        """How data are read: as the options say, or as the file of settings says where no DATA are given."""
        source, stored = super().source(), self.stored().get("data") or {}
        if self.data or not stored:
            return source
        others = {name: stored.get(name) for name in DATA_OPTIONS if getattr(self, name) is None}
        corrections = dict.fromkeys([*stored.get("corrections", ()), *source.corrections])
        return replace(source, paths=tuple(stored.get("paths", ())), corrections=tuple(corrections), **others)


class InspectCommand(DataCommand):
    """Inspect a dataset before training: labels, splits, broken files, duplicates.

    [b]Examples[/b]

    manyhot inspect photos.csv

    manyhot inspect photos/ --headers

    manyhot inspect table.tsv --path-column file --labels-column tags --separator ";" --no-images

    manyhot inspect annotations.json --root images/ --json > inspection.json
    """

    images: bool = Option(True, help="Look at the images, or at the labels alone.")
    decode: bool = Option(
        True, "--decode/--headers", help="Decode images or only headers, which misses damaged pixels."
    )
    near: bool = Option(False, "--near", help="Also find near-duplicates, which look the same and differ in bytes.")
    all_labels: bool = Option(False, "--all-labels", help="Show every label.")
    workers: int | None = Option(None, min=1, help="Images that are read at once (default: one a core).")
    as_json: bool = JSON

    def execute(self) -> None:
        """Inspects the data, and prints what was found."""
        from manyhot.data.inspection import as_rich, inspect_dataset
        from manyhot.training.prepare import read_source

        dataset = read_source(self.source(), notes=print_notes)
        with progress(LOOKING, len(dataset)) as advance:
            inspection = inspect_dataset(
                dataset, images=self.images, decode=self.decode, near=self.near, workers=self.workers, advance=advance
            )
        if self.as_json:
            print_json(inspection.to_dict(), indent=1)
            return
        from rich.console import Console

        Console().print(as_rich(inspection, all_labels=self.all_labels))


LOOKING = "Looking at images"
FOLDER_VARIABLE = "MANYHOT_RUN_FOLDER"


@with_settings("loss")
class TrainCommand(TrainingCommand):
    """Train a classifier on your images, calibrate it, fit its decision rule, and evaluate it on held-out images.

    [b]Examples[/b]

    manyhot train photos.csv

    manyhot train photos.csv --loss SPA --rule "AverageK(3)" -o runs/spa

    manyhot train coco/instances.json --root coco/images --tune all --set precision=bf16

    manyhot train photos.csv --config runs/spa/config.yaml --set lr=0.003

    manyhot train photos.csv --corrections runs/spa/reviewed.csv

    manyhot train --resume runs/spa
    """

    data = Argument(None, metavar="DATA...", help=DATA_HELP)
    resume: Path | None = Option(None, metavar="RUN", help="Go on with a run that was broken off; needs no DATA.")
    no_report: bool = Option(False, "--no-report", help="Write no report.html into the run folder.")
    as_json: bool = JSON

    def execute(self) -> None:
        """Trains, writes the report, and prints the results."""
        from manyhot.distributed import rank
        from manyhot.training import Run, train
        from manyhot.training.run import link_last_run

        error_console().quiet = rank() > 0
        if self.resume is not None:
            self.check_resume()
            self.config, self.out = Run(self.resume).folder / "config.yaml", self.resume
        settings, source = self.settings(), self.source()
        if not source.paths:
            hint = "Name a table or a folder, such as: manyhot train photos.csv."
            raise InputError("DATA", "", "be given", "nothing", hint)
        folder = self.run_folder(source.paths[0])
        try:
            run = train(
                source,
                settings,
                folder=folder,
                resume=self.resume is not None,
                watch=partial(progress, LOOKING),
                notes=print_notes,
            )
        except KeyboardInterrupt:
            begun = (folder / "config.yaml").is_file()
            further = f" Go on with: manyhot train --resume {quote(str(folder))}" if begun else ""
            error_console().print(f"Stopped.{further}")
            raise typer.Exit(130) from None
        if rank() > 0:
            return
        link_last_run(folder)
        page = None if self.no_report else write_report(run)
        if self.as_json:
            print_json({"run": str(folder), "report": None if page is None else str(page), **run.figures})
        else:
            print_run(run, page)

    def check_resume(self) -> None:
        """Rejects settings beside --resume: the run continues with its own."""
        for name in self.parameters():
            value = getattr(self, name)
            if value is not None and name not in ("resume", "no_report", "as_json"):
                option = "DATA" if name == "data" else f"--{name.rstrip('_').replace('_', '-')}"
                hint = "Leave it out, or start a new run with --config RUN/config.yaml."
                raise InputError(option, "", "be left out with --resume", repr(value), hint)

    def run_folder(self, data: str) -> Path:
        """The folder of the run: that of --out, if no other run is in it, or a new one.

        Rank 0 chooses, and passes the folder to the processes that it starts.
        """
        from manyhot.distributed import rank
        from manyhot.training.run import CONFIG, new_folder

        if rank() > 0:
            folder_name = self.out or os.environ.get(FOLDER_VARIABLE)
            if folder_name is None:
                rule = "be given where another program starts the processes"
                raise InputError("--out", "", rule, "none", "Name a folder, which all processes share.")
            return Path(folder_name)
        folder = self.out or new_folder(data)
        if self.resume is None and (folder / CONFIG).exists():
            hint = f"Choose another name, or go on with it: manyhot train --resume {quote(str(folder))}."
            raise InputError("--out", "", "be a folder without a run in it", repr(str(folder)), hint)
        os.environ[FOLDER_VARIABLE] = str(folder)
        return folder


def write_report(run: Run) -> Path | None:
    """Writes the report into the run folder, or prints why there is none."""
    from manyhot.report.page import try_report

    console = error_console()
    try:
        with console.status("Writing the report ..."):
            return try_report(run, console.print)
    except KeyboardInterrupt:
        console.print("Stopped before the report was written; the run itself is whole.")
        return None


def print_run(run: Run, page: Path | None) -> None:
    """Prints the results of the training, and the next commands."""
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
            head, *lines = summary(after, run.evaluation_before, calibrated=figures["calibrated"])
            print_table(head, lines, title=title)
    folder = quote(str(run.folder))
    if page is not None:
        typer.echo(f"Report: {page}")
    typer.echo(f"Wrote {run.folder}. Next:\n  manyhot predict {folder} IMAGES...")
    if split:
        typer.echo(f"  manyhot evaluate {folder}/predictions.parquet --split {split} --by-label")
    typer.echo(f"  manyhot export {folder}")


class CompareCommand(TrainingCommand):
    """Train with each of several losses on the same rows for the same number of steps, and compare the results.

    Existing runs of the same settings are not trained again.

    [b]Examples[/b]

    manyhot compare photos.csv

    manyhot compare photos.csv -l BCE -l SPA -l "AsymmetricLoss(gamma_neg=2)" --epochs 10

    manyhot compare photos.csv --losses all -o runs/photos-losses
    """

    losses: list[str] | None = Option(
        None, "--losses", "-l", help="A loss as in Python or by its short name; repeat it, or say all (default)."
    )
    overwrite: bool = OVERWRITE
    as_json: bool = JSON

    def execute(self) -> None:
        """Trains with each loss, and prints the comparison."""
        from manyhot.distributed import rank
        from manyhot.training import compare
        from manyhot.training.comparison import announced

        error_console().quiet = rank() > 0
        comparison = compare(
            self.source(),
            self.losses or ["all"],
            self.settings(),
            folder=self.out,
            progress=announced(error_console()),
            watch=partial(progress, LOOKING),
            overwrite=self.overwrite,
            notes=print_notes,
        )
        if rank() == 0:
            print_comparison(comparison, as_json=self.as_json)


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
    print_comparison_table(comparison)
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


def print_comparison_table(comparison: Comparison) -> None:
    """One row per loss: ranking, probabilities before and after calibration, decisions; the best in bold."""
    from rich.text import Text

    rows = []
    for name, row in comparison.rows.items():
        cells = []
        for _, stage, figure, unit, digits in COLUMNS:
            value = (row[stage] or {}).get(figure)
            best = stage == "after" and value is not None and comparison.best(figure) == name
            text = "–" if value is None else f"{unit * value:.{digits}f}"
            cells.append(Text(text, style="bold" if best else ""))
        rows.append([name, *cells, f"{row['seconds']:.0f}"])
    head = ["Loss", *(heading for heading, *_ in COLUMNS), "Time\ns"]
    print_table(head, rows, title=f"Evaluated on the rows of {comparison.split!r}")


class DemoCommand(Command):
    """Train, calibrate, compare and decide on scenes of handwritten digits; downloads nothing, takes a minute.

    [b]Examples[/b]

    manyhot demo

    manyhot demo --samples 2000 --seed 1 -o /tmp/demo
    """

    out: Path = Option(Path("demo-output"), "--out", "-o", metavar="FOLDER", help="The folder for images and runs.")
    samples: int = Option(6000, min=100, help="Scenes to train on; a quarter more than that are held out.")
    epochs: int = Option(20, min=1, help="Passes over the scenes for each loss.")
    seed: int = Option(0, min=0, help="Seed of scenes and networks.")

    def execute(self) -> None:
        """Runs the demonstration, and prints what to try next."""
        from rich.console import Console

        from manyhot.demo import run_demo

        run_demo(self.out, Console(), samples=self.samples, epochs=self.epochs, seed=self.seed)
        typer.echo(next_steps(self.out))


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
