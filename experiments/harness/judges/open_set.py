"""Rows of a kind that training never saw: rejected by the one threshold that serves the known ones."""

from typing import Any

from torch import Tensor

from experiments.harness.judges.figures import labelled, number
from experiments.harness.judges.uniform import fitted_threshold, value_kinds
from experiments.harness.training import Outcome
from manyhot.metrics import OpenSetScores
from manyhot.metrics.top_k import first_labels


def open_set(outcome: Outcome) -> dict[str, Any]:
    """By scores and by their softmax: what the threshold that is best on labelled "val" rows accepts and rejects.

    A row is accepted as its first label if that lies strictly above the threshold. IN rows carry a label, OUT rows do
    not.
    """
    targets = {split: found.cpu() for split, found in outcome.targets.items()}
    inside = labelled(targets["test"])
    judged = {kind: _judged(parts, targets, inside) for kind, parts in value_kinds(outcome).items()}
    return {"rows_in": int(inside.sum()), "rows_out": int((~inside).sum())} | judged


def _judged(values: dict[str, Tensor], targets: dict[str, Tensor], inside: Tensor) -> dict[str, Any]:
    rule = fitted_threshold(values["val"], targets["val"])
    accepted = rule(values["test"]).labels.any(1)
    right = first_labels(values["test"], targets["test"], 1).squeeze(1) > 0
    told = OpenSetScores().update(values["test"], targets["test"]).compute()
    accepted_in, rejected_out = _share(accepted[inside]), _share(~accepted[~inside])
    return {
        "threshold": number(rule.threshold),
        "accepted_in": number(accepted_in),
        "accepted_right_in": number(_share((accepted & right)[inside])),
        "rejected_out": number(rejected_out),
        "balanced_accuracy": number((accepted_in + rejected_out) / 2),
        "accuracy_in": number(_share(right[inside])),
        "auroc": number(told["auroc"]),
        "fpr95": number(told["fpr95"]),
    }


def _share(which: Tensor) -> float:
    """The share of true ones; NaN of nothing."""
    return float(which.double().mean())
