"""Which measures an evaluation is made of, and what must be said about them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from manyhot.evaluation.passes import HALF, Measure, average_threshold, has_probs, pieces, ranks_by_scores
from manyhot.evaluation.survey import Survey
from manyhot.links import NoLink
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
)
from manyhot.metrics.sets import GivenLabels
from manyhot.predictions.table import Table

ERRORS = ("ece", "ace", "mce")
# How far the exponentials of stored log-probabilities may be from adding up to 1, as a logarithm.
ROUNDING = 1e-3


@dataclass(frozen=True)
class Options:
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
class Plan:
    """What a group is made of: measures that add up over rows, and what a reader must know."""

    measures: list[Measure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plan(table: Table, facts: Survey, options: Options) -> dict[str, Plan]:
    """The groups that a table allows for; labels and cells are ranked by passes of their own."""
    plans = {
        "ranking": plan_ranking(table, options),
        "probabilities": plan_probabilities(table, options),
        "sets": plan_sets(table, facts),
    }
    if facts.empty_rows and facts.labelled_rows:
        plans["no_label"] = plan_no_label(table)
    if facts.single_label:
        plans["one_label"] = plan_one_label(table, facts, options)
    return plans


def plan_ranking(table: Table, options: Options) -> Plan:
    """Present labels before absent ones, within rows."""
    at_k = [f"{name}@{k}" for name in ("precision", "recall", "ndcg") for k in options.ks]
    measures = [
        Measure(lambda: MeanAveragePrecision(over="sample"), "ranked", {"map": "map_sample"}),
        Measure(CoverageError, "ranked", _same("coverage_error")),
        Measure(RankingLoss, "ranked", _same("ranking_loss")),
        Measure(lambda: RankingAtK(options.ks), "ranked", _same(*at_k)),
    ]
    return Plan(measures, [reading(table)])


def reading(table: Table) -> str:
    """What cells are ranked by, in a sentence."""
    if ranks_by_scores(table):
        same = ", whose order is that of the probabilities" if has_probs(table) else ""
        return f"Ranked by scores{same}."
    if "scores" not in table.kinds:
        return "Ranked by probabilities, since there are no scores."
    maker = table.calibrator or table.link
    by = "" if maker is None or isinstance(maker, NoLink) else f" of {type(maker).__name__}"
    return f"Ranked by the probabilities{by}; where these are 1 to the last digit, by scores."


def plan_probabilities(table: Table, options: Options) -> Plan:
    """Whether probabilities come true."""
    if not has_probs(table):
        return Plan(notes=["Left out: these scores mean no probability until calibrated. Run calibrate."])
    bins = options.bins
    measures = [
        Measure(lambda: CalibrationError(bins), "probs", _same(*ERRORS)),
        Measure(lambda: CalibrationError(bins, over="label"), "probs", _named("label_", *ERRORS)),
        Measure(lambda: CalibrationError(bins, top_k=options.top_k), "probs", _named("top_", *ERRORS)),
        Measure(BrierScore, "probs", _same("brier", "brier_per_row")),
        Measure(LogLoss, "probs", _same("log_loss", "log_loss_per_row")),
    ]
    notes = [f"{bins} bins. The most confident are the {options.top_k} of each row."]
    if "probs" not in table.kinds:
        maker = table.link if table.calibrator is None else table.calibrator
        notes.append(f"Probabilities are those of {type(maker).__name__}.")
    return Plan(measures, notes)


def plan_sets(table: Table, facts: Survey) -> Plan:
    """Whether the labels that are given are right."""
    notes = []
    if "decisions" not in table.kinds:
        if not has_probs(table):
            return Plan(notes=["Left out: there are neither decisions nor probabilities to decide by. Run decide."])
        notes.append(f"Without decisions, labels with a probability of at least {100 * HALF:.0f} % count as given.")
    scores = ("micro_f", "macro_f", "macro_f_supported", "f_of_means", "sample_f")
    parts = [f"{over}_{name}" for over in ("micro", "macro", "sample") for name in ("precision", "recall")]
    sets = _same("exact_match", "jaccard", "hamming_loss", "coverage")
    if facts.counts()["unknown cells"]:
        # All labels that are given, known to be right or not, are what people see; the others are judged by known ones.
        sets |= {"mean_size": "known_size"}
    measures = [
        Measure(FScores, "decisions", _same(*scores, *parts)),
        Measure(SetAccuracy, "decisions", sets),
        Measure(GivenLabels, "decisions", _same("mean_size")),
    ]
    return Plan(measures, notes)


def plan_no_label(table: Table) -> Plan:
    """Whether rows without labels can be told from the others."""
    names = {"auroc": "no_label_auroc", **_same("aupr_in", "aupr_out", "fpr95")}
    if has_probs(table):
        # Ranked as everywhere; the mean of confidences is that of the probabilities themselves.
        return Plan([Measure(OpenSetScores, "ranked", names), Measure(OpenSetScores, "probs", _same("mmc"))])
    note = "By scores, since there are no probabilities; so there is no mean maximum confidence."
    return Plan([Measure(OpenSetScores, "ranked", names)], [note])


def plan_one_label(table: Table, facts: Survey, options: Options) -> Plan:
    """Whether the one label of a row stands out, by a threshold for all rows and in sets of a given average size.

    A threshold cuts what it is held against, so that each value says of which reading of the scores it is.
    """
    notes, by_row = ["Thresholds were found on these rows themselves."], _same("sample_wise_accuracy")
    readings = {"scores": "", "log_softmax": "softmax_"} if "scores" in table.kinds else {"probs": "probs_"}
    if "scores" in table.kinds and has_log_softmax(table):
        del readings["scores"]
        notes.append("The scores are log-probabilities by softmax, so that nothing can be said of raw ones.")
    measures = []
    for of, prefix in readings.items():
        names = {name: f"{prefix}{name}" for name in ("class_wise_accuracy", "uniform_accuracy")}
        measures.append(Measure(UniformAccuracy, of, by_row | names | {"threshold": f"{prefix}uniform_threshold"}))
        by_row = {}  # the same by softmax, which keeps the order of a row
    for k in options.ks:
        if k < len(facts.known):
            names = {"accuracy": f"average_k_accuracy@{k}", "mean_size": f"average_k_size@{k}"}
            measures.append(_average_k(table, facts, "ranked", k, names))
    return Plan(measures, notes)


def has_log_softmax(table: Table) -> bool:
    """Whether scores are stored as log-probabilities by softmax, as `train` leaves those of cross-entropy."""
    some = next(pieces(table, "scores")).scores
    return bool(len(some)) and bool((torch.logsumexp(some.double(), 1).abs() < ROUNDING).all())


def _average_k(table: Table, facts: Survey, of: str, k: int, names: dict[str, str]) -> Measure:
    threshold = average_threshold(table, facts, of, k)
    return Measure(lambda: AverageKAccuracy(k, threshold=threshold), of, names, lambda: AverageKAccuracy(k))


def _same(*names: str) -> dict[str, str]:
    return _named("", *names)


def _named(prefix: str, *names: str) -> dict[str, str]:
    return {name: f"{prefix}{name}" for name in names}
