"""L-BFGS for many problems at once, each with its own steps, memory and convergence, and their objectives."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from manyhot.losses.binary import AdditiveLoss
from manyhot.losses.loss import Loss

# Steps that the curvature is learnt from.
MEMORY = 10
# The share of the predicted decrease that a step must reach.
SUFFICIENT = 1e-4
MOST_TRIALS = 20
# A problem that takes more steps than this has its second derivatives looked at, and again after as many.
PATIENCE = 10
# Numbers that second derivatives may take.
MOST_INFORMATION = 1 << 25
# A step of less than this share of its first length, or a descent of less than this share of the tolerance.
SHORT = 0.1
# Problems that are done are carried along until they are this share: to sort them out costs a copy of all scores.
WORTH_SORTING_OUT = 0.125


class Memory:
    """The last steps of P problems and how much their gradients changed, without the penalty, which may be another.

    Args:
        spread: (size,) curvature of the loss in each direction but for a factor, which is learnt.
        factor: (P,) where that factor starts.
    """

    def __init__(self, spread: Tensor, factor: Tensor) -> None:
        self.spread, self.factor = spread, factor
        # Steps and how much the gradient changed along each, (2, P, size), the last one last; zeros for none.
        self.pairs = [factor.new_zeros(2, len(factor), len(spread))] * MEMORY
        # Second derivatives of hard problems by their number, and their decomposition with a penalty added.
        self.information: dict[int, Tensor] = {}
        self.factors: dict[int, Tensor] = {}

    def add(self, step: Tensor, change: Tensor) -> None:
        """Remembers a step (P, size) and the change of the gradient along it; a step of 0 says nothing."""
        curvature = (step * change).sum(1) / (step.square() * self.spread).sum(1)
        self.factor = torch.where(curvature > 0, curvature, self.factor)
        self.pairs = [*self.pairs[1:], torch.stack([step, change])]

    def forget(self, problems: Tensor) -> None:
        """Drops the steps of some problems, by a mask (P,); what is known of the factor stays."""
        if bool(problems.any()):
            self.pairs = [pair.masked_fill(problems.unsqueeze(1), 0.0) for pair in self.pairs]

    def select(self, problems: Tensor) -> Memory:
        """The memory of some of the problems."""
        part, numbers = copy.copy(self), problems.tolist()
        part.factor, part.pairs = self.factor[problems], [pair[:, problems] for pair in self.pairs]
        part.information, part.factors = (
            {position: known[number] for position, number in enumerate(numbers) if number in known}
            for known in (self.information, self.factors)
        )
        return part

    def merge(self, problems: Tensor, part: Memory) -> None:
        """Takes over what some of the problems have learnt since."""
        self.factor = self.factor.index_copy(0, problems, part.factor)
        self.pairs = [pair.index_copy(1, problems, own) for pair, own in zip(self.pairs, part.pairs, strict=True)]
        for position, matrix in part.information.items():
            number = int(problems[position])
            if number in self.information or len(self.information) < self.capacity():
                self.information[number] = matrix

    def capacity(self) -> int:
        """How many second derivatives may be kept."""
        return MOST_INFORMATION // len(self.spread) ** 2

    def learn(self, problem: int, information: Tensor, penalty: Tensor) -> None:
        """Takes over the second derivative of a problem, and forgets its steps, which said the same less well."""
        self.information[problem] = information
        self.add_penalty(penalty, problem)
        self.forget(torch.arange(len(self.factor), device=penalty.device) == problem)

    def add_penalty(self, penalty: Tensor, *problems: int) -> None:
        """Decomposes the second derivatives of some problems with a penalty."""
        for number in problems:
            matrix = self.information[number]
            # What neither data nor penalty know of stays put.
            least = 1e-9 * matrix.diagonal().max() + 1e-12
            self.factors[number] = torch.linalg.cholesky(matrix + torch.diag(penalty + least))

    def direction(self, gradient: Tensor, penalty: Tensor) -> Tensor:
        """The quasi-Newton step (P, size), by the usual recursion; pairs without positive curvature are passed over."""
        left, used = -gradient, []
        for step, change in reversed(self.pairs):
            change = change + penalty * step
            along = (change * step).sum(1, keepdim=True)
            sizes = change.norm(dim=1, keepdim=True) * step.norm(dim=1, keepdim=True)
            inverse = torch.where(along > 1e-8 * sizes, 1 / along, 0.0)
            share = inverse * (step * left).sum(1, keepdim=True)
            left = left - share * change
            used.append((step, change, inverse, share))
        scaled = left / (self.factor.unsqueeze(1) * self.spread + penalty).clamp(min=1e-12)
        for number, factor in self.factors.items():
            scaled[number] = torch.cholesky_solve(left[number].unsqueeze(1), factor).squeeze(1)
        left = scaled
        for step, change, inverse, share in reversed(used):
            left = left + (share - inverse * (change * left).sum(1, keepdim=True)) * step
        return left


@dataclass
class Iterate:
    """Where P problems are.

    Attributes:
        parameters: (P, size).
        scores: (K, N) of these parameters.
        value: (P,) of loss and penalty.
        slope: (P, size) of the loss alone.
    """

    parameters: Tensor
    scores: Tensor
    value: Tensor
    slope: Tensor

    def select(self, problems: Tensor) -> Iterate:
        """Some of the problems; of a single one, all of its labels."""
        if len(problems) == len(self.parameters):
            return self
        return Iterate(self.parameters[problems], self.scores[problems], self.value[problems], self.slope[problems])


@dataclass(frozen=True)
class Minimum:
    """The minimum of each of P problems.

    Attributes:
        parameters: (P, size).
        value: (P,) of loss and penalty.
        steps: (P,) how many steps were taken.
        converged: (P,) whether the predicted decrease fell below the tolerance.
    """

    parameters: Tensor
    value: Tensor
    steps: Tensor
    converged: Tensor


def minimise(
    objective: Objective, start: Tensor, memory: Memory, floor: Tensor, *, tolerance: float, max_steps: int
) -> Minimum:
    """The least value of an objective, for every problem.

    A problem has converged when the predicted decrease of the next step is less than `tolerance` times its value,
    or times `floor` where that is more.

    Args:
        objective: Loss and penalty.
        start: (P, size) in float64.
        memory: Of steps before, of which it may have none; goes on learning.
        floor: (P,) values below which differences do not matter.
        tolerance: Relative to the value.
        max_steps: Largest number of steps of each problem.
    """
    result = Minimum(
        start.clone(),
        start.new_zeros(len(start)),
        torch.zeros(len(start), dtype=torch.int64, device=start.device),
        torch.zeros(len(start), dtype=torch.bool, device=start.device),
    )
    numbers = torch.arange(len(start), device=start.device)
    point, own, penalty = objective.at(start), memory.select(numbers), objective.penalty
    own.add_penalty(penalty, *own.information)
    active, fresh = torch.ones_like(result.converged), torch.zeros_like(result.converged)
    for iteration in range(max_steps):
        if iteration % PATIENCE == PATIENCE - 1:
            add_second_derivatives(objective, point, own, active)
        gradient = point.slope + penalty * point.parameters
        direction = own.direction(gradient, penalty)
        expected_decrease = -(gradient * direction).sum(1)
        enough = tolerance * point.value.abs().maximum(floor)
        done = expected_decrease / 2 <= enough
        result.converged[numbers] |= active & done
        active &= ~done
        if not bool(active.any()):
            break
        if float(active.sum()) <= (1 - WORTH_SORTING_OUT) * len(active):
            store_results(result, memory, numbers, point, own)
            remaining = active.nonzero().squeeze(1)
            objective, point, own = objective.select(remaining), point.select(remaining), own.select(remaining)
            numbers, direction, expected_decrease, active, fresh, floor, enough = (
                part[remaining] for part in (numbers, direction, expected_decrease, active, fresh, floor, enough)
            )
        new, lengths = line_search(objective, point, direction, expected_decrease, active)
        result.steps[numbers] += active
        own.add(lengths.unsqueeze(1) * direction, new.slope - point.slope)
        # Short steps that bring next to nothing: a memory of another place, or else a kink of the loss or the end of
        # the precision of its numbers, where no better step will come.
        stuck = (lengths <= SHORT) & (point.value - new.value <= SHORT * enough)
        active &= ~(stuck & fresh)
        own.forget(stuck)
        point, fresh = new, stuck
    store_results(result, memory, numbers, point, own)
    return result


def add_second_derivatives(objective: Objective, point: Iterate, memory: Memory, active: Tensor) -> None:
    """Computes second derivatives of problems that converge slowly, as many as fit into memory."""
    for number in active.nonzero().squeeze(1).tolist():
        if number not in memory.information and len(memory.information) >= memory.capacity():
            continue
        information = objective.information(point.scores, number)
        if information is not None:
            memory.learn(number, information, objective.penalty)


def store_results(result: Minimum, memory: Memory, numbers: Tensor, point: Iterate, own: Memory) -> None:
    """Writes down where the problems of these numbers are."""
    result.parameters[numbers], result.value[numbers] = point.parameters, point.value
    memory.merge(numbers, own)


def line_search(
    objective: Objective, point: Iterate, direction: Tensor, expected_decrease: Tensor, active: Tensor
) -> tuple[Iterate, Tensor]:
    """The first point along each direction that is low enough, and how far it lies; 0 where none was found.

    Scores go along a line as parameters do, so a trial costs no product with the features.
    """
    along = objective.scores(direction)
    # No step is rejected for a difference that may be rounding.
    rounding = torch.finfo(along.dtype).eps * point.value.abs()
    lengths = active.to(point.value.dtype)
    scores, value, slopes = try_step(objective, point, direction, along, lengths)
    for iteration in range(MOST_TRIALS):
        enough = point.value - SUFFICIENT * lengths * expected_decrease + rounding
        # A value that is not a number counts as too high.
        high = active & ~(value <= enough)
        if not bool(high.any()):
            break
        excess = value - point.value + lengths * expected_decrease
        shorter = lengths * (lengths * expected_decrease / (2 * excess)).nan_to_num(0.1).clamp(0.1, 0.5)
        lengths = torch.where(high, shorter if iteration + 1 < MOST_TRIALS else 0.0, lengths)
        subset = high.nonzero().squeeze(1)
        part = objective.select(subset)
        lines = subset if part is not objective else slice(None)
        tried = try_step(part, point.select(subset), direction[subset], along[lines], lengths[subset])
        scores[lines], value[subset], slopes[lines] = tried
    parameters = point.parameters + lengths.unsqueeze(1) * direction
    return Iterate(parameters, scores, value, objective.gradient(slopes, parameters)), lengths


def try_step(
    objective: Objective, point: Iterate, direction: Tensor, along: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, values and slopes this far along each direction."""
    scores = torch.addcmul(point.scores, along, lengths.unsqueeze(1).to(along.dtype))
    return scores, *objective.value(point.parameters + lengths.unsqueeze(1) * direction, scores)


