"""The door: a formula becomes the program that computes its probability."""

from __future__ import annotations

from collections.abc import Sequence

from manyhot.refusal import refusal
from manyhot.search.diagram import LARGEST, Diagram
from manyhot.search.formula import And, Count, Formula, Not, Or, Present, counts_all_labels, named_columns, parts_of
from manyhot.search.steps import Program
from manyhot.search.terms import Terms

__all__ = ["Program", "compile_formula"]


def compile_formula(formula: Formula, num_labels: int) -> Program:
    """The steps to the probability of a formula, for a sample whose labels are independent.

    Args:
        formula: What is asked for.
        num_labels: How many labels there are.

    Raises:
        Refusal: The formula names a label that is not there, or ties too many labels together.

    Example:
        >>> from manyhot.search.formula import And, Count, Present
        >>> only_first = And((Present(0), Count(1, 1)))
        >>> compile_formula(only_first, 3).literals
        ((0, True), (1, False), (2, False))
    """
    named = set(named_columns(formula))
    for column in named:
        if not 0 <= column < num_labels:
            rule = f"name columns of its {num_labels} labels"
            raise refusal("formula", "compile_formula", rule, f"column {column}", "Parse it with these labels.")
    rest = [column for column in range(num_labels) if column not in named] if counts_all_labels(formula) else []
    terms = Terms(len(rest))
    result = _enter(formula, terms, sorted(named), num_labels)
    for in_order in (False, True):
        program = Diagram(terms, rest, in_order=in_order).build(result)
        if program is not None:
            return program
    rule = f"have a decision diagram of at most {LARGEST:,} steps"
    got = "one that ties too many labels together"
    raise refusal("formula", "compile_formula", rule, got, "Ask for less at once.")


def _enter(formula: Formula, terms: Terms, named: Sequence[int], num_labels: int) -> int:
    """The term of a formula; without recursion, since a formula may be deeper than Python's stack."""
    ready: list[int] = []
    waiting: list[tuple[Formula, bool]] = [(formula, False)]
    while waiting:
        part, entered = waiting.pop()
        inner = parts_of(part)
        if not entered:
            waiting.append((part, True))
            waiting.extend((piece, False) for piece in reversed(inner))
            continue
        first = len(ready) - len(inner)
        ready[first:] = [_term(part, ready[first:], terms, named, num_labels)]
    return ready[0]


def _term(formula: Formula, parts: Sequence[int], terms: Terms, named: Sequence[int], num_labels: int) -> int:
    """The term of a formula whose parts are terms already."""
    match formula:
        case Present(column):
            return terms.variable(column)
        case Not():
            return ~parts[0]
        case And():
            return terms.conjunction(parts)
        case Or():
            return ~terms.conjunction(~part for part in parts)
        case Count(low, high, None):
            return terms.number(_between(low, high, num_labels), [terms.variable(column) for column in named], True)
        case Count(low, high, _):
            return terms.number(_between(low, high, len(parts)), parts, False)


def _between(low: int, high: int | None, most: int) -> int:
    """The bits of the numbers between two, both included, up to the most that there can be."""
    low, high = max(low, 0), most if high is None else min(high, most)
    return (2 << high) - (1 << low) if low <= high else 0
