"""The training loop: `fit`, the trainer of one run, the update of one step, and stopping by a signal."""

from __future__ import annotations

import itertools
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor

from manyhot.checks import describe_type
from manyhot.data.loading import Batch, Batches
from manyhot.engine.batchnorm import BATCH_NORMS, global_statistics, train_mode
from manyhot.engine.checkpoint import (
    Checkpoint,
    CheckpointStore,
    import_safetensors,
    optimizer_tensors,
    restore_optimizer,
    run_fingerprint,
)
from manyhot.engine.devices import DeviceContext, open_device_context
from manyhot.engine.gradients import ExactGradients
from manyhot.engine.history import EpochRecord, NormaliserTrace, TracePoint
from manyhot.engine.optim import (
    WeightAverage,
    build_optimizer,
    copy_into,
    groups_of_epoch,
    lr_factor,
    mutable_state,
    order_of_epoch,
    set_lr,
    steps_of_epoch,
)
from manyhot.engine.progress import NoProgress, Progress, default_progress
from manyhot.engine.validation import LOG_LOSS, MetricFunction, StandardMetrics, is_better, score
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
        normaliser: log C of the quasibinary loss at some hundred steps; nothing for other losses.
    """

    network: Network
    loss: Loss
    history: list[EpochRecord]
    best_epoch: int | None
    best_value: float | None
    normaliser: list[TracePoint]


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
    metrics = StandardMetrics(loss.link) if metrics is None and isinstance(loss, Loss) else metrics
    if (
        isinstance(metrics, StandardMetrics) and isinstance(settings, FitSettings) and settings.monitor == "log loss"
    ):  # older settings
        settings = settings.replace(monitor=LOG_LOSS)
    _check_arguments(network, loss, train, val, settings, metrics)
    run_folder = None if folder is None else Path(folder)
    if run_folder is None and (resume or settings.tensorboard):
        argument = "resume" if resume else "tensorboard"
        raise InputError("folder", "fit", f"be given for {argument}=True", "None", "Pass the folder of the run.")
    if run_folder is not None:
        import_safetensors()
    assert metrics is not None
    context = open_device_context(settings)
    display: Progress = NoProgress() if context.rank else progress or default_progress()
    store = CheckpointStore(
        run_folder, run_fingerprint(settings, network, loss, train, val) if run_folder else {}, writes=context.rank == 0
    )
    val_targets = val.targets if val is not None and isinstance(metrics, StandardMetrics) else None
    checkpoint, best_state = context.on_first(lambda: store.find(resume=resume, val_targets=val_targets))
    with _training_context(network, context), StopSignals() as signals:
        total = settings.epochs * steps_of_epoch(len(train), settings.batch_size)
        updater = Updater(network, loss, context, settings, total)
        trainer = Trainer(
            updater, train, val, metrics=metrics, settings=settings, store=store, progress=display, signals=signals
        )
        if begin is not None and context.rank == 0:
            begin()
        if checkpoint is not None:
            _resume(trainer, store, checkpoint, best_state)
        _run(trainer, store, display)
    network.eval()
    loss.eval()
    state = trainer.position
    return FitResult(network, loss, state.history, state.best_epoch, state.best_value, trainer.trace.points())


def _resume(trainer: Trainer, store: CheckpointStore, checkpoint: Checkpoint, best_state: dict[str, Tensor]) -> None:
    trainer.updater.restore(checkpoint)
    trainer.trace.restore(checkpoint.of("trace"))
    trainer.restore(checkpoint.metadata["position"], best_state)
    store.write_metrics(trainer.position.history, csv_only=True)
    store.write_trace(trainer.trace.points())


def _run(trainer: Trainer, store: CheckpointStore, display: Progress) -> None:
    if trainer.position.over:
        trainer.end()
        return
    if trainer.settings.tensorboard:
        store.open_tensorboard(steps=trainer.done)
    display.start(done=trainer.done, total=trainer.settings.epochs * trainer.steps, epochs=trainer.settings.epochs)
    try:
        if trainer.settings.accumulate > 1 and any(
            isinstance(module, BATCH_NORMS) for module in trainer.updater.network.modules()
        ):
            display.note("BatchNorm takes its statistics from each of the accumulated parts, not from the whole batch.")
        trainer.run()
    finally:
        display.end()
        store.close()


@contextmanager
def _training_context(network: Network, context: DeviceContext) -> Iterator[None]:
    """Batch statistics of all processes, and generators that are afterwards as they were."""
    network.to(context.device)
    gpus = [context.device] if context.device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus), global_statistics(network, processes=context.world):
        yield


def _check_arguments(
    network: Network,
    loss: Loss,
    train: Batches,
    val: Batches | None,
    settings: FitSettings,
    metrics: MetricFunction | None,
) -> None:
    """Raises an error for invalid arguments, before anything is started."""
    for name, value, kind in (
        ("network", network, Network),
        ("loss", loss, Loss),
        ("train", train, Batches),
        ("settings", settings, FitSettings),
    ):
        if not isinstance(value, kind):
            raise InputError(
                name, "fit", f"be a `{kind.__name__}`", describe_type(value), f"Build a `manyhot` {kind.__name__}."
            )
    for name, data in (("train", train), ("val", val)):
        if data is not None and not len(data):
            raise InputError(
                name,
                "fit",
                "have rows",
                "none",
                "Pass other data, or leave it out." if data is val else "Pass other data.",
            )
    if loss.reduction == "none":
        raise InputError("loss", "fit", "return one number", "reduction='none'", "Build it with reduction='mean'.")
    if val is None and settings.patience is not None:
        raise InputError("val", "fit", "be given where the settings have `patience`", "None", "Pass validation data.")
    if val is not None and isinstance(metrics, StandardMetrics) and settings.monitor not in metrics.names():
        names = ", ".join(repr(name) for name in metrics.names())
        raise InputError(
            "monitor", "FitSettings", f"be one of the figures {names}", repr(settings.monitor), "Or pass a `metrics`."
        )


# Losses are read from the device this many steps at a time, because reading makes it wait.
READ_EVERY = 50
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


class Trainer:
    """The loop over epochs and steps.

    Args:
        updater: Network, loss and optimiser.
        train: The training data.
        val: The validation data, evaluated after each epoch.
        metrics: Computes the metrics of the validation data.
        settings: How to train.
        store: Writes checkpoints and tables.
        progress: Shows the progress.
        signals: Requests to stop.
    """

    def __init__(
        self,
        updater: Updater,
        train: Batches,
        val: Batches | None,
        *,
        metrics: MetricFunction,
        settings: FitSettings,
        store: CheckpointStore,
        progress: Progress,
        signals: StopSignals,
    ) -> None:
        self.updater, self.train, self.val, self.metrics, self.settings = updater, train, val, metrics, settings
        self.store, self.progress, self.signals, self.context = store, progress, signals, updater.context
        self.steps = steps_of_epoch(len(train), settings.batch_size)
        self.position, self.best_state = TrainerState(), dict[str, Tensor]()
        self.trace = NormaliserTrace(updater.loss, settings.epochs * self.steps)
        self.pending: list[tuple[int, Tensor, int]] = []
        self.nonfinite_step: int | None = None
        self.next_show = self.next_save = self.clock = 0.0

    @property
    def done(self) -> int:
        """Steps of the whole run that are done."""
        return self.position.epoch * self.steps + self.position.step

    def restore(self, metadata: dict[str, Any], best_state: dict[str, Tensor]) -> None:
        """Resumes from a checkpoint."""
        self.position, self.best_state = TrainerState(**metadata), best_state

    def run(self) -> None:
        """Trains until all epochs are over, or the run is stopped."""
        self.next_save = time.monotonic() + 60 * self.settings.checkpoint_minutes
        while not self.position.over:
            self._train_epoch()
            self._end_epoch()
        self.end()

    def end(self) -> None:
        """Loads the best state, or the running average, into network and loss."""
        if self.position.best_epoch is not None:
            self.updater.load_snapshot(self.best_state)
        elif self.updater.average is not None:
            self.updater.load_snapshot(self.updater.snapshot())

    def _train_epoch(self) -> None:
        state, settings = self.position, self.settings
        train_mode(self.updater.network)
        self.updater.loss.train()
        order = order_of_epoch(len(self.train), seed=settings.seed, epoch=state.epoch)
        groups = groups_of_epoch(
            order,
            batch_size=settings.batch_size,
            accumulate=settings.accumulate,
            skip=state.step,
            rank=self.context.rank,
            world=self.context.world,
        )
        self.clock = time.monotonic()
        loaded = self.train.load(groups, epoch=state.epoch)
        try:
            while state.step < self.steps:
                stop = self._step(self._parts(loaded))
                self._after_step(stop=stop)
        finally:
            if hasattr(loaded, "close"):  # so that worker processes end now and not with the garbage
                loaded.close()

    def _parts(self, loaded: Iterator[Batch]) -> list[Batch]:
        """The parts of the next batch, on the device."""
        rows = min(self.settings.batch_size, len(self.train) - self.position.step * self.settings.batch_size)
        num_parts, to_device = min(self.settings.accumulate, rows), self.context.to_device
        # Row numbers stay where they are unless the loss takes them: every copy makes the device wait.
        takes_rows = self.updater.loss.extra == "rows"
        parts = [
            Batch(
                to_device(batch.inputs), to_device(batch.targets), to_device(batch.rows) if takes_rows else batch.rows
            )
            for batch in itertools.islice(loaded, num_parts)
        ]
        if len(parts) < num_parts:
            hint = "Yield a batch for every group, also where none of its rows can be read."
            raise InputError("train", "fit", "give one batch for each group of rows", "fewer", hint)
        return parts

    def _step(self, parts: list[Batch]) -> bool:
        """One step, unless there is no row in it on any process; returns whether some process wants to stop."""
        stop, *sizes = self.context.totals(int(self.signals.requested), *[len(part.rows) for part in parts])
        parts = [part for part, size in zip(parts, sizes, strict=True) if size]
        if parts:
            self.pending.append((self.position.step, self.updater.step(parts, self.done), sum(sizes)))
            self.trace.note(self.done + 1)
        self.position.step += 1
        return stop > 0

    def _after_step(self, *, stop: bool) -> None:
        step = self.position.step
        if step % READ_EVERY == 0 or step == self.steps or stop:
            self._read_losses()
            self._check_finite()
        now = time.monotonic()
        if now >= self.next_show:
            self.next_show = now + SHOW_EVERY_SECONDS
            self._read_losses()
            mean = self.position.loss_sum / max(1, self.position.rows)
            self.progress.step(self.done, epoch=self.position.epoch + 1, loss=mean)
        if stop or now >= self.next_save:
            self._save()
        if stop:
            raise Stopped(self._stop_message())

    def _read_losses(self) -> None:
        """Adds the losses since the last time to those of the epoch, and notes the first that is not a number."""
        now, state = time.monotonic(), self.position
        state.seconds, self.clock = state.seconds + now - self.clock, now
        if not self.pending:
            return
        values = torch.stack([value for _, value, _ in self.pending]).tolist()
        for (step, _, rows), value in zip(self.pending, values, strict=True):
            state.loss_sum += value * rows
            state.rows += rows
            if self.nonfinite_step is None and not math.isfinite(value):
                self.nonfinite_step = step
        self.pending.clear()

    def _check_finite(self) -> None:
        if self.nonfinite_step is not None:
            what, step = "The loss was not finite in", self.nonfinite_step + 1
        elif not self.updater.is_finite():  # a finite loss may have an infinite slope
            what, step = "The weights were not finite after", self.position.step
        else:
            return
        hint = "The last checkpoint is from before. " if self.store.last_exists() else ""
        raise NotFinite(
            f"{what} epoch {self.position.epoch + 1}, step {step} of {self.steps}. "
            f"{hint}Lower `lr`, set `clip`, or take precision 'bf16' or '32'; see that no input is NaN."
        )

    def _end_epoch(self) -> None:
        state = self.position
        if not state.rows:
            hint = "See that the files are there and are images."
            raise InputError("train", "fit", "have rows that can be read", "none", hint)
        training_seconds, figures = state.seconds, self._validate()
        state.seconds += time.monotonic() - self.clock
        peak = self.updater.optimizer.param_groups[0]["peak"]
        state.history.append(
            {
                "epoch": state.epoch + 1,
                "steps": self.done,
                "lr": peak * lr_factor(self.settings, self.done - 1, self.settings.epochs * self.steps),
                "train loss": state.loss_sum / state.rows,
                **figures,
                "seconds": state.seconds,
                "samples/s": state.rows / max(training_seconds, 1e-9),
            }
        )
        self._update_best(figures)
        self.clock = time.monotonic()
        state.epoch, state.step, state.loss_sum, state.rows, state.seconds = state.epoch + 1, 0, 0.0, 0, 0.0
        state.over = state.epoch == self.settings.epochs or self._out_of_patience()
        self._save()
        self.store.write_metrics(state.history)
        self.progress.epoch(state.history[-1])
        if self.context.totals(int(self.signals.requested))[0] and not state.over:
            raise Stopped(self._stop_message())

    def _validate(self) -> dict[str, float]:
        """The metrics of the validation data; computed on one process, because a metric may draw random numbers."""
        if self.val is None:
            return {}
        if time.monotonic() >= self.next_save:
            self._save()
        rows_at_once = max(1, self.settings.batch_size // self.settings.accumulate)
        with self.updater.evaluation_weights():
            scores, rows = score(self.updater.network, self.val, batch_size=rows_at_once, settings=self.context)
        targets = self.val.targets.dense(rows)
        figures = self.context.on_first(
            lambda: {name: float(value) for name, value in self.metrics(scores, targets).items()}
        )
        if self.settings.monitor not in figures:
            names = ", ".join(repr(name) for name in figures)
            raise InputError(
                "monitor", "FitSettings", f"be one of the figures {names}", repr(self.settings.monitor), "Pick one."
            )
        return figures

    def _update_best(self, figures: dict[str, float]) -> None:
        if self.val is None:
            return
        state, value = self.position, figures[self.settings.monitor]
        if is_better(self.settings.monitor, value, state.best_value):
            state.best_epoch, state.best_value = state.epoch + 1, value
            self.best_state = self.updater.snapshot()
            self.store.save_best(state.epoch + 1, self.best_state)

    def _out_of_patience(self) -> bool:
        state = self.position
        return self.settings.patience is not None and state.epoch - (state.best_epoch or 0) >= self.settings.patience

    def _save(self) -> None:
        """Writes a checkpoint, unless the weights are spoilt."""
        self._read_losses()
        if self.nonfinite_step is None and self.updater.is_finite():
            tensors = {**self.updater.tensors(), **self.trace.tensors()}
            self.store.save(tensors, {"position": asdict(self.position), **self.updater.metadata()})
            self.store.write_trace(self.trace.points())
        self.next_save = time.monotonic() + 60 * self.settings.checkpoint_minutes

    def _stop_message(self) -> str:
        hint = "Go on with `resume=True`." if self.store.folder else "Nothing was kept, as no folder was given."
        return f"Stopped after step {self.done:,} of {self.settings.epochs * self.steps:,}. {hint}"


class Updater:
    """Network, loss and optimiser in training.

    Args:
        network: Moved to the device of the context.
        loss: Likewise.
        context: Device and processes.
        settings: Optimiser, schedule, average and clipping.
        total: Steps of the whole run.
    """

    def __init__(self, network: Network, loss: Loss, context: DeviceContext, settings: FitSettings, total: int) -> None:
        self.network, self.loss = network.to(context.device), loss.to(context.device)
        self.context, self.settings, self.total, self.scaler = context, settings, total, context.scaler
        if context.world > 1:
            for tensor in (*loss.parameters(), *loss.buffers()):
                dist.broadcast(tensor.data, 0)
        self.optimizer = build_optimizer(network, loss, settings, context.device)
        self.parameters = [p for p in (*network.parameters(), *loss.parameters()) if p.requires_grad]
        self.gradients = ExactGradients(network, loss, context, settings)
        self.average = None if settings.ema is None else WeightAverage(network, settings.ema)

    def step(self, parts: Sequence[Batch], number: int) -> Tensor:
        """One step on the batch whose parts these are; returns the loss."""
        set_lr(self.optimizer, lr_factor(self.settings, number, self.total))
        value = self.gradients(parts, number)
        if self.settings.clip is not None:
            if self.scaler is not None:
                self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
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

    def evaluation_weights(self) -> AbstractContextManager[None]:
        """Loads the running average, where there is one, within the block."""
        return nullcontext() if self.average is None else self.average.swapped_in()

    def snapshot(self) -> dict[str, Tensor]:
        """Copies of the weights to keep (the running average, where there is one), and of the loss's own state."""
        network = mutable_state(self.network) if self.average is None else self.average.state
        state = _prefixed(network=network, loss=self.loss.state_dict())
        return {name: value.detach().cpu().clone() for name, value in state.items()}

    def load_snapshot(self, state: Mapping[str, Tensor]) -> None:
        """Loads what `snapshot` returned into network and loss."""
        own = _prefixed(network=mutable_state(self.network), loss=self.loss.state_dict())
        copy_into(state, own)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a step changes."""
        return _prefixed(
            network=mutable_state(self.network),
            loss=self.loss.state_dict(),
            optimizer=optimizer_tensors(self.optimizer),
            average={} if self.average is None else self.average.state,
        )

    def metadata(self) -> dict[str, Any]:
        """What else a step changes."""
        return {
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            "averaged": 0 if self.average is None else self.average.updates,
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Loads the state of a checkpoint."""
        copy_into(checkpoint.of("network"), mutable_state(self.network))
        copy_into(checkpoint.of("loss"), self.loss.state_dict())
        restore_optimizer(self.optimizer, checkpoint.of("optimizer"))
        if self.average is not None:
            copy_into(checkpoint.of("average"), self.average.state)
            self.average.updates = checkpoint.metadata["averaged"]
        if self.scaler is not None:
            self.scaler.load_state_dict(checkpoint.metadata["scaler"])


def _prefixed(**owners: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All tensors, each under the name of its owner and its own."""
    return {f"{owner}.{name}": value for owner, state in owners.items() for name, value in state.items()}


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
