"""Sums over the label pairs of a row and their slopes, on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, library

from manyhot.autograd import inside_func_transform, row_chunks
from manyhot.checks import LossBatch
from manyhot.numerics import MASK_OFFSET, softplus


def pair_sums_and_slopes(log_odds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Sum over a row's pairs of softplus(u_absent - u_present), and its derivative by the log-odds.

    It costs what the present labels cost, not K x K.

    Args:
        log_odds: (N, K).
        targets: (N, K), 1 present, 0 absent, -1 unknown.

    Returns:
        The sums (N,) and the slopes (N, K).
    """
    if log_odds.is_cuda:
        from manyhot.losses.kernels_triton import pair_rows_triton  # needs Triton, which builds of torch for GPUs bring

        return pair_rows_triton(log_odds, targets)
    log_odds = log_odds.contiguous()
    cells = (targets > 0).flatten().nonzero().squeeze(1)
    rows = cells // max(1, log_odds.shape[1])
    counts = torch.bincount(rows, minlength=log_odds.shape[0])
    rank = torch.arange(cells.numel(), device=cells.device) - (counts.cumsum(0) - counts)[rows]
    # The j-th present label of every row in column j; where a row has none, one so high that its pairs cost nothing.
    own = log_odds.new_full((log_odds.shape[0], int(counts.max()) if cells.numel() else 0), MASK_OFFSET)
    own[rows, rank] = log_odds.flatten()[cells]
    sums, pulls, slopes = log_odds.new_zeros(log_odds.shape[0]), torch.zeros_like(own), torch.zeros_like(log_odds)
    for block in row_chunks(log_odds, targets, own, counts, sums, pulls, slopes):
        _accumulate_pairs(*block)
    slopes.view(-1)[cells] = -pulls[rows, rank]
    return sums, slopes


def _accumulate_pairs(
    log_odds: Tensor, targets: Tensor, own: Tensor, counts: Tensor, sums: Tensor, pulls: Tensor, slopes: Tensor
) -> None:
    """Adds the pairs of some rows to their sums and slopes, one present label of every row at a time."""
    others = torch.sub(log_odds, targets.abs(), alpha=MASK_OFFSET)
    gaps, costs = torch.empty_like(others), torch.empty_like(others)
    for j in range(int(counts.max()) if counts.numel() else 0):
        with_another = (counts > j).nonzero().squeeze(1)
        if 4 * with_another.numel() > 3 * counts.numel():
            gap = torch.sub(others, own[:, j, None], out=gaps)
            sums += torch.ops.aten.softplus.out(gap, 1, 40, out=costs).sum(1)
            pulls[:, j] = gap.sigmoid_().sum(1)
            slopes += gap
        else:  # few rows have so many present labels: work on a copy of these alone
            gap = others[with_another].sub_(own[with_another, j, None])
            sums[with_another] += softplus(gap).sum(1)
            pulls[with_another, j] = gap.sigmoid_().sum(1)
            slopes[with_another] += gap


class _PairSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_odds: Tensor, targets: Tensor) -> Tensor:
        sums, slopes = pair_sums_and_slopes(log_odds, targets)
        ctx.save_for_backward(slopes)
        return sums

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():
            raise RuntimeError("`LabelPairRegulariser` has no second derivatives; leave `create_graph` out.")
        return grad.unsqueeze(1) * ctx.saved_tensors[0], None


@library.custom_op("manyhot::pair_rows", mutates_args=())
def pair_rows(log_odds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The same as one operation for the compiler, because the number of pairs depends on the targets."""
    with torch.no_grad():
        return pair_sums_and_slopes(log_odds, targets)


@pair_rows.register_fake
def _(log_odds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return log_odds.new_empty(log_odds.shape[0]), torch.empty_like(log_odds, memory_format=torch.contiguous_format)


def _save_slopes(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])


def _backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
    return grad.unsqueeze(1) * ctx.saved_tensors[0], None


pair_rows.register_autograd(_backward, setup_context=_save_slopes)


def label_pair_rows(log_odds: Tensor, batch: LossBatch) -> Tensor:
    """Mean over all unordered pairs of a row's known labels of softplus(u_absent - u_present), (N,)."""
    if log_odds.shape[1] < 2:  # no pairs, and a softmax of one label has infinite log-odds
        return 0 * batch.scores.sum(1)
    sizes, targets = batch.row_sizes(), batch.signed
    if torch.compiler.is_compiling() or inside_func_transform() or log_odds.is_meta or type(log_odds) is not Tensor:
        sums: Tensor = pair_rows(log_odds, targets)[0]
    else:
        sums = _PairSums.apply(log_odds, targets)  # type: ignore[no-untyped-call]
    return sums * 2 / (sizes * (sizes - 1)).clamp(min=1)
