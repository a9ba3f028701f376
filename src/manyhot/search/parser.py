"""Parses the text of a query into a formula; error messages suggest fixes."""

from __future__ import annotations

from collections.abc import Sequence

from manyhot.errors import InputError, suggest
from manyhot.formatting import printable
from manyhot.search.formula import MAX_COUNT, MAX_NESTING, And, Count, Formula, Label, Not, Or, normalize
from manyhot.search.lexer import (
    COUNTERS,
    FUNCTIONS,
    KEYWORDS,
    MAX_NAME_PREVIEW,
    OPERATORS,
    LabelIndex,
    QueryError,
    Token,
    can_be_unquoted,
    join_labels,
    preview_label,
    tokenize,
)

_MAX_DIGITS = len(str(MAX_COUNT))
# Longer runs of words are prose, not labels with missing operators.
_MAX_WORDS = 20
# Longer words are no mistyped functions, and are slow to compare.
_MAX_LETTERS = 20


class TokenReader:
    """Reads the tokens of a query one after the other.

    Args:
        text: The query.
        names: The known labels.
    """

    def __init__(self, text: str, names: LabelIndex) -> None:
        self.text = text
        self.names = names
        self.tokens = tokenize(text)
        self.position = 0

    @property
    def next(self) -> Token:
        """The next token."""
        return self.tokens[self.position]

    def take(self, *kinds: str) -> Token | None:
        """Reads the next token if it is of one of these kinds; else returns None."""
        token = self.next
        if token.kind not in kinds:
            return None
        self.position += 1
        return token

    def number(self, rule: str) -> int:
        """Reads a whole number."""
        value = self.next.value
        if self.next.kind == "word" and value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS:
            self.position += 1
            return int(value)
        raise self.error(self.next, rule, f"Write a whole number of at most {_MAX_DIGITS} digits, such as 3.")

    def comparison_operator(self, word: Token) -> str:
        """Reads the comparison operator after a word."""
        if token := self.take("compare"):
            return token.value
        raise self.error(word, "compare `count` with a number", "Write for instance count >= 3.")

    def opening(self, word: Token, example: str) -> Token:
        """Reads the parenthesis that opens the arguments of a word."""
        if token := self.take("("):
            return token
        raise self.error(word, f"have parentheses after `{word.kind}`", f"Write for instance {example}.")

    def label(self, *, expected_separator: str = "&") -> int:
        """Reads a label, a quoted name or words with spaces between them, and returns its column.

        `expected_separator` stands between labels here; it may be missing.
        """
        words = [self.next]
        self.position += 1
        while words[0].kind == "word" and (word := self.take("word")):
            words.append(word)
        columns = self.names.columns(" ".join(word.value for word in words))
        if len(columns) != 1:
            raise self.unknown_label(words, [self.names.labels[column] for column in columns], expected_separator)
        return columns[0]

    def error(self, token: Token, rule: str, hint: str, got: str | None = None) -> QueryError:
        """The error that points at a token."""
        is_keyword = token.value.lower() in KEYWORDS and token.kind != "name"
        if is_keyword and self.names.columns(token.value):
            hint = f"If you mean the label, put it between quotation marks: {preview_label(token.value)}."
        return QueryError(self.text, token.position, rule, got or str(token), hint)

    def missing_condition(self) -> QueryError:
        """The error for a token where a condition should begin."""
        token = self.next
        if self.position == 0 and token.kind == "end":
            example = " & !".join(_as_typed(name) for name in self.names.labels[:2]) or "none"
            return self.error(token, "say what to look for", f"Write for instance {example}.", "an empty text")
        before = self.tokens[self.position - 1] if self.position else None
        if token.kind in OPERATORS.values() or before is None:
            hint = f"Add one before {token}, or remove {token}."
        else:
            hint = f"Add one, or remove {before if before.kind != '(' else 'the parentheses'}."
        return self.error(token, f"have a condition {f'after {before}' if before else 'at the beginning'}", hint)

    def unexpected_token(self, opened: Token | None) -> QueryError:
        """The error for a token after the end of a condition; `opened` is the parenthesis around it."""
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
        """The error for a comparison of anything but `count`."""
        hint = self._quoting_hint(token) or "Write for instance count >= 3."
        return self.error(token, "compare `count` with a whole number and nothing else", hint)

    def unknown_label(self, words: Sequence[Token], several: list[str], expected_separator: str) -> QueryError:
        """The error for words that match no label, or several similar ones."""
        name = " ".join(word.value for word in words)
        if several:
            rule = "name a label exactly where several are alike"
            return self.error(words[0], rule, f"Did you mean {join_labels(several, 'or')}?", preview_label(name))
        if not name:
            hint = self.names.suggestion(name)
            return self.error(words[0], "have a name between quotation marks", hint, "none")
        if self.next.kind == "(" and words[0].kind == "word" and (error := self._unknown_function(words[-1])):
            return error
        parts = self.names.split([word.value for word in words]) if 1 < len(words) <= _MAX_WORDS else None
        if parts:
            rule, separator = ("have a comma", ", ") if expected_separator == "," else ("have & or |", " & ")
            hint = f"Did you mean {printable(separator.join(' '.join(part) for part in parts))}?"
            return self.error(words[len(parts[0])], f"{rule} between two labels", hint, "none")
        hint = self._quoting_hint(words[0]) or self.names.suggestion(name)
        return self.error(words[0], "name labels that exist", hint, preview_label(name))

    def _unknown_function(self, word: Token) -> QueryError | None:
        """The error for a word before a parenthesis; None if it is more likely a mistyped label."""
        hint = suggest(word.value.lower()[:_MAX_LETTERS], FUNCTIONS)
        if not hint and self.names.similar_names(word.value):
            return None
        return self.error(word, "call functions that exist", hint or f"The functions are {', '.join(FUNCTIONS)}.")

    def _quoting_hint(self, token: Token) -> str:
        # The parser reads `black and white` as two labels, though it may be the name of one.
        for label in self.names.labels:
            start = self.text.find(label) if label and not can_be_unquoted(label) else -1
            if 0 <= start <= token.position < start + len(label):
                return f"Put a name with operators or keywords in it between quotation marks: {preview_label(label)}."
        return ""


