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

# Labels to ask about per image.
MAX_SUSPECTS = 5
# An annotation is a probable error if the model gives its opposite more than this.
ERROR_THRESHOLD = 0.5
# Probabilities in this range are uncertain.
UNCERTAIN_RANGE = (0.15, 0.85)


class ReviewQueue(NamedTuple):
    """Row numbers in the order of review, and the uncertainty of each."""

    rows: Tensor
    scores: Tensor

    def page(self, offset: int, limit: int) -> list[tuple[int, float]]:
        """Some of the rows with their uncertainty."""
        some = slice(offset, offset + limit)
        return list(zip(self.rows[some].tolist(), self.scores[some].tolist(), strict=True))


def by_uncertainty(probs: Tensor, decision: Decision, left: Tensor) -> ReviewQueue:
    """Rows sorted by falling expected number of wrong labels; abstained ones come before all others.

    Args:
        probs: (N, K).
        decision: The decisions for all rows.
        left: (N,) bool, the rows that are not finished.
    """
    scores = expected_errors(probs, decision.labels)
    first = scores + decision.abstain * (1.0 + probs.shape[1])
    return _sorted_queue(scores, first, left)


def by_label_error(probs: Tensor, targets: Tensor, left: Tensor) -> ReviewQueue:
    """Rows with labels that are probable but not annotated, the most probable first; then the opposite kind.

    An annotated label that the model misses may be too small or too rare for it. A missing annotation of a label that
    the model predicts with confidence is more often an error.

    Args:
        probs: (N, K).
        targets: (N, K): the known targets, and -1 for cells that are edited already.
        left: (N,) bool, the rows that are not finished.
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
    """The labels of one row to ask about, the most uncertain first.

    Args:
        order: The order of the queue.
        names: K names.
        probs: (K,).
        targets: (K,), where known.
        edited: Columns that are edited already.
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
    """Raises if label errors are requested without targets."""
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
