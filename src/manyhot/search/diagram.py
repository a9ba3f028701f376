"""Compiles a formula into a decision diagram, from which its probability is computed.

Parts that share no label are independent, and their probabilities are multiplied or counted. Where labels are shared,
the formula is split by one of them, present or absent, and what is left on either side is compiled in the same way.
Equal remainders are stored and computed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from manyhot.errors import InputError, owned
from manyhot.search.formula import And, Count, Formula, Label, Not, Or, counts_all_labels, named_columns, parts_of

# A reference to a node or a term is its number; the complement (`~number`) stands for the opposite.
HOLDS, FAILS, BOTH = 1, 2, 3  # values of a node: that it holds, and that it does not


@dataclass(frozen=True)
class Literal:
    """The label of this column is present."""

    column: int


@dataclass(frozen=True)
class AllOf:
    """All of some independent parts hold."""

    parts: tuple[int, ...]


@dataclass(frozen=True)
class Branch:
    """One part holds if a label is present and another if it is not; neither depends on that label."""

    literal: int
    present: int
    absent: int


@dataclass(frozen=True)
class Unnamed:
    """How many of the labels that the query does not name are present, or absent; numbers from `cap` on are merged."""

    absent: bool
    cap: int = 1


@dataclass(frozen=True)
class Tally:
    """How many of some independent parts hold, with those of another tally; numbers from `cap` on are merged."""

    parts: tuple[int, ...]
    base: int | None
    cap: int = 1


@dataclass(frozen=True)
class CountIn:
    """The number of a tally is allowed: the bit of that number is set, of larger ones that of `reach`.

    Attributes:
        tally: Which one.
        allowed: The bits of the allowed numbers.
        reach: The number from which on all numbers are allowed or none is.
    """

    tally: int
    allowed: int
    reach: int


Node = Literal | AllOf | Branch | Unnamed | Tally | CountIn


def references(node: Node) -> tuple[int, ...]:
    """The indices of the nodes that a node needs."""
    match node:
        case AllOf(parts):
            used = parts
        case Branch(literal, present, absent):
            used = (literal, present, absent)
        case Tally(parts, base):
            used = parts if base is None else (*parts, base)
        case CountIn(tally):
            used = (tally,)
        case _:
            used = ()
    return tuple(max(part, ~part) for part in used)


@dataclass(frozen=True)
class Diagram:
    """The nodes from which the probability of a formula is computed.

    Attributes:
        nodes: Each needs only nodes before it.
        result: The node of the formula; the complement of its index if the formula is the opposite of the node.
        unnamed: The columns of the labels that are counted and not named.
    """

    nodes: tuple[Node, ...]
    result: int
    unnamed: tuple[int, ...]

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The label columns that are read, in rising order."""
        named = [node.column for _, node, _ in self.steps if isinstance(node, Literal)]
        counted = self.unnamed if any(isinstance(node, Unnamed) for _, node, _ in self.steps) else ()
        return tuple(sorted((*named, *counted)))

    @cached_property
    def steps(self) -> tuple[tuple[int, Node, tuple[int, ...]], ...]:
        """The nodes that the result needs, each with its index and with the nodes that nothing needs after it."""
        result = max(self.result, ~self.result)
        needed, steps = {result}, []
        for index in range(result, -1, -1):
            if index in needed:
                used = set(references(self.nodes[index]))
                steps.append((index, self.nodes[index], tuple(used - needed)))
                needed |= used
        return tuple(reversed(steps))

    @cached_property
    def needed_values(self) -> dict[int, dict[int, int]]:
        """By the values of the formula that are wanted, `HOLDS` or `BOTH`, which values of each node are needed."""
        result = {}
        for wanted in (HOLDS, BOTH):
            needed = result[wanted] = dict[int, int]()
            waiting = [(self.result, wanted)]
            for index, node, _ in reversed(self.steps):
                for part, values in waiting:
                    swapped = values >> 1 | (values & HOLDS) << 1
                    needed[max(part, ~part)] = needed.get(max(part, ~part), 0) | (values if part >= 0 else swapped)
                match node:
                    case AllOf(parts):
                        waiting = [(part, BOTH if needed[index] & FAILS else HOLDS) for part in parts]
                    case Branch(literal, present, absent):
                        waiting = [(literal, BOTH), (present, needed[index]), (absent, needed[index])]
                    case _:
                        waiting = [(part, BOTH) for part in references(node)]
        return result

    @cached_property
    def literals(self) -> tuple[tuple[int, bool], ...] | None:
        """The labels that must be present (True) or absent (False), if the formula says nothing else; None if it does.

        Example:
            >>> from manyhot.search.formula import And, Count, Label
            >>> compile_query(And((Label(0), Count(1, 1))), 3).literals
            ((0, True), (1, False), (2, False))
        """
        waiting, literals = [self.result], []
        while waiting:
            part = waiting.pop()
            match self.nodes[max(part, ~part)]:
                case Literal(column):
                    literals.append((column, part >= 0))
                case AllOf(parts) if part >= 0:
                    waiting.extend(parts)
                case CountIn(tally, allowed, 1) if (allowed & 1) == (part >= 0):  # none is counted
                    counted = self.nodes[tally]
                    if not isinstance(counted, Unnamed):
                        return None
                    literals += [(column, counted.absent) for column in self.unnamed]
                case _:
                    return None
        return tuple(sorted(literals))


