"""New predictions for a collection that is there: one more part, whole or not at all."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhot.files import locked
from manyhot.predictions.arrow import import_arrow
from manyhot.refusal import refusal
from manyhot.search.duck import Database
from manyhot.search.files import ParquetFiles

if TYPE_CHECKING:
    from manyhot.predictions.table import Table

OWNER = "Collection.add"


def add_part(source: object, database: Database, table: Table) -> int:
    """Writes the rows of a table whose ids are new as the next part of a folder; returns how many there were.

    Args:
        source: The parts that are there, opened by the path of their folder.
        database: What reads them.
        table: It must have the labels of the parts, and all kinds of columns that they have.
    """
    from manyhot.predictions.table import Table

    if not isinstance(table, Table):
        raise refusal("table", OWNER, "be a table of predictions", type(table).__name__, "Pass `Predictions`.")
    folder = _folder(source)
    assert isinstance(source, ParquetFiles)
    with locked(folder / ".adding"):
        # Others may have added since the collection was opened.
        return _add(source.again(), database, table, folder)


def _add(source: ParquetFiles, database: Database, table: Table, folder: Path) -> int:
    from manyhot.predictions.writer import PredictionsWriter

    _check(source, table)
    ids = [name for batch in table.batches(kinds=table.kinds[:1]) for name in batch.ids]
    fresh = _fresh(source, database, ids)
    if len(fresh) == 0:
        return 0
    # Where there are no locks, two programs that add at once still give their parts different names.
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


def _fresh(source: ParquetFiles, database: Database, ids: list[str]) -> Any:
    """The numbers of the rows whose ids are not there yet, in order."""
    pa = import_arrow()
    given = pa.table({"row": pa.array(range(len(ids)), pa.int64()), "id": pa.array(ids, pa.string())})
    statement = f"SELECT row FROM given ANTI JOIN {source.scan()} AS known USING (id) ORDER BY row"
    rows = database.rows(statement, {"given": given})
    return np.array([row for (row,) in rows], dtype=np.int64)


def _folder(source: object) -> Path:
    """The folder that a collection was opened by, or the error that says why it cannot grow."""
    path = getattr(source, "path", None)
    if isinstance(path, list | tuple) and len(path) == 1:
        (path,) = path
    given = None if path is None or isinstance(path, list | tuple) else Path(path)
    if given is None or not given.is_dir() or (given / "classifier.json").is_file():
        got = "a table in memory" if path is None else f"{str(path)!r}, which is none"
        remedy = "Save the table as a part in a folder of its own, and open that folder."
        raise refusal("collection", OWNER, "be a folder of parts", got, remedy)
    return given


def _check(source: ParquetFiles, table: Table) -> None:
    if source.split_in_path:
        remedy = "Save the part in one of these folders, without `splits`."
        raise refusal("collection", OWNER, "have no folders by split", "one with folders such as split=test", remedy)
    if table.labels.names != source.labels:
        differ = len(table.labels.names), len(source.labels)
        got = (
            "the same in another order"
            if sorted(table.labels.names) == sorted(source.labels)
            else f"{differ[0]} others"
        )
        rule = f"have the {differ[1]} labels of the collection"
        raise refusal("table", OWNER, rule, got, "Read it with `labels` in the order of the collection.")
    missing = [kind for kind in source.header.kinds if kind not in table.kinds]
    if missing:
        rule = f"hold {', '.join(source.header.kinds)} like the parts that are there"
        got = f"one without {', '.join(missing)}"
        raise refusal("table", OWNER, rule, got, "Predict with the same classifier, or start a new folder.")
    columns = next(table.batches(1)).columns()
    if columns["ids"].numbered:
        remedy = "Pass `ids` when you make the table, such as the paths of the samples."
        raise refusal("table", OWNER, "have ids of its own, which tell what is there already", "row numbers", remedy)
    for text, name in (("path", "paths"), ("split", "splits")):
        if (text in source.texts) != (columns[name] is not None):
            rule = f"{'have' if text in source.texts else 'have no'} {name} like the parts that are there"
            raise refusal("table", OWNER, rule, "another table", f"Pass `replace({name}=...)`.")


def _next_number(files: list[Path]) -> int:
    found = [re.fullmatch(r"part-(\d+)(-[0-9a-f]{8})?", file.stem) for file in files]
    return max((int(match[1]) + 1 for match in found if match), default=len(files))
