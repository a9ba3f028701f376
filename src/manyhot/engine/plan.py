"""How to train: everything about a run but the data, the network and the loss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from manyhot.checks import (
    Check,
    check_choice,
    check_count,
    check_fields,
    check_flag,
    check_number,
    check_text,
    or_none,
)
from manyhot.refusal import refusal

OPTIMIZERS = ("adamw", "sgd")
SCHEDULES = ("cosine", "step", "one-cycle", "constant")
PRECISIONS = ("32", "bf16", "16")
ACCELERATORS = ("auto", "cpu", "cuda", "mps")
# Strategies that split their weights over processes would need checkpoints of another kind.
STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true")


@dataclass(frozen=True)
class Plan:
    """Everything that decides how a network is fitted; two runs with the same plan and data give the same weights.

    Attributes:
        epochs: Passes over the data.
        batch_size: Rows of one step, over all processes and all accumulated parts together.
        accumulate: In how many parts a step is computed, where a whole batch does not fit.
        optimizer: "adamw" or "sgd" (with Nesterov momentum 0.9).
        lr: Learning rate of the backbone, at its highest.
        head_lr: Learning rate of the head and of a loss's own parameters; that of the backbone by default.
        weight_decay: Of weights; biases, scales and losses' own parameters are not decayed.
        schedule: "cosine", "step", "one-cycle" or "constant".
        warmup: Share of the steps in which the learning rate rises to its full height.
        milestones: For "step": after which shares of the run the rate falls.
        drop: For "step": the factor by which it falls.
        ema: Decay of the running average of the weights, which is what gets judged and kept; None for none.
        clip: Longest gradient that is applied as it is; None for no limit.
        patience: Stop after this many epochs without a better value of `monitor`; None to train all epochs.
        monitor: The figure that decides which epoch was best.
        checkpoint_minutes: A checkpoint is written after each epoch, and within epochs this often.
        seed: Of everything that is drawn.
        precision: "32", "bf16" or "16".
        accelerator: "auto", "cpu", "cuda" or "mps".
        devices: How many devices of one machine, or "auto".
        nodes: How many machines.
        strategy: As Lightning Fabric calls it; "auto" fits one and many devices.
        compile: Whether to compile the network.
        tensorboard: Whether to log to TensorBoard too.

    Example:
        >>> Plan(epochs=3, lr=0.01).schedule
        'cosine'
        >>> Plan(schedule="cosin")
        Traceback (most recent call last):
        manyhot.refusal.Refusal: `schedule` of `Plan` must be one of 'cosine', 'step', 'one-cycle', 'constant';
            got 'cosin'. Did you mean 'cosine'?
    """

    epochs: int = 20
    batch_size: int = 256
    accumulate: int = 1
    optimizer: str = "adamw"
    lr: float = 1e-3
    head_lr: float | None = None
    weight_decay: float = 0.01
    schedule: str = "cosine"
    warmup: float = 0.05
    milestones: tuple[float, ...] = (0.5, 0.75)
    drop: float = 0.1
    ema: float | None = None
    clip: float | None = None
    patience: int | None = None
    monitor: str = "mAP"
    checkpoint_minutes: float = 5.0
    seed: int = 0
    precision: str = "32"
    accelerator: str = "auto"
    devices: int | str = "auto"
    nodes: int = 1
    strategy: str = "auto"
    compile: bool = False
    tensorboard: bool = False

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)


def check_devices(argument: str, owner: str, value: Any) -> int | str:
    """Returns a number of devices or "auto"."""
    return "auto" if value == "auto" else check_count(argument, owner, value, low=1)


def check_milestones(argument: str, owner: str, value: Any) -> tuple[float, ...]:
    """Returns rising shares of a run."""
    try:
        shares = tuple(float(share) for share in value)
    except (TypeError, ValueError):
        shares = (-1.0,)
    if list(shares) != sorted(set(shares)) or not all(0 < share < 1 for share in shares):
        rule = "be rising shares of the run, each between 0 and 1"
        raise refusal(argument, owner, rule, repr(value), "Pass, for example, (0.5, 0.75).")
    return shares


_positive = partial(check_number, low=0, low_open=True)
_at_least_one = partial(check_count, low=1)

CHECKS: dict[str, Check] = {
    "epochs": _at_least_one,
    "batch_size": _at_least_one,
    "accumulate": _at_least_one,
    "optimizer": partial(check_choice, choices=OPTIMIZERS),
    "lr": _positive,
    "head_lr": or_none(_positive),
    "weight_decay": partial(check_number, low=0),
    "schedule": partial(check_choice, choices=SCHEDULES),
    "warmup": partial(check_number, low=0, high=1, high_open=True),
    "milestones": check_milestones,
    "drop": partial(check_number, low=0, high=1, low_open=True),
    "ema": or_none(partial(check_number, low=0, high=1, low_open=True, high_open=True)),
    "clip": or_none(_positive),
    "patience": or_none(_at_least_one),
    "monitor": check_text,
    "checkpoint_minutes": _positive,
    "seed": partial(check_count, low=0),
    "precision": partial(check_choice, choices=PRECISIONS),
    "accelerator": partial(check_choice, choices=ACCELERATORS),
    "devices": check_devices,
    "nodes": _at_least_one,
    "strategy": partial(check_choice, choices=STRATEGIES),
    "compile": check_flag,
    "tensorboard": check_flag,
}
