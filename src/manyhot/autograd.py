"""Functions of one score at a time whose values and slopes are computed together.

Values and slopes share their exponentials, and the backward pass needs only the slopes: forward and backward together
cost about as much as a forward pass of the plain formula, and the slopes stay finite where automatic differentiation
multiplies zero by infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

# Takes scores and what belongs to them row by row; returns values and slopes.
Function = Callable[..., tuple[Tensor, Tensor]]

# On the CPU, blocks of about so many numbers keep all intermediate results in the cache, and their memory in use:
# fresh memory costs more time than the arithmetic.
CHUNK_NUMEL = 1 << 16


def reusable(x: Tensor) -> Tensor | None:
    """`x` as the `out=` argument of an operation where no graph is recorded; None where `x` must not be overwritten.

    Only for intermediate results without another reference. A compiler reuses memory by itself.
    """
    return None if torch.is_grad_enabled() or torch.compiler.is_compiling() else x


def row_chunks(scores: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same rows of all tensors, a cacheful at a time where that pays: on the CPU, outside of a compiler."""
    if fits_one_chunk(scores):
        yield (scores, *others)
    else:
        size = max(1, CHUNK_NUMEL * scores.shape[0] // scores.numel())
        yield from zip(*(tensor.split(size) for tensor in (scores, *others)), strict=True)


def fits_one_chunk(scores: Tensor) -> bool:
    """Whether to work on all rows at once."""
    if scores.device.type != "cpu" or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return True
    return scores.ndim < 2 or scores.numel() <= CHUNK_NUMEL


def values_and_slopes(function: Function, scores: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
    """Values and slopes, block by block."""
    if fits_one_chunk(scores):
        return function(scores, *others)
    values, slopes = torch.empty_like(scores), torch.empty_like(scores)
    for *block, some_values, some_slopes in row_chunks(scores, *others, values, slopes):
        for output, result in zip((some_values, some_slopes), function(*block), strict=True):
            output.copy_(result)
    return values, slopes


def sum_and_slopes(function: Function, scores: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of the values, and the slopes, block by block; values are not kept."""
    if fits_one_chunk(scores):
        values, slopes = function(scores, *others)
        return values.sum(), slopes
    slopes, sums = torch.empty_like(scores), []
    for *block, output in row_chunks(scores, *others, slopes):
        values, some_slopes = function(*block)
        sums.append(values.sum())
        output.copy_(some_slopes)
    return torch.stack(sums).sum(), slopes


class _WithSlope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, evaluator: Function, function: Function, scores: Tensor, *others: Tensor) -> Tensor:
        values, slopes = evaluator(function, scores, *others)
        ctx.function = function
        ctx.save_for_backward(slopes, scores, *others)
        return values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slopes, scores, *others = ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives are wanted: the slopes must be part of the graph
            slopes = ctx.function(scores, *others)[1]
        return None, None, grad * slopes, *(None for _ in others)


def _apply(evaluator: Function, function: Function, scores: Tensor, *others: Tensor) -> Tensor:
    if not torch.is_grad_enabled() or not scores.requires_grad or inside_func_transform():
        return evaluator(function, scores, *others)[0]
    if torch.compiler.is_compiling():
        with torch.no_grad():
            values, slopes = function(scores, *others)
        values = attach_slopes(values, slopes, scores)
        return values.sum() if evaluator is sum_and_slopes else values
    result: Tensor = _WithSlope.apply(evaluator, function, scores, *others)  # type: ignore[no-untyped-call]
    return result


def attach_slopes(values: Tensor, slopes: Tensor, scores: Tensor) -> Tensor:
    """Values as they are, with slopes as their gradient, in operations that every compiler knows.

    Compilers fuse them away. Some mix up autograd functions that are used twice in one graph, so these get none.
    """
    return values + slopes * (scores - scores.detach())


def inside_func_transform() -> bool:
    """Whether a transform of `torch.func` is at work, which differentiates the plain formula and reads no values."""
    return bool(torch._C._are_functorch_transforms_active())


def with_slope(function: Function, scores: Tensor, *others: Tensor) -> Tensor:
    """Values of `function` at the scores, with its slopes as the gradient.

    Args:
        function: Takes scores and others, returns values and slopes, all of one shape.
        scores: What the slopes are taken by.
        *others: Constants that belong to the scores row by row.
    """
    return _apply(values_and_slopes, function, scores, *others)


def sum_with_slope(function: Function, scores: Tensor, *others: Tensor) -> Tensor:
    """Sum of the values of `function`, with its slopes as the gradient."""
    return _apply(sum_and_slopes, function, scores, *others)
