"""One calibration map per label, partially pooled: Newton's method per label, EM for the prior shared by all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from manyhot.numerics import softplus
from manyhot.sorting import CELLS_IN_CACHE, row_blocks

SHARING = ("all", "none", "partial")
# Smallest slope: a flat map would lose the order of scores.
MIN_SLOPE = 1e-3
# Initial standard deviation of the parameters among labels; it counts as much as one label.
PRIOR_STD = 0.1
# Standard deviation of a vague prior: parameters are of the order of 1. It matters only where the data do not determine
# them: without it, labels that are never present would get probabilities of exactly 0.
VAGUE_STD = 2.5
# How many rows the prior of the shared map counts for, and the largest penalty on the log-likelihood that it adds.
PRIOR_ROWS, MAX_PENALTY = 20, 10.0
MAX_ROUNDS, MAX_UPDATES, MAX_STEPS = 30, 100, 100
# Change of mean and covariance below which they have converged, and the largest factor by which an update is extended.
CONVERGED, MAX_STRETCH = 1e-10, 100.0
# Largest change of a parameter in one step, and the length of a step after which the next is below rounding.
MAX_CHANGE, STEP_TOLERANCE = 4.0, 1e-7
# A negative log-likelihood below that of a single coin toss: the cells are separated without error, and the likelihood
# grows with the slope without end.
SEPARATION_LOSS = 0.5
# A curvature that keeps a parameter where it is that neither data nor prior know of.
NEGLIGIBLE = 1e-12


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

    def weighted(self, shares: Tensor) -> Cells:
        """The rows whose share (N,) is not 0, with their weights multiplied by it."""
        weighted = self._replace(weights=self.weights * shares.unsqueeze(1))
        return Cells(*(part[shares > 0] for part in weighted))

    def blocks(self) -> Iterator[Cells]:
        """The cells in `in_row_blocks`."""
        return (Cells(*part) for part in in_row_blocks(*self))


def in_row_blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Tensors with the same rows in blocks, of so many rows as are computed with at once; without rows one of none.

    Args:
        *tensors: The first of them is (N, K).
    """
    blocks = row_blocks(tensors[0].shape, CELLS_IN_CACHE if tensors[0].device.type == "cpu" else None)
    return (tuple(tensor[rows] for tensor in tensors) for rows in blocks)


class Maps(NamedTuple):
    """Fitted maps, one for each label or one that all share.

    Attributes:
        slopes: (F, K), or (F, 1).
        intercept: (K,), or (1,).
        covariance: (K, D, D), or (1, D, D), of the posterior of slopes and intercept; of the slopes alone in a family
            without an intercept.
    """

    slopes: Tensor
    intercept: Tensor
    covariance: Tensor


class Family(NamedTuple):
    """A kind of map: its features as a function of the input log-odds, and whether it has an intercept."""

    features: Callable[[Tensor], tuple[Tensor, ...]]
    num_features: int
    intercept: bool

    def with_intercept(self, slopes: Tensor, value: float) -> Tensor:
        """(D, ...), numbers of the slopes (F, ...), followed by that of the intercept if there is one."""
        return torch.cat([slopes, slopes.new_full((int(self.intercept), *slopes.shape[1:]), value)])

    def apply(self, slopes: Tensor, intercept: Tensor, input_log_odds: Tensor) -> Tensor:
        """Calibrated log-odds of input log-odds (N, K)."""
        log_odds = intercept
        for feature, slope in zip(self.features(input_log_odds), slopes, strict=True):
            log_odds = log_odds + slope * feature
        return log_odds

    def lower_bounds(self, like: Tensor) -> Tensor:
        """The smallest parameters allowed, (D,)."""
        return self.with_intercept(like.new_full((self.num_features,), MIN_SLOPE), -torch.inf)


class Frame(NamedTuple):
    """How parameters describe a map: so that they are of the order of 1, and nearly independent of each other.

    Attributes:
        centre: (D, K) or (D, 1), the features at which a map has the value offset + intercept; 0 for the intercept.
        units: (D,), the input log-odds that a slope of 1 maps to log-odds of 1; 1 for the intercept.
        offset: (K,) or (1,).
    """

    centre: Tensor
    units: Tensor
    offset: Tensor


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
    """Parameters (K, D), and of their negative log-likelihood the value (K,) and the first and second derivative."""

    parameters: Tensor
    value: Tensor
    gradient: Tensor
    information: Tensor


