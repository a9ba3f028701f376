"""What a query says about the labels of a sample, as a tree that knows columns and no names."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Present:
    """The label of this column is present."""

    column: int


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Formula


@dataclass(frozen=True)
class And:
    """All parts hold; nothing to hold is true."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Or:
    """One part holds at least; nothing to hold is false."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Count:
    """How many of the parts hold lies between two numbers, both included.

    Attributes:
        low: The least.
        high: The most; None for no limit.
        parts: What is counted; None for all labels that there are, whether the query names them or not.
    """

    low: int
    high: int | None
    parts: tuple[Formula, ...] | None = None

    def allows(self, number: int) -> bool:
        """Whether a number lies between the two."""
        return self.low <= number and (self.high is None or number <= self.high)


Formula = Present | Not | And | Or | Count


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    """What a formula is made of directly."""
    if isinstance(formula, Present):
        return ()
    if isinstance(formula, Not):
        return (formula.part,)
    return formula.parts or ()


def named_columns(formula: Formula) -> Iterator[int]:
    """The columns that a formula names, once for each time that it does."""
    waiting = [formula]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Present):
            yield part.column
        waiting.extend(reversed(parts_of(part)))


def counts_all_labels(formula: Formula) -> bool:
    """Whether a formula asks how many labels there are of all, so that it is about every column."""
    waiting = [formula]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Count) and part.parts is None:
            return True
        waiting.extend(parts_of(part))
    return False


def holds(formula: Formula, present: Collection[int]) -> bool:
    """Whether a formula is true of a sample that carries the labels of these columns and no others.

    Example:
        >>> from manyhot.search.formula import And, Not, Present, holds
        >>> fork_without_knife = And((Present(0), Not(Present(2))))
        >>> holds(fork_without_knife, {0, 1}), holds(fork_without_knife, {0, 2})
        (True, False)
    """
    match formula:
        case Present(column):
            return column in present
        case Not(part):
            return not holds(part, present)
        case And(parts):
            return all(holds(part, present) for part in parts)
        case Or(parts):
            return any(holds(part, present) for part in parts)
        case Count(_, _, None):
            return formula.allows(len(present))
        case Count(_, _, parts):
            return formula.allows(sum(holds(part, present) for part in parts or ()))
