"""Throughput of `manyhot.engine.fit` against a plain PyTorch loop, in one run, as a ratio.

python benchmarks/engine.py [--rounds 7] [--threads 1] [--least 0.97] [--cpu-time] [--json engine.json]

Both train the same network on the same batches with the same optimiser; the plain loop does nothing else. `fit` also
shuffles by seed, sets the rate of every step, seeds every step, checks that losses are finite and records its
figures. With a folder, it writes a checkpoint after each epoch too.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import sparse_targets
from torch import Tensor, nn

import manyhot as mh
from manyhot.data.loading import FeatureBatches
from manyhot.data.targets import SparseTargets
from manyhot.engine import FitSettings, NoProgress, fit
from manyhot.network import Network

# Otherwise glibc gives memory back and takes it again as chance has it, which costs one of the two up to a fifth.
MALLOC_SETTINGS = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**28),
}
PLAIN, OURS, WITH_CHECKPOINTS = "plain loop", "fit", "fit with checkpoints"


class Pixels(nn.Module):
    """A small convolutional backbone on bytes."""

    def __init__(self) -> None:
        super().__init__()
        widths = [3, 16, 32, 64]
        stages = [
            nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
            for a, b in itertools.pairwise(widths)
        ]
        self.layers = nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(images.float() / 255)
        return features


def feature_problem(rows: int = 20_000, width: int = 448, labels: int = 80) -> tuple[Tensor, Tensor, Network, int]:
    """A linear head on a matrix of features."""
    _, targets = sparse_targets(rows, labels)
    features = torch.randn(rows, width, generator=torch.Generator().manual_seed(1))
    return features, targets.to(torch.int8), Network(None, mh.LinearHead(width, labels)), 256


def image_problem(rows: int = 512, side: int = 64, labels: int = 20) -> tuple[Tensor, Tensor, Network, int]:
    """A small convolutional network on images in memory."""
    _, targets = sparse_targets(rows, labels)
    images = torch.randint(0, 256, (rows, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    return images, targets.to(torch.int8), Network(Pixels(), mh.LinearHead(64, labels)), 64


def plain(inputs: Tensor, targets: Tensor, network: Network, batch_size: int, epochs: int) -> None:
    """What a user would write; the learning rate follows a cosine there too."""
    loss = mh.BinaryCrossEntropyLoss()
    matrices = [p for p in network.parameters() if p.ndim > 1]
    vectors = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, fused=True)
    steps = epochs * -(-len(inputs) // batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    network.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(batch_size):
            optimizer.zero_grad()
            loss(network(inputs.index_select(0, rows)), targets.index_select(0, rows)).backward()
            optimizer.step()
            schedule.step()


def seconds_of(work: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start


def measure(
    name: str, problem: tuple[Tensor, Tensor, Network, int], *, epochs: int, rounds: int, clock: Callable[[], float]
) -> dict[str, Any]:
    inputs, targets, network, batch_size = problem
    data = FeatureBatches(inputs, SparseTargets.from_dense(targets))
    fit_settings = FitSettings(epochs=epochs, batch_size=batch_size, accelerator="cpu")

    def ours(folder: str | None = None) -> None:
        fit(network, mh.BinaryCrossEntropyLoss(), data, settings=fit_settings, folder=folder, progress=NoProgress())

    def with_checkpoints() -> None:
        with tempfile.TemporaryDirectory() as folder:
            ours(folder)

    ways = {
        PLAIN: lambda: plain(inputs, targets, network, batch_size, epochs),
        OURS: ours,
        WITH_CHECKPOINTS: with_checkpoints,
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(-1, rounds):  # the first turn warms up; orders alternate
        for way in list(ways) if turn % 2 else list(ways)[::-1]:
            taken = seconds_of(ways[way], clock)
            if turn >= 0:
                seconds[way].append(taken)
    samples = epochs * len(inputs)
    # Ratios of neighbours in one round, so that a slow minute of the machine is slow to both.
    shares = {
        way: statistics.median(base / own for base, own in zip(seconds[PLAIN], seconds[way], strict=True))
        for way in (OURS, WITH_CHECKPOINTS)
    }
    rates = {way: samples / statistics.median(values) for way, values in seconds.items()}
    return {"problem": name, "samples/s": rates, "share of the plain loop": shares}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--least", type=float, default=0.0, help="fail below this share of the plain loop")
    parser.add_argument("--cpu-time", action="store_true", help="count processor time, on a machine that others use")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if os.environ.keys().isdisjoint(MALLOC_SETTINGS):  # read when a process starts, so start again
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MALLOC_SETTINGS})
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    options = {"epochs": arguments.epochs, "rounds": arguments.rounds, "clock": clock}
    results = [
        measure("features 20,000 x 448, 80 labels", feature_problem(), **options),
        measure("images 512 x 64 px, 20 labels", image_problem(), **options),
    ]
    print("| problem | way | samples/s | share of the plain loop |\n|---|---|---|---|")
    for result in results:
        for way, rate in result["samples/s"].items():
            share = result["share of the plain loop"].get(way, 1.0)
            print(f"| {result['problem']} | {way} | {rate:,.0f} | {share:.1%} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))
    if any(result["share of the plain loop"][OURS] < arguments.least for result in results):
        raise SystemExit(f"`fit` is slower than {arguments.least:.0%} of the plain loop.")


if __name__ == "__main__":
    main()
