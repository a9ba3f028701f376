"""Linear heads on frozen features for several penalty strengths: the fit, its result and its basis."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from manyhot.checks import as_scores, as_targets, as_tensor, check_choice, check_features, check_int, check_number
from manyhot.data.targets import SparseTargets
from manyhot.errors import InputError, owned
from manyhot.heads import LinearHead
from manyhot.linear.lbfgs import JointObjective, LabelObjective, Memory, Minimum, Objective, exact_type, minimise
from manyhot.links import Link
from manyhot.losses.binary import AdditiveLoss
from manyhot.losses.loss import Loss
from manyhot.metrics.calibration import LogLoss
from manyhot.metrics.ranking import average_precision

# Cells of labels that are fitted side by side: their scores, directions and slopes are held at once.
CELLS_SIDE_BY_SIDE = 1 << 25
# Where the bias starts for a label that is nearly never or nearly always present.
FURTHEST_START = 12.0
# Curvature of the loss per cell before the first step: that of cross-entropy at a probability of one half.
FIRST_CURVATURE = 0.25
# Share of the objective at zero weights below which differences do not matter: the objective of a separable label falls
# towards 0, so that a tolerance relative to the objective alone would never be reached.
FLOOR = 0.01


@owned("fit_path")
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
    C = 1 / strength, and for `SoftmaxCrossEntropyLoss` all of them together are. A loss that adds over labels is
    summed over known cells, and each label is a problem of its own that stops when it is solved. Any other loss is
    summed over rows where it offers that; its mean is multiplied by the number of rows where it does not, as for batch
    statistics.
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
        tolerance: A label has converged when the predicted decrease of the next step is less than this share of its
            objective, or than a hundredth of this share of the objective at zero weights.
        max_steps: Largest number of steps for each strength.
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
    matrix = checked_features(features)
    table = checked_targets(targets, matrix)
    check_loss(loss)
    ordered = checked_strengths(strengths)
    tolerance = check_number("tolerance", "", tolerance, "(0, inf)")
    max_steps = check_int("max_steps", "", max_steps, low=1)
    target_device = matrix.device if device is None else torch.device(device)
    kind = dtype or (torch.float64 if matrix.dtype == torch.float64 and target_device.type != "mps" else torch.float32)
    basis = find_basis(matrix, bias=bias, standardise=standardise, dtype=kind, device=target_device)
    # The loss of the caller stays where it is, and may go on learning.
    loss = copy.deepcopy(loss).to(target_device)
    columns = table.mT.to(target_device).contiguous()
    groups = list(make_groups(basis.rotate(matrix, kind), columns, loss, basis))
    path = empty_path(ordered, len(columns), matrix.shape[1], kind, loss)
    for number, strength in enumerate(ordered):
        for group in groups:
            store_solution(path, number, group, group.solve(strength, tolerance, max_steps), basis)
        if loss.link.needs_fit and bool((table == 1).any()):
            scores = path.scores(matrix, number).cpu()
            path.links[number] = copy.deepcopy(loss.link).cpu().fit([(scores, table)])
        if advance is not None:
            advance(1)
    loss.cpu()
    return path


class LabelGroup:
    """Labels that are fitted side by side, and where they are on the path.

    Args:
        objective: Of these labels.
        labels: Their numbers.
        basis: Of the features.
        start: (P, size), where it begins.
        fixed: Whether they stay where they start, because there is no finite solution.
    """

    def __init__(
        self, objective: Objective, labels: Tensor, basis: Basis, start: Tensor, *, fixed: bool = False
    ) -> None:
        self.objective, self.labels, self.parameters, self.fixed = objective, labels, start, fixed
        penalised = torch.ones_like(basis.spread)
        penalised[-1] = 0.0
        copies = start.shape[1] // len(basis.spread)
        self.penalised = penalised.repeat(copies)
        self.memory = Memory(basis.spread.repeat(copies), start.new_full((len(start),), FIRST_CURVATURE))
        self.objective.penalty = torch.zeros_like(self.penalised)
        self.floor = FLOOR * objective.at(start).value

    def solve(self, strength: float, tolerance: float, max_steps: int) -> Minimum:
        """The minimum for one strength, where the next one starts."""
        self.objective.penalty, steps = strength * self.penalised, 0 if self.fixed else max_steps
        minimum = minimise(
            self.objective, self.parameters, self.memory, self.floor, tolerance=tolerance, max_steps=steps
        )
        if self.fixed:
            minimum.converged.fill_(True)
        self.parameters = minimum.parameters
        return minimum


def make_groups(features: Tensor, columns: Tensor, loss: Loss, basis: Basis) -> Iterator[LabelGroup]:
    """The labels in groups whose cells fit into memory; all in one for a loss that mixes them."""
    start = initial_parameters(columns, loss, basis)
    labels = torch.arange(len(columns), device=columns.device)
    if not isinstance(loss, AdditiveLoss):
        yield LabelGroup(JointObjective(features, columns, loss), labels, basis, start.view(1, -1))
        return
    solvable = torch.ones_like(labels, dtype=torch.bool)
    if basis.bias:
        solvable = (columns == 1).any(1) & (columns == 0).any(1)
    all_labels = LabelObjective(features, columns, loss)
    at_once = max(1, CELLS_SIDE_BY_SIDE // max(1, columns.shape[1]))
    for fixed, members in ((False, labels[solvable]), (True, labels[~solvable])):
        for subset in members.split(at_once) if len(members) else ():
            yield LabelGroup(all_labels.select(subset), subset, basis, start[subset], fixed=fixed)


def initial_parameters(columns: Tensor, loss: Loss, basis: Basis) -> Tensor:
    """(K, D + 1): no weights, and the bias that means the rate of each label."""
    start = torch.zeros(len(columns), len(basis.spread), dtype=basis.spread.dtype, device=columns.device)
    if basis.bias and loss.link.gives_probs:
        rates = ((columns == 1).sum(1) + 0.5) / ((columns >= 0).sum(1) + 1)
        scores = loss.link.initial_scores(rates.to(start.dtype))
        start[:, -1] = scores.nan_to_num(0.0).clamp(-FURTHEST_START, FURTHEST_START)
    return start


def empty_path(strengths: list[float], labels: int, width: int, dtype: torch.dtype, loss: Loss) -> LinearPath:
    """A path to be filled, in the memory of the host."""
    count, problems = len(strengths), labels if isinstance(loss, AdditiveLoss) else 1
    return LinearPath(
        weights=torch.zeros(count, labels, width, dtype=dtype),
        bias=torch.zeros(count, labels, dtype=dtype),
        strengths=torch.tensor(strengths, dtype=torch.float64),
        values=torch.zeros(count, problems, dtype=torch.float64),
        steps=torch.zeros(count, problems, dtype=torch.int64),
        converged=torch.zeros(count, problems, dtype=torch.bool),
        loss=loss,
        links=[loss.link] * count,
    )


def store_solution(path: LinearPath, number: int, group: LabelGroup, minimum: Minimum, basis: Basis) -> None:
    """Writes the solution of one strength into the path, for features as they were passed."""
    labels = group.labels.cpu()
    problems = labels if path.adds_over_labels else torch.zeros(1, dtype=torch.int64)
    weights, bias = basis.heads(minimum.parameters.view(len(labels), -1))
    path.weights[number, labels] = weights.cpu().to(path.weights.dtype)
    path.bias[number, labels] = bias.cpu().to(path.bias.dtype)
    path.values[number, problems] = minimum.value.cpu().double()
    path.steps[number, problems] = minimum.steps.cpu()
    path.converged[number, problems] = minimum.converged.cpu()


def checked_features(values: Any) -> Tensor:
    """(N, D) of finite floating-point numbers; integers become such."""
    features = as_tensor("", values, "features").detach()
    if features.ndim != 2 or not all(features.shape):
        hint = "Pass one row per sample and one column per feature, at least one of each."
        raise InputError("features", "", "be (N, D)", str(tuple(features.shape)), hint)
    features = features if features.dtype == torch.float64 else features.float()
    if not bool(features.sum().isfinite()) and not bool(features.isfinite().all()):
        row, column = (int(position) for position in (~features.isfinite()).nonzero()[0])
        got = f"{float(features[row, column]):g} at row {row}, column {column}"
        raise InputError("features", "", "be finite", got, "Drop or repair these rows.")
    return features


def checked_targets(targets: Any, features: Tensor) -> Tensor:
    """(N, K) int8 on the CPU for these features."""
    if isinstance(targets, SparseTargets):
        targets = targets.dense()
    table = as_tensor("", targets, "targets")
    if table.ndim != 2 or len(table) != len(features):
        rule = f"be (N, K) with N = {len(features)}, as many rows as `features`"
        hint = "Pass `manyhot.one_hot(targets, K)` for class indices, or encode names with `Labels`."
        raise InputError("targets", "", rule, str(tuple(table.shape)), hint)
    return as_targets("", table, table).cpu()


def check_loss(loss: Loss) -> None:
    """Raises an error for a loss that cannot be minimised over one linear head and all samples at once."""
    value: object = loss
    name, hint = type(value).__name__, "Pass for example BinaryCrossEntropyLoss()."
    if not isinstance(value, Loss):
        raise InputError("loss", "", "be a loss of manyhot", name, hint)
    if loss.heads != 1:
        raise InputError("loss", "", "take the scores of one head", f"{name}, which takes two", hint)
    if loss.extra or any(True for _ in loss.parameters()):
        got = f"{name}, which draws or learns something of its own"
        raise InputError("loss", "", "depend on scores and targets alone", got, hint)


def checked_strengths(strengths: Sequence[float] | Tensor | None) -> list[float]:
    """Distinct positive numbers, from strong to weak."""
    if strengths is None:
        return [10.0 ** (5 - 11 * step / 44) for step in range(45)]
    values = strengths.tolist() if hasattr(strengths, "tolist") else strengths
    values = [values] if isinstance(values, int | float) else list(values)
    checked = {check_number("strengths", "", value, "(0, inf)") for value in values}
    if not checked:
        raise InputError("strengths", "", "hold at least one number", "none", "Leave it out for 45 of them.")
    return sorted(checked, reverse=True)


# From scores and targets, both (N, K), to one number, or one per label (K,); higher is better.
Scorer = Callable[[Tensor, Tensor], Any]


@dataclass(frozen=True)
class SelectedStrength:
    """The strength that did best on held-out samples.

    Attributes:
        index: () its number on the path; (K,) for a choice label by label.
        strength: The strength itself, shaped like `index`.
        figures: (S,) how each strength did; (S, K) for a choice label by label.
    """

    index: Tensor
    strength: Tensor
    figures: Tensor


@dataclass(frozen=True)
class LinearPath:
    """Linear heads for several strengths of the penalty, from strong to weak.

    Attributes:
        weights: (S, K, D), for features as they were given.
        bias: (S, K), zeros where there is none.
        strengths: (S,) float64, falling.
        values: (S, K) the objective of each label; (S, 1) for a loss that mixes labels.
        steps: Shaped like `values`, how many steps were taken.
        converged: Shaped like `values`, whether the minimum was reached.
        loss: What was minimised.
        links: What the scores of each strength mean: the link of the loss, but for the quasibinary loss a link for each
            head, since each has a normaliser of its own.
    """

    weights: Tensor
    bias: Tensor
    strengths: Tensor
    values: Tensor
    steps: Tensor
    converged: Tensor
    loss: Loss
    links: list[Link]

    def __len__(self) -> int:
        """The number S of strengths."""
        return len(self.strengths)

    def __repr__(self) -> str:
        return (
            f"LinearPath({len(self)} strengths from {self.strengths[0]:g} to {self.strengths[-1]:g}, "
            f"{self.weights.shape[1]} labels, {self.weights.shape[2]} features, {self.converged.float().mean():.0%} "
            f"converged)"
        )

    @property
    def adds_over_labels(self) -> bool:
        """Whether each label is a problem of its own, and may have a strength of its own."""
        return self.loss.adds_over_labels

    def head(self, index: int | Tensor) -> LinearHead:
        """The head of one strength, or of one strength per label for (K,) numbers."""
        weights, bias = self._of(index)
        head = LinearHead(weights.shape[1], len(weights)).to(weights.dtype)
        assert head.bias is not None
        with torch.no_grad():
            head.weight.copy_(weights)
            head.bias.copy_(bias)
        return head

    @torch.no_grad()
    def scores(self, features: Any, index: int | Tensor) -> Tensor:
        """(N, K) of features (N, D) by the head of one strength, or of one strength per label."""
        values = as_scores("LinearPath", features, name="features").to(self.weights.dtype)
        check_features("LinearPath", values, self.weights.shape[2])
        weights, bias = self._of(index)
        return torch.addmm(bias.to(values.device), values, weights.to(values.device).mT)

    def choose(
        self, features: Any, targets: Any, *, by: str | Scorer = "mAP", sharing: str = "all"
    ) -> SelectedStrength:
        """The strength that does best on held-out samples; of equals, the strongest.

        Args:
            features: (N, D).
            targets: (N, K): 1 present, 0 absent, -1 unknown; also `SparseTargets`.
            by: "mAP" (mean average precision by label), "log loss" (by the link of the loss), or a function of scores
                and targets, both (N, K), that gives one number, or one per label; higher is better.
            sharing: "all" for one strength, "none" for one per label, for a loss that adds over labels. A label
                without a figure, such as the average precision of one that is never present, gets that of the rest.

        Example:
            >>> features, targets = torch.randn(90, 4), torch.randint(0, 2, (90, 3))
            >>> path = mh.linear.fit_path(features[:60], targets[:60], mh.BinaryCrossEntropyLoss(), strengths=[9, 1])
            >>> choice = path.choose(features[60:], targets[60:], by="log loss", sharing="none")
            >>> path.head(choice.index)
            LinearHead(in_features=4, num_labels=3, bias='label')
        """
        check_choice("sharing", "LinearPath.choose", sharing, ("all", "none"))
        if not callable(by):
            check_choice("by", "LinearPath.choose", by, ("mAP", "log loss"))
        if sharing == "none" and not self.adds_over_labels:
            hint = "Pass sharing='all'."
            rule = "be 'all' for a loss that mixes labels"
            raise InputError("sharing", "LinearPath.choose", rule, f"'none' with {type(self.loss).__name__}", hint)
        table = targets.dense() if isinstance(targets, SparseTargets) else targets
        figures = torch.stack([self._figure(by, features, table, index) for index in range(len(self))])
        means = figures if figures.ndim == 1 else figures.nanmean(1)
        index = means.nan_to_num(-torch.inf).argmax()
        if sharing == "none":
            if figures.ndim == 1:
                rule = "give one number per label for sharing='none'"
                raise InputError("by", "LinearPath.choose", rule, "one number", "Return (K,), or pass sharing='all'.")
            index = torch.where(figures.isnan().all(0), index, figures.nan_to_num(-torch.inf).argmax(0))
        reported = figures if sharing == "none" else means
        return SelectedStrength(index, self.strengths[index], -reported if by == "log loss" else reported)

    def _of(self, index: int | Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(index, Tensor) and index.ndim:
            labels = torch.arange(self.weights.shape[1])
            return self.weights[index.cpu(), labels], self.bias[index.cpu(), labels]
        return self.weights[int(index)], self.bias[int(index)]

    def _figure(self, by: str | Scorer, features: Any, targets: Any, index: int) -> Tensor:
        scores = self.scores(features, index)
        targets = as_targets("LinearPath.choose", targets, scores)
        if callable(by):
            figure = by(scores, targets)
        elif by == "mAP":
            figure = average_precision(scores, targets)
        else:
            figure = -LogLoss().update(self.links[index].probs(scores), targets).compute().details["by_label"]
        return torch.as_tensor(figure).double().cpu()


# As many numbers are in work at a time, so that nothing as large as the features is held beside them and their turn.
NUMBERS_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class Basis:
    """How features are centred, scaled and turned; inside, the last column is 1 and stands for the bias.

    Attributes:
        mean: (D,) what is subtracted; zeros where nothing is.
        scale: (D,) what is divided by; ones where nothing is.
        rotation: (D, D) orthogonal, from scaled features to their principal directions.
        spread: (D + 1,) the sum of squares along each direction.
        bias: Whether there is a bias; without one, its column is 0.
    """

    mean: Tensor
    scale: Tensor
    rotation: Tensor
    spread: Tensor
    bias: bool

    def rotate(self, features: Tensor, dtype: torch.dtype) -> Tensor:
        """(N, D + 1) of features (N, D) on any device, on that of the basis."""
        rotated = torch.empty(len(features), len(self.spread), dtype=dtype, device=self.spread.device)
        rotated[:, -1] = float(self.bias)
        rotation, blocks = self.rotation.to(dtype), _blocks(features)
        for block, part in zip(blocks, rotated.split([len(block) for block in blocks]), strict=True):
            part[:, :-1] = self._scaled(block, dtype) @ rotation
        return rotated

    def heads(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (..., K, D) and bias (..., K) on the features as they came, of parameters (..., K, D + 1)."""
        weights = parameters[..., :-1] @ self.rotation.mT / self.scale
        bias = parameters[..., -1] * float(self.bias) - weights @ self.mean
        return weights, bias

    def _scaled(self, features: Tensor, dtype: torch.dtype) -> Tensor:
        # Centred in float64: the difference of two large numbers is what is left of a feature.
        exact = features.to(self.mean.device).to(self.mean.dtype)
        return ((exact - self.mean) / self.scale).to(dtype)


