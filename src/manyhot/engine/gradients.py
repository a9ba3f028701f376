"""The gradient of one step: that of the loss of the whole batch, over all processes and accumulated parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.parallel import DistributedDataParallel

from manyhot.data.loading import Batch
from manyhot.distributed import GlobalBatch, needs_all_rows
from manyhot.engine.devices import DeviceContext
from manyhot.engine.optim import LOSS, mix_seeds, restored, seed_generators
from manyhot.errors import InputError
from manyhot.losses.loss import Loss
from manyhot.settings import FitSettings


class ExactGradients:
    """Leaves the gradient of a step in the parameters of network and loss, and says how large the loss was.

    In several parts, the gradient is still that of the loss of the whole batch. Where the loss is a sum over rows, the
    parts are added up, each divided by the counts of the whole batch. Where it compares rows, the scores of all parts
    come first, then the loss's gradient by all of them, and then a second pass brings that back part by part, drawing
    what the first one drew.

    Args:
        network: On its device.
        loss: On the same device.
        context: Device and processes.
        settings: Seed, precision, and whether to compile.

    Attributes:
        scaler: Keeps gradients of 16-bit floats above zero; it changes no others.
    """

    def __init__(self, network: nn.Module, loss: Loss, context: DeviceContext, settings: FitSettings) -> None:
        self.network, self.loss, self.context, self.seed = network, loss, context, settings.seed
        self.scaler = GradScaler(context.device.type, enabled=settings.precision == "16")
        self.plain: Any = torch.compile(network) if settings.compile else network
        self.synced: Any = self.plain
        self.global_loss = loss if context.world == 1 else GlobalBatch(loss)
        if context.world > 1:
            devices = [context.device] if context.device.type == "cuda" else None
            unused = settings.find_unused_parameters
            self.synced = DistributedDataParallel(self.plain, device_ids=devices, find_unused_parameters=unused)
        self.needs_all_rows = needs_all_rows(loss)

    def __call__(self, parts: list[Batch], seeds: list[int], step: int) -> Tensor:
        """The loss of the batch whose parts these are; its gradient is added to what the parameters hold.

        Args:
            parts: At least one.
            seeds: Of what the network draws for each part.
            step: Its number in the run.
        """
        targets = parts[0].targets if len(parts) == 1 else torch.cat([part.targets for part in parts])
        extra = self._extra(parts, targets, step) if self.loss.extra else None
        try:
            if len(parts) > 1:
                several = self._second_pass if self.needs_all_rows else self._sum_of_parts
                return several(parts, seeds, targets, extra)
            value: Tensor = self.global_loss(self._forward(self.synced, parts[0], seeds[0]), targets, extra)
            self.scaler.scale(value).backward()
            return value.detach()
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            hint = "Take another batch size, so that the last batch of an epoch has more rows, or fewer parts."
            got = f"{min(len(part.rows) for part in parts)} in step {step + 1}"
            raise InputError("batch_size", "FitSettings", "give a BatchNorm several rows", got, hint) from None

    def _sum_of_parts(self, parts: list[Batch], seeds: list[int], targets: Tensor, extra: Tensor | None) -> Tensor:
        counts, values = self._counts(targets, extra), []
        extras = [None] * len(parts) if extra is None else extra.split([len(part.rows) for part in parts])
        for outputs, part, own in zip(self._outputs(parts, seeds), parts, extras, strict=True):
            terms = self.loss.terms(self.loss.check(outputs, part.targets, own))
            value = self.loss.reduce([replace(term, count=count) for term, count in zip(terms, counts, strict=True)])
            # Gradients are averaged over processes, and wanted added.
            self.scaler.scale(value * self.context.world).backward()
            values.append(value.detach())
        return self.context.total(torch.stack(values).sum())

    @torch.no_grad()
    def _counts(self, targets: Tensor, extra: Tensor | None) -> list[Tensor]:
        """What each mean of the loss divides by, over all parts and processes; the scores do not matter for it."""
        rows, labels = targets.shape
        shape = (rows, labels) if self.loss.heads == 1 else (rows, self.loss.heads, labels)
        zeros = torch.zeros(shape, device=targets.device)
        terms = self.loss.terms(self.loss.check(zeros, targets, extra))
        counts = [torch.as_tensor(term.count, dtype=torch.float64, device=targets.device).clone() for term in terms]
        return [self.context.total(count).float() for count in counts]

    def _second_pass(self, parts: list[Batch], seeds: list[int], targets: Tensor, extra: Tensor | None) -> Tensor:
        # The second pass moves the running statistics; the first one leaves them as they were.
        with torch.no_grad(), restored(dict(self.network.named_buffers())):
            outputs = torch.cat([self._forward(self.plain, *drawn) for drawn in zip(parts, seeds, strict=False)])
        outputs.requires_grad_()
        value: Tensor = self.global_loss(outputs, targets, extra)
        self.scaler.scale(value).backward()
        assert outputs.grad is not None
        slopes = outputs.grad.split([len(part.rows) for part in parts])
        for again, slope in zip(self._outputs(parts, seeds), slopes, strict=True):
            torch.autograd.backward(again, slope)
        return value.detach()

    def _outputs(self, parts: list[Batch], seeds: list[int]) -> Iterator[Tensor]:
        """Part by part; gradients travel between processes once a step, with the last one."""
        for part, seed in zip(parts, seeds, strict=False):
            with nullcontext() if part is parts[-1] or self.context.world == 1 else self.synced.no_sync():
                yield self._forward(self.synced, part, seed)

    def _forward(self, network: Any, batch: Batch, seed: int) -> Tensor:
        seed_generators(self.context.device, seed)
        with self.context.autocast():
            outputs: Tensor = network(batch.inputs)
        return outputs

    def _extra(self, parts: list[Batch], targets: Tensor, step: int) -> Tensor | None:
        """What the loss takes besides scores and targets: row numbers, or noise that does not depend on the parts.

        Row numbers stay where they are for losses that do not take them: every copy makes the device wait.
        """
        if self.loss.extra == "noise":
            seed_generators(self.context.device, mix_seeds(self.seed, LOSS, step, self.context.rank))
            return self.loss.sample_noise(torch.empty(targets.shape, device=targets.device))
        return torch.cat([part.rows for part in parts]).to(targets.device)
