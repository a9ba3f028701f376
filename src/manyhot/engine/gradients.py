"""The gradient of one step: that of the loss of the whole batch, over all processes and accumulated parts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from manyhot.data.loading import Batch
from manyhot.distributed import GlobalBatch
from manyhot.engine.batchnorm import frozen_buffers, is_single_value_error
from manyhot.engine.devices import DeviceContext
from manyhot.engine.optim import LOSS, STEP, mix_seeds, seed_generators
from manyhot.errors import InputError
from manyhot.losses.loss import Loss, divide
from manyhot.losses.softmax import NoisedTopKLoss
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
        settings: Seed, and whether to compile.
    """

    def __init__(self, network: nn.Module, loss: Loss, context: DeviceContext, settings: FitSettings) -> None:
        self.network, self.loss, self.context, self.seed = network, loss, context, settings.seed
        self.plain: Any = network
        if settings.compile:
            self.plain = torch.compile(network)
        self.synced: Any = context.wrap(self.plain)
        self.global_loss: Loss | GlobalBatch = GlobalBatch(loss) if context.world > 1 else loss
        # Only with all rows in sight are the gradients of a loss's own parameters the same on every process.
        self.needs_all_rows = loss.mixes_rows or any(True for _ in loss.parameters())

    def __call__(self, parts: Sequence[Batch], step: int) -> Tensor:
        """The loss of the batch whose parts these are; its gradient is added to what the parameters hold."""
        try:
            if len(parts) == 1:
                return self._single_part(parts[0], step)
            return self._second_pass(parts, step) if self.needs_all_rows else self._sum_of_parts(parts, step)
        except ValueError as error:
            if not is_single_value_error(error):
                raise
            hint = "Take another batch size, so that the last batch of an epoch has more rows, or fewer parts."
            got = f"{min(len(part.rows) for part in parts)} in step {step + 1}"
            raise InputError("batch_size", "FitSettings", "give a BatchNorm several rows", got, hint) from None

    def _single_part(self, batch: Batch, step: int) -> Tensor:
        extra = self._extra(batch.targets, batch.rows, step)
        value: Tensor = self.global_loss(self._forward(self.synced, batch, step, 0), batch.targets, extra)
        self._backward(value)
        return value.detach()

    def _sum_of_parts(self, parts: Sequence[Batch], step: int) -> Tensor:
        targets, rows = torch.cat([part.targets for part in parts]), torch.cat([part.rows for part in parts])
        extra = self._extra(targets, rows, step)
        counts, values, start = self._counts(targets, extra), [], 0
        for index, part in enumerate(parts):
            own = None if extra is None else extra[start : start + len(part.rows)]
            start += len(part.rows)
            with self._no_sync(last=index == len(parts) - 1):
                outputs = self._forward(self.synced, part, step, index)
                value = self._share(self.loss.terms(self.loss.check(outputs, part.targets, own)), counts)
                self._backward(value * self.context.world)  # gradients are averaged over processes, and wanted added
            values.append(value.detach())
        return self.context.total(torch.stack(values).sum())

    def _share(self, terms: Sequence[Any], counts: Sequence[Tensor]) -> Tensor:
        if self.loss.reduction == "sum":
            first: Tensor = terms[0].values.sum()
            return first
        first, *others = (divide(term.values.sum(), count) for term, count in zip(terms, counts, strict=True))
        return sum(others, start=first)

    @torch.no_grad()
    def _counts(self, targets: Tensor, extra: Tensor | None) -> list[Tensor]:
        """What each mean of the loss divides by, over all parts and processes; the scores do not matter for it."""
        rows, labels = targets.shape
        shape = (rows, labels) if self.loss.heads == 1 else (rows, self.loss.heads, labels)
        zeros = torch.zeros(shape, device=targets.device)
        terms = self.loss.terms(self.loss.check(zeros, targets, extra))
        counts = [torch.as_tensor(term.count, dtype=torch.float64, device=targets.device).clone() for term in terms]
        return [self.context.total(count).float() for count in counts]

    def _second_pass(self, parts: Sequence[Batch], step: int) -> Tensor:
        targets, rows = torch.cat([part.targets for part in parts]), torch.cat([part.rows for part in parts])
        extra = self._extra(targets, rows, step)
        with torch.no_grad(), frozen_buffers(self.network):
            outputs = torch.cat([self._forward(self.plain, part, step, i) for i, part in enumerate(parts)])
        outputs.requires_grad_()
        value: Tensor = self.global_loss(outputs, targets, extra)
        self._backward(value)
        assert outputs.grad is not None
        slopes = outputs.grad.split([len(part.rows) for part in parts])
        for index, (part, slope) in enumerate(zip(parts, slopes, strict=True)):
            with self._no_sync(last=index == len(parts) - 1):
                torch.autograd.backward(self._forward(self.synced, part, step, index), slope)
        return value.detach()

    def _forward(self, network: Any, batch: Batch, step: int, part: int) -> Tensor:
        seed_generators(self.context.device, mix_seeds(self.seed, STEP, step, self.context.rank, part))
        with self.context.autocast():
            outputs: Tensor = network(batch.inputs)
        return outputs

    def _backward(self, value: Tensor) -> None:
        scaler = self.context.scaler
        (value if scaler is None else scaler.scale(value)).backward()

    def _no_sync(self, *, last: bool) -> AbstractContextManager[Any]:
        """Gradients travel between processes once a step, with the last part."""
        waits: AbstractContextManager[Any] = nullcontext() if last or self.context.world == 1 else self.synced.no_sync()
        return waits

    def _extra(self, targets: Tensor, rows: Tensor, step: int) -> Tensor | None:
        """What the loss takes besides scores and targets: row numbers, or noise that does not depend on the parts."""
        if isinstance(self.loss, NoisedTopKLoss):
            seed_generators(self.context.device, mix_seeds(self.seed, LOSS, step, self.context.rank))
            return self.loss.draw(torch.empty(targets.shape, device=targets.device))
        return rows if self.loss.extra == "rows" else None
