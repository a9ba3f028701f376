"""`ModelResults`: the evaluated rows of one run or table, in memory."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyhot.checks import describe_type
from manyhot.decide import AverageK, ConformalRiskControl, Threshold, UniformThreshold
from manyhot.decide.rule import Decision
from manyhot.errors import InputError
from manyhot.evaluation import Evaluation, evaluate
from manyhot.evaluation.passes import TargetCounts, count_targets, has_probs
from manyhot.evaluation.pipeline import ALL_ROWS, split_to_evaluate
from manyhot.image_paths import find_image_roots
from manyhot.links import NoLink
from manyhot.predictions.parquet import open_predictions
from manyhot.predictions.predictions import Predictions, PredictionTable, concatenate
from manyhot.training.run import CONFIG, PREDICTIONS, Run

OWNER = "Report"
# Of larger tables, rows are drawn: what a page shows does not change with more of them, and memory has an end.
MOST_CELLS = 1 << 25
# Rows are drawn again so many times for intervals, up to so many cells: a second or two, and five at the most.
REPLICATES = {1 << 18: 200, 1 << 19: 100}
LEVEL = 0.95
HALF = 0.5
THRESHOLD_TOLERANCE = 1e-6
# So that one saturated cell is not all that counts in the loss of a row.
MIN_PROB = 1e-7
# Rules that hold every label of every row against the same number.
ONE_THRESHOLD = (Threshold, AverageK, ConformalRiskControl, UniformThreshold)


@dataclass(frozen=True, eq=False)
class ModelResults:
    """The judged rows of one run or table.

    Attributes:
        name: What it is called on the page.
        table: The rows, in memory, with targets.
        split: The split that they are, None for all rows of a table.
        rows: How many rows the split has; `table` holds fewer if there are too many.
        roots: Where the pictures may lie.
        run: The run, None for a table.
    """

    name: str
    table: Predictions
    split: str | None
    rows: int
    roots: tuple[Path, ...] = ()
    run: Run | None = None

    @property
    def labels(self) -> list[str]:
        """The names of the labels."""
        return self.table.labels.names

    @cached_property
    def targets(self) -> Tensor:
        """(N, K): 1 present, 0 absent, -1 unknown."""
        assert self.table.targets is not None
        return self.table.targets.cpu()

    @cached_property
    def probs(self) -> Tensor | None:
        """(N, K), the probabilities that people get; None for scores that mean none."""
        return self.table.probabilities().cpu() if has_probs(self.table) else None

    @cached_property
    def values(self) -> Tensor:
        """(N, K), what cells are ranked by: scores where there are any."""
        values = self.table.probs if self.table.scores is None else self.table.scores
        assert values is not None
        return values.cpu()

    @cached_property
    def before(self) -> Tensor | None:
        """(N, K), what the loss's own link makes of the scores; None where no calibrator came after it."""
        table = self.table
        if table.calibrator is None or table.scores is None or table.link is None or isinstance(table.link, NoLink):
            return None
        with torch.no_grad():
            return table.link.probs(table.scores).cpu()

    @cached_property
    def readings(self) -> dict[str, Tensor]:
        """The probabilities by how they were had, the ones that people get last."""
        result = {} if self.before is None else {"own link": self.before}
        if self.probs is None:
            return result
        table = self.table
        linked = table.scores is not None and table.link is not None and not isinstance(table.link, NoLink)
        last = "calibrated" if table.calibrator is not None else "own link" if linked else "as given"
        return result | {last: self.probs}

    @cached_property
    def decision(self) -> Decision | None:
        """What was decided, or else the labels of at least one half; None without probabilities."""
        if self.table.decisions is not None:
            abstain = self.table.abstain
            nobody = torch.zeros(len(self.table), dtype=torch.bool)
            return Decision(self.table.decisions.cpu(), nobody if abstain is None else abstain.cpu())
        return None if self.probs is None else Threshold(HALF)(self.probs)

    @cached_property
    def answered(self) -> Tensor:
        """(N,), rows whose sets are judged: something is known about them, and they are not left to a person."""
        known = (self.targets >= 0).any(1)
        return known if self.decision is None else known & ~self.decision.abstain

    @property
    def rule(self) -> str:
        """What decided, in words."""
        if self.table.decisions is None:
            return "at least 50 %"
        return "as given" if self.table.rule is None else repr(self.table.rule)

    @property
    def ranked(self) -> Tensor:
        """(N, K), what thresholds are held against: probabilities, or scores where there are none."""
        return self.values if self.probs is None else self.probs

    @cached_property
    def threshold(self) -> float | None:
        """The one threshold on `ranked` that decided; None where there is no single one, or it speaks of other values.

        A rule may have read scores, or probabilities before calibration: then its number says nothing here.
        """
        if self.table.decisions is None:
            return HALF
        rule = self.table.rule
        result = float(rule.threshold) if isinstance(rule, ONE_THRESHOLD) else math.nan
        if not math.isfinite(result) or self.decision is None:
            return None
        same = (self.ranked >= result) == self.decision.labels
        # A cell that lies on the threshold may have lost its last digit in a file.
        same |= (self.ranked.double() - result).abs() <= THRESHOLD_TOLERANCE
        return result if bool(same[~self.decision.abstain].all()) else None

    @cached_property
    def log_losses(self) -> tuple[Tensor, Tensor]:
        """(N,), the log loss of each row over its known cells, and the one that its own probabilities expect."""
        assert self.probs is not None
        known = self.targets >= 0
        probs = self.probs.double().clamp(MIN_PROB, 1 - MIN_PROB)
        loss_if_present, loss_if_absent = -probs.log(), -torch.log1p(-probs)
        loss = torch.where(self.targets > 0, loss_if_present, loss_if_absent)
        expected = probs * loss_if_present + (1 - probs) * loss_if_absent
        return (loss * known).sum(1), (expected * known).sum(1)

    @cached_property
    def facts(self) -> TargetCounts:
        """How many rows, labels and cells there are."""
        return count_targets(self.table)

    @property
    def noun(self) -> str:
        """What a row is."""
        return "row" if self.table.paths is None else "picture"

    @cached_property
    def evaluation(self) -> Evaluation:
        """Everything that is worth knowing, with intervals where they are quick."""
        cells = len(self.table) * len(self.labels)
        replicates = next((times for most, times in REPLICATES.items() if cells <= most), None)
        if replicates is None:
            return evaluate(self.table, split=ALL_ROWS)
        return evaluate(self.table, split=ALL_ROWS, intervals=LEVEL, replicates=replicates)

    @cached_property
    def evaluation_before(self) -> Evaluation | None:
        """The same for the probabilities before calibration, without intervals."""
        return (
            None
            if self.before is None
            else evaluate(self.table.replace(probs=self.before, decisions=None), split=ALL_ROWS)
        )


