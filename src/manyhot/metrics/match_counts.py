"""How many samples match a query: the expected number against the true one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import check_number
from manyhot.metrics.metric import MetricResult, divide
from manyhot.metrics.retrieval import QueryMetric, Samples, count_common
from manyhot.poisson_binomial import BINS, count_interval
from manyhot.sorting import CELLS_AT_ONCE

Array = np.ndarray[Any, Any]
# Added to both counts before they are divided, so that none and one are comparable.
COUNT_OFFSET = 0.5


class MatchCounts(QueryMetric):
    """The error of the expected number of matches of tag queries, which is the sum of their probabilities.

    If probabilities are calibrated and labels are independent given the sample, the number of matches has the
    Poisson-binomial distribution of these probabilities. A search reports its central interval, by
    `count_interval`. Values, each over the queries:

    - `count_error`: mean of |log((expected + 1/2) / (true + 1/2))|; 0.1 means that counts are off by 10 %.
    - `count_bias`: the same without the bars: above 0 if too many are expected.
    - `count_ratio`: all expected matches over all true ones.
    - `count_coverage`: the share of queries whose true number lies in the interval; at least `level` for
      calibrated probabilities, since counts are whole. The interval takes the probabilities as exact; those of a
      calibrator fitted on fewer rows than are evaluated have errors larger than the spread of such counts.

    No-label rows: Samples that match no query that names a present label, as any others.
    Empty queries: A query without a match counts like any other: to expect none is right.
    Unknown cells: A sample is left out of the queries that name one of its unknown labels.
    Memory: About 8 kilobytes per query.

    Args:
        queries: Pairs (present, absent) of label numbers, or `TagQueries`.
        level: The probability that the interval holds the number of matches.

    Reference: Hong, On computing the distribution function for the Poisson binomial distribution, 2013.

    Example:
        >>> log_odds = torch.tensor([[2.0, -1.0], [1.0, 3.0], [-2.0, 0.5]])
        >>> metric = MatchCounts([([0], []), ([0], [1])]).update(log_odds, torch.tensor([[1, 0], [1, 1], [0, 1]]))
        >>> result = metric.compute()
        >>> result.details["expected"], result.details["true"]
        (tensor([1.7311, 0.7236], dtype=torch.float64), tensor([2, 1]))
        >>> result["count_coverage"]
        1.0
    """

    def __init__(self, queries: Sequence[Any], *, level: float = 0.95) -> None:
        super().__init__(queries)
        self.level = check_number("level", "MatchCounts", level, "(0, 1)")

    def update(self, values: Any, targets: Any) -> Self:
        """Collects log-odds (N, K), as `link.log_odds(scores)` gives them, and targets (N, K); returns itself."""
        samples = Samples.of(*self.named_columns(values, targets))
        if not samples.rows:
            return self
        clauses = samples.clauses(self.narrowed)
        blocks = clauses.split(max(1, CELLS_AT_ONCE // 8 // samples.rows))
        parts = [_sums(samples.scores(some).exp_()) for some in blocks]
        sums = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        return self.collect(**sums, true=count_common(samples.holds, clauses))

    def compute(self) -> MetricResult:
        """The four values, and by query `expected`, its standard `deviation`, `true`, and if that is `within`.

        `low` and `high` are the ends of the interval.
        """
        sums, squares, true = self.total("bin_sums", 0, BINS), self.total("squares", 0), self.total("true", 0)
        expected = sums.sum(1)
        names = ("bin_rows", "bin_sums", "low_squares", "low_cubes")
        by_query = zip(*(self.total(name, 0).cpu().numpy() for name in names), strict=True)
        ends = [count_interval(_bins(*one), self.level) for one in by_query]
        low, high = torch.tensor(ends, dtype=torch.int64, device=true.device).reshape(-1, 2).unbind(1)
        within = (low <= true) & (true <= high)
        ratios = torch.log((expected + COUNT_OFFSET) / (true + COUNT_OFFSET))
        values = {
            "count_error": float(ratios.abs().mean()),
            "count_bias": float(ratios.mean()),
            "count_ratio": divide(float(expected.sum()), float(true.sum())),
            "count_coverage": float(within.double().mean()),
        }
        counts = {"queries": len(true), "queries without matches": int((true == 0).sum())}
        details = {
            "expected": expected,
            "true": true,
            "deviation": (expected - squares).clamp(min=0).sqrt(),
            "low": low,
            "high": high,
            "within": within,
        }
        return MetricResult(values, counts, details)


def _sums(probs: Tensor) -> dict[str, Tensor]:
    """What is collected of the probabilities (Q, N) that samples match."""
    indices = (probs * BINS).long()
    none = probs.new_zeros(len(probs), BINS + 1)
    low = torch.where(indices == 0, probs, 0.0)
    return {
        "squares": probs.square().sum(1),
        "bin_rows": none.long().scatter_add(1, indices, torch.ones_like(indices)),
        "bin_sums": none.scatter_add(1, indices, probs),
        "low_squares": low.square().sum(1),
        "low_cubes": low.pow(3).sum(1),
    }


def _bins(rows: Array, sums: Array, low_squares: float, low_cubes: float) -> Array:
    """The bins of one query that hold samples; in all but the lowest, their mean stands for each of these."""
    used = rows.nonzero()[0]
    count, first = rows[used], sums[used]
    mean, lowest = first / count, used == 0
    second = np.where(lowest, low_squares, mean * first)
    third = np.where(lowest, low_cubes, mean * mean * first)
    return np.stack([used, count, first, second, third], axis=1)
