"""Average precision: of each label, of each sample, and of all cells together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.cells import as_scores, as_targets
from manyhot.checks import check_choice
from manyhot.metrics.metric import Outcome, State, mean_of_defined
from manyhot.metrics.rows import RowSums, divide, zeros
from manyhot.metrics.sorting import (
    VALUES_AT_ONCE,
    Column,
    RowPlaces,
    by_row,
    count_below,
    select,
    sorted_column,
    sorted_columns,
)


def average_precision(scores: Any, targets: Any) -> Tensor:
    """The average precision of each label, over all samples.

    It is the mean, over the samples that carry the label, of the precision among all samples scored at or above them:
    equal scores stand together, so that the order of samples does not matter.

    Args:
        scores: (N, K), scores or probabilities; only their order within a label matters.
        targets: (N, K): 1 present, 0 absent, -1 unknown. Unknown cells are left out.

    Returns:
        (K,) in float64, NaN for a label without a present cell.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3], [0.5, 0.2], [0.5, 0.8]])
        >>> mh.metrics.average_precision(scores, torch.tensor([[1, 0], [1, 0], [0, 0]]))
        tensor([0.8333,    nan], dtype=torch.float64)
    """
    scores = as_scores("average_precision", scores)
    return average_precision_of_parts([scores], [as_targets("average_precision", targets, scores)])


def average_precision_of_parts(scores: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
    """As `average_precision`, for checked parts of a table that is never put together."""
    found = [precision_of_column(column) for column in sorted_columns(scores, targets)]
    return torch.tensor(found, dtype=torch.float64, device=scores[0].device if scores else None)


def precision_of_column(column: Column) -> float:
    """The average precision of the present values among the known ones; NaN without a present one."""
    present, known = column.present, column.known
    if len(present) == 0:
        return math.nan
    total = 0.0
    for some in present.split(VALUES_AT_ONCE):
        hits = len(present) - count_below(present, some)
        total += float((hits.double() / (len(known) - count_below(known, some))).sum())
    return total / len(present)


def sample_average_precision(scores: Any, targets: Any) -> Tensor:
    """The average precision of each sample, over its labels: label-ranking average precision.

    Args:
        scores: (N, K), scores or probabilities; only their order within a sample matters.
        targets: (N, K): 1 present, 0 absent, -1 unknown. Unknown cells are left out.

    Returns:
        (N,) in float64, NaN for a sample without a present label.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3, 0.5], [0.5, 0.2, 0.1]])
        >>> mh.metrics.sample_average_precision(scores, torch.tensor([[1, 1, 0], [0, 0, 0]]))
        tensor([0.8333,    nan], dtype=torch.float64)
    """
    owner = "sample_average_precision"
    scores = as_scores(owner, scores)
    targets = as_targets(owner, targets, scores)
    return by_row(_precision_of_rows, scores, targets)


def _precision_of_rows(places: RowPlaces) -> Tensor:
    precision = torch.where(places.valid, places.present.double() / places.known, 0.0)
    return precision.sum(1) / places.valid.sum(1)


def cell_average_precision(scores: Any, targets: Any) -> float:
    """The average precision of all cells in one ranking, whatever their label; NaN without a present cell.

    Args:
        scores: (N, K), scores or probabilities; they are compared across samples and labels.
        targets: (N, K): 1 present, 0 absent, -1 unknown. Unknown cells are left out.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3], [0.5, 0.2]])
        >>> round(mh.metrics.cell_average_precision(scores, torch.tensor([[1, 1], [0, 0]])), 4)
        0.8333
    """
    owner = "cell_average_precision"
    scores = as_scores(owner, scores)
    return precision_of_column(sorted_column(*known_cells(scores, as_targets(owner, targets, scores))))


def score_lists(over: str) -> State:
    """What a metric that needs all scores collects: tables over labels, cells of all labels over cells."""
    return {"values": [], "targets": []} if over == "label" else {"present": [], "known": []}


def kept_scores(over: str, values: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """What it keeps of a batch, as copies."""
    if over == "label":
        return {"values": values.clone(), "targets": targets.clone()}
    present, known = known_cells(values, targets)
    return {"present": present, "known": known}


def known_cells(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The scores of the present cells and those of all known ones, as new tensors without axes."""
    return select(scores, targets > 0), select(scores, targets >= 0)


