"""From the text of a query to its formula."""

from __future__ import annotations

from collections.abc import Sequence

from manyhot.refusal import refusal
from manyhot.search.complaint import QueryError
from manyhot.search.formula import And, Count, Formula, Not, Or, Present
from manyhot.search.names import LabelNames
from manyhot.search.normal import normal_form
from manyhot.search.reading import Reader
from manyhot.search.words import COUNTERS, Token

__all__ = ["DEEPEST", "QueryError", "parse"]

DEEPEST = 100

_ONLY = "give `only` names of labels with commas between them"
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse(text: str, labels: Sequence[str]) -> Formula:
    """Reads a query.

    Labels are joined by `&`, `|` and `!`, or by `and`, `or` and `not`, and by parentheses. `only(cat, sofa)` asks for
    these labels and nothing else, `none` and `any` for samples without and with labels, `count >= 3` for the number of
    labels, `atleast(2, cat, dog, bird)`, `atmost` and `exactly` for how many of some conditions hold, and so does
    `2 <= count(cat, dog, bird) <= 3`. A name with signs or keywords in it is put between quotation marks.

    Args:
        text: The query.
        labels: The names of the labels, all different, in the order of the columns.

    Returns:
        The formula in its normal form: nothing is nested without need.

    Raises:
        QueryError: The query cannot be read. The error is one line and points at the character.

    Example:
        >>> parse("fork & !knife", ["apple", "fork", "knife"])
        And(parts=(Present(column=1), Not(part=Present(column=2))))
        >>> parse("fork & knfe", ["fork", "knife"])
        Traceback (most recent call last):
        manyhot.search.complaint.QueryError: ...; got 'knfe' at character 8: fork & ▸knfe. Did you mean 'knife'?
    """
    if not isinstance(text, str):
        raise refusal("query", "search", "be text", type(text).__name__, "Pass for instance 'cat & !dog'.")
    parser = _Parser(text, LabelNames(labels))
    formula = parser.formula()
    if parser.next.kind != "end":
        raise parser.left_over(None)
    return normal_form(formula)


class _Parser(Reader):
    """One reading of a query: each method reads what it is named after, and gives the formula of it."""

    level = 0

    def formula(self) -> Formula:
        """Conditions with operators between them, of which `&` binds more firmly than `|`."""
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
            return self.tagged(word)
        if word := self.take("only"):
            return self.only(word)
        if word := self.take(*COUNTERS):
            return self.counter(word)
        if word := self.take("count"):
            return self.comparison(word)
        if self.next.kind == "word" and self.tokens[self.position + 1].kind == "compare":
            return self.chain()
        if self.next.kind in ("word", "name"):
            return Present(self.label())
        raise self.nothing_here()

    def enclosed(self, opening: Token, *, commas: bool = False) -> tuple[Formula, ...]:
        """What stands in parentheses that have been opened: one condition, or several with commas between them."""
        if self.level == DEEPEST:
            rule = f"nest parentheses at most {DEEPEST} levels deep"
            raise self.error(opening, rule, "Leave out those that are not needed.", "one more")
        self.level += 1
        parts = [self.formula()]
        while commas and self.take(","):
            parts.append(self.formula())
        if not self.take(")"):
            raise self.left_over(opening)
        self.level -= 1
        return tuple(parts)

    def tagged(self, word: Token) -> Formula:
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
            columns[self.label(joined_by=",")] = None
            comma = self.take(",")
        if self.next.kind not in (")", "end"):
            raise self.error(self.next, _ONLY, "Put a comma between two names, and ) after the last.")
        if not self.take(")"):
            raise self.left_over(opening)
        return And((*map(Present, columns), Count(len(columns), len(columns))))

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
        sign = self.sign(word)
        return _compared(sign, self.number("compare `count` with a whole number"), parts)

    def chain(self) -> Formula:
        """`3 <= count`, or `2 <= count <= 4`."""
        first = self.next
        if not first.value.isdigit():
            raise self.not_comparable(first)
        number = self.number("compare `count` with a whole number")
        sign = self.sign(first)
        if not (word := self.take("count")):
            raise self.error(self.next, "compare a number with `count`", "Write for instance 3 <= count.")
        parts = self.counted()
        mirrored = _MIRRORED.get(sign, sign)
        if self.next.kind != "compare":
            return _compared(mirrored, number, parts)
        if sign[0] not in "<>" or sign[0] != self.next.value[0]:
            raise self.error(self.next, "compare in one direction", "Write for instance 2 <= count <= 4.")
        other_sign = self.sign(word)
        other = self.number("compare `count` with a whole number")
        (one_low, one_high), (low, high) = _limits(mirrored, number), _limits(other_sign, other)
        return Count(max(one_low, low), one_high if high is None else high, parts)


def _compared(sign: str, number: int, parts: tuple[Formula, ...] | None) -> Formula:
    if sign == "!=":
        return Not(Count(number, number, parts))
    return Count(*_limits(sign, number), parts)


def _limits(sign: str, number: int) -> tuple[int, int | None]:
    match sign:
        case ">=":
            return number, None
        case ">":
            return number + 1, None
        case "<=":
            return 0, number
        case "<":
            return 0, number - 1
    return number, number