LikelihoodAt = Callable[[Tensor], Point]


def fit_maps(family: Family, cells: Cells, sharing: str) -> Maps:
    """Fits one map for all labels ("all"), one per label ("none"), or one per label with a shared prior ("partial")."""
    shared = fit_shared(family, cells)
    if sharing == "all":
        return shared
    frame = label_frame(family, cells, shared)
    likelihood_at = partial(likelihood_of, family, frame, cells)
    # In this frame the shared map has the same parameters for every label.
    centre = frame.units * family.with_intercept(shared.slopes[:, 0], 0.0)
    start, lower_bounds = centre.repeat(cells.num_labels, 1), family.lower_bounds(centre)
    if sharing == "none":
        return maps_of(family, frame, *minimise(likelihood_at, vague_prior(centre), start, lower_bounds))
    update = partial(learn_prior, centre=centre, counted=cells.weights.sum(0) > 0)
    near, prior = minimise(likelihood_at, vague_prior(centre, PRIOR_STD), start, lower_bounds, update, MAX_ROUNDS)
    return maps_of(family, frame, *minimise(likelihood_at, prior, near.parameters, lower_bounds), learnt_mean=True)


def fit_shared(family: Family, cells: Cells) -> Maps:
    """One map for all labels: without any prior for a single slope, as temperature scaling is defined.

    With an intercept, the prior is that the input log-odds are calibrated. It counts for `PRIOR_ROWS` rows that agree
    with them, so that few rows change little.
    """
    frame, pooled = pooled_frame(family, cells), cells.pooled()
    likelihood_at = partial(likelihood_of, family, frame, pooled)
    start = family.with_intercept(frame.units.new_ones(family.num_features), 0.0)
    lower_bounds = family.lower_bounds(start)
    if not family.intercept:
        return maps_of(family, frame, *minimise_bounded(likelihood_at, start, lower_bounds))
    # The identity map, and the information of one row about the parameters if that map were right.
    identity = torch.cat([frame.units[:-1], frame.centre.sum(0)])
    rows = cells.weights.sum() / (cells.weights.sum(0) > 0).sum().clamp(min=1)
    information = likelihood_at(identity.unsqueeze(0)).information[0] / rows.clamp(min=torch.finfo(rows.dtype).tiny)
    # Where rows would carry no information, a vague prior still bounds slopes and intercept.
    unchanged = Normal(identity, PRIOR_ROWS * information + torch.diag((VAGUE_STD * frame.units) ** -2))
    vague = vague_prior(start)
    update = partial(bounded_prior, unchanged, vague)
    return maps_of(family, frame, *minimise(likelihood_at, vague, start.unsqueeze(0), lower_bounds, update))


def bounded_prior(prior: Normal, vague: Normal, _: Normal, current: Point) -> Normal:
    """A prior whose penalty is bounded by `MAX_PENALTY`, because scores that only rank are far from any log-odds.

    With the penalty q of the given prior it is q / (1 + q / MAX_PENALTY). This function returns the quadratic that lies
    above it and touches it at the current parameters (1, D), so that each step of Newton's method is one of
    majorisation. It adds the penalty of a vague prior.
    """
    bounded = prior.precision / (1 + prior.penalty(current.parameters) / MAX_PENALTY).square()
    precision = vague.precision + bounded
    return Normal(torch.linalg.solve(precision, vague.precision @ vague.mean + bounded @ prior.mean), precision)


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
    parameters, gradient, information = (part[counted].cpu() for part in (current.parameters, *current[2:]))
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


