"""Console output of the commands: notes, progress bars, tables, opening files."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


@cache
def error_console() -> Console:
    """The console for notes and progress, on stderr so that output can be piped."""
    from rich.console import Console

    # No markup: a label or file may be called `[red]`.
    return Console(stderr=True, soft_wrap=True, markup=False, highlight=False)


def print_notes(*notes: str) -> None:
    """Prints what was detected, one line per note."""
    from manyhot.formatting import printable

    for note in notes:
        error_console().print(printable(note), style="dim")


def print_json(content: Any, *, indent: int | None = None, ensure_ascii: bool = True) -> None:
    """Prints the result of a command for programs, on stdout."""
    typer.echo(json.dumps(content, indent=indent, ensure_ascii=ensure_ascii))


def print_table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "", numbers: bool = True) -> None:
    """Prints a table on stdout: texts and, where there are `numbers`, all columns but the first to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_style="bold")
    for heading in head:
        right = numbers and bool(table.columns)
        table.add_column(heading, justify="right" if right else "left", overflow="fold")  # a cut path finds no file
    for row in rows:
        table.add_row(*row)
    Console(markup=False, highlight=False).print(table)


SECONDS_PER_LINE = 30.0  # between two lines of progress where there is no bar


@contextmanager
def progress(text: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yields a function that counts what is done: a progress bar in a terminal, one line per 30 seconds elsewhere."""
    from rich.progress import Progress

    console = error_console()
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


def open_file(path: Path, viewer: str, what: str) -> None:
    """Opens a file with the default viewer of this machine, or prints where it is."""
    headless = sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if headless or typer.launch(str(path.absolute())) != 0:
        typer.echo(f"No {viewer} was found; the {what} is {path.absolute()}.", err=True)
