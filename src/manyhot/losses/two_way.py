"""The two-way loss: present labels above absent ones along samples and along classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyhot.checks import Batch, check_choice, check_number
from manyhot.losses.loss import Loss, Term
from manyhot.numerics import hide, softplus
from manyhot.slopes import transformed

Dims = tuple[int, ...]


class TwoWay(NamedTuple):
    """Temperatures and margin."""

    temperature_pos: float
    temperature_neg: float
    margin: float


def two_way_units(scores: Tensor, present: Tensor, absent: Tensor, dim: int, shape: TwoWay) -> Tensor:
    """Loss of every row (`dim` 1) or column (`dim` 0), by the formula as it stands.

    A unit without a present or an absent label costs nothing: its soft maximum lies out of sight, where softplus is
    exactly zero.
    """
    hardest_absent = torch.logsumexp(hide(scores / shape.temperature_neg, absent), dim=dim)
    hardest_present = torch.logsumexp(hide(scores / -shape.temperature_pos, present), dim=dim)
    gaps = shape.temperature_neg * hardest_absent + shape.temperature_pos * hardest_present
    return softplus(gaps + shape.margin)


class _Units(torch.autograd.Function):
    """The same along several axes, with the gradient in closed form: half the exponentials, and little memory."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, present: Tensor, absent: Tensor, dims: Dims, shape: TwoWay
    ) -> tuple[Tensor, ...]:
        units, slopes = zip(*units_and_slopes_along(dims, scores, present, absent, shape), strict=True)
        ctx.save_for_backward(scores, present, absent, *slopes)
        ctx.dims, ctx.shape = dims, shape
        return tuple(units)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scores, present, absent, *slopes = ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives are wanted
            units = [two_way_units(scores, present, absent, dim, ctx.shape) for dim in ctx.dims]
            (total,) = torch.autograd.grad(units, scores, grads, create_graph=True)
            return total, None, None, None, None
        total = slopes[0] * grads[0].unsqueeze(ctx.dims[0])
        for slope, grad, dim in zip(slopes[1:], grads[1:], ctx.dims[1:], strict=True):
            total.addcmul_(slope, grad.unsqueeze(dim))
        return total, None, None, None, None


def units_and_slopes_along(
    dims: Dims, scores: Tensor, present: Tensor, absent: Tensor, shape: TwoWay
) -> list[tuple[Tensor, Tensor]]:
    """Losses of all rows and columns, and their derivatives, for each axis."""
    up, down = hide(scores, absent), hide(-scores, present)
    copies = [(up.clone(), down.clone()) for _ in dims[1:]]
    return [units_and_slopes(*pair, dim, shape) for pair, dim in zip([*copies, (up, down)], dims, strict=True)]


def units_and_slopes(up: Tensor, down: Tensor, dim: int, shape: TwoWay) -> tuple[Tensor, Tensor]:
    """Loss of every row or column and its derivative by the scores.

    Args:
        up: Scores of absent labels, the others out of sight; written over.
        down: Negated scores of present labels, the others out of sight; written over.
        dim: 1 for rows, 0 for columns.
        shape: Temperatures and margin.
    """
    absent, absent_sum, hardest_absent = exponentials(up, dim, shape.temperature_neg)
    present, present_sum, hardest_present = exponentials(down, dim, shape.temperature_pos)
    gaps = hardest_absent + hardest_present + shape.margin
    pull = torch.sigmoid(gaps)
    slopes = absent.mul_(pull / absent_sum).sub_(present.mul_(pull / present_sum))
    return softplus(gaps).squeeze(dim), slopes


def exponentials(hidden: Tensor, dim: int, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """e^(x / T) relative to its largest along `dim`, written over x, the sum of these, and T log-sum-exp(x / T)."""
    if hidden.shape[dim] == 0:
        nothing = hidden.sum(dim, keepdim=True)
        return hidden, nothing + 1, nothing
    top = hidden.amax(dim, keepdim=True)
    # Not `exp`, which on some processors takes ten times as long where the result is zero, as for all hidden cells.
    relative = hidden.sub_(top).mul_(math.log2(math.e) / temperature).exp2_()
    total = relative.sum(dim, keepdim=True)
    return relative, total, top + temperature * total.log()


class TwoWayLoss(Loss):
    """Softmax cross-entropy for several labels, taken along samples and along classes: for the best ranking.

    unit(P, N) = softplus(T_neg LSE_N(s / T_neg) + T_pos LSE_P(-s / T_pos) + margin)
    loss = mean over rows with a label + mean over columns with a label

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; returns ().
    Link: none, the scores only rank. Fit a calibrator to read them as probabilities.
    No-label rows: left out of the mean over rows; in the columns they are absent labels like any other.

    Args:
        axis: "both", "sample" (rows only) or "class" (columns only).
        temperature_pos: Spreads the gradient over all present labels of a unit when above 1.
        temperature_neg: The same for absent labels.
        margin: By how much present labels should lie above absent ones.

    Reference: Kobayashi, Two-way Multi-Label Loss, CVPR 2023, with its defaults. The official code masks cells by
        adding -100, which leaks for large scores; here masked cells count exactly nothing.

    Example:
        >>> loss = TwoWayLoss()
        >>> loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 1]]))
        tensor(0.4402)
    """

    def __init__(
        self,
        axis: str = "both",
        *,
        temperature_pos: float = 4.0,
        temperature_neg: float = 1.0,
        margin: float = 0.0,
    ) -> None:
        super().__init__()
        self.axis = check_choice("axis", "TwoWayLoss", axis, ("both", "sample", "class"))
        self.shape = TwoWay(
            check_number("temperature_pos", "TwoWayLoss", temperature_pos, low=0, low_open=True),
            check_number("temperature_neg", "TwoWayLoss", temperature_neg, low=0, low_open=True),
            check_number("margin", "TwoWayLoss", margin),
        )
        self.mixes_rows = axis != "sample"

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """A mean over rows, a mean over columns, or both."""
        dims: Dims = {"both": (1, 0), "sample": (1,), "class": (0,)}[self.axis]
        units = self.units(batch, dims)
        counted = [(batch.targets.sum(dim) > 0).to(batch.scores.dtype) for dim in dims]
        return [Term(values * counts, counts.sum()) for values, counts in zip(units, counted, strict=True)]

    def units(self, batch: Batch, dims: Dims) -> Sequence[Tensor]:
        """Loss of every row or column, for each of the axes."""
        scores, present, absent = batch.scores, batch.targets, batch.absent
        if transformed():
            return [two_way_units(scores, present, absent, dim, self.shape) for dim in dims]
        if torch.compiler.is_compiling():
            with torch.no_grad():
                pairs = units_and_slopes_along(dims, scores, present, absent, self.shape)
            here = scores - scores.detach()  # zero with a gradient: see `manyhot.slopes.attach`
            return [values + (slopes * here).sum(dim) for (values, slopes), dim in zip(pairs, dims, strict=True)]
        units: tuple[Tensor, ...] = _Units.apply(scores, present, absent, dims, self.shape)  # type: ignore[no-untyped-call]
        return units