def _as_typed(name: str) -> str:
    return name if can_be_unquoted(name) and len(name) <= MAX_NAME_PREVIEW else preview_label(name)


_ONLY = "give `only` names of labels with commas between them"
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse_query(text: str, labels: Sequence[str]) -> Formula:
    """Parses a query.

    Labels are combined by `&`, `|` and `!`, or `and`, `or` and `not`, and by parentheses. `only(cat, sofa)` matches
    these labels and nothing else, `none` and `any` for samples without and with labels, `count >= 3` for the number of
    labels, `atleast(2, cat, dog, bird)`, `atmost` and `exactly` for how many of some conditions hold, and so does
    `2 <= count(cat, dog, bird) <= 3`. A name with operators or keywords in it is put between quotation marks.

    Args:
        text: The query.
        labels: The names of the labels, all different, in the order of the columns.

    Returns:
        The formula in its normal form.

    Raises:
        QueryError: The query cannot be parsed. The message is one line and points at the wrong character.

    Example:
        >>> parse_query("fork & !knife", ["apple", "fork", "knife"])
        And(parts=(Label(column=1), Not(part=Label(column=2))))
        >>> parse_query("fork & knfe", ["fork", "knife"])
        Traceback (most recent call last):
        manyhot.search.lexer.QueryError: ...; got 'knfe' at character 8: fork & ▸knfe. Did you mean 'knife'?
    """
    if not isinstance(text, str):
        raise InputError("query", "search", "be text", type(text).__name__, "Pass for instance 'cat & !dog'.")
    parser = _Parser(text, LabelIndex(labels))
    formula = parser.formula()
    if parser.next.kind != "end":
        raise parser.unexpected_token(None)
    return normalize(formula)


