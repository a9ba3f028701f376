"""Passes over a table: target counts, metrics summed over rows, rankings of labels and of all cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from manyhot.decide import AverageK
from manyhot.decide.rule import Decision
from manyhot.decide.sets import order_statistics
from manyhot.evaluation.catalog import METRIC_INFO
from manyhot.evaluation.result import Group, LabelTable, Value
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
from manyhot.metrics.calibration import result_of_bins, sum_bins, with_zero
from manyhot.metrics.metric import Metric, MetricResult, mean_of_defined
from manyhot.metrics.ranking import auroc_of_column, precision_of_column
from manyhot.metrics.sets import PredictedSetSize
from manyhot.numerics import break_ties
from manyhot.predictions.predictions import Predictions, PredictionTable, needs_all_labels
from manyhot.sorting import Column, sort_in_place, sorted_columns

# Cells that are in work at a time: small beside what torch itself takes, large enough to be fast.
CELLS_AT_ONCE = 1 << 20


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


@dataclass(frozen=True, eq=False)
class MetricSpec:
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


class MetricInputs:
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
        return self.probs if self.batch.scores is None else break_ties(self.probs, self.batch.scores)

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
        result: Tensor | Decision = getattr(self, name)
        return result


def has_probs(table: PredictionTable) -> bool:
    """Whether there are probabilities, or something that turns the scores into some."""
    if "probs" in table.kinds or table.calibrator is not None:
        return True
    return table.link is not None and table.link.gives_probs


def ranks_by_scores(table: PredictionTable) -> bool:
    """Whether cells are ranked by scores: where these mean no probabilities, or have the order of the probabilities."""
    if not has_probs(table):
        return True
    linked = "probs" not in table.kinds and table.calibrator is None and table.link is not None
    return linked and table.link is not None and table.link.preserves_order


def kinds_of(table: PredictionTable, of: str | None) -> tuple[str, ...]:
    """What must be read of a table: all that it holds, or what "ranked", "scores" or "probs" need."""
    if of is None:
        return table.kinds
    wanted = {"probs" if "probs" in table.kinds else "scores"} if of != "scores" else {"scores"}
    if of == "ranked":
        wanted = {"scores"} if ranks_by_scores(table) else wanted | {"scores"}
    return tuple(kind for kind in table.kinds if kind in wanted | {"targets"})


def input_batches(table: PredictionTable, of: str | None = None) -> Iterator[MetricInputs]:
    """The rows of a table, some at a time; see `kinds_of`."""
    by_scores = ranks_by_scores(table)
    batches = table.batches(rows_per_batch(table), kinds=kinds_of(table, of))
    return (MetricInputs(batch, by_scores=by_scores) for batch in batches)


def sum_over_rows(table: PredictionTable, measures: Sequence[MetricSpec]) -> list[MetricResult]:
    """The outcomes of metrics that collect sums, or little of each row, in one pass."""
    metrics = [measure.make() for measure in measures]
    for piece in input_batches(table):
        for measure, metric in zip(measures, metrics, strict=True):
            metric.update(piece.of(measure.of), piece.targets)
    return [metric.compute() for metric in metrics]


def rank_labels(table: PredictionTable) -> tuple[Tensor, Tensor]:
    """Average precision and AUROC of each label, (K,) in float64, reading a few columns at a time."""
    # Not one column at a time even of a long table: each reading has its price.
    step = max(1, 4 * CELLS_AT_ONCE // max(1, len(table)))
    by_scores, result = ranks_by_scores(table), []
    for start in range(0, len(table.labels), step):
        names = table.labels.names[start : start + step]
        # Probabilities that need the other labels as well are computed before these go, if all kinds are asked for.
        whole = not by_scores and needs_all_labels(table, Labels(names))
        part = MetricInputs(
            table.read(labels=names, kinds=None if whole else kinds_of(table, "ranked")), by_scores=by_scores
        )
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
            values = piece.of(self.name)
            assert isinstance(values, Tensor)
            yield values[piece.targets >= 0].to(self.dtype or values.dtype).unsqueeze(1)


def equal_mass(table: PredictionTable, facts: TargetCounts, bins: int) -> MetricResult:
    """Calibration errors in bins of the same number of cells: those of `CalibrationError`, but no cell is held."""
    cells = facts.known_cells
    ends = [(b * cells + bins - 1) // bins - 1 for b in range(1, bins + 1)] if cells else []
    result = order_statistics(KnownCells(table, "probs", torch.float32), lambda _: ends)
    edges = torch.stack(result) if result else torch.ones(bins)
    sums = torch.zeros(4, 1, bins, dtype=torch.int64)
    owner = torch.zeros((), dtype=torch.int64)
    for piece in input_batches(table, "probs"):
        probs = piece.probs.float()
        sums += sum_bins(probs, piece.targets, edges.to(probs.device), owner=owner.to(probs.device), owners=1).cpu()
    return result_of_bins(sums, with_zero(edges).unsqueeze(0), by_label=False)


def average_threshold(table: PredictionTable, facts: TargetCounts, of: str, k: float) -> float:
    """The threshold that k known cells per row reach on average."""
    rows = facts.rows - facts.unknown_rows
    # Rows may differ in their number of known cells, so that each cell stands as a row of its own for the rule.
    return float(AverageK(k * rows / max(1, facts.known_cells)).fit_batches(KnownCells(table, of)).threshold)


CALIBRATION_ERRORS = ("ece", "ace", "mce")
# How far the exponentials of stored log-probabilities may be from adding up to 1, as a logarithm.
LOG_SOFTMAX_TOLERANCE = 1e-3


@dataclass(frozen=True)
class EvaluationOptions:
    """How to compute what is computed.

    Attributes:
        bins: The number of bins of calibration errors.
        ks: How many of the first labels of a row are looked at; also the sizes of average-K sets.
        top_k: How many of the most confident cells of a row a calibration error is computed for.
    """

    bins: int
    ks: tuple[int, ...]
    top_k: int


@dataclass
class MetricGroup:
    """What a group is made of: measures that add up over rows, and what a reader must know."""

    measures: list[MetricSpec] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def select_metrics(table: PredictionTable, facts: TargetCounts, options: EvaluationOptions) -> dict[str, MetricGroup]:
    """The groups that a table allows for; labels and cells are ranked by passes of their own."""
    metric_groups = {
        "ranking": ranking_metrics(table, options),
        "probabilities": probability_metrics(table, options),
        "sets": set_metrics(table, facts),
    }
    if facts.empty_rows and facts.labelled_rows:
        metric_groups["no_label"] = no_label_metrics(table)
    if facts.single_label:
        metric_groups["one_label"] = one_label_metrics(table, facts, options)
    return metric_groups


def ranking_metrics(table: PredictionTable, options: EvaluationOptions) -> MetricGroup:
    """Present labels before absent ones, within rows."""
    at_k = [f"{name}@{k}" for name in ("precision", "recall", "ndcg") for k in options.ks]
    measures = [
        MetricSpec(lambda: MeanAveragePrecision(average="samples"), "ranked", {"map": "map_sample"}),
        MetricSpec(CoverageError, "ranked", _same_names("coverage_error")),
        MetricSpec(RankingLoss, "ranked", _same_names("ranking_loss")),
        MetricSpec(lambda: RankingAtK(options.ks), "ranked", _same_names(*at_k)),
    ]
    return MetricGroup(measures, [describe_ranking(table)])


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
        return MetricGroup(notes=["Left out: these scores mean no probability until calibrated. Run calibrate."])
    bins = options.bins
    measures = [
        MetricSpec(lambda: CalibrationError(bins), "probs", _same_names(*CALIBRATION_ERRORS)),
        MetricSpec(
            lambda: CalibrationError(bins, average="macro"), "probs", _prefixed_names("label_", *CALIBRATION_ERRORS)
        ),
        MetricSpec(
            lambda: CalibrationError(bins, top_k=options.top_k), "probs", _prefixed_names("top_", *CALIBRATION_ERRORS)
        ),
        MetricSpec(BrierScore, "probs", _same_names("brier", "brier_per_row")),
        MetricSpec(LogLoss, "probs", _same_names("log_loss", "log_loss_per_row")),
    ]
    notes = [f"{bins} bins. The most confident are the {options.top_k} of each row."]
    if "probs" not in table.kinds:
        maker = table.link if table.calibrator is None else table.calibrator
        notes.append(f"Probabilities are those of {type(maker).__name__}.")
    return MetricGroup(measures, notes)


def set_metrics(table: PredictionTable, facts: TargetCounts) -> MetricGroup:
    """How well the predicted labels match the true ones."""
    notes = []
    if "decisions" not in table.kinds:
        if not has_probs(table):
            return MetricGroup(
                notes=["Left out: there are neither decisions nor probabilities to decide by. Run decide."]
            )
        notes.append(f"Without decisions, labels with a probability of at least {100 * HALF:.0f} % count as predicted.")
    scores = ("micro_f", "macro_f", "macro_f_supported", "f_of_means", "sample_f")
    parts = [f"{average}_{name}" for average in ("micro", "macro", "sample") for name in ("precision", "recall")]
    sets = _same_names("exact_match", "jaccard", "hamming_loss", "coverage")
    if facts.counts()["unknown cells"]:
        # The mean size counts all predicted labels, whether the target is known or not; the others count known cells.
        sets |= {"mean_size": "known_size"}
    measures = [
        MetricSpec(FScores, "decisions", _same_names(*scores, *parts)),
        MetricSpec(SetAccuracy, "decisions", sets),
        MetricSpec(PredictedSetSize, "decisions", _same_names("mean_size")),
    ]
    return MetricGroup(measures, notes)


def no_label_metrics(table: PredictionTable) -> MetricGroup:
    """How well rows without labels are separated from the others."""
    names = {"auroc": "no_label_auroc", **_same_names("aupr_in", "aupr_out", "fpr95")}
    if has_probs(table):
        # Ranked as everywhere; the mean of confidences is that of the probabilities themselves.
        return MetricGroup(
            [MetricSpec(OpenSetScores, "ranked", names), MetricSpec(OpenSetScores, "probs", _same_names("mmc"))]
        )
    note = "By scores, since there are no probabilities; so there is no mean maximum confidence."
    return MetricGroup([MetricSpec(OpenSetScores, "ranked", names)], [note])


def one_label_metrics(table: PredictionTable, facts: TargetCounts, options: EvaluationOptions) -> MetricGroup:
    """Whether the one label of a row stands out, by a threshold for all rows and in sets of a given average size.

    A threshold cuts what it is held against, so that each value says of which reading of the scores it is.
    """
    notes, by_row = ["Thresholds were found on these rows themselves."], _same_names("sample_wise_accuracy")
    readings = {"scores": "", "log_softmax": "softmax_"} if "scores" in table.kinds else {"probs": "probs_"}
    if "scores" in table.kinds and has_log_softmax(table):
        del readings["scores"]
        notes.append("The scores are log-probabilities by softmax, so that nothing can be said of raw ones.")
    measures = []
    for of, prefix in readings.items():
        names = {name: f"{prefix}{name}" for name in ("class_wise_accuracy", "uniform_accuracy")}
        measures.append(MetricSpec(UniformAccuracy, of, by_row | names | {"threshold": f"{prefix}uniform_threshold"}))
        by_row = {}  # the same by softmax, which keeps the order of a row
    for k in options.ks:
        if k < len(facts.known):
            names = {"accuracy": f"average_k_accuracy@{k}", "mean_size": f"average_k_size@{k}"}
            measures.append(_average_k(table, facts, "ranked", k, names))
    return MetricGroup(measures, notes)


def has_log_softmax(table: PredictionTable) -> bool:
    """Whether scores are stored as log-probabilities by softmax, as `train` leaves those of cross-entropy."""
    some = next(input_batches(table, "scores")).scores
    return bool(len(some)) and bool((torch.logsumexp(some.double(), 1).abs() < LOG_SOFTMAX_TOLERANCE).all())


def _average_k(table: PredictionTable, facts: TargetCounts, of: str, k: int, names: dict[str, str]) -> MetricSpec:
    threshold = average_threshold(table, facts, of, k)
    return MetricSpec(lambda: AverageKAccuracy(k, threshold=threshold), of, names, lambda: AverageKAccuracy(k))


def _same_names(*names: str) -> dict[str, str]:
    return _prefixed_names("", *names)


def _prefixed_names(prefix: str, *names: str) -> dict[str, str]:
    return {name: f"{prefix}{name}" for name in names}


# Cells that may be held at once to be ranked together.
MOST_RANKED_CELLS = 1 << 27


@dataclass(frozen=True)
class PassResults:
    """The outcomes of all passes.

    Attributes:
        facts: What there is.
        metric_groups: What each group is made of.
        metric_results: The outcomes of the measures that add up over rows.
        ap: (K,), the average precision of each label.
        auroc: (K,), the area under the ROC curve of each label.
        cells: The values of all cells in one ranking, None where there are too many.
        mass: The calibration errors in bins of equal mass, None without probabilities.
        train_counts: (K,), the training images of each label, where they are known.
    """

    facts: TargetCounts
    metric_groups: dict[str, MetricGroup]
    metric_results: dict[MetricSpec, MetricResult]
    ap: Tensor
    auroc: Tensor
    cells: MetricResult | None
    mass: MetricResult | None
    train_counts: Tensor | None

    def metric_result(self, name: str) -> MetricResult | None:
        """The outcome that holds the value of this name; None where it was left out."""
        result = (
            metric_result for measure, metric_result in self.metric_results.items() if name in measure.names.values()
        )
        return next(result, None)

    def groups(self) -> dict[str, Group]:
        """The groups, their values in the usual order."""
        groups = {name: self._group(name) for name in self.metric_groups}
        if self.train_counts is not None:
            groups["shots"] = Group(shot_values(self.ap, self.train_counts))
        return groups

    def _group(self, name: str) -> Group:
        values, notes = self._values(self.metric_groups[name]), list(self.metric_groups[name].notes)
        if name == "ranking":
            values |= self._label_values() | rename_values(
                self.cells, {"map_cell": "map_cell", "auroc_cell": "auroc_cell"}
            )
            if self.cells is None:
                notes.append(f"All cells are ranked together only up to {MOST_RANKED_CELLS:,} of them.")
        if name == "probabilities":
            values |= rename_values(self.mass, {error: f"mass_{error}" for error in CALIBRATION_ERRORS})
        empty = self.metric_result("jaccard")
        if name == "sets" and empty is not None and empty.counts["rows without labels and decisions"]:
            notes.append("Rows without labels and decisions count as 0 in F1 over rows, and as 1 in Jaccard.")
        behind = self.metric_result({"probabilities": "ece", "sets": "mean_size"}.get(name, ""))
        order = {name: position for position, name in enumerate(METRIC_INFO)}
        ordered = dict(sorted(values.items(), key=lambda item: order[item[0].partition("@")[0]]))
        return Group(ordered, notes, {} if behind is None else behind.details)

    def _values(self, group: MetricGroup) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for measure in group.measures:
            result |= rename_values(self.metric_results[measure], measure.names)
        return result

    def _label_values(self) -> dict[str, Value]:
        present, known = self.facts.present, self.facts.known
        empty, full = int((present == 0).sum()), int(((present > 0) & (present == known)).sum())
        ranked = {"labels": len(present) - empty, "labels without positives": empty}
        compared = ranked | {"labels": len(present) - empty - full, "labels without negatives": full}
        return {
            "map": Value(mean_of_defined(self.ap), ranked),
            "auroc": Value(mean_of_defined(self.auroc), compared),
        }

    def label_table(self, names: list[str]) -> LabelTable:
        """The values of each label."""
        columns = {"known": self.facts.known, "present": self.facts.present, "ap": self.ap, "auroc": self.auroc}
        if self.train_counts is not None:
            columns = {"train_count": self.train_counts} | columns
        calibration, brier, log_loss = (self.metric_result(name) for name in ("label_ece", "brier", "log_loss"))
        if calibration is not None and brier is not None and log_loss is not None:
            columns["ece"] = calibration.details["ece"]
            columns |= {"brier": brier.details["by_label"], "log_loss": log_loss.details["by_label"]}
        sets = self.metric_result("micro_f")
        if sets is not None:
            columns |= {"given": sets.details["chosen"]}
            columns |= {name: sets.details[name] for name in ("precision", "recall", "f")}
        return LabelTable(names, {name: column.cpu() for name, column in columns.items()})


def run_passes(table: PredictionTable, options: EvaluationOptions, train_counts: Tensor | None) -> PassResults:
    """Goes through a table as often as it takes."""
    facts = count_targets(table)
    metric_groups = select_metrics(table, facts, options)
    measures = [measure for group in metric_groups.values() for measure in group.measures]
    metric_results = dict(zip(measures, sum_over_rows(table, measures), strict=True))
    ap, auroc = rank_labels(table)
    cells = rank_cells(table, facts) if facts.known_cells <= MOST_RANKED_CELLS else None
    mass = equal_mass(table, facts, options.bins) if has_probs(table) else None
    return PassResults(facts, metric_groups, metric_results, ap, auroc, cells, mass, train_counts)


def shot_values(ap: Tensor, train_counts: Tensor) -> dict[str, Value]:
    """The mean average precision of labels with few, some and many training images."""
    metric_result = by_shots(ap, train_counts)
    missing = "labels without a value"
    return {
        f"{name}_map": Value(value, {"labels": metric_result.counts[name], missing: metric_result.counts[missing]})
        for name, value in metric_result.values.items()
    }


def rename_values(metric_result: MetricResult | None, names: dict[str, str]) -> dict[str, Value]:
    """Values of an outcome under other names; none of what was left out."""
    if metric_result is None:
        return {}
    return {name: Value(metric_result[key], metric_result.counts) for key, name in names.items()}
