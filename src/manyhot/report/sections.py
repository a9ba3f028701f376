"""The sections of the report, in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from manyhot.decide import AverageK
from manyhot.evaluation.catalog import (
    GROUP_TITLES,
    METRIC_INFO,
    METRICS_BY_GROUP,
    format_value,
    metric_info,
    metric_title,
)
from manyhot.evaluation.result import Evaluation, Value
from manyhot.links import SoftmaxLink
from manyhot.metrics import RetrievalCurve
from manyhot.predictions.predictions import sample_rows
from manyhot.report.blocks import Figure, Header, RowGroup, Section, Table
from manyhot.report.curves import (
    count_curve,
    count_pairs,
    count_scores,
    count_sizes,
    count_zero_labels,
    f1_score,
    label_curves,
)
from manyhot.report.examples import image_sections
from manyhot.report.findings import count_noun, describe_probs, describe_results, format_share, mean_size
from manyhot.report.plots import (
    draw_precision_recall,
    draw_reliability,
    draw_scores,
    draw_set_sizes,
    draw_thresholds,
    draw_zero_labels,
)
from manyhot.report.plots_compare import (
    HISTORY_COLUMNS,
    cluster_order,
    draw_co_occurrence,
    draw_frontier,
    draw_history,
    draw_intervals,
    draw_normaliser,
    draw_retrieval,
    parse_log,
)
from manyhot.report.results import HALF, THRESHOLD_TOLERANCE, ModelResults
from manyhot.report.style import plot_label, plot_labels
from manyhot.training.run import CONFIG, METRICS

# Metrics that are left out if they have this value.
DEFAULT_VALUES = {"coverage": 1.0}


def make_header(models: Sequence[ModelResults]) -> Header:
    """The head of the page."""
    if len(models) > 1:
        same = dict.fromkeys(map(describe_rows, models))
        if len(same) == 1:
            facts_of_each = [(one.name, describe_model(one)) for one in models]
            return Header(f"{len(models)} models compared", f"Evaluated on {next(iter(same))}.", facts_of_each)
        lead = "Evaluated on different rows, so that part of a difference may be due to the rows."
        result = [(one.name, f"{describe_model(one)}, evaluated on {describe_rows(one)}") for one in models]
        return Header(f"{len(models)} models compared", lead, result)
    (model,) = models
    what = "a trained classifier" if model.run is not None else "a table of predictions"
    return Header(model.name, f"Report on {what}, evaluated on {describe_rows(model)}.", model_facts(model))


def describe_model(model: ModelResults) -> str:
    """What a model is, in a few words."""
    return "a table of predictions" if model.run is None else str(model.run.config.get("loss"))


def describe_rows(model: ModelResults) -> str:
    """Which rows were evaluated, in words."""
    drawn = "" if len(model.table) == model.rows else ", drawn at random"
    labels = count_noun(len(model.labels), "label")
    return f"{count_rows(model)}{drawn}{describe_split(model)}, with {labels}"


def count_rows(model: ModelResults) -> str:
    """How many rows were evaluated, in words."""
    count, all_rows = len(model.table), count_noun(model.rows, model.noun)
    some = all_rows if count == model.rows else f"{count:,} of {all_rows}"
    return some if model.split is None else f"{some} of the split {model.split!r}"


def describe_split(model: ModelResults) -> str:
    """Whether a model has seen the rows that it is evaluated on, by the names of the splits."""
    if model.split is None:
        return describe_all_splits(model.table.split_sizes())
    known = {
        "test": ", none of them seen in training",
        "val": ", which it was tuned on (so that the figures are too rosy)",
        "train": ", which it was trained on (so that the figures are far too rosy)",
    }
    # In a table made elsewhere, the splits may have another meaning.
    unsure = {"val": ", which models are often tuned on (so that the figures may be too rosy)", "train": known["train"]}
    return (unsure if model.run is None else known).get(model.split, "")


def describe_all_splits(sizes: dict[str, int]) -> str:
    """The note that rows of all splits were evaluated together; empty for a table without splits."""
    if not sizes:
        return ""
    counts = ", ".join(f"{name} {count:,}" for name, count in sizes.items())
    warning = ": training rows are among them, so that the figures are too rosy" if "train" in sizes else ""
    return f" of all splits together ({counts}{warning})"


def model_facts(model: ModelResults) -> list[tuple[str, str]]:
    """Facts about the training and about the evaluated rows."""
    result = training_facts(model)
    table, counts = model.table, model.facts.counts()
    made_by = {"Link": table.link, "Calibrator": table.calibrator}
    result += [(name, type(part).__name__) for name, part in made_by.items() if part is not None]
    result += [] if table.rule is None else [("Rule", repr(table.rule))]
    sizes = f"{mean_size(model.targets):.2f} on average, at most {model.facts.most}"
    result.append((f"Labels per {model.noun}", sizes))
    for name, description in (
        ("rows without labels", f"{model.noun.capitalize()}s without labels"),
        ("rows without known cells", f"{model.noun.capitalize()}s without known labels"),
        ("unknown cells", "Unknown cells"),
        ("labels without positives", "Labels without positives"),
    ):
        if counts[name]:
            result.append((description, f"{counts[name]:,}"))
    return result


def training_facts(model: ModelResults) -> list[tuple[str, str]]:
    """What a run was trained with and on; nothing for a table."""
    if model.run is None:
        return []
    config, figures = model.run.config, model.run.figures
    what = {"Loss": "loss", "Backbone": "backbone", "Trained": "tune"}
    description = {"head": "the head, on frozen features", "all": "all of the network"}
    result = [(name, str(config[key])) for name, key in what.items() if config.get(key) is not None]
    result = [(name, description.get(text, text) if name == "Trained" else text) for name, text in result]
    rows = ", ".join(f"{name} {count:,}" for name, count in figures["rows"].items())
    result += [("Rows", rows), ("Training time", f"{figures['seconds']:.0f} s")]
    if figures["bad images"]:
        result.append(("Unreadable images", f"{len(figures['bad images']):,}, left out"))
    return result


def summary_section(models: Sequence[ModelResults]) -> Section:
    """The figures with their intervals, and what they say."""
    first, notes = models[0], []
    small = [(model, model.evaluation.too_small) for model in models if model.evaluation.too_small]
    if small:
        names = [f"{model.name}: " if len(models) > 1 else "" for model, _ in small]
        return Section("summary", "Summary", [f"{name}{why}" for name, (_, why) in zip(names, small, strict=True)])
    if any(model.evaluation.level is None for model in models):
        notes.append(
            "Intervals are left out, because drawing so many rows again takes long: manyhot evaluate --intervals 0.95."
        )
    else:
        notes.append(
            "Intervals: 95 of 100 such intervals hold the value that endlessly many rows of this kind would give. "
            "Training again is not in them."
        )
    if len(models) > 1:
        grids = [comparison_table(models)]
        findings = [f"{model.name}: {line}" for model in models for line in islice(describe_probs(model), 1)]
        return Section("summary", "Summary", notes, findings, tables=grids)
    groups = first.evaluation.groups.items()
    notes += [f"{GROUP_TITLES[name]}: {note}" for name, group in groups for note in group.notes if not group.values]
    return Section(
        "summary", "Summary", notes, describe_results(first), tables=[headline_table(first), full_table(first)]
    )


def headline_table(model: ModelResults) -> Table:
    """What people look at first, with the values before calibration where there was one."""
    before = model.evaluation_before
    head = ["figure", "value, 95 % interval", *(["before calibration"] if before else [])]
    groups = []
    for name, group in model.evaluation.groups.items():
        rows = [
            [metric_title(key), format_cell(key, value), *value_before(before, name, key)]
            for key, value in group.values.items()
            if metric_info(key).help and DEFAULT_VALUES.get(key) != value.value
        ]
        if rows:
            groups.append(RowGroup(GROUP_TITLES[name], rows))
    return Table(f"Figures of {count_rows(model)}", head, groups, notes=metric_notes(model.noun))


def value_before(before: Evaluation | None, group: str, key: str) -> list[str]:
    """A value before calibration, where calibration could change it; decisions were made after it."""
    if before is None:
        return []
    changes = group in ("probabilities", "ranking") or key in ("mmc", "no_label_auroc")
    return [format_value(key, before.values.get(key)) if changes else ""]


def metric_notes(noun: str) -> dict[str, str]:
    """What the figures say, by their titles."""
    return {info.title: info.help.format(noun=noun) for info in METRIC_INFO.values() if info.help}


def format_interval(key: str, value: Value) -> str:
    """The interval of a value, for people."""
    result = value.interval
    if result is None or result.low != result.low:
        return ""
    low, high = format_value(key, result.low), format_value(key, result.high)
    return f"{low.removesuffix(' %')} to {high}"


def full_table(model: ModelResults) -> Table:
    """All values, for those who look for another one."""
    groups = [
        RowGroup(
            GROUP_TITLES[name],
            [
                [metric_title(key), format_value(key, value.value), format_interval(key, value)]
                for key, value in group.values.items()
            ],
        )
        for name, group in model.evaluation.groups.items()
        if group.values
    ]
    return Table("All figures", ["figure", "value", "95 % interval"], groups, folded=True)


def comparison_table(models: Sequence[ModelResults]) -> Table:
    """One column a subject, with the intervals below the values."""
    groups = []
    names = dict.fromkeys(name for model in models for name in model.evaluation.groups)
    for name in names:
        rows = []
        for key in [key for key, info in METRICS_BY_GROUP[name].items() if info.help]:
            values = [
                model.evaluation.groups[name].values.get(key) if name in model.evaluation.groups else None
                for model in models
            ]
            if any(value is not None and DEFAULT_VALUES.get(key) != value.value for value in values):
                rows.append([metric_title(key), *(format_cell(key, value) for value in values)])
        if rows:
            groups.append(RowGroup(GROUP_TITLES[name], rows))
    head = ["figure", *(model.name for model in models)]
    return Table("Figures of each model", head, groups, notes=metric_notes(models[0].noun))


def format_cell(key: str, value: Value | None) -> str:
    """A value, and below it its interval."""
    if value is None:
        return "–"
    ends = format_interval(key, value)
    return f"{format_value(key, value.value)}\n{ends}" if ends else format_value(key, value.value)


# What is drawn.
COMPARED_METRICS = ("map", "micro_f", "log_loss_per_row", "ece")
FRONTIER_METRICS = ("ece", "map")


def comparison_section(models: Sequence[ModelResults]) -> Section | None:
    """Figures with intervals, who is best in two of them, and all reliability curves in one panel."""
    if len(models) < 2:
        return None
    names = plot_labels([model.name for model in models])
    rows = {name: metric_spans(model) for name, model in zip(names, models, strict=True)}
    metrics = [figure for figure in COMPARED_METRICS if any(figure in row for row in rows.values())]
    percent = [figure for figure in metrics if METRIC_INFO[figure].percent]
    titles = {figure: METRIC_INFO[figure].title for figure in metrics}
    figures = [
        Figure(
            "comparison",
            "Values with their 95 % intervals, where these were computed.",
            f"Figures of {len(rows)} models. {describe_best(rows, titles)}.",
            lambda dark: draw_intervals(rows, figures=metrics, percent=percent, titles=titles, dark=dark),
        )
    ]
    both = {name: row for name, row in rows.items() if all(figure in row for figure in FRONTIER_METRICS)}
    if len(both) > 1:
        figures.append(frontier_figure(both, titles))
    readable = {name: model for name, model in zip(names, models, strict=True) if model.probs is not None}
    if len(readable) > 1:
        figures.append(overlaid_reliability(readable))
    return Section("comparison", "Comparison", describe_comparability(models), plots=figures)


def metric_spans(model: ModelResults) -> dict[str, Any]:
    """The figures that are compared, each with its interval where there is one."""
    result: dict[str, Any] = {}
    values, intervals = model.evaluation.values, model.evaluation.intervals
    for figure in COMPARED_METRICS:
        value = values.get(figure)
        if value is None or value != value:
            continue
        ends = intervals.get(figure)
        known = ends is not None and ends.low <= value <= ends.high
        result[figure] = ends if known else value
    return result


def describe_best(rows: dict[str, dict[str, Any]], titles: dict[str, str]) -> str:
    """The best of each figure."""
    parts = []
    for figure, title in titles.items():
        known = {name: getattr(row[figure], "value", row[figure]) for name, row in rows.items() if figure in row}
        best = (max if METRIC_INFO[figure].higher_is_better else min)(known, key=known.__getitem__)
        parts.append(f"best {title}: {best}, {format_value(figure, known[best])}")
    return "; ".join(parts)


def frontier_figure(rows: dict[str, dict[str, Any]], titles: dict[str, str]) -> Figure:
    """Ranking against honesty."""
    x, y = FRONTIER_METRICS
    higher = [figure for figure in FRONTIER_METRICS if METRIC_INFO[figure].higher_is_better]
    caption = "Ranking against honesty: filled marks are beaten by no other in both."
    alt = f"{titles[y]} against {titles[x]} of {len(rows)} models."
    return Figure(
        "frontier",
        caption,
        alt,
        lambda dark: draw_frontier(rows, x, y, higher=higher, percent=FRONTIER_METRICS, titles=titles, dark=dark),
    )


def overlaid_reliability(models: dict[str, ModelResults]) -> Figure:
    """The reliability of all models in one panel."""
    curves = {name: model.evaluation.groups["probabilities"].details for name, model in models.items()}
    errors = "; ".join(f"{name}: ECE {format_value('ece', one.evaluation['ece'])}" for name, one in models.items())
    return Figure(
        "comparison-reliability",
        "Predicted against observed frequency of all models.",
        f"Reliability of all models. {errors}.",
        lambda dark: draw_reliability(curves, overlay=True, dark=dark),
    )


def sorted_by_id(model: ModelResults) -> tuple[list[str], Tensor]:
    """The ids of the evaluated rows in sorted order, and the targets in the same order."""
    ids = list(model.table.ids)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    return [ids[index] for index in order], model.targets.long()[order]


def describe_comparability(models: Sequence[ModelResults]) -> list[str]:
    """Whether the figures are comparable, in words."""
    first = models[0]
    if any(model.labels != first.labels for model in models):
        return ["The models do not have the same labels, so that their figures mean different things."]
    orders = [sorted_by_id(model) for model in models]
    if any(ids != orders[0][0] for ids, _ in orders):
        return ["The models were not evaluated on the same rows, so that part of a difference may be due to the rows."]
    if any(not torch.equal(targets, orders[0][1]) for _, targets in orders):
        return [
            "The models were not evaluated with the same targets: rows with the same id have different true labels."
        ]
    return [
        "All were evaluated on the same rows and labels. Their errors are correlated, so that differences are more "
        "certain than the intervals of the single models suggest."
    ]


# Labels with a panel of their own: the worst ones; more would be slow to draw.
MAX_LABEL_PANELS = 6
PANEL_COLUMNS = 3
RELIABILITY_BINS = 15


def reliability_section(models: Sequence[ModelResults]) -> Section | None:
    """Predicted against observed frequency."""
    included = [model for model in models if model.probs is not None]
    if not included:
        intro = "Left out: these scores are no probabilities until they are calibrated."
        return Section("reliability", "Reliability", [intro])
    intro = (
        "Of the cells with a probability of 70 %, 70 % should be present: points on the diagonal are calibrated, "
        "points below it are overconfident."
    )
    labels = [one for one in map(label_reliability, included[:1]) if one is not None]
    return Section("reliability", "Reliability", [intro], plots=[overall_reliability(included), *labels])


def overall_reliability(models: Sequence[ModelResults]) -> Figure:
    """All cells together, one panel per model."""
    names = plot_labels([model.name for model in models])
    groups = [
        {way: evaluation.groups["probabilities"] for way, evaluation in model.evaluations_by_reading.items()}
        for model in models
    ]
    curves = {
        name: {way: group.details for way, group in by_reading.items()}
        for name, by_reading in zip(names, groups, strict=True)
    }
    errors = "; ".join(
        f"{model.name}, {way}: calibration error {format_value('ece', group['ece'])}"
        for model, by_reading in zip(models, groups, strict=True)
        for way, group in by_reading.items()
    )
    alt = f"Reliability diagram of all cells. {errors}."
    caption = "All cells: predicted against observed frequency with 95 % intervals; below, the number of cells."
    return Figure("reliability", caption, alt, lambda dark: draw_reliability(curves, dark=dark))


def label_reliability(model: ModelResults) -> Figure | None:
    """The worst calibrated labels, one panel each; None if there is only one label."""
    if len(model.labels) < 2 or not bool((model.targets > 0).any()):
        return None
    curves = label_curves(
        model.readings, model.targets, plot_labels(model.labels), most=MAX_LABEL_PANELS, bins=RELIABILITY_BINS
    )
    alt = f"Reliability diagrams of {len(curves)} labels: {', '.join(curves)}."
    caption = (
        f"Single labels of {model.name} (with their numbers of positives), the worst calibrated first. "
        "With few cells the points vary by chance; the bars show how much."
    )
    return Figure(
        "reliability-of-labels",
        caption,
        alt,
        lambda dark: draw_reliability(curves, columns=PANEL_COLUMNS, fewest=5, dark=dark),
    )


def threshold_section(models: Sequence[ModelResults]) -> Section | None:
    """Precision and recall at every threshold, with what was chosen."""
    included = [model for model in models if bool((model.targets > 0).any())]
    if not included:
        return Section("thresholds", "Precision and recall", ["Left out: no label is present in the evaluated rows."])
    names = plot_labels([model.name for model in included])
    curves = {name: count_curve(one.ranked, one.targets) for name, one in zip(names, included, strict=True)}
    points = {
        name: point for name, one in zip(names, included, strict=True) if (point := operating_point(one)) is not None
    }
    marks = {
        name: {"threshold": one.threshold, "label": plot_label(one.rule)}
        for name, one in zip(names, included, strict=True)
        if one.decision is not None
    }
    reached = "; ".join(
        describe_curve(one, curves[name], points.get(name)) for name, one in zip(names, included, strict=True)
    )
    intro = (
        "A lower threshold finds more labels and gives more wrong ones. Lines show one threshold for all labels; the "
        "mark is what was chosen, which may have no single threshold."
    )
    first = Figure(
        "precision-recall",
        "Precision against recall of all cells, with lines of equal F1.",
        f"Precision against recall. {reached}.",
        lambda dark: draw_precision_recall(curves, marked=points, dark=dark),
    )
    best = "; ".join(describe_best_f1(name, curve) for name, curve in curves.items())
    second = Figure(
        "thresholds",
        "Precision, recall and F1 by threshold, and how many labels would be predicted.",
        f"Precision, recall and F1 by threshold. {best}.",
        lambda dark: draw_thresholds(curves, marked=marks, dark=dark),
    )
    return Section("thresholds", "Precision and recall", [intro], plots=[first, second])


def operating_point(model: ModelResults) -> dict[str, Any] | None:
    """Precision and recall of the decisions; None if they are undefined."""
    values = model.evaluation.values
    precision, recall = values.get("micro_precision"), values.get("micro_recall")
    if precision is None or recall is None or precision != precision or recall != recall:
        return None
    return {"precision": precision, "recall": recall, "label": plot_label(model.rule)}


def describe_curve(model: ModelResults, curve: dict[str, Any], point: dict[str, Any] | None) -> str:
    """A curve and its mark in words."""
    text = f"{model.name}: average precision {format_share(curve['ap'])}"
    if point is None:
        return text
    return f"{text}, chosen precision {format_share(point['precision'])} at recall {format_share(point['recall'])}"


def describe_best_f1(name: str, curve: dict[str, Any]) -> str:
    """The best F1 that one threshold reaches, in words."""
    indices = range(len(curve["thresholds"]))
    f1s = [f1_score(curve["precision"][index], curve["recall"][index]) for index in indices]
    best = max(indices, key=f1s.__getitem__)
    return f"{name}: F1 is best, {format_share(f1s[best])}, at {curve['thresholds'][best]:.2f}"


def score_section(models: Sequence[ModelResults]) -> Section | None:
    """Scores of present against those of absent labels."""
    included = [model for model in models if bool((model.targets > 0).any())]
    if not included:
        return None
    counted = {}
    for name, one in zip(plot_labels([one.name for one in included]), included, strict=True):
        per = "row" if one.facts.single_label else "cell"
        counted[name] = count_scores(one.values, one.targets, per=per, learned=score_of_one_half(one))
    caption = "Scores of present and of absent labels."
    if any(result["learned"] is not None for result in counted.values()):
        caption += " The dotted line is the score with a probability of one half."
    intro = ["The less the two overlap, the better one threshold serves all."]
    if any(result["per"] == "row" for result in counted.values()):
        intro.append("With one label per row, the solid line is the threshold with the most exact matches.")
    middles = "; ".join(describe_medians(one, result) for one, result in zip(included, counted.values(), strict=True))
    figure = Figure(
        "scores",
        caption,
        f"Distributions of the scores of present and of absent labels. {middles}.",
        lambda dark: draw_scores(counted, dotted="one half at", dark=dark),
    )
    return Section("scores", "Scores of present and absent labels", intro, plots=[figure])


def describe_medians(model: ModelResults, counted: dict[str, Any]) -> str:
    """The medians of both kinds of scores, and the best threshold where there is one, in words."""
    sides = {"present": model.values[model.targets > 0], "absent": model.values[model.targets == 0]}
    medians = [f"median of {name} labels {float(side.median()):.2f}" for name, side in sides.items() if len(side)]
    best = [] if counted["best"] is None else [f"best threshold {counted['best']:.2f}"]
    return f"{model.name}: {', '.join(medians + best)}"


def score_of_one_half(model: ModelResults) -> float | None:
    """The score that means a probability of one half; None where it depends on the label or on the other scores."""
    table = model.table
    if table.calibrator is not None or (table.scores is not None and table.probs is not None):
        return None if model.probs is None else crossing(model.values, model.probs)
    if table.scores is None:
        return 0.5
    if table.link is None or not table.link.gives_probs or isinstance(table.link, SoftmaxLink):
        return None
    result = table.link.scores(torch.full((1, len(model.labels)), 0.5)).flatten()
    return float(result[0]) if bool((result == result[0]).all()) and bool(result[0].isfinite()) else None


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
    result = probs[finite].double()[order]
    rises = result.diff()
    one_map = bool((rises >= -THRESHOLD_TOLERANCE).all()) and bool(
        (rises[values.diff() == 0].abs() <= THRESHOLD_TOLERANCE).all()
    )
    below = int((result < HALF).sum())
    if not one_map or not 0 < below < len(result):
        return None
    left, right = below - 1, below
    share = (HALF - result[left]) / (result[right] - result[left])
    return float(values[left] + share * (values[right] - values[left]))


def set_size_section(models: Sequence[ModelResults]) -> Section | None:
    """How many labels rows are given, against how many they have, and what average-K would give."""
    included = [model for model in models if model.decision is not None and bool(model.answered.any())]
    if not included:
        return None
    predicted = {
        name: predicted_sizes(one)
        for name, one in zip(plot_labels([one.name for one in included]), included, strict=True)
    }
    true = {name: true_sizes(one) for name, one in zip(predicted, included, strict=True)}
    intro = ["The number of predicted labels should match the number of true labels: not only on average, but per row."]
    intro += describe_left_out(included)
    if len(models) == 1:
        (name,) = predicted
        predicted, true = {plot_label(included[0].rule): predicted[name]}, {plot_label(included[0].rule): true[name]}
        averaged = average_k_sizes(included[0])
        if averaged is not None:
            intro.append(
                "Average-K predicts as many labels as are true on average: more for ambiguous rows, fewer for others."
            )
            predicted |= averaged
            true |= dict.fromkeys(averaged, true_sizes(included[0]))
    panels = {
        name: {"given": {"counts": count_sizes(result)}, "true": {"counts": count_sizes(true[name])}}
        for name, result in predicted.items()
    }
    means = "; ".join(
        f"{name} predicts {mean_value(result):.2f} labels on average, {mean_value(true[name]):.2f} are true"
        for name, result in predicted.items()
    )
    figure = Figure(
        "set-sizes",
        "How many labels per row are predicted, and how many are true.",
        f"Histograms of the numbers of predicted and true labels per row. {means}.",
        lambda dark: draw_set_sizes(panels, dark=dark),
    )
    return Section("sizes", "Sizes of the sets", intro, plots=[figure])


def describe_left_out(models: Sequence[ModelResults]) -> list[str]:
    """Notes on rows or labels that are not counted."""
    result = []
    if not all(bool(model.answered.all()) for model in models):
        result.append("Rows without known labels, and those on which the rule abstains, are not counted.")
    if not all(bool((model.targets[model.answered] >= 0).all()) for model in models):
        result.append("Only known labels are counted, also among predicted ones.")
    return result


def predicted_sizes(model: ModelResults) -> torch.Tensor:
    """The number of known labels predicted for each answered row."""
    assert model.decision is not None
    return (model.decision.labels & (model.targets >= 0))[model.answered].sum(1)


def true_sizes(model: ModelResults) -> torch.Tensor:
    """The number of true labels of each answered row."""
    return (model.targets > 0)[model.answered].sum(1)


def mean_value(sizes: torch.Tensor) -> float:
    """The mean of whole numbers."""
    return float(sizes.double().mean())


def average_k_sizes(model: ModelResults) -> dict[str, torch.Tensor] | None:
    """The sizes of the sets of `AverageK` with the mean number of true labels, by the name of the rule."""
    targets, ranked = model.targets[model.answered], model.ranked[model.answered]
    size = round(mean_size(targets), 1)
    if not size or not bool((targets >= 0).all()):
        # With unknown cells the rule would count predictions that cannot be checked.
        return None
    rule = AverageK(size).fit(ranked)
    return {repr(rule): rule(ranked).sizes}


History = dict[str, Any]


def history_section(models: Sequence[ModelResults]) -> Section | None:
    """Training loss and validation figures by epoch."""
    courses = {
        name: training_history(model)
        for name, model in zip(plot_labels([one.name for one in models]), models, strict=True)
    }
    courses = {name: course for name, course in courses.items() if len(course.get("epoch", ())) > 1}
    if not courses:
        return None
    caption = "By epoch. The validation rows are not trained on."
    if any("kept" in course for course in courses.values()):
        caption += " A mark shows the epoch whose weights were kept."
    figure = Figure(
        "training",
        caption,
        f"Training by epoch. {'; '.join(describe_training(name, course) for name, course in courses.items())}.",
        lambda dark: draw_history(courses, dark=dark),
    )
    return Section("training", "Training", plots=[figure])


def training_history(model: ModelResults) -> History:
    """The columns of a run's log that are drawn, and the epoch whose weights were kept, where that was written down."""
    run = model.run
    if run is None or not (run.folder / METRICS).is_file():
        return {}
    course: History = parse_log(run.history)
    if "best epoch" in run.figures and course.get("epoch"):
        # Without validation rows the last weights are kept.
        course["kept"] = run.figures["best epoch"] or course["epoch"][-1]
    return course


