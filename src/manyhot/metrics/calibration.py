"""Calibration errors: how far the share of labels that are present lies from the probability that was said."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from manyhot.checks import check_choice, check_count
from manyhot.metrics.binning import BinSums, as_keys, errors, even_edges, sum_bins, sum_equal_bins
from manyhot.metrics.metric import Outcome, State, mean_of_defined
from manyhot.metrics.rows import RowSums, zeros
from manyhot.metrics.sorting import sort_in_place


class CalibrationError(RowSums):
    """The gap between probabilities and what came true, in bins of probability: of the cells at 70 %, are 70 % present?

    ece = sum over bins of cells / all cells * |mean probability - share present|

    ace = plain mean of these gaps over the bins that have cells;  mce = the largest of them

    The probability of the label is binned, not that of the more likely answer. A bin reaches from above its lower edge
    up to its upper edge; 0 is in the first. Unknown cells are left out. A row without labels is K absent labels.
    The ece of all cells is mostly that of easy absent labels; ace, top_k and over="label" look at the others.

    Args:
        bins: The number M of bins.
        over: "cell" pools the cells of all labels; "label" takes the mean of the errors of each label that has cells.
        top_k: Only the k most confident known cells of each row count, of equal ones those of the first labels.
        mass: "width" for bins of the same width, "equal" for bins of the same number of cells, where equal
            probabilities are never torn apart. The latter keeps every cell, in 4 bytes, as float32.

    Reference: Naeini et al., Obtaining well calibrated probabilities using Bayesian binning, AAAI 2015 (ece, mce).
        Neumann et al., Relaxed softmax, 2018 (ace, not the adaptive error of the same letters). Guo et al., On
        calibration of modern neural networks, ICML 2017, leave a probability of 0 in no bin.

    Example:
        >>> probs = torch.tensor([[0.9, 0.2], [0.8, 0.1], [0.7, 0.3]])
        >>> targets = torch.tensor([[1, 0], [1, 0], [0, 1]])
        >>> CalibrationError(2).update(probs, targets).compute().values
        {'ece': 0.13..., 'ace': 0.13..., 'mce': 0.13...}
    """

    def __init__(self, bins: int = 15, *, over: str = "cell", top_k: int | None = None, mass: str = "width") -> None:
        owner = type(self).__name__
        self.bins = check_count("bins", owner, bins, low=1)
        self.over = check_choice("over", owner, over, ("cell", "label"))
        self.top_k = None if top_k is None else check_count("top_k", owner, top_k, low=1)
        self.mass = check_choice("mass", owner, mass, ("width", "equal"))
        super().__init__()

    def start(self) -> State:
        """Sums of the bins, or all cells for bins of the same number."""
        if self.mass == "equal":
            return {"keys": []}
        return zeros(BinSums._fields, torch.int64)

    def update(self, values: Any, targets: Any) -> Self:
        """Collects a batch of probabilities and targets, both (N, K); returns itself."""
        probs, targets = self._cells(values, targets)
        if self.mass == "equal":
            keys = as_keys(probs, targets)
            return self.collect(keys=keys if self.over == "label" else keys[keys >= 0].unsqueeze(1))
        labels = probs.shape[1] if self.over == "label" else 1
        owner = torch.arange(probs.shape[1], device=probs.device) % labels
        edges = even_edges(self.bins, probs)
        return self.collect(**sum_bins(probs, targets, edges, owner=owner, owners=labels)._asdict())

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor] | None:
        """What each row adds to the sums of pooled bins of the same width; None where rows cannot be told apart."""
        if self.mass == "equal" or self.over == "label":
            return None
        probs, targets = self._cells(values, targets)
        owner = torch.arange(len(probs), device=probs.device).unsqueeze(1)
        sums = sum_bins(probs, targets, even_edges(self.bins, probs), owner=owner, owners=len(probs))
        return {name: value.unsqueeze(1) for name, value in sums._asdict().items()}

    def compute(self) -> Outcome:
        """The values ece, ace and mce; the details of the bins, each (M,), or (K, M) and by label."""
        return outcome_of_bins(*self._bins(), by_label=self.over == "label")

    def _cells(self, probs: Any, targets: Any) -> tuple[Tensor, Tensor]:
        probs, targets = self._check(probs, targets, probs=True)
        return probs, targets if self.top_k is None else most_confident(probs, targets, self.top_k)

    def _bins(self) -> tuple[BinSums, Tensor]:
        """Sums of the bins (1 or K, M), and their edges (1 or K, M + 1)."""
        if self.mass == "equal":
            return self._equal_bins()
        none = torch.zeros(1 if self.over == "cell" else 0, self.bins, dtype=torch.int64)
        sums = BinSums(*(total if total.ndim else none for total in map(self.total, BinSums._fields)))
        upper = even_edges(self.bins, torch.zeros((), dtype=torch.float64, device=sums.cells.device))
        return sums, with_zero(upper).expand(len(sums.cells), -1)

    def _equal_bins(self) -> tuple[BinSums, Tensor]:
        keys = self.parts("keys") or [torch.empty(0, 1 if self.over == "cell" else 0, dtype=torch.int32)]
        bins = [sum_equal_bins(sort_in_place(column), self.bins) for column in torch.cat(keys).T.contiguous()]
        if not bins:
            none = torch.zeros(0, self.bins, dtype=torch.int64)
            return BinSums(none, none, none, none), torch.zeros(0, self.bins + 1)
        sums = (torch.stack(parts) for parts in zip(*(part for part, _ in bins), strict=True))
        return BinSums(*sums), torch.stack([with_zero(upper) for _, upper in bins])


def outcome_of_bins(sums: BinSums, edges: Tensor, *, by_label: bool) -> Outcome:
    """The errors of bins (K, M) with edges (K, M + 1); K is 1 unless they are told apart by label."""
    found = errors(sums)._asdict()
    values = {name: mean_of_defined(value) for name, value in found.items()}
    cells = sums.cells.sum(1)
    counts = {"cells": int(cells.sum())}
    details = {
        "cells": sums.cells,
        "mean_prob": sums.mean_prob,
        "share_present": sums.share_present,
        "edges": edges,
    }
    if not by_label:
        return Outcome(values, counts, {name: detail[0] for name, detail in details.items()})
    with_cells = int((cells > 0).sum())
    counts |= {"labels": with_cells, "labels without cells": len(cells) - with_cells}
    return Outcome(values, counts, details | found)


def most_confident(probs: Tensor, targets: Tensor, k: int) -> Tensor:
    """`targets` with all but the k most confident known cells of each row made unknown; of equal ones the first stay.

    Example:
        >>> most_confident(torch.tensor([[0.2, 0.9, 0.2]]), torch.tensor([[0, 1, 1]]), 2)
        tensor([[ 0,  1, -1]])
    """
    visible = torch.where(targets >= 0, probs, -1.0)
    least = visible.topk(min(k, visible.shape[1]), dim=1).values[:, -1:]
    above, level = visible > least, visible == least
    first = level.cumsum(1) <= k - above.sum(1, keepdim=True)
    return torch.where(above | (level & first), targets, -1)


def with_zero(upper: Tensor) -> Tensor:
    """(M + 1,), upper edges with the lower edge of the first bin before them."""
    return torch.cat([torch.zeros_like(upper[:1]), upper])
