"""What every threshold would do: precision, recall, F1, and how many labels are given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.refusal import refusal
from manyhot.report.curves import Curve, read_curve
from manyhot.report.looks import Look, dress, in_legend, look_of, new_figure, style_of
from manyhot.report.reading import check_known, check_named, check_whole, read_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWNER = "draw_thresholds"
REMEDY = 'Pass {"threshold": 0.5, "label": ...}, or None as the threshold of a rule that has no single one.'
# How many times as high as its curves a panel is, so that the legend hides none of them.
ROOM = 1.36
# What gives fewer labels a row than this gives hardly any, and would press all else together.
FEWEST_GIVEN = 0.05


class Mark(NamedTuple):
    """The threshold of a rule, None where it has no single one, and what it is called."""

    threshold: float | None
    label: str


def draw_thresholds(
    curves: Mapping[str, Any],
    *,
    marked: Mapping[str, Mapping[str, Any]] | None = None,
    columns: int = 3,
    dark: bool = False,
) -> Figure:
    """Precision, recall and F1 by threshold, and below how many labels a row is given; one panel a model.

    Args:
        curves: By the name of the model: (values, targets), both (N, K), or what `count_curve` gave.
        marked: By the name of the model, its rule: a "threshold" to be drawn, None where the rule has no single one,
            and a "label", such as the name of the rule.
        columns: The most panels in a row.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_thresholds
        >>> values, targets = torch.rand(200, 5), torch.randint(2, (200, 5))
        >>> figure = draw_thresholds({"BCE": (values, targets)}, marked={"BCE": {"threshold": 0.5, "label": "half"}})
        >>> figure.axes[0].get_title()
        'BCE'
    """
    check_named("curves", OWNER, curves)
    check_known("marked", OWNER, marked or {}, curves)
    columns = check_whole("columns", OWNER, columns, low=1)
    read = {name: read_curve(f"curves[{name!r}]", OWNER, given) for name, given in curves.items()}
    marks = {name: read_mark(f"marked[{name!r}]", given) for name, given in (marked or {}).items()}
    look = look_of(dark=dark)
    figure, pairs = new_pairs(len(read), columns)
    for place, ((name, curve), (top, bottom)) in enumerate(zip(read.items(), pairs, strict=True)):
        draw_panel(top, bottom, curve, marks.get(name), look)
        top.set_title(name, fontsize=10)
        first = place % columns == 0
        top.set_ylabel("%" if first else "", fontsize=9)
        bottom.set_ylabel("labels a row" if first else "", fontsize=9)
    figure.align_ylabels()
    return dress(figure, look)


def read_mark(argument: str, given: Any) -> Mark:
    """The threshold of a rule."""
    if not isinstance(given, Mapping):
        raise refusal(argument, OWNER, "be a mapping", type(given).__name__, REMEDY)
    threshold = given.get("threshold")
    label = str(given.get("label") or "chosen")
    return Mark(None if threshold is None else read_numbers(f"{argument}['threshold']", OWNER, [threshold])[0], label)


def new_pairs(count: int, columns: int) -> tuple[Figure, list[tuple[Any, Any]]]:
    """A figure with room for curves and, below them, for the number of labels in each panel."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = new_figure(7.0 if count == 1 else 4.0 * columns + 0.4, 4.2 * rows + 0.2)
    grid = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=(2.6, 1) * rows)
    pairs = [(grid[2 * row, column], grid[2 * row + 1, column]) for row in range(rows) for column in range(columns)]
    for axis in (axis for pair in pairs[count:] for axis in pair):
        axis.set_axis_off()
    for top, bottom in pairs[:count]:
        top.sharex(bottom)
        top.tick_params(labelbottom=False, labelsize=8)
        bottom.tick_params(labelsize=8)
        bottom.set_xlabel("threshold", fontsize=9)
    return figure, pairs[:count]


def draw_panel(top: Any, bottom: Any, curve: Curve, mark: Mark | None, look: Look) -> None:
    """The three curves of one model above, the number of labels below, and the threshold of its rule through both."""
    for place, (name, row) in enumerate((("precision", curve.precision), ("recall", curve.recall), ("F1", curve.f1))):
        style = style_of(place, look)
        shares = [100 * share for share in row]
        top.plot(curve.thresholds, shares, color=style.colour, ls=style.line, lw=1.6, label=name, zorder=3)
    best = max(range(len(curve.f1)), key=curve.f1.__getitem__)
    style = style_of(2, look)
    at, height = curve.thresholds[best], 100 * curve.f1[best]
    label = f"best F1 {height:.1f} % at {at:.2f}"
    top.plot(at, height, color=style.colour, marker=style.mark, mec=look.ink, ms=7, ls="none", label=label, zorder=4)
    bottom.plot(curve.thresholds, curve.given, color=look.ink, lw=1.4, zorder=3)
    there = labels_there(curve)
    if there:
        bottom.axhline(there, color=look.faint, lw=1, ls="--", zorder=2)
        patch = {"facecolor": look.face, "edgecolor": "none", "pad": 0.6}
        where = {"xytext": (-3, 0), "textcoords": "offset points", "ha": "right", "va": "center", "zorder": 4}
        at_end = (1, there)
        words = f"{there:.2g} are there"
        bottom.annotate(
            words, at_end, xycoords=bottom.get_yaxis_transform(), color=look.ink, fontsize=7, bbox=patch, **where
        )
    if mark is not None and mark.threshold is not None:
        label = in_legend(f"{mark.label}, {mark.threshold:.2f}")
        top.axvline(mark.threshold, ymax=1 / ROOM, color=look.ink, lw=1.6, ls=":", label=label, zorder=4)
        bottom.axvline(mark.threshold, color=look.ink, lw=1.6, ls=":", zorder=4)
    elif mark is not None:
        top.plot([], [], ls="none", label=in_legend(f"{mark.label}: no single threshold"))
    finish(top, bottom, curve)


def labels_there(curve: Curve) -> float:
    """How many labels a row has in the mean: given times precision is what was found, of which recall is a share."""
    return curve.given[0] * curve.precision[0] / curve.recall[0] if curve.recall[0] else 0.0


def finish(top: Any, bottom: Any, curve: Curve) -> None:
    """Limits, grid and legend of one model."""
    low, high = curve.thresholds[0], curve.thresholds[-1]
    if low >= 0 and high <= 1:
        bottom.set_xlim(-0.01, 1.01)
    top.set_ylim(0, 100 * ROOM)
    top.set_yticks(range(0, 101, 20))
    # Nearly all labels are given at a low threshold, beside which the differences that matter would be flat.
    bottom.set_yscale("log")
    bottom.set_ylim(FEWEST_GIVEN, max(2 * curve.given[0], 10 * FEWEST_GIVEN))
    bottom.yaxis.set_major_formatter("{x:g}")
    for axis in (top, bottom):
        axis.grid(True)
    top.legend(loc="upper center", fontsize=7.5, ncols=2, handlelength=2.4, columnspacing=1.2, numpoints=1)
