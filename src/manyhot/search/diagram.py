"""From a formula to the steps that give its probability.

Parts that share no label are independent, and their probabilities are multiplied or counted. Where labels are shared,
the formula is split by one of them, present or absent, and what is left on either side is looked at in the same way.
What is left is stored in a plain form, so that equal rests are computed once: the steps are a decision diagram.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from manyhot.search.assembly import Assembly
from manyhot.search.steps import Program
from manyhot.search.terms import REST, Conjunction, Number, Terms, Variable, column_bit, columns_of

LARGEST = 20_000  # steps of a program
MOST_WORK = 1_500_000  # parts of formulas looked at on the way there: some seconds


class Diagram:
    """The steps of terms, each built once and after those that it needs.

    Args:
        terms: Where the terms are stored.
        rest: The columns of the labels that are counted without being named.
        in_order: Whether to split by labels in the order of their columns, which suits chains; else by the label that
            most parts share, which suits most.
    """

    def __init__(self, terms: Terms, rest: Sequence[int], *, in_order: bool) -> None:
        self.terms = terms
        self.in_order = in_order
        self.most_work = terms.work + MOST_WORK
        self.assembly = Assembly(rest)
        self.places: dict[int, int] = {}
        self.splits: set[int] = set()

    def build(self, result: int) -> Program | None:
        """The program that gives the probability of a term; None if it would be too large."""
        waiting = [max(result, ~result)]
        needs: dict[int, tuple[int, ...]] = {}
        while waiting:
            term = waiting[-1]
            if term not in needs:
                needs[term] = self._needs(term)
                if len(needs) > LARGEST or self.terms.work > self.most_work:
                    return None
            inner = [max(part, ~part) for part in needs[term]]
            missing = [part for part in inner if part not in self.places]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if term not in self.places:
                self.places[term] = self._assemble(term, [self._place(part) for part in needs[term]])
        return self.assembly.program(self._place(result))

    def _place(self, part: int) -> int:
        return self.places[part] if part >= 0 else ~self.places[~part]

    def _needs(self, number: int) -> tuple[int, ...]:
        """What a term is computed from: independent parts, or a label and what is left if it is present or absent."""
        term = self.terms.terms[number]
        if isinstance(term, Variable):
            return ()
        if isinstance(term, Conjunction):
            groups = self._groups(term.parts)
            if len(groups) != 1:
                return tuple(self.terms.conjunction(group) for group in groups)
        elif self._is_independent(term):
            # In the order of their labels, so that counts of fewer labels are ends of counts of more.
            return tuple(sorted(term.parts, key=lambda part: columns_of(self.terms.support(part))))
        column = self._split_by(term.parts)
        bit = column_bit(column)
        present, absent = self.terms.restrict(number, bit, 0), self.terms.restrict(number, 0, bit)
        self.splits.add(number)
        return self.terms.variable(column), present, absent

    def _assemble(self, number: int, parts: list[int]) -> int:
        term = self.terms.terms[number]
        if number in self.splits:
            return self.assembly.choice(*parts)
        if isinstance(term, Variable):
            return self.assembly.literal(term.column)
        if isinstance(term, Conjunction):
            return self.assembly.product(parts)
        return self.assembly.number(term.allowed, parts, term.rest)

    def _is_independent(self, term: Number) -> bool:
        """Whether no two of the things that are counted have a label in common."""
        seen = REST if term.rest else 0
        for part in term.parts:
            support = self.terms.support(part)
            if seen & support:
                return False
            seen |= support
        return True

    def _groups(self, parts: Sequence[int]) -> list[list[int]]:
        """Parts together that share a label, directly or by way of others."""
        groups: list[tuple[int, list[int]]] = []
        for part in parts:
            support, members = self.terms.support(part), [part]
            apart = []
            for group in groups:
                if group[0] & support:
                    support, members = support | group[0], group[1] + members
                else:
                    apart.append(group)
            groups = [*apart, (support, members)]
        return [members for _, members in groups]

    def _split_by(self, parts: Sequence[int]) -> int:
        """The column of the label to look at: the first, or the first of those that most parts have in common."""
        uses = Counter(column for part in parts for column in columns_of(self.terms.support(part)))
        return min(uses, key=lambda column: (0 if self.in_order else -uses[column], column))