def describe_training(name: str, course: History) -> str:
    """The first and the last value of each figure."""
    parts = [
        f"{title} from {known[0]:.3g} to {known[-1]:.3g}"
        for column, title in HISTORY_COLUMNS.items()
        if (known := [value for value in course.get(column, ()) if value is not None])
    ]
    best_text = f", of which epoch {course['kept']:.0f} was kept" if "kept" in course else ""
    return f"{name}, {len(course['epoch'])} epochs{best_text}: {', '.join(parts)}"


def normaliser_section(models: Sequence[ModelResults]) -> Section | None:
    """How the normaliser of the quasibinary loss settled."""
    traces: dict[str, Any] = {}
    for name, model in zip(plot_labels([one.name for one in models]), models, strict=True):
        trace = None if model.run is None else model.run.normaliser
        if trace is not None:
            traces[name] = trace
    if not traces:
        return None
    intro = (
        "The quasibinary loss divides by one number C for all labels and rows, which it learns as it goes. It should "
        "settle; where the average stays away from the value of all rows, probabilities by it would be off; the "
        "classifier reads scores by the value of all rows (the mark)."
    )
    ends = "; ".join(
        f"{name}: log C ends at {last_value(trace):.2f} after {trace['steps'][-1]:,.0f} steps"
        for name, trace in traces.items()
    )
    figure = Figure(
        "normaliser",
        "The logarithm of C by step.",
        f"Normaliser by step. {ends}.",
        lambda dark: draw_normaliser(traces, dark=dark),
    )
    return Section("normaliser", "The normaliser of the quasibinary loss", [intro], plots=[figure])


