"""Servers in their own processes: started, awaited, measured under a load, and always terminated.

Several can be measured in turn: all but one are suspended, and take no processor time.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from load import HOST, Load

START_SECONDS = 120
STOP_SECONDS = 10

Figures = dict[str, Any]


class Server:
    """A server with all the processes that it has started.

    Attributes:
        port: Where it listens.
        process: The first of its processes; the others are of its session.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self.port = process, port

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Resumes it within the block, and suspends it afterwards."""
        os.killpg(self.process.pid, signal.SIGCONT)
        try:
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGSTOP)

    def processes(self) -> list[Path]:
        """The folders in /proc of its processes."""
        return [folder for folder in Path("/proc").glob("[0-9]*") if _session(folder) == self.process.pid]

    def megabytes(self) -> float:
        """Memory of all its processes; shared memory is counted once."""
        total = 0
        for folder in self.processes():
            with contextlib.suppress(OSError):  # it has ended
                lines = (folder / "smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total / 1024

    def processor_seconds(self) -> float:
        """Processor time of all its processes so far."""
        ticks = 0
        for folder in self.processes():
            with contextlib.suppress(OSError):
                ticks += sum(map(int, _after_name(folder)[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")


def _after_name(folder: Path) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold spaces."""
    return (folder / "stat").read_text().rsplit(")", 1)[1].split()


def _session(folder: Path) -> int | None:
    try:
        return int(_after_name(folder)[3])
    except OSError:
        return None


def free_port() -> int:
    """A port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(command: Sequence[str], *, port: int, health: str, log: Path) -> Iterator[Server]:
    """Starts a server, waits until it is healthy, and terminates it with all processes that it has started.

    Args:
        command: What to run.
        port: Where it will listen.
        health: The path that answers once it is ready.
        log: Where its output goes.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    # Ends the server even if this process is killed: the pipe closes, and so the reading ends.
    guard = subprocess.Popen(
        ["sh", "-c", f"read nothing; kill -s KILL -- -{process.pid}"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _await_health(process, f"http://{HOST}:{port}{health}", log)
        yield Server(process, port)
    finally:
        _end(process)
        guard.kill()
        guard.communicate()


def _await_health(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    log_tail = log.read_text(errors="replace")[-2000:]
    why = f"took more than {START_SECONDS} s to start" if process.poll() is None else f"ended with {process.returncode}"
    raise SystemExit(f"The server {why}. Its output:\n{log_tail}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL, to its whole session; suspended processes are resumed to receive it."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal_number)
            os.killpg(process.pid, signal.SIGCONT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)


def total_processor_seconds() -> float:
    """Processor time that was spent on this machine so far, by anybody."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def measure(server: Server, ask: Callable[..., Any], *, watch: bool = False) -> tuple[Load, Figures]:
    """Measures a server under load.

    Args:
        server: Suspended, before and after.
        ask: Makes the load.
        watch: Whether to sample the server's memory every second.
    """
    with server.awake():
        before = server.processor_seconds(), total_processor_seconds(), time.perf_counter()
        load: Load = asyncio.run(ask(**({"watch": server.megabytes} if watch else {})))
        return load, _figures(load, server, before)


def _figures(load: Load, server: Server, before: tuple[float, float, float]) -> Figures:
    """Answers a second, milliseconds, errors, milliseconds of the processor an answer, and what others took."""
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
