"""`Report`: one self-contained HTML page. Imports neither torch nor jinja2 before a page is asked for."""

from __future__ import annotations

import base64
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from manyhot import __version__
from manyhot.errors import InputError, require
from manyhot.files import atomic_write
from manyhot.formatting import format_prob
from manyhot.report.blocks import Bar, Figure, Header, Section
from manyhot.report.style import as_png, default_settings, save_png

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

    from manyhot.report.results import ModelResults
    from manyhot.training.run import Run

GENERATOR_TAG = '<meta name="generator" content="manyhot report">'


def is_report(path: Path) -> bool:
    """Whether a file is a report that was written here, so that a newer one may take its place."""
    try:
        with path.open(encoding="utf-8") as file:
            return GENERATOR_TAG in file.read(1000)
    except (OSError, UnicodeDecodeError):
        return False


FolderPaths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Report:
    """A report on a run, on a table of predictions with targets, or on several side by side.

    Notebooks display it. The same runs give the same page, byte for byte.

    Args:
        runs: A `Run`, a table of predictions of any model, or the path of one of them; several as a list, or as a
            mapping from their names.
        split: The split to evaluate; by default "test", or all rows of a table without one.
        root: The folder or folders that paths of images are relative to; by default the folder of the run's data,
            that of the table, or the current one.
        images: Whether to show images.

    Example:
        >>> table = mh.Predictions(probs=torch.rand(60, 3), targets=torch.randint(2, (60, 3)), labels=["a", "b", "c"])
        >>> report = Report({"my model": table})
        >>> [section.title for section in report.sections][:2]
        ['Summary', 'Probable annotation errors']
    """

    def __init__(
        self, runs: Any, *, split: str | None = None, root: FolderPaths | None = None, images: bool = True
    ) -> None:
        self.sources = name_sources(runs)
        self.split, self.images = split, images
        folders = [root] if isinstance(root, str | os.PathLike) else root
        self.root = None if folders is None else [Path(folder) for folder in folders]

    def __repr__(self) -> str:
        return f"Report({', '.join(map(repr, self.sources))})"

    @cached_property
    def models(self) -> list[ModelResults]:
        """The evaluated rows of each run or table, in memory."""
        from manyhot.report.results import load_results

        return [load_results(name, one, split=self.split, root=self.root) for name, one in self.sources.items()]

    @cached_property
    def sections(self) -> list[Section]:
        """The contents of the page, before figures are drawn."""
        from manyhot.report.sections import all_sections

        return all_sections(self.models, images=self.images)

    @property
    def plots(self) -> list[Figure]:
        """All figures."""
        return [figure for section in self.sections for figure in section.plots]

    def figures(self, *, dark: bool = False) -> dict[str, MatplotlibFigure]:
        """All figures by name, drawn now, for a light or a dark page; change them as you like."""
        with plot_context():
            return {figure.key: figure.draw(dark) for figure in self.plots}

    def html(self, *, watch: Callable[[str], None] | None = None) -> str:
        """The page as one text, with all images embedded.

        Args:
            watch: Called with the name of each figure before it is drawn.
        """
        from manyhot.report.sections import make_header

        return render(make_header(self.models), self.sections, watch)

    def save(self, path: str | os.PathLike[str], *, watch: Callable[[str], None] | None = None) -> Path:
        """Writes the page to a file atomically; returns its path."""
        text = self.html(watch=watch)
        with atomic_write(path) as part:
            part.write_text(text, encoding="utf-8")
        return Path(path)

    def save_pngs(
        self, folder: str | os.PathLike[str], *, dark: bool = False, watch: Callable[[str], None] | None = None
    ) -> list[Path]:
        """Writes one PNG file per figure into a folder; returns their paths."""
        return write_pngs(self.plots, Path(folder), dark=dark, watch=watch)

    def save_pdf(
        self, path: str | os.PathLike[str], *, dark: bool = False, watch: Callable[[str], None] | None = None
    ) -> Path:
        """Writes all figures to one PDF, one page per figure; returns its path."""
        write_pdf(self.plots, Path(path), dark=dark, watch=watch)
        return Path(path)

    def _repr_html_(self) -> str:
        # In a frame, or its style sheet would apply to the whole notebook.
        style = "width: 100%; height: 45rem; border: 0"
        return f'<iframe title="{escape(repr(self))}" style="{style}" srcdoc="{escape(self.html())}"></iframe>'


