"""Precision, recall and the number of labels given, at every threshold: counted once, drawn in several ways."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.refusal import refusal
from manyhot.report.reading import check_keys, check_whole, read_numbers, read_same

if TYPE_CHECKING:
    from torch import Tensor

REMEDY = "Pass (values, targets), or what `count_curve` gives."
KEYS = ("thresholds", "precision", "recall", "given")
# Thresholds that are looked at for each one that is kept.
LOOKED_AT = 20


class Curve(NamedTuple):
    """What one threshold for all cells does, by threshold; shares from 0 to 1.

    Attributes:
        thresholds: Rising.
        precision: The share of given cells that are present.
        recall: The share of present cells that are given.
        given: How many labels a row is given in the mean.
        rate: The share of cells that are present; NaN where it was not kept.
        ap: The average precision of all cells in one ranking; NaN where it was not kept.
    """

    thresholds: list[float]
    precision: list[float]
    recall: list[float]
    given: list[float]
    rate: float
    ap: float

    @property
    def f1(self) -> list[float]:
        """The harmonic mean of precision and recall."""
        return [f1_of(precision, recall) for precision, recall in zip(self.precision, self.recall, strict=True)]


def f1_of(precision: float, recall: float) -> float:
    """The harmonic mean of precision and recall; 0 where both are.

    Example:
        >>> from manyhot.report.curves import f1_of
        >>> f1_of(0.5, 1.0), f1_of(0.0, 0.0)
        (0.6666666666666666, 0.0)
    """
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def count_curve(values: Any, targets: Any, *, points: int = 200) -> dict[str, Any]:
    """Precision, recall and the number of labels given by threshold, as lists that can be kept as JSON.

    A label is given where its value is at least the threshold. Every number is exact at its threshold; where cells
    have more different values than `points`, thresholds are left out where the curves are nearly straight.

    Args:
        values: (N, K), probabilities or scores; they are compared across samples and labels.
        targets: (N, K): 1 present, 0 absent, -1 unknown, which are left out.
        points: The most thresholds to keep.

    Returns:
        "thresholds" in rising order, the "precision" and "recall" at each and the mean number of labels "given" to a
        row with known cells, the "rate" of present cells, and the average precision "ap" of all cells in one ranking.

    Example:
        >>> from manyhot.report import count_curve
        >>> count_curve(torch.tensor([[0.75, 0.25], [0.5, 0.5]]), torch.tensor([[1, 0], [1, 0]]))["precision"]
        [0.5, 0.6666666666666666, 1.0]
    """
    from manyhot.cells import as_scores, as_targets
    from manyhot.metrics.precision import known_cells, precision_of_column
    from manyhot.metrics.sorting import Column, sort_in_place

    points = check_whole("points", "count_curve", points, low=2)
    values = as_scores("count_curve", values)
    targets = as_targets("count_curve", targets, values, of="values")
    present, known = (sort_in_place(cells).cpu() for cells in known_cells(values, targets))
    finite = known[known.isfinite()]
    if not len(present) or not len(finite):
        got = "none that are present" if len(finite) else "none"
        remedy = "Pass rows with labels, and leave out models without."
        raise refusal("values", "count_curve", "have finite values of known and of present cells", got, remedy)
    rows = int((targets >= 0).any(1).sum())
    looked_at = _thresholds(present[present.isfinite()], finite, LOOKED_AT * points)
    counted = _count(present, known, looked_at, rows)
    kept = _bends([looked_at.double(), *counted.values()], points)
    return {
        "thresholds": looked_at[kept].tolist(),
        **{name: column[kept].tolist() for name, column in counted.items()},
        "rate": len(present) / len(known),
        "ap": precision_of_column(Column(present, known)),
    }


def read_curve(argument: str, owner: str, given: Any) -> Curve:
    """The curve of values and targets, or one that comes ready."""
    if isinstance(given, tuple | list) and len(given) == 2:
        given = count_curve(*given)
    if not isinstance(given, Mapping):
        raise refusal(argument, owner, "be values with their targets, or a curve", type(given).__name__, REMEDY)
    check_keys(argument, owner, given, KEYS, REMEDY)
    rows: dict[str, Any] = {key: read_numbers(f"{argument}[{key!r}]", owner, given[key]) for key in KEYS}
    if not rows["thresholds"]:
        raise refusal(f"{argument}['thresholds']", owner, "have at least one", "none", REMEDY)
    for key, row in rows.items():
        read_same(f"{argument}[{key!r}]", owner, row, len(rows["thresholds"]))
    for key in ("precision", "recall"):
        read_shares(f"{argument}[{key!r}]", owner, rows[key])
    for key in ("rate", "ap"):
        (rows[key],) = read_numbers(f"{argument}[{key!r}]", owner, [given.get(key)], gaps=True)
    return Curve(**rows)


def read_shares(argument: str, owner: str, numbers: list[float]) -> list[float]:
    """Refuses numbers that are no fractions; returns them."""
    for number in numbers:
        if not 0 <= number <= 1:
            raise refusal(argument, owner, "lie between 0 and 1", f"{number:g}", "Pass fractions, not percent.")
    return numbers


def _thresholds(present: Tensor, known: Tensor, number: int) -> Tensor:
    """About so many of the values, rising: even in recall, in number and in value, and dense where few are given."""
    import torch

    third = number // 3
    # In float64, because places among many cells are too large for less.
    by_rank = [
        side[torch.linspace(0, len(side) - 1, third, dtype=torch.float64).round().long()]
        for side in (present, known)
        if len(side)
    ]
    even = torch.linspace(float(known[0]), float(known[-1]), third, dtype=known.dtype)
    by_value = known[torch.searchsorted(known, even).clamp(max=len(known) - 1)]
    first = torch.logspace(0, math.log10(len(known)), third, dtype=torch.float64).round().long().clamp(1, len(known))
    thresholds: Tensor = torch.cat([*by_rank, by_value, known[len(known) - first]]).unique()
    return thresholds


def _count(present: Tensor, known: Tensor, thresholds: Tensor, rows: int) -> dict[str, Tensor]:
    """What is given at each threshold; present and known cells in rising order."""
    from manyhot.metrics.sorting import count_below

    hits = (len(present) - count_below(present, thresholds)).double()
    given = (len(known) - count_below(known, thresholds)).double()
    return {"precision": hits / given, "recall": hits / len(present), "given": given / rows}


def _bends(columns: list[Tensor], points: int) -> Tensor:
    """The places of so many points of a curve that are even along its length; all where there are not more.

    Each column counts by its own range, so that lines over any of them look as exact as over the others.
    """
    import torch

    length = len(columns[0])
    if length <= points:
        return torch.arange(length)
    steps = torch.stack([column.diff().abs() / (column.max() - column.min()).clamp(min=1e-12) for column in columns])
    along = torch.nn.functional.pad(steps.sum(0).cumsum(0), (1, 0))
    even = torch.linspace(0, float(along[-1]), points, dtype=along.dtype)
    places: Tensor = torch.searchsorted(along, even).clamp(max=length - 1).unique()
    return places
