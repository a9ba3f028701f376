"""Ranks samples by the probability of a query: the best so far, the histogram of all, and cut-offs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from manyhot.errors import InputError
from manyhot.poisson_binomial import BINS
from manyhot.search.diagram import HOLDS, Diagram
from manyhot.search.evaluate import PROBABILITIES, PROBS, SAFE, Array, chunk_rows, evaluate, log_probs

# Up to so many columns single precision leaves probabilities right to a small part of `_least`'s tolerance.
MAX_SINGLE_PRECISION_COLUMNS = 500
# Sums of the same numbers in another order differ by rounding; a recall of 1 must still be reached.
ROUNDING = 1e-12


def check_k(k: object) -> int | None:
    """The number of results to return, or None for no limit."""
    if k is None:
        return None
    number = 0 if isinstance(k, bool) or not isinstance(k, Integral) else int(k)
    if not 1 <= number < 10**18:
        rule = "be a whole number from 1 on, of at most 18 digits"
        raise InputError("k", rule=rule, got=repr(k), hint="Pass how many samples you want.")
    return number


def check_share(argument: str, share: object) -> float | None:
    """A share above 0 and up to 1, or None."""
    if share is None:
        return None
    number = 0.0 if isinstance(share, bool) or not isinstance(share, Real) else float(share)
    if not 0 < number <= 1:
        hint = "Pass a share such as 0.9."
        raise InputError(argument, rule="lie above 0 and not above 1", got=repr(share), hint=hint)
    return number


def check_level(argument: str, level: object) -> float:
    """A probability above 0 and below 1."""
    number = 0.0 if isinstance(level, bool) or not isinstance(level, Real) else float(level)
    if not 0 < number < 1:
        hint = "Pass 0.95, for example."
        raise InputError(argument, rule="lie above 0 and below 1", got=repr(level), hint=hint)
    return number


class TopK:
    """The most probable rows so far.

    Args:
        k: How many; None for all.
    """

    def __init__(self, k: int | None) -> None:
        self.k = k
        self._parts = [np.zeros((3, 0))]
        self._added = 0  # since they were cut to k
        self._kth = 0.0  # the lowest probability of the k, if there are as many

    def update(
        self, first_row: int, diagram: Diagram, cells: Mapping[int, Array], probs: Array, *, exact: bool
    ) -> None:
        """Takes in rows with their probabilities, which may be off by the last digits of single precision."""
        chosen = np.flatnonzero(probs >= _least(self._kth, exact=exact))
        if self.k is not None and len(chosen) > self.k:
            chosen = chosen[probs[chosen] >= _least(np.partition(probs[chosen], -self.k)[-self.k], exact=exact)]
        if len(chosen):
            some = {column: values[chosen] for column, values in cells.items()}
            self.add(np.stack([first_row + chosen, *log_probs(diagram, some, len(chosen))]))

    def add(self, rows: Array) -> None:
        """Takes in (3, n) numbers of rows, probabilities, and their logarithms."""
        self._parts.append(rows)
        self._added += rows.shape[1]
        if self.k is not None and self._added >= self.k:
            best = self.best()
            self._parts, self._added = [best], 0
            self._kth = best[1, -1]

    def best(self) -> Array:
        """(3, n) as for `add`, the most probable first; ties in the order of the table."""
        rows = np.concatenate(self._parts, 1)
        return rows[:, np.lexsort((rows[0], -rows[2]))[: self.k]]


def _least(kth: float, *, exact: bool) -> float:
    """From which probability on rows are compared by their exact logarithms with those of the k-th probability."""
    tolerance, safe = (1e-9, SAFE) if exact else (1e-3, 1e-30)
    return kth * (1 - tolerance) if kth > safe else 0.0


class MatchHistogram:
    """How many rows have probabilities in each bin, with the sums of their powers; see `poisson_binomial`."""

    def __init__(self) -> None:
        self._sums = np.zeros((BINS + 1, 4))

    def update(self, probs: Array) -> None:
        """Takes in the probabilities of some rows."""
        # Most rows are improbable: those of the lowest bin are added up at once.
        high = np.flatnonzero(probs >= 1 / BINS)
        lowest = probs.copy()
        lowest[high] = 0
        squares = lowest * lowest
        self._sums[0] += len(probs) - len(high), lowest.sum(), squares.sum(), squares @ lowest
        others = np.minimum(probs[high], 1)
        bins = (others * BINS).astype(np.int64)
        for power in range(4):
            self._sums[:, power] += np.bincount(bins, others**power if power else None, BINS + 1)

    def merge(self, other: MatchHistogram) -> None:
        """Takes in the rows of another."""
        self._sums += other._sums

    @property
    def mean(self) -> float:
        """The expected number of matches."""
        return float(self._sums[:, 1].sum())

    def bins(self) -> Array:
        """(B, 5) the bins with rows in them: position, rows, and the sums of the powers."""
        filled = np.flatnonzero(self._sums[:, 0])
        return np.column_stack([filled, self._sums[filled]])


@dataclass
class Scan:
    """One pass over the rows of a collection.

    Attributes:
        diagram: The query.
        top: The most probable rows; None to keep none.
        histogram: Of all rows; None to make none.
    """

    diagram: Diagram
    top: TopK | None
    histogram: MatchHistogram | None

    def update(self, first_row: int, cells: Mapping[int, Array], rows: int) -> None:
        """Takes in some rows: the cells of each column that the query needs."""
        step = chunk_rows(self.diagram)
        exact = self.histogram is not None or len(cells) > MAX_SINGLE_PRECISION_COLUMNS
        for start in range(0, rows, step):
            some = {column: values[start : start + step] for column, values in cells.items()}
            size = min(step, rows - start)
            # To find the best, the precision of the cells is enough; their probabilities are then computed exactly.
            values = {column: part.astype(np.float64) for column, part in some.items()} if exact else some
            holds, _ = evaluate(self.diagram, PROBABILITIES, PROBS.probs, values, size, HOLDS)
            probs = np.broadcast_to(holds, (size,))
            if self.top is not None:
                self.top.update(first_row + start, self.diagram, some, probs, exact=exact)
            if self.histogram is not None:
                self.histogram.update(probs)

    def begin(self) -> Scan:
        """A scan of the same kind for other rows, which `merge` takes in."""
        top, histogram = self.top and TopK(self.top.k), self.histogram and MatchHistogram()
        return Scan(self.diagram, top, histogram)

    def merge(self, other: Scan) -> None:
        """Takes in the rows of another scan."""
        if self.top is not None and other.top is not None:
            self.top.add(other.top.best())
        if self.histogram is not None and other.histogram is not None:
            self.histogram.merge(other.histogram)


def cutoff_length(probs: Array, total: float, *, precision: float | None, recall: float | None) -> int:
    """How many of the falling probabilities belong to the result.

    Args:
        probs: In falling order, at least as many as belong to the result.
        total: The sum over all samples.
        precision: The result goes on as long as the mean of its probabilities is at least this.
        recall: It ends as soon as it holds this share of `total`.
    """
    sums = np.cumsum(probs)
    length = len(sums)
    if precision is not None:
        below = np.flatnonzero(sums < precision * np.arange(1, len(sums) + 1) * (1 - ROUNDING))
        length = int(below[0]) if len(below) else length
    if recall is not None and total <= 0:
        return 0
    if recall is not None:
        enough = np.flatnonzero(sums >= recall * total * (1 - ROUNDING))
        length = min(length, int(enough[0]) + 1) if len(enough) else length
    return length
