"""A collection of samples with their probabilities: opened, searched, and appended to."""

from __future__ import annotations

import hashlib
import math
import os
import re
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from filelock import FileLock  # torch requires it

from manyhot.errors import InputError, owned, suggest
from manyhot.files import available_cores
from manyhot.poisson_binomial import count_interval
from manyhot.search.diagram import Diagram, compile_query
from manyhot.search.evaluate import Array
from manyhot.search.formula import format_query
from manyhot.search.parser import parse_query
from manyhot.search.ranking import (
    MatchHistogram,
    Scan,
    TopK,
    check_k,
    check_level,
    check_share,
    cutoff_length,
)
from manyhot.search.sql import files_in_sql, select_statement
from manyhot.tables.arrow import arrow_as_input_error, as_numpy, pa
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


Column = int | str
"""A label column by its number, or the string column "id" or "path"."""

SPLIT = TEXT_COLUMNS["splits"]
STEP_ROWS = 1 << 17  # rows of columns in memory that a thread takes at a time
# More threads wait for Python's lock more than they compute.
NUM_THREADS = min(2, available_cores())


class Piece(NamedTuple):
    """Some rows of a source: the number of the first, how many they are, and what reads their columns."""

    first: int
    rows: int
    read: Callable[[Sequence[Any]], dict[Any, Any]]  # of label columns by number, of strings by name


class Source(Protocol):
    """Where the columns of a collection come from."""

    labels: list[str]
    size: int
    string_columns: list[str]
    cell_bytes: int

    def pieces(self) -> list[Piece]:
        """All rows, some at a time; pieces may be read by several threads at once."""


