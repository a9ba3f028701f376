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
from manyhot.errors import InputError, owned
from manyhot.evaluation import Evaluation
from manyhot.evaluation.pipeline import (
    TargetCounts,
    before_calibration,
    count_targets,
    evaluate_both,
    has_probs,
    interval_replicates,
    split_to_evaluate,
)
from manyhot.image_paths import find_image_roots
from manyhot.predictions.parquet import open_predictions
from manyhot.predictions.predictions import Predictions, PredictionTable, concatenate, sample_batches
from manyhot.training.run import CONFIG, PREDICTIONS, Run

# Larger tables are sampled: more rows would not change the page, and memory is limited.
MOST_CELLS = 1 << 25
HALF = 0.5
THRESHOLD_TOLERANCE = 1e-6
# So that one saturated cell does not dominate the loss of a row.
MIN_PROB = 1e-7
# Rules that compare every label of every row with the same number.
ONE_THRESHOLD = (Threshold, AverageK, ConformalRiskControl, UniformThreshold)


@dataclass(frozen=True, eq=False)
class ModelResults:
    """The evaluated rows of one run or table.

    Attributes:
        name: Its name on the page.
        table: The rows, in memory, with targets.
        split: The split of the rows, None for all rows of a table.
        rows: How many rows the split has; `table` holds fewer if there are too many.
        roots: The folders that may hold the images.
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
        """(N, K), the final probabilities; None if there are only scores."""
        return self.table.probabilities().cpu() if has_probs(self.table) else None

    @cached_property
    def values(self) -> Tensor:
        """(N, K), what cells are ranked by: scores if there are any, else probabilities."""
        values = self.table.probs if self.table.scores is None else self.table.scores
        assert values is not None
        return values.cpu()

    @cached_property
    def before(self) -> Tensor | None:
        """(N, K), the probabilities of the link before calibration; None without a calibrator."""
        before = before_calibration(self.table)
        return None if before is None or before.probs is None else before.probs.cpu()

    @cached_property
    def readings(self) -> dict[str, Tensor]:
        """The probabilities by origin, the final ones last."""
        result = {} if self.before is None else {"own link": self.before}
        if self.probs is None:
            return result
        table = self.table
        linked = table.scores is not None and table.link is not None and table.link.gives_probs
        last = "calibrated" if table.calibrator is not None else "own link" if linked else "as given"
        return result | {last: self.probs}

    @property
    def evaluations_by_reading(self) -> dict[str, Evaluation]:
        """The evaluations of `readings`."""
        both = [] if self.evaluation_before is None else [self.evaluation_before]
        return dict(zip(self.readings, [*both, self.evaluation], strict=True))

    @cached_property
    def decision(self) -> Decision | None:
        """The decisions of the table, or else labels of at least 50 %; None without probabilities."""
        if self.table.decisions is not None:
            abstain = self.table.abstain
            none = torch.zeros(len(self.table), dtype=torch.bool)
            return Decision(self.table.decisions.cpu(), none if abstain is None else abstain.cpu())
        return None if self.probs is None else Threshold(HALF)(self.probs)

    @cached_property
    def answered(self) -> Tensor:
        """(N,), rows whose sets are evaluated: they have known cells, and the rule did not abstain."""
        known = (self.targets >= 0).any(1)
        return known if self.decision is None else known & ~self.decision.abstain

    @property
    def rule(self) -> str:
        """The rule, as text."""
        if self.table.decisions is None:
            return "at least 50 %"
        return "as given" if self.table.rule is None else repr(self.table.rule)

    @property
    def ranked(self) -> Tensor:
        """(N, K), what thresholds apply to: probabilities, or scores if there are none."""
        return self.values if self.probs is None else self.probs

    @cached_property
    def threshold(self) -> float | None:
        """The single threshold on `ranked` that explains the decisions; None if there is none.

        A rule may have been applied to scores, or to probabilities before calibration: then its threshold differs.
        """
        if self.table.decisions is None:
            return HALF
        rule = self.table.rule
        result = float(rule.threshold) if isinstance(rule, ONE_THRESHOLD) else math.nan
        if not math.isfinite(result) or self.decision is None:
            return None
        same = (self.ranked >= result) == self.decision.labels
        # A cell on the threshold may have been rounded in a file.
        same |= (self.ranked.double() - result).abs() <= THRESHOLD_TOLERANCE
        return result if bool(same[~self.decision.abstain].all()) else None

    @cached_property
    def log_losses(self) -> tuple[Tensor, Tensor]:
        """(N,), the log loss of each row over its known cells, and its expectation under its own probabilities."""
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
        return "row" if self.table.paths is None else "image"

    @cached_property
    def evaluations(self) -> tuple[Evaluation, Evaluation | None]:
        """The evaluation, and that before calibration: those that the run has saved, if they are of these rows.

        Earlier versions saved them without intervals.
        """
        run, all_rows = self.run, len(self.table) == self.rows
        if run is not None and all_rows and run.evaluation_is_current:
            saved = run.evaluation
            complete = saved is not None and (saved.level is not None or interval_replicates(self.table) is None)
            if saved is not None and complete and saved.split == self.split:
                return saved, run.evaluation_before
        return evaluate_both(self.table, self.split)

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation, with intervals if they are fast to compute."""
        return self.evaluations[0]

    @property
    def evaluation_before(self) -> Evaluation | None:
        """The same for the probabilities before calibration, without intervals."""
        return self.evaluations[1]


