"""Rows with exactly one label: errors of the first guesses, and how far their confidence holds."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.harness.judges.figures import labelled, number
from experiments.harness.judges.readings import Reading, comparable, own_reading, readings
from experiments.harness.training import Outcome
from manyhot.metrics import CalibrationError, LogLoss, RankingAtK
from manyhot.refusal import refusal

# Less than the logarithm of any number; a row in which no label is possible then favours none.
IMPOSSIBLE = -1e4


def one_label(outcome: Outcome) -> dict[str, Any]:
    """Top-1 and top-5 error, and by reading the log loss and the calibration error of the first guess.

    Probabilities of a row are divided by their sum, since one label is known to be there. Rows without a label are left
    out. "log_loss" and "ece" are those of the reading named "own".
    """
    targets = outcome.targets["test"].cpu()
    rows = labelled(targets)
    if bool(((targets > 0).sum(1) > 1).any()):
        remedy = "Judge them by `many_label`."
        raise refusal("outcome", "one_label", "have one label a row at the most", "a row with several", remedy)
    ranked = RankingAtK((1, 5)).update(comparable(outcome)["test"][rows], targets[rows]).compute()
    own = own_reading(outcome.loss)
    by_reading = {name: _judged(reading, targets, rows) for name, reading in readings(outcome).items()}
    return {
        "rows": int(rows.sum()),
        "top1_error": number(1 - ranked["recall@1"]),
        "top5_error": number(1 - ranked["recall@5"]),
        "own": own,
        "log_loss": by_reading[own]["log_loss"],
        "ece": by_reading[own]["ece"],
        "readings": by_reading,
    }


def normalised(log_odds: Tensor) -> Tensor:
    """(N, K), probabilities that sum to 1 in each row."""
    return F.logsigmoid(log_odds).clamp(min=IMPOSSIBLE).softmax(1)


def _judged(reading: Reading, targets: Tensor, rows: Tensor) -> dict[str, Any]:
    targets = targets[rows]
    probs = normalised(reading.log_odds()[rows])
    first = reading.ranking()[rows].argmax(1, keepdim=True)
    confidence, right = probs.gather(1, first), targets.gather(1, first)
    of_label = probs[targets > 0].unsqueeze(1)
    return {
        "top1_error": number((right == 0).double().mean()),
        "log_loss": number(LogLoss().update(of_label, torch.ones_like(of_label)).compute().value),
        "ece": number(CalibrationError(15).update(confidence, right).compute()["ece"]),
    }
