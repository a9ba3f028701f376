"""A stratified split of many rows, against iterative stratification as it is usually written, on one thread.

python benchmarks/split.py [--rows 300000] [--labels 100] [--peer-rows 20000] [--rounds 3] [--json split.json]

The usual way settles common labels last, when the splits are nearly full; the table shows by how many rows it misses.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from timing import Step, interleaved, ratio

from manyhot.data.split import stratified_split
from manyhot.data.targets import SparseTargets

SHARES = {"train": 0.8, "val": 0.1, "test": 0.1}
LEAST_RATIO = 1.0  # how many times as fast as the usual way it must be, on the rows that both get
MOST_OFF = 3.0  # rows by which any label may miss its share


def make_data(rows: int, labels: int) -> np.ndarray:
    """(N, K) from a label in 30 % of the rows to one in 0.01 %; half of the rows have few labels."""
    draw = np.random.default_rng(0)
    rates = 0.3 * (0.0001 / 0.3) ** (np.arange(labels) / max(labels - 1, 1))
    busy = np.where(draw.random((rows, 1)) < 0.5, 1.8, 0.2)
    return (draw.random((rows, labels)) < busy * rates).astype(np.int8)


def iterative_stratification(dense: np.ndarray, seed: int = 0) -> np.ndarray:
    """Sechidis et al. (2011): the rarest remaining label first, each row to the split that needs it most."""
    draw = np.random.default_rng(seed)
    names, parts = np.array(list(SHARES), dtype=object), np.array(list(SHARES.values()))
    desired, needed = parts * len(dense), parts[:, None] * dense.sum(0)
    assigned, left = np.zeros(len(dense), dtype=np.int64), np.ones(len(dense), dtype=bool)
    while left.any():
        remaining = dense[left].sum(0)
        present = np.flatnonzero(remaining)
        label = present[remaining[present].argmin()] if len(present) else None
        for row in np.flatnonzero(left if label is None else left & (dense[:, label] == 1)):
            keys = (
                (draw.random(len(parts)), desired)
                if label is None
                else (draw.random(len(parts)), desired, needed[:, label])
            )
            best = np.lexsort(keys)[-1]
            assigned[row], left[row] = best, False
            desired[best] -= 1
            needed[best] -= dense[row]
    return names[assigned]


def random_split(dense: np.ndarray) -> np.ndarray:
    return np.random.default_rng(1).choice(np.array(list(SHARES), dtype=object), len(dense), p=list(SHARES.values()))


def off(dense: np.ndarray, splits: np.ndarray) -> tuple[float, float, float]:
    """Rows by which labels miss their share: the mean, the most; and the most for the sizes of the splits."""
    cells = np.concatenate([dense, dense.sum(1, keepdims=True) == 0], axis=1)
    rows = [np.abs(cells[splits == name].sum(0) - share * cells.sum(0)) for name, share in SHARES.items()]
    sizes = [abs((splits == name).sum() - share * len(dense)) for name, share in SHARES.items()]
    return float(np.mean(rows)), float(np.max(rows)), float(max(sizes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000, help="rows (default: 300000)")
    parser.add_argument("--labels", type=int, default=100, help="labels (default: 100)")
    parser.add_argument("--peer-rows", type=int, default=20_000, help="rows of the comparison (default: 20000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each candidate runs (default: 3)")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dense = make_data(arguments.rows, arguments.labels)
    few = dense[: arguments.peer_rows]
    whole, part = SparseTargets.from_dense(dense), SparseTargets.from_dense(few)
    ours, peer = "stratified_split", "iterative stratification"
    steps: dict[str, Step] = {
        ours: lambda: stratified_split(part, SHARES),
        peer: lambda: iterative_stratification(few),
    }
    seconds = interleaved(steps, rounds=arguments.rounds, warm_up=0)
    start = time.process_time()
    splits = stratified_split(whole, SHARES)
    alone = time.process_time() - start

    quality = {
        ours: off(few, stratified_split(part, SHARES)),
        peer: off(few, iterative_stratification(few)),
        "random split": off(few, random_split(few)),
        f"{ours}, {arguments.rows} rows": off(dense, splits),
    }
    print(f"numpy {np.__version__}, one thread; {arguments.peer_rows} rows, {arguments.labels} labels\n")
    print(f"{'':36}{'seconds':>10}{'mean off':>10}{'most off':>10}{'size off':>10}")
    for name, (mean, most, size) in quality.items():
        taken = statistics.median(seconds[name]) if name in seconds else alone if "rows" in name else float("nan")
        print(f"{name:36}{taken:10.2f}{mean:10.2f}{most:10.1f}{size:10.1f}")
    speed = 1 / ratio(seconds, ours, peer)
    most = max(quality[ours][1], quality[f"{ours}, {arguments.rows} rows"][1])
    print(f"\n{speed:.1f} times as fast; at least {LEAST_RATIO:g}: {'met' if speed >= LEAST_RATIO else 'MISSED'}")
    print(f"No label more than {MOST_OFF:g} rows off its share: {'met' if most <= MOST_OFF else 'MISSED'}")
    if arguments.json:
        figures = {"seconds": seconds, "seconds of all rows": alone, "ratio": speed, "rows off": quality}
        Path(arguments.json).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
