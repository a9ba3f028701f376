"""Plots of comparisons, trainings and queries: intervals, frontier, history, retrieval, co-occurrence, examples."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.errors import InputError, owned
from manyhot.formatting import format_prob
from manyhot.report.curves import (
    PAIRS_HINT,
    Span,
    axis_title,
    check_int,
    check_keys,
    check_mapping,
    check_names,
    is_finite,
    list_names,
    read_numbers,
    read_pairs,
    read_same,
    read_spans,
)
from manyhot.report.style import (
    LEGEND_BESIDE,
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

    from manyhot.metrics import MetricResult


@owned("draw_intervals")
def draw_intervals(
    rows: Mapping[str, Any],
    *,
    figures: Sequence[str] | None = None,
    percent: Collection[str] = (),
    titles: Mapping[str, str] | None = None,
    zero: bool = False,
    marked: Collection[str] = (),
    dark: bool = False,
) -> Figure:
    """A value and its interval for each method, the first at the top, one panel per figure.

    Args:
        rows: By the name of the method, its figures by name: a number, (value, low, high), the result of `bootstrap`,
            or a mapping with "value", "low" and "high". A method may lack figures.
        figures: Which figures are drawn, in this order; all by default.
        percent: Which of them are fractions to be drawn in percent.
        titles: The titles of the panels, by the name of the figure.
        zero: For differences: draws a line at zero, and leaves marks hollow whose interval reaches over it.
        marked: Methods to highlight by colour and mark, such as the recommended one.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_intervals
        >>> rows = {"SPA": {"map": (0.002, -0.001, 0.005)}, "quasibinary": {"map": (-0.031, -0.036, -0.026)}}
        >>> figure = draw_intervals(rows, percent=("map",), titles={"map": "mAP minus that of BCE"}, zero=True)
        >>> figure.axes[0].get_title()
        'mAP minus that of BCE %'
    """
    table = read_spans(rows, figures, percent)
    check_names("marked", marked, table)
    columns = list(figures or dict.fromkeys(figure for row in table.values() for figure in row))
    theme = get_theme(dark=dark)
    figure = new_figure(max(2.6 * len(columns) + 1.6, 5.0), 0.36 * len(table) + 1.1)
    axes = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, columns, strict=True):
        draw_interval_panel(axis, {method: row.get(name) for method, row in table.items()}, theme, marked, zero=zero)
        axis.set_title(axis_title(name, titles, percent), fontsize=9)
    axes[0].set_yticks(range(len(table)), list(table))
    axes[0].set_ylim(len(table) - 0.4, -0.7)
    return apply_theme(figure, theme)


def draw_interval_panel(
    axis: Any, spans: Mapping[str, Span | None], theme: Theme, marked: Collection[str], *, zero: bool
) -> None:
    """The marks of one figure, with their values above them."""
    if zero:
        axis.axvline(0, color=theme.ink, lw=1, zorder=1)
    digits = digits_needed([span for span in spans.values() if span is not None])
    for index, (name, span) in enumerate(spans.items()):
        if span is None:
            continue
        style = model_style(int(name in marked), theme)
        hollow = zero and span.low <= 0 <= span.high
        axis.errorbar(
            span.value,
            index,
            xerr=[[span.value - span.low], [span.high - span.value]],
            color=style.colour,
            marker=style.marker,
            mfc=theme.face if hollow else style.colour,
            ms=5.5,
            capsize=2.5,
            elinewidth=1.4,
            ls="none",
            zorder=3,
        )
        text = f"{span.value:+z.{digits}f}" if zero else f"{span.value:z.{digits}f}"
        where = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center", "va": "bottom", "zorder": 4}
        # With a background, so that the lines of zero and of the grid do not cross the number.
        patch = {"facecolor": theme.face, "edgecolor": "none", "pad": 0.6}
        axis.annotate(text, (span.value, index), color=theme.ink, fontsize=7, bbox=patch, **where)
    axis.grid(True)
    axis.margins(x=0.12)
    axis.locator_params(axis="x", nbins=5)
    axis.tick_params(labelsize=8)


def digits_needed(spans: Sequence[Span]) -> int:
    """The digits after the point that distinguish the values of a panel: two more than their range needs.

    Example:
        >>> from manyhot.report.plots_compare import digits_needed
        >>> digits_needed([Span(61.2, 60.0, 62.0), Span(55.0, 54.0, 56.0)]), digits_needed([Span(0.012, 0.01, 0.014)])
        (1, 4)
    """
    ends = [end for span in spans for end in span]
    spread = max(ends) - min(ends) if ends else 0.0
    digits = 1
    while 0 < spread * 10**digits < 30 and digits < 6:
        digits += 1
    return digits


@owned("draw_frontier")
def draw_frontier(
    rows: Mapping[str, Any],
    x: str,
    y: str,
    *,
    higher: Collection[str] = (),
    percent: Collection[str] = (),
    titles: Mapping[str, str] | None = None,
    dark: bool = False,
) -> Figure:
    """Methods by two figures, with their intervals; the Pareto front is filled and joined by a line.

    The front ignores the intervals: neighbours whose intervals overlap may swap with other data.

    Args:
        rows: By the name of the method, its figures by name: a number, (value, low, high), the result of `bootstrap`,
            or a mapping with "value", "low" and "high".
        x: The figure to the right.
        y: The figure upwards.
        higher: Which of the two are better when higher; others are better when lower.
        percent: Which of the two are fractions to be drawn in percent.
        titles: The titles of the axes, by the name of the figure.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_frontier
        >>> rows = {"BCE": {"map": (0.61, 0.60, 0.62), "ace": 0.05}, "quasibinary": {"map": 0.58, "ace": 0.01}}
        >>> figure = draw_frontier(rows, "ace", "map", higher=("map",), percent=("ace", "map"))
        >>> figure.axes[0].get_xlabel()
        'ace % (lower is better)'
    """
    check_names("higher", higher, (x, y))
    table = read_spans(rows, (x, y), percent)
    for name, row in table.items():
        for wanted in (x, y):
            if wanted not in row:
                hint = "Leave out methods without both figures."
                raise InputError(f"rows[{name!r}]", rule=f"have {wanted!r}", got="none", hint=hint)
    points = {name: (row[x], row[y]) for name, row in table.items()}
    best = pareto_front({name: (a.value, b.value) for name, (a, b) in points.items()}, (x in higher, y in higher))
    theme = get_theme(dark=dark)
    figure = new_figure(8.4, 4.8)
    axis = figure.subplots()
    draw_frontier_points(axis, points, best, theme)
    for name, set_label in ((x, axis.set_xlabel), (y, axis.set_ylabel)):
        set_label(f"{axis_title(name, titles, percent)} ({'higher' if name in higher else 'lower'} is better)")
    axis.grid(True)
    axis.margins(0.08)
    axis.legend(fontsize=8, numpoints=1, handlelength=1.6, **LEGEND_BESIDE)
    return apply_theme(figure, theme)


def pareto_front(points: Mapping[str, tuple[float, float]], higher: tuple[bool, bool]) -> list[str]:
    """The names of the points that no other dominates, sorted by the first figure.

    Example:
        >>> from manyhot.report.plots_compare import pareto_front
        >>> pareto_front({"a": (1.0, 5.0), "b": (2.0, 6.0), "c": (2.0, 4.0)}, (False, True))
        ['a', 'b']
    """
    directions = [1 if up else -1 for up in higher]
    good = {name: (directions[0] * x, directions[1] * y) for name, (x, y) in points.items()}
    front = [
        name
        for name, mine in good.items()
        if not any(other != mine and other[0] >= mine[0] and other[1] >= mine[1] for other in good.values())
    ]
    return sorted(front, key=lambda name: points[name])


def draw_frontier_points(axis: Any, points: Mapping[str, tuple[Span, Span]], best: list[str], theme: Theme) -> None:
    """The line through the best, and every point with its intervals."""
    line = [(points[name][0].value, points[name][1].value) for name in best]
    xs, ys = [x for x, _ in line], [y for _, y in line]
    axis.plot(xs, ys, color=theme.faint, lw=1.4, label="not beaten in both", zorder=1)
    for index, (name, (x, y)) in enumerate(points.items()):
        style = model_style(index, theme)
        axis.errorbar(
            x.value,
            y.value,
            [[y.value - y.low], [y.high - y.value]],
            [[x.value - x.low], [x.high - x.value]],
            color=style.colour,
            marker=style.marker,
            mfc=style.colour if name in best else theme.face,
            ms=8 if name in best else 6,
            elinewidth=1,
            ls="none",
            label=legend_label(name),
            zorder=3 if name in best else 2,
        )


HISTORY_HINT = 'Pass what `Run.history` returns, or {"epoch": [1, 2], "mAP": [0.4, 0.5], "kept": 2}.'
# Columns of the log that are drawn, and their titles.
HISTORY_COLUMNS = {
    "train loss": "training loss",
    "mAP": "mAP of the validation rows",
    "log loss per row": "log loss per row, validation",
    "log loss": "log loss per cell, validation",  # of older runs
}


@owned("draw_history")
def draw_history(courses: Mapping[str, Any], *, dark: bool = False) -> Figure:
    """Losses and figures by epoch, one panel per figure, one line per run, with a mark at the best epoch.

    With several runs, training losses are left out if there are other columns: they may not be comparable.

    Args:
        courses: By the name of the run, what `Run.history` returns; or lists of the same length, "epoch" and at least
            one of "train loss", "mAP" and "log loss per row", None or NaN where nothing was measured, and optionally
            "kept", the epoch whose weights were kept.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_history
        >>> course = {"epoch": [1, 2, 3], "train loss": [0.9, 0.6, 0.5], "mAP": [0.3, 0.5, 0.4], "kept": 2}
        >>> [axis.get_title() for axis in draw_history({"BCE": course}).axes]
        ['training loss', 'mAP of the validation rows']
    """
    check_mapping("courses", courses)
    read = {name: read_history(f"courses[{name!r}]", course) for name, course in courses.items()}
    columns = [column for column in HISTORY_COLUMNS if any(column in course for course in read.values())]
    if len(read) > 1:
        columns = [column for column in columns if column != "train loss"] or columns
    theme = get_theme(dark=dark)
    figure, axes = new_panels(len(columns), columns=3, width=3.4, height=2.4)
    for axis, column in zip(axes, columns, strict=True):
        for index, course in enumerate(read.values()):
            if column in course:
                draw_history_line(axis, course, column, model_style(index, theme), theme)
        axis.set_title(HISTORY_COLUMNS[column], fontsize=9)
        axis.set_xlabel("epoch", fontsize=9)
        axis.locator_params(axis="x", integer=True, nbins=6)
        axis.tick_params(labelsize=8)
        axis.grid(True)
    if len(read) > 1:
        add_history_legend(figure, list(read), theme)
    return apply_theme(figure, theme)


def read_history(argument: str, course: Any) -> dict[str, list[float]]:
    """The columns of one run, as numbers."""
    if isinstance(course, list | tuple):
        course = parse_log(course)
    if not isinstance(course, Mapping):
        raise InputError(argument, rule="be a log or a mapping of lists", got=type(course).__name__, hint=HISTORY_HINT)
    check_keys(argument, course, ("epoch",), HISTORY_HINT)
    if not any(column in course for column in HISTORY_COLUMNS):
        raise InputError(
            argument, rule=f"have one of {list_names(list(HISTORY_COLUMNS))}", got="none of them", hint=HISTORY_HINT
        )
    epochs = read_numbers(f"{argument}['epoch']", course["epoch"])
    read = {"epoch": epochs}
    for column in HISTORY_COLUMNS:
        if course.get(column) is not None:
            read[column] = read_numbers(f"{argument}[{column!r}]", course[column], gaps=True)
            read_same(f"{argument}[{column!r}]", read[column], len(epochs))
    if course.get("kept") is not None:
        read["kept"] = read_numbers(f"{argument}['kept']", [course["kept"]])
    return read


def parse_log(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The columns of a log whose rows hold numbers as strings, empty where nothing was measured.

    Example:
        >>> from manyhot.report.plots_compare import parse_log
        >>> parse_log([{"epoch": "1", "mAP": ""}, {"epoch": "2", "mAP": "0.5"}])
        {'epoch': [1.0, 2.0], 'mAP': [None, 0.5]}
    """
    wanted = [column for column in ("epoch", *HISTORY_COLUMNS) if rows and column in rows[0]]
    return {column: [float(row[column]) if row[column] else None for row in rows] for column in wanted}


