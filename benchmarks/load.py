"""Requests to an HTTP server on this machine: at a rate independent of its answers, or as fast as it answers.

The client is a few lines over streams, because common ones take more processor time than the answers they wait for.
"""

import asyncio
import contextlib
import itertools
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

HOST = "127.0.0.1"
TIMEOUT = 20.0
# Requests that may be in flight at once; a server with more is overloaded, and is not loaded further.
MOST = 100
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

Request = tuple[str, bytes]


@dataclass
class Load:
    """The results of some requests: seconds of each answer by kind, errors by reason, and samples taken each second."""

    latencies: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    client: float = 0.0
    samples: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers a second."""
        return sum(map(len, self.latencies.values())) / self.seconds

    def quantile(self, share: float, kind: str | None = None) -> float:
        """Seconds within which this share of the answers came; infinite where nothing did."""
        values = sorted(self.latencies[kind] if kind else itertools.chain(*self.latencies.values()))
        return values[min(int(share * len(values)), len(values) - 1)] if values else float("inf")


class Connections:
    """Connections to one server, opened as they are needed; one request at a time on each."""

    def __init__(self, port: int) -> None:
        self.port, self.under_way = port, 0
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body; a connection that was closed while idle is replaced, once."""
        self.under_way += 1
        try:
            if self._idle:
                with contextlib.suppress(ConnectionError):
                    return await self._ask(*self._idle.pop(), request)
            return await self._ask(*await asyncio.open_connection(HOST, self.port), request)
        finally:
            self.under_way -= 1

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(TIMEOUT):
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = LENGTH.search(head)
                body = await reader.readexactly(int(length[1]) if length else 0)
        except asyncio.IncompleteReadError:
            writer.close()
            raise ConnectionError("the server closed the connection") from None
        except BaseException:
            writer.close()
            raise
        self._idle.append((reader, writer))
        return int(head[9:12]), body


async def _one(connections: Connections, load: Load, request: Request, since: float) -> None:
    kind, data = request
    try:
        status, _ = await connections.ask(data)
    except (OSError, TimeoutError) as error:
        load.errors[type(error).__name__] += 1
        return
    if status == 200:
        load.latencies[kind].append(time.perf_counter() - since)
    else:
        load.errors[f"status {status}"] += 1


async def at_rate(
    port: int,
    requests: Sequence[Request],
    *,
    rate: float,
    seconds: float,
    seed: int = 0,
    give_up: bool = False,
    watch: Callable[[], float] | None = None,
) -> Load:
    """Sends requests at random moments at an average rate, whether or not earlier ones have been answered.

    Latency is measured from the moment at which a request was due, so that it includes waiting before it is sent.

    Args:
        port: Of the server.
        requests: Sent in turn.
        rate: Requests a second.
        seconds: For how long.
        seed: Of the moments.
        give_up: Whether to end once too many are in flight; otherwise those in excess are counted as errors.
        watch: Called about once a second for a sample.
    """
    draw, turns, load = random.Random(seed), itertools.cycle(requests), Load()
    connections, tasks = Connections(port), set()
    watching = asyncio.create_task(_every_second(watch, load.samples)) if watch else None
    cpu, start = time.process_time(), time.perf_counter()
    due = start + draw.expovariate(rate)
    while due < start + seconds:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if connections.under_way >= MOST:
            load.errors["too many under way"] += 1
            if give_up:
                break
        else:
            task = asyncio.create_task(_one(connections, load, next(turns), due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        due += draw.expovariate(rate)
    await asyncio.gather(*tasks)
    load.seconds, load.client = time.perf_counter() - start, time.process_time() - cpu
    if watching is not None:
        watching.cancel()
    connections.close()
    return load


async def saturating(port: int, requests: Sequence[Request], *, clients: int, seconds: float) -> Load:
    """Clients that each send the next request as soon as the last is answered."""
    turns, load, connections = itertools.cycle(requests), Load(), Connections(port)
    cpu, start = time.process_time(), time.perf_counter()

    async def client() -> None:
        while (now := time.perf_counter()) < start + seconds:
            await _one(connections, load, next(turns), now)

    await asyncio.gather(*(client() for _ in range(clients)))
    load.seconds, load.client = time.perf_counter() - start, time.process_time() - cpu
    connections.close()
    return load


async def ask_each(port: int, requests: Sequence[Request]) -> list[tuple[int, bytes]]:
    """Status and body of the answer to each request, one after the other."""
    connections = Connections(port)
    try:
        return [await connections.ask(data) for _, data in requests]
    finally:
        connections.close()


async def _every_second(watch: Callable[[], float], samples: list[float]) -> None:
    while True:
        samples.append(watch())
        await asyncio.sleep(1.0)


def get(path: str, kind: str) -> Request:
    """A request for a path."""
    return kind, f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


def upload(path: str, data: bytes, name: str) -> Request:
    """A request that uploads an image as a browser does."""
    edge = "----one-image-at-a-time"
    part = f'--{edge}\r\nContent-Disposition: form-data; name="image"; filename="{name}"\r\n'
    body = f"{part}Content-Type: image/jpeg\r\n\r\n".encode() + data + f"\r\n--{edge}--\r\n".encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\n"
        f"Content-Type: multipart/form-data; boundary={edge}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return "classify", head.encode() + body
