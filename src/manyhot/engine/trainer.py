"""The training loop: `fit`, the trainer of one run, and stopping by a signal."""

from __future__ import annotations

import itertools
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from manyhot.checks import describe_type
from manyhot.data.loading import Batch, Batches
from manyhot.engine.batchnorm import global_statistics, train_mode
from manyhot.engine.checkpoint import (
    Checkpoint,
    CheckpointStore,
    optimizer_tensors,
    restore_optimizer,
    run_fingerprint,
)
from manyhot.engine.devices import DeviceContext, open_device_context
from manyhot.engine.gradients import ExactGradients
from manyhot.engine.history import EpochRecord, LossTrace
from manyhot.engine.optim import (
    STEP,
    WeightAverage,
    build_optimizer,
    copy_into,
    groups_of_epoch,
    lr_factor,
    mix_seeds,
    mutable_state,
    order_of_epoch,
)
from manyhot.engine.progress import NoProgress, Progress, default_progress
from manyhot.engine.validation import LOG_LOSS, MetricFunction, StandardMetrics, check_monitor, is_better, score
from manyhot.errors import InputError
from manyhot.losses.loss import Loss
from manyhot.network import Network
from manyhot.settings import FitSettings


@dataclass(frozen=True)
class FitResult:
    """A trained network, its loss and its history.

    Attributes:
        network: With the weights to keep: those of the best epoch where there was a validation, otherwise the last; the
            running average where the settings ask for one. In evaluation mode, on the device where it was trained.
        loss: With its own state of the same moment.
        history: What was measured in each epoch, by name.
        best_epoch: The best epoch by the monitored metric, from 1; None without validation data.
        best_value: The monitored metric of that epoch.
        diagnostics: What the loss reported of itself at some hundred steps, a dict for each; nothing for most losses.
    """

    network: Network
    loss: Loss
    history: list[EpochRecord]
    best_epoch: int | None
    best_value: float | None
    diagnostics: list[dict[str, Any]]


def fit(
    network: Network,
    loss: Loss,
    train: Batches,
    *,
    settings: FitSettings,
    val: Batches | None = None,
    folder: str | os.PathLike[str] | None = None,
    metrics: MetricFunction | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    begin: Callable[[], None] | None = None,
) -> FitResult:
    """Trains a network, in place.

    Every step is that of the loss of its whole batch, however many processes and parts share the work. What a step
    draws depends on the seed and the number of the step alone, so that a run which is broken off and goes on gives the
    same weights as one that was not.

    Args:
        network: From samples to scores; parameters that need no gradient stay as they are.
        loss: Its own parameters are trained too.
        train: The data to learn from.
        settings: How to train.
        val: The validation data, evaluated after each epoch.
        folder: Where checkpoints and tables go; nothing is written without.
        metrics: Gives figures by name from scores (N, K) and targets (N, K) of `val`; by default "mAP", and "log loss
            per row" where the loss has a link. Figures that are called a loss, an error, ECE, ACE or the like are
            better when lower, see `manyhot.engine.validation`.
        resume: Whether to go on from the checkpoint in the folder; without one, training starts from the beginning.
        progress: Shows the progress; a bar in a terminal and lines elsewhere by default.
        begin: Called by the process that writes, after all checks and before the first step.

    Example:
        >>> from manyhot.data.loading import FeatureBatches
        >>> from manyhot.data.targets import SparseTargets
        >>> data = FeatureBatches(torch.eye(4), SparseTargets.from_rows([[0], [1], [0, 1], []], num_labels=2))
        >>> from manyhot.network import Network
        >>> network = Network(None, mh.LinearHead(4, 2))
        >>> settings, loss = FitSettings(epochs=2), mh.BinaryCrossEntropyLoss()
        >>> result = fit(network, loss, data, settings=settings, val=data, progress=NoProgress())
        >>> list(result.history[0])
        ['epoch', 'steps', 'lr', 'train loss', 'mAP', 'log loss per row', 'seconds', 'samples/s']
    """
    _check_arguments(network, loss, train, val, settings)
    metrics = StandardMetrics(loss.link) if metrics is None else metrics
    val_targets = None
    if isinstance(metrics, StandardMetrics) and val is not None:
        val_targets = val.targets
        if settings.monitor == "log loss":  # its name in older settings
            settings = settings.replace(monitor=LOG_LOSS)
        check_monitor(settings.monitor, metrics.names(), "Or pass a `metrics`.")
    if folder is None and (resume or settings.tensorboard):
        argument = "resume" if resume else "tensorboard"
        raise InputError("folder", "fit", f"be given for {argument}=True", "None", "Pass the folder of the run.")
    context = open_device_context(settings)
    setting = {} if folder is None else run_fingerprint(settings, network, loss, train, val)
    store = CheckpointStore(None if folder is None else Path(folder), setting, writes=context.rank == 0)
    checkpoint, best_state = context.on_first(lambda: store.find(resume=resume, val_targets=val_targets))
    network.to(context.device)
    # Batch statistics of all processes, and generators that are afterwards as they were.
    generators = torch.random.fork_rng(devices=[context.device] if context.device.type == "cuda" else [])
    with generators, global_statistics(network, processes=context.world), StopSignals() as signals:
        display = NoProgress() if context.rank else progress or default_progress()
        trainer = Trainer(network, loss, train, val, metrics, settings, context, store, display, signals)
        if begin is not None and context.rank == 0:
            begin()
        if checkpoint is not None:
            trainer.restore(checkpoint, best_state)
        trainer.run()
    network.eval()
    loss.eval()
    state, (_, diagnostics) = trainer.state, trainer.trace.table()
    return FitResult(network, loss, state.history, state.best_epoch, state.best_value, diagnostics)


