"""What is minimised over linear heads: a loss by its parameters, label by label where it adds over labels."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Self

import torch
from torch import Tensor

from manyhot.losses.additive import AdditiveLoss
from manyhot.losses.loss import Loss

# As many cells are in work at a time: what they need in between then stays in the cache of a processor.
CELLS_AT_ONCE = 1 << 16
# On an accelerator fewer and larger steps are faster.
CELLS_AT_ONCE_ON_DEVICE = 1 << 24

# Second derivatives are worth their cost up to so many parameters.
LARGEST_INFORMATION = 2048
# The step for curvature by differences, in float64.
GAP = 1e-3
# The share of all curvature that must lie in the rows that second derivatives are summed over, and how many of them
# there are for each parameter at the most.
COVERED, ROWS_A_PARAMETER = 0.99, 16


class Objective(ABC):
    """A sum of losses over the samples, for P problems that have nothing to do with each other.

    Scores and slopes are (K, N), one line a label, so that the labels of some problems lie together.

    Args:
        features: (N, D), the last column for the bias.
        targets: (K, N) int8.

    Attributes:
        problems: The number P of problems; parameters are (P, size).
        size: The number of parameters of a problem.
    """

    problems: int
    size: int

    def __init__(self, features: Tensor, targets: Tensor) -> None:
        self.features, self.targets = features, targets

    @property
    def num_labels(self) -> int:
        """The number K of labels."""
        return len(self.targets)

    def scores(self, parameters: Tensor) -> Tensor:
        """(K, N) of parameters (P, size)."""
        weights = parameters.view(self.num_labels, -1).to(self.features.dtype)
        return weights @ self.features.mT

    def gradient(self, slopes: Tensor, like: Tensor) -> Tensor:
        """(P, size) by the parameters, in the type of `like`, of slopes (K, N) by the scores."""
        return (slopes @ self.features).to(like.dtype).view(self.problems, -1)

    @abstractmethod
    def evaluate(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Values (P,) in float64 and slopes (K, N) of scores (K, N)."""

    def information(self, scores: Tensor, problem: int) -> Tensor | None:
        """(size, size), nearly the second derivative of one problem by its parameters; None where that costs much."""
        return None

    @abstractmethod
    def keep(self, problems: Tensor) -> Self:
        """The objective of some of the problems, by their numbers."""


class LabelObjective(Objective):
    """A loss that adds over labels: each label is a problem of its own."""

    def __init__(self, features: Tensor, targets: Tensor, loss: AdditiveLoss) -> None:
        super().__init__(features, targets)
        self.curve = loss.curve
        weight = loss.link.pos_weight
        self.pos_weight = None
        if weight is not None:
            self.pos_weight = weight.to(features).expand(len(targets)).unsqueeze(1)
        self.all_known = not bool((targets < 0).any())

    @property
    def problems(self) -> int:  # type: ignore[override]
        """As many as labels."""
        return len(self.targets)

    @property
    def size(self) -> int:  # type: ignore[override]
        """Weights and bias of one label."""
        return self.features.shape[1]

    def evaluate(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The sum over known cells of each label."""
        slopes = torch.empty_like(scores)
        exact = torch.float32 if scores.device.type == "mps" else torch.float64
        values = torch.zeros(len(scores), dtype=exact, device=scores.device)
        at_once = CELLS_AT_ONCE if scores.device.type == "cpu" else CELLS_AT_ONCE_ON_DEVICE
        rows = max(1, min(scores.shape[1], at_once))
        labels = max(1, at_once // rows)
        for first in range(0, len(scores), labels):
            some = slice(first, first + labels)
            for start in range(0, scores.shape[1], rows):
                place = (some, slice(start, start + rows))
                costs, steepness = self._cells(scores[place], self.targets[place], some)
                values[some] += costs.sum(1, dtype=exact)
                slopes[place] = steepness
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
        if self.size > LARGEST_INFORMATION or scores.device.type == "mps":
            return None
        some, line = slice(problem, problem + 1), scores[problem : problem + 1].double()
        targets = self.targets[problem : problem + 1]
        above, below = (self._cells(line + gap, targets, some)[1] for gap in (GAP, -GAP))
        curvature = ((above - below) / (2 * GAP)).clamp(min=0).squeeze(0)
        ordered, rows = curvature.sort(descending=True)
        count = int((ordered.cumsum(0) < COVERED * ordered.sum()).sum()) + 1
        every = -(-count // (ROWS_A_PARAMETER * self.size))
        rows = rows[:count:every]
        # In float64, or rounding could leave a matrix that curves downwards.
        part = self.features[rows].double() * (every * curvature[rows]).sqrt().unsqueeze(1)
        return part.mT @ part

    def keep(self, problems: Tensor) -> Self:
        """The objective of some of the labels."""
        part = copy.copy(self)
        part.targets = self.targets[problems]
        part.pos_weight = None if self.pos_weight is None else self.pos_weight[problems]
        return part


class JointObjective(Objective):
    """Any other loss: all labels are one problem, and the loss sees all samples at once.

    The loss is summed over rows, where it offers that, and otherwise its mean is multiplied by the number of rows.
    """

    problems = 1

    def __init__(self, features: Tensor, targets: Tensor, loss: Loss) -> None:
        super().__init__(features, targets)
        self.loss = copy.deepcopy(loss).to(features.device)
        self.factor = float(targets.shape[1])
        if "sum" in loss.reductions:
            self.loss.reduction, self.factor = "sum", 1.0
        self.size = features.shape[1] * len(targets)

    def evaluate(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of all samples."""
        leaf = scores.mT.contiguous().requires_grad_()
        with torch.enable_grad():
            value = self.loss(leaf, self.targets.mT)
            (slopes,) = torch.autograd.grad(value, leaf)
        exact = torch.float32 if scores.device.type == "mps" else torch.float64
        return (value.detach() * self.factor).to(exact).view(1), (slopes * self.factor).mT

    def keep(self, problems: Tensor) -> Self:
        """The only problem there is."""
        return self
