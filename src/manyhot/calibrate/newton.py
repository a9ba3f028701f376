"""Newton's method for many small convex problems at once, with parameters that have a lower bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# Largest change of a parameter in one step.
STRIDE = 4.0
# After a step as short as this, the next is below rounding.
SHORT = 1e-7
MOST_STEPS = 100
# Standard deviation of a prior that says hardly more than that parameters are of the order of 1. It decides only where
# the data are silent: without it, labels that are never present would get probabilities of exactly 0.
VAGUE = 2.5
# A negative log-likelihood below that of a single coin toss: every cell lies on its right side, and the steeper a map
# the better it looks.
SEPARATED = 0.5


class Likelihood(NamedTuple):
    """Negative log-likelihood of each problem (K,), its gradient (K, D) and its second derivative (K, D, D)."""

    value: Tensor
    gradient: Tensor
    information: Tensor


class Normal(NamedTuple):
    """A normal distribution of the parameters of a problem: mean (D,) and precision (D, D)."""

    mean: Tensor
    precision: Tensor

    def penalty(self, parameters: Tensor) -> Tensor:
        """Minus the log-density but for a constant, (K,)."""
        return ((parameters - self.mean) * self.slope(parameters)).sum(1) / 2

    def slope(self, parameters: Tensor) -> Tensor:
        """Gradient of the penalty, (K, D)."""
        return (parameters - self.mean) @ self.precision


class Point(NamedTuple):
    """Parameters (K, D) and their likelihood."""

    parameters: Tensor
    likelihood: Likelihood


LikelihoodAt = Callable[[Tensor], Likelihood]


def vague(mean: Tensor) -> Normal:
    """A prior that matters only where the data do not."""
    return Normal(mean, torch.eye(len(mean), dtype=mean.dtype, device=mean.device) / VAGUE**2)


def both(first: Normal, second: Normal) -> Normal:
    """The product of two densities, of which the first is not flat in any direction."""
    precision = first.precision + second.precision
    pull = first.precision @ first.mean + second.precision @ second.mean
    return Normal(torch.linalg.solve(precision, pull), precision)


def minimise(likelihood_at: LikelihoodAt, prior: Normal, start: Tensor, lowest: Tensor) -> Point:
    """Parameters (K, D) at which negative log-likelihood plus penalty is least, for all problems at once."""
    here = Point(start, likelihood_at(start))
    trust = torch.ones_like(here.likelihood.value)
    for _ in range(MOST_STEPS):
        here, trust, length = take_step(likelihood_at, prior, here, trust, lowest)
        if length < SHORT:
            break
    return here


def minimise_bounded(likelihood_at: LikelihoodAt, start: Tensor, lowest: Tensor) -> Tensor:
    """The same for one problem and without a prior, (1, D); with one only where the minimum lies at infinity.

    Args:
        likelihood_at: Of one problem.
        start: (D,), where to begin, and the mean of the prior.
        lowest: (D,).
    """
    cautious = minimise(likelihood_at, vague(start), start.unsqueeze(0), lowest)
    if bool(cautious.likelihood.value < SEPARATED):
        return cautious.parameters
    flat = Normal(start, torch.zeros_like(vague(start).precision))
    free = minimise(likelihood_at, flat, cautious.parameters, lowest)
    return cautious.parameters if bool(free.likelihood.value < SEPARATED) else free.parameters


def take_step(
    likelihood_at: LikelihoodAt, prior: Normal, here: Point, trust: Tensor, lowest: Tensor
) -> tuple[Point, Tensor, float]:
    """One step for every problem; those that it would lead uphill stay, and try a shorter one next time.

    Returns:
        Where the problems are now, the share (K,) of the next step to take, and the length of the longest step.
    """
    step = newton_step(prior, here, lowest)
    length = float(step.abs().max()) if step.numel() else 0.0
    # As far as the first bound on the way, and no further than the quadratic approximation can hold.
    room = torch.where(step < 0, (lowest - here.parameters) / step, torch.inf).amin(1, keepdim=True)
    share = torch.minimum(room, STRIDE / step.abs().amax(1, keepdim=True)).clamp(max=1) * trust.unsqueeze(1)
    new = (here.parameters + step * share).maximum(lowest)
    there = Point(new, likelihood_at(new))
    before, after = (point.likelihood.value + prior.penalty(point.parameters) for point in (here, there))
    better = after <= before + 1e-12 * (1 + before.abs())
    kept = Likelihood(
        torch.where(better, there.likelihood.value, here.likelihood.value),
        torch.where(better[:, None], there.likelihood.gradient, here.likelihood.gradient),
        torch.where(better[:, None, None], there.likelihood.information, here.likelihood.information),
    )
    parameters = torch.where(better[:, None], there.parameters, here.parameters)
    return Point(parameters, kept), torch.where(better, (4 * trust).clamp(max=1), trust / 4), length


def newton_step(prior: Normal, here: Point, lowest: Tensor) -> Tensor:
    """The step to the minimum of the quadratic approximation, (K, D), along which bounded parameters stay put."""
    gradient = here.likelihood.gradient + prior.slope(here.parameters)
    curvature = here.likelihood.information + prior.precision
    at_bound = here.parameters <= lowest + 1e-12
    free = ~(at_bound & (gradient > 0))
    step = torch.zeros_like(gradient)
    for _ in range(len(lowest)):
        # The small number keeps a parameter where it is that neither data nor prior know of.
        diagonal = (~free).to(gradient.dtype) + 1e-12
        matrix = curvature * free.unsqueeze(1) * free.unsqueeze(2) + torch.diag_embed(diagonal)
        step = -torch.linalg.solve(matrix, (gradient * free).unsqueeze(2)).squeeze(2)
        # The pull of the others can press a parameter against the bound that it was about to leave.
        free = free & ~(at_bound & (step < 0))
    return step * free
