"""Metrics of predicted sets: F scores, set accuracy, average-K and uniform accuracy, and open-set scores."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import as_targets, as_tensor, check_number, describe_type
from manyhot.decide.rule import Decision, reaches_threshold, strict_midpoint
from manyhot.decide.sets import AverageK
from manyhot.decide.thresholds import row_intervals, sweep, sweep_groups
from manyhot.errors import InputError
from manyhot.metrics.metric import Metric, MetricResult, RowMetric, TableMetric, divide, mean_of_defined
from manyhot.metrics.ranking import auroc_of_column, precision_of_column
from manyhot.sorting import Column, count_below, sort_in_place


class FScores(RowMetric):
    """Precision, recall and their F mean, over all cells, over labels and over rows.

    precision = TP / (TP + FP);  recall = TP / (TP + FN);  f = (1 + beta²) TP / ((1 + beta²) TP + beta² FN + FP)

    A quotient of nothing by nothing is 0. `micro_` counts cells of all labels together (OP, OR and O-F1 of the
    literature). `macro_` is the mean over labels that have known cells; `macro_f_supported` that over labels with a
    positive. `f_of_means` is the F mean of `macro_precision` (CP) and `macro_recall` (CR), the C-F1 of the
    literature. `sample_` is the mean over rows, where a row without labels and decisions is 0; the counts hold how many
    there are. Unknown cells are left out, and so are rows whose decision abstains.

    Args:
        beta: The weight of recall relative to precision.

    Example:
        >>> decisions = torch.tensor([[True, False], [True, True]])
        >>> result = FScores().update(decisions, torch.tensor([[1, 0], [0, 1]])).compute()
        >>> {name: round(value, 3) for name, value in list(result.values.items())[:5]}
        {'micro_f': 0.8, 'macro_f': 0.833, 'macro_f_supported': 0.833, 'f_of_means': 0.857, 'sample_f': 0.833}
        >>> result.details["f"]
        tensor([0.6667, 1.0000], dtype=torch.float64)
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = check_number("beta", type(self).__name__, beta, "(0, inf)")
        super().__init__()

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """Hits, errors and the values of each row."""
        chosen, present, known, abstained = _without_abstained(self, values, targets)
        hits, extra, missed = chosen & present, chosen & ~present, present & ~chosen
        counts = (hits.sum(1), extra.sum(1), missed.sum(1))
        rows = known.any(1)
        return {
            "hits": hits,
            "extra": extra,
            "missed": missed,
            "known": known,
            "rows": rows,
            "empty_rows": rows & (sum(counts) == 0),
            "abstained": abstained,
            **precision_recall_f(*counts, beta=self.beta),
        }

    def compute(self) -> MetricResult:
        """Values over cells, labels and rows, and in the details those of each label."""
        hits, extra, missed, known = (self.total(name, 0) for name in ("hits", "extra", "missed", "known"))
        has_known, supported = known > 0, hits + missed > 0
        by_label = precision_recall_f(hits, extra, missed, beta=self.beta)
        micro = precision_recall_f(hits.sum(), extra.sum(), missed.sum(), beta=self.beta)
        rows = int(self.total("rows"))
        values = {f"micro_{name}": float(value) if rows else math.nan for name, value in micro.items()}
        values |= {f"macro_{name}": mean_of_defined(value[has_known]) for name, value in by_label.items()}
        values |= {f"sample_{name}": divide(float(self.total(name)), rows) for name in by_label}
        values["macro_f_supported"] = mean_of_defined(by_label["f"][supported])
        values["f_of_means"] = f_mean(values["macro_precision"], values["macro_recall"], beta=self.beta)
        headlines = ("micro_f", "macro_f", "macro_f_supported", "f_of_means", "sample_f")
        counts = {
            "rows": rows,
            "rows without labels and decisions": int(self.total("empty_rows")),
            "rows that abstain": int(self.total("abstained")),
            "labels": int(has_known.sum()),
            "labels without positives": int((has_known & ~supported).sum()),
            "labels without cells": int((~has_known).sum()),
        }
        details = {name: torch.where(has_known, value, math.nan) for name, value in by_label.items()}
        details |= {"present": hits + missed, "chosen": hits + extra, "known": known}
        return MetricResult({name: values[name] for name in (*headlines, *values)}, counts, details)


