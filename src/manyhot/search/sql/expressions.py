"""Sums and products as expressions that are stored once, so that SQL can compute each of them once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from manyhot.refusal import refusal

ZERO, ONE = 0, 1
LARGEST = 150_000  # sums and products in one statement


@dataclass(frozen=True)
class Leaf:
    """A label, present or absent."""

    column: int
    present: bool


@dataclass(frozen=True)
class Operation:
    """A sum or a product of two."""

    is_sum: bool
    left: int
    right: int


class Expressions:
    """What the steps of a program compute with when they are to become text: places in a list of expressions."""

    zero = ZERO
    one = ONE

    def __init__(self) -> None:
        self.nodes: list[Leaf | Operation | None] = [None, None]
        self._places: dict[Leaf | Operation, int] = {}

    def leaf(self, column: int) -> tuple[int, int]:
        """A label, present and absent."""
        return self._store(Leaf(column, True)), self._store(Leaf(column, False))

    def plus(self, left: int, right: int) -> int:
        """The sum."""
        if ZERO in (left, right):
            return left + right
        return self._store(Operation(True, min(left, right), max(left, right)))

    def times(self, left: int, right: int) -> int:
        """The product."""
        if ZERO in (left, right):
            return ZERO
        if ONE in (left, right):
            return left if right == ONE else right
        return self._store(Operation(False, min(left, right), max(left, right)))

    def needed(self, roots: Iterable[int]) -> list[int]:
        """The expressions that some need, themselves included, each after its parts."""
        wanted = set(roots)
        waiting = list(wanted)
        while waiting:
            node = self.nodes[waiting.pop()]
            for part in (node.left, node.right) if isinstance(node, Operation) else ():
                if part not in wanted:
                    wanted.add(part)
                    waiting.append(part)
        return sorted(wanted)

    def _store(self, node: Leaf | Operation) -> int:
        place = self._places.setdefault(node, len(self.nodes))
        if place == len(self.nodes):
            if place > LARGEST:
                rule = f"need at most {LARGEST:,} sums and products as SQL"
                raise refusal("program", "sql", rule, "more", "Ask for less at once, or for a smaller count.")
            self.nodes.append(node)
        return place
