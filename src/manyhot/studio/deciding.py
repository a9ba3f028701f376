"""Ways to decide which labels are given, and what each of them does to a collection."""

from __future__ import annotations

import math
import threading
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyhot.decide import AverageK, Decision, RiskControl, Rule, Threshold
from manyhot.evaluation.result import too_small
from manyhot.predictions import Predictions
from manyhot.refusal import refusal
from manyhot.studio.messages import By, Decided, Observed, Quality, Way

OWNER = "studio"
# Rules that were fitted for the positions of a slider.
KEPT_RULES = 256
LARGEST_SIZE = 30
# Summaries that are computed at once: each needs some tables of all cells.
SUMMARIES = 2
NEEDS_TARGETS = "It needs pictures with true labels that the model was not trained on, best of a split called 'val'."


class Choice(NamedTuple):
    """How labels are to be decided; without `by` as the collection does by itself."""

    by: By | None = None
    value: float | None = None


class Deciding:
    """Decides about rows of a table by the rule of the run, a mean size, a threshold, or a bounded risk.

    Args:
        table: With probabilities.

    Example:
        >>> table = mh.Predictions(probs=[[0.9, 0.6, 0.1], [0.8, 0.3, 0.2]], labels=["cat", "dog", "bird"])
        >>> deciding = Deciding(table)
        >>> deciding.decision(Choice("size", 1.5)).sizes
        tensor([2, 1])
        >>> round(deciding.summary(Choice("threshold", 0.5)).expected.precision, 3)
        0.767
    """

    def __init__(self, table: Predictions) -> None:
        self.table = table
        self.probs, self.values = table.probabilities(), table.rule_values()
        self.mean_size = float(self.probs.sum()) / max(len(table), 1)
        self._rules: dict[Choice, Rule] = {}
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(SUMMARIES)
        self._held_out = _held_out_rows(table)

    @cached_property
    def ways(self) -> list[Way]:
        """The ways that there are, the default first."""
        ways = []
        if self.table.decisions is not None:
            rule = repr(self.table.rule) if self.table.rule is not None else "As the table says."
            ways.append(Way(by="rule", title="Rule of the run", words=rule))
        labels = len(self.table.labels)
        size = min(max(round(self.mean_size, 1), 0.1), float(labels))
        ways.append(
            Way(
                by="size",
                title="Labels a picture, on average",
                words="More where a picture is ambiguous, fewer where it is plain.",
                low=0.0,
                high=float(min(labels, max(LARGEST_SIZE, math.ceil(2 * size)))),
                step=0.1,
                value=size,
            )
        )
        words = "Labels of at least this probability."
        ways.append(Way(by="threshold", title="Threshold", words=words, low=0.01, high=0.99, step=0.01, value=0.5))
        ways.append(
            Way(
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
        return ways

    def settled(self, choice: Choice) -> Choice:
        """The choice with everything that was left open filled in, or the error that says what cannot be chosen."""
        ways = {way.by: way for way in self.ways}
        by: By = choice.by or self.ways[0].by
        if by not in ways:
            raise refusal("by", OWNER, f"be one of {', '.join(ways)}", by, "The table has no decisions of its own.")
        if ways[by].why is not None:
            raise refusal("by", OWNER, "be a way that can be chosen", by, ways[by].why or "")
        if by == "rule":
            return Choice(by)
        value = ways[by].value if choice.value is None else choice.value
        assert value is not None
        return Choice(by, value)

    def decision(self, choice: Choice, rows: Tensor | None = None) -> Decision:
        """What is decided about some rows, or about all."""
        choice = self.settled(choice)
        if choice.by == "rule":
            assert self.table.decisions is not None
            given, abstain = self.table.decisions, self.table.abstain
            if abstain is None:
                abstain = torch.zeros(len(given), dtype=torch.bool)
            return Decision(given, abstain) if rows is None else Decision(given[rows], abstain[rows])
        found: Decision = self.rule(choice)(self.values if rows is None else self.values[rows])
        return found

    def rule(self, choice: Choice) -> Rule:
        """The rule of a settled choice, fitted; that of the run where its own was chosen and is known."""
        if choice.by == "rule":
            if self.table.rule is None:
                got = "decisions that came without their rule"
                raise refusal("by", OWNER, "be a way that is known", got, "Choose a size or a threshold.")
            return self.table.rule
        with self._lock:
            if choice not in self._rules:
                if len(self._rules) >= KEPT_RULES:
                    self._rules.clear()
                self._rules[choice] = self._fitted(choice)
            return self._rules[choice]

    def _fitted(self, choice: Choice) -> Rule:
        assert choice.value is not None
        if choice.by == "threshold":
            return Threshold(choice.value)
        if choice.by == "size":
            # On the very rows that are shown, so that what the slider says is what there is.
            return AverageK(choice.value).fit(self.values)
        assert self._held_out is not None
        assert self.table.targets is not None
        return RiskControl(choice.value).fit(self.values[self._held_out], self.table.targets[self._held_out])

    def summary(self, choice: Choice, rows: Tensor | None = None, *, judged: Tensor | None = None) -> Decided:
        """What a choice does to some rows, or to all; rows that are left to a person are not judged.

        Args:
            choice: How labels are decided.
            rows: The rows whose sets are counted, all by default.
            judged: The rows that precision and recall are of, `rows` by default.
        """
        with self._turns:
            return self._summary(self.settled(choice), rows, rows if judged is None else judged)

    def _summary(self, choice: Choice, rows: Tensor | None, judged: Tensor | None) -> Decided:
        decision = self.decision(choice, rows)
        answered, count = ~decision.abstain, max(len(decision.abstain), 1)
        sizes = decision.sizes[answered]
        rule = None if choice.by == "rule" else self.rule(choice)
        threshold = None if rule is None else float(rule.threshold)  # type: ignore[arg-type]
        assert choice.by is not None
        return Decided(
            by=choice.by,
            value=choice.value,
            threshold=threshold if threshold is not None and math.isfinite(threshold) else None,
            words=self._words(threshold),
            mean_size=float(sizes.sum()) / max(len(sizes), 1),
            none_share=int((sizes == 0).sum()) / count,
            ask_share=int(decision.abstain.sum()) / count,
            **self._quality(judged, decision if judged is rows else self.decision(choice, judged)),
            promise=self._promise(rule),
            sizes=torch.bincount(sizes.clamp(max=LARGEST_SIZE), minlength=1).tolist(),
            more=bool((sizes > LARGEST_SIZE).any()),
        )

    def _quality(self, rows: Tensor | None, decision: Decision) -> dict[str, Any]:
        """What is expected and what is observed, both of the same cells where some are known."""
        answered = ~decision.abstain
        probs = (self.probs if rows is None else self.probs[rows])[answered]
        labels, targets = decision.labels[answered], self.table.targets
        if targets is None:
            return {"expected": _expected(probs, labels), "observed": None}
        targets = targets if rows is None else targets[rows]
        small, known = too_few(targets), targets[answered]
        if small is not None or not bool((known >= 0).any()):
            return {"expected": _expected(probs, labels), "observed": None, "too_small": small}
        judged = known >= 0
        return {"expected": _expected(probs * judged, labels & judged), "observed": _observed(known, labels)}

    def _promise(self, rule: Rule | None) -> str | None:
        if not isinstance(rule, RiskControl):
            return None
        if not bool(rule.reached):
            return "There are too few pictures with true labels for this promise, so everything is given."
        assert self._held_out is not None
        text = f"On average over pictures like these, at most {100 * rule.alpha:.0f} % of a picture's labels are missed"
        return f"{text}; learnt from {len(self._held_out):,} pictures with labels."

    def _words(self, threshold: float | None) -> str:
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


def too_few(targets: Tensor) -> str | None:
    """Why rows of targets (N, K) are too few to judge by, in a sentence; None where there are enough."""
    unknown = int((targets < 0).all(1).sum())
    return too_small({"rows": len(targets), "rows without known cells": unknown})


def _expected(probs: Tensor, labels: Tensor) -> Quality:
    """What precision and recall are to be expected, if the probabilities can be trusted."""
    right = float(probs[labels].sum(dtype=torch.float64))
    return _quality(right, float(labels.sum()), float(probs.sum(dtype=torch.float64)))


def _observed(targets: Tensor, labels: Tensor) -> Observed:
    """What they are on known cells; there is no precision where nothing is known to be absent."""
    right = int((labels & (targets == 1)).sum())
    found = _quality(right, int((labels & (targets >= 0)).sum()), int((targets == 1).sum()))
    if not bool((targets == 0).any()):
        found = Quality(precision=None, recall=found.recall, f=None)
    return Observed(**found.model_dump(), rows=int((targets >= 0).any(1).sum()))


def _quality(right: float, given: float, there: float) -> Quality:
    return Quality(
        precision=right / given if given else None,
        recall=right / there if there else None,
        f=2 * right / (given + there) if given + there else None,
    )
