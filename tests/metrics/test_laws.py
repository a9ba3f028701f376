"""Every law of metrics can be broken; tests/laws/table.py says which metrics it is tried on."""

import math
import re

import pytest
import torch

from manyhot import metrics
from manyhot.testing import batches
from manyhot.testing import metrics as testing
from tests.errors.expected import raises_input_error
from tests.laws.table import METRICS


class Share(metrics.Metric):
    """The share of known cells that are present where the value is above 0: a metric to be broken."""

    def update(self, values, targets):
        values, targets = self._check(values, targets)
        chosen = (values > 0) & (targets >= 0)
        return self.collect(hits=(chosen & (targets > 0)).sum(), cells=chosen.sum())

    def compute(self):
        cells = int(self.total("cells"))
        return metrics.MetricResult({"share": int(self.total("hits")) / cells if cells else math.nan})


class MeanOfBatches(Share):
    def update(self, values, targets):
        values, targets = self._check(values, targets)
        chosen = (values > 0) & (targets >= 0)
        return self.collect(
            hits=(chosen & (targets > 0)).sum() * 100 / chosen.sum().clamp(min=1), cells=torch.tensor(100)
        )


class FirstRowTwice(Share):
    def update(self, values, targets):
        super().update(values[:1], targets[:1])
        return super().update(values, targets)


class FirstLabelOnly(Share):
    def update(self, values, targets):
        values, targets = self._check(values, targets)
        return super().update(values, torch.where(torch.arange(targets.shape[1]) > 0, -1, targets))


class UnknownAsAbsent(Share):
    def update(self, values, targets):
        values, targets = self._check(values, targets)
        return super().update(values, targets.clamp(min=0))


class DividesByNothing(Share):
    def compute(self):
        return metrics.MetricResult({"share": int(self.total("hits")) / int(self.total("cells"))})


class HalfAsItComes(Share):
    def update(self, values, targets):
        values = torch.as_tensor(values)
        return super().update(values - 0.1 if values.dtype == torch.float16 else values, targets)


class KeepsReferences(metrics.Metric):
    def update(self, values, targets):
        _, targets = self._check(values, targets)
        return self.keep(targets=targets)

    def compute(self):
        targets = self.concatenated("targets")
        return metrics.MetricResult({"present": float((targets > 0).sum())})


class ForgetsInCompute(Share):
    def compute(self):
        outcome = super().compute()
        self.state = {}
        return outcome


class MergesIntoTheOther(Share):
    def merge(self, other):
        super().merge(other)
        other.state = self.state
        return self


class TakesAnything(Share):
    def update(self, values, targets):
        chosen = torch.as_tensor(values) > 0
        present = torch.as_tensor(targets)[:, :1] > 0
        known = torch.as_tensor(targets)[:, :1] >= 0
        return self.collect(hits=(chosen & present).sum(), cells=(chosen & known).sum())


def test_a_sound_metric_obeys_the_laws():
    testing.check_metric(Share)


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (MeanOfBatches, testing.check_batches),
        (FirstRowTwice, batches.check_order),
        (FirstLabelOnly, batches.check_order),
        (UnknownAsAbsent, batches.check_unknown),
        (DividesByNothing, batches.check_edge_batches),
        (HalfAsItComes, batches.check_types),
        (KeepsReferences, testing.check_batches_are_copied),
        (ForgetsInCompute, testing.check_continues_after_compute),
        (MergesIntoTheOther, testing.check_merge),
        (TakesAnything, testing.check_invalid_batches),
    ],
)
def test_a_broken_metric_breaks_its_law(broken, law):
    with pytest.raises((AssertionError, ZeroDivisionError)):
        law(testing.MetricCase(broken))


def test_metrics_that_differ_cannot_be_merged():
    words = (
        "`other` of `MeanAveragePrecision` must be a `MeanAveragePrecision` of the same settings; got AUROC. "
        "Merge metrics that are alike."
    )
    with raises_input_error(match=f"^{re.escape(words)}$"):
        metrics.MeanAveragePrecision().merge(metrics.AUROC())
    with raises_input_error(rule="of the same settings"):
        metrics.MeanAveragePrecision().merge(metrics.MeanAveragePrecision(average="micro"))


class WeightedShare(Share):
    def __init__(self, weights):
        self.weights = weights
        super().__init__()


def test_metrics_with_tensors_as_arguments_can_be_merged():
    one, other = (WeightedShare(torch.tensor([1.0, 2.0])) for _ in range(2))
    one.merge(other.update(torch.ones(1, 2), torch.ones(1, 2)))
    assert one.compute()["share"] == 1
    with pytest.raises(ValueError, match="of the same settings"):
        one.merge(WeightedShare(torch.tensor([1.0, 3.0])))


def test_another_number_of_labels_is_refused():
    words = (
        "`values` of `CoverageError` must have the 3 labels of the batches before; got 2. "
        "Use a metric for each set of labels."
    )
    metric = metrics.CoverageError().update(torch.zeros(1, 3), torch.zeros(1, 3))
    with raises_input_error(match=f"^{re.escape(words)}$"):
        metric.update(torch.zeros(1, 2), torch.zeros(1, 2))
    with raises_input_error(match=f"^{re.escape(words)}$"):
        metric.merge(metrics.CoverageError().update(torch.zeros(1, 2), torch.zeros(1, 2)))


def test_settings_are_checked():
    with raises_input_error("average", "AUROC", rule="be one of 'macro', 'micro'", got="'samples'"):
        metrics.AUROC(average="samples")
    with raises_input_error("ks", "RankingAtK", rule="be one or more whole numbers", got="int"):
        metrics.RankingAtK(ks=3)
    with raises_input_error("ks", "RankingAtK", rule="be a whole number, at least 1"):
        metrics.RankingAtK(ks=(1, 0))


@pytest.mark.parametrize("name", METRICS)
def test_what_a_metric_keeps_beside_its_arguments_does_not_hinder_merging(name):
    one, other = METRICS[name].make(), METRICS[name].make()
    one.kept_for_later = 1
    one.merge(other)
