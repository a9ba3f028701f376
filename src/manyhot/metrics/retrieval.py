"""Tag queries and their metrics: how samples are ranked that carry some labels and not others, and how many match."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, combinations
from statistics import NormalDist
from typing import Any, NamedTuple, Self, TypeVar, overload

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from manyhot.checks import Array, check_int, check_number
from manyhot.errors import InputError, owned
from manyhot.metrics.bootstrapping import Interval
from manyhot.metrics.metric import Metric, MetricResult, TableMetric, divide, mean_of_defined
from manyhot.metrics.ranking import precision_of_rows
from manyhot.poisson_binomial import BINS, count_interval
from manyhot.sorting import CELLS_AT_ONCE, row_blocks, row_ranks

# More queries are not enumerated: their codes would fill memory, and evaluating them would take hours.
MAX_QUERIES = 1 << 24
T = TypeVar("T")


class TagQuery(NamedTuple):
    """Samples that carry all of some labels and none of others, by the numbers of the labels."""

    present: tuple[int, ...]
    absent: tuple[int, ...] = ()


class Stratum(NamedTuple):
    """The queries that name so many present and so many absent labels."""

    present: int
    absent: int

    @property
    def length(self) -> int:
        """How many labels such a query names."""
        return self.present + self.absent

    def size(self, num_labels: int) -> int:
        """How many such queries there are."""
        return math.comb(num_labels, self.length) * math.comb(self.length, self.present)


Codes = tuple[int, ...]


class TagQueries(Sequence[TagQuery]):
    """Many tag queries in one tensor, a sequence of `TagQuery` like any other.

    Attributes:
        codes: (Q, L) int32, one row per query: label + 1 for a present label, -(label + 1) for an absent one, present
            ones first, each side in rising order; then zeros.

    Example:
        >>> queries = mh.metrics.TagQueries.of([([0, 3], [5]), ([2], [])])
        >>> queries.codes
        tensor([[ 1,  4, -6],
                [ 3,  0,  0]], dtype=torch.int32)
        >>> queries[0]
        TagQuery(present=(0, 3), absent=(5,))
    """

    def __init__(self, codes: Tensor) -> None:
        self.codes = codes

    @classmethod
    def of(cls, queries: Iterable[Any], *, owner: str = "TagQueries") -> TagQueries:
        """The queries of pairs (present, absent) of label numbers; anything else raises an error."""
        if isinstance(queries, TagQueries):
            return queries
        with owned(owner):
            return _padded([_checked(query) for query in queries])

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> TagQuery: ...

    @overload
    def __getitem__(self, index: slice) -> TagQueries: ...

    def __getitem__(self, index: int | slice) -> TagQuery | TagQueries:
        if isinstance(index, slice):
            return TagQueries(self.codes[index])
        return _decoded(self.codes[index].tolist())

    def __iter__(self) -> Iterator[TagQuery]:
        return map(_decoded, self.codes.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TagQueries) and torch.equal(self.codes, other.codes)

    def __repr__(self) -> str:
        return f"TagQueries({len(self)} queries of up to {self.codes.shape[1]} labels)"

    def labels(self) -> list[int]:
        """The numbers of the labels that are named, in rising order."""
        return [code - 1 for code in self.codes.abs().unique().tolist() if code]

    def present_counts(self) -> Tensor:
        """(Q,), how many labels each query wants present."""
        return (self.codes > 0).sum(1)

    def lengths(self) -> Tensor:
        """(Q,), how many labels each query names."""
        return (self.codes != 0).sum(1)


def _check_counts(owner: str, **counts: object) -> list[int]:
    return [check_int(name, owner, count, low=1) for name, count in counts.items()]


def strata(num_labels: int, most: int) -> list[Stratum]:
    """The kinds of queries that name a present label and at most `most` labels; by length, then by present ones."""
    lengths = range(1, min(most, num_labels) + 1)
    return [Stratum(present, length - present) for length in lengths for present in range(1, length + 1)]


def count_queries(num_labels: int, most: int = 5) -> dict[int, int]:
    """How many queries name a present label and 1, 2, ... up to `most` labels, present and absent ones together.

    Example:
        >>> mh.metrics.count_queries(80)
        {1: 80, 2: 9480, 3: 575120, 4: 23723700, 5: 745240496}
        >>> sum(mh.metrics.count_queries(20).values())
        561869
    """
    num_labels, most = _check_counts("count_queries", num_labels=num_labels, most=most)
    return {length: math.comb(num_labels, length) * (2**length - 1) for length in range(1, min(most, num_labels) + 1)}


def all_queries(num_labels: int, most: int = 5) -> TagQueries:
    """All queries that name a present label and at most `most` labels; by length, then by how many are present.

    Example:
        >>> list(mh.metrics.all_queries(2))[:3]
        [TagQuery(present=(0,), absent=()), TagQuery(present=(1,), absent=()), TagQuery(present=(0,), absent=(1,))]
    """
    total = sum(count_queries(num_labels, most).values())
    if total > MAX_QUERIES:
        rule = f"leave {MAX_QUERIES:,} queries or fewer"
        raise InputError("most", "all_queries", rule, f"{total:,}", "Draw some with `stratified_queries`.")
    most = min(most, num_labels)
    codes = np.zeros((total, most), np.int32)
    end = 0
    for stratum in strata(num_labels, most):
        start, end = end, end + stratum.size(num_labels)
        codes[start:end, : stratum.length] = _coded(num_labels, stratum)
    return TagQueries(torch.from_numpy(codes))


def _coded(num_labels: int, stratum: Stratum) -> Array:
    """The codes of all queries of a kind: every set of labels, with every choice of which of them are present."""
    length = stratum.length
    flat = chain.from_iterable(combinations(range(1, num_labels + 1), length))
    sets = np.fromiter(flat, np.int32, math.comb(num_labels, length) * length).reshape(-1, length)
    signs = np.repeat(np.array([1, -1], np.int32), [stratum.present, stratum.absent])
    choices = combinations(range(length), stratum.present)
    orders = ([*chosen, *(index for index in range(length) if index not in chosen)] for chosen in choices)
    return np.concatenate([sets[:, order] * signs for order in orders])


def stratified_queries(num_labels: int, each: int, *, most: int = 5, seed: int = 0) -> TagQueries:
    """Different queries drawn at random, as many of every kind: of so many present and so many absent labels.

    Almost all queries are long and name more absent than present labels; so short ones are seen too. `stratified_mean`
    weighs them by how many of their kind there are.

    Args:
        num_labels: The number K of labels.
        each: How many queries of each kind; all of a kind that has fewer.
        most: How many labels a query may name, present and absent ones together.
        seed: Of the draw: the same seed gives the same queries.

    Example:
        >>> [*mh.metrics.stratified_queries(80, 1, most=2)][1:]
        [TagQuery(present=(53,), absent=(5,)), TagQuery(present=(33, 65), absent=())]
    """
    num_labels, each, most = _check_counts("stratified_queries", num_labels=num_labels, each=each, most=most)
    draw = random.Random(seed)
    return _padded([row for kind in strata(num_labels, most) for row in _draw(draw, num_labels, kind, each)])


def sample_queries(num_labels: int, count: int, *, most: int = 5, seed: int = 0) -> TagQueries:
    """Different queries drawn from all that name a present label and not more than `most` labels, each equally likely.

    Since there are more of the longer ones, most are long; `stratified_queries` draws as many of every kind.

    Args:
        num_labels: The number K of labels.
        count: How many queries; all that there are, if there are fewer.
        most: How many labels a query may name, present and absent ones together.
        seed: Of the draw: the same seed gives the same queries.

    Example:
        >>> [*mh.metrics.sample_queries(80, 2, most=3)]
        [TagQuery(present=(5, 33), absent=(65,)), TagQuery(present=(51, 62), absent=(38,))]
    """
    num_labels, count, most = _check_counts("sample_queries", num_labels=num_labels, count=count, most=most)
    kinds = strata(num_labels, most)
    ends = list(accumulate(kind.size(num_labels) for kind in kinds))
    draw = random.Random(seed)
    # How many of each kind are among them follows from drawing places among all queries, which are counted by kind.
    indices = _different(draw, ends[-1], count, lambda: range(ends[-1]), lambda: draw.randrange(ends[-1]))
    taken = Counter(bisect_right(ends, index) for index in indices)
    return _padded([row for index, kind in enumerate(kinds) for row in _draw(draw, num_labels, kind, taken[index])])


def _draw(draw: random.Random, num_labels: int, stratum: Stratum, count: int) -> Sequence[Codes]:
    """So many different queries of a kind, or all of it."""

    def every() -> list[Codes]:
        return [tuple(row) for row in _coded(num_labels, stratum).tolist()]

    def one() -> Codes:
        codes = draw.sample(range(1, num_labels + 1), stratum.length)
        return *sorted(codes[: stratum.present]), *(-code for code in sorted(codes[stratum.present :]))

    return _different(draw, stratum.size(num_labels), count, every, one)


def _different(
    draw: random.Random, size: int, count: int, every: Callable[[], Sequence[T]], one: Callable[[], T]
) -> Sequence[T]:
    """So many different values out of `size`, or all: `random.sample`, but of more values than it can count."""
    if count >= size:
        return every()
    if 2 * count >= size:
        return draw.sample(every(), count)
    values: dict[T, None] = {}
    while len(values) < count:
        values[one()] = None
    return list(values)


def _padded(rows: Sequence[Codes]) -> TagQueries:
    """The queries of codes without zeros."""
    width = max(map(len, rows), default=0)
    codes = torch.tensor([(*row, *[0] * (width - len(row))) for row in rows], dtype=torch.int32)
    return TagQueries(codes.view(len(rows), width))


def _decoded(codes: Sequence[int]) -> TagQuery:
    """The query of a row of codes."""
    return TagQuery(tuple(code - 1 for code in codes if code > 0), tuple(-code - 1 for code in codes if code < 0))


def _checked(query: Any) -> Codes:
    """The codes of a query of whole numbers, each named once."""
    try:
        present, absent = ([check_int("queries", "", label, low=0) for label in sorted(side)] for side in query)
    except (TypeError, ValueError):
        rule, hint = "be pairs (present, absent) of label numbers", "Pass for example [([0, 3], [5])]."
        raise InputError("queries", rule=rule, got=repr(query), hint=hint) from None
    labels = {*present, *absent}
    if len(labels) < len(present) + len(absent) or not labels:
        rule, hint = "name at least one label, and each label once", "Drop what is named twice."
        raise InputError("queries", rule=rule, got=repr(query), hint=hint)
    return *(label + 1 for label in present), *(-label - 1 for label in absent)


class QueryMetric(Metric):
    """A metric of tag queries, which needs the labels that they name.

    Args:
        queries: Pairs (present, absent) of label numbers, or `TagQueries`.

    Attributes:
        labels: The numbers of the labels that are named, in rising order.
        narrowed: The queries of a table that holds the columns of these labels only.
    """

    def __init__(self, queries: Sequence[Any]) -> None:
        owner = type(self).__name__
        self.queries = TagQueries.of(queries, owner=owner)
        if not len(self.queries):
            hint = "Draw some with `stratified_queries`."
            raise InputError("queries", owner, "hold at least one query", "none", hint)
        self.labels = self.queries.labels()
        codes = self.queries.codes
        named = codes.new_tensor([0, *(label + 1 for label in self.labels)])
        self.narrowed = TagQueries(torch.searchsorted(named, codes.abs(), out_int32=True) * codes.sign())
        super().__init__()

    def named_columns(self, values: Any, targets: Any) -> tuple[Tensor, Tensor]:
        """The columns of the labels that are named, of checked values and targets."""
        values, targets = self._check(values, targets)
        if self.labels[-1] >= values.shape[1]:
            rule = f"name labels below {values.shape[1]}, the number of labels"
            raise InputError("queries", type(self).__name__, rule, str(self.labels[-1]), "Count labels from 0.")
        return values[:, self.labels], targets[:, self.labels]


class RetrievalPrecision(QueryMetric):
    """Mean average precision of searching for samples with some labels and without others.

    A sample is scored by the log-probability of the query, the sum of log-sigmoids of its log-odds, and is relevant if
    all labels of `present` are there and none of `absent`. Average precision is that of `MeanAveragePrecision`.

    No-label rows: Samples that match no query that names a present label, as any others.
    Empty queries: A query without a relevant sample has no average precision; it is left out of the mean, and `counts`
    holds how many there were. Nothing left gives NaN.
    Unknown cells: A sample is left out of the queries that name one of its unknown labels.
    Memory: The log-odds of the labels that queries name.

    Args:
        queries: Pairs (present, absent) of label numbers, such as ([0, 3], [5]), or `TagQueries`; `all_queries` gives
            all possible ones, and `stratified_queries` and `sample_queries` draw some.

    Reference: Cheng and Vasconcelos, Towards Calibrated Multi-label Deep Neural Networks, CVPR 2024, equation (23).
        They multiply probabilities, which ties samples whose product is rounded to 0, and do not define the value of
        a query without a relevant sample.

    Example:
        >>> metric = mh.metrics.RetrievalPrecision([([0], []), ([0], [1]), ([0, 1], [])])
        >>> log_odds = torch.tensor([[2.0, -1.0], [1.0, 3.0], [-2.0, 0.5]])
        >>> result = metric.update(log_odds, torch.tensor([[0, 0], [1, 0], [0, 1]])).compute()
        >>> round(result["map"], 4), result.counts
        (0.4167, {'queries': 2, 'queries without matches': 1})
        >>> result.details["by_query"]
        tensor([0.5000, 0.3333,    nan], dtype=torch.float64)
    """

    def update(self, values: Any, targets: Any) -> Self:
        """Collects log-odds (N, K), as `link.log_odds(scores)` gives them, and targets (N, K); returns itself."""
        log_odds, targets = self.named_columns(values, targets)
        return self.keep(log_odds=log_odds, targets=targets)

    def compute(self) -> MetricResult:
        """The mean over queries as "map", and the average precision of each as `details["by_query"]`."""
        table = (self.concatenated(name).reshape(-1, len(self.labels)) for name in ("log_odds", "targets"))
        by_query = precision_of_queries(Samples.of(*table), self.narrowed)
        return MetricResult({"map": mean_of_defined(by_query)}, query_counts(by_query), {"by_query": by_query})


def query_counts(by_query: Tensor) -> dict[str, int]:
    """How many queries were evaluated, and how many could not be."""
    defined = int((~by_query.isnan()).sum())
    return {"queries": defined, "queries without matches": len(by_query) - defined}


class RetrievalCurve(TableMetric):
    """Mean average precision over all queries that name a present label, as a whole and by how many labels they name.

    With K labels there are many such queries: 561,869 of up to five of 20 labels, 769,548,876 of 80. Either all are
    evaluated, or some of each kind are drawn, and the mean over all is estimated with an interval; a kind are the
    queries with the same numbers of present and absent labels. Average precision is that of `RetrievalPrecision`.

    No-label rows: Samples that match no query, as any others.
    Empty queries: A query without a match has no average precision and is left out of the means; `counts` and
    `details["without_matches"]` hold their number among the evaluated ones. Nothing left gives NaN.
    Unknown cells: A sample is left out of the queries that name one of its unknown labels.
    Memory: The log-odds, which are what it is updated with, as `link.log_odds(scores)` gives them.

    Args:
        most: How many labels a query may name.
        each: How many queries of each kind are drawn; None for all queries.
        seed: Of the draw: the same seed and number of labels give the same queries, so that models can be compared.
        level: The coverage of the intervals of the mean over all queries.

    Reference: Cheng and Vasconcelos, Towards Calibrated Multi-label Deep Neural Networks, CVPR 2024, who evaluate "all
        label combinations" and do not describe how; the estimate is that of `stratified_mean`.

    Example:
        >>> draw = torch.Generator().manual_seed(0)
        >>> log_odds = torch.randn(300, 30, generator=draw) * 2 - 2
        >>> targets = (torch.rand(300, 30, generator=draw) < torch.sigmoid(log_odds)).int()
        >>> result = RetrievalCurve(most=3, each=50).update(log_odds, targets).compute()
        >>> {name: round(value, 2) for name, value in result.values.items()}
        {'map': 0.48, 'map_length_1': 0.7, 'map_length_2': 0.56, 'map_length_3': 0.47}
        >>> result.details["low"] < result.details["by_length"]
        tensor([False,  True,  True])
    """

    def __init__(self, most: int = 5, *, each: int | None = None, seed: int = 0, level: float = 0.95) -> None:
        self.most = check_int("most", "RetrievalCurve", most, low=1)
        self.each = None if each is None else check_int("each", "RetrievalCurve", each, low=2)
        self.seed = check_int("seed", "RetrievalCurve", seed, low=0)
        self.level = check_number("level", "RetrievalCurve", level, "(0, 1)")
        super().__init__()

    def queries(self, num_labels: int) -> TagQueries:
        """The queries that are evaluated for a number of labels."""
        if self.each is None:
            return all_queries(num_labels, self.most)
        return stratified_queries(num_labels, self.each, most=self.most, seed=self.seed)

    def compute(self) -> MetricResult:
        """The mean over all queries as "map", and over those of each length as "map_length_1" and so on.

        Details:
            interval: (2,), the ends of the interval of "map".
            by_length, low, high: (most,), the means by length and the ends of their intervals.
            queries, without_matches: (most,), how many queries of each length were evaluated, and had no match.
            by_query: (Q,), the average precision of each of `queries(K)`.
        """
        lengths = range(1, self.most + 1)
        queries, by_query = TagQueries.of([]), torch.zeros(0)
        means = [Interval(math.nan, math.nan, math.nan)] * (self.most + 1)
        if self.num_labels and sum(map(len, self.parts("targets"))):
            queries = self.queries(self.num_labels)
            samples = Samples.of(self.concatenated("values"), self.concatenated("targets"))
            by_query = precision_of_queries(samples, queries)
            means = [
                stratified_mean(by_query, queries, self.num_labels, length=length, level=self.level)
                for length in (None, *lengths)
            ]
        ends = torch.tensor([(mean.low, mean.high) for mean in means], dtype=torch.float64).clamp(0, 1)
        without = torch.tensor([mean.undefined for mean in means[1:]])
        details = {
            "interval": ends[0],
            "by_length": torch.tensor([mean.value for mean in means[1:]], dtype=torch.float64),
            "low": ends[1:, 0],
            "high": ends[1:, 1],
            "queries": queries.lengths().bincount(minlength=self.most + 1)[1:] - without,
            "without_matches": without,
            "by_query": by_query,
        }
        names = ["map", *(f"map_length_{length}" for length in lengths)]
        values = {name: mean.value for name, mean in zip(names, means, strict=True)}
        return MetricResult(values, query_counts(by_query), details)


@owned("stratified_mean")
def stratified_mean(
    values: Tensor, queries: Sequence[Any], num_labels: int, *, length: int | None = None, level: float = 0.95
) -> Interval:
    """The mean of a value over all queries that have it, estimated from some of each kind, with an interval.

    A query without a match has no average precision, and how many of all queries have one is not known either. So the
    mean is a ratio: the weighted sum of the values over the weighted number of queries that have one, where a query
    counts for as many of its kind as each drawn one represents. Its standard error follows from the variance of the
    distances from the mean within each kind; a kind that was drawn completely adds none. The interval is a normal one,
    and covers the drawing of queries, not of samples. Kinds of which hardly any query has a value make it too narrow.

    Values of two models for the same queries may be subtracted first: the interval of a mean difference is often far
    narrower than either of theirs.

    Args:
        values: (Q,), NaN for a query without a value.
        queries: The Q queries, drawn at random within each kind, as `stratified_queries` does, or all there are.
        num_labels: The number K of labels.
        length: Over the queries that name so many labels; over all up to the longest one if left out.
        level: The coverage of the interval.

    Returns:
        The mean with its interval, and as `undefined` how many of the queries have no value.

    Reference: Cochran, Sampling Techniques, 1977, sections 5.3 and 6.11: the combined ratio estimate.

    Example:
        >>> queries = mh.metrics.stratified_queries(30, 100, most=3)
        >>> values = torch.tensor([1 / (len(query.present) + len(query.absent)) for query in queries])
        >>> stratified_mean(values, queries, 30)
        Interval(value=0.34..., low=0.34..., high=0.34..., undefined=0)
    """
    queries = TagQueries.of(queries, owner="stratified_mean")
    num_labels = check_int("num_labels", "stratified_mean", num_labels, low=1)
    level = check_number("level", "stratified_mean", level, "(0, 1)")
    if tuple(values.shape) != (len(queries),):
        rule = f"be (Q,) like the {len(queries)} queries"
        raise InputError("values", rule=rule, got=str(tuple(values.shape)), hint="Pass `details['by_query']`.")
    values, present, lengths = values.detach().double().cpu(), queries.present_counts().cpu(), queries.lengths().cpu()
    kinds = [kind for kind in strata(num_labels, queries.codes.shape[1]) if length in (None, kind.length)]
    parts = {kind: values[(present == kind.present) & (lengths == kind.length)] for kind in kinds}
    if missing := [kind for kind, part in parts.items() if not len(part)]:
        got = f"none of {missing[0].present} present and {missing[0].absent} absent labels"
        hint = "Draw them with `stratified_queries`."
        raise InputError("queries", rule="hold some of every kind", got=got, hint=hint)
    undefined = sum(int((~part.isfinite()).sum()) for part in parts.values())
    sized = [(kind.size(num_labels), part) for kind, part in parts.items()]
    number = sum(size * float(part.isfinite().double().mean()) for size, part in sized)
    if not number:
        return Interval(math.nan, math.nan, math.nan, undefined)
    mean = sum(size * float(part.nan_to_num(0.0).mean()) for size, part in sized) / number
    variance = sum(_variance(part, size, mean) for size, part in sized)
    margin = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(variance) / number
    return Interval(mean, mean - margin, mean + margin, undefined)


def _variance(part: Tensor, size: int, mean: float) -> float:
    """Of the estimated sum of distances from the mean over a kind; NaN if one query represents several."""
    if len(part) >= size:
        return 0.0
    if len(part) < 2:
        return math.nan
    # A query without a value is not in the mean and has no distance from it.
    return size * (size / len(part) - 1) * float((part - mean).nan_to_num(0.0).var())


@dataclass(frozen=True)
class Samples:
    """N samples with K labels as queries use them, by clause: label present, label absent.

    Row 0 of each table is the empty clause, which pads queries that are shorter than others; row 1 + label means that
    the label is present, row 1 + K + label that it is absent.

    Attributes:
        log_probs: (1 + 2K, N) float64, the logarithm of the probability; minus infinity where the label is unknown.
        holds: (1 + 2K, W), bits of the samples for which it is known to be true.
        known: (1 + 2K, W), bits of the samples for which it is known whether it is.
        rows: How many samples there are.
    """

    log_probs: Tensor
    holds: Tensor
    known: Tensor
    rows: int

    @classmethod
    def of(cls, log_odds: Tensor, targets: Tensor) -> Samples:
        """From log-odds and targets (N, K)."""
        label_targets = targets.T
        all_samples = label_targets.new_ones(1, len(targets)).bool()
        holds = torch.cat([all_samples, label_targets == 1, label_targets == 0])
        # Sums in float32 tie or swap samples that differ in float64, and one swap can change a precision by a half.
        columns = log_odds.T.double().contiguous()
        nothing = columns.new_zeros(1, len(targets))
        log_probs = torch.cat([nothing, F.logsigmoid(columns), F.logsigmoid(-columns)])
        known = torch.cat([all_samples, label_targets >= 0, label_targets >= 0])
        return cls(log_probs.masked_fill(~known, -math.inf), pack_bits(holds), pack_bits(known), len(targets))

    def clauses(self, queries: TagQueries) -> Tensor:
        """(Q, L), the rows of the tables that each query is made of."""
        codes = queries.codes.to(self.log_probs.device).long()
        return torch.where(codes < 0, len(self.log_probs) // 2 - codes, codes)

    def scores(self, clauses: Tensor) -> Tensor:
        """(Q, N), the log-probability that a sample matches a query if its labels are independent.

        A sum of logarithms, because products of probabilities would be rounded to 0, and order would turn into ties.
        """
        return F.embedding_bag(clauses, self.log_probs, mode="sum")

    def matches(self, clauses: Tensor) -> Tensor:
        """(Q, N) bool, the samples that are known to match."""
        return unpack_bits(intersect_bits(self.holds, clauses), self.rows)


def precision_of_queries(samples: Samples, queries: TagQueries) -> Tensor:
    """(Q,) in float64, the average precision of each query; NaN for one without a match.

    Queries without a match are found by their bits and never scored. The others are evaluated in blocks with similar
    numbers of matches; of each, only the largest number is read back from a device.
    """
    clauses = samples.clauses(queries)
    counts = count_common(samples.holds, clauses)
    result = torch.full((len(queries),), math.nan, dtype=torch.float64, device=counts.device)
    order = counts.argsort(stable=True)[int((counts == 0).sum()) :]
    # A processor is faster with what stays in its cache.
    cells = CELLS_AT_ONCE // 8 if counts.device.type == "cpu" else CELLS_AT_ONCE
    for block in row_blocks((len(order), samples.rows), cells):
        some, matches = clauses[order[block]], counts[order[block]]
        known = count_common(samples.known, some)
        ranks = row_ranks(samples.scores(some), samples.matches(some), matches, known)
        result[order[block]] = precision_of_rows(ranks)
    return result


# What each bit of a byte stands for.
BIT_VALUES = 2 ** torch.arange(8, dtype=torch.uint8)


def pack_bits(mask: Tensor) -> Tensor:
    """(M, N) bool as (M, W) int64, 64 samples per word; unused bits of the last word are 0."""
    padding = -mask.shape[1] % 64 if mask.shape[1] else 64  # a word at least, since torch views no empty bytes as int64
    octets = F.pad(mask, (0, padding)).view(len(mask), -1, 8).to(torch.uint8)
    return (octets * BIT_VALUES.to(mask.device)).sum(2, dtype=torch.uint8).view(torch.int64)


def unpack_bits(packed: Tensor, samples: int) -> Tensor:
    """(M, W) int64 as (M, N) bool."""
    mask = (packed.view(torch.uint8).unsqueeze(2) & BIT_VALUES.to(packed.device)).bool()
    return mask.flatten(1)[:, :samples]


def intersect_bits(packed: Tensor, sets: Tensor) -> Tensor:
    """(Q, W), the samples that are in all of the sets (Q, L) that are named by their rows of `packed` (M, W)."""
    result = packed[sets[:, 0]]
    for column in range(1, sets.shape[1]):
        result &= packed[sets[:, column]]
    return result


def count_bits(packed: Tensor) -> Tensor:
    """(M,), how many bits of each row are set."""
    # Bits are added in pairs, then in fours, then in bytes, and a product gathers the bytes in the highest one. Shifts
    # repeat the sign, which every mask cuts off.
    packed = packed - (packed >> 1 & 0x5555555555555555)
    packed = (packed & 0x3333333333333333) + (packed >> 2 & 0x3333333333333333)
    packed = packed + (packed >> 4) & 0x0F0F0F0F0F0F0F0F
    return (packed * 0x0101010101010101 >> 56).sum(1)


def count_common(packed: Tensor, sets: Tensor) -> Tensor:
    """(Q,), how many samples are in all of the sets (Q, L); some queries at a time."""
    blocks = row_blocks((len(sets), packed.shape[1]), CELLS_AT_ONCE // 8)
    return torch.cat([count_bits(intersect_bits(packed, sets[block])) for block in blocks])


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
        parts = [_count_sums(samples.scores(some).exp_()) for some in blocks]
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
        ends = [count_interval(_count_bins(*one), self.level) for one in by_query]
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


def _count_sums(probs: Tensor) -> dict[str, Tensor]:
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


def _count_bins(rows: Array, sums: Array, low_squares: float, low_cubes: float) -> Array:
    """The bins of one query that hold samples; in all but the lowest, their mean stands for each of these."""
    used = rows.nonzero()[0]
    count, first = rows[used], sums[used]
    mean, lowest = first / count, used == 0
    second = np.where(lowest, low_squares, mean * first)
    third = np.where(lowest, low_cubes, mean * mean * first)
    return np.stack([used, count, first, second, third], axis=1)
