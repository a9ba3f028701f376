"""Steps put together and made small: each once, products flat, few tallies that reach no further than needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from manyhot.search.steps import Choice, Literal, Product, Program, Step, Tally, Within, references


@dataclass(frozen=True)
class _Counted:
    """How many independent parts hold, and labels without a name, is one of the numbers whose bits are in `allowed`."""

    allowed: int
    parts: tuple[int, ...]
    rest: bool


_Draft = Literal | Product | Choice | _Counted
_Key = tuple[tuple[int, ...], bool]  # what is counted: parts, and whether the labels without a name are among them


class Assembly:
    """Takes steps in the order in which they need each other, and gives the program of those that matter.

    Args:
        rest: The columns of the labels that are counted without being named.
    """

    def __init__(self, rest: Sequence[int]) -> None:
        self.rest = rest
        self.drafts: list[_Draft] = []
        self._places: dict[_Draft, int] = {}

    def literal(self, column: int) -> int:
        """The step of a label."""
        return self._add(Literal(column))

    def product(self, parts: Sequence[int]) -> int:
        """The step for all of some independent parts."""
        true = self._add(Product(()))
        if ~true in parts:
            return ~true
        kept = [part for part in parts if part != true]
        return kept[0] if len(kept) == 1 else self._add(Product(tuple(kept)))

    def choice(self, literal: int, present: int, absent: int) -> int:
        """The step for one part where a label is present and another where not; a product if one is constant."""
        true = self._add(Product(()))
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
        return self._add(Choice(literal, present, absent))

    def number(self, allowed: int, parts: Sequence[int], rest: bool) -> int:
        """The step for a number of independent parts, and of labels without a name, that is an allowed one."""
        if not parts and allowed == 1:
            return self.product([~self.literal(column) for column in self.rest])
        if not parts and allowed == (1 << len(self.rest)) - 1:
            return ~self.product([self.literal(column) for column in self.rest])
        return self._add(_Counted(allowed, tuple(parts), rest))

    def program(self, result: int) -> Program:
        """The program that ends in a step, without those that it does not need."""
        return _Finish(self.drafts, self.rest).program(result)

    def _add(self, draft: _Draft) -> int:
        place = self._places.setdefault(draft, len(self.drafts))
        if place == len(self.drafts):
            self.drafts.append(draft)
        return place


class _Finish:
    """Drafts turned into steps."""

    def __init__(self, drafts: Sequence[_Draft], rest: Sequence[int]) -> None:
        self.drafts = list(drafts)
        self.rest = rest
        self.steps: list[Step] = []
        self.places: dict[int, int] = {}  # of a draft among the steps
        self.literals: dict[int, int] = {}  # of a column among the steps
        self.tallies: dict[_Key, int] = {}

    def program(self, result: int) -> Program:
        wanted = self._wanted(max(result, ~result))
        self._join_products(wanted)
        wanted = self._wanted(max(result, ~result))
        counted = [self.drafts[place] for place in wanted]
        self.plan = _TallyPlan([draft for draft in counted if isinstance(draft, _Counted)], len(self.rest))
        for place in wanted:
            self.places[place] = self._step(self.drafts[place])
        return Program(tuple(self.steps), self._moved(result), tuple(sorted(self.literals)))

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
        """Puts the parts of a product that is needed once, and by a product, in its place."""
        uses = Counter(part for place in wanted for part in _inner(self.drafts[place]))
        for place in wanted:
            draft = self.drafts[place]
            if not isinstance(draft, Product):
                continue
            parts: list[int] = []
            for part in draft.parts:
                inner = self.drafts[part] if part >= 0 and uses[part] == 1 else None
                parts += inner.parts if isinstance(inner, Product) else [part]
            self.drafts[place] = Product(tuple(parts))

    def _step(self, draft: _Draft) -> int:
        match draft:
            case Literal(column):
                return self._literal(column)
            case Product(parts):
                return self._put(Product(tuple(map(self._moved, parts))))
            case Choice(literal, present, absent):
                return self._put(Choice(*map(self._moved, (literal, present, absent))))
            case _Counted(allowed, parts, rest):
                tally = self._tally((parts, rest))
                return self._put(Within(tally, self.plan.allowed(allowed, (parts, rest))))

    def _tally(self, key: _Key) -> int:
        """The step of a tally, after those of the tallies that it counts on from."""
        chain: list[_Key] = []
        following: _Key | None = key
        while following is not None and following not in self.tallies:
            chain.append(following)
            following = self.plan.more[following]
        for link in reversed(chain):
            more = self.plan.more[link]
            parts = self._counted_parts(link)
            if self.plan.is_mirrored(link):
                parts = [~part for part in parts]
            base = None if more is None else self.tallies[more]
            self.tallies[link] = self._put(Tally(tuple(parts), base, self.plan.most[link], self.plan.size(link)))
        return self.tallies[key]

    def _counted_parts(self, key: _Key) -> list[int]:
        """What a tally adds to the one that it counts on from."""
        parts, rest = key
        more = self.plan.more[key]
        if rest and not parts:
            return [self._literal(column) for column in self.rest]
        new = parts[: len(parts) - len(more[0])] if more else parts
        return [self._moved(part) for part in new]

    def _literal(self, column: int) -> int:
        if column not in self.literals:
            self.literals[column] = self._put(Literal(column))
        return self.literals[column]

    def _moved(self, part: int) -> int:
        return self.places[part] if part >= 0 else ~self.places[~part]

    def _put(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1


def _inner(draft: _Draft) -> tuple[int, ...]:
    """The places of the drafts that a draft needs."""
    if isinstance(draft, _Counted):
        return tuple(max(part, ~part) for part in draft.parts)
    return references(draft)


class _TallyPlan:
    """Which tallies there are, which counts on from which, how far each must count, and whether it counts what fails.

    Attributes:
        more: For each tally the one from which it counts on: the same without its first part, if that is there, else
            that of the labels without a name, which are too many to be counted for each branch anew.
        most: For each tally the number from which on no question tells numbers apart.
    """

    def __init__(self, drafts: Sequence[_Counted], rest: int) -> None:
        self.rest = rest
        keys = {(draft.parts, draft.rest) for draft in drafts}
        keys |= {((), True) for _, has_rest in keys if has_rest}
        ordered = sorted(keys, key=lambda key: (len(key[0]), key))
        self.more: dict[_Key, _Key | None] = {key: self._base(key, keys) for key in ordered}
        self.family: dict[_Key, _Key] = {}
        for key in ordered:
            base = self.more[key]
            self.family[key] = key if base is None else self.family[base]
        self.mirrored = self._directions(drafts)
        self.most = dict.fromkeys(keys, 1)
        for draft in drafts:
            key = draft.parts, draft.rest
            self.most[key] = max(self.most[key], self._reach(draft, mirrored=self.is_mirrored(key)))
        for key in reversed(ordered):
            base = self.more[key]
            if base is not None:
                self.most[base] = max(self.most[base], min(self.most[key], self.size(base)))

    def size(self, key: _Key) -> int:
        """How many things are counted."""
        return len(key[0]) + (self.rest if key[1] else 0)

    def is_mirrored(self, key: _Key) -> bool:
        """Whether a tally counts what fails, because that tells numbers apart sooner."""
        return self.family[key] in self.mirrored

    def allowed(self, allowed: int, key: _Key) -> tuple[bool, ...]:
        """Which numbers of a tally are allowed, the last of them for all above."""
        size = self.size(key)
        mirrored = self.is_mirrored(key)
        return tuple(bool(allowed >> (size - i if mirrored else i) & 1) for i in range(self.most[key] + 1))

    def _base(self, key: _Key, keys: set[_Key]) -> _Key | None:
        parts, rest = key
        if not parts:
            return None
        shorter = parts[1:], rest
        if len(parts) > 1 and shorter in keys:
            return shorter
        return ((), True) if rest else None

    def _directions(self, drafts: Sequence[_Counted]) -> set[_Key]:
        """The families that count what fails."""
        forward: Counter[_Key] = Counter()
        backward: Counter[_Key] = Counter()
        for draft in drafts:
            family = self.family[draft.parts, draft.rest]
            forward[family] = max(forward[family], self._reach(draft, mirrored=False))
            backward[family] = max(backward[family], self._reach(draft, mirrored=True))
        return {family for family in forward if backward[family] < forward[family]}

    def _reach(self, draft: _Counted, *, mirrored: bool) -> int:
        """The number from which on all numbers are allowed or none is."""
        size = self.size((draft.parts, draft.rest))
        bits = f"{draft.allowed:0{size + 1}b}"  # the highest number first
        bits = bits[::-1] if mirrored else bits
        return len(bits.lstrip(bits[0]))
