"""A stratified split of many rows, against iterative stratification as it is usually written.

python benchmarks/split.py [--rows 300000] [--labels 100] [--peer-rows 20000] [--rounds 3] [--small] [--json split.json]

The usual way settles common labels last, when the splits are nearly full; the table shows by how many rows it misses.
"""

import numpy as np
from timing import Step, check, interleaved, meter, print_table, print_times, ratio, read_options, write_figures

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
    options = read_options(
        __doc__,
        rows=(300_000, 3_000, "rows"),
        labels=(100, 10, "labels"),
        peer_rows=(20_000, 1_000, "rows that both split"),
        rounds=(3, 1, "how often both run"),
    )
    dense = make_data(options.rows, options.labels)
    few = dense[: options.peer_rows]
    whole, part = SparseTargets.from_dense(dense), SparseTargets.from_dense(few)
    ours, peer = "stratified_split", "iterative stratification"
    steps: dict[str, Step] = {
        ours: lambda: stratified_split(part, SHARES),
        peer: lambda: iterative_stratification(few),
    }
    seconds = interleaved(steps, rounds=options.rounds, warm_up=0)
    all_rows = meter(stratified_split, whole, SHARES)
    quality = {
        ours: off(few, stratified_split(part, SHARES)),
        peer: off(few, iterative_stratification(few)),
        "random split": off(few, random_split(few)),
        f"{ours}, {options.rows} rows": off(dense, all_rows["result"]),
    }
    print(f"numpy {np.__version__}; {options.peer_rows} rows, {options.labels} labels\n")
    print_times(seconds, {ours: "ours"})
    print(f"\n{all_rows['processor']:.1f} seconds of the processor for {options.rows} rows; rows off their shares:\n")
    print_table(["", "mean", "most", "size"], [[name, *map("{:.2f}".format, rows)] for name, rows in quality.items()])
    speed = ratio(seconds, peer, ours)
    most = max(quality[ours][1], quality[f"{ours}, {options.rows} rows"][1])
    print()
    check(f"At least {LEAST_RATIO:g} times as fast", speed >= LEAST_RATIO)
    check(f"No label more than {MOST_OFF:g} rows off its share", most <= MOST_OFF)
    figures = {"seconds": seconds, "seconds of all rows": all_rows["processor"], "ratio": speed, "rows off": quality}
    write_figures(options, figures)


if __name__ == "__main__":
    main()
