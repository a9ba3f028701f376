"""Where the images of a table lie: files of their own, or members of tar archives."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MISSING = "there is no such file"


class Unreadable(Exception):
    """An image that cannot be shown; says why, in plain words."""


@dataclass(frozen=True)
class Place:
    """Where the bytes of an image lie.

    Attributes:
        file: The file, or the archive.
        start: Where the image begins there.
        size: How many bytes it has; None if it is the whole file.
    """

    file: Path
    start: int = 0
    size: int | None = None

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The image as a file to read from."""
        with self.file.open("rb") as file:
            if self.size is None:
                yield file
            else:
                file.seek(self.start)
                yield io.BytesIO(file.read(self.size))


def find(path: str, roots: Iterable[Path]) -> tuple[Path, str] | None:
    """The file of a path below the first folder that has it; for one in an archive that, and its name there."""
    ways = [(path, ""), *((path[: dot.end()], path[dot.end() + 1 :]) for dot in re.finditer(r"\.tar(?=/)", path))]
    for root in roots:
        for name, inner in ways:
            # Not `Path.is_file`, which raises for names that are too long.
            if os.path.isfile(root / name):
                return root / name, inner
    return None


def likeliest_first(roots: Iterable[Path], paths: Sequence[str]) -> list[Path]:
    """The folders in another order: first the one below which the most of the paths are found.

    A folder that happens to hold one file of the same name would otherwise hide the one that is meant.
    """
    different: dict[Path, Path] = {}
    for root in roots:
        different.setdefault(root.resolve(), root)
    return sorted(different.values(), key=lambda root: -sum(find(path, [root]) is not None for path in paths))


def locate(paths: Sequence[str], roots: Sequence[Path]) -> list[Place | Unreadable]:
    """The place of each path, or why there is none. Each archive is gone through once, however many paths it holds."""
    places = [find(path, roots) for path in paths]
    wanted: dict[Path, set[str]] = {}
    for place in places:
        if place is not None and place[1]:
            wanted.setdefault(place[0], set()).add(place[1])
    members = {archive: _members(archive, names) for archive, names in wanted.items()}
    found: list[Place | Unreadable] = []
    for path, place in zip(paths, places, strict=True):
        if place is None:
            folder = path != "" and any(os.path.isdir(root / path) for root in roots)
            found.append(Unreadable("it is a folder" if folder else MISSING))
        else:
            file, inner = place
            found.append(members[file][inner] if inner else Place(file))
    return found


def _members(archive: Path, names: set[str]) -> dict[str, Place | Unreadable]:
    """Where these files of an archive begin, without reading them, or why they cannot be read."""
    found: dict[str, Place | Unreadable] = {}
    why = "the archive has no such file"
    try:
        with tarfile.open(archive, "r:") as opened:
            for member in opened:
                if member.size < 0:  # which would lead back to where it begins, for ever
                    raise tarfile.ReadError("a file of a negative size")
                if member.name in names and member.isfile():
                    found[member.name] = Place(archive, member.offset_data, member.size)
                if len(found) == len(names):
                    break
    except (tarfile.TarError, OSError):
        why = "the archive cannot be read"
    return {name: found.get(name, Unreadable(why)) for name in names}