def cell_counts(column: Column) -> dict[str, int]:
    """How many cells of all labels there are."""
    return {"cells": len(column.present) + column.absent_count, "present cells": len(column.present)}


class MeanAveragePrecision(RowSums):
    """How well present labels are ranked before absent ones, from 0 to 1: the mean of average precisions.

    Equal scores stand together: average precision is the mean, over present cells, of the precision among all cells
    scored at or above them. Without ties it is the usual one; with ties it does not depend on the order of the data.

    No-label rows: Over labels and cells they count as absent cells like any others. Over samples they have no average
    precision and are left out of the mean, not taken as perfect; `counts` says how many there were. So are labels
    without a present cell over labels. Nothing left gives NaN.
    Unknown cells: Left out.
    Memory: Over labels and cells the scores are kept; over samples three numbers are.

    Args:
        over: "label" for the mean over labels, each ranking all samples (mAP by class, macro); "sample" for the mean
            over samples, each ranking its labels (label-ranking average precision); "cell" for one ranking of all cells
            (micro).

    Reference: Label ranking average precision in scikit-learn and torchmetrics gives 1 to samples without labels, and
        macro average precision of scikit-learn gives 0 to labels without samples; here both are left out.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3], [0.5, 0.2], [0.4, 0.8]])
        >>> outcome = mh.metrics.MeanAveragePrecision().update(scores, torch.tensor([[1, 0], [0, 0], [1, 0]])).compute()
        >>> round(outcome["map"], 4), outcome.counts
        (0.8333, {'labels': 1, 'labels without positives': 1})
        >>> outcome.details["by_label"]
        tensor([0.8333,    nan], dtype=torch.float64)
    """

    def __init__(self, over: str = "label") -> None:
        self.over = check_choice("over", "MeanAveragePrecision", over, ("label", "sample", "cell"))
        super().__init__()

    def start(self) -> State:
        """Scores over labels and cells, sums over samples."""
        if self.over != "sample":
            return score_lists(self.over)
        return zeros(("rows", "empty_rows"), torch.int64) | zeros(("precision",), torch.float64)

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor] | None:
        """The average precision of each row, over samples."""
        if self.over != "sample":
            return None
        values, targets = self._check(values, targets)
        by_row = sample_average_precision(values, targets)
        defined = ~by_row.isnan()
        empty = (targets >= 0).any(1) & ~defined
        return {"precision": by_row.nan_to_num(0.0), "rows": defined, "empty_rows": empty}

    def update(self, values: Any, targets: Any) -> Self:
        """Collects scores or probabilities (N, K), and targets (N, K); returns itself."""
        if self.over == "sample":
            return super().update(values, targets)
        return self.collect(**kept_scores(self.over, *self._check(values, targets)))

    def compute(self) -> Outcome:
        """The mean as "map"; over labels also the average precision of each, as `details["by_label"]`."""
        if self.over == "label":
            by_label = average_precision_of_parts(self.parts("values"), self.parts("targets"))
            defined = int((~by_label.isnan()).sum())
            counts = {"labels": defined, "labels without positives": len(by_label) - defined}
            return Outcome({"map": mean_of_defined(by_label)}, counts, {"by_label": by_label})
        if self.over == "cell":
            column = sorted_column(self.joined("present"), self.joined("known"))
            return Outcome({"map": precision_of_column(column)}, cell_counts(column))
        rows = int(self.total("rows"))
        mean = divide(float(self.total("precision")), rows)
        return Outcome({"map": mean}, {"rows": rows, "rows without positives": int(self.total("empty_rows"))})
