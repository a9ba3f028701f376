"""Decision methods of the studio, and a summary of their decisions for a collection."""

from __future__ import annotations

import math
import threading
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyhot.decide import AverageK, ConformalRiskControl, Decision, Rule, Threshold
from manyhot.errors import InputError, owned
from manyhot.evaluation.result import too_small
from manyhot.formatting import format_prob
from manyhot.predictions import Predictions
from manyhot.studio.schemas import DecisionKind, DecisionMethod, DecisionSummary, ObservedQuality, Quality

# Fitted rules in the cache, one per position of a slider.
MAX_CACHED_RULES = 256
MAX_SET_SIZE = 30
# Summaries that are computed at once: each needs some tables of all cells.
MAX_CONCURRENT_SUMMARIES = 2
NEEDS_TARGETS = (
    "It needs images with true labels that the model was not trained on, preferably in a split called 'val'."
)


class DecisionChoice(NamedTuple):
    """A decision method; without `by` the default of the collection."""

    by: DecisionKind | None = None
    value: float | None = None


class DecisionExplorer:
    """Decides about rows of a table by the rule of the run, a mean size, a threshold, or a bounded risk.

    Args:
        table: With probabilities.

    Example:
        >>> table = mh.Predictions(probs=[[0.9, 0.6, 0.1], [0.8, 0.3, 0.2]], labels=["cat", "dog", "bird"])
        >>> deciding = DecisionExplorer(table)
        >>> deciding.decision(DecisionChoice("size", 1.5)).sizes
        tensor([2, 1])
        >>> round(deciding.summary(DecisionChoice("threshold", 0.5)).expected.precision, 3)
        0.767
    """

    def __init__(self, table: Predictions) -> None:
        self.table = table
        self.probs, self.values = table.probabilities(), table.rule_values()
        self.mean_size = float(self.probs.sum()) / max(len(table), 1)
        self._rules: dict[DecisionChoice, Rule] = {}
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(MAX_CONCURRENT_SUMMARIES)
        self._held_out = _held_out_rows(table)

    @cached_property
    def methods(self) -> list[DecisionMethod]:
        """The available decision methods, the default first."""
        methods = []
        if self.table.decisions is not None:
            rule = repr(self.table.rule) if self.table.rule is not None else "As the table says."
            methods.append(DecisionMethod(by="rule", title="Rule of the run", words=rule))
        labels = len(self.table.labels)
        size = min(max(round(self.mean_size, 1), 0.1), float(labels))
        methods.append(
            DecisionMethod(
                by="size",
                title="Labels per image, on average",
                words="More for ambiguous images, fewer for clear ones.",
                low=0.0,
                high=float(min(labels, max(MAX_SET_SIZE, math.ceil(2 * size)))),
                step=0.1,
                value=size,
            )
        )
        description = "Labels of at least this probability."
        methods.append(
            DecisionMethod(
                by="threshold", title="Threshold", words=description, low=0.01, high=0.99, step=0.01, value=0.5
            )
        )
        methods.append(
            DecisionMethod(
                by="risk",
                title="Labels missed, at most",
                words="As few labels as keep misses this rare.",
                low=0.01,
                high=0.5,
                step=0.01,
                value=0.1,
                why=None if self._held_out is not None else NEEDS_TARGETS,
            )
        )
        return methods

    @owned("studio")
    def settled(self, choice: DecisionChoice) -> DecisionChoice:
        """The choice with defaults filled in; raises if it is not available."""
        methods = {method.by: method for method in self.methods}
        by: DecisionKind = choice.by or self.methods[0].by
        if by not in methods:
            rule, hint = f"be one of {', '.join(methods)}", "The table has no decisions of its own."
            raise InputError("by", rule=rule, got=by, hint=hint)
        if methods[by].why is not None:
            raise InputError("by", rule="be an available decision method", got=by, hint=methods[by].why or "")
        if by == "rule":
            return DecisionChoice(by)
        value = methods[by].value if choice.value is None else choice.value
        assert value is not None
        return DecisionChoice(by, value)

    def decision(self, choice: DecisionChoice, rows: Tensor | None = None) -> Decision:
        """The decisions for some rows, or for all."""
        choice = self.settled(choice)
        if choice.by == "rule":
            assert self.table.decisions is not None
            predicted, abstain = self.table.decisions, self.table.abstain
            if abstain is None:
                abstain = torch.zeros(len(predicted), dtype=torch.bool)
            return Decision(predicted, abstain) if rows is None else Decision(predicted[rows], abstain[rows])
        result: Decision = self.rule(choice)(self.values if rows is None else self.values[rows])
        return result

    @owned("studio")
    def rule(self, choice: DecisionChoice) -> Rule:
        """The fitted rule of a settled choice; that of the run for "rule"."""
        if choice.by == "rule":
            if self.table.rule is None:
                rule, got = "be a known decision method", "decisions that came without their rule"
                raise InputError("by", rule=rule, got=got, hint="Choose a size or a threshold.")
            return self.table.rule
        with self._lock:
            if choice not in self._rules:
                if len(self._rules) >= MAX_CACHED_RULES:
                    self._rules.clear()
                self._rules[choice] = self._fitted(choice)
            return self._rules[choice]

    def _fitted(self, choice: DecisionChoice) -> Rule:
        assert choice.value is not None
        if choice.by == "threshold":
            return Threshold(choice.value)
        if choice.by == "size":
            # On the displayed rows, so that the mean size is exactly that of the slider.
            return AverageK(choice.value).fit(self.values)
        assert self._held_out is not None
        assert self.table.targets is not None
        return ConformalRiskControl(choice.value).fit(self.values[self._held_out], self.table.targets[self._held_out])

    def summary(
        self, choice: DecisionChoice, rows: Tensor | None = None, *, evaluated: Tensor | None = None
    ) -> DecisionSummary:
        """A summary of the decisions for some rows, or for all; abstained rows are not evaluated.

        Args:
            choice: The decision method.
            rows: The rows whose sets are counted, all by default.
            evaluated: The rows for precision and recall, `rows` by default.
        """
        with self._turns:
            return self._summary(self.settled(choice), rows, rows if evaluated is None else evaluated)

    def _summary(self, choice: DecisionChoice, rows: Tensor | None, evaluated: Tensor | None) -> DecisionSummary:
        decision = self.decision(choice, rows)
        answered, count = ~decision.abstain, max(len(decision.abstain), 1)
        sizes = decision.sizes[answered]
        rule = None if choice.by == "rule" else self.rule(choice)
        threshold = None if rule is None else float(rule.threshold)  # type: ignore[arg-type]
        assert choice.by is not None
        return DecisionSummary(
            by=choice.by,
            value=choice.value,
            threshold=threshold if threshold is not None and math.isfinite(threshold) else None,
            words=self._description(threshold),
            mean_size=float(sizes.sum()) / max(len(sizes), 1),
            none_share=int((sizes == 0).sum()) / count,
            ask_share=int(decision.abstain.sum()) / count,
            **self._quality(evaluated, decision if evaluated is rows else self.decision(choice, evaluated)),
            promise=self._guarantee(rule),
            sizes=torch.bincount(sizes.clamp(max=MAX_SET_SIZE), minlength=1).tolist(),
            more=bool((sizes > MAX_SET_SIZE).any()),
        )

    def _quality(self, rows: Tensor | None, decision: Decision) -> dict[str, Any]:
        """Expected and observed quality, both over the known cells if there are any."""
        answered = ~decision.abstain
        probs = (self.probs if rows is None else self.probs[rows])[answered]
        labels, targets = decision.labels[answered], self.table.targets
        if targets is None:
            return {"expected": _expected(probs, labels), "observed": None}
        targets = targets if rows is None else targets[rows]
        small, known = too_few_rows(targets), targets[answered]
        if small is not None or not bool((known >= 0).any()):
            return {"expected": _expected(probs, labels), "observed": None, "too_small": small}
        is_known = known >= 0
        return {"expected": _expected(probs * is_known, labels & is_known), "observed": _observed(known, labels)}

    def _guarantee(self, rule: Rule | None) -> str | None:
        if not isinstance(rule, ConformalRiskControl):
            return None
        if not bool(rule.reached):
            return "There are too few images with true labels for this guarantee, so all labels are predicted."
        assert self._held_out is not None
        text = (
            f"On average over images like these, at most {100 * rule.alpha:.0f} % of the labels of an image are missed"
        )
        return f"{text}; fitted on {len(self._held_out):,} images with labels."

    def _description(self, threshold: float | None) -> str:
        if threshold is None:
            return f"Decided by {self.table.rule!r}." if self.table.rule is not None else "Decided as the table says."
        if threshold > 1 and math.isfinite(threshold):
            return "The labels whose scores exceed 100 % the most are predicted."
        if math.isfinite(threshold):
            return f"Labels of at least {format_prob(threshold)} are predicted."
        return "No labels are predicted." if threshold > 0 else "All labels are predicted."


