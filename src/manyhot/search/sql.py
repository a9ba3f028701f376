"""The SQL statement of a query, for DuckDB over the same files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from manyhot.errors import InputError
from manyhot.search.diagram import AllOf, Branch, CountIn, Diagram, Literal, Node, Tally, Unnamed, references

MAX_LEVELS = 400  # nested queries; DuckDB takes fewer than 1,000
_COLUMN = re.compile(r"\b[phft]\d+\b")  # the columns that queries hand to each other
_MAX_CHAIN = 16  # operands without brackets around them
_NEVER = "CAST('-Infinity' AS DOUBLE)"


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


def files_in_sql(files: Sequence[Path], *, split: str | None, hive: bool, union: bool) -> str:
    """The rows of some files, as SQL for FROM.

    Args:
        files: Parquet files.
        split: The split whose rows are wanted; None for all.
        hive: Whether folders such as `split=test` hold the splits; otherwise they must not replace a column.
        union: Whether the files have different columns, which are then joined by name.
    """
    names = ", ".join(quote_text(re.sub(r"([*?\[])", r"[\1]", str(file))) for file in files)
    options = f"hive_partitioning = {str(hive).lower()}{', union_by_name = true' if union else ''}"
    scan = f"read_parquet([{names}], {options})"
    return scan if split is None else f"(SELECT * FROM {scan} WHERE {quote_name('split')} = {quote_text(split)})"


def select_statement(
    diagram: Diagram,
    rows: str,
    columns: Mapping[int, str],
    texts: Sequence[str],
    *,
    k: int | None = None,
    precision: float | None = None,
    recall: float | None = None,
) -> str:
    """A statement for the rows that a formula most probably holds of, the most probable first.

    Args:
        diagram: The formula, compiled.
        rows: What to select from: a table, or a query in brackets.
        columns: For each of `diagram.columns` the column that holds the probability of its label.
        texts: Further columns of the rows; ties are sorted by the first.
        k: At most this many rows.
        precision: Rows as long as their mean probability is at least this.
        recall: Rows until this share of the expected matches is among them.
    """
    names = ", ".join((*map(quote_name, texts), "probability", "log_probability"))
    order = f"log_probability DESC, {quote_name(texts[0])}"
    scored = _scored(diagram, rows, {column: quote_name(name) for column, name in columns.items()}, texts)
    limit = "" if k is None else f"\nLIMIT {k}"
    if precision is None and recall is None:
        return f"SELECT {names}\nFROM (\n{scored}\n) AS scored\nORDER BY {order}{limit}"
    before = f"ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND"
    shares, conditions = [], []
    if precision is not None:
        shares.append(f"avg(probability) OVER ({before} CURRENT ROW) AS expected_precision")
        conditions.append(f"expected_precision >= {precision!r}")
    if recall is not None:
        mass_before = f"sum(probability) OVER ({before} 1 PRECEDING)"
        shares.append(f"coalesce({mass_before}, 0) / sum(probability) OVER () AS recall_before")
        conditions.append(f"recall_before < {recall!r}")
    ranked = f"SELECT {names}, {', '.join(shares)}\nFROM (\n{scored}\n) AS scored"
    wanted = " AND ".join(conditions)
    return f"SELECT {names}\nFROM (\n{ranked}\n) AS ranked\nWHERE {wanted}\nORDER BY {order}{limit}"


def _scored(diagram: Diagram, rows: str, columns: Mapping[int, str], texts: Sequence[str]) -> str:
    """A query for the texts, the probability, and its logarithm, which is exact near 1 and of conjunctions near 0."""
    writer = _Writer(diagram)
    levels = writer.levels if diagram.literals is None else []
    if len(levels) > MAX_LEVELS:
        rule = f"need at most {MAX_LEVELS} nested queries as SQL"
        raise InputError("query", rule=rule, got=str(len(levels)), hint="Ask for less at once.")
    if diagram.literals is None:
        holds, fails = writer.pair(diagram.result)
        near_one = f"WHEN {fails}<1e-4 THEN {_log_of_opposite(fails)}"
        logarithm = f"CASE {near_one} WHEN {holds}<=0 THEN {_NEVER} ELSE ln({holds}) END"
        values = [f"least({holds}, 1) AS probability", f"{logarithm} AS log_probability"]
    else:  # a sum of logarithms neither vanishes nor is rounded to zero
        literals = [(f"p{column}", wanted) for column, wanted in diagram.literals]
        factors = [prob if wanted else f"(1-{prob})" for prob, wanted in literals]
        terms = [f"ln({prob})" if wanted else _log_of_absent(prob) for prob, wanted in literals]
        never = _joined(" OR ", [f"{prob}<=0" if wanted else f"{prob}>=1" for prob, wanted in literals])
        logarithm = f"CASE WHEN {never} THEN {_NEVER} ELSE {_joined('+', terms)} END" if literals else "0"
        values = [f"{_joined('*', factors) or 1} AS probability", f"{logarithm} AS log_probability"]
    # The inner queries have names of their own, so that none can clash with a column of the rows.
    keys = [f"k{index}" for index in range(len(texts))]
    inner = [f"{quote_name(text)} AS {key}" for text, key in zip(texts, keys, strict=True)]
    query = _select([*inner, *(f"CAST({columns[c]} AS DOUBLE) AS p{c}" for c in diagram.columns)], rows)
    needed = [set(_COLUMN.findall(" ".join(values)))]  # by the outermost query, then by each inner one
    for added in reversed(levels):
        needed.append((needed[-1] - added.keys()) | set(_COLUMN.findall(" ".join(added.values()))))
    for number, (added, wanted) in enumerate(zip(levels, needed[-2::-1], strict=True)):
        passed = sorted(wanted - added.keys())
        query = _select(
            [*keys, *passed, *(f"{text} AS {name}" for name, text in added.items())], f"({query}) AS level{number}"
        )
    # Without OFFSET 0, an optimiser may write out a column wherever it is used, and so on for its parts.
    fence = "\nOFFSET 0" if len(levels) > 1 else ""
    outer = [f"{key} AS {quote_name(text)}" for text, key in zip(texts, keys, strict=True)]
    return _select([*outer, *values], f"({query}{fence}) AS level{len(levels)}")


class _Writer:
    """Writes the nodes of a diagram as columns of nested queries.

    Of node 3 these are `h3` and `f3`, that it holds and that it fails, or a list `t3`: of a tally the probabilities of
    each number, of a long product both values.

    Attributes:
        levels: The columns that each query adds, by name, the innermost first.
    """

    def __init__(self, diagram: Diagram) -> None:
        self.nodes, self.unnamed = diagram.nodes, diagram.unnamed
        self.levels: list[dict[str, str]] = []
        level_of: dict[int, int] = {}  # from which on the columns of a node exist
        for index, node, _ in diagram.steps:
            level = max((level_of[part] for part in references(node)), default=0)
            columns = self._columns(index, node)
            if columns:
                self.levels += [{}] if len(self.levels) == level else []
                self.levels[level] |= columns
            level_of[index] = level + bool(columns)

    def pair(self, part: int) -> tuple[str, str]:
        """That a node holds, and that it fails; exchanged for its opposite."""
        index = max(part, ~part)
        match self.nodes[index]:
            case Literal(column):
                pair = f"p{column}", f"(1-p{column})"
            case AllOf(()):
                pair = "1", "0"
            case AllOf(parts) if len(parts) > _MAX_CHAIN:
                pair = f"t{index}[1]", f"t{index}[2]"
            case _:
                pair = f"h{index}", f"f{index}"
        return pair if part >= 0 else pair[::-1]

    def _columns(self, index: int, node: Node) -> dict[str, str]:
        match node:
            case Literal() | AllOf(()):
                return {}
            case AllOf(parts) if len(parts) > _MAX_CHAIN:
                step = "[c[1]*x[1], c[2]+c[1]*x[2]]"
                return {f"t{index}": _reduced(map(self.pair, parts), step, "CAST([1, 0] AS DOUBLE[])")}
            case AllOf(parts):
                pairs = [self.pair(part) for part in parts]
                fails = pairs[-1][1]
                for one in reversed(pairs[:-1]):
                    fails = f"{one[1]}+{one[0]}*({fails})"
                return {f"h{index}": "*".join(holds for holds, _ in pairs), f"f{index}": fails}
            case Branch(literal, present, absent):
                one, (is_present, is_absent) = (
                    self.pair(literal),
                    zip(self.pair(present), self.pair(absent), strict=True),
                )
                return {
                    f"{name}{index}": f"{one[0]}*{given[0]}+{one[1]}*{given[1]}"
                    for name, given in (("h", is_present), ("f", is_absent))
                }
            case Unnamed(absent, cap):
                texts = ("1-p{0}", "p{0}") if absent else ("p{0}", "1-p{0}")
                pairs = [(texts[0].format(column), texts[1].format(column)) for column in self.unnamed]
                return {f"t{index}": _tally(pairs, _nothing(cap), cap)}
            case Tally(parts, base, cap):
                first = _nothing(cap) if base is None else self._merged(base, cap)
                return {f"t{index}": _tally(map(self.pair, parts), first, cap)}
            case CountIn(tally, allowed, reach):
                cap, sides = self._cap(tally), {True: ["0"], False: ["0"]}
                for number in range(cap + 1):
                    sides[bool(allowed >> min(number, reach) & 1)].append(f"t{tally}[{number + 1}]")
                return {f"h{index}": _joined("+", sides[True]), f"f{index}": _joined("+", sides[False])}
        raise AssertionError(node)

    def _cap(self, tally: int) -> int:
        node = self.nodes[tally]
        assert isinstance(node, Tally | Unnamed)
        return node.cap

    def _merged(self, tally: int, cap: int) -> str:
        """The list of a tally, with all numbers above `cap` in one."""
        return (
            f"t{tally}"
            if self._cap(tally) <= cap
            else f"list_append(t{tally}[1:{cap}], list_sum(t{tally}[{cap + 1}:]))"
        )


def _nothing(cap: int) -> str:
    return f"CAST({[1, *[0] * cap]} AS DOUBLE[])"


def _tally(pairs: Iterable[tuple[str, str]], first: str, cap: int) -> str:
    """How many of some events happen, beside those of the list `first`; the last number for all above."""
    middle = [f"c[{n}]*x[2]+c[{n - 1}]*x[1]" for n in range(2, cap + 1)]
    return _reduced(pairs, f"[{', '.join(['c[1]*x[2]', *middle, f'c[{cap + 1}]+c[{cap}]*x[1]'])}]", first)


def _reduced(pairs: Iterable[tuple[str, str]], step: str, first: str) -> str:
    events = ", ".join(f"[{holds}, {fails}]" for holds, fails in pairs)
    return f"list_reduce([{events}], lambda c, x: {step}, {first})"


def _select(items: Sequence[str], source: str) -> str:
    """A SELECT, in lines of about 120 characters."""
    lines, line = [], ""
    for item in items:
        if line and len(line) + len(item) > 120:
            lines.append(line)
            line = ""
        line += f"{', ' if line else ''}{item}"
    return f"SELECT {(',' + chr(10) + '  ').join([*lines, line])}\nFROM {source}"


def _log_of_opposite(prob: str) -> str:
    """The logarithm of 1 - x for an x below 1e-4, to the last digits."""
    return f"-{prob}*(1+{prob}*(0.5+{prob}*(1/3e0+{prob}/4)))"


def _log_of_absent(prob: str) -> str:
    return f"CASE WHEN {prob}<1e-4 THEN {_log_of_opposite(prob)} ELSE ln(1-{prob}) END"


def _joined(operator: str, items: Sequence[str]) -> str:
    """Items joined by an operator, in groups with brackets if they are many: engines limit the depth of a chain."""
    while len(items) > _MAX_CHAIN:
        groups = [items[start : start + _MAX_CHAIN] for start in range(0, len(items), _MAX_CHAIN)]
        items = [f"({operator.join(group)})" for group in groups]
    return operator.join(items)
