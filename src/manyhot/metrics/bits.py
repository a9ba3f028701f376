"""Sets of samples as bits: which of them match a query, and how many."""

from __future__ import annotations

import torch
from torch import Tensor


def pack(marks: Tensor) -> Tensor:
    """(M, N) bool as (M, W) int64, 64 samples a word; what the last word has too many is 0."""
    rows, samples = marks.shape
    padded = marks.new_zeros(rows, max(1, -(-samples // 64)) * 64)
    padded[:, :samples] = marks
    weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=marks.device)
    packed = (padded.view(rows, -1, 8).to(torch.uint8) * weights).sum(2, dtype=torch.uint8)
    return packed.view(torch.int64)


def unpack(words: Tensor, samples: int) -> Tensor:
    """(M, W) int64 as (M, N) bool."""
    weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=words.device)
    marks = (words.view(torch.uint8).unsqueeze(2) & weights).bool().flatten(1)
    return marks[:, :samples]


def intersect(words: Tensor, sets: Tensor) -> Tensor:
    """(Q, W), the samples that are in all of the sets (Q, L) that are named by their rows of `words` (M, W)."""
    found = words[sets[:, 0]]
    for place in range(1, sets.shape[1]):
        found &= words[sets[:, place]]
    return found


def count(words: Tensor) -> Tensor:
    """(M,), how many bits of each row are set."""
    # Bits are added in pairs, then in fours, then in bytes, and a product gathers the bytes in the highest one. Shifts
    # repeat the sign, which every mask cuts off.
    words = words - (words >> 1 & 0x5555555555555555)
    words = (words & 0x3333333333333333) + (words >> 2 & 0x3333333333333333)
    words = words + (words >> 4) & 0x0F0F0F0F0F0F0F0F
    return (words * 0x0101010101010101 >> 56).sum(1)
