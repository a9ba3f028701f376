"""Rankings for draws of rows with replacement, of which the cells are sorted only once."""

from __future__ import annotations

from itertools import islice

import torch
from torch import Tensor

from manyhot.metrics.bootstrapping import draw_rows
from manyhot.sorting import count_below

# Cells that are in work at a time: small beside what torch itself takes, large enough to be fast.
CELLS_AT_ONCE = 1 << 20


def draw_rankings(values: Tensor, targets: Tensor, *, replicates: int, seed: int) -> tuple[Tensor, Tensor]:
    """Average precision and AUROC for each draw of rows, both (draws, K + 1): of each label, and last of all cells."""
    rows = torch.arange(len(targets), device=targets.device)
    columns = [(values[:, label], targets[:, label], rows) for label in range(targets.shape[1])]
    every_cell = values.flatten(), targets.flatten(), rows.repeat_interleave(targets.shape[1])
    orders = [OrderedCells(*cells) for cells in (*columns, every_cell)]
    draws, result = draw_rows(len(rows), replicates, seed), []
    while some := list(islice(draws, max(1, CELLS_AT_ONCE // max(1, targets.numel())))):
        times = torch.stack([torch.bincount(one, minlength=len(rows)) for one in some])
        pairs = [torch.stack(ordered.draw(times.to(targets.device)), dim=1).cpu() for ordered in orders]
        result.append(torch.stack(pairs, dim=1))
    ap, auroc = torch.cat(result).unbind(2)
    return ap, auroc


class OrderedCells:
    """Known cells in the order of their values: where each stands does not change when rows count several times.

    Args:
        values: (n,), the values of the cells.
        targets: (n,), their targets.
        rows: (n,), the rows that they belong to.
    """

    def __init__(self, values: Tensor, targets: Tensor, rows: Tensor) -> None:
        known = (targets >= 0).nonzero().flatten()
        order = known[values[known].argsort()]
        ordered = values[order]
        self.rows = rows[order]
        self.present = (targets[order] > 0).nonzero().flatten()
        result = ordered[self.present]
        # How many known and how many present cells lie below each present one, and how many at or below it.
        self.known_below, self.known_upto = (count_below(ordered, result, or_equal=ties) for ties in (False, True))
        self.hits_below, self.hits_upto = (count_below(result, result, or_equal=ties) for ties in (False, True))

    def draw(self, times: Tensor) -> tuple[Tensor, Tensor]:
        """Average precision and AUROC, (draws,), when each row counts so many times, (draws, N)."""
        cells = times[:, self.rows]
        hits = cells[:, self.present]
        known, present = _running(cells), _running(hits)
        at_or_above = (present[:, -1:] - present[:, self.hits_below]).double()
        precision = at_or_above / (known[:, -1:] - known[:, self.known_below]).clamp(min=1)
        below = known[:, self.known_below] - present[:, self.hits_below]
        upto = known[:, self.known_upto] - present[:, self.hits_upto]
        total, absent = present[:, -1].double(), (known[:, -1] - present[:, -1]).double()
        return (hits * precision).sum(1) / total, (hits * (below + upto)).sum(1) / (2 * total * absent)


def _running(counts: Tensor) -> Tensor:
    """(draws, n + 1), the sums of the first 0, 1, ..., n counts."""
    return torch.nn.functional.pad(counts.cumsum(1), (1, 0))
