"""The contract of a rule, and the decision that it gives."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.cells import as_probs, as_scores, as_targets
from manyhot.refusal import refusal
from manyhot.state import Fitted


@dataclass(frozen=True)
class Decision:
    """What is answered for each sample.

    Attributes:
        labels: (N, K) bool, the labels that are given. A row without any says "none of these".
        abstain: (N,) bool, true where no answer is given and a person should look.
    """

    labels: Tensor
    abstain: Tensor

    @property
    def sizes(self) -> Tensor:
        """(N,), the number of labels given to each sample."""
        return self.labels.sum(1)


class Rule(Fitted):
    """Turns probabilities into decisions: fitted on held-out data, saved and applied like a calibrator.

    Attributes:
        needs_probs: Whether the rule computes with probabilities, so that scores are refused. Other rules only compare,
            and take scores as well as probabilities, as long as they are applied to what they were fitted on.
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
        """Learns from held-out values and targets, both (N, K); there is nothing to learn unless a subclass does."""
        self.check_values(values)
        return self

    @abstractmethod
    def decide(self, values: Tensor) -> Tensor | Decision:
        """Labels (N, K) of checked values, or a whole decision."""

    def forward(self, values: Any) -> Decision:
        """The decision for each row of probabilities (N, K), or of scores where those were fitted."""
        self.require_fitted()
        checked = self.check_values(values)
        with torch.no_grad():
            labels = self.decide(checked)
        if isinstance(labels, Decision):
            return labels
        return Decision(labels, torch.zeros(len(labels), dtype=torch.bool, device=labels.device))

    def check_values(self, values: Any) -> Tensor:
        """The values as numbers to compute with, or the error that says what is wrong with them."""
        owner = type(self).__name__
        return as_probs(owner, values) if self.needs_probs else as_scores(owner, values, name="values")

    def check_targets(self, targets: Any, values: Tensor) -> Tensor:
        """The targets (N, K) of checked values as int8, or the error that says what is wrong with them."""
        owner = type(self).__name__
        if targets is None:
            remedy = "Call `fit(values, targets)` with held-out data."
            raise refusal("targets", owner, "be given, because they are what it learns from", "none", remedy)
        return as_targets(owner, targets, values, of="probs" if self.needs_probs else "values")

    def __repr__(self) -> str:
        """The call that makes such a rule, without what is left at its default."""
        shown = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name, parameter.default)
            value = value.tolist() if isinstance(value, Tensor) else value
            if parameter.kind is not parameter.KEYWORD_ONLY:
                shown.append(_readable(value))
            elif value != parameter.default:
                shown.append(f"{name}={_readable(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _readable(value: object) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_readable(item) for item in value) + "]"
    return f"{value:g}" if isinstance(value, float) else repr(value)