def draw_history_line(axis: Any, course: Mapping[str, list[float]], column: str, style: Style, theme: Theme) -> None:
    """One figure of one run, with a mark at the epoch that was kept."""
    epochs, values = course["epoch"], course[column]
    axis.plot(epochs, values, color=style.colour, ls=style.line, lw=1.6)
    at = [(epoch, value) for epoch, value in zip(epochs, values, strict=True) if [epoch] == course.get("kept")]
    for epoch, value in at:
        axis.plot(epoch, value, marker=style.marker, ms=6, color=style.colour, mec=theme.ink, ls="none")


def add_history_legend(figure: Figure, names: Sequence[str], theme: Theme) -> None:
    """A legend below all panels, because a run may be missing in some of them."""
    from matplotlib.lines import Line2D

    styles = [model_style(index, theme) for index in range(len(names))]
    handles = [
        Line2D([], [], color=style.colour, ls=style.line, marker=style.marker, ms=5, lw=1.6, label=legend_label(name))
        for style, name in zip(styles, names, strict=True)
    ]
    columns = min(len(handles), 4)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=7.5, handlelength=2.8)


NORMALISER_HINT = 'Pass {"steps": [...], "average": [...]} and, where known, "batch" and "all_rows" of the same length.'
THIN_LINE: dict[str, Any] = {"lw": 0.7, "alpha": 0.45, "zorder": 2}
THICK_LINE: dict[str, Any] = {"lw": 2, "zorder": 3}
MARKERS_ONLY: dict[str, Any] = {"ls": "none", "mew": 0.8, "ms": 7, "zorder": 4}
TRACE_STYLES = {
    "batch": ("of each batch", THIN_LINE),
    "average": ("moving average", THICK_LINE),
    "all_rows": ("of all rows", MARKERS_ONLY | {"marker": "o"}),
}


