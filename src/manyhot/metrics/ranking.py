"""Ranking metrics: average precision, AUROC, coverage error, ranking loss, and precision, recall and NDCG at k."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from manyhot.checks import as_scores, as_targets, check_choice, check_int, describe_type
from manyhot.errors import InputError
from manyhot.labels import UNKNOWN
from manyhot.metrics.metric import MetricResult, RowMetric, TableMetric, divide, mean_of_defined
from manyhot.sorting import VALUES_AT_ONCE, Column, RowRanks, by_row, count_below, select, sorted_column, sorted_columns


def average_precision(scores: Any, targets: Any) -> Tensor:
    """The average precision of each label, over all samples.

    It is the mean, over the samples that carry the label, of the precision among all samples scored at or above them:
    equal scores share a rank, so that the order of samples does not matter.

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
    return values_of_columns(precision_of_column, [_as_table("average_precision", scores, targets)])


def _as_table(owner: str, scores: Any, targets: Any) -> tuple[Tensor, Tensor]:
    scores = as_scores(owner, scores)
    return scores, as_targets(owner, targets, scores)


def values_of_columns(measure: Callable[[Column], float], parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """A number for each label, (K,) in float64, from parts of scores and targets that are never put together."""
    values = [measure(column) for column in sorted_columns(*zip(*parts, strict=True))] if parts else []
    return torch.tensor(values, dtype=torch.float64, device=parts[0][0].device if parts else None)


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
    return by_row(precision_of_rows, *_as_table("sample_average_precision", scores, targets))


def precision_of_rows(ranks: RowRanks) -> Tensor:
    """(N,), the average precision of each row; NaN for one without a present label."""
    precision = torch.where(ranks.valid, ranks.present.double() / ranks.known, 0.0)
    return precision.sum(1) / ranks.valid.sum(1)


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
    return precision_of_column(sorted_column(*known_cells(*_as_table("cell_average_precision", scores, targets))))


def known_cells(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The scores of the present cells and those of all known ones, as new tensors without axes."""
    return select(scores, targets > 0), select(scores, targets >= 0)


class ColumnMetric(TableMetric):
    """A number for each ranking: of all cells in one, or of each label, of which the mean is taken.

    Attributes:
        names: Of the value, a single one.
        measure_column: The number of a ranking; NaN for one without present cells.
        average: "micro" for one ranking; "macro" for one of each label.
    """

    names: Sequence[str]
    measure_column: ClassVar[staticmethod[[Column], float]]
    average: str

    def compute(self) -> MetricResult:
        """The number or the mean; over labels also the number of each, as `details["by_label"]`."""
        if self.average == "micro":
            parts = [known_cells(*part) for part in self.table_parts()] or [(torch.empty(0), torch.empty(0))]
            column = sorted_column(*(torch.cat(cells) for cells in zip(*parts, strict=True)))
            counts = {"cells": len(column.known), "present cells": len(column.present)}
            return MetricResult({self.names[0]: self.measure_column(column)}, counts)
        by_label = values_of_columns(self.measure_column, self.table_parts())
        positives = sum(((marks > 0).any(0) for marks in self.parts("targets")), start=torch.zeros_like(by_label))
        counts = {"labels": int((~by_label.isnan()).sum()), "labels without positives": int((positives == 0).sum())}
        return MetricResult({self.names[0]: mean_of_defined(by_label)}, counts, {"by_label": by_label})


class RowRankingMetric(RowMetric):
    """Means of numbers of each row, over the rows that have them.

    Attributes:
        names: Of the M values.
        measure_rows: The numbers (N, M), or (N,), of scores and targets (N, K); NaN for rows without positives or
            negatives.
    """

    names: Sequence[str]
    measure_rows: Callable[[Tensor, Tensor], Tensor]

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """The numbers of each row."""
        values, targets = self._check(values, targets)
        by_row = self.measure_rows(values, targets).view(len(values), len(self.names))
        # One more column, so that there is a maximum even without labels.
        largest, defined = nn.functional.pad(targets, (0, 1), value=UNKNOWN).amax(1), ~by_row.isnan().any(1)
        full = (largest > 0) & ~defined
        return {"sums": by_row.nan_to_num(0.0), "rows": defined, "empty_rows": largest == 0, "full_rows": full}

    def compute(self) -> MetricResult:
        """The means, and how many rows have no numbers."""
        rows = int(self.total("rows"))
        counts = {"rows": rows, "rows without positives": int(self.total("empty_rows"))}
        sums = zip(self.names, self.total("sums", len(self.names)), strict=True)
        return MetricResult({name: divide(float(total), rows) for name, total in sums}, counts)


class MeanAveragePrecision(RowRankingMetric, ColumnMetric):
    """How well present labels are ranked before absent ones, from 0 to 1: the mean of average precisions.

    Equal scores share a rank: average precision is the mean, over present cells, of the precision among all cells
    scored at or above them. Without ties it is the usual one; with ties it does not depend on the order of the data.

    No-label rows: Over labels and cells they count as absent cells like any others. Over samples they have no average
    precision and are left out of the mean, not counted as perfect; `counts` holds how many there were. So are labels
    without a present cell over labels. Nothing left gives NaN.
    Unknown cells: Left out.
    Memory: The scores for labels and cells; three numbers for samples.

    Args:
        average: "macro" for the mean over labels, each ranking all samples (mAP by class); "samples" for the mean over
            samples, each ranking its labels (label-ranking average precision); "micro" for one ranking of all cells.

    Reference: Label ranking average precision in scikit-learn and torchmetrics gives 1 to samples without labels, and
        macro average precision of scikit-learn gives 0 to labels without samples; here both are left out.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3], [0.5, 0.2], [0.4, 0.8]])
        >>> result = mh.metrics.MeanAveragePrecision().update(scores, torch.tensor([[1, 0], [0, 0], [1, 0]])).compute()
        >>> round(result["map"], 4), result.counts
        (0.8333, {'labels': 1, 'labels without positives': 1})
        >>> result.details["by_label"]
        tensor([0.8333,    nan], dtype=torch.float64)
    """

    names = ("map",)
    measure_rows, measure_column = staticmethod(sample_average_precision), staticmethod(precision_of_column)

    def __init__(self, average: str = "macro") -> None:
        self.average = check_choice("average", "MeanAveragePrecision", average, ("macro", "samples", "micro"))
        self.row_sums = self.average == "samples"
        super().__init__()

    def update(self, values: Any, targets: Any) -> Self:
        """Collects scores or probabilities (N, K), and targets (N, K); returns itself."""
        return (RowMetric if self.row_sums else TableMetric).update(self, values, targets)

    def compute(self) -> MetricResult:
        """The mean as "map"; over labels also the average precision of each, as `details["by_label"]`."""
        return (RowRankingMetric if self.row_sums else ColumnMetric).compute(self)


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
    return values_of_columns(auroc_of_column, [_as_table("auroc", scores, targets)])


def auroc_of_column(column: Column) -> float:
    """The area under the ROC curve of the present values among the known ones; NaN if a side is empty."""
    present, known = column.present, column.known
    pairs = len(present) * (len(known) - len(present))
    if pairs == 0:
        return math.nan
    # Below and at-or-below added up count a tie once and a win twice; those among the present cells are no pairs.
    twice = sum(
        int((count_below(known, some, or_equal=ties) - count_below(present, some, or_equal=ties)).sum())
        for some in present.split(VALUES_AT_ONCE)
        for ties in (False, True)
    )
    return twice / 2 / pairs


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
    return by_row(_coverage_of_rows, *_as_table("sample_coverage", scores, targets))


def _coverage_of_rows(ranks: RowRanks) -> Tensor:
    depth = torch.where(ranks.valid, ranks.known.double(), 0.0)
    # One more column, so that there is a maximum even without labels.
    return nn.functional.pad(depth, (0, 1)).amax(1).masked_fill(~ranks.valid.any(1), math.nan)


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
    return by_row(_wrong_pairs_of_rows, *_as_table("sample_ranking_loss", scores, targets))


def _wrong_pairs_of_rows(ranks: RowRanks) -> Tensor:
    present = ranks.valid.sum(1)
    wrong = torch.where(ranks.valid, ranks.known - ranks.present, 0).sum(1)
    return wrong.double() / (present * (ranks.sizes - present))


class AUROC(ColumnMetric):
    """The chance that a present cell is scored above an absent one, ties counting one half: from 0 to 1, 0.5 by chance.

    No-label rows: They count as absent cells like any others.
    Empty labels: A label without a present or without an absent cell has no area; it is left out of the mean over
    labels, and `counts` holds how many there were. Nothing left gives NaN.
    Unknown cells: Left out.
    Memory: The scores.

    Args:
        average: "macro" for the mean over labels, each comparing samples; "micro" for one comparison of all cells,
            across labels.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3], [0.5, 0.2], [0.5, 0.8]])
        >>> result = mh.metrics.AUROC().update(scores, torch.tensor([[1, 0], [1, 0], [0, 0]])).compute()
        >>> result["auroc"], result.counts
        (0.75, {'labels': 1, 'labels without positives': 1, 'labels without negatives': 0})
    """

    names, measure_column = ("auroc",), staticmethod(auroc_of_column)

    def __init__(self, average: str = "macro") -> None:
        self.average = check_choice("average", "AUROC", average, ("macro", "micro"))
        super().__init__()

    def compute(self) -> MetricResult:
        """The area as "auroc"; over labels their mean, and the area of each as `details["by_label"]`."""
        result = super().compute()
        if self.average == "macro":
            others = sum(result.counts.values())
            result.counts["labels without negatives"] = len(result.details["by_label"]) - others
        return result


class CoverageError(RowRankingMetric):
    """How far one must go down the ranking of a sample to meet all of its labels, on average.

    It is the number of known labels that are scored at or above the lowest present one, so that a tie counts in full;
    the least possible is the mean number of labels of a sample.

    No-label rows: They have no label to reach and are left out, not counted as 0; `counts` holds how many there were.
    Unknown cells: Left out.

    Reference: scikit-learn's `coverage_error`, which puts rows without labels into the mean as 0.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3, 0.5], [0.5, 0.2, 0.1]])
        >>> result = mh.metrics.CoverageError().update(scores, torch.tensor([[1, 1, 0], [0, 0, 0]])).compute()
        >>> result["coverage_error"], result.counts
        (3.0, {'rows': 1, 'rows without positives': 1})
    """

    names, measure_rows = ("coverage_error",), staticmethod(sample_coverage)


class RankingLoss(RowRankingMetric):
    """The share of pairs of a present and an absent label of a sample that are ordered wrongly, on average: 0 is best.

    A tie is wrong, since a present label should be scored above an absent one.

    No-label rows: They have no pair and are left out, not counted as 0, and so are rows with all labels; `counts` holds
    how many there were of each.
    Unknown cells: Left out.

    Reference: Zhang and Zhou, A Review on Multi-Label Learning Algorithms, 2014; scikit-learn's `label_ranking_loss`,
        which puts rows without pairs into the mean as 0.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3, 0.5], [0.5, 0.2, 0.1]])
        >>> result = mh.metrics.RankingLoss().update(scores, torch.tensor([[1, 1, 0], [0, 0, 0]])).compute()
        >>> result["ranking_loss"], result.counts
        (0.5, {'rows': 1, 'rows without positives': 1, 'rows without negatives': 0})
    """

    names, measure_rows = ("ranking_loss",), staticmethod(sample_ranking_loss)

    def compute(self) -> MetricResult:
        """The mean share as "ranking_loss"."""
        result = super().compute()
        result.counts["rows without negatives"] = int(self.total("full_rows"))
        return result


def first_labels(values: Tensor, targets: Tensor, k: int) -> Tensor:
    """The targets (N, k) of the labels that each row of (N, K) ranks first, -1 where it has fewer known ones.

    Of equal values the lower index comes first. Unknown labels are not ranked.
    """
    hidden = targets < 0
    values = values.masked_fill(hidden, -torch.inf)
    # One more than k shows whether a tie crosses the end.
    top = values.topk(min(k + 1, values.shape[1]), dim=1)
    order = top.indices[:, :k]
    tied = (top.values[:, 1:] == top.values[:, :-1]).any(1).nonzero().flatten()
    if len(tied):
        by_value = values[tied].sort(dim=1, descending=True, stable=True).indices
        # Once more by being known, because a label may be scored minus infinity itself.
        known_first = hidden[tied].gather(1, by_value).int().sort(dim=1, stable=True).indices
        order[tied] = by_value.gather(1, known_first)[:, :k]
    top_targets = targets.gather(1, order)
    return torch.nn.functional.pad(top_targets, (0, k - top_targets.shape[1]), value=-1)


class RankingAtK(RowRankingMetric):
    """Of the k labels that each row ranks first: how many are right, how many of the right ones they are, and how high.

    precision@k = hits / k; recall@k = hits / (present labels); ndcg@k = sum over hits of 1 / log2(1 + place), divided
    by what the best order would reach. Each is a mean over rows. Of equal values the lower index comes first.

    Few labels: precision@k always divides by k, so that a row with fewer than k labels present cannot reach 1, nor can
    any if k is above the number of labels; recall and ndcg can.
    No-label rows: They have nothing to find and are left out of all three; `counts` holds how many there were.
    Unknown cells: Not ranked; the next known label takes the rank.

    Args:
        ks: The numbers of labels to look at.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3, 0.5], [0.5, 0.2, 0.1]])
        >>> result = mh.metrics.RankingAtK(ks=(1, 2)).update(scores, torch.tensor([[1, 1, 0], [0, 0, 0]])).compute()
        >>> {name: round(value, 3) for name, value in result.values.items()}
        {'precision@1': 1.0, 'precision@2': 0.5, 'recall@1': 0.5, 'recall@2': 0.5, 'ndcg@1': 1.0, 'ndcg@2': 0.613}
        >>> result.counts
        {'rows': 1, 'rows without positives': 1}
    """

    def __init__(self, ks: Sequence[int] = (1, 3, 5)) -> None:
        if not isinstance(ks, Sequence) or not ks:
            hint = "Pass for example (1, 3, 5)."
            raise InputError("ks", "RankingAtK", "be one or more whole numbers", describe_type(ks), hint)
        self.ks = tuple(check_int("ks", "RankingAtK", k, low=1) for k in ks)
        self.names = [f"{name}@{k}" for name in ("precision", "recall", "ndcg") for k in self.ks]
        super().__init__()

    def measure_rows(self, values: Tensor, targets: Tensor) -> Tensor:
        """The numbers "precision@k", "recall@k" and "ndcg@k" of each row for every k; NaN for a row without labels."""
        present = (targets > 0).sum(1, keepdim=True)
        hits = first_labels(values, targets, max(self.ks)) > 0
        discounts = 1 / torch.arange(2, max(self.ks) + 2, dtype=torch.float64, device=values.device).log2()
        at = torch.tensor(self.ks, device=values.device) - 1
        num_hits, gained = hits.cumsum(1)[:, at].double(), (hits * discounts).cumsum(1)[:, at]
        best = discounts.cumsum(0)[torch.minimum(present.clamp(min=1) - 1, at)]
        numbers = torch.cat([num_hits / (at + 1), num_hits / present, gained / best], dim=1)
        return numbers.masked_fill(present == 0, math.nan)
