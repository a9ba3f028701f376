"""A collection of samples with their probabilities, and the questions that can be put to it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from manyhot.poisson_binomial import Bin, count_interval
from manyhot.refusal import refusal
from manyhot.search import statements
from manyhot.search.cutting import check_k, check_level, check_share
from manyhot.search.duck import Database
from manyhot.search.files import ParquetFiles
from manyhot.search.found import Expectation, Found, Hit
from manyhot.search.sql import quote_name
from manyhot.search.view import Row, View

if TYPE_CHECKING:
    from manyhot.predictions.table import Table
    from manyhot.search.tables import TableColumns

LEVEL = 0.95


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
        self._database, self._keep = database, keep
        self._view = View(source, database, keep)

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
        from manyhot.predictions.table import Table
        from manyhot.search.tables import TableColumns

        given: object = table
        if not isinstance(given, Table):
            remedy = "Pass `Predictions`, or open files with `Collection.open`."
            raise refusal("table", "Collection.of", "be a table of predictions", type(given).__name__, remedy)
        return cls(TableColumns(table), Database(), keep=None)

    @property
    def labels(self) -> list[str]:
        """The names of the labels, in the order of the columns."""
        return self._view.labels

    def __len__(self) -> int:
        return self._view.source.size

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
        view = self._view
        plan = view.plan(query)
        program, relation = plan.program, view.relation(plan.program)
        limited = precision is not None or recall is not None
        bins = view.bins(program, relation) if expect or limited else []
        if limited:
            rows = view.until(program, relation, bins, k=k, precision=precision, recall=recall)
        else:
            rows = view.best(program, relation, k)
        expected = _expectation(bins, LEVEL) if expect else None
        return _found(plan.text, rows, view.texts(rows, relation), expected)

    def expect(self, query: str, *, level: float = LEVEL) -> Expectation:
        """How many samples match a query, with an interval.

        Args:
            query: As for `search`.
            level: The probability with which the number lies in the interval, if the probabilities can be trusted and
                samples do not depend on each other.
        """
        checked = check_level("level", "Collection.expect", level)
        view = self._view
        program = view.plan(query).program
        return _expectation(view.bins(program, view.relation(program)), checked)

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
        source, program = self._view.source, self._view.plan(query).program
        if not isinstance(source, ParquetFiles):
            rule, remedy = "lie on disk as Parquet with probabilities", "Save the table with its probabilities first."
            raise refusal("collection", owner, rule, "one in memory", remedy)
        return statements.readable(
            program,
            source.expression(),
            {column: source.column(column) for column in program.columns},
            [quote_name(name) for name in source.texts if name != "split"],
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

        added = add_part(self._view.source, self._database, table)
        self.refresh()
        return added

    def refresh(self) -> None:
        """Looks at the files anew, after parts were added, replaced or removed."""
        source = self._view.source
        if isinstance(source, ParquetFiles):
            self._view = View(source.again(), self._database, self._keep)


def _found(query: str, rows: list[Row], texts: list[Row], expected: Expectation | None) -> Found:
    hits = [
        Hit(id=names[0], path=names[1] if len(names) > 1 else None, prob=row[-2], log_prob=row[-1])
        for names, row in zip(texts, rows, strict=True)
    ]
    mass = math.fsum(hit.prob for hit in hits)
    precision = mass / len(hits) if hits else math.nan
    recall = None if expected is None else mass / expected.mean if expected.mean > 0 else math.nan
    return Found(query=query, hits=hits, expected=expected, precision=precision, recall=recall)


def _expectation(bins: list[Bin], level: float) -> Expectation:
    low, high = count_interval(bins, level)
    mean = math.fsum(group.first for group in bins)
    return Expectation(mean=mean, low=low, high=high, level=level, rows=sum(group.rows for group in bins))
