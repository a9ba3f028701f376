"""The catalogue of all metric values: titles, units, directions and explanations, in the order of tables."""

from __future__ import annotations

from typing import NamedTuple

GROUP_TITLES = {
    "ranking": "Ranking",
    "probabilities": "Probabilities",
    "sets": "Sets of labels",
    "no_label": "Rows without labels",
    "one_label": "One label per row",
    "shots": "By training images",
}


class MetricInfo(NamedTuple):
    """A value for people.

    Attributes:
        title: Its name in a table.
        help: What it says, of the values that a report shows first; {noun} stands for what a row is.
        percent: Whether it is a share, shown in percent.
        higher_is_better: Its direction; None for a size or a threshold, which has none.
    """

    title: str
    help: str = ""
    percent: bool = True
    higher_is_better: bool | None = True


def _error(title: str, help: str = "", *, percent: bool = True) -> MetricInfo:
    return MetricInfo(title, help, percent, higher_is_better=False)


def _number(title: str, help: str = "") -> MetricInfo:
    return MetricInfo(title, help, percent=False, higher_is_better=None)


# By group, and by the name of the value without what follows an "@".
METRICS_BY_GROUP = {
    "ranking": {
        "map": MetricInfo("mAP over labels", "{noun}s with a label rank above those without it, mean over labels"),
        "map_sample": MetricInfo("mAP over rows", "labels of each {noun} rank above the others, mean over {noun}s"),
        "map_cell": MetricInfo("AP of all cells (micro)", "all cells in one ranking"),
        "auroc": MetricInfo("AUROC over labels", "chance that one with a label ranks above one without it"),
        "auroc_cell": MetricInfo("AUROC of all cells (micro)"),
        "coverage_error": _error("coverage error", percent=False),
        "ranking_loss": _error("ranking loss"),
        "precision": MetricInfo("precision"),
        "recall": MetricInfo("recall"),
        "ndcg": MetricInfo("nDCG"),
    },
    "probabilities": {
        "ece": _error("ECE", "how far probabilities are off, mean over cells"),
        "ace": _error("ACE", "how far probabilities are off, mean over bins"),
        "mce": _error("MCE"),
        "label_ece": _error("ECE, mean over labels"),
        "label_ace": _error("ACE, mean over labels"),
        "label_mce": _error("MCE, mean over labels"),
        "top_ece": _error("ECE of the most confident"),
        "top_ace": _error("ACE of the most confident"),
        "top_mce": _error("MCE of the most confident"),
        "mass_ece": _error("ECE, bins of equal mass"),
        "mass_ace": _error("ACE, bins of equal mass"),
        "mass_mce": _error("MCE, bins of equal mass"),
        "brier": _error("Brier score", "mean squared error of the probabilities, less is better", percent=False),
        "brier_per_row": _error("Brier score, sum of a row", percent=False),
        "log_loss": _error("log loss", percent=False),
        "log_loss_per_row": _error(
            "log loss, sum of a row", "log loss of the probabilities per {noun}, less is better", percent=False
        ),
    },
    "sets": {
        "micro_f": MetricInfo("F1 of all cells (micro, O-F1)", "precision and recall of all cells in one figure"),
        "macro_f": MetricInfo("F1 over labels (macro)", "the same of each label, mean over labels"),
        "macro_f_supported": MetricInfo("F1 over labels with a positive"),
        "f_of_means": MetricInfo("F1 of mean precision and recall (C-F1)"),
        "sample_f": MetricInfo("F1 over rows"),
        "micro_precision": MetricInfo("precision of all cells", "share of predicted labels that are right"),
        "micro_recall": MetricInfo("recall of all cells", "share of true labels that are predicted"),
        "macro_precision": MetricInfo("precision over labels"),
        "macro_recall": MetricInfo("recall over labels"),
        "sample_precision": MetricInfo("precision over rows"),
        "sample_recall": MetricInfo("recall over rows"),
        "exact_match": MetricInfo("exact match", "{noun}s with exactly the right labels"),
        "jaccard": MetricInfo("Jaccard"),
        "hamming_loss": _error("Hamming loss"),
        "mean_size": _number("labels predicted per row", "mean number of labels"),
        "known_size": _number("labels predicted per row, among known cells", "the same of those whose truth is known"),
        "coverage": MetricInfo("rows answered", "share of {noun}s on which the rule does not abstain"),
    },
    "no_label": {
        "no_label_auroc": MetricInfo(
            "AUROC, rows with labels against those without", "chance that one with labels has the higher top confidence"
        ),
        "aupr_in": MetricInfo("AUPR of rows with labels"),
        "aupr_out": MetricInfo("AUPR of rows without labels"),
        "fpr95": _error("false positives at 95 % recall"),
        "mmc": _error("mean maximum confidence", "mean top confidence in {noun}s without labels, less is better"),
    },
    "one_label": {
        "sample_wise_accuracy": MetricInfo(
            "accuracy, own threshold for each row (A_SW)", "the label has the highest score of its {noun}"
        ),
        "class_wise_accuracy": MetricInfo(
            "accuracy, one threshold per label (A_CW of raw scores)",
            "and one threshold per class separates it from the others",
        ),
        "uniform_accuracy": MetricInfo(
            "accuracy, one threshold for all (A_Uni of raw scores)",
            "and one threshold for all separates it from the others",
        ),
        "uniform_threshold": _number("best threshold for all raw scores"),
        "softmax_class_wise_accuracy": MetricInfo("accuracy, one threshold per label (A_CW of log-softmax)"),
        "softmax_uniform_accuracy": MetricInfo(
            "accuracy, one threshold for all (A_Uni of log-softmax)",
            "the same by log-probabilities, so that losses can be compared",
        ),
        "softmax_uniform_threshold": _number("best threshold for all log-softmax"),
        "probs_class_wise_accuracy": MetricInfo("accuracy, one threshold per label (A_CW of probabilities)"),
        "probs_uniform_accuracy": MetricInfo("accuracy, one threshold for all (A_Uni of probabilities)"),
        "probs_uniform_threshold": _number("best threshold for all probabilities"),
        "average_k_accuracy": MetricInfo("accuracy with average-K sets"),
        "average_k_size": _number("their mean size"),
    },
    "shots": {
        "few_map": MetricInfo("mAP, few training images"),
        "medium_map": MetricInfo("mAP, some training images"),
        "many_map": MetricInfo("mAP, many training images"),
    },
}
METRIC_INFO = {name: info for metrics in METRICS_BY_GROUP.values() for name, info in metrics.items()}


def metric_info(name: str) -> MetricInfo:
    """What the catalogue says of a value, such as "ndcg@3"."""
    return METRIC_INFO[name.partition("@")[0]]


def metric_title(name: str) -> str:
    """The name of a value in a table.

    Example:
        >>> metric_title("ndcg@3")
        'nDCG@3'
    """
    _, at, k = name.partition("@")
    return f"{metric_info(name).title}{at}{k}"


def format_value(name: str, value: float | None) -> str:
    """A value as people read it: shares in percent, and a dash for what is not defined.

    Example:
        >>> format_value("map", 0.5552), format_value("log_loss", 0.12345), format_value("map", float("nan"))
        ('55.52 %', '0.1235', '–')
    """
    if value is None or value != value:
        return "–"
    return f"{100 * value:.2f} %" if metric_info(name).percent else f"{value:.4g}"
