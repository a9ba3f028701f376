"""Sets of K labels on average, cut at one threshold for all rows that was found on "val"."""

import math
from typing import Any

import torch
from torch import Tensor

from experiments.harness.judges.figures import named, number
from experiments.harness.judges.readings import SIGMOID, SOFTMAX, ignores_constants
from experiments.harness.training import Outcome
from manyhot.decide import AverageK
from manyhot.metrics import AverageKAccuracy, FScores, RankingAtK, by_shots

KS = (2, 3, 5, 10)
FEW, MANY = 20, 100
# Sets of this many labels and more share the last place of a histogram.
LARGEST = 50


def average_k(outcome: Outcome) -> dict[str, Any]:
    """By activation and K: accuracy, mean set size, accuracy by training images of the label, and a histogram of sizes.

    The paper applies a softmax to the scores of every model, though some are trained with sigmoids. Both are judged;
    "trained" says which one belongs to the loss. "top_k" is the accuracy of sets of exactly K labels.
    """
    # In float64, where a softmax of confident scores keeps its order longer.
    scores = {split: values.double().cpu() for split, values in outcome.scores.items()}
    targets, counts = outcome.targets["test"].cpu(), outcome.counts.cpu()
    ks = [k for k in KS if k <= targets.shape[1]]
    ranked = RankingAtK(ks).update(scores["test"], targets).compute() if ks else None
    activations = {SOFTMAX: lambda values: values.softmax(1), SIGMOID: torch.sigmoid}
    return {
        "trained": SOFTMAX if ignores_constants(outcome.loss) else SIGMOID,
        "top_k": {str(k): number(ranked[f"recall@{k}"]) for k in ks} if ranked else {},
        "activations": {
            name: {str(k): _judged(k, activate(scores["val"]), activate(scores["test"]), targets, counts) for k in ks}
            for name, activate in activations.items()
        },
    }


def _judged(k: int, val: Tensor, test: Tensor, targets: Tensor, counts: Tensor) -> dict[str, Any]:
    rule = AverageK(k).fit(val)
    found = AverageKAccuracy(k, threshold=rule.threshold).update(test, targets).compute()
    by_label = FScores().update(rule(test), targets).compute().details
    # A label that no row carries has nothing to be found; the metric calls that a recall of 0.
    recall = torch.where(by_label["present"] > 0, by_label["recall"], math.nan)
    shots = by_shots(recall, counts, few=FEW, many=MANY)
    sizes = found.details["sizes"]
    return {
        "accuracy": number(found["accuracy"]),
        "mean_size": number(found["mean_size"]),
        "threshold": number(rule.threshold),
        **named(shots.values),
        "labels": {group: shots.counts[group] for group in shots.values},
        "sizes": [*sizes[:LARGEST].tolist(), int(sizes[LARGEST:].sum())] if len(sizes) > LARGEST else sizes.tolist(),
    }
