"""Precision over all queries, from all of them and from some of each kind."""

import math

import numpy as np
import pytest
import torch

from manyhot import metrics
from manyhot.metrics.retrieval import strata
from tests.errors.expected import raises_input_error
from tests.metrics import naive


@pytest.fixture(scope="module")
def population():
    """Twelve labels of different rates, so that long queries of present labels seldom have a match."""
    draw = np.random.default_rng(0)
    log_odds = draw.normal(np.linspace(-4, -1, 12), 2.0, size=(150, 12))
    targets = (draw.random((150, 12)) < 1 / (1 + np.exp(-log_odds))).astype(np.int8)
    queries = metrics.all_queries(12, 4)
    by_query = metrics.RetrievalPrecision(queries).update(log_odds, targets).compute().details["by_query"]
    return log_odds, targets, queries, by_query


class TestAll:
    def test_is_the_mean_over_all_queries(self):
        scores, targets = naive.table(25, 5, seed=1, unknown=0.1)
        outcome = metrics.RetrievalCurve(most=3).update(scores, targets).compute()
        queries = naive.all_queries(5, 3)
        want = [naive.retrieval(scores, targets, query) for query in queries]
        assert outcome["map"] == pytest.approx(naive.mean(want), rel=1e-12)
        assert outcome.details["interval"].tolist() == [outcome["map"]] * 2
        for length in (1, 2, 3):
            of_length = [value for value, query in zip(want, queries, strict=True) if sum(map(len, query)) == length]
            assert outcome[f"map_length_{length}"] == pytest.approx(naive.mean(of_length), rel=1e-12)
            judged = sum(not math.isnan(value) for value in of_length)
            assert int(outcome.details["queries"][length - 1]) == judged
            assert int(outcome.details["without_matches"][length - 1]) == len(of_length) - judged
        assert sum(outcome.counts.values()) == len(queries)

    def test_lengths_beyond_the_number_of_labels_have_no_value(self):
        outcome = metrics.RetrievalCurve(most=3).update(np.zeros((4, 2)), np.eye(4, 2)).compute()
        assert math.isnan(outcome["map_length_3"])
        assert outcome["map"] == pytest.approx(0.25)

    def test_too_many_queries_ask_for_a_draw(self):
        metric = metrics.RetrievalCurve().update(np.zeros((2, 80)), np.zeros((2, 80)))
        with raises_input_error(got="769,548,876", hint="Draw some with `stratified_queries`."):
            metric.compute()


class TestDrawn:
    def test_a_draw_of_all_is_all(self, population):
        log_odds, targets, _, by_query = population
        outcome = metrics.RetrievalCurve(most=4, each=10**6).update(log_odds, targets).compute()
        assert outcome["map"] == pytest.approx(float(by_query.nanmean()), rel=1e-12)
        low, high = outcome.details["interval"].tolist()
        assert low == high == outcome["map"]

    @pytest.mark.slow
    def test_intervals_hold_the_mean_over_all_queries_as_often_as_they_say(self, population):
        """Draws of 60 of each kind; four standard errors of the share are allowed."""
        _, _, queries, by_query = population
        places = {query: place for place, query in enumerate(queries)}
        lengths = queries.lengths()
        truth = {None: float(by_query.nanmean())}
        truth |= {length: float(by_query[lengths == length].nanmean()) for length in (2, 3, 4)}
        trials, level = 200, 0.9
        held = dict.fromkeys(truth, 0)
        estimates = []
        for seed in range(trials):
            drawn = metrics.stratified_queries(12, 60, most=4, seed=seed)
            values = by_query[[places[query] for query in drawn]]
            for length, value in truth.items():
                interval = metrics.stratified_mean(values, drawn, 12, length=length, level=level)
                held[length] += interval.low <= value <= interval.high
                if length is None:
                    estimates.append(interval.value)
        allowed = 4 * math.sqrt(level * (1 - level) / trials)
        assert {length: abs(count / trials - level) < allowed for length, count in held.items()} == dict.fromkeys(
            held, True
        )
        assert np.mean(estimates) == pytest.approx(truth[None], abs=4 * np.std(estimates) / math.sqrt(trials) + 1e-3)

    def test_short_queries_do_not_weigh_more_than_they_are(self, population):
        """The plain mean over the draw is far off, since most queries drawn are of small kinds."""
        _, _, queries, by_query = population
        drawn = metrics.stratified_queries(12, 300, most=4)
        places = {query: place for place, query in enumerate(queries)}
        values = by_query[[places[query] for query in drawn]]
        truth = float(by_query.nanmean())
        assert (
            abs(metrics.stratified_mean(values, drawn, 12).value - truth) < 0.02 < abs(float(values.nanmean()) - truth)
        )

    def test_models_are_asked_the_same_queries(self, population):
        log_odds, targets, _, _ = population
        one = metrics.RetrievalCurve(most=3, each=20, seed=7).update(log_odds, targets).compute()
        other = metrics.RetrievalCurve(most=3, each=20, seed=7).update(-log_odds, targets).compute()
        assert torch.equal(one.details["by_query"].isnan(), other.details["by_query"].isnan())
        assert one["map"] > other["map"]

    def test_differences_have_narrower_intervals(self, population):
        log_odds, targets, _, _ = population
        worse = log_odds + np.random.default_rng(1).normal(0, 0.3, size=log_odds.shape)
        metric = metrics.RetrievalCurve(most=4, each=60)
        queries = metric.queries(12)
        one, other = (
            metric.reset().update(values, targets).compute().details["by_query"] for values in (log_odds, worse)
        )
        more = metrics.stratified_mean(one - other, queries, 12)
        alone = metrics.stratified_mean(one, queries, 12)
        assert more.value > 0
        assert more.high - more.low < (alone.high - alone.low) / 2


