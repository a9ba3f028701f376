"""Isotonic regression of many labels at once: pooling of adjacent violators, and curves through the pooled blocks."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from manyhot.calibrate.maps import Cells

# Information, about the number of undecided cells, up to which a block cannot tell that the curve is flat in it.
TOO_FEW = 8.0
# Knots of a curve in each block.
PER_BLOCK = 3
# Rates that differ by less are the same: what separates them is rounding.
SAME_RATE = 1e-12
# How many cells are sorted or placed on a curve at a time.
AT_A_TIME = 1 << 21
# The grid on which a column of more cells than that is gathered first: up to which log-odds, and how many places each.
RANGE, FINENESS = 64, 1024


class Blocks(NamedTuple):
    """Neighbouring cells of one label that share a rate; sorted by label, then by evidence. All (B,), on the CPU.

    Attributes:
        label: Column that the block belongs to.
        weight: Total weight of its cells.
        present: Weight of those in which the label is present.
        moment: Sum of weight times evidence.
        first: The lowest evidence of its cells.
        last: The highest.
    """

    label: Tensor
    weight: Tensor
    present: Tensor
    moment: Tensor
    first: Tensor
    last: Tensor

    @property
    def rate(self) -> Tensor:
        """Share of present cells."""
        return self.present / self.weight

    @property
    def centre(self) -> Tensor:
        """Mean evidence of the cells."""
        return self.moment / self.weight

    def follows(self) -> Tensor:
        """Whether a block of the same label lies before each, (B,)."""
        same = self.label == self.label.roll(1)
        same[:1] = False
        return same

    def joined(self, with_previous: Tensor) -> Blocks:
        """The blocks after joining those that are marked to the one before."""
        group = (~with_previous).cumsum(0) - 1
        label, ends = self.label[~with_previous], ~with_previous.roll(-1)
        ends[-1:] = True
        # On the CPU these sums are taken in order, so that the same cells always give the same blocks.
        weight, present, moment = (
            torch.zeros(len(label), dtype=part.dtype).index_add_(0, group, part) for part in self[1:4]
        )
        return Blocks(label, weight, present, moment, self.first[~with_previous], self.last[ends])


def pooled_blocks(cells: Cells) -> Blocks:
    """The blocks of the weighted isotonic regression of targets on evidence, label by label.

    Rates rise strictly from block to block of a label.
    """
    if cells.num_labels == 1 and len(cells.evidence) > AT_A_TIME:
        cells = gathered(cells)
    columns = max(1, AT_A_TIME // max(1, len(cells.evidence)))
    parts = [
        _blocks_of_columns(Cells(*(part[:, first : first + columns] for part in cells)), first)
        for first in range(0, cells.num_labels, columns)
    ]
    return Blocks(*(torch.cat(quantity) for quantity in zip(*parts, strict=True)))


def _blocks_of_columns(cells: Cells, first: int) -> Blocks:
    place, order = cells.evidence.T.sort(dim=1)
    weight = cells.weights.T.gather(1, order)
    present = cells.targets.T.gather(1, order).mul_(weight)
    del order
    label = torch.arange(first, first + cells.num_labels, dtype=torch.int32).unsqueeze(1).expand(place.shape)
    label, weight, present, place = (part.cpu().flatten() for part in (label, weight, present, place))
    counted = weight > 0
    if not bool(counted.all()):
        label, weight, present, place = (part[counted] for part in (label, weight, present, place))
    tied = place == place.roll(1)
    blocks = Blocks(label, weight, present, place * weight, first=place, last=place)
    return without_violators(blocks.joined(tied & blocks.follows()))


def gathered(cells: Cells) -> Cells:
    """One long column as a few cells with the weights of many: those whose evidence differs by less than a hair."""
    bins = 2 * RANGE * FINENESS
    sums = torch.zeros(3, bins, dtype=torch.float64)
    for evidence, targets, weights in cells.blocks():
        place, present, weight = (part.flatten().cpu() for part in (evidence, targets * weights, weights))
        index = ((place + RANGE) * FINENESS).long().clamp(0, bins - 1)
        sums.index_add_(1, index, torch.stack([weight, present, weight * place]))
    weight, present, moment = sums[:, sums[0] > 0]
    gathered_cells = Cells(*(part.unsqueeze(1) for part in (moment / weight, present / weight, weight)))
    return Cells(*(part.to(cells.evidence.device) for part in gathered_cells))


def without_violators(blocks: Blocks) -> Blocks:
    """Joins neighbours until the rates of each label rise: whole falling runs at a time, as any order will do."""
    while True:
        rate = blocks.rate
        violates = blocks.follows() & (rate <= rate.roll(1) + SAME_RATE)
        if not bool(violates.any()):
            return blocks
        blocks = blocks.joined(violates)


def smoothed(blocks: Blocks) -> Blocks:
    """The same without rates of 0 and 1, which only ends of a label have: one more cell, half of it against them."""
    certain = ((blocks.present <= 0) | (blocks.present >= blocks.weight)).to(blocks.weight.dtype)
    weight, present = blocks.weight + certain, blocks.present + certain / 2
    moment = blocks.moment + certain * blocks.centre
    return without_violators(blocks._replace(weight=weight, present=present, moment=moment))


class Curves(NamedTuple):
    """Increasing curves through knots, linear between them and of slope 1 outside; places and values, both (K, M)."""

    places: Tensor
    values: Tensor

    def apply(self, evidence: Tensor) -> Tensor:
        """Values (N, K) at evidence (N, K); a single curve serves all columns."""
        rows = max(1, AT_A_TIME // max(1, evidence.shape[1]))
        return torch.cat([self._apply_to_rows(part) for part in evidence.split(rows)])

    def _apply_to_rows(self, evidence: Tensor) -> Tensor:
        columns = evidence.T.contiguous()
        places, values = (knots.expand(len(columns), -1).contiguous() for knots in self)
        after = torch.searchsorted(places, columns).clamp(1, places.shape[1] - 1)
        left, low = places.gather(1, after - 1), values.gather(1, after - 1)
        width, rise = places.gather(1, after) - left, values.gather(1, after) - low
        # Two knots can be so close that rounding puts them on the same place.
        return (low + (columns - left) * torch.where(width > 0, rise / width, 0.0)).T


def curves_through(blocks: Blocks, labels: int) -> Curves:
    """Curves through the centres of the blocks, at the log-odds of their rates; straight for a label without blocks.

    Towards the centres of its neighbours a curve rises along a straight line, so that it rises strictly, but inside
    of a block of many cells by no more than half the standard error of its log-odds on each side: had they risen by
    much more, the cells would not have been pooled. What is left is a step to the next block, as wide as the gap
    between their cells.

    Reference: Oron and Flournoy, Centered Isotonic Regression, Statistics in Biopharmaceutical Research 2017; here
        along log-odds, with slope 1 instead of 0 outside, and with steps where blocks are sure of their rates.
    """
    counts = torch.bincount(blocks.label, minlength=labels)
    most = PER_BLOCK * int(counts.max()) if labels else 0
    # One knot before the first and at least one behind the last lie at a slope of 1, with which the curve goes on.
    steps = torch.arange(-1, most + 1).expand(labels, -1)
    nearest = steps.minimum(PER_BLOCK * counts.unsqueeze(1) - 1).clamp(min=0)
    beyond = (steps - nearest).double()
    if most == 0:
        return Curves(beyond, beyond)
    places, values = knots_of(blocks)
    source = (PER_BLOCK * (counts.cumsum(0) - counts).unsqueeze(1) + nearest).clamp(max=len(places) - 1)
    known = (counts > 0).unsqueeze(1)
    return Curves(*(torch.where(known, knots[source], 0.0) + beyond for knots in (places, values)))


def knots_of(blocks: Blocks) -> tuple[Tensor, Tensor]:
    """Places and values of the knots at the start, the centre and the end of each block, both (3 B,)."""
    centre, log_odds = blocks.centre.clamp(blocks.first, blocks.last), torch.logit(blocks.rate)
    error = 0.5 * (blocks.present * (1 - blocks.rate) - TOO_FEW).clamp(min=0).rsqrt()
    follows = blocks.follows()
    distance = torch.where(follows, centre - centre.roll(1), 1.0)
    slope = torch.where(follows, (log_odds - log_odds.roll(1)) / distance, 1.0)
    next_slope = slope.roll(-1)
    next_slope[~follows.roll(-1)] = 1.0
    low = log_odds - error.minimum(slope * (centre - blocks.first))
    high = log_odds + error.minimum(next_slope * (blocks.last - centre))
    places, values = ((blocks.first, centre, blocks.last), (low, log_odds, high))
    return torch.stack(places, 1).flatten(), torch.stack(values, 1).flatten()
