"""Tables bigger than the memory that may be used, in processes of their own whose peak is measured."""

import subprocess
import sys

import pytest

ROWS, LABELS = 400_000, 60

SETTING = f"""
import sys, torch
import pyarrow, pyarrow.compute, pyarrow.csv, pyarrow.parquet
from manyhot.predictions import Predictions, PredictionsWriter, open_predictions
ROWS, LABELS = {ROWS}, {LABELS}
path = sys.argv[1]

def megabytes(what):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what)) / 1024

def small_use():
    # Brings in what is loaded on first use, so that only the table itself is measured.
    with PredictionsWriter(path + ".small", ["a"]) as writer:
        writer.write(Predictions(probs=torch.rand(3, 1), targets=torch.zeros(3, 1)))
    return open_predictions(path + ".small").load()

small_use()
"""

WRITE = """
import manyhot.predictions.parquet
manyhot.predictions.parquet.GROUP_ROWS = 16384
probs, targets = torch.rand(5000, LABELS), torch.randint(-1, 2, (5000, LABELS), dtype=torch.int8)
before = megabytes("VmRSS")
with PredictionsWriter(path, [f"label {k}" for k in range(LABELS)]) as writer:
    for start in range(0, ROWS, 5000):
        probs[:, 0] = (start + torch.arange(5000)) / ROWS
        writer.write(Predictions(scores=probs, probs=probs, targets=targets))
print(megabytes("VmHWM") - before)
"""

READ = """
before = megabytes("VmRSS")
table = open_predictions(path).read(labels=["label 0", "label 7", "label 59"], kinds=["probs"])
assert table.probs.shape == (ROWS, 3)
assert abs(float(table.probs[:, 0].double().mean()) - 0.5) < 1e-4
print(megabytes("VmHWM") - before)
del table
rows, total = 0, 0.0
for batch in open_predictions(path).batches(10_000):
    rows += len(batch)
    total += float(batch.probs[:, 0].double().sum())
assert rows == ROWS
assert abs(total / ROWS - 0.5) < 1e-4, total / ROWS
print(megabytes("VmHWM") - before)
"""


def peak_growth(code, path):
    """Megabytes by which the memory of a process grew at the most, as often as the code prints it."""
    command = [sys.executable, "-c", SETTING + code, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return [float(line) for line in ran.stdout.split()]


@pytest.mark.process
def test_tables_need_not_fit_in_memory(tmp_path):
    size = ROWS * LABELS * 9 / 2**20  # scores and probabilities of four bytes each, targets of one
    (writing,) = peak_growth(WRITE, tmp_path / "table.parquet")
    assert writing < 0.6 * size
    some_columns, batches = peak_growth(READ, tmp_path / "table.parquet")
    assert some_columns < 0.3 * size
    assert batches < 0.6 * size
