"""Ranking rows by probability: cut-offs by precision and recall, pruning, and the statements for the top k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from manyhot.errors import InputError
from manyhot.poisson_binomial import BINS, Bin
from manyhot.search.diagram import Diagram
from manyhot.search.sql import probability_query, scored_query
from manyhot.tables.arrow import import_arrow

# Sums of the same numbers in another order differ by rounding; a recall of 1 must still be reached.
ROUNDING = 1e-12


def check_k(k: object) -> int | None:
    """The number of results to return, or None for no limit."""
    if k is None:
        return None
    number = 0 if isinstance(k, bool) or not isinstance(k, Integral) else int(k)
    if not 1 <= number < 10**18:
        rule = "be a whole number from 1 on, of at most 18 digits"
        raise InputError("k", rule=rule, got=repr(k), hint="Pass how many samples you want.")
    return number


def check_share(argument: str, share: object) -> float | None:
    """A share above 0 and up to 1, or None."""
    if share is None:
        return None
    number = 0.0 if isinstance(share, bool) or not isinstance(share, Real) else float(share)
    if not 0 < number <= 1:
        hint = "Pass a share such as 0.9."
        raise InputError(argument, rule="lie above 0 and not above 1", got=repr(share), hint=hint)
    return number


def check_level(argument: str, level: object) -> float:
    """A probability above 0 and below 1."""
    number = 0.0 if isinstance(level, bool) or not isinstance(level, Real) else float(level)
    if not 0 < number < 1:
        hint = "Pass 0.95, for example."
        raise InputError(argument, rule="lie above 0 and below 1", got=repr(level), hint=hint)
    return number


def cutoff_bin(bins: Sequence[Bin], *, precision: float | None, recall: float | None) -> int:
    """The bin in which the result ends; all better bins belong to it as a whole."""
    total = sum(bin_.first for bin_ in bins)
    count, mass = 0, 0.0
    for bin_ in sorted(bins, reverse=True):
        count, mass = count + bin_.rows, mass + bin_.first
        if precision is not None and mass < precision * count * (1 + ROUNDING):
            return bin_.position
        if recall is not None and mass >= recall * total * (1 - ROUNDING):
            return bin_.position
    return 0


def cutoff_length(probs: Any, total: float, *, precision: float | None, recall: float | None) -> int:
    """How many of the falling probabilities belong to the result.

    Args:
        probs: In falling order, at least as many as belong to the result.
        total: The sum over all samples.
        precision: The result goes on as long as the mean of its probabilities is at least this.
        recall: It ends as soon as it holds this share of `total`.
    """
    sums = np.cumsum(np.asarray(probs, dtype=np.float64))
    length = len(sums)
    if precision is not None:
        below = np.flatnonzero(sums < precision * np.arange(1, len(sums) + 1) * (1 - ROUNDING))
        length = int(below[0]) if len(below) else length
    if recall is not None and total <= 0:
        return 0
    if recall is not None:
        enough = np.flatnonzero(sums >= recall * total * (1 - ROUNDING))
        length = min(length, int(enough[0]) + 1) if len(enough) else length
    return length


Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Cells:
    """The columns of a relation in memory.

    Attributes:
        rows: (N,), the numbers of the rows.
        probs: The probabilities (N,) of each label, by its number.
        samples: Some of these, taken from the same rows for all labels.
    """

    rows: Array
    probs: dict[int, Array]
    samples: dict[int, Array]


@dataclass(frozen=True)
class Relation:
    """A table in the database.

    Attributes:
        rows: The rows, as SQL for FROM.
        sample: The same, of some of the rows.
        share: How many of the rows are in the sample, as a share.
        labels: The SQL name of the column of each label, by its number.
        row: SQL names of the key of a row: its string columns, or its number.
        order: SQL names that sort rows in the order of the table.
        single_precision: Whether all probabilities are float32.
        tables: Arrow tables to register under these names first.
        cells: The columns themselves, if they are in memory.
    """

    rows: str
    sample: str
    share: float
    labels: dict[int, str]
    row: tuple[str, ...]
    order: tuple[str, ...]
    single_precision: bool
    tables: dict[str, Any] = field(default_factory=dict)
    cells: Cells | None = None


# Rows per chunk of a column; each chunk is the work of one thread.
CHUNK_ROWS = 131072


def arrow_table(rows: Array, columns: dict[int, Array]) -> Any:
    """An Arrow table that shares the memory of the arrays, in chunks for several threads."""
    pa = import_arrow()
    arrays = {"row": rows} | {f"label_{label}": cells for label, cells in columns.items()}
    starts = range(0, max(len(rows), 1), CHUNK_ROWS)
    pieces = {name: [pa.array(cells[start : start + CHUNK_ROWS]) for start in starts] for name, cells in arrays.items()}
    return pa.table({name: pa.chunked_array(chunks) for name, chunks in pieces.items()})


# Pruning pays if at most this share of the rows is left after the first label.
MAX_PRUNED_SHARE = 0.25

Bound = tuple[int, float | None, float | None]
"""A label by its number, and the lowest and highest probability that it may have."""


def kth_probability_of_sample(cells: Cells, literals: Sequence[tuple[int, bool]], rank: int) -> float:
    """The rank-th highest probability in the sample that some labels are present and others absent."""
    probs = np.ones(1)
    for label, wanted in literals:
        sample = cells.samples[label].astype(np.float64)
        probs = probs * (sample if wanted else 1 - sample)
    rank = min(rank, len(probs))
    return float(np.partition(probs, -rank)[-rank]) if rank else 0.0


def prune_rows(relation: Relation, cells: Cells, bounds: Sequence[Bound]) -> Relation:
    """The relation without the rows that a bound on one label rules out; unchanged where pruning does not pay.

    Comparing one column with a number runs at memory speed. The label that rules out the most rows comes first, so
    that few rows are left for the others.
    """
    rows = None
    for bound in sorted(bounds, key=lambda bound: _within_bound(cells.samples[bound[0]], bound).mean()):
        probs = cells.probs[bound[0]]
        if rows is None:
            rows = np.flatnonzero(_within_bound(probs, bound))
            if len(rows) > MAX_PRUNED_SHARE * len(probs):
                return relation
        else:
            rows = rows[_within_bound(probs[rows], bound)]
    if rows is None:
        return relation
    pruned = arrow_table(cells.rows[rows], {label: probs[rows] for label, probs in cells.probs.items()})
    return replace(relation, rows="pruned", tables={"pruned": pruned}, cells=None)


def _within_bound(probs: Array, bound: Bound) -> Array:
    """Which probabilities lie within a bound, widened by one step of their precision."""
    _, low, high = bound
    number = probs.dtype.type
    inside: Array
    if low is not None:
        inside = probs >= np.nextafter(number(low), number(-1))
    else:
        assert high is not None
        inside = probs <= np.nextafter(number(high), number(2))
    return inside


def top_k_statement(diagram: Diagram, relation: Relation, k: int, *, min_prob: float = 0.0) -> str:
    """The k most probable rows with at least probability `min_prob`; ties in the order of the table."""
    rows = _prefiltered(diagram, relation, min_prob)
    scored = scored_query(diagram, rows, relation.labels, _row_and_order(relation), min_prob=min_prob)
    wanted = f" WHERE probability >= {min_prob!r}" if min_prob > 0 else ""
    return f"{_ranked(scored, relation, wanted)} LIMIT {k}"


def pruned_top_k_statement(diagram: Diagram, relation: Relation, k: int, *, min_prob: float) -> str:
    """As `top_k_statement`, for rows of which few are below `min_prob`; these may be among the last of the k."""
    scored = scored_query(diagram, relation.rows, relation.labels, _row_and_order(relation), min_prob=min_prob)
    return f"{_ranked(scored, relation)} LIMIT {k}"


def top_probabilities_statement(diagram: Diagram, relation: Relation, rows: str, k: int) -> str:
    """The k highest probabilities of some rows, the highest first."""
    rated = probability_query(diagram, rows, relation.labels, [])
    return f"SELECT probability FROM ({rated}) AS rated ORDER BY probability DESC LIMIT {k}"


def histogram_statement(diagram: Diagram, relation: Relation) -> str:
    """How many rows have probabilities in each bin, with the sums of their powers; see `poisson_binomial`."""
    rated = probability_query(diagram, relation.rows, relation.labels, [])
    powers = "probability", "probability * probability", "probability * probability * probability"
    sums = ", ".join(f"sum({power})" for power in powers)
    bin_index = f"CAST(floor(probability * {BINS}) AS INTEGER)"
    return f"SELECT {bin_index} AS bin, count(*), {sums} FROM ({rated}) AS rated GROUP BY bin"


def tail_statement(diagram: Diagram, relation: Relation, bin_index: int, k: int | None = None) -> str:
    """All rows of this bin and higher ones, or the first k of them, the most probable first."""
    min_prob = bin_index / BINS / 2
    scored = scored_query(diagram, relation.rows, relation.labels, _row_and_order(relation), min_prob=min_prob)
    ranked = _ranked(scored, relation, f" WHERE floor(probability * {BINS}) >= {bin_index}" if bin_index else "")
    return ranked if k is None else f"{ranked} LIMIT {k}"


def _ranked(scored: str, relation: Relation, wanted: str = "") -> str:
    names = ", ".join((*relation.row, "probability", "log_probability"))
    order = ", ".join(("log_probability DESC", *relation.order))
    return f"SELECT {names} FROM ({scored}) AS scored{wanted} ORDER BY {order}"


def _row_and_order(relation: Relation) -> list[str]:
    return [*relation.row, *(name for name in relation.order if name not in relation.row)]


def _prefiltered(diagram: Diagram, relation: Relation, min_prob: float) -> str:
    """The rows without those that one label alone shows to be less probable than `min_prob`."""
    conditions = []
    for column, low, high in diagram.bounds(min_prob) if min_prob > 0 else ():
        name = relation.labels[column]
        conditions += [] if low is None else [f"{name} >= {_bound_literal(low, relation, -np.inf)}"]
        conditions += [] if high is None else [f"{name} <= {_bound_literal(high, relation, np.inf)}"]
    return f"(SELECT * FROM {relation.rows} WHERE {' AND '.join(conditions)})" if conditions else relation.rows


def _bound_literal(bound: float, relation: Relation, away: float) -> str:
    """A bound in the precision of the columns, rounded outwards.

    Comparing a column with a number of its own type is several times faster.
    """
    if not relation.single_precision:
        return repr(float(bound))
    return f"CAST({float(np.nextafter(np.float32(bound), np.float32(away)))!r} AS FLOAT)"
