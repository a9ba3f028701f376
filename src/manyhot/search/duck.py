"""DuckDB, imported where a collection is searched and nowhere else."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from manyhot.refusal import refusal
from manyhot.terminal import printable


def import_duckdb() -> ModuleType:
    """The module, or the sentence that says how to get it."""
    try:
        import duckdb
    except ImportError:
        raise ImportError("Search needs duckdb. Install it with: pip install 'manyhot[search]'") from None
    module: ModuleType = duckdb
    return module


class Database:
    """A database in memory that fetches nothing from elsewhere, and may be asked by several threads at once.

    Attributes:
        about: What it reads, to be named in errors.
    """

    def __init__(self) -> None:
        self.about = "a table in memory"
        self._connection = import_duckdb().connect(":memory:", config={"autoinstall_known_extensions": "false"})
        # The footers of files that were read stay in memory.
        self._connection.execute("SET parquet_metadata_cache = true")
        self._connection.execute("SET enable_progress_bar = false")
        self._own = threading.local()

    def rows(self, statement: str, tables: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """What a statement gives, over files and tables of Arrow by their names."""
        with self._in_our_words():
            found: list[tuple[Any, ...]] = self._cursor(tables or {}).execute(statement).fetchall()
        return found

    def table(self, statement: str) -> Any:
        """What a statement gives, as a table of Arrow."""
        with self._in_our_words():
            return self._cursor({}).sql(statement).to_arrow_table()

    def _cursor(self, tables: Mapping[str, Any]) -> Any:
        """The cursor of this thread, to which tables are known; those that it knows from before are not told again."""
        own = self._own.__dict__
        if "cursor" not in own:
            own["cursor"], own["known"] = self._connection.cursor(), {}
        for name, table in tables.items():
            if own["known"].get(name) is not table:
                own["cursor"].register(name, table)
                own["known"][name] = table
        return own["cursor"]

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        """What DuckDB says about the files that it reads, as a refusal."""
        duckdb = import_duckdb()
        try:
            yield
        except duckdb.Error as error:
            # Damage is told by errors of many classes, also by the class of all of them; a mistake in a statement, or
            # too little memory, is not the fault of the files.
            damage = duckdb.OperationalError, duckdb.InvalidInputException, duckdb.ConversionException
            known = type(error) is duckdb.Error or isinstance(error, damage)
            if not known or isinstance(error, duckdb.OutOfMemoryException):
                raise
            said = printable(str(error).splitlines()[0].rstrip("."))
            got = f"{self.about}, of which DuckDB says: {said}"
            if isinstance(error, duckdb.IOException) and "No files found" in said:
                rule, remedy = "lead to the files it led to when it was opened", "Open it again, or call `refresh()`."
            else:
                rule, remedy = "lead to whole Parquet files", "Write them again."
            raise refusal("path", "Collection", rule, got, remedy) from None


def literal_path(path: Path) -> str:
    """A path in which no character stands for others, as DuckDB would take those of a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))
