"""Training and evaluation mode, and batch normalisation with the statistics of all processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def train_mode(network: nn.Module) -> None:
    """Puts the network in training mode, but for modules whose parameters are all frozen.

    A frozen BatchNorm would go on moving its statistics, and frozen features would come out of a dropout.
    """
    network.train()
    for module in network.modules():
        parameters = list(module.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            module.eval()


class _SumWithGradient(torch.autograd.Function):
    """Sum over processes whose gradient is the sum of the gradients of all processes."""

    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        total = local.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.contiguous().clone()
        dist.all_reduce(total)
        return total


class GlobalBatchNorm(_BatchNorm):
    """BatchNorm with the statistics of all processes, on any backend; torch's own needs GPUs.

    A process may hold one row or none.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        """Any shape (N, C, ...) will do, as the module that this one stands for has checked its own."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalises channels by the mean and variance of the rows of all processes."""
        if not self.training:
            return super().forward(input)
        axes = [axis for axis in range(input.ndim) if axis != 1]
        upcast = input.float() if input.dtype in (torch.bfloat16, torch.float16) else input
        count = upcast.new_tensor([upcast.numel() / max(1, upcast.shape[1])])
        sums = torch.cat([count, upcast.sum(axes)])
        total: Tensor = _SumWithGradient.apply(sums)  # type: ignore[no-untyped-call]
        rows, shape = total[0].detach().clamp(min=1), [1, -1, *[1] * (input.ndim - 2)]
        mean = total[1:] / rows
        centred = upcast - mean.view(shape)
        variance: Tensor = _SumWithGradient.apply(centred.square().sum(axes)) / rows  # type: ignore[no-untyped-call]
        self._track(mean.detach(), variance.detach() * rows / (rows - 1).clamp(min=1))
        normalised = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            normalised = normalised * self.weight.view(shape) + self.bias.view(shape)
        return normalised.to(input.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


@contextmanager
def global_statistics(network: nn.Module, *, processes: int) -> Iterator[None]:
    """For a while, every BatchNorm of the network takes its statistics over all processes.

    The stand-ins share parameters and statistics with the modules that they stand for, which return in the end.
    """
    replaced: list[tuple[nn.Module, str, nn.Module]] = []
    for parent in list(network.modules()) if processes > 1 else []:
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm) and not isinstance(child, nn.SyncBatchNorm):
                replaced.append((parent, name, child))
                setattr(parent, name, _replacement(child))
    try:
        yield
    finally:
        for parent, name, child in replaced:
            child.training = getattr(parent, name).training
            setattr(parent, name, child)


def _replacement(module: _BatchNorm) -> _BatchNorm:
    on_gpu = any(tensor.is_cuda for tensor in (*module.parameters(), *module.buffers()))
    other = (nn.SyncBatchNorm if on_gpu else GlobalBatchNorm)(module.num_features)
    vars(other).update(vars(module))  # settings, and the same tensors
    return other
