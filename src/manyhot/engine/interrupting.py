"""Signals that ask a run to end: it finishes its step and writes a checkpoint first."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self


class Stopped(KeyboardInterrupt):
    """Training was asked to end and did so in good order; the message says how to go on."""


class StopSignals:
    """Notes SIGINT and SIGTERM while it is open; a second one of them acts at once, as it would have.

    A signal that the process ignores stays ignored: a shell starts background jobs so, which Ctrl-C must not end.

    Attributes:
        wanted: Whether an end was asked for.
    """

    def __init__(self) -> None:
        self.wanted = False
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
        self.wanted = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
