"""The words, names and signs that a query consists of."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from manyhot.search.complaint import QueryError, shown
from manyhot.terminal import printable

LONGEST = 10_000

OPERATORS = {"&": "&", "&&": "&", "and": "&", "|": "|", "||": "|", "or": "|", "!": "!", "~": "!", "not": "!"}
COUNTERS = ("atleast", "atmost", "exactly")
FUNCTIONS = ("only", *COUNTERS, "count")
KEYWORDS = frozenset([*(word for word in OPERATORS if word.isalpha()), *FUNCTIONS, "none", "any"])

_SIGN = re.compile(r"&&?|\|\|?|[!<>=]=|[!~<>=(),]")
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
        value: The text of it; what it stands for, if it was quoted.
        place: Where it begins.
    """

    kind: str
    value: str
    place: int

    def __str__(self) -> str:
        return "nothing" if self.kind == "end" else shown(self.value)


def tokens_of(text: str) -> list[Token]:
    """The pieces of a query, of which the last is its end.

    Example:
        >>> [token.kind for token in tokens_of("cat and !'traffic light'")]
        ['word', '&', '!', 'name', 'end']
    """
    _check_characters(text)
    tokens = []
    end = 0
    while end < len(text):
        place = end
        if text[place].isspace():
            end += 1
        elif text[place] in "\"'":
            name, end = _quoted_name(text, place)
            tokens.append(Token("name", name, place))
        else:
            match = _SIGN.match(text, place) or _WORD.match(text, place)
            assert match is not None, "the two patterns and quotation marks cover every character but space"
            end = match.end()
            tokens.append(Token(_kind(match.group()), match.group(), place))
            _check_visible(text, tokens[-1])
    return [*tokens, Token("end", "", len(text))]


def is_bare(name: str) -> bool:
    """Whether a name can stand in a query without quotation marks, as words with single spaces between them.

    Example:
        >>> [is_bare(name) for name in ("traffic light", "black and white", "rock&roll", "")]
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
    return "compare" if _SIGN.fullmatch(word) else "word"


def _check_characters(text: str) -> None:
    if len(text) > LONGEST:
        got = f"{len(text):,} characters, of which the first too many is"
        raise QueryError(text, LONGEST, f"have at most {LONGEST:,} characters", got, "Make it shorter.")
    for place, sign in enumerate(text):
        if "\ud800" <= sign <= "\udfff":
            hint = "Type it anew; was the text read in the wrong encoding?"
            raise QueryError(text, place, "be readable text", f"half a character, {printable(sign)},", hint)


def _quoted_name(text: str, start: int) -> tuple[str, int]:
    """The name between quotation marks, the first of which is at `start`, and where the text goes on after them."""
    found = []
    place = start + 1
    while place < len(text) and text[place] != text[start]:
        if text[place] != "\\":
            found.append(text[place])
            place += 1
            continue
        escape = _ESCAPE.match(text, place)
        if escape is None:
            rule = r"""use \" \' \\ \n \r \t \xNN \uNNNN or \UNNNNNNNN after a backslash between quotation marks"""
            raise QueryError(text, place, rule, shown(text[place : place + 2]), r"Write \\ for a backslash itself.")
        letter, *codes = escape.groups()
        found.append(_ESCAPED.get(letter, letter) if letter else chr(int("".join(filter(None, codes)), 16)))
        place = escape.end()
    if place == len(text):
        hint = (
            f"Add {text[start]} after the name. For an apostrophe, put the whole name between double quotation marks."
        )
        raise QueryError(text, start, "close every quotation mark", "one that stays open", hint)
    return "".join(found), place + 1


def _check_visible(text: str, token: Token) -> None:
    """Refuses control characters in a word, where nobody can see them."""
    for offset, sign in enumerate(token.value):
        if unicodedata.category(sign) == "Cc":
            hint = f"Remove it, or put the name between quotation marks with {printable(sign)} in it."
            rule = "have control characters between quotation marks only"
            raise QueryError(text, token.place + offset, rule, printable(sign), hint)
