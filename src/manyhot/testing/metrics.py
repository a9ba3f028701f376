"""Properties of metrics."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from manyhot.metrics.metric import Metric
from manyhot.testing.batches import SHARED_PROPERTIES, Case, Example, assert_error, check_unknown, require


@dataclass(frozen=True)
class MetricCase(Case):
    """A metric under test.

    Args:
        make: Builds a fresh metric.
        values: What it is updated with: "scores", any real numbers; "probs", in [0, 1]; "decisions", bool.
        single_label: Whether rows carry at most one label.
        names_labels: Whether the metric itself names labels by their number, so that they cannot change places.
        device: The device to test on.
    """

    make: Callable[[], Metric]
    values: str = "scores"

    shape = 24, 6
    tolerance = 1e-9, 1e-12

    def learn(self, values: Any, targets: Any) -> Metric:
        """A fresh metric that was updated with values and targets."""
        metric = self.make()
        require(metric.update(values, targets) is metric, "`update` does not return the metric itself")
        return metric

    def results(self, learnt: Metric, values: Any = None) -> dict[str, Any]:
        """Values and counts of a metric, checked to be numbers or NaN; new values have no part in them."""
        result = learnt.compute()
        wrong = {key: value for key, value in result.values.items() if not isinstance(value, float)}
        wrong |= {key: value for key, value in result.counts.items() if not isinstance(value, int) or value < 0}
        require(result.values and not wrong, f"neither numbers nor NaN: {wrong or result}")
        return result.values | result.counts

    def collect(self, *batches: Example, into: Metric | None = None) -> Metric:
        """A metric, a fresh one by default, that was updated with these batches."""
        metric = self.make() if into is None else into
        for batch in batches:
            metric.update(self.as_values(batch.scores), batch.targets.to(self.device))
        return metric

    def as_values(self, scores: Tensor) -> Tensor:
        """Scores as the kind of values that the metric takes."""
        scores = scores.to(self.device)
        if self.values == "decisions":
            return scores > 0
        return scores if self.values == "scores" else torch.sigmoid(scores)


def check_metric(make: Callable[[], Metric], **options: Any) -> None:
    """Checks every property of metrics.

    Args:
        make: Builds a fresh metric.
        **options: As in `MetricCase`.

    Example:
        >>> check_metric(mh.metrics.MeanAveragePrecision, values="scores")
    """
    MetricCase(make, **options).check(METRIC_PROPERTIES)


def check_batches(case: MetricCase) -> None:
    """The batches do not matter: neither their sizes nor empty ones among them, nor whether there are any."""
    whole = case.example()
    parts = [whole.rows(slice(start, stop)) for start, stop in ((0, 1), (1, 1), (1, 9), (9, 24))]
    want = case.results(case.collect(whole))
    case.same(case.results(case.collect(*parts)), want, "batches and the whole differ")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        case.results(case.make())


def check_merge(case: MetricCase) -> None:
    """Merged metrics have the result of the whole, also when one of them is empty."""
    whole = case.example()
    first, second = whole.rows(slice(0, 7)), whole.rows(slice(7, None))
    want, untouched = case.results(case.collect(whole)), case.collect(second)
    for merged, message in (
        (case.collect(first).merge(untouched), "merged metrics and the whole differ"),
        (case.make().merge(case.collect(whole)), "merging into an empty metric changes the result"),
        (case.collect(whole).merge(case.make()), "merging an empty metric changes the result"),
    ):
        case.same(case.results(merged), want, message)
    alone = case.results(case.collect(second))
    case.same(case.results(untouched), alone, "a metric changes by being merged into another")


def check_batches_are_copied(case: MetricCase) -> None:
    """What was collected stays when the user writes the next batch into the same memory."""
    whole = case.example()
    values, targets = case.as_values(whole.scores).clone(), whole.targets.to(case.device, copy=True)
    metric = case.learn(values, targets)
    values.zero_()
    targets.zero_()
    want = case.results(case.collect(whole))
    case.same(case.results(metric), want, "a metric sees what is written into a batch after it")


def check_continues_after_compute(case: MetricCase) -> None:
    """Computing changes nothing that was collected, and `reset` forgets all of it."""
    whole = case.example()
    begin, rest = whole.rows(slice(0, 9)), whole.rows(slice(9, None))
    metric, want = case.collect(begin), case.results(case.collect(whole))
    first = case.results(metric)
    case.same(case.results(metric), first, "a second `compute` gives another result")
    case.same(case.results(case.collect(rest, into=metric)), want, "a metric cannot go on after `compute`")
    case.same(case.results(metric.reset()), case.results(case.make()), "`reset` does not forget everything")
    case.same(case.results(case.collect(begin, into=metric)), first, "after `reset` a metric gives another result")


def check_invalid_batches(case: MetricCase) -> None:
    """Invalid batches raise an error that names the metric, and leave it unchanged."""
    whole = case.example()
    metric = case.collect(whole)
    values, targets = case.as_values(whole.scores), whole.targets.to(case.device)
    invalid = [(values, targets[:, :-1]), (values, targets * 2), (values[:, :-1], targets[:, :-1])]
    invalid += [(values * math.nan, targets)] if case.values != "decisions" else []
    for batch in invalid:
        error = f"of `{type(metric).__name__}` must"
        assert_error(partial(metric.update, *batch), "invalid input raises no error", error)
    want = case.results(case.collect(whole))
    case.same(case.results(metric), want, "an invalid batch changes the metric")


METRIC_PROPERTIES = (
    *SHARED_PROPERTIES,
    check_unknown,
    check_batches,
    check_merge,
    check_batches_are_copied,
    check_continues_after_compute,
    check_invalid_batches,
)
