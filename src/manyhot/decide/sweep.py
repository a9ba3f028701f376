"""The threshold at which the most rows are wholly right, found by one sweep over the intervals in which each is."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from manyhot.decide.cuts import row_blocks


class Sweep(NamedTuple):
    """The region of thresholds at which the most rows are right.

    Attributes:
        count: How many rows are right there.
        low: Where the region begins; NaN if no row can be right.
        high: Where it ends, itself excluded; NaN if no row can be right.
    """

    count: int  # type: ignore[assignment]
    low: float
    high: float

    @property
    def threshold(self) -> float:
        """The middle of the region; its lower end where the region has no middle; NaN if no row can be right."""
        middle = self.low / 2 + self.high / 2
        return middle if math.isfinite(middle) and self.low <= middle < self.high else self.low


def row_intervals(values: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The thresholds t at which a row is wholly right when labels with a value strictly above t are given.

    They are [largest absent value, smallest present value): open to infinity for a row without labels, and from minus
    infinity for a row with all of them. A row that ranks an absent label as high as a present one has an empty
    interval, and so has, by convention, a row without a known cell.

    Args:
        values: (N, K), scores or probabilities.
        targets: (N, K): 1 present, 0 absent, -1 unknown.

    Returns:
        Lower ends (N,), included, and upper ends (N,), excluded, in the type of the values.

    Example:
        >>> row_intervals(torch.tensor([[0.9, 0.2, 0.4], [0.1, 0.3, 0.2]]), torch.tensor([[1, 0, -1], [0, 0, 0]]))
        (tensor([0.2000, 0.3000]), tensor([0.9000,    inf]))
    """
    lows = values.new_full((len(values),), torch.inf)
    highs = -lows
    for rows in row_blocks(values.shape) if values.shape[1] else ():
        known = (targets[rows] >= 0).any(1)
        low = torch.where(targets[rows] == 0, values[rows], -torch.inf).amax(1)
        high = torch.where(targets[rows] == 1, values[rows], torch.inf).amin(1)
        lows[rows], highs[rows] = torch.where(known, low, torch.inf), torch.where(known, high, -torch.inf)
    return lows, highs


def sweep(lows: Tensor, highs: Tensor) -> Sweep:
    """The threshold that lies in the most of the intervals [low, high); of several regions the smallest.

    Args:
        lows: (N,), the lower ends, included.
        highs: (N,), the upper ends, excluded.

    Example:
        >>> sweep(torch.tensor([0.2, 0.3, 0.6]), torch.tensor([0.9, 0.5, 0.7]))
        Sweep(count=2, low=0.30000001192092896, high=0.5)
    """
    # Empty intervals hold no threshold, and would end before they begin.
    proper = lows < highs
    lows, highs = lows[proper].sort().values, highs[proper].sort().values
    if len(lows) == 0:
        return Sweep(0, math.nan, math.nan)
    # The count rises at lower ends only, so one of them is the best. `right` counts the ends at a value itself: those
    # that begin there are open, those that end there are not.
    open_ = torch.searchsorted(lows, lows, right=True) - torch.searchsorted(highs, lows, right=True)
    best = int(open_.argmax())
    first = int(torch.searchsorted(highs, lows[best], right=True))
    return Sweep(int(open_[best]), float(lows[best]), float(highs[first]))


def sweep_groups(lows: Tensor, highs: Tensor, groups: Tensor, num_groups: int) -> list[Sweep]:
    """The sweep over the rows of each group by itself.

    Args:
        lows: (N,), the lower ends, included.
        highs: (N,), the upper ends, excluded.
        groups: (N,), the group of each row: its label, for the accuracy with a threshold for each class. Rows with a
            negative number belong to none.
        num_groups: How many groups there are; one without rows has the count 0.

    Example:
        >>> lows, highs = torch.tensor([0.2, 0.3, 0.6]), torch.tensor([0.9, 0.5, 0.7])
        >>> [found.count for found in sweep_groups(lows, highs, torch.tensor([1, 1, 0]), 3)]
        [1, 2, 0]
    """
    member = groups >= 0
    groups, order = groups[member].sort()
    sizes = torch.bincount(groups, minlength=num_groups).tolist()
    parts = zip(lows[member][order].split(sizes), highs[member][order].split(sizes), strict=True)
    return [sweep(*part) for part in parts]
