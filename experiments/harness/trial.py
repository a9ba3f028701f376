"""What decides between trials of hyperparameters; quick, and judged on rows that nothing else sees."""

import torch

from experiments.harness.judges.readings import comparable
from experiments.harness.training import Outcome
from manyhot.links import NoLink, QuasibinaryLink
from manyhot.metrics import AverageKAccuracy, LogLoss, MeanAveragePrecision, OpenSetScores

K = 5


def trial(outcome: Outcome) -> dict[str, float]:
    """The figure to choose by: mAP where rows have several labels, else how well sets or empty rows are told.

    Returns:
        "choice", the higher the better, and the figures that it is made of.
    """
    targets = outcome.targets["test"]
    scores = comparable(outcome)
    if (targets.sum(1) > 1).any():
        found = {"mAP": _mean_precision(scores["test"], targets)}
        if not isinstance(outcome.loss.link, NoLink | QuasibinaryLink):
            probs = outcome.loss.link.probs(outcome.scores["test"])
            found["log loss"] = float(LogLoss().update(probs, targets).compute().value)
        return {"choice": found["mAP"], **found}
    inside = targets.sum(1) > 0
    right = scores["test"][inside].argmax(1) == targets[inside].argmax(1)
    accuracy = float(right.float().mean())
    if inside.all():
        metric = AverageKAccuracy(K).update(scores["val"], outcome.targets["val"]).compute()
        held = AverageKAccuracy(K, threshold=metric.values["threshold"])
        sets = float(held.update(scores["test"], targets).compute().values["accuracy"])
        return {"choice": sets, f"average-{K} accuracy": sets, "accuracy": accuracy}
    auroc = float(OpenSetScores().update(scores["test"], targets).compute().values["auroc"])
    return {"choice": (accuracy + auroc) / 2, "accuracy": accuracy, "AUROC": auroc}


def _mean_precision(scores: torch.Tensor, targets: torch.Tensor) -> float:
    return float(MeanAveragePrecision().update(scores, targets).compute().value)
