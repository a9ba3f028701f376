"""Label names as people type them: the column that is meant, or the names that may have been."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Sequence
from functools import cached_property

from manyhot.search.complaint import listed, shown

# Comparing long texts takes long, and whoever typed one does not mistype it by a letter.
LONGEST_TYPED = 100
SUGGESTED = 3
LISTED = 5
LONGEST_NAME = 8  # words, when words without an operator are taken apart


class LabelNames:
    """The columns of label names.

    Args:
        labels: Distinct names, in the order of the columns.

    Example:
        >>> names = LabelNames(["cat", "traffic light", "dog"])
        >>> names.columns("Traffic Light")
        [1]
        >>> names.near("light")
        ['traffic light']
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = labels
        self._exact = {name: column for column, name in enumerate(labels)}

    @cached_property
    def _alike(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for column, name in enumerate(self.labels):
            found.setdefault(folded(name), []).append(column)
        return found

    def columns(self, name: str) -> list[int]:
        """The column of this very name; otherwise those whose names differ from it in case, form or spacing only."""
        if name in self._exact:
            return [self._exact[name]]
        key = folded(name)
        return self._alike.get(key, []) if key else []

    def near(self, name: str) -> list[str]:
        """The names that may have been meant, the nearest first; none if nothing is near."""
        key = folded(name)
        if not key or len(name) > LONGEST_TYPED:
            return []
        alike = difflib.get_close_matches(key, self._alike, n=SUGGESTED)
        alike += [other for other in self._alike if other not in alike and f" {key} " in f" {other} "]
        columns = [column for other in alike[:SUGGESTED] for column in self._alike[other]]
        return [self.labels[column] for column in columns[:SUGGESTED]]

    def suggestion(self, name: str) -> str:
        """The sentence that helps someone who typed a name that there is not."""
        near = self.near(name)
        if near:
            return f"Did you mean {listed(near, 'or')}?"
        if not self.labels:
            return "There are no labels."
        names = ", ".join(map(shown, self.labels[:LISTED]))
        return (
            f"The labels are {names}."
            if len(self.labels) <= LISTED
            else f"There are {len(self.labels):,} labels: {names} ..."
        )

    def split(self, words: Sequence[str]) -> list[list[str]] | None:
        """Words as the names of several labels, one after the other, as long as possible each; None if they are not."""
        found = []
        while words:
            sizes = range(min(len(words), LONGEST_NAME), 0, -1)
            size = next((size for size in sizes if self.columns(" ".join(words[:size]))), 0)
            if not size:
                return None
            found.append(list(words[:size]))
            words = words[size:]
        return found


def folded(name: str) -> str:
    """A name without what people do not see or do not type: case, the form of its accents, the width of its spaces.

    Example:
        >>> folded("Cafe\u0301  Bar") == folded("caf\u00e9 bar")
        True
    """
    plain = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
    return " ".join(plain.split())
