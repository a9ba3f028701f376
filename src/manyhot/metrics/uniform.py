"""Accuracy with one threshold for all samples: sample-wise, class-wise and uniform."""

from __future__ import annotations

from typing import Any, Self

import torch

from manyhot.decide.sweep import row_intervals, sweep, sweep_groups
from manyhot.metrics.metric import Metric, Outcome, State
from manyhot.metrics.rows import divide, zeros
from manyhot.refusal import refusal


class UniformAccuracy(Metric):
    """The share of single-label rows that a threshold gets right: their label above it, all others at or below it.

    A row is right for thresholds in [largest absent value, present value). The sample-wise accuracy lets every row have
    its own threshold: it is the share of rows whose label is scored strictly above all others. The class-wise one has a
    threshold for each label, and the uniform one a single threshold for all rows, each the best there is:
    uniform <= class-wise <= sample-wise.

    No-label rows: They have no label to be right about and are left out; `counts` says how many there were. Rows with
    several labels are refused. Without rows all values are NaN; the threshold is also NaN if no row can be right, and
    minus infinity if labels have no absent one to stand against.
    Unknown cells: Left out.
    Memory: Three numbers a row are kept; time grows as n log n.

    Reference: Li, Jia, Zhou, Shen and Duan, Rediscovering BCE Loss for Uniform Classification. A tie counts as an error
        in all three, as their condition (7) says; an argmax would accept some. Of several best regions of thresholds
        the lowest is taken, and its middle reported.

    Example:
        >>> scores = torch.tensor([[3.0, 1.0], [0.5, 2.0], [0.6, 0.2], [0.0, 0.3]])
        >>> targets = mh.one_hot(torch.tensor([0, 1, 0, 0]), 2)
        >>> outcome = mh.metrics.UniformAccuracy().update(scores, targets).compute()
        >>> {name: round(value, 3) for name, value in outcome.values.items()}
        {'uniform_accuracy': 0.5, 'class_wise_accuracy': 0.5, 'sample_wise_accuracy': 0.75, 'threshold': 0.55}
    """

    def start(self) -> State:
        """The interval and the label of each row."""
        return {"low": [], "high": [], "label": [], **zeros(("empty_rows",), torch.int64)}

    def update(self, values: Any, targets: Any) -> Self:
        """Collects scores or probabilities (N, K), and targets (N, K) with one label a row at most; returns itself."""
        values, targets = self._check(values, targets)
        present = targets > 0
        counts = present.sum(1)
        if bool((counts > 1).any()):
            remedy = "Leave out rows with several labels, or use a metric for them, such as `MeanAveragePrecision`."
            raise refusal(
                "targets", "UniformAccuracy", "have one label a row at the most", "a row with several", remedy
            )
        labelled = counts > 0
        low, high = row_intervals(values[labelled], targets[labelled])
        empty = (~labelled & (targets >= 0).any(1)).sum()
        return self.collect(low=low, high=high, label=present[labelled].nonzero()[:, 1], empty_rows=empty)

    def compute(self) -> Outcome:
        """The three accuracies and the best threshold for all rows.

        `details` has the ends of the best region as "region", [low, high), and of each label: "rows", how many "right"
        with its own threshold, "lows" and "highs" of its best region.
        """
        low, high, label = self.joined("low"), self.joined("high"), self.joined("label").long()
        rows, labels = len(low), self.num_labels or 0
        uniform, by_label = sweep(low, high), sweep_groups(low, high, label, labels)
        right = label.new_tensor([best.count for best in by_label])
        values = {
            "uniform_accuracy": divide(uniform.count, rows),
            "class_wise_accuracy": divide(int(right.sum()), rows),
            "sample_wise_accuracy": divide(int((low < high).sum()), rows),
            "threshold": uniform.threshold,
        }
        details = {
            "region": low.new_tensor([uniform.low, uniform.high], dtype=torch.float64),
            "rows": torch.bincount(label, minlength=labels),
            "right": right,
            "lows": low.new_tensor([best.low for best in by_label], dtype=torch.float64),
            "highs": low.new_tensor([best.high for best in by_label], dtype=torch.float64),
        }
        return Outcome(values, {"rows": rows, "rows without labels": int(self.total("empty_rows"))}, details)
