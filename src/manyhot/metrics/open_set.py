"""Telling samples that carry a label from those that carry none, by the largest value of a row."""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.metrics.metric import Metric, Outcome, State
from manyhot.metrics.precision import precision_of_column
from manyhot.metrics.ranking import auroc_of_column
from manyhot.metrics.sorting import Column, count_below, sort_in_place


class OpenSetScores(Metric):
    """How well the largest value of a row tells rows with a label (IN) from rows without any (OUT).

    auroc: The chance that an IN row has a larger maximum than an OUT row, ties counting one half.
    aupr_in, aupr_out: Average precision of finding IN rows by large maxima, and OUT rows by small ones.
    fpr95: The share of OUT rows that are accepted at the highest threshold that accepts 95 % of IN rows.
    mmc: Mean maximum confidence, the mean over OUT rows of the largest value: what a model that knows its limits keeps
    small. It means a confidence only for probabilities.

    No-label rows: They are the OUT rows. If there are none, or no IN rows, comparisons of the two are NaN; `mmc` needs
    OUT rows alone. `counts` says how many there were of each.
    Unknown cells: Left out: a row's kind and maximum are those of its known cells, and a row without any is left out.
    Memory: One number a row is kept.

    Reference: Liao, Gavves, Oh and Snoek, Quasibinary Classifier for Images with Zero and Multiple Labels; Hendrycks
        and Gimpel, A Baseline for Detecting Misclassified and Out-of-Distribution Examples, 2017.

    Example:
        >>> probs = torch.tensor([[0.9, 0.2], [0.1, 0.6], [0.3, 0.1], [0.2, 0.7]])
        >>> outcome = mh.metrics.OpenSetScores().update(probs, torch.tensor([[1, 0], [0, 1], [0, 0], [0, 0]])).compute()
        >>> {name: round(value, 3) for name, value in outcome.values.items()}
        {'auroc': 0.75, 'aupr_in': 0.833, 'aupr_out': 0.833, 'fpr95': 0.5, 'mmc': 0.5}
        >>> outcome.counts
        {'IN rows': 2, 'OUT rows': 2}
    """

    def start(self) -> State:
        """The largest value of each row."""
        return {"inside": [], "outside": []}

    def update(self, values: Any, targets: Any) -> Self:
        """Collects probabilities (N, K), or scores where `mmc` does not matter, and targets (N, K); returns itself."""
        values, targets = self._check(values, targets)
        known, labelled = (targets >= 0).any(1), (targets > 0).any(1)
        # A column more, so that there is a maximum even without labels.
        largest = torch.nn.functional.pad(values.masked_fill(targets < 0, -torch.inf), (0, 1), value=-torch.inf).amax(1)
        return self.collect(inside=largest[labelled], outside=largest[known & ~labelled])

    def compute(self) -> Outcome:
        """The values "auroc", "aupr_in", "aupr_out", "fpr95" and "mmc"."""
        inside, outside = sort_in_place(self.joined("inside")), sort_in_place(self.joined("outside"))
        every = sort_in_place(torch.cat([inside, outside]))
        found = Column(inside, every)
        values = {
            "auroc": auroc_of_column(found),
            "aupr_in": precision_of_column(found) if len(outside) else math.nan,
            "aupr_out": precision_of_column(Column(-outside.flip(0), -every.flip(0))) if len(inside) else math.nan,
            "fpr95": false_positive_rate(inside, outside, hit_rate=0.95),
            "mmc": float(outside.double().mean()) if len(outside) else math.nan,
        }
        return Outcome(values, {"IN rows": len(inside), "OUT rows": len(outside)})


def false_positive_rate(inside: Tensor, outside: Tensor, *, hit_rate: float) -> float:
    """The share of `outside` at or above the highest value that `hit_rate` of `inside` reach; both in rising order."""
    if len(inside) == 0 or len(outside) == 0:
        return math.nan
    # The tolerance keeps 0.95 * 20 at 19, whichever way the product is rounded.
    needed = math.ceil(hit_rate * len(inside) - 1e-9)
    threshold = inside[len(inside) - needed]
    return (len(outside) - int(count_below(outside, threshold.reshape(1)))) / len(outside)
