"""Means over all tag queries from some that were drawn of each kind, with how far off they may be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import Any

from torch import Tensor

from manyhot.checks import check_count, check_number
from manyhot.metrics.intervals import Interval
from manyhot.metrics.tag_queries import Stratum, TagQueries, strata
from manyhot.refusal import refusal


def stratified_mean(
    values: Tensor, queries: Sequence[Any], num_labels: int, *, length: int | None = None, level: float = 0.95
) -> Interval:
    """The mean of a value over all queries that have it, estimated from some of each kind, with an interval.

    A query without a match has no average precision, and how many of all queries have one is not known either. So the
    mean is a ratio: the weighted sum of the values over the weighted number of queries that have one, where a query
    counts for as many of its kind as each drawn one stands for. Its error follows from how the distances from the mean
    scatter within each kind; a kind that was taken whole adds none. The interval is a normal one, and speaks about
    drawing queries, not about other samples. Kinds of which hardly any query has a value make it too narrow.

    Values of two models for the same queries may be subtracted first: the interval of a mean difference is often far
    narrower than either of theirs.

    Args:
        values: (Q,), NaN for a query without a value.
        queries: The Q queries, drawn at random within each kind, as `stratified_queries` does, or all there are.
        num_labels: The number K of labels.
        length: Over the queries that name so many labels; over all up to the longest one if left out.
        level: How often the interval is to hold the mean.

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
    num_labels = check_count("num_labels", "stratified_mean", num_labels, low=1)
    level = check_number("level", "stratified_mean", level, low=0, high=1, low_open=True, high_open=True)
    if tuple(values.shape) != (len(queries),):
        rule = f"be (Q,) like the {len(queries)} queries"
        raise refusal("values", "stratified_mean", rule, str(tuple(values.shape)), "Pass `details['by_query']`.")
    kinds = [kind for kind in strata(num_labels, queries.codes.shape[1]) if length in (None, kind.length)]
    parts = list(_parts(values, queries, kinds))
    defined = sum(int(part.isfinite().sum()) for part in parts)
    undefined = sum(len(part) for part in parts) - defined
    if not defined:
        return Interval(math.nan, math.nan, math.nan, undefined)
    sizes = [kind.size(num_labels) for kind in kinds]
    number = sum(size * float(part.isfinite().double().mean()) for size, part in zip(sizes, parts, strict=True))
    total = sum(size * float(part.nan_to_num(0.0).mean()) for size, part in zip(sizes, parts, strict=True))
    mean = total / number
    variance = sum(_variance(part, size, mean) for size, part in zip(sizes, parts, strict=True))
    margin = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(variance) / number
    return Interval(mean, mean - margin, mean + margin, undefined)


def _parts(values: Tensor, queries: TagQueries, kinds: Sequence[Stratum]) -> Iterator[Tensor]:
    """The values of the queries of each kind, in float64 and on the CPU."""
    values = values.detach().double().cpu()
    present, lengths = queries.present_counts().cpu(), queries.lengths().cpu()
    for kind in kinds:
        part = values[(present == kind.present) & (lengths == kind.length)]
        if not len(part):
            got = f"none of {kind.present} present and {kind.absent} absent labels"
            remedy = "Draw them with `stratified_queries`."
            raise refusal("queries", "stratified_mean", "hold some of every kind", got, remedy)
        yield part


def _variance(part: Tensor, size: int, mean: float) -> float:
    """Of the estimated sum of distances from the mean over a kind; NaN if one query must speak for several."""
    if len(part) >= size:
        return 0.0
    if len(part) < 2:
        return math.nan
    # A query without a value is not in the mean and lies at no distance from it.
    return size * (size / len(part) - 1) * float((part - mean).nan_to_num(0.0).var())
