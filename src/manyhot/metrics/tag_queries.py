"""Tag queries, for samples that carry all of some labels and none of others: all there are, or some of each kind."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, combinations
from typing import Any, NamedTuple, Self, overload

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import check_count
from manyhot.refusal import refusal

# More than these are not enumerated: their codes would fill memory, and judging them would take hours.
MOST_QUERIES = 1 << 24


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


class TagQueries(Sequence[TagQuery]):
    """Many tag queries in one tensor, a sequence of `TagQuery` like any other.

    Attributes:
        codes: (Q, L) int32, one row a query: label + 1 for a present label, -(label + 1) for an absent one, present
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
        """The queries of pairs (present, absent) of label numbers; refuses what is none."""
        if isinstance(queries, TagQueries):
            return queries
        return cls.checked([_checked(owner, query) for query in queries])

    @classmethod
    def checked(cls, queries: Sequence[TagQuery]) -> Self:
        """The queries of pairs whose sides are in rising order and name each label once."""
        width = max((len(query.present) + len(query.absent) for query in queries), default=0)
        codes = np.zeros((len(queries), width), np.int32)
        for row, (present, absent) in zip(codes, queries, strict=True):
            row[: len(present)] = [label + 1 for label in present]
            row[len(present) : len(present) + len(absent)] = [-label - 1 for label in absent]
        return cls(torch.from_numpy(codes))

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, place: int) -> TagQuery: ...

    @overload
    def __getitem__(self, place: slice) -> TagQueries: ...

    def __getitem__(self, place: int | slice) -> TagQuery | TagQueries:
        if isinstance(place, slice):
            return TagQueries(self.codes[place])
        return _decoded(self.codes[place].tolist())

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


def strata(num_labels: int, most: int) -> list[Stratum]:
    """The kinds of queries that name a present label and `most` labels at the most; by length, then by present ones."""
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
    num_labels = check_count("num_labels", "count_queries", num_labels, low=1)
    most = check_count("most", "count_queries", most, low=1)
    return {length: math.comb(num_labels, length) * (2**length - 1) for length in range(1, min(most, num_labels) + 1)}


def all_queries(num_labels: int, most: int = 5) -> TagQueries:
    """All queries that name a present label and not more than `most` labels; by length, then by how many are present.

    Example:
        >>> list(mh.metrics.all_queries(2))[:3]
        [TagQuery(present=(0,), absent=()), TagQuery(present=(1,), absent=()), TagQuery(present=(0,), absent=(1,))]
    """
    total = sum(count_queries(num_labels, most).values())
    if total > MOST_QUERIES:
        rule = f"leave {MOST_QUERIES:,} queries or fewer"
        raise refusal("most", "all_queries", rule, f"{total:,}", "Draw some with `stratified_queries`.")
    most = min(most, num_labels)
    codes = np.zeros((total, most), np.int32)
    end = 0
    for stratum in strata(num_labels, most):
        for block in _coded(num_labels, stratum):
            codes[end : end + len(block), : stratum.length] = block
            end += len(block)
    return TagQueries(torch.from_numpy(codes))


def _coded(num_labels: int, stratum: Stratum) -> Iterator[np.ndarray]:
    """The codes of all queries of a kind: every set of labels, with every choice of which of them are present."""
    length = stratum.length
    flat = chain.from_iterable(combinations(range(1, num_labels + 1), length))
    sets = np.fromiter(flat, np.int32, math.comb(num_labels, length) * length).reshape(-1, length)
    signs = np.repeat(np.array([1, -1], np.int32), [stratum.present, stratum.absent])
    for present in combinations(range(length), stratum.present):
        absent = [place for place in range(length) if place not in present]
        yield sets[:, [*present, *absent]] * signs


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
    num_labels = check_count("num_labels", "stratified_queries", num_labels, low=1)
    each = check_count("each", "stratified_queries", each, low=1)
    most = check_count("most", "stratified_queries", most, low=1)
    draw = random.Random(seed)
    drawn = [query for stratum in strata(num_labels, most) for query in _draw(draw, num_labels, stratum, each)]
    return TagQueries.checked(drawn)


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
    num_labels = check_count("num_labels", "sample_queries", num_labels, low=1)
    count = check_count("count", "sample_queries", count, low=1)
    most = check_count("most", "sample_queries", most, low=1)
    kinds = strata(num_labels, most)
    sizes = [stratum.size(num_labels) for stratum in kinds]
    draw = random.Random(seed)
    # How many of each kind are among them follows from drawing places among all queries, which are counted by kind.
    places = _different(draw, sum(sizes), min(count, sum(sizes)))
    ends = list(accumulate(sizes))
    taken = Counter(bisect_right(ends, place) for place in places)
    drawn = [query for kind, stratum in enumerate(kinds) for query in _draw(draw, num_labels, stratum, taken[kind])]
    return TagQueries.checked(drawn)


def _different(draw: random.Random, size: int, count: int) -> list[int]:
    """So many different numbers below `size`, which may be more than `random.sample` can count."""
    if 2 * count >= size:
        return draw.sample(range(size), count)
    found: dict[int, None] = {}
    while len(found) < count:
        found[draw.randrange(size)] = None
    return list(found)


def _draw(draw: random.Random, num_labels: int, stratum: Stratum, count: int) -> list[TagQuery]:
    """So many different queries of a kind, or all of it."""
    size = stratum.size(num_labels)
    if 2 * count >= size:
        found = [query for block in _coded(num_labels, stratum) for query in TagQueries(torch.from_numpy(block))]
        return found if count >= size else draw.sample(found, count)
    queries: dict[TagQuery, None] = {}
    while len(queries) < count:
        labels = draw.sample(range(num_labels), stratum.length)
        present, absent = labels[: stratum.present], labels[stratum.present :]
        queries[TagQuery(tuple(sorted(present)), tuple(sorted(absent)))] = None
    return list(queries)


def _decoded(codes: Sequence[int]) -> TagQuery:
    """The query of a row of codes."""
    return TagQuery(tuple(code - 1 for code in codes if code > 0), tuple(-code - 1 for code in codes if code < 0))


def _checked(owner: str, query: Any) -> TagQuery:
    """A query of whole numbers, each named once."""
    try:
        present, absent = (sorted(side) for side in query)
        labels = [check_count("queries", owner, label, low=0) for label in (*present, *absent)]
    except (TypeError, ValueError):
        rule, remedy = "be pairs (present, absent) of label numbers", "Pass for example [([0, 3], [5])]."
        raise refusal("queries", owner, rule, repr(query), remedy) from None
    if len(set(labels)) < len(labels) or not labels:
        rule, remedy = "name at least one label, and each label once", "Drop what is named twice."
        raise refusal("queries", owner, rule, repr(query), remedy)
    return TagQuery(tuple(labels[: len(present)]), tuple(labels[len(present) :]))
