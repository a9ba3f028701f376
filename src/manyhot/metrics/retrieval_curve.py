"""Search by tags over all queries, long and short: how precision falls with the number of labels that are named."""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.checks import check_count, check_number
from manyhot.metrics.intervals import Interval
from manyhot.metrics.matching import Samples, precision_of_queries
from manyhot.metrics.metric import Metric, Outcome, State
from manyhot.metrics.retrieval import query_counts
from manyhot.metrics.stratified import stratified_mean
from manyhot.metrics.tag_queries import TagQueries, all_queries, stratified_queries


class RetrievalCurve(Metric):
    """Mean average precision over all queries that name a present label, as a whole and by how many labels they name.

    With K labels there are many such queries: 561,869 of up to five of 20 labels, 769,548,876 of 80. Either all are
    judged, or some of each kind are drawn, and the mean over all is estimated with an interval; a kind are the queries
    of so many present and so many absent labels. Average precision is that of `RetrievalPrecision`.

    No-label rows: Samples that match no query, as any others.
    Empty queries: A query without a match has no average precision and is left out of the means; `counts` and
    `details["without_matches"]` say how many of those judged there were. Nothing left gives NaN.
    Unknown cells: A sample is left out of the queries that name one of its unknown labels.
    Memory: The log-odds are kept.

    Args:
        most: How many labels a query may name.
        each: How many queries of each kind are drawn; None for all queries.
        seed: Of the draw: the same seed and number of labels give the same queries, so that models can be compared.
        level: How often an interval is to hold the mean over all queries.

    Reference: Cheng and Vasconcelos, Towards Calibrated Multi-label Deep Neural Networks, CVPR 2024, who judge "all
        label combinations" and do not say how; the estimate is that of `stratified_mean`.

    Example:
        >>> draw = torch.Generator().manual_seed(0)
        >>> log_odds = torch.randn(300, 30, generator=draw) * 2 - 2
        >>> targets = (torch.rand(300, 30, generator=draw) < torch.sigmoid(log_odds)).int()
        >>> outcome = RetrievalCurve(most=3, each=50).update(log_odds, targets).compute()
        >>> {name: round(value, 2) for name, value in outcome.values.items()}
        {'map': 0.48, 'map_length_1': 0.7, 'map_length_2': 0.56, 'map_length_3': 0.47}
        >>> outcome.details["low"] < outcome.details["by_length"]
        tensor([False,  True,  True])
    """

    def __init__(self, most: int = 5, *, each: int | None = None, seed: int = 0, level: float = 0.95) -> None:
        self.most = check_count("most", "RetrievalCurve", most, low=1)
        self.each = None if each is None else check_count("each", "RetrievalCurve", each, low=2)
        self.seed = check_count("seed", "RetrievalCurve", seed, low=0)
        self.level = check_number("level", "RetrievalCurve", level, low=0, high=1, low_open=True, high_open=True)
        super().__init__()

    def start(self) -> State:
        """The whole table."""
        return {"log_odds": [], "targets": []}

    def update(self, values: Any, targets: Any) -> Self:
        """Collects log-odds (N, K), as `link.log_odds(scores)` gives them, and targets (N, K); returns itself."""
        values, targets = self._check(values, targets)
        return self.collect(log_odds=values.clone(), targets=targets.clone())

    def queries(self, num_labels: int) -> TagQueries:
        """The queries that are judged where there are so many labels."""
        if self.each is None:
            return all_queries(num_labels, self.most)
        return stratified_queries(num_labels, self.each, most=self.most, seed=self.seed)

    def compute(self) -> Outcome:
        """The mean over all queries as "map", and over those of each length as "map_length_1" and so on.

        Details:
            interval: (2,), the ends of the interval of "map".
            by_length, low, high: (most,), the means by length and the ends of their intervals.
            queries, without_matches: (most,), how many queries of each length were judged, and had no match.
            by_query: (Q,), the average precision of each of `queries(K)`.
        """
        if not self.num_labels or not sum(map(len, self.parts("targets"))):
            nothing = Interval(math.nan, math.nan, math.nan)
            return self._outcome(nothing, [nothing] * self.most, torch.zeros(0), TagQueries.of([]))
        queries = self.queries(self.num_labels)
        by_query = precision_of_queries(Samples.of(self.joined("log_odds"), self.joined("targets")), queries)
        lengths = range(1, self.most + 1)
        return self._outcome(
            stratified_mean(by_query, queries, self.num_labels, level=self.level),
            [stratified_mean(by_query, queries, self.num_labels, length=n, level=self.level) for n in lengths],
            by_query,
            queries,
        )

    def _outcome(self, whole: Interval, means: list[Interval], by_query: Tensor, queries: TagQueries) -> Outcome:
        lengths = torch.arange(1, self.most + 1, device=queries.codes.device)
        drawn = (queries.lengths().unsqueeze(1) == lengths).sum(0)
        without = torch.tensor([mean.undefined for mean in means])
        details = {
            "interval": _tensor([whole.low, whole.high]).clamp(0, 1),
            "by_length": _tensor([mean.value for mean in means]),
            "low": _tensor([mean.low for mean in means]).clamp(0, 1),
            "high": _tensor([mean.high for mean in means]).clamp(0, 1),
            "queries": drawn - without,
            "without_matches": without,
            "by_query": by_query,
        }
        values = {f"map_length_{length}": mean.value for length, mean in enumerate(means, 1)}
        return Outcome({"map": whole.value} | values, query_counts(by_query), details)


def _tensor(numbers: list[float]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)