@owned("draw_normaliser")
def draw_normaliser(traces: Mapping[str, Any], *, dark: bool = False) -> Figure:
    """The logarithm of quasibinary's normaliser C by step, one colour per seed: of batches, averaged, and of all rows.

    A thin line follows the batches, a thick one the moving average that the link stores, and marks show the value over
    all training rows. Probabilities are off by the ratio of the average to that value.

    Args:
        traces: By the name of the seed or model, lists of the same length: "steps", and at least one of "batch",
            "average" and "all_rows". None or NaN where nothing was measured; "all_rows" may also be one number, for
            the end of training.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_normaliser
        >>> trace = {"steps": [1, 2, 3, 4], "average": [1.0, 2.0, 2.4, 2.5], "all_rows": [None, None, None, 2.6]}
        >>> draw_normaliser({"seed 0": trace}).axes[0].get_ylabel()
        'log C'
    """
    check_mapping("traces", traces)
    theme = get_theme(dark=dark)
    read = {name: read_trace(f"traces[{name!r}]", trace) for name, trace in traces.items()}
    figure = new_figure(8.0, 4.0)
    axis = figure.subplots()
    for index, trace in enumerate(read.values()):
        draw_trace(axis, trace, model_style(index, theme), theme)
    axis.set_xlabel("step")
    axis.set_ylabel("log C")
    axis.grid(True)
    axis.margins(x=0.02)
    add_normaliser_legend(axis, read, theme)
    return apply_theme(figure, theme)


def read_trace(argument: str, trace: Any) -> dict[str, list[float]]:
    """The rows of one trace, as numbers."""
    if not isinstance(trace, Mapping):
        raise InputError(argument, rule="be a mapping of lists", got=type(trace).__name__, hint=NORMALISER_HINT)
    check_keys(argument, trace, ("steps",), NORMALISER_HINT)
    if not any(key in trace for key in TRACE_STYLES):
        raise InputError(
            argument, rule=f"have one of {list_names(list(TRACE_STYLES))}", got="none of them", hint=NORMALISER_HINT
        )
    steps = read_numbers(f"{argument}['steps']", trace["steps"])
    read = {"steps": steps}
    for key in TRACE_STYLES:
        if trace.get(key) is None:
            continue
        values = trace[key]
        if key == "all_rows" and isinstance(values, int | float):
            values = [None] * (len(steps) - 1) + [values]
        read[key] = read_numbers(f"{argument}[{key!r}]", values, gaps=True)
        read_same(f"{argument}[{key!r}]", read[key], len(steps))
    return read