class SetAccuracy(RowMetric):
    """Agreement of the predicted label sets with the true ones, row by row.

    exact_match = share of rows without an error;  jaccard = mean of |common| / |either|, 1 for a row without labels
    and predictions;  hamming_loss = share of wrong cells;  mean_size = mean number of predicted labels, of known cells

    Rows whose decision abstains are left out; `coverage` is the share of the others. Unknown cells are left out of
    everything, also of the sizes, and with them rows without a known cell.

    Example:
        >>> decisions = torch.tensor([[True, False], [False, False]])
        >>> SetAccuracy().update(decisions, torch.tensor([[1, 1], [0, 0]])).compute().values
        {'exact_match': 0.5, 'jaccard': 0.75, 'hamming_loss': 0.25, 'mean_size': 0.5, 'coverage': 1.0}
    """

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """Errors, overlap and size of each row."""
        chosen, present, known, abstained = _without_abstained(self, values, targets)
        rows = known.any(1)
        wrong = (known & (chosen != present)).sum(1)
        common, either = (chosen & present).sum(1), (chosen | present).sum(1)
        return {
            "rows": rows,
            "cells": known.sum(1),
            "wrong": wrong,
            "exact": rows & (wrong == 0),
            "empty_rows": rows & (either == 0),
            "abstained": abstained,
            "sizes": _one_hot_sizes(chosen, rows),
            "jaccard": torch.where(either > 0, common.double() / either, rows.double()),
        }

    def compute(self) -> MetricResult:
        """The values, and in the details how many rows have 0, 1, ..., K labels."""
        rows, cells, abstained = (int(self.total(name)) for name in ("rows", "cells", "abstained"))
        sizes = self.total("sizes", 0)
        values = {
            "exact_match": divide(int(self.total("exact")), rows),
            "jaccard": divide(float(self.total("jaccard")), rows),
            "hamming_loss": divide(int(self.total("wrong")), cells),
            "mean_size": divide(_sum_of_sizes(sizes), rows),
            "coverage": divide(rows, rows + abstained),
        }
        counts = {
            "rows": rows,
            "rows without labels and decisions": int(self.total("empty_rows")),
            "rows that abstain": abstained,
            "cells": cells,
        }
        return MetricResult(values, counts, {"sizes": sizes})


class PredictedSetSize(RowMetric):
    """The number of predicted labels per row, over rows that do not abstain.

    Unlike other metrics it uses the decisions alone, so that labels with an unknown target count as well.

    Example:
        >>> decisions = torch.tensor([[True, True], [True, False]])
        >>> PredictedSetSize().update(decisions, torch.tensor([[1, -1], [-1, -1]])).compute().values
        {'mean_size': 1.5, 'empty_share': 0.0}
    """

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """The size of each row."""
        decision = as_decisions(type(self).__name__, values)
        self._check_labels(decision.labels.shape[1])
        return {"sizes": _one_hot_sizes(decision.labels, ~decision.abstain)}

    def compute(self) -> MetricResult:
        """The mean size, the share of rows without a label, and how many rows have 0, 1, ..., K labels."""
        sizes = self.total("sizes", 0)
        rows = int(sizes.sum())
        values = {"mean_size": divide(_sum_of_sizes(sizes), rows), "empty_share": divide(int(sizes[:1].sum()), rows)}
        return MetricResult(values, {"rows": rows}, {"sizes": sizes})


def _one_hot_sizes(labels: Tensor, rows: Tensor) -> Tensor:
    """(N, K + 1) bool, how many labels each row has, for the rows (N,) that count."""
    possible = torch.arange(labels.shape[1] + 1, device=labels.device)
    return rows.unsqueeze(1) & (labels.sum(1, keepdim=True) == possible)


def _sum_of_sizes(sizes: Tensor) -> int:
    """The sum of sizes, from how many rows have 0, 1, ..., K labels."""
    return int((sizes * torch.arange(len(sizes), device=sizes.device)).sum())


def precision_recall_f(hits: Tensor, extra: Tensor, missed: Tensor, *, beta: float) -> dict[str, Tensor]:
    """Precision, recall and F of counts, in float64; nothing by nothing is 0."""
    weighted = (1 + beta**2) * hits.double()
    f = weighted, weighted + beta**2 * missed + extra
    quotients = {"precision": (hits, hits + extra), "recall": (hits, hits + missed), "f": f}
    return {name: torch.where(whole > 0, part.double() / whole, 0.0) for name, (part, whole) in quotients.items()}


def f_mean(precision: float, recall: float, *, beta: float) -> float:
    """The F mean of a precision and a recall; 0 if both are."""
    below = beta**2 * precision + recall
    return 0.0 if below == 0 else (1 + beta**2) * precision * recall / below


