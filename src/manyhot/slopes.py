"""Functions of one score at a time whose values and slopes are computed together.

Values and slopes share their exponentials, and nothing is kept for the backward pass but the slopes: forward and backward
together cost about as much as a forward pass of the plain formula, and the slopes stay finite where automatic
differentiation multiplies zero by infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

ValuesAndSlopes = Callable[[Tensor], tuple[Tensor, Tensor]]


def spare(x: Tensor) -> Tensor | None:
    """`x` as the place for a result (`out=`), where it is not needed any more because no graph is being recorded.

    Only for intermediate results. Fresh memory costs more time here than arithmetic.
    """
    return None if torch.is_grad_enabled() else x


class _Elementwise(torch.autograd.Function):
    @staticmethod
    def forward(scores: Tensor, function: ValuesAndSlopes) -> tuple[Tensor, Tensor]:
        return function(scores)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ValuesAndSlopes], output: tuple[Tensor, Tensor]) -> None:
        scores, ctx.function = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(scores, output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, None]:
        if grad is None:
            return None, None
        scores, slopes = ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives are wanted: the slopes must be part of the graph
            slopes = ctx.function(scores)[1]
        return grad * slopes, None


def elementwise(function: ValuesAndSlopes, scores: Tensor) -> Tensor:
    """Values of `function` at the scores, with its slopes as the gradient."""
    if torch.is_grad_enabled() and scores.requires_grad:
        values: Tensor = _Elementwise.apply(scores, function)[0]  # type: ignore[no-untyped-call]
        return values
    return function(scores)[0]
