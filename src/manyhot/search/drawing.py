"""How well search works, as pictures: precision by the length of queries, and expected against true matches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from manyhot.metrics import Outcome

# The colours of Okabe and Ito, which all eyes tell apart; lines and marks differ as well, so that grey prints do too.
STYLES = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", ":"),
    ("#000000", "v", "-"),
    ("#E69F00", "P", "--"),
    ("#56B4E9", "X", "-."),
    ("#7F7F7F", "<", ":"),
)
SHIFT = 0.02
# Queries are gathered by the expected number of matches, so many groups for each power of ten.
GROUPS_PER_DECADE = 3
LEAST_EXPECTED = 0.1


def _new_figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("Pictures need matplotlib. Install it with: pip install 'manyhot[report]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def draw_retrieval(curves: Mapping[str, Outcome]) -> Figure:
    """Mean average precision by the number of labels that a query names, one line a model, with intervals.

    Args:
        curves: What `RetrievalCurve` computed, by the name of the model.

    Example:
        >>> from manyhot.search.drawing import draw_retrieval
        >>> log_odds, targets = torch.randn(200, 6), torch.randint(2, (200, 6))
        >>> curve = mh.metrics.RetrievalCurve(most=3).update(log_odds, targets).compute()
        >>> draw_retrieval({"a model": curve}).axes[0].get_xlabel()
        'labels in the query'
    """
    figure = _new_figure(6.4, 4.4)
    axis = figure.subplots()
    longest = 1
    for place, (name, outcome) in enumerate(curves.items()):
        colour, mark, line = STYLES[place % len(STYLES)]
        means, lows, highs = ([100 * x for x in outcome.details[key].tolist()] for key in ("by_length", "low", "high"))
        longest = max(longest, len(means))
        # Side by side, or intervals of models that are nearly as good hide each other.
        lengths = [1 + n + SHIFT * (place - (len(curves) - 1) / 2) for n in range(len(means))]
        errors = [
            [mean - low for mean, low in zip(means, lows, strict=True)],
            [high - mean for mean, high in zip(means, highs, strict=True)],
        ]
        label = f"{name}, {100 * outcome.value:.1f} over all"
        axis.errorbar(
            lengths, means, errors, color=colour, marker=mark, ls=line, lw=1.2, ms=4.5, capsize=2, label=label
        )
    axis.set_xticks(range(1, longest + 1))
    axis.set_xlabel("labels in the query")
    axis.set_ylabel("mean average precision %")
    axis.grid(axis="y", color="0.9")
    axis.legend(fontsize=8, frameon=False)
    return figure


class Group(NamedTuple):
    """Queries that promise about as many matches: means, and between what most of the true numbers lie."""

    expected: float
    true: float
    low: float
    high: float


def draw_counts(counts: Mapping[str, Outcome]) -> Figure:
    """True against expected numbers of matches, both as powers of ten, one panel a model.

    Each mark stands for the queries that expect about as many matches, with the mean of how many there are; its bar
    reaches over eight queries of ten. Marks above the line: more is there than was promised.

    Args:
        counts: What `MatchCounts` computed, by the name of the model.
    """
    columns = min(4, max(1, len(counts)))
    rows = max(1, math.ceil(len(counts) / columns))
    figure = _new_figure(2.6 * columns + 0.6, 2.6 * rows + 0.4)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for place, (name, outcome) in enumerate(counts.items()):
        _draw_groups(axes[place], name, outcome, STYLES[place % len(STYLES)][:2])
    for axis in axes[len(counts) :]:
        axis.set_axis_off()
    figure.supxlabel("expected matches", fontsize=9)
    figure.supylabel("true matches", fontsize=9)
    return figure


def _draw_groups(axis: Any, name: str, outcome: Outcome, style: tuple[str, str]) -> None:
    colour, mark = style
    groups = group_counts(outcome.details["expected"].tolist(), outcome.details["true"].tolist())
    top = max((max(group.expected, group.true) for group in groups), default=1.0)
    axis.plot([LEAST_EXPECTED, top], [LEAST_EXPECTED, top], color="0.6", lw=1, zorder=1)
    for group in groups:
        low, high = max(group.low, LEAST_EXPECTED / 2), max(group.high, LEAST_EXPECTED / 2)
        axis.plot([group.expected] * 2, [low, high], color="0.75", lw=3, solid_capstyle="butt", zorder=2)
    axis.plot(
        [group.expected for group in groups],
        [max(group.true, LEAST_EXPECTED / 2) for group in groups],
        color=colour,
        marker=mark,
        ms=4,
        lw=1,
        zorder=3,
    )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_title(f"{name}\n{100 * outcome['count_coverage']:.0f} % in the interval", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.grid(color="0.93")


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
