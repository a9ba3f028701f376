"""A collection of samples with their probabilities: opened, searched, and appended to."""

from __future__ import annotations

import hashlib
import math
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from filelock import FileLock  # torch requires it

from manyhot.errors import InputError, owned, require, suggest
from manyhot.formatting import printable
from manyhot.poisson_binomial import Bin, count_interval
from manyhot.search.diagram import Diagram, compile_query
from manyhot.search.formula import format_query
from manyhot.search.parser import parse_query
from manyhot.search.ranking import (
    Array,
    Cells,
    Relation,
    arrow_table,
    check_k,
    check_level,
    check_share,
    cutoff_bin,
    cutoff_length,
    histogram_statement,
    kth_probability_of_sample,
    prune_rows,
    pruned_top_k_statement,
    tail_statement,
    top_k_statement,
    top_probabilities_statement,
)
from manyhot.search.sql import quote_name, quote_text, select_statement
from manyhot.tables.arrow import import_arrow
from manyhot.tables.metadata import TEXT_COLUMNS, Metadata, column_names
from manyhot.tables.reader import find_parquet, hive_partitions, read_footer

if TYPE_CHECKING:
    from manyhot.predictions.predictions import PredictionTable


@dataclass(frozen=True)
class Hit:
    """One sample of a search result.

    Attributes:
        id: The id of its row.
        path: The path of the sample, or None if the table has none.
        prob: The probability that it matches.
        log_prob: Its logarithm, which still differs where probabilities are rounded to the same number.
    """

    id: str
    path: str | None
    prob: float
    log_prob: float


@dataclass(frozen=True)
class ExpectedMatches:
    """The expected number of matching samples, with an interval.

    Attributes:
        mean: The expected number: the sum of the probabilities.
        low: Lower end of the interval, which holds the number with probability `level`.
        high: Upper end of the interval.
        level: The probability that the number lies in the interval.
        rows: How many samples there are.
    """

    mean: float
    low: int
    high: int
    level: float
    rows: int


@dataclass(frozen=True)
class SearchResult:
    """The answer to a query.

    Attributes:
        query: The query in its normal form.
        hits: The matches, the most probable first.
        expected: How many samples of the whole collection match; None if that was not requested.
        precision: The expected share of `hits` that match; NaN if there are none.
        recall: The expected share of all matches that are among `hits`; None without `expected`, NaN if none match.
    """

    query: str
    hits: list[Hit]
    expected: ExpectedMatches | None
    precision: float
    recall: float | None


