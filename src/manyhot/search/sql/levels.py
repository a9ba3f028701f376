"""Expressions spread over nested queries, so that none is written, or computed, twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from manyhot.search.sql.expressions import ONE, ZERO, Expressions, Leaf, Operation

_DEEPEST = 24  # brackets within brackets; engines and readers have a limit


def leaf_name(leaf: Leaf) -> str:
    """The column that holds the probability of a label, or of its absence."""
    return f"{'p' if leaf.present else 'q'}{leaf.column}"


class Levels:
    """Writes expressions; those that are needed several times become columns of a query of their own.

    Args:
        expressions: Where they are stored.
        roots: What is wanted in the end.

    Attributes:
        leaves: The labels that are read.
        columns: For each query, the innermost first, the columns that it adds: name and text.
    """

    def __init__(self, expressions: Expressions, roots: Sequence[int]) -> None:
        self.expressions = expressions
        self.leaves: list[Leaf] = []
        self.columns: list[list[tuple[str, str]]] = []
        self._texts: dict[int, tuple[str, bool]] = {
            ZERO: ("CAST(0 AS DOUBLE)", False),
            ONE: ("CAST(1 AS DOUBLE)", False),
        }
        self._sizes: dict[int, tuple[int, int]] = {ZERO: (0, 0), ONE: (0, 0)}  # level and depth of a text
        needed = expressions.needed(roots)
        self._uses = Counter(part for place in needed for part in self._parts(place))
        for place in needed:
            self._write(place)

    def text(self, place: int) -> str:
        """An expression, over the columns of all queries."""
        return self._texts[place][0]

    def _parts(self, place: int) -> tuple[int, ...]:
        node = self.expressions.nodes[place]
        return (node.left, node.right) if isinstance(node, Operation) else ()

    def _write(self, place: int) -> None:
        node = self.expressions.nodes[place]
        if isinstance(node, Leaf):
            self.leaves.append(node)
            self._texts[place] = leaf_name(node), False
            self._sizes[place] = 0, 0
        elif isinstance(node, Operation):
            self._write_operation(place, node)

    def _write_operation(self, place: int, node: Operation) -> None:
        pieces = [self._texts[part] for part in (node.left, node.right)]
        # A product of sums needs brackets around them, a sum of products none.
        words = [f"({text})" if is_sum and not node.is_sum else text for text, is_sum in pieces]
        text = ("+" if node.is_sum else "*").join(words)
        level = max(self._sizes[part][0] for part in (node.left, node.right))
        depth = 1 + max(self._sizes[part][1] for part in (node.left, node.right))
        if self._uses[place] > 1 or depth >= _DEEPEST:
            name = f"v{place}"
            if len(self.columns) <= level:
                self.columns.append([])
            self.columns[level].append((name, text))
            self._texts[place], self._sizes[place] = (name, False), (level + 1, 0)
        else:
            self._texts[place], self._sizes[place] = (text, node.is_sum), (level, depth)
