"""Values of methods with their intervals, one row a method and one panel a figure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from manyhot.report.looks import Look, dress, look_of, new_figure, style_of
from manyhot.report.reading import Span, check_known
from manyhot.report.table import read_table, title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWNER = "draw_intervals"


def draw_intervals(
    rows: Mapping[str, Any],
    *,
    figures: Sequence[str] | None = None,
    percent: Collection[str] = (),
    titles: Mapping[str, str] | None = None,
    zero: bool = False,
    marked: Collection[str] = (),
    dark: bool = False,
) -> Figure:
    """A value and its interval for each method, the first at the top, one panel a figure.

    Args:
        rows: By the name of the method, its figures by name: a number, (value, low, high), what `bootstrap` gives, or
            a mapping with "value", "low" and "high". A method may lack figures.
        figures: Which figures are drawn, in this order; all by default.
        percent: Which of them are fractions to be drawn in percent.
        titles: What stands above the panels, by the name of the figure.
        zero: For differences: draws a line at zero, and leaves marks hollow whose interval reaches over it.
        marked: Methods to be told from the others by colour and mark, such as the one that is recommended.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_intervals
        >>> rows = {"SPA": {"map": (0.002, -0.001, 0.005)}, "quasibinary": {"map": (-0.031, -0.036, -0.026)}}
        >>> figure = draw_intervals(rows, percent=("map",), titles={"map": "mAP minus that of BCE"}, zero=True)
        >>> figure.axes[0].get_title()
        'mAP minus that of BCE %'
    """
    table = read_table(OWNER, rows, figures, percent)
    check_known("marked", OWNER, marked, table)
    shown = list(figures or dict.fromkeys(figure for row in table.values() for figure in row))
    look = look_of(dark=dark)
    figure = new_figure(max(2.6 * len(shown) + 1.6, 5.0), 0.36 * len(table) + 1.1)
    axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, shown, strict=True):
        draw_panel(axis, {method: row.get(name) for method, row in table.items()}, look, marked, zero=zero)
        axis.set_title(title_of(name, titles, percent), fontsize=9)
    axes[0].set_yticks(range(len(table)), list(table))
    axes[0].set_ylim(len(table) - 0.4, -0.7)
    return dress(figure, look)


def draw_panel(axis: Any, spans: Mapping[str, Span | None], look: Look, marked: Collection[str], *, zero: bool) -> None:
    """The marks of one figure, with their values above them."""
    if zero:
        axis.axvline(0, color=look.ink, lw=1, zorder=1)
    digits = digits_of([span for span in spans.values() if span is not None])
    for place, (name, span) in enumerate(spans.items()):
        if span is None:
            continue
        style = style_of(int(name in marked), look)
        open_mark = zero and span.low <= 0 <= span.high
        axis.errorbar(
            span.value,
            place,
            xerr=[[span.value - span.low], [span.high - span.value]],
            color=style.colour,
            marker=style.mark,
            mfc=look.face if open_mark else style.colour,
            ms=5.5,
            capsize=2.5,
            elinewidth=1.4,
            ls="none",
            zorder=3,
        )
        text = f"{span.value:+z.{digits}f}" if zero else f"{span.value:z.{digits}f}"
        where = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center", "va": "bottom", "zorder": 4}
        # On the colour of the page, or the lines of zero and of the grid cross the number.
        patch = {"facecolor": look.face, "edgecolor": "none", "pad": 0.6}
        axis.annotate(text, (span.value, place), color=look.ink, fontsize=7, bbox=patch, **where)
    axis.grid(True)
    axis.margins(x=0.12)
    axis.locator_params(axis="x", nbins=5)
    axis.tick_params(labelsize=8)


def digits_of(spans: Sequence[Span]) -> int:
    """How many digits after the point tell the values of a panel apart: two more than their range asks for.

    Example:
        >>> from manyhot.report.intervals import digits_of
        >>> digits_of([Span(61.2, 60.0, 62.0), Span(55.0, 54.0, 56.0)]), digits_of([Span(0.012, 0.01, 0.014)])
        (1, 4)
    """
    ends = [end for span in spans for end in span]
    spread = max(ends) - min(ends) if ends else 0.0
    digits = 1
    while 0 < spread * 10**digits < 30 and digits < 6:
        digits += 1
    return digits
