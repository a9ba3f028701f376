"""Files that are either whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary path beside `path`, which takes its place when the block ends well and is removed otherwise.

    A reader sees the old file or the new one, never half of it, also if the process is killed while writing.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)  # as any new file; temporary ones are closed to others
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