def _check_arguments(network: Network, loss: Loss, train: Batches, val: Batches | None, settings: FitSettings) -> None:
    """Raises an error for invalid arguments, before anything is started."""
    kinds = {
        "network": (network, Network),
        "loss": (loss, Loss),
        "train": (train, Batches),
        "settings": (settings, FitSettings),
    }
    for name, (value, kind) in kinds.items():
        if not isinstance(value, kind):
            hint = f"Build a `manyhot` {kind.__name__}."
            raise InputError(name, "fit", f"be a `{kind.__name__}`", describe_type(value), hint)
    if not len(train):
        raise InputError("train", "fit", "have rows", "none", "Pass other data.")
    if val is not None and not len(val):
        raise InputError("val", "fit", "have rows", "none", "Pass other data, or leave it out.")
    if val is None and settings.patience is not None:
        raise InputError("val", "fit", "be given where the settings have `patience`", "None", "Pass validation data.")
    if loss.reduction == "none":
        raise InputError("loss", "fit", "return one number", "reduction='none'", "Build it with reduction='mean'.")


# Losses are read from the device this many steps at a time, because reading makes it wait.
READ_EVERY = 100
SHOW_EVERY_SECONDS = 0.25


class NotFinite(ArithmeticError):
    """The loss or the weights are no longer numbers; the message says where and what to do."""


