"""Compiles a formula into a decision diagram, from which its probability is computed.

Parts that share no label are independent, and their probabilities are multiplied or counted. Where labels are shared,
the formula is split by one of them, present or absent, and what is left on either side is compiled in the same way.
Equal remainders are stored and computed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from manyhot.errors import InputError, owned
from manyhot.search.formula import And, Count, Formula, Label, Not, Or, counts_all_labels, named_columns, parts_of

# A reference to a step is its index; the complement of the index (`~index`) stands for its opposite.
_MARGIN = 2.0**-20  # wider than all rounding of products and of columns of 32 bits


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
class Tally:
    """The probabilities that 0, 1, 2, … of some independent parts hold; the last is for `most` and all above.

    Attributes:
        parts: What is counted.
        base: A tally of others to count on with, or None.
        most: Numbers from this one on are merged.
        size: How many parts are counted, those of `base` included.
    """

    parts: tuple[int, ...]
    base: int | None
    most: int
    size: int


@dataclass(frozen=True)
class CountIn:
    """The number of a tally is an allowed one."""

    tally: int
    allowed: tuple[bool, ...]


Step = Literal | AllOf | Branch | Tally | CountIn


def references(step: Step) -> tuple[int, ...]:
    """The indices of the steps that a step needs."""
    match step:
        case Literal():
            return ()
        case AllOf(parts):
            used = parts
        case Branch(literal, present, absent):
            used = (literal, present, absent)
        case Tally(parts, base):
            used = parts if base is None else (*parts, base)
        case CountIn(tally):
            used = (tally,)
    return tuple(max(part, ~part) for part in used)


@dataclass(frozen=True)
class Diagram:
    """The steps to the probability of a formula.

    Attributes:
        steps: Each needs only steps before it.
        result: Which step gives the answer; the complement of its index if the answer is the opposite of the step.
        columns: The label columns that are read, in rising order.
    """

    steps: tuple[Step, ...]
    result: int
    columns: tuple[int, ...]

    @cached_property
    def literals(self) -> tuple[tuple[int, bool], ...]:
        """The labels that must be present (True) or absent (False) for the formula to hold, if it is a conjunction."""
        step = self.steps[max(self.result, ~self.result)]
        if isinstance(step, Literal):
            return ((step.column, self.result >= 0),)
        if not isinstance(step, AllOf) or self.result < 0:
            return ()
        literals = []
        for part in step.parts:
            inner = self.steps[max(part, ~part)]
            if isinstance(inner, Literal):
                literals.append((inner.column, part >= 0))
        return tuple(sorted(literals))

    @cached_property
    def is_conjunction(self) -> bool:
        """Whether the formula says of some labels that they are present or absent, and nothing else."""
        step = self.steps[max(self.result, ~self.result)]
        if isinstance(step, AllOf):
            return self.result >= 0 and len(step.parts) == len(self.literals)
        return isinstance(step, Literal)

    def bounds(self, min_prob: float) -> list[tuple[int, float | None, float | None]]:
        """Bounds of single probabilities that follow from a lower bound of the formula's probability.

        Args:
            min_prob: The lower bound.

        Returns:
            Column, lowest and highest probability of its label, None for no bound. They are a little too wide rather
            than too narrow, so that rounding excludes nothing.
        """
        low = min_prob * (1 - _MARGIN)
        if low <= 0:
            return []
        high = 1 - low + _MARGIN
        bounds = [(column, low, None) if wanted else (column, None, high) for column, wanted in self.literals]
        return [bound for bound in bounds if bound[2] is None or bound[2] < 1]

    @cached_property
    def last_uses(self) -> tuple[tuple[int, ...], ...]:
        """For each step the steps that nothing needs after it."""
        last: dict[int, int] = {}
        for index, step in enumerate(self.steps):
            last.update(dict.fromkeys(references(step), index))
        last.pop(max(self.result, ~self.result), None)
        done: list[list[int]] = [[] for _ in self.steps]
        for index, user in last.items():
            done[user].append(index)
        return tuple(map(tuple, done))


# A term is known by a number, and its opposite by the complement of that number (`~term`).
TRUE = 0
FALSE = ~TRUE
MAX_TERM_DEPTH = 60  # levels that a term may have; what rewrites them calls itself for each
UNNAMED = 1  # the bit of a support that stands for the labels that the formula counts and does not name


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
        allowed: The bits of the allowed numbers; 0 is always allowed, since otherwise the opposite is stored.
        parts: What is counted, sorted; a part may stand there several times.
        unnamed: Whether the present ones of the labels without a name are counted too.
    """

    allowed: int
    parts: tuple[int, ...]
    unnamed: bool


