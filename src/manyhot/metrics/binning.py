"""Probabilities in bins: which bin a probability falls into, and the sums of each bin, exact in any order."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

# Sums of probabilities are kept as whole numbers of these two units, so that they do not depend on the order of the
# cells or the batches, do not drift over millions of rows, and are the same on every device.
COARSE, FINE = 2.0**-24, 2.0**-48
_CELLS_AT_ONCE = 1 << 22


class BinSums(NamedTuple):
    """What is known of the cells in each bin, all (..., M) of int64.

    Attributes:
        cells: How many there are.
        present: The cells whose label is present.
        coarse: The sum of their probabilities in units of 2^-24, each rounded down.
        fine: The sum of what was left then, in units of 2^-48.
    """

    cells: Tensor
    present: Tensor
    coarse: Tensor
    fine: Tensor

    @property
    def prob_sum(self) -> Tensor:
        """(..., M) in float64, the sum of the probabilities."""
        return self.coarse.double() * COARSE + self.fine.double() * FINE

    @property
    def mean_prob(self) -> Tensor:
        """(..., M) in float64, NaN for a bin without cells."""
        return self.prob_sum / self.cells

    @property
    def share_present(self) -> Tensor:
        """(..., M) in float64, NaN for a bin without cells."""
        return self.present.double() / self.cells

    def pooled(self) -> BinSums:
        """(M,), the cells of all labels together."""
        return BinSums(*(sums.sum(0) for sums in self))


class Errors(NamedTuple):
    """Calibration errors, each of the shape of the sums without their bins; NaN where there are no cells."""

    ece: Tensor
    ace: Tensor
    mce: Tensor


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


def sum_bins(probs: Tensor, targets: Tensor, edges: Tensor, *, owner: Tensor, owners: int) -> BinSums:
    """The sums of each bin of each owner, (owners, M); cells whose target is unknown are left out.

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
    place = owner * len(edges) + bin_of(probs, edges)
    sums = (torch.ones_like(place), targets.long(), *_in_units(probs))
    empty = place.new_zeros(owners * len(edges))
    return BinSums(*(empty.scatter_add(0, place, cells).view(owners, len(edges)) for cells in sums))


def errors(sums: BinSums) -> Errors:
    """Expected, average and maximum calibration error of bins (..., M).

    ece = sum over bins of cells / all cells * gap,  gap = |mean probability - share present|

    ace = mean of the gaps of the bins that have cells

    mce = largest of these gaps
    """
    used, total = sums.cells > 0, sums.cells.sum(-1)
    gaps = torch.where(used, (sums.prob_sum - sums.present).abs() / sums.cells, 0.0)
    ece = (gaps * sums.cells).sum(-1) / total
    ace = gaps.sum(-1) / used.sum(-1)
    return Errors(ece, ace, torch.where(total > 0, gaps.amax(-1), math.nan))


def as_keys(probs: Tensor, targets: Tensor) -> Tensor:
    """Probability and target of each cell in one int32 that sorts by probability; -1 for an unknown cell.

    The bits of a float32 that is not negative are in the order of its value, and up to 1 they leave the last bit free.
    """
    # Adding zero turns minus zero, whose bits are out of order, into zero.
    bits = (probs.float() + 0.0).contiguous().view(torch.int32)
    return torch.where(targets >= 0, bits * 2 + targets, -1)


def sum_equal_bins(ordered: Tensor, bins: int) -> tuple[BinSums, Tensor]:
    """The sums (M,) of bins with the same number of cells, and their upper edges (M,), of sorted keys.

    The upper edge of bin b is the smallest probability that at least (b + 1) / M of the cells do not exceed; a cell is
    in the first bin whose upper edge is not below its probability, so equal probabilities share a bin.
    """
    device = ordered.device
    unknown = int(torch.searchsorted(ordered, torch.zeros((), dtype=torch.int32, device=device)))
    cells = len(ordered) - unknown
    if not cells:
        zero = torch.zeros(bins, dtype=torch.int64, device=device)
        return BinSums(zero, zero, zero, zero), torch.full((bins,), math.nan, device=device)
    last = unknown + (torch.arange(1, bins + 1, device=device) * cells + bins - 1) // bins - 1
    edges = ordered[last] >> 1
    stops = torch.searchsorted(ordered, edges * 2 + 1, right=True).tolist()
    sums = [_sum_keys(ordered[start:stop]) for start, stop in pairwise([unknown, *stops])]
    return BinSums(*torch.stack(sums, dim=1)), edges.view(torch.float32)


def _sum_keys(keys: Tensor) -> Tensor:
    """The four sums of cells given as keys."""
    sums = torch.zeros(4, dtype=torch.int64, device=keys.device)
    for part in keys.split(_CELLS_AT_ONCE):
        coarse, fine = _in_units((part >> 1).view(torch.float32))
        sums += torch.stack([torch.ones_like(part).sum(), (part & 1).sum(), coarse.sum(), fine.sum()])
    return sums


def _in_units(probs: Tensor) -> tuple[Tensor, Tensor]:
    units = probs / COARSE
    coarse = units.long()
    return coarse, ((units - coarse) * (COARSE / FINE)).long()
