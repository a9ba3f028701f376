"""Distributions of scores: those of labels that are there against the others, with the thresholds between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.refusal import refusal
from manyhot.report.looks import Look, dress, in_legend, look_of, new_panels, style_of
from manyhot.report.reading import (
    check_keys,
    check_known,
    check_named,
    check_whole,
    read_counts,
    read_edges,
    read_numbers,
    read_same,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWNER = "draw_scores"
REMEDY = "Pass (scores, targets), or what `count_scores` gives."
WORDS = {"row": ("label of the row", "largest other", "% of rows"), "cell": ("present", "absent", "% of cells")}
# A few scores far out would press all others into one bar: beyond this share at either end they go to the outer bars.
FAR_OUT = 0.001
# How many times as high as its bars a panel is, so that the legend hides none of them.
ROOM = 1.4


class Counts(NamedTuple):
    """How many scores fall between edges, and the thresholds, None where there is none."""

    edges: list[float]
    present: list[int]
    absent: list[int]
    per: str
    best: float | None
    learned: float | None


def count_scores(
    scores: Any, targets: Any, *, per: str = "cell", bins: int = 60, learned: float | None = None
) -> dict[str, Any]:
    """A histogram of scores that can be kept as JSON and drawn later.

    Args:
        scores: (N, K), of any kind.
        targets: (N, K): 1 present, 0 absent, -1 unknown, which are left out.
        per: "row" takes the score of each row's one label and the largest of its others, and finds the threshold at
            which the most rows are wholly right; rows without a label are left out. "cell" takes all cells.
        bins: The number of bins. They reach over all but the outermost thousandth of the scores of present and
            of absent labels at either end, which are counted in the outer bins.
        learned: The threshold that the model itself has learned, to be drawn as well.

    Returns:
        "edges" (bins + 1), how many scores of labels that are "present" and "absent" lie between them, "per", the
        "best" threshold and the "learned" one, None where there is none.

    Example:
        >>> from manyhot.report import count_scores
        >>> scores = torch.tensor([[3.0, 1.0], [0.5, 2.0], [0.0, 0.25]])
        >>> counted = count_scores(scores, mh.one_hot(torch.tensor([0, 1, 0]), 2), per="row", bins=2)
        >>> counted["present"], counted["absent"], counted["best"]
        ([1, 2], [3, 0], 1.5)
    """
    import numpy as np

    from manyhot.cells import as_scores, as_targets

    check_per("count_scores", per)
    bins = check_whole("bins", "count_scores", bins, low=1)
    scores = as_scores("count_scores", scores)
    targets = as_targets("count_scores", targets, scores)
    present, absent, best = _rows(scores, targets) if per == "row" else _cells(scores, targets)
    if not len(present) + len(absent):
        remedy = "Pass rows with labels, or `per='cell'`."
        raise refusal("scores", "count_scores", "have finite scores of known cells", "none", remedy)
    # Of each side by itself, because absent cells are so many that they would push most present ones out.
    sides = [side for side in (present, absent) if len(side)]
    low = min(np.quantile(side, FAR_OUT, method="lower") for side in sides)
    high = max(np.quantile(side, 1 - FAR_OUT, method="higher") for side in sides)
    edges = np.linspace(low, high, bins + 1) if low < high else np.linspace(low - 0.5, low + 0.5, bins + 1)
    counts = [np.histogram(side.clip(edges[0], edges[-1]), edges)[0].tolist() for side in (present, absent)]
    named = dict(zip(("present", "absent"), counts, strict=True))
    return {"per": per, "edges": edges.tolist(), **named, "best": best, "learned": learned}


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
    """How scores of labels that are there lie against those of the others, one panel a model, with thresholds.

    One threshold serves all rows well if the two hardly overlap. With `per="row"` a solid line marks the one at which
    the most rows are wholly right, and a dotted one that which the model has learned.

    Args:
        scores: By the name of the model: (scores, targets), both (N, K), or what `count_scores` gave.
        per: As in `count_scores`, for scores that are counted here: "row" for one label a row, or "cell".
        bins: The number of bins for scores that are counted here.
        learned: The threshold that a model has learned, by its name: 0 where scores hold their bias, minus the bias
            of a linear head where they do not.
        dotted: What the dotted line is called in legends.
        columns: The most panels in a row.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_scores
        >>> scores, targets = torch.randn(200, 5), mh.one_hot(torch.randint(5, (200,)), 5)
        >>> figure = draw_scores({"BCE": (scores + 3 * targets, targets)}, per="row", learned={"BCE": 0.0})
        >>> figure.axes[0].get_title()
        'BCE'
    """
    check_named("scores", OWNER, scores)
    check_known("learned", OWNER, learned or {}, scores)
    columns = check_whole("columns", OWNER, columns, low=1)
    look = look_of(dark=dark)
    found = {name: read(f"scores[{name!r}]", given, per, bins) for name, given in scores.items()}
    figure, axes = new_panels(len(found), columns=columns, width=4.0, height=3.0)
    for place, (axis, (name, counts)) in enumerate(zip(axes, found.items(), strict=True)):
        line = counts.learned if learned is None or name not in learned else learned[name]
        draw_panel(axis, counts._replace(learned=line), look, dotted)
        axis.set_title(name, fontsize=10)
        axis.set_ylabel(WORDS[counts.per][2] if place % columns == 0 else "", fontsize=9)
    figure.supxlabel("score", fontsize=9)
    return dress(figure, look)


def check_per(owner: str, per: str) -> None:
    """Refuses what scores cannot be counted by."""
    if per not in WORDS:
        raise refusal("per", owner, f"be one of {', '.join(map(repr, WORDS))}", repr(per), "Pick one of these.")


def read(argument: str, given: Any, per: str, bins: int) -> Counts:
    """The histogram of scores and targets, or one that comes ready."""
    check_per(OWNER, per)
    if isinstance(given, tuple | list) and len(given) == 2:
        given = count_scores(*given, per=per, bins=bins)
    if not isinstance(given, Mapping):
        rule = "be scores with their targets, or a histogram"
        raise refusal(argument, OWNER, rule, type(given).__name__, REMEDY)
    check_keys(argument, OWNER, given, ("edges", "present", "absent"), REMEDY)
    present, absent = (read_counts(f"{argument}[{key!r}]", OWNER, given[key]) for key in ("present", "absent"))
    read_same(f"{argument}['absent']", OWNER, absent, len(present))
    check_per(OWNER, given.get("per", per))
    edges = read_edges(f"{argument}['edges']", OWNER, given["edges"], len(present))
    lines = [_threshold(f"{argument}[{key!r}]", given.get(key)) for key in ("best", "learned")]
    return Counts(edges, present, absent, given.get("per", per), *lines)


def draw_panel(axis: Any, counts: Counts, look: Look, dotted: str) -> None:
    """Both distributions of one model as shares of their own, and its thresholds."""
    for place, side in enumerate((counts.present, counts.absent)):
        style = style_of(place, look)
        shares = [100 * count / max(sum(side), 1) for count in side]
        axis.stairs(shares, counts.edges, fill=True, color=style.colour, alpha=0.25, zorder=2)
        label = WORDS[counts.per][place]
        axis.stairs(shares, counts.edges, color=style.colour, ls=style.line, lw=1.4, label=label, zorder=3)
    if counts.best is not None:
        label = f"best threshold {counts.best:.2f}"
        axis.axvline(counts.best, ymax=1 / ROOM, color=look.ink, lw=1.4, label=label, zorder=4)
    if counts.learned is not None:
        label = in_legend(f"{dotted} {counts.learned:.2f}")
        axis.axvline(counts.learned, ymax=1 / ROOM, color=look.ink, lw=1.8, ls=":", label=label, zorder=4)
    axis.set_ylim(0, axis.get_ylim()[1] * ROOM)
    axis.tick_params(labelsize=8)
    axis.grid(axis="y")
    axis.legend(loc="upper center", fontsize=7.5, ncols=2, handlelength=2.2, columnspacing=1.0)


def _rows(scores: Any, targets: Any) -> tuple[Any, Any, float | None]:
    """The score of each row's label, the largest other one, and the best threshold for all rows."""
    from manyhot.decide.sweep import row_intervals
    from manyhot.metrics import UniformAccuracy

    if bool(((targets == 1).sum(1) > 1).any()):
        rule = "have one label a row at the most for per='row'"
        raise refusal("targets", "count_scores", rule, "a row with several", "Pass per='cell' to count all cells.")
    best = UniformAccuracy().update(scores, targets).compute()["threshold"]
    labelled = (targets == 1).any(1)
    largest_other, own = row_intervals(scores[labelled], targets[labelled])
    present, absent = (side[side.isfinite()].double().cpu().numpy() for side in (own, largest_other))
    return present, absent, best if math.isfinite(best) else None


def _cells(scores: Any, targets: Any) -> tuple[Any, Any, None]:
    """The scores of all present and of all absent cells."""
    finite = scores.isfinite()
    present, absent = (scores[finite & (targets == value)].double().cpu().numpy() for value in (1, 0))
    return present, absent, None


def _threshold(argument: str, value: Any) -> float | None:
    return None if value is None else read_numbers(argument, OWNER, [value])[0]
