"""Tag queries: all there are, and the draw of some."""

import math
from collections import Counter

import pytest
import torch

from manyhot import metrics
from manyhot.metrics import retrieval as tag_queries
from manyhot.metrics.retrieval import Stratum, strata
from tests.errors.expected import raises_input_error
from tests.metrics import naive


def kind(query):
    return len(query.present), len(query.absent)


class TestAll:
    @pytest.mark.parametrize(("num_labels", "most"), [(1, 1), (1, 5), (3, 2), (5, 5), (6, 3), (4, 9)])
    def test_every_query_once(self, num_labels, most):
        queries = list(metrics.all_queries(num_labels, most))
        assert len(queries) == len(set(queries))
        assert set(queries) == set(naive.all_queries(num_labels, min(most, num_labels)))

    def test_of_twenty_labels(self):
        queries = metrics.all_queries(20)
        assert len(queries) == 561_869
        numbers = (queries.codes.long() + 20) @ 41 ** torch.arange(5)
        assert len(numbers.unique()) == 561_869
        lengths = Counter(queries.lengths().tolist())
        assert lengths == metrics.count_queries(20)

    def test_number_of_eighty_labels(self):
        counts = metrics.count_queries(80, 5)
        assert counts[1] == 80
        assert sum(counts.values()) == 769_548_876

    def test_counts_are_those_of_the_kinds(self):
        for length, count in metrics.count_queries(11, 4).items():
            assert count == sum(kind.size(11) for kind in strata(11, 4) if kind.length == length)

    def test_too_many_are_refused(self):
        words = (
            "`most` of `all_queries` must leave 16,777,216 queries or fewer; got 769,548,876. "
            "Draw some with `stratified_queries`."
        )
        with pytest.raises(ValueError) as error:  # noqa: PT011 - the words are compared below
            metrics.all_queries(80)
        assert str(error.value) == words


class TestStratified:
    def test_the_same_seed_gives_the_same_queries(self):
        assert metrics.stratified_queries(20, 9, seed=3) == metrics.stratified_queries(20, 9, seed=3)
        assert metrics.stratified_queries(20, 9, seed=3) != metrics.stratified_queries(20, 9, seed=4)

    def test_as_many_of_every_kind_and_none_twice(self):
        queries = list(metrics.stratified_queries(30, 40, most=4))
        assert len(set(queries)) == len(queries)
        sizes = {tuple(stratum): min(40, stratum.size(30)) for stratum in strata(30, 4)}
        assert Counter(map(kind, queries)) == sizes

    def test_all_of_a_kind_that_has_no_more(self):
        assert set(metrics.stratified_queries(4, 10**6, most=3)) == set(naive.all_queries(4, 3))

    @pytest.mark.parametrize("each", [1, 4])
    def test_every_query_of_a_kind_is_as_likely(self, each):
        """One of six by drawing until they differ, four of six by leaving some out."""
        seen = Counter()
        for seed in range(1500):
            seen.update(
                query for query in metrics.stratified_queries(3, each, most=2, seed=seed) if kind(query) == (1, 1)
            )
        assert len(seen) == Stratum(1, 1).size(3) == 6
        assert max(abs(count / 1500 - each / 6) for count in seen.values()) < 0.05

    def test_more_labels_than_any_integer_type_counts_the_queries_of(self):
        assert Stratum(2, 3).size(10**5) > 2**63
        assert len(metrics.stratified_queries(10**5, 3)) == 3 * 15


class TestUniform:
    def test_the_same_seed_gives_the_same_queries(self):
        assert metrics.sample_queries(20, 50, seed=3) == metrics.sample_queries(20, 50, seed=3)
        assert metrics.sample_queries(20, 50, seed=3) != metrics.sample_queries(20, 50, seed=4)

    def test_all_there_are(self):
        assert set(metrics.sample_queries(4, 10**6, most=3)) == set(naive.all_queries(4, 3))

    @pytest.mark.parametrize("count", [1, 3])
    def test_every_query_is_as_likely_as_any_other(self, count):
        queries = naive.all_queries(3, 2)
        drawn = Counter(query for seed in range(3000) for query in metrics.sample_queries(3, count, most=2, seed=seed))
        shares = [drawn[query] / 3000 for query in queries]
        assert max(abs(share - count / len(queries)) for share in shares) < 0.03

    def test_bounds(self):
        queries = metrics.sample_queries(30, 200, most=4)
        assert len(set(queries)) == 200
        for query in queries:
            assert query.present
            assert len(query.present) + len(query.absent) <= 4
            assert not set(query.present) & set(query.absent)

    def test_more_labels_wanted_than_there_are(self):
        assert list(metrics.sample_queries(1, 5)) == [metrics.TagQuery((0,), ())]


class TestSequence:
    def test_is_one_of_queries(self):
        pairs = [metrics.TagQuery((0, 3), (5,)), metrics.TagQuery((2,)), metrics.TagQuery((), (1, 4))]
        queries = metrics.TagQueries.of(pairs)
        assert list(queries) == pairs
        assert queries[-1] == pairs[-1]
        assert list(queries[1:]) == pairs[1:]
        assert queries.labels() == [0, 1, 2, 3, 4, 5]
        assert queries.lengths().tolist() == [3, 1, 2]
        assert queries.present_counts().tolist() == [2, 1, 0]

    def test_order_of_labels_does_not_matter(self):
        assert metrics.TagQueries.of([([3, 0], [5, 1])]) == metrics.TagQueries.of([([0, 3], [1, 5])])

    def test_past_the_end(self):
        with pytest.raises(IndexError):
            metrics.TagQueries.of([([0], [])])[1]

    def test_says_what_it_is(self):
        assert repr(metrics.all_queries(4, 3)) == "TagQueries(50 queries of up to 3 labels)"


@pytest.mark.parametrize("make", [metrics.count_queries, metrics.all_queries])
def test_counts_must_be_whole(make):
    with raises_input_error("num_labels", "count_queries", rule="be a whole number, at least 1"):
        make(0)


def test_enumeration_is_bounded_by_what_memory_holds():
    assert tag_queries.MAX_QUERIES * 5 * 4 < 2**30
    assert math.comb(20, 5) * 31 < tag_queries.MAX_QUERIES
