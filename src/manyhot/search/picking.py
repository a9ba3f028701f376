"""What cannot be among the best rows, told from single columns in memory as fast as these can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from manyhot.search.kept import table_of
from manyhot.search.relation import Array, Cells, Relation

# Picking rows pays if not more than this share of them is left after the first label.
WORTH_PICKING = 0.25

Bound = tuple[int, float | None, float | None]
"""A label by its number, and what its probability must at least and at most be."""


def place_in_sample(cells: Cells, literals: Sequence[tuple[int, bool]], place: int) -> float:
    """The probability that labels are present, or absent, which takes this place among those of the sample."""
    probs = np.ones(1)
    for label, wanted in literals:
        sample = cells.samples[label].astype(np.float64)
        probs = probs * (sample if wanted else 1 - sample)
    place = min(place, len(probs))
    return float(np.partition(probs, -place)[-place]) if place else 0.0


def pick(relation: Relation, cells: Cells, bounds: Sequence[Bound]) -> Relation:
    """The relation without rows of which one label alone says that they are not wanted; itself where that is slow.

    A comparison of one column with a number runs as fast as memory; after that of the label that rules out the most
    rows, few are left to look at.
    """
    rows = None
    for bound in sorted(bounds, key=lambda bound: _within(cells.samples[bound[0]], bound).mean()):
        probs = cells.probs[bound[0]]
        if rows is None:
            rows = np.flatnonzero(_within(probs, bound))
            if len(rows) > WORTH_PICKING * len(probs):
                return relation
        else:
            rows = rows[_within(probs[rows], bound)]
    if rows is None:
        return relation
    picked = table_of(cells.rows[rows], {label: probs[rows] for label, probs in cells.probs.items()})
    return replace(relation, rows="picked", tables={"picked": picked}, cells=None)


def _within(probs: Array, bound: Bound) -> Array:
    """Which of some probabilities lie within a bound, of which rounding to their precision excludes nothing."""
    _, low, high = bound
    number = probs.dtype.type
    inside: Array
    if low is not None:
        inside = probs >= np.nextafter(number(low), number(-1))
    else:
        assert high is not None
        inside = probs <= np.nextafter(number(high), number(2))
    return inside