def draw_trace(axis: Any, trace: Mapping[str, list[float]], style: Style, theme: Theme) -> None:
    """The lines and marks of one seed."""
    steps = trace["steps"]
    if "batch" in trace:
        axis.plot(steps, trace["batch"], color=style.colour, **THIN_LINE)
    if "average" in trace:
        axis.plot(steps, trace["average"], color=style.colour, ls=style.line, **THICK_LINE)
    if "all_rows" in trace:
        known = [(step, value) for step, value in zip(steps, trace["all_rows"], strict=True) if not math.isnan(value)]
        at, values = [step for step, _ in known], [value for _, value in known]
        axis.plot(at, values, color=style.colour, marker=style.marker, mec=theme.ink, **MARKERS_ONLY)


def add_normaliser_legend(axis: Any, traces: Mapping[str, Mapping[str, list[float]]], theme: Theme) -> None:
    """One entry per seed in its colour, and one per kind of line in the text colour."""
    from matplotlib.lines import Line2D

    handles = []
    for index, name in enumerate(traces):
        style = model_style(index, theme)
        handles.append(
            Line2D([], [], color=style.colour, ls=style.line, marker=style.marker, lw=2, label=legend_label(name))
        )
    for key, (label, kind) in TRACE_STYLES.items():
        if any(key in trace for trace in traces.values()):
            handles.append(Line2D([], [], color=theme.ink, label=label, **kind))
    axis.legend(handles=handles, fontsize=8, handlelength=2.8, **LEGEND_BESIDE)


CURVE_SHIFT = 0.02
# With more models than this, the legend goes beside the axes.
MAX_RETRIEVAL_ENTRIES = 6
# Queries are grouped by the expected number of matches, this many groups per power of ten.
GROUPS_PER_DECADE = 3
MIN_EXPECTED = 0.1


class QueryLengthCurve(NamedTuple):
    """Mean average precisions by the length of queries with their intervals, and over all, in percent."""

    means: list[float]
    lows: list[float]
    highs: list[float]
    overall: float


@owned("draw_retrieval")
def draw_retrieval(curves: Mapping[str, MetricResult | Mapping[str, Any]], *, dark: bool = False) -> Figure:
    """Mean average precision by the number of labels that a query names, one line per model, with intervals.

    Args:
        curves: What `RetrievalCurve` computed, by the name of the model; or a mapping with its "map" and with lists
            "by_length", "low" and "high".
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_retrieval
        >>> log_odds, targets = torch.randn(200, 6), torch.randint(2, (200, 6))
        >>> curve = mh.metrics.RetrievalCurve(most=3).update(log_odds, targets).compute()
        >>> draw_retrieval({"a model": curve}).axes[0].get_xlabel()
        'labels in the query'
    """
    check_mapping("curves", curves)
    theme = get_theme(dark=dark)
    read = {name: _read_query_lengths(f"curves[{name!r}]", value) for name, value in curves.items()}
    figure = new_figure(7.0 if len(read) <= MAX_RETRIEVAL_ENTRIES else 9.4, 4.4)
    axis = figure.subplots()
    for index, (name, curve) in enumerate(read.items()):
        # Shifted, so that the intervals of similar models do not overlap.
        shift = CURVE_SHIFT * (index - (len(read) - 1) / 2)
        _draw_query_lengths(axis, name, curve, model_style(index, theme), shift)
    axis.set_xticks(range(1, max(len(curve.means) for curve in read.values()) + 1))
    axis.set_xlabel("labels in the query")
    axis.set_ylabel("mean average precision %")
    axis.grid(axis="y")
    axis.legend(fontsize=8, handlelength=2.8, **legend_placement(len(read), MAX_RETRIEVAL_ENTRIES))
    return apply_theme(figure, theme)


def _read_query_lengths(argument: str, value: Any) -> QueryLengthCurve:
    keys = ("by_length", "low", "high")
    stored = value if isinstance(value, Mapping) else {**getattr(value, "values", {}), **getattr(value, "details", {})}
    check_keys(argument, stored, (*keys, "map"), "Pass what `RetrievalCurve` computed.")
    rows = {key: read_numbers(f"{argument}[{key!r}]", stored[key], gaps=True) for key in keys}
    for key, row in rows.items():
        read_same(f"{argument}[{key!r}]", row, len(rows["by_length"]))
    for mean, low, high in zip(*rows.values(), strict=True):
        if low > mean or high < mean:
            got = f"{mean:g} in [{low:g}, {high:g}]"
            raise InputError(
                argument, rule="have means between 'low' and 'high'", got=got, hint="Pass ends, not margins."
            )
    means, lows, highs = ([100 * number for number in row] for row in rows.values())
    return QueryLengthCurve(means, lows, highs, 100 * read_numbers(f"{argument}['map']", [stored["map"]], gaps=True)[0])


def _draw_query_lengths(axis: Any, name: str, curve: QueryLengthCurve, style: Style, shift: float) -> None:
    errors = [
        [mean - low for mean, low in zip(curve.means, curve.lows, strict=True)],
        [high - mean for mean, high in zip(curve.means, curve.highs, strict=True)],
    ]
    axis.errorbar(
        [1 + index + shift for index in range(len(curve.means))],
        curve.means,
        errors,
        color=style.colour,
        marker=style.marker,
        ls=style.line,
        lw=1.2,
        ms=4.5,
        capsize=2,
        label=legend_label(f"{name}, {curve.overall:.1f} over all"),
    )


