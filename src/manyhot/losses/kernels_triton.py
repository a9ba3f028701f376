"""Sums over the label pairs of a row and their slopes, as a Triton kernel."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice


@triton.jit  # type: ignore[untyped-decorator]
def _pair_rows(u_ptr, targets_ptr, sums_ptr, slopes_ptr, K, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64) * K
    u_ptr += row
    slopes_ptr += row
    total = tl.zeros([BLOCK], dtype=u_ptr.dtype.element_ty)
    for start in range(0, K, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        present = tl.load(targets_ptr + row + columns, mask=columns < K, other=0) > 0
        left = tl.sum(present.to(tl.int32))
        last = start - 1
        while left > 0:
            own_column = tl.min(tl.where(present & (columns > last), columns, K))
            own = tl.load(u_ptr + own_column)
            pull = tl.zeros([BLOCK], dtype=u_ptr.dtype.element_ty)
            for other_start in range(0, K, BLOCK):
                others = other_start + tl.arange(0, BLOCK)
                # Only absent labels are read and written here, so the slope of the present one is never overwritten.
                absent = tl.load(targets_ptr + row + others, mask=others < K, other=1) == 0
                gap = tl.load(u_ptr + others, mask=absent, other=0) - own
                small = tl.exp(-tl.abs(gap))
                share = tl.where(gap >= 0, 1.0, small) / (1.0 + small)
                total += tl.where(absent, tl.maximum(gap, 0.0) + libdevice.log1p(small), 0.0)
                pull += tl.where(absent, share, 0.0)
                slope = tl.load(slopes_ptr + others, mask=absent, other=0)
                tl.store(slopes_ptr + others, slope + share, mask=absent)
            tl.store(slopes_ptr + own_column, -tl.sum(pull))
            last = own_column
            left -= 1
    tl.store(sums_ptr + tl.program_id(0), tl.sum(total))


def pair_rows_triton(log_odds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Sums (N, 1) and slopes (N, K), as `pair_rows`."""
    log_odds, targets = log_odds.contiguous(), targets.contiguous()
    rows, labels = log_odds.shape
    sums, slopes = log_odds.new_zeros(rows), torch.zeros_like(log_odds)
    if rows and labels:
        block = min(1024, triton.next_power_of_2(labels))
        _pair_rows[(rows,)](log_odds, targets, sums, slopes, labels, BLOCK=block)
    return sums.unsqueeze(1), slopes
