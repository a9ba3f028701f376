"""The laws notice rules that break them; tests/laws/table.py says which rules they are tried on."""

import pytest
import torch

import manyhot as mh
from manyhot.testing.batches import check_edge_batches, check_order, check_saved, check_types, check_unfitted
from manyhot.testing.rules import RuleCase, check_rule, check_rule_invalid_input, check_rule_rows, check_rule_unknown


class Learnt(mh.Rule):
    """A rule that does as it should; each of the others below breaks one law."""

    needs_targets = True

    def __init__(self):
        super().__init__()
        self.register_buffer("threshold", torch.tensor(0.0, dtype=torch.float64))

    def fit(self, values, targets=None):
        values = self.check_values(values)
        known = self.check_targets(targets, values) >= 0
        return self.learn(threshold=(values * known).sum(dtype=torch.float64) / known.sum().clamp(min=1))

    def decide(self, values):
        return values >= self.threshold.to(values)


class NeedsNoFit(Learnt):
    def require_fitted(self):
        pass


class MixesRows(Learnt):
    def decide(self, values):
        return values >= values.mean()


class LooksAtTheFirstRow(Learnt):
    def fit(self, values, targets=None):
        return self.learn(threshold=self.check_values(values)[:1].mean(dtype=torch.float64))


class PrefersTheFirstLabel(Learnt):
    def decide(self, values):
        return super().decide(values) | (torch.arange(values.shape[1], device=values.device) == 0)


class Forgets(Learnt):
    def learn(self, threshold):
        self.kept = threshold
        return super().learn()

    def decide(self, values):
        return values >= getattr(self, "kept", 100.0)


class LearnsFromUnknownCells(Learnt):
    def fit(self, values, targets=None):
        values = self.check_values(values)
        self.check_targets(targets, values)
        return self.learn(threshold=values.mean(dtype=torch.float64))


class FailsWithoutPositives(Learnt):
    def fit(self, values, targets=None):
        super().fit(values, targets)
        return self.learn(threshold=self.check_values(values)[torch.as_tensor(targets) == 1].min().double())


class LosesHalfPrecision(Learnt):
    def check_values(self, values):
        values = torch.as_tensor(values)
        return super().check_values(values.round() if values.dtype == torch.float16 else values)


class TakesAnything(Learnt):
    def check_values(self, values):
        return torch.zeros(30, 5) if isinstance(values, str) else torch.as_tensor(values).nan_to_num().reshape(-1, 5)


@pytest.mark.parametrize(
    ("law", "rule", "words"),
    [
        (check_unfitted, NeedsNoFit, "an unfitted one is used"),
        (check_rule_rows, MixesRows, "rows one by one and at once differ"),
        (check_order, LooksAtTheFirstRow, "the order of rows matters"),
        (check_order, PrefersTheFirstLabel, "the order of labels matters"),
        (check_saved, Forgets, "a saved one gives other results"),
        (check_rule_unknown, LearnsFromUnknownCells, "values of unknown cells matter"),
        (check_types, LosesHalfPrecision, "float16 and the same numbers in float32 differ"),
        (check_rule_invalid_input, TakesAnything, "invalid input raises no error"),
    ],
)
def test_laws_notice_what_is_wrong(law, rule, words):
    law(RuleCase(Learnt))
    with pytest.raises(AssertionError, match=words):
        law(RuleCase(rule))


def test_the_law_of_edges_notices_what_is_wrong():
    check_rule(Learnt)
    with pytest.raises(RuntimeError, match="min"):
        check_edge_batches(RuleCase(FailsWithoutPositives))
