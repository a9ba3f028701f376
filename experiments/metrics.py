"""Metrics of a run: functions of its scores and targets that return plain JSON."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.training import RunOutput
from manyhot.calibrate import BetaCalibration, Calibrator, SoftmaxTemperature, TemperatureScaling
from manyhot.calibrate.calibrator import bounded_log_odds
from manyhot.decide import AverageK, TopK, UniformThreshold
from manyhot.decide.thresholds import row_intervals
from manyhot.errors import InputError
from manyhot.heads import Head, MLPHead, TwoHeads
from manyhot.labels import one_hot
from manyhot.links import Link, NoLink, QuasibinaryLink, SigmoidLink, SoftmaxLink
from manyhot.losses import ClassWiseLoss, Loss, NoisedTopKLoss
from manyhot.metrics import (
    AverageKAccuracy,
    BrierScore,
    CalibrationError,
    FScores,
    LogLoss,
    MeanAveragePrecision,
    OpenSetScores,
    RankingAtK,
    RetrievalCurve,
    SetAccuracy,
    UniformAccuracy,
    by_shots,
    stratified_mean,
)
from manyhot.metrics.ranking import first_labels
from manyhot.training.build import reading_of

# More than any table shows, and a third of the bytes of a whole float.
DIGITS = 7


def number(value: Any) -> float | None:
    """A float of a few significant digits; None for NaN and infinity, which JSON cannot hold."""
    value = float(value)
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def numbers(values: Tensor) -> list[float | None]:
    """The numbers of a vector."""
    return [number(value) for value in values.tolist()]


def named(values: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers by name."""
    return {name: number(value) for name, value in values.items()}


def labelled(targets: Tensor) -> Tensor:
    """(N,) bool, the rows that carry a label."""
    return (targets > 0).any(1)


SIGMOID, SOFTMAX, OWN_LINK = "sigmoid", "softmax", "own link"
MOVING_AVERAGE, TEMPERATURE, CALIBRATED = "moving average", "temperature", "calibrated"


@dataclass(frozen=True)
class Reading:
    """One way to read the scores of a run.

    Attributes:
        means: What turns scores into log-odds: a link, or a calibrator that was fitted on "val".
        scores: (N, K) of "val" and "test".
        preserves_order: Whether all cells rank as their scores do, because one strictly increasing map is used for all.
    """

    means: Link | Calibrator
    scores: dict[str, Tensor]
    preserves_order: bool = False

    def log_odds(self, split: str = "test") -> Tensor:
        """(N, K); they rank like the probabilities, and do not round to 0 or 1."""
        return self.means.log_odds(self.scores[split])

    def ranking(self, split: str = "test") -> Tensor:
        """(N, K), to find the first labels by: as log-odds, but scores that a link clips to 0 or 1 do not tie."""
        scores = self.scores[split]
        return bounded_log_odds(self.means, scores) if isinstance(self.means, Link) else self.means.log_odds(scores)

    def probs(self, split: str = "test") -> Tensor:
        """(N, K)."""
        return torch.sigmoid(self.log_odds(split))


def ignores_constants(loss: Loss) -> bool:
    """Whether the loss is the same after adding a constant to a row, so that only a softmax compares rows."""
    return reading_of(loss) == "log-softmax" or isinstance(loss.link, SoftmaxLink) or isinstance(loss, NoisedTopKLoss)


def comparable(output: RunOutput) -> dict[str, Tensor]:
    """Scores (N, K) of each split that can be compared from row to row, on the CPU."""
    plain = {split: _wide(scores).cpu() for split, scores in output.scores.items()}
    if not ignores_constants(output.loss):
        return plain
    return {split: scores.log_softmax(1) for split, scores in plain.items()}


def own_reading(loss: Loss) -> str:
    """The name of the reading that belongs to a loss: by its link, or as the literature reads it if it has none."""
    if ignores_constants(loss):
        return SOFTMAX
    return SIGMOID if isinstance(loss.link, NoLink) or _is_plain_sigmoid(loss.link) else OWN_LINK


