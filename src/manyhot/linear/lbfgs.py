"""L-BFGS for many problems at once, each with steps, a memory and an end of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from manyhot.linear.objective import Objective

# Steps that the curvature is learnt from.
MEMORY = 10
# The share of the promised descent that a step must bring.
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
        self.steps: list[Tensor] = []
        self.changes: list[Tensor] = []
        # Second derivatives of hard problems by their number, and their decomposition with a penalty added.
        self.information: dict[int, Tensor] = {}
        self.factors: dict[int, Tensor] = {}

    def add(self, step: Tensor, change: Tensor) -> None:
        """Remembers a step (P, size) and the change of the gradient along it; a step of 0 says nothing."""
        curvature = (step * change).sum(1) / (step.square() * self.spread).sum(1)
        self.factor = torch.where(curvature > 0, curvature, self.factor)
        self.steps, self.changes = [*self.steps[1 - MEMORY :], step], [*self.changes[1 - MEMORY :], change]

    def forget(self, problems: Tensor) -> None:
        """Drops the steps of some problems, by a mask (P,); what is known of the factor stays."""
        if bool(problems.any()):
            self.steps = [step.masked_fill(problems.unsqueeze(1), 0.0) for step in self.steps]

    def keep(self, problems: Tensor) -> Memory:
        """The memory of some of the problems."""
        part = Memory(self.spread, self.factor[problems])
        part.steps = [step[problems] for step in self.steps]
        part.changes = [change[problems] for change in self.changes]
        places = {number: place for place, number in enumerate(problems.tolist())}
        for mine, theirs in ((self.information, part.information), (self.factors, part.factors)):
            theirs.update({places[number]: matrix for number, matrix in mine.items() if number in places})
        return part

    def put(self, problems: Tensor, part: Memory) -> None:
        """Takes over what some of the problems have learnt since."""
        numbers = problems.tolist()
        for place, matrix in part.information.items():
            if numbers[place] in self.information or len(self.information) < self.room():
                self.information[numbers[place]] = matrix
        self.factor = self.factor.index_copy(0, problems, part.factor)
        extra = len(part.steps) - len(self.steps)
        zeros = torch.zeros(len(self.factor), self.spread.shape[0], dtype=self.factor.dtype, device=self.factor.device)
        self.steps = [zeros] * extra + self.steps
        self.changes = [zeros] * extra + self.changes
        self.steps = [old.index_copy(0, problems, new) for old, new in zip(self.steps, part.steps, strict=True)]
        self.changes = [old.index_copy(0, problems, new) for old, new in zip(self.changes, part.changes, strict=True)]

    def room(self) -> int:
        """How many second derivatives may be kept."""
        return MOST_INFORMATION // len(self.spread) ** 2

    def learn(self, problem: int, information: Tensor, penalty: Tensor) -> None:
        """Takes over the second derivative of a problem, and forgets its steps, which said the same less well."""
        self.information[problem] = information
        self.factor_with(penalty, [problem])
        self.forget(torch.arange(len(self.factor), device=penalty.device) == problem)

    def factor_with(self, penalty: Tensor, problems: Iterable[int]) -> None:
        """Prepares second derivatives for a penalty."""
        for number in problems:
            matrix = self.information[number]
            # What neither data nor penalty know of stays put.
            least = 1e-9 * matrix.diagonal().max() + 1e-12
            self.factors[number] = torch.linalg.cholesky(matrix + torch.diag(penalty + least))

    def direction(self, gradient: Tensor, penalty: Tensor) -> Tensor:
        """The quasi-Newton step (P, size), by the usual recursion; pairs without positive curvature are passed over."""
        left, used = -gradient, []
        for step, change in zip(reversed(self.steps), reversed(self.changes), strict=True):
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
class Point:
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

    def keep(self, problems: Tensor) -> Point:
        """Some of the problems; of a single one, all of its labels."""
        if len(problems) == len(self.parameters):
            return self
        return Point(self.parameters[problems], self.scores[problems], self.value[problems], self.slope[problems])


@dataclass(frozen=True)
class Minimum:
    """What was found for each of P problems.

    Attributes:
        parameters: (P, size).
        value: (P,) of loss and penalty.
        steps: (P,) how many steps were taken.
        converged: (P,) whether no step promised more than the tolerance any more.
    """

    parameters: Tensor
    value: Tensor
    steps: Tensor
    converged: Tensor


def minimise(
    objective: Objective,
    start: Tensor,
    penalty: Tensor,
    memory: Memory,
    *,
    floor: Tensor,
    tolerance: float,
    max_steps: int,
) -> Minimum:
    """The least loss plus half of `penalty` times the squares of the parameters, for every problem.

    A problem has converged when the next step promises to lower its value by less than `tolerance` times that value,
    or times `floor` where that is more.

    Args:
        objective: The loss.
        start: (P, size) in float64.
        penalty: (size,), 0 for what is not penalised.
        memory: Of steps before, of which it may have none; goes on learning.
        floor: (P,) values below which differences do not matter.
        tolerance: Relative to the value.
        max_steps: As many for each problem at the most.
    """
    found = Minimum(
        start.clone(),
        start.new_zeros(len(start)),
        torch.zeros(len(start), dtype=torch.int64, device=start.device),
        torch.zeros(len(start), dtype=torch.bool, device=start.device),
    )
    numbers = torch.arange(len(start), device=start.device)
    here, mine = place(objective, start, penalty), memory.keep(numbers)
    mine.factor_with(penalty, mine.information)
    active, fresh = torch.ones_like(found.converged), torch.zeros_like(found.converged)
    for turn in range(max_steps):
        if turn % PATIENCE == PATIENCE - 1:
            look_closer(objective, here, mine, active, penalty)
        gradient = here.slope + penalty * here.parameters
        direction = mine.direction(gradient, penalty)
        promise = -(gradient * direction).sum(1)
        enough = tolerance * here.value.abs().maximum(floor)
        done = promise / 2 <= enough
        found.converged[numbers] |= active & done
        active &= ~done
        if not bool(active.any()):
            break
        if float(active.sum()) <= (1 - WORTH_SORTING_OUT) * len(active):
            record(found, memory, numbers, here, mine)
            kept = active.nonzero().squeeze(1)
            numbers, objective, here, mine = numbers[kept], objective.keep(kept), here.keep(kept), mine.keep(kept)
            direction, promise, active, fresh = direction[kept], promise[kept], active[kept], fresh[kept]
            floor, enough = floor[kept], enough[kept]
        new, lengths = search(objective, here, direction, promise, active, penalty)
        found.steps[numbers] += active
        mine.add(lengths.unsqueeze(1) * direction, new.slope - here.slope)
        # Short steps that bring next to nothing: a memory of another place, or else a kink of the loss or the end of
        # the precision of its numbers, where no better step will come.
        stuck = (lengths <= SHORT) & (here.value - new.value <= SHORT * enough)
        active &= ~(stuck & fresh)
        mine.forget(stuck)
        here, fresh = new, stuck
    record(found, memory, numbers, here, mine)
    return found


def look_closer(objective: Objective, here: Point, memory: Memory, active: Tensor, penalty: Tensor) -> None:
    """Finds the second derivatives of problems that steps alone do not solve, as many as there is room for."""
    for number in active.nonzero().squeeze(1).tolist():
        if number not in memory.information and len(memory.information) >= memory.room():
            continue
        information = objective.information(here.scores, number)
        if information is not None:
            memory.learn(number, information, penalty)


def record(found: Minimum, memory: Memory, numbers: Tensor, here: Point, mine: Memory) -> None:
    """Writes down where the problems of these numbers are."""
    found.parameters[numbers], found.value[numbers] = here.parameters, here.value
    memory.put(numbers, mine)


def place(objective: Objective, parameters: Tensor, penalty: Tensor) -> Point:
    """The point of these parameters."""
    scores = objective.scores(parameters)
    value, slopes = objective.evaluate(scores)
    value = value.to(parameters.dtype) + (penalty * parameters.square()).sum(1) / 2
    return Point(parameters, scores, value, objective.gradient(slopes, parameters))


def search(
    objective: Objective, here: Point, direction: Tensor, promise: Tensor, active: Tensor, penalty: Tensor
) -> tuple[Point, Tensor]:
    """The first point along each direction that is low enough, and how far it lies; 0 where none was found.

    Scores go along a line as parameters do, so a trial costs no product with the features.
    """
    along = objective.scores(direction)
    # No step is refused for a difference that may be rounding.
    rounding = torch.finfo(along.dtype).eps * here.value.abs()
    lengths = active.to(here.value.dtype)
    scores, value, slopes = trial(objective, here, direction, along, lengths, penalty)
    for turn in range(MOST_TRIALS):
        enough = here.value - SUFFICIENT * lengths * promise + rounding
        # A value that is not a number counts as too high.
        high = active & ~(value <= enough)
        if not bool(high.any()):
            break
        excess = value - here.value + lengths * promise
        shorter = lengths * (lengths * promise / (2 * excess)).nan_to_num(0.1).clamp(0.1, 0.5)
        lengths = torch.where(high, shorter if turn + 1 < MOST_TRIALS else 0.0, lengths)
        some = high.nonzero().squeeze(1)
        part = objective.keep(some)
        lines = some if part is not objective else slice(None)
        tried = trial(part, here.keep(some), direction[some], along[lines], lengths[some], penalty)
        scores[lines], value[some], slopes[lines] = tried
    parameters = here.parameters + lengths.unsqueeze(1) * direction
    return Point(parameters, scores, value, objective.gradient(slopes, parameters)), lengths


def trial(
    objective: Objective, here: Point, direction: Tensor, along: Tensor, lengths: Tensor, penalty: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, values and slopes this far along each direction."""
    scores = torch.addcmul(here.scores, along, lengths.unsqueeze(1).to(along.dtype))
    value, slopes = objective.evaluate(scores)
    parameters = here.parameters + lengths.unsqueeze(1) * direction
    return scores, value.to(parameters.dtype) + (penalty * parameters.square()).sum(1) / 2, slopes
