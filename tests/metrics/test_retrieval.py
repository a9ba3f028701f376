"""Search by tags, against loops."""

import math

import numpy as np
import pytest
import torch

from manyhot import metrics
from tests.errors.expected import raises_input_error
from tests.metrics import naive


@pytest.mark.parametrize("options", [{"seed": 0}, {"seed": 1, "unknown": 0.2}, {"seed": 2, "rate": 0.6}], ids=str)
def test_against_loops(options):
    scores, targets = naive.table(30, 5, **options)
    queries = naive.all_queries(5, 3)
    outcome = metrics.RetrievalPrecision(queries).update(scores, targets).compute()
    want = [naive.retrieval(scores, targets, query) for query in queries]
    np.testing.assert_allclose(outcome.details["by_query"], want, rtol=1e-12)
    assert outcome["map"] == pytest.approx(naive.mean(want))
    empty = sum(math.isnan(value) for value in want)
    assert outcome.counts == {"queries": len(queries) - empty, "queries without matches": empty}


def test_equal_samples_stand_together():
    scores, targets = naive.table(10, 5, seed=4)
    queries = naive.all_queries(5, 3)
    once = metrics.RetrievalPrecision(queries).update(scores, targets).compute()
    twice = metrics.RetrievalPrecision(queries).update(np.tile(scores, (2, 1)), np.tile(targets, (2, 1))).compute()
    np.testing.assert_allclose(twice.details["by_query"], once.details["by_query"], rtol=1e-12)


def test_blocks_of_queries_do_not_matter(monkeypatch):
    scores, targets = naive.table(30, 5, seed=3)
    queries = naive.all_queries(5, 2)
    want = metrics.RetrievalPrecision(queries).update(scores, targets).compute().details["by_query"]
    monkeypatch.setattr("manyhot.metrics.retrieval.CELLS_AT_ONCE", 100)
    got = metrics.RetrievalPrecision(queries).update(scores, targets).compute().details["by_query"]
    np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize("copies", [1, 3])
def test_ties_infinities_and_unknown_cells_together(copies):
    scores, targets = naive.table(40 // copies, 5, seed=5, unknown=0.1)
    scores[:4, 1], scores[4:6, 2] = -np.inf, np.inf
    # Rows that are equal but for the targets.
    scores, targets = np.tile(scores, (copies, 1)), np.concatenate(np.roll([targets] * copies, 1, axis=1))
    queries = naive.all_queries(5, 4)
    got = metrics.RetrievalPrecision(queries).update(scores, targets).compute().details["by_query"]
    np.testing.assert_allclose(got, [naive.retrieval(scores, targets, query) for query in queries], rtol=1e-12)


def test_float32_log_odds_are_added_up_in_float64():
    """In float32 the first two sums would be equal, and the match would share its place."""
    log_odds = torch.tensor([[-100.0, 14.0], [-100.0, 15.0], [-100.0, -9.0]])
    sums = torch.nn.functional.logsigmoid(log_odds).sum(1)
    assert sums[0] == sums[1]
    targets = torch.tensor([[0, 0], [1, 1], [0, 0]])
    assert metrics.RetrievalPrecision([([0, 1], [])]).update(log_odds, targets).compute()["map"] == 1.0


def test_agrees_with_float64_loops_on_many_float32_samples():
    draw = np.random.default_rng(0)
    log_odds = draw.normal(-2, 3, size=(1500, 6)).astype(np.float32)
    targets = (draw.random((1500, 6)) < 1 / (1 + np.exp(-log_odds.astype(float)))).astype(np.int8)
    queries = metrics.stratified_queries(6, 1, most=5)
    got = metrics.RetrievalPrecision(queries).update(log_odds, targets).compute().details["by_query"]
    want = []
    for present, absent in queries:
        logs = [[naive.log_sigmoid(float(x)) for x in log_odds[:, j]] for j in present]
        logs += [[naive.log_sigmoid(-float(x)) for x in log_odds[:, j]] for j in absent]
        relevant = targets[:, present].all(1) & ~targets[:, absent].any(1)
        want.append(naive.ranked_precision(np.sum(logs, 0), relevant))
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_queries_may_come_in_one_tensor():
    scores, targets = naive.table(30, 5, seed=3)
    pairs = naive.all_queries(5, 2)
    want = metrics.RetrievalPrecision(pairs).update(scores, targets).compute().details["by_query"]
    got = metrics.RetrievalPrecision(metrics.TagQueries.of(pairs)).update(scores, targets).compute().details["by_query"]
    np.testing.assert_array_equal(got, want)


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


@pytest.mark.parametrize(
    ("queries", "words"),
    [
        (
            [],
            "`queries` of `RetrievalPrecision` must hold at least one query; got none. "
            "Draw some with `stratified_queries`.",
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
    with raises_input_error(rule="name labels below 3, the number of labels", hint="Count labels from 0."):
        metrics.RetrievalPrecision([([3], [])]).update(np.zeros((2, 3)), np.zeros((2, 3)))
