"""Exact F1 thresholds of all labels, against a loop over scikit-learn's precision-recall curves.

python benchmarks/thresholds.py [--rows 1000000] [--labels 80] [--rounds 3] [--small] [--json thresholds.json]
"""

import numpy as np
import sklearn
import torch
from sklearn.metrics import precision_recall_curve
from timing import Step, check, interleaved, meter, print_times, ratio, read_options, write_figures
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


def main() -> None:
    options = read_options(
        __doc__,
        rows=(1_000_000, 2_000, "held-out rows"),
        labels=(80, 5, "labels"),
        rounds=(3, 1, "how often each candidate runs"),
    )
    values, targets = make_data(options.rows, options.labels)
    steps: dict[str, Step] = {
        PEER: lambda: loop_over_curves(values, targets),
        EXACT: lambda: mh.LabelThresholds(shrink=0).fit(values, targets),
        SHRUNK: lambda: mh.LabelThresholds().fit(values, targets),
    }
    seconds = interleaved(steps, rounds=options.rounds, warm_up=0)
    table_size = values.numel() * values.element_size() / 1e6
    memory = {name: meter(step)["peak"] / table_size for name, step in steps.items()}
    labels = mh.LabelThresholds(shrink=0).fit(values, targets)(values).labels
    same = bool((labels == (values >= torch.from_numpy(loop_over_curves(values, targets)))).all())
    print(f"numpy {np.__version__}, scikit-learn {sklearn.__version__}, torch {torch.__version__}")
    print(f"{options.rows} rows, {options.labels} labels, {targets.double().mean():.1%} present\n")
    print_times(
        seconds, {EXACT: "exact"}, more={"memory / values": {name: f"{share:.2f}" for name, share in memory.items()}}
    )
    speed = ratio(seconds, PEER, EXACT)
    print()
    check("The same cells are accepted", same)
    check(f"At least {LEAST_RATIO:g} times as fast as the loop", speed >= LEAST_RATIO)
    write_figures(options, {"seconds": seconds, "memory": memory, "ratio": speed, "same": same})


if __name__ == "__main__":
    main()
