"""Predictions in Parquet files, as a table that DuckDB reads column by column."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.predictions.forms import find_parquet, partitions
from manyhot.predictions.header import TEXT_COLUMNS, Header, column_names, read_footer
from manyhot.refusal import refusal
from manyhot.search.duck import Database, literal_path
from manyhot.search.kept import Column
from manyhot.search.relation import SAMPLE_ROWS, Relation
from manyhot.search.sql import quote_name, quote_text

OWNER = "Collection.open"


class ParquetFiles:
    """The parts of a table of predictions.

    Args:
        path: One file, a folder with parts in it or in its folders, a pattern, the folder of a run, or several of
            these.
        database: What reads them.
        split: The split to look at; all rows by default.

    Attributes:
        files: The parts, in the order of their names.
        labels: The names of the labels.
        rows: How many rows there are, of all splits together.
        texts: Which of "id", "path" and "split" there are as columns.
        split_in_path: Whether the splits are told by the names of folders.
    """

    def __init__(self, path: Any, database: Database, *, split: str | None = None) -> None:
        self.path, self.split, self._database = path, split, database
        database.about = repr(str(path)) if isinstance(path, str | os.PathLike) else "files"
        # A file that two of the paths lead to is searched once.
        found: dict[Path, Path] = {}
        for place in _places(path):
            for file in find_parquet(place, OWNER):
                found.setdefault(file.resolve(), file)
        self.files = list(found.values())
        self._stamps = self._look()
        self._checked: set[int] = set()
        footers = [read_footer(file, OWNER) for file in self.files]
        headers = [Header.parse(footer.metadata, file) for footer, file in zip(footers, self.files, strict=True)]
        self.header = headers[0]
        self.labels = self.header.labels
        for file, header in zip(self.files, headers, strict=True):
            self._check(file, header)
        self.rows = sum(footer.num_rows for footer in footers)
        self._read_columns([footer.schema.to_arrow_schema() for footer in footers])
        if split is not None:
            self._check_split(split)

    def _read_columns(self, schemas: Sequence[Any]) -> None:
        """Looks which columns there are, of which parts may have different ones beside their labels."""
        kinds = [{field.name: str(field.type) for field in schema} for schema in schemas]
        self._alike = all(kind == kinds[0] for kind in kinds)
        columns = list(dict.fromkeys(name for kind in kinds for name in kind))
        probs = column_names("probs", self.labels)
        self._narrow = all(kind.get(name) == "float" for kind in kinds for name in probs)
        self._columns = self._names_in_duckdb(columns)
        in_path = all("split" in partitions(file) for file in self.files)
        self.split_in_path = "split" not in columns and in_path
        self.texts = [name for name in TEXT_COLUMNS.values() if name in columns]
        self.texts += [TEXT_COLUMNS["splits"]] if self.split_in_path else []

    @property
    def has_probs(self) -> bool:
        """Whether the probabilities are there, not only scores from which they would have to be made."""
        return "probs" in self.header.kinds

    def scan(self) -> str:
        """All rows, of all splits, as SQL that can stand after FROM."""
        names = ", ".join(quote_text(literal_path(file)) for file in self.files)
        # Folders such as `split=test` must not replace a column of the files.
        hive = "true" if self.split_in_path else "false"
        # Parts of different columns are put together by name: what one does not have is null, and doubles stay doubles.
        union = "" if self._alike else ", union_by_name = true"
        return f"read_parquet([{names}], hive_partitioning = {hive}{union})"

    def expression(self) -> str:
        """The rows of the split as SQL that can stand after FROM."""
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
            row=tuple(quote_name(name) for name in self.texts if name != "split"),
            order=order,
            narrow=self._narrow,
        )

    def column(self, label: int) -> str:
        """The SQL name of the column that holds the probabilities of a label."""
        (name,) = column_names("probs", [self.labels[label]])
        return quote_name(self._columns[name])

    @property
    def cell_bytes(self) -> int:
        """How many bytes a probability takes."""
        return 4 if self._narrow else 8

    def again(self) -> ParquetFiles:
        """The same path and split, looked at anew."""
        return ParquetFiles(self.path, self._database, split=self.split)

    @cached_property
    def size(self) -> int:
        """How many rows the split has."""
        if self.split is None:
            return int(self.rows)
        ((rows,),) = self.ask(f"SELECT count(*) FROM {self.expression()}")
        return int(rows)

    def load(self, columns: Sequence[Column]) -> list[Any]:
        """Whole columns of Arrow, read at once."""
        names = [self.column(column) if isinstance(column, int) else quote_name(column) for column in columns]
        chosen = ", ".join(f"{name} AS column_{place}" for place, name in enumerate(names))
        with self._unchanged():
            loaded = list(self._database.table(f"SELECT {chosen} FROM {self.expression()}").columns)
        for column, values in zip(columns, loaded, strict=True):
            if isinstance(column, int):
                cells = values.to_numpy()  # blank ones become NaN
                self._refuse_bad(column, len(cells) - int(np.count_nonzero((cells >= 0) & (cells <= 1))))
        return loaded

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """What a statement over the files gives."""
        with self._unchanged():
            return self._database.rows(statement)

    def _check_probs(self, labels: Sequence[int]) -> None:
        """Refuses columns that another program filled with what are no probabilities; looked at once."""
        fresh = [label for label in labels if label not in self._checked]
        if not fresh:
            return
        tests = (f"count(*) FILTER (WHERE {self.column(label)} BETWEEN 0 AND 1)" for label in fresh)
        ((rows, *good),) = self.ask(f"SELECT count(*), {', '.join(tests)} FROM {self.scan()}")
        for label, count in zip(fresh, good, strict=True):
            self._refuse_bad(label, rows - count)
        self._checked.update(fresh)

    def _refuse_bad(self, label: int, count: int) -> None:
        if count:
            got = f"{count:,} cells of label {self.labels[label]!r} that do not, or are blank"
            raise refusal("path", OWNER, "hold probabilities between 0 and 1", got, "Write the table again.")

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Refuses to mix what was read of files before with what is in them now."""
        before = self._look()
        if before == self._stamps:
            yield
        if before != self._stamps or self._look() != before:
            remedy = "Open it again, or call `refresh()`."
            rule = "lead to files that stay as they were when it was opened"
            raise refusal("path", "Collection", rule, f"{self._database.about}, which has changed", remedy)

    def _look(self) -> list[tuple[int, int, int]]:
        """What is another one as soon as a file is."""
        try:
            states = [file.stat() for file in self.files]
        except FileNotFoundError:
            return []
        return [(state.st_ino, state.st_size, state.st_mtime_ns) for state in states]

    def _names_in_duckdb(self, columns: list[str]) -> dict[str, str]:
        """How DuckDB calls the columns: it does not tell `Cat` from `cat`, and numbers what comes again."""
        if len({name.lower() for name in columns}) == len(columns):
            return {name: name for name in columns}
        if not self._alike:
            remedy = "Write all parts with the same columns, or rename labels that differ by capitals alone."
            raise refusal("path", OWNER, "lead to parts with the same columns", "parts with different ones", remedy)
        first = quote_text(literal_path(self.files[0]))
        statement = f"DESCRIBE SELECT * FROM read_parquet({first}, hive_partitioning = false)"
        described = self.ask(statement)
        return dict(zip(columns, (row[0] for row in described), strict=True))

    def _check_split(self, split: object) -> None:
        """Refuses a split that is not there, and names those that are."""
        names: list[str] = []
        if TEXT_COLUMNS["splits"] in self.texts:
            found = self.ask(f"SELECT DISTINCT {quote_name('split')} FROM {self.scan()} ORDER BY 1")
            names = [str(name) for (name,) in found if name is not None]
        if split in names or (self.rows == 0 and isinstance(split, str)):
            return
        near = difflib.get_close_matches(str(split), names, n=1)
        remedy = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(map(repr, names[:5]))}."
        got = f"{split!r}" if names else f"{split!r} for one without splits"
        raise refusal("split", OWNER, "name a split of the table", got, remedy if names else "Leave it out.")

    def _check(self, file: Path, header: Header) -> None:
        """Refuses a part that does not belong to the others."""
        for name in ("labels", "kinds"):
            if getattr(header, name) != getattr(self.header, name):
                rule = f"lead to parts with the same {name} as {self.files[0].name!r}"
                remedy = "Open the parts that belong together, by a pattern or a folder of their own."
                raise refusal("path", OWNER, rule, f"{file.name!r} with others", remedy)


def _places(path: Any) -> list[Path]:
    given = [path] if isinstance(path, str | os.PathLike) else path
    if not isinstance(given, Sequence) or not given or not all(isinstance(one, str | os.PathLike) for one in given):
        got = "nothing" if isinstance(given, Sequence) and not given else type(path).__name__
        raise refusal("path", OWNER, "be a path or several", got, "Pass the path of a table of predictions.")
    return [Path(one) for one in given]
