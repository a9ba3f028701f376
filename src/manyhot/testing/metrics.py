"""Properties of metrics."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from manyhot.metrics.metric import Metric, MetricResult
from manyhot.testing.batches import Example, assert_error, assert_same, edge_batches, random_batch

TOLERANCE = 1e-9, 1e-12  # relative, absolute


@dataclass(frozen=True)
class MetricCase:
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
    single_label: bool = False
    names_labels: bool = False
    device: str = "cpu"

    def measure(self, *batches: Example) -> MetricResult:
        """The result of a fresh metric that was updated with these batches."""
        return self.collect(*batches).compute()

    def collect(self, *batches: Example) -> Metric:
        """A fresh metric that was updated with these batches."""
        metric = self.make()
        for batch in batches:
            self.update(metric, batch)
        return metric

    def update(self, metric: Metric, batch: Example) -> Metric:
        """The metric after an update with this batch."""
        if metric.update(self.as_values(batch.scores), batch.targets.to(self.device)) is not metric:
            raise AssertionError("`update` does not return the metric itself")
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
    case = MetricCase(make, **options)
    for check in METRIC_PROPERTIES:
        check(case)


def metric_example(
    case: MetricCase, rows: int = 24, labels: int = 6, *, unknown: float = 0.15, seed: int = 0
) -> Example:
    """A random batch without ties, with a row without labels and one with all of them unless rows carry one label."""
    return random_batch(rows, labels, single_label=case.single_label, unknown=unknown, seed=seed)


def check_batches(case: MetricCase) -> None:
    """The batches do not matter: neither their sizes nor empty ones among them."""
    whole = metric_example(case)
    parts = [whole.rows(slice(start, stop)) for start, stop in ((0, 1), (1, 1), (1, 9), (9, 24))]
    _same(case.measure(*parts), case.measure(whole), "batches and the whole differ")


def check_merge(case: MetricCase) -> None:
    """Merged metrics have the result of the whole, also when one of them is empty."""
    whole = metric_example(case)
    first, second = whole.rows(slice(0, 7)), whole.rows(slice(7, None))
    want = case.measure(whole)
    untouched = case.collect(second)
    merged = case.collect(first).merge(untouched)
    _same(merged.compute(), want, "merged metrics and the whole differ")
    _same(untouched.compute(), case.measure(second), "a metric changes by being merged into another")
    _same(case.make().merge(case.collect(whole)).compute(), want, "merging into an empty metric changes the result")
    _same(case.collect(whole).merge(case.make()).compute(), want, "merging an empty metric changes the result")


def check_order(case: MetricCase) -> None:
    """The order of rows does not matter, nor that of labels."""
    whole = metric_example(case)
    want = case.measure(whole)
    rows = torch.randperm(len(whole.scores), generator=torch.Generator().manual_seed(1))
    _same(case.measure(whole.rows(rows)), want, "the order of rows matters")
    if not case.names_labels:
        labels = torch.tensor([4, 2, 5, 0, 3, 1])
        _same(case.measure(whole.labels(labels)), want, "the order of labels matters")


def check_unknown(case: MetricCase) -> None:
    """Unknown cells change nothing: not by their values, not by being there."""
    whole = metric_example(case)
    want = case.measure(whole)
    for other in (-50.0, 50.0):
        _same(case.measure(whole.with_unknown_at(other)), want, "the values of unknown cells matter")
    longer, wider = whole.with_unknown_line(0), whole.with_unknown_line(-1)
    _same(case.measure(longer), want, f"{longer.name} matters")
    # A label that is never known may be counted as one without a value.
    assert_same(case.measure(wider).values, want.values, f"{wider.name} matters", *TOLERANCE)


def check_metric_edges(case: MetricCase) -> None:
    """At every edge each value is a number or NaN, without an error or a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _numbers(case.make().compute(), "nothing collected")
        for batch in metric_edges(case):
            _numbers(case.measure(batch), batch.name)


def metric_edges(case: MetricCase) -> Iterator[Example]:
    """Batches at the edges: nothing in them, one of everything, all present, all absent, all unknown, all equal."""
    make = partial(metric_example, case)
    return edge_batches(make, single_label=case.single_label, any_labels=not case.names_labels)


def check_types(case: MetricCase) -> None:
    """Half precision is computed as the same numbers in float32; arrays and tensors are the same."""
    whole = metric_example(case)
    values = case.as_values(whole.scores)
    if case.device == "cpu":
        from_arrays = case.make().update(values.numpy(), whole.targets.numpy())
        _same(from_arrays.compute(), case.measure(whole), "arrays and tensors differ")
    if case.values == "decisions":
        return
    for dtype in (torch.float16, torch.bfloat16):
        rounded = values.to(dtype)
        got, want = (case.make().update(kind, whole.targets.to(case.device)) for kind in (rounded, rounded.float()))
        _same(got.compute(), want.compute(), f"{dtype} and the same numbers in float32 differ")


def check_batches_are_copied(case: MetricCase) -> None:
    """What was collected stays when the user writes the next batch into the same memory."""
    whole = metric_example(case)
    values, targets = case.as_values(whole.scores).clone(), whole.targets.to(case.device, copy=True)
    metric = case.make().update(values, targets)
    values.zero_()
    targets.zero_()
    _same(metric.compute(), case.measure(whole), "a metric sees what is written into a batch after it")


def check_continues_after_compute(case: MetricCase) -> None:
    """Computing changes nothing that was collected, and `reset` forgets all of it."""
    whole = metric_example(case)
    begin, rest = whole.rows(slice(0, 9)), whole.rows(slice(9, None))
    metric = case.collect(begin)
    first = metric.compute()
    _same(metric.compute(), first, "a second `compute` gives another result")
    _same(case.update(metric, rest).compute(), case.measure(whole), "a metric cannot go on after `compute`")
    _same(metric.reset().compute(), case.make().compute(), "`reset` does not forget everything")
    _same(case.update(metric, begin).compute(), first, "after `reset` a metric gives another result")


def check_invalid_batches(case: MetricCase) -> None:
    """Invalid batches raise an error that names the metric, and leave it unchanged."""
    whole = metric_example(case)
    metric = case.collect(whole)
    values, targets = case.as_values(whole.scores), whole.targets.to(case.device)
    invalid = [(values, targets[:, :-1]), (values, targets * 2), (values[:, :-1], targets[:, :-1])]
    invalid += [(values * math.nan, targets)] if case.values != "decisions" else []
    for batch in invalid:
        assert_error(
            partial(metric.update, *batch), "invalid input raises no error", f"of `{type(metric).__name__}` must"
        )
    _same(metric.compute(), case.measure(whole), "an invalid batch changes the metric")


METRIC_PROPERTIES = (
    check_batches,
    check_merge,
    check_order,
    check_unknown,
    check_metric_edges,
    check_types,
    check_batches_are_copied,
    check_continues_after_compute,
    check_invalid_batches,
)


def _numbers(result: MetricResult, name: str) -> None:
    wrong = {key: value for key, value in result.values.items() if not isinstance(value, float)}
    wrong |= {key: value for key, value in result.counts.items() if not isinstance(value, int) or value < 0}
    if wrong or not result.values:
        raise AssertionError(f"{name}: neither numbers nor NaN: {wrong or result}")


def _same(got: MetricResult, want: MetricResult, message: str) -> None:
    assert_same(got.values, want.values, message, *TOLERANCE)
    assert_same(got.counts, want.counts, message)
