"""A file that only grows: one line for each thing that happened, on the disk before anybody is told that it is kept."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from manyhot.files import keep_names, take_lock
from manyhot.refusal import Refusal, refusal

Entry = dict[str, Any]

HEADER: Entry = {"journal": "manyhot review", "format": 1}
SHOWN_BYTES = 40


# Without following a link that came up after the check; elsewhere than on POSIX there is no such flag.
OPENING = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class NotSaved(Refusal):
    """Something that could not be written; nothing has changed, on the disk or in memory."""


def not_saved(path: Path, error: OSError | str, remedy: str) -> NotSaved:
    """The error for what could not be written, in the words of all refusals."""
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else error
    return NotSaved(str(refusal("file", "Review", "be writable", f"{str(path)!r} ({reason})", remedy)))


def check_own_file(path: Path) -> None:
    """Refuses a link, a pipe or a folder: what a run from elsewhere links to is not to be read or written."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        got = f"{str(path)!r}, which is {'a link' if path.is_symlink() else 'none'}"
        raise refusal("file", "Review", "be a file of its own", got, "Remove it, or name another labels file.")


class Journal:
    """Entries in a file of JSON lines, each on the disk before `append` returns.

    A last line that a crash cut off in the middle was never acknowledged; it is removed, and `notes` tell so. Any other
    line that is no entry is refused, and the file stays as it is. Another process cannot open the same journal.
    Several threads may append.

    Args:
        path: The file; it is made where there is none, and removed by `close` if nothing was written to it.
        is_entry: Whether an object of JSON is an entry.

    Attributes:
        entries: What was there when the file was opened.
        count: How many entries there are now.
        notes: What people should know about the file.

    Raises:
        NotSaved: The file cannot be written.
        Refusal: Another process has it open, or it holds something else.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "reviewed.csv.journal"
        >>> journal = Journal(path)
        >>> journal.append([{"kind": "edit", "labels": {"dog": 1}}])
        >>> journal.close()
        >>> journal = Journal(path)
        >>> journal.entries
        [{'kind': 'edit', 'labels': {'dog': 1}}]
        >>> journal.close()
    """

    def __init__(self, path: str | os.PathLike[str], *, is_entry: Callable[[Entry], bool] = lambda entry: True) -> None:
        self.path = Path(path)
        self.entries: list[Entry] = []
        self.notes: list[str] = []
        self._lock, self._torn = threading.Lock(), False
        self._open()
        try:
            self._read(is_entry)
        except BaseException:
            self._file.close()
            raise

    def _open(self) -> None:
        """Opens and locks the file, which may be removed by another process between the two."""
        check_own_file(self.path)
        while True:
            new = not self.path.exists()
            try:
                self._file = os.fdopen(os.open(self.path, OPENING, 0o666), "r+b", buffering=0)
                if new:
                    keep_names(self.path.parent)
            except OSError as error:
                remedy = "Name a labels file in a folder that you may write to."
                raise not_saved(self.path, error, remedy) from error
            try:
                take_lock(self._file, wait=False)
            except BlockingIOError:
                self._file.close()
                got = f"{str(self.path)!r}, which another studio has open"
                remedy = "Go on in that one, close it, or name another labels file."
                raise refusal("file", "Review", "be free", got, remedy) from None
            except OSError:
                self.notes.append(f"{self.path.name} lies where files cannot be locked: open it in one studio only.")
            if self._is_there():
                return
            self._file.close()

    def _is_there(self) -> bool:
        """Whether the open file is the one that has the name."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _read(self, is_entry: Callable[[Entry], bool]) -> None:
        data = self._file.readall() or b""
        *lines, tail = data.split(b"\n")
        headed = False
        for number, line in enumerate(lines, 1):
            entry = _parse(line)
            if not line.strip():
                continue
            if entry is None or not (is_entry(entry) if headed else entry == HEADER):
                raise self._garbage(number, line)
            self.entries += [entry] if headed else []
            headed = True
        if not headed and not _line(HEADER).startswith(tail) and _parse(tail) != HEADER:
            raise self._garbage(1, tail)  # no crash of ours left this
        self._end = len(data) - len(tail)
        self._mend(tail, is_entry if headed else HEADER.__eq__)
        self.count = len(self.entries)

    def _mend(self, tail: bytes, is_entry: Callable[[Entry], bool]) -> None:
        """Removes a last line that was cut off; one that lacks nothing but its end is kept, as an editor left it."""
        last = _parse(tail)
        if last is not None and is_entry(last):
            self.entries += [last] if last != HEADER else []
            self._write(b"\n", self._end + len(tail))
            self._end += len(tail) + 1
        elif tail:
            self._torn = True
            self._cut()
            self.notes.append(
                f"The last line of {self.path.name} had been cut off in the middle of writing ({len(tail)} bytes) and "
                "was removed; everything that had been saved before is there."
            )

    def _garbage(self, number: int, line: bytes) -> Refusal:
        some = line[:SHOWN_BYTES].decode("utf-8", "replace") + ("..." if len(line) > SHOWN_BYTES else "")
        got = f"{some!r} in line {number:,} of {str(self.path)!r}"
        rule = f"be a journal of format {HEADER['format']}" if number == 1 else "have an entry in every line"
        remedy = "Repair or remove that line; the file was left as it is."
        return refusal("journal", "Review", rule, got, remedy)

    def append(self, entries: Sequence[Entry]) -> None:
        """Writes entries to the end of the file, and waits until they are on the disk.

        Raises:
            NotSaved: They are not; the file holds what it held before.
        """
        data = b"".join(_line(entry) for entry in entries)
        with self._lock:
            if self._file.closed:
                raise not_saved(self.path, "it has been closed", "Open the studio again.")
            data = data if self._end else _line(HEADER) + data
            try:
                if not self._is_there():
                    raise not_saved(self.path, "it was moved or removed", "Put it back, or open the studio again.")
                self._cut()
                self._torn = True
                self._write(data, self._end)
                self._torn = False
            except OSError as error:
                with suppress(OSError):  # the next one tries again
                    self._cut()
                remedy = "Make room or let the folder be written to, and try again: nothing was changed."
                raise not_saved(self.path, error, remedy) from error
            self._end += len(data)
            self.count += len(entries)

    def _cut(self) -> None:
        """Removes what a write that failed may have left behind the last whole line."""
        if self._torn:
            os.ftruncate(self._file.fileno(), self._end)
            os.fsync(self._file.fileno())
            self._torn = False

    def _write(self, data: bytes, place: int) -> None:
        self._file.seek(place)
        while data:
            data = data[self._file.write(data) :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Lets others open the journal; one without entries is removed."""
        with self._lock:
            if self._file.closed:
                return
            with self._file, suppress(OSError):  # an empty one that stays does no harm
                if not self._end and self._is_there():
                    self.path.unlink()


def _line(entry: Entry) -> bytes:
    # File names may hold bytes that are no UTF-8, which Python keeps as lone surrogates.
    return (json.dumps(entry, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def _parse(line: bytes) -> Entry | None:
    """The object of a line, or None."""
    try:
        found = json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
