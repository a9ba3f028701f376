"""Search by tags: against loops, and the draw of queries."""

import itertools
import math

import numpy as np
import pytest
import torch

from manyhot import metrics
from manyhot.metrics import retrieval
from tests.metrics import naive


def all_queries(num_labels, most):
    for size in range(1, most + 1):
        for labels in itertools.combinations(range(num_labels), size):
            for signs in itertools.product((1, 0), repeat=size):
                sides = [tuple(label for label, sign in zip(labels, signs, strict=True) if sign == s) for s in (1, 0)]
                if sides[0]:
                    yield metrics.TagQuery(*sides)


@pytest.mark.parametrize("options", [{"seed": 0}, {"seed": 1, "unknown": 0.2}, {"seed": 2, "rate": 0.6}], ids=str)
def test_against_loops(options):
    scores, targets = naive.table(30, 5, **options)
    queries = list(all_queries(5, 3))
    outcome = metrics.RetrievalPrecision(queries).update(scores, targets).compute()
    want = [naive.retrieval(scores, targets, query) for query in queries]
    np.testing.assert_allclose(outcome.details["by_query"], want, rtol=1e-12)
    assert outcome["map"] == pytest.approx(naive.mean(want))
    empty = sum(math.isnan(value) for value in want)
    assert outcome.counts == {"queries": len(queries) - empty, "queries without matches": empty}


def test_equal_samples_stand_together():
    scores, targets = naive.table(10, 5, seed=4)
    queries = list(all_queries(5, 3))
    once = metrics.RetrievalPrecision(queries).update(scores, targets).compute()
    twice = metrics.RetrievalPrecision(queries).update(np.tile(scores, (2, 1)), np.tile(targets, (2, 1))).compute()
    np.testing.assert_allclose(twice.details["by_query"], once.details["by_query"], rtol=1e-12)


def test_blocks_of_queries_do_not_matter(monkeypatch):
    scores, targets = naive.table(30, 5, seed=3)
    queries = list(all_queries(5, 2))
    want = metrics.RetrievalPrecision(queries).update(scores, targets).compute().details["by_query"]
    monkeypatch.setattr(retrieval, "CELLS_AT_ONCE", 100)
    got = metrics.RetrievalPrecision(queries).update(scores, targets).compute().details["by_query"]
    assert torch.equal(got.nan_to_num(-1), want.nan_to_num(-1))


def test_order_survives_where_products_are_rounded_to_zero():
    """Sigmoids of these log-odds are 0 in float32, and so are their products; the logarithms still rank."""
    log_odds = torch.tensor([[-120.0, -130.0], [-110.0, -115.0], [-200.0, -200.0]])
    targets = torch.tensor([[0, 0], [1, 1], [0, 0]])
    assert not torch.sigmoid(log_odds).prod(1).any()
    assert metrics.RetrievalPrecision([([0, 1], [])]).update(log_odds, targets).compute()["map"] == 1.0


def test_only_named_columns_are_kept():
    metric = metrics.RetrievalPrecision([([7], [2])]).update(np.zeros((3, 9)), np.zeros((3, 9)))
    assert [part.shape for part in metric.parts("log_odds")] == [(3, 2)]


def test_a_query_may_ask_for_absence_alone():
    log_odds, targets = np.array([[2.0], [-2.0]]), np.array([[1], [0]])
    assert metrics.RetrievalPrecision([([], [0])]).update(log_odds, targets).compute()["map"] == 1.0


class TestSampling:
    def test_the_same_seed_gives_the_same_queries(self):
        assert metrics.sample_queries(20, 50, seed=3) == metrics.sample_queries(20, 50, seed=3)
        assert metrics.sample_queries(20, 50, seed=3) != metrics.sample_queries(20, 50, seed=4)

    def test_all_there_are(self):
        assert set(metrics.sample_queries(4, 10**6, most=3)) == set(all_queries(4, 3))

    def test_every_query_is_as_likely_as_any_other(self):
        queries = list(all_queries(3, 2))
        drawn = [metrics.sample_queries(3, 1, most=2, seed=seed)[0] for seed in range(3000)]
        shares = [drawn.count(query) / 3000 for query in queries]
        assert max(abs(share - 1 / len(queries)) for share in shares) < 0.03

    def test_bounds(self):
        for query in metrics.sample_queries(30, 200, most=4):
            assert query.present
            assert len(query.present) + len(query.absent) <= 4
            assert not set(query.present) & set(query.absent)

    def test_more_labels_wanted_than_there_are(self):
        assert metrics.sample_queries(1, 5) == [metrics.TagQuery((0,), ())]


@pytest.mark.parametrize(
    ("queries", "words"),
    [
        (
            [],
            "`queries` of `RetrievalPrecision` must hold at least one query; got none. "
            "Draw some with `sample_queries`.",
        ),
        (
            [3],
            "`queries` of `RetrievalPrecision` must be pairs (present, absent) of label numbers; got 3. "
            "Pass for example [([0, 3], [5])].",
        ),
        (
            [([0], [0])],
            "`queries` of `RetrievalPrecision` must name at least one label, and each label once; got ([0], [0]). "
            "Drop what is named twice.",
        ),
        (
            [([], [])],
            "`queries` of `RetrievalPrecision` must name at least one label, and each label once; got ([], []). "
            "Drop what is named twice.",
        ),
        (
            [(["dog"], [])],
            "`queries` of `RetrievalPrecision` must be pairs (present, absent) of label numbers; got (['dog'], []). "
            "Pass for example [([0, 3], [5])].",
        ),
    ],
)
def test_bad_queries_are_refused(queries, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the words are compared below
        metrics.RetrievalPrecision(queries)
    assert str(error.value) == words


def test_labels_that_are_not_there_are_refused():
    with pytest.raises(
        ValueError, match=r"must name labels below 3, the number of labels; got 3. Count labels from 0."
    ):
        metrics.RetrievalPrecision([([3], [])]).update(np.zeros((2, 3)), np.zeros((2, 3)))
