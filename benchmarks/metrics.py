"""Time and memory of the metrics on the CPU, as ratios to scikit-learn and torchmetrics in one run.

python benchmarks/metrics.py [--rounds 5] [--threads 1] [--large-rows 1000000] [--small] [--json metrics.json]
"""

import math
import statistics
import tempfile
from pathlib import Path

import torch
from timing import (
    Seconds,
    Step,
    check,
    interleaved,
    meter,
    meter_alone,
    print_times,
    ratio,
    read_options,
    write_figures,
)
from torch import Tensor

import manyhot as mh
from manyhot import metrics
from manyhot.metrics.metric import mean_of_defined
from manyhot.predictions import PredictionsWriter

SHAPES = [(40_504, 80), (200_000, 200)]
OURS, SKLEARN, TORCHMETRICS = "manyhot", "scikit-learn", "torchmetrics"
# Label rankings of the larger table are compared on as many rows: the peers go through them one by one.
PEER_ROWS = 40_504
LEAST = {"mean average precision": 5.0, "label ranking average precision": 15.0}
# How far values may be apart; torchmetrics adds up rows in float32.
CLOSE = {SKLEARN: 1e-6, TORCHMETRICS: 1e-4}
LARGE_LABELS = 80
# Steps by name, and the value that each one leaves for the check of agreement.
Candidates = tuple[dict[str, Step], dict[str, float]]


