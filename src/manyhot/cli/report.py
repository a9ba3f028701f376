"""`manyhot report`: one page about what a model does, with pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli import options
from manyhot.cli.options import Kind, KindOption, OverwriteOption, TargetsOption, free_path
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from manyhot.report.page import Report

OWNER = "manyhot report"
RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Run folders, or tables of predictions with targets of any model."),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="The page (default: report.html in the run, or beside the table)."
    ),
]
PngOption = Annotated[
    Path | None, typer.Option("--png", metavar="FOLDER", help="Also write each figure as a PNG file into this folder.")
]
PdfOption = Annotated[
    Path | None, typer.Option("--pdf", metavar="FILE", help="Also write all figures to a PDF, a page each.")
]
DarkOption = Annotated[bool, typer.Option("--dark", help="Dark figures for --png and --pdf; the page has both.")]
SplitOption = Annotated[
    str | None, typer.Option("--split", help="The split to judge (default: test, or all rows without one).")
]
NameOption = Annotated[
    list[str] | None, typer.Option("--name", help="What a RUN is called on the page; repeat it, one for each.")
]
RootOption = Annotated[
    Path | None,
    typer.Option("--root", help="Where relative paths begin (default: here, beside RUN, or with a run's data)."),
]
NoPicturesOption = Annotated[bool, typer.Option("--no-pictures", help="Show no pictures.")]
OpenOption = Annotated[bool, typer.Option("--open", help="Show the page.")]


def report(
    runs: RunsArgument,
    out: OutOption = None,
    png: PngOption = None,
    pdf: PdfOption = None,
    dark: DarkOption = False,
    split: SplitOption = None,
    name: NameOption = None,
    root: RootOption = None,
    kind: KindOption = None,
    targets: TargetsOption = None,
    no_pictures: NoPicturesOption = False,
    open_page: OpenOption = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Write one HTML page that shows what a model does, and where its data are probably wrong; several to compare.

    [b]Examples[/b]

    manyhot report runs/last --open

    manyhot report runs/bce runs/spa --name BCE --name SPA -o losses.html

    manyhot report probabilities.csv --kind probs --targets truth.csv

    manyhot report runs/last --png figures --pdf figures.pdf
    """
    check_names(runs, name)
    check_places(root, png, pdf, dark=dark, overwrite=overwrite)
    path = page_path(runs, out, overwrite=overwrite)
    from manyhot.report.page import Report

    tell = options.console()
    sources = open_sources(runs, name, kind, targets, tell)
    roots = [root] if root is not None else all_roots(runs)
    page = Report(sources, split=split, root=roots, pictures=not no_pictures)
    write(page, path, png, pdf, dark=dark, tell=tell)
    typer.echo(f"Report: {path}")
    for written in (png, pdf):
        if written is not None:
            typer.echo(f"Figures: {written}")
    if open_page:
        show_page(path)


def check_names(runs: Sequence[str], names: Sequence[str] | None) -> None:
    """Refuses names that are not one for each run, or twice the same."""
    if not names:
        return
    if len(names) != len(runs):
        remedy = "Repeat --name for each RUN, in their order."
        raise refusal("--name", OWNER, f"be given {len(runs)} times, once a RUN", f"{len(names)}", remedy)
    if len(set(names)) < len(names) or not all(names):
        raise refusal("--name", OWNER, "tell the runs apart", ", ".join(map(repr, names)), "Rename one of them.")


def check_places(root: Path | None, png: Path | None, pdf: Path | None, *, dark: bool, overwrite: bool) -> None:
    """Refuses, before the work begins, what is no folder, and what would replace other files."""
    if root is not None and not root.is_dir():
        raise refusal("--root", OWNER, "be a folder", repr(str(root)), "Name the folder that the paths begin in.")
    if dark and png is None and pdf is None:
        remedy = "Add --png or --pdf; the page itself is light or dark as the reader's screen is."
        raise refusal("--dark", OWNER, "come with --png or --pdf", "neither", remedy)
    if png is not None:
        if png.exists() and not png.is_dir():
            raise refusal("--png", OWNER, "name a folder", repr(str(png)), "Choose another name.")
        if png.is_dir() and any(png.iterdir()) and not overwrite:
            remedy = "Choose another one, or pass --overwrite."
            raise refusal("--png", OWNER, "name a new or an empty folder", repr(str(png)), remedy)
    if pdf is not None:
        if pdf.suffix.lower() != ".pdf":
            raise refusal("--pdf", OWNER, "end with .pdf", repr(str(pdf)), "Rename it, for example figures.pdf.")
        free_path(pdf, overwrite=overwrite, option="--pdf")


