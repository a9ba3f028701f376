"""Themes, colours, markers and line styles of all plots, and small PNG files."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.errors import require
from manyhot.files import atomic_write
from manyhot.formatting import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Style(NamedTuple):
    """How one model is drawn."""

    colour: str
    marker: str
    line: str


class Theme(NamedTuple):
    """The colours of a page.

    Attributes:
        face: Behind everything.
        ink: Texts and frames.
        faint: Lines to hold others against, such as a diagonal.
        grid: Lines of the grid.
        wrong: Labels that are given and not there.
        missed: Labels that are there and not given.
        colours: Those of the models.
    """

    face: str
    ink: str
    faint: str
    grid: str
    wrong: str
    missed: str
    colours: tuple[str, ...]


# The colour-blind safe palette of Okabe and Ito. On a dark page the darkest colours are replaced by light ones.
LIGHT = Theme(
    face="#ffffff",
    ink="#000000",
    faint="#999999",
    grid="#e6e6e6",
    wrong="#D55E00",
    missed="#00734F",
    colours=("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#7F7F7F"),
)
DARK = Theme(
    face="#1e2129",
    ink="#e6e6e6",
    faint="#8a8f9a",
    grid="#363b47",
    wrong="#F0753A",
    missed="#2DBE94",
    colours=("#56B4E9", "#E69F00", "#2DBE94", "#CC79A7", "#FFFFFF", "#F0E442", "#F0753A", "#A6A6A6"),
)
# Besides colours, so that models also differ in a greyscale print.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
LINE_STYLES = ("-", "--", "-.", ":")
# For a legend that would hide what is drawn.
LEGEND_BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
DPI = 110
# Longer names would squeeze the plots.
MAX_LABEL_LENGTH = 30
# An invisible prefix for names that a legend would leave out.
GUARD = "\N{ZERO WIDTH SPACE}"
# Enough for antialiased text and lines in eight colours; photographs get a full palette.
PALETTE_COLOURS, PHOTO_COLOURS = 128, 256


def get_theme(*, dark: bool) -> Theme:
    """The colours of a dark or a light page."""
    return DARK if dark else LIGHT


def model_style(index: int, theme: Theme = LIGHT) -> Style:
    """Colour, marker and line of the model at an index; 64 differ, and the first 32 in marker or line alone.

    Example:
        >>> from manyhot.report.style import model_style
        >>> model_style(0)
        Style(colour='#0072B2', marker='o', line='-')
    """
    turn, column = divmod(index, len(MARKERS))
    return Style(theme.colours[column], MARKERS[(column + turn) % len(MARKERS)], LINE_STYLES[column % len(LINE_STYLES)])


def legend_placement(entries: int, capacity: int) -> dict[str, Any]:
    """The legend goes beside a panel if it has more entries than fit into it, else to the best position."""
    return LEGEND_BESIDE if entries > capacity else {"loc": "best"}


def new_figure(width: float, height: float) -> Figure:
    """A figure of this size in inches, not managed by pyplot."""
    import_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def import_matplotlib() -> Any:
    """Matplotlib, or the error that says how to install it."""
    return require("matplotlib", "Plots", extra="report")


def new_panels(
    count: int, *, columns: int, width: float, height: float, sharex: bool = False, sharey: bool = False
) -> tuple[Figure, list[Any]]:
    """A figure with so many panels, each of so many inches, in rows of at most `columns`."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = new_figure(max(width * columns + 0.6, 6.0), height * rows + 0.4)
    axes = list(figure.subplots(rows, columns, sharex=sharex, sharey=sharey, squeeze=False).ravel())
    for axis in axes[count:]:
        axis.set_axis_off()
    return figure, axes[:count]


def apply_theme(figure: Figure, theme: Theme) -> Figure:
    """Gives a finished figure the colours of its page; returns it. What stands for data keeps its own."""
    figure.set_facecolor(theme.face)
    disable_math_text(figure.texts)
    for text in figure.texts:
        text.set_color(theme.ink)
    for legend in figure.legends:
        apply_theme_to_legend(legend, theme)
    for axis in figure.axes:
        apply_theme_to_axis(axis, theme)
    return figure


