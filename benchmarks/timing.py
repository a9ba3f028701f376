"""What the benchmarks share: options, data, timing in interleaved rounds, memory, and tables of ratios in one run."""

import argparse
import ctypes
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Step = Callable[[], object]
Seconds = dict[str, list[float]]


def read_options(description: str, **options: tuple[Any, Any, str]) -> argparse.Namespace:
    """The command line of a benchmark, which then uses as many threads as it says.

    Args:
        description: The docstring of the script.
        options: The default of each, its value with `--small`, and a description; the type is that of the default.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options = {"threads": (1, 1, "threads of torch"), **options}
    for name, (default, _, text) in options.items():
        shown = f" (default: {default})" if default != "" else ""
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), help=text + shown)
    parser.add_argument("--small", action="store_true", help="small sizes: shows that it runs, and measures nothing")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    for name, (default, small, _) in options.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, small if arguments.small else default)
    torch.set_num_threads(arguments.threads)
    return arguments


def write_figures(options: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Writes the figures, and the options that they were measured with, to the file of `--json` if one is given."""
    if options.json is not None:
        given = {name: value for name, value in vars(options).items() if name != "json"}
        options.json.write_text(json.dumps({"options": given, **figures}, indent=1) + "\n")


def interleaved(steps: Mapping[str, Step], *, rounds: int, warm_up: int = 5) -> Seconds:
    """Seconds of every step in every round; each round runs all steps once, in an order of its own.

    Rounds are interleaved so that a noisy machine is noisy to all steps alike. The order changes because a step that
    follows a hungry one finds cold caches and pays for the memory that was freed.
    """
    shuffle = random.Random(0)
    for step in steps.values():
        for _ in range(warm_up):
            step()
    seconds: Seconds = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in shuffle.sample(sorted(steps.items()), len(steps)):
            start = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(seconds: Seconds, name: str, base: str) -> float:
    """Median time of `name` over that of `base`."""
    return statistics.median(seconds[name]) / statistics.median(seconds[base])


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows under their columns: the first aligned to the left, the others to the right."""
    lines = [columns, *rows]
    first, *widths = (max(map(len, column)) for column in zip(*lines, strict=True))
    for name, *cells in lines:
        aligned = [f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)]
        print(f"{name:{first}}", *aligned, sep="  ", flush=True)


def print_times(
    seconds: Seconds, bases: Mapping[str, str], *, more: Mapping[str, Mapping[str, str]] | None = None
) -> None:
    """Prints the median milliseconds of every candidate, and how many times those of each base they are.

    Args:
        seconds: From `interleaved`.
        bases: Candidates to compare with, and the words for each in its column.
        more: Further columns: of each its cells by candidate.
    """
    more = more or {}
    rows = [
        [
            name,
            f"{1e3 * statistics.median(times):,.1f}",
            *(f"{ratio(seconds, name, base):.2f}" for base in bases),
            *(cells.get(name, "") for cells in more.values()),
        ]
        for name, times in seconds.items()
    ]
    print_table(["", "ms", *(f"x {words}" for words in bases.values()), *more], rows)


def check(text: str, is_met: bool) -> None:
    """Prints whether a target is met."""
    print(f"{text}: {'met' if is_met else 'MISSED'}")


def training_step(loss: Callable[..., Tensor], scores: Tensor, *arguments: Tensor) -> Step:
    """Forward and backward of one loss on its own copy of the scores."""
    leaf = scores.clone().requires_grad_()

    def step() -> None:
        leaf.grad = None
        loss(leaf, *arguments).backward()

    return step


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


def meter(work: Callable[..., Any], *arguments: object) -> dict[str, Any]:
    """Seconds, processor seconds and megabytes of a call: held before, and at most beyond that; on Linux only."""
    ctypes.CDLL(None).malloc_trim(0)  # or freed memory that the allocator holds would hide the need
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of the call
    before, wall, processor = _megabytes("VmRSS"), time.perf_counter(), time.process_time()
    result = work(*arguments)
    figures = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - processor}
    return {**figures, "before": before, "peak": _megabytes("VmHWM") - before, "result": result}


def _megabytes(key: str) -> float:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[key].split()[0]) / 1e3


def meter_alone(work: Callable[..., Any], *arguments: object) -> dict[str, Any]:
    """As `meter`, in a process of its own, whose memory is that of the call and of what its script imports."""
    threads = (torch.get_num_threads(),)
    with ProcessPoolExecutor(1, get_context("spawn"), torch.set_num_threads, threads) as pool:
        return pool.submit(meter, work, *arguments).result()


def sparse_targets(rows: int, labels: int, *, positives: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Normal scores, and targets with the same number of labels in every row."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, labels, generator=generator)
    chosen = torch.rand(rows, labels, generator=generator).topk(positives, dim=1).indices
    return scores, torch.zeros(rows, labels).scatter_(1, chosen, 1.0)
