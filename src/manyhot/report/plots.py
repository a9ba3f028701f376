"""Plots of one or several models: reliability, precision and recall, thresholds, scores, set sizes, empty rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.errors import InputError, owned
from manyhot.report.curves import (
    RELIABILITY_KEYS,
    SCORE_TITLES,
    SIDE_TITLES,
    ReliabilityCurve,
    ScoreHistogram,
    SetSizes,
    ThresholdCurve,
    ZeroLabelHistogram,
    _read_sizes,
    check_fractions,
    check_int,
    check_keys,
    check_mapping,
    check_names,
    read_curve,
    read_histogram,
    read_numbers,
    read_reliability,
    read_zero_labels,
    wilson_interval,
)
from manyhot.report.style import (
    Style,
    Theme,
    apply_theme,
    get_theme,
    legend_label,
    legend_placement,
    model_style,
    new_figure,
    new_panels,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERROR_TITLES = {"ece": "calibration error (ECE)", "ace": "calibration error (ACE)"}
# With more curves than this, the legend goes beside the panel.
MAX_CURVES_IN_LEGEND = 4


@owned("draw_reliability")
def draw_reliability(
    curves: Mapping[str, Any],
    *,
    bins: int = 15,
    fewest: int = 20,
    error: str = "ece",
    overlay: bool = False,
    columns: int = 4,
    dark: bool = False,
) -> Figure:
    """Predicted against observed frequency with 95 % intervals, and below the number of cells of each point.

    Points on the diagonal are calibrated; below it a model is overconfident. These are Wilson intervals, which treat
    cells as independent; labels of one sample are correlated, so that the true uncertainty is larger.

    Args:
        curves: By the name of the model: (probs, targets), both (N, K); or what `CalibrationError` computed; or a
            mapping with lists "cells", "mean_prob", "share_present" and, for bins of different width, "edges". A
            mapping of several of these by name draws them in one panel, such as readings before and after calibration.
        bins: The number of bins for probabilities; precomputed bins stay as they are.
        fewest: Points of fewer cells are left out, because chance dominates them.
        error: The error in the titles, "ece" (weighted by cells) or "ace" (mean over bins).
        overlay: Draws all in one panel instead of one panel per model.
        columns: At most this many panels side by side.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_reliability
        >>> probs = torch.rand(500, 4)
        >>> targets = (torch.rand(500, 4) < probs).int()
        >>> figure = draw_reliability({"before": (probs.square(), targets), "after": (probs, targets)})
        >>> figure.axes[0].get_title().splitlines()[0]
        'before'
    """
    columns = check_int("columns", columns, low=1)
    fewest = check_int("fewest", fewest, low=0)
    if error not in ERROR_TITLES:
        raise InputError(
            "error",
            rule=f"be one of {', '.join(map(repr, ERROR_TITLES))}",
            got=repr(error),
            hint="Pick one of these.",
        )
    panels = read_reliability_panels(check_mapping("curves", curves), bins, overlay)
    theme = get_theme(dark=dark)
    # The same reading has the same style in every panel.
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    styles = {name: model_style(index, theme) for index, name in enumerate(names)}
    most = max((cells for panel in panels.values() for curve in panel.values() for cells in curve.cells), default=1)
    figure, pairs = reliability_axes(len(panels), columns, most)
    for (title, panel), (top, bottom) in zip(panels.items(), pairs, strict=True):
        top.plot([0, 1], [0, 1], color=theme.faint, lw=1, zorder=1)
        for name, curve in panel.items():
            draw_reliability_curve(top, bottom, curve, styles[name], fewest, f"{name}: {curve.format_error(error)}")
        title_panel(top, title, panel, error)
    return apply_theme(figure, theme)


def read_reliability_panels(
    curves: Mapping[str, Any], bins: int, overlay: bool
) -> dict[str, dict[str, ReliabilityCurve]]:
    """The curves of each panel by title; a curve that is alone in its panel has no name."""
    panels: dict[str, dict[str, ReliabilityCurve]] = {}
    for title, value in curves.items():
        argument = f"curves[{title!r}]"
        if isinstance(value, Mapping) and not set(value) & set(RELIABILITY_KEYS):
            several = check_mapping(argument, value)
            panels[title] = {
                name: read_reliability(f"{argument}[{name!r}]", one, bins) for name, one in several.items()
            }
        else:
            panels[title] = {"": read_reliability(argument, value, bins)}
    if not overlay:
        return panels
    merged = {f"{title}, {name}" if name else title: one for title, few in panels.items() for name, one in few.items()}
    return {"": merged}


def reliability_axes(count: int, columns: int, most: int) -> tuple[Figure, list[tuple[Any, Any]]]:
    """A figure with two axes per panel: one for the curve and, below it, one for up to `most` cells."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    width, height = (7.0, 4.6) if count == 1 else (2.8 * columns + 0.6, 3.9 * rows + 0.3)
    figure = new_figure(width, height)
    axes_grid = figure.subplots(
        2 * rows, columns, sharex=True, sharey="row", squeeze=False, height_ratios=(3, 1) * rows
    )
    pairs = [
        (axes_grid[2 * row, column], axes_grid[2 * row + 1, column]) for row in range(rows) for column in range(columns)
    ]
    for axis in (axis for pair in pairs[count:] for axis in pair):
        axis.set_axis_off()
    for index, (top, bottom) in enumerate(pairs[:count]):
        first = index % columns == 0
        top.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel="observed share" if first else "")
        bottom.set(yscale="log", ylim=(0.7, 2 * max(most, 1)))
        bottom.set(xlabel="predicted probability", ylabel="cells" if first else "")
        bottom.xaxis.set_tick_params(labelbottom=True)
        for axis in (top, bottom):
            axis.tick_params(labelsize=8)
            axis.grid(True)
    figure.align_ylabels()
    return figure, pairs[:count]


