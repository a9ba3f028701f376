"""Reliability diagrams: what was promised against what came true."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.refusal import refusal
from manyhot.report.looks import Style, dress, in_legend, look_of, new_figure, place_of_legend, style_of
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

OWNER = "draw_reliability"
REMEDY = "Pass (probs, targets), or what `CalibrationError` computed, or its details as lists."
KEYS = ("cells", "mean_prob", "share_present")
# The half width of a 95 % interval in standard errors.
WIDTH = 1.959963984540054
ERRORS = {"ece": "calibration error (ECE)", "ace": "calibration error (ACE)"}
# Of up to so many curves the legend finds room beside them.
LEGEND_INSIDE = 4


class Bins(NamedTuple):
    """Cells by what was promised: how many, the mean promise, the share that came true, and the edges."""

    cells: list[int]
    promised: list[float]
    observed: list[float]
    edges: list[float]

    def error(self, kind: str) -> float:
        """The expected ("ece") or average ("ace") calibration error; NaN without cells."""
        filled = [bin for bin in zip(self.cells, self.promised, self.observed, strict=True) if bin[0]]
        gaps = [(cells, abs(promised - observed)) for cells, promised, observed in filled]
        if not gaps:
            return math.nan
        if kind == "ace":
            return sum(gap for _, gap in gaps) / len(gaps)
        return sum(cells * gap for cells, gap in gaps) / sum(self.cells)

    def shown(self, kind: str) -> str:
        """The error as people read it."""
        error = self.error(kind)
        return "–" if math.isnan(error) else f"{100 * error:.1f} %"


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
    """Promised against observed frequency with 95 % intervals, and below how many cells each point stands for.

    Points on the diagonal keep their promise; below it a model is overconfident. The intervals are Wilson's for a
    share, as if cells were independent; labels of one sample are not quite, so take them for the least there is.

    Args:
        curves: By the name of the model: (probs, targets), both (N, K); or what `CalibrationError` computed; or a
            mapping with lists "cells", "mean_prob", "share_present" and, for bins of different width, "edges". A
            mapping of several of these by name draws them in one panel, such as readings before and after calibration.
        bins: The number of bins for probabilities; bins that come ready stay as they are.
        fewest: Points of fewer cells are left out: they say more about chance than about the model.
        error: The error that is named, "ece" (weighted by cells) or "ace" (mean over bins).
        overlay: Draws all in one panel instead of one panel a model.
        columns: The most panels in a row.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_reliability
        >>> probs = torch.rand(500, 4)
        >>> targets = (torch.rand(500, 4) < probs).int()
        >>> figure = draw_reliability({"before": (probs.square(), targets), "after": (probs, targets)})
        >>> figure.axes[0].get_title().splitlines()[0]
        'before'
    """
    columns = check_whole("columns", OWNER, columns, low=1)
    fewest = check_whole("fewest", OWNER, fewest, low=0)
    if error not in ERRORS:
        raise refusal("error", OWNER, f"be one of {', '.join(map(repr, ERRORS))}", repr(error), "Pick one of these.")
    panels = read_panels(check_named("curves", OWNER, curves), bins, overlay)
    look = look_of(dark=dark)
    # The same reading looks the same in every panel, whichever others are there.
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    styles = {name: style_of(place, look) for place, name in enumerate(names)}
    most = max((cells for panel in panels.values() for found in panel.values() for cells in found.cells), default=1)
    figure, pairs = new_pairs(len(panels), columns, most)
    for (title, panel), (top, bottom) in zip(panels.items(), pairs, strict=True):
        top.plot([0, 1], [0, 1], color=look.faint, lw=1, zorder=1)
        for name, found in panel.items():
            draw_curve(top, bottom, found, styles[name], fewest, f"{name}: {found.shown(error)}")
        name_panel(top, title, panel, error)
    return dress(figure, look)


def read_panels(curves: Mapping[str, Any], bins: int, overlay: bool) -> dict[str, dict[str, Bins]]:
    """The curves of each panel by its title; a curve that has a panel for itself has no name."""
    panels: dict[str, dict[str, Bins]] = {}
    for title, given in curves.items():
        argument = f"curves[{title!r}]"
        if isinstance(given, Mapping) and not set(given) & set(KEYS):
            several = check_named(argument, OWNER, given)
            panels[title] = {name: read_bins(f"{argument}[{name!r}]", one, bins) for name, one in several.items()}
        else:
            panels[title] = {"": read_bins(argument, given, bins)}
    if not overlay:
        return panels
    joined = {f"{title}, {name}" if name else title: one for title, few in panels.items() for name, one in few.items()}
    return {"": joined}


def read_bins(argument: str, given: Any, bins: int) -> Bins:
    """Bins of probabilities and targets, or those that come ready."""
    if isinstance(given, tuple | list) and len(given) == 2:
        given = bins_of(argument, given[0], given[1], bins)
    stored = getattr(given, "details", given)
    if not isinstance(stored, Mapping):
        rule = "be probabilities with their targets, or bins"
        raise refusal(argument, OWNER, rule, type(given).__name__, REMEDY)
    check_keys(argument, OWNER, stored, KEYS, REMEDY)
    cells = read_counts(f"{argument}['cells']", OWNER, stored["cells"])
    promised, observed = (read_shares(f"{argument}[{key!r}]", stored[key], cells) for key in KEYS[1:])
    count = len(cells)
    edges = stored.get("edges", [place / max(count, 1) for place in range(count + 1)])
    return Bins(cells, promised, observed, read_edges(f"{argument}['edges']", OWNER, edges, count))


def bins_of(argument: str, probs: Any, targets: Any, bins: int) -> Any:
    """Bins of the same width, by the package's own metric."""
    from manyhot.cells import as_probs, as_targets
    from manyhot.metrics import CalibrationError

    probs = as_probs(OWNER, probs, name=f"{argument}[0]")
    targets = as_targets(OWNER, targets, probs, name=f"{argument}[1]", of=f"{argument}[0]")
    return CalibrationError(check_whole("bins", OWNER, bins, low=1)).update(probs, targets).compute()


