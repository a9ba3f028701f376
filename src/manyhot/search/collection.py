"""A collection of samples with their probabilities, and the questions that can be put to it."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.search import statements
from manyhot.search.counting import Bin, count_interval
from manyhot.search.cutting import bin_of_cut, check_k, check_share, length_of_cut
from manyhot.search.duck import Database
from manyhot.search.files import ParquetFiles
from manyhot.search.found import Expectation, Found, Hit
from manyhot.search.kept import KeptColumns
from manyhot.search.parsing import parse
from manyhot.search.program import Program, compile_formula
from manyhot.search.relation import SAMPLE_ROWS, Relation
from manyhot.search.sql import quote_name
from manyhot.search.writing import write

if TYPE_CHECKING:
    from manyhot.predictions.table import Table
    from manyhot.search.tables import TableColumns

OWNER = "Collection"
LEVEL = 0.95
# Below this many rows, learning from a sample what cannot be among the best takes longer than looking at everything.
WORTH_SAMPLING = 8 * SAMPLE_ROWS
# What is expected of the k best in the sample may be less by chance; so many more make a guess too high a rare thing.
MARGIN = 5
# The logarithm of a product and the product are rounded differently; rows this close to a guess are not ruled out.
SLACK = 1e-9
PLANS = 256

Row = tuple[Any, ...]


class Plan(NamedTuple):
    """A query that has been understood: its plain form, and how its probability is computed."""

    text: str
    program: Program


class Collection:
    """Samples with a probability for each label, to be searched by what they show and what they do not.

    The labels of a sample count as independent given the sample; then the probability of any query is exact. Opened
    collections may be used by several threads.

    Example:
        >>> table = mh.Predictions(
        ...     probs=[[0.9, 0.2], [0.8, 0.7], [0.1, 0.6]], labels=["dog", "park"], ids=["a", "b", "c"]
        ... )
        >>> found = Collection.of(table).search("dog & !park", k=2)
        >>> [(hit.id, round(hit.prob, 2)) for hit in found.hits]
        [('a', 0.72), ('b', 0.24)]
        >>> round(found.expected.mean, 2), round(found.precision, 2)
        (1.0, 0.48)
    """

    def __init__(self, source: ParquetFiles | TableColumns, database: Database, *, keep: int | None) -> None:
        self._source, self._database = source, database
        self._keep = keep
        self._kept = KeptColumns(source, keep)
        self._plans: dict[str, Plan] = {}
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        split: str | None = None,
        keep: int = 2**31,
    ) -> Collection:
        """Opens predictions on disk; of their columns only those that a query names are read.

        Args:
            path: A Parquet file of predictions, a folder of parts (also in folders of their own), a pattern, the
                folder of a run, or several of these.
            split: The split to search; all rows by default.
            keep: How many bytes of columns to keep in memory for the next query; 0 reads the files each time.
        """
        database = Database()
        files = ParquetFiles(path, database, split=split)
        if files.has_probs:
            return cls(files, database, keep=keep)
        from manyhot.predictions.stored import open_parts

        table = open_parts(files.files)
        return cls.of(table if split is None else table.of_split(split))

    @classmethod
    def of(cls, table: Table) -> Collection:
        """A table of predictions as a collection; what a query names is kept in memory.

        Args:
            table: It must have probabilities, or scores with a link or a calibrator that gives them.
        """
        from manyhot.search.tables import TableColumns

        return cls(TableColumns(table), Database(), keep=None)

    @property
    def labels(self) -> list[str]:
        """The names of the labels, in the order of the columns."""
        return self._source.labels

    def __len__(self) -> int:
        return self._source.size

    def __repr__(self) -> str:
        return f"Collection({len(self):,} rows x {len(self.labels):,} labels)"

    def search(
        self,
        query: str,
        *,
        k: int | None = 20,
        precision: float | None = None,
        recall: float | None = None,
        expect: bool = True,
    ) -> Found:
        """The samples that most probably match, the most probable first; ties in the order of the table.

        Args:
            query: Such as "fork & apple & !knife"; see the guide.
            k: How many at the most; None for no limit.
            precision: Give samples until the expected share of matches among them falls below this.
            recall: Give samples until this share of the expected matches is among them.
            expect: Whether to tell how many samples of the whole collection match, which takes a look at all of them.
        """
        owner = "Collection.search"
        k = check_k(k, owner)
        precision, recall = check_share("precision", owner, precision), check_share("recall", owner, recall)
        plan = self._plan(query)
        relation = self._relation(plan.program)
        limited = precision is not None or recall is not None
        bins = self._bins(plan.program, relation) if expect or limited else None
        if limited and bins is not None:
            rows = self._until(plan.program, relation, bins, precision=precision, recall=recall)[:k]
        else:
            rows = self._best(plan.program, relation, k)
        expected = _expectation(bins, LEVEL) if bins is not None and expect else None
        return self._found(plan, rows, relation, expected)

    def expect(self, query: str, *, level: float = LEVEL) -> Expectation:
        """How many samples match a query, with an interval.

        Args:
            query: As for `search`.
            level: The probability with which the number lies in the interval, if the probabilities can be trusted and
                samples do not depend on each other.
        """
        checked = check_share("level", "Collection.expect", level)
        program = self._plan(query).program
        return _expectation(self._bins(program, self._relation(program)), checked or LEVEL)

    def sql(
        self, query: str, *, k: int | None = 20, precision: float | None = None, recall: float | None = None
    ) -> str:
        """The statement that `search` stands for, for other engines that read the same files; ties by id.

        Args:
            query: As for `search`, as are the others.
            k: How many at the most.
            precision: Until the expected share of matches falls below this.
            recall: Until this share of the expected matches is in.
        """
        owner = "Collection.sql"
        program = self._plan(query).program
        if isinstance(self._source, ParquetFiles):
            rows, texts = self._source.expression(), self._source.texts
            labels = {column: self._source.column(column) for column in program.columns}
        else:
            rows, texts = "predictions", self._source.texts
            labels = {column: quote_name(f"prob:{self.labels[column]}") for column in program.columns}
        return statements.readable(
            program,
            rows,
            labels,
            [quote_name(name) for name in texts if name != "split"],
            k=check_k(k, owner),
            precision=check_share("precision", owner, precision),
            recall=check_share("recall", owner, recall),
        )

    def add(self, table: Table) -> int:
        """Adds predictions to a collection that is a folder of parts, as one more part; see `add_part`.

        Args:
            table: With the labels of the collection. Rows whose ids are there already are left out.

        Returns:
            How many rows were added.
        """
        from manyhot.search.adding import add_part

        added = add_part(self._source, self._database, table)
        self.refresh()
        return added

    def refresh(self) -> None:
        """Looks at the files anew, after parts were added, replaced or removed."""
        if isinstance(self._source, ParquetFiles):
            with self._lock:
                self._source = ParquetFiles(self._source.path, self._database, split=self._source.split)
                self._kept = KeptColumns(self._source, self._keep)
                self._plans.clear()

    def _plan(self, query: str) -> Plan:
        plan = self._plans.get(query) if isinstance(query, str) else None
        if plan is None:
            formula = parse(query, self.labels)
            plan = Plan(write(formula, self.labels), compile_formula(formula, len(self.labels)))
            if len(self._plans) >= PLANS:
                self._plans.clear()
            self._plans[query] = plan
        return plan

    def _relation(self, program: Program) -> Relation:
        with self._lock:
            relation = self._kept.relation(program.columns)
        if relation is None:
            assert isinstance(self._source, ParquetFiles)
            relation = self._source.relation(program.columns)
        return relation

    def _best(self, program: Program, relation: Relation, k: int | None) -> list[Row]:
        if k is None:
            return self._database.rows(statements.above(program, relation, 0), relation.tables)
        least = self._guess(program, relation, k) * (1 - SLACK)
        picked = self._pick(program, relation, least)
        statement = statements.best if picked is relation else statements.best_of_picked
        rows = self._database.rows(statement(program, picked, k, least=least), picked.tables)
        # If k rows reach the guess, what it has ruled out is no better. If not, it was too high.
        if least > 0 and (len(rows) < min(k, len(self)) or rows[-1][-2] < least):
            rows = self._database.rows(statements.best(program, relation, k), relation.tables)
        return rows

    def _guess(self, program: Program, relation: Relation, k: int) -> float:
        """A probability that at least k rows probably have, by which most of the others can be ruled out quickly."""
        if not program.columns or (program.is_conjunction and len(self) < WORTH_SAMPLING):
            return 0.0
        sampled = len(self) >= WORTH_SAMPLING
        place = math.ceil(k * relation.share) + MARGIN if sampled else k
        if relation.tables and program.is_conjunction:
            with self._lock:
                return self._kept.guess(program.literals, place)
        rows = relation.sample if sampled else relation.rows
        highest = self._database.rows(statements.best_probabilities(program, relation, rows, place), relation.tables)
        return float(highest[-1][0]) if highest else 0.0

    def _pick(self, program: Program, relation: Relation, least: float) -> Relation:
        if least <= 0 or not relation.tables or len(self) < WORTH_SAMPLING:
            return relation
        with self._lock:
            return self._kept.pick(relation, program.bounds(least))

    def _bins(self, program: Program, relation: Relation) -> list[Bin]:
        return [Bin(*row) for row in self._database.rows(statements.bins(program, relation), relation.tables)]

    def _until(
        self,
        program: Program,
        relation: Relation,
        bins: list[Bin],
        *,
        precision: float | None,
        recall: float | None,
    ) -> list[Row]:
        place = bin_of_cut(bins, precision=precision, recall=recall)
        rows = self._database.rows(statements.above(program, relation, place), relation.tables)
        total = math.fsum(group.first for group in bins)
        return rows[: length_of_cut([row[-2] for row in rows], total, precision=precision, recall=recall)]

    def _found(self, plan: Plan, rows: list[Row], relation: Relation, expected: Expectation | None) -> Found:
        hits = [
            Hit(id=texts[0], path=texts[1] if len(texts) > 1 else None, prob=row[-2], log_prob=row[-1])
            for texts, row in zip(self._texts(rows, relation), rows, strict=True)
        ]
        mass = math.fsum(hit.prob for hit in hits)
        precision = mass / len(hits) if hits else math.nan
        recall = None if expected is None else mass / expected.mean if expected.mean > 0 else math.nan
        return Found(query=plan.text, hits=hits, expected=expected, precision=precision, recall=recall)

    def _texts(self, rows: list[Row], relation: Relation) -> list[Row]:
        """Id and path of each row, which files give at once and columns in memory by the number of the row."""
        if not relation.tables:
            return [row[:-2] for row in rows]
        wanted = [name for name in self._source.texts if name != "split"]
        with self._lock:
            columns = self._kept.columns(wanted)
        numbers = [row[0] for row in rows]
        return list(zip(*(column.take(numbers).to_pylist() for column in columns), strict=True)) if rows else []


def _expectation(bins: list[Bin], level: float) -> Expectation:
    low, high = count_interval(bins, level)
    mean = math.fsum(group.first for group in bins)
    return Expectation(mean=mean, low=low, high=high, level=level, rows=sum(group.rows for group in bins))
