"""How many labels are given to a sample: histograms of the sizes of sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.refusal import refusal
from manyhot.report.looks import Look, dress, in_legend, look_of, new_panels, style_of
from manyhot.report.reading import check_keys, check_named, check_whole, read_counts, read_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWNER = "draw_set_sizes"
# So many labels stand below the bars before every second or fifth of them is left out.
TICKS = 11


class Sizes(NamedTuple):
    """How many rows have 0, 1, 2, ... labels, and how many labels they have in the mean."""

    counts: list[int]
    mean: float


def count_sizes(decisions: Any) -> list[int]:
    """How many rows have 0, 1, 2, ... labels, as a list that can be kept as JSON.

    Args:
        decisions: What a rule gave, (N, K) of booleans, or the sizes themselves, (N,) of whole numbers.

    Example:
        >>> from manyhot.report import count_sizes
        >>> count_sizes(torch.tensor([[True, False, True], [False, False, False], [True, True, False]]))
        [1, 0, 2]
    """
    return _count("decisions", "count_sizes", decisions)


def draw_set_sizes(
    sizes: Mapping[str, Any], *, most: int = 30, columns: int = 3, share: bool = True, dark: bool = False
) -> Figure:
    """How often sets have 0, 1, 2, ... labels, one panel a model, with the mean size marked.

    Args:
        sizes: By the name of the model: what a rule gave, decisions (N, K), sizes (N,), or {"counts": [...]} with how
            many rows have 0, 1, 2, ... labels, as `count_sizes` gives, and a "mean" if the last one stands for larger
            sets as well. A mapping of several of these by name draws them in one panel, such as rows whose labels
            have few, some and many training images.
        most: Sets larger than this are drawn together with those of this size.
        columns: The most panels in a row.
        share: Whether heights are percent of the rows of a model or group; otherwise they are numbers of rows.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_set_sizes
        >>> figure = draw_set_sizes({"BCE": mh.Threshold(0.5)(torch.rand(100, 6)), "kept": {"counts": [3, 40, 9]}})
        >>> figure.axes[1].get_title()
        'kept'
    """
    check_named("sizes", OWNER, sizes)
    most, columns = check_whole("most", OWNER, most, low=1), check_whole("columns", OWNER, columns, low=1)
    panels = {name: _read(f"sizes[{name!r}]", given) for name, given in sizes.items()}
    look = look_of(dark=dark)
    names = list(dict.fromkeys(group for panel in panels.values() for group in panel))
    places = {name: place for place, name in enumerate(names)}
    largest = max(len(found.counts) - 1 for panel in panels.values() for found in panel.values())
    end = min(most, largest)
    figure, axes = new_panels(len(panels), columns=columns, width=3.8, height=2.9, sharex=True, sharey=True)
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        draw_panel(axis, panel, places, end, look, share=share)
        axis.set_title(title, fontsize=10)
        name_sizes(axis, end, more=largest > most)
    # Only now: the limits hold for all panels and would not follow what is drawn later.
    axes[0].set_ylim(bottom=0)
    figure.supxlabel("labels given to a row", fontsize=9)
    figure.supylabel("% of rows" if share else "rows", fontsize=9)
    return dress(figure, look)


def draw_panel(
    axis: Any, panel: Mapping[str, Sizes], places: Mapping[str, int], end: int, look: Look, *, share: bool
) -> None:
    """The histogram of one model: bars, or a line for each of several groups; means as upright lines."""
    for group, (counts, mean) in panel.items():
        style = style_of(places[group], look)
        rows = sum(counts)
        gathered = [*counts[:end], sum(counts[end:])]
        heights = [100 * count / rows if share else count for count in gathered]
        label = in_legend(f"{group}, mean {mean:.2f}") if group else f"mean {mean:.2f}"
        at = range(len(heights))
        if len(panel) == 1:
            axis.bar(at, heights, color=style.colour, width=0.85, zorder=2)
            axis.axvline(mean, color=look.ink, ls="--", lw=1.4, label=label, zorder=3)
        else:
            axis.plot(at, heights, color=style.colour, marker=style.mark, ls=style.line, ms=4, lw=1.4, label=label)
            axis.axvline(mean, color=style.colour, ls=style.line, lw=1, alpha=0.7, zorder=1)
    axis.grid(axis="y")
    axis.tick_params(labelsize=8)
    axis.legend(loc="best", fontsize=8, handlelength=2.4)


def name_sizes(axis: Any, end: int, *, more: bool) -> None:
    """The sizes below the bars, of which the last may stand for more."""
    step = next(step for step in (1, 2, 5, *range(10, end + 11, 10)) if end // step < TICKS)
    ticks = list(range(0, end + 1, step))
    if more:
        ticks = [tick for tick in ticks if end - tick >= max(step, 2) / 2] + [end]
    axis.set_xticks(ticks, [f"{tick}+" if more and tick == end else str(tick) for tick in ticks])
    axis.set_xlim(-0.7, end + 0.7)


def _read(argument: str, given: Any) -> dict[str, Sizes]:
    """The sizes of each group of a model; a model without groups has one of no name."""
    if not isinstance(given, Mapping) or "counts" in given:
        return {"": _read_one(argument, given)}
    return {name: _read_one(f"{argument}[{name!r}]", one) for name, one in check_named(argument, OWNER, given).items()}


def _read_one(argument: str, given: Any) -> Sizes:
    if not isinstance(given, Mapping):
        counts = _count(argument, OWNER, given)
        return Sizes(counts, _mean(counts))
    check_keys(argument, OWNER, given, ("counts",), 'Pass decisions, sizes, or what `count_sizes` gives as "counts".')
    counts = read_counts(f"{argument}['counts']", OWNER, given["counts"])
    if not sum(counts):
        remedy = "Leave out models and groups without rows."
        raise refusal(f"{argument}['counts']", OWNER, "count at least one row", "none", remedy)
    if given.get("mean") is None:
        return Sizes(counts, _mean(counts))
    return Sizes(counts, *read_numbers(f"{argument}['mean']", OWNER, [given["mean"]]))


def _mean(counts: list[int]) -> float:
    return sum(size * count for size, count in enumerate(counts)) / sum(counts)


def _count(argument: str, owner: str, given: Any) -> list[int]:
    labels = getattr(given, "labels", given)
    if getattr(labels, "ndim", 1) == 2:
        if not str(labels.dtype).endswith("bool"):
            remedy = "Pass what a rule gave, such as `Threshold(0.5)(probs)`."
            raise refusal(argument, owner, "be decisions, (N, K) of booleans", f"{labels.dtype}", remedy)
        labels = labels.sum(1)
    sizes = Counter(read_counts(argument, owner, labels))
    if not sizes:
        raise refusal(argument, owner, "have at least one row", "none", "Leave out models and groups without rows.")
    return [sizes[size] for size in range(max(sizes) + 1)]