class ColumnCache:
    """A least-recently-used cache of whole columns, limited in bytes. It is thread-safe.

    Args:
        source: Where they come from.
        limit: The most bytes to keep; None for no limit.
    """

    def __init__(self, source: Source, limit: int | None) -> None:
        self._source, self._limit = source, limit
        self._lock = threading.Lock()
        self._columns: OrderedDict[Column, Any] = OrderedDict()

    def pieces(self, columns: Sequence[Column]) -> list[Piece]:
        """All rows with these columns: parts of whole columns in memory, unless they exceed the limit."""
        source = self._source
        needed = source.size * source.cell_bytes * len(columns)
        if not source.size or (self._limit is not None and (self._limit == 0 or needed > self._limit)):
            return source.pieces()
        whole, starts = self._whole(columns), range(0, source.size, STEP_ROWS)
        return [_piece_of(whole, start, min(STEP_ROWS, source.size - start)) for start in starts]

    def texts(self, rows: Array, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """The strings of some rows."""
        pieces = [piece for piece in self.pieces(names) if len(rows)]
        inside = [rows[(rows >= piece.first) & (rows < piece.first + piece.rows)] for piece in pieces]

        def read(piece: Piece, own: Array) -> dict[int, tuple[Any, ...]]:
            if not len(own):
                return {}
            columns = piece.read(names)
            values = (columns[name].take(own - piece.first).to_pylist() for name in names)
            return dict(zip(own.tolist(), zip(*values, strict=True), strict=True))

        with ThreadPoolExecutor(NUM_THREADS) as pool:
            parts = pool.map(read, pieces, inside)
            result = {row: strings for part in parts for row, strings in part.items()}
        return [result[row] for row in rows.tolist()]

    def _whole(self, wanted: Sequence[Column]) -> dict[Column, Any]:
        """Whole columns, from the cache or read now: NumPy arrays of probabilities, Arrow arrays of strings."""
        with self._lock:
            columns = {column: self._columns[column] for column in wanted if column in self._columns}
        missing = [column for column in wanted if column not in columns]
        if missing:
            columns |= read_whole(self._source, missing)
        with self._lock:
            for column in wanted:
                self._columns[column] = columns[column]
                self._columns.move_to_end(column)
            while self._limit is not None and len(self._columns) > len(wanted):
                if sum(values.nbytes for values in self._columns.values()) <= self._limit:
                    break
                self._columns.popitem(last=False)
        return columns


def _piece_of(columns: Mapping[Column, Any], start: int, rows: int) -> Piece:
    return Piece(start, rows, lambda wanted: {column: columns[column][start : start + rows] for column in wanted})


def read_whole(source: Source, columns: Sequence[Column]) -> dict[Column, Any]:
    """Whole columns of a source, read by several threads."""
    with ThreadPoolExecutor(NUM_THREADS) as pool:
        parts = list(pool.map(lambda piece: piece.read(columns), source.pieces()))
    return {
        column: np.concatenate([part[column] for part in parts])
        if isinstance(column, int)
        else pa.concat_arrays([part[column].cast(pa.large_string()) for part in parts])  # may exceed 2 GiB
        for column in columns
    }


def scan_rows(pieces: Iterable[Piece], scan: Scan) -> None:
    """Takes all rows into a scan, by several threads."""
    waiting = deque(pieces)
    num_threads = max(1, min(NUM_THREADS, len(waiting)))

    def work() -> Scan:
        own = scan.begin()
        while waiting:
            try:
                piece = waiting.popleft()
            except IndexError:  # another thread took the last one
                break
            own.update(piece.first, piece.read(scan.diagram.columns), piece.rows)
        return own

    with ThreadPoolExecutor(num_threads) as pool:
        try:
            for part in [pool.submit(work) for _ in range(num_threads)]:
                scan.merge(part.result())
        finally:
            waiting.clear()  # after an error, so that the other threads end as well


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

    def pieces(self) -> list[Piece]:
        """The whole table as one."""
        return [Piece(0, self.size, self._read)]

    def _read(self, columns: Sequence[Column]) -> dict[Column, Any]:
        labels = [column for column in columns if isinstance(column, int)]
        read: dict[Column, Any] = {}
        if labels:
            part = self.table.read(labels=[self.labels[label] for label in labels])
            cells = part.probabilities().detach().cpu().numpy()
            read |= {label: np.ascontiguousarray(cells[:, index]) for index, label in enumerate(labels)}
        if len(labels) < len(columns):
            texts = self.table.read(labels=[], kinds=self.table.kinds[:1])
            read |= {"id": pa.array(texts.ids), "path": pa.array(texts.paths or [])}
        return read


class ParquetFiles:
    """The parts of a table of predictions.

    Args:
        path: One file, a folder with parts in it or in its folders, a pattern, the folder of a run, or several of
            these.
        split: The split to search; all rows by default.

    Attributes:
        files: The parts, in the order of their names.
        labels: The names of the labels.
        size: The number of rows of the split.
        cell_bytes: Bytes per probability.
        string_columns: Those of "id" and "path" that exist.
        split_in_path: Whether the folder names, such as `split=test`, hold the splits.
    """

    @owned("Collection.open")
    def __init__(self, path: Any, *, split: str | None = None) -> None:
        self.path, self.split = path, split
        self.name = repr(str(path)) if isinstance(path, str | os.PathLike) else "files"
        # A file that two of the paths lead to is searched once.
        matches: dict[Path, Path] = {}
        for item in _as_paths(path):
            for file in find_parquet(item, "Collection.open"):
                matches.setdefault(file.resolve(), file)
        self.files = list(matches.values())
        self._stamps = {file: _stamp(file) for file in self.files}
        self._readers = threading.local()
        self._footers = {file: read_footer(file, "Collection.open") for file in self.files}
        headers = [Metadata.parse(footer.metadata, file) for file, footer in self._footers.items()]
        self.header, self.labels = headers[0], headers[0].labels
        for file, header in zip(self.files, headers, strict=True):
            self._check(file, header)
        schemas = [footer.schema.to_arrow_schema() for footer in self._footers.values()]
        self.same_columns = all(schema.equals(schemas[0]) for schema in schemas)
        self._columns = {name for schema in schemas for name in schema.names}
        probs = column_names("probs", self.labels)
        narrow = all(
            name in schema.names and schema.field(name).type == "float" for schema in schemas for name in probs
        )
        self.cell_bytes = 4 if narrow else 8
        self.string_columns = [name for name in ("id", "path") if name in self._columns]
        self.split_in_path = SPLIT not in self._columns and all(SPLIT in hive_partitions(file) for file in self.files)
        self._groups = [
            (file, group, footer.row_group(group).num_rows)
            for file, footer in self._footers.items()
            for group in range(footer.num_row_groups)
        ]
        # The rows of the split in each row group; None for all.
        self._selected: list[Array | None] = [None] * len(self._groups)
        if split is not None:
            self._select(split)
        self._sizes = [
            rows if selected is None else len(selected)
            for (_, _, rows), selected in zip(self._groups, self._selected, strict=True)
        ]
        self.size = sum(self._sizes)

    @property
    def has_probs(self) -> bool:
        """Whether the files hold probabilities, not only scores."""
        return "probs" in self.header.kinds

    def reopen(self) -> ParquetFiles:
        """Opens the same path and split again."""
        return ParquetFiles(self.path, split=self.split)

    def pieces(self) -> list[Piece]:
        """The row groups."""
        starts = np.cumsum([0, *self._sizes]).tolist()
        return [
            Piece(start, size, partial(self._read_group, number))
            for number, (start, size) in enumerate(zip(starts, self._sizes, strict=False))
            if size
        ]

    def _read_group(self, number: int, columns: Sequence[Column]) -> dict[Column, Any]:
        """Columns of a row group: arrays of probabilities, Arrow arrays of strings."""
        (file, group, rows), selected = self._groups[number], self._selected[number]
        names = {column: self._name_of(column) for column in columns}
        table = self._read(file, group, list(names.values()))
        read: dict[Column, Any] = {}
        for column, name in names.items():
            values = table.column(name).combine_chunks() if name in table.column_names else pa.nulls(rows)
            if isinstance(column, int):
                cells = as_numpy(values.fill_null(math.nan) if values.null_count else values)
                if rows and not (cells.min() >= 0 and cells.max() <= 1):  # of cells that are NaN neither is true
                    raise self._invalid(column)
                read[column] = cells if selected is None else cells[selected]
            else:
                read[column] = values if selected is None else values.take(selected)
        return read

    def _read(self, file: Path, group: int, names: Sequence[str]) -> Any:
        """Columns of a row group as an Arrow table; those that the file does not have are left out."""
        readers = self._readers.__dict__
        with (
            self._unchanged(file),
            arrow_as_input_error(file, "lead to whole Parquet files", "Write them again."),
        ):
            if str(file) not in readers:
                readers[str(file)] = pa.parquet.ParquetFile(file, metadata=self._footers[file])
            return readers[str(file)].read_row_group(group, columns=names, use_threads=False)

    def sql_name(self, label: int) -> str:
        """The column of a label for SQL, which takes capitals and small letters for the same."""
        name = self._name_of(label)
        if sum(name.lower() == other.lower() for other in self._columns) > 1:
            hint = "Rename one of them."
            rule = "have labels that differ by more than capitals, which SQL ignores"
            raise InputError("collection", rule=rule, got=repr(self.labels[label]), hint=hint)
        return name

    def _name_of(self, column: Column) -> str:
        return column if isinstance(column, str) else column_names("probs", [self.labels[column]])[0]

    def _invalid(self, label: int) -> InputError:
        """The error for a column with values that are no probabilities."""
        name, count = self._name_of(label), 0
        for file, group, rows in self._groups:
            cells = self._read(file, group, [name]).column(0).to_numpy()
            count += rows - np.count_nonzero((cells >= 0) & (cells <= 1))
        got = f"{count:,} cells of label {self.labels[label]!r} that do not, or are blank"
        rule, hint = "hold probabilities between 0 and 1", "Write the table again."
        return InputError("path", "Collection.open", rule, got, hint)

    @contextmanager
    def _unchanged(self, file: Path) -> Iterator[None]:
        """Raises if a file has changed since it was opened, so that old and new contents are never mixed."""
        before = _stamp(file)
        if before == self._stamps[file]:
            yield
        if before != self._stamps[file] or _stamp(file) != before:
            hint = "Open it again, or call `refresh()`."
            rule = "lead to files that stay as they were when it was opened"
            raise InputError("path", "Collection", rule, f"{self.name}, which has changed", hint)

    def _select(self, split: str) -> None:
        """Finds the rows of the split; the error for one that does not exist lists those that do."""
        names = set()
        for number, (file, group, rows) in enumerate(self._groups):
            values = (
                pa.repeat(hive_partitions(file)[SPLIT], rows) if self.split_in_path else pa.nulls(rows, pa.string())
            )
            if SPLIT in self._columns:
                columns = self._read(file, group, [SPLIT])
                values = columns.column(0).cast(pa.string()) if columns.num_columns else values
            names |= set(values.unique().to_pylist())
            matches = pa.compute.equal(values, str(split)).fill_null(False)
            self._selected[number] = np.flatnonzero(matches.to_numpy(zero_copy_only=False))
        known = sorted(name for name in names if name is not None)
        if split not in known and not (isinstance(split, str) and not self._groups):
            hint = suggest(str(split), known, f"There are {', '.join(map(repr, known[:5]))}.", show=repr)
            got = f"{split!r}" if known else f"{split!r} for one without splits"
            raise InputError(
                "split", rule="name a split of the table", got=got, hint=hint if known else "Leave it out."
            )

    def _check(self, file: Path, header: Metadata) -> None:
        """Raises if a part has other labels or columns than the first."""
        for name in ("labels", "kinds"):
            if getattr(header, name) != getattr(self.header, name):
                rule = f"lead to parts with the same {name} as {self.files[0].name!r}"
                hint = "Open the parts that belong together, by a pattern or a folder of their own."
                raise InputError("path", rule=rule, got=f"{file.name!r} with others", hint=hint)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Inode, size and modification time of a file; None if it is gone."""
    try:
        state = file.stat()
    except FileNotFoundError:
        return None
    return state.st_ino, state.st_size, state.st_mtime_ns


def _as_paths(path: Any) -> list[Path]:
    paths = [path] if isinstance(path, str | os.PathLike) else path
    if not isinstance(paths, Sequence) or not paths or not all(isinstance(one, str | os.PathLike) for one in paths):
        got = "nothing" if isinstance(paths, Sequence) and not paths else type(path).__name__
        hint = "Pass the path of a table of predictions."
        raise InputError("path", rule="be a path or several", got=got, hint=hint)
    return [Path(one) for one in paths]


class CompiledQuery(NamedTuple):
    """A parsed query: its normal form as text, and the diagram that computes its probability."""

    text: str
    diagram: Diagram


class CollectionView:
    """Files or a table as they were opened; each query uses one view throughout.

    Args:
        source: Where the columns come from.
        cache_bytes: Limit of the column cache; None for no limit.
    """

    def __init__(self, source: ParquetFiles | TableColumns, cache_bytes: int | None) -> None:
        self.source, self.labels = source, source.labels
        self.cache = ColumnCache(source, cache_bytes)
        self._compile = lru_cache(MAX_COMPILED_QUERIES)(self._compiled)

    def compile(self, query: str) -> CompiledQuery:
        """The parsed query; raises `QueryError` if it cannot be parsed."""
        return self._compile(query) if isinstance(query, str) else self._compiled(query)

    def _compiled(self, query: str) -> CompiledQuery:
        formula = parse_query(query, self.labels)
        return CompiledQuery(format_query(formula, self.labels), compile_query(formula, len(self.labels)))

    def scan(self, diagram: Diagram, *, k: int | None, keep: bool, expect: bool) -> Scan:
        """One pass over all rows: the k most probable ones (None for all) if `keep`, and the histogram if `expect`."""
        scan = Scan(diagram, TopK(k) if keep else None, MatchHistogram() if expect else None)
        scan_rows(self.cache.pieces(diagram.columns), scan)
        return scan


MAX_COMPILED_QUERIES = 256


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

    def __init__(self, source: ParquetFiles | TableColumns, *, cache_bytes: int | None) -> None:
        self._cache_bytes = cache_bytes
        self._view = CollectionView(source, cache_bytes)

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
        files = ParquetFiles(path, split=split)
        if files.has_probs:
            return cls(files, cache_bytes=cache_bytes)
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
        return cls(TableColumns(table), cache_bytes=None)

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
        scan = view.scan(compiled.diagram, k=k, keep=True, expect=expect or recall is not None)
        assert scan.top is not None
        best = scan.top.best()
        if precision is not None or recall is not None:
            total = math.nan if scan.histogram is None else scan.histogram.mean
            best = best[:, : cutoff_length(best[1], total, precision=precision, recall=recall)]
        expected = _expected_matches(scan, DEFAULT_LEVEL, view.source.size) if expect else None
        texts = view.cache.texts(best[0].astype(np.int64), view.source.string_columns)
        hits = [
            Hit(names[0], names[1] if len(names) > 1 else None, prob, log_prob)
            for names, prob, log_prob in zip(texts, best[1].tolist(), best[2].tolist(), strict=True)
        ]
        mass = math.fsum(hit.prob for hit in hits)
        return SearchResult(
            query=compiled.text,
            hits=hits,
            expected=expected,
            precision=mass / len(hits) if hits else math.nan,
            recall=None if expected is None else mass / expected.mean if expected.mean > 0 else math.nan,
        )

    @owned("Collection.expect")
    def expect(self, query: str, *, level: float = DEFAULT_LEVEL) -> ExpectedMatches:
        """The expected number of samples that match a query, with an interval.

        Args:
            query: As for `search`.
            level: The coverage of the interval, if the probabilities are calibrated and samples are independent.
        """
        checked = check_level("level", level)
        view = self._view
        scan = view.scan(view.compile(query).diagram, k=None, keep=False, expect=True)
        return _expected_matches(scan, checked, view.source.size)

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
            files_in_sql(source.files, split=source.split, hive=source.split_in_path, union=not source.same_columns),
            {column: source.sql_name(column) for column in diagram.columns},
            source.string_columns,
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
        added = add_part(self._view.source, table)
        self.refresh()
        return added

    def refresh(self) -> None:
        """Opens the files again, after parts were added, replaced or removed."""
        source = self._view.source
        if isinstance(source, ParquetFiles):
            self._view = CollectionView(source.reopen(), self._cache_bytes)


def _expected_matches(scan: Scan, level: float, rows: int) -> ExpectedMatches:
    assert scan.histogram is not None
    low, high = count_interval(scan.histogram.bins(), level)
    return ExpectedMatches(mean=scan.histogram.mean, low=low, high=high, level=level, rows=rows)


@owned("Collection.add")
def add_part(source: object, table: PredictionTable) -> int:
    """Writes the rows of a table whose ids are new as the next part of a folder; returns their number.

    Args:
        source: The existing parts, opened by the path of their folder.
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
        return _write_part(source.reopen(), table, folder)


def _write_part(source: ParquetFiles, table: PredictionTable, folder: Path) -> int:
    from manyhot.predictions.parquet import PredictionsWriter

    _check_addable(source, table)
    ids = [name for batch in table.batches(kinds=table.kinds[:1]) for name in batch.ids]
    known = [part.read(["id"])["id"] for part in source.pieces()]
    is_known = pa.compute.is_in(pa.array(ids, pa.string()), pa.chunked_array(known, pa.string()))
    fresh = np.flatnonzero(~is_known.to_numpy(zero_copy_only=False))
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
