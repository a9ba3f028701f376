"""Rows with any number of labels: how well they are ranked, and whether probabilities come true."""

from typing import Any

import torch
from torch import Tensor

from experiments.harness.judges.figures import number, numbers
from experiments.harness.judges.readings import Reading, comparable, own_reading, readings
from experiments.harness.training import Outcome
from manyhot.decide import TopK
from manyhot.metrics import BrierScore, CalibrationError, FScores, LogLoss, MeanAveragePrecision

TOP = 4
BINS, TOP_BINS = 15, 10


def many_label(outcome: Outcome) -> dict[str, Any]:
    """Average precision and F1 of the scores, and by reading the errors of the probabilities, with reliability bins.

    Both meanings of "macro F1" at the first four labels are there: the mean of the F1 of labels ("f1_top4"), and the
    F1 of mean precision and mean recall ("f1_of_means_top4").
    """
    scores, targets = comparable(outcome)["test"], outcome.targets["test"].cpu()
    first = FScores().update(TopK(TOP)(scores), targets).compute()
    precision = _precision(scores, targets)
    return {
        "rows": len(targets),
        "labels": targets.shape[1],
        **precision,
        "f1_top4": number(first["macro_f"]),
        "f1_of_means_top4": number(first["f_of_means"]),
        "f1_supported_top4": number(first["macro_f_supported"]),
        "own": own_reading(outcome.loss),
        "readings": {name: _judged(reading, targets, precision) for name, reading in readings(outcome).items()},
    }


def _precision(values: Tensor, targets: Tensor) -> dict[str, float | None]:
    return {
        "map_class": number(MeanAveragePrecision("label").update(values, targets).compute().value),
        "map_sample": number(MeanAveragePrecision("sample").update(values, targets).compute().value),
    }


def _judged(reading: Reading, targets: Tensor, precision: dict[str, float | None]) -> dict[str, Any]:
    log_odds = reading.log_odds()
    probs = torch.sigmoid(log_odds)
    bins = CalibrationError(BINS).update(probs, targets).compute()
    log_loss = LogLoss().update(probs, targets).compute()
    return {
        "ece": number(bins["ece"]),
        "ace": number(bins["ace"]),
        "mce": number(bins["mce"]),
        "ece_top4": number(CalibrationError(TOP_BINS, top_k=TOP).update(probs, targets).compute()["ece"]),
        "log_loss": number(log_loss["log_loss_per_row"]),
        "brier": number(BrierScore().update(probs, targets).compute()["brier_per_row"]),
        "certain_and_wrong": log_loss.counts["cells certain and wrong"],
        # By log-odds, so that only ties of the reading count, and none of rounding.
        **(precision if reading.keeps_order else _precision(log_odds, targets)),
        "bins": {
            "count": bins.details["cells"].tolist(),
            "mean_prob": numbers(bins.details["mean_prob"]),
            "share_present": numbers(bins.details["share_present"]),
        },
    }
