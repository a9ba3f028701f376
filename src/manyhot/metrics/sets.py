"""Metrics of decisions: precision, recall and F of the labels that were given, and how near the sets are as wholes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.cells import as_targets, as_tensor
from manyhot.checks import check_number, kind_of
from manyhot.decide.rule import Decision
from manyhot.metrics.metric import Outcome, State, mean_of_defined
from manyhot.metrics.rows import RowSums, by_label, divide, zeros
from manyhot.refusal import refusal

PRF = ("precision", "recall", "f")


class FScores(RowSums):
    """Precision, recall and their F mean, over all cells, over labels and over rows.

    precision = TP / (TP + FP);  recall = TP / (TP + FN);  f = (1 + beta²) TP / ((1 + beta²) TP + beta² FN + FP)

    A quotient of nothing by nothing is 0. `micro_` counts cells of all labels together (OP, OR and O-F1 of the
    literature). `macro_` is the mean over labels that have known cells; `macro_f_supported` that over labels with a
    positive. `f_of_means` is the F mean of `macro_precision` (CP) and `macro_recall` (CR), the C-F1 of the
    literature. `sample_` is the mean over rows, where a row without labels and decisions is 0: the counts tell how many
    there are. Unknown cells are left out, and so are rows whose decision abstains.

    Args:
        beta: How many times recall weighs what precision does.

    Example:
        >>> decisions = torch.tensor([[True, False], [True, True]])
        >>> outcome = FScores().update(decisions, torch.tensor([[1, 0], [0, 1]])).compute()
        >>> {name: round(value, 3) for name, value in list(outcome.values.items())[:5]}
        {'micro_f': 0.8, 'macro_f': 0.833, 'macro_f_supported': 0.833, 'f_of_means': 0.857, 'sample_f': 0.833}
        >>> outcome.details["f"]
        tensor([0.6667, 1.0000], dtype=torch.float64)
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = check_number("beta", type(self).__name__, beta, low=0, low_open=True)
        super().__init__()

    def start(self) -> State:
        """Hits and errors by label, and the sums of the values of rows."""
        counts = ("hits", "extra", "missed", "known", "rows", "empty_rows", "abstained")
        return zeros(counts, torch.int64) | zeros(PRF, torch.float64)

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """Hits, errors and the values of each row."""
        chosen, targets, abstained = _answered(self, values, targets)
        present, known = targets > 0, targets >= 0
        hits, extra, missed = chosen & present, chosen & ~present & known, present & ~chosen
        counts = (hits.sum(1), extra.sum(1), missed.sum(1))
        precision, recall, f = precision_recall_f(*counts, beta=self.beta)
        rows = known.any(1)
        return {
            "hits": hits,
            "extra": extra,
            "missed": missed,
            "known": known,
            "rows": rows,
            "empty_rows": rows & (sum(counts) == 0),
            "abstained": abstained,
            "precision": precision,
            "recall": recall,
            "f": f,
        }

    def compute(self) -> Outcome:
        """Values over cells, labels and rows, and in the details those of each label."""
        hits, extra, missed, known = (by_label(self.total(name)) for name in ("hits", "extra", "missed", "known"))
        seen, supported = known > 0, hits + missed > 0
        labels = precision_recall_f(hits, extra, missed, beta=self.beta)
        micro = precision_recall_f(hits.sum(), extra.sum(), missed.sum(), beta=self.beta)
        rows = int(self.total("rows"))
        means = {
            "micro": [float(value) if rows else math.nan for value in micro],
            "macro": [mean_of_defined(value[seen]) for value in labels],
            "sample": [divide(float(self.total(name)), rows) for name in PRF],
        }
        named = {
            f"{over}_{name}": value for over, three in means.items() for name, value in zip(PRF, three, strict=True)
        }
        named["macro_f_supported"] = mean_of_defined(labels[2][supported])
        named["f_of_means"] = f_mean(named["macro_precision"], named["macro_recall"], beta=self.beta)
        headlines = ("micro_f", "macro_f", "macro_f_supported", "f_of_means", "sample_f")
        counts = {
            "rows": rows,
            "rows without labels and decisions": int(self.total("empty_rows")),
            "rows that abstain": int(self.total("abstained")),
            "labels": int(seen.sum()),
            "labels without positives": int((seen & ~supported).sum()),
            "labels without cells": int((~seen).sum()),
        }
        details = {name: torch.where(seen, value, math.nan) for name, value in zip(PRF, labels, strict=True)}
        details |= {"present": hits + missed, "chosen": hits + extra, "known": known}
        return Outcome({name: named[name] for name in (*headlines, *named)}, counts, details)


