"""Bootstrap intervals of metrics, and means over labels with few, some and many training images."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import as_tensor, check_int, check_number, describe_type
from manyhot.decide.rule import Decision
from manyhot.errors import InputError, owned
from manyhot.metrics.metric import Metric, MetricResult, RowMetric, mean_of_defined
from manyhot.sorting import row_blocks

# Draws times rows whose counts are held at a time.
_DRAWS_AT_ONCE = 1 << 23
# A row's part can be larger than the row: each of its bins is a number, however few labels there are.
_PART_OF_ROW = 256


@dataclass(frozen=True)
class Interval:
    """A value with its confidence interval.

    Attributes:
        value: The value on the samples themselves.
        low: The lower end.
        high: The upper end.
        undefined: In how many of the draws the value was not defined or not finite; they are left out.
    """

    value: float
    low: float
    high: float
    undefined: int = 0


def bootstrap(
    make_metric: Callable[[], Metric],
    values: Any,
    targets: Any,
    *,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """A confidence interval for every value of a metric, by a bootstrap of the rows.

    The ends are percentiles of the values of the draws, moved so that the mean of the draws is the value itself: an
    error that cannot be negative, such as the ece, grows with the noise that drawing adds, and its plain percentiles
    would lie above it. Intervals cover the sampling of the test set, not the variation between training runs. Rows must
    be independent: frames of one video are not. For a maximum, such as the mce, they are rough.

    Metrics that are sums over rows (scores of probabilities, sets, pooled calibration) cost one matrix product;
    others are computed again for each draw.

    Args:
        make_metric: Makes the metric, such as `lambda: FScores(2.0)`, or the class itself.
        values: (N, K), whatever the metric takes: scores, probabilities, decisions.
        targets: (N, K): 1 present, 0 absent, -1 unknown.
        replicates: How many times rows are drawn.
        level: The share of draws that the interval holds.
        seed: The same seed draws the same rows.

    Reference: Efron, Bootstrap methods: another look at the jackknife, 1979; the percentile method, but centred.

    Example:
        >>> draw = torch.Generator().manual_seed(0)
        >>> probs = torch.rand(400, 3, generator=draw)
        >>> targets = (torch.rand(400, 3, generator=draw) < probs).int()
        >>> bootstrap(mh.metrics.BrierScore, probs, targets)["brier"]
        Interval(value=0.16..., low=0.14..., high=0.17..., undefined=0)
    """
    replicates = check_int("replicates", "bootstrap", replicates, low=1)
    level = check_number("level", "bootstrap", level, "(0, 1)")
    metric = make_metric()
    whole = metric.update(values, targets).compute().values
    drawn = list(draw_values(metric, values, targets, replicates=replicates, seed=seed))
    return {name: interval_of(value, [values[name] for values in drawn], level) for name, value in whole.items()}


def draw_values(metric: Metric, values: Any, targets: Any, *, replicates: int, seed: int) -> Iterator[dict[str, float]]:
    """The values of the metric for each draw of rows; what it had collected is overwritten."""
    values = values if isinstance(values, Decision) else as_tensor("bootstrap", values, "values")
    targets = as_tensor("bootstrap", targets, "targets")
    draws = draw_rows(len(targets), replicates, seed)
    if not (isinstance(metric, RowMetric) and metric.row_sums):
        for rows in draws:
            rows = rows.to(targets.device)
            yield metric.reset().update(values[rows], targets[rows]).compute().values
        return
    # Each row's part is computed once for several draws: a draw is how many times each row counts.
    while some := list(islice(draws, max(1, _DRAWS_AT_ONCE // max(1, len(targets))))):
        times = torch.stack([torch.bincount(rows, minlength=len(targets)) for rows in some]).double()
        sums = _weighted_sums(metric, values, targets, times.to(targets.device))
        for draw in range(len(some)):
            metric.state = {name: total[draw] for name, total in sums.items()}
            yield metric.compute().values


def draw_rows(rows: int, replicates: int, seed: int) -> Iterator[Tensor]:
    """Numbers of rows (N,), drawn with replacement, once for each replicate."""
    draw = torch.Generator().manual_seed(seed)
    for _ in range(replicates):
        yield torch.randint(max(rows, 1), (rows,), generator=draw)


def _weighted_sums(metric: RowMetric, values: Tensor | Decision, targets: Tensor, times: Tensor) -> dict[str, Tensor]:
    """The state of each draw, (draws, ...), from how many times each row counts, (draws, N)."""
    sums: dict[str, Tensor] = {}
    shape = max(len(targets), 1), max(_PART_OF_ROW, targets.shape[1])
    for block in row_blocks(shape):
        for name, part in metric.rows(values[block], targets[block]).items():
            total = torch.tensordot(times[:, block], part.double(), 1)
            # Sums of whole numbers are exact in float64, and stay whole.
            total = total if part.is_floating_point() else total.long()
            sums[name] = sums[name] + total if name in sums else total
    return sums


def interval_of(value: float, drawn: Sequence[float], level: float) -> Interval:
    """The interval around a value that holds the share `level` of the drawn ones, of those that are finite.

    The draws are moved so that their mean is the value, but not out of [0, 1] if they are all in it.
    """
    numbers = np.array(drawn)
    finite = numbers[np.isfinite(numbers)]
    undefined = len(numbers) - len(finite)
    if not len(finite) or not math.isfinite(value):
        return Interval(value, math.nan, math.nan, undefined)
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2]) + (value - finite.mean())
    if finite.min() >= 0:
        low = max(low, 0.0)
    if finite.max() <= 1:
        high = min(high, 1.0)
    return Interval(value, float(low), float(high), undefined)


@owned("by_shots")
def by_shots(values_by_label: Any, train_counts: Any, few: int = 20, many: int = 100) -> MetricResult:
    """The mean of a value over labels with few, with some and with many training images.

    A label whose value is NaN, such as the average precision of a label without positives, is left out and counted.

    Args:
        values_by_label: (K,), such as the average precision of each label.
        train_counts: (K,), how many training images carry each label.
        few: Labels with fewer images than this are `few`.
        many: Labels with more images than this are `many`; the others are `medium`.

    Example:
        >>> result = by_shots([0.2, 0.5, 0.7, 0.9], [3, 20, 100, 4000])
        >>> result.values
        {'few': 0.2, 'medium': 0.6, 'many': 0.9}
        >>> result.counts
        {'few': 1, 'medium': 2, 'many': 1, 'labels without a value': 0}
    """
    few = check_int("few", "by_shots", few, low=0)
    many = check_int("many", "by_shots", many, low=0)
    if few > many + 1:
        rule = f"be at most `many` + 1 = {many + 1}"
        raise InputError("few", rule=rule, got=str(few), hint="Swap them, or raise `many`.")
    values = check_label_values("values_by_label", values_by_label).double()
    images = check_label_values("train_counts", train_counts).to(values.device)
    if images.shape != values.shape:
        rule = f"have one number for each of the {len(values)} labels"
        raise InputError("train_counts", rule=rule, got=str(len(images)), hint="Count the images of these labels.")
    groups = {"few": images < few, "medium": (images >= few) & (images <= many), "many": images > many}
    defined = ~values.isnan()
    counts = {name: int((group & defined).sum()) for name, group in groups.items()}
    counts["labels without a value"] = int((~defined).sum())
    return MetricResult({name: mean_of_defined(values[group]) for name, group in groups.items()}, counts)


def check_label_values(argument: str, numbers: Any) -> Tensor:
    """(K,), a number of each label; raises an error for anything else, and for numbers of images below 0."""
    try:
        # By way of an array, because torch takes none that run backwards.
        result = numbers if isinstance(numbers, Tensor) else torch.from_numpy(np.array(numbers, dtype=np.float64))
    except (TypeError, ValueError):
        result = None
    if result is None or result.ndim != 1 or result.is_complex():
        got = describe_type(numbers) if result is None or result.ndim == 1 else str(tuple(result.shape))
        raise InputError(argument, rule="be (K,) of numbers", got=got, hint="Pass one number per label.")
    if argument == "train_counts" and result.numel() and not bool((result >= 0).all()):
        got, hint = f"{float(result.min()):g}", "Count the training images."
        raise InputError(argument, rule="not be negative", got=got, hint=hint)
    return result
