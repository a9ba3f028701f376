"""`evaluate`: all metrics of a table of predictions, in passes over its rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyhot.checks import check_int, check_number, describe_type
from manyhot.decide import AverageK, Threshold
from manyhot.decide.rule import Decision
from manyhot.decide.sets import order_statistics
from manyhot.errors import InputError, owned
from manyhot.evaluation.bootstrap import CELLS_AT_ONCE, draw_rankings
from manyhot.evaluation.catalog import METRICS_BY_GROUP
from manyhot.evaluation.result import Evaluation, Group, LabelTable, Value, too_small
from manyhot.labels import Labels
from manyhot.metrics import (
    AverageKAccuracy,
    BrierScore,
    CalibrationError,
    CoverageError,
    FScores,
    LogLoss,
    MeanAveragePrecision,
    OpenSetScores,
    RankingAtK,
    RankingLoss,
    SetAccuracy,
    UniformAccuracy,
    by_shots,
)
from manyhot.metrics.bootstrapping import check_label_values, draw_values, interval_of
from manyhot.metrics.calibration import result_of_bins, sum_bins, with_zero
from manyhot.metrics.metric import Metric, MetricResult, mean_of_defined
from manyhot.metrics.ranking import auroc_of_column, precision_of_column
from manyhot.metrics.sets import PredictedSetSize
from manyhot.numerics import break_ties
from manyhot.predictions.predictions import Predictions, PredictionTable, needs_all_labels
from manyhot.sorting import Column, sort_in_place, sorted_columns
from manyhot.tables.columns import canonical_split

# What to pass as `split` for all rows.
ALL_ROWS = "all"
# Rows are drawn again from tables of moderate size only.
MOST_DRAWN_CELLS = 1 << 24
NO_INTERVALS = f"Intervals are left out: rows are drawn again only from tables of up to {MOST_DRAWN_CELLS:,} cells."


@owned("evaluate")
def evaluate(
    predictions: PredictionTable,
    *,
    split: str | None = None,
    bins: int = 15,
    ks: Sequence[int] = (1, 3, 5),
    top_k: int = 4,
    train_counts: Any = None,
    intervals: float | None = None,
    replicates: int = 200,
    seed: int = 0,
) -> Evaluation:
    """Computes all metrics of the predictions of any model.

    Probabilities are those of the table, of its calibrator or of its link; without any of these, scores are not
    evaluated as probabilities. Cells are ranked by probabilities, or by scores without probabilities or where the order
    is the same.
    Sets are the decisions of the table, or else the labels with a probability of at least one half, as a note of the
    result says. Rows without labels, rows with at most one label, and labels by their number of training images are
    evaluated where there are any. Unknown cells are always left out.

    A table on disk is read in pieces: memory stays at a few pieces, but for one number a row, and 4 bytes a cell for
    the two values that rank all cells together.

    Args:
        predictions: A table with targets, in memory or on disk.
        split: The split to evaluate, or "all" for all rows. By default "test" where the table has it among others,
            on which calibrators and rules are fitted; all rows otherwise.
        bins: The number of bins of calibration errors.
        ks: Cutoffs k of the metrics of the first k labels of a row, at most the number of labels; also the sizes of
            average-K sets.
        top_k: How many of the most confident cells of a row a calibration error of its own is computed for.
        train_counts: (K,), how many training images carry each label, for values of labels with few, some and many.
        intervals: The level of bootstrap intervals, such as 0.95; for tables that fit in memory.
        replicates: How many times rows are drawn for the intervals.
        seed: The same seed draws the same rows.

    Example:
        >>> scores = torch.tensor([[2.0, -1.0], [0.5, 1.0], [-2.0, -1.0]])
        >>> table = mh.Predictions(scores=scores, targets=[["cat"], ["dog"], []], labels=["cat", "dog"])
        >>> evaluation = mh.evaluate(table)
        >>> evaluation["map"]
        1.0
        >>> evaluation.groups["probabilities"].notes
        ['Left out: these scores mean no probability until calibrated. Run calibrate.']
    """
    check_table(predictions)
    evaluated = split_to_evaluate(predictions, split)
    notes = notes_on_split(predictions, evaluated)
    table = predictions if evaluated is None else predictions.of_split(evaluated)
    options = check_options(len(table.labels), bins, ks, top_k)
    counts = None if train_counts is None else check_train_counts(train_counts, table.labels)
    replicates = check_int("replicates", "", replicates, low=1)
    bootstrap = None
    if intervals is not None:
        bootstrap = BootstrapOptions(check_number("intervals", "", intervals, "(0, 1)"), replicates, seed)
        if len(table) * len(table.labels) > MOST_DRAWN_CELLS:
            notes.append(NO_INTERVALS)
            bootstrap = None
    return replace(run_passes(table, options, counts, bootstrap), notes=notes, split=evaluated)


# Draws of the intervals that runs and reports have, by the largest number of cells: they take a second or two, and at
# most five.
REPLICATES = {1 << 18: 200, 1 << 19: 100}
LEVEL = 0.95


def evaluate_both(table: Predictions, split: str | None) -> tuple[Evaluation, Evaluation | None]:
    """The evaluation of all rows of a split or of a table, with intervals if these are fast to compute.

    And that of the probabilities before calibration, where there are any. This is what a run keeps, and what the report
    shows of a table without a run.
    """
    replicates, before = interval_replicates(table), before_calibration(table)
    split = ALL_ROWS if split is None else split
    level = None if replicates is None else LEVEL
    after = evaluate(table, split=split, intervals=level, replicates=replicates or 1)
    return after, None if before is None else evaluate(before, split=split)


def interval_replicates(table: PredictionTable) -> int | None:
    """How many draws the intervals of a run or a report have; None for a table that is too large for any."""
    cells = len(table) * len(table.labels)
    return next((replicates for most, replicates in REPLICATES.items() if cells <= most), None)


def before_calibration(table: Predictions) -> Predictions | None:
    """The table with the probabilities of its own link; None without a link or without a calibrator."""
    if table.calibrator is None or table.scores is None or table.link is None or not table.link.gives_probs:
        return None
    with torch.no_grad():
        return table.replace(probs=table.link.probs(table.scores), decisions=None)


def split_to_evaluate(table: PredictionTable, wanted: str | None = None) -> str | None:
    """The split to evaluate: the requested one, else "test" or the like, else the only one; None for all."""
    sizes = table.split_sizes()
    if wanted == ALL_ROWS and ALL_ROWS not in sizes:
        return None
    if wanted is not None or not sizes:
        return wanted
    called_test = sorted((name for name in sizes if canonical_split(name) == "test"), key=lambda name: name != "test")
    return called_test[0] if called_test else next(iter(sizes)) if len(sizes) == 1 else None


def notes_on_split(table: PredictionTable, evaluated: str | None) -> list[str]:
    """Notes on rows that are left out, and on rows that a model, calibrator or rule may have been fitted on."""
    sizes, notes = table.split_sizes(), []
    others = ", ".join(f"{name!r} ({rows:,})" for name, rows in sizes.items() if name != evaluated)
    if evaluated is not None and others:
        notes.append(
            f'Evaluated on the split {evaluated!r}; left out: {others}. Choose with `split`, or "all" for all rows.'
        )
    rosy = {name: canonical_split(name) for name in sizes if evaluated in (None, name)}
    tuned_splits = [name for name, usual in rosy.items() if usual in ("train", "val")]
    if tuned_splits and (table.calibrator is not None or table.rule is not None or "train" in rosy.values()):
        names = " and ".join(repr(name) for name in tuned_splits)
        rule = "too optimistic, as models, calibrators and rules are fitted on them"
        notes.append(f"Rows of {names} are included: {rule}.")
    return notes


def check_table(predictions: Any) -> None:
    """Raises an error for anything but a table of predictions with targets."""
    if not isinstance(predictions, PredictionTable):
        hint = "Pass `Predictions(scores=..., targets=...)`, or open a file with `Predictions.open`."
        raise InputError("predictions", "", "be a table of predictions", describe_type(predictions), hint)
    if "targets" not in predictions.kinds:
        hint = "Add the true labels with `replace(targets=...)`."
        raise InputError("predictions", "", "hold targets", ", ".join(predictions.kinds), hint)


def check_options(labels: int, bins: int, ks: Any, top_k: int) -> EvaluationOptions:
    """The checked options; numbers of cells of a row are at most the number of labels."""
    bins, top_k = check_int("bins", "", bins, low=1), check_int("top_k", "", top_k, low=1)
    if isinstance(ks, str) or not isinstance(ks, Sequence) or not ks:
        raise InputError("ks", "", "be one or more whole numbers", describe_type(ks), "Pass for example (1, 3, 5).")
    most = max(1, labels)
    cutoffs = {min(check_int("ks", "", k, low=1), most) for k in ks}
    return EvaluationOptions(bins, tuple(sorted(cutoffs)), min(top_k, most))


def check_train_counts(counts: Any, labels: Labels) -> Tensor:
    """(K,), the training images of each label, given in order or by name."""
    if isinstance(counts, Mapping):
        missing = [name for name in labels.names if name not in counts]
        if missing:
            got = f"none for {missing[0]!r}"
            raise InputError("train_counts", "", "name every label", got, "Pass 0 for a label without images.")
        counts = [counts[name] for name in labels.names]
    result = check_label_values("train_counts", counts)
    if result.shape != (len(labels),):
        rule, hint = f"have one number for each of the {len(labels)} labels", "Count the images of these labels."
        raise InputError("train_counts", "", rule, str(tuple(result.shape)), hint)
    return result.cpu()


@dataclass(frozen=True)
class TargetCounts:
    """How many rows, labels and cells there are.

    Attributes:
        rows: The rows of the table.
        unknown_rows: Rows without a known cell.
        empty_rows: Rows in which cells are known and none is present.
        most: The most labels of a row.
        known: (K,), the known cells of each label.
        present: (K,), the present cells of each label.
    """

    rows: int
    unknown_rows: int
    empty_rows: int
    most: int
    known: Tensor
    present: Tensor

    @property
    def labelled_rows(self) -> int:
        """Rows with a label."""
        return self.rows - self.unknown_rows - self.empty_rows

    @property
    def known_cells(self) -> int:
        """Cells whose target is known."""
        return int(self.known.sum())

    @property
    def single_label(self) -> bool:
        """Whether there are several labels, and every row has at most one."""
        return len(self.known) > 1 and self.most == 1

    def counts(self) -> dict[str, int]:
        """What a reader wants to know first."""
        return {
            "rows": self.rows,
            "labels": len(self.known),
            "present cells": int(self.present.sum()),
            "unknown cells": self.rows * len(self.known) - self.known_cells,
            "rows without labels": self.empty_rows,
            "rows without known cells": self.unknown_rows,
            "labels without positives": int((self.present == 0).sum()),
        }


def rows_per_batch(table: PredictionTable) -> int:
    """How many rows of a table to work with at a time."""
    return max(1, CELLS_AT_ONCE // max(1, len(table.labels)))


def count_targets(table: PredictionTable) -> TargetCounts:
    """Goes through the targets of a table once."""
    rows = unknown = empty = most = 0
    known = present = torch.zeros(len(table.labels), dtype=torch.int64)
    for batch in table.batches(rows_per_batch(table), kinds=["targets"]):
        targets = batch.targets
        assert targets is not None
        is_present, is_known = targets > 0, targets >= 0
        counts, some = is_present.sum(1), is_known.any(1)
        rows += len(targets)
        unknown += int((~some).sum())
        empty += int((some & (counts == 0)).sum())
        most = max(most, int(counts.max()) if counts.numel() else 0)
        known, present = known + is_known.sum(0).cpu(), present + is_present.sum(0).cpu()
    return TargetCounts(rows, unknown, empty, most, known, present)


HALF = 0.5
CALIBRATION_ERRORS = ("ece", "ace", "mce")


class MetricSpec(NamedTuple):
    """A metric as a part of an evaluation.

    Attributes:
        make: Makes the metric.
        of: What it is computed from: "ranked" (see `ranks_by_scores`), "scores", "log_softmax", "probs" or "decisions".
        names: From the names of its values to those in the evaluation, without those to leave out; None for all as they
            are.
        again: Makes the metric for rows that are drawn again, if that is another one.
    """

    make: Callable[[], Metric]
    of: str
    names: dict[str, str] | None = None
    again: Callable[[], Metric] | None = None

    def rename(self, values: Mapping[str, float]) -> dict[str, float]:
        """The values of the metric by their names in the evaluation."""
        return dict(values) if self.names is None else {name: values[key] for key, name in self.names.items()}


class MetricInputs:
    """What metrics are computed from, of one batch; probabilities are computed once, and only if asked for.

    Args:
        batch: Some rows of a table, or some columns.
        by_scores: Whether cells are ranked by scores; by probabilities otherwise.

    Attributes:
        scores: (N, K), None if the table has none.
        targets: (N, K).
    """

    def __init__(self, batch: Predictions, *, by_scores: bool = False) -> None:
        self.batch, self.by_scores = batch, by_scores
        self.scores: Any = batch.scores
        self.targets: Any = batch.targets

    @property
    def log_softmax(self) -> Tensor:
        """(N, K), the scores of each row less the logarithm of the sum of their exponentials."""
        return torch.log_softmax(self.scores.double(), 1)

    @cached_property
    def ranked(self) -> Tensor:
        """(N, K), what cells are ranked by."""
        values: Tensor = self.scores if self.by_scores else self.probs
        return values if self.by_scores or self.scores is None else break_ties(values, self.scores)

    @cached_property
    def probs(self) -> Tensor:
        """Probabilities of the table, of its calibrator or of its link."""
        return self.batch.probabilities()

    @property
    def decisions(self) -> Decision:
        """Decisions of the table, or else the labels with a probability of at least one half."""
        labels, abstain = self.batch.decisions, self.batch.abstain
        if labels is None:
            return Threshold(HALF)(self.probs)
        return Decision(labels, labels.new_zeros(len(labels)) if abstain is None else abstain)


class MetricSums:
    """Metrics that collect sums, or little of each row, batch by batch.

    Args:
        specs: The metrics.
    """

    def __init__(self, specs: Sequence[MetricSpec]) -> None:
        self.metrics = [(spec, spec.make()) for spec in specs]

    def update(self, inputs: MetricInputs) -> None:
        """Collects some rows."""
        for spec, metric in self.metrics:
            metric.update(getattr(inputs, spec.of), inputs.targets)

    def results(self) -> dict[str, MetricResult]:
        """The result that holds each value, by the name of the value."""
        results: dict[str, MetricResult] = {}
        for spec, metric in self.metrics:
            result = metric.compute()
            results |= by_value(replace(result, values=spec.rename(result.values)))
        return results

    def values(self) -> dict[str, float]:
        """All values by name."""
        return {name: result[name] for name, result in self.results().items()}


def by_value(result: MetricResult) -> dict[str, MetricResult]:
    """The result for each of its values, by the name of the value."""
    return dict.fromkeys(result.values, result)


def has_probs(table: PredictionTable) -> bool:
    """Whether there are probabilities, or something that turns the scores into some."""
    if "probs" in table.kinds or table.calibrator is not None:
        return True
    return table.link is not None and table.link.gives_probs


def ranks_by_scores(table: PredictionTable) -> bool:
    """Whether cells are ranked by scores: where these mean no probabilities, or have the order of the probabilities."""
    if not has_probs(table):
        return True
    if "probs" in table.kinds or table.calibrator is not None or table.link is None:
        return False
    return table.link.preserves_order


def kinds_of(table: PredictionTable, of: str) -> tuple[str, ...]:
    """What must be read of a table for "ranked" values, "scores" or "probs"."""
    if of == "scores" or (of == "ranked" and ranks_by_scores(table)):
        wanted = {"scores"}
    else:
        wanted = {"probs" if "probs" in table.kinds else "scores", "scores" if of == "ranked" else "probs"}
    return tuple(kind for kind in table.kinds if kind in wanted | {"targets"})


def input_batches(table: PredictionTable, of: str | None = None) -> Iterator[MetricInputs]:
    """The rows of a table, some at a time: all that it holds, or what `of` needs."""
    by_scores = ranks_by_scores(table)
    batches = table.batches(rows_per_batch(table), kinds=None if of is None else kinds_of(table, of))
    return (MetricInputs(batch, by_scores=by_scores) for batch in batches)


def rank_labels(table: PredictionTable) -> tuple[Tensor, Tensor]:
    """Average precision and AUROC of each label, (K,) in float64, reading a few columns at a time."""
    # Not one column at a time even of a long table: each reading has its price.
    step = max(1, 4 * CELLS_AT_ONCE // max(1, len(table)))
    by_scores, result = ranks_by_scores(table), []
    for start in range(0, len(table.labels), step):
        names = table.labels.names[start : start + step]
        # Probabilities that need the other labels as well are computed before these go, if all kinds are asked for.
        whole = not by_scores and needs_all_labels(table, Labels(names))
        columns_read = table.read(labels=names, kinds=None if whole else kinds_of(table, "ranked"))
        part = MetricInputs(columns_read, by_scores=by_scores)
        columns = sorted_columns([part.ranked], [part.targets])
        result += [(precision_of_column(column), auroc_of_column(column)) for column in columns]
    precisions, areas = torch.tensor(result, dtype=torch.float64).reshape(-1, 2).unbind(1)
    return precisions, areas


def rank_cells(table: PredictionTable, facts: TargetCounts) -> MetricResult:
    """Average precision and AUROC of all cells in one ranking; the values of all known cells are held."""
    sizes = {"present": int(facts.present.sum()), "known": facts.known_cells}
    cells: dict[str, Tensor] = {}
    filled = dict.fromkeys(sizes, 0)
    for piece in input_batches(table, "ranked"):
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
    return MetricResult(values, {"cells": sizes["known"], "present cells": sizes["present"]})


class KnownCells:
    """The known cells of a table as (n, 1), in pieces; they can be gone through again and again."""

    def __init__(self, table: PredictionTable, of: str, dtype: torch.dtype | None = None) -> None:
        self.table, self.name, self.dtype = table, of, dtype

    def __iter__(self) -> Iterator[Tensor]:
        for piece in input_batches(self.table, self.name):
            values: Tensor = getattr(piece, self.name)
            yield values[piece.targets >= 0].to(self.dtype or values.dtype).unsqueeze(1)


def equal_mass(table: PredictionTable, facts: TargetCounts, bins: int) -> MetricResult:
    """Calibration errors in bins of the same number of cells: those of `CalibrationError`, but no cell is held."""
    cells = facts.known_cells
    ends = [(b * cells + bins - 1) // bins - 1 for b in range(1, bins + 1)] if cells else []
    upper = order_statistics(KnownCells(table, "probs", torch.float32), lambda _: ends)
    edges = torch.stack(upper) if upper else torch.ones(bins)
    sums = torch.zeros(4, 1, bins, dtype=torch.int64)
    owner = torch.zeros((), dtype=torch.int64)
    for piece in input_batches(table, "probs"):
        probs = piece.probs.float()
        sums += sum_bins(probs, piece.targets, edges.to(probs.device), owner=owner.to(probs.device), owners=1).cpu()
    result = result_of_bins(sums, with_zero(edges).unsqueeze(0), by_label=False)
    return replace(result, values={f"mass_{name}": value for name, value in result.values.items()})


# How far the exponentials of stored log-probabilities may be from adding up to 1, as a logarithm.
LOG_SOFTMAX_TOLERANCE = 1e-3


class EvaluationOptions(NamedTuple):
    """How to compute what is computed.

    Attributes:
        bins: The number of bins of calibration errors.
        ks: How many of the first labels of a row are looked at; also the sizes of average-K sets.
        top_k: How many of the most confident cells of a row a calibration error is computed for.
    """

    bins: int
    ks: tuple[int, ...]
    top_k: int


class BootstrapOptions(NamedTuple):
    """Level of the intervals, number of draws of rows, and their seed."""

    level: float
    replicates: int
    seed: int


# The metrics of a group that add up over rows, and the notes on it.
MetricGroup = tuple[list[MetricSpec], list[str]]


def select_metrics(table: PredictionTable, facts: TargetCounts, options: EvaluationOptions) -> dict[str, MetricGroup]:
    """The groups that a table allows for; labels and cells are ranked by passes of their own."""
    groups = {
        "ranking": ranking_metrics(table, options),
        "probabilities": probability_metrics(table, options),
        "sets": set_metrics(table, facts),
    }
    if facts.empty_rows and facts.labelled_rows:
        groups["no_label"] = no_label_metrics(table)
    if facts.single_label:
        groups["one_label"] = one_label_metrics(table, facts, options)
    return groups


def ranking_metrics(table: PredictionTable, options: EvaluationOptions) -> MetricGroup:
    """Present labels before absent ones, within rows."""
    specs = [
        MetricSpec(lambda: MeanAveragePrecision(average="samples"), "ranked", {"map": "map_sample"}),
        MetricSpec(CoverageError, "ranked"),
        MetricSpec(RankingLoss, "ranked"),
        MetricSpec(lambda: RankingAtK(options.ks), "ranked"),
    ]
    return specs, [describe_ranking(table)]


def describe_ranking(table: PredictionTable) -> str:
    """The note that says what cells are ranked by."""
    if ranks_by_scores(table):
        same = ", whose order is that of the probabilities" if has_probs(table) else ""
        return f"Ranked by scores{same}."
    if "scores" not in table.kinds:
        return "Ranked by probabilities, since there are no scores."
    maker = table.calibrator or table.link
    by = "" if maker is None or (maker is table.link and not maker.gives_probs) else f" of {type(maker).__name__}"
    return f"Ranked by the probabilities{by}; where these are 1 to the last digit, by scores."


def probability_metrics(table: PredictionTable, options: EvaluationOptions) -> MetricGroup:
    """How well probabilities are calibrated, and proper scores."""
    if not has_probs(table):
        return [], ["Left out: these scores mean no probability until calibrated. Run calibrate."]
    bins = options.bins
    calibration_errors = {
        "": lambda: CalibrationError(bins),
        "label_": lambda: CalibrationError(bins, average="macro"),
        "top_": lambda: CalibrationError(bins, top_k=options.top_k),
    }
    specs = [
        *(MetricSpec(make, "probs", _names(*CALIBRATION_ERRORS, to=to)) for to, make in calibration_errors.items()),
        MetricSpec(BrierScore, "probs"),
        MetricSpec(LogLoss, "probs"),
    ]
    notes = [f"{bins} bins. The most confident are the {options.top_k} of each row."]
    if "probs" not in table.kinds:
        notes.append(f"Probabilities are those of {type(table.calibrator or table.link).__name__}.")
    return specs, notes


def set_metrics(table: PredictionTable, facts: TargetCounts) -> MetricGroup:
    """How well the predicted labels match the true ones."""
    notes = []
    if "decisions" not in table.kinds:
        if not has_probs(table):
            return [], ["Left out: there are neither decisions nor probabilities to decide by. Run decide."]
        notes.append(f"Without decisions, labels with a probability of at least {100 * HALF:.0f} % count as predicted.")
    # The mean size counts all predicted labels, whether the target is known or not; the others count known cells.
    specs = set_measures(known_size=facts.counts()["unknown cells"] > 0)
    return [*specs, MetricSpec(PredictedSetSize, "decisions", _names("mean_size"))], notes


def set_measures(*, known_size: bool) -> list[MetricSpec]:
    """Precision, recall and agreement of sets, of known cells; also the mean size of their sets if asked for."""
    sets = _names("exact_match", "jaccard", "hamming_loss", "coverage")
    sets |= {"mean_size": "known_size"} if known_size else {}
    return [MetricSpec(FScores, "decisions"), MetricSpec(SetAccuracy, "decisions", sets)]


def no_label_metrics(table: PredictionTable) -> MetricGroup:
    """How well rows without labels are separated from the others."""
    ranked = MetricSpec(OpenSetScores, "ranked", {"auroc": "no_label_auroc", **_names("aupr_in", "aupr_out", "fpr95")})
    if has_probs(table):
        # Ranked as everywhere; the mean of confidences is that of the probabilities themselves.
        return [ranked, MetricSpec(OpenSetScores, "probs", _names("mmc"))], []
    return [ranked], ["By scores, since there are no probabilities; so there is no mean maximum confidence."]


def one_label_metrics(table: PredictionTable, facts: TargetCounts, options: EvaluationOptions) -> MetricGroup:
    """Whether the one label of a row stands out, by a threshold for all rows and in sets of a given average size.

    A threshold cuts what it is held against, so that each value says of which reading of the scores it is.
    """
    notes, by_row = ["Thresholds were found on these rows themselves."], _names("sample_wise_accuracy")
    readings = {"scores": "", "log_softmax": "softmax_"} if "scores" in table.kinds else {"probs": "probs_"}
    if "scores" in table.kinds and has_log_softmax(table):
        del readings["scores"]
        notes.append("The scores are log-probabilities by softmax, so that nothing can be said of raw ones.")
    specs = []
    for of, prefix in readings.items():
        names = _names("class_wise_accuracy", "uniform_accuracy", to=prefix)
        specs.append(MetricSpec(UniformAccuracy, of, by_row | names | {"threshold": f"{prefix}uniform_threshold"}))
        by_row = {}  # the same by softmax, which keeps the order of a row
    for k in options.ks:
        if k < len(facts.known):
            names = {"accuracy": f"average_k_accuracy@{k}", "mean_size": f"average_k_size@{k}"}
            make = partial(average_k_accuracy, table, facts, k)
            specs.append(MetricSpec(make, "ranked", names, again=partial(AverageKAccuracy, k)))
    return specs, notes


def has_log_softmax(table: PredictionTable) -> bool:
    """Whether scores are stored as log-probabilities by softmax, as `train` leaves those of cross-entropy."""
    some = next(input_batches(table, "scores")).scores
    return bool(len(some)) and bool((torch.logsumexp(some.double(), 1).abs() < LOG_SOFTMAX_TOLERANCE).all())


def average_k_accuracy(table: PredictionTable, facts: TargetCounts, k: int) -> Metric:
    """The metric with the threshold that k known cells per row reach on average, so that it need not hold them."""
    rows = facts.rows - facts.unknown_rows
    # Rows may differ in their number of known cells, so that each cell stands as a row of its own for the rule.
    rule = AverageK(k * rows / max(1, facts.known_cells)).fit_batches(KnownCells(table, "ranked"))
    return AverageKAccuracy(k, threshold=float(rule.threshold))


def _names(*names: str, to: str = "") -> dict[str, str]:
    """From the names of a metric to those of an evaluation, which begin with `to`."""
    return {name: f"{to}{name}" for name in names}


# The values whose curves and histograms a group shows.
DETAILS = {"probabilities": "ece", "sets": "mean_size"}
# Cells that may be held at once to be ranked together.
MOST_RANKED_CELLS = 1 << 27


def run_passes(
    table: PredictionTable,
    options: EvaluationOptions,
    train_counts: Tensor | None,
    bootstrap: BootstrapOptions | None = None,
) -> Evaluation:
    """The evaluation of all rows, going through a table as often as it takes."""
    facts = count_targets(table)
    selected = select_metrics(table, facts, options)
    specs = [spec for specs, _ in selected.values() for spec in specs]
    notes = {name: list(remarks) for name, (_, remarks) in selected.items()}
    sums = MetricSums(specs)
    for inputs in input_batches(table):
        sums.update(inputs)
    results = sums.results()
    if has_probs(table):
        results |= by_value(equal_mass(table, facts, options.bins))
    if facts.known_cells <= MOST_RANKED_CELLS:
        results |= by_value(rank_cells(table, facts))
    else:
        notes["ranking"].append(f"All cells are ranked together only up to {MOST_RANKED_CELLS:,} of them.")
    if "jaccard" in results and results["jaccard"].counts["rows without labels and decisions"]:
        notes["sets"].append("Rows without labels and decisions count as 0 in F1 over rows, and as 1 in Jaccard.")
    ap, auroc = rank_labels(table)
    values = {name: Value(result[name], result.counts) for name, result in results.items()}
    values |= label_means(facts, ap, auroc)
    if train_counts is not None:
        notes["shots"] = []
        values |= shot_values(ap, train_counts)
    if bootstrap is not None:
        level, replicates, seed = bootstrap
        if has_probs(table):  # whose cells can be held, unlike those of large tables
            mass = _names(*CALIBRATION_ERRORS, to="mass_")
            specs.append(MetricSpec(lambda: CalibrationError(options.bins, mass="equal"), "probs", mass))
        drawn = bootstrap_values(table.read(), specs, train_counts, replicates, seed)
        intervals = {name: interval_of(value.value, drawn[name], level) for name, value in values.items()}
        values = {name: replace(value, interval=intervals[name]) for name, value in values.items()}
    details = {name: results[key].details for name, key in DETAILS.items() if key in results}
    groups = {name: Group(values_of_group(values, name), notes[name], details.get(name, {})) for name in notes}
    by_label = label_columns(facts, results, ap, auroc, train_counts)
    counts = facts.counts()
    label_table = LabelTable(table.labels.names, by_label, too_small(counts) is not None)
    return Evaluation(groups, counts, table.kinds, label_table, None if bootstrap is None else bootstrap.level)


def bootstrap_values(
    table: Predictions, specs: Sequence[MetricSpec], train_counts: Tensor | None, replicates: int, seed: int
) -> dict[str, list[float]]:
    """Every value of an evaluation for each draw of rows, by name."""
    inputs = MetricInputs(table, by_scores=ranks_by_scores(table))
    result: dict[str, list[float]] = {}
    for spec in specs:
        metric = (spec.again or spec.make)()
        draws = draw_values(metric, getattr(inputs, spec.of), inputs.targets, replicates=replicates, seed=seed)
        drawn = [spec.rename(values) for values in draws]
        result |= {name: [values[name] for values in drawn] for name in drawn[0]}
    ap, auroc = draw_rankings(inputs.ranked, inputs.targets, replicates=replicates, seed=seed)
    result |= {"map_cell": ap[:, -1].tolist(), "auroc_cell": auroc[:, -1].tolist()}
    result |= {"map": [mean_of_defined(one) for one in ap[:, :-1]]}
    result |= {"auroc": [mean_of_defined(one) for one in auroc[:, :-1]]}
    if train_counts is not None:
        shots = [shot_values(one, train_counts) for one in ap[:, :-1]]
        result |= {name: [one[name].value for one in shots] for name in shots[0]}
    return result


def values_of_group(values: dict[str, Value], group: str) -> dict[str, Value]:
    """The values of a group, in the order of the catalogue."""
    return {
        name: value
        for base in METRICS_BY_GROUP[group]
        for name, value in values.items()
        if name.partition("@")[0] == base
    }


def label_means(facts: TargetCounts, ap: Tensor, auroc: Tensor) -> dict[str, Value]:
    """The means over labels of their average precision and their area under the ROC curve."""
    empty, full = int((facts.present == 0).sum()), int(((facts.present > 0) & (facts.present == facts.known)).sum())
    ranked = {"labels": len(ap) - empty, "labels without positives": empty}
    compared = ranked | {"labels": len(ap) - empty - full, "labels without negatives": full}
    return {"map": Value(mean_of_defined(ap), ranked), "auroc": Value(mean_of_defined(auroc), compared)}


def shot_values(ap: Tensor, train_counts: Tensor) -> dict[str, Value]:
    """The mean average precision of labels with few, some and many training images."""
    result, missing = by_shots(ap, train_counts), "labels without a value"
    return {
        f"{name}_map": Value(value, {"labels": result.counts[name], missing: result.counts[missing]})
        for name, value in result.values.items()
    }


def label_columns(
    facts: TargetCounts, results: Mapping[str, MetricResult], ap: Tensor, auroc: Tensor, train_counts: Tensor | None
) -> dict[str, Tensor]:
    """The values of each label by column."""
    columns = {} if train_counts is None else {"train_count": train_counts}
    columns |= {"known": facts.known, "present": facts.present, "ap": ap, "auroc": auroc}
    if "ece" in results:
        columns["ece"] = results["label_ece"].details["ece"]
        columns |= {name: results[name].details["by_label"] for name in ("brier", "log_loss")}
    if "micro_f" in results:
        sets = results["micro_f"].details
        columns |= {"given": sets["chosen"], **{name: sets[name] for name in ("precision", "recall", "f")}}
    return {name: column.cpu() for name, column in columns.items()}
