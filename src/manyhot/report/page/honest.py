"""Whether promises are kept: reliability before and after calibration, over all cells and of single labels."""

from __future__ import annotations

from collections.abc import Sequence

from manyhot.evaluation.names import shown
from manyhot.metrics import CalibrationError
from manyhot.report.labels import label_curves
from manyhot.report.looks import drawn_names
from manyhot.report.page.gathering import Subject
from manyhot.report.page.pieces import Drawing, Section
from manyhot.report.reliability import draw_reliability

# Labels with a panel of their own: the worst ones; more would take long to draw and say little.
LABELS = 6
COLUMNS = 3
BINS = 15


def reliability(subjects: Sequence[Subject]) -> Section | None:
    """Promised against observed frequency."""
    told = [subject for subject in subjects if subject.probs is not None]
    if not told:
        words = "Left out: these scores mean no probabilities until they are calibrated."
        return Section("reliability", "Do promises come true?", [words])
    words = (
        "Of the cells that are promised 70 %, 70 % should be there: points on the diagonal keep their promise, points "
        "below it promise too much."
    )
    labels = [one for one in map(of_labels, told[:1]) if one is not None]
    return Section("reliability", "Do promises come true?", [words], drawings=[over_all(told), *labels])


def over_all(subjects: Sequence[Subject]) -> Drawing:
    """All cells together, one panel a subject."""
    names = drawn_names([subject.name for subject in subjects])
    curves = {
        name: {
            way: CalibrationError(BINS).update(probs, subject.targets).compute()
            for way, probs in subject.readings.items()
        }
        for name, subject in zip(names, subjects, strict=True)
    }
    errors = "; ".join(
        f"{subject.name}, {way}: calibration error {shown('ece', one['ece'])}"
        for subject, found in zip(subjects, curves.values(), strict=True)
        for way, one in found.items()
    )
    alt = f"Reliability diagram of all cells. {errors}."
    caption = (
        "All cells: promised against observed frequency with 95 % intervals; below, how many cells stand behind it."
    )
    return Drawing("reliability", caption, alt, lambda dark: draw_reliability(curves, dark=dark))


def of_labels(subject: Subject) -> Drawing | None:
    """The labels whose promises are kept worst, a panel each; nothing where there is but one label."""
    if len(subject.labels) < 2 or not bool((subject.targets > 0).any()):
        return None
    curves = label_curves(subject.readings, subject.targets, drawn_names(subject.labels), most=LABELS, bins=BINS)
    alt = f"Reliability diagrams of {len(curves)} labels: {', '.join(curves)}."
    caption = (
        f"Single labels of {subject.name} (how often each is there), those that are off the most first. "
        "With few cells a label wavers by chance; the bars say how much."
    )
    return Drawing(
        "reliability-of-labels",
        caption,
        alt,
        lambda dark: draw_reliability(curves, columns=COLUMNS, fewest=5, dark=dark),
    )
