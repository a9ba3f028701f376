"""`manyhot report` and `manyhot studio`."""

from __future__ import annotations

import glob
import importlib.util
from pathlib import Path
from typing import Any

import typer
from typer import Argument, Option

from manyhot.cli.console import error_console, open_file, print_notes, progress
from manyhot.cli.options import OVERWRITE, TableCommand, check_output_path, path_beside
from manyhot.errors import InputError


class ReportCommand(TableCommand):
    """Write one HTML page that shows how good a model is, and which labels are probably wrong; or compare several.

    [b]Examples[/b]

    manyhot report runs/last --open

    manyhot report runs/bce runs/spa --name BCE --name SPA -o losses.html

    manyhot report probabilities.csv --kind probs --targets truth.csv

    manyhot report runs/last --png figures --pdf figures.pdf
    """

    runs: list[str] = Argument(metavar="RUN...", help="Runs, or tables of predictions with targets of any model.")
    out: Path | None = Option(
        None, "--out", "-o", metavar="FILE", help="The page (default: report.html in the run, or beside the table)."
    )
    png: Path | None = Option(None, metavar="FOLDER", file_okay=False, help="Also write all figures as PNG files here.")
    pdf: Path | None = Option(None, metavar="FILE", help="Also write all figures to a PDF, a page each.")
    dark: bool = Option(False, "--dark", help="Dark figures for --png and --pdf; the page has both.")
    split: str | None = Option(None, help="The split to evaluate (default: test, or all rows without one).")
    name: list[str] | None = Option(None, help="The name of a RUN on the page; repeat it, once per RUN.")
    root: Path | None = Option(
        None,
        exists=True,
        file_okay=False,
        help="The folder of relative paths (default: this one, that of RUN, or that of a run's data).",
    )
    no_images: bool = Option(False, "--no-pictures", help="Show no images.")
    open_page: bool = Option(False, "--open", help="Show the page.")
    overwrite: bool = OVERWRITE

    def execute(self) -> None:
        """Writes the page, and the figures if they are wanted as files."""
        self.check_options()
        from manyhot.report.page import Report, is_report

        path = self.out or default_path(self.runs)
        # An older report is replaced, any other file is not.
        check_output_path(path, "--out", overwrite=self.overwrite or is_report(path), suffixes=(".html", ".htm"))
        roots = [self.root] if self.root is not None else image_roots(self.runs)
        page = Report(self.open_sources(), split=self.split, root=roots, images=not self.no_images)
        with error_console().status("Evaluating ..."):
            figures = page.plots
        total = sum(figure.on_page + (self.png is not None) + (self.pdf is not None) for figure in figures)
        with progress("Drawing", total) as advance:
            watch = lambda _: advance(1)  # noqa: E731
            page.save(path, watch=watch)
            if self.png is not None:
                page.save_pngs(self.png, dark=self.dark, watch=watch)
            if self.pdf is not None:
                page.save_pdf(self.pdf, dark=self.dark, watch=watch)
        typer.echo(f"Report: {path}")
        for written in filter(None, (self.png, self.pdf)):
            typer.echo(f"Figures: {written}")
        if self.open_page:
            open_file(path, "browser", "report")

    def check_options(self) -> None:
        """Rejects, before the work begins, names that are not one per run, and figures that would replace files."""
        names, png = self.name or (), self.png
        if names and len(names) != len(self.runs):
            hint = "Repeat --name for each RUN, in their order."
            raise InputError("--name", "", f"be given {len(self.runs)} times, once a RUN", f"{len(names)}", hint)
        if len(set(names)) < len(names) or not all(names):
            raise InputError("--name", "", "differ", ", ".join(map(repr, names)), "Rename one of them.")
        if self.dark and png is None and self.pdf is None:
            hint = "Add --png or --pdf; the page itself is light or dark as the reader's screen is."
            raise InputError("--dark", "", "come with --png or --pdf", "neither", hint)
        if png is not None and png.is_dir() and any(png.iterdir()) and not self.overwrite:
            hint = "Choose another one, or pass --overwrite."
            raise InputError("--png", "", "name a new or an empty folder", repr(str(png)), hint)
        if self.pdf is not None:
            check_output_path(self.pdf, "--pdf", overwrite=self.overwrite, suffixes=[".pdf"])

    def open_sources(self) -> dict[str, Any]:
        """Runs and tables with true labels, by their names on the page."""
        from manyhot.report.page import make_unique, source_name

        opened: list[Any] = []
        for text in self.runs:
            if not is_run_folder(text):
                opened.append(self.open_table(text))
            elif self.targets is not None:
                hint = "Leave it out: a run knows the true labels."
                raise InputError("--targets", "", "come with tables only", repr(text), hint)
            else:
                opened.append(text)
        names = self.name or make_unique([source_name(text) for text in self.runs])
        return dict(zip(names, opened, strict=True))


