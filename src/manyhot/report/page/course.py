"""How the training went: losses and figures by epoch, and the normaliser of the quasibinary loss by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from manyhot.report.history import PANELS, columns_of, draw_history
from manyhot.report.looks import drawn_names
from manyhot.report.normaliser import draw_normaliser
from manyhot.report.page.gathering import Subject
from manyhot.report.page.pieces import Drawing, Section
from manyhot.training.run import METRICS

Course = dict[str, Any]


def history(subjects: Sequence[Subject]) -> Section | None:
    """Training loss and validation figures by epoch."""
    courses = {
        name: course_of(subject)
        for name, subject in zip(drawn_names([one.name for one in subjects]), subjects, strict=True)
    }
    courses = {name: course for name, course in courses.items() if len(course.get("epoch", ())) > 1}
    if not courses:
        return None
    caption = "By epoch. The validation rows are not trained on."
    if any("kept" in course for course in courses.values()):
        caption += " A mark shows the epoch whose weights were kept."
    drawing = Drawing(
        "training",
        caption,
        f"Training by epoch. {'; '.join(in_words(name, course) for name, course in courses.items())}.",
        lambda dark: draw_history(courses, dark=dark),
    )
    return Section("training", "Training", drawings=[drawing])


def course_of(subject: Subject) -> Course:
    """The columns of a run's log that are drawn, and the epoch whose weights were kept, where that was written down."""
    run = subject.run
    if run is None or not (run.folder / METRICS).is_file():
        return {}
    course: Course = columns_of(run.history)
    if "best epoch" in run.figures and course.get("epoch"):
        # Without validation rows the last weights are kept.
        course["kept"] = run.figures["best epoch"] or course["epoch"][-1]
    return course


def in_words(name: str, course: Course) -> str:
    """The first and the last value of each figure."""
    parts = [
        f"{title} from {known[0]:.3g} to {known[-1]:.3g}"
        for column, title in PANELS.items()
        if (known := [value for value in course.get(column, ()) if value is not None])
    ]
    kept = f", of which epoch {course['kept']:.0f} was kept" if "kept" in course else ""
    return f"{name}, {len(course['epoch'])} epochs{kept}: {', '.join(parts)}"


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
        "settle; where the average stays away from the value of all rows, probabilities by it would be off; the "
        "classifier reads scores by the value of all rows (the mark)."
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
