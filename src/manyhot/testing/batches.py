"""Batches on which losses are tested: random ones and edge cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class LossCase:
    """A loss under test.

    Args:
        make: Builds a fresh loss for targets (N, K). Most losses need no targets and ignore them.
        aligned: Further arguments of the loss, one entry per row, from the targets; they must not depend on chance.
        single_label: Whether rows carry at most one label; taken from the loss by default.
        heads: How many heads the scores come from; taken from the loss by default.
        any_number_of_labels: Whether the loss can be tested on other numbers of labels than 5.
        value_is_potential: Whether the gradient is the derivative of the value. It is not where a part of the loss is
            held constant on purpose.
        device: The device to test on.
        dtype: The type of the scores; float64 has the tightest tolerance.
    """

    make: Callable[[Tensor], nn.Module]
    aligned: Callable[[Tensor], tuple[Tensor, ...]] = lambda targets: ()
    single_label: bool | None = None
    heads: int | None = None
    any_number_of_labels: bool = True
    value_is_potential: bool = True
    device: str = "cpu"
    dtype: torch.dtype = torch.float64

    @property
    def tolerance(self) -> float:
        """How far results in this type may differ when they should be the same."""
        return {torch.float64: 1e-10, torch.float32: 2e-5}.get(self.dtype, 2e-2)

    def build(self, targets: Tensor) -> nn.Module:
        """A fresh loss on the device; its parameters in the type of the scores where that is not half precision."""
        loss = self.make(targets).to(self.device)
        return loss.to(self.dtype) if self.dtype in (torch.float32, torch.float64) else loss

    def one_label(self) -> bool:
        """Whether rows carry at most one label."""
        if self.single_label is not None:
            return self.single_label
        return bool(getattr(self.make(torch.zeros(1, 4, dtype=torch.int8)), "single_label", False))

    def num_heads(self) -> int:
        """How many heads the scores come from."""
        return self.heads if self.heads is not None else int(getattr(self.make(torch.zeros(1, 4)), "heads", 1))

    def evaluate(
        self, example: Example, loss: nn.Module | None = None, *, aligned: tuple[Tensor, ...] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Value and gradient by the scores, for a fresh loss or a given one."""
        loss = self.build(example.targets) if loss is None else loss
        scores = example.scores.to(self.device, self.dtype).detach().requires_grad_()
        targets = example.targets.to(self.device)
        aligned = self.aligned(example.targets) if aligned is None else aligned
        value: Tensor = loss(scores, targets, *(extra.to(self.device) for extra in aligned))
        if not value.requires_grad:
            raise AssertionError(f"the loss of {example.name} is not attached to the graph")
        (gradient,) = torch.autograd.grad(value, scores)
        return value.detach(), gradient


class Example(NamedTuple):
    """A named batch."""

    name: str
    scores: Tensor
    targets: Tensor


def loss_example(
    case: LossCase, rows: int = 6, labels: int = 5, *, unknown: float = 0.2, scale: float = 2.0, seed: int = 0
) -> Example:
    """A random batch with a row without labels, and one with all of them unless rows carry one label."""
    draw = torch.Generator().manual_seed(seed)
    shape = (rows, labels) if case.num_heads() == 1 else (rows, case.num_heads(), labels)
    scores = torch.randn(shape, generator=draw, dtype=torch.float64) * scale
    if case.one_label():
        chosen = torch.randint(labels, (rows, 1), generator=draw)
        targets = torch.zeros(rows, labels, dtype=torch.int8).scatter_(1, chosen, 1)
    else:
        targets = (torch.rand(rows, labels, generator=draw) < 0.4).to(torch.int8)
        targets[1:2] = 1
    targets[:1] = 0
    hidden = torch.rand(rows, labels, generator=draw) < unknown
    hidden[:2] = False
    return Example("a random batch", scores, torch.where(hidden, -1, targets).to(torch.int8))


def loss_edges(case: LossCase) -> Iterator[Example]:
    """Batches at the edges: nothing in them, one of everything, all present, all absent, all unknown, all equal."""
    base = loss_example(case, unknown=0.0)
    scores, targets = base.scores, base.targets
    one_label = targets * (targets.cumsum(1) == 1)
    yield Example("no rows", scores[:0], targets[:0])
    yield Example("one row", scores[2:3], targets[2:3])
    yield Example("rows without labels", scores, torch.zeros_like(targets))
    yield Example("unknown cells only", scores, torch.full_like(targets, -1))
    yield Example("ties", torch.zeros_like(scores), targets)
    yield Example("one column never known", scores, targets.index_fill(1, torch.tensor([2]), -1))
    if case.one_label():
        yield Example("the same label in all rows", scores, one_label[2:3].expand_as(targets))
    else:
        yield Example("rows with all labels", scores, torch.ones_like(targets))
    if case.any_number_of_labels:
        narrow = loss_example(case, rows=4, labels=1, unknown=0.0, seed=2)
        yield Example("one label", narrow.scores, narrow.targets)
        wide = loss_example(case, rows=4, labels=12, unknown=0.0, seed=1)
        yield Example("more labels than rows", wide.scores, wide.targets)


def transposed(batch: Example) -> Example:
    """The same numbers in another order in memory."""
    return batch._replace(scores=batch.scores.mT.contiguous().mT, targets=batch.targets.mT.contiguous().mT)


def loss_extremes(case: LossCase) -> Iterator[Example]:
    """Scores of +-1e4, for and against the targets, and mixed."""
    base = loss_example(case, unknown=0.1)
    known = base.targets.clamp(min=0).to(torch.float64)
    signs = (2 * known - 1) if base.scores.ndim == 2 else (2 * known - 1).unsqueeze(1).expand_as(base.scores)
    yield Example("scores of 1e4 for the targets", 1e4 * signs, base.targets)
    yield Example("scores of 1e4 against the targets", -1e4 * signs, base.targets)
    yield Example("scores of 1e4 at random", 1e4 * base.scores.sign(), base.targets)
    yield Example("all scores 1e4", torch.full_like(base.scores, 1e4), base.targets)
    yield Example("all scores -1e4", torch.full_like(base.scores, -1e4), base.targets)