def load_results(name: str, source: Any, *, split: str | None, root: Sequence[Path] | None) -> ModelResults:
    """Reads what a report needs of a run, a table or the path of one of them.

    Args:
        name: What it is called.
        source: `Run`, a table of predictions, or the path of one of them.
        split: The split to judge, or "all"; by default "test", or what else there is.
        root: Where pictures lie; by default where the source says.
    """
    run, table, roots = open_source(source)
    if "targets" not in table.kinds:
        hint = "Add the true labels with `replace(targets=...)`, or `--targets` on the command line."
        raise InputError("runs", OWNER, "hold targets", ", ".join(table.kinds), hint)
    split = split_to_evaluate(table, split)
    evaluated = table if split is None else table.of_split(split)
    if not len(evaluated) or not len(table.labels):
        got = f"{len(evaluated):,} rows of {len(table.labels):,} labels"
        raise InputError("runs", OWNER, "have rows to judge", got, "Pass a table or a split with rows.")
    rows = read_sample(evaluated)
    model = ModelResults(name, rows, split, len(evaluated), tuple(roots if root is None else root), run)
    if not model.facts.known_cells:
        hint = "Pass the true labels of some cells."
        raise InputError("runs", OWNER, "know the truth about at least one cell", "unknown cells only", hint)
    return model


def open_source(source: Any) -> tuple[Run | None, PredictionTable, list[Path]]:
    """The run if it is one, the table, and the folders that its pictures may lie in."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not (path / CONFIG).is_file():
            return None, open_predictions(path), find_image_roots(str(path))
        source = Run(path)
    if isinstance(source, Run):
        if not source.finished:
            hint = f"Let it finish: manyhot train --resume {source.folder}."
            raise InputError("runs", OWNER, "be finished", repr(str(source.folder)), hint)
        return source, source.predictions(), find_image_roots(str(source.folder / PREDICTIONS))
    if isinstance(source, PredictionTable):
        return None, source, [Path()]
    hint = "Pass a `Run`, a table of predictions, or the path of one of them."
    raise InputError("runs", OWNER, "be runs or tables of predictions", describe_type(source), hint)


def read_sample(table: PredictionTable) -> Predictions:
    """All rows of a table in memory, or as many as fit there, drawn at random but always the same."""
    most = max(1, MOST_CELLS // len(table.labels))
    if len(table) <= most:
        return table.read()
    chosen = sample_rows(len(table), most)
    parts, start = [], 0
    for part in table.batches():
        inside = chosen[(chosen >= start) & (chosen < start + len(part))] - start
        start += len(part)
        parts.append(part.take(inside.numpy()))
    return concatenate(parts)


def sample_rows(rows: int, most: int) -> Tensor:
    """The numbers of up to so many rows in their order, drawn at random but always the same.

    Example:
        >>> sample_rows(2, 3)
        tensor([0, 1])
    """
    return torch.randperm(rows, generator=torch.Generator().manual_seed(0))[:most].sort().values
