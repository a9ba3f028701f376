"""Rows of a table as the page shows them, and completion of label names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from manyhot.decide import Decision
from manyhot.formatting import format_log_prob, format_prob
from manyhot.search.lexer import KEYWORDS, can_be_unquoted, folded, quote_label
from manyhot.studio.schemas import Completion, Completions, Item, ShownLabel

# Labels of an image in a gallery: besides those that are predicted, true or edited, and in total.
MOST_PROBABLE = 5
MAX_SHOWN = 60
# The same for a single image.
MAX_SHOWN_ALONE = 1000

Cells = Mapping[int, int]


def shown_labels(
    names: Sequence[str],
    probs: Tensor,
    given: Tensor,
    *,
    targets: Tensor | None = None,
    edits: Cells | None = None,
    probable: int = MOST_PROBABLE,
    most: int = MAX_SHOWN,
) -> list[ShownLabel]:
    """The labels of one row that are worth showing, the most probable first.

    Args:
        names: K names.
        probs: (K,).
        given: (K,) bool, the labels that are given.
        targets: (K,) of 1, 0 and -1, where known.
        edits: What a person said, by column.
        probable: How many of the most probable are shown, also if they are not predicted.
        most: How many are shown in total; predicted ones come before true and edited ones, and these before the others.
    """
    edits = edits or {}
    order = torch.argsort(probs, descending=True, stable=True)
    chosen = order[given[order]].tolist()
    wanted: dict[int, None] = dict.fromkeys(chosen)
    if targets is not None:
        wanted |= dict.fromkeys(order[targets[order] == 1].tolist())
    # A confirmed image has an edit of every label, most of which are 0.
    wanted |= dict.fromkeys(column for column, value in edits.items() if value != 0)
    wanted |= dict.fromkeys(order[:probable].tolist())
    columns = list(wanted)[:most]
    # Cells are read from tensors all at once: one by one would dominate the response time.
    values = dict(zip(columns, probs[columns].tolist(), strict=True))
    cells = {} if targets is None else dict(zip(columns, targets[columns].tolist(), strict=True))
    is_predicted = set(chosen)
    return [
        ShownLabel(
            name=names[column],
            prob=values[column],
            prob_words=format_prob(values[column]),
            given=column in is_predicted,
            target=_as_target(cells[column]) if column in cells else None,
            edited=None if column not in edits else _as_target(edits[column]),
        )
        for column in sorted(columns, key=lambda column: (-values[column], column))
    ]


def summarize_labels(
    labels: Sequence[ShownLabel], given: Tensor, names: Sequence[str], *, abstain: bool
) -> dict[str, Any]:
    """The decision about a row: the predicted labels, or that there are none, or that the rule abstains."""
    columns = given.nonzero().squeeze(1).tolist()
    ranks = {label.name: index for index, label in enumerate(labels)}
    predicted_names = sorted((names[column] for column in columns), key=lambda name: ranks.get(name, len(ranks)))
    return {"given": predicted_names, "none": not columns and not abstain, "ask": abstain, "labels": list(labels)}


class ItemBuilder:
    """Makes items from row numbers.

    Args:
        names: The labels.
        probs: (N, K).
        targets: (N, K), where known.
        ids: N ids.
        paths: N paths, or None.
        splits: N splits, or None.
        why: Why the image of a row cannot be shown; None if it can.
        edits: The edits of a row, by column.
        done: Whether the review of a row is finished.
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
        probable: int = MOST_PROBABLE,
        most: int = MAX_SHOWN,
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
                **self._labels(row, decision.labels[index], bool(decision.abstain[index]), probable, most),
                prob=None if log_probs is None else math.exp(log_probs[index]),
                prob_words=None if log_probs is None else format_log_prob(log_probs[index]),
            )
            for index, row in enumerate(rows)
        ]

    def facts(self, row: int) -> dict[str, Any]:
        """The fields that identify a row, and the state of its review."""
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

    def _labels(self, row: int, given: Tensor, abstain: bool, probable: int, most: int) -> dict[str, Any]:
        labels = shown_labels(
            self.names,
            self.probs[row],
            given,
            targets=None if self.targets is None else self.targets[row],
            edits=self._edits(row),
            probable=probable,
            most=most,
        )
        return summarize_labels(labels, given, self.names, abstain=abstain)


