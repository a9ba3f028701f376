"""Whether present cells are ranked before absent ones: the area under the ROC curve, coverage error, ranking loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from manyhot.cells import as_scores, as_targets
from manyhot.checks import check_choice
from manyhot.metrics.metric import Metric, Outcome, State, mean_of_defined
from manyhot.metrics.precision import cell_counts, kept_scores, score_lists
from manyhot.metrics.rows import RowSums, divide, zeros
from manyhot.metrics.sorting import (
    VALUES_AT_ONCE,
    Column,
    RowPlaces,
    by_row,
    count_below,
    sorted_column,
    sorted_columns,
)


def auroc(scores: Any, targets: Any) -> Tensor:
    """The area under the ROC curve of each label, over all samples.

    It is the chance that a sample with the label is scored above one without it; equal scores count one half.

    Args:
        scores: (N, K), scores or probabilities; only their order within a label matters.
        targets: (N, K): 1 present, 0 absent, -1 unknown. Unknown cells are left out.

    Returns:
        (K,) in float64, NaN for a label without a present or without an absent cell.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3], [0.5, 0.2], [0.5, 0.8]])
        >>> mh.metrics.auroc(scores, torch.tensor([[1, 0], [1, 0], [0, 0]]))
        tensor([0.7500,    nan], dtype=torch.float64)
    """
    scores = as_scores("auroc", scores)
    return auroc_of_parts([scores], [as_targets("auroc", targets, scores)])[0]


def auroc_of_parts(scores: Sequence[Tensor], targets: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """As `auroc`, for checked parts of a table that is never put together; and how many present cells a label has."""
    found = [(auroc_of_column(column), len(column.present)) for column in sorted_columns(scores, targets)]
    device = scores[0].device if scores else None
    areas = torch.tensor([area for area, _ in found], dtype=torch.float64, device=device)
    return areas, torch.tensor([count for _, count in found], dtype=torch.int64, device=device)


def auroc_of_column(column: Column) -> float:
    """The area under the ROC curve of the present values among the known ones; NaN if a side is empty."""
    present, known = column.present, column.known
    pairs = len(present) * column.absent_count
    if pairs == 0:
        return math.nan
    # Below and at-or-below added up count a tie once and a win twice; those among the present cells are no pairs.
    twice = sum(
        int((count_below(known, some, or_equal=ties) - count_below(present, some, or_equal=ties)).sum())
        for some in present.split(VALUES_AT_ONCE)
        for ties in (False, True)
    )
    return (len(present) * column.below + twice / 2) / pairs


def sample_coverage(scores: Any, targets: Any) -> Tensor:
    """How many labels of each sample are scored at or above the lowest of those that are present.

    Args:
        scores: (N, K), scores or probabilities; only their order within a sample matters.
        targets: (N, K): 1 present, 0 absent, -1 unknown. Unknown cells are left out.

    Returns:
        (N,) in float64, NaN for a sample without a present label.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3, 0.5], [0.5, 0.2, 0.1]])
        >>> mh.metrics.sample_coverage(scores, torch.tensor([[1, 1, 0], [0, 0, 0]]))
        tensor([3., nan], dtype=torch.float64)
    """
    scores = as_scores("sample_coverage", scores)
    return by_row(_coverage_of_rows, scores, as_targets("sample_coverage", targets, scores))


def _coverage_of_rows(places: RowPlaces) -> Tensor:
    depth = torch.where(places.valid, places.known.double(), 0.0)
    # A place more, so that there is a maximum even without labels.
    return nn.functional.pad(depth, (0, 1)).amax(1).masked_fill(~places.valid.any(1), math.nan)


def sample_ranking_loss(scores: Any, targets: Any) -> Tensor:
    """The share of pairs of a present and an absent label of each sample that are not ordered rightly.

    Args:
        scores: (N, K), scores or probabilities; only their order within a sample matters. A tie is wrong.
        targets: (N, K): 1 present, 0 absent, -1 unknown. Unknown cells are left out.

    Returns:
        (N,) in float64, NaN for a sample without a present or without an absent label.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3, 0.5], [0.5, 0.2, 0.1]])
        >>> mh.metrics.sample_ranking_loss(scores, torch.tensor([[1, 1, 0], [0, 0, 0]]))
        tensor([0.5000,    nan], dtype=torch.float64)
    """
    scores = as_scores("sample_ranking_loss", scores)
    targets = as_targets("sample_ranking_loss", targets, scores)
    pairs: Tensor = (targets > 0).sum(1) * (targets == 0).sum(1)
    return by_row(_wrong_pairs_of_rows, scores, targets) / pairs


def _wrong_pairs_of_rows(places: RowPlaces) -> Tensor:
    return torch.where(places.valid, places.known - places.present, 0).sum(1)


class AUROC(Metric):
    """The chance that a present cell is scored above an absent one, ties counting one half: from 0 to 1, 0.5 by chance.

    No-label rows: They count as absent cells like any others.
    Empty labels: A label without a present or without an absent cell has no area; it is left out of the mean over
    labels, and `counts` says how many there were. Nothing left gives NaN.
    Unknown cells: Left out.
    Memory: The scores are kept.

    Args:
        over: "label" for the mean over labels, each comparing samples (macro); "cell" for one comparison of all cells,
            across labels (micro).

    Example:
        >>> scores = torch.tensor([[0.9, 0.3], [0.5, 0.2], [0.5, 0.8]])
        >>> outcome = mh.metrics.AUROC().update(scores, torch.tensor([[1, 0], [1, 0], [0, 0]])).compute()
        >>> outcome["auroc"], outcome.counts
        (0.75, {'labels': 1, 'labels without positives': 1, 'labels without negatives': 0})
    """

    def __init__(self, over: str = "label") -> None:
        self.over = check_choice("over", "AUROC", over, ("label", "cell"))
        super().__init__()

    def start(self) -> State:
        """The scores."""
        return score_lists(self.over)

    def update(self, values: Any, targets: Any) -> Self:
        """Collects scores or probabilities (N, K), and targets (N, K); returns itself."""
        return self.collect(**kept_scores(self.over, *self._check(values, targets)))

    def compute(self) -> Outcome:
        """The area as "auroc"; over labels their mean, and the area of each as `details["by_label"]`."""
        if self.over == "cell":
            column = sorted_column(self.joined("present"), self.joined("known"))
            return Outcome({"auroc": auroc_of_column(column)}, cell_counts(column))
        by_label, positives = auroc_of_parts(self.parts("values"), self.parts("targets"))
        counts = {
            "labels": int((~by_label.isnan()).sum()),
            "labels without positives": int((positives == 0).sum()),
            "labels without negatives": int((by_label.isnan() & (positives > 0)).sum()),
        }
        return Outcome({"auroc": mean_of_defined(by_label)}, counts, {"by_label": by_label})


class CoverageError(RowSums):
    """How far one must go down the ranking of a sample to meet all of its labels, on average.

    It is the number of known labels that are scored at or above the lowest present one, so that a tie counts in full;
    the least possible is the mean number of labels of a sample.

    No-label rows: They ask for no label and are left out, not taken as 0; `counts` says how many there were.
    Unknown cells: Left out.

    Reference: scikit-learn's `coverage_error`, which puts rows without labels into the mean as 0.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3, 0.5], [0.5, 0.2, 0.1]])
        >>> outcome = mh.metrics.CoverageError().update(scores, torch.tensor([[1, 1, 0], [0, 0, 0]])).compute()
        >>> outcome["coverage_error"], outcome.counts
        (3.0, {'rows': 1, 'rows without positives': 1})
    """

    def start(self) -> State:
        """Counts of rows, and the sum of their depths."""
        return zeros(("rows", "empty_rows"), torch.int64) | zeros(("depth",), torch.float64)

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """How deep the lowest label of each row lies."""
        values, targets = self._check(values, targets)
        depth = sample_coverage(values, targets)
        labelled = ~depth.isnan()
        return {"depth": depth.nan_to_num(0.0), "rows": labelled, "empty_rows": (targets >= 0).any(1) & ~labelled}

    def compute(self) -> Outcome:
        """The mean depth as "coverage_error"."""
        rows = int(self.total("rows"))
        mean = divide(float(self.total("depth")), rows)
        return Outcome(
            {"coverage_error": mean}, {"rows": rows, "rows without positives": int(self.total("empty_rows"))}
        )


class RankingLoss(RowSums):
    """The share of pairs of a present and an absent label of a sample that are ordered wrongly, on average: 0 is best.

    A tie is wrong, since a present label should be scored above an absent one.

    No-label rows: They have no pair and are left out, not taken as 0, and so are rows with all labels; `counts` says
    how many there were of each.
    Unknown cells: Left out.

    Reference: Zhang and Zhou, A Review on Multi-Label Learning Algorithms, 2014; scikit-learn's `label_ranking_loss`,
        which puts rows without pairs into the mean as 0.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3, 0.5], [0.5, 0.2, 0.1]])
        >>> outcome = mh.metrics.RankingLoss().update(scores, torch.tensor([[1, 1, 0], [0, 0, 0]])).compute()
        >>> outcome["ranking_loss"], outcome.counts
        (0.5, {'rows': 1, 'rows without positives': 1, 'rows without negatives': 0})
    """

    def start(self) -> State:
        """Counts of rows, and the sum of their shares."""
        return zeros(("rows", "empty_rows", "full_rows"), torch.int64) | zeros(("wrong",), torch.float64)

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """The share of wrong pairs of each row."""
        values, targets = self._check(values, targets)
        share = sample_ranking_loss(values, targets)
        defined, present, known = ~share.isnan(), (targets > 0).any(1), (targets >= 0).any(1)
        return {
            "wrong": share.nan_to_num(0.0),
            "rows": defined,
            "empty_rows": known & ~present,
            "full_rows": present & ~defined,
        }

    def compute(self) -> Outcome:
        """The mean share as "ranking_loss"."""
        rows = int(self.total("rows"))
        counts = {
            "rows": rows,
            "rows without positives": int(self.total("empty_rows")),
            "rows without negatives": int(self.total("full_rows")),
        }
        return Outcome({"ranking_loss": divide(float(self.total("wrong")), rows)}, counts)