def write_report(
    runs: Any,
    path: str | os.PathLike[str],
    *,
    split: str | None = None,
    root: FolderPaths | None = None,
    images: bool = True,
) -> Path:
    """Writes the report of runs or tables to one self-contained HTML file; returns its path.

    Args:
        runs: As in `Report`.
        path: The file; an existing one is replaced.
        split: As in `Report`.
        root: As in `Report`.
        images: As in `Report`.

    Example:
        >>> import tempfile
        >>> table = mh.Predictions(probs=torch.rand(60, 1), targets=torch.randint(2, (60, 1)))
        >>> write_report(table, tempfile.mkdtemp() + "/report.html").name
        'report.html'
    """
    return Report(runs, split=split, root=root, images=images).save(path)


def name_sources(runs: Any) -> dict[str, Any]:
    """The runs and tables of the report, by name."""
    if isinstance(runs, Mapping):
        result = dict(runs)
    elif isinstance(runs, list | tuple):
        result = dict(zip(make_unique([source_name(one) for one in runs]), runs, strict=True))
    else:
        result = {source_name(runs): runs}
    if not result or not all(isinstance(name, str) and name for name in result):
        got = "none" if not result else "one without a name"
        rule = "be runs or tables by name, at least one"
        raise InputError("runs", "Report", rule, got, 'Pass {"BCE": run}.')
    return result


def source_name(source: Any) -> str:
    """The default name of a run or a table: that of its folder or file."""
    folder = getattr(source, "folder", source)
    if not isinstance(folder, str | os.PathLike):
        return "predictions"
    path = Path(folder)
    # `runs/last` is a link to a run.
    path = path.resolve() if path.is_symlink() or not path.name.strip(".") else path
    stem = path.name if path.is_dir() else path.name.removesuffix(".gz").rsplit(".", 1)[0]
    return stem or "predictions"


def make_unique(names: Sequence[str]) -> list[str]:
    """Names, the later ones with a number where they are the same.

    Example:
        >>> from manyhot.report.page import make_unique
        >>> make_unique(["bce", "spa", "bce"])
        ['bce', 'spa', 'bce (2)']
    """
    result: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in result:
            candidate, number = f"{name} ({number})", number + 1
        result.append(candidate)
    return result


Watch = Callable[[str], None]
# A compromise between sharpness on high-density screens and size.
PAGE_DPI = 144
# CSS pixels per inch of a figure.
PIXELS_PER_INCH = 96


@dataclass(frozen=True)
class RenderedFigure:
    """A figure as the page shows it: data URLs of its light and dark image, and its size."""

    key: str
    caption: str
    alt: str
    light: str
    dark: str
    width: int
    height: int


def render(header: Header, sections: Sequence[Section], watch: Watch | None = None) -> str:
    """The page as one text."""
    environment = import_jinja2().Environment(
        loader=import_jinja2().PackageLoader("manyhot.report"),
        autoescape=True,
        undefined=import_jinja2().StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": format_prob,
        "bar_class": bar_class,
        "bar_text": bar_text,
        "target_character": target_character,
        "join_units": join_units,
    }
    figures = [figure for section in sections for figure in section.plots if figure.on_page]
    rendered = {figure.key: render_figure(figure, watch) for figure in figures}
    style = environment.get_template("page.css").render()
    page: str = environment.get_template("page.html").render(
        header=header, sections=sections, shown=rendered, style=style, generator=GENERATOR_TAG, version=__version__
    )
    return page


def import_jinja2() -> Any:
    """Jinja, or the error that says how to install it."""
    return require("jinja2", "Reports", extra="report")


