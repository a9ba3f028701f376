"""A path of 45 linear heads for all labels, against scikit-learn's logistic regression for some of them, one by one.

Both take the same rows and strengths. The peer runs as `OneVsRestClassifier` would call it, from zero for each
strength, and as an expert would, each fit from where the last one ended; either way with its default tolerance. Every
objective of ours must be as low as the lowest of the peer, up to a share of 1e-4.

python benchmarks/linear.py [--data features.npz] [--rows 80000] [--labels 3] [--threads 2]

The archive holds `x` (N, D) and `y` (N, K); without one, features like those of a network are drawn.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import manyhot as mh
from manyhot.linear import LinearPath, fit_path

OURS = "fit_path, all labels at once"
PEERS = {"LogisticRegression, from zero": False, "LogisticRegression, warm start": True}
LEAST_RATIO = 3.0  # how many times as fast for a label as the faster of the two it must be
SHARE = 1e-4  # by which a value may exceed the lowest


def make_data(rows: int, *, width: int = 448, labels: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Features whose spread falls as that of networks does, and labels of rates from 0.3 to 40 %."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((rows, width), dtype=np.float32)
    features *= np.arange(1, width + 1, dtype=np.float32) ** -0.5
    weights = 6 * draw.standard_normal((labels, width), dtype=np.float32) / np.sqrt(np.log(width))
    odds = np.linspace(-7.5, -0.7, labels, dtype=np.float32)
    return features, draw.random((rows, labels)) < 1 / (1 + np.exp(-(features @ weights.T + odds)))


def loop_over_labels(features: np.ndarray, targets: np.ndarray, strengths: list[float], *, warm: bool) -> np.ndarray:
    """(S, K) the objective of each label by the peer."""
    scaled = StandardScaler().fit_transform(features)
    values = np.zeros((len(strengths), targets.shape[1]))
    for label, present in enumerate(targets.T):
        model = LogisticRegression(warm_start=warm, max_iter=20_000)
        for number, strength in enumerate(strengths):
            model.set_params(C=1 / strength).fit(scaled, present)
            scores = model.decision_function(scaled).astype(np.float64)
            losses = np.logaddexp(0, np.where(present, -scores, scores)).sum()
            values[number, label] = losses + strength / 2 * np.square(model.coef_.astype(np.float64)).sum()
    return values


def timed(features: np.ndarray, targets: np.ndarray) -> tuple[LinearPath, float]:
    start = time.perf_counter()
    path = fit_path(features, targets, mh.BinaryCrossEntropyLoss())
    return path, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="archive of features and targets (default: drawn)")
    parser.add_argument("--rows", type=int, default=80_000, help="rows to fit on (default: 80000)")
    parser.add_argument("--labels", type=int, default=3, help="labels for the peer (default: 3)")
    parser.add_argument("--threads", type=int, default=2, help="of torch (default: 2)")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore", ConvergenceWarning)
    if arguments.data:
        archive = np.load(arguments.data, allow_pickle=False)
        features, targets = archive["x"][: arguments.rows], archive["y"][: arguments.rows] == 1
    else:
        features, targets = make_data(arguments.rows)
    chosen = np.linspace(0, targets.shape[1] - 1, arguments.labels).round().astype(int)
    print(f"torch {torch.__version__}, scikit-learn {sklearn.__version__}, {arguments.threads} threads")
    print(f"{features.shape[0]} rows, {features.shape[1]} features, {targets.shape[1]} labels, 45 strengths\n")

    path, taken = timed(features, targets)
    share = float(path.converged.float().mean())
    print(f"fit_path: {taken:.1f} s, {100 * share:.1f} % of the problems converged\n")
    values, seconds = {OURS: path.values.numpy()[:, chosen]}, {OURS: taken / targets.shape[1]}
    for name, warm in PEERS.items():
        start = time.perf_counter()
        values[name] = loop_over_labels(features, targets[:, chosen], path.strengths.tolist(), warm=warm)
        seconds[name] = (time.perf_counter() - start) / len(chosen)
    lowest = np.minimum.reduce(list(values.values()))
    excess = {name: float(((objective - lowest) / lowest).max()) for name, objective in values.items()}
    print(f"{'':34}{'seconds a label':>18}{'ratio':>8}{'most above the lowest':>24}")
    for name, each in seconds.items():
        print(f"{name:34}{each:18.2f}{each / seconds[OURS]:8.1f}{excess[name]:24.1e}")
    ratio = min(seconds[name] for name in PEERS) / seconds[OURS]
    print(f"\nEvery objective within {SHARE:g} of the lowest: {'met' if excess[OURS] <= SHARE else 'MISSED'}")
    print(f"At least {LEAST_RATIO:g} times as fast for a label: {'met' if ratio >= LEAST_RATIO else 'MISSED'}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"total": taken, "seconds": seconds, "excess": excess}))


if __name__ == "__main__":
    main()
