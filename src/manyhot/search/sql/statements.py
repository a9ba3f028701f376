"""Queries that give the probability of a formula for each row of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from manyhot.refusal import refusal
from manyhot.search.evaluation import evaluate
from manyhot.search.program import Program
from manyhot.search.sql.expressions import Expressions, Leaf
from manyhot.search.sql.levels import Levels, leaf_name
from manyhot.search.sql.logarithms import LogLevels
from manyhot.search.sql.names import split_name

_SAFE = "1e-280"  # above this a probability has lost nothing to products that were too small for a double
_PROBABILITY = "CASE WHEN holds>1 THEN 1 ELSE holds END AS probability"  # sums may be rounded to a little above 1
_NEVER = "CAST('-Infinity' AS DOUBLE)"
_COLUMN = re.compile(r"\b(?:[pqvlm]\d+|l[pq]\d+|low|holds|fails)\b")  # the columns that queries hand to each other
_DEEPEST = 800  # DuckDB stops at 1,000
_GROUP = 16  # operands that stand in a row without brackets: engines limit how deep a chain is


def probability(program: Program, source: str, columns: Mapping[int, str], keep: Sequence[str]) -> str:
    """A query for the probability that a formula holds, for labels that are independent given the row.

    Args:
        program: The formula, compiled.
        source: What to select from: a table, or a query in brackets.
        columns: For each of `program.columns` the SQL of the column that holds the probability of its label.
        keep: Columns of the source to be kept, or expressions with `AS` and a name, quoted as SQL needs it.

    Returns:
        The text of a SELECT with the columns of `keep`, then `probability`.

    Example:
        >>> from manyhot.search.formula import And, Not, Present
        >>> from manyhot.search.program import compile_formula
        >>> from manyhot.search.sql import probability
        >>> fork_without_knife = compile_formula(And((Present(0), Not(Present(1)))), 2)
        >>> print(probability(fork_without_knife, "photos", {0: "fork", 1: "knife"}, ["id"]))
        SELECT id,
          CAST(fork AS DOUBLE)*(1-CAST(knife AS DOUBLE)) AS probability
        FROM photos
    """
    kept = [split_name(item) for item in keep]
    if not program.columns:
        return _select([*keep, f"CAST({int(program.result >= 0)} AS DOUBLE) AS probability"], source)
    if program.is_conjunction:
        names = {column: f"CAST({columns[column]} AS DOUBLE)" for column in program.columns}
        factors = [names[column] if wanted else f"(1-{names[column]})" for column, wanted in program.literals]
        text = _chain(factors, "*") if factors else "CAST(1 AS DOUBLE)"
        return _select([*keep, f"{text} AS probability"], source)
    expressions = Expressions()
    holds, _ = evaluate(program, expressions, expressions.leaf)
    levels = Levels(expressions, [holds])
    added = [*levels.columns, [("holds", levels.text(holds))]]
    return _select([*_named(kept), _PROBABILITY], _nested(levels.leaves, added, source, columns, kept, ["holds"]))


def scored(
    program: Program, source: str, columns: Mapping[int, str], keep: Sequence[str], *, least: float = 0.0
) -> str:
    """A query for the probability that a formula holds, and its logarithm, which tells apart what is rounded to 0 or 1.

    Logarithms are taken in the outermost query, so that an engine that filters by probability takes them of what is
    left.

    Args:
        program: The formula, compiled.
        source: What to select from: a table, or a query in brackets.
        columns: For each of `program.columns` the SQL of the column that holds the probability of its label.
        keep: Columns of the source to be kept, or expressions with `AS` and a name, quoted as SQL needs it.
        least: Rows of a smaller probability are of no interest. From 1e-280 on, numbers do what takes logarithms of
            every step for smaller ones, and the text is several times shorter; such rows get the logarithm of what
            numbers can tell.

    Returns:
        The text of a SELECT with the columns of `keep`, then `probability` and `log_probability`.
    """
    kept = [split_name(item) for item in keep]
    if not program.columns:
        sure = program.result >= 0
        values = f"CAST({int(sure)} AS DOUBLE)", "CAST(0 AS DOUBLE)" if sure else _NEVER
        return _select([*keep, f"{values[0]} AS probability", f"{values[1]} AS log_probability"], source)
    if program.is_conjunction:
        return _scored_conjunction(program, source, columns, kept, guarded=least <= 0)
    expressions = Expressions()
    holds, fails = evaluate(program, expressions, expressions.leaf)
    levels = Levels(expressions, [holds, fails])
    both = [("holds", levels.text(holds)), ("fails", levels.text(fails))]
    added = [*levels.columns, both]
    below = "WHEN holds<=0 THEN " + _NEVER
    if least < float(_SAFE):
        logs = LogLevels(expressions, holds)
        both.append(("low", f"{levels.text(holds)}<{_SAFE}"))
        added += logs.columns
        below = f"WHEN {logs.text}<-1e290 THEN {_NEVER} WHEN low THEN {logs.text}"
    near_one = f"WHEN fails<1e-4 THEN {_series('fails')}"
    top = [_PROBABILITY, f"CASE {near_one} {below} ELSE ln(holds) END AS log_probability"]
    inner = _nested(levels.leaves, added, source, columns, kept, top)
    return _select([*_named(kept), *top], inner)


def _scored_conjunction(
    program: Program, source: str, columns: Mapping[int, str], kept: Sequence[tuple[str, str]], *, guarded: bool
) -> str:
    """A product, and a sum of logarithms that neither vanishes nor is rounded to zero."""
    factors, terms, impossible = [], [], []
    for column, wanted in program.literals:
        name = f"p{column}"
        factors.append(name if wanted else f"(1-{name})")
        terms.append(f"ln({name})" if wanted else f"CASE WHEN {name}<1e-4 THEN {_series(name)} ELSE ln(1-{name}) END")
        impossible.append(f"{name}<=0" if wanted else f"{name}>=1")
    leaves = [Leaf(column, True) for column in program.columns]
    logarithm = _chain(terms, "+")
    if guarded:
        logarithm = f"CASE WHEN {_chain(impossible, ' OR ')} THEN {_NEVER} ELSE {logarithm} END"
    values = [f"{_chain(factors, '*')} AS probability", f"{logarithm} AS log_probability"]
    return _select([*_named(kept), *values], _nested(leaves, [], source, columns, kept, values))


def _nested(
    leaves: Sequence[Leaf],
    added: Sequence[Sequence[tuple[str, str]]],
    source: str,
    columns: Mapping[int, str],
    kept: Sequence[tuple[str, str]],
    wanted: Sequence[str],
) -> str:
    """The queries within each other that lead from the source to the columns which the texts in `wanted` need."""
    if len(added) > _DEEPEST:
        rule = f"need at most {_DEEPEST} queries within each other as SQL"
        raise refusal("program", "sql", rule, f"{len(added)}", "Ask for less at once.")
    items = [f"{expression} AS k{place}" for place, (expression, _) in enumerate(kept)]
    for leaf in leaves:
        prob = f"CAST({columns[leaf.column]} AS DOUBLE)"
        items.append(f"{prob if leaf.present else f'1-{prob}'} AS {leaf_name(leaf)}")
    text = _select(items, source)
    for level, (names, passed) in enumerate(zip(added, _passed(added, wanted), strict=True)):
        outer = [f"k{place}" for place in range(len(kept))] + passed
        text = _select([*outer, *(f"{value} AS {name}" for name, value in names)], f"({text}) AS level{level}")
    # Some optimisers write what a column is made of in its place, over and over. OFFSET 0 keeps them from it.
    fence = "\nOFFSET 0" if len(added) > 1 else ""
    return f"({text}{fence}) AS level{len(added)}"


def _passed(added: Sequence[Sequence[tuple[str, str]]], wanted: Sequence[str]) -> list[list[str]]:
    """For each query the columns of the one inside of it that are needed further out."""
    needed = set(_COLUMN.findall(" ".join(wanted)))
    passed = []
    for names in reversed(added):
        needed -= {name for name, _ in names}
        passed.append(sorted(needed))
        needed.update(_COLUMN.findall(" ".join(text for _, text in names)))
    return passed[::-1]


def _named(kept: Sequence[tuple[str, str]]) -> list[str]:
    """The kept columns under the names that they shall have in the end; inside, none can clash with ours."""
    return [f"k{place} AS {name}" for place, (_, name) in enumerate(kept)]


def _select(items: Sequence[str], source: str) -> str:
    """A SELECT, in lines of some hundred letters."""
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


def _chain(items: Sequence[str], sign: str) -> str:
    """Items joined by a sign, in groups with brackets if they are many."""
    while len(items) > _GROUP:
        groups = [items[start : start + _GROUP] for start in range(0, len(items), _GROUP)]
        items = [f"({sign.join(group)})" for group in groups]
    return sign.join(items)
