"""What the targets of a data set say: how frequent labels are, and how they keep together."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.survey.result import LabelFacts, LabelPair
from manyhot.data.targets import SparseTargets

Array = np.ndarray[Any, Any]

MOST_LABELS = 2000  # of which all pairs are counted: the most frequent ones
LEAST_ROWS = 5  # with both labels, before a pair counts as evidence
SHOWN_PAIRS = 20


def rows_of_splits(dataset: Dataset) -> dict[str, Array]:
    """The row numbers of each split."""
    return {name: np.flatnonzero(dataset.splits == name) for name in dataset.split_sizes()}


def label_facts(dataset: Dataset, targets: SparseTargets) -> list[LabelFacts]:
    """Counts and rates of every label, overall and by split."""
    parts = {name: targets.take(rows) for name, rows in rows_of_splits(dataset).items()}
    counts = {name: (part.counts().tolist(), part.known().tolist()) for name, part in parts.items()}
    overall = zip(dataset.labels.names, targets.counts().tolist(), targets.known().tolist(), strict=True)
    return [
        LabelFacts(
            name=name,
            count=count,
            known=known,
            rate=_rate(count, known),
            by_split={split: present[column] for split, (present, _) in counts.items()},
            rate_by_split={split: _rate(present[column], seen[column]) for split, (present, seen) in counts.items()},
        )
        for column, (name, count, known) in enumerate(overall)
    ]


def _rate(count: int, known: int) -> float | None:
    return count / known if known else None


class Company:
    """Which labels keep together.

    Args:
        dataset: Names the labels.
        targets: (N, K). Where there are many labels, the most frequent ones are looked at.
    """

    def __init__(self, dataset: Dataset, targets: SparseTargets) -> None:
        counts = targets.counts()
        chosen = np.sort(np.argsort(-counts, kind="stable")[:MOST_LABELS])
        self.names = [dataset.labels.names[column] for column in chosen.tolist()]
        self.n = max(len(targets), 1)
        self.together = (targets if len(chosen) == len(counts) else targets.select(chosen.tolist())).cooccurrence()
        self.counts = np.diagonal(self.together)

    def pairs(self) -> tuple[list[LabelPair], list[LabelPair]]:
        """The most frequent pairs, and those that keep closest together."""
        first, second = np.nonzero(np.triu(self.together, 1) > 0)
        if not len(first):
            return [], []
        both = self.together[first, second]
        lift = both * self.n / (self.counts[first] * self.counts[second])
        surprise = -np.log(both / self.n)
        npmi = np.divide(np.log(lift), surprise, out=np.zeros(len(lift)), where=surprise > 0)

        def pair(place: int) -> LabelPair:
            columns = (int(first[place]), int(second[place]))
            rarer, other = sorted(columns, key=lambda column: int(self.counts[column]))
            figures = (int(both[place]), float(lift[place]), float(npmi[place]))
            return LabelPair(self.names[rarer], self.names[other], *figures)

        frequent = np.lexsort((-npmi, -both))[:SHOWN_PAIRS]
        close = [place for place in np.lexsort((-both, -npmi)) if both[place] >= LEAST_ROWS and npmi[place] > 0]
        return [pair(place) for place in frequent], [pair(place) for place in close[:SHOWN_PAIRS]]

    def inseparable(self) -> list[list[str]]:
        """Sets of labels that are present in exactly the same rows."""
        same = (self.together == self.counts[:, None]) & (self.together == self.counts[None, :])
        same &= (self.counts >= LEAST_ROWS)[:, None]
        sets = {tuple(np.flatnonzero(row).tolist()) for row in same if np.count_nonzero(row) > 1}
        return [[self.names[column] for column in some] for some in sorted(sets)]

    def implied(self) -> list[tuple[str, str]]:
        """Pairs of which the first is never present without the second, though the second is without the first."""
        inside = (self.together == self.counts[:, None]) & (self.counts >= LEAST_ROWS)[:, None]
        # A label that every row has follows from all others, which says nothing.
        inside &= (self.counts[:, None] < self.counts[None, :]) & (self.counts < self.n)[None, :]
        return [(self.names[a], self.names[b]) for a, b in zip(*np.nonzero(inside), strict=True)]
