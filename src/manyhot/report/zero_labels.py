"""Rows without any label: how sure a model is of them, against how sure it is of the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.refusal import refusal
from manyhot.report.looks import Look, dress, look_of, new_panels, style_of
from manyhot.report.reading import (
    check_keys,
    check_named,
    check_whole,
    read_counts,
    read_edges,
    read_numbers,
    read_same,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWNER = "draw_zero_labels"
REMEDY = "Pass (probs, targets), or what `count_zero_labels` gives."
SIDES = {"in": "with labels (IN)", "out": "without labels (OUT)"}
# How many times as high as its bars a panel is, so that the legend hides none of them.
ROOM = 1.4


class Side(NamedTuple):
    """Rows of one kind by their largest probability, and its mean; NaN without rows."""

    counts: list[int]
    mean: float


class Groups(NamedTuple):
    """Rows with and without labels by their largest probability, and how well it tells them apart."""

    edges: list[float]
    sides: dict[str, Side]
    auroc: float


def count_zero_labels(values: Any, targets: Any, *, bins: int = 40) -> dict[str, Any]:
    """Histograms of the largest probability of rows with and of rows without labels, to be kept as JSON.

    Args:
        values: (N, K), probabilities.
        targets: (N, K): 1 present, 0 absent, -1 unknown, which are left out; so are rows without a known cell.
        bins: The number of bins from 0 to 1.

    Returns:
        "edges" (bins + 1); how many rows with labels, "in", and without, "out", lie between them; their mean largest
        probability, "mmc_in" and "mmc_out"; and "auroc", the chance that a row with labels has the larger one. None
        where there are no rows to tell it.

    Example:
        >>> from manyhot.report import count_zero_labels
        >>> probs = torch.tensor([[0.9, 0.2], [0.1, 0.6], [0.3, 0.1]])
        >>> counted = count_zero_labels(probs, torch.tensor([[1, 0], [0, 1], [0, 0]]), bins=2)
        >>> counted["in"], counted["out"], counted["auroc"]
        ([0, 2], [1, 0], 1.0)
    """
    import numpy as np

    from manyhot.cells import as_probs, as_targets
    from manyhot.metrics import OpenSetScores

    owner = "count_zero_labels"
    bins = check_whole("bins", owner, bins, low=1)
    probs = as_probs(owner, values, name="values")
    metric = OpenSetScores().update(probs, as_targets(owner, targets, probs, of="values"))
    rows = {"in": metric.joined("inside").double(), "out": metric.joined("outside").double()}
    if not any(map(len, rows.values())):
        remedy = "Pass rows with known cells."
        raise refusal("values", owner, "have rows with known cells", "none", remedy)
    edges = np.linspace(0, 1, bins + 1)
    auroc = metric.compute()["auroc"]
    return {
        "edges": edges.tolist(),
        **{side: np.histogram(found.cpu().numpy(), edges)[0].tolist() for side, found in rows.items()},
        **{f"mmc_{side}": float(found.mean()) if len(found) else None for side, found in rows.items()},
        "auroc": None if math.isnan(auroc) else auroc,
    }


def draw_zero_labels(groups: Mapping[str, Any], *, bins: int = 40, columns: int = 3, dark: bool = False) -> Figure:
    """The largest probability of rows with labels against that of rows without, one panel a model.

    A model that knows its limits promises little for rows without labels. Lines mark the means (mean maximum
    confidence, MMC), and AUROC says how often a row with labels has the larger value.

    Args:
        groups: By the name of the model: (probs, targets), both (N, K), or what `count_zero_labels` gave.
        bins: The number of bins for what is counted here.
        columns: The most panels in a row.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_zero_labels
        >>> probs, targets = torch.rand(200, 3), torch.tensor([[1, 0, 0], [0, 0, 0]]).repeat(100, 1)
        >>> figure = draw_zero_labels({"BCE": (probs, targets)})
        >>> figure.axes[0].get_title().splitlines()[0]
        'BCE'
    """
    check_named("groups", OWNER, groups)
    bins, columns = check_whole("bins", OWNER, bins, low=1), check_whole("columns", OWNER, columns, low=1)
    found = {name: read_groups(f"groups[{name!r}]", given, bins) for name, given in groups.items()}
    look = look_of(dark=dark)
    figure, axes = new_panels(len(found), columns=columns, width=4.0, height=3.1, sharex=True, sharey=True)
    for place, (axis, (name, group)) in enumerate(zip(axes, found.items(), strict=True)):
        draw_panel(axis, group, look)
        auroc = "–" if math.isnan(group.auroc) else f"{100 * group.auroc:.1f} %"
        axis.set_title(f"{name}\nAUROC {auroc}", fontsize=10)
        axis.set_ylabel("% of rows of a kind" if place % columns == 0 else "", fontsize=9)
    # Only now: the limits hold for all panels and would not follow what is drawn later.
    axes[0].set_ylim(0, axes[0].get_ylim()[1] * ROOM)
    figure.supxlabel("largest probability of a row %", fontsize=9)
    return dress(figure, look)


def read_groups(argument: str, given: Any, bins: int) -> Groups:
    """The histograms of probabilities and targets, or those that come ready."""
    if isinstance(given, tuple | list) and len(given) == 2:
        given = count_zero_labels(*given, bins=bins)
    if not isinstance(given, Mapping):
        rule = "be probabilities with their targets, or histograms"
        raise refusal(argument, OWNER, rule, type(given).__name__, REMEDY)
    check_keys(argument, OWNER, given, ("edges", *SIDES), REMEDY)
    counts = {side: read_counts(f"{argument}[{side!r}]", OWNER, given[side]) for side in SIDES}
    read_same(f"{argument}['out']", OWNER, counts["out"], len(counts["in"]))
    edges = read_edges(f"{argument}['edges']", OWNER, given["edges"], len(counts["in"]))
    keys = ("mmc_in", "mmc_out", "auroc")
    means = {key: read_numbers(f"{argument}[{key!r}]", OWNER, [given.get(key)], gaps=True)[0] for key in keys}
    sides = {side: Side(counts[side], means[f"mmc_{side}"]) for side in SIDES}
    return Groups(edges, sides, means["auroc"])


def draw_panel(axis: Any, groups: Groups, look: Look) -> None:
    """Both kinds of rows of one model as shares of their own, with their means."""
    edges = [100 * edge for edge in groups.edges]
    for place, (side, (counts, mean)) in enumerate(groups.sides.items()):
        rows = sum(counts)
        if not rows:
            continue
        style = style_of(place, look)
        shares = [100 * count / rows for count in counts]
        axis.stairs(shares, edges, fill=True, color=style.colour, alpha=0.25, zorder=2)
        label = f"{SIDES[side]}, {rows:,}"
        axis.stairs(shares, edges, color=style.colour, ls=style.line, lw=1.4, label=label, zorder=3)
        if not math.isnan(mean):
            label = f"MMC {100 * mean:.1f} %"
            axis.axvline(100 * mean, ymax=1 / ROOM, color=style.colour, ls=style.line, lw=2.2, label=label, zorder=4)
    axis.set_xlim(edges[0] - 1, edges[-1] + 1)
    axis.tick_params(labelsize=8)
    axis.grid(axis="y")
    axis.legend(loc="upper center", fontsize=7.5, ncols=2, handlelength=2.4, columnspacing=1.0)
