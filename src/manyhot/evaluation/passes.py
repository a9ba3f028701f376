"""Going through a table in pieces: rows for what adds up, columns for labels, and cells where all are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from manyhot.decide import AverageK
from manyhot.decide.rule import Decision
from manyhot.decide.selecting import order_statistics
from manyhot.evaluation.survey import CELLS_AT_ONCE, Survey, rows_at_once
from manyhot.labels import Labels
from manyhot.links import NoLink
from manyhot.metrics.binning import BinSums, sum_bins
from manyhot.metrics.calibration import outcome_of_bins, with_zero
from manyhot.metrics.metric import Metric, Outcome
from manyhot.metrics.precision import precision_of_column
from manyhot.metrics.ranking import auroc_of_column
from manyhot.metrics.sorting import Column, sort_in_place, sorted_columns
from manyhot.numerics import untied
from manyhot.predictions.memory import Predictions
from manyhot.predictions.narrowing import needs_all_labels
from manyhot.predictions.table import Table

HALF = 0.5


@dataclass(frozen=True, eq=False)
class Measure:
    """A metric as a part of an evaluation.

    Attributes:
        make: Makes the metric.
        of: What it is computed from: "ranked" (see `ranks_by_scores`), "scores", "log_softmax", "probs" or "decisions".
        names: From the names of its values to those in the evaluation; the others are left out.
        again: Makes the metric for rows that are drawn again, if that is another one.
    """

    make: Callable[[], Metric]
    of: str
    names: dict[str, str]
    again: Callable[[], Metric] | None = None


class Inputs:
    """What measures are computed from, of one batch; probabilities are computed once, and only if asked for.

    Args:
        batch: Some rows of a table, or some columns.
        by_scores: Whether cells are ranked by scores; by probabilities otherwise.
    """

    def __init__(self, batch: Predictions, *, by_scores: bool) -> None:
        self.batch, self.by_scores = batch, by_scores

    @property
    def targets(self) -> Tensor:
        """(N, K)."""
        assert self.batch.targets is not None
        return self.batch.targets

    @property
    def scores(self) -> Tensor:
        """(N, K)."""
        assert self.batch.scores is not None
        return self.batch.scores

    @property
    def log_softmax(self) -> Tensor:
        """(N, K), the scores of each row less the logarithm of the sum of their exponentials."""
        return torch.log_softmax(self.scores.double(), 1)

    @cached_property
    def ranked(self) -> Tensor:
        """(N, K), what cells are ranked by."""
        if self.by_scores:
            return self.scores
        return self.probs if self.batch.scores is None else untied(self.probs, self.batch.scores)

    @cached_property
    def probs(self) -> Tensor:
        """Probabilities of the table, of its calibrator or of its link."""
        return self.batch.probabilities()

    @property
    def decisions(self) -> Decision:
        """Decisions of the table, or else the labels with a probability of at least one half."""
        labels = self.probs >= HALF if self.batch.decisions is None else self.batch.decisions
        abstain = None if self.batch.decisions is None else self.batch.abstain
        nobody = torch.zeros(len(labels), dtype=torch.bool, device=labels.device)
        return Decision(labels, nobody if abstain is None else abstain)

    def of(self, name: str) -> Tensor | Decision:
        """The one of this name."""
        found: Tensor | Decision = getattr(self, name)
        return found


def has_probs(table: Table) -> bool:
    """Whether there are probabilities, or something that turns the scores into some."""
    if "probs" in table.kinds or table.calibrator is not None:
        return True
    return table.link is not None and not isinstance(table.link, NoLink)


def ranks_by_scores(table: Table) -> bool:
    """Whether cells are ranked by scores: where these mean no probabilities, or have the order of the probabilities."""
    if not has_probs(table):
        return True
    linked = "probs" not in table.kinds and table.calibrator is None and table.link is not None
    return linked and table.link is not None and table.link.keeps_order


def kinds_of(table: Table, of: str | None) -> tuple[str, ...]:
    """What must be read of a table: all that it holds, or what "ranked", "scores" or "probs" need."""
    if of is None:
        return table.kinds
    wanted = {"probs" if "probs" in table.kinds else "scores"} if of != "scores" else {"scores"}
    if of == "ranked":
        wanted = {"scores"} if ranks_by_scores(table) else wanted | {"scores"}
    return tuple(kind for kind in table.kinds if kind in wanted | {"targets"})


def pieces(table: Table, of: str | None = None) -> Iterator[Inputs]:
    """The rows of a table, some at a time; see `kinds_of`."""
    by_scores = ranks_by_scores(table)
    batches = table.batches(rows_at_once(table), kinds=kinds_of(table, of))
    return (Inputs(batch, by_scores=by_scores) for batch in batches)


def add_up(table: Table, measures: Sequence[Measure]) -> list[Outcome]:
    """The outcomes of metrics that collect sums, or little of each row, in one pass."""
    metrics = [measure.make() for measure in measures]
    for piece in pieces(table):
        for measure, metric in zip(measures, metrics, strict=True):
            metric.update(piece.of(measure.of), piece.targets)
    return [metric.compute() for metric in metrics]


def rank_labels(table: Table) -> tuple[Tensor, Tensor]:
    """Average precision and AUROC of each label, (K,) in float64, reading a few columns at a time."""
    # Not one column at a time even of a long table: each reading has its price.
    step = max(1, 4 * CELLS_AT_ONCE // max(1, len(table)))
    by_scores, found = ranks_by_scores(table), []
    for start in range(0, len(table.labels), step):
        names = table.labels.names[start : start + step]
        # Probabilities that need the other labels as well are computed before these go, if all kinds are asked for.
        whole = not by_scores and needs_all_labels(table, Labels(names))
        part = Inputs(table.read(labels=names, kinds=None if whole else kinds_of(table, "ranked")), by_scores=by_scores)
        columns = sorted_columns([part.ranked], [part.targets])
        found += [(precision_of_column(column), auroc_of_column(column)) for column in columns]
    precisions, areas = torch.tensor(found, dtype=torch.float64).reshape(-1, 2).unbind(1)
    return precisions, areas


def rank_cells(table: Table, facts: Survey) -> Outcome:
    """Average precision and AUROC of all cells in one ranking; the values of all known cells are held."""
    sizes = {"present": int(facts.present.sum()), "known": facts.known_cells}
    cells: dict[str, Tensor] = {}
    filled = dict.fromkeys(sizes, 0)
    for piece in pieces(table, "ranked"):
        chosen = {"present": piece.targets > 0, "known": piece.targets >= 0}
        for name, size in sizes.items():
            if name not in cells:
                # All of it at once: putting parts together at the end would take the memory twice.
                cells[name] = piece.ranked.new_empty(size)
            some = piece.ranked[chosen[name]]
            cells[name][filled[name] : filled[name] + len(some)] = some
            filled[name] += len(some)
    column = Column(sort_in_place(cells["present"]), sort_in_place(cells["known"]))
    values = {"map_cell": precision_of_column(column), "auroc_cell": auroc_of_column(column)}
    return Outcome(values, {"cells": sizes["known"], "present cells": sizes["present"]})


class KnownCells:
    """The known cells of a table as (n, 1), in pieces; they can be gone through again and again."""

    def __init__(self, table: Table, of: str, dtype: torch.dtype | None = None) -> None:
        self.table, self.name, self.dtype = table, of, dtype

    def __iter__(self) -> Iterator[Tensor]:
        for piece in pieces(self.table, self.name):
            values = piece.of(self.name)
            assert isinstance(values, Tensor)
            yield values[piece.targets >= 0].to(self.dtype or values.dtype).unsqueeze(1)


def equal_mass(table: Table, facts: Survey, bins: int) -> Outcome:
    """Calibration errors in bins of the same number of cells: those of `CalibrationError`, but no cell is held."""
    cells = facts.known_cells
    ends = [(b * cells + bins - 1) // bins - 1 for b in range(1, bins + 1)] if cells else []
    found = order_statistics(KnownCells(table, "probs", torch.float32), lambda _: ends)
    edges = torch.stack(found) if found else torch.ones(bins)
    sums = BinSums(*torch.zeros(4, 1, bins, dtype=torch.int64))
    owner = torch.zeros((), dtype=torch.int64)
    for piece in pieces(table, "probs"):
        probs = piece.probs.float()
        part = sum_bins(probs, piece.targets, edges.to(probs.device), owner=owner.to(probs.device), owners=1)
        sums = BinSums(*(total + more.cpu() for total, more in zip(sums, part, strict=True)))
    return outcome_of_bins(sums, with_zero(edges).unsqueeze(0), by_label=False)


def average_threshold(table: Table, facts: Survey, of: str, k: float) -> float:
    """The threshold that k known cells a row reach on average."""
    rows = facts.rows - facts.unknown_rows
    # Rows may differ in their number of known cells, so that each cell stands as a row of its own for the rule.
    return float(AverageK(k * rows / max(1, facts.known_cells)).fit_batches(KnownCells(table, of)).threshold)