def maps_of(family: Family, frame: Frame, point: Point, prior: Normal, *, learnt_mean: bool = False) -> Maps:
    """The maps that parameters describe, and the normal approximation of their posterior under a prior.

    Where the mean of the prior is itself learnt from the labels, its uncertainty adds to that of each label.
    """
    coefficients, identity = (point.parameters / frame.units).T, torch.eye(len(frame.units)).to(point.parameters)
    slopes, intercept = coefficients.split([family.num_features, int(family.intercept)])
    spread = torch.linalg.inv(point.information + prior.precision + NEGLIGIBLE * identity)
    if learnt_mean:
        # How a label follows the mean; what all labels, and the shared map as one more, know of the mean.
        following = spread @ prior.precision
        precision = prior.precision + (prior.precision @ (identity - following)).sum(0)
        spread = spread + following @ torch.linalg.inv(precision) @ following.mT
    # From the parameters in the frame to slopes and intercept.
    change = (identity / frame.units).repeat(len(spread), 1, 1)
    change[:, -1] -= frame.centre.T / frame.units
    intercept = intercept.sum(0) + frame.offset - (coefficients * frame.centre).sum(0)
    return Maps(slopes, intercept, change @ spread @ change.mT)


def likelihood_of(family: Family, frame: Frame, cells: Cells, parameters: Tensor) -> Point:
    """How well maps of these parameters (K, D) explain the cells, label by label."""
    labels, size = parameters.shape
    constant = frame.offset + parameters[:, family.num_features :].sum(1)
    value, gradient = parameters.new_zeros(labels), parameters.new_zeros(size, labels)
    information = parameters.new_zeros(size, size, labels)
    for input_log_odds, targets, weights in cells.blocks():
        in_frame = zip(family.features(input_log_odds), frame.centre, frame.units, strict=False)
        parts = [(feature - centre) / unit for feature, centre, unit in in_frame]
        log_odds = sum(map(torch.mul, parameters.T, parts), start=constant)
        parts += [torch.ones_like(input_log_odds)] * family.intercept
        probs = torch.sigmoid(log_odds)
        excess, spread = weights * (probs - targets), weights * probs * (1 - probs)
        value += (weights * (softplus(log_odds) - targets * log_odds)).sum(0)
        for i, part in enumerate(parts):
            gradient[i] += (excess * part).sum(0)
            spread_part = spread * part
            for j in range(i + 1):
                information[i, j] += (spread_part * parts[j]).sum(0)
    lower = information.permute(2, 0, 1).tril()
    return Point(parameters, value, gradient.T, lower + lower.tril(-1).mT)


def pooled_frame(family: Family, cells: Cells) -> Frame:
    """The frame of a map that all labels share: in units of the spread of the input log-odds, around their mean."""
    zero = cells.input_log_odds.new_zeros(())
    total = cells.weights.sum().clamp(min=torch.finfo(torch.float64).tiny)
    mean = sum(((e * w).sum() for e, _, w in cells.blocks()), start=zero) / total
    middle = mean if family.intercept else zero
    variance = sum(((e - middle).square().mul(w).sum() for e, _, w in cells.blocks()), start=zero) / total
    # Input log-odds that are equal but for rounding have no spread to measure by.
    unit = torch.where(variance.sqrt() > 1e-9 * middle.abs(), variance.sqrt(), 1.0)
    centre = family.with_intercept(torch.stack(family.features(middle)).unsqueeze(1), 0.0)
    return Frame(centre, family.with_intercept(unit.expand(family.num_features), 1.0), zero.expand(1))


def label_frame(family: Family, cells: Cells, shared: Maps) -> Frame:
    """The frame of the maps of single labels: in units of the shared slope, around where each label is undecided.

    Errors of slope and intercept are independent there, so that one can be shrunk without spoiling the other: a label
    that needs another slope turns around its own undecided cells, and not around those of other labels.
    """
    total = cells.input_log_odds.new_zeros(cells.num_labels)
    sums = cells.input_log_odds.new_zeros(family.num_features, cells.num_labels)
    if family.intercept:
        for input_log_odds, _, weights in cells.blocks():
            probs = torch.sigmoid(family.apply(shared.slopes, shared.intercept, input_log_odds))
            undecided = weights * probs * (1 - probs)
            total += undecided.sum(0)
            sums += torch.stack([(undecided * x).sum(0) for x in family.features(input_log_odds)])
    tiny = torch.finfo(torch.float64).tiny
    everywhere = sums.sum(1, keepdim=True) / total.sum().clamp(min=tiny)
    centre = torch.where(total > tiny, sums / total.clamp(min=tiny), everywhere)
    offset = (shared.slopes * centre).sum(0) + shared.intercept
    units = family.with_intercept((1 / shared.slopes.mean()).expand(family.num_features), 1.0)
    return Frame(family.with_intercept(centre, 0.0), units, offset)


