"""What the values of an evaluation are called, for people."""

from __future__ import annotations

from typing import NamedTuple

GROUPS = {
    "ranking": "Ranking",
    "probabilities": "Probabilities",
    "sets": "Sets of labels",
    "no_label": "Rows without labels",
    "one_label": "One label a row",
    "shots": "By training images",
}


class Name(NamedTuple):
    """A value for people.

    Attributes:
        title: Its name in a table.
        percent: Whether it is a share, shown in percent.
    """

    title: str
    percent: bool = True


# By the name of the value without what follows an "@".
NAMES = {
    "map": Name("mAP over labels"),
    "map_sample": Name("mAP over rows"),
    "map_cell": Name("AP of all cells (micro)"),
    "auroc": Name("AUROC over labels"),
    "auroc_cell": Name("AUROC of all cells (micro)"),
    "coverage_error": Name("coverage error", percent=False),
    "ranking_loss": Name("ranking loss"),
    "precision": Name("precision"),
    "recall": Name("recall"),
    "ndcg": Name("nDCG"),
    "ece": Name("ECE"),
    "ace": Name("ACE"),
    "mce": Name("MCE"),
    "label_ece": Name("ECE, mean over labels"),
    "label_ace": Name("ACE, mean over labels"),
    "label_mce": Name("MCE, mean over labels"),
    "top_ece": Name("ECE of the most confident"),
    "top_ace": Name("ACE of the most confident"),
    "top_mce": Name("MCE of the most confident"),
    "mass_ece": Name("ECE, bins of equal mass"),
    "mass_ace": Name("ACE, bins of equal mass"),
    "mass_mce": Name("MCE, bins of equal mass"),
    "brier": Name("Brier score", percent=False),
    "brier_per_row": Name("Brier score, sum of a row", percent=False),
    "log_loss": Name("log loss", percent=False),
    "log_loss_per_row": Name("log loss, sum of a row", percent=False),
    "micro_f": Name("F1 of all cells (micro, O-F1)"),
    "macro_f": Name("F1 over labels (macro)"),
    "macro_f_supported": Name("F1 over labels with a positive"),
    "f_of_means": Name("F1 of mean precision and recall (C-F1)"),
    "sample_f": Name("F1 over rows"),
    "micro_precision": Name("precision of all cells"),
    "micro_recall": Name("recall of all cells"),
    "macro_precision": Name("precision over labels"),
    "macro_recall": Name("recall over labels"),
    "sample_precision": Name("precision over rows"),
    "sample_recall": Name("recall over rows"),
    "exact_match": Name("exact match"),
    "jaccard": Name("Jaccard"),
    "hamming_loss": Name("Hamming loss"),
    "mean_size": Name("labels given a row", percent=False),
    "known_size": Name("labels given a row, among known cells", percent=False),
    "coverage": Name("rows answered"),
    "no_label_auroc": Name("AUROC, rows with labels against those without"),
    "aupr_in": Name("AUPR of rows with labels"),
    "aupr_out": Name("AUPR of rows without labels"),
    "fpr95": Name("false positives at 95 % recall"),
    "mmc": Name("mean maximum confidence"),
    "sample_wise_accuracy": Name("accuracy, own threshold for each row (A_SW)"),
    "class_wise_accuracy": Name("accuracy, one threshold a label (A_CW of raw scores)"),
    "uniform_accuracy": Name("accuracy, one threshold for all (A_Uni of raw scores)"),
    "uniform_threshold": Name("best threshold for all raw scores", percent=False),
    "softmax_class_wise_accuracy": Name("accuracy, one threshold a label (A_CW of log-softmax)"),
    "softmax_uniform_accuracy": Name("accuracy, one threshold for all (A_Uni of log-softmax)"),
    "softmax_uniform_threshold": Name("best threshold for all log-softmax", percent=False),
    "probs_class_wise_accuracy": Name("accuracy, one threshold a label (A_CW of probabilities)"),
    "probs_uniform_accuracy": Name("accuracy, one threshold for all (A_Uni of probabilities)"),
    "probs_uniform_threshold": Name("best threshold for all probabilities", percent=False),
    "average_k_accuracy": Name("accuracy with average-K sets"),
    "average_k_size": Name("their mean size", percent=False),
    "few_map": Name("mAP, few training images"),
    "medium_map": Name("mAP, some training images"),
    "many_map": Name("mAP, many training images"),
}


def title(name: str) -> str:
    """The name of a value in a table.

    Example:
        >>> title("ndcg@3")
        'nDCG@3'
    """
    base, at, k = name.partition("@")
    return f"{NAMES[base].title}{at}{k}"


def shown(name: str, value: float | None) -> str:
    """A value as people read it: shares in percent, and a dash for what is not defined.

    Example:
        >>> shown("map", 0.5552), shown("log_loss", 0.12345), shown("map", float("nan"))
        ('55.52 %', '0.1235', '–')
    """
    if value is None or value != value:
        return "–"
    return f"{100 * value:.2f} %" if NAMES[name.partition("@")[0]].percent else f"{value:.4g}"