# As many cells are in work at a time: what they need in between then stays in the cache of a processor.
CELLS_AT_ONCE = 1 << 16
# On an accelerator fewer and larger steps are faster.
CELLS_AT_ONCE_ON_DEVICE = 1 << 24

# Second derivatives are worth their cost up to so many parameters.
LARGEST_INFORMATION = 2048
# The step for curvature by differences, in float64.
GAP = 1e-3
# The share of all curvature that the rows must have over which second derivatives are summed, and the largest number of
# these rows per parameter.
COVERED, ROWS_A_PARAMETER = 0.99, 16


def exact_type(device: torch.device) -> torch.dtype:
    """The most precise floating-point numbers of a device."""
    return torch.float32 if device.type == "mps" else torch.float64


class Objective(ABC):
    """A sum of losses over the samples and a penalty, for P problems that have nothing to do with each other.

    Scores and slopes are (K, N), so that the labels of a problem are contiguous in memory.

    Args:
        features: (N, D), the last column for the bias.
        targets: (K, N) int8.

    Attributes:
        penalty: (size,), half of which times the squares of the parameters is added; 0 for what is not penalised.
    """

    penalty: Tensor

    def __init__(self, features: Tensor, targets: Tensor) -> None:
        self.features, self.targets = features, targets

    def at(self, parameters: Tensor) -> Iterate:
        """The point of these parameters."""
        scores = self.scores(parameters)
        value, slopes = self.value(parameters, scores)
        return Iterate(parameters, scores, value, self.gradient(slopes, parameters))

    def value(self, parameters: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Values (P,) with the penalty at parameters that have these scores, and slopes (K, N) by the scores."""
        value, slopes = self.evaluate(scores)
        return value.to(parameters.dtype) + (self.penalty * parameters.square()).sum(1) / 2, slopes

    def scores(self, parameters: Tensor) -> Tensor:
        """(K, N) of parameters (P, size)."""
        return parameters.view(len(self.targets), -1).to(self.features.dtype) @ self.features.mT

    def gradient(self, slopes: Tensor, like: Tensor) -> Tensor:
        """(P, size) by the parameters, in the form of `like`, of slopes (K, N) by the scores."""
        return (slopes @ self.features).to(like.dtype).view_as(like)

    @abstractmethod
    def evaluate(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Values (P,) of the loss in float64 and slopes (K, N) of scores (K, N)."""

    def information(self, scores: Tensor, problem: int) -> Tensor | None:
        """(size, size), nearly the second derivative of one problem by its parameters; None where that costs much."""
        return None

    @abstractmethod
    def select(self, problems: Tensor) -> Self:
        """The objective of some of the problems, by their numbers."""


class LabelObjective(Objective):
    """A loss that adds over labels: each label is a problem of its own."""

    def __init__(self, features: Tensor, targets: Tensor, loss: AdditiveLoss) -> None:
        super().__init__(features, targets)
        self.curve = loss.curve
        weight = loss.link.pos_weight
        self.pos_weight = None if weight is None else weight.to(features).expand(len(targets)).unsqueeze(1)
        self.all_known = not bool((targets < 0).any())

    def evaluate(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The sum over known cells of each label."""
        slopes = torch.empty_like(scores)
        values = torch.zeros(len(scores), dtype=exact_type(scores.device), device=scores.device)
        at_once = CELLS_AT_ONCE if scores.device.type == "cpu" else CELLS_AT_ONCE_ON_DEVICE
        rows = max(1, min(scores.shape[1], at_once))
        labels = max(1, at_once // rows)
        for first in range(0, len(scores), labels):
            subset = slice(first, first + labels)
            for start in range(0, scores.shape[1], rows):
                block = (subset, slice(start, start + rows))
                costs, steepness = self._cells(scores[block], self.targets[block], subset)
                values[subset] += costs.sum(1, dtype=values.dtype)
                slopes[block] = steepness
        return values, slopes

    def _cells(self, scores: Tensor, targets: Tensor, labels: slice) -> tuple[Tensor, Tensor]:
        weight = None if self.pos_weight is None else self.pos_weight[labels]
        present = (targets if self.all_known else targets.clamp(min=0)).to(scores.dtype)
        costs, slopes = self.curve.cells(scores, present, weight, hard=self.curve.quicker_if_hard)
        if self.all_known:
            return costs, slopes
        known = targets >= 0
        return costs * known, slopes * known

    def information(self, scores: Tensor, problem: int) -> Tensor | None:
        """From the rows in which nearly all of the curvature lies, and from some of these where they are many."""
        size = self.features.shape[1]
        if size > LARGEST_INFORMATION or scores.device.type == "mps":
            return None
        subset, line = slice(problem, problem + 1), scores[problem : problem + 1].double()
        targets = self.targets[problem : problem + 1]
        above, below = (self._cells(line + gap, targets, subset)[1] for gap in (GAP, -GAP))
        curvature = ((above - below) / (2 * GAP)).clamp(min=0).squeeze(0)
        ordered, rows = curvature.sort(descending=True)
        count = int((ordered.cumsum(0) < COVERED * ordered.sum()).sum()) + 1
        every = -(-count // (ROWS_A_PARAMETER * size))
        rows = rows[:count:every]
        # In float64, or rounding could leave a matrix that curves downwards.
        part = self.features[rows].double() * (every * curvature[rows]).sqrt().unsqueeze(1)
        return part.mT @ part

    def select(self, problems: Tensor) -> Self:
        """The objective of some of the labels."""
        part = copy.copy(self)
        part.targets = self.targets[problems]
        part.pos_weight = None if self.pos_weight is None else self.pos_weight[problems]
        return part


class JointObjective(Objective):
    """Any other loss: all labels are one problem, and the loss sees all samples at once.

    The loss is summed over rows, where it offers that, and otherwise its mean is multiplied by the number of rows.
    """

    def __init__(self, features: Tensor, targets: Tensor, loss: Loss) -> None:
        super().__init__(features, targets)
        self.loss = copy.deepcopy(loss).to(features.device)
        self.factor = float(targets.shape[1])
        if "sum" in loss.reductions:
            self.loss.reduction, self.factor = "sum", 1.0

    def evaluate(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of all samples."""
        leaf = scores.mT.contiguous().requires_grad_()
        with torch.enable_grad():
            value = self.loss(leaf, self.targets.mT)
            (slopes,) = torch.autograd.grad(value, leaf)
        return (value.detach() * self.factor).to(exact_type(scores.device)).view(1), (slopes * self.factor).mT

    def select(self, problems: Tensor) -> Self:
        """The only problem there is."""
        return self
