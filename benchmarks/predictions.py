"""Time and memory of tables on disk: writing, streaming, and reading a few labels, beside what pyarrow needs alone.

python benchmarks/predictions.py [--rows 1000000] [--labels 80] [--small] [--json predictions.json]
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute
import pyarrow.csv  # noqa: F401
import pyarrow.parquet as pq
import torch
from timing import meter_alone, print_table, read_options, write_figures

from manyhot.predictions import Predictions, PredictionsWriter, open_predictions


def write(path: Path, rows: int, labels: int) -> None:
    draw = torch.Generator().manual_seed(0)
    with PredictionsWriter(path, [f"label {k}" for k in range(labels)]) as writer:
        for start in range(0, rows, 16384):
            size = min(16384, rows - start)
            scores = torch.randn(size, labels, generator=draw) * 2 - 3
            ids = [f"image {row}" for row in range(start, start + size)]
            targets = torch.randint(-1, 2, scores.shape, dtype=torch.int8, generator=draw)
            writer.write(Predictions(scores=scores, probs=scores.sigmoid(), targets=targets, ids=ids))


def stream(path: Path) -> None:
    for batch in open_predictions(path).batches():
        assert batch.scores is not None


def stream_by_pyarrow(path: Path) -> None:
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches():
            assert batch.num_rows


def read_three_labels(path: Path) -> None:
    open_predictions(path).read(labels=["label 0", "label 3", "label 7"], kinds=["probs"])


def load(path: Path) -> None:
    open_predictions(path).load()


READ: dict[str, Callable[[Path], None]] = {
    "stream in batches of 65,536 rows": stream,
    "the same by pyarrow, without tensors": stream_by_pyarrow,
    "read the probabilities of 3 labels": read_three_labels,
    "load everything": load,
}


def main() -> None:
    options = read_options(__doc__, rows=(1_000_000, 2_000, "rows of the table"), labels=(80, 8, "its labels"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.parquet")
        results = {"write (with drawing the numbers)": meter_alone(write, path, options.rows, options.labels)}
        results |= {name: meter_alone(step, path) for name, step in READ.items()}
        size = path.stat().st_size / 1e6
    print(f"{options.rows:,} rows x {options.labels} labels: scores, probs, targets; {size:,.0f} MB on disk\n")
    rows = [[name, f"{r['seconds']:.2f}", f"{r['processor']:.2f}", f"{r['peak']:.0f}"] for name, r in results.items()]
    print_table(["", "seconds", "of processor", "peak MB"], rows)
    write_figures(options, {"megabytes": size, "results": results})


if __name__ == "__main__":
    main()