class MatchGroup(NamedTuple):
    """Queries with similar expected numbers of matches: means, and the range of most true numbers."""

    expected: float
    true: float
    low: float
    high: float


@owned("draw_counts")
def draw_counts(counts: Mapping[str, MetricResult], *, dark: bool = False) -> Figure:
    """True against expected numbers of matches on logarithmic axes, one panel per model.

    Each mark is a group of queries with similar expected numbers, at their mean true number; its bar covers 80 % of the
    queries. Marks above the line have more matches than expected.

    Args:
        counts: What `MatchCounts` computed, by the name of the model.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_counts
        >>> log_odds, targets = torch.randn(200, 6), torch.randint(2, (200, 6))
        >>> result = mh.metrics.MatchCounts(mh.metrics.all_queries(6, 2)).update(log_odds, targets).compute()
        >>> draw_counts({"a model": result}).axes[0].get_title().splitlines()[0]
        'a model'
    """
    for name, metric_result in check_mapping("counts", counts).items():
        if not {"expected", "true"} <= set(getattr(metric_result, "details", ())):
            rule = "be what `MatchCounts` computed"
            hint = "Call `.update(log_odds, targets).compute()` on it."
            raise InputError(f"counts[{name!r}]", rule=rule, got=type(metric_result).__name__, hint=hint)
    theme = get_theme(dark=dark)
    figure, axes = new_panels(len(counts), columns=4, width=2.6, height=2.6, sharex=True, sharey=True)
    for index, (axis, (name, metric_result)) in enumerate(zip(axes, counts.items(), strict=True)):
        _draw_match_groups(axis, name, metric_result, model_style(index, theme), theme)
    figure.supxlabel("expected matches", fontsize=9)
    figure.supylabel("true matches", fontsize=9)
    return apply_theme(figure, theme)


