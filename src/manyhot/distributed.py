"""Losses on the global batch of several processes; without a process group, as on one process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from manyhot.errors import InputError

if TYPE_CHECKING:  # metrics and commands ask for ranks alone, and importing the losses takes long
    from manyhot.links import Link
    from manyhot.losses.loss import Loss


def world_size() -> int:
    """Number of processes, 1 without a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Number of this process: of the process group, or what its launcher says before there is one; 0 when alone."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    return int(os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or 0)


class _AllReduceSum(torch.autograd.Function):
    """Sum of a tensor over processes.

    Data-parallel training averages gradients over processes, while this sum's true gradient is their sum: hence the
    factor.
    """

    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        total = local.detach().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * world_size()


class _AllGatherRows(torch.autograd.Function):
    """Rows of all processes in the order of ranks; the gradient of the own rows comes back with the factor as above."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, sizes: list[int]) -> Tensor:
        rank = dist.get_rank()
        ctx.start, ctx.stop = sum(sizes[:rank]), sum(sizes[: rank + 1])
        # Not every backend gathers tensors of different sizes, so they travel padded to the largest.
        padded = local.new_zeros((max(sizes), *local.shape[1:]))
        padded[: local.shape[0]] = local
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad[ctx.start : ctx.stop] * world_size(), None


def gather_rows(*tensors: Tensor) -> list[Tensor]:
    """Concatenates the rows of each tensor over all processes, which may hold different numbers of rows.

    Gradients flow back to the own rows, times the number of processes, so that the average which data-parallel training
    takes is the gradient of the global batch.
    """
    if world_size() == 1:
        return list(tensors)
    own = torch.tensor([tensors[0].shape[0]], device=tensors[0].device)
    sizes = [torch.empty_like(own) for _ in range(world_size())]
    dist.all_gather(sizes, own)
    counts = [int(size) for size in sizes]
    return [_AllGatherRows.apply(tensor.contiguous(), counts) for tensor in tensors]  # type: ignore[no-untyped-call]


def gather(tensor: Tensor) -> list[Tensor]:
    """The tensors of all processes in the order of ranks, each of its own shape and type; without gradients."""
    if world_size() == 1:
        return [tensor]
    parts: list[Any] = [None] * world_size()
    dist.all_gather_object(parts, tensor.detach().cpu().numpy())
    return [torch.from_numpy(part).to(tensor.device) for part in parts]


def needs_all_rows(loss: Loss) -> bool:
    """Whether a loss must be computed of all rows at once.

    It must where a row's value depends on other rows, and where the loss has parameters, whose gradients would differ
    between processes.
    """
    return loss.mixes_rows or any(True for _ in loss.parameters())


class GlobalBatch(nn.Module):
    """A loss of the batch of all processes together: value and gradient are those of one process with the whole batch.

    Plain data-parallel training averages the losses of the processes, which is another number as soon as they hold
    different counts of rows, labels or known cells, or the loss compares rows. Here sums and counts are added up over
    processes where a loss is a mean over rows or cells, and rows are gathered where it mixes rows. Processes may hold
    batches of different sizes, also empty ones. The gradient is scaled for `DistributedDataParallel`, which averages
    over processes.

    Args:
        loss: Any loss that returns one number.

    Example:
        >>> import manyhot
        >>> loss = GlobalBatch(manyhot.TwoWayLoss())  # without a process group: the loss itself
        >>> loss(torch.tensor([[2.0, 0.0]]), torch.tensor([[1, 0]]))
        tensor(0.1269)
    """

    def __init__(self, loss: Loss) -> None:
        from manyhot.losses import Loss

        super().__init__()
        if not isinstance(loss, Loss) or loss.reduction == "none":
            got = f"{type(loss).__name__}{' with reduction none' if isinstance(loss, Loss) else ''}"
            raise InputError("loss", "GlobalBatch", "be a manyhot loss that returns one number", got, "Take its mean.")
        self.loss = loss

    @property
    def link(self) -> Link:
        """The link of the loss."""
        return self.loss.link

    def forward(self, scores: Tensor, targets: Tensor, extra: Tensor | None = None) -> Tensor:
        """The loss of the global batch, the same number on every process."""
        if world_size() == 1:
            return self.loss(scores, targets, extra)
        if needs_all_rows(self.loss):
            # In the type of the scores, because not every backend sends every type of integer.
            tensors = [scores, targets.to(scores.dtype)] + ([] if extra is None else [extra])
            return self.loss(*gather_rows(*tensors))
        from manyhot.losses.loss import Term

        batch = self.loss.check(scores, targets, extra)
        own = [number for term in self.loss.terms(batch) for number in (term.values.sum(), term.count)]
        total: Tensor = _AllReduceSum.apply(torch.stack([torch.as_tensor(number).to(batch.scores) for number in own]))  # type: ignore[no-untyped-call]
        return self.loss.reduce([Term(value, count.detach()) for value, count in total.view(-1, 2)])
