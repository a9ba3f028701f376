"""How a training went: its losses and figures by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from manyhot.refusal import refusal
from manyhot.report.looks import Look, Style, dress, in_legend, look_of, new_panels, style_of
from manyhot.report.reading import check_keys, check_named, listed, read_numbers, read_same

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWNER = "draw_history"
REMEDY = 'Pass what `Run.history` gives, or {"epoch": [1, 2], "mAP": [0.4, 0.5], "kept": 2}.'
# Columns of the log that are drawn, and what stands above them.
PANELS = {
    "train loss": "training loss",
    "mAP": "mAP of the validation rows",
    "log loss per row": "log loss per row, validation",
    "log loss": "log loss per cell, validation",  # of runs from before it was per row
}


def draw_history(courses: Mapping[str, Any], *, dark: bool = False) -> Figure:
    """Losses and figures by epoch, one panel a figure, one line a run, a mark at the epoch whose weights were kept.

    Training losses of several runs are left out where there is something else: they may be of different kinds.

    Args:
        courses: By the name of the run, what `Run.history` gives; or lists of the same length, "epoch" and at least
            one of "train loss", "mAP" and "log loss per row", None or NaN where nothing was measured, and where it is
            known the epoch whose weights were "kept".
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_history
        >>> course = {"epoch": [1, 2, 3], "train loss": [0.9, 0.6, 0.5], "mAP": [0.3, 0.5, 0.4], "kept": 2}
        >>> [axis.get_title() for axis in draw_history({"BCE": course}).axes]
        ['training loss', 'mAP of the validation rows']
    """
    check_named("courses", OWNER, courses)
    read = {name: read_course(f"courses[{name!r}]", course) for name, course in courses.items()}
    shown = [column for column in PANELS if any(column in course for course in read.values())]
    if len(read) > 1:
        shown = [column for column in shown if column != "train loss"] or shown
    look = look_of(dark=dark)
    figure, axes = new_panels(len(shown), columns=3, width=3.4, height=2.4)
    for axis, column in zip(axes, shown, strict=True):
        for place, course in enumerate(read.values()):
            if column in course:
                draw_line(axis, course, column, style_of(place, look), look)
        axis.set_title(PANELS[column], fontsize=9)
        axis.set_xlabel("epoch", fontsize=9)
        axis.locator_params(axis="x", integer=True, nbins=6)
        axis.tick_params(labelsize=8)
        axis.grid(True)
    if len(read) > 1:
        explain(figure, list(read), look)
    return dress(figure, look)


def read_course(argument: str, course: Any) -> dict[str, list[float]]:
    """The columns of one run, as numbers."""
    if isinstance(course, list | tuple):
        course = columns_of(course)
    if not isinstance(course, Mapping):
        raise refusal(argument, OWNER, "be a log or a mapping of lists", type(course).__name__, REMEDY)
    check_keys(argument, OWNER, course, ("epoch",), REMEDY)
    if not any(column in course for column in PANELS):
        raise refusal(argument, OWNER, f"have one of {listed(list(PANELS))}", "none of them", REMEDY)
    epochs = read_numbers(f"{argument}['epoch']", OWNER, course["epoch"])
    read = {"epoch": epochs}
    for column in PANELS:
        if course.get(column) is not None:
            read[column] = read_numbers(f"{argument}[{column!r}]", OWNER, course[column], gaps=True)
            read_same(f"{argument}[{column!r}]", OWNER, read[column], len(epochs))
    if course.get("kept") is not None:
        read["kept"] = read_numbers(f"{argument}['kept']", OWNER, [course["kept"]])
    return read


def columns_of(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The columns of a log, the rows of which hold numbers as texts, empty where nothing was measured.

    Example:
        >>> from manyhot.report.history import columns_of
        >>> columns_of([{"epoch": "1", "mAP": ""}, {"epoch": "2", "mAP": "0.5"}])
        {'epoch': [1.0, 2.0], 'mAP': [None, 0.5]}
    """
    wanted = [column for column in ("epoch", *PANELS) if rows and column in rows[0]]
    return {column: [float(row[column]) if row[column] else None for row in rows] for column in wanted}


def draw_line(axis: Any, course: Mapping[str, list[float]], column: str, style: Style, look: Look) -> None:
    """One figure of one run, with a mark at the epoch that was kept."""
    epochs, values = course["epoch"], course[column]
    axis.plot(epochs, values, color=style.colour, ls=style.line, lw=1.6)
    at = [(epoch, value) for epoch, value in zip(epochs, values, strict=True) if [epoch] == course.get("kept")]
    for epoch, value in at:
        axis.plot(epoch, value, marker=style.mark, ms=6, color=style.colour, mec=look.ink, ls="none")


def explain(figure: Figure, names: Sequence[str], look: Look) -> None:
    """Which line is which run, below all panels: a run may be missing in some of them."""
    from matplotlib.lines import Line2D

    styles = [style_of(place, look) for place in range(len(names))]
    handles = [
        Line2D([], [], color=style.colour, ls=style.line, marker=style.mark, ms=5, lw=1.6, label=in_legend(name))
        for style, name in zip(styles, names, strict=True)
    ]
    columns = min(len(handles), 4)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=7.5, handlelength=2.8)
