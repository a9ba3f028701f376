"""Precision, recall and discounted gain of the labels ranked first in each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from manyhot.checks import check_count, kind_of
from manyhot.metrics.metric import Outcome, State
from manyhot.metrics.rows import RowSums, divide, zeros
from manyhot.refusal import refusal


def first_labels(values: Tensor, targets: Tensor, k: int) -> Tensor:
    """The targets (N, k) of the labels that each row of (N, K) ranks first, -1 where it has fewer known ones.

    Of equal values the lower index comes first. Unknown labels are not ranked.
    """
    hidden = targets < 0
    values = values.masked_fill(hidden, -torch.inf)
    # One more than wanted shows whether a tie reaches over the end.
    top = values.topk(min(k + 1, values.shape[1]), dim=1)
    order = top.indices[:, :k]
    tied = (top.values[:, 1:] == top.values[:, :-1]).any(1).nonzero().flatten()
    if len(tied):
        by_value = values[tied].sort(dim=1, descending=True, stable=True).indices
        # Once more by being known, because a label may be scored minus infinity itself.
        known_first = hidden[tied].gather(1, by_value).int().sort(dim=1, stable=True).indices
        order[tied] = by_value.gather(1, known_first)[:, :k]
    found = targets.gather(1, order)
    return torch.nn.functional.pad(found, (0, k - found.shape[1]), value=-1)


class RankingAtK(RowSums):
    """Of the k labels that each row ranks first: how many are right, how many of the right ones they are, and how high.

    precision@k = hits / k; recall@k = hits / (present labels); ndcg@k = sum over hits of 1 / log2(1 + place), divided
    by what the best order would reach. Each is a mean over rows. Of equal values the lower index comes first.

    Few labels: precision@k always divides by k, so that a row with fewer than k labels present cannot reach 1, nor can
    any if k is above the number of labels; recall and ndcg can.
    No-label rows: They have nothing to find and are left out of all three; `counts` says how many there were.
    Unknown cells: Not ranked; the next known label takes the place.

    Args:
        ks: The numbers of labels to look at.

    Example:
        >>> scores = torch.tensor([[0.9, 0.3, 0.5], [0.5, 0.2, 0.1]])
        >>> outcome = mh.metrics.RankingAtK(ks=(1, 2)).update(scores, torch.tensor([[1, 1, 0], [0, 0, 0]])).compute()
        >>> {name: round(value, 3) for name, value in outcome.values.items()}
        {'precision@1': 1.0, 'precision@2': 0.5, 'recall@1': 0.5, 'recall@2': 0.5, 'ndcg@1': 1.0, 'ndcg@2': 0.613}
        >>> outcome.counts
        {'rows': 1, 'rows without positives': 1}
    """

    def __init__(self, ks: Sequence[int] = (1, 3, 5)) -> None:
        if not isinstance(ks, Sequence) or not ks:
            raise refusal(
                "ks", "RankingAtK", "be one or more whole numbers", kind_of(ks), "Pass for example (1, 3, 5)."
            )
        self.ks = tuple(check_count("ks", "RankingAtK", k, low=1) for k in ks)
        super().__init__()

    def start(self) -> State:
        """Counts of rows, and sums of their values, one for each k."""
        values = ("precision", "recall", "ndcg")
        return zeros(("rows", "empty_rows"), torch.int64) | zeros(values, torch.float64)

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """The values of each row, one for each k; 0 for a row without labels."""
        values, targets = self._check(values, targets)
        present = (targets > 0).sum(1)
        hits = first_labels(values, targets, max(self.ks)) > 0
        discounts = 1 / torch.arange(2, max(self.ks) + 2, dtype=torch.float64, device=values.device).log2()
        at = torch.tensor(self.ks, device=values.device) - 1
        found, gained = hits.cumsum(1)[:, at].double(), (hits * discounts).cumsum(1)[:, at]
        best = discounts.cumsum(0)[torch.minimum(present.clamp(min=1).unsqueeze(1) - 1, at)]
        return {
            "precision": found / (at + 1),
            "recall": found / present.clamp(min=1).unsqueeze(1),
            "ndcg": gained / best,
            "rows": present > 0,
            "empty_rows": (present == 0) & (targets >= 0).any(1),
        }

    def compute(self) -> Outcome:
        """The values "precision@k", "recall@k" and "ndcg@k" for every k."""
        rows = int(self.total("rows"))
        values = {
            f"{name}@{k}": divide(float(total), rows)
            for name in ("precision", "recall", "ndcg")
            for k, total in zip(self.ks, self.total(name).expand(len(self.ks)), strict=True)
        }
        return Outcome(values, {"rows": rows, "rows without positives": int(self.total("empty_rows"))})
