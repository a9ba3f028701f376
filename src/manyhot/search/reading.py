"""The tokens of a query one after the other, and what is said of one that does not fit."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from manyhot.search.complaint import SHOWN_NAME, QueryError, listed, shown
from manyhot.search.names import LabelNames
from manyhot.search.normal import LARGEST
from manyhot.search.words import FUNCTIONS, KEYWORDS, OPERATORS, Token, is_bare, tokens_of
from manyhot.terminal import printable

_MOST_DIGITS = len(str(LARGEST))
# Longer runs of words are prose, and not labels of which the operators were forgotten.
_MOST_WORDS = 20
# Longer words are no mistyped function, and take long to compare.
_MOST_LETTERS = 20


class Reader:
    """A place in a query.

    Args:
        text: The query.
        names: The labels that it may name.
    """

    def __init__(self, text: str, names: LabelNames) -> None:
        self.text = text
        self.names = names
        self.tokens = tokens_of(text)
        self.position = 0

    @property
    def next(self) -> Token:
        """The token that comes now."""
        return self.tokens[self.position]

    def take(self, *kinds: str) -> Token | None:
        """The next token, if it is of such a kind; then it counts as read."""
        token = self.next
        if token.kind not in kinds:
            return None
        self.position += 1
        return token

    def number(self, rule: str) -> int:
        """The whole number that comes now."""
        value = self.next.value
        if self.next.kind == "word" and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
            self.position += 1
            return int(value)
        raise self.error(self.next, rule, f"Write a whole number of at most {_MOST_DIGITS} digits, such as 3.")

    def sign(self, word: Token) -> str:
        """The sign of comparison that comes after a word that has just been read."""
        if token := self.take("compare"):
            return token.value
        raise self.error(word, "compare `count` with a number", "Write for instance count >= 3.")

    def opening(self, word: Token, example: str) -> Token:
        """The parenthesis that opens the arguments of a word that has just been read."""
        if token := self.take("("):
            return token
        raise self.error(word, f"have parentheses after `{word.kind}`", f"Write for instance {example}.")

    def label(self, *, joined_by: str = "&") -> int:
        """The column of the label that comes now: a quoted name, or words with spaces between them.

        `joined_by` is what labels have between them here, which may have been forgotten.
        """
        words = [self.next]
        self.position += 1
        while words[0].kind == "word" and (word := self.take("word")):
            words.append(word)
        columns = self.names.columns(" ".join(word.value for word in words))
        if len(columns) != 1:
            raise self.no_label(words, [self.names.labels[column] for column in columns], joined_by)
        return columns[0]

    def error(self, token: Token, rule: str, hint: str, got: str | None = None) -> QueryError:
        """The error that points at a token."""
        is_keyword = token.value.lower() in KEYWORDS and token.kind != "name"
        if is_keyword and self.names.columns(token.value):
            hint = f"If you mean the label, put it between quotation marks: {shown(token.value)}."
        return QueryError(self.text, token.place, rule, got or str(token), hint)

    def nothing_here(self) -> QueryError:
        """The error for a token where a condition should begin."""
        token = self.next
        if self.position == 0 and token.kind == "end":
            example = " & !".join(_typed(name) for name in self.names.labels[:2]) or "none"
            return self.error(token, "say what to look for", f"Write for instance {example}.", "an empty text")
        before = self.tokens[self.position - 1] if self.position else None
        if token.kind in OPERATORS.values() or before is None:
            hint = f"Add one before {token}, or remove {token}."
        else:
            hint = f"Add one, or remove {before if before.kind != '(' else 'the parentheses'}."
        return self.error(token, f"have a condition {f'after {before}' if before else 'at the beginning'}", hint)

    def left_over(self, opened: Token | None) -> QueryError:
        """The error for a token where a condition has ended, and the parenthesis too that was `opened` before it."""
        token = self.next
        before = self.tokens[self.position - 1]
        if token.kind == "end":
            return self.error(opened or token, "close every parenthesis", "Add ) where it ends.", "one that stays open")
        if token.kind == ")":
            return self.error(token, "open a parenthesis before it is closed", "Remove it, or add ( before it.")
        if token.kind == ",":
            return self.error(token, "have commas between the arguments of a function only", "Write & or | instead.")
        if token.kind == "compare":
            return self.not_comparable(token)
        hint = "Put & (both) or | (one of them) before it."
        return self.error(token, "have & or | between two conditions", hint, f"{token} right after {before}")

    def not_comparable(self, token: Token) -> QueryError:
        """The error for a comparison of something else than `count`."""
        hint = self._quoting_hint(token) or "Write for instance count >= 3."
        return self.error(token, "compare `count` with a whole number and nothing else", hint)

    def no_label(self, words: Sequence[Token], several: list[str], joined_by: str) -> QueryError:
        """The error for words that name no label, or several that are much the same."""
        name = " ".join(word.value for word in words)
        if several:
            rule = "name a label exactly where several are alike"
            return self.error(words[0], rule, f"Did you mean {listed(several, 'or')}?", shown(name))
        if not name:
            hint = self.names.suggestion(name)
            return self.error(words[0], "have a name between quotation marks", hint, "none")
        if self.next.kind == "(" and words[0].kind == "word" and (error := self._no_function(words[-1])):
            return error
        parts = self.names.split([word.value for word in words]) if 1 < len(words) <= _MOST_WORDS else None
        if parts:
            rule, sign = ("have a comma", ", ") if joined_by == "," else ("have & or |", " & ")
            hint = f"Did you mean {printable(sign.join(' '.join(part) for part in parts))}?"
            return self.error(words[len(parts[0])], f"{rule} between two labels", hint, "none")
        hint = self._quoting_hint(words[0]) or self.names.suggestion(name)
        return self.error(words[0], "name labels that exist", hint, shown(name))

    def _no_function(self, word: Token) -> QueryError | None:
        """The error for a word before a parenthesis; None if it is rather a label that was mistyped."""
        near = difflib.get_close_matches(word.value.lower()[:_MOST_LETTERS], FUNCTIONS, n=1)
        if not near and self.names.near(word.value):
            return None
        hint = f"Did you mean {near[0]}?" if near else f"The functions are {', '.join(FUNCTIONS)}."
        return self.error(word, "call functions that exist", hint)

    def _quoting_hint(self, token: Token) -> str:
        # `black and white` is two labels to the language, though it may be the name of one.
        for label in self.names.labels:
            start = self.text.find(label) if label and not is_bare(label) else -1
            if 0 <= start <= token.place < start + len(label):
                return f"Put a name with signs or keywords in it between quotation marks: {shown(label)}."
        return ""


def _typed(name: str) -> str:
    return name if is_bare(name) and len(name) <= SHOWN_NAME else shown(name)
