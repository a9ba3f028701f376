"""Evaluates a decision diagram over any semiring: probabilities, their logarithms, truth values, or SQL text.

Every node has two values: that something holds, and that it does not. Both are sums and products of earlier pairs and
nothing is ever subtracted, so neither loses digits, however near to 0 or 1 the other is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from manyhot.search.diagram import AllOf, Branch, CountIn, Diagram, Literal, Tally

Value = TypeVar("Value")
Pair = tuple[Value, Value]


class Semiring(Protocol[Value]):
    """A zero, a one, sums and products."""

    @property
    def zero(self) -> Value:
        """The value of an impossible event."""

    @property
    def one(self) -> Value:
        """The value of a certain event."""

    def plus(self, left: Value, right: Value) -> Value:
        """The value of the union of two disjoint events."""

    def times(self, left: Value, right: Value) -> Value:
        """The value of the intersection of two independent events."""


def evaluate(diagram: Diagram, semiring: Semiring[Value], literal: Callable[[int], Pair[Value]]) -> Pair[Value]:
    """Evaluates the steps in order and frees each value after its last use.

    Args:
        diagram: The steps.
        semiring: The values and their operations.
        literal: Returns the pair of a label column.

    Returns:
        The value that the formula holds, and the value that it does not.
    """
    walk = _Evaluator(semiring)
    for index, (step, done) in enumerate(zip(diagram.steps, diagram.last_uses, strict=True)):
        match step:
            case Literal(column):
                walk.pairs[index] = literal(column)
            case AllOf(parts):
                walk.pairs[index] = walk.product(parts)
            case Branch(on, present, absent):
                walk.pairs[index] = walk.choice(on, present, absent)
            case Tally(parts, base, most):
                walk.tallies[index] = walk.tally(parts, base, most)
            case CountIn(tally, allowed):
                walk.pairs[index] = walk.within(tally, allowed)
        for old in done:
            walk.pairs.pop(old, None)
            walk.tallies.pop(old, None)
    return walk.pair(diagram.result)


class _Evaluator(Generic[Value]):
    """The values so far, and the evaluation of each kind of step."""

    def __init__(self, semiring: Semiring[Value]) -> None:
        self.semiring = semiring
        self.plus, self.times = semiring.plus, semiring.times
        self.pairs: dict[int, Pair[Value]] = {}
        self.tallies: dict[int, list[Value]] = {}

    def pair(self, part: int) -> Pair[Value]:
        if part >= 0:
            return self.pairs[part]
        holds, fails = self.pairs[~part]
        return fails, holds

    def product(self, parts: Sequence[int]) -> Pair[Value]:
        if not parts:
            return self.semiring.one, self.semiring.zero
        return _reduce_pairwise([self.pair(part) for part in parts], self._both)

    def _both(self, left: Pair[Value], right: Pair[Value]) -> Pair[Value]:
        return self.times(left[0], right[0]), self.plus(left[1], self.times(left[0], right[1]))

    def choice(self, on: int, present: int, absent: int) -> Pair[Value]:
        is_present, is_absent = self.pairs[on]
        holds = [self.times(is_present, self.pair(present)[0]), self.times(is_absent, self.pair(absent)[0])]
        fails = [self.times(is_present, self.pair(present)[1]), self.times(is_absent, self.pair(absent)[1])]
        return self.plus(*holds), self.plus(*fails)

    def within(self, tally: int, allowed: Sequence[bool]) -> Pair[Value]:
        values = list(zip(self.tallies[tally], allowed, strict=True))
        holds = [value for value, is_allowed in values if is_allowed]
        fails = [value for value, is_allowed in values if not is_allowed]
        return self._sum(holds), self._sum(fails)

    def tally(self, parts: Sequence[int], base: int | None, most: int) -> list[Value]:
        """Values of the numbers 0 to `most`, the last for all above as well."""
        single = [[fails, holds] for holds, fails in map(self.pair, parts)]
        if base is not None:
            single.append(self._lumped(self.tallies[base], most))
        return _reduce_pairwise(single, lambda left, right: self._added(left, right, most))

    def _sum(self, values: list[Value]) -> Value:
        return _reduce_pairwise(values, self.plus)

    def _added(self, left: list[Value], right: list[Value], most: int) -> list[Value]:
        """The values of the sum of two independent numbers."""
        top = min(len(left) + len(right) - 2, most)
        values = []
        for number in range(top):
            first, last = max(0, number - len(right) + 1), min(number, len(left) - 1)
            terms = [self.times(left[i], right[number - i]) for i in range(first, last + 1)]
            values.append(self._sum(terms))
        # `top` or more: the left has that many alone, or it has fewer and the right has enough.
        terms = left[top : top + 1]
        tails = self._tails(right)
        for i in range(max(0, top - len(right) + 1), min(top, len(left))):
            terms.append(self.times(left[i], tails[top - i]))
        values.append(self._sum(terms))
        return values

    def _tails(self, values: list[Value]) -> dict[int, Value]:
        """For each number but 0 the value of that number or more."""
        tails = {len(values) - 1: values[-1]}
        for number in range(len(values) - 2, 0, -1):
            tails[number] = self.plus(values[number], tails[number + 1])
        return tails

    def _lumped(self, values: list[Value], most: int) -> list[Value]:
        if len(values) <= most + 1:
            return values
        return [*values[:most], self._sum(values[most:])]


Item = TypeVar("Item")


def _reduce_pairwise(items: list[Item], join: Callable[[Item, Item], Item]) -> Item:
    """Reduces by pairs: rounding errors grow slowly, and texts are not nested deeply."""
    while len(items) > 1:
        merged = [join(left, right) for left, right in zip(items[::2], items[1::2], strict=False)]
        items = merged + items[2 * len(merged) :]
    return items[0]
