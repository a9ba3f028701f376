"""Rules around other rules."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhot as mh
from manyhot.testing.batches import random_batch


def example(rows=200, seed=0):
    batch = random_batch(rows, 5, seed=seed, unknown=0.1)
    return torch.sigmoid(batch.scores), batch.targets


class TestNoneOfThese:
    def test_the_limit_itself_is_turned_away(self):
        values = torch.tensor([[0.7, 0.1], [0.70001, 0.1], [0.2, 0.9]])
        decision = mh.NoneOfThese(mh.TopK(1), threshold=0.7)(values)
        assert decision.sizes.tolist() == [0, 1, 1]

    @pytest.mark.parametrize("keep", [0.01, 0.5, 0.8, 0.95, 1.0])
    def test_the_wanted_share_is_kept_and_no_more(self, keep):
        values, targets = example()
        rule = mh.NoneOfThese(mh.TopK(2), keep=keep).fit(values, targets)
        labelled = (targets == 1).any(1)
        kept = values.amax(1) > rule.limit.to(values)
        assert kept[labelled].double().mean() >= keep
        fewer = int(kept[labelled].sum()) - 1
        assert fewer < keep * int(labelled.sum()), "a higher limit would keep too few"
        assert torch.equal(rule(values).labels, mh.TopK(2)(values).labels & kept.unsqueeze(1))

    @settings(max_examples=80, deadline=None, derandomize=True)
    @given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=12), st.floats(0.05, 1))
    def test_ties(self, rows, keep):
        values = torch.tensor([[float(value), -1.0] for value, _ in rows])
        targets = torch.tensor([[int(labelled), 0] for _, labelled in rows])
        rule = mh.NoneOfThese(mh.TopK(1), keep=keep).fit(values, targets)
        maxima = [value for value, labelled in rows if labelled]
        if not maxima:
            assert rule.limit.item() == -math.inf
            return
        wanted = math.ceil(keep * len(maxima) - 1e-6)
        last = sorted(maxima, reverse=True)[wanted - 1]
        assert rule(values).sizes.tolist() == [int(value >= last) for value, _ in rows]

    def test_rows_without_labels_are_turned_away_at_the_operating_point(self):
        draw = torch.Generator().manual_seed(0)
        shown = torch.randn(500, 4, generator=draw).amax(1, keepdim=True) + torch.tensor([[3.0, 0.0, 0.0, 0.0]])
        values = torch.cat([shown, torch.randn(500, 4, generator=draw)])
        targets = torch.zeros(1000, 4).index_put((torch.arange(500), torch.tensor(0)), torch.tensor(1.0))
        rule = mh.NoneOfThese(mh.TopK(1)).fit(values, targets)
        given = rule(values).sizes > 0
        assert given[:500].sum() == 475
        assert given[500:].double().mean() < 0.05

    def test_a_person_is_still_asked(self):
        probs, targets = example()
        inner = mh.Abstain(mh.Threshold(), at_most=0.3).fit(probs, targets)
        decision = mh.NoneOfThese(inner, threshold=0.99)(probs)
        assert torch.equal(decision.abstain, inner(probs).abstain)
        assert bool(decision.abstain.any())


class TestAskPerson:
    @pytest.mark.parametrize("share", [0.0, 0.004, 0.1, 0.33, 1.0])
    def test_the_rows_of_most_doubt_are_asked_about(self, share):
        probs, targets = example()
        rule = mh.Abstain(mh.Threshold(), at_most=share).fit(probs, targets)
        decision = rule(probs)
        doubt = torch.minimum(probs, 1 - probs).sum(1)
        assert int(decision.abstain.sum()) == int(share * len(probs) + 1e-6)
        if 0 < int(decision.abstain.sum()) < len(probs):
            assert doubt[decision.abstain].min() > doubt[~decision.abstain].max()
        assert torch.equal(decision.labels, probs >= 0.5)

    def test_ties_are_answered_rather_than_asked(self):
        probs = torch.tensor([[0.5], [0.5], [0.5], [0.9]])
        rule = mh.Abstain(mh.Threshold(), at_most=0.5).fit(probs)
        assert not rule(probs).abstain.any()

    @pytest.mark.parametrize("most", [0.0, 0.2, 0.6, 1.0, 9.0])
    def test_the_rows_answered_have_few_errors(self, most):
        probs, targets = example()
        rule = mh.Abstain(mh.LabelThresholds(), max_errors=most).fit(probs, targets)
        decision = rule(probs)
        known = targets >= 0
        errors = ((decision.labels != (targets == 1)) & known).sum(1).double()
        answered = ~decision.abstain & known.any(1)
        if not bool(rule.reached):
            assert not answered.any()
            return
        assert errors[answered].mean() <= most
        doubt = torch.where(decision.labels, 1 - probs, probs).sum(1)
        for limit in doubt[decision.abstain & known.any(1)]:
            more = (doubt <= limit) & known.any(1)
            assert errors[more].mean() > most, "more rows could have been answered"

    def test_nobody_can_be_answered(self):
        probs = torch.tensor([[0.9], [0.8], [0.7]])
        rule = mh.Abstain(mh.Threshold(), max_errors=0.1).fit(probs, torch.zeros(3, 1))
        assert not rule.reached
        assert rule(torch.tensor([[1.0]])).abstain.tolist() == [True]

    def test_everybody_can_be_answered_whatever_comes(self):
        probs = torch.tensor([[0.9], [0.8]])
        rule = mh.Abstain(mh.Threshold(), max_errors=0.0).fit(probs, torch.ones(2, 1))
        assert rule(torch.tensor([[0.5]])).abstain.tolist() == [False]

    def test_doubt_is_the_expected_number_of_errors(self):
        """On samples that come true as promised, rows of more doubt have more errors."""
        draw = torch.Generator().manual_seed(0)
        probs = torch.rand(20_000, 4, generator=draw)
        targets = (torch.rand(20_000, 4, generator=draw) < probs).int()
        rule = mh.Abstain(mh.Threshold(), max_errors=0.6).fit(probs, targets)
        new = torch.rand(20_000, 4, generator=draw)
        present = torch.rand(20_000, 4, generator=draw) < new
        decision = rule(new)
        errors = (decision.labels != present).sum(1).double()
        assert errors[~decision.abstain].mean().item() == pytest.approx(0.6, abs=0.03)
        assert errors[decision.abstain].mean() > 1.0

    def test_rows_left_to_a_person_by_the_inner_rule_come_first(self):
        probs, targets = example()
        inner = mh.Abstain(mh.Threshold(), at_most=0.1).fit(probs)
        outer = mh.Abstain(inner, at_most=0.25).fit(probs)
        asked = outer(probs).abstain
        assert int(asked.sum()) == 50
        assert bool(asked[inner(probs).abstain].all())
        by_errors = mh.Abstain(inner, max_errors=0.5).fit(probs, targets)
        assert bool(by_errors(probs).abstain[inner(probs).abstain].all())


class TestFittingOfTheInnerRule:
    probs, targets = example()

    def test_an_unfitted_one_is_fitted(self):
        for rule in (
            mh.NoneOfThese(mh.AverageK(2), threshold=0.3),
            mh.NoneOfThese(mh.AverageK(2)),
            mh.Abstain(mh.NoneOfThese(mh.AverageK(2), threshold=0.3)),
        ):
            assert not rule.fitted
            rule.fit(self.probs, self.targets)
            inner = next(part for part in rule.modules() if isinstance(part, mh.AverageK))
            assert inner.threshold == mh.AverageK(2).fit(self.probs).threshold

    def test_a_fitted_one_stays_as_it_is(self):
        inner = mh.AverageK(2).fit(self.probs[:20])
        want = inner.threshold.clone()
        mh.Abstain(mh.NoneOfThese(inner)).fit(self.probs, self.targets)
        assert torch.equal(inner.threshold, want)

    def test_a_given_limit_around_a_rule_without_learning_is_ready(self):
        assert mh.NoneOfThese(mh.TopK(3), threshold=0.2).fitted
        assert not mh.NoneOfThese(mh.TopK(3)).fitted

    def test_what_a_wrapper_needs_follows_from_the_inner_rule(self):
        assert mh.NoneOfThese(mh.ExpectedFBeta(), threshold=0.1).needs_probs
        assert not mh.NoneOfThese(mh.TopK(1), threshold=0.1).needs_probs
        assert not mh.NoneOfThese(mh.TopK(1), threshold=0.1).needs_targets
        assert mh.NoneOfThese(mh.LabelThresholds(), threshold=0.1).needs_targets
        assert mh.NoneOfThese(mh.TopK(1), keep=0.9).needs_targets
        assert not mh.Abstain(mh.TopK(1)).needs_targets
        assert mh.Abstain(mh.TopK(1), max_errors=1).needs_targets
