"""Large tables in blocks, and sorted values and ranks, from which rankings and thresholds are counted.

Ranks are found by sorting values, not indices: that is several times faster, ties come out grouped, and the number of
values at or above a score is one search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import starmap
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

# Cells per block: enough to keep a device busy, few compared with the data.
CELLS_AT_ONCE = 1 << 22
# Few enough for the cache of a processor.
CELLS_IN_CACHE = 1 << 16
# Columns that are transposed at a time, and on the CPU the rows that stay in its cache meanwhile.
LABELS_AT_ONCE, ROWS_IN_CACHE = 8, 1 << 12
# Values looked up at a time; each of their positions takes several times the memory of the value.
VALUES_AT_ONCE = 1 << 20


def row_blocks(shape: Sequence[int], cells: int | None = None) -> Iterator[slice]:
    """Slices that cover the rows of a table (N, K), each of about so many cells; without rows a single one of none."""
    rows, width = shape
    if torch.compiler.is_exporting():  # a graph has no parts whose number depends on the data
        return iter([slice(None)])
    step = max(1, (cells or CELLS_AT_ONCE) // max(1, width))
    return (slice(start, min(start + step, rows)) for start in range(0, max(rows, 1), step))


def sort_in_place(values: Tensor) -> Tensor:
    """The values in rising order along the last axis; the argument may be overwritten."""
    if values.device.type != "cpu" or not values.is_contiguous():
        return values.sort(-1).values
    # NumPy sorts values alone with vector instructions, where torch always carries their indices along.
    values.numpy().sort(axis=-1)
    return values


def count_below(ordered: Tensor, wanted: Tensor, *, or_equal: bool = False) -> Tensor:
    """How many of the values in rising order lie below each of the `wanted` ones, which should be sorted as well."""
    if ordered.device.type != "cpu":
        return torch.searchsorted(ordered, wanted, right=or_equal)
    # NumPy continues from the position of the previous value.
    return torch.from_numpy(np.searchsorted(ordered.numpy(), wanted.numpy(), "right" if or_equal else "left"))


def select(values: Tensor, chosen: Tensor) -> Tensor:
    """The chosen values as a new tensor of one axis."""
    if values.device.type != "cpu":
        return values[chosen]
    # Several times faster than an index by a mask; in pieces, because it stores the position of each in eight bytes.
    flat, mask = values.numpy().ravel(), chosen.numpy().ravel()
    if len(flat) <= CELLS_AT_ONCE:
        return torch.from_numpy(flat.compress(mask))
    result = np.empty(np.count_nonzero(mask), flat.dtype)
    end = 0
    for block in row_blocks((len(flat), 1)):
        piece = flat[block].compress(mask[block])
        result[end : end + len(piece)] = piece
        end += len(piece)
    return torch.from_numpy(result)


def k_largest(values: Tensor, k: int) -> Tensor:
    """Whether each of (N, K) is among the k largest of its row, of equal ones those first; all are where K is smaller.

    `topk` alone does not define which of equal values it takes.
    """
    least = values.topk(min(k, values.shape[1]), dim=1).values[:, -1:]
    above, equal = values > least, values == least
    remaining = k - above.sum(1, keepdim=True)
    return above | (equal & (equal.cumsum(1, dtype=torch.int32) <= remaining))


class Column(NamedTuple):
    """Values to be compared, such as those of one label, in rising order: of present cells and of all known ones."""

    present: Tensor
    known: Tensor


def sorted_columns(values: Sequence[Tensor], targets: Sequence[Tensor]) -> Iterator[Column]:
    """Each label's column of a table that comes in parts (N_i, K) of values and targets; valid until the next one."""
    return starmap(sorted_column, label_cells(values, targets))


def label_cells(values: Sequence[Tensor], targets: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """The values of each label's present and of its known cells, of a table in parts.

    Both may be overwritten, and are valid until the next ones.
    """
    for lists, marks in zip(_transposed(values), _transposed(targets), strict=True):
        all_known = marks.numel() == 0 or int(marks.amin()) >= 0
        for cells, mark in zip(lists, marks, strict=True):
            yield select(cells, mark > 0), cells if all_known else select(cells, mark >= 0)


def sorted_column(present: Tensor, known: Tensor) -> Column:
    """Values of present and of all known cells in order; both may be overwritten."""
    return Column(sort_in_place(present), sort_in_place(known))


def _transposed(parts: Sequence[Tensor]) -> Iterator[Tensor]:
    """The columns of a table in parts as rows, a few at a time; the next ones take their place in memory."""
    lengths, labels = [len(part) for part in parts], parts[0].shape[1]
    dtype = reduce(torch.promote_types, (part.dtype for part in parts))
    memory = parts[0].new_empty(min(LABELS_AT_ONCE, labels), sum(lengths), dtype=dtype)
    for columns in row_blocks((labels, 1), LABELS_AT_ONCE):
        result = memory[: columns.stop - columns.start]
        for part, lists in zip(parts, result.split(lengths, dim=1), strict=True):
            # On the CPU by NumPy, and in tiles; a device has no need of them.
            on_cpu = part.device.type == "cpu"
            source, target = (part.numpy(), lists.numpy()) if on_cpu else (part, lists)
            for rows in row_blocks((len(part), 1), ROWS_IN_CACHE if on_cpu else len(part)):
                target[:, rows] = source[rows, columns].T
        yield result


class RowRanks(NamedTuple):
    """The ranks of the present labels of each row, from the lowest to the highest; (N, P) for up to P of them in a row.

    Attributes:
        known: How many known labels of the row are scored at or above it, itself included.
        present: How many of these are present.
        valid: Whether there is a label at this position.
        sizes: (N,), how many labels of the row are known.
    """

    known: Tensor
    present: Tensor
    valid: Tensor
    sizes: Tensor


def row_ranks(values: Tensor, present: Tensor, counts: Tensor, sizes: Tensor) -> RowRanks:
    """The ranks of present labels within their rows, by value.

    Args:
        values: (N, K), minus infinity where unknown; they may be overwritten.
        present: (N, K) bool.
        counts: (N,), how many labels of the row are present.
        sizes: (N,), how many are known.
    """
    max_present = int(counts.max()) if len(counts) else 0
    counts, known_counts = counts.unsqueeze(1), sizes.unsqueeze(1)
    # Present values come last in their row. Fillers are at minus infinity, as scores may be: hence the clamps.
    own = sort_in_place(torch.where(present, values, -torch.inf))[:, values.shape[1] - max_present :].contiguous()
    known = sort_in_place(values).contiguous()
    return RowRanks(
        known=(known.shape[1] - torch.searchsorted(known, own)).clamp(max=known_counts),
        present=(max_present - torch.searchsorted(own, own)).clamp(max=counts),
        valid=torch.arange(max_present, device=values.device) >= max_present - counts,
        sizes=sizes,
    )


def by_row(measure: Callable[[RowRanks], Tensor], values: Tensor, targets: Tensor) -> Tensor:
    """A number for each row (N,) in float64, computed from the ranks of its present labels; some rows at a time."""
    parts = []
    for rows in row_blocks(values.shape, CELLS_AT_ONCE // 2):
        present, known = targets[rows] > 0, targets[rows] >= 0
        known_values = torch.where(known, values[rows], -torch.inf)
        # Torch turns all cells into the type of a sum first.
        counts, sizes = (cells.sum(1, dtype=torch.int32) for cells in (present, known))
        parts.append(measure(row_ranks(known_values, present, counts, sizes)).double())
    return torch.cat(parts)
