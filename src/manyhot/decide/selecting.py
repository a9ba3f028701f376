"""Order statistics of more numbers than fit into memory, exact, by counting their bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from manyhot.decide.cuts import BLOCK_CELLS

DIGIT = 16  # bits that one pass over the data settles
BINS = 1 << DIGIT
INTEGERS = {torch.float32: torch.int32, torch.float64: torch.int64}


def order_statistics(batches: Iterable[Tensor], wanted: Callable[[int], list[int]]) -> list[Tensor]:
    """The numbers at places of the ascending order, in two passes for float32 and four for float64.

    Each pass counts how often the next 16 bits of the numbers occur, among those that share the bits found so far. A
    float's bits have the order of its value if it is positive and the opposite one if it is negative, so that only the
    counts need to be brought into order, not the numbers.

    Args:
        batches: Tensors of any shape, all of one type, without NaN; the same ones each time they are gone through.
        wanted: From how many numbers there are to the places that are wanted, the smallest number being at 0.

    Example:
        >>> order_statistics([torch.tensor([0.3, -2.0]), torch.tensor([7.0])], lambda count: [0, count - 1])
        [tensor(-2.), tensor(7.)]
    """
    counts, dtype = _count(batches, {0}, 0)
    places = wanted(int(counts[0].sum()))
    if not places:
        return []
    # The bits of each wanted number found so far, and its place among the numbers that share them.
    order = torch.arange(BINS)
    by_sign = torch.cat([order[BINS // 2 :].flip(0), order[: BINS // 2]])
    found = [_descend(counts[0], by_sign, 0, place) for place in places]
    for digit in range(1, torch.finfo(dtype).bits // DIGIT):
        counts, _ = _count(batches, {prefix for prefix, _ in found}, digit)
        sign = 1 << (digit * DIGIT - 1)
        found = [
            _descend(counts[prefix], order.flip(0) if prefix & sign else order, prefix, place)
            for prefix, place in found
        ]
    return [_number(prefix, dtype) for prefix, _ in found]


def _count(batches: Iterable[Tensor], prefixes: set[int], digit: int) -> tuple[dict[int, Tensor], torch.dtype]:
    """How often each value of the next digit occurs after each prefix, counted on the CPU, and the type."""
    counts = {prefix: torch.zeros(BINS, dtype=torch.int64) for prefix in prefixes}
    dtype = torch.float32
    for batch in batches:
        dtype = batch.dtype
        shift = torch.finfo(dtype).bits - DIGIT * (digit + 1)
        for block in batch.reshape(-1).split(BLOCK_CELLS):
            bits = block.view(INTEGERS[dtype]) >> shift
            for prefix, count in counts.items():
                same = bits
                if digit:
                    same = bits[(bits >> DIGIT) & ((1 << (digit * DIGIT)) - 1) == prefix]
                count += torch.bincount(same & (BINS - 1), minlength=BINS).cpu()
    return counts, dtype


def _descend(counts: Tensor, order: Tensor, prefix: int, place: int) -> tuple[int, int]:
    """The prefix with the next digit of the number at a place, and its place among those that share it."""
    ends = counts[order].cumsum(0)
    reached = int(torch.searchsorted(ends, place, right=True))
    before = int(ends[reached - 1]) if reached else 0
    return (prefix << DIGIT) | int(order[reached]), place - before


def _number(bits: int, dtype: torch.dtype) -> Tensor:
    width = torch.finfo(dtype).bits
    signed = bits - (1 << width) if bits >= 1 << (width - 1) else bits
    return torch.tensor(signed, dtype=INTEGERS[dtype]).view(dtype) + 0.0  # so that minus zero is zero
