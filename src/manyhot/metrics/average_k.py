"""How many of the right labels are found by sets of a given average size."""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.checks import check_number, kind_of
from manyhot.decide.average_k import AverageK
from manyhot.decide.cuts import reached
from manyhot.metrics.metric import Metric, Outcome, State
from manyhot.metrics.rows import by_label, divide, zeros
from manyhot.refusal import refusal


class AverageKAccuracy(Metric):
    """The share of present labels that are in sets of k labels on average, larger where a row is ambiguous.

    The sets hold every label whose value reaches one threshold: the one at which the rows collected here get k labels
    on average, or one that was fitted elsewhere, such as `AverageK(k).fit(val_probs).threshold`. For rows with one
    label each, the value is the share of rows whose label is in the set.

    No-label rows: They have nothing to be found, but their sets count in the mean size; `counts` says how many there
    were. Without a present label the accuracy is NaN, without rows all values are.
    Unknown cells: Left out: they belong to no set and do not move the threshold.
    Memory: With a threshold given, sums are kept; to find one, the values are.

    Args:
        k: The wanted mean number of labels a row, at least 0; ties at the threshold can make it more.
        threshold: What a value must reach to be in the set, instead of one that is found from `k`.

    Reference: Garcin, Servajean, Joly and Salmon, A Two-Head Loss Function for Deep Average-K Classification.

    Example:
        >>> probs = torch.tensor([[0.9, 0.6, 0.1], [0.8, 0.3, 0.2]])
        >>> outcome = mh.metrics.AverageKAccuracy(1.5).update(probs, torch.tensor([[0, 1, 0], [0, 0, 1]])).compute()
        >>> {name: round(value, 3) for name, value in outcome.values.items()}
        {'accuracy': 0.5, 'mean_size': 1.5, 'threshold': 0.45}
        >>> outcome.details["sizes"]
        tensor([0, 1, 1, 0])
    """

    def __init__(self, k: float, *, threshold: float | Tensor | None = None) -> None:
        self.k = check_number("k", "AverageKAccuracy", k, low=0)
        self.threshold = None if threshold is None else _as_float(threshold)
        super().__init__()

    def start(self) -> State:
        """Sums if the threshold is known, else the values."""
        if self.threshold is None:
            return {"values": [], "targets": []}
        return zeros(("hits", "present", "empty_rows", "sizes"), torch.int64)

    def update(self, values: Any, targets: Any) -> Self:
        """Collects probabilities or comparable scores (N, K), and targets (N, K); returns itself."""
        values, targets = self._check(values, targets)
        if self.threshold is None:
            return self.collect(values=values.clone(), targets=targets.clone())
        return self.collect(**_sums(values, targets, self.threshold))

    def compute(self) -> Outcome:
        """The values "accuracy", "mean_size" and "threshold".

        `details["sizes"]` (K + 1,) says how many rows have sets of each size.
        """
        if self.threshold is not None:
            return self._outcome(self.threshold)
        parts = list(zip(self.parts("values"), self.parts("targets"), strict=True))
        threshold = _fitted_threshold(parts, self.k)
        counted = AverageKAccuracy(self.k, threshold=threshold)
        for values, targets in parts:
            counted.collect(**_sums(values, targets, threshold))
        return counted._outcome(threshold)

    def _outcome(self, threshold: float) -> Outcome:
        sizes = by_label(self.total("sizes"))
        rows, present = int(sizes.sum()), int(self.total("present"))
        given = int((sizes * torch.arange(len(sizes), device=sizes.device)).sum())
        values = {
            "accuracy": divide(int(self.total("hits")), present),
            "mean_size": divide(given, rows),
            "threshold": threshold if rows else math.nan,
        }
        counts = {"rows": rows, "present labels": present, "rows without labels": int(self.total("empty_rows"))}
        return Outcome(values, counts, {"sizes": sizes})


def _sums(values: Tensor, targets: Tensor, threshold: float) -> dict[str, Tensor]:
    """Counts of a batch: labels found, labels present, rows without labels, and rows by the size of their set."""
    known, present = targets >= 0, targets > 0
    given = reached(values, torch.tensor(threshold, dtype=torch.float64)) & known
    rows = known.any(1)
    return {
        "hits": (given & present).sum(),
        "present": present.sum(),
        "empty_rows": (rows & ~present.any(1)).sum(),
        "sizes": torch.bincount(given.sum(1)[rows], minlength=values.shape[1] + 1),
    }


def _fitted_threshold(parts: list[tuple[Tensor, Tensor]], k: float) -> float:
    """The threshold that the known cells of k labels a row on average reach."""
    cells = [values[targets >= 0].unsqueeze(1) for values, targets in parts]
    if not cells:
        return math.inf
    rows = sum(int((targets >= 0).any(1).sum()) for _, targets in parts)
    known = torch.cat(cells)
    # Rows may differ in their number of known cells, so that each cell stands as a row of its own for the rule.
    return float(AverageK(k * rows / max(1, len(known))).fit(known).threshold)


def _as_float(threshold: float | Tensor) -> float:
    try:
        number = float(threshold)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if math.isnan(number):
        got = kind_of(threshold) if not isinstance(threshold, float) else "nan"
        remedy = "Pass `rule.threshold` of a fitted `AverageK`."
        raise refusal("threshold", "AverageKAccuracy", "be one number", got, remedy)
    return number
