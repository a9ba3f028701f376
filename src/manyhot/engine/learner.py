"""What learns: network and loss with their optimiser and running average, one step at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from manyhot.data.loading import Batch
from manyhot.engine.averaging import WeightAverage, moving_state, put
from manyhot.engine.checkpoint import Checkpoint, optimizer_tensors, restore_optimizer
from manyhot.engine.gradients import Gradients
from manyhot.engine.machine import Machine
from manyhot.engine.optimising import build_optimizer, set_rate
from manyhot.engine.plan import Plan
from manyhot.engine.schedules import rate
from manyhot.losses.loss import Loss
from manyhot.network import Network


class Learner:
    """Network and loss in training.

    Args:
        network: Moved to the device of the machine.
        loss: Likewise.
        machine: Device and processes.
        plan: Optimiser, schedule, average and clipping.
        total: Steps of the whole run.
    """

    def __init__(self, network: Network, loss: Loss, machine: Machine, plan: Plan, total: int) -> None:
        self.network, self.loss = network.to(machine.device), loss.to(machine.device)
        self.machine, self.plan, self.total, self.scaler = machine, plan, total, machine.scaler
        if machine.world > 1:
            for tensor in (*loss.parameters(), *loss.buffers()):
                dist.broadcast(tensor.data, 0)
        self.optimizer = build_optimizer(network, loss, plan, machine.device)
        self.parameters = [p for p in (*network.parameters(), *loss.parameters()) if p.requires_grad]
        self.gradients = Gradients(network, loss, machine, plan)
        self.average = None if plan.ema is None else WeightAverage(network, plan.ema)

    def step(self, parts: Sequence[Batch], number: int) -> Tensor:
        """One step on the batch whose parts these are; returns the loss."""
        set_rate(self.optimizer, rate(self.plan, number, self.total))
        value = self.gradients(parts, number)
        if self.plan.clip is not None:
            if self.scaler is not None:
                self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.parameters, self.plan.clip)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        for parameter in self.parameters:  # as `zero_grad` does, which takes its time to do it
            parameter.grad = None
        if self.average is not None:
            self.average.update()
        return value

    def is_finite(self) -> bool:
        """Whether all that is trained is still a number."""
        return bool(torch.stack([parameter.detach().isfinite().all() for parameter in self.parameters]).all())

    def judged_weights(self) -> AbstractContextManager[None]:
        """Puts the weights that count in place for a while: the running average, where there is one."""
        return nullcontext() if self.average is None else self.average.in_place()

    def kept(self) -> dict[str, Tensor]:
        """Copies of the weights that count, and of the loss's own state."""
        network = moving_state(self.network) if self.average is None else self.average.state
        state = _named(network=network, loss=self.loss.state_dict())
        return {name: value.detach().cpu().clone() for name, value in state.items()}

    def keep(self, state: Mapping[str, Tensor]) -> None:
        """Puts what `kept` gave into network and loss."""
        own = _named(network=moving_state(self.network), loss=self.loss.state_dict())
        put(state, own)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a step changes."""
        return _named(
            network=moving_state(self.network),
            loss=self.loss.state_dict(),
            optimizer=optimizer_tensors(self.optimizer),
            average={} if self.average is None else self.average.state,
        )

    def facts(self) -> dict[str, Any]:
        """What else a step changes."""
        return {
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            "averaged": 0 if self.average is None else self.average.updates,
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Takes up the state of a checkpoint."""
        put(checkpoint.of("network"), moving_state(self.network))
        put(checkpoint.of("loss"), self.loss.state_dict())
        restore_optimizer(self.optimizer, checkpoint.of("optimizer"))
        if self.average is not None:
            put(checkpoint.of("average"), self.average.state)
            self.average.updates = checkpoint.facts["averaged"]
        if self.scaler is not None:
            self.scaler.load_state_dict(checkpoint.facts["scaler"])


def _named(**owners: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All tensors, each under the name of its owner and its own."""
    return {f"{owner}.{name}": value for owner, state in owners.items() for name, value in state.items()}
