"""Timing shared by the benchmarks: interleaved rounds, so that a noisy machine is noisy to all candidates alike."""

import random
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

Step = Callable[[], object]


def training_step(loss: Callable[..., Tensor], scores: Tensor, *arguments: Tensor) -> Step:
    """Forward and backward of one loss on its own copy of the scores."""
    leaf = scores.clone().requires_grad_()

    def step() -> None:
        leaf.grad = None
        loss(leaf, *arguments).backward()

    return step


def interleaved(steps: dict[str, Step], *, rounds: int, warm_up: int = 5) -> dict[str, list[float]]:
    """Seconds of every step in every round; each round runs all steps once, in an order of its own.

    The order changes because a step that follows a hungry one finds cold caches and pays for the memory that was freed.
    """
    shuffle = random.Random(0)
    for step in steps.values():
        for _ in range(warm_up):
            step()
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in shuffle.sample(sorted(steps.items()), len(steps)):
            start = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(seconds: dict[str, list[float]], name: str, base: str) -> float:
    """Median time of `name` over that of `base`."""
    return statistics.median(seconds[name]) / statistics.median(seconds[base])


def peak_memory(step: Step) -> int:
    """Largest number of bytes that one step holds on the CPU beyond what was held before."""
    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step()
    live = peak = 0
    changes = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(changes, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def sparse_targets(rows: int, labels: int, *, positives: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Normal scores, and targets with the same number of labels in every row."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, labels, generator=generator)
    chosen = torch.rand(rows, labels, generator=generator).topk(positives, dim=1).indices
    return scores, torch.zeros(rows, labels).scatter_(1, chosen, 1.0)