def draw_reliability_curve(
    top: Any, bottom: Any, curve: ReliabilityCurve, style: Style, fewest: int, label: str
) -> None:
    """The points of one curve with enough cells, with their intervals; below, the cells of all points."""
    visible = [index for index, cells in enumerate(curve.cells) if cells >= max(fewest, 1)]
    observed = [curve.observed[index] for index in visible]
    ends = [wilson_interval(curve.observed[index], curve.cells[index]) for index in visible]
    top.errorbar(
        [curve.predicted[index] for index in visible],
        observed,
        [
            [max(share - low, 0) for share, (low, _) in zip(observed, ends, strict=True)],
            [max(high - share, 0) for share, (_, high) in zip(observed, ends, strict=True)],
        ],
        color=style.colour,
        marker=style.marker,
        ls=style.line,
        lw=1.4,
        ms=4.5,
        elinewidth=1,
        capsize=2,
        label=legend_label(label),
        zorder=3,
    )
    bottom.stairs(curve.cells, curve.edges, baseline=None, color=style.colour, ls=style.line, lw=1.4)


def title_panel(top: Any, title: str, panel: Mapping[str, ReliabilityCurve], error: str) -> None:
    """The title, and the error of each curve: below the title if there is one, else in a legend."""
    if list(panel) == [""]:
        top.set_title(f"{title}\n{error.upper()} {panel[''].format_error(error)}", fontsize=9)
        return
    if title:
        top.set_title(title, fontsize=10)
    small = {
        "fontsize": 7.5,
        "title_fontsize": 7.5,
        "alignment": "left",
        "handlelength": 2,
        "title": ERROR_TITLES[error],
    }
    top.legend(**small, **legend_placement(len(panel), MAX_CURVES_IN_LEGEND))


PRECISION_RECALL_HINT = 'Pass {"precision": ..., "recall": ..., "label": ...} of the decisions of a rule.'
# Lines on which F1 is the same.
F1_LEVELS = (0.2, 0.4, 0.6, 0.8)
# With more entries than this, the legend goes outside, beside the values of the levels.
MAX_ENTRIES_IN_LEGEND = 5
LEGEND_BESIDE_LEVELS: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.1, 1.0)}


