"""Decision methods of the studio, and what each of them does to a collection."""

from __future__ import annotations

import math
import threading
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyhot.decide import AverageK, ConformalRiskControl, Decision, Rule, Threshold
from manyhot.errors import InputError
from manyhot.evaluation.result import too_small
from manyhot.predictions import Predictions
from manyhot.studio.schemas import DecisionKind, DecisionMethod, DecisionSummary, ObservedQuality, Quality

OWNER = "studio"
# Rules that were fitted for the positions of a slider.
MAX_CACHED_RULES = 256
MAX_SET_SIZE = 30
# Summaries that are computed at once: each needs some tables of all cells.
MAX_CONCURRENT_SUMMARIES = 2
NEEDS_TARGETS = "It needs pictures with true labels that the model was not trained on, best of a split called 'val'."


class DecisionChoice(NamedTuple):
    """How labels are to be decided; without `by` as the collection does by itself."""

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
        """The ways that there are, the default first."""
        methods = []
        if self.table.decisions is not None:
            rule = repr(self.table.rule) if self.table.rule is not None else "As the table says."
            methods.append(DecisionMethod(by="rule", title="Rule of the run", words=rule))
        labels = len(self.table.labels)
        size = min(max(round(self.mean_size, 1), 0.1), float(labels))
        methods.append(
            DecisionMethod(
                by="size",
                title="Labels a picture, on average",
                words="More where a picture is ambiguous, fewer where it is plain.",
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

    def settled(self, choice: DecisionChoice) -> DecisionChoice:
        """The choice with everything that was left open filled in, or the error that says what cannot be chosen."""
        methods = {method.by: method for method in self.methods}
        by: DecisionKind = choice.by or self.methods[0].by
        if by not in methods:
            raise InputError(
                "by", OWNER, f"be one of {', '.join(methods)}", by, "The table has no decisions of its own."
            )
        if methods[by].why is not None:
            raise InputError("by", OWNER, "be a way that can be chosen", by, methods[by].why or "")
        if by == "rule":
            return DecisionChoice(by)
        value = methods[by].value if choice.value is None else choice.value
        assert value is not None
        return DecisionChoice(by, value)

    def decision(self, choice: DecisionChoice, rows: Tensor | None = None) -> Decision:
        """What is decided about some rows, or about all."""
        choice = self.settled(choice)
        if choice.by == "rule":
            assert self.table.decisions is not None
            predicted, abstain = self.table.decisions, self.table.abstain
            if abstain is None:
                abstain = torch.zeros(len(predicted), dtype=torch.bool)
            return Decision(predicted, abstain) if rows is None else Decision(predicted[rows], abstain[rows])
        result: Decision = self.rule(choice)(self.values if rows is None else self.values[rows])
        return result

    def rule(self, choice: DecisionChoice) -> Rule:
        """The rule of a settled choice, fitted; that of the run where its own was chosen and is known."""
        if choice.by == "rule":
            if self.table.rule is None:
                got = "decisions that came without their rule"
                raise InputError("by", OWNER, "be a way that is known", got, "Choose a size or a threshold.")
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
            # On the very rows that are shown, so that what the slider says is what there is.
            return AverageK(choice.value).fit(self.values)
        assert self._held_out is not None
        assert self.table.targets is not None
        return ConformalRiskControl(choice.value).fit(self.values[self._held_out], self.table.targets[self._held_out])

    def summary(
        self, choice: DecisionChoice, rows: Tensor | None = None, *, judged: Tensor | None = None
    ) -> DecisionSummary:
        """What a choice does to some rows, or to all; rows that are left to a person are not judged.

        Args:
            choice: How labels are decided.
            rows: The rows whose sets are counted, all by default.
            judged: The rows that precision and recall are of, `rows` by default.
        """
        with self._turns:
            return self._summary(self.settled(choice), rows, rows if judged is None else judged)

    def _summary(self, choice: DecisionChoice, rows: Tensor | None, judged: Tensor | None) -> DecisionSummary:
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
            **self._quality(judged, decision if judged is rows else self.decision(choice, judged)),
            promise=self._guarantee(rule),
            sizes=torch.bincount(sizes.clamp(max=MAX_SET_SIZE), minlength=1).tolist(),
            more=bool((sizes > MAX_SET_SIZE).any()),
        )

    def _quality(self, rows: Tensor | None, decision: Decision) -> dict[str, Any]:
        """What is expected and what is observed, both of the same cells where some are known."""
        answered = ~decision.abstain
        probs = (self.probs if rows is None else self.probs[rows])[answered]
        labels, targets = decision.labels[answered], self.table.targets
        if targets is None:
            return {"expected": _expected(probs, labels), "observed": None}
        targets = targets if rows is None else targets[rows]
        small, known = too_few_rows(targets), targets[answered]
        if small is not None or not bool((known >= 0).any()):
            return {"expected": _expected(probs, labels), "observed": None, "too_small": small}
        judged = known >= 0
        return {"expected": _expected(probs * judged, labels & judged), "observed": _observed(known, labels)}

    def _guarantee(self, rule: Rule | None) -> str | None:
        if not isinstance(rule, ConformalRiskControl):
            return None
        if not bool(rule.reached):
            return "There are too few pictures with true labels for this promise, so everything is given."
        assert self._held_out is not None
        text = f"On average over pictures like these, at most {100 * rule.alpha:.0f} % of a picture's labels are missed"
        return f"{text}; learnt from {len(self._held_out):,} pictures with labels."

    def _description(self, threshold: float | None) -> str:
        if threshold is None:
            return f"Decided by {self.table.rule!r}." if self.table.rule is not None else "Decided as the table says."
        if threshold > 1 and math.isfinite(threshold):
            return "Labels whose scores go furthest beyond 100 % are given."
        if math.isfinite(threshold):
            shown = f"{100 * threshold:.0f}" if 0.01 <= threshold <= 0.99 else f"{100 * threshold:.2g}"
            return f"Labels of at least {shown} % are given."
        return "Nothing is given." if threshold > 0 else "Everything is given."


def _held_out_rows(table: Predictions) -> Tensor | None:
    """The rows that a promise may be learnt from: those of "val", or all where none is called "val" or "train"."""
    if table.targets is None:
        return None
    known, splits = (table.targets == 1).any(1), table.splits or []
    if "val" in splits:
        known = known & torch.tensor([split == "val" for split in splits], dtype=torch.bool)
    elif "train" in splits:
        return None
    return known.nonzero().squeeze(1) if bool(known.any()) else None


def too_few_rows(targets: Tensor) -> str | None:
    """Why rows of targets (N, K) are too few to judge by, in a sentence; None where there are enough."""
    unknown = int((targets < 0).all(1).sum())
    return too_small({"rows": len(targets), "rows without known cells": unknown})


def _expected(probs: Tensor, labels: Tensor) -> Quality:
    """What precision and recall are to be expected, if the probabilities can be trusted."""
    correct = float(probs[labels].sum(dtype=torch.float64))
    return _precision_recall(correct, float(labels.sum()), float(probs.sum(dtype=torch.float64)))


def _observed(targets: Tensor, labels: Tensor) -> ObservedQuality:
    """What they are on known cells; there is no precision where nothing is known to be absent."""
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