def last_value(trace: Mapping[str, Any]) -> float:
    """The last value of the moving average, or of the batches."""
    column = trace.get("average") or trace.get("batch") or [math.nan]
    known = [value for value in column if value is not None]
    return float(known[-1]) if known else math.nan


# Labels of a heat map, and rows of a table that is not collapsed.
HEATMAP_LABELS, MAX_OPEN_ROWS = 20, 25
# A longer table would be unreadable on a page.
MAX_TABLE_ROWS = 1000


def co_occurrence_section(models: Sequence[ModelResults]) -> Section | None:
    """Which labels occur together: true, and predicted."""
    model = models[0]
    if len(model.labels) < 2 or model.facts.most < 2:
        return None
    names = plot_labels(model.labels)
    tables = {"true": model.targets}
    intro = ["Each row of a plot shows which share of the samples with its label have the label of the column as well."]
    if model.decision is not None and bool((model.targets > 0)[model.answered].any()):
        # The same rows and known cells, so that the two are comparable.
        true = model.targets[model.answered]
        predicted = model.decision.labels[model.answered] & (true >= 0)
        tables = {"true": true, "given": predicted.to(true.dtype)}
        intro += ["Predicted labels should look like true ones.", *describe_left_out([model])]
    # The most frequent true labels, clustered; in the same order in both plots.
    frequent = count_pairs(tables["true"], most=HEATMAP_LABELS)
    order = [frequent["labels"][index] for index in cluster_order(frequent["together"])]
    order = [label for label in order if bool((tables["true"][:, label] > 0).any())]
    figures = []
    for kind, table in tables.items():
        pairs = count_pairs(table[:, order], most=len(order))
        counts = {"labels": [order[index] for index in pairs["labels"]], "together": pairs["together"]}
        if any(counts["together"][index][index] for index in range(len(order))):
            figures.append(pairs_figure(kind, counts, names, model.labels, order))
    if len(model.labels) > HEATMAP_LABELS:
        intro.append(f"The {HEATMAP_LABELS} most frequent of {len(model.labels):,} labels.")
    if len(models) > 1:
        intro.append(f"Those of {model.name}.")
    return Section("together", "Labels that occur together", intro, plots=figures)


