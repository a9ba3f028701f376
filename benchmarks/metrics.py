"""Time and memory of the metrics on the CPU, as ratios to scikit-learn and torchmetrics in one run.

python benchmarks/metrics.py [--rounds 5] [--threads 1] [--large-rows 1000000] [--json metrics.json]
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from sklearn.metrics import average_precision_score, label_ranking_average_precision_score
from timing import Step, interleaved, ratio
from torch import Tensor
from torchmetrics.classification import MultilabelAveragePrecision, MultilabelRankingAveragePrecision

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
UNIFORM_ROWS = (10_000, 100_000, 1_000_000)
LARGE_LABELS = 80
# What runs in a process of its own, so that memory is that of the package alone. The peak is read from the kernel:
# `getrusage` counts what the process that started it had held.
EVALUATE = """
import json, re, sys, time
import torch
import manyhot as mh

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1e3

torch.set_num_threads(int(sys.argv[2]))
before, start = peak(), time.perf_counter()
evaluation = mh.evaluate(mh.Predictions.open(sys.argv[1]))
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "before": before, "peak": peak(), "map": evaluation["map"]}))
"""
# Steps by name, and the value that each one leaves for the check of agreement.
Candidates = tuple[dict[str, Step], dict[str, float]]


def predictions(rows: int, labels: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Probabilities of a good classifier: three labels a row, their frequency falling as 1 / rank, AUROC 0.98."""
    draw = torch.Generator().manual_seed(seed)
    frequency = 1 / torch.arange(1, labels + 1)
    chosen = torch.multinomial(frequency.expand(rows, labels), 3, generator=draw)
    targets = torch.zeros(rows, labels, dtype=torch.int8).scatter_(1, chosen, 1)
    return torch.sigmoid(torch.randn(rows, labels, generator=draw) + 3 * targets - 3), targets


def map_candidates(probs: Tensor, targets: Tensor) -> Candidates:
    """By label."""
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


def measure(name: str, shape: tuple[int, int], candidates: Candidates, rounds: int) -> dict[str, Any]:
    steps, values = candidates
    seconds = interleaved(steps, rounds=rounds, warm_up=1)
    apart = {peer: abs(values[peer] - values[OURS]) for peer in CLOSE}
    result: dict[str, Any] = {
        "name": name,
        "rows": shape[0],
        "labels": shape[1],
        "seconds": {who: statistics.median(times) for who, times in seconds.items()},
        "times faster": {peer: ratio(seconds, peer, OURS) for peer in (SKLEARN, TORCHMETRICS)},
        "difference": apart,
    }
    verdict = "met" if min(result["times faster"].values()) >= LEAST[name] else "MISSED"
    agree = "agree" if all(apart[peer] < most for peer, most in CLOSE.items()) else "DIFFER"
    print(
        f"{name:34}{shape!s:>16}{result['seconds'][OURS] * 1e3:10.0f} ms"
        + "".join(f"{result['times faster'][peer]:14.1f}x" for peer in (SKLEARN, TORCHMETRICS))
        + f"   at least {LEAST[name]:.0f}x: {verdict}; values {agree} ({apart[SKLEARN]:.0e}, {apart[TORCHMETRICS]:.0e})"
    )
    return result


def compare_with_peers(rounds: int) -> list[dict[str, Any]]:
    print(f"{'':34}{'':16}{OURS:>13}{SKLEARN + ' /':>15}{TORCHMETRICS + ' /':>15}")
    results = []
    for shape in SHAPES:
        probs, targets = predictions(*shape)
        by_label = map_candidates(probs, targets)
        few = ranking_candidates(probs[:PEER_ROWS], targets[:PEER_ROWS])
        results.append(measure("mean average precision", shape, by_label, max(1, rounds * 80 // shape[1] // 2)))
        results.append(measure("label ranking average precision", (PEER_ROWS, shape[1]), few, max(1, rounds // 2)))
    return results


def time_uniform_accuracy() -> dict[int, float]:
    """Seconds for each number of rows; n log n grows a little faster than n."""
    print("\nUniformAccuracy, 100 labels")
    seconds: dict[int, float] = {}
    for rows in UNIFORM_ROWS:
        draw = torch.Generator().manual_seed(0)
        labels = torch.randint(100, (rows,), generator=draw)
        metric = metrics.UniformAccuracy()
        for part in labels.split(10_000):
            targets = mh.one_hot(part, 100)
            metric.update(torch.randn(len(part), 100, generator=draw) + 3 * targets, targets)
        start = time.perf_counter()
        metric.compute()
        seconds[rows] = time.perf_counter() - start
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


def evaluate_large_table(rows: int, threads: int) -> dict[str, float]:
    """Seconds and peak memory of evaluating a table on disk, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "predictions.parquet")
        write_large_table(path, rows)
        command = [sys.executable, "-c", EVALUATE, str(path), str(threads)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        size = path.stat().st_size / 1e6
    figures: dict[str, float] = json.loads(answer) | {"file": size}
    print(f"\nmanyhot.evaluate of {rows:,} x {LARGE_LABELS} from Parquet ({size:.0f} MB), in a process of its own")
    print(f"{figures['seconds']:.1f} s; peak memory {figures['peak']:.0f} MB, {figures['before']:.0f} MB after import;")
    print(f"the scores alone take {rows * LARGE_LABELS * 4 / 1e6:.0f} MB")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each candidate runs (default: 5)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: 1)")
    parser.add_argument("--large-rows", type=int, default=1_000_000, help="rows of the large table (default: 1000000)")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {arguments.threads} threads, 3 labels a row\n")
    figures = {
        "peers": compare_with_peers(arguments.rounds),
        "uniform": time_uniform_accuracy(),
        "evaluate": evaluate_large_table(arguments.large_rows, arguments.threads),
    }
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