def as_decisions(owner: str, values: Any) -> Decision:
    """Decisions (N, K) of boolean cells, or of a rule, which may abstain; other values raise an error."""
    labels = values.labels if isinstance(values, Decision) else values
    if isinstance(labels, np.ndarray) and labels.dtype == bool:
        labels = as_tensor(owner, labels, "decisions")
    if not isinstance(labels, Tensor) or labels.dtype != torch.bool:
        got = f"an array of {labels.dtype}" if isinstance(labels, np.ndarray) else describe_type(labels)
        hint = "Pass what a rule returns, or compare probabilities with a threshold."
        raise InputError("decisions", owner, "be a boolean tensor or array", got, hint)
    if labels.ndim != 2:
        hint = "Pass one row per sample and one column per label."
        raise InputError("decisions", owner, "be (N, K)", str(tuple(labels.shape)), hint)
    abstain = values.abstain if isinstance(values, Decision) else labels.new_zeros(len(labels))
    if abstain.shape != labels.shape[:1] or abstain.dtype != torch.bool:
        got = f"{tuple(abstain.shape)} of {abstain.dtype}"
        rule = f"be (N,) of booleans with N = {len(labels)}"
        raise InputError("abstain", owner, rule, got, "Pass what a rule returns.")
    return Decision(labels, abstain)


