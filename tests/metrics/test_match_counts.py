"""Expected against true numbers of matches."""

import math

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot import metrics
from manyhot.search import Collection
from tests.errors.expected import raises_input_error
from tests.metrics import naive


def exact_distribution(probs):
    """Of the number of successes, one trial after the other."""
    shares = np.ones(1)
    for prob in probs:
        shares = np.append(shares, 0.0) * (1 - prob) + np.append(0.0, shares) * prob
    return shares


def probs_of(log_odds, targets, query):
    """The probabilities of the samples whose labels are known."""
    present, absent = query
    return [
        math.exp(sum(naive.log_sigmoid(row[j]) for j in present) + sum(naive.log_sigmoid(-row[j]) for j in absent))
        for row, marks in zip(log_odds, targets, strict=True)
        if all(marks[j] >= 0 for j in (*present, *absent))
    ]


@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_against_loops(unknown):
    log_odds, targets = naive.table(40, 5, seed=1, unknown=unknown)
    queries = naive.all_queries(5, 3)
    outcome = metrics.MatchCounts(queries).update(log_odds, targets).compute()
    probs = [probs_of(log_odds, targets, query) for query in queries]
    true = [
        sum(all(row[j] == 1 for j in present) and all(row[j] == 0 for j in absent) for row in targets)
        for present, absent in queries
    ]
    expected = [sum(some) for some in probs]
    np.testing.assert_allclose(outcome.details["expected"], expected, rtol=1e-12)
    assert outcome.details["true"].tolist() == true
    deviations = [math.sqrt(sum(p * (1 - p) for p in some)) for some in probs]
    np.testing.assert_allclose(outcome.details["deviation"], deviations, rtol=1e-9)
    ratios = [math.log((e + 0.5) / (t + 0.5)) for e, t in zip(expected, true, strict=True)]
    assert outcome["count_coverage"] == float(outcome.details["within"].double().mean())
    assert outcome["count_error"] == pytest.approx(np.mean(np.abs(ratios)))
    assert outcome["count_bias"] == pytest.approx(np.mean(ratios))
    assert outcome["count_ratio"] == pytest.approx(sum(expected) / sum(true))
    assert outcome.counts == {"queries": len(queries), "queries without matches": true.count(0)}


@pytest.mark.parametrize("shape", [(0.5, 0.5), (1, 20), (0.2, 5), (0.1, 40), (5, 1)], ids=str)
@pytest.mark.parametrize("rows", [50, 400])
def test_the_interval_is_that_of_the_poisson_binomial_distribution(rows, shape):
    probs = np.random.default_rng(rows).beta(*shape, size=rows)
    below = np.cumsum(exact_distribution(probs))
    low, high = (int(np.searchsorted(below, share)) for share in (0.025, 0.975))
    log_odds = torch.logit(torch.from_numpy(probs)).unsqueeze(1)
    for true in {max(low - 1, 0), low, high, high + 1}:
        targets = (torch.arange(rows) < true).int().unsqueeze(1)
        details = metrics.MatchCounts([([0], [])]).update(log_odds, targets).compute().details
        assert bool(details["within"]) == (low <= true <= high)
    assert (int(details["low"]), int(details["high"])) == (low, high)


def test_the_interval_that_is_judged_is_the_one_that_a_search_shows():
    draw = np.random.default_rng(3)
    probs = 1 / (1 + np.exp(-(2 * draw.standard_normal((600, 3)) - 2)))
    collection = Collection.of(mh.Predictions(probs=probs, labels=["cat", "dog", "sea"]))
    queries = {"cat": ([0], []), "dog & !cat": ([1], [0]), "cat & dog & !sea": ([0, 1], [2])}
    details = metrics.MatchCounts(list(queries.values())).update(np.log(probs / (1 - probs)), probs > 0.5).compute()
    shown = [collection.expect(query) for query in queries]
    assert details.details["low"].tolist() == [one.low for one in shown]
    assert details.details["high"].tolist() == [one.high for one in shown]


@pytest.fixture(scope="module")
def honest():
    """Labels drawn from the probabilities themselves."""
    draw = torch.Generator().manual_seed(0)
    log_odds = 2 * torch.randn(4000, 12, generator=draw, dtype=torch.float64) - 2
    return log_odds, (torch.rand(4000, 12, generator=draw, dtype=torch.float64) < torch.sigmoid(log_odds)).int()


@pytest.mark.slow
class TestReliability:
    def test_honest_probabilities_expect_what_is_there(self, honest):
        outcome = metrics.MatchCounts(metrics.all_queries(12, 3)).update(*honest).compute()
        assert outcome["count_coverage"] > 0.93
        assert outcome["count_error"] < 0.2
        assert outcome["count_ratio"] == pytest.approx(1, abs=0.03)

    def test_probabilities_that_are_too_high_expect_too_many(self, honest):
        log_odds, targets = honest
        outcome = metrics.MatchCounts(metrics.all_queries(12, 3)).update(log_odds + 1, targets).compute()
        assert outcome["count_coverage"] < 0.3
        assert outcome["count_bias"] > 0.3
        assert outcome["count_ratio"] > 1.2


def test_nothing_collected():
    outcome = metrics.MatchCounts([([0], [])]).compute()
    assert all(math.isnan(value) for value in outcome.values.values())


def test_labels_that_are_not_there_are_refused():
    words = r"`queries` of `MatchCounts` must name labels below 3, the number of labels; got 3. Count labels from 0."
    with raises_input_error(match=words):
        metrics.MatchCounts([([3], [])]).update(np.zeros((2, 3)), np.zeros((2, 3)))
