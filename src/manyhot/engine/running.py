"""A run from its first step, or from where it was broken off, to its last."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from manyhot.data.loading import Batch, Batches
from manyhot.engine.interrupting import Stopped, StopSignals
from manyhot.engine.judging import Judge, is_better
from manyhot.engine.keeping import Keeper
from manyhot.engine.learner import Learner
from manyhot.engine.normalising import train_mode
from manyhot.engine.plan import Plan
from manyhot.engine.progress import Progress
from manyhot.engine.records import Epoch
from manyhot.engine.sampling import groups_of_epoch, order_of_epoch, steps_of_epoch
from manyhot.engine.schedules import rate
from manyhot.engine.scoring import score
from manyhot.engine.tracing import NormaliserTrace
from manyhot.refusal import refusal

# Losses are read from the device this many steps at a time, because reading makes it wait.
READ_EVERY = 50
SHOW_EVERY_SECONDS = 0.25


class NotFinite(ArithmeticError):
    """The loss or the weights are no longer numbers; the message says where and what to do."""


@dataclass
class Position:
    """Where a run is.

    Attributes:
        epoch: Which one is being trained, from 0.
        step: How many of its steps are done.
        loss_sum: Of the losses of these steps, times their rows.
        rows: Of these steps together.
        seconds: That these steps took.
        history: The figures of the epochs that are over.
        best_epoch: The epoch that was judged best, from 1.
        best_value: What it was judged by.
        over: Whether there is nothing left to train.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    rows: int = 0
    seconds: float = 0.0
    history: list[Epoch] = field(default_factory=list)
    best_epoch: int | None = None
    best_value: float | None = None
    over: bool = False


