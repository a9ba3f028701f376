"""Rules that compare values with thresholds: fixed, from costs, tuned for each label, or uniform."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.checks import Array, check_num_labels, check_number
from manyhot.decide.rule import Rule, midpoint, reaches_threshold, strict_midpoint
from manyhot.errors import InputError
from manyhot.sorting import CELLS_IN_CACHE, label_cells, row_blocks, select


class Threshold(Rule):
    """Predicts labels whose value is at least the threshold.

    With calibrated probabilities, 0.5 has the fewest expected wrong cells. A value equal to the threshold is accepted;
    only rules of open-set decisions (`UniformThreshold`, `ClassThresholds`, `NoneOfThese`) need strictly more.

    Args:
        threshold: One number for all labels; infinite ones predict all labels or none.

    Example:
        >>> Threshold(0.5)(torch.tensor([[0.9, 0.5, 0.1]])).labels
        tensor([[ True,  True, False]])
    """

    def __init__(self, threshold: float = 0.5) -> None:
        super().__init__(fitted=True)
        self.threshold = check_number("threshold", "Threshold", threshold, "[-inf, inf]")

    def decide(self, values: Tensor) -> Tensor:
        """Labels with a value of at least the threshold."""
        return reaches_threshold(values, torch.tensor(self.threshold, dtype=torch.float64))


class CostThresholds(Rule):
    """Predicts a label where leaving it out has the larger expected cost: for errors of known and unequal cost.

    A label of probability p is predicted if (1 - p) false_positive <= p false_negative, that is if p is at least
    false_positive / (false_positive + false_negative). This minimises the expected cost under calibrated probabilities.
    Only the ratio of the two costs counts.

    Args:
        false_positive: The cost of a wrongly predicted label; one number, or (K,) for each label.
        false_negative: The cost of a missed label; one number, or (K,) for each label.

    Attributes:
        thresholds: (K,), or one number without dimensions for all labels.

    Example:
        >>> rule = CostThresholds(false_negative=4)   # to miss is four times as bad: from 20 % on
        >>> rule(torch.tensor([[0.25, 0.1]])).labels
        tensor([[ True, False]])
    """

    needs_probs = True

    def __init__(
        self, false_positive: float | Sequence[float] = 1.0, false_negative: float | Sequence[float] = 1.0
    ) -> None:
        super().__init__(fitted=True)
        self.false_positive = _checked_costs("false_positive", false_positive)
        self.false_negative = _checked_costs("false_negative", false_negative)
        fp_cost = torch.tensor(self.false_positive, dtype=torch.float64)
        fn_cost = torch.tensor(self.false_negative, dtype=torch.float64)
        if fp_cost.ndim and fn_cost.ndim and fp_cost.shape != fn_cost.shape:
            rule = f"have one cost per label like `false_positive` ({len(fp_cost)})"
            hint = "Pass one number, or as many as there are labels."
            raise InputError("false_negative", "CostThresholds", rule, str(len(fn_cost)), hint)
        if not bool((fp_cost + fn_cost > 0).all()):
            rule = "be above 0 where `false_positive` is 0"
            raise InputError("false_negative", "CostThresholds", rule, "0", "Pass what an error costs.")
        self.thresholds: Tensor = nn.Buffer(fp_cost / (fp_cost + fn_cost))

    def decide(self, values: Tensor) -> Tensor:
        """Labels with a probability of at least the threshold of their costs."""
        if self.thresholds.ndim and values.shape[1] != len(self.thresholds):
            rule, hint = f"have the {len(self.thresholds)} labels that costs are given for", "Pass one cost per label."
            raise InputError("values", "CostThresholds", rule, str(values.shape[1]), hint)
        return values >= self.thresholds.to(values)


def _checked_costs(argument: str, value: Any) -> float | tuple[float, ...]:
    try:
        costs = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        costs = torch.tensor(torch.nan)
    if costs.ndim <= 1 and bool((costs.isfinite() & (costs >= 0)).all()):
        return tuple(costs.tolist()) if costs.ndim else float(costs)
    hint = "Pass what one such error costs."
    raise InputError(argument, "CostThresholds", "be one number or (K,), finite and not negative", repr(value), hint)


class LabelThresholds(Rule):
    """A threshold for each label, tuned on held-out data: for labels whose values are distributed differently.

    Every cut-off between two neighbouring values of a label is considered, and the best one is taken exactly: that of
    the largest F-beta, or that of the most recall among those that reach a precision, or that of the most precision
    among those that reach a recall. The threshold lies halfway between the neighbours, and equal values are never
    split; of equally good cut-offs the highest is taken.

    Thresholds of rare labels overfit. Each label's predicted-positive count is therefore shrunk towards the count under
    the best common threshold of all labels: it becomes the weighted geometric mean of the two, with weight
    n / (n + shrink) on the label's own for n positives. This does not depend on the scale of the values, so scores and
    probabilities lead to the same decisions. A label without any positive, or without a known cell, gets the common
    threshold.

    The default of 10 was chosen on four data sets with 100 to 10,000 held-out rows. Compared with no shrinkage it
    raised the micro F1 each time, by 0.001 to 0.2, and changed the macro F1 by -0.005 to +0.017. For precision and
    recall it is off by default, because shrinking towards a common threshold made results worse.

    Where no cut-off of a label reaches the wanted precision, its threshold is infinite: the label is never predicted.

    Args:
        beta: Tune F-beta; 1 if no goal is given. Above 1 recall counts more, below 1 precision.
        precision: Reach this precision, with the most recall.
        recall: Reach this recall, with the most precision.
        shrink: How many positives the common threshold counts for; by default 10 for F-beta, and 0 otherwise.

    Attributes:
        thresholds: (K,), what a value must reach.
        common: The threshold that is best for all labels together; infinite if none reaches the goal, and NaN if no
            label needed it, because `shrink` is 0 and each has a positive.
        reached: (K,) bool, false where the label's own cells do not determine its threshold: it has no positives, or
            never reaches the precision.

    Reference: Lipton, Elkan and Naryanaswamy, Optimal Thresholding of Classifiers to Maximize F1 Measure, 2014, on
        tuning for F1 and on rare labels, without shrinkage.

    Example:
        >>> values = torch.tensor([[0.9, 0.2], [0.8, 0.1], [0.3, 0.4], [0.1, 0.3]])
        >>> targets = torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]])
        >>> LabelThresholds(shrink=0).fit(values, targets).thresholds
        tensor([0.5500, 0.2500], dtype=torch.float64)
    """

    needs_targets = True

    def __init__(
        self,
        *,
        beta: float | None = None,
        precision: float | None = None,
        recall: float | None = None,
        shrink: float | None = None,
    ) -> None:
        super().__init__()
        goals = {"beta": beta, "precision": precision, "recall": recall}
        goals = {name: value for name, value in goals.items() if value is not None} or {"beta": 1.0}
        if len(goals) > 1:
            got, hint = " and ".join(f"`{name}`" for name in goals), "Fit one rule for each goal."
            raise InputError("goal", "LabelThresholds", "be one of `beta`, `precision` and `recall`", got, hint)
        for name, value in goals.items():
            goals[name] = check_number(name, "LabelThresholds", value, "(0, inf)" if name == "beta" else "(0, 1]")
        self.beta, self.precision, self.recall = map(goals.get, OBJECTIVES)
        default = 0.0 if self.beta is None else 10.0
        self.shrink = default if shrink is None else check_number("shrink", "LabelThresholds", shrink, "[0, inf)")
        self.thresholds: Tensor = nn.Buffer(torch.empty(0, dtype=torch.float64))
        self.common: Tensor = nn.Buffer(torch.tensor(torch.nan, dtype=torch.float64))
        self.reached: Tensor = nn.Buffer(torch.empty(0, dtype=torch.bool))

    def fit_cells(self, values: Tensor, targets: Tensor) -> Self:
        """Tunes the thresholds on the CPU, to which tensors of another device are copied."""
        device, values, targets = values.device, values.cpu(), targets.cpu()
        goals = ((make, getattr(self, name)) for name, make in OBJECTIVES.items())
        objective = next(make(value) for make, value in goals if value is not None)
        reached, common = targets.numpy().max(0, initial=-1) == 1, values.new_tensor(torch.nan).numpy()
        if self.shrink > 0 or not reached.all():
            present = torch.cat([select(values[rows], targets[rows] == 1) for rows in row_blocks(values.shape)])
            common = best_threshold(present.numpy(), KnownCells(values, targets), objective)
        thresholds = [
            best_threshold(present.numpy(), [every.numpy()], objective, common, self.shrink) if len(present) else common
            for present, every in label_cells([values], [targets])
        ]
        learnt = np.array(thresholds, np.float64)
        buffers = {"thresholds": learnt, "common": np.float64(common), "reached": reached & (learnt < np.inf)}
        return self.learn(**{name: torch.as_tensor(buffer, device=device) for name, buffer in buffers.items()})

    def decide(self, values: Tensor) -> Tensor:
        """Labels with a value of at least their threshold."""
        check_num_labels("LabelThresholds", values, len(self.thresholds))
        return reaches_threshold(values, self.thresholds)


class KnownCells:
    """The known cells of a table (N, K), some at a time; selected again whenever they are gone through."""

    def __init__(self, values: Tensor, targets: Tensor) -> None:
        self.values, self.targets = values, targets
        self.all_known = targets.numpy().min(initial=0) >= 0

    def __iter__(self) -> Iterator[Array]:
        for rows in row_blocks(self.values.shape, CELLS_IN_CACHE):
            values = self.values[rows]
            yield (values.flatten() if self.all_known else select(values, self.targets[rows] >= 0)).numpy()


Objective = Callable[[Array, Array, int], Array]
"""Scores cut-offs by how many positives each predicts, how many cells, and how many positives there are.