def read_shares(argument: str, values: Any, cells: list[int]) -> list[float]:
    """One share for each bin; those of bins without cells may be anything."""
    shares = read_numbers(argument, OWNER, values, gaps=True)
    read_same(argument, OWNER, shares, len(cells))
    for share, count in zip(shares, cells, strict=True):
        if count and not 0 <= share <= 1:
            remedy = "Pass fractions, not percent, for every bin with cells."
            raise refusal(argument, OWNER, "lie between 0 and 1", f"{share:g}", remedy)
    return shares


def new_pairs(count: int, columns: int, most: int) -> tuple[Figure, list[tuple[Any, Any]]]:
    """A figure with room for a curve and, below it, for numbers of up to `most` cells in each panel."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    width, height = (7.0, 4.6) if count == 1 else (2.8 * columns + 0.6, 3.9 * rows + 0.3)
    figure = new_figure(width, height)
    grid = figure.subplots(2 * rows, columns, sharex=True, sharey="row", squeeze=False, height_ratios=(3, 1) * rows)
    pairs = [(grid[2 * row, column], grid[2 * row + 1, column]) for row in range(rows) for column in range(columns)]
    for axis in (axis for pair in pairs[count:] for axis in pair):
        axis.set_axis_off()
    for place, (top, bottom) in enumerate(pairs[:count]):
        first = place % columns == 0
        top.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel="share that came true" if first else "")
        bottom.set(yscale="log", ylim=(0.7, 2 * max(most, 1)))
        bottom.set(xlabel="promised probability", ylabel="cells" if first else "")
        bottom.xaxis.set_tick_params(labelbottom=True)
        for axis in (top, bottom):
            axis.tick_params(labelsize=8)
            axis.grid(True)
    figure.align_ylabels()
    return figure, pairs[:count]


def draw_curve(top: Any, bottom: Any, found: Bins, style: Style, fewest: int, label: str) -> None:
    """The points of one curve that stand for enough cells, with their intervals; and the cells of all."""
    shown = [place for place, cells in enumerate(found.cells) if cells >= max(fewest, 1)]
    observed = [found.observed[place] for place in shown]
    ends = [wilson(found.observed[place], found.cells[place]) for place in shown]
    top.errorbar(
        [found.promised[place] for place in shown],
        observed,
        [
            [max(share - low, 0) for share, (low, _) in zip(observed, ends, strict=True)],
            [max(high - share, 0) for share, (_, high) in zip(observed, ends, strict=True)],
        ],
        color=style.colour,
        marker=style.mark,
        ls=style.line,
        lw=1.4,
        ms=4.5,
        elinewidth=1,
        capsize=2,
        label=in_legend(label),
        zorder=3,
    )
    bottom.stairs(found.cells, found.edges, baseline=None, color=style.colour, ls=style.line, lw=1.4)


def name_panel(top: Any, title: str, panel: Mapping[str, Bins], error: str) -> None:
    """The title, and the error of each curve: below the title if there is one, else in a legend."""
    if list(panel) == [""]:
        top.set_title(f"{title}\n{error.upper()} {panel[''].shown(error)}", fontsize=9)
        return
    if title:
        top.set_title(title, fontsize=10)
    small = {"fontsize": 7.5, "title_fontsize": 7.5, "alignment": "left", "handlelength": 2, "title": ERRORS[error]}
    top.legend(**small, **place_of_legend(len(panel), LEGEND_INSIDE))


def wilson(share: float, cells: int) -> tuple[float, float]:
    """The 95 % interval of Wilson for a share of so many cells.

    Example:
        >>> from manyhot.report.reliability import wilson
        >>> [round(end, 3) for end in wilson(0.0, 20)]
        [0.0, 0.161]
    """
    spread = WIDTH**2 / cells
    centre = (share + spread / 2) / (1 + spread)
    half = math.sqrt(spread * share * (1 - share) + spread**2 / 4) / (1 + spread)
    # At the ends the sums are exact but for their last digit.
    return 0.0 if share <= 0 else max(centre - half, 0.0), 1.0 if share >= 1 else min(centre + half, 1.0)
