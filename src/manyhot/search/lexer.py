"""Tokens of a query, errors that point at a character, and label names as people type them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import NamedTuple

from manyhot.errors import InputError
from manyhot.formatting import printable

# Characters shown of a long query, and of a long name.
MAX_QUERY_PREVIEW = 60
MAX_NAME_PREVIEW = 40


class QueryError(InputError):
    """Raised for a query that cannot be parsed.

    Args:
        text: The query.
        position: The position of the wrong character, from 0; `len(text)` for the end.
        rule: The constraint that is violated.
        got: What the query has instead.
        hint: How to fix it.

    Example:
        >>> print(QueryError("cat & dgo", 6, "name labels that exist", "'dgo'", "Did you mean 'dog'?"))
        `query` of `search` must name labels that exist; got 'dgo' at character 7: cat & ▸dgo. Did you mean 'dog'?
    """

    def __init__(self, text: str, position: int, rule: str, got: str, hint: str) -> None:
        super().__init__("query", "search", rule, got, hint)
        self.text, self.position = text, position

    def render(self, names: Mapping[str, str] | None = None) -> str:
        """The message with the query in it; a mark shows the wrong position."""
        where = "the end" if self.position == len(self.text) else f"character {self.position + 1}"
        shown = f" at {where}: {mark_position(self.text, self.position)}" if self.text.strip() else ""
        return f"`query` of `search` must {self.rule}; got {self.got}{shown}. {self.hint}"


def mark_position(text: str, position: int) -> str:
    r"""The part of a text around a position, on one line, with a mark before the position.

    Example:
        >>> print(mark_position("cat &\n dgo", 7))
        cat &\n ▸dgo
    """
    start = max(0, min(position - MAX_QUERY_PREVIEW // 2, len(text) - MAX_QUERY_PREVIEW))
    end = min(len(text), start + MAX_QUERY_PREVIEW)
    before, after = printable(text[start:position]), printable(text[position:end])
    return f"{'…' if start else ''}{before}▸{after}{'…' if end < len(text) else ''}"


def quote_label(name: str, quote: str = "'") -> str:
    r"""A name as it is written between quotation marks in a query, whatever is in it.

    Example:
        >>> print(quote_label("driver's licence"), quote_label('a "b"\n', '"'))
        'driver\'s licence' "a \"b\"\n"
    """
    return quote + printable(name.replace("\\", "\\\\").replace(quote, "\\" + quote)) + quote


def preview_label(name: str) -> str:
    """A name in a message: between quotation marks, its end left out if it is very long."""
    return quote_label(name if len(name) <= MAX_NAME_PREVIEW else name[: MAX_NAME_PREVIEW - 1] + "…")


def join_labels(names: list[str], last: str) -> str:
    """Names in a message, with a word before the last.

    Example:
        >>> join_labels(["cat", "dog", "bird"], "or")
        "'cat', 'dog' or 'bird'"
    """
    texts = [preview_label(name) for name in names]
    return f" {last} ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


MAX_QUERY_LENGTH = 10_000

OPERATORS = {"&": "&", "&&": "&", "and": "&", "|": "|", "||": "|", "or": "|", "!": "!", "~": "!", "not": "!"}
COUNTERS = ("atleast", "atmost", "exactly")
FUNCTIONS = ("only", *COUNTERS, "count")
KEYWORDS = frozenset([*(word for word in OPERATORS if word.isalpha()), *FUNCTIONS, "none", "any"])

_OPERATOR = re.compile(r"&&?|\|\|?|[!<>=]=|[!~<>=(),]")
_WORD = re.compile(r"""[^\s&|!~<>=(),"']+""")
_ESCAPE = re.compile(
    r"""\\(?:(["'\\nrt])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4}))"""
)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


class Token(NamedTuple):
    """A piece of a query.

    Attributes:
        kind: "word" or "name" (which was quoted) of a label or number; "&", "|" or "!", also of the words for them;
            "compare"; "(", ")" or ","; a keyword; or "end".
        value: Its text, unescaped if it was quoted.
        position: Where it begins.
    """

    kind: str
    value: str
    position: int

    def __str__(self) -> str:
        return "nothing" if self.kind == "end" else preview_label(self.value)


def tokenize(text: str) -> list[Token]:
    """The tokens of a query, of which the last is its end.

    Example:
        >>> [token.kind for token in tokenize("cat and !'traffic light'")]
        ['word', '&', '!', 'name', 'end']
    """
    _check_characters(text)
    tokens = []
    end = 0
    while end < len(text):
        position = end
        if text[position].isspace():
            end += 1
        elif text[position] in "\"'":
            name, end = _quoted_name(text, position)
            tokens.append(Token("name", name, position))
        else:
            match = _OPERATOR.match(text, position) or _WORD.match(text, position)
            assert match is not None, "the two patterns and quotation marks cover every character but space"
            end = match.end()
            tokens.append(Token(_kind(match.group()), match.group(), position))
            _check_visible(text, tokens[-1])
    return [*tokens, Token("end", "", len(text))]


def can_be_unquoted(name: str) -> bool:
    """Whether a name needs no quotation marks in a query: words with single spaces between them.

    Example:
        >>> [can_be_unquoted(name) for name in ("traffic light", "black and white", "rock&roll", "")]
        [True, False, False, False]
    """
    words = name.split(" ")
    return name.isprintable() and all(_WORD.fullmatch(word) and _kind(word) == "word" for word in words)


