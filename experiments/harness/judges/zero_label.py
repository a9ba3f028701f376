"""Rows with a label among rows without any: which label, and whether there is one at all."""

from typing import Any

import torch
from torch import Tensor

from experiments.harness.judges.figures import labelled, number
from experiments.harness.judges.readings import Reading, own_reading, readings
from experiments.harness.training import Outcome
from manyhot.metrics import OpenSetScores, RankingAtK


def zero_label(outcome: Outcome) -> dict[str, Any]:
    """By reading: accuracy on rows with labels, and what the largest probability tells about having one.

    "accuracy" is the share of rows with a label (IN) whose most probable label is present, "mmc" the mean of the
    largest probability over rows without (OUT).
    """
    targets = outcome.targets["test"].cpu()
    inside = int(labelled(targets).sum())
    return {
        "rows_in": inside,
        "rows_out": len(targets) - inside,
        "own": own_reading(outcome.loss),
        "readings": {name: _judged(reading, targets) for name, reading in readings(outcome).items()},
    }


def _judged(reading: Reading, targets: Tensor) -> dict[str, Any]:
    log_odds = reading.log_odds()
    # By log-odds, which order rows as probabilities do, and still tell those apart that round to 1.
    told = OpenSetScores().update(log_odds, targets).compute()
    return {
        "accuracy": number(RankingAtK((1,)).update(reading.ranking(), targets).compute()["precision@1"]),
        "mmc": number(OpenSetScores().update(torch.sigmoid(log_odds), targets).compute()["mmc"]),
        "auroc": number(told["auroc"]),
        "fpr95": number(told["fpr95"]),
    }