def pairs_figure(kind: str, counts: dict[str, Any], names: list[str], plain: list[str], order: list[int]) -> Figure:
    """The heat map of the true or of the predicted labels."""
    pairs = [
        (both / row[a], a, b)
        for a, row in enumerate(counts["together"])
        for b, both in enumerate(row)
        if a != b and row[a] >= 5
    ]
    top = sorted(pairs, reverse=True)[:3]
    label_names = [plain[column] for column in counts["labels"]]
    top_text = "; ".join(f"{format_share(share)} of {label_names[a]} have {label_names[b]}" for share, a, b in top)
    caption = {"true": "True labels.", "given": "Predicted labels."}[kind]
    alt = f"Heat map of which labels occur together, {kind}. {top_text}."
    key = f"co-occurrence-{kind}"
    return Figure(key, caption, alt, lambda dark: draw_co_occurrence(counts, names=names, order=order, dark=dark))


def label_section(models: Sequence[ModelResults]) -> Section:
    """A table of all labels, one for each model."""
    grids = [label_table(model, several=len(models) > 1) for model in models]
    intro = ["AP: how well rows with the label rank above those without it. ECE: how far its probabilities are off."]
    return Section("labels", "All labels", intro, tables=grids)


def label_table(model: ModelResults, *, several: bool) -> Table:
    """The values of each label, the most frequent first."""
    table = model.evaluation.by_label()
    present = table.columns["present"].tolist()
    order = sorted(range(len(table)), key=lambda label: (-present[label], label))[:MAX_TABLE_ROWS]
    rows = list(table.rows())
    # Labels as they are: the page escapes them, and no terminal prints them.
    ordered_rows = [[model.labels[label], *rows[label][1:]] for label in order]
    caption = f"{len(ordered_rows):,} labels" + (f" of {model.name}" if several else "")
    if len(ordered_rows) < len(table):
        caption = f"The {len(ordered_rows):,} most frequent of {len(table):,} labels"
    folded = several or len(ordered_rows) > MAX_OPEN_ROWS
    return Table(caption, table.head(), [RowGroup("", ordered_rows)], folded=folded)