def predictions(rows: int, labels: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Probabilities of a good classifier: three labels a row, their frequency falling as 1 / rank, AUROC 0.98."""
    draw = torch.Generator().manual_seed(seed)
    frequency = 1 / torch.arange(1, labels + 1)
    chosen = torch.multinomial(frequency.expand(rows, labels), 3, generator=draw)
    targets = torch.zeros(rows, labels, dtype=torch.int8).scatter_(1, chosen, 1)
    return torch.sigmoid(torch.randn(rows, labels, generator=draw) + 3 * targets - 3), targets


# Peers are imported where they are used, so that the process that evaluates a large table does not hold them.
def map_candidates(probs: Tensor, targets: Tensor) -> Candidates:
    """By label."""
    from sklearn.metrics import average_precision_score
    from torchmetrics.classification import MultilabelAveragePrecision

    values: dict[str, float] = {}

    def ours() -> None:
        values[OURS] = mean_of_defined(metrics.average_precision(probs, targets))

    def sklearn() -> None:
        columns = zip(targets.T.numpy(), probs.T.numpy(), strict=True)
        values[SKLEARN] = statistics.fmean(average_precision_score(*column) for column in columns)

    def torchmetrics() -> None:
        metric = MultilabelAveragePrecision(targets.shape[1])
        metric.update(probs, targets.long())
        values[TORCHMETRICS] = float(metric.compute())

    return {OURS: ours, SKLEARN: sklearn, TORCHMETRICS: torchmetrics}, values


def ranking_candidates(probs: Tensor, targets: Tensor) -> Candidates:
    """By sample, all on the same few rows."""
    from sklearn.metrics import label_ranking_average_precision_score
    from torchmetrics.classification import MultilabelRankingAveragePrecision

    values: dict[str, float] = {}

    def ours() -> None:
        values[OURS] = metrics.MeanAveragePrecision(average="samples").update(probs, targets).compute()["map"]

    def sklearn() -> None:
        values[SKLEARN] = label_ranking_average_precision_score(targets.numpy(), probs.numpy())

    def torchmetrics() -> None:
        metric = MultilabelRankingAveragePrecision(targets.shape[1])
        metric.update(probs, targets.long())
        values[TORCHMETRICS] = float(metric.compute())

    return {OURS: ours, SKLEARN: sklearn, TORCHMETRICS: torchmetrics}, values


def measure(name: str, shape: tuple[int, int], candidates: Candidates, rounds: int) -> Seconds:
    steps, values = candidates
    seconds = interleaved(steps, rounds=rounds, warm_up=1)
    print(f"{name}, {shape[0]:,} x {shape[1]}\n")
    apart = {peer: f"{abs(values[peer] - values[OURS]):.0e}" for peer in CLOSE}
    print_times(seconds, {OURS: OURS}, more={"difference": apart})
    print()
    check("Values agree", all(abs(values[peer] - values[OURS]) < most for peer, most in CLOSE.items()))
    fastest = min(ratio(seconds, peer, OURS) for peer in CLOSE)
    check(f"At least {LEAST[name]:g} times as fast as both", fastest >= LEAST[name])
    print()
    return seconds


def compare_with_peers(shapes: list[tuple[int, int]], rounds: int) -> dict[str, Seconds]:
    results = {}
    for rows, labels in shapes:
        probs, targets = predictions(rows, labels)
        few = min(rows, PEER_ROWS)
        for name, shape, candidates, times in (
            ("mean average precision", (rows, labels), map_candidates(probs, targets), rounds * 80 // labels // 2),
            (
                "label ranking average precision",
                (few, labels),
                ranking_candidates(probs[:few], targets[:few]),
                rounds // 2,
            ),
        ):
            results[f"{name}, {shape}"] = measure(name, shape, candidates, max(1, times))
    return results


def time_uniform_accuracy(sizes: tuple[int, ...]) -> dict[int, float]:
    """Seconds for each number of rows; n log n grows a little faster than n."""
    print("UniformAccuracy, 100 labels\n")
    seconds: dict[int, float] = {}
    for rows in sizes:
        draw = torch.Generator().manual_seed(0)
        labels = torch.randint(100, (rows,), generator=draw)
        metric = metrics.UniformAccuracy()
        for part in labels.split(10_000):
            targets = mh.one_hot(part, 100)
            metric.update(torch.randn(len(part), 100, generator=draw) + 3 * targets, targets)
        seconds[rows] = meter(metric.compute)["seconds"]
        each = seconds[rows] / (rows * math.log2(rows)) * 1e9
        print(f"{rows:12,} rows{seconds[rows] * 1e3:10.1f} ms{each:10.2f} ns for each of n log n")
    return seconds


def write_large_table(path: Path, rows: int) -> None:
    """A table on disk, written in parts so that it is never held as a whole."""
    names = [f"label {number}" for number in range(LARGE_LABELS)]
    with PredictionsWriter(path, names, link=mh.SigmoidLink()) as writer:
        for part, start in enumerate(range(0, rows, 50_000)):
            probs, targets = predictions(min(50_000, rows - start), LARGE_LABELS, seed=part)
            writer.write(mh.Predictions(scores=torch.logit(probs), targets=targets, link=mh.SigmoidLink()))


def evaluate(path: Path) -> float:
    return mh.evaluate(mh.Predictions.open(path))["map"]


def evaluate_large_table(rows: int) -> dict[str, float]:
    """Seconds and peak memory of evaluating a table on disk, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "predictions.parquet")
        write_large_table(path, rows)
        figures = meter_alone(evaluate, path) | {"file": path.stat().st_size / 1e6}
    size = f"{rows:,} x {LARGE_LABELS} from Parquet ({figures['file']:.0f} MB)"
    print(f"\nmanyhot.evaluate of {size}, in a process of its own: {figures['seconds']:.1f} s")
    print(f"{figures['peak']:.0f} MB of memory beyond the {figures['before']:.0f} MB after import;")
    print(f"the scores alone take {rows * LARGE_LABELS * 4 / 1e6:.0f} MB")
    return figures


def main() -> None:
    options = read_options(
        __doc__,
        rounds=(5, 1, "how often each candidate runs"),
        large_rows=(1_000_000, 2_000, "rows of the large table"),
    )
    print(f"torch {torch.__version__}, {options.threads} threads, 3 labels a row\n")
    figures = {
        "peers": compare_with_peers([(1_000, 8)] if options.small else SHAPES, options.rounds),
        "uniform": time_uniform_accuracy((1_000,) if options.small else (10_000, 100_000, 1_000_000)),
        "evaluate": evaluate_large_table(options.large_rows),
    }
    write_figures(options, figures)


if __name__ == "__main__":
    main()