def page_path(runs: Sequence[str], out: Path | None, *, overwrite: bool) -> Path:
    """Where the page goes; an older report is replaced, any other file is not."""
    from manyhot.report.page.marking import is_report

    path = default_path(runs) if out is None else out
    if path.suffix.lower() not in (".html", ".htm"):
        raise refusal("--out", OWNER, "end with .html", repr(str(path)), "Rename it, for example report.html.")
    return free_path(path, overwrite=overwrite or is_report(path), option="--out")


def default_path(runs: Sequence[str]) -> Path:
    """`runs/photos/report.html`, `photos.report.html` beside a table, and `report.html` here for several."""
    if len(runs) > 1:
        return Path("report.html")
    folder = Path(runs[0])
    if is_run(folder):
        return folder / "report.html"
    beside = options.beside(runs[0], "report")
    return beside.with_name(f"{beside.name.removesuffix('.parquet')}.html")


def is_run(path: Path) -> bool:
    """Whether a path leads to the folder of a run, finished or not."""
    return (path / "config.yaml").is_file()


def open_sources(
    runs: Sequence[str], names: Sequence[str] | None, kind: Kind | None, targets: Path | None, tell: Console
) -> dict[str, Any]:
    """Runs and tables by the names that they have on the page."""
    from manyhot.report.page.report import different, name_of
    from manyhot.training.run import Run

    found: list[Any] = []
    for text in runs:
        run = is_run(Path(text))
        if run and targets is not None:
            remedy = "Leave it out: a run knows the true labels."
            raise refusal("--targets", OWNER, "come with tables only", repr(text), remedy)
        found.append(Run(text) if run else table_of(text, kind, targets, tell))
    return dict(zip(names or different([name_of(text) for text in runs]), found, strict=True))


def table_of(path: str, kind: Kind | None, targets: Path | None, tell: Console) -> Any:
    """A table of predictions, which must know the true labels."""
    table = options.open_table(path, kind, targets, tell)
    if "targets" not in table.kinds:
        remedy = "Pass the file of true labels as --targets."
        raise refusal("RUN", OWNER, "hold targets", ", ".join(table.kinds), remedy)
    return table


def all_roots(runs: Sequence[str]) -> list[Path]:
    """Where the pictures of all runs and tables may lie."""
    from manyhot.search.roots import roots_of

    files = [str(Path(text) / "predictions.parquet") if is_run(Path(text)) else text for text in runs]
    return list(dict.fromkeys(root for file in files for root in roots_of(file)))


def write(page: Report, path: Path, png: Path | None, pdf: Path | None, *, dark: bool, tell: Console) -> None:
    """Writes the page and what else was asked for, and shows how far it is."""
    with tell.status("Judging ..."):
        drawings = page.drawings
    shown = sum(drawing.on_page for drawing in drawings)
    total = shown + len(drawings) * ((png is not None) + (pdf is not None))
    with drawing_bar(total, tell) as watch:
        page.save(path, watch=watch)
        if png is not None:
            page.save_pngs(png, dark=dark, watch=watch)
        if pdf is not None:
            page.save_pdf(pdf, dark=dark, watch=watch)


@contextmanager
def drawing_bar(total: int, tell: Console) -> Iterator[Callable[[str], None]]:
    """Yields what is called before each figure is drawn: a bar in a terminal, silence elsewhere."""
    from rich.progress import Progress

    with Progress(console=tell, transient=True, disable=not tell.is_terminal) as progress:
        task = progress.add_task("Drawing", total=total)
        yield lambda _: progress.advance(task)


def show_page(path: Path) -> None:
    """Opens the page, or says where it is."""
    from manyhot.cli.sheet_file import show_sheet

    if not show_sheet(path):
        typer.echo(f"Nothing here shows pages; the report is {path.absolute()}.", err=True)
