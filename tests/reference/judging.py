"""How the test vectors of probabilities and sets are computed: case in, named results out."""

import torch

from manyhot.metrics import CalibrationError, FScores
from manyhot.metrics.calibration import most_confident


def calibration(case):
    probs, bins = case.tensor("probs"), case.params["n_bins"]
    pooled = CalibrationError(bins).update(probs, case.targets)
    by_label = CalibrationError(bins, average="macro").update(probs, case.targets).compute()
    outcome = pooled.compute()
    cells = outcome.details["cells"]
    return outcome.values | {
        "bin_count": cells,
        "bin_positive": pooled.total("bins")[1, 0],
        "bin_prob_sum": torch.where(cells > 0, outcome.details["mean_prob"] * cells, 0.0),
        "per_class": {name: by_label.details[name] for name in by_label.values},
        "mean_over_classes": by_label.values,
    }


def topk_calibration(case):
    probs, k = case.tensor("probs"), case.params["k"]
    chosen = most_confident(probs, case.targets, k) >= 0
    order = torch.where(chosen, probs, -1.0).sort(dim=1, descending=True, stable=True).indices
    values = CalibrationError(case.params["n_bins"], top_k=k).update(probs, case.targets).compute().values
    return values | {"indices": order[:, : int(chosen.sum(1).max())]}


def topk_f1(case):
    scores, k = case.tensor("scores"), case.params["k"]
    order = scores.sort(dim=1, descending=True, stable=True).indices[:, :k]
    decisions = torch.zeros_like(scores, dtype=torch.bool).scatter(1, order, True)
    outcome = FScores().update(decisions, case.targets).compute()
    return {
        "predicted": [row.nonzero().flatten() for row in decisions],
        "f1": outcome.details["f"],
        "precision": outcome.details["precision"],
        "recall": outcome.details["recall"],
        "macro_f1": outcome["macro_f"],
        "macro_f1_supported": outcome["macro_f_supported"],
        "f1_of_means": outcome["f_of_means"],
    }


COVERED = {"calibration": calibration, "topk_calibration": topk_calibration, "topk_f1": topk_f1}
