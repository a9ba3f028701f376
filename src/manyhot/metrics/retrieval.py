"""Search by tags: how well samples are ranked that carry some labels and not others."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from manyhot.checks import check_count
from manyhot.metrics.metric import Metric, Outcome, State, mean_of_defined
from manyhot.metrics.precision import precision_of_column
from manyhot.metrics.sorting import CELLS_AT_ONCE, sorted_lists
from manyhot.refusal import refusal


class TagQuery(NamedTuple):
    """Samples that carry all of some labels and none of others, by the numbers of the labels."""

    present: tuple[int, ...]
    absent: tuple[int, ...] = ()


def sample_queries(num_labels: int, count: int, *, most: int = 5, seed: int = 0) -> list[TagQuery]:
    """Different tag queries drawn from all that name a present label and not more than `most` labels.

    Every such query is as likely as any other; since there are more of the longer ones, most are long.

    Args:
        num_labels: The number K of labels.
        count: How many queries; all that there are, if there are fewer.
        most: How many labels a query may name, present and absent ones together.
        seed: Of the draw: the same seed gives the same queries.

    Example:
        >>> mh.metrics.sample_queries(80, 2, most=3)
        [TagQuery(present=(6, 70), absent=(57,)), TagQuery(present=(41,), absent=(63, 72))]
    """
    num_labels = check_count("num_labels", "sample_queries", num_labels, low=1)
    count = check_count("count", "sample_queries", count, low=1)
    most = min(check_count("most", "sample_queries", most, low=1), num_labels)
    ways = [math.comb(num_labels, size) * (2**size - 1) for size in range(1, most + 1)]
    draw = random.Random(seed)
    if 2 * count >= sum(ways):
        numbers = draw.sample(range(sum(ways)), min(count, sum(ways)))
    else:
        # There can be more queries than `sample` can count; drawn anew until they differ, which takes few tries here.
        found: dict[int, None] = {}
        while len(found) < count:
            found[draw.randrange(sum(ways))] = None
        numbers = list(found)
    return [_query_of_number(number, ways, num_labels) for number in numbers]


def _query_of_number(number: int, ways: Sequence[int], num_labels: int) -> TagQuery:
    """The query of a number, if all of them are counted through: by size, by labels, and by which are to be present."""
    size = 1
    while number >= ways[size - 1]:
        number -= ways[size - 1]
        size += 1
    rank, signs = divmod(number, 2**size - 1)
    labels = []
    for place in range(size, 0, -1):
        # Sets of labels are counted by their largest one, of which `comb(label, place)` sets lie below.
        label = bisect_right(range(num_labels), rank, key=lambda label: math.comb(label, place)) - 1
        rank -= math.comb(label, place)
        labels.append(label)
    present = [label for place, label in enumerate(labels) if (signs + 1) >> place & 1]
    return TagQuery(tuple(sorted(present)), tuple(sorted(set(labels) - set(present))))


def log_probs(log_odds: Tensor) -> Tensor:
    """(2, K, N), the logarithms of the probabilities that each label is present, and that it is absent."""
    columns = log_odds.T.contiguous()
    return torch.stack([F.logsigmoid(columns), F.logsigmoid(-columns)])


def query_scores(logs: Tensor, queries: Sequence[TagQuery]) -> Tensor:
    """(Q, N), the log-probability that a sample matches a query if its labels are independent; from `log_probs`.

    Sums of logarithms, because products of probabilities would be rounded to 0, and order would turn into ties.
    """
    scores = logs.new_zeros(len(queries), logs.shape[2])
    for side, table in enumerate(logs):
        for rows, labels in _by_place([query[side] for query in queries], logs.device):
            scores[rows] += table[labels]
    return scores


def query_targets(targets: Tensor, queries: Sequence[TagQuery]) -> Tensor:
    """(Q, N) as int8: 1 where a sample matches a query, 0 where not, -1 where a label of the query is unknown."""
    marks = targets.T
    relevant = torch.ones(len(queries), len(targets), dtype=torch.bool, device=targets.device)
    known = relevant.clone()
    for wanted, side in ((1, 0), (0, 1)):
        for rows, labels in _by_place([query[side] for query in queries], targets.device):
            relevant[rows] &= marks[labels] == wanted
            known[rows] &= marks[labels] >= 0
    return torch.where(known, relevant.to(torch.int8), -1).to(torch.int8)


def _by_place(named: Sequence[tuple[int, ...]], device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """For the first labels of all queries, then the second ones, and so on: which queries have one, and which it is."""
    for place in range(max((len(labels) for labels in named), default=0)):
        rows = [row for row, labels in enumerate(named) if len(labels) > place]
        yield torch.tensor(rows, device=device), torch.tensor([named[row][place] for row in rows], device=device)


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
        queries: Pairs (present, absent) of label numbers, such as ([0, 3], [5]); `sample_queries` draws some.

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
        self.queries = [_checked(query) for query in queries]
        if not self.queries:
            remedy = "Draw some with `sample_queries`."
            raise refusal("queries", "RetrievalPrecision", "hold at least one query", "none", remedy)
        self.labels = sorted({label for query in self.queries for side in query for label in side})
        super().__init__()

    def start(self) -> State:
        """The columns of the labels that are named."""
        return {"log_odds": [], "targets": []}

    def update(self, values: Any, targets: Any) -> Self:
        """Collects log-odds (N, K), as `link.log_odds(scores)` gives them, and targets (N, K); returns itself."""
        values, targets = self._check(values, targets)
        if self.labels and self.labels[-1] >= values.shape[1]:
            rule = f"name labels below {values.shape[1]}, the number of labels"
            raise refusal("queries", "RetrievalPrecision", rule, str(self.labels[-1]), "Count labels from 0.")
        return self.collect(log_odds=values[:, self.labels], targets=targets[:, self.labels])

    def compute(self) -> Outcome:
        """The mean over queries as "map", and the average precision of each as `details["by_query"]`."""
        log_odds, targets = self.joined("log_odds"), self.joined("targets")
        by_query = torch.full((len(self.queries),), math.nan, dtype=torch.float64, device=log_odds.device)
        if len(log_odds):
            place = {label: index for index, label in enumerate(self.labels)}
            queries = [TagQuery(*(tuple(place[label] for label in side) for side in query)) for query in self.queries]
            by_query = retrieval_precision(log_odds, targets, queries)
        defined = int((~by_query.isnan()).sum())
        counts = {"queries": defined, "queries without matches": len(by_query) - defined}
        return Outcome({"map": mean_of_defined(by_query)}, counts, {"by_query": by_query})


def retrieval_precision(log_odds: Tensor, targets: Tensor, queries: Sequence[TagQuery]) -> Tensor:
    """(Q,) in float64, the average precision of each query; NaN for one without a relevant sample."""
    step = max(1, CELLS_AT_ONCE // max(1, len(log_odds)))
    logs = log_probs(log_odds)
    found: list[float] = []
    for start in range(0, len(queries), step):
        block = queries[start : start + step]
        lists = sorted_lists(query_scores(logs, block), query_targets(targets, block))
        found.extend(precision_of_column(column) for column in lists)
    return torch.tensor(found, dtype=torch.float64, device=log_odds.device)


def _checked(query: Any) -> TagQuery:
    """A query of whole numbers, each named once."""
    try:
        present, absent = (sorted(side) for side in query)
        labels = [check_count("queries", "RetrievalPrecision", label, low=0) for label in (*present, *absent)]
    except (TypeError, ValueError):
        rule, remedy = "be pairs (present, absent) of label numbers", "Pass for example [([0, 3], [5])]."
        raise refusal("queries", "RetrievalPrecision", rule, repr(query), remedy) from None
    if len(set(labels)) < len(labels) or not labels:
        rule, remedy = "name at least one label, and each label once", "Drop what is named twice."
        raise refusal("queries", "RetrievalPrecision", rule, repr(query), remedy)
    return TagQuery(tuple(present), tuple(absent))
