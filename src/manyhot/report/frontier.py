"""Two figures against each other: which methods no other beats in both."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from manyhot.refusal import refusal
from manyhot.report.looks import BESIDE, Look, dress, in_legend, look_of, new_figure, style_of
from manyhot.report.reading import Span, check_known
from manyhot.report.table import read_table, title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWNER = "draw_frontier"


def draw_frontier(
    rows: Mapping[str, Any],
    x: str,
    y: str,
    *,
    higher: Collection[str] = (),
    percent: Collection[str] = (),
    titles: Mapping[str, str] | None = None,
    dark: bool = False,
) -> Figure:
    """Methods by two figures, with their intervals; those that no other beats in both are filled and joined by a line.

    The frontier is that of the values: neighbours whose intervals overlap may change places with other data.

    Args:
        rows: By the name of the method, its figures by name: a number, (value, low, high), what `bootstrap` gives, or
            a mapping with "value", "low" and "high".
        x: The figure to the right.
        y: The figure upwards.
        higher: Which of the two are better when higher; others are better when lower.
        percent: Which of the two are fractions to be drawn in percent.
        titles: What stands at the axes, by the name of the figure.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_frontier
        >>> rows = {"BCE": {"map": (0.61, 0.60, 0.62), "ace": 0.05}, "quasibinary": {"map": 0.58, "ace": 0.01}}
        >>> figure = draw_frontier(rows, "ace", "map", higher=("map",), percent=("ace", "map"))
        >>> figure.axes[0].get_xlabel()
        'ace % (lower is better)'
    """
    check_known("higher", OWNER, higher, (x, y))
    table = read_table(OWNER, rows, (x, y), percent)
    for name, row in table.items():
        for wanted in (x, y):
            if wanted not in row:
                remedy = "Leave out methods without both figures."
                raise refusal(f"rows[{name!r}]", OWNER, f"have {wanted!r}", "none", remedy)
    points = {name: (row[x], row[y]) for name, row in table.items()}
    best = frontier({name: (a.value, b.value) for name, (a, b) in points.items()}, (x in higher, y in higher))
    look = look_of(dark=dark)
    figure = new_figure(8.4, 4.8)
    axis = figure.subplots()
    draw_points(axis, points, best, look)
    for name, set_label in ((x, axis.set_xlabel), (y, axis.set_ylabel)):
        set_label(f"{title_of(name, titles, percent)} ({'higher' if name in higher else 'lower'} is better)")
    axis.grid(True)
    axis.margins(0.08)
    axis.legend(fontsize=8, numpoints=1, handlelength=1.6, **BESIDE)
    return dress(figure, look)


def frontier(points: Mapping[str, tuple[float, float]], higher: tuple[bool, bool]) -> list[str]:
    """The names that no other point beats, as good in both figures and better in one; in the order of the first figure.

    Example:
        >>> from manyhot.report.frontier import frontier
        >>> frontier({"a": (1.0, 5.0), "b": (2.0, 6.0), "c": (2.0, 4.0)}, (False, True))
        ['a', 'b']
    """
    signs = [1 if up else -1 for up in higher]
    good = {name: (signs[0] * x, signs[1] * y) for name, (x, y) in points.items()}
    kept = [
        name
        for name, mine in good.items()
        if not any(other != mine and other[0] >= mine[0] and other[1] >= mine[1] for other in good.values())
    ]
    return sorted(kept, key=lambda name: points[name])


def draw_points(axis: Any, points: Mapping[str, tuple[Span, Span]], best: list[str], look: Look) -> None:
    """The line through the best, and every point with its intervals."""
    line = [(points[name][0].value, points[name][1].value) for name in best]
    xs, ys = [x for x, _ in line], [y for _, y in line]
    axis.plot(xs, ys, color=look.faint, lw=1.4, label="not beaten in both", zorder=1)
    for place, (name, (x, y)) in enumerate(points.items()):
        style = style_of(place, look)
        axis.errorbar(
            x.value,
            y.value,
            [[y.value - y.low], [y.high - y.value]],
            [[x.value - x.low], [x.high - x.value]],
            color=style.colour,
            marker=style.mark,
            mfc=style.colour if name in best else look.face,
            ms=8 if name in best else 6,
            elinewidth=1,
            ls="none",
            label=in_legend(name),
            zorder=3 if name in best else 2,
        )
