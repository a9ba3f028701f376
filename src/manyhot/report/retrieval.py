"""How well search works, as pictures: precision by the length of queries, and expected against true matches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.refusal import refusal
from manyhot.report.looks import (
    Look,
    Style,
    dress,
    in_legend,
    look_of,
    new_figure,
    new_panels,
    place_of_legend,
    style_of,
)
from manyhot.report.reading import check_keys, check_named, read_numbers, read_same

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from manyhot.metrics import Outcome

SHIFT = 0.02
# Of up to so many models the legend finds room beside the lines.
LEGEND_INSIDE = 6
# Queries are gathered by the expected number of matches, so many groups for each power of ten.
GROUPS_PER_DECADE = 3
LEAST_EXPECTED = 0.1


class Curve(NamedTuple):
    """Mean average precisions by the length of queries, in percent, between what they lie, and that over all."""

    means: list[float]
    lows: list[float]
    highs: list[float]
    over_all: float


def draw_retrieval(curves: Mapping[str, Outcome | Mapping[str, Any]], *, dark: bool = False) -> Figure:
    """Mean average precision by the number of labels that a query names, one line a model, with intervals.

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
    check_named("curves", "draw_retrieval", curves)
    look = look_of(dark=dark)
    read = {name: _read_curve(f"curves[{name!r}]", given) for name, given in curves.items()}
    figure = new_figure(7.0 if len(read) <= LEGEND_INSIDE else 9.4, 4.4)
    axis = figure.subplots()
    for place, (name, curve) in enumerate(read.items()):
        # Side by side, or intervals of models that are nearly as good hide each other.
        shift = SHIFT * (place - (len(read) - 1) / 2)
        _draw_curve(axis, name, curve, style_of(place, look), shift)
    axis.set_xticks(range(1, max(len(curve.means) for curve in read.values()) + 1))
    axis.set_xlabel("labels in the query")
    axis.set_ylabel("mean average precision %")
    axis.grid(axis="y")
    axis.legend(fontsize=8, handlelength=2.8, **place_of_legend(len(read), LEGEND_INSIDE))
    return dress(figure, look)


def _read_curve(argument: str, given: Any) -> Curve:
    owner, keys = "draw_retrieval", ("by_length", "low", "high")
    stored = given if isinstance(given, Mapping) else {**getattr(given, "values", {}), **getattr(given, "details", {})}
    check_keys(argument, owner, stored, (*keys, "map"), "Pass what `RetrievalCurve` computed.")
    rows = {key: read_numbers(f"{argument}[{key!r}]", owner, stored[key], gaps=True) for key in keys}
    for key, row in rows.items():
        read_same(f"{argument}[{key!r}]", owner, row, len(rows["by_length"]))
    for mean, low, high in zip(*rows.values(), strict=True):
        if low > mean or high < mean:
            got = f"{mean:g} in [{low:g}, {high:g}]"
            raise refusal(argument, owner, "have means between 'low' and 'high'", got, "Pass ends, not margins.")
    means, lows, highs = ([100 * number for number in row] for row in rows.values())
    return Curve(means, lows, highs, 100 * read_numbers(f"{argument}['map']", owner, [stored["map"]], gaps=True)[0])


def _draw_curve(axis: Any, name: str, curve: Curve, style: Style, shift: float) -> None:
    errors = [
        [mean - low for mean, low in zip(curve.means, curve.lows, strict=True)],
        [high - mean for mean, high in zip(curve.means, curve.highs, strict=True)],
    ]
    axis.errorbar(
        [1 + place + shift for place in range(len(curve.means))],
        curve.means,
        errors,
        color=style.colour,
        marker=style.mark,
        ls=style.line,
        lw=1.2,
        ms=4.5,
        capsize=2,
        label=in_legend(f"{name}, {curve.over_all:.1f} over all"),
    )


class Group(NamedTuple):
    """Queries that promise about as many matches: means, and between what most of the true numbers lie."""

    expected: float
    true: float
    low: float
    high: float


def draw_counts(counts: Mapping[str, Outcome], *, dark: bool = False) -> Figure:
    """True against expected numbers of matches, both as powers of ten, one panel a model.

    Each mark stands for the queries that expect about as many matches, with the mean of how many there are; its bar
    reaches over eight queries of ten. Marks above the line: more is there than was promised.

    Args:
        counts: What `MatchCounts` computed, by the name of the model.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_counts
        >>> log_odds, targets = torch.randn(200, 6), torch.randint(2, (200, 6))
        >>> found = mh.metrics.MatchCounts(mh.metrics.all_queries(6, 2)).update(log_odds, targets).compute()
        >>> draw_counts({"a model": found}).axes[0].get_title().splitlines()[0]
        'a model'
    """
    for name, outcome in check_named("counts", "draw_counts", counts).items():
        if not {"expected", "true"} <= set(getattr(outcome, "details", ())):
            rule = "be what `MatchCounts` computed"
            remedy = "Call `.update(log_odds, targets).compute()` on it."
            raise refusal(f"counts[{name!r}]", "draw_counts", rule, type(outcome).__name__, remedy)
    look = look_of(dark=dark)
    figure, axes = new_panels(len(counts), columns=4, width=2.6, height=2.6, sharex=True, sharey=True)
    for place, (axis, (name, outcome)) in enumerate(zip(axes, counts.items(), strict=True)):
        _draw_groups(axis, name, outcome, style_of(place, look), look)
    figure.supxlabel("expected matches", fontsize=9)
    figure.supylabel("true matches", fontsize=9)
    return dress(figure, look)


def _draw_groups(axis: Any, name: str, outcome: Outcome, style: Style, look: Look) -> None:
    groups = group_counts(outcome.details["expected"].tolist(), outcome.details["true"].tolist())
    top = max((max(group.expected, group.true) for group in groups), default=1.0)
    axis.plot([LEAST_EXPECTED, top], [LEAST_EXPECTED, top], color=look.faint, lw=1, zorder=1)
    for group in groups:
        low, high = max(group.low, LEAST_EXPECTED / 2), max(group.high, LEAST_EXPECTED / 2)
        axis.plot([group.expected] * 2, [low, high], color=look.faint, alpha=0.6, lw=3, solid_capstyle="butt", zorder=2)
    axis.plot(
        [group.expected for group in groups],
        [max(group.true, LEAST_EXPECTED / 2) for group in groups],
        color=style.colour,
        marker=style.mark,
        ms=4,
        lw=1,
        zorder=3,
    )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_title(f"{name}\n{100 * outcome['count_coverage']:.0f} % in the interval", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.grid(True)


def group_counts(expected: list[float], true: list[int]) -> list[Group]:
    """Queries gathered by the expected number of matches; those that expect hardly any are left out."""
    members: dict[int, list[tuple[float, int]]] = {}
    for promised, found in zip(expected, true, strict=True):
        if promised >= LEAST_EXPECTED:
            members.setdefault(math.floor(GROUPS_PER_DECADE * math.log10(promised)), []).append((promised, found))
    groups = []
    for _, pairs in sorted(members.items()):
        found_in_order = sorted(found for _, found in pairs)
        edge = (len(pairs) - 1) // 10
        groups.append(
            Group(
                expected=sum(promised for promised, _ in pairs) / len(pairs),
                true=sum(found_in_order) / len(pairs),
                low=found_in_order[edge],
                high=found_in_order[-1 - edge],
            )
        )
    return groups