# The most labels of a query, and how many queries of each kind are drawn.
MAX_QUERY_LENGTH, QUERIES_PER_KIND = 4, 60
# Rows that queries are evaluated on; more would not narrow the intervals much.
MAX_SEARCH_ROWS = 20_000


def no_label_section(models: Sequence[ModelResults]) -> Section | None:
    """The confidence on rows without labels, against the others."""
    groups: dict[str, Any] = {}
    rows = []
    for name, model in zip(plot_labels([one.name for one in models]), models, strict=True):
        if model.probs is None or not model.facts.empty_rows or not model.facts.labelled_rows:
            continue
        # The area is that of the evaluation, which breaks ties of probabilities by scores.
        counts = count_zero_labels(model.probs, model.targets) | {"auroc": model.evaluation["no_label_auroc"]}
        groups[name] = counts
        rows.append([model.name, *(format_share(counts[key]) for key in ("mmc_in", "mmc_out", "auroc"))])
    if not groups:
        return None
    intro = (
        "A good model has low confidence on rows without labels. MMC is the mean of the largest "
        "probability of each row; AUROC the chance that a row with labels has the larger one."
    )
    description = "; ".join(f"{row[0]}: mean {row[1]} with labels, {row[2]} without, AUROC {row[3]}" for row in rows)
    figure = Figure(
        "no-labels",
        "The largest probability of each row, with labels (IN) and without (OUT).",
        f"Histograms of the largest probability of rows with and without labels. {description}.",
        lambda dark: draw_zero_labels(groups, dark=dark),
    )
    head = ["model", "MMC with labels", "MMC without labels", "AUROC"]
    table = Table("Rows with and without labels", head, [RowGroup("", rows)])
    return Section("no-labels", "Rows without labels", [intro], plots=[figure], tables=[table])