def _held_out_rows(table: Predictions) -> Tensor | None:
    """Rows to fit `ConformalRiskControl` on: those of "val", or all if no split is called "val" or "train"."""
    if table.targets is None:
        return None
    known, splits = (table.targets == 1).any(1), table.splits or []
    if "val" in splits:
        known = known & torch.tensor([split == "val" for split in splits], dtype=torch.bool)
    elif "train" in splits:
        return None
    return known.nonzero().squeeze(1) if bool(known.any()) else None


def too_few_rows(targets: Tensor) -> str | None:
    """Why targets (N, K) have too few rows to evaluate, as a message; None if there are enough."""
    unknown = int((targets < 0).all(1).sum())
    return too_small({"rows": len(targets), "rows without known cells": unknown})


def _expected(probs: Tensor, labels: Tensor) -> Quality:
    """The expected precision and recall, if the probabilities are calibrated."""
    correct = float(probs[labels].sum(dtype=torch.float64))
    return _precision_recall(correct, float(labels.sum()), float(probs.sum(dtype=torch.float64)))


def _observed(targets: Tensor, labels: Tensor) -> ObservedQuality:
    """Precision and recall on known cells; no precision if no cell is known to be absent."""
    correct = int((labels & (targets == 1)).sum())
    result = _precision_recall(correct, int((labels & (targets >= 0)).sum()), int((targets == 1).sum()))
    if not bool((targets == 0).any()):
        result = Quality(precision=None, recall=result.recall, f=None)
    return ObservedQuality(**result.model_dump(), rows=int((targets >= 0).any(1).sum()))


def _precision_recall(correct: float, predicted: float, actual: float) -> Quality:
    return Quality(
        precision=correct / predicted if predicted else None,
        recall=correct / actual if actual else None,
        f=2 * correct / (predicted + actual) if predicted + actual else None,
    )
