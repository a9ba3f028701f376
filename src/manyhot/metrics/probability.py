"""Scores of probabilities, cell by cell: least on average for the one who says the true probability."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from manyhot.checks import check_number
from manyhot.metrics.metric import Outcome, State
from manyhot.metrics.rows import RowSums, by_label, divide, zeros


class BrierScore(RowSums):
    """Squared difference of probability and target: how well calibrated and how sharp the probabilities are, in one.

    brier = mean over known cells of (p - target)^2;  brier_per_row = mean over rows of the sum over known labels

    A row without labels is K absent labels. Unknown cells are left out, and rows without a known cell.

    Reference: Brier, Verification of forecasts expressed in terms of probability, 1950, of which `brier` is the half
        that belongs to the label's presence, as is usual for two answers.

    Example:
        >>> BrierScore().update(torch.tensor([[0.9, 0.2]]), torch.tensor([[1, 0]])).compute().values
        {'brier': 0.02..., 'brier_per_row': 0.05...}
    """

    def start(self) -> State:
        """Sums by label, and the number of rows."""
        return _no_cells()

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """The squared differences of each row."""
        probs, targets = self._check(values, targets, probs=True)
        return _cell_sums((probs.double() - targets).square(), targets >= 0)

    def compute(self) -> Outcome:
        """The values, and in the details the mean of each label."""
        return _outcome("brier", self)


class LogLoss(RowSums):
    """Minus the natural logarithm of the probability of what happened: punishes confident mistakes hardest.

    log_loss = mean over known cells of -log p where present, -log(1 - p) where absent;  log_loss_per_row = mean over
    rows of the sum over known labels, minus the log-likelihood of the row

    A probability of exactly 0 or 1 that is wrong would cost infinitely much. The probability of what happened is
    therefore taken as `epsilon` where it is less. The counts tell how often that was so.

    Args:
        epsilon: The least probability of what happened; by default the precision of the numbers that come, 1.2e-7 for
            float32 and half precision, 2.2e-16 for float64.

    Example:
        >>> outcome = LogLoss().update(torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[1, 0, 1]])).compute()
        >>> outcome.values
        {'log_loss': 5.77..., 'log_loss_per_row': 17.32...}
        >>> outcome.counts
        {'cells': 3, 'rows': 1, 'labels': 3, 'labels without cells': 0, 'cells raised to epsilon': 1,
         'cells certain and wrong': 1}
    """

    def __init__(self, *, epsilon: float | None = None) -> None:
        if epsilon is not None:
            check_number("epsilon", type(self).__name__, epsilon, low=0, high=0.5, low_open=True)
        self.epsilon = epsilon
        super().__init__()

    def start(self) -> State:
        """Sums by label, and the numbers of rows and of cells that had to be raised."""
        return _no_cells() | zeros(("raised", "certain"), torch.int64)

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """The losses of each row."""
        probs, targets = self._check(values, targets, probs=True)
        epsilon = torch.finfo(probs.dtype).eps if self.epsilon is None else self.epsilon
        known = targets >= 0
        probs = probs.double()
        likelihood = torch.where(targets > 0, probs, 1 - probs)
        sums = _cell_sums(-likelihood.clamp(min=epsilon).log(), known)
        raised, certain = (known & (likelihood < epsilon)).sum(1), (known & (likelihood == 0)).sum(1)
        return sums | {"raised": raised, "certain": certain}

    def compute(self) -> Outcome:
        """The values, and in the details the mean of each label."""
        outcome = _outcome("log_loss", self)
        outcome.counts["cells raised to epsilon"] = int(self.total("raised"))
        outcome.counts["cells certain and wrong"] = int(self.total("certain"))
        return outcome


def _no_cells() -> State:
    return zeros(("loss",), torch.float64) | zeros(("known", "rows"), torch.int64)


def _cell_sums(losses: Tensor, known: Tensor) -> dict[str, Tensor]:
    return {"loss": torch.where(known, losses, 0.0), "known": known, "rows": known.any(1)}


def _outcome(name: str, metric: RowSums) -> Outcome:
    """The mean over cells and over rows of losses that were summed by label."""
    loss, known = by_label(metric.total("loss")), by_label(metric.total("known"))
    cells, rows, labels = int(known.sum()), int(metric.total("rows")), int((known > 0).sum())
    total = float(loss.sum())
    values = {name: divide(total, cells), f"{name}_per_row": divide(total, rows)}
    counts = {"cells": cells, "rows": rows, "labels": labels, "labels without cells": len(known) - labels}
    return Outcome(values, counts, {"by_label": loss / known})
