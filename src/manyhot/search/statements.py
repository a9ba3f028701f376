"""The SQL that answers questions about a query; `sql` writes its probability, this the questions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyhot.poisson_binomial import BINS
from manyhot.search import sql
from manyhot.search.program import Program
from manyhot.search.relation import Relation

# Formulas other than conjunctions are ranked exactly down to this in the statement for people, which stays short so.
READABLE = 1e-250


def best(program: Program, relation: Relation, k: int, *, least: float = 0.0) -> str:
    """The k most probable rows, none of which is less probable than `least`; rows in the order of the table if tied."""
    rows = _narrowed(program, relation, least)
    scored = sql.scored(program, rows, relation.labels, _row_and_order(relation), least=least)
    wanted = f" WHERE probability >= {least!r}" if least > 0 else ""
    return f"{_ranked(scored, relation, wanted)} LIMIT {k}"


def best_of_picked(program: Program, relation: Relation, k: int, *, least: float) -> str:
    """The same for rows of which few are less probable than `least`; these may be among the last of the k."""
    scored = sql.scored(program, relation.rows, relation.labels, _row_and_order(relation), least=least)
    return f"{_ranked(scored, relation)} LIMIT {k}"


def best_probabilities(program: Program, relation: Relation, rows: str, k: int) -> str:
    """The k highest probabilities of some rows, the highest first."""
    rated = sql.probability(program, rows, relation.labels, [])
    return f"SELECT probability FROM ({rated}) AS rated ORDER BY probability DESC LIMIT {k}"


def bins(program: Program, relation: Relation) -> str:
    """How many rows have probabilities in each bin, with the sums of their powers; see `counting`."""
    rated = sql.probability(program, relation.rows, relation.labels, [])
    powers = "probability", "probability * probability", "probability * probability * probability"
    sums = ", ".join(f"sum({power})" for power in powers)
    place = f"CAST(floor(probability * {BINS}) AS INTEGER)"
    return f"SELECT {place} AS place, count(*), {sums} FROM ({rated}) AS rated GROUP BY place"


def above(program: Program, relation: Relation, place: int, k: int | None = None) -> str:
    """All rows from the bin of this place on, or the first k of them, the most probable first."""
    least = place / BINS / 2
    scored = sql.scored(program, relation.rows, relation.labels, _row_and_order(relation), least=least)
    ranked = _ranked(scored, relation, f" WHERE floor(probability * {BINS}) >= {place}" if place else "")
    return ranked if k is None else f"{ranked} LIMIT {k}"


def readable(
    program: Program,
    rows: str,
    labels: dict[int, str],
    texts: Sequence[str],
    *,
    k: int | None,
    precision: float | None,
    recall: float | None,
) -> str:
    """One statement for people and other engines: ranked rows, up to a number or an expected share."""
    # A conjunction is exact in any case, and other engines may refuse the logarithm of nothing.
    scored = sql.scored(program, rows, labels, texts, least=0.0 if program.is_conjunction else READABLE)
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
        seen = f"sum(probability) OVER ({before} 1 PRECEDING)"
        shares.append(f"coalesce({seen}, 0) / sum(probability) OVER () AS recall_before")
    conditions = [f"expected_precision >= {precision!r}"] if precision is not None else []
    conditions += [f"recall_before < {recall!r}"] if recall is not None else []
    ranked = f"SELECT {names}, {', '.join(shares)}\nFROM (\n{scored}\n) AS scored"
    limit = "" if k is None else f"\nLIMIT {k}"
    wanted = " AND ".join(conditions)
    return f"SELECT {names}\nFROM (\n{ranked}\n) AS ranked\nWHERE {wanted}\nORDER BY {order}{limit}"


def _ranked(scored: str, relation: Relation, wanted: str = "") -> str:
    names = ", ".join((*relation.row, "probability", "log_probability"))
    order = ", ".join(("log_probability DESC", *relation.order))
    return f"SELECT {names} FROM ({scored}) AS scored{wanted} ORDER BY {order}"


def _row_and_order(relation: Relation) -> list[str]:
    return [*relation.row, *(name for name in relation.order if name not in relation.row)]


def _narrowed(program: Program, relation: Relation, least: float) -> str:
    """The rows without those of which one label alone says that they are less probable than `least`."""
    conditions = []
    for column, low, high in program.bounds(least) if least > 0 else ():
        name = relation.labels[column]
        conditions += [] if low is None else [f"{name} >= {_number(low, relation, -np.inf)}"]
        conditions += [] if high is None else [f"{name} <= {_number(high, relation, np.inf)}"]
    return f"(SELECT * FROM {relation.rows} WHERE {' AND '.join(conditions)})" if conditions else relation.rows


def _number(bound: float, relation: Relation, away: float) -> str:
    """A bound in the precision of the columns, rounded so that it excludes no more than before.

    A column is compared several times faster with a number of its own type.
    """
    if not relation.narrow:
        return repr(float(bound))
    return f"CAST({float(np.nextafter(np.float32(bound), np.float32(away)))!r} AS FLOAT)"
