"""Where training runs: devices and processes, by Lightning Fabric."""

from __future__ import annotations

import logging
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from manyhot.distributed import world_size
from manyhot.errors import InputError, require
from manyhot.settings import FitSettings

# Lightning sets it on import, for processes that fork. With it, every step of an optimiser looks for the GPU driver's
# library again, which can take as long as the step itself.
_GPU_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"
_PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}


def import_fabric() -> Any:
    """Lightning's Fabric; raises an error that says how to install it."""
    before = os.environ.get(_GPU_CHECK)
    require("lightning", "Training runs", extra="vision")
    from lightning.fabric import Fabric

    if before is None:
        os.environ.pop(_GPU_CHECK, None)
    # It logs precision and device at every start, also for scoring; the settings say what matters.
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    return Fabric


@dataclass(frozen=True)
class DeviceContext:
    """The device of this process, and its rank among the processes.

    Attributes:
        device: Where tensors go.
        fabric: Lightning's, or None for scoring where the network already is.
        mixed: Whether parts of the network run in half precision.
        rank: The number of this process.
        world: The number of processes.
        scaler: Keeps gradients of 16-bit floats above zero.
    """

    device: torch.device
    fabric: Any = None
    mixed: bool = False
    rank: int = field(init=False)
    world: int = field(init=False)
    scaler: GradScaler | None = field(init=False)

    def __post_init__(self) -> None:
        world = world_size()
        object.__setattr__(self, "world", world)
        object.__setattr__(self, "rank", dist.get_rank() if world > 1 else 0)
        scaler = getattr(self.fabric.strategy.precision, "scaler", None) if self.mixed else None
        object.__setattr__(self, "scaler", scaler)

    def autocast(self) -> AbstractContextManager[Any]:
        """The precision of a forward pass."""
        context: AbstractContextManager[Any] = self.fabric.autocast() if self.mixed else nullcontext()
        return context

    def wrap(self, network: nn.Module) -> nn.Module:
        """The network, its gradients averaged over processes where there are several."""
        wrapped: nn.Module = self.fabric.strategy.setup_module(network) if self.world > 1 else network
        return wrapped

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

    def from_first(self, value: Any) -> Any:
        """What the first process has, on every process."""
        return value if self.world == 1 else self.fabric.broadcast(value)

    def to_device(self, tensor: Tensor) -> Tensor:
        """The tensor on the device."""
        return tensor if tensor.device == self.device else tensor.to(self.device, non_blocking=True)


def open_device_context(settings: FitSettings) -> DeviceContext:
    """Picks the device and starts or joins the other processes, as the plan says.

    A process that `torchrun` started finds its place by itself; otherwise `devices` above 1 starts the script again,
    once for each further device.
    """
    fabric_class = import_fabric()
    devices, nodes, strategy = settings.devices, settings.nodes, settings.strategy
    if devices == "auto" and dist.is_torchelastic_launched():
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
        strategy = "ddp" if strategy == "auto" and devices * nodes > 1 else strategy
    try:
        kind = device_of(settings)
        if settings.precision == "16" and kind == "cpu":
            raise InputError("precision", "FitSettings", "be '32' or 'bf16' on a CPU", "'16'", "Take 'bf16'.")
        fabric = fabric_class(
            accelerator=kind,
            devices=devices,
            num_nodes=nodes,
            strategy=strategy,
            precision=_PRECISIONS[settings.precision],
        )
    except (RuntimeError, TypeError) as error:
        got = f"{settings.accelerator!r} with {settings.devices!r} devices ({str(error).rstrip('.')})"
        hint = "Take accelerator='cpu', or fewer devices."
        raise InputError("accelerator", "FitSettings", "be one that this machine has", got, hint) from None
    fabric.launch()
    device = fabric.device
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return DeviceContext(device, fabric, settings.precision != "32")


def device_of(settings: FitSettings) -> str:
    """The kind of device that a plan trains on: "cuda", "mps" or "cpu"."""
    return settings.accelerator if settings.accelerator != "auto" else _best_accelerator()


def _best_accelerator() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def device_context_of(network: nn.Module, location: Any) -> DeviceContext:
    """Where to score: on the machine of a plan or a fabric, or where the network is."""
    if isinstance(location, DeviceContext):
        return location
    if isinstance(location, FitSettings):
        return open_device_context(location)
    if location is not None:
        return DeviceContext(
            location.device, location, "mixed" in str(getattr(location.strategy.precision, "precision", ""))
        )
    parameter = next(network.parameters(), None)
    return DeviceContext(torch.device("cpu") if parameter is None else parameter.device)