TRUE = 0
FALSE = ~TRUE
MAX_TERM_DEPTH = 60  # levels that a term may have; what rewrites them calls itself for each
UNNAMED = 1  # the bit of a support that stands for the labels that the formula counts and does not name


@dataclass(frozen=True)
class Conjunction:
    """All parts hold. None of them is constant or a conjunction, and none is another or its opposite."""

    parts: tuple[int, ...]


@dataclass(frozen=True)
class Number:
    """How many parts hold is one of some numbers.

    Attributes:
        allowed: The bits of the allowed numbers; 0 is always allowed, since otherwise the opposite is stored.
        parts: What is counted, sorted; a part may stand there several times.
        unnamed: Whether the present ones of the labels without a name are counted too.
    """

    allowed: int
    parts: tuple[int, ...]
    unnamed: bool


Term = Literal | Conjunction | Number


def column_bit(column: int) -> int:
    """The bit of a support that stands for a label."""
    return 2 << column


def columns_of(support: int) -> list[int]:
    """The columns of the labels in a support, in rising order."""
    names = support >> 1
    result = []
    while names:
        lowest = names & -names
        result.append(lowest.bit_length() - 1)
        names ^= lowest
    return result


class Terms:
    """All terms of one formula: simplified parts of it, each stored once.

    Args:
        unnamed: How many labels are counted without being named.

    Attributes:
        terms: Term by number.
        supports: For each term the labels that it depends on, as bits.
        work: How much was rewritten so far, so that the caller can stop in time.
    """

    def __init__(self, unnamed: int) -> None:
        self.unnamed = unnamed
        self.terms: list[Term] = [Conjunction(())]
        self.supports = [0]
        self.work = 0
        self._depths = [0]
        self._numbers: dict[Term, int] = {self.terms[0]: TRUE}

    def support(self, *terms: int) -> int:
        """The labels that some terms depend on, as bits."""
        result = 0
        for term in terms:
            result |= self.supports[max(term, ~term)]
        return result

    def label(self, column: int) -> int:
        """The term that a label is present."""
        return self._store(Literal(column), column_bit(column))

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
        literals = {part for part in flat if isinstance(self.terms[max(part, ~part)], Literal)}
        others = flat - literals
        merged = self._merged(others)
        if merged != others:
            return self.conjunction([*literals, *merged])
        # Labels that are demanded or forbidden are settled in all other parts.
        ones, settled = self.support(*(part for part in literals if part >= 0)), self.support(*literals)
        if self.support(*others) & settled:
            return self.conjunction([*literals, *(self.restrict(part, ones, settled ^ ones) for part in others)])
        return flat.pop() if len(flat) == 1 else self._store(Conjunction(tuple(sorted(flat))), self.support(*flat))

    def _merged(self, parts: Iterable[int]) -> set[int]:
        """The parts with one for all that count the same."""
        allowed: dict[tuple[tuple[int, ...], bool], int] = {}
        remaining = set()
        for part in parts:
            term = self.terms[max(part, ~part)]
            if isinstance(term, Number):
                key = term.parts, term.unnamed
                numbers = term.allowed if part >= 0 else term.allowed ^ self._all_numbers(*key)
                allowed[key] = allowed.get(key, -1) & numbers
            else:
                remaining.add(part)
        return remaining | {self.number(numbers, *key) for key, numbers in allowed.items()}

    def number(self, allowed: int, parts: Iterable[int], unnamed: bool) -> int:
        """The term that the number of parts that hold is one of those in `allowed`, whose bits stand for numbers."""
        counted = Counter(parts)
        shift = counted.pop(TRUE, 0)
        counted.pop(FALSE, 0)
        remaining = tuple(sorted(counted.elements()))
        unnamed = unnamed and self.unnamed > 0
        every = self._all_numbers(remaining, unnamed)
        allowed = allowed >> shift & every
        if allowed in (0, every):
            return TRUE if allowed else FALSE
        support = self.support(*remaining) | (UNNAMED if unnamed else 0)
        if support == UNNAMED and remaining:
            return self.number(self._by_unnamed(allowed, remaining, unnamed), (), True)
        if not allowed & 1:
            return ~self.number(every ^ allowed, remaining, unnamed)
        if remaining and allowed == 1:  # none
            rest = [self.number(1, (), True)] if unnamed else []
            return self.conjunction([*(~part for part in remaining), *rest])
        if remaining and allowed == every >> 1:  # not all
            rest = [self.number(1 << self.unnamed, (), True)] if unnamed else []
            return ~self.conjunction([*remaining, *rest])
        return self._store(Number(allowed, remaining, unnamed), support)

    def _by_unnamed(self, allowed: int, parts: Sequence[int], unnamed: bool) -> int:
        """The allowed numbers of labels without a name, for parts that depend on that number alone."""
        masks = [self._allowed_unnamed(part) for part in parts]
        numbers = 0
        for present in range(self.unnamed + 1):
            held = sum(mask >> present & 1 for mask in masks) + (present if unnamed else 0)
            numbers |= (allowed >> held & 1) << present
        return numbers

    def _allowed_unnamed(self, part: int) -> int:
        """The numbers of labels without a name with which a part holds that depends on nothing else."""
        term = self.terms[max(part, ~part)]
        assert isinstance(term, Number)
        return term.allowed if part >= 0 else ~term.allowed

    def restrict(self, term: int, ones: int, zeros: int) -> int:
        """The term that is left when some labels are known to be present (`ones`) and some absent (`zeros`)."""
        return self._restrict(term, ones, ones | zeros, {})

    def _restrict(self, term: int, ones: int, settled: int, known: dict[int, int]) -> int:
        if term < 0:
            return ~self._restrict(~term, ones, settled, known)
        if not self.supports[term] & settled:
            return term
        if term not in known:
            result = self.terms[term]
            self.work += 1
            if isinstance(result, Literal):
                return TRUE if column_bit(result.column) & ones else FALSE
            self.work += len(result.parts)
            parts = [self._restrict(part, ones, settled, known) for part in result.parts]
            if isinstance(result, Number):
                known[term] = self.number(result.allowed, parts, result.unnamed)
            else:
                known[term] = self.conjunction(parts)
        return known[term]

    def _all_numbers(self, parts: Sequence[int], unnamed: bool) -> int:
        """Bits of all numbers that can hold of these parts and the labels without a name."""
        return (2 << (len(parts) + (self.unnamed if unnamed else 0))) - 1

    def _store(self, term: Term, support: int) -> int:
        number = self._numbers.setdefault(term, len(self.terms))
        if number == len(self.terms):
            parts = () if isinstance(term, Literal) else term.parts
            depth = 1 + max((self._depths[max(part, ~part)] for part in parts), default=0)
            if depth > MAX_TERM_DEPTH:
                rule = f"have at most {MAX_TERM_DEPTH} levels of nested conditions"
                raise InputError("formula", rule=rule, got="more", hint="Use fewer brackets.")
            self.terms.append(term)
            self.supports.append(support)
            self._depths.append(depth)
        return number


