"""Thumbnails of a collection: requested by row, never by path, and read only below the folders it was opened with."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from manyhot.image_paths import locate_images
from manyhot.images import NO_SUCH_FILE, ImageLocation, UnreadableImage, thumbnail

NOT_REGULAR = "it is no ordinary file"
# Files of an archive are read into memory as a whole.
MAX_MEMBER_BYTES = 2**28
# Systems without these need none: they do not wait at pipes, or open no folders.
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class ContainedImage(ImageLocation):
    """A place below a folder.

    Attributes:
        root: The folder. What lies between it and the file, and the file itself, must be no links.
    """

    root: Path = Path()

    def open_file(self) -> BinaryIO:
        """The file or archive; raises `UnreadableImage` if it is no ordinary file, or the image in it is too large."""
        if self.size is not None and not 0 <= self.size <= MAX_MEMBER_BYTES:
            raise UnreadableImage(str(self.file), f"it has {self.size:,} bytes")
        return open_below(self.root, self.file)


def open_below(root: Path, path: Path) -> BinaryIO:
    """Opens a file by walking down from a folder, so that no link that comes up meanwhile leads elsewhere.

    Args:
        root: The folder.
        path: The file, with all links followed.

    Raises:
        OSError: There is no such file, or a link on the way.
        UnreadableImage: It is a pipe, a device or a folder.
    """
    if os.open in os.supports_dir_fd:
        *folders, name = path.relative_to(root).parts
        folder = os.open(root, _FOLDER_FLAGS)
        try:
            for part in folders:
                outer, folder = folder, os.open(part, _FOLDER_FLAGS, dir_fd=folder)
                os.close(outer)
            number = os.open(name, _FILE_FLAGS, dir_fd=folder)
        finally:
            os.close(folder)
    else:
        number = os.open(path, _FILE_FLAGS)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise UnreadableImage(str(path), NOT_REGULAR)
    return os.fdopen(number, "rb")


THUMBNAIL_SIDES = (128, 256, 512, 1024)
OUTSIDE = "it lies outside of the folders of this collection"
UNNAMED = "the table names no file for it"
# Bytes of cached thumbnails.
CACHE_BYTES = 64 * 2**20
# Images that are decoded at once: a large one takes some hundred megabytes.
MAX_CONCURRENT_DECODES = 2


class Thumbnails:
    """Thumbnails of rows.

    Paths in a table are untrusted: with `..`, as absolute paths or as symbolic links they may lead anywhere. So the
    file must lie in one of the root folders after all links are resolved, or it is not read. Responses are a new JPEG
    of the pixels, never the bytes of a file.

    Args:
        paths: The path of each row in the table, or None.
        roots: The folders that relative paths start from, which are also the only ones that may be read from.
    """

    def __init__(self, paths: Sequence[str | None], roots: Sequence[Path]) -> None:
        self.roots = [root.resolve() for root in roots]
        locations = locate_images([path or "" for path in paths], roots)
        self._locations = [self._known(path, location) for path, location in zip(paths, locations, strict=True)]
        self._cache = _BytesCache(CACHE_BYTES)
        self._semaphore = threading.BoundedSemaphore(MAX_CONCURRENT_DECODES)

    def __len__(self) -> int:
        return len(self._locations)

    def why(self, row: int) -> str | None:
        """Why the image of a row cannot be shown; None if no reason is known."""
        location = self._locations[row]
        return location.reason if isinstance(location, UnreadableImage) else None

    def file(self, row: int) -> Path | None:
        """The file of the image; None for one in an archive, or without an image."""
        location = self._locations[row]
        return None if isinstance(location, UnreadableImage) or location.size is not None else location.file

    def etag(self, row: int, side: int) -> str:
        """A digest that changes whenever the image may have changed.

        Raises:
            UnreadableImage: There is no such image.
        """
        location = self._location(row)
        try:
            state = os.stat(location.file)
        except OSError:
            raise UnreadableImage(str(location.file), NO_SUCH_FILE, missing=True) from None
        facts = (location.file, location.start, location.size, state.st_size, state.st_mtime_ns, side)
        return hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()[:32]

    def jpeg(self, row: int, side: int) -> bytes:
        """The image as a JPEG whose longer side has `side` pixels.

        Raises:
            UnreadableImage: There is no such image, or it cannot be read.
        """
        etag = self.etag(row, side)
        cached = self._cache.get(etag)
        if cached is None:
            with self._semaphore:
                image = thumbnail(self._location(row), side)
                written = io.BytesIO()
                # Pillow would put the comment of the file into the new one.
                image.save(written, format="JPEG", quality=85, comment=b"")
            cached = written.getvalue()
            self._cache.put(etag, cached)
        return cached

    def summary(self) -> str:
        """How many images were found, as a message, with a hint for those that were not."""
        whys = [location.reason for location in self._locations if isinstance(location, UnreadableImage)]
        if not whys:
            return f"All {len(self):,} images were found."
        outside = sum(why == OUTSIDE for why in whys)
        text = f"{len(self) - len(whys):,} of {len(self):,} images were found."
        if outside:
            text += f" {outside:,} lie outside of the folders of this collection; allow their folder with --root."
        elif all(why == UNNAMED for why in whys):
            text += " The table names no files."
        else:
            text += " Name the folder that their paths begin in with --root."
        return text

    def _location(self, row: int) -> ContainedImage:
        """The location of a row, checked again: a link may have changed since."""
        location = self._locations[row]
        checked = self._checked(location)
        if isinstance(checked, UnreadableImage):
            raise UnreadableImage(checked.name, checked.reason)
        return checked

    def _known(self, path: str | None, location: ImageLocation | UnreadableImage) -> ImageLocation | UnreadableImage:
        """The location with unresolved links if it may be read; or why not."""
        if not path:
            return UnreadableImage("", UNNAMED)
        checked = self._checked(location)
        return checked if isinstance(checked, UnreadableImage) else location

    def _checked(self, location: ImageLocation | UnreadableImage) -> ContainedImage | UnreadableImage:
        """The location with all links resolved, or the reason why it is not read."""
        if isinstance(location, UnreadableImage):
            return location
        try:
            file = location.file.resolve(strict=True)
        except (OSError, RuntimeError):  # gone, or links that lead in a circle
            return UnreadableImage(str(location.file), NO_SUCH_FILE, missing=True)
        root = next((root for root in self.roots if file.is_relative_to(root)), None)
        if root is None:
            return UnreadableImage(str(location.file), OUTSIDE)
        if not file.is_file():
            return UnreadableImage(str(location.file), NOT_REGULAR)
        return ContainedImage(file, location.start, location.size, root)


class _BytesCache:
    """A least-recently-used cache, limited in bytes."""

    def __init__(self, most: int) -> None:
        self._most, self._total = most, 0
        self._items: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
            return self._items.get(key)

    def put(self, key: str, value: bytes) -> None:
        with self._lock:
            if key in self._items or len(value) > self._most:
                return
            self._items[key] = value
            self._total += len(value)
            while self._total > self._most:
                self._total -= len(self._items.popitem(last=False)[1])
