"""Precision against recall of all cells, and where a rule has chosen to stand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.refusal import refusal
from manyhot.report.curves import Curve, read_curve, read_shares
from manyhot.report.looks import Look, Style, dress, in_legend, look_of, new_figure, style_of
from manyhot.report.reading import check_keys, check_known, check_named, read_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWNER = "draw_precision_recall"
REMEDY = 'Pass {"precision": ..., "recall": ..., "label": ...} of what a rule gave.'
# Lines on which F1 is the same.
LEVELS = (0.2, 0.4, 0.6, 0.8)
# Of up to so many entries the legend finds room beside the curves, of more only beside the values of the levels.
LEGEND_INSIDE = 5
BESIDE_LEVELS: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.1, 1.0)}


class Point(NamedTuple):
    """Where a rule stands, in fractions, and what it is called."""

    precision: float
    recall: float
    label: str


def draw_precision_recall(
    curves: Mapping[str, Any], *, marked: Mapping[str, Mapping[str, Any]] | None = None, dark: bool = False
) -> Figure:
    """Precision against recall over all cells, one line a model, with lines of equal F1 and the points of rules.

    A line shows what one threshold for all labels can do. A rule that has a threshold for each label, or none at all,
    may stand above it.

    Args:
        curves: By the name of the model: (values, targets), both (N, K), or what `count_curve` gave.
        marked: By the name of the model, what its rule reached over all cells: "precision", "recall" and, for the
            legend, a "label" such as the name of the rule.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_precision_recall
        >>> values, targets = torch.rand(200, 5), torch.randint(2, (200, 5))
        >>> marked = {"BCE": {"precision": 0.6, "recall": 0.5, "label": "Threshold(0.5)"}}
        >>> draw_precision_recall({"BCE": (values + targets, targets)}, marked=marked).axes[0].get_xlabel()
        'recall %'
    """
    check_named("curves", OWNER, curves)
    check_known("marked", OWNER, marked or {}, curves)
    read = {name: read_curve(f"curves[{name!r}]", OWNER, given) for name, given in curves.items()}
    points = {name: read_point(f"marked[{name!r}]", given) for name, given in (marked or {}).items()}
    look = look_of(dark=dark)
    entries = len(read) + len(points)
    figure = new_figure(6.4 if entries <= LEGEND_INSIDE else 9.4, 4.8)
    axis = figure.subplots()
    draw_levels(axis, look)
    for place, (name, curve) in enumerate(read.items()):
        draw_curve(axis, name, curve, style_of(place, look))
        if name in points:
            label = points[name].label if len(read) == 1 else f"{name}, {points[name].label}"
            draw_point(axis, points[name]._replace(label=label), style_of(place, look), look)
    axis.set(xlim=(0, 100.5), ylim=(0, 100.5), xlabel="recall %", ylabel="precision %")
    axis.grid(True)
    where = {"loc": "best"} if entries <= LEGEND_INSIDE else BESIDE_LEVELS
    axis.legend(fontsize=8, handlelength=2.8, numpoints=1, **where)
    return dress(figure, look)


def read_point(argument: str, given: Any) -> Point:
    """Where a rule stands."""
    if not isinstance(given, Mapping):
        raise refusal(argument, OWNER, "be a mapping", type(given).__name__, REMEDY)
    check_keys(argument, OWNER, given, ("precision", "recall"), REMEDY)
    precision, recall = (
        read_shares(f"{argument}[{key!r}]", OWNER, read_numbers(f"{argument}[{key!r}]", OWNER, [given[key]]))[0]
        for key in ("precision", "recall")
    )
    return Point(precision, recall, str(given.get("label") or "chosen"))


def draw_levels(axis: Any, look: Look) -> None:
    """Faint lines on which F1 is the same, each with its value at its end, where no curve runs across it."""
    for level in LEVELS:
        # With full precision F1 reaches the level at this recall. It falls steeply from there: hence the squares.
        start = level / (2 - level)
        recall = [start + (1 - start) * (step / 100) ** 2 for step in range(101)]
        precision = [level * one / (2 * one - level) for one in recall]
        axis.plot([100 * one for one in recall], [100 * one for one in precision], color=look.faint, lw=0.8, zorder=1)
        axis.text(101.5, 100 * start, f"F1 {100 * level:.0f} %", fontsize=7, color=look.ink, va="center")


def draw_curve(axis: Any, name: str, curve: Curve, style: Style) -> None:
    """The line of one model."""
    recall, precision = ([100 * one for one in row] for row in (curve.recall, curve.precision))
    label = name if math.isnan(curve.ap) else f"{name}, AP {100 * curve.ap:.1f} %"
    axis.plot(recall, precision, color=style.colour, ls=style.line, lw=1.8, label=in_legend(label), zorder=3)


def draw_point(axis: Any, point: Point, style: Style, look: Look) -> None:
    """The mark of a rule on the line of its model, or beside it."""
    axis.plot(
        100 * point.recall,
        100 * point.precision,
        color=style.colour,
        marker=style.mark,
        mec=look.ink,
        mew=1,
        ms=9,
        ls="none",
        label=in_legend(point.label),
        zorder=4,
    )
