"""One threshold for all samples: how many rows it gets right, where it lies, and how far scores stand apart."""

from typing import Any

import torch
from torch import Tensor, nn

from experiments.harness.judges.figures import labelled, number, numbers
from experiments.harness.training import Outcome
from manyhot.decide import UniformThreshold
from manyhot.decide.sweep import row_intervals
from manyhot.heads import Head, HiddenHead, TwoHeads
from manyhot.losses import ClassWiseLoss
from manyhot.metrics import SetAccuracy, UniformAccuracy

BINS = 60


def uniform(outcome: Outcome) -> dict[str, Any]:
    """Sample-wise, class-wise and uniform accuracy of scores and of their softmax, with thresholds and histograms.

    "t_star" is the threshold that is best on the rows judged; "honest_accuracy" is reached with the one that is best on
    "val". Scores include the bias of the head, so that the threshold learnt for them is 0, or that of the class-wise
    loss; "gap" is how far above it the best one lies. "learned_threshold" is the one for scores without the bias, the
    mean over labels.
    """
    values = value_kinds(outcome)
    targets = {split: found.cpu() for split, found in outcome.targets.items()}
    judged = {kind: _judged(parts, targets) for kind, parts in values.items()}
    best = judged["scores"]["t_star"]
    loss = outcome.loss
    of_loss = float(loss.bias.detach().mean()) if isinstance(loss, ClassWiseLoss) else None
    learned = [threshold for threshold in (of_loss, head_threshold(outcome.head)) if threshold is not None]
    return judged | {
        "gap": None if best is None else number(best - (of_loss or 0.0)),
        "learned_threshold": number(sum(learned)) if learned else None,
    }


def value_kinds(outcome: Outcome) -> dict[str, dict[str, Tensor]]:
    """Scores and their softmax of "val" and "test", in float64, where fewer probabilities round to 1."""
    scores = {split: values.double().cpu() for split, values in outcome.scores.items()}
    return {"scores": scores, "softmax": {split: values.softmax(1) for split, values in scores.items()}}


def fitted_threshold(values: Tensor, targets: Tensor) -> UniformThreshold:
    """The one threshold that gets most rows right, of those that carry a label."""
    rows = labelled(targets)
    return UniformThreshold().fit(values[rows], targets[rows])


def head_threshold(head: nn.Module) -> float | None:
    """The mean of the thresholds that the head has learnt; None if it has no bias."""
    if isinstance(head, TwoHeads):
        head = head.multi
    elif isinstance(head, HiddenHead):
        head = head.last
    return number(head.threshold().mean()) if isinstance(head, Head) and head.bias is not None else None


def _judged(values: dict[str, Tensor], targets: dict[str, Tensor]) -> dict[str, Any]:
    rows = labelled(targets["test"])
    test, truth = values["test"][rows], targets["test"][rows]
    found = UniformAccuracy().update(test, truth).compute()
    rule = fitted_threshold(values["val"], targets["val"])
    return {
        "sample_wise": number(found["sample_wise_accuracy"]),
        "class_wise": number(found["class_wise_accuracy"]),
        "uniform": number(found["uniform_accuracy"]),
        "t_star": number(found["threshold"]),
        "val_threshold": number(rule.threshold),
        "honest_accuracy": number(SetAccuracy().update(rule(test), truth).compute()["exact_match"]),
        "histogram": _histogram(*row_intervals(test, truth)),
    }


def _histogram(largest_other: Tensor, own: Tensor) -> dict[str, Any]:
    """Counts of the scores of present labels, and of the largest other score of each row, over the same bins."""
    both = torch.cat([own, largest_other])
    both = both[both.isfinite()]
    if not len(both):
        return {"edges": [], "own": [], "largest_other": []}
    low, high = float(both.min()), float(both.max())
    edges = torch.linspace(low, high if high > low else low + 1, BINS + 1, dtype=torch.float64)
    return {
        "edges": numbers(edges),
        "own": _counts(own, edges),
        "largest_other": _counts(largest_other, edges),
    }


def _counts(values: Tensor, edges: Tensor) -> list[int]:
    return torch.histogram(values[values.isfinite()].double(), edges).hist.long().tolist()
