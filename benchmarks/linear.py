"""A path of 45 linear heads, against scikit-learn's logistic regression label by label, at the same strengths.

The peer runs twice: with its default tolerance, which ends far above the minimum where the penalty is weak, and with
one that comes near it. Every label of ours must reach the lower of both objectives, up to a share of 1e-4.

python benchmarks/linear.py [--data features.npz] [--rows 8000] [--labels 10] [--full-rows 80000] [--threads 2]

The archive holds `features` (N, D) and `targets` (N, K); without one, features like those of a network are drawn.
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

OURS, NEAR = "fit_path", "LogisticRegression(tol=1e-7)"
PEERS = {"LogisticRegression()": 1e-4, NEAR: 1e-7}
LEAST_RATIO = 10.0  # how many times as fast as the loop it must be
SHARE = 1e-4  # by which a value may lie above the lowest


def make_data(rows: int, *, width: int = 448, labels: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Features whose spread falls as that of networks does, and labels of rates from 0.3 to 40 %."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((rows, width), dtype=np.float32)
    features *= np.arange(1, width + 1, dtype=np.float32) ** -0.5
    weights = 6 * draw.standard_normal((labels, width), dtype=np.float32) / np.sqrt(np.log(width))
    odds = np.linspace(-7.5, -0.7, labels, dtype=np.float32)
    return features, draw.random((rows, labels)) < 1 / (1 + np.exp(-(features @ weights.T + odds)))


def loop_over_labels(features: np.ndarray, targets: np.ndarray, strengths: list[float], *, tol: float) -> np.ndarray:
    """(S, K) the objective of each label by the peer, each fit from where the last one ended."""
    scaled = StandardScaler().fit_transform(features)
    values = np.zeros((len(strengths), targets.shape[1]))
    for label, present in enumerate(targets.T):
        model = LogisticRegression(warm_start=True, tol=tol, max_iter=20_000)
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
    parser.add_argument("--rows", type=int, default=8000, help="rows for the comparison (default: 8000)")
    parser.add_argument("--labels", type=int, default=10, help="labels for the comparison (default: 10)")
    parser.add_argument(
        "--full-rows", type=int, default=80_000, help="rows for all labels; 0 for none (default: 80000)"
    )
    parser.add_argument("--threads", type=int, default=2, help="of torch (default: 2)")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore", ConvergenceWarning)
    if arguments.data:
        archive = np.load(arguments.data, allow_pickle=False)
        features, targets = archive["features"], archive["targets"]
    else:
        features, targets = make_data(max(arguments.rows, arguments.full_rows))
    some, few = features[: arguments.rows], targets[: arguments.rows]
    few = few[:, few.any(0)]
    few = few[:, np.linspace(0, few.shape[1] - 1, arguments.labels).round().astype(int)]

    path, ours = timed(some, few)
    values, seconds = {OURS: path.values.numpy()}, {OURS: ours}
    for name, tol in PEERS.items():
        start = time.perf_counter()
        values[name] = loop_over_labels(some, few, path.strengths.tolist(), tol=tol)
        seconds[name] = time.perf_counter() - start
    lowest = np.minimum.reduce(list(values.values()))
    print(f"torch {torch.__version__}, scikit-learn {sklearn.__version__}, {arguments.threads} threads")
    print(f"{some.shape[0]} rows, {some.shape[1]} features, {few.shape[1]} labels, 45 strengths\n")
    print(f"{'':34}{'seconds':>10}{'this / fit_path':>18}{'most above the lowest':>24}")
    excess = {name: float(((found - lowest) / lowest).max()) for name, found in values.items()}
    for name, taken in seconds.items():
        print(f"{name:34}{taken:10.1f}{taken / ours:18.1f}{excess[name]:24.1e}")
    speed = seconds[NEAR] / ours
    print(f"\nEvery objective within {SHARE:g} of the lowest: {'met' if excess[OURS] <= SHARE else 'MISSED'}")
    print(f"At least {LEAST_RATIO:g} times as fast to the minimum: {'met' if speed >= LEAST_RATIO else 'MISSED'}")
    figures: dict[str, object] = {"seconds": seconds, "excess": excess, "rows": len(some)}
    if arguments.full_rows:
        path, taken = timed(features[: arguments.full_rows], targets[: arguments.full_rows])
        print(f"\n{arguments.full_rows} rows, {targets.shape[1]} labels: {taken:.1f} s, {path}")
        figures |= {"full": taken, "full_rows": arguments.full_rows}
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