class SetAccuracy(RowSums):
    """How near the sets of labels are to the true ones, row by row as wholes.

    exact_match = share of rows without an error;  jaccard = mean of |common| / |either|, 1 for a row without labels
    that is given none;  hamming_loss = share of wrong cells;  mean_size = mean number of labels given, of known cells

    Rows whose decision abstains are left out; `coverage` is the share of the others. Unknown cells are left out of
    everything, also of the sizes, and with them rows without a known cell.

    Example:
        >>> decisions = torch.tensor([[True, False], [False, False]])
        >>> SetAccuracy().update(decisions, torch.tensor([[1, 1], [0, 0]])).compute().values
        {'exact_match': 0.5, 'jaccard': 0.75, 'hamming_loss': 0.25, 'mean_size': 0.5, 'coverage': 1.0}
    """

    def start(self) -> State:
        """Sums over rows, and the histogram of sizes."""
        counts = ("rows", "cells", "wrong", "exact", "empty_rows", "abstained", "sizes")
        return zeros(counts, torch.int64) | zeros(("jaccard",), torch.float64)

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """Errors, overlap and size of each row."""
        chosen, targets, abstained = _answered(self, values, targets)
        present, known = targets > 0, targets >= 0
        rows = known.any(1)
        wrong, size = (known & (chosen != present)).sum(1), chosen.sum(1)
        common, either = (chosen & present).sum(1), (chosen | present).sum(1)
        possible = torch.arange(targets.shape[1] + 1, device=targets.device)
        return {
            "rows": rows,
            "cells": known.sum(1),
            "wrong": wrong,
            "exact": rows & (wrong == 0),
            "empty_rows": rows & (either == 0),
            "abstained": abstained,
            "sizes": rows.unsqueeze(1) & (size.unsqueeze(1) == possible),
            "jaccard": torch.where(either > 0, common.double() / either, rows.double()),
        }

    def compute(self) -> Outcome:
        """The values, and in the details how many rows were given 0, 1, ..., K labels."""
        total = {name: float(self.total(name)) for name in self.state if name != "sizes"}
        sizes = by_label(self.total("sizes"))
        given = float((sizes * torch.arange(len(sizes), device=sizes.device)).sum())
        values = {
            "exact_match": divide(total["exact"], total["rows"]),
            "jaccard": divide(total["jaccard"], total["rows"]),
            "hamming_loss": divide(total["wrong"], total["cells"]),
            "mean_size": divide(given, total["rows"]),
            "coverage": divide(total["rows"], total["rows"] + total["abstained"]),
        }
        counts = {
            "rows": int(total["rows"]),
            "rows without labels and decisions": int(total["empty_rows"]),
            "rows that abstain": int(total["abstained"]),
            "cells": int(total["cells"]),
        }
        return Outcome(values, counts, {"sizes": sizes})


