"""Rules without anything to learn."""

import pytest
import torch

import manyhot as mh
from manyhot.testing.batches import random_batch


class TestThreshold:
    def test_a_value_equal_to_the_threshold_is_accepted(self):
        values = torch.tensor([[0.7, 0.5, 0.3]])
        assert mh.Threshold(0.7)(values).labels.tolist() == [[True, False, False]]
        assert mh.Threshold(0.5)(values).labels.tolist() == [[True, True, False]]
        assert mh.Threshold()(values.double()).labels.tolist() == [[True, True, False]]

    def test_infinite_thresholds_give_all_or_nothing(self):
        values = torch.tensor([[1e4, -1e4, torch.inf, -torch.inf]])
        assert bool(mh.Threshold(float("-inf"))(values).labels.all())
        assert not bool(mh.Threshold(float("inf"))(values).labels.any())

    def test_the_decision_knows_its_sizes(self):
        decision = mh.Threshold(0.0)(random_batch(30, 5).scores)
        assert torch.equal(decision.sizes, (random_batch(30, 5).scores >= 0).sum(1))
        assert not bool(decision.abstain.any())


class TestCostThresholds:
    def test_no_other_decision_costs_less_on_average(self):
        probs = torch.rand(200, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        given, missed = torch.tensor([1.0, 2.0, 5.0, 1.0]), torch.tensor([3.0, 2.0, 1.0, 0.0])
        labels = mh.decide.CostThresholds(given, missed)(probs).labels
        costs = torch.where(labels, (1 - probs) * given, probs * missed)
        others = torch.where(~labels, (1 - probs) * given, probs * missed)
        assert bool((costs <= others + 1e-12).all())
        assert bool(labels.any(0)[:3].all()), "the rule gives something where a miss costs"

    def test_equal_costs_are_a_threshold_of_one_half(self):
        probs = torch.sigmoid(random_batch(30, 5).scores)
        assert torch.equal(mh.decide.CostThresholds()(probs).labels, mh.Threshold(0.5)(probs).labels)
        assert torch.equal(mh.decide.CostThresholds(2, [2.0] * 5)(probs).labels, mh.Threshold(0.5)(probs).labels)

    def test_a_free_error_is_always_made(self):
        probs = torch.tensor([[0.0, 0.5, 1.0]])
        assert mh.decide.CostThresholds(0.0, 1.0)(probs).labels.tolist() == [[True, True, True]]
        assert mh.decide.CostThresholds(1.0, 0.0)(probs).labels.tolist() == [[False, False, True]]


class TestTopK:
    @pytest.mark.parametrize("k", [0, 1, 3, 7, 8])
    def test_against_a_stable_sort(self, k):
        values = torch.randint(0, 4, (50, 8), generator=torch.Generator().manual_seed(0)).double()
        got = mh.TopK(k)(values).labels
        for row, labels in zip(values.tolist(), got.tolist(), strict=True):
            want = sorted(range(8), key=lambda j: (-row[j], j))[:k]
            assert [j for j in range(8) if labels[j]] == sorted(want)

    def test_more_than_there_are_gives_all(self):
        assert mh.TopK(5)(torch.zeros(2, 3)).sizes.tolist() == [3, 3]

    def test_infinite_values(self):
        values = torch.tensor([[-torch.inf, -torch.inf, 1.0], [torch.inf, torch.inf, 0.0]])
        assert mh.TopK(2)(values).labels.tolist() == [[True, False, True], [True, True, False]]
