"""What a collection is at one moment: its files, the columns that were read of them, and the queries understood."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.poisson_binomial import Bin
from manyhot.search import statements
from manyhot.search.cutting import bin_of_cut, length_of_cut
from manyhot.search.duck import Database
from manyhot.search.files import ParquetFiles
from manyhot.search.kept import KeptColumns
from manyhot.search.parsing import parse
from manyhot.search.picking import pick, place_in_sample
from manyhot.search.program import Program, compile_formula
from manyhot.search.relation import SAMPLE_ROWS, Relation
from manyhot.search.writing import write

if TYPE_CHECKING:
    from manyhot.search.tables import TableColumns

# Below this many rows, learning from a sample what cannot be among the best takes longer than looking at everything.
WORTH_SAMPLING = 8 * SAMPLE_ROWS
# What is expected of the k best in the sample may be less by chance; so many more make a guess too high a rare thing.
MARGIN = 5
# The logarithm of a product and the product are rounded differently; rows this close to a guess are not ruled out.
SLACK = 1e-9
PLANS = 256

Row = tuple[Any, ...]
"""What tells a row, its probability, and the logarithm of it."""


class Plan(NamedTuple):
    """A query that has been understood: its plain form, and how its probability is computed."""

    text: str
    program: Program


class View:
    """Files or a table as they were when they were opened; a query is answered by one view from beginning to end.

    Args:
        source: Where the columns come from.
        database: What computes.
        keep: How many bytes of columns may stay in memory; None for no limit.
    """

    def __init__(self, source: ParquetFiles | TableColumns, database: Database, keep: int | None) -> None:
        self.source, self.labels = source, source.labels
        self._database = database
        self._kept = KeptColumns(source, keep)
        self._plans: dict[str, Plan] = {}

    def plan(self, query: str) -> Plan:
        """The query, understood; or the error that says what is wrong with it."""
        plan = self._plans.get(query) if isinstance(query, str) else None
        if plan is None:
            formula = parse(query, self.labels)
            plan = Plan(write(formula, self.labels), compile_formula(formula, len(self.labels)))
            if len(self._plans) >= PLANS:
                self._plans.clear()
            self._plans[query] = plan
        return plan

    def relation(self, program: Program) -> Relation:
        """The columns that a program needs: in memory if they may stay there, else in the files."""
        relation = self._kept.relation(program.columns)
        if relation is None:
            assert isinstance(self.source, ParquetFiles)
            relation = self.source.relation(program.columns)
        return relation

    def best(self, program: Program, relation: Relation, k: int | None) -> list[Row]:
        """The k most probable rows, or all; ties in the order of the table."""
        if k is None:
            return self._rows(statements.above(program, relation, 0), relation)
        least = self._guess(program, relation, k) * (1 - SLACK)
        picked = self._pick(program, relation, least)
        statement = statements.best if picked is relation else statements.best_of_picked
        rows = self._rows(statement(program, picked, k, least=least), picked)
        # If k rows reach the guess, what it has ruled out is no better. If not, it was too high.
        if least > 0 and (len(rows) < min(k, self.source.size) or rows[-1][-2] < least):
            rows = self._rows(statements.best(program, relation, k), relation)
        return rows

    def bins(self, program: Program, relation: Relation) -> list[Bin]:
        """How many rows have which probabilities."""
        return [Bin(*row) for row in self._rows(statements.bins(program, relation), relation)]

    def until(
        self,
        program: Program,
        relation: Relation,
        bins: list[Bin],
        *,
        k: int | None,
        precision: float | None,
        recall: float | None,
    ) -> list[Row]:
        """The most probable rows until they are too imprecise, or complete enough, or k."""
        place = bin_of_cut(bins, precision=precision, recall=recall)
        rows = self._rows(statements.above(program, relation, place, k), relation)
        total = math.fsum(group.first for group in bins)
        return rows[: length_of_cut([row[-2] for row in rows], total, precision=precision, recall=recall)]

    def texts(self, rows: list[Row], relation: Relation) -> list[Row]:
        """Id and path of each row, which files give at once and columns in memory by the number of the row."""
        if relation.cells is None:
            return [row[:-2] for row in rows]
        columns = self._kept.texts([name for name in self.source.texts if name != "split"])
        numbers = [row[0] for row in rows]
        return list(zip(*(column.take(numbers).to_pylist() for column in columns), strict=True)) if rows else []

    def _rows(self, statement: str, relation: Relation) -> list[Row]:
        if relation.tables:
            return self._database.rows(statement, relation.tables)
        assert isinstance(self.source, ParquetFiles)
        return self.source.ask(statement)

    def _guess(self, program: Program, relation: Relation, k: int) -> float:
        """A probability that at least k rows probably have, by which most of the others can be ruled out quickly."""
        sampled = self.source.size >= WORTH_SAMPLING
        if not program.columns or (program.is_conjunction and not sampled):
            return 0.0
        place = math.ceil(k * relation.share) + MARGIN if sampled else k
        if relation.cells is not None and program.is_conjunction:
            return place_in_sample(relation.cells, program.literals, place)
        rows = relation.sample if sampled else relation.rows
        highest = self._rows(statements.best_probabilities(program, relation, rows, place), relation)
        return float(highest[-1][0]) if highest else 0.0

    def _pick(self, program: Program, relation: Relation, least: float) -> Relation:
        if least <= 0 or relation.cells is None or self.source.size < WORTH_SAMPLING:
            return relation
        return pick(relation, relation.cells, program.bounds(least))