def default_path(runs: list[str]) -> Path:
    """`runs/photos/report.html`, `photos.report.html` beside a table, and `report.html` here for several."""
    if len(runs) > 1:
        return Path("report.html")
    if is_run_folder(runs[0]):
        return Path(runs[0], "report.html")
    return path_beside(runs[0], "report").with_suffix(".html")


def is_run_folder(path: str) -> bool:
    """Whether a path leads to the folder of a run, finished or not."""
    return Path(path, "config.yaml").is_file()


def image_roots(runs: list[str]) -> list[Path]:
    """The folders in which the images of all runs and tables may lie."""
    from manyhot.image_paths import find_image_roots

    files = [str(Path(text, "predictions.parquet")) if is_run_folder(text) else text for text in runs]
    return list(dict.fromkeys(root for file in files for root in find_image_roots(file)))


class StudioCommand(TableCommand):
    """Open a local page to search images, classify new ones, try decisions, and review labels.

    [b]Examples[/b]

    manyhot studio runs/last

    manyhot studio new.parquet --model runs/last --root /data/photos

    manyhot studio scores.csv --kind probs --targets truth.csv --read-only

    manyhot studio runs/last --host 0.0.0.0 --port 8080
    """

    predictions: str = Argument(
        metavar="RUN_OR_PREDICTIONS", help="The folder of a run, or a table of predictions: Parquet, CSV, TSV or NPZ."
    )
    split: str | None = Option(None, help="Only rows of this split.")
    root: list[Path] | None = Option(None, help="A folder that images may be read from. Repeatable.")
    labels: Path | None = Option(
        None, metavar="FILE", help="Where corrected labels go (default: reviewed.csv, in the run or beside it)."
    )
    model: Path | None = Option(None, metavar="RUN", help="The run that classifies images dropped on the page.")
    read_only: bool = Option(False, "--read-only", help="Nothing can be edited.")
    host: str = Option("127.0.0.1", help="The address to listen on.")
    port: int | None = Option(None, min=0, max=65535, help="The port; by default 8642 or the next free one.")
    token: str | None = Option(
        None, envvar="MANYHOT_STUDIO_TOKEN", help="The access token; generated for addresses other than localhost."
    )
    no_open: bool = Option(False, "--no-open", help="Do not open a browser.")

    def execute(self) -> None:
        """Serves the page until it is stopped."""
        self.check_options()
        from manyhot.studio import bind, open_browser, open_studio, serve

        console = error_console()
        with console.status(f"Opening {self.predictions} ..."):
            opened, notes = open_studio(
                self.predictions,
                split=self.split,
                kind=self.kind,
                targets=self.targets,
                roots=self.root or (),
                labels_file=self.labels,
                model=self.model,
                read_only=self.read_only,
            )
        print_notes(*notes)
        try:
            address = bind(self.host, self.port, token=self.token)
        except BaseException:
            opened.close()
            raise

        def started() -> None:
            typer.echo(f"The studio is open at {address.url}")
            if opened.review is not None:
                console.print(f"Corrected labels go to {opened.labels_name}. Stop with Ctrl+C; nothing is lost.")
            if not self.no_open:
                open_browser(address.url)

        serve(opened, address, started=started)
        if opened.review is not None and opened.review.trouble is not None:
            console.print(f"All edits are in the journal, but not in the labels file: {opened.review.trouble}")
            raise typer.Exit(1)
        console.print("The studio is closed.")

    def check_options(self) -> None:
        """Rejects what cannot work before anything heavy is imported; patterns are checked when they are read."""
        if not Path(self.predictions).exists() and not glob.has_magic(self.predictions):
            hint = (
                "Train one first: manyhot train photos.csv; or score images: manyhot predict RUN IMAGES -o new.parquet."
            )
            raise InputError("RUN_OR_PREDICTIONS", "", "be there", repr(self.predictions), hint)
        packages = ("fastapi", "uvicorn", "python_multipart", "PIL")
        missing = [name for name in packages if not importlib.util.find_spec(name)]
        if missing:
            raise ImportError(f"The studio needs {', '.join(missing)}. Install it with: pip install 'manyhot[studio]'")