class TestStratifiedMean:
    def test_against_the_formulas_by_hand(self):
        """Three kinds: one label, one with and one without, two labels."""
        ones, pairs = [([0], []), ([1], []), ([2], [])], [([0, 1], []), ([2, 3], [])]
        queries = metrics.TagQueries.of([*ones, ([0], [1]), ([1], [0]), ([2], [3]), *pairs])
        values = torch.tensor([0.9, 0.5, math.nan, 0.4, 0.2, math.nan, 0.6, 0.8], dtype=torch.float64)
        sizes, parts = [4, 12, 6], [values[:3], values[3:6], values[6:]]
        assert [kind.size(4) for kind in strata(4, 2)] == sizes
        number = sum(n * float((~p.isnan()).double().mean()) for n, p in zip(sizes, parts, strict=True))
        total = sum(n * float(p.nan_to_num(0).mean()) for n, p in zip(sizes, parts, strict=True))
        mean = total / number
        variance = 0.0
        for n, part in zip(sizes, parts, strict=True):
            away = [0.0 if math.isnan(x) else x - mean for x in part.tolist()]
            variance += n**2 * (1 - len(away) / n) * np.var(away, ddof=1) / len(away)
        got = metrics.stratified_mean(values, queries, 4)
        assert got.value == pytest.approx(mean)
        assert got.high - got.value == pytest.approx(1.959963984540054 * math.sqrt(variance) / number)
        assert got.value - got.low == pytest.approx(got.high - got.value)
        assert got.undefined == 2

    def test_one_query_cannot_speak_for_several(self):
        queries = metrics.stratified_queries(5, 1, most=1)
        got = metrics.stratified_mean(torch.tensor([0.5]), queries, 5)
        assert got.value == 0.5
        assert math.isnan(got.low)
        assert math.isnan(got.high)

    def test_nothing_defined(self):
        queries = metrics.all_queries(3, 1)
        got = metrics.stratified_mean(torch.full((3,), math.nan), queries, 3)
        assert math.isnan(got.value)
        assert got.undefined == 3

    def test_missing_kinds_are_refused(self):
        words = (
            "`queries` of `stratified_mean` must hold some of every kind; got none of 1 present and 0 absent labels. "
            "Draw them with `stratified_queries`."
        )
        with pytest.raises(ValueError) as error:  # noqa: PT011 - the words are compared below
            metrics.stratified_mean(torch.tensor([0.5]), [([0], [1])], 4)
        assert str(error.value) == words

    def test_values_of_other_queries_are_refused(self):
        words = r"`values` of `stratified_mean` must be \(Q,\) like the 3 queries; got \(2,\)."
        with raises_input_error(match=words):
            metrics.stratified_mean(torch.zeros(2), metrics.all_queries(3, 1), 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"most": 0}, "`most` of `RetrievalCurve` must be a whole number, at least 1; got 0."),
        ({"each": 1}, "`each` of `RetrievalCurve` must be a whole number, at least 2; got 1."),
        ({"level": 1}, "`level` of `RetrievalCurve` must be a number above 0 and below 1; got 1."),
    ],
)
def test_settings_are_checked(options, words):
    with raises_input_error(match=words):
        metrics.RetrievalCurve(**options)