class Run:
    """The loop over epochs and steps.

    Args:
        learner: What learns.
        train: Its data.
        val: What it is judged by, after every epoch.
        judge: Gives the figures.
        plan: How to train.
        keeper: What is kept of it.
        progress: Whom to tell.
        signals: Who may ask for its end.
    """

    def __init__(
        self,
        learner: Learner,
        train: Batches,
        val: Batches | None,
        *,
        judge: Judge,
        plan: Plan,
        keeper: Keeper,
        progress: Progress,
        signals: StopSignals,
    ) -> None:
        self.learner, self.train, self.val, self.judge, self.plan = learner, train, val, judge, plan
        self.keeper, self.progress, self.signals, self.machine = keeper, progress, signals, learner.machine
        self.steps = steps_of_epoch(len(train), plan.batch_size)
        self.position, self.best_state = Position(), dict[str, Tensor]()
        self.trace = NormaliserTrace(learner.loss, plan.epochs * self.steps)
        self.pending: list[tuple[int, Tensor, int]] = []
        self.bad_step: int | None = None
        self.next_show = self.next_save = self.clock = 0.0

    @property
    def done(self) -> int:
        """Steps of the whole run that are done."""
        return self.position.epoch * self.steps + self.position.step

    def take_up(self, facts: dict[str, Any], best_state: dict[str, Tensor]) -> None:
        """Goes on from a checkpoint."""
        self.position, self.best_state = Position(**facts), best_state

    def go(self) -> None:
        """Trains until all epochs are over, or the run is stopped."""
        self.next_save = time.monotonic() + 60 * self.plan.checkpoint_minutes
        while not self.position.over:
            self._train_epoch()
            self._end_epoch()
        self.end()

    def end(self) -> None:
        """Gives network and loss the state to keep."""
        if self.position.best_epoch is not None:
            self.learner.keep(self.best_state)
        elif self.learner.average is not None:
            self.learner.keep(self.learner.kept())

    def _train_epoch(self) -> None:
        place, plan = self.position, self.plan
        train_mode(self.learner.network)
        self.learner.loss.train()
        order = order_of_epoch(len(self.train), seed=plan.seed, epoch=place.epoch)
        groups = groups_of_epoch(
            order,
            batch_size=plan.batch_size,
            accumulate=plan.accumulate,
            skip=place.step,
            rank=self.machine.rank,
            world=self.machine.world,
        )
        self.clock = time.monotonic()
        loaded = self.train.load(groups, epoch=place.epoch)
        try:
            while place.step < self.steps:
                stop = self._step(self._parts(loaded))
                self._after_step(stop=stop)
        finally:
            if hasattr(loaded, "close"):  # so that worker processes end now and not with the garbage
                loaded.close()

    def _parts(self, loaded: Iterator[Batch]) -> list[Batch]:
        """The parts of the next batch, on the device."""
        rows = min(self.plan.batch_size, len(self.train) - self.position.step * self.plan.batch_size)
        wanted, put = min(self.plan.accumulate, rows), self.machine.put
        # Row numbers stay where they are unless the loss takes them: every copy makes the device wait.
        takes_rows = self.learner.loss.most_aligned > 0
        parts = [
            Batch(put(batch.inputs), put(batch.targets), put(batch.rows) if takes_rows else batch.rows)
            for batch in itertools.islice(loaded, wanted)
        ]
        if len(parts) < wanted:
            remedy = "Yield a batch for every group, also where none of its rows can be read."
            raise refusal("train", "fit", "give one batch for each group of rows", "fewer", remedy)
        return parts

    def _step(self, parts: list[Batch]) -> bool:
        """One step, unless there is no row in it on any process; returns whether some process wants to stop."""
        stop, *sizes = self.machine.totals(int(self.signals.wanted), *[len(part.rows) for part in parts])
        parts = [part for part, size in zip(parts, sizes, strict=True) if size]
        if parts:
            self.pending.append((self.position.step, self.learner.step(parts, self.done), sum(sizes)))
            self.trace.note(self.done + 1)
        self.position.step += 1
        return stop > 0

    def _after_step(self, *, stop: bool) -> None:
        step = self.position.step
        if step % READ_EVERY == 0 or step == self.steps or stop:
            self._read_losses()
            self._check_numbers()
        now = time.monotonic()
        if now >= self.next_show:
            self.next_show = now + SHOW_EVERY_SECONDS
            self._read_losses()
            mean = self.position.loss_sum / max(1, self.position.rows)
            self.progress.step(self.done, epoch=self.position.epoch + 1, loss=mean)
        if stop or now >= self.next_save:
            self._save()
        if stop:
            raise Stopped(self._last_words())

    def _read_losses(self) -> None:
        """Adds the losses since the last time to those of the epoch, and notes the first that is not a number."""
        now, place = time.monotonic(), self.position
        place.seconds, self.clock = place.seconds + now - self.clock, now
        if not self.pending:
            return
        values = torch.stack([value for _, value, _ in self.pending]).tolist()
        for (step, _, rows), value in zip(self.pending, values, strict=True):
            place.loss_sum += value * rows
            place.rows += rows
            if self.bad_step is None and not math.isfinite(value):
                self.bad_step = step
        self.pending.clear()

    def _check_numbers(self) -> None:
        if self.bad_step is not None:
            what, step = "The loss was not finite in", self.bad_step + 1
        elif not self.learner.is_finite():  # a finite loss may have an infinite slope
            what, step = "The weights were not finite after", self.position.step
        else:
            return
        kept = "The last checkpoint is from before. " if self.keeper.last_exists() else ""
        raise NotFinite(
            f"{what} epoch {self.position.epoch + 1}, step {step} of {self.steps}. "
            f"{kept}Lower `lr`, set `clip`, or take precision 'bf16' or '32'; see that no input is NaN."
        )

    def _end_epoch(self) -> None:
        place = self.position
        if not place.rows:
            remedy = "See that the files are there and are images."
            raise refusal("train", "fit", "have rows that can be read", "none", remedy)
        training_seconds, figures = place.seconds, self._judge()
        place.seconds += time.monotonic() - self.clock
        peak = self.learner.optimizer.param_groups[0]["peak"]
        place.history.append(
            {
                "epoch": place.epoch + 1,
                "steps": self.done,
                "lr": peak * rate(self.plan, self.done - 1, self.plan.epochs * self.steps),
                "train loss": place.loss_sum / place.rows,
                **figures,
                "seconds": place.seconds,
                "samples/s": place.rows / max(training_seconds, 1e-9),
            }
        )
        self._choose_best(figures)
        self.clock = time.monotonic()
        place.epoch, place.step, place.loss_sum, place.rows, place.seconds = place.epoch + 1, 0, 0.0, 0, 0.0
        place.over = place.epoch == self.plan.epochs or self._out_of_patience()
        self._save()
        self.keeper.record(place.history)
        self.progress.epoch(place.history[-1])
        if self.machine.totals(int(self.signals.wanted))[0] and not place.over:
            raise Stopped(self._last_words())

    def _judge(self) -> dict[str, float]:
        """The figures of the validation; computed once, because a judge may draw."""
        if self.val is None:
            return {}
        if time.monotonic() >= self.next_save:
            self._save()
        rows_at_once = max(1, self.plan.batch_size // self.plan.accumulate)
        with self.learner.judged_weights():
            scores, rows = score(self.learner.network, self.val, batch_size=rows_at_once, plan=self.machine)
        figures: dict[str, float] = {}
        if self.machine.rank == 0:
            figures = {name: float(value) for name, value in self.judge(scores, self.val.targets.dense(rows)).items()}
        figures = self.machine.from_first(figures)
        if self.plan.monitor not in figures:
            names = ", ".join(repr(name) for name in figures)
            raise refusal("monitor", "Plan", f"be one of the figures {names}", repr(self.plan.monitor), "Pick one.")
        return figures

    def _choose_best(self, figures: dict[str, float]) -> None:
        if self.val is None:
            return
        place, value = self.position, figures[self.plan.monitor]
        if is_better(self.plan.monitor, value, place.best_value):
            place.best_epoch, place.best_value = place.epoch + 1, value
            self.best_state = self.learner.kept()
            self.keeper.save_best(place.epoch + 1, self.best_state)

    def _out_of_patience(self) -> bool:
        place = self.position
        return self.plan.patience is not None and place.epoch - (place.best_epoch or 0) >= self.plan.patience

    def _save(self) -> None:
        """Writes a checkpoint, unless the weights are spoilt."""
        self._read_losses()
        if self.bad_step is None and self.learner.is_finite():
            tensors = {**self.learner.tensors(), **self.trace.tensors()}
            self.keeper.save(tensors, {"position": asdict(self.position), **self.learner.facts()})
            self.keeper.record_trace(self.trace.points())
        self.next_save = time.monotonic() + 60 * self.plan.checkpoint_minutes

    def _last_words(self) -> str:
        remedy = "Go on with `resume=True`." if self.keeper.folder else "Nothing was kept, as no folder was given."
        return f"Stopped after step {self.done:,} of {self.plan.epochs * self.steps:,}. {remedy}"
