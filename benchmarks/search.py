"""The 100 samples that best match a query of three labels, out of millions, beside other ways to find them.

python benchmarks/search.py [--rows 5000000] [--labels 80] [--rounds 15] [--folder FOLDER] [--small] [--json FILE]

The predictions are drawn and written to FOLDER first (a temporary one by default), in five parts of equal size: once
as this package writes them, one column a label, and once as one column of lists, as tables of vectors usually are. The
floor is the time to read the three columns of the query in memory once.
"""

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from timing import Seconds, Step, interleaved, print_times, read_options, write_figures

from manyhot.predictions import Predictions, PredictionsWriter
from manyhot.search import Collection, SearchResult

LISTS = pa.schema([("id", pa.string()), ("probs", pa.list_(pa.float32()))])
PARTS = 5
ROWS_AT_ONCE = 65536
K = 100
NAMED = 3, 7, 11
FLOOR, CACHED = "the three columns in memory, read once (floor)", "search, columns cached"
QUERY = "label 3 & label 7 & !label 11"
GROWTH_QUERIES = {
    "three labels": QUERY,
    "each label twice": "(label 3 | label 7) & (label 3 | label 11)",
    "two of four": "atleast(2, label 3, label 7, label 11, label 13)",
}


def draw(rows: int, labels: int, seed: int) -> torch.Tensor:
    """Probabilities as a classifier gives them: labels of very different rates, most of them absent."""
    generator = torch.Generator().manual_seed(0)
    rates = torch.exp(torch.empty(labels).uniform_(-6, -1, generator=generator))
    generator.manual_seed(seed)
    return torch.sigmoid(2.5 * torch.randn(rows, labels, generator=generator) + rates.log() - 2)


def write(folder: Path, rows: int, labels: int) -> np.ndarray:
    """Writes both layouts, in parts; returns the matrix."""
    matrix = np.empty((rows, labels), np.float32)
    names = [f"label {label}" for label in range(labels)]
    for name in ("columns", "lists"):
        (folder / name).mkdir(parents=True)
    for part in range(PARTS):
        start, stop = rows * part // PARTS, rows * (part + 1) // PARTS
        with (
            PredictionsWriter(folder / "columns" / f"part-{part}.parquet", names) as writer,
            pq.ParquetWriter(folder / "lists" / f"part-{part}.parquet", LISTS, compression="zstd") as lists,
        ):
            for first in range(start, stop, ROWS_AT_ONCE):
                last = min(first + ROWS_AT_ONCE, stop)
                probs = draw(last - first, labels, seed=first)
                matrix[first:last] = probs
                ids = [f"image {row:07d}" for row in range(first, last)]
                writer.write(Predictions(probs=probs, ids=ids))
                ends = pa.array(np.arange(last - first + 1, dtype=np.int32) * labels)
                cells = pa.ListArray.from_arrays(ends, pa.array(matrix[first:last].ravel()))
                lists.write_table(pa.table([pa.array(ids), cells], LISTS))
    return matrix


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(file.stat().st_size for file in folder.iterdir())


def candidates(folder: Path, matrix: np.ndarray) -> dict[str, Step]:
    """Every way to the hundred best; all of them find the same."""
    first, second, third = NAMED
    contiguous = [np.ascontiguousarray(matrix[:, label]) for label in NAMED]
    cached, files = Collection.open(folder / "columns"), Collection.open(folder / "columns", cache_bytes=0)
    database = duckdb.connect()
    database.execute("SET parquet_metadata_cache = true")
    statement = files.sql(QUERY, k=K)
    parts = ", ".join(f"'{path}'" for path in sorted((folder / "lists").iterdir()))
    score = f"ln(probs[{first + 1}]) + ln(probs[{second + 1}]) + ln(1 - CAST(probs[{third + 1}] AS DOUBLE))"
    of_lists = f"SELECT id, {score} AS score FROM read_parquet([{parts}]) ORDER BY score DESC LIMIT {K}"

    def by_numpy() -> list[int]:
        scores = np.log(matrix[:, first]) + np.log(matrix[:, second]) + np.log1p(-matrix[:, third])
        return best_rows(scores)

    def by_products() -> list[int]:
        scores = matrix[:, first] * matrix[:, second] * (1 - matrix[:, third])
        return best_rows(scores)

    ways: dict[str, Callable[[], list[Any]]] = {
        FLOOR: lambda: [column.sum() for column in contiguous],
        CACHED: lambda: hits(cached.search(QUERY, k=K, expect=False)),
        "search, columns cached, with expected matches": lambda: hits(cached.search(QUERY, k=K)),
        "search, from the files": lambda: hits(files.search(QUERY, k=K, expect=False)),
        "its statement in DuckDB": lambda: numbers(database.execute(statement).fetchall()),
        "the same in DuckDB over lists": lambda: numbers(database.execute(of_lists).fetchall()),
        "NumPy, logarithms over the matrix": by_numpy,
        "NumPy, products over the matrix": by_products,
    }
    expected = by_numpy()
    for name, way in ways.items():
        if name != FLOOR and len(set(way()) & set(expected)) < K - 1:  # single precision may swap the last one
            raise SystemExit(f"{name} finds others")
    return {**ways}


def best_rows(scores: np.ndarray) -> list[int]:
    best = np.argpartition(scores, -K)[-K:]
    rows: list[int] = best[np.argsort(-scores[best])].tolist()
    return rows


def hits(result: SearchResult) -> list[int]:
    return [int(hit.id.removeprefix("image ")) for hit in result.hits]


def numbers(rows: list[tuple[Any, ...]]) -> list[int]:
    return [int(row[0].removeprefix("image ")) for row in rows]


def growth(folder: Path, rounds: int) -> Seconds:
    """Seconds of some queries for one part, and for all of them."""
    few, many = (Collection.open(path) for path in (folder / "columns" / "part-0.parquet", folder / "columns"))
    steps: dict[str, Step] = {}
    for name, query in GROWTH_QUERIES.items():
        for collection in (few, many):
            steps[f"{name}, {len(collection):,} rows"] = partial(collection.search, query, k=K)
    return interleaved(steps, rounds=rounds, warm_up=2)


def main() -> None:
    options = read_options(
        __doc__,
        rows=(5_000_000, 5_000, "samples"),
        labels=(80, 14, "labels, at least 14"),
        rounds=(15, 1, "rounds of all ways, interleaved"),
        folder=("", "", "a new folder for the files, which are left there"),
        threads=(torch.get_num_threads(),) * 2 + ("threads of torch",),
    )
    with nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        matrix = write(folder, options.rows, options.labels)
        sizes = {name: size_of(folder / name) / options.rows for name in ("columns", "lists")}
        print(f"{options.rows:,} samples x {options.labels} labels, the {K} best of {QUERY!r}\n")
        print(f"bytes a sample on disk: {sizes['columns']:.0f} as columns, {sizes['lists']:.0f} as lists\n")
        seconds = interleaved(candidates(folder, matrix), rounds=options.rounds, warm_up=1)
        del matrix
        grown = growth(folder, options.rounds)
    print_times(seconds, {FLOOR: "floor", CACHED: "search"})
    print("\nwith expected matches, columns cached\n")
    print_times(grown, {})
    write_figures(options, {"bytes": sizes, "seconds": seconds, "growth": grown})


if __name__ == "__main__":
    main()
