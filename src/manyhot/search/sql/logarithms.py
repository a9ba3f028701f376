"""The same sums and products with logarithms instead of numbers, for probabilities too small for a number.

The logarithm of zero is written as a number that is finite and out of reach, since engines differ about infinite ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from manyhot.search.sql.expressions import Expressions, Leaf, Operation
from manyhot.search.sql.levels import leaf_name

NOTHING = "-1e300"
_FAINT = "-700"  # adding a part that is smaller by this many powers of e changes nothing, and less might underflow


class LogLevels:
    """Writes the logarithm of an expression over columns `l…`; rows where `low` is not true get NULL.

    Args:
        expressions: Where it is stored.
        root: Which one it is.

    Attributes:
        columns: For each query, the innermost first, the columns that it adds: name and text.
        text: The logarithm, over the columns of all queries.
    """

    def __init__(self, expressions: Expressions, root: int) -> None:
        self.expressions = expressions
        self.columns: list[list[tuple[str, str]]] = []
        self._texts: dict[int, tuple[int, str]] = {}
        needed = expressions.needed([root])
        self._uses = Counter(part for place in needed for part in self._parts(place))
        self._inner_sums = self._find_inner_sums(needed)
        for place in needed:
            if place not in self._inner_sums:
                self._write(place)
        self.text = self._texts[root][1]

    def _parts(self, place: int) -> tuple[int, ...]:
        node = self.expressions.nodes[place]
        return (node.left, node.right) if isinstance(node, Operation) else ()

    def _is_sum(self, place: int) -> bool:
        node = self.expressions.nodes[place]
        return isinstance(node, Operation) and node.is_sum

    def _find_inner_sums(self, needed: Sequence[int]) -> set[int]:
        """Sums that are part of one other sum and of nothing else: they are taken in one go with it."""
        sums = [place for place in needed if self._is_sum(place)]
        return {part for place in sums for part in self._parts(place) if self._is_sum(part) and self._uses[part] == 1}

    def _write(self, place: int) -> None:
        node = self.expressions.nodes[place]
        if isinstance(node, Leaf):
            name = leaf_name(node)
            text = f"CASE WHEN low AND {name}>0 THEN ln({name}) WHEN low THEN {NOTHING} END"
            self._texts[place] = self._column(0, f"l{name}", text)
        elif self._is_sum(place):
            self._write_sum(place)
        else:
            level, text = self._joined(place)
            shared = self._uses[place] > 1 or len(text) > 400
            self._texts[place] = self._column(level, f"l{place}", text) if shared else (level, text)

    def _joined(self, place: int) -> tuple[int, str]:
        pieces = [self._texts[part] for part in self._parts(place)]
        return max(level for level, _ in pieces), "+".join(text for _, text in pieces)

    def _write_sum(self, place: int) -> None:
        pieces = [self._texts[part] for part in self._terms(place)]
        level = max(level for level, _ in pieces)
        words = [text for _, text in pieces]
        level, top = self._column(level, f"m{place}", f"greatest({','.join(words)})")
        shares = "+".join(f"exp(greatest({word}-{top},{_FAINT}))" for word in words)
        self._texts[place] = self._column(level, f"l{place}", f"{top}+ln({shares})")

    def _terms(self, place: int) -> list[int]:
        """What a sum adds, sums inside of it taken apart."""
        terms, waiting = [], list(self._parts(place))
        while waiting:
            part = waiting.pop()
            if part in self._inner_sums:
                waiting.extend(self._parts(part))
            else:
                terms.append(part)
        return sorted(terms)

    def _column(self, level: int, name: str, text: str) -> tuple[int, str]:
        """Adds a column to a query, and gives the level from which on it is there, and its name."""
        while len(self.columns) <= level:
            self.columns.append([])
        self.columns[level].append((name, text))
        return level + 1, name