class OperatingPoint(NamedTuple):
    """Precision and recall of a rule, in fractions, and its name."""

    precision: float
    recall: float
    label: str


@owned("draw_precision_recall")
def draw_precision_recall(
    curves: Mapping[str, Any], *, marked: Mapping[str, Mapping[str, Any]] | None = None, dark: bool = False
) -> Figure:
    """Precision against recall over all cells, one line per model, with lines of equal F1 and the points of rules.

    A line shows what one threshold for all labels can do. A rule with a threshold for each label, or with none at all,
    may lie above it.

    Args:
        curves: By the name of the model: (values, targets), both (N, K), or what `count_curve` returned.
        marked: By the name of the model, the result of its rule over all cells: "precision", "recall" and, for the
            legend, a "label" such as the name of the rule.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_precision_recall
        >>> values, targets = torch.rand(200, 5), torch.randint(2, (200, 5))
        >>> marked = {"BCE": {"precision": 0.6, "recall": 0.5, "label": "Threshold(0.5)"}}
        >>> draw_precision_recall({"BCE": (values + targets, targets)}, marked=marked).axes[0].get_xlabel()
        'recall %'
    """
    check_mapping("curves", curves)
    check_names("marked", marked or {}, curves)
    read = {name: read_curve(f"curves[{name!r}]", value) for name, value in curves.items()}
    points = {name: read_operating_point(f"marked[{name!r}]", value) for name, value in (marked or {}).items()}
    theme = get_theme(dark=dark)
    entries = len(read) + len(points)
    figure = new_figure(6.4 if entries <= MAX_ENTRIES_IN_LEGEND else 9.4, 4.8)
    axis = figure.subplots()
    draw_f1_levels(axis, theme)
    for index, (name, curve) in enumerate(read.items()):
        draw_precision_recall_curve(axis, name, curve, model_style(index, theme))
        if name in points:
            label = points[name].label if len(read) == 1 else f"{name}, {points[name].label}"
            draw_operating_point(axis, points[name]._replace(label=label), model_style(index, theme), theme)
    axis.set(xlim=(0, 100.5), ylim=(0, 100.5), xlabel="recall %", ylabel="precision %")
    axis.grid(True)
    where = {"loc": "best"} if entries <= MAX_ENTRIES_IN_LEGEND else LEGEND_BESIDE_LEVELS
    axis.legend(fontsize=8, handlelength=2.8, numpoints=1, **where)
    return apply_theme(figure, theme)


def read_operating_point(argument: str, value: Any) -> OperatingPoint:
    """The operating point of a rule, checked."""
    if not isinstance(value, Mapping):
        raise InputError(argument, rule="be a mapping", got=type(value).__name__, hint=PRECISION_RECALL_HINT)
    check_keys(argument, value, ("precision", "recall"), PRECISION_RECALL_HINT)
    precision, recall = (
        check_fractions(
            f"{argument}[{key!r}]",
            read_numbers(f"{argument}[{key!r}]", [value[key]]),
        )[0]
        for key in ("precision", "recall")
    )
    return OperatingPoint(precision, recall, str(value.get("label") or "chosen"))


def draw_f1_levels(axis: Any, theme: Theme) -> None:
    """Faint lines on which F1 is the same, each with its value at its end, where no curve runs across it."""
    for level in F1_LEVELS:
        # With full precision F1 reaches the level at this recall. It falls steeply from there: hence the squares.
        start = level / (2 - level)
        recall = [start + (1 - start) * (step / 100) ** 2 for step in range(101)]
        precision = [level * one / (2 * one - level) for one in recall]
        axis.plot([100 * one for one in recall], [100 * one for one in precision], color=theme.faint, lw=0.8, zorder=1)
        axis.text(101.5, 100 * start, f"F1 {100 * level:.0f} %", fontsize=7, color=theme.ink, va="center")


