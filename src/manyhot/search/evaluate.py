"""Evaluates a decision diagram over any semiring: probabilities, their logarithms, or truth values.

Every node has two values: that something holds, and that it does not. Both are sums and products of earlier pairs and
nothing is ever subtracted, so neither loses digits, however near to 0 or 1 the other is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from manyhot.search.diagram import BOTH, FAILS, AllOf, Branch, CountIn, Diagram, Literal, Tally, Unnamed

Array = np.ndarray[Any, Any]
Pair = tuple[Any, Any]


class Semiring(NamedTuple):
    """Values of events, and their operations.

    Attributes:
        zero: The value of an impossible event.
        one: The value of a certain event.
        plus: The value of the union of two disjoint events.
        times: The value of the intersection of two independent events.
    """

    zero: Any
    one: Any
    plus: np.ufunc
    times: np.ufunc


PROBABILITIES = Semiring(0.0, 1.0, np.add, np.multiply)
LOGARITHMS = Semiring(-np.inf, 0.0, np.logaddexp, np.add)
TRUTH = Semiring(np.False_, np.True_, np.logical_or, np.logical_and)


class Counts(NamedTuple):
    """The values (M, n) that 0, 1, ... of some events happen, the last for all above, and how many events there are."""

    values: Array
    events: int


class DiagramEvaluator:
    """Computes the values of a diagram node by node.

    Args:
        diagram: The nodes.
        semiring: The values and their operations.
        label: Returns the pair of a label column: present and absent, of which only the wanted ones are used.
        rows: How many rows there are.
        wanted: Which values of the formula are wanted: `HOLDS` or `BOTH`.
    """

    def __init__(
        self, diagram: Diagram, semiring: Semiring, label: Callable[[int, int], Pair], rows: int, wanted: int
    ) -> None:
        self.diagram, self.label, self.rows = diagram, label, rows
        self.wanted = diagram.needed_values[wanted]
        self.zero, self.one = semiring.zero, semiring.one
        self._plus, self._times = semiring.plus, semiring.times
        self.values: dict[int, Any] = {}

    def result(self) -> Pair:
        """The value that the formula holds, and the value that it does not; those that are not wanted are arbitrary."""
        for index, node, done in self.diagram.steps:
            match node:
                case Literal(column):
                    value: Any = self.label(column, self.wanted[index])
                case AllOf(parts):
                    value = self.product([self.pair(part) for part in parts], self.wanted[index])
                case Branch(literal, present, absent):
                    given = self.pair(present), self.pair(absent)
                    value = self.choice(self.pair(literal), *given, self.wanted[index])
                case Unnamed(counts_absent, cap):
                    pairs = (self.label(column, BOTH) for column in self.diagram.unnamed)
                    value = self.tally((pair[::-1] if counts_absent else pair for pair in pairs), None, cap)
                case Tally(parts, base, cap):
                    value = self.tally(map(self.pair, parts), None if base is None else self.values[base], cap)
                case CountIn(tally, allowed, reach):
                    value = self.within(self.values[tally].values, allowed, reach)
            self.values[index] = value
            for old in done:
                del self.values[old]
        return self.pair(self.diagram.result)

    def pair(self, part: int) -> Pair:
        """The values of a node or of its opposite."""
        holds, fails = self.values[max(part, ~part)]
        return (holds, fails) if part >= 0 else (fails, holds)

    def plus(self, left: Any, right: Any) -> Any:
        """The sum; nothing is computed for zeros that are known."""
        return right if left is self.zero else left if right is self.zero else self._plus(left, right)

    def times(self, left: Any, right: Any) -> Any:
        """The product; nothing is computed for zeros and ones that are known."""
        if left is self.zero or right is self.zero:
            return self.zero
        return right if left is self.one else left if right is self.one else self._times(left, right)

    def product(self, pairs: Sequence[Pair], wanted: int) -> Pair:
        """That all of some independent events happen."""
        holds, fails = self.one, self.zero
        for present, absent in pairs:
            if wanted & FAILS:
                fails = self.plus(fails, self.times(holds, absent))
            holds = self.times(holds, present)
        return holds, fails

    def choice(self, literal: Pair, present: Pair, absent: Pair, wanted: int) -> Pair:
        """One event if a label is present, and another if it is not."""
        holds, fails = (
            self.plus(self.times(literal[0], present[side]), self.times(literal[1], absent[side]))
            if wanted >> side & 1
            else self.zero
            for side in (0, 1)
        )
        return holds, fails

    def tally(self, pairs: Iterable[Pair], base: Counts | None, cap: int) -> Counts:
        """The values that 0, 1, ..., `cap` or more of some events happen, with those that are counted already."""
        counts, events = np.full((cap + 1, self.rows), self.zero), 0
        counts[0] = self.one
        if base is not None:
            events, known = base.events, base.values[: cap + 1]
            counts[: len(known)] = known
            for value in base.values[cap + 1 :]:
                self._plus(counts[cap], value, out=counts[cap])
        above = np.empty_like(counts)
        for present, absent in pairs:
            top = min(events + 1, cap)
            self._times(counts[:top], present, out=above[:top])
            self._times(counts[:top], absent, out=counts[:top])
            self._plus(counts[1 : top + 1], above[:top], out=counts[1 : top + 1])
            events += 1
        return Counts(counts, events)

    def within(self, counts: Array, allowed: int, reach: int) -> Pair:
        """The values that a number is allowed, and that it is not."""
        sides = {True: self.zero, False: self.zero}
        for number, count in enumerate(counts):
            side = bool(allowed >> min(number, reach) & 1)
            sides[side] = self.plus(sides[side], count)
        return sides[True], sides[False]


class Encoding(NamedTuple):
    """How the cells of a label say how probable it is.

    Attributes:
        probs: Give the probabilities that it is present and absent.
        logs: Give their logarithms.
    """

    probs: tuple[Callable[[Array], Array], Callable[[Array], Array]]
    logs: tuple[Callable[[Array], Array], Callable[[Array], Array]]


def _sigmoid(log_odds: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-log_odds))
    return result


PROBS = Encoding((lambda cells: cells, lambda cells: 1 - cells), (np.log, lambda cells: np.log1p(-cells)))
LOG_ODDS = Encoding(
    (_sigmoid, lambda cells: _sigmoid(-cells)),
    (lambda cells: -np.logaddexp(0, -cells), lambda cells: -np.logaddexp(0, cells)),
)
CHUNK_CELLS = 1 << 16  # values of a node at a time: few enough for the cache, and enough for threads not to collide
SAFE = 1e-280  # above this a probability has lost nothing to products that were too small for a float64


def evaluate(
    diagram: Diagram,
    semiring: Semiring,
    values: tuple[Callable[[Array], Array], Callable[[Array], Array]],
    cells: Mapping[int, Array],
    rows: int,
    wanted: int = BOTH,
) -> Pair:
    """The values (2, n) that a formula holds and that it does not.

    Args:
        diagram: The formula, compiled.
        semiring: The values and their operations.
        values: Turn the cells of a label into its values: present, and absent.
        cells: (rows,) for each of `diagram.columns`.
        rows: How many there are.
        wanted: Which of the two values are wanted; the other is arbitrary.
    """

    def label(column: int, wanted: int) -> Pair:
        present, absent = (
            value(cells[column]) if wanted >> side & 1 else semiring.zero for side, value in enumerate(values)
        )
        return present, absent

    with np.errstate(all="ignore"):
        return DiagramEvaluator(diagram, semiring, label, rows, wanted).result()


def chunk_rows(diagram: Diagram) -> int:
    """How many rows to compute at a time."""
    widest = max((node.cap for _, node, _ in diagram.steps if isinstance(node, Tally | Unnamed)), default=1)
    return max(1024, CHUNK_CELLS // (widest + 1))


def probabilities(diagram: Diagram, cells: Mapping[int, Array], rows: int, encoding: Encoding = PROBS) -> Array:
    """The probabilities (2, rows) that a formula holds and that it does not."""
    result, step = np.empty((2, rows)), chunk_rows(diagram)
    for start in range(0, rows, step):
        chunk = slice(start, start + step)
        some = {column: values[chunk].astype(np.float64, copy=False) for column, values in cells.items()}
        size = min(step, rows - start)
        result[0, chunk], result[1, chunk] = evaluate(diagram, PROBABILITIES, encoding.probs, some, size)
    return result


def log_probs(
    diagram: Diagram, cells: Mapping[int, Array], rows: int, encoding: Encoding = PROBS
) -> tuple[Array, Array]:
    """The probabilities (rows,) that a formula holds, and their logarithms.

    Labels are taken for independent given the sample. The logarithms have a relative error of about 1e-12, also for
    probabilities too small for a float and for those as near to 1 as 1 - 1e-300, so that ranking by them has no false
    ties.

    Args:
        diagram: The formula, compiled.
        cells: (rows,) for each of `diagram.columns`.
        rows: How many there are.
        encoding: What the cells are.
    """
    holds, fails = probabilities(diagram, cells, rows, encoding)
    with np.errstate(divide="ignore"):
        logs = np.where(holds < fails, np.log(holds), np.log1p(-np.minimum(fails, 1)))
    faint = np.flatnonzero(np.minimum(holds, fails) < SAFE)
    if len(faint):  # slower, in logarithms from the first step on
        some = {column: values[faint].astype(np.float64, copy=False) for column, values in cells.items()}
        held, failed = evaluate(diagram, LOGARITHMS, encoding.logs, some, len(faint))
        # Near 1 the logarithm follows from the opposite, which has all its digits.
        logs[faint] = np.where(held < failed, held, np.log1p(-np.minimum(np.exp(failed), 0.5)))
    return np.minimum(holds, 1), logs


def match_targets(diagram: Diagram, targets: Array) -> Array:
    """Whether samples match a formula, by their targets.

    Args:
        diagram: The formula, compiled.
        targets: (N, K): 1 present, 0 absent, -1 unknown.

    Returns:
        (N,) in int8: 1 for a match, 0 for none, -1 where it depends on targets that are unknown.

    Example:
        >>> from manyhot.search.diagram import compile_query
        >>> from manyhot.search.formula import Or, Label
        >>> either = compile_query(Or((Label(0), Label(1))), 2)
        >>> match_targets(either, np.array([[1, -1], [0, -1], [0, 0]]))
        array([ 1, -1,  0], dtype=int8)
    """
    cells = {column: np.ascontiguousarray(targets[:, column]) for column in diagram.columns}
    holds, fails = evaluate(
        diagram, TRUTH, (lambda values: values != 0, lambda values: values < 1), cells, len(targets)
    )
    holds, fails, _ = np.broadcast_arrays(holds, fails, np.empty(len(targets)))
    result: Array = holds.astype(np.int8) - 2 * (holds & fails).astype(np.int8)
    return result