def apply_theme_to_axis(axis: Any, theme: Theme) -> None:
    """Gives one panel the colours of its page."""
    axis.set_facecolor(theme.face)
    axis.set_axisbelow(True)
    for spine in axis.spines.values():
        spine.set_color(theme.faint)
    axis.tick_params(which="both", color=theme.faint, labelcolor=theme.ink, grid_color=theme.grid, grid_linewidth=0.8)
    for text in (axis.title, axis.xaxis.label, axis.yaxis.label):
        text.set_color(theme.ink)
    disable_math_text([axis.title, axis.xaxis.label, axis.yaxis.label, *axis.texts])
    for scale in (axis.xaxis, axis.yaxis):
        # Numbers may be powers of ten, which are formulas; names are fixed.
        if type(scale.get_major_formatter()).__name__ in ("FixedFormatter", "FuncFormatter"):
            disable_math_text(scale.get_ticklabels())
    if axis.get_legend() is not None:
        apply_theme_to_legend(axis.get_legend(), theme)


def apply_theme_to_legend(legend: Any, theme: Theme) -> None:
    """Gives a legend the colours of its page; lines behind it shine through a little."""
    legend.get_frame().set(facecolor=theme.face, edgecolor="none", alpha=0.8)
    for text in (legend.get_title(), *legend.get_texts()):
        text.set_color(theme.ink)
        text.set_text(text.get_text().removeprefix(GUARD))
    disable_math_text([legend.get_title(), *legend.get_texts()])


def legend_label(name: str) -> str:
    """A name that a legend shows whatever it begins with: matplotlib leaves out those with an underscore.

    `dress` takes away again what is put before it.
    """
    return f"{GUARD}{name}" if name.startswith("_") else name


def disable_math_text(texts: Iterable[Any]) -> None:
    """Shows names as they are: dollar signs would begin a formula, and a broken one would stop everything."""
    for text in texts:
        text.set_parse_math(False)


@contextmanager
def default_settings() -> Iterator[None]:
    """Draws by the settings that matplotlib comes with, whatever the user's are, so that pages look the same anywhere.

    What shows windows stays as it is.
    """
    matplotlib = import_matplotlib()
    usual = matplotlib.rcParamsDefault
    with matplotlib.rc_context({name: usual[name] for name in usual if "backend" not in name}):
        yield


def plot_label(name: str) -> str:
    r"""A name as it may stand in a figure: short, and in one line.

    Example:
        >>> from manyhot.report.style import plot_label
        >>> print(plot_label("two\nlines"))
        two\nlines
    """
    text = printable(name)
    return text if len(text) <= MAX_LABEL_LENGTH else f"{text[: MAX_LABEL_LENGTH - 1]}…"


def plot_labels(names: Sequence[str]) -> list[str]:
    """Names as they may stand in a figure, all different where the names are.

    Example:
        >>> from manyhot.report.style import plot_labels
        >>> plot_labels(["a" * 40 + "1", "a" * 40 + "2"])[1]
        'aaaaaaaaaaaaaaaaaaaaaaaaaaaaa… (2)'
    """
    result: list[str] = []
    taken: set[str] = set()
    for name in names:
        text, number = plot_label(name), 2
        while text in taken:
            text, number = f"{plot_label(name)} ({number})", number + 1
        taken.add(text)
        result.append(text)
    return result


def as_png(figure: Figure, *, dpi: int = DPI) -> bytes:
    """The bytes of a small PNG file of a figure: few colours, no date, the same for the same figure.

    Example:
        >>> from manyhot.report import as_png, draw_set_sizes
        >>> as_png(draw_set_sizes({"a model": {"counts": [1, 5, 2]}}))[1:4]
        b'PNG'
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    usual, small = figure.dpi, io.BytesIO()
    figure.set_dpi(dpi)
    # Not `savefig`, which draws everything twice to give the same pixels.
    canvas: Any = FigureCanvasAgg(figure)
    with default_settings():
        canvas.draw()
    many = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")
    figure.set_dpi(usual)
    photos = any(axis.images for axis in figure.axes)
    few = many.quantize(PHOTO_COLOURS if photos else PALETTE_COLOURS, dither=Image.Dither.NONE)
    if photos:
        # A second time, because colours are mixed only for a palette that is there already.
        few = many.quantize(palette=few, dither=Image.Dither.FLOYDSTEINBERG)
    restore_background(few, many)
    few.save(small, format="PNG", optimize=True)
    return small.getvalue()


def restore_background(few: Any, many: Any) -> None:
    """Restores the exact background colour after quantisation, so that no edge is visible on the page."""
    palette, index = few.getpalette(), 3 * few.getpixel((0, 0))
    palette[index : index + 3] = many.getpixel((0, 0))
    few.putpalette(palette)


def save_png(figure: Figure, path: str | os.PathLike[str], *, dpi: int = DPI) -> None:
    """Writes a figure as a small PNG file, whole or not at all."""
    with atomic_write(path) as part:
        part.write_bytes(as_png(figure, dpi=dpi))
