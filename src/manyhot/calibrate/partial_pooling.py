"""One calibration map per label, partially pooled: Newton's method per label, EM for the prior shared by all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from manyhot.numerics import softplus

SHARING = ("all", "none", "partial")
# Initial standard deviation of the parameters among labels; it counts as much as one label.
PRIOR_STD = 0.1
# How many rows the prior of the shared map counts for, and the largest penalty on the log-likelihood that it adds.
PRIOR_ROWS, MAX_PENALTY = 20, 10.0
MAX_ROUNDS, MAX_UPDATES = 30, 100
# Change of mean and covariance below which they have converged, and the largest factor by which an update is extended.
CONVERGED, MAX_STRETCH = 1e-10, 100.0


def fit_maps(family: Family, cells: Cells, sharing: str) -> Maps:
    """Fits one map for all labels ("all"), one per label ("none"), or one per label with a shared prior ("partial")."""
    shared = fit_shared(family, cells)
    if sharing == "all":
        return shared
    frame = label_frame(family, cells, shared)
    likelihood_at = partial(likelihood_of, family, frame, cells)
    # In this frame the shared map has the same parameters for every label.
    centre = torch.cat([shared.slopes[:, 0] * frame.unit, shared.intercept.new_zeros(int(family.intercept))])
    start, lower_bounds = centre.repeat(cells.num_labels, 1), family.lower_bounds(centre)
    prior = vague_prior(centre)
    if sharing == "partial":
        prior, counted = initial_prior(centre), cells.weights.sum(0) > 0
        current, step_size = Point(start, likelihood_at(start)), torch.ones_like(frame.offset)
        for _ in range(MAX_ROUNDS):
            prior = learn_prior(prior, current, centre, counted)
            current, step_size, length = take_step(likelihood_at, prior, current, step_size, lower_bounds)
            if length < STEP_TOLERANCE:
                break
        start = current.parameters
    return maps_of(family, frame, minimise(likelihood_at, prior, start, lower_bounds).parameters)


def fit_shared(family: Family, cells: Cells) -> Maps:
    """One map for all labels: without any prior for a single slope, as temperature scaling is defined.

    With an intercept, the prior is that the input log-odds are calibrated. It counts for `PRIOR_ROWS` rows that agree
    with them, so that few rows change little.
    """
    frame, pooled = pooled_frame(family, cells), cells.pooled()
    likelihood_at = partial(likelihood_of, family, frame, pooled)
    start = frame.unit.new_tensor([1.0] * family.num_features + [0.0] * family.intercept)
    lower_bounds = family.lower_bounds(start)
    if not family.intercept:
        return maps_of(family, frame, minimise_bounded(likelihood_at, start, lower_bounds))
    # The identity map, and the information of one row about the parameters if that map were right.
    identity = torch.cat([frame.unit.expand(family.num_features), frame.centre.sum(0)])
    rows = cells.weights.sum() / (cells.weights.sum(0) > 0).sum().clamp(min=1)
    information = likelihood_at(identity.unsqueeze(0)).information[0] / rows.clamp(min=torch.finfo(rows.dtype).tiny)
    # Where rows would carry no information, a vague prior still bounds slopes and intercept.
    scale = torch.cat([frame.unit.expand(family.num_features), torch.ones_like(frame.offset)])
    unchanged = Normal(identity, PRIOR_ROWS * information + torch.diag((VAGUE_STD * scale) ** -2))
    current, step_size = Point(start.unsqueeze(0), likelihood_at(start.unsqueeze(0))), torch.ones_like(frame.offset)
    for _ in range(MAX_STEPS):
        prior = product_of_normals(vague_prior(start), bounded_prior(unchanged, current.parameters))
        current, step_size, length = take_step(likelihood_at, prior, current, step_size, lower_bounds)
        if length < STEP_TOLERANCE:
            break
    return maps_of(family, frame, current.parameters)


def bounded_prior(prior: Normal, parameters: Tensor) -> Normal:
    """A prior whose penalty is bounded by `MAX_PENALTY`, because scores that only rank are far from any log-odds.

    With the penalty q of the given prior it is q / (1 + q / MAX_PENALTY). This function returns the quadratic that lies
    above it and touches it at the parameters (1, D), so that each step of Newton's method is one of majorisation.
    """
    return prior._replace(precision=prior.precision / (1 + prior.penalty(parameters) / MAX_PENALTY).square())


def initial_prior(mean: Tensor) -> Normal:
    """The distribution of the parameters of labels before any label is fitted."""
    return Normal(mean, torch.eye(len(mean), dtype=mean.dtype, device=mean.device) / PRIOR_STD**2)


def learn_prior(prior: Normal, current: Point, centre: Tensor, counted: Tensor) -> Normal:
    """The normal distribution from which the parameters of labels most likely come.

    EM takes short steps where labels have little information, so two of them are extrapolated (SQUAREM).

    Args:
        prior: Where to begin.
        current: The labels, each with the quadratic approximation of its likelihood.
        centre: (D,), the parameters of the shared map.
        counted: (K,), the labels with a known cell.

    Reference: Varadhan and Roland, Simple and Globally Convergent Methods for Accelerating the Convergence of Any EM
        Algorithm, Scandinavian Journal of Statistics 2008.
    """
    # Many tiny steps, for which an accelerator is no help.
    parameters, gradient, information = (part[counted].cpu() for part in (current.parameters, *current.likelihood[1:]))
    update = partial(update_prior, parameters, gradient, information, centre.cpu())
    state = torch.cat([prior.mean.unsqueeze(0), torch.linalg.inv(prior.precision)]).cpu()
    for _ in range(MAX_UPDATES):
        start, once = state, update(state)
        state = update(once)
        first, second = once - start, state - once
        if bool(second.abs().max() < CONVERGED):
            break
        stretch = (first.norm() / (second - first).norm()).clamp(1, MAX_STRETCH)
        leap = start + 2 * stretch * first + stretch**2 * (second - first)
        if int(torch.linalg.cholesky_ex(leap[1:]).info) == 0:
            state = update(leap)
    return Normal(state[0].to(centre.device), torch.linalg.inv(state[1:]).to(centre.device))


def update_prior(parameters: Tensor, gradient: Tensor, information: Tensor, centre: Tensor, state: Tensor) -> Tensor:
    """One update of EM: mean and covariance among labels, (1 + D, D), from the posterior of each label.

    The shared map counts as one more label, which regularises the mean, and so does the initial covariance.
    """
    mean, precision = state[0], torch.linalg.inv(state[1:])
    spreads = torch.linalg.inv(information + precision)
    pull = (information @ parameters.unsqueeze(2)).squeeze(2) - gradient + precision @ mean
    modes = (spreads @ pull.unsqueeze(2)).squeeze(2)
    mean = (centre + modes.sum(0)) / (1 + len(modes))
    distances = torch.cat([modes, centre.unsqueeze(0)]) - mean
    guess = PRIOR_STD**2 * torch.eye(len(centre), dtype=centre.dtype)
    covariance = (distances.T @ distances + spreads.sum(0) + guess) / (2 + len(modes))
    return torch.cat([mean.unsqueeze(0), covariance])


# Cells at a time: few enough for the cache of a processor, many enough to fill an accelerator.
BLOCK_ON_CPU, BLOCK_ELSEWHERE = 1 << 16, 1 << 22
# Smallest slope: a flat map would lose the order of scores.
MIN_SLOPE = 1e-3


class Cells(NamedTuple):
    """Input log-odds, targets and weights, all (N, K) in float64; the weight of an unknown cell is 0."""

    input_log_odds: Tensor
    targets: Tensor
    weights: Tensor

    @property
    def num_labels(self) -> int:
        """K."""
        return self.input_log_odds.shape[1]

    def pooled(self) -> Cells:
        """All cells in one column, as if of one label."""
        return Cells(*(part.reshape(-1, 1) for part in self))

    def blocks(self) -> Iterator[Cells]:
        """The rows, so many at a time that they are computed with at once; without rows one empty block."""
        size = BLOCK_ON_CPU if self.input_log_odds.device.type == "cpu" else BLOCK_ELSEWHERE
        rows = max(1, size // max(1, self.num_labels))
        for part in zip(*(tensor.split(rows) for tensor in self), strict=True):
            yield Cells(*part)


class Family(NamedTuple):
    """A kind of map: its features as a function of the input log-odds, and whether it has an intercept."""

    features: Callable[[Tensor], tuple[Tensor, ...]]
    num_features: int
    intercept: bool

    def lower_bounds(self, like: Tensor) -> Tensor:
        """The smallest parameters allowed, (D,)."""
        return like.new_tensor([MIN_SLOPE] * self.num_features + [-torch.inf] * self.intercept)


class Frame(NamedTuple):
    """How parameters describe a map: so that they are of the order of 1, and nearly independent of each other.

    Attributes:
        centre: (F, K) or (F, 1), the features at which a map has the value offset + intercept.
        unit: (), the input log-odds that a slope of 1 maps to log-odds of 1.
        offset: (K,) or (1,).
    """

    centre: Tensor
    unit: Tensor
    offset: Tensor


class Maps(NamedTuple):
    """Maps as they are applied: slopes (F, K) and intercepts (K,), or (F, 1) and (1,) where all labels share one."""

    slopes: Tensor
    intercept: Tensor

    def apply(self, family: Family, input_log_odds: Tensor) -> Tensor:
        """Calibrated log-odds of input log-odds (N, K)."""
        log_odds = self.intercept
        for feature, slope in zip(family.features(input_log_odds), self.slopes, strict=True):
            log_odds = log_odds + slope * feature
        return log_odds


def maps_of(family: Family, frame: Frame, parameters: Tensor) -> Maps:
    """The maps that parameters (K, D) describe."""
    slopes = (parameters[:, : family.num_features] / frame.unit).T
    intercept = parameters[:, -1] if family.intercept else parameters.new_zeros(len(parameters))
    return Maps(slopes, intercept + frame.offset - (slopes * frame.centre).sum(0))


def likelihood_of(family: Family, frame: Frame, cells: Cells, parameters: Tensor) -> Likelihood:
    """How well maps of these parameters (K, D) explain the cells, label by label."""
    slopes, (labels, size) = parameters[:, : family.num_features].T, parameters.shape
    constant = frame.offset + (parameters[:, -1] if family.intercept else 0)
    value, gradient = parameters.new_zeros(labels), parameters.new_zeros(size, labels)
    information = parameters.new_zeros(size, size, labels)
    for input_log_odds, targets, weights in cells.blocks():
        parts = [(x - c) / frame.unit for x, c in zip(family.features(input_log_odds), frame.centre, strict=True)]
        log_odds = sum((slope * part for slope, part in zip(slopes, parts, strict=True)), start=constant)
        if family.intercept:
            parts.append(torch.ones_like(input_log_odds))
        probs = torch.sigmoid(log_odds)
        excess, spread = weights * (probs - targets), weights * probs * (1 - probs)
        value += (weights * (softplus(log_odds) - targets * log_odds)).sum(0)
        for i, part in enumerate(parts):
            gradient[i] += (excess * part).sum(0)
            spread_part = spread * part
            for j in range(i + 1):
                information[i, j] += (spread_part * parts[j]).sum(0)
    lower = information.permute(2, 0, 1).tril()
    return Likelihood(value, gradient.T, lower + lower.tril(-1).mT)


def pooled_frame(family: Family, cells: Cells) -> Frame:
    """The frame of a map that all labels share: in units of the spread of the input log-odds, around their mean."""
    zero = cells.input_log_odds.new_zeros(())
    total = cells.weights.sum().clamp(min=torch.finfo(torch.float64).tiny)
    middle, features = zero, [zero] * family.num_features
    if family.intercept:
        middle = sum(((e * w).sum() for e, _, w in cells.blocks()), start=zero) / total
        features = list(family.features(middle))
    variance = sum(((e - middle).square().mul(w).sum() for e, _, w in cells.blocks()), start=zero) / total
    # Input log-odds that are equal but for rounding have no spread to measure by.
    unit = torch.where(variance.sqrt() > 1e-9 * middle.abs(), variance.sqrt(), 1.0)
    return Frame(torch.stack(features).unsqueeze(1), unit, zero.expand(1))


def label_frame(family: Family, cells: Cells, shared: Maps) -> Frame:
    """The frame of the maps of single labels: in units of the shared slope, around where each label is undecided.

    Errors of slope and intercept are independent there, so that one can be shrunk without spoiling the other: a label
    that needs another slope turns around its own undecided cells, and not around those of other labels.
    """
    total = cells.input_log_odds.new_zeros(cells.num_labels)
    sums = cells.input_log_odds.new_zeros(family.num_features, cells.num_labels)
    if family.intercept:
        for input_log_odds, _, weights in cells.blocks():
            probs = torch.sigmoid(shared.apply(family, input_log_odds))
            undecided = weights * probs * (1 - probs)
            total += undecided.sum(0)
            sums += torch.stack([(undecided * x).sum(0) for x in family.features(input_log_odds)])
    tiny = torch.finfo(torch.float64).tiny
    everywhere = sums.sum(1, keepdim=True) / total.sum().clamp(min=tiny)
    centre = torch.where(total > tiny, sums / total.clamp(min=tiny), everywhere)
    return Frame(centre, 1 / shared.slopes.mean(), (shared.slopes * centre).sum(0) + shared.intercept)


# Largest change of a parameter in one step.
MAX_CHANGE = 4.0
# After a step as short as this, the next is below rounding.
STEP_TOLERANCE = 1e-7
MAX_STEPS = 100
# Standard deviation of a vague prior: parameters are of the order of 1. It matters only where the data do not determine
# them: without it, labels that are never present would get probabilities of exactly 0.
VAGUE_STD = 2.5
# A negative log-likelihood below that of a single coin toss: the cells are separated without error, and the likelihood
# grows with the slope without end.
SEPARATION_LOSS = 0.5


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


def vague_prior(mean: Tensor) -> Normal:
    """A prior that matters only where the data do not."""
    return Normal(mean, torch.eye(len(mean), dtype=mean.dtype, device=mean.device) / VAGUE_STD**2)


def product_of_normals(first: Normal, second: Normal) -> Normal:
    """The product of two densities, of which the first is not flat in any direction."""
    precision = first.precision + second.precision
    pull = first.precision @ first.mean + second.precision @ second.mean
    return Normal(torch.linalg.solve(precision, pull), precision)


def minimise(likelihood_at: LikelihoodAt, prior: Normal, start: Tensor, lower_bounds: Tensor) -> Point:
    """Parameters (K, D) at which negative log-likelihood plus penalty is least, for all problems at once."""
    current = Point(start, likelihood_at(start))
    step_size = torch.ones_like(current.likelihood.value)
    for _ in range(MAX_STEPS):
        current, step_size, length = take_step(likelihood_at, prior, current, step_size, lower_bounds)
        if length < STEP_TOLERANCE:
            break
    return current


def minimise_bounded(likelihood_at: LikelihoodAt, start: Tensor, lower_bounds: Tensor) -> Tensor:
    """The same for one problem and without a prior, (1, D); with one only where the minimum lies at infinity.

    Args:
        likelihood_at: Of one problem.
        start: (D,), where to begin, and the mean of the prior.
        lower_bounds: (D,).
    """
    cautious = minimise(likelihood_at, vague_prior(start), start.unsqueeze(0), lower_bounds)
    if bool(cautious.likelihood.value < SEPARATION_LOSS):
        return cautious.parameters
    flat = Normal(start, torch.zeros_like(vague_prior(start).precision))
    free = minimise(likelihood_at, flat, cautious.parameters, lower_bounds)
    return cautious.parameters if bool(free.likelihood.value < SEPARATION_LOSS) else free.parameters


def take_step(
    likelihood_at: LikelihoodAt, prior: Normal, current: Point, step_size: Tensor, lower_bounds: Tensor
) -> tuple[Point, Tensor, float]:
    """One step for every problem; those that it would lead uphill stay, and try a shorter one next time.

    Returns:
        Where the problems are now, the share (K,) of the next step to take, and the length of the longest step.
    """
    step = newton_step(prior, current, lower_bounds)
    length = float(step.abs().max()) if step.numel() else 0.0
    # As far as the first bound on the way, and no further than the quadratic approximation can hold.
    distance_to_bound = torch.where(step < 0, (lower_bounds - current.parameters) / step, torch.inf).amin(
        1, keepdim=True
    )
    share = torch.minimum(distance_to_bound, MAX_CHANGE / step.abs().amax(1, keepdim=True)).clamp(
        max=1
    ) * step_size.unsqueeze(1)
    new = (current.parameters + step * share).maximum(lower_bounds)
    proposal = Point(new, likelihood_at(new))
    before, after = (point.likelihood.value + prior.penalty(point.parameters) for point in (current, proposal))
    better = after <= before + 1e-12 * (1 + before.abs())
    accepted = Likelihood(
        torch.where(better, proposal.likelihood.value, current.likelihood.value),
        torch.where(better[:, None], proposal.likelihood.gradient, current.likelihood.gradient),
        torch.where(better[:, None, None], proposal.likelihood.information, current.likelihood.information),
    )
    parameters = torch.where(better[:, None], proposal.parameters, current.parameters)
    return Point(parameters, accepted), torch.where(better, (4 * step_size).clamp(max=1), step_size / 4), length


def newton_step(prior: Normal, current: Point, lower_bounds: Tensor) -> Tensor:
    """The step to the minimum of the quadratic approximation, (K, D), along which bounded parameters stay put."""
    gradient = current.likelihood.gradient + prior.slope(current.parameters)
    curvature = current.likelihood.information + prior.precision
    at_bound = current.parameters <= lower_bounds + 1e-12
    free = ~(at_bound & (gradient > 0))
    step = torch.zeros_like(gradient)
    for _ in range(len(lower_bounds)):
        # The small number keeps a parameter where it is that neither data nor prior know of.
        diagonal = (~free).to(gradient.dtype) + 1e-12
        matrix = curvature * free.unsqueeze(1) * free.unsqueeze(2) + torch.diag_embed(diagonal)
        step = -torch.linalg.solve(matrix, (gradient * free).unsqueeze(2)).squeeze(2)
        # The pull of the others can press a parameter against the bound that it was about to leave.
        free = free & ~(at_bound & (step < 0))
    return step * free