def _without_abstained(metric: RowMetric, values: Any, targets: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Predicted, present and known cells, all without those of abstaining rows; and the rows that abstain."""
    owner = type(metric).__name__
    decision = as_decisions(owner, values)
    targets = as_targets(owner, targets, decision.labels, of="decisions")
    metric._check_labels(targets.shape[1])
    abstained = decision.abstain & (targets >= 0).any(1)
    known = (targets >= 0) & ~decision.abstain.unsqueeze(1)
    return decision.labels & known, known & (targets > 0), known, abstained


class AverageKAccuracy(TableMetric):
    """The share of present labels that are in sets of k labels on average, larger where a row is ambiguous.

    The sets hold every label whose value reaches one threshold: the one at which the rows collected here get k labels
    on average, or one that was fitted elsewhere, such as `AverageK(k).fit(val_probs).threshold`. For rows with one
    label each, the value is the share of rows whose label is in the set.

    No-label rows: They have no label to find, but their sets count in the mean size; `counts` holds how many there
    were. Without a present label the accuracy is NaN, without rows all values are.
    Unknown cells: Left out: they are in no set and do not affect the threshold.
    Memory: Sums if a threshold is passed; otherwise the values.

    Args:
        k: The mean number of labels per row, at least 0; ties at the threshold can make it more.
        threshold: The smallest value in a set, instead of the one that follows from `k`.

    Reference: Garcin, Servajean, Joly and Salmon, A Two-Head Loss Function for Deep Average-K Classification.

    Example:
        >>> probs = torch.tensor([[0.9, 0.6, 0.1], [0.8, 0.3, 0.2]])
        >>> result = mh.metrics.AverageKAccuracy(1.5).update(probs, torch.tensor([[0, 1, 0], [0, 0, 1]])).compute()
        >>> {name: round(value, 3) for name, value in result.values.items()}
        {'accuracy': 0.5, 'mean_size': 1.5, 'threshold': 0.45}
        >>> result.details["sizes"]
        tensor([0, 1, 1, 0])
    """

    def __init__(self, k: float, *, threshold: float | Tensor | None = None) -> None:
        self.k = check_number("k", "AverageKAccuracy", k, "[0, inf)")
        self.threshold = None if threshold is None else _as_float(threshold)
        super().__init__()

    def update(self, values: Any, targets: Any) -> Self:
        """Collects probabilities or comparable scores (N, K), and targets (N, K); returns itself."""
        if self.threshold is None:
            return super().update(values, targets)
        values, targets = self._check(values, targets)
        known, present = targets >= 0, targets > 0
        predicted = reaches_threshold(values, torch.tensor(self.threshold, dtype=torch.float64)) & known
        rows = known.any(1)
        return self.collect(
            hits=(predicted & present).sum(),
            present=present.sum(),
            empty_rows=(rows & ~present.any(1)).sum(),
            sizes=torch.bincount(predicted.sum(1)[rows], minlength=values.shape[1] + 1),
        )

    def compute(self) -> MetricResult:
        """The values "accuracy", "mean_size" and "threshold".

        `details["sizes"]` (K + 1,) holds how many rows have sets of each size.
        """
        if self.threshold is None:
            parts = self.table_parts()
            counted = AverageKAccuracy(self.k, threshold=_fitted_threshold(parts, self.k))
            for part in parts:
                counted.update(*part)
            return counted.compute()
        sizes, present = self.total("sizes", 0), int(self.total("present"))
        rows = int(sizes.sum())
        values = {
            "accuracy": divide(int(self.total("hits")), present),
            "mean_size": divide(_sum_of_sizes(sizes), rows),
            "threshold": self.threshold if rows else math.nan,
        }
        counts = {"rows": rows, "present labels": present, "rows without labels": int(self.total("empty_rows"))}
        return MetricResult(values, counts, {"sizes": sizes})


def _fitted_threshold(parts: list[tuple[Tensor, Tensor]], k: float) -> float:
    """The threshold that the known cells of k labels per row on average reach."""
    rows = sum(int((targets >= 0).any(1).sum()) for _, targets in parts)
    known = torch.cat([values[targets >= 0].unsqueeze(1) for values, targets in parts] or [torch.empty(0, 1)])
    # Rows may differ in their number of known cells, so that each cell stands as a row of its own for the rule.
    return float(AverageK(k * rows / max(1, len(known))).fit(known).threshold)


def _as_float(threshold: float | Tensor) -> float:
    try:
        number = float(threshold)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if math.isnan(number):
        got = describe_type(threshold) if not isinstance(threshold, float) else "nan"
        hint = "Pass `rule.threshold` of a fitted `AverageK`."
        raise InputError("threshold", "AverageKAccuracy", "be one number", got, hint)
    return number


class UniformAccuracy(Metric):
    """The share of single-label rows that are an exact match: their label above a threshold, all others not.

    A row matches at thresholds in [largest absent value, present value). The sample-wise accuracy lets every row have
    its own threshold: it is the share of rows whose label is scored strictly above all others. The class-wise one has a
    threshold for each label, and the uniform one a single threshold for all rows, each the best there is:
    uniform <= class-wise <= sample-wise.

    No-label rows: Left out, because they have no label to match; `counts` holds how many there were. Rows with
    several labels raise an error. Without rows all values are NaN; the threshold is also NaN if no row can match, and
    minus infinity if there is only one label.
    Unknown cells: Left out.
    Memory: Three numbers per row are stored; time grows as n log n.

    Reference: Li, Jia, Zhou, Shen and Duan, Rediscovering BCE Loss for Uniform Classification. A tie counts as an error
        in all three, as their condition (7) says; an argmax would accept some. Of several best regions of thresholds
        the lowest is taken, and its middle reported.

    Example:
        >>> scores = torch.tensor([[3.0, 1.0], [0.5, 2.0], [0.6, 0.2], [0.0, 0.3]])
        >>> targets = mh.one_hot(torch.tensor([0, 1, 0, 0]), 2)
        >>> result = mh.metrics.UniformAccuracy().update(scores, targets).compute()
        >>> {name: round(value, 3) for name, value in result.values.items()}
        {'uniform_accuracy': 0.5, 'class_wise_accuracy': 0.5, 'sample_wise_accuracy': 0.75, 'threshold': 0.55}
    """

    def update(self, values: Any, targets: Any) -> Self:
        """Collects values (N, K), and targets (N, K) with at most one label per row; returns itself."""
        values, targets = self._check(values, targets)
        present = targets > 0
        counts = present.sum(1)
        if bool((counts > 1).any()):
            hint = "Leave out rows with several labels, or use a metric for them, such as `MeanAveragePrecision`."
            raise InputError("targets", "UniformAccuracy", "have at most one label per row", "a row with several", hint)
        labelled = counts > 0
        low, high = row_intervals(values[labelled], targets[labelled])
        empty = (~labelled & (targets >= 0).any(1)).sum()
        return self.keep(low=low, high=high, label=present[labelled].nonzero()[:, 1]).collect(empty_rows=empty)

    def compute(self) -> MetricResult:
        """The three accuracies and the best threshold for all rows.

        `details` has the ends of the best region as "region", [low, high), and of each label: "rows", how many "right"
        with its own threshold, "lows" and "highs" of its best region.
        """
        low, high, label = self.concatenated("low"), self.concatenated("high"), self.concatenated("label").long()
        rows, labels = len(low), self.num_labels or 0
        uniform, by_label = sweep(low, high), sweep_groups(low, high, label, labels)
        region = low.new_tensor(uniform[1:], dtype=torch.float64)
        right, lows, highs = low.new_tensor(by_label, dtype=torch.float64).reshape(-1, 3).unbind(1)
        values = {
            "uniform_accuracy": divide(uniform.count, rows),
            "class_wise_accuracy": divide(int(right.sum()), rows),
            "sample_wise_accuracy": divide(int((low < high).sum()), rows),
            "threshold": float(strict_midpoint(*region)),
        }
        details = {
            "region": region,
            "rows": torch.bincount(label, minlength=labels),
            "right": right.long(),
            "lows": lows,
            "highs": highs,
        }
        return MetricResult(values, {"rows": rows, "rows without labels": int(self.total("empty_rows"))}, details)


class OpenSetScores(Metric):
    """How well the largest value of a row separates rows with a label (IN) from rows without any (OUT).

    auroc: The chance that an IN row has a larger maximum than an OUT row, ties counting one half.
    aupr_in, aupr_out: Average precision of finding IN rows by large maxima, and OUT rows by small ones.
    fpr95: The share of OUT rows that are accepted at the highest threshold that accepts 95 % of IN rows.
    mmc: Mean maximum confidence, the mean over OUT rows of the largest value: small for a
    model with little confidence on them. It is a confidence only for probabilities.

    No-label rows: They are the OUT rows. If there are none, or no IN rows, comparisons of the two are NaN; `mmc` needs
    OUT rows alone. `counts` holds how many there were of each.
    Unknown cells: Left out: a row's kind and maximum are those of its known cells, and a row without any is left out.
    Memory: One number per row is stored.

    Reference: Liao, Gavves, Oh and Snoek, Quasibinary Classifier for Images with Zero and Multiple Labels; Hendrycks
        and Gimpel, A Baseline for Detecting Misclassified and Out-of-Distribution Examples, 2017.

    Example:
        >>> probs = torch.tensor([[0.9, 0.2], [0.1, 0.6], [0.3, 0.1], [0.2, 0.7]])
        >>> result = mh.metrics.OpenSetScores().update(probs, torch.tensor([[1, 0], [0, 1], [0, 0], [0, 0]])).compute()
        >>> {name: round(value, 3) for name, value in result.values.items()}
        {'auroc': 0.75, 'aupr_in': 0.833, 'aupr_out': 0.833, 'fpr95': 0.5, 'mmc': 0.5}
        >>> result.counts
        {'IN rows': 2, 'OUT rows': 2}
    """

    def update(self, values: Any, targets: Any) -> Self:
        """Collects probabilities (N, K), or scores where `mmc` does not matter, and targets (N, K); returns itself."""
        values, targets = self._check(values, targets)
        known, labelled = (targets >= 0).any(1), (targets > 0).any(1)
        # A column more, so that there is a maximum even without labels.
        largest = torch.nn.functional.pad(values.masked_fill(targets < 0, -torch.inf), (0, 1), value=-torch.inf).amax(1)
        return self.keep(inside=largest[labelled], outside=largest[known & ~labelled])

    def compute(self) -> MetricResult:
        """The values "auroc", "aupr_in", "aupr_out", "fpr95" and "mmc"."""
        inside, outside = sort_in_place(self.concatenated("inside")), sort_in_place(self.concatenated("outside"))
        every = sort_in_place(torch.cat([inside, outside]))
        column = Column(inside, every)
        values = {
            "auroc": auroc_of_column(column),
            "aupr_in": precision_of_column(column) if len(outside) else math.nan,
            "aupr_out": precision_of_column(Column(-outside.flip(0), -every.flip(0))) if len(inside) else math.nan,
            "fpr95": false_positive_rate(inside, outside, hit_rate=0.95),
            "mmc": float(outside.double().mean()) if len(outside) else math.nan,
        }
        return MetricResult(values, {"IN rows": len(inside), "OUT rows": len(outside)})


def false_positive_rate(inside: Tensor, outside: Tensor, *, hit_rate: float) -> float:
    """The share of `outside` at or above the highest value that `hit_rate` of `inside` reach; both in rising order."""
    if len(inside) == 0 or len(outside) == 0:
        return math.nan
    # The tolerance keeps 0.95 * 20 at 19, whichever way the product is rounded.
    needed = math.ceil(hit_rate * len(inside) - 1e-9)
    threshold = inside[len(inside) - needed]
    return (len(outside) - int(count_below(outside, threshold.reshape(1)))) / len(outside)
