"""The pictures of a collection: asked for by row, never by path, and only from the folders that it was opened with."""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from manyhot.data.images import QUIET
from manyhot.search.places import MISSING, Place, Unreadable, locate
from manyhot.search.tiles import small_picture
from manyhot.studio.contained import ODD, Contained

SIDES = (128, 256, 512, 1024)
OUTSIDE = "it lies outside of the folders of this collection"
UNNAMED = "the table names no file for it"
# How many bytes of small pictures are kept.
KEPT_BYTES = 64 * 2**20
# Pictures that are decoded at once: a large one takes some hundred megabytes.
AT_ONCE = 2


class Pictures:
    """Small pictures of rows.

    A path in a table is not to be trusted: with `..`, as an absolute path or as a symbolic link it may lead anywhere.
    So the file that is opened in the end must lie in one of the folders, all links followed, or it is not read. What
    is sent is a new JPEG of the pixels, never the bytes of a file.

    Args:
        paths: The path of each row as the table has it, None where there is none.
        roots: The folders that relative paths may begin in, which are also those that may be read from.
    """

    def __init__(self, paths: Sequence[str | None], roots: Sequence[Path]) -> None:
        self.roots = [root.resolve() for root in roots]
        found = locate([path or "" for path in paths], roots)
        self._places = [self._known(path, place) for path, place in zip(paths, found, strict=True)]
        self._kept = _Kept(KEPT_BYTES)
        self._turns = threading.BoundedSemaphore(AT_ONCE)

    def __len__(self) -> int:
        return len(self._places)

    def why(self, row: int) -> str | None:
        """Why the picture of a row cannot be shown; None if nothing is known against it."""
        place = self._places[row]
        return str(place) if isinstance(place, Unreadable) else None

    def file(self, row: int) -> Path | None:
        """Where the picture lies as a file of its own; None for one in an archive, or none at all."""
        place = self._places[row]
        return None if isinstance(place, Unreadable) or place.size is not None else place.file

    def mark(self, row: int, side: int) -> str:
        """A text that is another one as soon as the picture may be another one.

        Raises:
            Unreadable: There is no such picture.
        """
        place = self._place(row)
        try:
            state = os.stat(place.file)
        except OSError:
            raise Unreadable(MISSING) from None
        facts = (place.file, place.start, place.size, state.st_size, state.st_mtime_ns, side)
        return hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()[:32]

    def jpeg(self, row: int, side: int) -> bytes:
        """The picture as a JPEG whose longer side is so many pixels.

        Raises:
            Unreadable: There is no such picture, or it cannot be read.
        """
        mark = self.mark(row, side)
        kept = self._kept.get(mark)
        if kept is None:
            with self._turns, QUIET:  # odd pictures make Pillow warn
                picture = small_picture(self._place(row), side)
                written = io.BytesIO()
                # Pillow would put the comment of the file into the new one.
                picture.save(written, format="JPEG", quality=85, comment=b"")
            kept = written.getvalue()
            self._kept.put(mark, kept)
        return kept

    def words(self) -> str:
        """How many pictures there are, in a sentence; with a remedy for those that may not be read."""
        whys = [str(place) for place in self._places if isinstance(place, Unreadable)]
        if not whys:
            return f"All {len(self):,} pictures were found."
        outside = sum(why == OUTSIDE for why in whys)
        text = f"{len(self) - len(whys):,} of {len(self):,} pictures were found."
        if outside:
            text += f" {outside:,} lie outside of the folders of this collection; allow their folder with --root."
        elif all(why == UNNAMED for why in whys):
            text += " The table names no files."
        else:
            text += " Name the folder that their paths begin in with --root."
        return text

    def _place(self, row: int) -> Contained:
        """The place of a row, checked anew: a link may have been changed since."""
        place = self._places[row]
        checked = place if isinstance(place, Unreadable) else self._checked(place)
        if isinstance(checked, Unreadable):
            raise Unreadable(str(checked))
        return checked

    def _known(self, path: str | None, place: Place | Unreadable) -> Place | Unreadable:
        """The place as the table has it, with its links, if it may be read; or why not."""
        if not path:
            return Unreadable(UNNAMED)
        checked = self._checked(place)
        return checked if isinstance(checked, Unreadable) else place

    def _checked(self, place: Place | Unreadable) -> Contained | Unreadable:
        """The place with all links followed, or the reason why nothing is read there."""
        if isinstance(place, Unreadable):
            return place
        try:
            file = place.file.resolve(strict=True)
        except (OSError, RuntimeError):  # gone, or links that lead in a circle
            return Unreadable(MISSING)
        root = next((root for root in self.roots if file.is_relative_to(root)), None)
        if root is None:
            return Unreadable(OUTSIDE)
        return Contained(file, place.start, place.size, root) if file.is_file() else Unreadable(ODD)


class _Kept:
    """The bytes that were asked for last, up to a total."""

    def __init__(self, most: int) -> None:
        self._most, self._total = most, 0
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def put(self, key: str, value: bytes) -> None:
        with self._lock:
            if key in self._held or len(value) > self._most:
                return
            self._held[key] = value
            self._total += len(value)
            while self._total > self._most:
                self._total -= len(self._held.popitem(last=False)[1])
