"""The one walk through the steps of a program, with whatever can be added and multiplied.

Every step gives two values: that something holds, and that it does not. Both are sums and products of earlier pairs and
nothing is ever subtracted, so neither loses digits, however near to 0 or 1 the other is. The walk is the same for
probabilities, for their logarithms, for "possible" and "impossible", and for the text of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from manyhot.search.steps import Choice, Literal, Product, Program, Tally, Within

Value = TypeVar("Value")
Pair = tuple[Value, Value]


class Arithmetic(Protocol[Value]):
    """What to compute with: a zero, a one, sums and products."""

    @property
    def zero(self) -> Value:
        """What cannot be."""

    @property
    def one(self) -> Value:
        """What is certain."""

    def plus(self, left: Value, right: Value) -> Value:
        """One of two that exclude each other."""

    def times(self, left: Value, right: Value) -> Value:
        """Both of two that are independent."""


def evaluate(program: Program, numbers: Arithmetic[Value], literal: Callable[[int], Pair[Value]]) -> Pair[Value]:
    """Goes through the steps and keeps no value longer than it is needed.

    Args:
        program: The steps.
        numbers: What to compute with.
        literal: Gives the pair of a label column.

    Returns:
        That the formula holds, and that it does not.
    """
    walk = _Walk(numbers)
    for place, (step, done) in enumerate(zip(program.steps, program.last_uses, strict=True)):
        match step:
            case Literal(column):
                walk.pairs[place] = literal(column)
            case Product(parts):
                walk.pairs[place] = walk.product(parts)
            case Choice(on, present, absent):
                walk.pairs[place] = walk.choice(on, present, absent)
            case Tally(parts, more, most):
                walk.tallies[place] = walk.tally(parts, more, most)
            case Within(tally, allowed):
                walk.pairs[place] = walk.within(tally, allowed)
        for old in done:
            walk.pairs.pop(old, None)
            walk.tallies.pop(old, None)
    return walk.pair(program.result)


class _Walk(Generic[Value]):
    """The values so far, and the rule of each kind of step."""

    def __init__(self, numbers: Arithmetic[Value]) -> None:
        self.numbers = numbers
        self.plus, self.times = numbers.plus, numbers.times
        self.pairs: dict[int, Pair[Value]] = {}
        self.tallies: dict[int, list[Value]] = {}

    def pair(self, part: int) -> Pair[Value]:
        if part >= 0:
            return self.pairs[part]
        holds, fails = self.pairs[~part]
        return fails, holds

    def product(self, parts: Sequence[int]) -> Pair[Value]:
        if not parts:
            return self.numbers.one, self.numbers.zero
        return _in_pairs([self.pair(part) for part in parts], self._both)

    def _both(self, left: Pair[Value], right: Pair[Value]) -> Pair[Value]:
        return self.times(left[0], right[0]), self.plus(left[1], self.times(left[0], right[1]))

    def choice(self, on: int, present: int, absent: int) -> Pair[Value]:
        here, gone = self.pairs[on]
        holds = [self.times(here, self.pair(present)[0]), self.times(gone, self.pair(absent)[0])]
        fails = [self.times(here, self.pair(present)[1]), self.times(gone, self.pair(absent)[1])]
        return self.plus(*holds), self.plus(*fails)

    def within(self, tally: int, allowed: Sequence[bool]) -> Pair[Value]:
        found = list(zip(self.tallies[tally], allowed, strict=True))
        holds = [value for value, good in found if good]
        fails = [value for value, good in found if not good]
        return self._sum(holds), self._sum(fails)

    def tally(self, parts: Sequence[int], more: int | None, most: int) -> list[Value]:
        """Values of the numbers 0 to `most`, the last for all above as well."""
        single = [[fails, holds] for holds, fails in map(self.pair, parts)]
        if more is not None:
            single.append(self._lumped(self.tallies[more], most))
        return _in_pairs(single, lambda left, right: self._added(left, right, most))

    def _sum(self, values: list[Value]) -> Value:
        return _in_pairs(values, self.plus)

    def _added(self, left: list[Value], right: list[Value], most: int) -> list[Value]:
        """The values of the sum of two independent numbers."""
        top = min(len(left) + len(right) - 2, most)
        values = []
        for number in range(top):
            first, last = max(0, number - len(right) + 1), min(number, len(left) - 1)
            terms = [self.times(left[i], right[number - i]) for i in range(first, last + 1)]
            values.append(self._sum(terms))
        # `top` or more: the left has so many alone, or it has less and the right has enough.
        terms = left[top : top + 1]
        tails = self._tails(right)
        for i in range(max(0, top - len(right) + 1), min(top, len(left))):
            terms.append(self.times(left[i], tails[top - i]))
        values.append(self._sum(terms))
        return values

    def _tails(self, values: list[Value]) -> dict[int, Value]:
        """For each number but 0 the value that it or more comes out."""
        tails = {len(values) - 1: values[-1]}
        for number in range(len(values) - 2, 0, -1):
            tails[number] = self.plus(values[number], tails[number + 1])
        return tails

    def _lumped(self, values: list[Value], most: int) -> list[Value]:
        if len(values) <= most + 1:
            return values
        return [*values[:most], self._sum(values[most:])]


Item = TypeVar("Item")


def _in_pairs(items: list[Item], join: Callable[[Item, Item], Item]) -> Item:
    """Joins neighbours until one is left: few roundings one upon another, and no deep nests in texts."""
    while len(items) > 1:
        joined = [join(left, right) for left, right in zip(items[::2], items[1::2], strict=False)]
        items = joined + items[2 * len(joined) :]
    return items[0]
