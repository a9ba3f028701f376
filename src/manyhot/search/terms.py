"""Formulas in a plain form, each stored once, so that two which say the same plainly are the same number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from manyhot.refusal import refusal

# A term is known by a number, and its opposite by the complement of that number (`~term`).
TRUE = 0
FALSE = ~TRUE
DEEPEST = 60  # levels that a term may have; what rewrites them calls itself for each
REST = 1  # the bit of a support that stands for the labels that the formula counts and does not name


@dataclass(frozen=True)
class Variable:
    """The label of this column is present."""

    column: int


@dataclass(frozen=True)
class Conjunction:
    """All parts hold. None of them is constant or a conjunction, and none is another or its opposite."""

    parts: tuple[int, ...]


@dataclass(frozen=True)
class Number:
    """How many parts hold is one of some numbers.

    Attributes:
        allowed: Its bits tell which numbers are; 0 always is, since otherwise the opposite is stored.
        parts: What is counted, sorted; a part may stand there several times.
        rest: Whether the present ones of the labels without a name are counted too.
    """

    allowed: int
    parts: tuple[int, ...]
    rest: bool


Term = Variable | Conjunction | Number


def column_bit(column: int) -> int:
    """The bit of a support that stands for a label."""
    return 2 << column


def columns_of(support: int) -> list[int]:
    """The columns of the labels in a support, in rising order."""
    names = support >> 1
    found = []
    while names:
        lowest = names & -names
        found.append(lowest.bit_length() - 1)
        names ^= lowest
    return found


class Terms:
    """All terms of one formula.

    Attributes:
        rest: How many labels are counted without being named.
        terms: Term by number.
        supports: For each term the labels that it depends on, as bits.
        work: How much was rewritten so far, for whoever wants to stop in time.
    """

    def __init__(self, rest: int) -> None:
        self.rest = rest
        self.terms: list[Term] = [Conjunction(())]
        self.supports = [0]
        self.work = 0
        self._depths = [0]
        self._numbers: dict[Term, int] = {self.terms[0]: TRUE}

    def support(self, term: int) -> int:
        """The labels that a term depends on, as bits."""
        return self.supports[max(term, ~term)]

    def variable(self, column: int) -> int:
        """The term that a label is present."""
        return self._store(Variable(column), column_bit(column))

    def literal(self, term: int) -> tuple[int, bool] | None:
        """The column and whether it is wanted, for a term that is a label or its opposite."""
        found = self.terms[max(term, ~term)]
        return (found.column, term >= 0) if isinstance(found, Variable) else None

    def conjunction(self, parts: Iterable[int]) -> int:
        """The term that all parts hold."""
        flat: set[int] = set()
        waiting = list(parts)
        while waiting:
            part = waiting.pop()
            if part == FALSE or ~part in flat:
                return FALSE
            inner = self.terms[part] if part >= 0 else None
            if isinstance(inner, Conjunction):
                waiting.extend(inner.parts)
            else:
                flat.add(part)
        return self._propagated(flat)

    def _propagated(self, parts: set[int]) -> int:
        """The conjunction of parts where the labels that it demands or forbids are settled in all other parts."""
        ones = zeros = 0
        literals, others = [], []
        for part in parts:
            literal = self.literal(part)
            if literal is None:
                others.append(part)
                continue
            literals.append(part)
            column, wanted = literal
            ones |= column_bit(column) if wanted else 0
            zeros |= 0 if wanted else column_bit(column)
        settled = ones | zeros
        if any(self.support(part) & settled for part in others):
            return self.conjunction([*literals, *(self.restrict(part, ones, zeros) for part in others)])
        merged = self._merged(others)
        if merged is not None:
            return self.conjunction([*literals, *merged])
        if len(parts) == 1:
            return literals[0] if literals else others[0]
        support = settled
        for part in others:
            support |= self.support(part)
        return self._store(Conjunction(tuple(sorted(parts))), support)

    def _merged(self, parts: Sequence[int]) -> list[int] | None:
        """The parts with one for all that count the same; None if no two do."""
        allowed: dict[tuple[tuple[int, ...], bool], int] = {}
        kept, together = [], False
        for part in parts:
            term = self.terms[max(part, ~part)]
            if not isinstance(term, Number):
                kept.append(part)
                continue
            key = term.parts, term.rest
            numbers = term.allowed if part >= 0 else term.allowed ^ self._all_numbers(*key)
            together = together or key in allowed
            allowed[key] = allowed.get(key, -1) & numbers
        if not together:
            return None
        return kept + [self.number(numbers, *key) for key, numbers in allowed.items()]

    def number(self, allowed: int, parts: Iterable[int], rest: bool) -> int:
        """The term that the number of parts that hold is one of those in `allowed`, whose bits stand for numbers."""
        counted = Counter(parts)
        shift = counted.pop(TRUE, 0)
        counted.pop(FALSE, 0)
        for part in [part for part in counted if part >= 0 and ~part in counted]:
            # One of a part and its opposite holds, whichever it is.
            pairs = min(counted[part], counted[~part])
            counted[part] -= pairs
            counted[~part] -= pairs
            shift += pairs
        kept = tuple(sorted(counted.elements()))
        rest = rest and self.rest > 0
        every = self._all_numbers(kept, rest)
        allowed = allowed >> shift & every
        if allowed in (0, every):
            return TRUE if allowed else FALSE
        support = REST if rest else 0
        for part in kept:
            support |= self.support(part)
        if support == REST and kept:
            return self.number(self._by_rest(allowed, kept, rest), (), True)
        return self._canonical(allowed, kept, rest, every, support)

    def _canonical(self, allowed: int, parts: tuple[int, ...], rest: bool, every: int, support: int) -> int:
        """The term for numbers of which some are allowed and some not."""
        if not allowed & 1:
            return ~self._canonical(every ^ allowed, parts, rest, every, support)
        if parts and allowed == 1:
            return self.conjunction([*(~part for part in parts), *self._rest_is(1, rest)])
        if parts and allowed == every >> 1:
            return ~self.conjunction([*parts, *self._rest_is(1 << self.rest, rest)])
        return self._store(Number(allowed, parts, rest), support)

    def _rest_is(self, allowed: int, rest: bool) -> list[int]:
        """What a conjunction must say about the labels without a name, if anything."""
        return [self.number(allowed, (), True)] if rest else []

    def _by_rest(self, allowed: int, parts: Sequence[int], rest: bool) -> int:
        """The allowed numbers of labels without a name, for parts that depend on that number alone."""
        numbers = 0
        for present in range(self.rest + 1):
            held = present if rest else 0
            for part in parts:
                term = self.terms[max(part, ~part)]
                if isinstance(term, Number):  # nothing else depends on the rest alone
                    held += (term.allowed >> present & 1) == (part >= 0)
            numbers |= (allowed >> held & 1) << present
        return numbers

    def restrict(self, term: int, ones: int, zeros: int) -> int:
        """The term that is left when some labels are known to be present (`ones`) and some absent (`zeros`)."""
        return self._restrict(term, ones, ones | zeros, {})

    def _restrict(self, term: int, ones: int, settled: int, known: dict[int, int]) -> int:
        if term < 0:
            return ~self._restrict(~term, ones, settled, known)
        if not self.supports[term] & settled:
            return term
        if term not in known:
            found = self.terms[term]
            self.work += 1
            if isinstance(found, Variable):
                return TRUE if column_bit(found.column) & ones else FALSE
            self.work += len(found.parts)
            parts = [self._restrict(part, ones, settled, known) for part in found.parts]
            if isinstance(found, Number):
                known[term] = self.number(found.allowed, parts, found.rest)
            else:
                known[term] = self.conjunction(parts)
        return known[term]

    def _all_numbers(self, parts: Sequence[int], rest: bool) -> int:
        """Bits of all numbers that can hold of these parts and the labels without a name."""
        return (2 << (len(parts) + (self.rest if rest else 0))) - 1

    def _store(self, term: Term, support: int) -> int:
        number = self._numbers.setdefault(term, len(self.terms))
        if number == len(self.terms):
            parts = () if isinstance(term, Variable) else term.parts
            depth = 1 + max((self._depths[max(part, ~part)] for part in parts), default=0)
            if depth > DEEPEST:
                rule = f"have at most {DEEPEST} levels of conditions within conditions"
                raise refusal("formula", "compile_formula", rule, "more", "Say it with fewer brackets.")
            self.terms.append(term)
            self.supports.append(support)
            self._depths.append(depth)
        return number
