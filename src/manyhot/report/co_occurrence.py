"""Which labels occur together: a heat map of how likely one is where another is present."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from manyhot.refusal import refusal
from manyhot.report.looks import Look, dress, look_of, new_figure
from manyhot.report.reading import check_keys, check_whole, read_counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWNER = "draw_co_occurrence"
REMEDY = "Pass what `count_pairs` gives, or a table (K, K) of how many rows have both labels."
# Of one hue, so that it is as good in grey: the more likely, the further from the page.
RAMPS = {
    False: ("#ffffff", "#c6dbef", "#6baed6", "#2171b5", "#08306b"),
    True: ("#1e2129", "#173f68", "#2a72ad", "#6fb3e0", "#e3f1fb"),
}
# So many colours tell shares apart, and a small file holds them all.
STEPS = 20
# In inches: of all cells side by side, of the smallest and the largest cell, and of one with room for a value.
ALL_CELLS, SMALLEST, LARGEST, WITH_VALUE = 8.4, 0.15, 0.5, 0.29
LONGEST_NAME = 22


def count_pairs(targets: Any, *, most: int = 100) -> dict[str, Any]:
    """How many rows have both of two labels, for the most frequent labels; as lists that can be kept as JSON.

    Args:
        targets: (N, K): 1 present, 0 absent, -1 unknown, which is not counted.
        most: The most labels; all pairs of very many labels would fill the memory.

    Returns:
        The columns of the "labels", the most frequent first, and a table "together" of the numbers of rows in which
        two are both present, with those of each label by itself in the diagonal.

    Example:
        >>> from manyhot.report import count_pairs
        >>> count_pairs(torch.tensor([[1, 1, 0], [0, 1, 0], [0, 1, 1]]))
        {'labels': [1, 0, 2], 'together': [[3, 1, 1], [1, 1, 0], [1, 0, 1]]}
    """
    import torch

    from manyhot.cells import as_targets, as_tensor

    owner = "count_pairs"
    most = check_whole("most", owner, most, low=1)
    table = as_tensor(owner, targets, "targets")
    if table.ndim != 2:
        remedy = "Pass one row a sample, one column a label."
        raise refusal("targets", owner, "be (N, K)", str(tuple(table.shape)), remedy)
    present = as_targets(owner, table, table) == 1
    chosen = present.sum(0).argsort(descending=True, stable=True)[:most]
    # In pieces: as float64, in which sums of ones are exact, a whole table would be eight times as large.
    together = sum(
        (part.double().T @ part.double() for part in present[:, chosen].split(1 << 14)),
        start=torch.zeros(len(chosen), len(chosen), dtype=torch.float64, device=present.device),
    )
    return {"labels": chosen.tolist(), "together": together.long().tolist()}


def draw_co_occurrence(
    counts: Any, *, names: Sequence[str], most: int = 25, order: Sequence[int] | None = None, dark: bool = False
) -> Figure:
    """How likely each label is where another is present, for the most frequent labels; those that go together adjoin.

    A row shows, in percent, the share of the samples with its label that have the label of the column as well.

    Args:
        counts: What `count_pairs` gave; or a table (K, K) of how many rows have both of two labels, in the diagonal
            one.
        names: Of all K labels.
        most: The most labels to draw.
        order: The columns of the labels to draw, in this order, also of those that no row has: for pictures that are
            held against each other. By default the most frequent ones.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import count_pairs, draw_co_occurrence
        >>> counts = count_pairs(torch.tensor([[1, 1, 0], [0, 1, 0], [0, 1, 1]]))
        >>> figure = draw_co_occurrence(counts, names=["cat", "animal", "dog"])
        >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
        ['cat (1)', 'animal (3)', 'dog (1)']
    """
    most = check_whole("most", OWNER, most, low=1)
    table, shown, columns = read_pairs(counts, names)
    places = adjoining(table, most) if order is None else read_order(order, columns)
    shares = [[100 * table[row][column] / max(table[row][row], 1) for column in places] for row in places]
    look = look_of(dark=dark)
    titles = [shorten(shown[place]) for place in places]
    cell = min(max(ALL_CELLS / len(places), SMALLEST), LARGEST)
    longest = max(map(len, titles))
    figure = new_figure(
        max(cell * len(places) + 0.07 * longest + 1.6, 6.0), max(cell * len(places) + 0.06 * longest + 0.7, 3.2)
    )
    axis = figure.subplots()
    draw_cells(figure, axis, shares, look, dark=dark, values=cell >= WITH_VALUE)
    small: dict[str, Any] = {"fontsize": 8 if cell >= WITH_VALUE else 6.5}
    rows = [f"{title} ({table[place][place]:,})" for title, place in zip(titles, places, strict=True)]
    axis.set_yticks(range(len(places)), rows, **small)
    axis.set_xticks(range(len(places)), titles, rotation=60, ha="right", rotation_mode="anchor", **small)
    axis.set_xlabel("… that have this one as well", fontsize=9)
    axis.set_ylabel("of the rows with this label …", fontsize=9)
    return dress(figure, look)


def adjoining(table: list[list[int]], most: int) -> list[int]:
    """The places of the most frequent labels, those that go together side by side."""
    frequent = sorted(range(len(table)), key=lambda place: -table[place][place])[:most]
    kept = [place for place in frequent if table[place][place]]
    if not kept:
        raise refusal("counts", OWNER, "have a label that is present", "none", REMEDY)
    return [kept[place] for place in side_by_side([[table[row][column] for column in kept] for row in kept])]


def read_order(order: Sequence[int], columns: list[int]) -> list[int]:
    """The places of wanted labels in the table of pairs."""
    missing = [column for column in order if column not in columns]
    if missing or not len(order) or len(set(order)) != len(order):
        got = f"{missing[0]!r}, which is not among them" if missing else repr(list(order))
        remedy = "Count more labels with `count_pairs(targets, most=...)`, or name fewer."
        raise refusal("order", OWNER, "name columns of labels that were counted, each once", got, remedy)
    return [columns.index(column) for column in order]


def read_pairs(counts: Any, names: Sequence[str]) -> tuple[list[list[int]], list[str], list[int]]:
    """The table of pairs, and the names and columns of its labels."""
    kept = isinstance(counts, Mapping)
    if kept:
        check_keys("counts", OWNER, counts, ("labels", "together"), REMEDY)
    rows = counts["together"] if kept else counts
    rows = rows.tolist() if hasattr(rows, "tolist") else rows
    if not isinstance(rows, list | tuple):
        raise refusal("counts", OWNER, "be a table of pairs", type(rows).__name__, REMEDY)
    table = [read_counts(f"counts[{place}]", OWNER, row) for place, row in enumerate(rows)]
    places = read_counts("counts['labels']", OWNER, counts["labels"]) if kept else list(range(len(table)))
    for row in table:
        if len(row) != len(table) or len(places) != len(table):
            raise refusal("counts", OWNER, "be as wide as high", f"{len(table)} by {len(row)}", REMEDY)
    check_pairs(table)
    needed = max(places, default=-1) + 1 if kept else len(table)
    if len(names) < needed or (not kept and len(names) != needed):
        remedy = "Pass one name for each label, in their order."
        raise refusal("names", OWNER, f"be those of the {needed} labels", str(len(names)), remedy)
    return table, [str(names[place]) for place in places], places


def check_pairs(table: list[list[int]]) -> None:
    """Refuses what cannot be counts of pairs: more of a pair than of one of its labels."""
    for place, row in enumerate(table):
        if max(row, default=0) > row[place]:
            got = f"{max(row)} against {row[place]} in row {place}"
            raise refusal("counts", OWNER, "have the largest number of a row in the diagonal", got, REMEDY)


def side_by_side(together: list[list[int]]) -> list[int]:
    """An order in which labels that occur together stand close: the closest groups are joined, at their nearest ends.

    Example:
        >>> from manyhot.report.co_occurrence import side_by_side
        >>> side_by_side([[9, 0, 8], [0, 9, 1], [8, 1, 9]])
        [0, 2, 1]
    """
    likeness = [
        [both / ((row[a] * together[b][b]) ** 0.5 or 1) for b, both in enumerate(row)] for a, row in enumerate(together)
    ]
    groups = [[place] for place in range(len(together))]
    while len(groups) > 1:
        pairs = [(a, b) for a in range(len(groups)) for b in range(a + 1, len(groups))]
        a, b = max(pairs, key=lambda pair: mean_likeness(likeness, groups[pair[0]], groups[pair[1]]))
        second = groups.pop(b)
        turns = [(one, other) for one in (groups[a], groups[a][::-1]) for other in (second, second[::-1])]
        one, other = max(turns, key=lambda ends: likeness[ends[0][-1]][ends[1][0]])
        groups[a] = one + other
    return groups[0]


def mean_likeness(likeness: list[list[float]], one: list[int], other: list[int]) -> float:
    """How close the labels of two groups are in the mean."""
    return sum(likeness[a][b] for a in one for b in other) / (len(one) * len(other))


def draw_cells(figure: Figure, axis: Any, shares: list[list[float]], look: Look, *, dark: bool, values: bool) -> None:
    """The cells, with their values if there is room, and the scale of their colours."""
    from matplotlib.colors import LinearSegmentedColormap

    count = len(shares)
    ramp = LinearSegmentedColormap.from_list("likely", RAMPS[dark], N=STEPS)
    edges = [place - 0.5 for place in range(count + 1)]
    # A label with itself says nothing, and would outshine all others.
    others = [
        [math.nan if row == column else share for column, share in enumerate(line)] for row, line in enumerate(shares)
    ]
    mesh = axis.pcolormesh(edges, edges, others, cmap=ramp, vmin=0, vmax=100, edgecolors=look.grid, lw=0.4)
    axis.set(ylim=(count - 0.5, -0.5), aspect="equal")
    axis.tick_params(length=0)
    for place in range(count):
        corners = [place - 0.5, place + 0.5]
        axis.fill_between(corners, *corners, facecolor=look.face, edgecolor=look.faint, hatch="//////", lw=0)
    bar = figure.colorbar(mesh, ax=axis, shrink=0.6, pad=0.02)
    bar.set_label("% of rows", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    for row, line in enumerate(others if values else []):
        for column, share in enumerate(line):
            if share >= 0.5:
                ink = ink_on(ramp(share / 100))
                axis.text(column, row, f"{share:.0f}", color=ink, fontsize=7, ha="center", va="center")


def ink_on(colour: Sequence[float]) -> str:
    """Black or white, whichever can be read better on a colour of red, green and blue from 0 to 1."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    return "#000000" if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.18 else "#ffffff"


def shorten(name: str) -> str:
    """A name that leaves room for the cells."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