def search_section(models: Sequence[ModelResults]) -> Section | None:
    """Retrieval by queries for present and absent labels."""
    curves: dict[str, Any] = {}
    for name, model in zip(plot_labels([one.name for one in models]), models, strict=True):
        odds = ranking_log_odds(model)
        if odds is None or len(model.labels) < 2 or not model.facts.labelled_rows:
            continue
        some = sample_rows(len(odds), MAX_SEARCH_ROWS)
        most = min(MAX_QUERY_LENGTH, len(model.labels))
        metric_result = RetrievalCurve(most, each=QUERIES_PER_KIND).update(odds[some], model.targets[some]).compute()
        if metric_result["map"] == metric_result["map"]:
            curves[name] = {"map": metric_result["map"]} | {
                key: nan_to_none(metric_result.details[key]) for key in ("by_length", "low", "high")
            }
    if not curves:
        return None
    intro = (
        "Queries such as “dog and sofa, but not cat”, ranked by their probability. The more labels a query names, the "
        "harder it is to put its matches first. Queries are drawn at random; the bars show the effect."
    )
    description = "; ".join(f"{name}: {format_share(curve['map'])} over all" for name, curve in curves.items())
    figure = Figure(
        "search",
        "Mean average precision of queries by the number of labels that they name.",
        f"Mean average precision by the length of queries. {description}.",
        lambda dark: draw_retrieval(curves, dark=dark),
    )
    return Section("search", "Search", [intro], plots=[figure])


