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
    """Where people are told what happens: the error stream, so that output can be piped; of one process alone."""
    from rich.console import Console

    from manyhot.distributed import rank

    # Names of labels and files are shown as they are: `[red]` is no colour.
    return Console(stderr=True, soft_wrap=True, markup=False, highlight=False, quiet=rank() > 0)


def print_notes(notes: list[str], console: Console) -> None:
    """What was detected, a line each."""
    from manyhot.formatting import printable

    for note in notes:
        typed = note.replace("kind='probs'", "--kind probs").replace("separator=", "--separator ")
        console.print(printable(typed), style="dim")


def progress_bar(items: Iterable[Item], total: int, text: str, console: Console) -> Iterator[Item]:
    """Passes items on and counts their lengths: a bar with the time left in a terminal, silence elsewhere."""
    from rich.progress import Progress

    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(text, total=total)
        for item in items:
            yield item
            progress.advance(task, len(item))  # type: ignore[arg-type]


SECONDS_PER_LINE = 60.0  # seconds between two lines where there is no bar


@contextmanager
def image_progress(total: int, console: Console) -> Iterator[Callable[[int], None]]:
    """A function that counts images: a bar with the time left in a terminal, a line a minute elsewhere."""
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
    """Yields what is called with the number of images that are done: a bar in a terminal, few lines elsewhere."""
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
    """Yields what is called before each figure is drawn: a bar in a terminal, silence elsewhere."""
    from rich.progress import Progress

    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Figure", total=total)
        yield lambda _: progress.advance(task)


class LossProgress:
    """Says which loss is trained, and shows a bar for it in a terminal.

    Args:
        console: Where to.
        total: How many losses there are.
    """

    def __init__(self, console: Any, total: int) -> None:
        self.console, self.total, self.started = console, total, 0

    def of(self, name: str) -> Any:
        """What shows the training with one loss."""
        from manyhot.engine import NoProgress, ProgressBar

        self.started += 1
        self.console.print(f"{self.started}/{self.total} {name}")
        return ProgressBar(self.console) if self.console.is_terminal else NoProgress()


def open_file(path: Path) -> bool:
    """Opens the picture with the viewer of this machine; whether there is one."""
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