@owned("Report")
def load_results(name: str, source: Any, *, split: str | None, root: Sequence[Path] | None) -> ModelResults:
    """Reads the rows of a run, a table or the path of one of them.

    Args:
        name: Its name on the page.
        source: `Run`, a table of predictions, or the path of one of them.
        split: The split to evaluate, or "all"; by default "test", or another one.
        root: The folders of the images; by default those of the source.
    """
    run, table, roots = open_source(source)
    if "targets" not in table.kinds:
        hint = "Add the true labels with `replace(targets=...)`, or `--targets` on the command line."
        raise InputError("runs", rule="hold targets", got=", ".join(table.kinds), hint=hint)
    split = split_to_evaluate(table, split)
    evaluated = table if split is None else table.of_split(split)
    if not len(evaluated) or not len(table.labels):
        got = f"{len(evaluated):,} rows of {len(table.labels):,} labels"
        raise InputError("runs", rule="have rows to evaluate", got=got, hint="Pass a table or a split with rows.")
    rows = read_sample(evaluated)
    model = ModelResults(name, rows, split, len(evaluated), tuple(roots if root is None else root), run)
    if not model.facts.known_cells:
        rule, hint = "have the target of at least one cell", "Pass the true labels of some cells."
        raise InputError("runs", rule=rule, got="unknown cells only", hint=hint)
    return model


def open_source(source: Any) -> tuple[Run | None, PredictionTable, list[Path]]:
    """The run if it is one, the table, and the folders that may hold its images."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not (path / CONFIG).is_file():
            return None, open_predictions(path), find_image_roots(str(path))
        source = Run(path)
    if isinstance(source, Run):
        if not source.finished:
            hint = f"Let it finish: manyhot train --resume {source.folder}."
            raise InputError("runs", rule="be finished", got=repr(str(source.folder)), hint=hint)
        return source, source.predictions(), find_image_roots(str(source.folder / PREDICTIONS))
    if isinstance(source, PredictionTable):
        return None, source, [Path()]
    hint = "Pass a `Run`, a table of predictions, or the path of one of them."
    raise InputError("runs", rule="be runs or tables of predictions", got=describe_type(source), hint=hint)


def read_sample(table: PredictionTable) -> Predictions:
    """All rows of a table in memory, or a random sample with a fixed seed if they are too many."""
    most = max(1, MOST_CELLS // len(table.labels))
    return table.read() if len(table) <= most else concatenate(list(sample_batches(table, most)))
