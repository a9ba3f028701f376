"""Search by tags: how well samples are ranked that carry some labels and not others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.metrics.matching import Samples, precision_of_queries
from manyhot.metrics.metric import Metric, Outcome, State, mean_of_defined
from manyhot.metrics.tag_queries import TagQueries
from manyhot.refusal import refusal


class RetrievalPrecision(Metric):
    """Mean average precision of searching for samples with some labels and without others.

    A sample is scored by the log-probability of the query, the sum of log-sigmoids of its log-odds, and is relevant if
    all labels of `present` are there and none of `absent`. Average precision is that of `MeanAveragePrecision`.

    No-label rows: Samples that match no query that names a present label, as any others.
    Empty queries: A query without a relevant sample has no average precision; it is left out of the mean, and `counts`
    says how many there were. Nothing left gives NaN.
    Unknown cells: A sample is left out of the queries that name one of its unknown labels.
    Memory: The log-odds of the labels that queries name are kept.

    Args:
        queries: Pairs (present, absent) of label numbers, such as ([0, 3], [5]), or `TagQueries`; `all_queries` gives
            all there are, and `stratified_queries` and `sample_queries` draw some.

    Reference: Cheng and Vasconcelos, Towards Calibrated Multi-label Deep Neural Networks, CVPR 2024, equation (23).
        They multiply probabilities, which ties samples whose product is rounded to 0, and do not say what a query
        without a relevant sample counts as.

    Example:
        >>> metric = mh.metrics.RetrievalPrecision([([0], []), ([0], [1]), ([0, 1], [])])
        >>> log_odds = torch.tensor([[2.0, -1.0], [1.0, 3.0], [-2.0, 0.5]])
        >>> outcome = metric.update(log_odds, torch.tensor([[0, 0], [1, 0], [0, 1]])).compute()
        >>> round(outcome["map"], 4), outcome.counts
        (0.4167, {'queries': 2, 'queries without matches': 1})
        >>> outcome.details["by_query"]
        tensor([0.5000, 0.3333,    nan], dtype=torch.float64)
    """

    def __init__(self, queries: Sequence[Any]) -> None:
        self.queries = named_queries(queries, "RetrievalPrecision")
        self.labels = self.queries.labels()
        super().__init__()

    def start(self) -> State:
        """The columns of the labels that are named."""
        return {"log_odds": [], "targets": []}

    def update(self, values: Any, targets: Any) -> Self:
        """Collects log-odds (N, K), as `link.log_odds(scores)` gives them, and targets (N, K); returns itself."""
        values, targets = self._check(values, targets)
        check_labels(self.labels, values.shape[1], "RetrievalPrecision")
        return self.collect(log_odds=values[:, self.labels], targets=targets[:, self.labels])

    def compute(self) -> Outcome:
        """The mean over queries as "map", and the average precision of each as `details["by_query"]`."""
        log_odds, targets = self.joined("log_odds"), self.joined("targets")
        by_query = torch.full((len(self.queries),), math.nan, dtype=torch.float64, device=log_odds.device)
        if len(log_odds):
            by_query = precision_of_queries(Samples.of(log_odds, targets), narrowed(self.queries, self.labels))
        return Outcome({"map": mean_of_defined(by_query)}, query_counts(by_query), {"by_query": by_query})


def named_queries(queries: Sequence[Any], owner: str) -> TagQueries:
    """The queries in one tensor, at least one."""
    found = TagQueries.of(queries, owner=owner)
    if not len(found):
        raise refusal("queries", owner, "hold at least one query", "none", "Draw some with `stratified_queries`.")
    return found


def check_labels(labels: Sequence[int], num_labels: int, owner: str) -> None:
    """Refuses queries that name a label which is not there."""
    if labels[-1] >= num_labels:
        rule = f"name labels below {num_labels}, the number of labels"
        raise refusal("queries", owner, rule, str(labels[-1]), "Count labels from 0.")


def narrowed(queries: TagQueries, labels: Sequence[int]) -> TagQueries:
    """The same queries of a table that holds the columns of these labels only, in rising order."""
    wanted = torch.tensor(labels, dtype=queries.codes.dtype, device=queries.codes.device) + 1
    places = torch.searchsorted(wanted, queries.codes.abs()) + 1
    return TagQueries((places * queries.codes.sign()).to(queries.codes.dtype))


def query_counts(by_query: Tensor) -> dict[str, int]:
    """How many queries were judged, and how many could not be."""
    defined = int((~by_query.isnan()).sum())
    return {"queries": defined, "queries without matches": len(by_query) - defined}
