"""Files that are read only if they lie below a folder, whatever is moved or linked while they are opened."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from manyhot.search.places import Place, Unreadable

ODD = "it is no ordinary file"
# Files of an archive are read into memory as a whole.
LARGEST_MEMBER = 2**28
# Systems without these need none: they do not wait at pipes, or open no folders.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Contained(Place):
    """A place below a folder.

    Attributes:
        root: The folder. What lies between it and the file, and the file itself, must be no links.
    """

    root: Path = Path()

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The image as a file to read from.

        Raises:
            Unreadable: It is no ordinary file, or too large to be read from its archive.
        """
        if self.size is not None and not 0 <= self.size <= LARGEST_MEMBER:
            raise Unreadable(f"it has {self.size:,} bytes")
        with open_below(self.root, self.file) as file:
            if self.size is None:
                yield file
            else:
                file.seek(self.start)
                yield io.BytesIO(file.read(self.size))


def open_below(root: Path, path: Path) -> BinaryIO:
    """Opens a file by walking down from a folder, so that no link that comes up meanwhile leads elsewhere.

    Args:
        root: The folder.
        path: The file, with all links followed.

    Raises:
        OSError: There is no such file, or a link on the way.
        Unreadable: It is a pipe, a device or a folder.
    """
    if os.open in os.supports_dir_fd:
        *folders, name = path.relative_to(root).parts
        folder = os.open(root, _FOLDER)
        try:
            for part in folders:
                outer, folder = folder, os.open(part, _FOLDER, dir_fd=folder)
                os.close(outer)
            number = os.open(name, _FILE, dir_fd=folder)
        finally:
            os.close(folder)
    else:
        number = os.open(path, _FILE)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise Unreadable(ODD)
    return os.fdopen(number, "rb")
