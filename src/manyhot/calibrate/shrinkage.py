"""Maps of single labels, each as far from those of the others as its own evidence bears out.

The parameters of a label are drawn from a normal distribution around the shared ones. How wide it is, the data say: it
is fitted by EM, with the posterior of each label taken as normal around its most likely parameters. Labels with much
evidence then keep their own map, labels with little take the shared one.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from manyhot.calibrate.maps import Cells, Family, Maps, label_frame, likelihood_of, maps_of, pooled_frame
from manyhot.calibrate.newton import (
    MOST_STEPS,
    SHORT,
    VAGUE,
    Normal,
    Point,
    both,
    minimise,
    minimise_bounded,
    take_step,
    vague,
)

PER = ("all", "label", "shrunk")
# Standard deviation of the parameters among labels before any is seen; it counts as much as one label.
ALIKE = 0.1
# How many rows the prior of the shared map is worth, and how much the log-likelihood must gain to refute it.
PRIOR_ROWS, REFUTED = 20, 10.0
MOST_ROUNDS, MOST_UPDATES = 30, 100
# Change of mean and covariance after which they are found, and by how much an update is stretched at the most.
CONVERGED, LONGEST_STRETCH = 1e-10, 100.0


def fit_maps(family: Family, cells: Cells, per: str) -> Maps:
    """Fits one map for all labels ("all"), one a label ("label"), or one a label among its kind ("shrunk")."""
    shared = fit_shared(family, cells)
    if per == "all":
        return shared
    frame = label_frame(family, cells, shared)
    likelihood_at = partial(likelihood_of, family, frame, cells)
    # In this frame the shared map has the same parameters for every label.
    centre = torch.cat([shared.slopes[:, 0] * frame.unit, shared.intercept.new_zeros(int(family.intercept))])
    start, lowest = centre.repeat(cells.num_labels, 1), family.lowest(centre)
    prior = vague(centre)
    if per == "shrunk":
        prior, counted = like_others(centre), cells.weights.sum(0) > 0
        here, trust = Point(start, likelihood_at(start)), torch.ones_like(frame.offset)
        for _ in range(MOST_ROUNDS):
            prior = learn_prior(prior, here, centre, counted)
            here, trust, length = take_step(likelihood_at, prior, here, trust, lowest)
            if length < SHORT:
                break
        start = here.parameters
    return maps_of(family, frame, minimise(likelihood_at, prior, start, lowest).parameters)


def fit_shared(family: Family, cells: Cells) -> Maps:
    """One map for all labels: without any prior for a single slope, as temperature scaling is defined.

    With an intercept, the prior is that the input log-odds are right as they are, and worth `PRIOR_ROWS` rows that
    agree with them, so that few rows change little.
    """
    frame, pooled = pooled_frame(family, cells), cells.pooled()
    likelihood_at = partial(likelihood_of, family, frame, pooled)
    start = frame.unit.new_tensor([1.0] * family.num_features + [0.0] * family.intercept)
    lowest = family.lowest(start)
    if not family.intercept:
        return maps_of(family, frame, minimise_bounded(likelihood_at, start, lowest))
    # The map that changes nothing, and what a row would tell about the parameters if that map were right.
    identity = torch.cat([frame.unit.expand(family.num_features), frame.centre.sum(0)])
    rows = cells.weights.sum() / (cells.weights.sum(0) > 0).sum().clamp(min=1)
    information = likelihood_at(identity.unsqueeze(0)).information[0] / rows.clamp(min=torch.finfo(rows.dtype).tiny)
    # Where rows would tell nothing, slopes and intercept are still about right.
    scale = torch.cat([frame.unit.expand(family.num_features), torch.ones_like(frame.offset)])
    unchanged = Normal(identity, PRIOR_ROWS * information + torch.diag((VAGUE * scale) ** -2))
    here, trust = Point(start.unsqueeze(0), likelihood_at(start.unsqueeze(0))), torch.ones_like(frame.offset)
    for _ in range(MOST_STEPS):
        prior = both(vague(start), bounded(unchanged, here.parameters))
        here, trust, length = take_step(likelihood_at, prior, here, trust, lowest)
        if length < SHORT:
            break
    return maps_of(family, frame, here.parameters)


def bounded(prior: Normal, parameters: Tensor) -> Normal:
    """A prior whose penalty grows no further than to `REFUTED`: scores that only rank are far from any log-odds.

    With the penalty q of the given prior it is q / (1 + q / REFUTED). This is the quadratic function that lies above
    and touches it at the parameters (1, D), which makes each step of Newton's method one of majorisation.
    """
    return prior._replace(precision=prior.precision / (1 + prior.penalty(parameters) / REFUTED).square())


def like_others(mean: Tensor) -> Normal:
    """How labels are distributed before any is seen."""
    return Normal(mean, torch.eye(len(mean), dtype=mean.dtype, device=mean.device) / ALIKE**2)


def learn_prior(prior: Normal, here: Point, centre: Tensor, counted: Tensor) -> Normal:
    """The normal distribution from which the parameters of labels most likely come.

    Updates of EM are short where labels say little, so two of them are stretched to one long step (SQUAREM).

    Args:
        prior: Where to begin.
        here: The labels, each with the quadratic approximation of its likelihood.
        centre: (D,), the parameters of the shared map.
        counted: (K,), the labels of which anything is known.

    Reference: Varadhan and Roland, Simple and Globally Convergent Methods for Accelerating the Convergence of Any EM
        Algorithm, Scandinavian Journal of Statistics 2008.
    """
    # Many tiny steps, for which an accelerator is no help.
    parameters, gradient, information = (part[counted].cpu() for part in (here.parameters, *here.likelihood[1:]))
    update = partial(update_prior, parameters, gradient, information, centre.cpu())
    state = torch.cat([prior.mean.unsqueeze(0), torch.linalg.inv(prior.precision)]).cpu()
    for _ in range(MOST_UPDATES):
        start, once = state, update(state)
        state = update(once)
        first, second = once - start, state - once
        if bool(second.abs().max() < CONVERGED):
            break
        stretch = (first.norm() / (second - first).norm()).clamp(1, LONGEST_STRETCH)
        leap = start + 2 * stretch * first + stretch**2 * (second - first)
        if int(torch.linalg.cholesky_ex(leap[1:]).info) == 0:
            state = update(leap)
    return Normal(state[0].to(centre.device), torch.linalg.inv(state[1:]).to(centre.device))


def update_prior(parameters: Tensor, gradient: Tensor, information: Tensor, centre: Tensor, state: Tensor) -> Tensor:
    """One update of EM: mean and covariance among labels, (1 + D, D), from what these make each label look like.

    The shared map counts as one more label, which steadies the mean, and so does the guess at the covariance.
    """
    mean, precision = state[0], torch.linalg.inv(state[1:])
    spreads = torch.linalg.inv(information + precision)
    pull = (information @ parameters.unsqueeze(2)).squeeze(2) - gradient + precision @ mean
    modes = (spreads @ pull.unsqueeze(2)).squeeze(2)
    mean = (centre + modes.sum(0)) / (1 + len(modes))
    distances = torch.cat([modes, centre.unsqueeze(0)]) - mean
    guess = ALIKE**2 * torch.eye(len(centre), dtype=centre.dtype)
    covariance = (distances.T @ distances + spreads.sum(0) + guess) / (2 + len(modes))
    return torch.cat([mean.unsqueeze(0), covariance])
