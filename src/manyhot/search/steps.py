"""The steps to the probability of a formula, as data: what is computed from what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

# A reference to a step is its place in the list; the complement of the place (`~place`) stands for its opposite.
_MARGIN = 2.0**-20  # wider than all rounding of products and of columns of 32 bits


@dataclass(frozen=True)
class Literal:
    """The label of this column is present."""

    column: int


@dataclass(frozen=True)
class Product:
    """All of some independent parts hold."""

    parts: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """One part holds if a label is present and another if it is not; neither depends on that label."""

    literal: int
    present: int
    absent: int


@dataclass(frozen=True)
class Tally:
    """The probabilities that 0, 1, 2, … of some independent parts hold; the last is for `most` and all above.

    Attributes:
        parts: What is counted.
        more: A tally of others to count on with, or None.
        most: The number from which on numbers are no longer told apart.
        size: How many parts are counted, those of `more` included.
    """

    parts: tuple[int, ...]
    more: int | None
    most: int
    size: int


@dataclass(frozen=True)
class Within:
    """The number of a tally is an allowed one."""

    tally: int
    allowed: tuple[bool, ...]


Step = Literal | Product | Choice | Tally | Within


def references(step: Step) -> tuple[int, ...]:
    """The places of the steps that a step needs."""
    match step:
        case Literal():
            return ()
        case Product(parts):
            used = parts
        case Choice(literal, present, absent):
            used = (literal, present, absent)
        case Tally(parts, more):
            used = parts if more is None else (*parts, more)
        case Within(tally):
            used = (tally,)
    return tuple(max(part, ~part) for part in used)


@dataclass(frozen=True)
class Program:
    """The steps to the probability of a formula.

    Attributes:
        steps: Each needs only steps before it.
        result: Which step gives the answer; the complement of its place if the answer is the opposite of the step.
        columns: The label columns that are read, in rising order.
    """

    steps: tuple[Step, ...]
    result: int
    columns: tuple[int, ...]

    @cached_property
    def literals(self) -> tuple[tuple[int, bool], ...]:
        """The labels that must be present (True) or absent (False) for the formula to hold, as far as it is a list."""
        step = self.steps[max(self.result, ~self.result)]
        if isinstance(step, Literal):
            return ((step.column, self.result >= 0),)
        if not isinstance(step, Product) or self.result < 0:
            return ()
        found = []
        for part in step.parts:
            inner = self.steps[max(part, ~part)]
            if isinstance(inner, Literal):
                found.append((inner.column, part >= 0))
        return tuple(sorted(found))

    @cached_property
    def is_conjunction(self) -> bool:
        """Whether the formula says of some labels that they are present or absent, and nothing else."""
        step = self.steps[max(self.result, ~self.result)]
        if isinstance(step, Product):
            return self.result >= 0 and len(step.parts) == len(self.literals)
        return isinstance(step, Literal)

    def bounds(self, least: float) -> list[tuple[int, float | None, float | None]]:
        """What single probabilities must be for the formula to have at least a given one.

        Args:
            least: The probability that is asked for.

        Returns:
            Column, lowest and highest probability of its label, None for no bound. They are a little too wide rather
            than too narrow, so that rounding excludes nothing.
        """
        low = least * (1 - _MARGIN)
        if low <= 0:
            return []
        high = 1 - low + _MARGIN
        bounds = [(column, low, None) if wanted else (column, None, high) for column, wanted in self.literals]
        return [bound for bound in bounds if bound[2] is None or bound[2] < 1]

    @cached_property
    def last_uses(self) -> tuple[tuple[int, ...], ...]:
        """For each step the steps that nothing needs after it."""
        last: dict[int, int] = {}
        for place, step in enumerate(self.steps):
            last.update(dict.fromkeys(references(step), place))
        last.pop(max(self.result, ~self.result), None)
        done: list[list[int]] = [[] for _ in self.steps]
        for place, user in last.items():
            done[user].append(place)
        return tuple(map(tuple, done))