def vague_prior(mean: Tensor, std: float = VAGUE_STD) -> Normal:
    """A prior that matters only where the data do not; with another standard deviation, one to learn from."""
    return Normal(mean, torch.eye(len(mean), dtype=mean.dtype, device=mean.device) / std**2)


def minimise(
    likelihood_at: LikelihoodAt,
    prior: Normal,
    start: Tensor,
    lower_bounds: Tensor,
    update: Callable[[Normal, Point], Normal] | None = None,
    rounds: int = MAX_STEPS,
) -> tuple[Point, Normal]:
    """Parameters (K, D) at which negative log-likelihood plus penalty is least, for all problems at once.

    Args:
        likelihood_at: The likelihood of parameters.
        prior: Whose penalty it is.
        start: (K, D).
        lower_bounds: (D,).
        update: Gives another prior before each step.
        rounds: The largest number of steps.

    Returns:
        The parameters with their likelihood, and the prior of the last step.
    """
    current = likelihood_at(start)
    step_size = torch.ones_like(current.value)
    for _ in range(rounds):
        prior = prior if update is None else update(prior, current)
        step = newton_step(prior, current, lower_bounds)
        # As far as the first bound on the way, and no further than the quadratic approximation can hold.
        to_bound = torch.where(step < 0, (lower_bounds - current.parameters) / step, torch.inf).amin(1, keepdim=True)
        share = torch.minimum(to_bound, MAX_CHANGE / step.abs().amax(1, keepdim=True)).clamp(max=1)
        proposal = likelihood_at((current.parameters + step * share * step_size.unsqueeze(1)).maximum(lower_bounds))
        before, after = (point.value + prior.penalty(point.parameters) for point in (current, proposal))
        # Problems that the step would lead uphill stay, and try a shorter one next time.
        better = after <= before + 1e-12 * (1 + before.abs())
        step_size = torch.where(better, (4 * step_size).clamp(max=1), step_size / 4)
        pairs = zip(proposal, current, strict=True)
        current = Point(*(torch.where(better.view(-1, *[1] * (new.ndim - 1)), new, old) for new, old in pairs))
        if step.numel() == 0 or float(step.abs().max()) < STEP_TOLERANCE:
            break
    return current, prior


def minimise_bounded(likelihood_at: LikelihoodAt, start: Tensor, lower_bounds: Tensor) -> tuple[Point, Normal]:
    """The same for one problem and without a prior; with one only where the minimum lies at infinity.

    Args:
        likelihood_at: Of one problem.
        start: (D,), where to begin, and the mean of the prior.
        lower_bounds: (D,).
    """
    cautious, prior = minimise(likelihood_at, vague_prior(start), start.unsqueeze(0), lower_bounds)
    if bool(cautious.value < SEPARATION_LOSS):
        return cautious, prior
    free = minimise(likelihood_at, vague_prior(start, torch.inf), cautious.parameters, lower_bounds)
    return (cautious, prior) if bool(free[0].value < SEPARATION_LOSS) else free


def newton_step(prior: Normal, current: Point, lower_bounds: Tensor) -> Tensor:
    """The step to the minimum of the quadratic approximation, (K, D), along which bounded parameters stay put."""
    gradient = current.gradient + prior.slope(current.parameters)
    curvature = current.information + prior.precision
    at_bound = current.parameters <= lower_bounds + 1e-12
    free = ~(at_bound & (gradient > 0))
    step = torch.zeros_like(gradient)
    for _ in range(len(lower_bounds)):
        matrix = curvature * free.unsqueeze(1) * free.unsqueeze(2)
        matrix = matrix + torch.diag_embed((~free).to(gradient.dtype) + NEGLIGIBLE)
        step = -torch.linalg.solve(matrix, (gradient * free).unsqueeze(2)).squeeze(2)
        # The pull of the others can press a parameter against the bound that it was about to leave.
        free = free & ~(at_bound & (step < 0))
    return step * free
