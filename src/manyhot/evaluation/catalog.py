"""Titles and units of all metric values."""

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
        percent: Whether it is a share, shown in percent.
    """

    title: str
    percent: bool = True


# By the name of the value without what follows an "@".
METRIC_INFO = {
    "map": MetricInfo("mAP over labels"),
    "map_sample": MetricInfo("mAP over rows"),
    "map_cell": MetricInfo("AP of all cells (micro)"),
    "auroc": MetricInfo("AUROC over labels"),
    "auroc_cell": MetricInfo("AUROC of all cells (micro)"),
    "coverage_error": MetricInfo("coverage error", percent=False),
    "ranking_loss": MetricInfo("ranking loss"),
    "precision": MetricInfo("precision"),
    "recall": MetricInfo("recall"),
    "ndcg": MetricInfo("nDCG"),
    "ece": MetricInfo("ECE"),
    "ace": MetricInfo("ACE"),
    "mce": MetricInfo("MCE"),
    "label_ece": MetricInfo("ECE, mean over labels"),
    "label_ace": MetricInfo("ACE, mean over labels"),
    "label_mce": MetricInfo("MCE, mean over labels"),
    "top_ece": MetricInfo("ECE of the most confident"),
    "top_ace": MetricInfo("ACE of the most confident"),
    "top_mce": MetricInfo("MCE of the most confident"),
    "mass_ece": MetricInfo("ECE, bins of equal mass"),
    "mass_ace": MetricInfo("ACE, bins of equal mass"),
    "mass_mce": MetricInfo("MCE, bins of equal mass"),
    "brier": MetricInfo("Brier score", percent=False),
    "brier_per_row": MetricInfo("Brier score, sum of a row", percent=False),
    "log_loss": MetricInfo("log loss", percent=False),
    "log_loss_per_row": MetricInfo("log loss, sum of a row", percent=False),
    "micro_f": MetricInfo("F1 of all cells (micro, O-F1)"),
    "macro_f": MetricInfo("F1 over labels (macro)"),
    "macro_f_supported": MetricInfo("F1 over labels with a positive"),
    "f_of_means": MetricInfo("F1 of mean precision and recall (C-F1)"),
    "sample_f": MetricInfo("F1 over rows"),
    "micro_precision": MetricInfo("precision of all cells"),
    "micro_recall": MetricInfo("recall of all cells"),
    "macro_precision": MetricInfo("precision over labels"),
    "macro_recall": MetricInfo("recall over labels"),
    "sample_precision": MetricInfo("precision over rows"),
    "sample_recall": MetricInfo("recall over rows"),
    "exact_match": MetricInfo("exact match"),
    "jaccard": MetricInfo("Jaccard"),
    "hamming_loss": MetricInfo("Hamming loss"),
    "mean_size": MetricInfo("labels predicted per row", percent=False),
    "known_size": MetricInfo("labels predicted per row, among known cells", percent=False),
    "coverage": MetricInfo("rows answered"),
    "no_label_auroc": MetricInfo("AUROC, rows with labels against those without"),
    "aupr_in": MetricInfo("AUPR of rows with labels"),
    "aupr_out": MetricInfo("AUPR of rows without labels"),
    "fpr95": MetricInfo("false positives at 95 % recall"),
    "mmc": MetricInfo("mean maximum confidence"),
    "sample_wise_accuracy": MetricInfo("accuracy, own threshold for each row (A_SW)"),
    "class_wise_accuracy": MetricInfo("accuracy, one threshold per label (A_CW of raw scores)"),
    "uniform_accuracy": MetricInfo("accuracy, one threshold for all (A_Uni of raw scores)"),
    "uniform_threshold": MetricInfo("best threshold for all raw scores", percent=False),
    "softmax_class_wise_accuracy": MetricInfo("accuracy, one threshold per label (A_CW of log-softmax)"),
    "softmax_uniform_accuracy": MetricInfo("accuracy, one threshold for all (A_Uni of log-softmax)"),
    "softmax_uniform_threshold": MetricInfo("best threshold for all log-softmax", percent=False),
    "probs_class_wise_accuracy": MetricInfo("accuracy, one threshold per label (A_CW of probabilities)"),
    "probs_uniform_accuracy": MetricInfo("accuracy, one threshold for all (A_Uni of probabilities)"),
    "probs_uniform_threshold": MetricInfo("best threshold for all probabilities", percent=False),
    "average_k_accuracy": MetricInfo("accuracy with average-K sets"),
    "average_k_size": MetricInfo("their mean size", percent=False),
    "few_map": MetricInfo("mAP, few training images"),
    "medium_map": MetricInfo("mAP, some training images"),
    "many_map": MetricInfo("mAP, many training images"),
}


def metric_title(name: str) -> str:
    """The name of a value in a table.

    Example:
        >>> metric_title("ndcg@3")
        'nDCG@3'
    """
    base, at, k = name.partition("@")
    return f"{METRIC_INFO[base].title}{at}{k}"


def format_value(name: str, value: float | None) -> str:
    """A value as people read it: shares in percent, and a dash for what is not defined.

    Example:
        >>> format_value("map", 0.5552), format_value("log_loss", 0.12345), format_value("map", float("nan"))
        ('55.52 %', '0.1235', '–')
    """
    if value is None or value != value:
        return "–"
    return f"{100 * value:.2f} %" if METRIC_INFO[name.partition("@")[0]].percent else f"{value:.4g}"
