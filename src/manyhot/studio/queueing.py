"""Which pictures a person should look at first, and which of their labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyhot.decide import Decision
from manyhot.decide.wrapping import expected_errors
from manyhot.refusal import refusal
from manyhot.studio.messages import Order, Suspect
from manyhot.terminal import percent

# Labels to ask about in one picture.
ASKED = 5
# What the labels of a picture say must be less probable than this to be a probable error.
DOUBTFUL = 0.5
# Labels of these probabilities are neither here nor there.
OPEN = (0.15, 0.85)


class Queue(NamedTuple):
    """Row numbers, those to look at first in front, and how doubtful each is."""

    rows: Tensor
    doubts: Tensor

    def page(self, offset: int, limit: int) -> list[tuple[int, float]]:
        """Some of them with their doubts."""
        some = slice(offset, offset + limit)
        return list(zip(self.rows[some].tolist(), self.doubts[some].tolist(), strict=True))


def uncertain(probs: Tensor, decision: Decision, left: Tensor) -> Queue:
    """By the number of wrong labels to be expected, the most first; before all others those that ask for a person.

    Args:
        probs: (N, K).
        decision: About all rows.
        left: (N,) bool, the rows that nobody has finished.
    """
    doubts = expected_errors(probs, decision.labels)
    first = doubts + decision.abstain * (1.0 + probs.shape[1])
    return _sorted(doubts, first, left)


def probable_errors(probs: Tensor, targets: Tensor, left: Tensor) -> Queue:
    """Rows with labels that are seen and not annotated, the surest first; then those annotated and not seen.

    What a model does not see may be too small or too rare for it. What it is sure to see has more often been forgotten.

    Args:
        probs: (N, K).
        targets: (N, K): what is known, and -1 for what a person has said already.
        left: (N,) bool, the rows that nobody has finished.
    """
    keys = error_keys(probs, targets).amax(1) if probs.shape[1] else probs.new_zeros(len(probs))
    doubts = torch.where(keys > 1, keys - 1, keys).double()
    return _sorted(doubts, keys.double(), left & (doubts > DOUBTFUL))


def error_keys(probs: Tensor, targets: Tensor) -> Tensor:
    """How improbable each known cell is, with 1 added for absent labels that are more probable than not."""
    doubts = suspicion(probs, targets)
    return doubts + ((targets == 0) & (doubts > DOUBTFUL))


def suspicion(probs: Tensor, targets: Tensor) -> Tensor:
    """(N, K), how improbable each known cell is: p of an absent label, 1 - p of a present one, 0 of an unknown one.

    Example:
        >>> suspicion(torch.tensor([[0.75, 0.75, 0.75]]), torch.tensor([[1, 0, -1]]))
        tensor([[0.2500, 0.7500, 0.0000]])
    """
    return torch.where(targets == 1, 1 - probs, probs).masked_fill(targets < 0, 0.0)


def suspects(
    order: Order, names: Sequence[str], probs: Tensor, targets: Tensor | None, edited: Sequence[int]
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
        doubts, ask, low = error_keys(probs, targets), _contradiction, DOUBTFUL
    else:
        # 1 for a probability of one half, 0 for certainty either way.
        doubts, ask, low = 1 - (2 * probs - 1).abs(), _question, 1 - (OPEN[1] - OPEN[0])
    doubts = doubts.clone()
    doubts[list(edited)] = -1.0
    found = []
    for column in torch.argsort(doubts, descending=True, stable=True)[:ASKED].tolist():
        if float(doubts[column]) > low:
            name, prob = names[column], float(probs[column])
            target: Any = None if targets is None else int(targets[column])
            found.append(Suspect(name=name, prob=prob, target=target, question_words=ask(name, prob, target)))
    return found


def check_order(order: Order, targets: Tensor | None) -> None:
    """Refuses to look for errors where nothing is known to be true."""
    if order == "errors" and targets is None:
        rule = "be 'uncertain' where no true labels are known"
        raise refusal("order", "studio", rule, repr(order), "Open predictions with targets to look for errors.")


def _question(name: str, prob: float, target: int | None) -> str:
    return f"{name}, {percent(prob)}. Is it there?"


def _contradiction(name: str, prob: float, target: int) -> str:
    said = "is among its labels" if target == 1 else "is not among its labels"
    return f"{name}, {percent(prob)}, {said}. Is it there?"


def _sorted(doubts: Tensor, keys: Tensor, kept: Tensor) -> Queue:
    order = torch.argsort(keys, descending=True, stable=True)
    order = order[kept[order]]
    return Queue(order, doubts[order])
