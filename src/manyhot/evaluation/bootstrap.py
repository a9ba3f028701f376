"""Bootstrap replicates of every value of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import torch
from torch import Tensor

from manyhot.evaluation.passes import (
    CALIBRATION_ERRORS,
    CELLS_AT_ONCE,
    EvaluationOptions,
    MetricInputs,
    MetricSpec,
    count_targets,
    has_probs,
    ranks_by_scores,
    select_metrics,
    shot_values,
)
from manyhot.evaluation.result import Evaluation
from manyhot.metrics import CalibrationError
from manyhot.metrics.bootstrapping import draw_rows, draw_values, interval_of
from manyhot.metrics.metric import mean_of_defined
from manyhot.predictions.predictions import Predictions
from manyhot.sorting import count_below


def with_intervals(
    evaluation: Evaluation,
    table: Predictions,
    options: EvaluationOptions,
    *,
    level: float,
    replicates: int,
    seed: int = 0,
) -> Evaluation:
    """The evaluation of a table with the interval of each value; `options` are those of the evaluation."""
    train_counts = evaluation.label_table.columns.get("train_count")
    drawn = bootstrap_values(table, options, train_counts, replicates, seed)
    groups = {}
    for name, group in evaluation.groups.items():
        values = {
            key: replace(value, interval=interval_of(value.value, drawn[key], level))
            for key, value in group.values.items()
        }
        groups[name] = replace(group, values=values)
    return replace(evaluation, groups=groups, level=level)


def bootstrap_values(
    table: Predictions, options: EvaluationOptions, train_counts: Tensor | None, replicates: int, seed: int
) -> dict[str, list[float]]:
    """Every value of an evaluation for each draw of rows, by name."""
    inputs = MetricInputs(table, by_scores=ranks_by_scores(table))
    groups = select_metrics(table, count_targets(table), options)
    measures = [measure for measures, _ in groups.values() for measure in measures]
    if has_probs(table):
        names = {error: f"mass_{error}" for error in CALIBRATION_ERRORS}
        measures.append(MetricSpec(lambda: CalibrationError(options.bins, mass="equal"), "probs", names))
    result: dict[str, list[float]] = {}
    for measure in measures:
        metric = (measure.again or measure.make)()
        drawn = list(draw_values(metric, getattr(inputs, measure.of), inputs.targets, replicates=replicates, seed=seed))
        result |= {name: [one[key] for one in drawn] for key, name in measure.names.items()}
    ap, auroc = rank_draws(label_orders(inputs), len(table), replicates, seed)
    result |= {"map": [mean_of_defined(one) for one in ap], "auroc": [mean_of_defined(one) for one in auroc]}
    if train_counts is not None:
        shots = [shot_values(one, train_counts) for one in ap]
        result |= {name: [one[name].value for one in shots] for name in shots[0]}
    ap, auroc = rank_draws([cell_order(inputs)], len(table), replicates, seed)
    return result | {"map_cell": ap[:, 0].tolist(), "auroc_cell": auroc[:, 0].tolist()}


class OrderedCells:
    """Known cells in the order of their values: where each stands does not change when rows count several times.

    Args:
        values: (n,), the values of the cells.
        targets: (n,), their targets.
        rows: (n,), the rows that they belong to.
    """

    def __init__(self, values: Tensor, targets: Tensor, rows: Tensor) -> None:
        known = (targets >= 0).nonzero().flatten()
        order = known[values[known].argsort()]
        ordered = values[order]
        self.rows = rows[order]
        self.present = (targets[order] > 0).nonzero().flatten()
        result = ordered[self.present]
        # How many known and how many present cells lie below each present one, and how many at or below it.
        self.known_below, self.known_upto = (count_below(ordered, result, or_equal=ties) for ties in (False, True))
        self.hits_below, self.hits_upto = (count_below(result, result, or_equal=ties) for ties in (False, True))

    def draw(self, times: Tensor) -> tuple[Tensor, Tensor]:
        """Average precision and AUROC, (draws,), when each row counts so many times, (draws, N)."""
        cells = times[:, self.rows]
        hits = cells[:, self.present]
        known, present = _running(cells), _running(hits)
        at_or_above = (present[:, -1:] - present[:, self.hits_below]).double()
        precision = at_or_above / (known[:, -1:] - known[:, self.known_below]).clamp(min=1)
        below = known[:, self.known_below] - present[:, self.hits_below]
        upto = known[:, self.known_upto] - present[:, self.hits_upto]
        total, absent = present[:, -1].double(), (known[:, -1] - present[:, -1]).double()
        return (hits * precision).sum(1) / total, (hits * (below + upto)).sum(1) / (2 * total * absent)


def _running(counts: Tensor) -> Tensor:
    """(draws, n + 1), the sums of the first 0, 1, ..., n counts."""
    return torch.nn.functional.pad(counts.cumsum(1), (1, 0))


def label_orders(inputs: MetricInputs) -> list[OrderedCells]:
    """The cells of each label in order."""
    rows = torch.arange(len(inputs.targets), device=inputs.targets.device)
    columns = zip(inputs.ranked.unbind(1), inputs.targets.unbind(1), strict=True)
    return [OrderedCells(values, targets, rows) for values, targets in columns]


def cell_order(inputs: MetricInputs) -> OrderedCells:
    """All cells in order."""
    rows = torch.arange(len(inputs.targets), device=inputs.targets.device).unsqueeze(1).expand_as(inputs.targets)
    return OrderedCells(inputs.ranked.flatten(), inputs.targets.flatten(), rows.flatten())


def rank_draws(orders: Sequence[OrderedCells], rows: int, replicates: int, seed: int) -> tuple[Tensor, Tensor]:
    """Average precision and AUROC of each list of cells for each draw of rows, both (draws, lists)."""
    if not orders:
        nothing = torch.empty(replicates, 0, dtype=torch.float64)
        return nothing, nothing
    draws = draw_rows(rows, replicates, seed)
    longest = max(len(ordered.rows) for ordered in orders)
    result = []
    while some := list(islice(draws, max(1, CELLS_AT_ONCE // max(1, rows, longest)))):
        times = torch.stack([torch.bincount(one, minlength=rows) for one in some])
        pairs = [torch.stack(ordered.draw(times.to(ordered.rows.device)), dim=1).cpu() for ordered in orders]
        result.append(torch.stack(pairs, dim=1))
    ap, auroc = torch.cat(result).unbind(2)
    return ap, auroc
