"""What a server did under a load, and how much of the machine others took meanwhile."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from load import Load
from serving import Server

# The share of the machine that others may take in a measurement that counts, where there is time to repeat it.
QUIET = 0.1

Figures = dict[str, Any]


def total_processor_seconds() -> float:
    """Processor time that was spent on this machine so far, by anybody."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class Patience:
    """A time budget for waiting until the machine is idle, and for repeating measurements that others disturbed.

    Args:
        seconds: The budget.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def wait(self) -> None:
        """Waits until the machine is idle or the budget is spent; all servers must be suspended."""
        while self.left > 0:
            busy, start = total_processor_seconds(), time.perf_counter()
            time.sleep(2.0)
            seconds = time.perf_counter() - start
            if (total_processor_seconds() - busy) / (seconds * (os.cpu_count() or 1)) < QUIET:
                return
            self.left -= seconds


def measure(
    server: Server, ask: Callable[..., Any], patience: Patience, *, watch: bool = False
) -> tuple[Load, Figures]:
    """Measures a server under load; of several tries, the one with the least processor time taken by others.

    Args:
        server: Suspended, before and after.
        ask: Makes the load.
        patience: Budget for waiting for an idle machine.
        watch: Whether to sample the server's memory every second.
    """
    tries: list[tuple[Load, Figures]] = []
    options = {"watch": server.megabytes} if watch else {}
    while True:
        patience.wait()
        with server.awake():
            before = server.processor_seconds(), total_processor_seconds(), time.perf_counter()
            load: Load = asyncio.run(ask(**options))
            tries.append((load, _figures(load, server, before)))
        quietest = min(tries, key=lambda one: one[1]["others"])
        if quietest[1]["others"] <= QUIET or patience.left <= 0:
            return quietest
        patience.left -= load.seconds


def _figures(load: Load, server: Server, before: tuple[float, float, float]) -> Figures:
    """Answers a second, milliseconds, errors, and milliseconds of the processor an answer."""
    own, total = server.processor_seconds() - before[0], total_processor_seconds() - before[1]
    cores, answers = os.cpu_count() or 1, max(sum(map(len, load.latencies.values())), 1)
    return {
        "rate": load.rate,
        "p50": 1e3 * load.quantile(0.5),
        "p99": 1e3 * load.quantile(0.99),
        "errors": sum(load.errors.values()),
        "server": 1e3 * own / answers,
        "client": 1e3 * load.client / answers,
        "others": max(0.0, total - own - load.client) / ((time.perf_counter() - before[2]) * cores),
    }
