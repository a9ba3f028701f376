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
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.parallel import DistributedDataParallel

from manyhot.distributed import world_size
from manyhot.errors import InputError
from manyhot.settings import FitSettings

T = TypeVar("T")

_HALF_TYPES = {"bf16": torch.bfloat16, "16": torch.float16}
# What torchrun tells the processes that it starts.
_LAUNCHED = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
# How long a process may go on after another one has ended, in seconds.
_GRACE = 60.0


@dataclass(frozen=True)
class DeviceContext:
    """The device of this process, and its rank among the processes.

    Attributes:
        device: Where tensors go.
        precision: "32", or the floats that parts of the network compute in, "bf16" or "16".
        find_unused_parameters: Whether parameters may be without a gradient in some steps.
        rank: The number of this process.
        world: The number of processes.
        scaler: Keeps gradients of 16-bit floats above zero.
    """

    device: torch.device
    precision: str = "32"
    find_unused_parameters: bool = False
    rank: int = field(init=False)
    world: int = field(init=False)
    scaler: GradScaler | None = field(init=False)

    def __post_init__(self) -> None:
        world = world_size()
        object.__setattr__(self, "world", world)
        object.__setattr__(self, "rank", dist.get_rank() if world > 1 else 0)
        scaler = GradScaler(self.device.type) if self.precision == "16" else None
        object.__setattr__(self, "scaler", scaler)

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision of a forward pass."""
        if self.precision == "32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=_HALF_TYPES[self.precision])

    def wrap(self, network: nn.Module) -> nn.Module:
        """The network, its gradients averaged over processes where there are several."""
        if self.world == 1:
            return network
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(network, device_ids=devices, find_unused_parameters=self.find_unused_parameters)

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
        outcome: list[Any] = [None, None]
        if self.rank == 0:
            try:
                outcome[0] = function()
            except Exception as error:  # raised below, on every process
                outcome[1] = error
        dist.broadcast_object_list(outcome, src=0, device=self.device)
        result: T = outcome[0]
        if outcome[1] is not None:
            raise outcome[1]
        return result

    def to_device(self, tensor: Tensor) -> Tensor:
        """The tensor on the device."""
        return tensor if tensor.device == self.device else tensor.to(self.device, non_blocking=True)


def open_device_context(settings: FitSettings) -> DeviceContext:
    """Picks the device and starts or joins the other processes, as the settings say.

    A process that `torchrun` started finds its place by itself; otherwise several devices start the script again, once
    for each further one.
    """
    kind = device_of(settings)
    if settings.precision == "16" and kind == "cpu":
        raise InputError("precision", "FitSettings", "be '32' or 'bf16' on a CPU", "'16'", "Take 'bf16'.")
    count, launched = settings.devices, os.environ.keys() >= _LAUNCHED
    if launched:
        count = int(os.environ["LOCAL_WORLD_SIZE"])
    elif count == "auto":
        count = torch.cuda.device_count() if kind == "cuda" and _script_can_start_again() else 1
    assert isinstance(count, int)
    available = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}.get(kind, count)
    if not 1 <= count <= available:
        got = f"{settings.accelerator!r} with {settings.devices!r} devices (it has {available})"
        hint = "Take accelerator='cpu', or fewer devices."
        raise InputError("accelerator", "FitSettings", "be one that this machine has", got, hint)
    if count > 1 and not launched:
        _start_processes(count)
    local_rank = int(os.environ["LOCAL_RANK"]) if launched or count > 1 else None
    device = torch.device(kind)
    if kind == "cuda":
        device = torch.device(kind, torch.cuda.current_device() if local_rank is None else local_rank)
        torch.cuda.set_device(device)
    if local_rank is not None and not dist.is_initialized() and int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("nccl" if kind == "cuda" else "gloo", device_id=device if kind == "cuda" else None)
        atexit.register(_leave_processes)
    return DeviceContext(device, settings.precision, settings.find_unused_parameters)


def device_of(settings: FitSettings) -> str:
    """The kind of device that a plan trains on: "cuda", "mps" or "cpu"."""
    return settings.accelerator if settings.accelerator != "auto" else _best_accelerator()


def _best_accelerator() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def device_context_of(network: nn.Module, location: DeviceContext | FitSettings | None) -> DeviceContext:
    """Where to score: on the device of a context or of settings, or where the network is."""
    if isinstance(location, DeviceContext):
        return location
    if isinstance(location, FitSettings):
        return open_device_context(location)
    parameter = next(network.parameters(), None)
    return DeviceContext(torch.device("cpu") if parameter is None else parameter.device)


def _script_can_start_again() -> bool:
    """Whether there is a script: a notebook, a console and a script on standard input cannot be started again."""
    return os.path.exists(getattr(sys.modules["__main__"], "__file__", "")) or "-c" in sys.orig_argv


def _start_processes(count: int) -> None:
    """Starts this script again for each further device; processes find each other as those of torchrun do."""
    if not _script_can_start_again():
        hint = "Take devices=1, or run a script."
        raise InputError("devices", "FitSettings", "be 1 where there is no script to start again", str(count), hint)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if "OMP_NUM_THREADS" not in os.environ:
        threads = max(1, torch.get_num_threads() // count)
        torch.set_num_threads(threads)
        os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "RANK": "0", "LOCAL_RANK": "0"}
    others = [
        subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]], env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(1, count)
    ]
    atexit.register(_end_processes, others)
    threading.Thread(target=_watch_processes, args=(others,), daemon=True).start()


def _watch_processes(others: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends this process if another one failed, because this one may wait for it without end."""
    while not any(other.poll() for other in others):
        if all(other.poll() == 0 for other in others):
            return
        time.sleep(0.5)
    time.sleep(_GRACE)  # most errors are raised by every process
    print("Another process of this training failed; its message is above.", file=sys.stderr, flush=True)
    for other in others:
        other.kill()
    os._exit(1)


def _end_processes(others: Sequence[subprocess.Popen[bytes]]) -> None:
    """Waits for the other processes, and ends those that go on."""
    end = time.monotonic() + _GRACE
    for other in others:
        try:
            other.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            other.kill()


def _leave_processes() -> None:
    """Leaves the group of processes, unless that was done."""
    if dist.is_initialized():
        dist.destroy_process_group()
