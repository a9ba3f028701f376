"""The base class of decision rules, the decision, and thresholds between neighbouring values."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import as_probs, as_scores, as_targets
from manyhot.errors import InputError
from manyhot.labels import UNKNOWN
from manyhot.links import Link
from manyhot.numerics import break_ties
from manyhot.serialization import Fitted, stable_repr


@dataclass(frozen=True)
class Decision:
    """The predicted labels of each sample, and where the rule abstains.

    Attributes:
        labels: (N, K) bool, the predicted labels. A row without any means "none of these".
        abstain: (N,) bool, true where the rule abstains, so that the sample needs manual review.
    """

    labels: Tensor
    abstain: Tensor

    @property
    def sizes(self) -> Tensor:
        """(N,), the number of labels predicted for each sample."""
        return self.labels.sum(1)

    def __getitem__(self, rows: Any) -> Decision:
        return Decision(self.labels[rows], self.abstain[rows])


@dataclass(frozen=True, eq=False)
class Unclipped:
    """Probabilities before they are clipped to 1, which a rule takes in their place so that none of them tie there.

    Rules that only compare use the values themselves; rules that compute with probabilities take `probs`. Fit and
    apply a rule on the same kind of values: a threshold may lie above 1.

    Attributes:
        values: (N, K), above 1 where a probability is clipped.

    Example:
        >>> probs, values = torch.tensor([[1.0, 1.0]]), torch.tensor([[1.2, 1.7]])
        >>> mh.TopK(1)(probs).labels, mh.TopK(1)(Unclipped(values)).labels
        (tensor([[ True, False]]), tensor([[False,  True]]))
    """

    values: Tensor

    @property
    def probs(self) -> Tensor:
        """(N, K), at most 1."""
        return self.values.clamp(max=1)

    def __getitem__(self, rows: Any) -> Unclipped:
        return Unclipped(self.values[rows])


def rule_values(probs: Tensor, scores: Tensor | None, link: Link | None) -> Tensor | Unclipped:
    """The input of rules: probabilities, before clipping to 1 where the link of their scores clips.

    Args:
        probs: (N, K).
        scores: (N, K), from which they were computed, where known.
        link: What the scores mean, where known.
    """
    if scores is None or link is None or not link.clips:
        return probs
    return Unclipped(break_ties(probs, scores.detach()))


class Rule(Fitted):
    """Turns probabilities into decisions: fitted on held-out data, saved and applied like a calibrator.

    Attributes:
        needs_probs: Whether the rule computes with probabilities, so that scores are rejected. Other rules only compare
            values, and take scores as well as probabilities if they were fitted on the same.
        needs_targets: Whether `fit` learns from targets.

    Example:
        >>> class Nothing(Rule):
        ...     def decide(self, values):
        ...         return torch.zeros_like(values, dtype=torch.bool)
        >>> Nothing(fitted=True)(torch.tensor([[0.9, 0.8]])).labels
        tensor([[False, False]])
    """

    needs_probs: bool = False
    needs_targets: bool = False

    def fit(self, values: Any, targets: Any = None) -> Self:
        """Learns from held-out values (N, K), and from targets (N, K) if it needs them; unknown cells are left out."""
        checked = self.check_values(values)
        unknown = checked.new_tensor(UNKNOWN, dtype=torch.int8).expand(checked.shape)
        return self.fit_cells(checked, self.check_targets(targets, checked) if self.needs_targets else unknown)

    def fit_cells(self, values: Tensor, targets: Tensor) -> Self:
        """Learns from checked values and targets (int8), both (N, K); there is nothing to learn unless a subclass does.

        Targets are unknown for a rule that does not need them.
        """
        return self

    @abstractmethod
    def decide(self, values: Tensor) -> Tensor | Decision:
        """Labels (N, K) of checked values, or a whole decision."""

    if TYPE_CHECKING:  # torch's own `__call__` has no types

        def __call__(self, values: Any) -> Decision: ...  # noqa: D102

    def forward(self, values: Any) -> Decision:
        """The decision for each row of probabilities (N, K), or of scores where those were fitted."""
        self.require_fitted()
        checked = self.check_values(values)
        with torch.no_grad():
            labels = self.decide(checked)
        if isinstance(labels, Decision):
            return labels
        return Decision(labels, labels.new_zeros(labels.shape[0], dtype=torch.bool))

    def check_values(self, values: Any) -> Tensor:
        """The values as a floating-point tensor; raises an error if they are invalid."""
        owner = type(self).__name__
        if isinstance(values, Unclipped):
            values = values.probs if self.needs_probs else values.values
        if torch.compiler.is_exporting() and isinstance(values, Tensor):  # a graph reads no values
            return values
        return as_probs(owner, values) if self.needs_probs else as_scores(owner, values, name="values")

    def check_targets(self, targets: Any, values: Tensor) -> Tensor:
        """The targets (N, K) of checked values as int8; raises an error if they are invalid."""
        owner = type(self).__name__
        if targets is None:
            hint = "Call `fit(values, targets)` with held-out data."
            raise InputError("targets", owner, "be given, because they are what it learns from", "none", hint)
        return as_targets(owner, targets, values, of="probs" if self.needs_probs else "values")

    def __repr__(self) -> str:
        """The call that makes such a rule, without arguments that have their default."""
        shown = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name, parameter.default)
            if parameter.kind is not parameter.KEYWORD_ONLY:
                shown.append(stable_repr(value))
            elif value != parameter.default:
                shown.append(f"{name}={stable_repr(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def midpoint(low: Any, high: Any) -> Any:
    """The threshold halfway between two NumPy numbers, which `high` reaches and `low` does not.

    Where halfway is no number, or rounds to `low`, it is `high` itself; below infinity it is the largest number, since
    no value reaches an infinite threshold. Computed in the type of the values, so that comparing them with it is exact.
    """
    middle = np.finfo(high.dtype).max if high == np.inf else low / 2 + high / 2
    return middle if middle > low else high


def strict_midpoint(low: Tensor, high: Tensor) -> Tensor:
    """As `midpoint` for values strictly above the threshold: where there is no middle, it is `low` itself."""
    middle = low / 2 + high / 2
    return torch.where(middle < high, middle, low)


def reaches_threshold(values: Tensor, thresholds: Tensor) -> Tensor:
    """Whether values (N, K) reach thresholds; no value reaches an infinite one, not even an infinite value."""
    return values >= thresholds.masked_fill(thresholds == torch.inf, torch.nan).to(values)
