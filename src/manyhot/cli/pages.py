"""`manyhot report` and `manyhot studio`."""

from __future__ import annotations

import glob
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli.console import error_console, open_file, print_notes, progress
from manyhot.cli.options import (
    Kind,
    KindOption,
    OverwriteOption,
    TargetsOption,
    check_output_path,
    open_table,
    path_beside,
)
from manyhot.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from manyhot.report.page import Report

REPORT_OWNER = "manyhot report"


def report(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders, or tables of predictions with targets of any model."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The page (default: report.html in the run, or beside the table)."
        ),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", file_okay=False, help="Also write each figure as a PNG file into this folder."),
    ] = None,
    pdf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write all figures to a PDF, a page each.")
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="Dark figures for --png and --pdf; the page has both.")] = False,
    split: Annotated[
        str | None, typer.Option(help="The split to evaluate (default: test, or all rows without one).")
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="The name of a RUN on the page; repeat it, once per RUN.")
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="The folder of relative paths (default: this one, that of RUN, or that of a run's data).",
        ),
    ] = None,
    kind: KindOption = None,
    targets: TargetsOption = None,
    no_images: Annotated[bool, typer.Option("--no-pictures", help="Show no images.")] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Show the page.")] = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Write one HTML page that shows how good a model is, and which labels are probably wrong; or compare several.

    [b]Examples[/b]

    manyhot report runs/last --open

    manyhot report runs/bce runs/spa --name BCE --name SPA -o losses.html

    manyhot report probabilities.csv --kind probs --targets truth.csv

    manyhot report runs/last --png figures --pdf figures.pdf
    """
    check_report_names(runs, name)
    check_outputs(png, pdf, dark=dark, overwrite=overwrite)
    from manyhot.report.page import Report, is_report

    path = default_path(runs) if out is None else out
    overwrite = overwrite or is_report(path)  # an older report is replaced, any other file is not
    suffixes, example = (".html", ".htm"), "report.html"
    check_output_path(path, "--out", REPORT_OWNER, overwrite=overwrite, suffixes=suffixes, example=example)
    console = error_console()
    sources = open_sources(runs, name, kind, targets, console)
    roots = [root] if root is not None else image_roots(runs)
    page = Report(sources, split=split, root=roots, images=not no_images)
    write_report_files(page, path, png, pdf, dark=dark, console=console)
    typer.echo(f"Report: {path}")
    for written in (png, pdf):
        if written is not None:
            typer.echo(f"Figures: {written}")
    if open_page:
        open_file(path, "browser", "report")


def check_report_names(runs: Sequence[str], names: Sequence[str] | None) -> None:
    """Rejects names that are not one per run, or not distinct."""
    if not names:
        return
    if len(names) != len(runs):
        hint = "Repeat --name for each RUN, in their order."
        raise InputError("--name", REPORT_OWNER, f"be given {len(runs)} times, once a RUN", f"{len(names)}", hint)
    if len(set(names)) < len(names) or not all(names):
        raise InputError("--name", REPORT_OWNER, "differ", ", ".join(map(repr, names)), "Rename one of them.")


def check_outputs(png: Path | None, pdf: Path | None, *, dark: bool, overwrite: bool) -> None:
    """Rejects, before the work begins, figures that would replace other files."""
    if dark and png is None and pdf is None:
        hint = "Add --png or --pdf; the page itself is light or dark as the reader's screen is."
        raise InputError("--dark", REPORT_OWNER, "come with --png or --pdf", "neither", hint)
    if png is not None and png.is_dir() and any(png.iterdir()) and not overwrite:
        hint = "Choose another one, or pass --overwrite."
        raise InputError("--png", REPORT_OWNER, "name a new or an empty folder", repr(str(png)), hint)
    if pdf is not None:
        check_output_path(pdf, "--pdf", REPORT_OWNER, overwrite=overwrite, suffixes=[".pdf"], example="figures.pdf")


def default_path(runs: Sequence[str]) -> Path:
    """`runs/photos/report.html`, `photos.report.html` beside a table, and `report.html` here for several."""
    if len(runs) > 1:
        return Path("report.html")
    folder = Path(runs[0])
    if is_run_folder(folder):
        return folder / "report.html"
    beside = path_beside(runs[0], "report")
    return beside.with_name(f"{beside.name.removesuffix('.parquet')}.html")


def is_run_folder(path: Path) -> bool:
    """Whether a path leads to the folder of a run, finished or not."""
    return (path / "config.yaml").is_file()


def open_sources(
    runs: Sequence[str], names: Sequence[str] | None, kind: Kind | None, targets: Path | None, console: Console
) -> dict[str, Any]:
    """Runs and tables with true labels, by their names on the page."""
    from manyhot.report.page import make_unique, source_name
    from manyhot.training.run import Run

    opened: list[Any] = []
    for text in runs:
        if not is_run_folder(Path(text)):
            table = open_table(text, kind, targets, console)
            if "targets" not in table.kinds:
                hint = "Pass the file of true labels as --targets."
                raise InputError("RUN", REPORT_OWNER, "hold targets", ", ".join(table.kinds), hint)
            opened.append(table)
        elif targets is not None:
            hint = "Leave it out: a run knows the true labels."
            raise InputError("--targets", REPORT_OWNER, "come with tables only", repr(text), hint)
        else:
            opened.append(Run(text))
    return dict(zip(names or make_unique([source_name(text) for text in runs]), opened, strict=True))


def image_roots(runs: Sequence[str]) -> list[Path]:
    """The folders in which the images of all runs and tables may lie."""
    from manyhot.image_paths import find_image_roots

    files = [str(Path(text) / "predictions.parquet") if is_run_folder(Path(text)) else text for text in runs]
    return list(dict.fromkeys(root for file in files for root in find_image_roots(file)))


def write_report_files(
    page: Report, path: Path, png: Path | None, pdf: Path | None, *, dark: bool, console: Console
) -> None:
    """Writes the page and the figures of --png and --pdf, and shows progress."""
    with console.status("Evaluating ..."):
        figures = page.plots
    total = sum(figure.on_page + (png is not None) + (pdf is not None) for figure in figures)
    with progress("Drawing", total, console) as advance:
        watch = lambda _: advance(1)  # noqa: E731
        page.save(path, watch=watch)
        if png is not None:
            page.save_pngs(png, dark=dark, watch=watch)
        if pdf is not None:
            page.save_pdf(pdf, dark=dark, watch=watch)


STUDIO_OWNER = "manyhot studio"


def studio(
    predictions: Annotated[
        str,
        typer.Argument(
            metavar="RUN_OR_PREDICTIONS",
            help="The folder of a run, or a table of predictions: Parquet, CSV, TSV or NPZ.",
        ),
    ],
    split: Annotated[str | None, typer.Option(help="Only rows of this split.")] = None,
    root: Annotated[list[Path] | None, typer.Option(help="A folder that images may be read from. Repeatable.")] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where corrected labels go (default: reviewed.csv, in the run or beside it)."
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run that classifies images dropped on the page.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Nothing can be edited.")] = False,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; by default 8642 or the next free one.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="MANYHOT_STUDIO_TOKEN", help="The access token; generated for addresses other than localhost."
        ),
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    kind: KindOption = None,
    targets: TargetsOption = None,
) -> None:
    """Open a local page to search images, classify new ones, try decisions, and review labels.

    [b]Examples[/b]

    manyhot studio runs/last

    manyhot studio new.parquet --model runs/last --root /data/photos

    manyhot studio scores.csv --kind probs --targets truth.csv --read-only

    manyhot studio runs/last --host 0.0.0.0 --port 8080
    """
    check_source(predictions)
    check_installed()
    from manyhot.studio import bind, open_browser, open_studio, serve

    if token is not None and not token.strip():
        hint = "Leave it out to have one generated."
        raise InputError("--token", STUDIO_OWNER, "have at least one character", repr(token), hint)
    console = error_console()
    with console.status(f"Opening {predictions} ..."):
        opened, notes = open_studio(
            predictions,
            split=split,
            kind=kind,
            targets=targets,
            roots=root or (),
            labels_file=labels,
            model=model,
            read_only=read_only,
        )
    print_notes(notes, console)
    try:
        address = bind(host, port, token=token)
    except BaseException:
        opened.close()
        raise

    def started() -> None:
        typer.echo(f"The studio is open at {address.url}")
        if opened.review is not None:
            console.print(f"Corrected labels go to {opened.labels_name}. Stop with Ctrl+C; nothing is lost.")
        if not no_open:
            open_browser(address.url)

    serve(opened, address, started=started)
    if opened.review is not None and opened.review.trouble is not None:
        console.print(f"All edits are in the journal, but not in the labels file: {opened.review.trouble}")
        raise typer.Exit(1)
    console.print("The studio is closed.")


def check_source(predictions: str) -> None:
    """Rejects a missing file before anything heavy is imported; patterns are checked when they are read."""
    if not Path(predictions).exists() and not glob.has_magic(predictions):
        hint = "Train one first: manyhot train photos.csv; or score images: manyhot predict RUN IMAGES -o new.parquet."
        raise InputError("RUN_OR_PREDICTIONS", STUDIO_OWNER, "be there", repr(predictions), hint)


def check_installed() -> None:
    """Raises an error that lists all missing packages."""
    packages = ("fastapi", "uvicorn", "python_multipart", "duckdb", "PIL")
    missing = [name for name in packages if not importlib.util.find_spec(name)]
    if missing:
        raise ImportError(f"The studio needs {', '.join(missing)}. Install it with: pip install 'manyhot[studio]'")
