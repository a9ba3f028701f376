"""How the training went: losses and figures by epoch, and the normaliser of the quasibinary loss by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from manyhot.report.looks import dress, look_of, new_panels, style_of
from manyhot.report.normaliser import draw_normaliser
from manyhot.report.page.gathering import Subject
from manyhot.report.page.pieces import Drawing, Section, drawn_names
from manyhot.training.run import METRICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Columns of the log that are drawn, and what stands above them.
PANELS = {
    "train loss": "training loss",
    "mAP": "mAP of the validation rows",
    "log loss": "log loss of the validation rows",
}
Course = dict[str, list[float]]


def history(subjects: Sequence[Subject]) -> Section | None:
    """Training loss and validation figures by epoch."""
    courses = {
        name: course_of(subject)
        for name, subject in zip(drawn_names([one.name for one in subjects]), subjects, strict=True)
    }
    courses = {name: course for name, course in courses.items() if len(course.get("epoch", ())) > 1}
    if not courses:
        return None
    drawing = Drawing(
        "training",
        "By epoch. The validation rows are not trained on; a filled mark shows the best epoch.",
        f"Training by epoch. {'; '.join(in_words(name, course) for name, course in courses.items())}.",
        lambda dark: draw_history(courses, dark=dark),
    )
    return Section("training", "Training", drawings=[drawing])


def course_of(subject: Subject) -> Course:
    """The columns of a run's log that are numbers; NaN where nothing was measured."""
    if subject.run is None or not (subject.run.folder / METRICS).is_file():
        return {}
    rows = subject.run.history
    wanted = [name for name in ("epoch", *PANELS) if rows and name in rows[0]]
    return {name: [float(row[name]) if row[name] else math.nan for row in rows] for name in wanted}


def best_place(name: str, values: Sequence[float]) -> int | None:
    """Where a figure is best; None where there is none."""
    known = [place for place, value in enumerate(values) if math.isfinite(value)]
    if not known:
        return None
    return (max if name == "mAP" else min)(known, key=values.__getitem__)


def in_words(name: str, course: Course) -> str:
    """The first and the last value of each figure."""
    parts = [
        f"{title} from {course[column][0]:.3g} to {course[column][-1]:.3g}"
        for column, title in PANELS.items()
        if column in course
    ]
    return f"{name}, {len(course['epoch'])} epochs: {', '.join(parts)}"


def draw_history(courses: Mapping[str, Course], *, dark: bool = False) -> Figure:
    """Losses and figures by epoch, one panel a figure, one line a run; losses of several runs cannot be compared."""
    shown = [name for name in PANELS if any(name in course for course in courses.values())]
    if len(courses) > 1:
        shown = [name for name in shown if name != "train loss"] or shown
    look = look_of(dark=dark)
    figure, axes = new_panels(len(shown), columns=3, width=3.4, height=2.4)
    for axis, column in zip(axes, shown, strict=True):
        for place, (name, course) in enumerate(courses.items()):
            if column in course:
                draw_line(axis, name, course["epoch"], course[column], column, style_of(place, look), look)
        axis.set_title(PANELS[column], fontsize=9)
        axis.locator_params(axis="x", integer=True, nbins=6)
        axis.tick_params(labelsize=8)
        axis.grid(True)
    figure.supxlabel("epoch", fontsize=9)
    if len(courses) > 1:
        axes[-1].legend(fontsize=7.5, handlelength=2.4)
    return dress(figure, look)


def draw_line(
    axis: Any, name: str, epochs: list[float], values: list[float], column: str, style: Any, look: Any
) -> None:
    """One figure of one run, its best epoch marked; the training loss always falls, so that it has none."""
    axis.plot(epochs, values, color=style.colour, ls=style.line, lw=1.6, label=name)
    best = None if column == "train loss" else best_place(column, values)
    if best is not None:
        axis.plot(epochs[best], values[best], marker=style.mark, ms=6, color=style.colour, mec=look.ink, ls="none")


def normaliser(subjects: Sequence[Subject]) -> Section | None:
    """How the normaliser of the quasibinary loss settled."""
    traces: dict[str, Any] = {}
    for name, subject in zip(drawn_names([one.name for one in subjects]), subjects, strict=True):
        trace = None if subject.run is None else subject.run.normaliser
        if trace is not None:
            traces[name] = trace
    if not traces:
        return None
    words = (
        "The quasibinary loss divides by one number C for all labels and rows, which it learns as it goes. It should "
        "settle; where the average stays away from the value of all rows, probabilities are off by that factor."
    )
    ends = "; ".join(
        f"{name}: log C ends at {last(trace):.2f} after {trace['steps'][-1]:,.0f} steps"
        for name, trace in traces.items()
    )
    drawing = Drawing(
        "normaliser",
        "The logarithm of C by step.",
        f"Normaliser by step. {ends}.",
        lambda dark: draw_normaliser(traces, dark=dark),
    )
    return Section("normaliser", "The normaliser of the quasibinary loss", [words], drawings=[drawing])


def last(trace: Mapping[str, Any]) -> float:
    """The last value of the moving average, or of the batches."""
    column = trace.get("average") or trace.get("batch") or [math.nan]
    known = [value for value in column if value is not None]
    return float(known[-1]) if known else math.nan
