"""Which images to review first, and which of their labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyhot.decide import Decision
from manyhot.decide.wrappers import expected_errors
from manyhot.errors import InputError
from manyhot.formatting import format_prob
from manyhot.studio.schemas import ReviewOrder, Suspect

# Labels to ask about in one picture.
MAX_SUSPECTS = 5
# What the labels of a picture say must be less probable than this to be a probable error.
ERROR_THRESHOLD = 0.5
# Labels of these probabilities are neither here nor there.
UNCERTAIN_RANGE = (0.15, 0.85)


class ReviewQueue(NamedTuple):
    """Row numbers, those to look at first in front, and how doubtful each is."""

    rows: Tensor
    scores: Tensor

    def page(self, offset: int, limit: int) -> list[tuple[int, float]]:
        """Some of them with their doubts."""
        some = slice(offset, offset + limit)
        return list(zip(self.rows[some].tolist(), self.scores[some].tolist(), strict=True))


def by_uncertainty(probs: Tensor, decision: Decision, left: Tensor) -> ReviewQueue:
    """By the number of wrong labels to be expected, the most first; before all others those that ask for a person.

    Args:
        probs: (N, K).
        decision: About all rows.
        left: (N,) bool, the rows that nobody has finished.
    """
    scores = expected_errors(probs, decision.labels)
    first = scores + decision.abstain * (1.0 + probs.shape[1])
    return _sorted_queue(scores, first, left)


def by_label_error(probs: Tensor, targets: Tensor, left: Tensor) -> ReviewQueue:
    """Rows with labels that are seen and not annotated, the surest first; then those annotated and not seen.

    What a model does not see may be too small or too rare for it. What it is sure to see has more often been forgotten.

    Args:
        probs: (N, K).
        targets: (N, K): what is known, and -1 for what a person has said already.
        left: (N,) bool, the rows that nobody has finished.
    """
    keys = error_keys(probs, targets).amax(1) if probs.shape[1] else probs.new_zeros(len(probs))
    scores = torch.where(keys > 1, keys - 1, keys).double()
    return _sorted_queue(scores, keys.double(), left & (scores > ERROR_THRESHOLD))


def error_keys(probs: Tensor, targets: Tensor) -> Tensor:
    """How improbable each known cell is, with 1 added for absent labels that are more probable than not."""
    scores = label_error_probs(probs, targets)
    return scores + ((targets == 0) & (scores > ERROR_THRESHOLD))


def label_error_probs(probs: Tensor, targets: Tensor) -> Tensor:
    """(N, K), how improbable each known cell is: p of an absent label, 1 - p of a present one, 0 of an unknown one.

    Example:
        >>> label_error_probs(torch.tensor([[0.75, 0.75, 0.75]]), torch.tensor([[1, 0, -1]]))
        tensor([[0.2500, 0.7500, 0.0000]])
    """
    return torch.where(targets == 1, 1 - probs, probs).masked_fill(targets < 0, 0.0)


def find_suspects(
    order: ReviewOrder, names: Sequence[str], probs: Tensor, targets: Tensor | None, edited: Sequence[int]
) -> list[Suspect]:
    """The labels of one row to ask about, the most doubtful first.

    Args:
        order: What the queue is sorted by.
        names: K names.
        probs: (K,).
        targets: (K,), where known.
        edited: Columns that a person has said something about.
    """
    ask: Callable[..., str]
    if order == "errors" and targets is not None:
        scores, ask, low = error_keys(probs, targets), _error_question, ERROR_THRESHOLD
    else:
        # 1 for a probability of one half, 0 for certainty either way.
        scores, ask, low = 1 - (2 * probs - 1).abs(), _uncertain_question, 1 - (UNCERTAIN_RANGE[1] - UNCERTAIN_RANGE[0])
    scores = scores.clone()
    scores[list(edited)] = -1.0
    result = []
    for column in torch.argsort(scores, descending=True, stable=True)[:MAX_SUSPECTS].tolist():
        if float(scores[column]) > low:
            name, prob = names[column], float(probs[column])
            target: Any = None if targets is None else int(targets[column])
            result.append(Suspect(name=name, prob=prob, target=target, question_words=ask(name, prob, target)))
    return result


def check_order(order: ReviewOrder, targets: Tensor | None) -> None:
    """Refuses to look for errors where nothing is known to be true."""
    if order == "errors" and targets is None:
        rule = "be 'uncertain' where no true labels are known"
        raise InputError("order", "studio", rule, repr(order), "Open predictions with targets to look for errors.")


def _uncertain_question(name: str, prob: float, target: int | None) -> str:
    return f"{name}, {format_prob(prob)}. Is it there?"


def _error_question(name: str, prob: float, target: int) -> str:
    statement = "is among its labels" if target == 1 else "is not among its labels"
    return f"{name}, {format_prob(prob)}, {statement}. Is it there?"


def _sorted_queue(scores: Tensor, keys: Tensor, selected: Tensor) -> ReviewQueue:
    order = torch.argsort(keys, descending=True, stable=True)
    order = order[selected[order]]
    return ReviewQueue(order, scores[order])