def ranking_log_odds(model: ModelResults) -> Tensor | None:
    """The log-odds that queries are ranked by; None without probabilities."""
    table = model.table
    if model.probs is None:
        return None
    if table.calibrator is None and table.scores is not None and table.link is not None and table.link.gives_probs:
        with torch.no_grad():
            return table.link.log_odds(table.scores).cpu()
    return torch.logit(model.probs.double())


def nan_to_none(values: Tensor) -> list[float | None]:
    """Values for a figure; None where no query had a match."""
    return [None if value != value else value for value in values.tolist()]


SectionBuilder = Callable[[Sequence[ModelResults]], Section | None]
# In this order after the images; each returns None where it does not apply.
SECTIONS: tuple[SectionBuilder, ...] = (
    reliability_section,
    threshold_section,
    score_section,
    set_size_section,
    normaliser_section,
    history_section,
    co_occurrence_section,
    label_section,
    no_label_section,
    search_section,
)
# Those about the training, not about the evaluated rows.
TRAINING_SECTIONS: tuple[SectionBuilder, ...] = (normaliser_section, history_section)


def all_sections(models: Sequence[ModelResults], *, images: bool) -> list[Section]:
    """All sections: the summary, the comparison, single images, and the others.

    With too few rows, sections that evaluate are left out.
    """
    small = any(model.evaluation.too_small for model in models)
    sections: list[Section | None] = [summary_section(models), None if small else comparison_section(models)]
    sections += image_sections(models, images=images)
    sections += [part(models) for part in SECTIONS if not small or part in TRAINING_SECTIONS]
    sections.append(settings_section(models))
    return [section for section in sections if section is not None]


def settings_section(models: Sequence[ModelResults]) -> Section | None:
    """The settings files of the runs."""
    code = {
        f"{CONFIG} of {model.name}": (model.run.folder / CONFIG).read_text(encoding="utf-8")
        for model in models
        if model.run is not None
    }
    return Section("settings", "Settings", code=code) if code else None