@torch.no_grad()
def readings(output: RunOutput, *, among: Collection[str] | None = None) -> dict[str, Reading]:
    """All ways to read the scores that make sense for the loss, by name.

    A link that is the plain sigmoid or the softmax is listed under that name alone; see `own_reading`.

    Args:
        output: Of a run.
        among: Only these, as far as they apply; fitting unused ones costs time.
    """
    scores, targets, loss = comparable(output), output.targets["val"].cpu(), output.loss

    def requested(name: str) -> bool:
        return among is None or name in among

    interpretations: dict[str, Link | Calibrator] = {}
    if requested(SOFTMAX) and ignores_constants(loss):
        interpretations[SOFTMAX] = SoftmaxLink()
    if requested(SIGMOID) and not ignores_constants(loss):
        interpretations[SIGMOID] = SigmoidLink()
    if requested(OWN_LINK) and own_reading(loss) == OWN_LINK:
        interpretations[OWN_LINK] = loss.link
    if requested(MOVING_AVERAGE) and output.moving_link is not None:
        interpretations[MOVING_AVERAGE] = output.moving_link
    if requested(TEMPERATURE):
        interpretations[TEMPERATURE] = _temperature(loss, scores["val"], targets)
    if requested(CALIBRATED):
        interpretations[CALIBRATED] = BetaCalibration(link=loss.link).fit(scores["val"], targets)
    # A temperature on the scores of a row changes how rows compare after a softmax.
    in_order = {SOFTMAX} if ignores_constants(loss) else {SIGMOID, TEMPERATURE}
    return {name: Reading(means, scores, name in in_order) for name, means in interpretations.items()}


def _temperature(loss: Loss, scores: Tensor, targets: Tensor) -> Calibrator:
    """One temperature for all labels."""
    if not ignores_constants(loss):
        return TemperatureScaling(sharing="all").fit(scores, targets)
    # A row of several labels stands once for each, sharing one weight: just as the softmax loss shares its target.
    rows, columns = (targets > 0).nonzero(as_tuple=True)
    single = torch.where(targets[rows] < 0, -1, one_hot(columns, targets.shape[1]))
    weights = 1 / (targets > 0).sum(1)[rows]
    return SoftmaxTemperature().fit(scores[rows], single, weights=weights)


def _is_plain_sigmoid(link: Link) -> bool:
    return isinstance(link, SigmoidLink) and link.pos_weight is None


def _wide(scores: Tensor) -> Tensor:
    return scores.detach() if scores.dtype == torch.float64 else scores.detach().float()


# Less than the logarithm of any number; a row in which no label is possible then favours none.
IMPOSSIBLE = -1e4


def one_label(output: RunOutput) -> dict[str, Any]:
    """Top-1 and top-5 error, and by reading the log loss and the calibration error of the first guess.

    Probabilities of a row are divided by their sum, since one label is known to be present. Rows without a label are
    left out. "log_loss" and "ece" are those of the reading named "own".
    """
    targets = output.targets["test"].cpu()
    rows = labelled(targets)
    if bool(((targets > 0).sum(1) > 1).any()):
        hint = "Evaluate them by `many_label`."
        raise InputError("output", "one_label", "have at most one label per row", "a row with several", hint)
    ranked = RankingAtK((1, 5)).update(comparable(output)["test"][rows], targets[rows]).compute()
    own = own_reading(output.loss)
    by_reading = {name: _one_label_figures(reading, targets, rows) for name, reading in readings(output).items()}
    return {
        "rows": int(rows.sum()),
        "top1_error": number(1 - ranked["recall@1"]),
        "top5_error": number(1 - ranked["recall@5"]),
        "own": own,
        "log_loss": by_reading[own]["log_loss"],
        "ece": by_reading[own]["ece"],
        "readings": by_reading,
    }


def normalised(log_odds: Tensor) -> Tensor:
    """(N, K), probabilities that sum to 1 in each row."""
    return F.logsigmoid(log_odds).clamp(min=IMPOSSIBLE).softmax(1)


