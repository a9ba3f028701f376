"""Sums over the label pairs of a row and their slopes, on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, library

from manyhot.autograd import CHUNK_NUMEL, with_slope
from manyhot.checks import LossBatch, can_read_values
from manyhot.numerics import MASK_OFFSET, softplus


@library.custom_op("manyhot::pair_rows", mutates_args=())
def pair_rows(log_odds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Sum over a row's pairs of softplus(u_absent - u_present), and its derivative by the log-odds.

    It costs what the present labels cost, not K x K. It is one operation for transforms and compilers, because the
    number of pairs depends on the targets.

    Args:
        log_odds: (N, K).
        targets: (N, K), 1 present, 0 absent, -1 unknown.

    Returns:
        The sums (N, 1) and the slopes (N, K).
    """
    if log_odds.is_cuda:
        from manyhot.losses.kernels_triton import pair_rows_triton  # needs Triton, which builds of torch for GPUs bring

        return pair_rows_triton(log_odds, targets)
    return _pair_rows(log_odds, targets)


def _pair_rows(log_odds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The same on the CPU: every present label against its row, a cacheful of rows and of these at a time."""
    sums, slopes = log_odds.new_zeros(log_odds.shape[0]), log_odds.new_zeros(log_odds.shape)
    size = max(1, CHUNK_NUMEL // max(1, log_odds.shape[1]))
    chunks = zip(*(tensor.split(size) for tensor in (log_odds, targets, sums, slopes)), strict=True)
    for chunk, chunk_targets, chunk_sums, chunk_slopes in chunks:
        absent = torch.sub(chunk, chunk_targets.abs(), alpha=MASK_OFFSET)  # all others so low that they cost nothing
        rows, columns = (chunk_targets > 0).nonzero().unbind(1)
        for row, column in zip(rows.split(size), columns.split(size), strict=True):
            gaps = absent[row].sub_(chunk[row, column, None])
            chunk_sums.index_add_(0, row, softplus(gaps).sum(1))
            pulls = gaps.sigmoid_()
            chunk_slopes.index_add_(0, row, pulls)
            chunk_slopes[row, column] = -pulls.sum(1)
    return sums.unsqueeze(1), slopes


@pair_rows.register_fake
def _(log_odds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return log_odds.new_empty(log_odds.shape[0], 1), torch.empty_like(log_odds, memory_format=torch.contiguous_format)


@pair_rows.register_vmap
def _(info: Any, dims: tuple[int | None, int | None], log_odds: Tensor, targets: Tensor) -> Any:
    stacked = [
        tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        for tensor, dim in zip((log_odds, targets), dims, strict=True)
    ]
    sums, slopes = pair_rows(*(tensor.flatten(0, 1) for tensor in stacked))
    return (sums.view(info.batch_size, -1, 1), slopes.view_as(stacked[0])), (0, 0)


class _DifferentiatedOnce(torch.autograd.Function):
    """The same where derivatives of its results would be recorded: there are none."""

    generate_vmap_rule = True

    @staticmethod
    def forward(log_odds: Tensor, targets: Tensor) -> Any:
        return pair_rows(log_odds, targets)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None: ...

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        raise RuntimeError("`LabelPairRegulariser` has no second derivatives; leave `create_graph` out.")


def pair_sums(log_odds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """As `pair_rows`, without the detour of an operation of its own where nothing needs it."""
    if torch.is_grad_enabled():
        once: tuple[Tensor, Tensor] = _DifferentiatedOnce.apply(log_odds, targets)  # type: ignore[no-untyped-call]
        return once
    return (_pair_rows if can_read_values(log_odds) else pair_rows)(log_odds, targets)


def label_pair_rows(log_odds: Tensor, batch: LossBatch) -> Tensor:
    """Mean over all unordered pairs of a row's known labels of softplus(u_absent - u_present), (N,)."""
    if log_odds.shape[1] < 2:  # no pairs, and a softmax of one label has infinite log-odds
        return 0 * batch.scores.sum(1)
    sizes = batch.row_sizes()
    targets = batch.targets if batch.known is None else batch.targets + batch.known - 1  # as the user gave them
    sums = with_slope(pair_sums, log_odds, targets).squeeze(1)
    return sums * 2 / (sizes * (sizes - 1)).clamp(min=1)
