"""The running average of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def moving_state(network: nn.Module) -> dict[str, Tensor]:
    """What training changes: the parameters that are not frozen, and the buffers; views of the network's own memory."""
    frozen = {
        name for name, parameter in network.named_parameters(remove_duplicate=False) if not parameter.requires_grad
    }
    return {name: value.detach() for name, value in network.state_dict().items() if name not in frozen}


def copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies that later steps leave alone."""
    return {name: value.detach().clone() for name, value in state.items()}


@torch.no_grad()
def put(state: Mapping[str, Tensor], into: Mapping[str, Tensor]) -> None:
    """Writes one state over another of the same names."""
    for name, value in state.items():
        into[name].copy_(value)


class WeightAverage:
    """The running average of weights and normalisation statistics.

    The decay rises with the steps, min(decay, (1 + t) / (10 + t)), so that a short run does not keep its first weights.

    Args:
        network: Whose weights are averaged.
        decay: Share of the old average that each step keeps, in the long run.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        self.live = moving_state(network)
        self.state = copied(self.live)
        self.updates = 0
        floats = [name for name, value in self.live.items() if value.is_floating_point()]
        self._averages, self._sources = [self.state[name] for name in floats], [self.live[name] for name in floats]
        self._counters = [name for name in self.live if name not in set(floats)]

    @torch.no_grad()
    def update(self) -> None:
        """Takes in the weights after a step."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        torch._foreach_lerp_(self._averages, self._sources, 1 - decay)
        for name in self._counters:
            self.state[name].copy_(self.live[name])
        self.updates += 1

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Lends the network the averages, and gives it its own weights back."""
        own = copied(self.live)
        put(self.state, self.live)
        try:
            yield
        finally:
            put(own, self.live)
