"""Linear heads on frozen features, one for each strength of the penalty."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from manyhot.cells import as_targets, as_tensor
from manyhot.checks import check_count, check_number
from manyhot.data.targets import SparseTargets
from manyhot.linear.basis import Basis, find_basis
from manyhot.linear.lbfgs import Memory, Minimum, minimise, place
from manyhot.linear.objective import JointObjective, LabelObjective, Objective
from manyhot.linear.result import LinearPath
from manyhot.links.link import NoLink
from manyhot.links.normalised import QuasibinaryLink
from manyhot.losses.additive import AdditiveLoss
from manyhot.losses.loss import Loss
from manyhot.refusal import refusal

# Cells of labels that are fitted side by side: their scores, directions and slopes are held at once.
CELLS_SIDE_BY_SIDE = 1 << 25
# Where the bias starts for a label that is nearly never or nearly always present.
FURTHEST_START = 12.0
# Curvature of the loss of a cell before the first step tells: that of cross-entropy at a probability of one half.
FIRST_CURVATURE = 0.25
# The share of the objective without any weights below which its differences do not matter: a label that features tell
# apart without error has an objective that falls towards 0, and no end to what could be won as a share of that.
FLOOR = 0.01


@torch.no_grad()
def fit_path(
    features: Any,
    targets: Any,
    loss: Loss,
    *,
    strengths: Sequence[float] | None = None,
    bias: bool = True,
    standardise: bool = True,
    tolerance: float = 1e-6,
    max_steps: int = 500,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    advance: Callable[[int], object] | None = None,
) -> LinearPath:
    """Fits a linear head for each strength of an L2 penalty, from strong to weak, each from where the last one ended.

    objective = sum over samples of the loss + strength / 2 * sum of squared weights

    The bias is not penalised. For binary cross-entropy each label is scikit-learn's `LogisticRegression` with
    C = 1 / strength, and for `CrossEntropyLoss` all of them together are. A loss that adds over labels is summed over
    known cells, and each label is a problem of its own that stops when it is solved. Any other loss is summed over
    rows where it offers that; its mean is multiplied by the number of rows where it does not, as for batch statistics.
    Focal losses and ASL are not convex: what is found is the minimum that the path from strong penalties leads to.

    A label that is always or never present among its known cells has no finite solution with a bias. It gets weights
    of 0 and the bias that means its rate, kept off 0 and 1 by half a sample.

    Args:
        features: (N, D), finite.
        targets: (N, K): 1 present, 0 absent, -1 unknown; also `SparseTargets`.
        loss: Any loss of one head without parameters of its own.
        strengths: Positive numbers; by default 45, equally spaced on a logarithmic scale from 1e-6 to 1e5.
        bias: Whether each label has a bias.
        standardise: Whether the penalty is on the weights of features with mean 0 and variance 1, so that it treats
            all features alike. The weights that come back are for features as they were given.
        tolerance: A label is done when another step promises to lower its objective by less than this share of it, or
            than a hundredth of this share of the objective without any weights.
        max_steps: Steps for each strength at the most.
        device: Where to compute; where the features lie by default.
        dtype: What to compute products with features in: float32 by default, float64 for features that are.
        advance: Called with 1 whenever a strength is done.

    Reference: Kobayashi, Two-way Multi-Label Loss, CVPR 2023, supplement B, for the strengths.

    Example:
        >>> features = torch.tensor([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
        >>> targets = torch.tensor([[0], [0], [1], [0], [1]])
        >>> path = fit_path(features, targets, mh.BinaryCrossEntropyLoss(), strengths=[1.0, 0.01])
        >>> path.weights.flatten()
        tensor([0.4696, 1.0702])
        >>> path.head(1)(features).shape
        torch.Size([5, 1])
    """
    matrix = checked_features("fit_path", features)
    table = checked_targets("fit_path", targets, matrix)
    check_loss(loss)
    ordered = checked_strengths(strengths)
    tolerance = check_number("tolerance", "fit_path", tolerance, low=0, low_open=True)
    max_steps = check_count("max_steps", "fit_path", max_steps, low=1)
    home = matrix.device if device is None else torch.device(device)
    kind = dtype or (torch.float64 if matrix.dtype == torch.float64 and home.type != "mps" else torch.float32)
    basis = find_basis(matrix, bias=bias, standardise=standardise, dtype=kind, device=home)
    # The loss of the caller stays where it is, and may go on learning.
    loss = copy.deepcopy(loss).to(home)
    columns = table.mT.to(home).contiguous()
    groups = list(make_groups(basis.turn(matrix, kind), columns, loss, basis))
    path = empty_path(len(ordered), len(columns), matrix.shape[1], kind, loss)
    for number, strength in enumerate(ordered):
        path.strengths[number] = strength
        for group in groups:
            write(path, number, group, group.solve(strength, tolerance, max_steps), basis)
        if isinstance(loss.link, QuasibinaryLink) and bool((table == 1).any()):
            path.links[number] = QuasibinaryLink().fit([(path.scores(matrix, number), table.to(matrix.device))])
        if advance is not None:
            advance(1)
    loss.cpu()
    return path


class Group:
    """Labels that are fitted side by side, and where they are on the path.

    Args:
        objective: Of these labels.
        labels: Their numbers.
        basis: Of the features.
        start: (labels, D + 1).
        fixed: Whether they stay where they start, because there is no finite solution.
    """

    def __init__(
        self, objective: Objective, labels: Tensor, basis: Basis, start: Tensor, *, fixed: bool = False
    ) -> None:
        self.objective, self.labels, self.fixed = objective, labels, fixed
        copies = objective.size // len(basis.spread)
        penalised = torch.ones_like(basis.spread)
        penalised[-1] = 0.0
        self.penalised = penalised.repeat(copies)
        self.parameters = start.reshape(objective.problems, objective.size)
        curvature = start.new_full((objective.problems,), FIRST_CURVATURE)
        self.memory = Memory(basis.spread.repeat(copies), curvature)
        self.floor = FLOOR * place(objective, self.parameters, torch.zeros_like(self.penalised)).value

    def solve(self, strength: float, tolerance: float, max_steps: int) -> Minimum:
        """The minimum for one strength, where the next one starts."""
        penalty = strength * self.penalised
        steps = 0 if self.fixed else max_steps
        found = minimise(
            self.objective,
            self.parameters,
            penalty,
            self.memory,
            floor=self.floor,
            tolerance=tolerance,
            max_steps=steps,
        )
        found.converged.logical_or_(torch.tensor(self.fixed, device=penalty.device))
        self.parameters = found.parameters
        return found


def make_groups(features: Tensor, columns: Tensor, loss: Loss, basis: Basis) -> Iterator[Group]:
    """The labels in groups whose cells fit into memory; all in one for a loss that mixes them."""
    start = starts(columns, loss, basis)
    labels = torch.arange(len(columns), device=columns.device)
    if not isinstance(loss, AdditiveLoss):
        yield Group(JointObjective(features, columns, loss), labels, basis, start)
        return
    solvable = torch.ones_like(labels, dtype=torch.bool)
    if basis.bias:
        solvable = (columns == 1).any(1) & (columns == 0).any(1)
    whole = LabelObjective(features, columns, loss)
    at_once = max(1, CELLS_SIDE_BY_SIDE // max(1, columns.shape[1]))
    for fixed, members in ((False, labels[solvable]), (True, labels[~solvable])):
        for some in members.split(at_once) if len(members) else ():
            yield Group(whole.keep(some), some, basis, start[some], fixed=fixed)


def starts(columns: Tensor, loss: Loss, basis: Basis) -> Tensor:
    """(K, D + 1): no weights, and the bias that means the rate of each label."""
    start = torch.zeros(len(columns), len(basis.spread), dtype=basis.spread.dtype, device=columns.device)
    if basis.bias and not isinstance(loss.link, NoLink):
        rates = ((columns == 1).sum(1) + 0.5) / ((columns >= 0).sum(1) + 1)
        scores = loss.link.initial_scores(rates.to(start.dtype))
        start[:, -1] = scores.nan_to_num(0.0).clamp(-FURTHEST_START, FURTHEST_START)
    return start


def empty_path(strengths: int, labels: int, width: int, dtype: torch.dtype, loss: Loss) -> LinearPath:
    """A path to be filled, in the memory of the host."""
    problems = labels if isinstance(loss, AdditiveLoss) else 1
    return LinearPath(
        weights=torch.zeros(strengths, labels, width, dtype=dtype),
        bias=torch.zeros(strengths, labels, dtype=dtype),
        strengths=torch.zeros(strengths, dtype=torch.float64),
        values=torch.zeros(strengths, problems, dtype=torch.float64),
        steps=torch.zeros(strengths, problems, dtype=torch.int64),
        converged=torch.zeros(strengths, problems, dtype=torch.bool),
        loss=loss,
        links=[loss.link] * strengths,
    )


def write(path: LinearPath, number: int, group: Group, found: Minimum, basis: Basis) -> None:
    """Writes what was found for one strength into the path, for features as they came."""
    labels = group.labels.cpu()
    problems = labels if path.adds_over_labels else torch.zeros(1, dtype=torch.int64)
    weights, bias = basis.heads(found.parameters.view(len(labels), -1))
    path.weights[number, labels] = weights.cpu().to(path.weights.dtype)
    path.bias[number, labels] = bias.cpu().to(path.bias.dtype)
    path.values[number, problems] = found.value.cpu().double()
    path.steps[number, problems] = found.steps.cpu()
    path.converged[number, problems] = found.converged.cpu()


def checked_features(owner: str, values: Any) -> Tensor:
    """(N, D) of finite floating-point numbers; integers become such."""
    features = as_tensor(owner, values, "features").detach()
    if features.ndim != 2 or not all(features.shape):
        remedy = "Pass one row a sample, one column a feature, and at least one of each."
        raise refusal("features", owner, "be (N, D)", str(tuple(features.shape)), remedy)
    features = features if features.dtype == torch.float64 else features.float()
    if not bool(features.sum().isfinite()) and not bool(features.isfinite().all()):
        row, column = (int(place) for place in (~features.isfinite()).nonzero()[0])
        got = f"{float(features[row, column]):g} at row {row}, column {column}"
        raise refusal("features", owner, "be finite", got, "Drop or repair these rows.")
    return features


def checked_targets(owner: str, targets: Any, features: Tensor) -> Tensor:
    """(N, K) int8 on the CPU for these features."""
    if isinstance(targets, SparseTargets):
        targets = targets.dense()
    table = as_tensor(owner, targets, "targets")
    if table.ndim != 2 or len(table) != len(features):
        rule = f"be (N, K) with N = {len(features)}, as many rows as `features`"
        remedy = "Pass `manyhot.one_hot(targets, K)` for class indices, or encode names with `Labels`."
        raise refusal("targets", owner, rule, str(tuple(table.shape)), remedy)
    return as_targets(owner, table, table).cpu()


def check_loss(loss: Loss) -> None:
    """Refuses what cannot be minimised over one linear head and all samples at once."""
    given: object = loss
    name, remedy = type(given).__name__, "Pass for example BinaryCrossEntropyLoss()."
    if not isinstance(given, Loss):
        raise refusal("loss", "fit_path", "be a loss of manyhot", name, remedy)
    if loss.heads != 1:
        raise refusal("loss", "fit_path", "take the scores of one head", f"{name}, which takes two", remedy)
    if loss.most_aligned or any(True for _ in loss.parameters()):
        got = f"{name}, which draws or learns something of its own"
        raise refusal("loss", "fit_path", "depend on scores and targets alone", got, remedy)


def checked_strengths(strengths: Sequence[float] | Tensor | None) -> list[float]:
    """Distinct positive numbers, from strong to weak."""
    if strengths is None:
        return [10.0 ** (5 - 11 * step / 44) for step in range(45)]
    values = strengths.tolist() if hasattr(strengths, "tolist") else strengths
    values = [values] if isinstance(values, int | float) else list(values)
    checked = {check_number("strengths", "fit_path", value, low=0, low_open=True) for value in values}
    if not checked:
        raise refusal("strengths", "fit_path", "hold at least one number", "none", "Leave it out for 45 of them.")
    return sorted(checked, reverse=True)
