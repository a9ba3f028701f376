"""Console output of the commands: notes, progress bars, opening files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.console import Console


Item = TypeVar("Item")


def error_console() -> Console:
    """The console for notes and progress, on stderr so that output can be piped; silent in all ranks but 0."""
    from rich.console import Console

    from manyhot.distributed import rank

    # No markup: a label or file may be called `[red]`.
    return Console(stderr=True, soft_wrap=True, markup=False, highlight=False, quiet=rank() > 0)


def print_notes(notes: list[str], console: Console) -> None:
    """Prints what was detected, one line per note."""
    from manyhot.formatting import printable

    for note in notes:
        console.print(printable(note), style="dim")


def progress_bar(items: Iterable[Item], total: int, text: str, console: Console) -> Iterator[Item]:
    """Yields the items and counts their lengths: a progress bar in a terminal, nothing elsewhere."""
    from rich.progress import Progress

    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(text, total=total)
        for item in items:
            yield item
            progress.advance(task, len(item))  # type: ignore[arg-type]


SECONDS_PER_LINE = 60.0  # between two lines of progress where there is no bar


@contextmanager
def image_progress(total: int, console: Console) -> Iterator[Callable[[int], None]]:
    """Yields a function that counts images: a progress bar in a terminal, one line per minute elsewhere."""
    if console.is_terminal:
        from rich.progress import Progress

        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("Predicting", total=total)
            yield lambda count: progress.advance(task, count)
        return
    began = printed = time.monotonic()
    done = 0

    def advance(count: int) -> None:
        nonlocal done, printed
        done += count
        now = time.monotonic()
        if now - printed >= SECONDS_PER_LINE and done < total:
            printed = now
            left = (now - began) / done * (total - done) / 60
            console.print(f"{done:,} of {total:,} images, about {left:.0f} min left.")

    yield advance


@contextmanager
def extraction_progress(total: int, console: Console) -> Iterator[Callable[[int], None]]:
    """Yields a function that counts images: a progress bar in a terminal, one line per 30 seconds elsewhere."""
    import time

    from rich.progress import Progress

    begun = printed = time.monotonic()
    done = 0
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Looking at the images", total=total)

        def advance(count: int) -> None:
            nonlocal done, printed
            done += count
            progress.advance(task, count)
            now = time.monotonic()
            if not console.is_terminal and now - printed > 30 and done < total:
                printed, left = now, (now - begun) / done * (total - done)
                console.print(f"looked at {done:,} of {total:,} images; {left:.0f} s left")

        yield advance


@contextmanager
def figure_progress(total: int, console: Console) -> Iterator[Callable[[str], None]]:
    """Yields a function to call before each figure is drawn: a progress bar in a terminal, nothing elsewhere."""
    from rich.progress import Progress

    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Drawing", total=total)
        yield lambda _: progress.advance(task)


class LossProgress:
    """Prints which loss is trained, and shows a progress bar for it in a terminal.

    Args:
        console: Where to print.
        total: How many losses there are.
    """

    def __init__(self, console: Any, total: int) -> None:
        self.console, self.total, self.started = console, total, 0

    def of(self, name: str) -> Any:
        """The progress display for the training with one loss."""
        from manyhot.engine import NoProgress, ProgressBar

        self.started += 1
        self.console.print(f"{self.started}/{self.total} {name}")
        return ProgressBar(self.console) if self.console.is_terminal else NoProgress()


def open_file(path: Path) -> bool:
    """Opens a file with the default viewer of this machine; returns False if there is none."""
    if sys.platform == "win32":
        os.startfile(path)
        return True
    display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    viewer = shutil.which("open" if sys.platform == "darwin" else "xdg-open")
    if not display or viewer is None:
        return False
    quiet = subprocess.DEVNULL
    subprocess.Popen([viewer, str(path.absolute())], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    return True
