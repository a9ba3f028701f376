"""Labels for what somebody is typing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from manyhot.search.complaint import quoted
from manyhot.search.names import folded
from manyhot.search.words import KEYWORDS, is_bare
from manyhot.studio.messages import Completion, Completions

MOST = 50
# What ends a name that is not quoted.
_BREAK = re.compile(r"""[&|!~<>=(),"']""")


class Completing:
    """Finds the labels that begin with what was typed, or have a word that does, or hold it.

    Args:
        labels: The names.
        expected: How many pictures are expected to have each; of labels that fit equally well the frequent come first.

    Example:
        >>> completing = Completing(["dog", "hot dog", "black and white"], [3.0, 9.0, 1.0])
        >>> [found.label for found in completing.complete("cat & !do", 9).names]
        ['dog', 'hot dog']
        >>> completing.complete("bla", 3).names[0].insert
        "'black and white'"
    """

    def __init__(self, labels: Sequence[str], expected: Sequence[float]) -> None:
        self.labels, self.expected = labels, expected
        self._folded = [folded(label) for label in labels]

    def complete(self, text: str, cursor: int, *, most: int = 10) -> Completions:
        """The labels for the name that the cursor stands at the end of.

        Args:
            text: The query as far as it is typed.
            cursor: How many of its characters stand before the cursor.
            most: How many labels at the most.
        """
        cursor = min(max(cursor, 0), len(text))
        start = start_of_name(text, cursor)
        key = folded(text[start:cursor].strip("\"'"))
        ranked = sorted(
            (place, -self.expected[column], column)
            for column, name in enumerate(self._folded)
            if (place := rank(key, name)) is not None
        )
        names = [
            Completion(label=self.labels[column], insert=inserted(self.labels[column]), expected=self.expected[column])
            for _, _, column in ranked[: min(most, MOST)]
        ]
        return Completions(start=start, end=cursor, names=names)


def rank(key: str, name: str) -> int | None:
    """How well a name fits what was typed, 0 the best; None if it does not."""
    if name.startswith(key):
        return 0
    if f" {key}" in f" {name}":
        return 1
    return 2 if key in name else None


def inserted(label: str) -> str:
    """A label as it stands in a query."""
    return label if is_bare(label) else quoted(label)


def start_of_name(text: str, cursor: int) -> int:
    """Where the name begins that is being typed: after the last sign, word such as `and`, or open quotation mark.

    Example:
        >>> start_of_name("dog and traffic li", 18), start_of_name("dog & 'black and w", 18)
        (8, 6)
    """
    opened = _open_quotation(text[:cursor])
    if opened is not None:
        return opened
    begin = max((sign.end() for sign in _BREAK.finditer(text, 0, cursor)), default=0)
    words = re.finditer(r"\S+", text[begin:cursor])
    # A keyword that is still being typed may become a name: `or` may become `orange`.
    keywords = [begin + word.end() for word in words if word.group().lower() in KEYWORDS]
    begin = max((end for end in keywords if end < cursor), default=begin)
    typed = text[begin:cursor]
    return begin + len(typed) - len(typed.lstrip())


def _open_quotation(text: str) -> int | None:
    """Where a quotation begins that is not closed; None if all are."""
    opened, mark = None, ""
    place = 0
    while place < len(text):
        sign = text[place]
        if opened is not None and sign == "\\":
            place += 1
        elif opened is not None and sign == mark:
            opened = None
        elif opened is None and sign in "\"'":
            opened, mark = place, sign
        place += 1
    return opened
