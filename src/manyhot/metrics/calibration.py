"""Metrics of probabilities: calibration errors over bins, Brier score and log loss."""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.checks import check_choice, check_int, check_number
from manyhot.metrics.metric import MetricResult, RowMetric, divide, mean_of_defined
from manyhot.sorting import CELLS_AT_ONCE, k_largest, sort_in_place


class CalibrationError(RowMetric):
    """The gap between predicted probabilities and observed frequencies, in bins of probability.

    ece = sum over bins of cells / all cells * |mean probability - share present|

    ace = plain mean of these gaps over the bins that have cells;  mce = the largest of them

    The probability of the label is binned, not that of the more likely answer. A bin reaches from above its lower edge
    up to its upper edge; 0 is in the first. Unknown cells are left out. A row without labels is K absent labels.
    The ece of all cells is mostly that of easy absent labels; ace, top_k and average="macro" give weight to the others.

    Args:
        bins: The number M of bins.
        average: "micro" pools the cells of all labels; "macro" takes the mean of the errors of each label with cells.
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

    def __init__(
        self, bins: int = 15, *, average: str = "micro", top_k: int | None = None, mass: str = "width"
    ) -> None:
        owner = type(self).__name__
        self.bins = check_int("bins", owner, bins, low=1)
        self.average = check_choice("average", owner, average, ("micro", "macro"))
        self.top_k = None if top_k is None else check_int("top_k", owner, top_k, low=1)
        self.mass = check_choice("mass", owner, mass, ("width", "equal"))
        self.row_sums = self.mass == "width" and self.average == "micro"
        super().__init__()

    def update(self, values: Any, targets: Any) -> Self:
        """Collects a batch of probabilities and targets, both (N, K); returns itself."""
        probs, targets = self._cells(values, targets)
        pooled = self.average == "micro"
        if self.mass == "equal":
            keys = as_keys(probs, targets)
            return self.keep(keys=keys[keys >= 0].unsqueeze(1) if pooled else keys)
        labels = 1 if pooled else probs.shape[1]
        owner = torch.arange(probs.shape[1], device=probs.device) % labels
        edges = even_edges(self.bins, probs)
        return self.collect(bins=sum_bins(probs, targets, edges, owner=owner, owners=labels))

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """What each row adds to the sums of pooled bins of the same width."""
        probs, targets = self._cells(values, targets)
        owner = torch.arange(len(probs), device=probs.device).unsqueeze(1)
        sums = sum_bins(probs, targets, even_edges(self.bins, probs), owner=owner, owners=len(probs))
        return {"bins": sums.transpose(0, 1).unsqueeze(2)}

    def compute(self) -> MetricResult:
        """The values ece, ace and mce; the details of the bins, each (M,), or (K, M) and by label."""
        labels = 1 if self.average == "micro" else self.num_labels or 0
        if self.mass == "equal":
            keys = torch.cat(self.parts("keys") or [torch.empty(0, labels, dtype=torch.int32)])
            bins = [sum_equal_bins(sort_in_place(column), self.bins) for column in keys.T.contiguous()]
            sums = torch.stack([part for part, _ in bins], 1) if bins else torch.zeros(4, 0, self.bins).long()
            edges = torch.stack([edges for _, edges in bins]) if bins else torch.zeros(0, self.bins + 1)
        else:
            sums = self.total("bins", 4, labels, self.bins)
            upper = even_edges(self.bins, torch.zeros((), dtype=torch.float64, device=sums.device))
            edges = with_zero(upper).expand(labels, -1)
        return result_of_bins(sums, edges, by_label=self.average == "macro")

    def _cells(self, probs: Any, targets: Any) -> tuple[Tensor, Tensor]:
        probs, targets = self._check(probs, targets, probs=True)
        return probs, targets if self.top_k is None else most_confident(probs, targets, self.top_k)


def result_of_bins(sums: Tensor, edges: Tensor, *, by_label: bool) -> MetricResult:
    """The errors of bins from their sums (4, K, M) and edges (K, M + 1); K is 1 for bins that pool all labels."""
    cells, present, coarse, fine = sums
    prob_sum = coarse.double() * COARSE + fine.double() * FINE
    used, label_cells = cells > 0, cells.sum(1)
    gaps = torch.where(used, (prob_sum - present).abs() / cells, 0.0)
    bin_errors = {
        "ece": (gaps * cells).sum(1) / label_cells,
        "ace": gaps.sum(1) / used.sum(1),
        "mce": torch.where(label_cells > 0, gaps.amax(1), math.nan),
    }
    values = {name: mean_of_defined(value) for name, value in bin_errors.items()}
    counts = {"cells": int(cells.sum())}
    shares = {"mean_prob": prob_sum / cells, "share_present": present.double() / cells}
    details = {"cells": cells, **shares, "edges": edges}
    if not by_label:
        return MetricResult(values, counts, {name: detail[0] for name, detail in details.items()})
    with_cells = int((label_cells > 0).sum())
    counts |= {"labels": with_cells, "labels without cells": len(label_cells) - with_cells}
    return MetricResult(values, counts, details | bin_errors)


def most_confident(probs: Tensor, targets: Tensor, k: int) -> Tensor:
    """`targets` with all but the k most confident known cells of each row made unknown; of equal ones the first stay.

    Example:
        >>> most_confident(torch.tensor([[0.2, 0.9, 0.2]]), torch.tensor([[0, 1, 1]]), 2)
        tensor([[ 0,  1, -1]])
    """
    return torch.where(k_largest(torch.where(targets >= 0, probs, -1.0), k), targets, -1)


def with_zero(upper: Tensor) -> Tensor:
    """(M + 1,), upper edges with the lower edge of the first bin before them."""
    return torch.cat([torch.zeros_like(upper[:1]), upper])


class BrierScore(RowMetric):
    """Squared difference of probability and target: measures calibration and sharpness together.

    brier = mean over known cells of (p - target)^2;  brier_per_row = mean over rows of the sum over known labels

    A row without labels is K absent labels. Unknown cells are left out, and rows without a known cell.

    Reference: Brier, Verification of forecasts expressed in terms of probability, 1950, of which `brier` is the half
        that belongs to the label's presence, as is usual for two answers.

    Example:
        >>> BrierScore().update(torch.tensor([[0.9, 0.2]]), torch.tensor([[1, 0]])).compute().values
        {'brier': 0.02..., 'brier_per_row': 0.05...}
    """

    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """The squared differences of each row."""
        probs, targets = self._check(values, targets, probs=True)
        return _cell_sums((probs.double() - targets).square(), targets >= 0)

    def compute(self) -> MetricResult:
        """The values, and in the details the mean of each label."""
        return _result("brier", self)


class LogLoss(RowMetric):
    """Minus the natural logarithm of the probability of the observed target: penalises confident errors most.

    log_loss = mean over known cells of -log p where present, -log(1 - p) where absent;  log_loss_per_row = mean over
    rows of the sum over known labels, minus the log-likelihood of the row

    A probability of exactly 0 or 1 that is wrong would have an infinite loss. Probabilities of observed targets are
    therefore clipped to at least `epsilon`; the counts report for how many cells.

    Args:
        epsilon: The least probability of an observed target; by default the precision of the input, 1.2e-7 for float32
            and half precision, 2.2e-16 for float64.

    Example:
        >>> result = LogLoss().update(torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[1, 0, 1]])).compute()
        >>> result.values
        {'log_loss': 5.77..., 'log_loss_per_row': 17.32...}
        >>> result.counts
        {'cells': 3, 'rows': 1, 'labels': 3, 'labels without cells': 0, 'cells raised to epsilon': 1,
         'cells certain and wrong': 1}
    """

    def __init__(self, *, epsilon: float | None = None) -> None:
        self.epsilon = None if epsilon is None else check_number("epsilon", "LogLoss", epsilon, "(0, 0.5]")
        super().__init__()

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

    def compute(self) -> MetricResult:
        """The values, and in the details the mean of each label."""
        result = _result("log_loss", self)
        result.counts["cells raised to epsilon"] = int(self.total("raised"))
        result.counts["cells certain and wrong"] = int(self.total("certain"))
        return result


def _cell_sums(losses: Tensor, known: Tensor) -> dict[str, Tensor]:
    return {"loss": torch.where(known, losses, 0.0), "known": known, "rows": known.any(1)}


def _result(name: str, metric: RowMetric) -> MetricResult:
    """The mean over cells and over rows of losses that were summed by label."""
    loss, known = metric.total("loss", 0), metric.total("known", 0)
    cells, rows, labels = int(known.sum()), int(metric.total("rows")), int((known > 0).sum())
    total = float(loss.sum())
    values = {name: divide(total, cells), f"{name}_per_row": divide(total, rows)}
    counts = {"cells": cells, "rows": rows, "labels": labels, "labels without cells": len(known) - labels}
    return MetricResult(values, counts, {"by_label": loss / known})


# Sums of probabilities are stored as whole numbers of these two units, so that they do not depend on the order of the
# cells or the batches, do not drift over millions of rows, and are the same on every device.
COARSE, FINE = 2.0**-24, 2.0**-48


def even_edges(bins: int, like: Tensor) -> Tensor:
    """(M,), the upper edges (b + 1) / M of bins of the same width, rounded to the type of `like`.

    Rounded, so that a probability written as 0.3 lies on the edge 3/10 in float32 as it does in float64.
    """
    return (torch.arange(1, bins + 1, dtype=torch.float64, device=like.device) / bins).to(like.dtype)


def bin_of(probs: Tensor, edges: Tensor) -> Tensor:
    """The bin of each probability: the first whose upper edge is not below it.

    Example:
        >>> bin_of(torch.tensor([0.0, 0.25, 0.26, 1.0]), even_edges(4, torch.zeros(())))
        tensor([0, 0, 1, 3])
    """
    # Comparisons, because p * M can round across an edge.
    return torch.bucketize(probs.contiguous(), edges)


def sum_bins(probs: Tensor, targets: Tensor, edges: Tensor, *, owner: Tensor, owners: int) -> Tensor:
    """The sums of each bin of each owner, (4, owners, M) of int64; cells whose target is unknown are left out.

    They are how many cells there are, how many of these are present, the sum of their probabilities in units of 2^-24,
    each rounded down, and the sum of the remainders in units of 2^-48.

    Args:
        probs: (N, K).
        targets: (N, K), 1 present, 0 absent, -1 unknown.
        edges: (M,), the upper edges.
        owner: What each cell belongs to, a number below `owners`; broadcast to (N, K).
        owners: How many owners there are: labels, rows, or one for all cells.
    """
    known = targets >= 0
    owner = owner.expand_as(probs)
    if bool(known.all()):  # selecting costs as much as all the rest
        probs, targets, owner = probs.flatten(), targets.flatten(), owner.flatten()
    else:
        probs, targets, owner = probs[known], targets[known], owner[known]
    index = owner * len(edges) + bin_of(probs, edges)
    sums = (torch.ones_like(index), targets.long(), *_in_units(probs))
    empty = index.new_zeros(owners * len(edges))
    return torch.stack([empty.scatter_add(0, index, cells) for cells in sums]).view(4, owners, len(edges))


def as_keys(probs: Tensor, targets: Tensor) -> Tensor:
    """Probability and target of each cell in one int32 that sorts by probability; -1 for an unknown cell.

    The bits of a float32 that is not negative are in the order of its value, and up to 1 they leave the last bit free.
    """
    # Adding zero turns minus zero, whose bits are out of order, into zero.
    bits = (probs.float() + 0.0).contiguous().view(torch.int32)
    return torch.where(targets >= 0, bits * 2 + targets, -1)


def sum_equal_bins(ordered: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """The four sums (4, M) of bins with the same number of cells, and their edges (M + 1,), of sorted keys.

    The upper edge of bin b is the smallest probability that at least (b + 1) / M of the cells do not exceed; a cell is
    in the first bin whose upper edge is not below its probability, so equal probabilities share a bin.
    """
    known = ordered[int((ordered < 0).sum()) :]
    if not len(known):
        empty = torch.zeros(4, bins, dtype=torch.int64, device=known.device)
        return empty, with_zero(torch.full((bins,), math.nan, device=known.device))
    last = (torch.arange(1, bins + 1, device=known.device) * len(known) + bins - 1) // bins - 1
    edges = known[last] >> 1
    stops = torch.searchsorted(known, edges * 2 + 1, right=True)
    sums = [_sum_keys(part) for part in known.tensor_split(stops[:-1].cpu())]
    return torch.stack(sums, dim=1), with_zero(edges.view(torch.float32))


def _sum_keys(keys: Tensor) -> Tensor:
    """The four sums of cells given as keys."""
    sums = torch.zeros(4, dtype=torch.int64, device=keys.device)
    for part in keys.split(CELLS_AT_ONCE):
        coarse, fine = _in_units((part >> 1).view(torch.float32))
        sums += torch.stack([torch.ones_like(part).sum(), (part & 1).sum(), coarse.sum(), fine.sum()])
    return sums


def _in_units(probs: Tensor) -> tuple[Tensor, Tensor]:
    units = probs / COARSE
    coarse = units.long()
    return coarse, ((units - coarse) * (COARSE / FINE)).long()