Minus infinity stands for a cut-off that misses the goal. A score must not fall with the positives that are predicted,
nor rise with the cells.
"""


def f_beta(beta: float) -> Objective:
    """F-beta, (1 + beta^2) TP / (beta^2 positives + predicted)."""
    weight = beta**2
    return lambda hits, predicted, positives: (1 + weight) * hits / (weight * positives + predicted)


def recall_at_precision(share: float) -> Objective:
    """How many positives are found, of cut-offs that reach a precision."""
    return lambda hits, predicted, positives: np.where(hits >= share * predicted * (1 - 1e-12), hits, -np.inf)


def precision_at_recall(share: float) -> Objective:
    """The precision, of cut-offs that reach a recall."""
    least = share * (1 - 1e-12)
    return lambda hits, predicted, positives: np.where(hits >= least * positives, hits / predicted, -np.inf)


OBJECTIVES = {"beta": f_beta, "precision": recall_at_precision, "recall": precision_at_recall}

# Up to this number, cells are sorted all at once; of more, those that cannot matter are left out first.
FULL_SORT_CELLS = 1 << 16
NUM_PROBES = 8


def best_threshold(
    present: Array, known: Iterable[Array], objective: Objective, common: Any = np.inf, shrink: float = 0.0
) -> Any:
    """The threshold that maximises an objective over all cut-offs; ties go to the highest.

    It lies halfway between the smallest predicted cell and the largest one that is not, and is infinite if no cut-off
    reaches the goal. In NumPy, which sorts, compares and counts several times faster than torch on the CPU.

    Args:
        present: (P,), the values of present cells; they are overwritten.
        known: Those of all known cells, in one or more parts, to be gone through several times.
        objective: What to maximise.
        common: The threshold of all labels together, towards which to shrink the number of predicted cells.
        shrink: How many positives it counts for.
    """
    if len(present) == 0:
        return np.inf
    present.sort()
    many = any(cells > FULL_SORT_CELLS for cells in accumulate(map(len, known)))
    floor = best_floor(present, known, objective) if many else present[0]
    lowest = np.fmin(floor, common, dtype=present.dtype)
    upper = np.concatenate([cells.compress(cells >= lowest) for cells in known])
    upper.sort()
    cutoffs = present[present >= floor]
    predicted = _count_at_least(upper, cutoffs)
    score = objective(_count_at_least(present, cutoffs), predicted, len(present))
    best = len(score) - 1 - int(score[::-1].argmax())
    if score[best] == -np.inf:
        return np.inf

    def threshold(number: int) -> Any:
        if number == 0:
            return np.inf
        high = upper[-number]
        if number < len(upper):
            return midpoint(upper[-number - 1], high)
        return midpoint(max(cells[cells < high].max(initial=-np.inf) for cells in known), high)

    num_predicted = int(predicted[best])
    own = threshold(num_predicted)
    if shrink == 0 or not np.isfinite(common):
        return own
    weight, shared = len(present) / (len(present) + shrink), int(_count_at_least(upper, common))
    # Half a cell more, so that 0 has a logarithm.
    mean = math.exp(weight * math.log(num_predicted + 0.5) + (1 - weight) * math.log(shared + 0.5)) - 0.5
    return np.clip(threshold(round(mean)), min(own, common), max(own, common))


def best_floor(present: Array, known: Iterable[Array], objective: Objective) -> Any:
    """A present value below which no cut-off is the best.

    Args:
        present: (P,) ascending.
        known: All known cells, in one or more parts, to be gone through several times.
        objective: What is maximised.
    """
    low, high, best = 0, len(present) - 1, -math.inf
    for _ in range(2):
        positions = np.linspace(low, high, NUM_PROBES).astype(int)
        values = present[positions]
        hits = _count_at_least(present, values)
        predicted = np.sum([[np.count_nonzero(cells >= value) for value in values] for cells in known], axis=0)
        best = max(best, objective(hits, predicted, len(present)).max())
        # A cut-off between two probes has no more hits than the lower one, and no fewer cells than the upper one.
        bound = objective(hits[:-1], predicted[1:], len(present))
        promising = np.flatnonzero((bound >= best) & (bound > -np.inf))
        low, high = positions[promising[0] :][:2] if len(promising) else (high, high)
    return present[low]


def _count_at_least(ascending: Array, values: Any) -> Any:
    return len(ascending) - np.searchsorted(ascending, values)


class UniformThreshold(Rule):
    """Predicts labels with a value strictly above a common threshold, which has the most exact matches of rows.

    For open-set decisions: one number that separates present from absent labels in all samples, and rejects a sample of
    which no value exceeds it. A held-out row is an exact match at a threshold t if every present value is above t and
    no absent one is, so if t lies in [largest absent value, smallest present value). The rule takes the t that lies in
    the most of these intervals, exactly, and of the region of such t the middle.

    A row without labels matches from its largest value on; it is an example of what must be rejected. A value equal to
    the threshold is not predicted, unlike in `Threshold`, because an absent value may be as large as the threshold. If
    no row can match, nothing is ever predicted.

    Attributes:
        threshold: What a value must exceed: the middle of the region, or its lower end if that has none.
        low: Where the region of equally good thresholds begins; NaN if no row can match.
        high: Where it ends, itself excluded; NaN if no row can match.
        accuracy: The share of exact matches among held-out rows with a known cell; NaN without any.

    Reference: Li, Jia, Zhou, Shen and Duan, Rediscovering BCE Loss for Uniform Classification, for rows of one label;
        their text rejects values below the threshold only, which contradicts their definition.

    Example:
        >>> values = torch.tensor([[2.0, -1.0], [0.5, 0.0], [-0.5, 3.0], [0.1, 0.3]])
        >>> rule = UniformThreshold().fit(values, torch.tensor([[1, 0], [1, 0], [0, 1], [0, 0]]))
        >>> float(rule.low), float(rule.high), float(rule.accuracy)
        (0.30000001192092896, 0.5, 1.0)
    """

    needs_targets = True

    def __init__(self) -> None:
        super().__init__()
        self.threshold: Tensor = nn.Buffer(torch.tensor(torch.nan, dtype=torch.float64))
        self.low: Tensor = nn.Buffer(torch.tensor(torch.nan, dtype=torch.float64))
        self.high: Tensor = nn.Buffer(torch.tensor(torch.nan, dtype=torch.float64))
        self.accuracy: Tensor = nn.Buffer(torch.tensor(torch.nan, dtype=torch.float64))

    def fit_cells(self, values: Tensor, targets: Tensor) -> Self:
        """Finds the threshold."""
        best = sweep(*row_intervals(values, targets))
        (low,), (high,), (threshold,) = _regions([best], values)
        return self.learn(threshold=threshold, low=low, high=high, accuracy=_share_of_known_rows(best.count, targets))

    def decide(self, values: Tensor) -> Tensor:
        """Labels with a value above the threshold."""
        return values > self.threshold.to(values)


class ClassThresholds(Rule):
    """Applies the threshold of its top label to each row: for classes whose values are distributed differently.

    Every label has a threshold. The one of the label with the largest value of a row, the lower index on ties, decides
    about all labels of that row: those with a value strictly above it are predicted. Each threshold is the one with
    the most exact matches among held-out rows with this top label, as in `UniformThreshold`; a label that is on top of
    no such row gets the threshold that is best for all rows. For rows of one label, the share of exact matches is the
    class-wise uniform accuracy of the paper.

    To tune a threshold for each label by itself, whatever the other labels of a row, take `LabelThresholds`.

    Attributes:
        thresholds: (K,), what values must exceed in rows that the label leads.
        low: (K,), where the region of equally good thresholds begins; NaN where no row of this top label can match.
        high: (K,), where it ends, itself excluded.
        accuracy: The share of exact matches among held-out rows with a known cell; NaN without any.

    Reference: Li, Jia, Zhou, Shen and Duan, Rediscovering BCE Loss for Uniform Classification, section III-D.

    Example:
        >>> values = torch.tensor([[2.0, 1.0], [3.0, 0.0], [-2.0, -1.0], [-3.0, -1.5]])
        >>> rule = ClassThresholds().fit(values, torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]]))
        >>> rule.thresholds
        tensor([ 1.5000, -1.7500], dtype=torch.float64)
        >>> rule(torch.tensor([[1.7, 0.2]])).labels
        tensor([[ True, False]])
    """

    needs_targets = True

    def __init__(self) -> None:
        super().__init__()
        self.thresholds: Tensor = nn.Buffer(torch.empty(0, dtype=torch.float64))
        self.low: Tensor = nn.Buffer(torch.empty(0, dtype=torch.float64))
        self.high: Tensor = nn.Buffer(torch.empty(0, dtype=torch.float64))
        self.accuracy: Tensor = nn.Buffer(torch.tensor(torch.nan, dtype=torch.float64))

    def fit_cells(self, values: Tensor, targets: Tensor) -> Self:
        """Finds the thresholds."""
        lows, highs = row_intervals(values, targets)
        sweeps = sweep_groups(lows, highs, _top_label(values), values.shape[1])
        low, high, own = _regions(sweeps, values)
        _, _, common = _regions([sweep(lows, highs)], values)
        accuracy = _share_of_known_rows(sum(best.count for best in sweeps), targets)
        return self.learn(thresholds=torch.where(low.isnan(), common, own), low=low, high=high, accuracy=accuracy)

    def decide(self, values: Tensor) -> Tensor:
        """Labels with a value above the threshold of the top label of their row."""
        check_num_labels("ClassThresholds", values, len(self.thresholds))
        if values.shape[1] == 0:
            return torch.zeros_like(values, dtype=torch.bool)
        return values > self.thresholds.to(values)[_top_label(values)].unsqueeze(1)


def _top_label(values: Tensor) -> Tensor:
    """(N,), the label with the largest value of each row, the lower index on ties."""
    return values.argmax(1) if values.shape[1] else values.new_full((len(values),), -1, dtype=torch.int64)


def _regions(sweeps: list[Sweep], values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The ends of each region, and its middle in the type of the values, so that comparing is exact; all in float64.

    Without a region the middle is infinity.
    """
    low, high = values.new_tensor([best[1:] for best in sweeps]).reshape(-1, 2).unbind(1)
    middle = strict_midpoint(low, high).nan_to_num(torch.inf, torch.inf, -torch.inf)
    return low.double(), high.double(), middle.double()


