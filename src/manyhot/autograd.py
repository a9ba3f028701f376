"""Functions of scores whose values and slopes are computed together, for every way in which torch differentiates.

Values and slopes share their exponentials, and the backward pass needs only the slopes: forward and backward together
cost about as much as a forward pass of the plain formula, and the slopes stay finite where automatic differentiation
multiplies zero by infinity.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from manyhot.checks import can_read_values

# Takes scores and constants of the same shape, or None; returns values and slopes.
Function = Callable[..., tuple[Tensor, Tensor]]

# On the CPU, blocks of about so many numbers keep all intermediate results in the cache, and their memory in use:
# fresh memory costs more time than the arithmetic.
CHUNK_NUMEL = 1 << 16


def in_chunks(function: Function, scores: Tensor, *constants: Tensor | None) -> tuple[Tensor, Tensor]:
    """Values and slopes of independent rows, a cacheful at a time where that pays: eagerly on the CPU."""
    if scores.numel() <= CHUNK_NUMEL or torch.is_grad_enabled() or not can_read_values(scores):
        return function(scores, *constants)
    count = math.ceil(scores.numel() / CHUNK_NUMEL)
    slopes = torch.empty_like(scores)
    values: list[Tensor] = []
    parts = (repeat(None) if tensor is None else tensor.chunk(count) for tensor in (slopes, scores, *constants))
    for part, *inputs in zip(*parts, strict=False):
        value, slope = function(*inputs)
        values.append(value)
        part.copy_(slope)  # while it is in the cache
    return torch.cat(values) if values[0].ndim else torch.stack(values).sum(), slopes


class _WithSlope(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(function: Function, scores: Tensor, *constants: Tensor | None) -> tuple[Tensor, Tensor]:
        return function(scores, *constants)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.function = inputs[0]
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1], *inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        slopes, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives the slopes must be part of the graph
            slopes = ctx.function(*inputs)[1]
        return None, None if grad is None else grad * slopes, *(None for _ in inputs[1:])


class _NoDefaults(inspect.Signature):
    """Torch binds the arguments of `forward` at every call, which takes longer than a loss of few cells."""

    def bind(self, *args: Any, **_: Any) -> Any:
        return SimpleNamespace(args=args, apply_defaults=bool)


_WithSlope.forward.__signature__ = _NoDefaults()  # type: ignore[attr-defined]


class _WithForwardMode(_WithSlope):
    """Also for forward mode, of which the compiler wants to hear nothing."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _WithSlope.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs[1:])
        ctx.set_materialize_grads(False)  # no zeros for the gradient by the slopes, which there never is
        ctx.shape = output[0].shape

    @staticmethod
    def jvp(ctx: Any, _function: None, tangent: Tensor, *_constants: Any) -> tuple[Tensor, None]:
        slopes = ctx.function(*ctx.saved_tensors)[1]
        return (tangent * slopes).sum_to_size(ctx.shape), None


def with_slope(function: Function, scores: Tensor, *constants: Tensor | None) -> Tensor:
    """Values of `function` at the scores, with its slopes as their gradient.

    Args:
        function: Takes scores and constants; returns values, and slopes shaped like the scores. Values of shape (N, K)
            belong to cells, (N, 1) to rows, (1, K) to columns; () is a sum. For second derivatives, its operations are
            differentiated.
        scores: What the slopes are taken by.
        *constants: Of the shape of the scores, or None.
    """
    if torch.compiler.is_compiling() and not (torch.is_grad_enabled() and scores.requires_grad):
        return function(scores, *constants)[0]  # the compiler takes autograd functions only where there is a gradient
    kind = _WithSlope if torch.compiler.is_compiling() else _WithForwardMode
    values: Tensor = kind.apply(function, scores, *constants)[0]  # type: ignore[no-untyped-call]
    return values


def is_differentiated(tensor: Tensor) -> bool:
    """Whether a derivative by this tensor may be wanted, backward or forward."""
    if tensor.requires_grad or torch.compiler.is_compiling():
        return tensor.requires_grad
    return forward_ad.unpack_dual(tensor).tangent is not None