MAX_NODES = 20_000  # nodes of a diagram, tallies aside
MAX_WORK = 1_500_000  # parts of formulas visited while compiling: some seconds


class DiagramBuilder:
    """The nodes of terms, each built once and after those that it needs.

    Args:
        terms: Where the terms are stored.
        in_order: Whether to split by labels in the order of their columns, which suits chains; else by the label that
            most parts share, which suits most.
    """

    def __init__(self, terms: Terms, *, in_order: bool) -> None:
        self.terms, self.in_order = terms, in_order
        self.nodes: list[Node] = []
        self._indices: dict[Node, int] = {}
        self._indices_of: dict[int, int] = {}  # of a term among the nodes
        self._split: set[int] = set()

    def build(self, result: int, unnamed: Sequence[int]) -> Diagram | None:
        """The diagram of a term; None if it would be too large."""
        waiting, parts = [max(result, ~result)], dict[int, tuple[int, ...]]()
        most_work = self.terms.work + MAX_WORK
        while waiting:
            term = waiting[-1]
            if term not in parts:
                parts[term] = self._parts(term)
                if len(parts) > MAX_NODES or self.terms.work > most_work:
                    return None
            missing = [max(part, ~part) for part in parts[term] if max(part, ~part) not in self._indices_of]
            waiting.extend(missing)
            if not missing:
                waiting.pop()
                self._indices_of[term] = self._node(term, [self._index_of(part) for part in parts[term]])
        return Diagram(self._with_caps(), self._index_of(result), tuple(unnamed))

    def _index_of(self, part: int) -> int:
        return self._indices_of[part] if part >= 0 else ~self._indices_of[~part]

    def _parts(self, number: int) -> tuple[int, ...]:
        """What a term is computed from: independent parts, or a label and what is left if it is present or absent."""
        term = self.terms.terms[number]
        if isinstance(term, Literal):
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
        self._split.add(number)
        return self.terms.label(column), self.terms.restrict(number, bit, 0), self.terms.restrict(number, 0, bit)

    def _node(self, number: int, parts: list[int]) -> int:
        term = self.terms.terms[number]
        if number in self._split:
            literal, present, absent = parts
            return present if present == absent else self._add(Branch(literal, present, absent))
        if isinstance(term, Number):
            return self._count(term, parts)
        return self._add(term if isinstance(term, Literal) else AllOf(tuple(parts)))

    def _count(self, term: Number, parts: list[int]) -> int:
        """Counts what holds, or what fails where that needs fewer numbers."""
        unnamed = self.terms.unnamed if term.unnamed else 0
        bits = f"{term.allowed:0{len(parts) + unnamed + 1}b}"  # the highest number first
        reach, reach_of_opposite = len(bits.lstrip(bits[0])), len(bits.rstrip(bits[-1]))
        absent = reach_of_opposite < reach
        tally = self._add(Unnamed(absent)) if unnamed else None
        for part in reversed(parts):
            tally = self._add(Tally((~part if absent else part,), tally))
        assert tally is not None
        allowed = int(bits[::-1], 2) if absent else term.allowed
        return self._add(CountIn(tally, allowed, min(reach, reach_of_opposite)))

    def _with_caps(self) -> tuple[Node, ...]:
        """The nodes, in which each tally goes as far as those that need it, and has the parts of one it alone needs."""
        nodes = list(self.nodes)
        uses = Counter(part for node in nodes for part in references(node))
        for index, node in enumerate(nodes):
            if isinstance(node, Tally) and node.base is not None and uses[node.base] == 1:
                base = nodes[node.base]
                if isinstance(base, Tally):
                    nodes[index] = Tally(node.parts + base.parts, base.base)
        caps = Counter[int]()
        for index, node in reversed(list(enumerate(nodes))):
            if isinstance(node, CountIn):
                caps[node.tally] = max(caps[node.tally], node.reach)
            elif isinstance(node, Tally | Unnamed):
                nodes[index] = replace(node, cap=caps[index])
                if isinstance(node, Tally) and node.base is not None:
                    caps[node.base] = max(caps[node.base], caps[index])
        return tuple(nodes)

    def _add(self, node: Node) -> int:
        index = self._indices.setdefault(node, len(self.nodes))
        if index == len(self.nodes):
            self.nodes.append(node)
        return index

    def _is_independent(self, term: Number) -> bool:
        """Whether no two of the things that are counted have a label in common."""
        covered = UNNAMED if term.unnamed else 0
        for part in term.parts:
            support = self.terms.support(part)
            if covered & support:
                return False
            covered |= support
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


