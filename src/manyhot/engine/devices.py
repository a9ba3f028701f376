"""Where training runs: the device of this process, and the other processes."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from manyhot.distributed import world_size
from manyhot.errors import InputError
from manyhot.settings import FitSettings

T = TypeVar("T")

_HALF_TYPES = {"bf16": torch.bfloat16, "16": torch.float16}
# What torchrun sets for the processes that it starts.
_LAUNCHED = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
# How long a process may go on after another one has ended, in seconds.
_GRACE = 60.0


@dataclass(frozen=True)
class DeviceContext:
    """The device of this process, and its rank among the processes.

    Attributes:
        device: Where tensors go.
        precision: "32", or the floats that parts of the network compute in, "bf16" or "16".
    """

    device: torch.device
    precision: str = "32"

    @cached_property
    def world(self) -> int:
        """The number of processes."""
        return world_size()

    @cached_property
    def rank(self) -> int:
        """The number of this process."""
        return dist.get_rank() if self.world > 1 else 0

    @property
    def share(self) -> slice:
        """The rows of this process among those of all: every n-th, so that each row is seen once."""
        return slice(self.rank, None, self.world)

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision of a forward pass."""
        if self.precision == "32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=_HALF_TYPES[self.precision])

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over processes, in place."""
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor

    def totals(self, *counts: int) -> list[int]:
        """The sums over processes."""
        if self.world == 1:
            return list(counts)
        sums: list[int] = self.total(torch.tensor(counts, device=self.device)).tolist()
        return sums

    def on_first(self, function: Callable[[], T]) -> T:
        """What the function returns on the first process, on every process; so too an error that it raises there."""
        if self.world == 1:
            return function()
        sent: list[Any] = [None, None]
        if self.rank == 0:
            try:
                sent[0] = function()
            except Exception as error:  # raised below, on every process
                sent[1] = error
        dist.broadcast_object_list(sent, src=0, device=self.device)
        result: T = sent[0]
        if sent[1] is not None:
            raise sent[1]
        return result


def open_device_context(settings: FitSettings) -> DeviceContext:
    """Picks the device and starts or joins the other processes, as the settings say.

    A process that `torchrun` started finds its place by itself; otherwise several devices start the script again, once
    for each further one.
    """
    kind = device_of(settings)
    if settings.precision == "16" and kind == "cpu":
        raise InputError("precision", "FitSettings", "be '32' or 'bf16' on a CPU", "'16'", "Take 'bf16'.")
    launched, gpus = os.environ.keys() >= _LAUNCHED, torch.cuda.device_count()
    count = int(os.environ["LOCAL_WORLD_SIZE"]) if launched else settings.devices
    if isinstance(count, str):  # "auto"
        count = gpus if kind == "cuda" and _script_can_start_again() else 1
    available = {"cuda": gpus, "mps": int(torch.backends.mps.is_available())}.get(kind, count)
    if not 1 <= count <= available:
        got = f"{settings.accelerator!r} with {settings.devices!r} devices (it has {available})"
        hint = "Take accelerator='cpu', or fewer devices."
        raise InputError("accelerator", "FitSettings", "be one that this machine has", got, hint)
    if count > 1 and not launched:
        _start_processes(count)
    together = launched or count > 1
    device = torch.device(kind)
    if kind == "cuda":
        device = torch.device(kind, int(os.environ["LOCAL_RANK"]) if together else torch.cuda.current_device())
        torch.cuda.set_device(device)
    if together and not dist.is_initialized() and int(os.environ["WORLD_SIZE"]) > 1:
        # Every optimiser imports this module. If it did so later, defaults of functions in `torch.distributed.nn`, and
        # frames that the import leaves behind, would keep the group of processes alive after `destroy_process_group`,
        # and a thread of gloo that then waits for Python's lock while Python ends aborts the process.
        from torch import _dynamo  # noqa: F401

        dist.init_process_group("nccl" if kind == "cuda" else "gloo", device_id=device if kind == "cuda" else None)
        atexit.register(_leave_processes)
    return DeviceContext(device, settings.precision)


def device_of(settings: FitSettings) -> str:
    """The kind of device that a plan trains on: "cuda", "mps" or "cpu"."""
    if settings.accelerator != "auto":
        return settings.accelerator
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _script_can_start_again() -> bool:
    """Whether there is a script: a notebook, a console and a script on standard input cannot be started again."""
    return os.path.exists(getattr(sys.modules["__main__"], "__file__", "")) or "-c" in sys.orig_argv


def _start_processes(count: int) -> None:
    """Starts this script again for each further device; processes find each other as those of torchrun do."""
    if not _script_can_start_again():
        hint = "Take devices=1, or run a script."
        raise InputError("devices", "FitSettings", "be 1 where there is no script to start again", str(count), hint)
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() // count))
        os.environ["OMP_NUM_THREADS"] = str(torch.get_num_threads())
    with socket.create_server(("127.0.0.1", 0)) as free:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    os.environ |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "RANK": "0", "LOCAL_RANK": "0"}
    others = [
        subprocess.Popen([sys.executable, *sys.orig_argv[1:]], env={**os.environ, "RANK": rank, "LOCAL_RANK": rank})
        for rank in map(str, range(1, count))
    ]
    atexit.register(_end_processes, others)
    for other in others:
        threading.Thread(target=_watch_process, args=(other, others), daemon=True).start()


def _watch_process(one: subprocess.Popen[bytes], others: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends this process and the others if one failed, because they may wait for it without end."""
    if one.wait() != 0:
        time.sleep(_GRACE)  # most errors are raised by every process
        print("Another process of this training failed; its message is above.", file=sys.stderr, flush=True)
        for other in others:
            other.kill()
        os._exit(1)


def _end_processes(others: Sequence[subprocess.Popen[bytes]]) -> None:
    """Waits for the other processes, and ends those that go on."""
    end = time.monotonic() + _GRACE
    for other in others:
        with suppress(subprocess.TimeoutExpired):
            other.wait(max(0.0, end - time.monotonic()))
        other.kill()


def _leave_processes() -> None:
    """Leaves the group of processes, unless that was done."""
    if dist.is_initialized():
        dist.destroy_process_group()
