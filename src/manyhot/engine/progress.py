"""Progress of a run: a bar in a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO


class Progress:
    """Callbacks of `fit`, called on the first process only; these show nothing. Derive from it to show progress."""

    def start(self, *, done: int, total: int, epochs: int) -> None:
        """A run begins, or goes on after `done` of its `total` steps."""

    def step(self, done: int, *, epoch: int, loss: float) -> None:
        """Called a few times a second with the number of steps done; `loss` is the mean of the epoch so far."""

    def epoch(self, figures: Mapping[str, Any]) -> None:
        """An epoch is over; what was measured, by name."""

    def note(self, text: str) -> None:
        """A note for the user."""

    def end(self) -> None:
        """The run is over, for whatever reason."""


class NoProgress(Progress):
    """Shows nothing."""


def format_duration(seconds: float) -> str:
    """A time as people say it.

    Example:
        >>> format_duration(42), format_duration(750), format_duration(7350)
        ('42 s', '12 min 30 s', '2 h 2 min')
    """
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_figures(figures: Mapping[str, Any]) -> str:
    """Losses and other figures of an epoch, without the columns that a bar shows anyway.

    Example:
        >>> format_figures({"epoch": 1, "steps": 9, "lr": 0.1, "train loss": 0.25, "mAP": 0.5})
        'train loss 0.2500, mAP 0.5000'
    """
    hidden = ("epoch", "steps", "lr", "seconds", "samples/s")
    return ", ".join(
        f"{name} {value:.4f}" for name, value in figures.items() if name not in hidden and isinstance(value, float)
    )


class TimedProgress(Progress):
    """What a bar and lines have in common: how long the rest will take, from what the steps of this run took."""

    def start(self, *, done: int, total: int, epochs: int) -> None:
        """Notes where and when the run begins."""
        self.first, self.total, self.epochs, self.begun = done, total, epochs, time.monotonic()

    def remaining(self, done: int) -> str:
        """The time left, in words; empty before anything is known."""
        if done <= self.first:
            return ""
        return format_duration((time.monotonic() - self.begun) / (done - self.first) * (self.total - done)) + " left"


class ProgressLines(TimedProgress):
    """A line an epoch, and one a minute within long ones, each with the time left.

    Args:
        file: Where to; the error stream by default.
        every: Seconds between lines within an epoch.
    """

    def __init__(self, file: TextIO | None = None, *, every: float = 60.0) -> None:
        self.file, self.every = file, every

    def start(self, *, done: int, total: int, epochs: int) -> None:
        """Says where a run goes on."""
        super().start(done=done, total=total, epochs=epochs)
        self.last_printed = self.begun
        if done:
            self.note(f"goes on after step {done:,} of {total:,}")

    def step(self, done: int, *, epoch: int, loss: float) -> None:
        """Says how far it is, once a minute."""
        if time.monotonic() - self.last_printed >= self.every:
            self._line(done, epoch, f"step {done:,} of {self.total:,}, train loss {loss:.4f}")

    def epoch(self, figures: Mapping[str, Any]) -> None:
        """Says what was measured."""
        self._line(int(figures["steps"]), figures["epoch"], format_figures(figures))

    def note(self, text: str) -> None:
        """A line."""
        self.last_printed = time.monotonic()
        print(text, file=self.file or sys.stderr, flush=True)

    def _line(self, done: int, epoch: int, text: str) -> None:
        left = self.remaining(done) if done < self.total else ""
        self.note(f"epoch {epoch}/{self.epochs}: {text}" + (left and f"; {left}"))


class ProgressBar(TimedProgress):
    """A bar with the time left, and a line above it for every epoch.

    Args:
        console: A `rich` console; one on the error stream by default.
    """

    def __init__(self, console: Any = None) -> None:
        self.console = console

    def start(self, *, done: int, total: int, epochs: int) -> None:
        """Draws the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn
        from rich.progress import Progress as RichProgress

        super().start(done=done, total=total, epochs=epochs)
        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), "{task.fields[left]}")
        self.rich = RichProgress(*columns, console=self.console or Console(stderr=True), transient=True)
        self.rich.start()
        self.task = self.rich.add_task("training", total=total, completed=done, left="")

    def step(self, done: int, *, epoch: int, loss: float) -> None:
        """Moves the bar."""
        text = f"epoch {epoch}/{self.epochs}, loss {loss:.4f}"
        self.rich.update(self.task, completed=done, description=text, left=self.remaining(done))

    def epoch(self, figures: Mapping[str, Any]) -> None:
        """A line above the bar."""
        self.rich.update(self.task, completed=int(figures["steps"]))
        self.note(f"epoch {figures['epoch']}/{self.epochs}: {format_figures(figures)}")

    def note(self, text: str) -> None:
        """A line above the bar."""
        self.rich.console.print(text, markup=False, highlight=False)

    def end(self) -> None:
        """Removes the bar."""
        self.rich.stop()


def default_progress() -> Progress:
    """A bar where someone watches a terminal and `rich` is there, lines elsewhere."""
    if sys.stderr.isatty():
        with suppress(ImportError):
            import rich  # noqa: F401

            return ProgressBar()
    return ProgressLines()