def _one_label_figures(reading: Reading, targets: Tensor, rows: Tensor) -> dict[str, Any]:
    targets = targets[rows]
    probs = normalised(reading.log_odds()[rows])
    first = reading.ranking()[rows].argmax(1, keepdim=True)
    confidence, right = probs.gather(1, first), targets.gather(1, first)
    of_label = probs[targets > 0].unsqueeze(1)
    return {
        "top1_error": number((right == 0).double().mean()),
        "log_loss": number(LogLoss().update(of_label, torch.ones_like(of_label)).compute().value),
        "ece": number(CalibrationError(15).update(confidence, right).compute()["ece"]),
    }


def zero_label(output: RunOutput) -> dict[str, Any]:
    """By reading: accuracy on rows with labels, and how well the largest probability detects rows without.

    "accuracy" is the share of rows with a label (IN) whose most probable label is present, "mmc" the mean of the
    largest probability over rows without (OUT).
    """
    targets = output.targets["test"].cpu()
    inside = int(labelled(targets).sum())
    return {
        "rows_in": inside,
        "rows_out": len(targets) - inside,
        "own": own_reading(output.loss),
        "readings": {name: _zero_label_figures(reading, targets) for name, reading in readings(output).items()},
    }


def _zero_label_figures(reading: Reading, targets: Tensor) -> dict[str, Any]:
    log_odds = reading.log_odds()
    # By log-odds, which order rows as probabilities do, and still differ where probabilities round to 1.
    detection = OpenSetScores().update(log_odds, targets).compute()
    return {
        "accuracy": number(RankingAtK((1,)).update(reading.ranking(), targets).compute()["precision@1"]),
        "mmc": number(OpenSetScores().update(torch.sigmoid(log_odds), targets).compute()["mmc"]),
        "auroc": number(detection["auroc"]),
        "fpr95": number(detection["fpr95"]),
    }


TOP = 4
CALIBRATION_BINS, TOP_BINS = 15, 10


def many_label(output: RunOutput) -> dict[str, Any]:
    """Average precision and F1 of the scores, and by reading the errors of the probabilities, with reliability bins.

    Both definitions of "macro F1" at the first four labels are included: the mean of the F1 of labels ("f1_top4"), and
    the F1 of mean precision and mean recall ("f1_of_means_top4").
    """
    scores, targets = comparable(output)["test"], output.targets["test"].cpu()
    first = FScores().update(TopK(TOP)(scores), targets).compute()
    precision = _precision(scores, targets)
    return {
        "rows": len(targets),
        "labels": targets.shape[1],
        **precision,
        "f1_top4": number(first["macro_f"]),
        "f1_of_means_top4": number(first["f_of_means"]),
        "f1_supported_top4": number(first["macro_f_supported"]),
        "own": own_reading(output.loss),
        "readings": {
            name: _many_label_figures(reading, targets, precision) for name, reading in readings(output).items()
        },
    }


def _precision(values: Tensor, targets: Tensor) -> dict[str, float | None]:
    return {
        "map_class": number(MeanAveragePrecision("macro").update(values, targets).compute().value),
        "map_sample": number(MeanAveragePrecision("samples").update(values, targets).compute().value),
    }


def _many_label_figures(reading: Reading, targets: Tensor, precision: dict[str, float | None]) -> dict[str, Any]:
    log_odds = reading.log_odds()
    probs = torch.sigmoid(log_odds)
    bins = CalibrationError(CALIBRATION_BINS).update(probs, targets).compute()
    log_loss = LogLoss().update(probs, targets).compute()
    return {
        "ece": number(bins["ece"]),
        "ace": number(bins["ace"]),
        "mce": number(bins["mce"]),
        "ece_top4": number(CalibrationError(TOP_BINS, top_k=TOP).update(probs, targets).compute()["ece"]),
        "log_loss": number(log_loss["log_loss_per_row"]),
        "brier": number(BrierScore().update(probs, targets).compute()["brier_per_row"]),
        "certain_and_wrong": log_loss.counts["cells certain and wrong"],
        # By log-odds, so that only ties of the reading count, not those of rounding.
        **(precision if reading.preserves_order else _precision(log_odds, targets)),
        "bins": {
            "count": bins.details["cells"].tolist(),
            "mean_prob": numbers(bins.details["mean_prob"]),
            "share_present": numbers(bins.details["share_present"]),
        },
    }