def _as_target(value: int) -> Any:
    """A cell as a message has it."""
    return value if value in (0, 1) else -1


MAX_COMPLETIONS = 50
# What ends a name that is not quoted.
_BREAK = re.compile(r"""[&|!~<>=(),"']""")


class LabelCompleter:
    """Completes label names: those that begin with the text, then those with a word that does, or that contain it.

    Args:
        labels: The names.
        expected: The expected number of images of each; of labels that match equally well the frequent come first.

    Example:
        >>> completing = LabelCompleter(["dog", "hot dog", "black and white"], [3.0, 9.0, 1.0])
        >>> [name.label for name in completing.complete("cat & !do", 9).names]
        ['dog', 'hot dog']
        >>> completing.complete("bla", 3).names[0].insert
        "'black and white'"
    """

    def __init__(self, labels: Sequence[str], expected: Sequence[float]) -> None:
        self.labels, self.expected = labels, expected
        self._folded = [folded(label) for label in labels]

    def complete(self, text: str, cursor: int, *, most: int = 10) -> Completions:
        """The labels that complete the name before the cursor.

        Args:
            text: The query typed so far.
            cursor: The number of characters before the cursor.
            most: At most this many labels.
        """
        cursor = min(max(cursor, 0), len(text))
        start = start_of_name(text, cursor)
        key = folded(text[start:cursor].strip("\"'"))
        ranked = sorted(
            (position, -self.expected[column], column)
            for column, name in enumerate(self._folded)
            if (position := match_rank(key, name)) is not None
        )
        names = [
            Completion(
                label=self.labels[column], insert=format_label(self.labels[column]), expected=self.expected[column]
            )
            for _, _, column in ranked[: min(most, MAX_COMPLETIONS)]
        ]
        return Completions(start=start, end=cursor, names=names)


def match_rank(key: str, name: str) -> int | None:
    """How well a name fits what was typed, 0 the best; None if it does not."""
    if name.startswith(key):
        return 0
    if f" {key}" in f" {name}":
        return 1
    return 2 if key in name else None


def format_label(label: str) -> str:
    """A label as it stands in a query."""
    return label if can_be_unquoted(label) else quote_label(label)


def start_of_name(text: str, cursor: int) -> int:
    """Where the name begins that is being typed: after the last sign, word such as `and`, or open quotation mark.

    Example:
        >>> start_of_name("dog and traffic li", 18), start_of_name("dog & 'black and w", 18)
        (8, 6)
    """
    opened = _open_quotation(text[:cursor])
    if opened is not None:
        return opened
    begin = max((symbol.end() for symbol in _BREAK.finditer(text, 0, cursor)), default=0)
    words = re.finditer(r"\S+", text[begin:cursor])
    # A keyword that is still being typed may become a name: `or` may become `orange`.
    keywords = [begin + word.end() for word in words if word.group().lower() in KEYWORDS]
    begin = max((end for end in keywords if end < cursor), default=begin)
    typed = text[begin:cursor]
    return begin + len(typed) - len(typed.lstrip())


def _open_quotation(text: str) -> int | None:
    """Where a quotation begins that is not closed; None if all are."""
    opened, quote = None, ""
    position = 0
    while position < len(text):
        symbol = text[position]
        if opened is not None and symbol == "\\":
            position += 1
        elif opened is not None and symbol == quote:
            opened = None
        elif opened is None and symbol in "\"'":
            opened, quote = position, symbol
        position += 1
    return opened
