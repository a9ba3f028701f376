"""Thresholds between two neighbouring values, and rows in blocks that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

# Cells that are worked on at once: large enough to be fast, and a small part of any machine's memory.
BLOCK_CELLS = 1 << 22


def midway(low: Tensor, high: Tensor) -> Tensor:
    """The threshold halfway between two values: of what is at least as large, it lets `high` pass and `low` not.

    Where halfway is no number, or rounds to `low`, it is `high` itself; below infinity it is the largest number, since
    nothing reaches an infinite threshold. Computed in the type of the values, so that comparing them with it is exact.
    """
    middle = torch.where(high == torch.inf, torch.finfo(high.dtype).max, low / 2 + high / 2)
    return torch.where(middle > low, middle, high)


def midway_strict(low: Tensor, high: Tensor) -> Tensor:
    """As `midway` for what is strictly larger than the threshold: where there is no middle, it is `low` itself."""
    middle = low / 2 + high / 2
    return torch.where(middle < high, middle, low)


def reached(values: Tensor, thresholds: Tensor) -> Tensor:
    """Whether values (N, K) reach thresholds; an infinite one is reached by nothing, not even by an infinite value."""
    return values >= thresholds.masked_fill(thresholds == torch.inf, torch.nan).to(values)


def row_blocks(shape: Sequence[int], cells: int = BLOCK_CELLS) -> Iterator[slice]:
    """Slices of the rows of a table (N, K) that cover all of them, each of about that many cells."""
    rows, labels = shape
    step = max(1, cells // max(1, labels))
    for start in range(0, rows, step):
        yield slice(start, start + step)
