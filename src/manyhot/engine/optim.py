"""Optimisers, learning-rate schedules, the moving average of the weights, and the seeds and rows of each step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.errors import InputError
from manyhot.losses.loss import Loss
from manyhot.network import Network
from manyhot.settings import FitSettings


def parameter_groups(network: Network, loss: Loss, settings: FitSettings) -> list[dict[str, Any]]:
    """The parameters to be trained, by learning rate and decay; `peak` is the rate at its highest.

    Biases, scales of normalisations and everything else of one dimension decay only with `decay_all`, and a loss's own
    parameters never.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    if not any(parameter.requires_grad for parameter in network.parameters()):
        hint = "Set `requires_grad` of the head's parameters."
        raise InputError("network", "fit", "have parameters to train", "only frozen ones", hint)
    head_lr = settings.lr if settings.head_lr is None else settings.head_lr
    backbone = set() if network.backbone is None else set(network.backbone.parameters())
    for module in (network, loss):
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                lr = settings.lr if parameter in backbone else head_lr
                if settings.bias_lr is not None and parameter not in backbone and name.endswith("bias"):
                    lr = settings.bias_lr
                decays = module is network and (settings.decay_all or parameter.ndim > 1)
                decay = settings.weight_decay if decays else 0.0
                groups.setdefault((lr, decay), []).append(parameter)
    return [
        {"params": parameters, "peak": lr, "lr": lr, "weight_decay": decay}
        for (lr, decay), parameters in groups.items()
    ]


def build_optimizer(network: Network, loss: Loss, settings: FitSettings, device: torch.device) -> torch.optim.Optimizer:
    """The optimiser of the plan over everything that is to be trained."""
    groups = parameter_groups(network, loss, settings)
    fused = device.type in ("cpu", "cuda")  # one kernel for all parameters, several times as fast
    if settings.optimizer == "sgd":
        nesterov = settings.nesterov and settings.momentum > 0
        return torch.optim.SGD(groups, momentum=settings.momentum, nesterov=nesterov, fused=fused)
    return torch.optim.AdamW(groups, fused=fused)


# Where a one-cycle schedule starts and ends, as shares of its height.
_ONE_CYCLE_START, _ONE_CYCLE_END = 1 / 25, 1e-4 / 25


def lr_factor(settings: FitSettings, step: int, total: int) -> float:
    """The factor on the learning rates at a step, counted from 0.

    After `warmup` the factor is 1 and then goes as the schedule says; "cosine" and "one-cycle" end near 0.

    Args:
        settings: Schedule, warm-up, milestones and drop.
        step: Which step.
        total: Steps of the whole run.

    Example:
        >>> from manyhot.engine import FitSettings
        >>> [round(lr_factor(FitSettings(warmup=0.2), step, 10), 3) for step in (0, 1, 2, 6, 9)]
        [0.5, 1.0, 1.0, 0.5, 0.038]
    """
    rising = round(settings.warmup * total)
    if step < rising:
        share = (step + 1) / rising
        return _between(_ONE_CYCLE_START, 1.0, share) if settings.schedule == "one-cycle" else share
    if settings.schedule == "constant":
        return 1.0
    if settings.schedule == "step":
        return settings.drop ** sum(step >= share * total for share in settings.milestones)
    share = (step - rising) / max(1, total - rising)
    return _between(1.0, _ONE_CYCLE_END if settings.schedule == "one-cycle" else 0.0, share)


def _between(first: float, last: float, share: float) -> float:
    """From `first` to `last` along half a wave of the cosine."""
    return last + (first - last) * (1 + math.cos(math.pi * share)) / 2


def mutable_state(network: nn.Module) -> dict[str, Tensor]:
    """What training changes: the parameters that are not frozen, and the buffers; views of the network's own memory."""
    frozen = {
        name for name, parameter in network.named_parameters(remove_duplicate=False) if not parameter.requires_grad
    }
    return {name: value.detach() for name, value in network.state_dict().items() if name not in frozen}


def cloned(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies that later steps leave alone."""
    return {name: value.detach().clone() for name, value in state.items()}


@torch.no_grad()
def copy_into(state: Mapping[str, Tensor], into: Mapping[str, Tensor]) -> None:
    """Writes the tensors of a state over those of the same names."""
    for name, tensor in into.items():
        tensor.copy_(state[name])


@contextmanager
def restored(state: Mapping[str, Tensor]) -> Iterator[None]:
    """The tensors of a state have their values again after the block."""
    before = cloned(state)
    try:
        yield
    finally:
        copy_into(before, state)


class WeightAverage:
    """The running average of weights and normalisation statistics.

    The decay rises with the steps, min(decay, (1 + t) / (10 + t)), so that a short run does not keep its first weights.

    Args:
        network: Whose weights are averaged.
        decay: Share of the old average that each step keeps, in the long run; None for no average.
    """

    def __init__(self, network: nn.Module, decay: float | None) -> None:
        self.decay, self.updates = decay, 0
        averaged = {} if decay is None else mutable_state(network)
        self.live = {name: value for name, value in averaged.items() if value.is_floating_point()}
        self.state = cloned(self.live)

    def update(self) -> None:
        """Takes in the weights after a step."""
        if self.decay is not None:
            decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
            torch._foreach_lerp_(list(self.state.values()), list(self.live.values()), 1 - decay)
            self.updates += 1

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Lends the network the averages, and gives it its own weights back."""
        with restored(self.live):
            copy_into(self.state, self.live)
            yield


Rows = np.ndarray[Any, Any]

# Each thing that is drawn has a stream of its own, so that none shifts another.
ORDER, STEP, LOSS = 1, 2, 3
_BITS = 2**64 - 1


def mix_seeds(*numbers: Any) -> Any:
    """One seed from several numbers; neighbours give unrelated ones (the finaliser of splitmix64).

    Where some are arrays of uint64, which broadcast, an array of seeds.
    """
    state: Any = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & _BITS
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _BITS
        state ^= state >> 31
    return state >> 1


def seed_generators(device: torch.device, seed: int) -> None:
    """Seeds the generators that a network on this device draws from.

    `torch.manual_seed` would do, but it notes where it was called from, which costs more than a small training step.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


def order_of_epoch(rows: int, *, seed: int, epoch: int) -> Rows:
    """(N,) every row once, in the order of this epoch."""
    generator = torch.Generator().manual_seed(mix_seeds(seed, ORDER, epoch))
    order: Rows = torch.randperm(rows, generator=generator).numpy()
    return order


def groups_of_epoch(order: Rows, batch_size: int, accumulate: int, share: slice) -> Iterator[Any]:
    """The rows of this process, its share of each part of each batch; no part of a batch is empty."""
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        parts = [batch] if accumulate == 1 else np.array_split(batch, min(accumulate, len(batch)))
        for part in parts:
            yield part[share]