def _kind(text: str) -> str:
    word = text.lower()
    if word in OPERATORS:
        return OPERATORS[word]
    if word in KEYWORDS or word in ("(", ")", ","):
        return word
    return "compare" if _OPERATOR.fullmatch(word) else "word"


def _check_characters(text: str) -> None:
    if len(text) > MAX_QUERY_LENGTH:
        got = f"{len(text):,} characters, of which the first too many is"
        raise QueryError(
            text, MAX_QUERY_LENGTH, f"have at most {MAX_QUERY_LENGTH:,} characters", got, "Make it shorter."
        )
    for position, character in enumerate(text):
        if "\ud800" <= character <= "\udfff":
            hint = "Type it again; was the text read in the wrong encoding?"
            raise QueryError(text, position, "be readable text", f"half a character, {printable(character)},", hint)


def _quoted_name(text: str, start: int) -> tuple[str, int]:
    """The name in quotation marks that open at `start`, and the position after them."""
    characters = []
    position = start + 1
    while position < len(text) and text[position] != text[start]:
        if text[position] != "\\":
            characters.append(text[position])
            position += 1
            continue
        escape = _ESCAPE.match(text, position)
        if escape is None:
            rule = r"""use \" \' \\ \n \r \t \xNN \uNNNN or \UNNNNNNNN after a backslash between quotation marks"""
            raise QueryError(
                text, position, rule, preview_label(text[position : position + 2]), r"Write \\ for a backslash itself."
            )
        letter, *codes = escape.groups()
        characters.append(_ESCAPED.get(letter, letter) if letter else chr(int("".join(filter(None, codes)), 16)))
        position = escape.end()
    if position == len(text):
        hint = (
            f"Add {text[start]} after the name. For an apostrophe, put the whole name between double quotation marks."
        )
        raise QueryError(text, start, "close every quotation mark", "one that stays open", hint)
    return "".join(characters), position + 1


def _check_visible(text: str, token: Token) -> None:
    """Raises for control characters in a word, where they would be invisible."""
    for offset, character in enumerate(token.value):
        if unicodedata.category(character) == "Cc":
            hint = f"Remove it, or put the name between quotation marks with {printable(character)} in it."
            rule = "have control characters between quotation marks only"
            raise QueryError(text, token.position + offset, rule, printable(character), hint)


# Comparing long texts is slow, and long texts are seldom mistyped names.
MAX_TYPO_LENGTH = 100
MAX_SUGGESTIONS = 3
MAX_LISTED = 5
MAX_NAME_WORDS = 8  # words per name, when words without an operator between them are split into names


class LabelIndex:
    """The columns of label names.

    Args:
        labels: Distinct names, in the order of the columns.

    Example:
        >>> names = LabelIndex(["cat", "traffic light", "dog"])
        >>> names.columns("Traffic Light")
        [1]
        >>> names.similar_names("light")
        ['traffic light']
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = labels
        self._exact = {name: column for column, name in enumerate(labels)}

    @cached_property
    def _by_folded_name(self) -> dict[str, list[int]]:
        matches: dict[str, list[int]] = {}
        for column, name in enumerate(self.labels):
            matches.setdefault(folded(name), []).append(column)
        return matches

    def columns(self, name: str) -> list[int]:
        """The column of exactly this name; otherwise those whose names differ in case, Unicode form or spacing only."""
        if name in self._exact:
            return [self._exact[name]]
        key = folded(name)
        return self._by_folded_name.get(key, []) if key else []

    def similar_names(self, name: str) -> list[str]:
        """The most similar names, the nearest first; none if nothing is near."""
        key = folded(name)
        if not key or len(name) > MAX_TYPO_LENGTH:
            return []
        similar = get_close_matches(key, self._by_folded_name, n=MAX_SUGGESTIONS)
        similar += [other for other in self._by_folded_name if other not in similar and f" {key} " in f" {other} "]
        columns = [column for other in similar[:MAX_SUGGESTIONS] for column in self._by_folded_name[other]]
        return [self.labels[column] for column in columns[:MAX_SUGGESTIONS]]

    def suggestion(self, name: str) -> str:
        """The hint for a name that does not exist."""
        similar = self.similar_names(name)
        if similar:
            return f"Did you mean {join_labels(similar, 'or')}?"
        if not self.labels:
            return "There are no labels."
        names = ", ".join(map(preview_label, self.labels[:MAX_LISTED]))
        return (
            f"The labels are {names}."
            if len(self.labels) <= MAX_LISTED
            else f"There are {len(self.labels):,} labels: {names} ..."
        )

    def split(self, words: Sequence[str]) -> list[list[str]] | None:
        """Words split into names of labels, each as long as possible; None if that fails."""
        matches = []
        while words:
            sizes = range(min(len(words), MAX_NAME_WORDS), 0, -1)
            size = next((size for size in sizes if self.columns(" ".join(words[:size]))), 0)
            if not size:
                return None
            matches.append(list(words[:size]))
            words = words[size:]
        return matches


def folded(name: str) -> str:
    """A name normalised for lookup: case-folded, in Unicode form NFC, with single spaces.

    Example:
        >>> folded("Cafe\u0301  Bar") == folded("caf\u00e9 bar")
        True
    """
    plain = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
    return " ".join(plain.split())