def _draw_match_groups(axis: Any, name: str, metric_result: MetricResult, style: Style, theme: Theme) -> None:
    groups = group_matches(metric_result.details["expected"].tolist(), metric_result.details["true"].tolist())
    top = max((max(group.expected, group.true) for group in groups), default=1.0)
    axis.plot([MIN_EXPECTED, top], [MIN_EXPECTED, top], color=theme.faint, lw=1, zorder=1)
    for group in groups:
        low, high = max(group.low, MIN_EXPECTED / 2), max(group.high, MIN_EXPECTED / 2)
        axis.plot(
            [group.expected] * 2, [low, high], color=theme.faint, alpha=0.6, lw=3, solid_capstyle="butt", zorder=2
        )
    axis.plot(
        [group.expected for group in groups],
        [max(group.true, MIN_EXPECTED / 2) for group in groups],
        color=style.colour,
        marker=style.marker,
        ms=4,
        lw=1,
        zorder=3,
    )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_title(f"{name}\n{100 * metric_result['count_coverage']:.0f} % in the interval", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.grid(True)


def group_matches(expected: list[float], true: list[int]) -> list[MatchGroup]:
    """Queries grouped by the expected number of matches; those below `MIN_EXPECTED` are left out."""
    members: dict[int, list[tuple[float, int]]] = {}
    for predicted, observed in zip(expected, true, strict=True):
        if predicted >= MIN_EXPECTED:
            members.setdefault(math.floor(GROUPS_PER_DECADE * math.log10(predicted)), []).append((predicted, observed))
    groups = []
    for _, pairs in sorted(members.items()):
        observed_sorted = sorted(observed for _, observed in pairs)
        edge = (len(pairs) - 1) // 10
        groups.append(
            MatchGroup(
                expected=sum(predicted for predicted, _ in pairs) / len(pairs),
                true=sum(observed_sorted) / len(pairs),
                low=observed_sorted[edge],
                high=observed_sorted[-1 - edge],
            )
        )
    return groups


# One hue, readable in grey: the more likely, the higher the contrast to the page.
COLOUR_RAMPS = {
    False: ("#ffffff", "#c6dbef", "#6baed6", "#2171b5", "#08306b"),
    True: ("#1e2129", "#173f68", "#2a72ad", "#6fb3e0", "#e3f1fb"),
}
# Few colours keep the file small.
RAMP_STEPS = 20
# In inches: the heat map, the smallest and the largest cell, and the smallest cell with a value in it.
HEATMAP_SIZE, MIN_CELL, MAX_CELL, MIN_CELL_WITH_VALUE = 8.4, 0.15, 0.5, 0.29
MAX_HEATMAP_LABEL = 22


@owned("draw_co_occurrence")
def draw_co_occurrence(
    counts: Any, *, names: Sequence[str], most: int = 25, order: Sequence[int] | None = None, dark: bool = False
) -> Figure:
    """How likely each label is where another is present, for the most frequent labels, clustered by co-occurrence.

    A row shows, in percent, the share of the samples with its label that have the label of the column as well.

    Args:
        counts: What `count_pairs` returned; or a table (K, K) of how many rows have both of two labels, in the diagonal
            one.
        names: Of all K labels.
        most: At most this many labels.
        order: The columns of the labels to draw, in this order, also of those that no row has: for plots to be
            compared. By default the most frequent ones.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import count_pairs, draw_co_occurrence
        >>> counts = count_pairs(torch.tensor([[1, 1, 0], [0, 1, 0], [0, 1, 1]]))
        >>> figure = draw_co_occurrence(counts, names=["cat", "animal", "dog"])
        >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
        ['cat (1)', 'animal (3)', 'dog (1)']
    """
    most = check_int("most", most, low=1)
    table, label_names, columns = read_pairs(counts, names)
    indices = order_by_similarity(table, most) if order is None else positions_of(order, columns)
    shares = [[100 * table[row][column] / max(table[row][row], 1) for column in indices] for row in indices]
    theme = get_theme(dark=dark)
    titles = [shorten_label(label_names[index]) for index in indices]
    cell = min(max(HEATMAP_SIZE / len(indices), MIN_CELL), MAX_CELL)
    longest = max(map(len, titles))
    figure = new_figure(
        max(cell * len(indices) + 0.07 * longest + 1.6, 6.0), max(cell * len(indices) + 0.06 * longest + 0.7, 3.2)
    )
    axis = figure.subplots()
    draw_heatmap(figure, axis, shares, theme, dark=dark, values=cell >= MIN_CELL_WITH_VALUE)
    small: dict[str, Any] = {"fontsize": 8 if cell >= MIN_CELL_WITH_VALUE else 6.5}
    rows = [f"{title} ({table[index][index]:,})" for title, index in zip(titles, indices, strict=True)]
    axis.set_yticks(range(len(indices)), rows, **small)
    axis.set_xticks(range(len(indices)), titles, rotation=60, ha="right", rotation_mode="anchor", **small)
    axis.set_xlabel("… that have this one as well", fontsize=9)
    axis.set_ylabel("of the rows with this label …", fontsize=9)
    return apply_theme(figure, theme)


def order_by_similarity(table: list[list[int]], most: int) -> list[int]:
    """The indices of the most frequent labels, clustered by co-occurrence."""
    frequent = sorted(range(len(table)), key=lambda index: -table[index][index])[:most]
    occurring = [index for index in frequent if table[index][index]]
    if not occurring:
        raise InputError("counts", rule="have a label that is present", got="none", hint=PAIRS_HINT)
    return [
        occurring[index] for index in cluster_order([[table[row][column] for column in occurring] for row in occurring])
    ]


def positions_of(order: Sequence[int], columns: list[int]) -> list[int]:
    """The indices of labels in the table of pairs."""
    missing = [column for column in order if column not in columns]
    if missing or not len(order) or len(set(order)) != len(order):
        got = f"{missing[0]!r}, which is not among them" if missing else repr(list(order))
        hint = "Count more labels with `count_pairs(targets, most=...)`, or name fewer."
        raise InputError("order", rule="name columns of labels that were counted, each once", got=got, hint=hint)
    return [columns.index(column) for column in order]


def cluster_order(together: list[list[int]]) -> list[int]:
    """An order in which labels that occur together are close: the closest groups are joined, at their nearest ends.

    Example:
        >>> from manyhot.report.plots_compare import cluster_order
        >>> cluster_order([[9, 0, 8], [0, 9, 1], [8, 1, 9]])
        [0, 2, 1]
    """
    similarity = [
        [both / ((row[a] * together[b][b]) ** 0.5 or 1) for b, both in enumerate(row)] for a, row in enumerate(together)
    ]
    groups = [[index] for index in range(len(together))]
    while len(groups) > 1:
        pairs = [(a, b) for a in range(len(groups)) for b in range(a + 1, len(groups))]
        a, b = max(pairs, key=lambda pair: mean_similarity(similarity, groups[pair[0]], groups[pair[1]]))
        second = groups.pop(b)
        turns = [(one, other) for one in (groups[a], groups[a][::-1]) for other in (second, second[::-1])]
        one, other = max(turns, key=lambda ends: similarity[ends[0][-1]][ends[1][0]])
        groups[a] = one + other
    return groups[0]


def mean_similarity(similarity: list[list[float]], one: list[int], other: list[int]) -> float:
    """The mean similarity of the labels of two groups."""
    return sum(similarity[a][b] for a in one for b in other) / (len(one) * len(other))


def draw_heatmap(
    figure: Figure, axis: Any, shares: list[list[float]], theme: Theme, *, dark: bool, values: bool
) -> None:
    """The cells, with their values if `values`, and the colour bar."""
    from matplotlib.colors import LinearSegmentedColormap

    count = len(shares)
    ramp = LinearSegmentedColormap.from_list("likely", COLOUR_RAMPS[dark], N=RAMP_STEPS)
    edges = [index - 0.5 for index in range(count + 1)]
    # The diagonal is trivial, and would dominate the colours.
    others = [
        [math.nan if row == column else share for column, share in enumerate(line)] for row, line in enumerate(shares)
    ]
    mesh = axis.pcolormesh(edges, edges, others, cmap=ramp, vmin=0, vmax=100, edgecolors=theme.grid, lw=0.4)
    axis.set(ylim=(count - 0.5, -0.5), aspect="equal")
    axis.tick_params(length=0)
    for index in range(count):
        corners = [index - 0.5, index + 0.5]
        axis.fill_between(corners, *corners, facecolor=theme.face, edgecolor=theme.faint, hatch="//////", lw=0)
    bar = figure.colorbar(mesh, ax=axis, shrink=0.6, pad=0.02)
    bar.set_label("% of rows", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    for row, line in enumerate(others if values else []):
        for column, share in enumerate(line):
            if share >= 0.5:
                ink = readable_colour(ramp(share / 100))
                axis.text(column, row, f"{share:.0f}", color=ink, fontsize=7, ha="center", va="center")


def readable_colour(colour: Sequence[float]) -> str:
    """Black or white, whichever is more readable on an RGB colour with values from 0 to 1."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    return "#000000" if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.18 else "#ffffff"


def shorten_label(name: str) -> str:
    """A name cut to a maximum length."""
    return name if len(name) <= MAX_HEATMAP_LABEL else f"{name[: MAX_HEATMAP_LABEL - 1]}…"


EXAMPLES_HINT = 'Pass {"image": ..., "title": ..., "labels": [(name, prob, given, target), ...]}.'
# In inches: a sample and the gap between two, an image, a bar with its name, and lines of text.
EXAMPLE_WIDTH, EXAMPLE_GAP, IMAGE_HEIGHT, BAR_HEIGHT, LINE_HEIGHT, LEGEND_HEIGHT = 2.8, 0.3, 2.0, 0.29, 0.2, 0.45
# In characters.
MAX_NAME_LENGTH, MAX_TITLE_LENGTH, MAX_NOTE_LENGTH = 26, 34, 42
# Bars of labels that are not predicted are empty; those of false positives are hatched as well.
TARGET_CHARACTERS = {1: "✓", 0: "✗", -1: "?", None: ""}
FALSE_ALARM_HATCH = "////"
LEFT_TEXT: dict[str, Any] = {"fontsize": 8, "ha": "left", "va": "center"}
RIGHT_TEXT: dict[str, Any] = {"fontsize": 8, "ha": "right", "va": "center"}


class LabelPrediction(NamedTuple):
    """Probability, decision and target of one label of a sample; the target is 1, 0, -1 for unknown, or None."""

    name: str
    prob: float
    predicted: bool
    target: int | None


class Example(NamedTuple):
    """One sample with its texts and predictions."""

    image: Any
    title: str
    note: str
    labels: list[LabelPrediction]


@owned("draw_examples")
def draw_examples(examples: Sequence[Mapping[str, Any]], *, columns: int = 4, dark: bool = False) -> Figure:
    """Samples with bars for the probabilities of their labels, filled if predicted, and a character for the target.

    Present labels have a tick, absent ones a cross, and unknown ones a question mark. A filled bar with a tick is a
    true positive, a filled one with a cross a false positive, and an empty one with a tick a false negative.

    Args:
        examples: Mappings with an "image" (of Pillow or an array; None for none), a "title", a "note", and
            "labels": (name, probability, whether it is predicted, target: 1, 0, -1 or None) for each bar.
        columns: At most this many samples side by side.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_examples
        >>> labels = [("cat", 0.93, True, 1), ("dog", 0.41, False, 0)]
        >>> figure = draw_examples([{"image": None, "title": "one.jpg", "labels": labels}])
        >>> [text.get_text() for text in figure.axes[0].texts[:2]]
        ['✓ cat', '93.0 %']
    """
    columns = check_int("columns", columns, low=1)
    if not isinstance(examples, list | tuple) or not examples:
        got = "none" if isinstance(examples, list | tuple) else type(examples).__name__
        raise InputError("examples", rule="be a list of at least one sample", got=got, hint=EXAMPLES_HINT)
    read = [read_example(f"examples[{index}]", value) for index, value in enumerate(examples)]
    theme = get_theme(dark=dark)
    columns = min(columns, len(read))
    rows = [read[start : start + columns] for start in range(0, len(read), columns)]
    width, height = max(EXAMPLE_WIDTH * columns, 6.0), sum(map(example_height, rows)) + LEGEND_HEIGHT
    figure = new_figure(width, height)
    figure.set_layout_engine("none")  # positions are set in inches
    top = height
    for row in rows:
        for index, example in enumerate(row):
            left = (width - EXAMPLE_WIDTH * columns) / 2 + EXAMPLE_WIDTH * index + EXAMPLE_GAP / 2
            draw_example(figure, example, row, left, top, theme)
        top -= example_height(row)
    add_examples_legend(figure, read, theme)
    return apply_theme(figure, theme)


def read_example(argument: str, value: Any) -> Example:
    """One sample, checked."""
    if not isinstance(value, Mapping):
        raise InputError(argument, rule="be a mapping", got=type(value).__name__, hint=EXAMPLES_HINT)
    check_keys(argument, value, ("labels",), EXAMPLES_HINT)
    image = read_image(f"{argument}['image']", value.get("image"))
    labels = [
        read_label_prediction(f"{argument}['labels'][{index}]", label) for index, label in enumerate(value["labels"])
    ]
    return Example(image, str(value.get("title") or ""), str(value.get("note") or ""), labels)


def read_image(argument: str, image: Any) -> Any:
    """An image of Pillow, converted from an array if need be; None for none."""
    if image is None or hasattr(image, "convert"):
        return image
    rule = "be an image of Pillow, or an array (H, W) or (H, W, 3) of bytes"
    hint = "Open it with `PIL.Image.open`, pass an array of uint8, or None."
    array = image.numpy() if hasattr(image, "numpy") else image
    if not hasattr(array, "__array_interface__"):
        raise InputError(argument, rule=rule, got=type(image).__name__, hint=hint)
    fits = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if not fits or str(array.dtype) != "uint8" or not array.size:
        raise InputError(argument, rule=rule, got=f"{array.dtype} of {tuple(array.shape)}", hint=hint)
    from PIL import Image

    return Image.fromarray(array)


def read_label_prediction(argument: str, label: Any) -> LabelPrediction:
    """The prediction of one label, checked."""
    rule = "be a name, a probability, whether it is predicted, and a target of 1, 0, -1 or None"
    if not isinstance(label, Sequence) or isinstance(label, str) or len(label) != 4:
        raise InputError(argument, rule=rule, got=repr(label), hint=EXAMPLES_HINT)
    name, prob, predicted, target = label
    if not is_finite(prob) or not 0 <= prob <= 1 or target not in (1, 0, -1, None):
        raise InputError(argument, rule=rule, got=repr(label), hint=EXAMPLES_HINT)
    return LabelPrediction(str(name), float(prob), bool(predicted), None if target is None else int(target))


def example_height(row: Sequence[Example]) -> float:
    """The height in inches of samples side by side, with texts, images and bars."""
    return (
        text_height(row)
        + image_height(row)
        + BAR_HEIGHT * max(len(example.labels) for example in row)
        + 2 * LINE_HEIGHT
    )


def text_height(row: Sequence[Example]) -> float:
    """The height in inches of the texts above the images."""
    lines = any(example.title for example in row) + any(example.note for example in row)
    return LINE_HEIGHT * (0.5 + lines)


def image_height(row: Sequence[Example]) -> float:
    """The height in inches of the images; 0 if no sample has one."""
    return IMAGE_HEIGHT if any(example.image is not None for example in row) else 0.0


def draw_example(
    figure: Figure, example: Example, row: Sequence[Example], left: float, top: float, theme: Theme
) -> None:
    """One sample at a position in inches, so that bars are aligned however long names are and whatever is missing."""
    width, height = figure.get_size_inches()
    at = left / width
    figure.text(
        at,
        (top - 0.08) / height,
        shorten_middle(example.title, MAX_TITLE_LENGTH),
        fontsize=8.5,
        va="top",
        weight="bold",
    )
    second = top - 0.08 - LINE_HEIGHT * any(one.title for one in row)
    figure.text(at, second / height, shorten_middle(example.note, MAX_NOTE_LENGTH), fontsize=7, va="top")
    top -= text_height(row)
    if example.image is not None:
        axis = add_axis(figure, left, top - IMAGE_HEIGHT, IMAGE_HEIGHT)
        image = example.image.convert("RGB")
        image.thumbnail((512, 512))
        axis.imshow(image)
        axis.set_anchor("W")
    bars = BAR_HEIGHT * len(example.labels)
    if bars:
        draw_bars(add_axis(figure, left, top - image_height(row) - LINE_HEIGHT / 2 - bars, bars), example.labels, theme)


def add_axis(figure: Figure, left: float, bottom: float, height: float) -> Any:
    """A panel without a frame, positioned in inches."""
    width, tall = figure.get_size_inches()
    axis = figure.add_axes((left / width, bottom / tall, (EXAMPLE_WIDTH - EXAMPLE_GAP) / width, height / tall))
    axis.set_axis_off()
    return axis


def draw_bars(axis: Any, labels: Sequence[LabelPrediction], theme: Theme) -> None:
    """A bar for each label, its name and probability above it."""
    axis.set(xlim=(-0.5, 100.5), ylim=(len(labels), 0))
    for index, label in enumerate(labels):
        axis.text(
            0,
            index + 0.34,
            f"{TARGET_CHARACTERS[label.target]} {shorten_middle(label.name, MAX_NAME_LENGTH)}".strip(),
            color=theme.ink,
            **LEFT_TEXT,
        )
        axis.text(100, index + 0.34, format_prob(label.prob), color=theme.ink, **RIGHT_TEXT)
        axis.barh(index + 0.75, 100, height=0.3, color=theme.grid, zorder=1)
        axis.barh(index + 0.75, 100 * label.prob, height=0.3, zorder=2, lw=1.2, **bar_style(label, theme))


def bar_style(label: LabelPrediction, theme: Theme) -> dict[str, Any]:
    """The style of a bar: coloured if the label is predicted, hatched if that is wrong."""
    if not label.predicted:
        return {"facecolor": theme.face, "edgecolor": theme.missed if label.target == 1 else theme.faint}
    wrong = label.target == 0
    colour = theme.wrong if wrong else theme.colours[0]
    return {
        "facecolor": colour,
        "edgecolor": theme.face if wrong else colour,
        "hatch": FALSE_ALARM_HATCH if wrong else "",
    }


def shorten_middle(text: str, longest: int) -> str:
    """A text of at most this many characters, cut in the middle: names of files differ at their ends."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}…{text[-end:]}"


def add_examples_legend(figure: Figure, examples: Sequence[Example], theme: Theme) -> None:
    """The legend of bars and characters, below all samples."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    labels = [label for example in examples for label in example.labels]
    kinds = {
        "predicted": LabelPrediction("", 0, True, None),
        "predicted, but absent": LabelPrediction("", 0, True, 0),
        "not predicted": LabelPrediction("", 0, False, None),
        "not predicted, but present": LabelPrediction("", 0, False, 1),
    }
    styles = [bar_style(label, theme) for label in labels]
    handles: list[Any] = [
        Patch(label=name, **bar_style(label, theme))
        for name, label in kinds.items()
        if bar_style(label, theme) in styles
    ]
    meanings = {1: "present", 0: "absent", -1: "unknown"}
    known = {label.target for label in labels}
    marker_style: dict[str, Any] = {"ls": "none", "color": theme.ink, "ms": 6}
    handles += [
        Line2D([], [], marker=f"${TARGET_CHARACTERS[key]}$", label=meaning, **marker_style)
        for key, meaning in meanings.items()
        if key in known
    ]
    figure.legend(handles=handles, loc="lower center", ncols=len(handles), fontsize=7.5, handlelength=1.8)