@owned("compile_query")
def compile_query(formula: Formula, num_labels: int) -> Diagram:
    """The nodes from which the probability of a formula is computed, for a sample whose labels are independent.

    Args:
        formula: The formula.
        num_labels: How many labels there are.

    Raises:
        InputError: The formula names a label that does not exist, or its diagram is too large.
    """
    named = set(named_columns(formula))
    for column in named:
        if not 0 <= column < num_labels:
            rule = f"name columns of its {num_labels} labels"
            raise InputError("formula", rule=rule, got=f"column {column}", hint="Parse it with these labels.")
    unnamed = [column for column in range(num_labels) if column not in named] if counts_all_labels(formula) else []
    terms = Terms(len(unnamed))
    result = _enter(formula, terms, sorted(named), num_labels)
    for in_order in (False, True):
        diagram = DiagramBuilder(terms, in_order=in_order).build(result, unnamed)
        if diagram is not None:
            return diagram
    rule = f"have a decision diagram of at most {MAX_NODES:,} nodes"
    got = "one that ties too many labels together"
    raise InputError("formula", rule=rule, got=got, hint="Ask for less at once.")


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
        case Label(column):
            return terms.label(column)
        case Not():
            return ~parts[0]
        case And():
            return terms.conjunction(parts)
        case Or():
            return ~terms.conjunction(~part for part in parts)
        case Count(low, high, None):
            return terms.number(_between(low, high, num_labels), [terms.label(column) for column in named], True)
        case Count(low, high, _):
            return terms.number(_between(low, high, len(parts)), parts, False)


def _between(low: int, high: int | None, most: int) -> int:
    """The bits of the numbers between two, both included, up to the most that there can be."""
    low, high = max(low, 0), most if high is None else min(high, most)
    return (2 << high) - (1 << low) if low <= high else 0