@dataclass
class TrainerState:
    """The state of a run.

    Attributes:
        epoch: Which one is being trained, from 0.
        step: How many of its steps are done.
        loss_sum: Of the losses of these steps, times their rows.
        rows: Of these steps together.
        seconds: That these steps took.
        history: The figures of the epochs that are over.
        best_epoch: The best epoch by the monitored metric, from 1.
        best_value: The monitored metric of that epoch.
        over: Whether training is finished.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    rows: int = 0
    seconds: float = 0.0
    history: list[EpochRecord] = field(default_factory=list)
    best_epoch: int | None = None
    best_value: float | None = None
    over: bool = False


@dataclass
class Trainer:
    """The loop over epochs and steps.

    Attributes:
        network: On the device of the context.
        loss: Moved there.
        train: The training data.
        val: The validation data, evaluated after each epoch.
        metrics: Computes the metrics of the validation data.
        settings: How to train.
        context: Device and processes.
        store: Writes checkpoints and tables.
        progress: Shows the progress.
        signals: Requests to stop.
    """

    network: Network
    loss: Loss
    train: Batches
    val: Batches | None
    metrics: MetricFunction
    settings: FitSettings
    context: DeviceContext
    store: CheckpointStore
    progress: Progress
    signals: StopSignals

    def __post_init__(self) -> None:
        network, loss, settings, context = self.network, self.loss.to(self.context.device), self.settings, self.context
        if context.world > 1:
            for tensor in (*loss.parameters(), *loss.buffers()):
                dist.broadcast(tensor.data, 0)
        self.optimizer = build_optimizer(network, loss, settings, context.device)
        self.parameters = [p for p in (*network.parameters(), *loss.parameters()) if p.requires_grad]
        self.gradients = ExactGradients(network, loss, context, settings)
        self.average = WeightAverage(network, settings.ema)
        self.steps = math.ceil(len(self.train) / settings.batch_size)
        self.total = settings.epochs * self.steps
        self.trace = LossTrace(loss, self.total)
        self.state, self.best_state = TrainerState(), dict[str, Tensor]()
        # Step, loss and rows of the steps whose losses are not read yet.
        self.pending: list[tuple[int, Tensor, int]] = []
        self.nonfinite_step: int | None = None
        self.next_show = self.next_save = self.clock = 0.0

    @property
    def done(self) -> int:
        """Steps of the whole run that are done."""
        return self.state.epoch * self.steps + self.state.step

    def run(self) -> None:
        """Trains until all epochs are over, or the run is stopped; then loads the weights to keep."""
        if not self.state.over:
            self._run_epochs()
        if self.state.best_epoch is not None:
            copy_into(self.best_state, self._weights())
        else:
            copy_into(self.average.state, self.average.live)

    def restore(self, checkpoint: Checkpoint, best_state: Mapping[str, Tensor]) -> None:
        """Resumes from a checkpoint."""
        copy_into(checkpoint.tensors, self._weights())
        restore_optimizer(self.optimizer, checkpoint.of("optimizer"))
        self.gradients.scaler.load_state_dict(checkpoint.metadata["scaler"])
        copy_into(checkpoint.of("average"), self.average.state)
        self.average.updates = checkpoint.metadata["averaged"]
        self.trace.restore(checkpoint.of("trace"))
        self.state, self.best_state = TrainerState(**checkpoint.metadata["position"]), dict(best_state)
        self.store.write_tables(self.state.history, self.trace)

    def _run_epochs(self) -> None:
        settings, parts = self.settings, self.settings.accumulate
        if settings.tensorboard:
            self.store.open_tensorboard(steps=self.done)
        self.progress.start(done=self.done, total=self.total, epochs=settings.epochs)
        try:
            if parts > 1 and any(isinstance(module, _BatchNorm) for module in self.network.modules()):
                text = "BatchNorm takes its statistics from each of the accumulated parts, not from the whole batch."
                self.progress.note(text)
            self.next_save = time.monotonic() + 60 * settings.checkpoint_minutes
            while not self.state.over:
                self._train_epoch()
                self._end_epoch()
        finally:
            self.progress.end()
            self.store.close()

    def _train_epoch(self) -> None:
        state, settings, rank = self.state, self.settings, self.context.rank
        train_mode(self.network)
        self.loss.train()
        order = order_of_epoch(len(self.train), seed=settings.seed, epoch=state.epoch)
        order = order[state.step * settings.batch_size :]
        groups = groups_of_epoch(order, settings.batch_size, settings.accumulate, self.context.share)
        # Of all steps and parts at once, because a step on small data takes no longer than a few such hashes.
        steps = np.arange(self.done, (state.epoch + 1) * self.steps, dtype=np.uint64)[:, None]
        seeds = mix_seeds(settings.seed, STEP, steps, rank, np.arange(settings.accumulate, dtype=np.uint64)).tolist()
        self.clock = time.monotonic()
        loaded = self.train.load(groups, epoch=state.epoch)
        try:
            for seeds_of_step in seeds:
                self._step(self._next_parts(loaded), seeds_of_step)
        finally:
            if hasattr(loaded, "close"):  # so that worker processes end now and not with the garbage
                loaded.close()

    def _next_parts(self, loaded: Iterator[Batch]) -> list[Batch]:
        """The parts of the next batch, on the device."""
        settings, device = self.settings, self.context.device
        remaining = len(self.train) - self.state.step * settings.batch_size
        num_parts = min(settings.accumulate, settings.batch_size, remaining)
        parts = [
            Batch(inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True), numbers)
            for inputs, targets, numbers in itertools.islice(loaded, num_parts)
        ]
        if len(parts) < num_parts:
            hint = "Yield a batch for every group, also where none of its rows can be read."
            raise InputError("train", "fit", "give one batch for each group of rows", "fewer", hint)
        return parts

    def _step(self, parts: list[Batch], seeds: list[int]) -> None:
        """One step, unless there is no row in it on any process, and what is due after it."""
        state, done = self.state, self.done
        stop, *sizes = self.context.totals(int(self.signals.requested), *[part.rows.numel() for part in parts])
        parts = [part for part, size in zip(parts, sizes, strict=True) if size]
        if parts:
            self.pending.append((state.step, self._update(parts, seeds, done), sum(sizes)))
            self.trace.record(done + 1)
        state.step += 1
        if state.step % READ_EVERY == 0 or state.step == self.steps or stop:
            self._check_finite()
        now = time.monotonic()
        if now >= self.next_show:
            self.next_show = now + SHOW_EVERY_SECONDS
            self._read_losses()
            self.progress.step(self.done, epoch=state.epoch + 1, loss=state.loss_sum / max(1, state.rows))
        if stop or now >= self.next_save:
            self._save()
        if stop:
            raise Stopped(self._stop_message())

    def _update(self, parts: list[Batch], seeds: list[int], step: int) -> Tensor:
        """Changes the weights by the batch whose parts these are; returns the loss."""
        scaler, factor = self.gradients.scaler, lr_factor(self.settings, step, self.total)
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * factor
        value = self.gradients(parts, seeds, step)
        if self.settings.clip is not None:
            scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
        scaler.step(self.optimizer)
        scaler.update()
        for parameter in self.parameters:  # as `zero_grad` does, which takes its time to do it
            parameter.grad = None
        self.average.update()
        return value

    def _read_losses(self) -> None:
        """Adds the losses since the last time to those of the epoch, and notes the first that is not a number."""
        now, state = time.monotonic(), self.state
        state.seconds, self.clock = state.seconds + now - self.clock, now
        values = torch.stack([value for _, value, _ in self.pending]).tolist() if self.pending else []
        for (step, _, rows), value in zip(self.pending, values, strict=True):
            state.loss_sum += value * rows
            state.rows += rows
            if self.nonfinite_step is None and not math.isfinite(value):
                self.nonfinite_step = step
        self.pending.clear()

    def _weights_are_finite(self) -> bool:
        # A sum takes a tenth of the time, and is finite only where all weights are; that of large ones may overflow.
        sums = torch.stack([parameter.detach().sum() for parameter in self.parameters])
        return bool(sums.isfinite().all()) or all(bool(parameter.isfinite().all()) for parameter in self.parameters)

    def _check_finite(self) -> None:
        self._read_losses()
        if self.nonfinite_step is not None:
            what, step = "The loss was not finite in", self.nonfinite_step + 1
        elif not self._weights_are_finite():  # a finite loss may have an infinite slope
            what, step = "The weights were not finite after", self.state.step
        else:
            return
        hint = "The last checkpoint is from before. " if self.store.last_exists() else ""
        raise NotFinite(
            f"{what} epoch {self.state.epoch + 1}, step {step} of {self.steps}. "
            f"{hint}Lower `lr`, set `clip`, or take precision 'bf16' or '32'; see that no input is NaN."
        )

    def _end_epoch(self) -> None:
        state, settings = self.state, self.settings
        if not state.rows:
            hint = "See that the files are there and are images."
            raise InputError("train", "fit", "have rows that can be read", "none", hint)
        training_seconds, figures = state.seconds, self._validate()
        record: EpochRecord = {
            "epoch": state.epoch + 1,
            "steps": self.done,
            "lr": self.optimizer.param_groups[0]["peak"] * lr_factor(settings, self.done - 1, self.total),
            "train loss": state.loss_sum / state.rows,
            **figures,
            "seconds": state.seconds + time.monotonic() - self.clock,
            "samples/s": state.rows / max(training_seconds, 1e-9),
        }
        state.history.append(record)
        self.clock = time.monotonic()
        self.state = state = replace(state, epoch=state.epoch + 1, step=0, loss_sum=0.0, rows=0, seconds=0.0)
        waited = state.epoch - (state.best_epoch or 0)
        state.over = state.epoch == settings.epochs or (settings.patience is not None and waited >= settings.patience)
        self._save()
        self.store.log_epoch(record)
        self.progress.epoch(record)
        if self.context.totals(int(self.signals.requested))[0] and not state.over:
            raise Stopped(self._stop_message())

    def _validate(self) -> dict[str, float]:
        """The metrics of the validation data, by which the best weights are kept; with the average where there is one.

        They are computed on one process, because a metric may draw random numbers.
        """
        if self.val is None:
            return {}
        if time.monotonic() >= self.next_save:
            self._save()
        state, monitor = self.state, self.settings.monitor
        rows_at_once = max(1, self.settings.batch_size // self.settings.accumulate)
        with self.average.swapped_in():
            scores, rows = score(self.network, self.val, batch_size=rows_at_once, settings=self.context)
            targets = self.val.targets.dense(rows)
            figures = self.context.on_first(
                lambda: {name: float(v) for name, v in self.metrics(scores, targets).items()}
            )
            check_monitor(monitor, figures, "Pick one.")
            if is_better(monitor, figures[monitor], state.best_value):
                state.best_epoch, state.best_value = state.epoch + 1, figures[monitor]
                self.best_state = {name: value.to("cpu", copy=True) for name, value in self._weights().items()}
                self.store.save_best(state.epoch + 1, self.best_state)
        return figures

    def _save(self) -> None:
        """Writes a checkpoint where this process writes any, unless the weights are spoilt."""
        self._read_losses()
        if self.store.writes and self.nonfinite_step is None and self._weights_are_finite():
            tensors = self._weights() | _prefixed(
                optimizer=optimizer_tensors(self.optimizer), average=self.average.state, trace=self.trace.state()
            )
            others = {"scaler": self.gradients.scaler.state_dict(), "averaged": self.average.updates}
            self.store.save(tensors, {"position": vars(self.state), **others}, self.trace)
        self.next_save = time.monotonic() + 60 * self.settings.checkpoint_minutes

    def _weights(self) -> dict[str, Tensor]:
        """What is trained, and the other state of network and loss; views of their own memory."""
        return _prefixed(network=mutable_state(self.network), loss=self.loss.state_dict())

    def _stop_message(self) -> str:
        hint = "Go on with `resume=True`." if self.store.folder else "Nothing was kept, as no folder was given."
        return f"Stopped after step {self.done:,} of {self.total:,}. {hint}"


def _prefixed(**states: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All tensors, each under the name of its owner and its own."""
    return {f"{owner}.{name}": value for owner, state in states.items() for name, value in state.items()}


class Stopped(KeyboardInterrupt):
    """Training was asked to end and did so in good order; the message says how to go on."""


class StopSignals:
    """Notes SIGINT and SIGTERM while it is open; a second one of them acts at once, as it would have.

    A signal that the process ignores stays ignored: a shell starts background jobs so, which Ctrl-C must not end.

    Attributes:
        requested: Whether an end was asked for.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # others cannot receive signals
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