class Database:
    """An in-memory DuckDB database without network access; several threads may query it at once.

    Attributes:
        description: What it reads, for error messages.
    """

    def __init__(self) -> None:
        self.description = "a table in memory"
        self._duckdb = require("duckdb", "Search queries", extra="search")
        self._connection = self._duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"})
        # The footers of files that were read stay in memory.
        self._connection.execute("SET parquet_metadata_cache = true")
        self._connection.execute("SET enable_progress_bar = false")
        self._thread_local = threading.local()

    def rows(self, statement: str, tables: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement over files, and over Arrow tables by name."""
        with self._translated_errors():
            result: list[tuple[Any, ...]] = self._cursor(tables or {}).execute(statement).fetchall()
        return result

    def table(self, statement: str) -> Any:
        """The result of a statement as an Arrow table."""
        with self._translated_errors():
            return self._cursor({}).sql(statement).to_arrow_table()

    def _cursor(self, tables: Mapping[str, Any]) -> Any:
        """The cursor of this thread, with the tables registered; each table is registered once."""
        state = self._thread_local.__dict__
        if "cursor" not in state:
            state["cursor"], state["registered"] = self._connection.cursor(), {}
        for name, table in tables.items():
            if state["registered"].get(name) is not table:
                state["cursor"].register(name, table)
                state["registered"][name] = table
        return state["cursor"]

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Turns DuckDB's errors about the files that it reads into `InputError`."""
        duckdb = self._duckdb
        try:
            yield
        except duckdb.Error as error:
            # Damaged files raise errors of many classes, also the base class itself; a mistake in a statement, or too
            # little memory, is not the fault of the files.
            damage = duckdb.OperationalError, duckdb.InvalidInputException, duckdb.ConversionException
            known = type(error) is duckdb.Error or isinstance(error, damage)
            if not known or isinstance(error, duckdb.OutOfMemoryException):
                raise
            message = printable(str(error).splitlines()[0].rstrip("."))
            got = f"{self.description}, of which DuckDB says: {message}"
            if isinstance(error, duckdb.IOException) and "No files found" in message:
                rule, hint = "lead to the files it led to when it was opened", "Open it again, or call `refresh()`."
            else:
                rule, hint = "lead to whole Parquet files", "Write them again."
            raise InputError("path", "Collection", rule, got, hint) from None


def escape_glob(path: Path) -> str:
    """A path for DuckDB with the characters of glob patterns escaped."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


# A query runs on a sample of about this many rows first, to rule out rows that cannot be among the best.
SAMPLE_ROWS = 32768

Column = int | str
"""A label column by its number, or the string column "id" or "path"."""


class ColumnLoader(Protocol):
    """A source of whole columns: files, or a table in memory."""

    @property
    def size(self) -> int:
        """The number of rows."""

    @property
    def cell_bytes(self) -> int:
        """Bytes per probability."""

    def load(self, columns: Sequence[Column]) -> list[Any]:
        """The columns as Arrow arrays, in the order of the rows."""


class ColumnCache:
    """A least-recently-used cache of columns, limited in bytes. It is thread-safe.

    Args:
        loader: What reads them.
        limit: The most bytes to keep; None for no limit.
    """

    def __init__(self, loader: ColumnLoader, limit: int | None) -> None:
        self._loader, self._limit = loader, limit
        self._lock = threading.Lock()
        self._cache: OrderedDict[Column, Any] = OrderedDict()
        self._samples: dict[Column, Array] = {}
        self._relations: dict[tuple[int, ...], Relation] = {}
        self._rows = _row_numbers(loader.size) if limit != 0 else np.zeros(0)
        self._step = max(1, loader.size // SAMPLE_ROWS)

    def relation(self, labels: Sequence[int]) -> Relation | None:
        """The columns of these labels as a table in memory; None if they exceed the limit."""
        needed = self._loader.size * self._loader.cell_bytes * len(labels)
        if self._limit is not None and (self._limit == 0 or needed > self._limit):
            return None
        with self._lock:
            columns = dict(zip(labels, self._columns(labels), strict=True))
            relation = self._relations.get(tuple(labels))
            if relation is None:
                relation = self._relations[tuple(labels)] = self._new_relation(columns)
        return relation

    def _new_relation(self, columns: dict[int, Array]) -> Relation:
        samples = {label: self._samples[label] for label in columns}
        return Relation(
            rows="cached",
            sample="cached_sample",
            share=1 / self._step,
            labels={label: quote_name(f"label_{label}") for label in columns},
            row=(quote_name("row"),),
            order=(quote_name("row"),),
            single_precision=all(cells.dtype == np.float32 for cells in columns.values()),
            tables={
                "cached": arrow_table(self._rows, columns),
                "cached_sample": arrow_table(self._rows[:: self._step], samples),
            },
            cells=Cells(self._rows, columns, samples),
        )

    def string_columns(self, names: Sequence[str]) -> list[Any]:
        """Whole string columns, as Arrow arrays."""
        with self._lock:
            return self._columns(names)

    def _columns(self, wanted: Sequence[Column]) -> list[Any]:
        """Whole columns, from the cache or read now: NumPy arrays of probabilities, Arrow arrays of strings."""
        missing = [column for column in wanted if column not in self._cache]
        for column, values in zip(missing, self._loader.load(missing) if missing else [], strict=True):
            whole = values.combine_chunks() if hasattr(values, "combine_chunks") else values
            if isinstance(column, int):
                cells = self._cache[column] = whole.to_numpy()
                self._samples[column] = cells[:: self._step].copy()
            else:
                self._cache[column] = whole
        for column in wanted:
            self._cache.move_to_end(column)
        result = [self._cache[column] for column in wanted]
        self._evict(len(wanted))
        return result

    def _evict(self, recent: int) -> None:
        """Drops the least recently used columns beyond the limit, but not those just requested."""
        while self._limit is not None and len(self._cache) > recent:
            if sum(values.nbytes for values in self._cache.values()) <= self._limit:
                return
            column, _ = self._cache.popitem(last=False)
            self._samples.pop(column, None)
            self._relations.clear()


def _row_numbers(rows: int) -> Array:
    return np.arange(rows, dtype=np.int32 if rows < 2**31 else np.int64)


class TableColumns:
    """The columns of any table of predictions.

    Args:
        table: In memory or on disk; it must have probabilities, or scores with a link or calibrator.
    """

    def __init__(self, table: PredictionTable) -> None:
        self.table = table
        self.labels = table.labels.names
        self.size = len(table)
        first = next(table.batches(1))
        self.cell_bytes = first.probabilities().element_size()  # raises here if there are none
        self.string_columns = ["id"] if first.paths is None else ["id", "path"]

    def load(self, columns: Sequence[Column]) -> list[Any]:
        """The columns as Arrow arrays."""
        labels = [column for column in columns if isinstance(column, int)]
        names = [self.labels[label] for label in labels]
        loaded: dict[Column, Any] = {}
        if labels:
            part = self.table.read(labels=names)
            cells = part.probabilities().detach().cpu().numpy()
            for index, label in enumerate(labels):
                loaded[label] = import_arrow().array(np.ascontiguousarray(cells[:, index]))
        if len(labels) < len(columns):
            texts = self.table.read(labels=[], kinds=self.table.kinds[:1])
            loaded |= {"id": import_arrow().array(texts.ids), "path": import_arrow().array(texts.paths or [])}
        return [loaded[column] for column in columns]


class ParquetFiles:
    """The parts of a table of predictions.

    Args:
        path: One file, a folder with parts in it or in its folders, a pattern, the folder of a run, or several of
            these.
        database: The database that reads them.
        split: The split to search; all rows by default.

    Attributes:
        files: The parts, in the order of their names.
        labels: The names of the labels.
        rows: The number of rows of all splits.
        string_columns: Those of "id", "path" and "split" that exist.
        split_in_path: Whether the folder names, such as `split=test`, hold the splits.
    """

    @owned("Collection.open")
    def __init__(self, path: Any, database: Database, *, split: str | None = None) -> None:
        self.path, self.split, self._database = path, split, database
        database.description = repr(str(path)) if isinstance(path, str | os.PathLike) else "files"
        # A file that two of the paths lead to is searched once.
        matches: dict[Path, Path] = {}
        for item in _as_paths(path):
            for file in find_parquet(item, "Collection.open"):
                matches.setdefault(file.resolve(), file)
        self.files = list(matches.values())
        self._stamps = self._file_states()
        self._checked: set[int] = set()
        footers = [read_footer(file, "Collection.open") for file in self.files]
        headers = [Metadata.parse(footer.metadata, file) for footer, file in zip(footers, self.files, strict=True)]
        self.header = headers[0]
        self.labels = self.header.labels
        for file, header in zip(self.files, headers, strict=True):
            self._check(file, header)
        self.rows = sum(footer.num_rows for footer in footers)
        self._read_columns([footer.schema.to_arrow_schema() for footer in footers])
        if split is not None:
            self._check_split(split)

    def _read_columns(self, schemas: Sequence[Any]) -> None:
        """Reads which columns exist; beside the labels, parts may have different ones."""
        kinds = [{field.name: str(field.type) for field in schema} for schema in schemas]
        self._same_columns = all(kind == kinds[0] for kind in kinds)
        columns = list(dict.fromkeys(name for kind in kinds for name in kind))
        probs = column_names("probs", self.labels)
        self._single_precision = all(kind.get(name) == "float" for kind in kinds for name in probs)
        self._columns = self._names_in_duckdb(columns)
        in_path = all("split" in hive_partitions(file) for file in self.files)
        self.split_in_path = "split" not in columns and in_path
        self.string_columns = [name for name in TEXT_COLUMNS.values() if name in columns]
        self.string_columns += [TEXT_COLUMNS["splits"]] if self.split_in_path else []

    @property
    def has_probs(self) -> bool:
        """Whether the files hold probabilities, not only scores."""
        return "probs" in self.header.kinds

    def scan(self) -> str:
        """All rows of all splits, as SQL for FROM."""
        names = ", ".join(quote_text(escape_glob(file)) for file in self.files)
        # Folders such as `split=test` must not replace a column of the files.
        hive = "true" if self.split_in_path else "false"
        # Parts with different columns are joined by name: missing columns become null, and doubles stay doubles.
        union = "" if self._same_columns else ", union_by_name = true"
        return f"read_parquet([{names}], hive_partitioning = {hive}{union})"

    def expression(self) -> str:
        """The rows of the split, as SQL for FROM."""
        if self.split is None:
            return self.scan()
        return f"(SELECT * FROM {self.scan()} WHERE {quote_name('split')} = {quote_text(self.split)})"

    def relation(self, labels: Sequence[int]) -> Relation:
        """The files themselves as the table to search."""
        self._check_probs(labels)
        order = "file_index", "file_row_number"
        where = "" if self.split is None else f" WHERE {quote_name('split')} = {quote_text(self.split)}"
        rows = f"(SELECT *, {', '.join(order)} FROM {self.scan()}{where})"
        return Relation(
            rows=rows,
            sample=f"(SELECT * FROM {rows} LIMIT {SAMPLE_ROWS})",
            share=SAMPLE_ROWS / max(self.size, 1),
            labels={label: self.column(label) for label in labels},
            row=tuple(quote_name(name) for name in self.string_columns if name != "split"),
            order=order,
            single_precision=self._single_precision,
        )

    def column(self, label: int) -> str:
        """The SQL name of the column that holds the probabilities of a label."""
        (name,) = column_names("probs", [self.labels[label]])
        return quote_name(self._columns[name])

    @property
    def cell_bytes(self) -> int:
        """Bytes per probability."""
        return 4 if self._single_precision else 8

    def reopen(self) -> ParquetFiles:
        """Opens the same path and split again."""
        return ParquetFiles(self.path, self._database, split=self.split)

    @cached_property
    def size(self) -> int:
        """How many rows the split has."""
        if self.split is None:
            return int(self.rows)
        ((rows,),) = self.ask(f"SELECT count(*) FROM {self.expression()}")
        return int(rows)

    def load(self, columns: Sequence[Column]) -> list[Any]:
        """Whole columns as Arrow arrays, read in one query."""
        names = [self.column(column) if isinstance(column, int) else quote_name(column) for column in columns]
        chosen = ", ".join(f"{name} AS column_{item}" for item, name in enumerate(names))
        with self._unchanged():
            loaded = list(self._database.table(f"SELECT {chosen} FROM {self.expression()}").columns)
        for column, values in zip(columns, loaded, strict=True):
            if isinstance(column, int):
                cells = values.to_numpy()  # blank ones become NaN
                self._check_invalid(column, len(cells) - int(np.count_nonzero((cells >= 0) & (cells <= 1))))
        return loaded

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement over the files."""
        with self._unchanged():
            return self._database.rows(statement)

    def _check_probs(self, labels: Sequence[int]) -> None:
        """Raises if a column holds values that are no probabilities; each column is checked once."""
        fresh = [label for label in labels if label not in self._checked]
        if not fresh:
            return
        tests = (f"count(*) FILTER (WHERE {self.column(label)} BETWEEN 0 AND 1)" for label in fresh)
        ((rows, *good),) = self.ask(f"SELECT count(*), {', '.join(tests)} FROM {self.scan()}")
        for label, count in zip(fresh, good, strict=True):
            self._check_invalid(label, rows - count)
        self._checked.update(fresh)

    @owned("Collection.open")
    def _check_invalid(self, label: int, count: int) -> None:
        if count:
            got = f"{count:,} cells of label {self.labels[label]!r} that do not, or are blank"
            rule, hint = "hold probabilities between 0 and 1", "Write the table again."
            raise InputError("path", rule=rule, got=got, hint=hint)

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Raises if a file has changed since it was opened, so that old and new contents are never mixed."""
        before = self._file_states()
        if before == self._stamps:
            yield
        if before != self._stamps or self._file_states() != before:
            hint = "Open it again, or call `refresh()`."
            rule = "lead to files that stay as they were when it was opened"
            raise InputError("path", "Collection", rule, f"{self._database.description}, which has changed", hint)

    def _file_states(self) -> list[tuple[int, int, int]]:
        """Inode, size and modification time of each file."""
        try:
            states = [file.stat() for file in self.files]
        except FileNotFoundError:
            return []
        return [(state.st_ino, state.st_size, state.st_mtime_ns) for state in states]

    def _names_in_duckdb(self, columns: list[str]) -> dict[str, str]:
        """The names of the columns in DuckDB, which ignores case and numbers repeated names."""
        if len({name.lower() for name in columns}) == len(columns):
            return {name: name for name in columns}
        if not self._same_columns:
            hint = "Write all parts with the same columns, or rename labels that differ by capitals alone."
            rule, got = "lead to parts with the same columns", "parts with different ones"
            raise InputError("path", rule=rule, got=got, hint=hint)
        first = quote_text(escape_glob(self.files[0]))
        statement = f"DESCRIBE SELECT * FROM read_parquet({first}, hive_partitioning = false)"
        described = self.ask(statement)
        return dict(zip(columns, (row[0] for row in described), strict=True))

    def _check_split(self, split: object) -> None:
        """Raises if the split does not exist; the message lists those that do."""
        names: list[str] = []
        if TEXT_COLUMNS["splits"] in self.string_columns:
            matches = self.ask(f"SELECT DISTINCT {quote_name('split')} FROM {self.scan()} ORDER BY 1")
            names = [str(name) for (name,) in matches if name is not None]
        if split in names or (self.rows == 0 and isinstance(split, str)):
            return
        hint = suggest(str(split), names, f"There are {', '.join(map(repr, names[:5]))}.", show=repr)
        got = f"{split!r}" if names else f"{split!r} for one without splits"
        raise InputError("split", rule="name a split of the table", got=got, hint=hint if names else "Leave it out.")

    def _check(self, file: Path, header: Metadata) -> None:
        """Raises if a part has other labels or columns than the first."""
        for name in ("labels", "kinds"):
            if getattr(header, name) != getattr(self.header, name):
                rule = f"lead to parts with the same {name} as {self.files[0].name!r}"
                hint = "Open the parts that belong together, by a pattern or a folder of their own."
                raise InputError("path", rule=rule, got=f"{file.name!r} with others", hint=hint)


def _as_paths(path: Any) -> list[Path]:
    paths = [path] if isinstance(path, str | os.PathLike) else path
    if not isinstance(paths, Sequence) or not paths or not all(isinstance(one, str | os.PathLike) for one in paths):
        got = "nothing" if isinstance(paths, Sequence) and not paths else type(path).__name__
        hint = "Pass the path of a table of predictions."
        raise InputError("path", rule="be a path or several", got=got, hint=hint)
    return [Path(one) for one in paths]


# Below this many rows, pruning by a sample takes longer than a full scan.
WORTH_SAMPLING = 8 * SAMPLE_ROWS
# The sample may hold fewer of the k best than expected by chance; this margin makes a guess that is too high rare.
GUESS_MARGIN = 5
# The logarithm of a product and the product are rounded differently; rows this close to a guess are not ruled out.
GUESS_TOLERANCE = 1e-9
MAX_COMPILED_QUERIES = 256

Row = tuple[Any, ...]
"""The key of a row (its strings, or its number), its probability, and the logarithm of it."""


class CompiledQuery(NamedTuple):
    """A parsed query: its normal form as text, and the diagram that computes its probability."""

    text: str
    diagram: Diagram


class CollectionView:
    """An immutable view of files or a table as they were opened; each query uses one view throughout.

    Args:
        source: Where the columns come from.
        database: What runs the statements.
        cache_bytes: Limit of the column cache; None for no limit.
    """

    def __init__(self, source: ParquetFiles | TableColumns, database: Database, cache_bytes: int | None) -> None:
        self.source, self.labels = source, source.labels
        self._database = database
        self._cache = ColumnCache(source, cache_bytes)
        self._compiled: dict[str, CompiledQuery] = {}

    def compile(self, query: str) -> CompiledQuery:
        """The parsed query; raises `QueryError` if it cannot be parsed."""
        compiled = self._compiled.get(query) if isinstance(query, str) else None
        if compiled is None:
            formula = parse_query(query, self.labels)
            compiled = CompiledQuery(format_query(formula, self.labels), compile_query(formula, len(self.labels)))
            if len(self._compiled) >= MAX_COMPILED_QUERIES:
                self._compiled.clear()
            self._compiled[query] = compiled
        return compiled

    def relation(self, diagram: Diagram) -> Relation:
        """The columns that a diagram reads: in memory if they fit into the cache, else in the files."""
        relation = self._cache.relation(diagram.columns)
        if relation is None:
            assert isinstance(self.source, ParquetFiles)
            relation = self.source.relation(diagram.columns)
        return relation

    def best(self, diagram: Diagram, relation: Relation, k: int | None) -> list[Row]:
        """The k most probable rows, or all; ties in the order of the table."""
        if k is None:
            return self._rows(tail_statement(diagram, relation, 0), relation)
        min_prob = self._guess(diagram, relation, k) * (1 - GUESS_TOLERANCE)
        pruned = self._prune(diagram, relation, min_prob)
        statement = top_k_statement if pruned is relation else pruned_top_k_statement
        rows = self._rows(statement(diagram, pruned, k, min_prob=min_prob), pruned)
        # If k rows reach the guess, the rows it ruled out are no better. If not, it was too high.
        if min_prob > 0 and (len(rows) < min(k, self.source.size) or rows[-1][-2] < min_prob):
            rows = self._rows(top_k_statement(diagram, relation, k), relation)
        return rows

    def bins(self, diagram: Diagram, relation: Relation) -> list[Bin]:
        """The histogram of the probabilities."""
        return [Bin(*row) for row in self._rows(histogram_statement(diagram, relation), relation)]

    def until(
        self,
        diagram: Diagram,
        relation: Relation,
        bins: list[Bin],
        *,
        k: int | None,
        precision: float | None,
        recall: float | None,
    ) -> list[Row]:
        """The most probable rows, cut off by expected precision, expected recall, or k."""
        position = cutoff_bin(bins, precision=precision, recall=recall)
        rows = self._rows(tail_statement(diagram, relation, position, k), relation)
        total = math.fsum(bin_.first for bin_ in bins)
        return rows[: cutoff_length([row[-2] for row in rows], total, precision=precision, recall=recall)]

    def string_columns(self, rows: list[Row], relation: Relation) -> list[Row]:
        """Id and path of each row: part of the rows of files, looked up by row number for columns in memory."""
        if relation.cells is None:
            return [row[:-2] for row in rows]
        columns = self._cache.string_columns([name for name in self.source.string_columns if name != "split"])
        numbers = [row[0] for row in rows]
        return list(zip(*(column.take(numbers).to_pylist() for column in columns), strict=True)) if rows else []

    def _rows(self, statement: str, relation: Relation) -> list[Row]:
        if relation.tables:
            return self._database.rows(statement, relation.tables)
        assert isinstance(self.source, ParquetFiles)
        return self.source.ask(statement)

    def _guess(self, diagram: Diagram, relation: Relation, k: int) -> float:
        """A lower bound of the k-th highest probability that probably holds, to rule out most rows quickly."""
        sampled = self.source.size >= WORTH_SAMPLING
        if not diagram.columns or (diagram.is_conjunction and not sampled):
            return 0.0
        position = math.ceil(k * relation.share) + GUESS_MARGIN if sampled else k
        if relation.cells is not None and diagram.is_conjunction:
            return kth_probability_of_sample(relation.cells, diagram.literals, position)
        rows = relation.sample if sampled else relation.rows
        highest = self._rows(top_probabilities_statement(diagram, relation, rows, position), relation)
        return float(highest[-1][0]) if highest else 0.0

    def _prune(self, diagram: Diagram, relation: Relation, min_prob: float) -> Relation:
        if min_prob <= 0 or relation.cells is None or self.source.size < WORTH_SAMPLING:
            return relation
        return prune_rows(relation, relation.cells, diagram.bounds(min_prob))


DEFAULT_LEVEL = 0.95


class Collection:
    """Samples with a probability for each label, searchable by labels that are present or absent.

    Labels are assumed conditionally independent given the sample; under this assumption the probability of any query
    is exact. An open collection may be used by several threads.

    Example:
        >>> table = mh.Predictions(
        ...     probs=[[0.9, 0.2], [0.8, 0.7], [0.1, 0.6]], labels=["dog", "park"], ids=["a", "b", "c"]
        ... )
        >>> result = Collection.of(table).search("dog & !park", k=2)
        >>> [(hit.id, round(hit.prob, 2)) for hit in result.hits]
        [('a', 0.72), ('b', 0.24)]
        >>> round(result.expected.mean, 2), round(result.precision, 2)
        (1.0, 0.48)
    """

    def __init__(self, source: ParquetFiles | TableColumns, database: Database, *, cache_bytes: int | None) -> None:
        self._database, self._cache_bytes = database, cache_bytes
        self._view = CollectionView(source, database, cache_bytes)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        split: str | None = None,
        cache_bytes: int = 2**31,
    ) -> Collection:
        """Opens predictions on disk; only the columns that a query names are read.

        Args:
            path: A Parquet file of predictions, a folder of parts (also in folders of their own), a pattern, the
                folder of a run, or several of these.
            split: The split to search; all rows by default.
            cache_bytes: How many bytes of columns to keep in memory for the next query; 0 reads the files each time.
        """
        database = Database()
        files = ParquetFiles(path, database, split=split)
        if files.has_probs:
            return cls(files, database, cache_bytes=cache_bytes)
        from manyhot.predictions.parquet import StoredPredictions

        table = StoredPredictions(files.files)
        return cls.of(table if split is None else table.of_split(split))

    @classmethod
    def of(cls, table: PredictionTable) -> Collection:
        """A table of predictions as a collection; the columns that a query names are cached.

        Args:
            table: It must have probabilities, or scores with a link or a calibrator.
        """
        from manyhot.predictions.predictions import PredictionTable

        argument: object = table
        if not isinstance(argument, PredictionTable):
            hint = "Pass `Predictions`, or open files with `Collection.open`."
            raise InputError("table", "Collection.of", "be a table of predictions", type(argument).__name__, hint)
        return cls(TableColumns(table), Database(), cache_bytes=None)

    @property
    def labels(self) -> list[str]:
        """The names of the labels, in the order of the columns."""
        return self._view.labels

    def __len__(self) -> int:
        return self._view.source.size

    def __repr__(self) -> str:
        return f"Collection({len(self):,} rows x {len(self.labels):,} labels)"

    @owned("Collection.search")
    def search(
        self,
        query: str,
        *,
        k: int | None = 20,
        precision: float | None = None,
        recall: float | None = None,
        expect: bool = True,
    ) -> SearchResult:
        """The samples most likely to match, sorted by falling probability; ties are in the order of the table.

        Args:
            query: Such as "fork & apple & !knife"; see the guide.
            k: At most this many; None for no limit.
            precision: Return samples until the expected share of matches among them falls below this.
            recall: Return samples until this share of the expected matches is among them.
            expect: Whether to compute the expected number of matches in the whole collection, which scans all rows.
        """
        k, precision, recall = check_k(k), check_share("precision", precision), check_share("recall", recall)
        view = self._view
        compiled = view.compile(query)
        diagram, relation = compiled.diagram, view.relation(compiled.diagram)
        limited = precision is not None or recall is not None
        bins = view.bins(diagram, relation) if expect or limited else []
        if limited:
            rows = view.until(diagram, relation, bins, k=k, precision=precision, recall=recall)
        else:
            rows = view.best(diagram, relation, k)
        expected = _expected_matches(bins, DEFAULT_LEVEL) if expect else None
        return _search_result(compiled.text, rows, view.string_columns(rows, relation), expected)

    @owned("Collection.expect")
    def expect(self, query: str, *, level: float = DEFAULT_LEVEL) -> ExpectedMatches:
        """The expected number of samples that match a query, with an interval.

        Args:
            query: As for `search`.
            level: The coverage of the interval, if the probabilities are calibrated and samples are independent.
        """
        checked = check_level("level", level)
        view = self._view
        diagram = view.compile(query).diagram
        return _expected_matches(view.bins(diagram, view.relation(diagram)), checked)

    @owned("Collection.sql")
    def sql(
        self, query: str, *, k: int | None = 20, precision: float | None = None, recall: float | None = None
    ) -> str:
        """The SQL statement of `search`, for other engines that read the same files; ties are sorted by id.

        Args:
            query: As for `search`.
            k: As for `search`.
            precision: As for `search`.
            recall: As for `search`.
        """
        source, diagram = self._view.source, self._view.compile(query).diagram
        if not isinstance(source, ParquetFiles):
            rule, hint = "lie on disk as Parquet with probabilities", "Save the table with its probabilities first."
            raise InputError("collection", rule=rule, got="one in memory", hint=hint)
        return select_statement(
            diagram,
            source.expression(),
            {column: source.column(column) for column in diagram.columns},
            [quote_name(name) for name in source.string_columns if name != "split"],
            k=check_k(k),
            precision=check_share("precision", precision),
            recall=check_share("recall", recall),
        )

    def add(self, table: PredictionTable) -> int:
        """Adds predictions to a collection that is a folder of parts, as one more part; see `add_part`.

        Args:
            table: With the labels of the collection. Rows whose ids exist already are skipped.

        Returns:
            How many rows were added.
        """
        added = add_part(self._view.source, self._database, table)
        self.refresh()
        return added

    def refresh(self) -> None:
        """Opens the files again, after parts were added, replaced or removed."""
        source = self._view.source
        if isinstance(source, ParquetFiles):
            self._view = CollectionView(source.reopen(), self._database, self._cache_bytes)


def _search_result(query: str, rows: list[Row], texts: list[Row], expected: ExpectedMatches | None) -> SearchResult:
    hits = [
        Hit(id=names[0], path=names[1] if len(names) > 1 else None, prob=row[-2], log_prob=row[-1])
        for names, row in zip(texts, rows, strict=True)
    ]
    mass = math.fsum(hit.prob for hit in hits)
    precision = mass / len(hits) if hits else math.nan
    recall = None if expected is None else mass / expected.mean if expected.mean > 0 else math.nan
    return SearchResult(query=query, hits=hits, expected=expected, precision=precision, recall=recall)


def _expected_matches(bins: list[Bin], level: float) -> ExpectedMatches:
    low, high = count_interval(bins, level)
    mean = math.fsum(bin_.first for bin_ in bins)
    return ExpectedMatches(mean=mean, low=low, high=high, level=level, rows=sum(bin_.rows for bin_ in bins))


@owned("Collection.add")
def add_part(source: object, database: Database, table: PredictionTable) -> int:
    """Writes the rows of a table whose ids are new as the next part of a folder; returns their number.

    Args:
        source: The existing parts, opened by the path of their folder.
        database: The database that reads them.
        table: It must have the labels of the parts, and all kinds of columns that they have.
    """
    from manyhot.predictions.predictions import PredictionTable

    if not isinstance(table, PredictionTable):
        raise InputError(
            "table", rule="be a table of predictions", got=type(table).__name__, hint="Pass `Predictions`."
        )
    folder = _parts_folder(source)
    assert isinstance(source, ParquetFiles)
    with FileLock(folder / ".adding"):
        # Others may have added since the collection was opened.
        return _write_part(source.reopen(), database, table, folder)


def _write_part(source: ParquetFiles, database: Database, table: PredictionTable, folder: Path) -> int:
    from manyhot.predictions.parquet import PredictionsWriter

    _check_addable(source, table)
    ids = [name for batch in table.batches(kinds=table.kinds[:1]) for name in batch.ids]
    fresh = _new_rows(source, database, ids)
    if len(fresh) == 0:
        return 0
    # Without file locks, two programs that add at once still name their parts differently.
    digest = hashlib.sha256("\0".join(ids[row] for row in fresh).encode("utf-8", "surrogatepass")).hexdigest()
    path = folder / f"part-{_next_number(source.files):05d}-{digest[:8]}.parquet"
    with PredictionsWriter(path, table.labels, link=table.link, calibrator=table.calibrator, rule=table.rule) as writer:
        start = 0
        for batch in table.batches(kinds=source.header.kinds):
            rows = fresh[np.searchsorted(fresh, start) : np.searchsorted(fresh, start + len(batch))] - start
            if len(rows):
                writer.write(batch.take(rows))
            start += len(batch)
    return len(fresh)


def _new_rows(source: ParquetFiles, database: Database, ids: list[str]) -> Any:
    """The numbers of the rows whose ids are new, in order."""
    pa = import_arrow()
    candidates = pa.table({"row": pa.array(range(len(ids)), pa.int64()), "id": pa.array(ids, pa.string())})
    statement = f"SELECT row FROM candidates ANTI JOIN {source.scan()} AS existing USING (id) ORDER BY row"
    rows = database.rows(statement, {"candidates": candidates})
    return np.array([row for (row,) in rows], dtype=np.int64)


def _parts_folder(source: object) -> Path:
    """The folder that a collection was opened by; raises if it was opened in another way."""
    path = getattr(source, "path", None)
    if isinstance(path, list | tuple) and len(path) == 1:
        (path,) = path
    folder = None if path is None or isinstance(path, list | tuple) else Path(path)
    if folder is None or not folder.is_dir() or (folder / "classifier.json").is_file():
        got = "a table in memory" if path is None else f"{str(path)!r}, which is none"
        hint = "Save the table as a part in a folder of its own, and open that folder."
        raise InputError("collection", rule="be a folder of parts", got=got, hint=hint)
    return folder


def _check_addable(source: ParquetFiles, table: PredictionTable) -> None:
    if source.split_in_path:
        hint = "Save the part in one of these folders, without `splits`."
        got = "one with folders such as split=test"
        raise InputError("collection", rule="have no folders by split", got=got, hint=hint)
    if table.labels.names != source.labels:
        differ = len(table.labels.names), len(source.labels)
        got = (
            "the same in another order"
            if sorted(table.labels.names) == sorted(source.labels)
            else f"{differ[0]} others"
        )
        rule = f"have the {differ[1]} labels of the collection"
        hint = "Read it with `labels` in the order of the collection."
        raise InputError("table", rule=rule, got=got, hint=hint)
    missing = [kind for kind in source.header.kinds if kind not in table.kinds]
    if missing:
        rule = f"hold {', '.join(source.header.kinds)} like the existing parts"
        got = f"one without {', '.join(missing)}"
        hint = "Predict with the same classifier, or start a new folder."
        raise InputError("table", rule=rule, got=got, hint=hint)
    columns = next(table.batches(1)).columns()
    if columns["ids"].numbered:
        hint = "Pass `ids` when you make the table, such as the paths of the samples."
        raise InputError("table", rule="have ids, which identify existing rows", got="row numbers", hint=hint)
    for text, name in (("path", "paths"), ("split", "splits")):
        if (text in source.string_columns) != (name in columns):
            rule = f"{'have' if text in source.string_columns else 'have no'} {name} like the existing parts"
            raise InputError("table", rule=rule, got="another table", hint=f"Pass `replace({name}=...)`.")


def _next_number(files: list[Path]) -> int:
    matches = [re.fullmatch(r"part-(\d+)(-[0-9a-f]{8})?", file.stem) for file in files]
    return max((int(match[1]) + 1 for match in matches if match), default=len(files))
