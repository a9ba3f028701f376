"""How to train: everything about a run but the data, the network and the loss."""

from __future__ import annotations

from dataclasses import dataclass

from manyhot.checks import check_choice, check_count, check_number
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
            got 'cosin'. Pick one of these.
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
        for name in ("epochs", "batch_size", "accumulate", "nodes"):
            check_count(name, "Plan", getattr(self, name), low=1)
        check_count("seed", "Plan", self.seed, low=0)
        if self.patience is not None:
            check_count("patience", "Plan", self.patience, low=1)
        if self.devices != "auto":
            check_count("devices", "Plan", self.devices, low=1)
        check_choice("optimizer", "Plan", self.optimizer, OPTIMIZERS)
        check_choice("schedule", "Plan", self.schedule, SCHEDULES)
        check_choice("precision", "Plan", self.precision, PRECISIONS)
        check_choice("accelerator", "Plan", self.accelerator, ACCELERATORS)
        check_choice("strategy", "Plan", self.strategy, STRATEGIES)
        self._check_numbers()
        self._check_milestones()

    def _check_numbers(self) -> None:
        for name in ("lr", "head_lr", "clip", "checkpoint_minutes"):
            if getattr(self, name) is not None:
                check_number(name, "Plan", getattr(self, name), low=0, low_open=True)
        check_number("weight_decay", "Plan", self.weight_decay, low=0)
        check_number("warmup", "Plan", self.warmup, low=0, high=1, high_open=True)
        check_number("drop", "Plan", self.drop, low=0, high=1, low_open=True)
        if self.ema is not None:
            check_number("ema", "Plan", self.ema, low=0, high=1, low_open=True, high_open=True)

    def _check_milestones(self) -> None:
        try:
            shares = tuple(float(share) for share in self.milestones)
        except (TypeError, ValueError):
            shares = (-1.0,)
        if list(shares) != sorted(set(shares)) or not all(0 < share < 1 for share in shares):
            rule = "be rising shares of the run, each between 0 and 1"
            raise refusal("milestones", "Plan", rule, repr(self.milestones), "Pass, for example, (0.5, 0.75).")
        object.__setattr__(self, "milestones", shares)
