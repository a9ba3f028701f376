"""SQL statements that compute and rank the probability of a compiled query."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from manyhot.errors import InputError
from manyhot.search.diagram import Diagram
from manyhot.search.evaluate import evaluate

_NAME = r'"(?:[^"]|"")+"|[A-Za-z_][A-Za-z_0-9]*'
_RENAMED = re.compile(rf"(?P<expression>.+?)\s+AS\s+(?P<name>{_NAME})", re.IGNORECASE | re.DOTALL)
_QUALIFIED = re.compile(rf"(?:(?:{_NAME})\.)*(?P<name>{_NAME})")


def quote_name(name: str) -> str:
    """The name of a column or a table as a quoted SQL identifier.

    Example:
        >>> print(quote_name('12" pizza'))
        "12"" pizza"
    """
    if not name:
        raise InputError("name", "quote_name", "have letters", "an empty one", "Rename the column.")
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """A text as an SQL string literal.

    Example:
        >>> print(quote_text("cook's knife"))
        'cook''s knife'
    """
    if "\0" in text:
        raise InputError("text", "quote_text", "have no zero byte", repr(text), "Leave it out.")
    return "'" + text.replace("'", "''") + "'"


def split_name(column: str) -> tuple[str, str]:
    """The expression and the name of an extra column: a column, or an expression with `AS` and a name."""
    column = column.strip()
    qualified = _QUALIFIED.fullmatch(column)
    if qualified:
        return column, qualified["name"]
    renamed = _RENAMED.fullmatch(column)
    if renamed:
        return renamed["expression"], renamed["name"]
    raise InputError(
        "extra_columns", "sql", "hold columns, or expressions with AS and a name", repr(column), "Add a name."
    )


ZERO, ONE = 0, 1
MAX_OPERATIONS = 150_000  # sums and products in one statement


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
    """The semiring that turns the steps of a diagram into SQL: its values are indices into a list of expressions."""

    zero = ZERO
    one = ONE

    def __init__(self) -> None:
        self.nodes: list[Leaf | Operation | None] = [None, None]
        self._indices: dict[Leaf | Operation, int] = {}

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
        """The expressions that the roots need, roots included, each after its parts."""
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
        index = self._indices.setdefault(node, len(self.nodes))
        if index == len(self.nodes):
            if index > MAX_OPERATIONS:
                rule = f"need at most {MAX_OPERATIONS:,} sums and products as SQL"
                raise InputError("diagram", "sql", rule, "more", "Ask for less at once, or for a smaller count.")
            self.nodes.append(node)
        return index


_MAX_BRACKETS = 24  # nested brackets; engines and readers have a limit


def leaf_name(leaf: Leaf) -> str:
    """The column that holds the probability of a label, or of its absence."""
    return f"{'p' if leaf.present else 'q'}{leaf.column}"


class Levels:
    """Writes expressions; those used several times become columns of a query of their own.

    Args:
        expressions: Where they are stored.
        roots: The expressions of the outermost query.

    Attributes:
        leaves: The labels that are read.
        columns: For each query, the innermost first, the columns that it adds: name and text.
    """

    def __init__(self, expressions: Expressions, roots: Sequence[int]) -> None:
        self.expressions = expressions
        self.leaves: list[Leaf] = []
        self.columns: list[list[tuple[str, str]]] = []
        self._sql: dict[int, tuple[str, bool]] = {
            ZERO: ("CAST(0 AS DOUBLE)", False),
            ONE: ("CAST(1 AS DOUBLE)", False),
        }
        self._sizes: dict[int, tuple[int, int]] = {ZERO: (0, 0), ONE: (0, 0)}  # level and depth of a text
        needed = expressions.needed(roots)
        self._uses = Counter(part for index in needed for part in self._parts(index))
        for index in needed:
            self._write(index)

    def text(self, index: int) -> str:
        """An expression, over the columns of all queries."""
        return self._sql[index][0]

    def _parts(self, index: int) -> tuple[int, ...]:
        node = self.expressions.nodes[index]
        return (node.left, node.right) if isinstance(node, Operation) else ()

    def _write(self, index: int) -> None:
        node = self.expressions.nodes[index]
        if isinstance(node, Leaf):
            self.leaves.append(node)
            self._sql[index] = leaf_name(node), False
            self._sizes[index] = 0, 0
        elif isinstance(node, Operation):
            self._write_operation(index, node)

    def _write_operation(self, index: int, node: Operation) -> None:
        pieces = [self._sql[part] for part in (node.left, node.right)]
        # A product of sums needs brackets around them, a sum of products none.
        operands = [f"({text})" if is_sum and not node.is_sum else text for text, is_sum in pieces]
        text = ("+" if node.is_sum else "*").join(operands)
        level = max(self._sizes[part][0] for part in (node.left, node.right))
        depth = 1 + max(self._sizes[part][1] for part in (node.left, node.right))
        if self._uses[index] > 1 or depth >= _MAX_BRACKETS:
            name = f"v{index}"
            if len(self.columns) <= level:
                self.columns.append([])
            self.columns[level].append((name, text))
            self._sql[index], self._sizes[index] = (name, False), (level + 1, 0)
        else:
            self._sql[index], self._sizes[index] = (text, node.is_sum), (level, depth)


NOTHING = "-1e300"
_FAINT = "-700"  # adding a term smaller by this many powers of e changes nothing, and less might underflow


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
        self._sql: dict[int, tuple[int, str]] = {}
        needed = expressions.needed([root])
        self._uses = Counter(part for index in needed for part in self._parts(index))
        self._inner_sums = self._find_inner_sums(needed)
        for index in needed:
            if index not in self._inner_sums:
                self._write(index)
        self.text = self._sql[root][1]

    def _parts(self, index: int) -> tuple[int, ...]:
        node = self.expressions.nodes[index]
        return (node.left, node.right) if isinstance(node, Operation) else ()

    def _is_sum(self, index: int) -> bool:
        node = self.expressions.nodes[index]
        return isinstance(node, Operation) and node.is_sum

    def _find_inner_sums(self, needed: Sequence[int]) -> set[int]:
        """Sums that are part of one other sum and of nothing else: they are merged into it."""
        sums = [index for index in needed if self._is_sum(index)]
        return {part for index in sums for part in self._parts(index) if self._is_sum(part) and self._uses[part] == 1}

    def _write(self, index: int) -> None:
        node = self.expressions.nodes[index]
        if isinstance(node, Leaf):
            name = leaf_name(node)
            text = f"CASE WHEN low AND {name}>0 THEN ln({name}) WHEN low THEN {NOTHING} END"
            self._sql[index] = self._column(0, f"l{name}", text)
        elif self._is_sum(index):
            self._write_sum(index)
        else:
            level, text = self._product(index)
            shared = self._uses[index] > 1 or len(text) > 400
            self._sql[index] = self._column(level, f"l{index}", text) if shared else (level, text)

    def _product(self, index: int) -> tuple[int, str]:
        pieces = [self._sql[part] for part in self._parts(index)]
        return max(level for level, _ in pieces), "+".join(text for _, text in pieces)

    def _write_sum(self, index: int) -> None:
        pieces = [self._sql[part] for part in self._terms(index)]
        level = max(level for level, _ in pieces)
        operands = [text for _, text in pieces]
        level, top = self._column(level, f"m{index}", f"greatest({','.join(operands)})")
        shares = "+".join(f"exp(greatest({operand}-{top},{_FAINT}))" for operand in operands)
        self._sql[index] = self._column(level, f"l{index}", f"{top}+ln({shares})")

    def _terms(self, index: int) -> list[int]:
        """The terms of a sum, with merged inner sums expanded."""
        terms, waiting = [], list(self._parts(index))
        while waiting:
            part = waiting.pop()
            if part in self._inner_sums:
                waiting.extend(self._parts(part))
            else:
                terms.append(part)
        return sorted(terms)

    def _column(self, level: int, name: str, text: str) -> tuple[int, str]:
        """Adds a column to a query; returns the level from which on it exists, and its name."""
        while len(self.columns) <= level:
            self.columns.append([])
        self.columns[level].append((name, text))
        return level + 1, name


_SAFE = "1e-280"  # above this a probability has lost nothing to products that were too small for a double
_PROBABILITY = "CASE WHEN holds>1 THEN 1 ELSE holds END AS probability"  # sums may be rounded to a little above 1
_NEVER = "CAST('-Infinity' AS DOUBLE)"
_COLUMN = re.compile(r"\b(?:[pqvlm]\d+|l[pq]\d+|low|holds|fails)\b")  # the columns that queries hand to each other
_MAX_QUERIES = 800  # DuckDB has a limit of 1,000
_GROUP = 16  # operands per group without brackets: engines limit the depth of a chain


def probability_query(diagram: Diagram, source: str, columns: Mapping[int, str], extra_columns: Sequence[str]) -> str:
    """A query for the probability that a formula holds, for labels that are independent given the row.

    Args:
        diagram: The formula, compiled.
        source: What to select from: a table, or a query in brackets.
        columns: For each of `diagram.columns` the SQL of the column that holds the probability of its label.
        extra_columns: Further columns of the source, or expressions with `AS` and a name, quoted as SQL needs it.

    Returns:
        The text of a SELECT with the columns of `extra_columns`, then `probability`.

    Example:
        >>> from manyhot.search.formula import And, Not, Label
        >>> from manyhot.search.diagram import compile_query
        >>> from manyhot.search.sql import probability_query
        >>> fork_without_knife = compile_query(And((Label(0), Not(Label(1)))), 2)
        >>> print(probability_query(fork_without_knife, "photos", {0: "fork", 1: "knife"}, ["id"]))
        SELECT id,
          CAST(fork AS DOUBLE)*(1-CAST(knife AS DOUBLE)) AS probability
        FROM photos
    """
    extras = [split_name(item) for item in extra_columns]
    if not diagram.columns:
        return _select([*extra_columns, f"CAST({int(diagram.result >= 0)} AS DOUBLE) AS probability"], source)
    if diagram.is_conjunction:
        names = {column: f"CAST({columns[column]} AS DOUBLE)" for column in diagram.columns}
        factors = [names[column] if wanted else f"(1-{names[column]})" for column, wanted in diagram.literals]
        text = _chain(factors, "*") if factors else "CAST(1 AS DOUBLE)"
        return _select([*extra_columns, f"{text} AS probability"], source)
    expressions = Expressions()
    holds, _ = evaluate(diagram, expressions, expressions.leaf)
    levels = Levels(expressions, [holds])
    added = [*levels.columns, [("holds", levels.text(holds))]]
    return _select(
        [*_renamed_columns(extras), _PROBABILITY], _nested(levels.leaves, added, source, columns, extras, ["holds"])
    )


def scored_query(
    diagram: Diagram, source: str, columns: Mapping[int, str], extra_columns: Sequence[str], *, min_prob: float = 0.0
) -> str:
    """A query for the probability that a formula holds and its logarithm, which is exact near 0 and 1.

    The outermost query computes the logarithms, so that an engine that filters by probability computes them for the
    remaining rows only.

    Args:
        diagram: The formula, compiled.
        source: What to select from: a table, or a query in brackets.
        columns: For each of `diagram.columns` the SQL of the column that holds the probability of its label.
        extra_columns: Further columns of the source, or expressions with `AS` and a name, quoted as SQL needs it.
        min_prob: Rows of a smaller probability may be inexact. From 1e-280 on, plain numbers replace logarithms of
            every step and the text is several times shorter; rows below it get the logarithm of the plain probability.

    Returns:
        The text of a SELECT with the columns of `extra_columns`, then `probability` and `log_probability`.
    """
    extras = [split_name(item) for item in extra_columns]
    if not diagram.columns:
        always = diagram.result >= 0
        values = f"CAST({int(always)} AS DOUBLE)", "CAST(0 AS DOUBLE)" if always else _NEVER
        return _select([*extra_columns, f"{values[0]} AS probability", f"{values[1]} AS log_probability"], source)
    if diagram.is_conjunction:
        return _scored_conjunction(diagram, source, columns, extras, guarded=min_prob <= 0)
    expressions = Expressions()
    holds, fails = evaluate(diagram, expressions, expressions.leaf)
    levels = Levels(expressions, [holds, fails])
    both = [("holds", levels.text(holds)), ("fails", levels.text(fails))]
    added = [*levels.columns, both]
    below = "WHEN holds<=0 THEN " + _NEVER
    if min_prob < float(_SAFE):
        logs = LogLevels(expressions, holds)
        both.append(("low", f"{levels.text(holds)}<{_SAFE}"))
        added += logs.columns
        below = f"WHEN {logs.text}<-1e290 THEN {_NEVER} WHEN low THEN {logs.text}"
    near_one = f"WHEN fails<1e-4 THEN {_series('fails')}"
    top = [_PROBABILITY, f"CASE {near_one} {below} ELSE ln(holds) END AS log_probability"]
    inner = _nested(levels.leaves, added, source, columns, extras, top)
    return _select([*_renamed_columns(extras), *top], inner)


def _scored_conjunction(
    diagram: Diagram, source: str, columns: Mapping[int, str], extras: Sequence[tuple[str, str]], *, guarded: bool
) -> str:
    """A product, and a sum of logarithms that neither vanishes nor is rounded to zero."""
    factors, terms, impossible = [], [], []
    for column, wanted in diagram.literals:
        name = f"p{column}"
        factors.append(name if wanted else f"(1-{name})")
        terms.append(f"ln({name})" if wanted else f"CASE WHEN {name}<1e-4 THEN {_series(name)} ELSE ln(1-{name}) END")
        impossible.append(f"{name}<=0" if wanted else f"{name}>=1")
    leaves = [Leaf(column, True) for column in diagram.columns]
    logarithm = _chain(terms, "+")
    if guarded:
        logarithm = f"CASE WHEN {_chain(impossible, ' OR ')} THEN {_NEVER} ELSE {logarithm} END"
    values = [f"{_chain(factors, '*')} AS probability", f"{logarithm} AS log_probability"]
    return _select([*_renamed_columns(extras), *values], _nested(leaves, [], source, columns, extras, values))


def _nested(
    leaves: Sequence[Leaf],
    added: Sequence[Sequence[tuple[str, str]]],
    source: str,
    columns: Mapping[int, str],
    extras: Sequence[tuple[str, str]],
    wanted: Sequence[str],
) -> str:
    """Nested queries from the source to the columns that the texts in `wanted` need."""
    if len(added) > _MAX_QUERIES:
        rule = f"need at most {_MAX_QUERIES} nested queries as SQL"
        raise InputError("diagram", "sql", rule, f"{len(added)}", "Ask for less at once.")
    items = [f"{expression} AS k{index}" for index, (expression, _) in enumerate(extras)]
    for leaf in leaves:
        prob = f"CAST({columns[leaf.column]} AS DOUBLE)"
        items.append(f"{prob if leaf.present else f'1-{prob}'} AS {leaf_name(leaf)}")
    text = _select(items, source)
    for level, (names, passed) in enumerate(zip(added, _passed(added, wanted), strict=True)):
        outer = [f"k{index}" for index in range(len(extras))] + passed
        text = _select([*outer, *(f"{value} AS {name}" for name, value in names)], f"({text}) AS level{level}")
    # Some optimisers inline column expressions repeatedly. OFFSET 0 prevents it.
    fence = "\nOFFSET 0" if len(added) > 1 else ""
    return f"({text}{fence}) AS level{len(added)}"


def _passed(added: Sequence[Sequence[tuple[str, str]]], wanted: Sequence[str]) -> list[list[str]]:
    """For each query the columns of its inner query that outer queries need."""
    needed = set(_COLUMN.findall(" ".join(wanted)))
    passed = []
    for names in reversed(added):
        needed -= {name for name, _ in names}
        passed.append(sorted(needed))
        needed.update(_COLUMN.findall(" ".join(text for _, text in names)))
    return passed[::-1]


def _renamed_columns(extras: Sequence[tuple[str, str]]) -> list[str]:
    """The extra columns under their final names; inner queries use other names, so that none can clash."""
    return [f"k{index} AS {name}" for index, (_, name) in enumerate(extras)]


def _select(items: Sequence[str], source: str) -> str:
    """A SELECT, in lines of about 120 characters."""
    lines, line = [], ""
    for item in items:
        if line and len(line) + len(item) > 120:
            lines.append(line)
            line = ""
        line += f"{', ' if line else ''}{item}"
    return f"SELECT {(',' + chr(10) + '  ').join([*lines, line])}\nFROM {source}"


def _series(name: str) -> str:
    """The logarithm of 1 - x for an x below 1e-4, to the last digits."""
    return f"-{name}*(1+{name}*(0.5+{name}*(1/3e0+{name}/4)))"


def _chain(items: Sequence[str], operator: str) -> str:
    """Items joined by an operator, in groups with brackets if they are many."""
    while len(items) > _GROUP:
        groups = [items[start : start + _GROUP] for start in range(0, len(items), _GROUP)]
        items = [f"({operator.join(group)})" for group in groups]
    return operator.join(items)


def select_statement(
    diagram: Diagram,
    rows: str,
    labels: dict[int, str],
    texts: Sequence[str],
    *,
    k: int | None,
    precision: float | None,
    recall: float | None,
) -> str:
    """The statement for users and other engines: ranked rows, limited by number, expected precision or recall."""
    # A conjunction is exact in any case, and other engines may reject the logarithm of zero.
    scored = scored_query(
        diagram, rows, labels, texts, min_prob=0.0 if diagram.is_conjunction else MIN_EXACT_PROBABILITY
    )
    names = ", ".join((*texts, "probability", "log_probability"))
    order = f"log_probability DESC, {texts[0]}"
    if precision is None and recall is None:
        return f"SELECT {names}\nFROM (\n{scored}\n) AS scored\nORDER BY {order}" + (
            "" if k is None else f"\nLIMIT {k}"
        )
    before = f"ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND"
    shares = []
    if precision is not None:
        shares.append(f"avg(probability) OVER ({before} CURRENT ROW) AS expected_precision")
    if recall is not None:
        mass_before = f"sum(probability) OVER ({before} 1 PRECEDING)"
        shares.append(f"coalesce({mass_before}, 0) / sum(probability) OVER () AS recall_before")
    conditions = [f"expected_precision >= {precision!r}"] if precision is not None else []
    conditions += [f"recall_before < {recall!r}"] if recall is not None else []
    ranked = f"SELECT {names}, {', '.join(shares)}\nFROM (\n{scored}\n) AS scored"
    limit = "" if k is None else f"\nLIMIT {k}"
    wanted = " AND ".join(conditions)
    return f"SELECT {names}\nFROM (\n{ranked}\n) AS ranked\nWHERE {wanted}\nORDER BY {order}{limit}"


# In `select_statement`, formulas other than conjunctions are ranked exactly down to this; that keeps it short.
MIN_EXACT_PROBABILITY = 1e-250