class _Parser(TokenReader):
    """A recursive-descent parser: each method parses what it is named after, and returns its formula."""

    level = 0

    def formula(self) -> Formula:
        """Conditions with operators between them; `&` binds more tightly than `|`."""
        parts = [[self.condition()]]
        while operator := self.take("&", "|"):
            condition = self.condition()
            if operator.kind == "&":
                parts[-1].append(condition)
            else:
                parts.append([condition])
        return Or(tuple(And(tuple(part)) for part in parts))

    def condition(self) -> Formula:
        negated = False
        while self.take("!"):
            negated = not negated
        formula = self.plain_condition()
        return Not(formula) if negated else formula

    def plain_condition(self) -> Formula:
        if opening := self.take("("):
            return self.enclosed(opening)[0]
        if word := self.take("none", "any"):
            return self.none_or_any(word)
        if word := self.take("only"):
            return self.only(word)
        if word := self.take(*COUNTERS):
            return self.counter(word)
        if word := self.take("count"):
            return self.comparison(word)
        if self.next.kind == "word" and self.tokens[self.position + 1].kind == "compare":
            return self.chain()
        if self.next.kind in ("word", "name"):
            return Label(self.label())
        raise self.missing_condition()

    def enclosed(self, opening: Token, *, commas: bool = False) -> tuple[Formula, ...]:
        """The content of opened parentheses: one condition, or several with commas between them."""
        if self.level == MAX_NESTING:
            rule = f"nest parentheses at most {MAX_NESTING} levels deep"
            raise self.error(opening, rule, "Leave out those that are not needed.", "one more")
        self.level += 1
        parts = [self.formula()]
        while commas and self.take(","):
            parts.append(self.formula())
        if not self.take(")"):
            raise self.unexpected_token(opening)
        self.level -= 1
        return tuple(parts)

    def none_or_any(self, word: Token) -> Formula:
        if self.next.kind == "(":
            instead = "exactly(0, ...)" if word.kind == "none" else "atleast(1, ...)"
            rule = f"have no parentheses after `{word.kind}`, which is about all labels"
            raise self.error(self.next, rule, f"Write {instead} for some of them.")
        return Count(0, 0) if word.kind == "none" else Count(1, None)

    def only(self, word: Token) -> Formula:
        example = "only(cat, sofa)"
        opening = self.opening(word, example)
        columns: dict[int, None] = {}
        comma: Token | None = opening
        while comma:
            if self.next.kind not in ("word", "name"):
                hints = {"!": "It excludes other labels by itself.", ")": "For samples without labels, write none."}
                raise self.error(self.next, _ONLY, hints.get(self.next.kind, f"Write for instance {example}."))
            columns[self.label(expected_separator=",")] = None
            comma = self.take(",")
        if self.next.kind not in (")", "end"):
            raise self.error(self.next, _ONLY, "Put a comma between two names, and ) after the last.")
        if not self.take(")"):
            raise self.unexpected_token(opening)
        return And((*map(Label, columns), Count(len(columns), len(columns))))

    def counter(self, word: Token) -> Formula:
        example = f"{word.kind}(2, cat, dog, bird)"
        opening = self.opening(word, example)
        number = self.number(f"give `{word.kind}` a whole number first, as in {example}")
        if not self.take(","):
            rule = f"give `{word.kind}` conditions after the number, with commas between them"
            raise self.error(self.next, rule, f"Write for instance {example}.")
        low = 0 if word.kind == "atmost" else number
        high = None if word.kind == "atleast" else number
        return Count(low, high, self.enclosed(opening, commas=True))

    def counted(self) -> tuple[Formula, ...] | None:
        """What is counted, after `count`: the conditions in parentheses, or all labels."""
        opening = self.take("(")
        return self.enclosed(opening, commas=True) if opening else None

    def comparison(self, word: Token) -> Formula:
        """`count >= 3`, of which `count` has been read."""
        parts = self.counted()
        operator = self.comparison_operator(word)
        return _comparison(operator, self.number("compare `count` with a whole number"), parts)

    def chain(self) -> Formula:
        """`3 <= count`, or `2 <= count <= 4`."""
        first = self.next
        if not first.value.isdigit():
            raise self.not_comparable(first)
        number = self.number("compare `count` with a whole number")
        operator = self.comparison_operator(first)
        if not (word := self.take("count")):
            raise self.error(self.next, "compare a number with `count`", "Write for instance 3 <= count.")
        parts = self.counted()
        mirrored = _MIRRORED.get(operator, operator)
        if self.next.kind != "compare":
            return _comparison(mirrored, number, parts)
        if operator[0] not in "<>" or operator[0] != self.next.value[0]:
            raise self.error(self.next, "compare in one direction", "Write for instance 2 <= count <= 4.")
        other_operator = self.comparison_operator(word)
        other = self.number("compare `count` with a whole number")
        (one_low, one_high), (low, high) = _limits(mirrored, number), _limits(other_operator, other)
        return Count(max(one_low, low), one_high if high is None else high, parts)


def _comparison(operator: str, number: int, parts: tuple[Formula, ...] | None) -> Formula:
    if operator == "!=":
        return Not(Count(number, number, parts))
    return Count(*_limits(operator, number), parts)


def _limits(operator: str, number: int) -> tuple[int, int | None]:
    match operator:
        case ">=":
            return number, None
        case ">":
            return number + 1, None
        case "<=":
            return 0, number
        case "<":
            return 0, number - 1
    return number, number