def find_basis(features: Tensor, *, bias: bool, standardise: bool, dtype: torch.dtype, device: torch.device) -> Basis:
    """The basis of features (N, D); without `standardise` it only turns, and centres where a bias makes up for it.

    Centring never changes a solution where there is a bias that is not penalised, but it makes the problem rounder.
    """
    exact, width = exact_type(device), features.shape[1]
    mean, scale = torch.zeros(width, dtype=exact, device=device), torch.ones(width, dtype=exact, device=device)
    if bias:
        mean = sum((block.to(device).to(exact).sum(0) for block in _blocks(features)), start=mean) / len(features)
    if standardise:
        # Without a bias there is no centring, and features are brought to a mean square of 1.
        squares = ((block.to(device).to(exact) - mean).square().sum(0) for block in _blocks(features))
        spread = (sum(squares, start=torch.zeros_like(mean)) / len(features)).sqrt()
        # A column that never changes has nothing to be divided by. Rounding is a share of its mean, in whatever unit.
        scale = torch.where(spread > 1e-12 * mean.abs(), spread, scale)
    unrotated = Basis(mean, scale, torch.eye(width, dtype=exact, device=device), mean.new_zeros(width + 1), bias)
    gram = torch.zeros(width, width, dtype=exact, device=device)
    for block in _blocks(features):
        part = unrotated._scaled(block, dtype)
        gram += part.mT @ part
    values, rotation = torch.linalg.eigh(gram)
    spread = torch.cat([values.clamp(min=0), values.new_full((1,), float(len(features) if bias else 0))])
    return Basis(mean, scale, rotation, spread, bias)


def _blocks(matrix: Tensor) -> tuple[Tensor, ...]:
    blocks: tuple[Tensor, ...] = matrix.split(max(1, NUMBERS_AT_ONCE // max(1, matrix.shape[1])))
    return blocks