class GivenLabels(RowSums):
    """How many labels a row is given, among those that are not left to a person: all of them, known to be right or not.

    Unlike other metrics it looks at the decisions alone, because this is what people see.

    Example:
        >>> decisions = torch.tensor([[True, True], [True, False]])
        >>> GivenLabels().update(decisions, torch.tensor([[1, -1], [-1, -1]])).compute().values
        {'mean_size': 1.5, 'empty_share': 0.0}
    """

    def start(self) -> State:
        """The histogram of sizes."""
        return zeros(("sizes",), torch.int64)

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """The size of each row."""
        decision = as_decisions(type(self).__name__, values)
        self._check_labels(decision.labels.shape[1])
        possible = torch.arange(decision.labels.shape[1] + 1, device=decision.labels.device)
        return {"sizes": ~decision.abstain.unsqueeze(1) & (decision.sizes.unsqueeze(1) == possible)}

    def compute(self) -> Outcome:
        """The mean size, the share of rows that are given none, and how many rows were given 0, 1, ..., K labels."""
        sizes = by_label(self.total("sizes"))
        rows = int(sizes.sum())
        given = float((sizes * torch.arange(len(sizes), device=sizes.device)).sum())
        empty = float(sizes[0]) if len(sizes) else 0.0
        values = {"mean_size": divide(given, rows), "empty_share": divide(empty, rows)}
        return Outcome(values, {"rows": rows}, {"sizes": sizes})


def precision_recall_f(hits: Tensor, extra: Tensor, missed: Tensor, *, beta: float) -> tuple[Tensor, Tensor, Tensor]:
    """Precision, recall and F of counts, in float64; nothing by nothing is 0."""
    weighted = (1 + beta**2) * hits.double()
    parts = ((hits, hits + extra), (hits, hits + missed), (weighted, weighted + beta**2 * missed + extra))
    precision, recall, f = (torch.where(whole > 0, part.double() / whole, 0.0) for part, whole in parts)
    return precision, recall, f


def f_mean(precision: float, recall: float, *, beta: float) -> float:
    """The F mean of a precision and a recall; 0 if both are."""
    below = beta**2 * precision + recall
    return 0.0 if below == 0 else (1 + beta**2) * precision * recall / below


def as_decisions(owner: str, values: Any) -> Decision:
    """Decisions (N, K) of boolean cells, or of a rule, which may abstain; refuses anything that is not yet decided."""
    labels = values.labels if isinstance(values, Decision) else values
    if isinstance(labels, np.ndarray) and labels.dtype == bool:
        labels = as_tensor(owner, labels, "decisions")
    if not isinstance(labels, Tensor) or labels.dtype != torch.bool:
        got = f"an array of {labels.dtype}" if isinstance(labels, np.ndarray) else kind_of(labels)
        remedy = "Pass what a rule returns, or compare probabilities with a threshold."
        raise refusal("decisions", owner, "be a boolean tensor or array", got, remedy)
    if labels.ndim != 2:
        remedy = "Pass one row a sample, one column a label."
        raise refusal("decisions", owner, "be (N, K)", str(tuple(labels.shape)), remedy)
    nobody = torch.zeros(len(labels), dtype=torch.bool, device=labels.device)
    abstain = values.abstain if isinstance(values, Decision) else nobody
    if abstain.shape != nobody.shape or abstain.dtype != torch.bool:
        got = f"{tuple(abstain.shape)} of {abstain.dtype}"
        rule = f"be (N,) of booleans with N = {len(labels)}"
        raise refusal("abstain", owner, rule, got, "Pass what a rule returns.")
    return Decision(labels, abstain)


def _answered(metric: RowSums, values: Any, targets: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Labels given to known cells, targets with those of abstaining rows made unknown, and the rows that abstain."""
    owner = type(metric).__name__
    decision = as_decisions(owner, values)
    targets = as_targets(owner, targets, decision.labels, of="decisions")
    metric._check_labels(targets.shape[1])
    abstained = decision.abstain & (targets >= 0).any(1)
    targets = torch.where(decision.abstain.unsqueeze(1), -1, targets)
    return decision.labels & (targets >= 0), targets, abstained
