"""Rows of a table as people look at them: a picture, what is said about it, what is true and what was edited."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from manyhot.decide import Decision
from manyhot.studio.messages import Item, ShownLabel
from manyhot.terminal import percent, percent_of_log

# Labels of a picture in a gallery: so many besides those that are given, true or said to be there, and in all.
PROBABLE = 5
SHOWN = 60
# The same of a picture that is looked at alone.
ALL_SHOWN = 1000

Cells = Mapping[int, int]


def shown_labels(
    names: Sequence[str],
    probs: Tensor,
    given: Tensor,
    *,
    targets: Tensor | None = None,
    edits: Cells | None = None,
    probable: int = PROBABLE,
    most: int = SHOWN,
) -> list[ShownLabel]:
    """The labels of one row that are worth showing, the most probable first.

    Args:
        names: K names.
        probs: (K,).
        given: (K,) bool, the labels that are given.
        targets: (K,) of 1, 0 and -1, where known.
        edits: What a person said, by column.
        probable: How many of the most probable are shown, also if they are not given.
        most: How many are shown at all; given ones come before true and edited ones, and these before the others.
    """
    edits = edits or {}
    order = torch.argsort(probs, descending=True, stable=True)
    chosen = order[given[order]].tolist()
    wanted: dict[int, None] = dict.fromkeys(chosen)
    if targets is not None:
        wanted |= dict.fromkeys(order[targets[order] == 1].tolist())
    # A picture that somebody has confirmed has an edit of every label, most of which say that it is not there.
    wanted |= dict.fromkeys(column for column, value in edits.items() if value != 0)
    wanted |= dict.fromkeys(order[:probable].tolist())
    columns = list(wanted)[:most]
    # Cells are taken out of tensors all at once: one by one they would take most of the time of a page.
    values = dict(zip(columns, probs[columns].tolist(), strict=True))
    cells = {} if targets is None else dict(zip(columns, targets[columns].tolist(), strict=True))
    is_given = set(chosen)
    return [
        ShownLabel(
            name=names[column],
            prob=values[column],
            prob_words=percent(values[column]),
            given=column in is_given,
            target=_cell(cells[column]) if column in cells else None,
            edited=None if column not in edits else _cell(edits[column]),
        )
        for column in sorted(columns, key=lambda column: (-values[column], column))
    ]


def answer_of(labels: Sequence[ShownLabel], given: Tensor, names: Sequence[str], *, abstain: bool) -> dict[str, Any]:
    """What is said about a row: the labels that are given, or that there are none, or that a person should look."""
    columns = given.nonzero().squeeze(1).tolist()
    ranks = {label.name: place for place, label in enumerate(labels)}
    given_names = sorted((names[column] for column in columns), key=lambda name: ranks.get(name, len(ranks)))
    return {"given": given_names, "none": not columns and not abstain, "ask": abstain, "labels": list(labels)}


class Items:
    """Makes items of row numbers.

    Args:
        names: The labels.
        probs: (N, K).
        targets: (N, K), where known.
        ids: N ids.
        paths: N paths, or None.
        splits: N splits, or None.
        why: Why the picture of a row cannot be shown; None if it can.
        edits: What was edited of a row, by column.
        done: Whether a person has finished with a row.
    """

    def __init__(
        self,
        names: Sequence[str],
        probs: Tensor,
        targets: Tensor | None,
        *,
        ids: Sequence[str],
        paths: Sequence[str] | None,
        splits: Sequence[str] | None,
        why: Callable[[int], str | None],
        edits: Callable[[int], Cells],
        done: Callable[[int], bool],
    ) -> None:
        self.names, self.probs, self.targets = names, probs, targets
        self.ids, self.paths, self.splits = ids, paths, splits
        self._why, self._edits, self._done = why, edits, done

    def make(
        self,
        rows: Sequence[int],
        decision: Decision,
        *,
        log_probs: Sequence[float] | None = None,
        probable: int = PROBABLE,
        most: int = SHOWN,
    ) -> list[Item]:
        """The items of some rows.

        Args:
            rows: Their numbers.
            decision: About these rows, in their order.
            log_probs: The logarithm of the probability that each matches what was searched for.
            probable: As for `shown_labels`.
            most: As for `shown_labels`.
        """
        return [
            Item(
                **self.facts(row),
                **self._said(row, decision.labels[place], bool(decision.abstain[place]), probable, most),
                prob=None if log_probs is None else math.exp(log_probs[place]),
                prob_words=None if log_probs is None else percent_of_log(log_probs[place]),
            )
            for place, row in enumerate(rows)
        ]

    def facts(self, row: int) -> dict[str, Any]:
        """What tells a row, and what was done with it."""
        path = None if self.paths is None else self.paths[row]
        why = self._why(row)
        return {
            "row": row,
            "id": self.ids[row],
            "name": (path or self.ids[row]).rstrip("/").rsplit("/", 1)[-1],
            "path": path,
            "split": None if self.splits is None else self.splits[row],
            "picture": why is None,
            "why": why,
            "edited": bool(self._edits(row)),
            "done": self._done(row),
        }

    def _said(self, row: int, given: Tensor, abstain: bool, probable: int, most: int) -> dict[str, Any]:
        labels = shown_labels(
            self.names,
            self.probs[row],
            given,
            targets=None if self.targets is None else self.targets[row],
            edits=self._edits(row),
            probable=probable,
            most=most,
        )
        return answer_of(labels, given, self.names, abstain=abstain)


def _cell(value: int) -> Any:
    """A cell as a message has it."""
    return value if value in (0, 1) else -1
