"""A path of 45 linear heads for all labels, against scikit-learn's logistic regression for some of them, one by one.

Both take the same rows and strengths. The peer runs as `OneVsRestClassifier` would call it, from zero for each
strength, and as an expert would, each fit from where the last one ended; either way with its default tolerance. Every
objective of ours must be as low as the lowest of the peer, up to a share of 1e-4.

python benchmarks/linear.py [--data features.npz] [--rows 80000] [--labels 3] [--threads 2] [--small] [--json FILE]

The archive holds `x` (N, D) and `y` (N, K); without one, features like those of a network are drawn.
"""

import warnings

import numpy as np
import sklearn
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from timing import check, meter, print_table, read_options, write_figures

import manyhot as mh
from manyhot.linear import fit_path

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


def loop_over_labels(features: np.ndarray, targets: np.ndarray, strengths: list[float], warm: bool) -> np.ndarray:
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


def main() -> None:
    options = read_options(
        __doc__,
        data=("", "", "archive of features and targets (default: drawn)"),
        rows=(80_000, 300, "rows to fit on"),
        labels=(3, 1, "labels for the peer"),
        threads=(2, 1, "threads of torch"),
    )
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.data:
        archive = np.load(options.data, allow_pickle=False)
        features, targets = archive["x"][: options.rows], archive["y"][: options.rows] == 1
    else:
        features, targets = make_data(options.rows, **({"width": 16, "labels": 5} if options.small else {}))
    chosen = np.linspace(0, targets.shape[1] - 1, options.labels).round().astype(int)
    print(f"torch {torch.__version__}, scikit-learn {sklearn.__version__}, {options.threads} threads")
    print(f"{features.shape[0]} rows, {features.shape[1]} features, {targets.shape[1]} labels, 45 strengths\n")

    ours = meter(fit_path, features, targets, mh.BinaryCrossEntropyLoss())
    path = ours["result"]
    converged = float(path.converged.float().mean())
    print(f"fit_path: {ours['seconds']:.1f} s, {converged:.1%} of the problems converged\n")
    values, seconds = {OURS: path.values.numpy()[:, chosen]}, {OURS: ours["seconds"] / targets.shape[1]}
    for name, warm in PEERS.items():
        peer = meter(loop_over_labels, features, targets[:, chosen], path.strengths.tolist(), warm)
        values[name], seconds[name] = peer["result"], peer["seconds"] / len(chosen)
    lowest = np.minimum.reduce(list(values.values()))
    excess = {name: float(((objective - lowest) / lowest).max()) for name, objective in values.items()}
    print_table(
        ["", "seconds a label", "x ours", "most above the lowest"],
        [[name, f"{each:.2f}", f"{each / seconds[OURS]:.1f}", f"{excess[name]:.1e}"] for name, each in seconds.items()],
    )
    ratio = min(seconds[name] for name in PEERS) / seconds[OURS]
    print()
    check(f"Every objective within {SHARE:g} of the lowest", excess[OURS] <= SHARE)
    check(f"At least {LEAST_RATIO:g} times as fast for a label", ratio >= LEAST_RATIO)
    write_figures(options, {"total": ours["seconds"], "seconds": seconds, "excess": excess})


if __name__ == "__main__":
    main()