def draw_precision_recall_curve(axis: Any, name: str, curve: ThresholdCurve, style: Style) -> None:
    """The line of one model."""
    recall, precision = ([100 * one for one in row] for row in (curve.recall, curve.precision))
    label = name if math.isnan(curve.ap) else f"{name}, AP {100 * curve.ap:.1f} %"
    axis.plot(recall, precision, color=style.colour, ls=style.line, lw=1.8, label=legend_label(label), zorder=3)


def draw_operating_point(axis: Any, point: OperatingPoint, style: Style, theme: Theme) -> None:
    """The mark of a rule on the line of its model, or beside it."""
    axis.plot(
        100 * point.recall,
        100 * point.precision,
        color=style.colour,
        marker=style.marker,
        mec=theme.ink,
        mew=1,
        ms=9,
        ls="none",
        label=legend_label(point.label),
        zorder=4,
    )


THRESHOLDS_HINT = 'Pass {"threshold": 0.5, "label": ...}, or None as the threshold of a rule that has no single one.'
# The height of a panel relative to its curves, so that the legend hides none of them.
THRESHOLDS_HEADROOM = 1.36
# The lower limit of the axis: fewer labels per row than this would squeeze all else together.
MIN_PREDICTED = 0.05


class RuleThreshold(NamedTuple):
    """The threshold of a rule, None if it has no single one, and its name."""

    threshold: float | None
    label: str


@owned("draw_thresholds")
def draw_thresholds(
    curves: Mapping[str, Any],
    *,
    marked: Mapping[str, Mapping[str, Any]] | None = None,
    columns: int = 3,
    dark: bool = False,
) -> Figure:
    """Precision, recall and F1 by threshold, and below the number of predicted labels per row; one panel per model.

    Args:
        curves: By the name of the model: (values, targets), both (N, K), or what `count_curve` returned.
        marked: By the name of the model, its rule: a "threshold" to be drawn, None if the rule has no single one,
            and a "label", such as the name of the rule.
        columns: At most this many panels side by side.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_thresholds
        >>> values, targets = torch.rand(200, 5), torch.randint(2, (200, 5))
        >>> figure = draw_thresholds({"BCE": (values, targets)}, marked={"BCE": {"threshold": 0.5, "label": "half"}})
        >>> figure.axes[0].get_title()
        'BCE'
    """
    check_mapping("curves", curves)
    check_names("marked", marked or {}, curves)
    columns = check_int("columns", columns, low=1)
    read = {name: read_curve(f"curves[{name!r}]", value) for name, value in curves.items()}
    marks = {name: read_rule_threshold(f"marked[{name!r}]", value) for name, value in (marked or {}).items()}
    theme = get_theme(dark=dark)
    figure, pairs = threshold_axes(len(read), columns)
    for index, ((name, curve), (top, bottom)) in enumerate(zip(read.items(), pairs, strict=True)):
        draw_threshold_panel(top, bottom, curve, marks.get(name), theme)
        top.set_title(name, fontsize=10)
        first = index % columns == 0
        top.set_ylabel("%" if first else "", fontsize=9)
        bottom.set_ylabel("labels per row" if first else "", fontsize=9)
    figure.align_ylabels()
    return apply_theme(figure, theme)


def read_rule_threshold(argument: str, value: Any) -> RuleThreshold:
    """The threshold of a rule, checked."""
    if not isinstance(value, Mapping):
        raise InputError(argument, rule="be a mapping", got=type(value).__name__, hint=THRESHOLDS_HINT)
    threshold = value.get("threshold")
    label = str(value.get("label") or "chosen")
    return RuleThreshold(None if threshold is None else read_numbers(f"{argument}['threshold']", [threshold])[0], label)