def render_figure(figure: Figure, watch: Watch | None = None) -> RenderedFigure:
    """A figure for the light and for the dark page."""
    if watch is not None:
        watch(figure.key)
    with plot_context():
        light = figure.draw(False)
        light_png = as_png(light, dpi=PAGE_DPI)
        dark = copy_layout(light, figure.draw(True))
        dark_png = as_png(dark, dpi=PAGE_DPI)
    width, height = (round(PIXELS_PER_INCH * inches) for inches in light.get_size_inches())
    return RenderedFigure(
        figure.key, figure.caption, figure.alt, png_data_url(light_png), png_data_url(dark_png), width, height
    )


def png_data_url(png: bytes) -> str:
    """An image as a data URL, which needs no request."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def copy_layout(drawn: MatplotlibFigure, new: MatplotlibFigure) -> MatplotlibFigure:
    """The new figure with the layout of one that has been drawn: the layout takes half of the time."""
    if len(drawn.axes) == len(new.axes) and len(drawn.texts) == len(new.texts):
        new.set_layout_engine(None)
        for old_axis, new_axis in zip(drawn.axes, new.axes, strict=True):
            new_axis.set_position(old_axis.get_position(original=True), which="original")
        for text, same in zip(drawn.texts, new.texts, strict=True):
            same.set_position(text.get_position())
    return new


@contextmanager
def plot_context() -> Iterator[None]:
    """Uses default settings, and silences warnings about missing glyphs: names come in all scripts."""
    with default_settings(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def write_pngs(figures: Sequence[Figure], folder: Path, *, dark: bool, watch: Watch | None = None) -> list[Path]:
    """Writes one PNG file per figure."""
    paths = []
    for figure in figures:
        if watch is not None:
            watch(figure.key)
        path = folder / f"{figure.key}.png"
        with plot_context():
            save_png(figure.draw(dark), path, dpi=PAGE_DPI)
        paths.append(path)
    return paths


def write_pdf(figures: Sequence[Figure], path: Path, *, dark: bool, watch: Watch | None = None) -> None:
    """Writes one PDF, one page per figure, without a date: the same report has the same bytes."""
    from matplotlib.backends.backend_pdf import PdfPages

    with plot_context(), atomic_write(path) as part, PdfPages(part, metadata={"CreationDate": None}) as pages:
        for figure in figures:
            if watch is not None:
                watch(figure.key)
            pages.savefig(figure.draw(dark))


def join_units(text: str) -> str:
    """The text with non-breaking spaces between numbers and their units or operators."""
    return (
        text.replace(" %", "\N{NO-BREAK SPACE}%")
        .replace("< 0", "<\N{NO-BREAK SPACE}0")
        .replace("> 9", ">\N{NO-BREAK SPACE}9")
    )


def bar_class(bar: Bar) -> str:
    """The CSS class of a bar: filled if the label is predicted, hatched if that is wrong."""
    if bar.predicted:
        return "wrong" if bar.target == 0 else "given"
    return "missed" if bar.target > 0 else "left"


def target_character(bar: Bar) -> str:
    """The target as a character: a tick, a cross or a question mark."""
    return {1: "✓", 0: "✗"}.get(bar.target, "?")


def bar_text(bar: Bar) -> str:
    """Decision and target in words, for screen readers."""
    truth = {1: "there", 0: "not there"}.get(bar.target, "unknown")
    return f"{'given' if bar.predicted else 'not given'}, {truth}"


def try_report(run: Run, notify: Callable[[str], None]) -> Path | None:
    """Writes the report of a finished run into its folder; a failure is reported, not raised.

    Args:
        run: The run.
        notify: Called with the message of a failure.

    Returns:
        The path of the report, None if there is none.
    """
    if run.figures["judged"] is None:
        notify("No report: there are no rows to evaluate.")
        return None
    try:
        return run.report()
    except Exception as error:  # the run is complete, so no error of the report may make it look failed
        notify(f"No report: {describe_error(error)} Later: manyhot report {quote(str(run.folder))}")
    return None


def describe_error(error: Exception) -> str:
    """The error as one line."""
    text = " ".join(str(error).split())
    if isinstance(error, ImportError) and "pip install" in text:
        return f"{text}."
    return f"{type(error).__name__}: {text.rstrip('.')}."