def _share_of_known_rows(count: int, targets: Tensor) -> Tensor:
    return count / (targets >= 0).any(1).sum().double()


class Sweep(NamedTuple):
    """The region of thresholds at which the most rows are right.

    Attributes:
        count: How many rows match there.
        low: Where the region begins; NaN if no row can be right.
        high: Where it ends, itself excluded; NaN if no row can match.
    """

    count: int  # type: ignore[assignment]
    low: float
    high: float


def row_intervals(values: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The thresholds t at which a row is an exact match when labels with a value strictly above t are predicted.

    They are [largest absent value, smallest present value): open to infinity for a row without labels, and from minus
    infinity for a row with all of them. A row that ranks an absent label as high as a present one has an empty
    interval, and so has, by convention, a row without a known cell.

    Args:
        values: (N, K), scores or probabilities.
        targets: (N, K): 1 present, 0 absent, -1 unknown.

    Returns:
        Lower ends (N,), included, and upper ends (N,), excluded, in the type of the values.

    Example:
        >>> row_intervals(torch.tensor([[0.9, 0.2, 0.4], [0.1, 0.3, 0.2]]), torch.tensor([[1, 0, -1], [0, 0, 0]]))
        (tensor([0.2000, 0.3000]), tensor([0.9000,    inf]))
    """
    lows = values.new_full((len(values),), torch.inf)
    highs = -lows
    for rows in row_blocks(values.shape) if values.shape[1] else ():
        known = (targets[rows] >= 0).any(1)
        low = torch.where(targets[rows] == 0, values[rows], -torch.inf).amax(1)
        high = torch.where(targets[rows] == 1, values[rows], torch.inf).amin(1)
        lows[rows], highs[rows] = torch.where(known, low, torch.inf), torch.where(known, high, -torch.inf)
    return lows, highs


def sweep(lows: Tensor, highs: Tensor) -> Sweep:
    """The threshold that lies in the most of the intervals [low, high); of several regions the smallest.

    Args:
        lows: (N,), the lower ends, included.
        highs: (N,), the upper ends, excluded.

    Example:
        >>> sweep(torch.tensor([0.2, 0.3, 0.6]), torch.tensor([0.9, 0.5, 0.7]))
        Sweep(count=2, low=0.30000001192092896, high=0.5)
    """
    # Empty intervals hold no threshold, and would end before they begin.
    proper = lows < highs
    lows, highs = lows[proper].sort().values, highs[proper].sort().values
    if len(lows) == 0:
        return Sweep(0, math.nan, math.nan)
    # The count rises at lower ends only, so one of them is the best. `right` counts the ends at a value itself: those
    # that begin there are open, those that end there are not.
    open_ = torch.searchsorted(lows, lows, right=True) - torch.searchsorted(highs, lows, right=True)
    best = int(open_.argmax())
    first = int(torch.searchsorted(highs, lows[best], right=True))
    return Sweep(int(open_[best]), float(lows[best]), float(highs[first]))


def sweep_groups(lows: Tensor, highs: Tensor, groups: Tensor, num_groups: int) -> list[Sweep]:
    """The sweep over the rows of each group by itself.

    Args:
        lows: (N,), the lower ends, included.
        highs: (N,), the upper ends, excluded.
        groups: (N,), the group of each row: its label, for the accuracy with a threshold for each class. Rows with a
            negative number belong to none.
        num_groups: How many groups there are; one without rows has the count 0.

    Example:
        >>> lows, highs = torch.tensor([0.2, 0.3, 0.6]), torch.tensor([0.9, 0.5, 0.7])
        >>> [best.count for best in sweep_groups(lows, highs, torch.tensor([1, 1, 0]), 3)]
        [1, 2, 0]
    """
    member = groups >= 0
    groups, order = groups[member].sort()
    sizes = torch.bincount(groups, minlength=num_groups).tolist()
    parts = zip(lows[member][order].split(sizes), highs[member][order].split(sizes), strict=True)
    return [sweep(*part) for part in parts]
