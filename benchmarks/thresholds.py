"""Exact F1 thresholds of all labels, against a loop over scikit-learn's precision-recall curves, on one thread.

python benchmarks/thresholds.py [--rows 1000000] [--labels 80] [--rounds 3] [--json thresholds.json]
"""

import argparse
import ctypes
import json
import statistics
from pathlib import Path

import numpy as np
import sklearn
import torch
from sklearn.metrics import precision_recall_curve
from timing import Step, interleaved, ratio
from torch import Tensor

import manyhot as mh

PEER, EXACT, SHRUNK = "loop over precision_recall_curve", "LabelThresholds(shrink=0)", "LabelThresholds()"
LEAST_RATIO = 4.0  # how many times as fast as the loop it must be


def make_data(rows: int, labels: int, *, share: float = 0.03) -> tuple[Tensor, Tensor]:
    """Probabilities in float32 that know something of rare labels, some labels better than others."""
    draw = torch.Generator().manual_seed(0)
    targets = torch.rand(rows, labels, generator=draw) < share
    signal = torch.linspace(1.0, 3.0, labels)
    scores = torch.randn(rows, labels, generator=draw).add_(targets * signal).sub_(3.0)
    return scores.sigmoid_(), targets


def loop_over_curves(values: Tensor, targets: Tensor) -> np.ndarray:
    """The threshold of the largest F1 of each label, as it is usually written."""
    best = []
    for column, present in zip(values.numpy().T, targets.numpy().T, strict=True):
        precision, recall, cuts = precision_recall_curve(present, column)
        scores = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
        best.append(cuts[scores[:-1].argmax()])
    return np.array(best)


def peak_memory(step: Step) -> int | None:
    """Largest number of bytes that one step holds beyond what was held before; on Linux only."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return None
    step()
    ctypes.CDLL(None).malloc_trim(0)  # or freed memory that the allocator holds would hide the need
    reset.write_text("5")

    def resident() -> int:
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024

    before = resident()
    step()
    return resident() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="held-out rows (default: 1000000)")
    parser.add_argument("--labels", type=int, default=80, help="labels (default: 80)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each candidate runs (default: 3)")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    values, targets = make_data(arguments.rows, arguments.labels)
    steps: dict[str, Step] = {
        PEER: lambda: loop_over_curves(values, targets),
        EXACT: lambda: mh.LabelThresholds(shrink=0).fit(values, targets),
        SHRUNK: lambda: mh.LabelThresholds().fit(values, targets),
    }
    seconds = interleaved(steps, rounds=arguments.rounds, warm_up=0)
    memory = {name: peak_memory(step) for name, step in steps.items()}

    labels = mh.LabelThresholds(shrink=0).fit(values, targets)(values).labels
    same = bool((labels == (values >= torch.from_numpy(loop_over_curves(values, targets)))).all())
    table_size = values.numel() * values.element_size()
    print(f"numpy {np.__version__}, scikit-learn {sklearn.__version__}, torch {torch.__version__}, one thread")
    print(f"{arguments.rows} rows, {arguments.labels} labels, {targets.double().mean():.1%} present\n")
    print(f"{'':36}{'seconds':>10}{'loop / this':>14}{'memory / values':>18}")
    for name in steps:
        peak = memory[name]
        share = "unknown" if peak is None else f"{peak / table_size:.2f}"
        speed = 1 / ratio(seconds, name, PEER)
        print(f"{name:36}{statistics.median(seconds[name]):10.2f}{speed:13.1f}x{share:>18}")
    speed = 1 / ratio(seconds, EXACT, PEER)
    print(f"\nThe same cells are accepted: {'yes' if same else 'NO'}")
    print(f"At least {LEAST_RATIO:g} times as fast as the loop: {'met' if speed >= LEAST_RATIO else 'MISSED'}")
    if arguments.json:
        figures = {"seconds": seconds, "memory": memory, "ratio": speed, "same": same, "rows": arguments.rows}
        Path(arguments.json).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
