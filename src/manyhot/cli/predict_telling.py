"""What `manyhot predict` says while it works and when it is done."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from manyhot.refusal import Refusal, refusal

if TYPE_CHECKING:
    from rich.console import Console

OWNER = "manyhot predict"
NOTES = 10  # images named that could not be read
EVERY = 60.0  # seconds between two lines where there is no bar


@contextmanager
def advancing(total: int, tell: Console) -> Iterator[Callable[[int], None]]:
    """A function that counts images: a bar with the time left in a terminal, a line a minute elsewhere."""
    if tell.is_terminal:
        from rich.progress import Progress

        with Progress(console=tell, transient=True) as progress:
            task = progress.add_task("Predicting", total=total)
            yield lambda count: progress.advance(task, count)
        return
    began = told = time.monotonic()
    done = 0

    def advance(count: int) -> None:
        nonlocal done, told
        done += count
        now = time.monotonic()
        if now - told >= EVERY and done < total:
            told = now
            left = (now - began) / done * (total - done) / 60
            tell.print(f"{done:,} of {total:,} images, about {left:.0f} min left.")

    yield advance


def tell_unreadable(unreadable: Mapping[str, str], told: int, tell: Console) -> int:
    """Names the first images that could not be read; how many there were so far."""
    from manyhot.terminal import printable

    for name, reason in list(unreadable.items())[: max(NOTES - told, 0)]:
        tell.print(printable(f"Left out {name}: {reason}."), style="yellow")
    return told + len(unreadable)


def tell_rest(left_out: int, tell: Console) -> None:
    """Says how many images could not be read that were not named."""
    if left_out > NOTES:
        tell.print(f"... and {left_out - NOTES:,} more.")


def nothing_read(left_out: int) -> Refusal:
    """The error where no image could be read."""
    got = f"{left_out:,} that cannot be read" if left_out else "none"
    return refusal("IMAGES", OWNER, "lead to images", got, "Check the files.")


def report(out: Path, rows: int, left_out: int, *, as_json: bool) -> None:
    """Says what was written."""
    if as_json:
        typer.echo(json.dumps({"written": str(out), "rows": rows, "left out": left_out}))
        return
    typer.echo(f"Wrote {rows:,} rows to {out}{left_out_words(left_out)}.")


def left_out_words(count: int) -> str:
    """How many images could not be read, as the end of a sentence."""
    return f", and left out {count:,} image{'s' if count > 1 else ''}" if count else ""
