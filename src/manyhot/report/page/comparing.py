"""Several runs or tables side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from manyhot.evaluation.names import NAMES
from manyhot.report.frontier import draw_frontier
from manyhot.report.intervals import draw_intervals
from manyhot.report.looks import drawn_names
from manyhot.report.page.gathering import Subject
from manyhot.report.page.pieces import Drawing, Section
from manyhot.report.reliability import draw_reliability

# What is drawn, and whether more is better.
FIGURES = {"map": True, "micro_f": True, "log_loss_per_row": False, "ece": False}
FRONTIER = ("ece", "map")


def comparison(subjects: Sequence[Subject]) -> Section | None:
    """Figures with intervals, who is best in two of them, and all reliability curves in one panel."""
    if len(subjects) < 2:
        return None
    names = drawn_names([subject.name for subject in subjects])
    rows = {name: spans(subject) for name, subject in zip(names, subjects, strict=True)}
    shown = [figure for figure in FIGURES if any(figure in row for row in rows.values())]
    percent = [figure for figure in shown if NAMES[figure].percent]
    titles = {figure: NAMES[figure].title for figure in shown}
    drawings = [
        Drawing(
            "comparison",
            "Values with their 95 % intervals, where these were computed.",
            f"Figures of {len(rows)} models. {in_words(rows, titles)}.",
            lambda dark: draw_intervals(rows, figures=shown, percent=percent, titles=titles, dark=dark),
        )
    ]
    both = {name: row for name, row in rows.items() if all(figure in row for figure in FRONTIER)}
    if len(both) > 1:
        drawings.append(frontier(both, titles))
    readable = {name: subject for name, subject in zip(names, subjects, strict=True) if subject.probs is not None}
    if len(readable) > 1:
        drawings.append(overlaid(readable))
    return Section("comparison", "Comparison", alike(subjects), drawings=drawings)


def spans(subject: Subject) -> dict[str, Any]:
    """The figures that are compared, each with its interval where there is one."""
    found: dict[str, Any] = {}
    values, intervals = subject.evaluation.values, subject.evaluation.intervals
    for figure in FIGURES:
        value = values.get(figure)
        if value is None or value != value:
            continue
        ends = intervals.get(figure)
        known = ends is not None and ends.low <= value <= ends.high
        found[figure] = ends if known else value
    return found


def in_words(rows: dict[str, dict[str, Any]], titles: dict[str, str]) -> str:
    """The best of each figure."""
    told = []
    for figure, title in titles.items():
        known = {name: getattr(row[figure], "value", row[figure]) for name, row in rows.items() if figure in row}
        best = (max if FIGURES[figure] else min)(known, key=known.__getitem__)
        unit = f"{100 * known[best]:.1f} %" if NAMES[figure].percent else f"{known[best]:.3g}"
        told.append(f"best {title}: {best}, {unit}")
    return "; ".join(told)


def frontier(rows: dict[str, dict[str, Any]], titles: dict[str, str]) -> Drawing:
    """Ranking against honesty."""
    x, y = FRONTIER
    caption = "Ranking against honesty: filled marks are beaten by no other in both."
    alt = f"{titles[y]} against {titles[x]} of {len(rows)} models."
    return Drawing(
        "frontier",
        caption,
        alt,
        lambda dark: draw_frontier(rows, x, y, higher=(y,), percent=FRONTIER, titles=titles, dark=dark),
    )


def overlaid(subjects: dict[str, Subject]) -> Drawing:
    """The reliability of all subjects in one panel."""
    curves = {name: (subject.probs, subject.targets) for name, subject in subjects.items()}
    errors = "; ".join(f"{name}: ECE {100 * one.evaluation['ece']:.1f} %" for name, one in subjects.items())
    return Drawing(
        "comparison-reliability",
        "Promised against observed frequency of all models.",
        f"Reliability of all models. {errors}.",
        lambda dark: draw_reliability(curves, overlay=True, dark=dark),
    )


def by_id(subject: Subject) -> tuple[list[str], Tensor]:
    """The ids of the judged rows in their order, and the targets in the same one."""
    ids = list(subject.table.ids)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    return [ids[place] for place in order], subject.targets.long()[order]


def alike(subjects: Sequence[Subject]) -> list[str]:
    """Whether the figures may be held against each other."""
    first = subjects[0]
    if any(subject.labels != first.labels for subject in subjects):
        return ["The models do not have the same labels, so that their figures mean different things."]
    orders = [by_id(subject) for subject in subjects]
    if any(ids != orders[0][0] for ids, _ in orders):
        return ["The models were not judged on the same rows, so that part of a difference may be due to the rows."]
    if any(not torch.equal(targets, orders[0][1]) for _, targets in orders):
        return ["The models were not judged by the same truth: rows of the same id differ in their true labels."]
    return [
        "All were judged on the same rows of the same labels. What is hard for one is often hard for the others, so "
        "that differences are surer than the intervals, each of one model alone, suggest."
    ]
