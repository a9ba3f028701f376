"""Which rows a step sees and what it draws: functions of seed and step alone, so that a break leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

Rows = np.ndarray[Any, Any]

# Each thing that is drawn has a stream of its own, so that none shifts another.
ORDER, STEP, LOSS = 1, 2, 3
_BITS = 2**64 - 1


def mixed(*numbers: int) -> int:
    """One seed from several numbers; neighbours give unrelated ones (the finaliser of splitmix64)."""
    state = 0
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


def steps_of_epoch(rows: int, batch_size: int) -> int:
    """How many batches an epoch has; the last one may be smaller."""
    return -(-rows // batch_size)


def order_of_epoch(rows: int, *, seed: int, epoch: int) -> Rows:
    """(N,) every row once, in the order of this epoch."""
    generator = torch.Generator().manual_seed(mixed(seed, ORDER, epoch))
    order: Rows = torch.randperm(rows, generator=generator).numpy()
    return order


def parts_of_batch(batch: Rows, accumulate: int) -> list[Rows]:
    """The batch in at most so many parts, none of them empty."""
    return [batch] if accumulate == 1 else [part for part in np.array_split(batch, accumulate) if len(part)]


def groups_of_epoch(
    order: Rows, *, batch_size: int, accumulate: int, skip: int = 0, rank: int = 0, world: int = 1
) -> Iterator[Any]:
    """The rows of this process, part by part, after the first `skip` batches.

    Every process takes every `world`-th row of each part, so that all of them together see each row once.
    """
    for start in range(skip * batch_size, len(order), batch_size):
        for part in parts_of_batch(order[start : start + batch_size], accumulate):
            yield part[rank::world]