Term = Variable | Conjunction | Number


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
    """All terms of one formula.

    Attributes:
        unnamed: How many labels are counted without being named.
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

    def support(self, term: int) -> int:
        """The labels that a term depends on, as bits."""
        return self.supports[max(term, ~term)]

    def variable(self, column: int) -> int:
        """The term that a label is present."""
        return self._store(Variable(column), column_bit(column))

    def literal(self, term: int) -> tuple[int, bool] | None:
        """The column and whether it is wanted, for a term that is a label or its opposite."""
        result = self.terms[max(term, ~term)]
        return (result.column, term >= 0) if isinstance(result, Variable) else None

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
        remaining, merged = [], False
        for part in parts:
            term = self.terms[max(part, ~part)]
            if not isinstance(term, Number):
                remaining.append(part)
                continue
            key = term.parts, term.unnamed
            numbers = term.allowed if part >= 0 else term.allowed ^ self._all_numbers(*key)
            merged = merged or key in allowed
            allowed[key] = allowed.get(key, -1) & numbers
        if not merged:
            return None
        return remaining + [self.number(numbers, *key) for key, numbers in allowed.items()]

    def number(self, allowed: int, parts: Iterable[int], unnamed: bool) -> int:
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
        remaining = tuple(sorted(counted.elements()))
        unnamed = unnamed and self.unnamed > 0
        every = self._all_numbers(remaining, unnamed)
        allowed = allowed >> shift & every
        if allowed in (0, every):
            return TRUE if allowed else FALSE
        support = UNNAMED if unnamed else 0
        for part in remaining:
            support |= self.support(part)
        if support == UNNAMED and remaining:
            return self.number(self._by_unnamed(allowed, remaining, unnamed), (), True)
        return self._canonical(allowed, remaining, unnamed, every, support)

    def _canonical(self, allowed: int, parts: tuple[int, ...], unnamed: bool, every: int, support: int) -> int:
        """The term for numbers of which some are allowed and some not."""
        if not allowed & 1:
            return ~self._canonical(every ^ allowed, parts, unnamed, every, support)
        if parts and allowed == 1:
            return self.conjunction([*(~part for part in parts), *self._unnamed_is(1, unnamed)])
        if parts and allowed == every >> 1:
            return ~self.conjunction([*parts, *self._unnamed_is(1 << self.unnamed, unnamed)])
        return self._store(Number(allowed, parts, unnamed), support)

    def _unnamed_is(self, allowed: int, unnamed: bool) -> list[int]:
        """What a conjunction must say about the labels without a name, if anything."""
        return [self.number(allowed, (), True)] if unnamed else []

    def _by_unnamed(self, allowed: int, parts: Sequence[int], unnamed: bool) -> int:
        """The allowed numbers of labels without a name, for parts that depend on that number alone."""
        numbers = 0
        for present in range(self.unnamed + 1):
            held = present if unnamed else 0
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
            result = self.terms[term]
            self.work += 1
            if isinstance(result, Variable):
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
            parts = () if isinstance(term, Variable) else term.parts
            depth = 1 + max((self._depths[max(part, ~part)] for part in parts), default=0)
            if depth > MAX_TERM_DEPTH:
                rule = f"have at most {MAX_TERM_DEPTH} levels of nested conditions"
                raise InputError("formula", rule=rule, got="more", hint="Use fewer brackets.")
            self.terms.append(term)
            self.supports.append(support)
            self._depths.append(depth)
        return number


@dataclass(frozen=True)
class _Counted:
    """How many independent parts hold, and labels without a name, is one of the numbers whose bits are in `allowed`."""

    allowed: int
    parts: tuple[int, ...]
    unnamed: bool


_Draft = Literal | AllOf | Branch | _Counted
_Key = tuple[tuple[int, ...], bool]  # what is counted: parts, and whether the labels without a name are among them


class DiagramAssembler:
    """Takes steps in the order in which they need each other, and gives the program of those that matter.

    Args:
        unnamed: The columns of the labels that are counted without being named.
    """

    def __init__(self, unnamed: Sequence[int]) -> None:
        self.unnamed = unnamed
        self.drafts: list[_Draft] = []
        self._draft_indices: dict[_Draft, int] = {}

    def literal(self, column: int) -> int:
        """The step of a label."""
        return self._add(Literal(column))

    def product(self, parts: Sequence[int]) -> int:
        """The step for all of some independent parts."""
        true = self._add(AllOf(()))
        if ~true in parts:
            return ~true
        remaining = [part for part in parts if part != true]
        return remaining[0] if len(remaining) == 1 else self._add(AllOf(tuple(remaining)))

    def choice(self, literal: int, present: int, absent: int) -> int:
        """The step for one part where a label is present and another where not; a product if one is constant."""
        true = self._add(AllOf(()))
        if present == absent:
            return present
        if absent == ~true:
            return self.product((literal, present))
        if present == ~true:
            return self.product((~literal, absent))
        if absent == true:
            return ~self.product((literal, ~present))
        if present == true:
            return ~self.product((~literal, ~absent))
        return self._add(Branch(literal, present, absent))

    def number(self, allowed: int, parts: Sequence[int], unnamed: bool) -> int:
        """The step for a number of independent parts, and of labels without a name, that is an allowed one."""
        if not parts and allowed == 1:
            return self.product([~self.literal(column) for column in self.unnamed])
        if not parts and allowed == (1 << len(self.unnamed)) - 1:
            return ~self.product([self.literal(column) for column in self.unnamed])
        return self._add(_Counted(allowed, tuple(parts), unnamed))

    def diagram(self, result: int) -> Diagram:
        """The program that ends in a step, without those that it does not need."""
        return _Finalizer(self.drafts, self.unnamed).diagram(result)

    def _add(self, draft: _Draft) -> int:
        index = self._draft_indices.setdefault(draft, len(self.drafts))
        if index == len(self.drafts):
            self.drafts.append(draft)
        return index


class _Finalizer:
    """Drafts turned into steps."""

    def __init__(self, drafts: Sequence[_Draft], unnamed: Sequence[int]) -> None:
        self.drafts = list(drafts)
        self.unnamed = unnamed
        self.steps: list[Step] = []
        self.step_indices: dict[int, int] = {}  # of a draft among the steps
        self.literals: dict[int, int] = {}  # of a column among the steps
        self.tallies: dict[_Key, int] = {}

    def diagram(self, result: int) -> Diagram:
        wanted = self._wanted(max(result, ~result))
        self._join_products(wanted)
        wanted = self._wanted(max(result, ~result))
        counted = [self.drafts[index] for index in wanted]
        self.schedule = _TallySchedule([draft for draft in counted if isinstance(draft, _Counted)], len(self.unnamed))
        for index in wanted:
            self.step_indices[index] = self._step(self.drafts[index])
        return Diagram(tuple(self.steps), self._moved(result), tuple(sorted(self.literals)))

    def _wanted(self, result: int) -> list[int]:
        """The drafts that a result needs, in order."""
        wanted, waiting = {result}, [result]
        while waiting:
            for part in _inner(self.drafts[waiting.pop()]):
                if part not in wanted:
                    wanted.add(part)
                    waiting.append(part)
        return sorted(wanted)

    def _join_products(self, wanted: Sequence[int]) -> None:
        """Merges a product that is used once, by another product, into that product."""
        uses = Counter(part for index in wanted for part in _inner(self.drafts[index]))
        for index in wanted:
            draft = self.drafts[index]
            if not isinstance(draft, AllOf):
                continue
            parts: list[int] = []
            for part in draft.parts:
                inner = self.drafts[part] if part >= 0 and uses[part] == 1 else None
                parts += inner.parts if isinstance(inner, AllOf) else [part]
            self.drafts[index] = AllOf(tuple(parts))

    def _step(self, draft: _Draft) -> int:
        match draft:
            case Literal(column):
                return self._literal(column)
            case AllOf(parts):
                return self._put(AllOf(tuple(map(self._moved, parts))))
            case Branch(literal, present, absent):
                return self._put(Branch(*map(self._moved, (literal, present, absent))))
            case _Counted(allowed, parts, unnamed):
                tally = self._tally((parts, unnamed))
                return self._put(CountIn(tally, self.schedule.allowed(allowed, (parts, unnamed))))

    def _tally(self, key: _Key) -> int:
        """The step of a tally, after those of the tallies that it counts on from."""
        chain: list[_Key] = []
        following: _Key | None = key
        while following is not None and following not in self.tallies:
            chain.append(following)
            following = self.schedule.more[following]
        for link in reversed(chain):
            more = self.schedule.more[link]
            parts = self._counted_parts(link)
            if self.schedule.is_mirrored(link):
                parts = [~part for part in parts]
            base = None if more is None else self.tallies[more]
            self.tallies[link] = self._put(
                Tally(tuple(parts), base, self.schedule.most[link], self.schedule.size(link))
            )
        return self.tallies[key]

    def _counted_parts(self, key: _Key) -> list[int]:
        """What a tally adds to the one that it counts on from."""
        parts, unnamed = key
        more = self.schedule.more[key]
        if unnamed and not parts:
            return [self._literal(column) for column in self.unnamed]
        new = parts[: len(parts) - len(more[0])] if more else parts
        return [self._moved(part) for part in new]

    def _literal(self, column: int) -> int:
        if column not in self.literals:
            self.literals[column] = self._put(Literal(column))
        return self.literals[column]

    def _moved(self, part: int) -> int:
        return self.step_indices[part] if part >= 0 else ~self.step_indices[~part]

    def _put(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1


def _inner(draft: _Draft) -> tuple[int, ...]:
    """The indices of the drafts that a draft needs."""
    if isinstance(draft, _Counted):
        return tuple(max(part, ~part) for part in draft.parts)
    return references(draft)


class _TallySchedule:
    """Which tallies there are, which counts on from which, how far each must count, and whether it counts what fails.

    Attributes:
        more: For each tally the one from which it counts on: the same without its first part, if that is there, else
            that of the labels without a name, which are too many to be counted again for each branch.
        most: For each tally the number from which on all numbers give the same answers.
    """

    def __init__(self, drafts: Sequence[_Counted], unnamed: int) -> None:
        self.unnamed = unnamed
        keys = {(draft.parts, draft.unnamed) for draft in drafts}
        keys |= {((), True) for _, has_unnamed in keys if has_unnamed}
        ordered = sorted(keys, key=lambda key: (len(key[0]), key))
        self.more: dict[_Key, _Key | None] = {key: self._base(key, keys) for key in ordered}
        self.family: dict[_Key, _Key] = {}
        for key in ordered:
            base = self.more[key]
            self.family[key] = key if base is None else self.family[base]
        self.mirrored = self._directions(drafts)
        self.most = dict.fromkeys(keys, 1)
        for draft in drafts:
            key = draft.parts, draft.unnamed
            self.most[key] = max(self.most[key], self._reach(draft, mirrored=self.is_mirrored(key)))
        for key in reversed(ordered):
            base = self.more[key]
            if base is not None:
                self.most[base] = max(self.most[base], min(self.most[key], self.size(base)))

    def size(self, key: _Key) -> int:
        """How many things are counted."""
        return len(key[0]) + (self.unnamed if key[1] else 0)

    def is_mirrored(self, key: _Key) -> bool:
        """Whether a tally counts what fails, because that needs fewer numbers."""
        return self.family[key] in self.mirrored

    def allowed(self, allowed: int, key: _Key) -> tuple[bool, ...]:
        """Which numbers of a tally are allowed, the last of them for all above."""
        size = self.size(key)
        mirrored = self.is_mirrored(key)
        return tuple(bool(allowed >> (size - i if mirrored else i) & 1) for i in range(self.most[key] + 1))

    def _base(self, key: _Key, keys: set[_Key]) -> _Key | None:
        parts, unnamed = key
        if not parts:
            return None
        shorter = parts[1:], unnamed
        if len(parts) > 1 and shorter in keys:
            return shorter
        return ((), True) if unnamed else None

    def _directions(self, drafts: Sequence[_Counted]) -> set[_Key]:
        """The families that count what fails."""
        forward: Counter[_Key] = Counter()
        backward: Counter[_Key] = Counter()
        for draft in drafts:
            family = self.family[draft.parts, draft.unnamed]
            forward[family] = max(forward[family], self._reach(draft, mirrored=False))
            backward[family] = max(backward[family], self._reach(draft, mirrored=True))
        return {family for family in forward if backward[family] < forward[family]}

    def _reach(self, draft: _Counted, *, mirrored: bool) -> int:
        """The number from which on all numbers are allowed or none is."""
        size = self.size((draft.parts, draft.unnamed))
        bits = f"{draft.allowed:0{size + 1}b}"  # the highest number first
        bits = bits[::-1] if mirrored else bits
        return len(bits.lstrip(bits[0]))


MAX_NODES = 20_000  # steps of a diagram
MAX_WORK = 1_500_000  # parts of formulas visited while compiling: some seconds


class DiagramBuilder:
    """The steps of terms, each built once and after those that it needs.

    Args:
        terms: Where the terms are stored.
        unnamed: The columns of the labels that are counted without being named.
        in_order: Whether to split by labels in the order of their columns, which suits chains; else by the label that
            most parts share, which suits most.
    """

    def __init__(self, terms: Terms, unnamed: Sequence[int], *, in_order: bool) -> None:
        self.terms = terms
        self.in_order = in_order
        self.most_work = terms.work + MAX_WORK
        self.assembly = DiagramAssembler(unnamed)
        self.node_indices: dict[int, int] = {}
        self.splits: set[int] = set()

    def build(self, result: int) -> Diagram | None:
        """The program that gives the probability of a term; None if it would be too large."""
        waiting = [max(result, ~result)]
        needs: dict[int, tuple[int, ...]] = {}
        while waiting:
            term = waiting[-1]
            if term not in needs:
                needs[term] = self._needs(term)
                if len(needs) > MAX_NODES or self.terms.work > self.most_work:
                    return None
            inner = [max(part, ~part) for part in needs[term]]
            missing = [part for part in inner if part not in self.node_indices]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if term not in self.node_indices:
                self.node_indices[term] = self._assemble(term, [self._index(part) for part in needs[term]])
        return self.assembly.diagram(self._index(result))

    def _index(self, part: int) -> int:
        return self.node_indices[part] if part >= 0 else ~self.node_indices[~part]

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
        return self.assembly.number(term.allowed, parts, term.unnamed)

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
    """The steps to the probability of a formula, for a sample whose labels are independent.

    Args:
        formula: The formula.
        num_labels: How many labels there are.

    Raises:
        InputError: The formula names a label that does not exist, or its diagram is too large.

    Example:
        >>> from manyhot.search.formula import And, Count, Label
        >>> only_first = And((Label(0), Count(1, 1)))
        >>> compile_query(only_first, 3).literals
        ((0, True), (1, False), (2, False))
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
        diagram = DiagramBuilder(terms, unnamed, in_order=in_order).build(result)
        if diagram is not None:
            return diagram
    rule = f"have a decision diagram of at most {MAX_NODES:,} steps"
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
