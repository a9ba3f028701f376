"""What depends on the system: atomic writes, and the number of cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary path beside `path`, which takes its place when the block ends well and is removed otherwise.

    A reader sees the old file or the new one, never half of it, also if the process is killed while writing.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    # With the permissions of any new file, which temporary ones of the standard library do not get.
    part.touch(exist_ok=False)
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Brings the names of a folder's files to the disk: a new file may otherwise lose its name in a power cut."""
    if os.name == "nt":  # Windows opens no folders, and keeps names by itself
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def available_cores() -> int:
    """The cores that this process may use, which in a container can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
