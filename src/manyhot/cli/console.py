"""Console output of the commands: notes, progress bars, opening files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def error_console() -> Console:
    """The console for notes and progress, on stderr so that output can be piped; silent in all ranks but 0."""
    from rich.console import Console

    from manyhot.distributed import rank

    # No markup: a label or file may be called `[red]`.
    return Console(stderr=True, soft_wrap=True, markup=False, highlight=False, quiet=rank() > 0)


def print_json(content: Any, *, indent: int | None = None) -> None:
    """Prints the result of a command for programs, on stdout."""
    print(json.dumps(content, indent=indent))


def print_notes(notes: Iterable[str], console: Console) -> None:
    """Prints what was detected, one line per note."""
    from manyhot.formatting import printable

    for note in notes:
        console.print(printable(note), style="dim")


SECONDS_PER_LINE = 30.0  # between two lines of progress where there is no bar


@contextmanager
def progress(text: str, total: int, console: Console) -> Iterator[Callable[[int], None]]:
    """Yields a function that counts what is done: a progress bar in a terminal, one line per 30 seconds elsewhere."""
    from rich.progress import Progress

    begun = printed = time.monotonic()
    done = 0
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=total)

        def advance(count: int) -> None:
            nonlocal done, printed
            done += count
            bar.advance(task, count)
            now = time.monotonic()
            if not console.is_terminal and now - printed >= SECONDS_PER_LINE and done < total:
                printed, left = now, (now - begun) / done * (total - done)
                console.print(f"{text}: {done:,} of {total:,}, about {left:.0f} s left.")

        yield advance


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