RETRIEVAL_READINGS = (SIGMOID, SOFTMAX, OWN_LINK, CALIBRATED)
QUERIES_PER_KIND, MAX_QUERY_LABELS, QUERY_SEED = 600, 5, 0


def retrieval(
    output: RunOutput,
    *,
    each: int = QUERIES_PER_KIND,
    most: int = MAX_QUERY_LABELS,
    seed: int = QUERY_SEED,
    device: str | None = None,
) -> dict[str, Any]:
    """Mean average precision of queries by how many labels they name, with 95 % intervals, by reading.

    All runs with the same number of labels get the same queries. "more" is the difference between each reading and
    the plain one, query by query.

    Args:
        output: Of a run.
        each: How many queries are drawn of each kind: a number of present and a number of absent labels.
        most: How many labels a query may name.
        seed: Of the draw.
        device: Where queries are evaluated; a GPU if available, which is many times faster.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    targets = output.targets["test"].to(device)
    queries = RetrievalCurve(most, each=each, seed=seed).queries(targets.shape[1])
    by_reading, by_query = {}, {}
    for name, reading in readings(output, among=RETRIEVAL_READINGS).items():
        curve = RetrievalCurve(most, each=each, seed=seed).update(reading.log_odds().to(device), targets).compute()
        by_query[name] = curve.details["by_query"].cpu()
        by_reading[name] = {"map": number(curve["map"])} | {
            key: numbers(curve.details[key]) for key in ("interval", "by_length", "low", "high")
        }
        by_reading[name] |= {key: curve.details[key].tolist() for key in ("queries", "without_matches")}
    plain = next(iter(by_query))
    more = {
        name: stratified_mean(values - by_query[plain], queries, targets.shape[1])
        for name, values in by_query.items()
        if name != plain
    }
    return {
        "each": each,
        "seed": seed,
        "plain": plain,
        "own": own_reading(output.loss),
        "readings": by_reading,
        "more": {
            name: {"map": number(gap.value), "interval": [number(gap.low), number(gap.high)]}
            for name, gap in more.items()
        },
    }


KS = (2, 3, 5, 10)
FEW_SHOTS, MANY_SHOTS = 20, 100
# Sets of this many labels and more share the last bin of a histogram.
LARGEST_SET = 50


def average_k(output: RunOutput) -> dict[str, Any]:
    """By activation and K: accuracy, mean set size, accuracy by training images of the label, and a histogram of sizes.

    The paper applies a softmax to the scores of every model, though some are trained with sigmoids. Both are evaluated;
    "trained" says which one belongs to the loss. "top_k" is the accuracy of sets of exactly K labels.
    """
    # In float64, where a softmax of confident scores keeps its order longer.
    scores = {split: values.double().cpu() for split, values in output.scores.items()}
    targets, counts = output.targets["test"].cpu(), output.counts.cpu()
    ks = [k for k in KS if k <= targets.shape[1]]
    ranked = RankingAtK(ks).update(scores["test"], targets).compute() if ks else None
    activations: dict[str, Callable[[Tensor], Tensor]] = {
        SOFTMAX: lambda values: values.softmax(1),
        SIGMOID: torch.sigmoid,
    }
    return {
        "trained": SOFTMAX if ignores_constants(output.loss) else SIGMOID,
        "top_k": {str(k): number(ranked[f"recall@{k}"]) for k in ks} if ranked else {},
        "activations": {
            name: {
                str(k): _average_k_figures(k, activate(scores["val"]), activate(scores["test"]), targets, counts)
                for k in ks
            }
            for name, activate in activations.items()
        },
    }


def _average_k_figures(k: int, val: Tensor, test: Tensor, targets: Tensor, counts: Tensor) -> dict[str, Any]:
    rule = AverageK(k).fit(val)
    result = AverageKAccuracy(k, threshold=rule.threshold).update(test, targets).compute()
    by_label = FScores().update(rule(test), targets).compute().details
    # The recall of a label that no row carries is undefined; the metric gives 0.
    recall = torch.where(by_label["present"] > 0, by_label["recall"], math.nan)
    shots = by_shots(recall, counts, few=FEW_SHOTS, many=MANY_SHOTS)
    sizes = result.details["sizes"]
    return {
        "accuracy": number(result["accuracy"]),
        "mean_size": number(result["mean_size"]),
        "threshold": number(rule.threshold),
        **named(shots.values),
        "labels": {group: shots.counts[group] for group in shots.values},
        "sizes": [*sizes[:LARGEST_SET].tolist(), int(sizes[LARGEST_SET:].sum())]
        if len(sizes) > LARGEST_SET
        else sizes.tolist(),
    }


HISTOGRAM_BINS = 60


def uniform(output: RunOutput) -> dict[str, Any]:
    """Sample-wise, class-wise and uniform accuracy of scores and of their softmax, with thresholds and histograms.

    "t_star" is the threshold that is best on the test rows; "honest_accuracy" is reached with the one that is best on
    "val". Scores include the bias of the head, so that their learned threshold is 0, or that of the class-wise loss;
    "gap" is "t_star" less it. "learned_threshold" is the one for scores without the bias, the mean over labels.
    """
    values = value_kinds(output)
    targets = {split: result.cpu() for split, result in output.targets.items()}
    figures = {kind: _uniform_figures(parts, targets) for kind, parts in values.items()}
    best = figures["scores"]["t_star"]
    loss = output.loss
    of_loss = float(loss.bias.detach().mean()) if isinstance(loss, ClassWiseLoss) else None
    learned = [threshold for threshold in (of_loss, head_threshold(output.head)) if threshold is not None]
    return figures | {
        "gap": None if best is None else number(best - (of_loss or 0.0)),
        "learned_threshold": number(sum(learned)) if learned else None,
    }


def value_kinds(output: RunOutput) -> dict[str, dict[str, Tensor]]:
    """Scores and their softmax of "val" and "test", in float64, where fewer probabilities round to 1."""
    scores = {split: values.double().cpu() for split, values in output.scores.items()}
    return {"scores": scores, "softmax": {split: values.softmax(1) for split, values in scores.items()}}


def fitted_threshold(values: Tensor, targets: Tensor) -> UniformThreshold:
    """The one threshold that gets most rows right, of those that carry a label."""
    rows = labelled(targets)
    return UniformThreshold().fit(values[rows], targets[rows])


def head_threshold(head: nn.Module) -> float | None:
    """The mean of the learned thresholds of a head; None if it has no bias."""
    if isinstance(head, TwoHeads):
        head = head.multi
    elif isinstance(head, MLPHead):
        head = head.last
    return number(head.threshold().mean()) if isinstance(head, Head) and head.bias is not None else None


def _uniform_figures(values: dict[str, Tensor], targets: dict[str, Tensor]) -> dict[str, Any]:
    rows = labelled(targets["test"])
    test, test_targets = values["test"][rows], targets["test"][rows]
    result = UniformAccuracy().update(test, test_targets).compute()
    rule = fitted_threshold(values["val"], targets["val"])
    return {
        "sample_wise": number(result["sample_wise_accuracy"]),
        "class_wise": number(result["class_wise_accuracy"]),
        "uniform": number(result["uniform_accuracy"]),
        "t_star": number(result["threshold"]),
        "val_threshold": number(rule.threshold),
        "honest_accuracy": number(SetAccuracy().update(rule(test), test_targets).compute()["exact_match"]),
        "histogram": _histogram(*row_intervals(test, test_targets)),
    }


def _histogram(largest_other: Tensor, own: Tensor) -> dict[str, Any]:
    """Counts of the scores of present labels, and of the largest other score of each row, over the same bins."""
    both = torch.cat([own, largest_other])
    both = both[both.isfinite()]
    if not len(both):
        return {"edges": [], "own": [], "largest_other": []}
    low, high = float(both.min()), float(both.max())
    edges = torch.linspace(low, high if high > low else low + 1, HISTOGRAM_BINS + 1, dtype=torch.float64)
    return {
        "edges": numbers(edges),
        "own": _counts(own, edges),
        "largest_other": _counts(largest_other, edges),
    }


def _counts(values: Tensor, edges: Tensor) -> list[int]:
    return torch.histogram(values[values.isfinite()].double(), edges).hist.long().tolist()


def open_set(output: RunOutput) -> dict[str, Any]:
    """By scores and by their softmax: the test rows that the best threshold of labelled "val" rows accepts.

    A row is accepted as its first label if its score is strictly above the threshold. IN rows carry a label, OUT rows
    do not.
    """
    targets = {split: tensor.cpu() for split, tensor in output.targets.items()}
    inside = labelled(targets["test"])
    figures = {kind: _open_set_figures(parts, targets, inside) for kind, parts in value_kinds(output).items()}
    return {"rows_in": int(inside.sum()), "rows_out": int((~inside).sum())} | figures


def _open_set_figures(values: dict[str, Tensor], targets: dict[str, Tensor], inside: Tensor) -> dict[str, Any]:
    rule = fitted_threshold(values["val"], targets["val"])
    accepted = rule(values["test"]).labels.any(1)
    right = first_labels(values["test"], targets["test"], 1).squeeze(1) > 0
    detection = OpenSetScores().update(values["test"], targets["test"]).compute()
    accepted_in, rejected_out = _share_of_true(accepted[inside]), _share_of_true(~accepted[~inside])
    return {
        "threshold": number(rule.threshold),
        "accepted_in": number(accepted_in),
        "accepted_right_in": number(_share_of_true((accepted & right)[inside])),
        "rejected_out": number(rejected_out),
        "balanced_accuracy": number((accepted_in + rejected_out) / 2),
        "accuracy_in": number(_share_of_true(right[inside])),
        "auroc": number(detection["auroc"]),
        "fpr95": number(detection["fpr95"]),
    }


def _share_of_true(which: Tensor) -> float:
    """The share of true ones; NaN of nothing."""
    return float(which.double().mean())


TRIAL_K = 5


def trial(output: RunOutput) -> dict[str, float]:
    """The figure to choose by: mAP if rows have several labels, else accuracy of sets, or of detecting empty rows.

    Returns:
        "choice", the higher the better, and the figures that it is computed from.
    """
    targets = output.targets["test"]
    scores = comparable(output)
    if (targets.sum(1) > 1).any():
        figures = {"mAP": float(MeanAveragePrecision().update(scores["test"], targets).compute().value)}
        if not isinstance(output.loss.link, NoLink | QuasibinaryLink):
            probs = output.loss.link.probs(output.scores["test"])
            figures["log loss"] = float(LogLoss().update(probs, targets).compute().value)
        return {"choice": figures["mAP"], **figures}
    inside = targets.sum(1) > 0
    right = scores["test"][inside].argmax(1) == targets[inside].argmax(1)
    accuracy = float(right.float().mean())
    if inside.all():
        metric = AverageKAccuracy(TRIAL_K).update(scores["val"], output.targets["val"]).compute()
        at_threshold = AverageKAccuracy(TRIAL_K, threshold=metric.values["threshold"])
        sets = float(at_threshold.update(scores["test"], targets).compute().values["accuracy"])
        return {"choice": sets, f"average-{TRIAL_K} accuracy": sets, "accuracy": accuracy}
    auroc = float(OpenSetScores().update(scores["test"], targets).compute().values["auroc"])
    return {"choice": (accuracy + auroc) / 2, "accuracy": accuracy, "AUROC": auroc}


METRICS: dict[str, Callable[[RunOutput], dict[str, Any]]] = {
    "one_label": one_label,
    "zero_label": zero_label,
    "many_label": many_label,
    "retrieval": retrieval,
    "average_k": average_k,
    "uniform": uniform,
    "open_set": open_set,
    "trial": trial,
}
