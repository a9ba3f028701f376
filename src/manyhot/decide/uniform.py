"""One threshold at which the most rows are wholly right, for all of them or for the rows of each class."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from manyhot.cells import check_columns
from manyhot.decide.cuts import midway_strict
from manyhot.decide.rule import Rule
from manyhot.decide.sweep import Sweep, row_intervals, sweep, sweep_groups


class UniformThreshold(Rule):
    """Gives each label whose value is strictly above the one threshold that makes the most rows wholly right.

    For open-set decisions: one number that separates what is present from what is absent in all samples, and rejects a
    sample of which no value exceeds it. A held-out row is right at a threshold t if every present value is above t and
    no absent one is, so if t lies in [largest absent value, smallest present value). The rule takes the t that lies in
    the most of these intervals, exactly, and of the region of such t the middle.

    A row without labels is right from its largest value on; it is an example of what must be rejected. A value equal
    to the threshold is not given, unlike in `Threshold`, because an absent value may be as large as the threshold.
    If no row can be right, nothing is ever given.

    Attributes:
        threshold: What a value must exceed: the middle of the region, or its lower end if that has none.
        low: Where the region of equally good thresholds begins; NaN if no row can be right.
        high: Where it ends, itself excluded; NaN if no row can be right.
        accuracy: The share of held-out rows that are wholly right, of those with a known cell; NaN without any.

    Reference: Li, Jia, Zhou, Shen and Duan, Rediscovering BCE Loss for Uniform Classification, for rows of one label;
        their text rejects values below the threshold only, which contradicts their definition.

    Example:
        >>> values = torch.tensor([[2.0, -1.0], [0.5, 0.0], [-0.5, 3.0], [0.1, 0.3]])
        >>> rule = UniformThreshold().fit(values, torch.tensor([[1, 0], [1, 0], [0, 1], [0, 0]]))
        >>> float(rule.low), float(rule.high), float(rule.accuracy)
        (0.30000001192092896, 0.5, 1.0)
    """

    threshold: Tensor
    low: Tensor
    high: Tensor
    accuracy: Tensor
    needs_targets = True

    def __init__(self) -> None:
        super().__init__()
        for name in ("threshold", "low", "high", "accuracy"):
            self.register_buffer(name, torch.tensor(torch.nan, dtype=torch.float64))

    def fit(self, values: Any, targets: Any = None) -> Self:
        """Finds the threshold on held-out values and targets, both (N, K); unknown cells are left out."""
        checked = self.check_values(values)
        known = self.check_targets(targets, checked)
        best = sweep(*row_intervals(checked, known))
        numbers = [_middle([best], checked)[0], best.low, best.high, _share(best.count, known)]
        threshold, low, high, accuracy = checked.new_tensor(numbers, dtype=torch.float64)
        return self.learn(threshold=threshold, low=low, high=high, accuracy=accuracy)

    def decide(self, values: Tensor) -> Tensor:
        """Labels with a value above the threshold."""
        return values > self.threshold.to(values)


class ClassThresholds(Rule):
    """Cuts each row at the threshold of its top label: for classes whose values lie differently as a whole.

    Every label has a threshold. The one of the label with the largest value of a row, the lower index on ties, decides
    about all labels of that row: those with a value strictly above it are given. Each threshold is the one that makes
    the most held-out rows with this top label wholly right, as in `UniformThreshold`; a label that is on top of no such
    row gets the threshold that is best for all rows. For rows of one label, the share that is right is the class-wise
    uniform accuracy of the paper.

    To tune a threshold for each label by itself, whatever the other labels of a row, take `LabelThresholds`.

    Attributes:
        thresholds: (K,), what values must exceed in rows that the label leads.
        low: (K,), where the region of equally good thresholds begins; NaN where no row of this top label can be right.
        high: (K,), where it ends, itself excluded.
        accuracy: The share of held-out rows that are wholly right, of those with a known cell; NaN without any.

    Reference: Li, Jia, Zhou, Shen and Duan, Rediscovering BCE Loss for Uniform Classification, section III-D.

    Example:
        >>> values = torch.tensor([[2.0, 1.0], [3.0, 0.0], [-2.0, -1.0], [-3.0, -1.5]])
        >>> rule = ClassThresholds().fit(values, torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]]))
        >>> rule.thresholds
        tensor([ 1.5000, -1.7500], dtype=torch.float64)
        >>> rule(torch.tensor([[1.7, 0.2]])).labels
        tensor([[ True, False]])
    """

    thresholds: Tensor
    low: Tensor
    high: Tensor
    accuracy: Tensor
    needs_targets = True

    def __init__(self) -> None:
        super().__init__()
        for name in ("thresholds", "low", "high"):
            self.register_buffer(name, torch.empty(0, dtype=torch.float64))
        self.register_buffer("accuracy", torch.tensor(torch.nan, dtype=torch.float64))

    def fit(self, values: Any, targets: Any = None) -> Self:
        """Finds the thresholds on held-out values and targets, both (N, K); unknown cells are left out."""
        checked = self.check_values(values)
        known = self.check_targets(targets, checked)
        labels = checked.shape[1]
        lows, highs = row_intervals(checked, known)
        found = sweep_groups(lows, highs, _top(checked), labels)
        (common,) = _middle([sweep(lows, highs)], checked)
        thresholds = [own if best.count else common for best, own in zip(found, _middle(found, checked), strict=True)]

        def buffer(numbers: list[float]) -> Tensor:
            return torch.tensor(numbers, dtype=torch.float64, device=checked.device)

        return self.learn(
            thresholds=buffer(thresholds),
            low=buffer([best.low for best in found]),
            high=buffer([best.high for best in found]),
            accuracy=checked.new_tensor(_share(sum(best.count for best in found), known), dtype=torch.float64),
        )

    def decide(self, values: Tensor) -> Tensor:
        """Labels with a value above the threshold of the top label of their row."""
        check_columns("ClassThresholds", values, len(self.thresholds))
        if values.shape[1] == 0:
            return torch.zeros_like(values, dtype=torch.bool)
        return values > self.thresholds.to(values)[_top(values)].unsqueeze(1)


def _top(values: Tensor) -> Tensor:
    """(N,), the label with the largest value of each row, the lower index on ties."""
    if values.shape[1] == 0:
        return torch.full((len(values),), -1, device=values.device)
    return values.argmax(1)


def _middle(found: list[Sweep], values: Tensor) -> list[float]:
    """The middle of each region in the type of the values, so that comparing is exact; infinity without a region."""
    low, high = (values.new_tensor([getattr(best, end) for best in found]) for end in ("low", "high"))
    return midway_strict(low, high).nan_to_num(torch.inf, torch.inf, -torch.inf).tolist()


def _share(count: int, targets: Tensor) -> float:
    rows = int((targets >= 0).any(1).sum())
    return count / rows if rows else float("nan")