def threshold_axes(count: int, columns: int) -> tuple[Figure, list[tuple[Any, Any]]]:
    """A figure with two axes per panel: one for curves and, below it, one for the number of labels."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = new_figure(7.0 if count == 1 else 4.0 * columns + 0.4, 4.2 * rows + 0.2)
    axes_grid = figure.subplots(2 * rows, columns, squeeze=False, height_ratios=(2.6, 1) * rows)
    pairs = [
        (axes_grid[2 * row, column], axes_grid[2 * row + 1, column]) for row in range(rows) for column in range(columns)
    ]
    for axis in (axis for pair in pairs[count:] for axis in pair):
        axis.set_axis_off()
    for top, bottom in pairs[:count]:
        top.sharex(bottom)
        top.tick_params(labelbottom=False, labelsize=8)
        bottom.tick_params(labelsize=8)
        bottom.set_xlabel("threshold", fontsize=9)
    return figure, pairs[:count]


def draw_threshold_panel(
    top: Any, bottom: Any, curve: ThresholdCurve, rule_threshold: RuleThreshold | None, theme: Theme
) -> None:
    """The three curves of one model above, the number of labels below, and the threshold of its rule through both."""
    for index, (name, row) in enumerate((("precision", curve.precision), ("recall", curve.recall), ("F1", curve.f1))):
        style = model_style(index, theme)
        shares = [100 * share for share in row]
        top.plot(curve.thresholds, shares, color=style.colour, ls=style.line, lw=1.6, label=name, zorder=3)
    best = max(range(len(curve.f1)), key=curve.f1.__getitem__)
    style = model_style(2, theme)
    at, height = curve.thresholds[best], 100 * curve.f1[best]
    label = f"best F1 {height:.1f} % at {at:.2f}"
    top.plot(at, height, color=style.colour, marker=style.marker, mec=theme.ink, ms=7, ls="none", label=label, zorder=4)
    bottom.plot(curve.thresholds, curve.given, color=theme.ink, lw=1.4, zorder=3)
    true_mean = mean_true_labels(curve)
    if true_mean:
        bottom.axhline(true_mean, color=theme.faint, lw=1, ls="--", zorder=2)
        patch = {"facecolor": theme.face, "edgecolor": "none", "pad": 0.6}
        where = {"xytext": (-3, 0), "textcoords": "offset points", "ha": "right", "va": "center", "zorder": 4}
        at_end = (1, true_mean)
        text = f"{true_mean:.2g} are true"
        bottom.annotate(
            text, at_end, xycoords=bottom.get_yaxis_transform(), color=theme.ink, fontsize=7, bbox=patch, **where
        )
    if rule_threshold is not None and rule_threshold.threshold is not None:
        label = legend_label(f"{rule_threshold.label}, {rule_threshold.threshold:.2f}")
        top.axvline(
            rule_threshold.threshold,
            ymax=1 / THRESHOLDS_HEADROOM,
            color=theme.ink,
            lw=1.6,
            ls=":",
            label=label,
            zorder=4,
        )
        bottom.axvline(rule_threshold.threshold, color=theme.ink, lw=1.6, ls=":", zorder=4)
    elif rule_threshold is not None:
        top.plot([], [], ls="none", label=legend_label(f"{rule_threshold.label}: no single threshold"))
    finish_threshold_panel(top, bottom, curve)


def mean_true_labels(curve: ThresholdCurve) -> float:
    """The mean number of true labels per row: predicted labels times precision, divided by recall."""
    return curve.given[0] * curve.precision[0] / curve.recall[0] if curve.recall[0] else 0.0


def finish_threshold_panel(top: Any, bottom: Any, curve: ThresholdCurve) -> None:
    """Limits, grid and legend of one model."""
    low, high = curve.thresholds[0], curve.thresholds[-1]
    if low >= 0 and high <= 1:
        bottom.set_xlim(-0.01, 1.01)
    top.set_ylim(0, 100 * THRESHOLDS_HEADROOM)
    top.set_yticks(range(0, 101, 20))
    # Nearly all labels are predicted at a low threshold; on a linear axis the relevant differences would be flat.
    bottom.set_yscale("log")
    bottom.set_ylim(MIN_PREDICTED, max(2 * curve.given[0], 10 * MIN_PREDICTED))
    bottom.yaxis.set_major_formatter("{x:g}")
    for axis in (top, bottom):
        axis.grid(True)
    top.legend(loc="upper center", fontsize=7.5, ncols=2, handlelength=2.4, columnspacing=1.2, numpoints=1)


# The height of a panel relative to its bars, so that the legend hides none of them.
SCORES_HEADROOM = 1.4


@owned("draw_scores")
def draw_scores(
    scores: Mapping[str, Any],
    *,
    per: str = "cell",
    bins: int = 60,
    learned: Mapping[str, float] | None = None,
    dotted: str = "learned threshold",
    columns: int = 3,
    dark: bool = False,
) -> Figure:
    """Histograms of the scores of present and of absent labels, one panel per model, with thresholds.

    One threshold serves all rows well if the two hardly overlap. With `per="row"` a solid line marks the threshold with
    the most exact matches, and a dotted one the threshold that the model has learned.

    Args:
        scores: By the name of the model: (scores, targets), both (N, K), or what `count_scores` returned.
        per: As in `count_scores`, for scores that are counted here: "row" for one label per row, or "cell".
        bins: The number of bins for scores that are counted here.
        learned: The threshold that a model has learned, by its name: 0 if scores include the bias, else minus the bias
            of the linear head.
        dotted: The name of the dotted line in legends.
        columns: At most this many panels side by side.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_scores
        >>> scores, targets = torch.randn(200, 5), mh.one_hot(torch.randint(5, (200,)), 5)
        >>> figure = draw_scores({"BCE": (scores + 3 * targets, targets)}, per="row", learned={"BCE": 0.0})
        >>> figure.axes[0].get_title()
        'BCE'
    """
    check_mapping("scores", scores)
    check_names("learned", learned or {}, scores)
    columns = check_int("columns", columns, low=1)
    theme = get_theme(dark=dark)
    histograms = {name: read_histogram(f"scores[{name!r}]", value, per, bins) for name, value in scores.items()}
    figure, axes = new_panels(len(histograms), columns=columns, width=4.0, height=3.0)
    for index, (axis, (name, counts)) in enumerate(zip(axes, histograms.items(), strict=True)):
        line = counts.learned if learned is None or name not in learned else learned[name]
        draw_score_panel(axis, counts._replace(learned=line), theme, dotted)
        axis.set_title(name, fontsize=10)
        axis.set_ylabel(SCORE_TITLES[counts.per][2] if index % columns == 0 else "", fontsize=9)
    figure.supxlabel("score", fontsize=9)
    return apply_theme(figure, theme)


def draw_score_panel(axis: Any, counts: ScoreHistogram, theme: Theme, dotted: str) -> None:
    """Both distributions of one model, each normalised to 100 %, and its thresholds."""
    for index, side in enumerate((counts.present, counts.absent)):
        style = model_style(index, theme)
        shares = [100 * count / max(sum(side), 1) for count in side]
        axis.stairs(shares, counts.edges, fill=True, color=style.colour, alpha=0.25, zorder=2)
        label = SCORE_TITLES[counts.per][index]
        axis.stairs(shares, counts.edges, color=style.colour, ls=style.line, lw=1.4, label=label, zorder=3)
    if counts.best is not None:
        label = f"best threshold {counts.best:.2f}"
        axis.axvline(counts.best, ymax=1 / SCORES_HEADROOM, color=theme.ink, lw=1.4, label=label, zorder=4)
    if counts.learned is not None:
        label = legend_label(f"{dotted} {counts.learned:.2f}")
        axis.axvline(counts.learned, ymax=1 / SCORES_HEADROOM, color=theme.ink, lw=1.8, ls=":", label=label, zorder=4)
    axis.set_ylim(0, axis.get_ylim()[1] * SCORES_HEADROOM)
    axis.tick_params(labelsize=8)
    axis.grid(axis="y")
    axis.legend(loc="upper center", fontsize=7.5, ncols=2, handlelength=2.2, columnspacing=1.0)


# With more tick labels than this, only every second, fifth or tenth is shown.
MAX_SIZE_TICKS = 11


@owned("draw_set_sizes")
def draw_set_sizes(
    sizes: Mapping[str, Any], *, most: int = 30, columns: int = 3, share: bool = True, dark: bool = False
) -> Figure:
    """How often sets have 0, 1, 2, ... labels, one panel per model, with the mean size marked.

    Args:
        sizes: By the name of the model: decisions (N, K), sizes (N,), or {"counts": [...]} with how many rows have
            0, 1, 2, ... labels, as `count_sizes` returns, and a "mean" if the last one stands for larger sets as well.
            A mapping of several of these by name draws them in one panel, such as rows whose labels have few, some and
            many training images.
        most: Sets larger than this are drawn together with those of this size.
        columns: At most this many panels side by side.
        share: Whether heights are percent of the rows of a model or group; otherwise they are numbers of rows.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_set_sizes
        >>> figure = draw_set_sizes({"BCE": mh.Threshold(0.5)(torch.rand(100, 6)), "stored": {"counts": [3, 40, 9]}})
        >>> figure.axes[1].get_title()
        'stored'
    """
    check_mapping("sizes", sizes)
    most, columns = check_int("most", most, low=1), check_int("columns", columns, low=1)
    panels = {name: _read_sizes(f"sizes[{name!r}]", value) for name, value in sizes.items()}
    theme = get_theme(dark=dark)
    names = list(dict.fromkeys(group for panel in panels.values() for group in panel))
    indices = {name: index for index, name in enumerate(names)}
    largest = max(len(histogram.counts) - 1 for panel in panels.values() for histogram in panel.values())
    end = min(most, largest)
    figure, axes = new_panels(len(panels), columns=columns, width=3.8, height=2.9, sharex=True, sharey=True)
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        draw_size_panel(axis, panel, indices, end, theme, share=share)
        axis.set_title(title, fontsize=10)
        label_size_axis(axis, end, more=largest > most)
    # Set last: the limits are shared by all panels and would not follow what is drawn later.
    axes[0].set_ylim(bottom=0)
    figure.supxlabel("labels predicted for a row", fontsize=9)
    figure.supylabel("% of rows" if share else "rows", fontsize=9)
    return apply_theme(figure, theme)


def draw_size_panel(
    axis: Any, panel: Mapping[str, SetSizes], indices: Mapping[str, int], end: int, theme: Theme, *, share: bool
) -> None:
    """The histogram of one model: bars, or a line for each of several groups; means as upright lines."""
    for group, (counts, mean) in panel.items():
        style = model_style(indices[group], theme)
        rows = sum(counts)
        gathered = [*counts[:end], sum(counts[end:])]
        heights = [100 * count / rows if share else count for count in gathered]
        label = legend_label(f"{group}, mean {mean:.2f}") if group else f"mean {mean:.2f}"
        at = range(len(heights))
        if len(panel) == 1:
            axis.bar(at, heights, color=style.colour, width=0.85, zorder=2)
            axis.axvline(mean, color=theme.ink, ls="--", lw=1.4, label=label, zorder=3)
        else:
            axis.plot(at, heights, color=style.colour, marker=style.marker, ls=style.line, ms=4, lw=1.4, label=label)
            axis.axvline(mean, color=style.colour, ls=style.line, lw=1, alpha=0.7, zorder=1)
    axis.grid(axis="y")
    axis.tick_params(labelsize=8)
    axis.legend(loc="best", fontsize=8, handlelength=2.4)


def label_size_axis(axis: Any, end: int, *, more: bool) -> None:
    """The sizes below the bars, of which the last may stand for more."""
    step = next(step for step in (1, 2, 5, *range(10, end + 11, 10)) if end // step < MAX_SIZE_TICKS)
    ticks = list(range(0, end + 1, step))
    if more:
        ticks = [tick for tick in ticks if end - tick >= max(step, 2) / 2] + [end]
    axis.set_xticks(ticks, [f"{tick}+" if more and tick == end else str(tick) for tick in ticks])
    axis.set_xlim(-0.7, end + 0.7)


# The height of a panel relative to its bars, so that the legend hides none of them.
ZERO_LABELS_HEADROOM = 1.4


@owned("draw_zero_labels")
def draw_zero_labels(groups: Mapping[str, Any], *, bins: int = 40, columns: int = 3, dark: bool = False) -> Figure:
    """The largest probability of rows with labels against that of rows without, one panel per model.

    A good model has low confidence on rows without labels. Lines mark the means (mean maximum confidence, MMC), and
    AUROC is the chance that a row with labels has the larger value.

    Args:
        groups: By the name of the model: (probs, targets), both (N, K), or what `count_zero_labels` returned.
        bins: The number of bins for what is counted here.
        columns: At most this many panels side by side.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_zero_labels
        >>> probs, targets = torch.rand(200, 3), torch.tensor([[1, 0, 0], [0, 0, 0]]).repeat(100, 1)
        >>> figure = draw_zero_labels({"BCE": (probs, targets)})
        >>> figure.axes[0].get_title().splitlines()[0]
        'BCE'
    """
    check_mapping("groups", groups)
    bins, columns = (
        check_int("bins", bins, low=1),
        check_int("columns", columns, low=1),
    )
    result = {name: read_zero_labels(f"groups[{name!r}]", value, bins) for name, value in groups.items()}
    theme = get_theme(dark=dark)
    figure, axes = new_panels(len(result), columns=columns, width=4.0, height=3.1, sharex=True, sharey=True)
    for index, (axis, (name, group)) in enumerate(zip(axes, result.items(), strict=True)):
        draw_zero_label_panel(axis, group, theme)
        auroc = "–" if math.isnan(group.auroc) else f"{100 * group.auroc:.1f} %"
        axis.set_title(f"{name}\nAUROC {auroc}", fontsize=10)
        axis.set_ylabel("% of rows of a kind" if index % columns == 0 else "", fontsize=9)
    # Set last: the limits are shared by all panels and would not follow what is drawn later.
    axes[0].set_ylim(0, axes[0].get_ylim()[1] * ZERO_LABELS_HEADROOM)
    figure.supxlabel("largest probability of a row %", fontsize=9)
    return apply_theme(figure, theme)


def draw_zero_label_panel(axis: Any, groups: ZeroLabelHistogram, theme: Theme) -> None:
    """Both kinds of rows of one model, each normalised to 100 %, with their means."""
    edges = [100 * edge for edge in groups.edges]
    for index, (side, (counts, mean)) in enumerate(groups.sides.items()):
        rows = sum(counts)
        if not rows:
            continue
        style = model_style(index, theme)
        shares = [100 * count / rows for count in counts]
        axis.stairs(shares, edges, fill=True, color=style.colour, alpha=0.25, zorder=2)
        label = f"{SIDE_TITLES[side]}, {rows:,}"
        axis.stairs(shares, edges, color=style.colour, ls=style.line, lw=1.4, label=label, zorder=3)
        if not math.isnan(mean):
            label = f"MMC {100 * mean:.1f} %"
            axis.axvline(
                100 * mean,
                ymax=1 / ZERO_LABELS_HEADROOM,
                color=style.colour,
                ls=style.line,
                lw=2.2,
                label=label,
                zorder=4,
            )
    axis.set_xlim(edges[0] - 1, edges[-1] + 1)
    axis.tick_params(labelsize=8)
    axis.grid(axis="y")
    axis.legend(loc="upper center", fontsize=7.5, ncols=2, handlelength=2.4, columnspacing=1.0)
