"""Isotonic regression of many labels at once: pooling of adjacent violators, and curves through the pooled blocks."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from manyhot.calibrate.maps import Cells

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
    """

    label: Tensor
    weight: Tensor
    present: Tensor
    moment: Tensor

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
        label = self.label[~with_previous]
        # On the CPU these sums are taken in order, so that the same cells always give the same blocks.
        sums = [torch.zeros(len(label), dtype=part.dtype).index_add_(0, group, part) for part in self[1:]]
        return Blocks(label, *sums)


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
    blocks = Blocks(label, weight, present, place.mul_(weight))
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
    return without_violators(Blocks(blocks.label, weight, present, blocks.moment + certain * blocks.centre))


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

    Between the centres of blocks, and not in steps at their ends, curves rise strictly.

    Reference: Oron and Flournoy, Centered Isotonic Regression, Statistics in Biopharmaceutical Research 2017; here
        along log-odds, and with slope 1 instead of 0 outside.
    """
    counts = torch.bincount(blocks.label, minlength=labels)
    most = int(counts.max()) if labels else 0
    # One knot before the first and at least one behind the last lie at a slope of 1, with which the curve goes on.
    steps = torch.arange(-1, most + 1).expand(labels, -1)
    nearest = steps.minimum(counts.unsqueeze(1) - 1).clamp(min=0)
    beyond = (steps - nearest).double()
    if most == 0:
        return Curves(beyond, beyond)
    source = ((counts.cumsum(0) - counts).unsqueeze(1) + nearest).clamp(max=len(blocks.label) - 1)
    known = (counts > 0).unsqueeze(1)
    centre, log_odds = blocks.centre[source], torch.logit(blocks.rate)[source]
    return Curves(torch.where(known, centre, 0.0) + beyond, torch.where(known, log_odds, 0.0) + beyond)
