"""Time and memory of tables on disk: writing, streaming, and reading a few labels, beside what pyarrow needs alone.

python benchmarks/predictions.py [--rows 1000000] [--labels 80] [--json predictions.json]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SETTING = """
import sys, time
import pyarrow.parquet as pq, pyarrow.compute, pyarrow.csv
import torch
from manyhot.predictions import Predictions, PredictionsWriter, open_predictions
path, rows, labels = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def megabytes(what):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what)) / 1024

def report(work):
    before, wall, cpu = megabytes("VmRSS"), time.perf_counter(), time.process_time()
    work()
    print(time.perf_counter() - wall, time.process_time() - cpu, megabytes("VmHWM") - before)

def write():
    draw = torch.Generator().manual_seed(0)
    with PredictionsWriter(path, [f"label {k}" for k in range(labels)]) as writer:
        for start in range(0, rows, 16384):
            size = min(16384, rows - start)
            scores = torch.randn(size, labels, generator=draw) * 2 - 3
            ids = [f"image {row}" for row in range(start, start + size)]
            targets = torch.randint(-1, 2, scores.shape, dtype=torch.int8, generator=draw)
            writer.write(Predictions(scores=scores, probs=scores.sigmoid(), targets=targets, ids=ids))

def stream():
    for batch in open_predictions(path).batches():
        batch.scores

def pyarrow_stream():
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches():
            batch.num_rows

def three_labels():
    open_predictions(path).read(labels=["label 0", "label 3", "label 7"], kinds=["probs"])

def load():
    open_predictions(path).load()
"""
STEPS = {
    "write (with drawing the numbers)": "write",
    "stream in batches of 65,536 rows": "stream",
    "the same by pyarrow, without tensors": "pyarrow_stream",
    "read the probabilities of 3 labels": "three_labels",
    "load everything": "load",
}


def measure(step: str, path: Path, rows: int, labels: int) -> tuple[float, float, float]:
    """Seconds, seconds of the processor and peak megabytes of one step, in a process of its own."""
    command = [sys.executable, "-c", f"{SETTING}\nreport({step})", str(path), str(rows), str(labels)]
    wall, cpu, peak = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    return wall, cpu, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table (default: 1000000)")
    parser.add_argument("--labels", type=int, default=80, help="its labels (default: 80)")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.parquet")
        print(f"{arguments.rows:,} rows x {arguments.labels} labels: scores, probs, targets\n")
        print(f"{'':40}{'seconds':>10}{'of processor':>14}{'peak MB':>10}")
        for name, step in STEPS.items():
            results[step] = measure(step, path, arguments.rows, arguments.labels)
            wall, cpu, peak = results[step]
            print(f"{name:40}{wall:10.2f}{cpu:14.2f}{peak:10.0f}", flush=True)
        print(f"\non disk: {path.stat().st_size / 2**20:,.0f} MB")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
