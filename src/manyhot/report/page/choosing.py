"""What is given at which threshold: precision and recall, scores of present and absent labels, sizes of sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from manyhot.decide import AverageK
from manyhot.links import NoLink, SoftmaxLink
from manyhot.report.curves import count_curve, f1_of
from manyhot.report.looks import drawn_name, drawn_names
from manyhot.report.page.gathering import HALF, ROUNDING, Subject
from manyhot.report.page.pieces import Drawing, Section
from manyhot.report.page.shares import percent
from manyhot.report.page.words import mean_size
from manyhot.report.precision_recall import draw_precision_recall
from manyhot.report.scores import count_scores, draw_scores
from manyhot.report.set_sizes import count_sizes, draw_set_sizes
from manyhot.report.thresholds import draw_thresholds


def thresholds(subjects: Sequence[Subject]) -> Section | None:
    """Precision and recall at every threshold, with what was chosen."""
    told = [subject for subject in subjects if bool((subject.targets > 0).any())]
    if not told:
        return Section("thresholds", "Precision and recall", ["Left out: no label is present in the judged rows."])
    names = drawn_names([subject.name for subject in told])
    curves = {name: count_curve(one.ranked, one.targets) for name, one in zip(names, told, strict=True)}
    points = {name: point for name, one in zip(names, told, strict=True) if (point := point_of(one)) is not None}
    marks = {
        name: {"threshold": one.threshold, "label": drawn_name(one.rule)}
        for name, one in zip(names, told, strict=True)
        if one.decision is not None
    }
    reached = "; ".join(in_numbers(one, curves[name], points.get(name)) for name, one in zip(names, told, strict=True))
    words = (
        "A lower threshold finds more labels and gives more wrong ones. Lines show one threshold for all labels; the "
        "mark is what was chosen, which may have no single threshold."
    )
    first = Drawing(
        "precision-recall",
        "Precision against recall of all cells, with lines of equal F1.",
        f"Precision against recall. {reached}.",
        lambda dark: draw_precision_recall(curves, marked=points, dark=dark),
    )
    second = Drawing(
        "thresholds",
        "Precision, recall and F1 by threshold, and how many labels would be given.",
        f"Precision, recall and F1 by threshold. {'; '.join(best_of(name, curve) for name, curve in curves.items())}.",
        lambda dark: draw_thresholds(curves, marked=marks, dark=dark),
    )
    return Section("thresholds", "Precision and recall", [words], drawings=[first, second])


def point_of(subject: Subject) -> dict[str, Any] | None:
    """Where the decisions stand; None where there are none, or none that precision can be told of."""
    values = subject.evaluation.values
    precision, recall = values.get("micro_precision"), values.get("micro_recall")
    if precision is None or recall is None or precision != precision or recall != recall:
        return None
    return {"precision": precision, "recall": recall, "label": drawn_name(subject.rule)}


def in_numbers(subject: Subject, curve: dict[str, Any], point: dict[str, Any] | None) -> str:
    """A curve and its mark in words."""
    text = f"{subject.name}: average precision {percent(curve['ap'])}"
    if point is None:
        return text
    return f"{text}, chosen precision {percent(point['precision'])} at recall {percent(point['recall'])}"


def best_of(name: str, curve: dict[str, Any]) -> str:
    """The best F1 that one threshold reaches, in words."""
    places = range(len(curve["thresholds"]))
    f1s = [f1_of(curve["precision"][place], curve["recall"][place]) for place in places]
    best = max(places, key=f1s.__getitem__)
    return f"{name}: F1 is best, {percent(f1s[best])}, at {curve['thresholds'][best]:.2f}"


def scores(subjects: Sequence[Subject]) -> Section | None:
    """Scores of labels that are there against those of the others."""
    told = [subject for subject in subjects if bool((subject.targets > 0).any())]
    if not told:
        return None
    counted = {}
    for name, one in zip(drawn_names([one.name for one in told]), told, strict=True):
        per = "row" if one.facts.single_label else "cell"
        counted[name] = count_scores(one.values, one.targets, per=per, learned=half(one))
    caption = "Scores of labels that are there and of labels that are not."
    if any(found["learned"] is not None for found in counted.values()):
        caption += " The dotted line is the score that means a probability of one half."
    words = ["The less the two overlap, the better one threshold serves all."]
    if any(found["per"] == "row" for found in counted.values()):
        words.append("With one label a row, the solid line is the threshold at which the most rows are wholly right.")
    middles = "; ".join(in_the_middle(one, found) for one, found in zip(told, counted.values(), strict=True))
    drawing = Drawing(
        "scores",
        caption,
        f"Distributions of the scores of present and of absent labels. {middles}.",
        lambda dark: draw_scores(counted, dotted="one half at", dark=dark),
    )
    return Section("scores", "Scores of present and absent labels", words, drawings=[drawing])


def in_the_middle(subject: Subject, counted: dict[str, Any]) -> str:
    """The medians of both kinds of scores, and the best threshold where there is one, in words."""
    sides = {"present": subject.values[subject.targets > 0], "absent": subject.values[subject.targets == 0]}
    medians = [f"median of {name} labels {float(side.median()):.2f}" for name, side in sides.items() if len(side)]
    best = [] if counted["best"] is None else [f"best threshold {counted['best']:.2f}"]
    return f"{subject.name}: {', '.join(medians + best)}"


def half(subject: Subject) -> float | None:
    """The score that means a probability of one half; None where it depends on the label or on the other scores."""
    table = subject.table
    if table.calibrator is not None or (table.scores is not None and table.probs is not None):
        return None if subject.probs is None else crossing(subject.values, subject.probs)
    if table.scores is None:
        return 0.5
    if table.link is None or isinstance(table.link, NoLink | SoftmaxLink):
        return None
    found = table.link.scores(torch.full((1, len(subject.labels)), 0.5)).flatten()
    return float(found[0]) if bool((found == found[0]).all()) and bool(found[0].isfinite()) else None


def crossing(scores: torch.Tensor, probs: torch.Tensor) -> float | None:
    """Where probabilities reach one half; None where they never do, or no single map of scores gives all of them.

    Example:
        >>> crossing(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([[0.0, 0.25, 0.75]]))
        2.0
        >>> crossing(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([[0.4, 0.1, 0.6]])) is None
        True
    """
    finite = scores.isfinite()
    values, order = scores[finite].double().sort(stable=True)
    found = probs[finite].double()[order]
    rises = found.diff()
    one_map = bool((rises >= -ROUNDING).all()) and bool((rises[values.diff() == 0].abs() <= ROUNDING).all())
    below = int((found < HALF).sum())
    if not one_map or not 0 < below < len(found):
        return None
    left, right = below - 1, below
    share = (HALF - found[left]) / (found[right] - found[left])
    return float(values[left] + share * (values[right] - values[left]))


def sizes(subjects: Sequence[Subject]) -> Section | None:
    """How many labels rows are given, against how many they have, and what average-K would give."""
    told = [subject for subject in subjects if subject.decision is not None and bool(subject.answered.any())]
    if not told:
        return None
    given = {name: sizes_given(one) for name, one in zip(drawn_names([one.name for one in told]), told, strict=True)}
    true = {name: sizes_true(one) for name, one in zip(given, told, strict=True)}
    words = ["Rows should be given as many labels as they have: not only on average, but each of them."]
    words += left_out(told)
    if len(subjects) == 1:
        (name,) = given
        given, true = {drawn_name(told[0].rule): given[name]}, {drawn_name(told[0].rule): true[name]}
        averaged = average_k(told[0])
        if averaged is not None:
            words.append(
                "Average-K gives as many labels as are true on average: more where it is unclear, fewer where plain."
            )
            given |= averaged
            true |= dict.fromkeys(averaged, sizes_true(told[0]))
    panels = {
        name: {"given": {"counts": count_sizes(found)}, "true": {"counts": count_sizes(true[name])}}
        for name, found in given.items()
    }
    means = "; ".join(
        f"{name} gives {mean_of(found):.2f} labels on average, {mean_of(true[name]):.2f} are true"
        for name, found in given.items()
    )
    drawing = Drawing(
        "set-sizes",
        "How many labels rows are given, and how many they have.",
        f"Histograms of how many labels a row is given and has. {means}.",
        lambda dark: draw_set_sizes(panels, dark=dark),
    )
    return Section("sizes", "Sizes of the sets", words, drawings=[drawing])


def left_out(subjects: Sequence[Subject]) -> list[str]:
    """That some rows or labels are not counted, where it is so."""
    found = []
    if not all(bool(subject.answered.all()) for subject in subjects):
        found.append("Rows of which nothing is known, and those left to a person, are not counted.")
    if not all(bool((subject.targets[subject.answered] >= 0).all()) for subject in subjects):
        found.append("Only labels whose truth is known are counted, of those that are given as well.")
    return found


def sizes_given(subject: Subject) -> torch.Tensor:
    """How many labels each answered row is given, of those whose truth is known."""
    assert subject.decision is not None
    return (subject.decision.labels & (subject.targets >= 0))[subject.answered].sum(1)


def sizes_true(subject: Subject) -> torch.Tensor:
    """How many labels each answered row has."""
    return (subject.targets > 0)[subject.answered].sum(1)


def mean_of(sizes: torch.Tensor) -> float:
    """The mean of whole numbers."""
    return float(sizes.double().mean())


def average_k(subject: Subject) -> dict[str, torch.Tensor] | None:
    """The sizes of the sets of the rule that gives as many labels as are true on average, by its name."""
    targets, ranked = subject.targets[subject.answered], subject.ranked[subject.answered]
    size = round(mean_size(targets), 1)
    if not size or not bool((targets >= 0).all()):
        # With unknown cells the rule would count some that nobody can hold against the truth.
        return None
    rule = AverageK(size).fit(ranked)
    return {repr(rule): rule(ranked).sizes}
