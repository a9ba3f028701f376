"""Functions of one score at a time whose values and slopes are computed together.

Values and slopes share their exponentials, and nothing is kept for the backward pass but the slopes: forward and
backward together cost about as much as a forward pass of the plain formula, and the slopes stay finite where automatic
differentiation multiplies zero by infinity.
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
BLOCK = 1 << 16


def spare(x: Tensor) -> Tensor | None:
    """`x` as the place for a result (`out=`), where it is not needed any more because no graph is being recorded.

    Only for intermediate results that nobody else holds. A compiler finds such places by itself.
    """
    return None if torch.is_grad_enabled() or torch.compiler.is_compiling() else x


def blocks(scores: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same rows of all tensors, a cacheful at a time where that pays: on the CPU, outside of a compiler."""
    if at_once(scores):
        yield (scores, *others)
    else:
        size = max(1, BLOCK * scores.shape[0] // scores.numel())
        yield from zip(*(tensor.split(size) for tensor in (scores, *others)), strict=True)


def at_once(scores: Tensor) -> bool:
    """Whether to work on all rows at once."""
    if scores.device.type != "cpu" or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return True
    return scores.ndim < 2 or scores.numel() <= BLOCK


def evaluate(function: Function, scores: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
    """Values and slopes, block by block."""
    if at_once(scores):
        return function(scores, *others)
    values, slopes = torch.empty_like(scores), torch.empty_like(scores)
    for *block, some_values, some_slopes in blocks(scores, *others, values, slopes):
        for place, result in zip((some_values, some_slopes), function(*block), strict=True):
            place.copy_(result)
    return values, slopes


def evaluate_sum(function: Function, scores: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of the values, and the slopes, block by block; values are not kept."""
    if at_once(scores):
        values, slopes = function(scores, *others)
        return values.sum(), slopes
    slopes, sums = torch.empty_like(scores), []
    for *block, place in blocks(scores, *others, slopes):
        values, some_slopes = function(*block)
        sums.append(values.sum())
        place.copy_(some_slopes)
    return torch.stack(sums).sum(), slopes


class _Elementwise(torch.autograd.Function):
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
    if not torch.is_grad_enabled() or not scores.requires_grad or transformed():
        return evaluator(function, scores, *others)[0]
    if torch.compiler.is_compiling():
        with torch.no_grad():
            values, slopes = function(scores, *others)
        values = attach(values, slopes, scores)
        return values.sum() if evaluator is evaluate_sum else values
    result: Tensor = _Elementwise.apply(evaluator, function, scores, *others)  # type: ignore[no-untyped-call]
    return result


def attach(values: Tensor, slopes: Tensor, scores: Tensor) -> Tensor:
    """Values as they are, with slopes as their gradient, in operations that every compiler knows.

    Compilers fuse them away. Some mix up autograd functions that are used twice in one graph, so these get none.
    """
    return values + slopes * (scores - scores.detach())


def transformed() -> bool:
    """Whether a transform of `torch.func` is at work, which differentiates the plain formula and reads no values."""
    return bool(torch._C._are_functorch_transforms_active())


def elementwise(function: Function, scores: Tensor, *others: Tensor) -> Tensor:
    """Values of `function` at the scores, with its slopes as the gradient.

    Args:
        function: Takes scores and others, returns values and slopes, all of one shape.
        scores: What the slopes are taken by.
        *others: Constants that belong to the scores row by row.
    """
    return _apply(evaluate, function, scores, *others)


def elementwise_sum(function: Function, scores: Tensor, *others: Tensor) -> Tensor:
    """Sum of the values of `function`, with its slopes as the gradient."""
    return _apply(evaluate_sum, function, scores, *others)
