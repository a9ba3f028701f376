"""The journal of a review: an append-only file of edits, synced to disk before each is acknowledged."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout  # torch requires it

from manyhot.errors import InputError
from manyhot.files import sync_folder
from manyhot.studio.review_file import LabelsTable

Entry = dict[str, Any]

HEADER: Entry = {"journal": "manyhot review", "format": 1}
MAX_LINE_PREVIEW = 40


# Without following a link that came up after the check; elsewhere than on POSIX there is no such flag.
OPEN_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class WriteError(InputError):
    """Raised if writing failed; nothing has changed, on the disk or in memory."""


def write_error(path: Path, error: OSError | str, hint: str) -> WriteError:
    """The error for a file that could not be written."""
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else error
    return WriteError("file", "Review", "be writable", f"{str(path)!r} ({reason})", hint)


def check_own_file(path: Path) -> None:
    """Raises for a link, a pipe or a folder: links of an untrusted run must not be followed."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        got = f"{str(path)!r}, which is {'a link' if path.is_symlink() else 'none'}"
        raise InputError("file", "Review", "be a file of its own", got, "Remove it, or name another labels file.")


class Journal:
    """Entries in a file of JSON lines, each on the disk before `append` returns.

    A last line that a crash cut off was never acknowledged; it is removed, with an entry in `notes`. Any other invalid
    line raises, and the file stays as it is. Another process cannot open the same journal. Several threads may append.

    Args:
        path: The file; it is created if missing, and removed by `close` if it has no entries.
        is_entry: Whether an object of JSON is an entry.

    Attributes:
        entries: The entries at opening.
        count: The number of entries now.
        notes: Messages about the file.

    Raises:
        WriteError: The file cannot be written.
        InputError: Another process has it open, or it holds something else.

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
        # Beside the file: Windows would keep others from reading the part of the file itself that is locked.
        self._studio_lock = FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=0, thread_local=False)
        self._open()
        try:
            self._read(is_entry)
        except BaseException:
            self._release()
            raise

    def _open(self) -> None:
        """Opens and locks the file, which may be removed by another process between the two."""
        check_own_file(self.path)
        check_own_file(Path(self._studio_lock.lock_file))
        while True:
            new = not self.path.exists()
            try:
                self._file = os.fdopen(os.open(self.path, OPEN_FLAGS, 0o666), "r+b", buffering=0)
                if new:
                    sync_folder(self.path.parent)
            except OSError as error:
                hint = "Name a labels file in a folder that you may write to."
                raise write_error(self.path, error, hint) from error
            try:
                self._studio_lock.acquire()
            except Timeout:
                self._file.close()
                got = f"{str(self.path)!r}, which another studio has open"
                hint = "Go on in that one, close it, or name another labels file."
                raise InputError("file", "Review", "be free", got, hint) from None
            except (OSError, NotImplementedError):
                self.notes.append(f"{self.path.name} lies where files cannot be locked: open it in one studio only.")
            if self._is_current():
                return
            self._file.close()

    def _is_current(self) -> bool:
        """Whether the open file is the one that has the name."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _read(self, is_entry: Callable[[Entry], bool]) -> None:
        data = self._file.readall() or b""
        *lines, tail = data.split(b"\n")
        has_header = False
        for number, line in enumerate(lines, 1):
            entry = _decode_entry(line)
            if not line.strip():
                continue
            if entry is None or not (is_entry(entry) if has_header else entry == HEADER):
                raise self._garbage(number, line)
            self.entries += [entry] if has_header else []
            has_header = True
        if not has_header and not _encode_entry(HEADER).startswith(tail) and _decode_entry(tail) != HEADER:
            raise self._garbage(1, tail)  # no crash of ours left this
        self._end = len(data) - len(tail)
        self._repair_tail(tail, is_entry if has_header else HEADER.__eq__)
        self.count = len(self.entries)

    def _repair_tail(self, tail: bytes, is_entry: Callable[[Entry], bool]) -> None:
        """Removes a last line that was cut off; one that lacks nothing but its end is kept, as an editor left it."""
        last = _decode_entry(tail)
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

    def _garbage(self, number: int, line: bytes) -> InputError:
        some = line[:MAX_LINE_PREVIEW].decode("utf-8", "replace") + ("..." if len(line) > MAX_LINE_PREVIEW else "")
        got = f"{some!r} in line {number:,} of {str(self.path)!r}"
        rule = f"be a journal of format {HEADER['format']}" if number == 1 else "have an entry in every line"
        hint = "Repair or remove that line; the file was left as it is."
        return InputError("journal", "Review", rule, got, hint)

    def append(self, entries: Sequence[Entry]) -> None:
        """Writes entries to the end of the file, and waits until they are on the disk.

        Raises:
            WriteError: They are not; the file holds what it held before.
        """
        data = b"".join(_encode_entry(entry) for entry in entries)
        with self._lock:
            if self._file.closed:
                raise write_error(self.path, "it has been closed", "Open the studio again.")
            data = data if self._end else _encode_entry(HEADER) + data
            try:
                if not self._is_current():
                    raise write_error(self.path, "it was moved or removed", "Put it back, or open the studio again.")
                self._cut()
                self._torn = True
                self._write(data, self._end)
                self._torn = False
            except OSError as error:
                with suppress(OSError):  # the next one tries again
                    self._cut()
                hint = "Free disk space or make the folder writable, and try again: nothing was changed."
                raise write_error(self.path, error, hint) from error
            self._end += len(data)
            self.count += len(entries)

    def _cut(self) -> None:
        """Removes what a write that failed may have left behind the last whole line."""
        if self._torn:
            os.ftruncate(self._file.fileno(), self._end)
            os.fsync(self._file.fileno())
            self._torn = False

    def _write(self, data: bytes, offset: int) -> None:
        self._file.seek(offset)
        while data:
            data = data[self._file.write(data) :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Releases the journal; one without entries is removed."""
        with self._lock:
            if self._file.closed:
                return
            with self._file, suppress(OSError):  # an empty one that stays does no harm
                if not self._end and self._is_current():
                    self.path.unlink()
            self._release()

    def _release(self) -> None:
        self._file.close()
        if self._studio_lock.is_locked:
            with suppress(OSError):
                os.unlink(self._studio_lock.lock_file)
            self._studio_lock.release(force=True)  # it may have been acquired more than once


def _encode_entry(entry: Entry) -> bytes:
    # File names may hold bytes that are no UTF-8, which Python keeps as lone surrogates.
    return (json.dumps(entry, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def _decode_entry(line: bytes) -> Entry | None:
    """The object of a line, or None."""
    try:
        value = json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


PRESENT, ABSENT, UNKNOWN = 1, 0, -1


class Edit(NamedTuple):
    """One edit: for a label, None withdraws earlier edits; for `done`, None leaves it as it is."""

    number: int
    sample: str
    labels: Mapping[str, int | None]
    done: bool | None


@dataclass
class EditedSample:
    """A sample with edits.

    Attributes:
        path: The path of its image in the labels file.
        split: Its split, where known.
        edits: Its edits in order, without undone ones.
        cells: The resulting cells, by label; replaced as a whole, so that other threads may read them meanwhile.
        done: Whether its review is finished.
    """

    path: str
    split: str | None
    edits: list[Edit] = field(default_factory=list)
    cells: Mapping[str, int] = field(default_factory=dict)
    done: bool = False

    def replay(self, edits: Iterable[Edit]) -> tuple[dict[str, int], bool]:
        """Cells and done after these edits."""
        cells: dict[str, int] = {}
        done = False
        for edit in edits:
            for name, value in edit.labels.items():
                cells.pop(name, None)
                if value is not None:
                    cells[name] = value
            done = done if edit.done is None else edit.done
        return cells, done

    def settle(self) -> None:
        """Brings cells and done up to the edits."""
        self.cells, self.done = self.replay(self.edits)

    @property
    def touched(self) -> bool:
        """Whether the labels file has it."""
        return bool(self.cells) or self.done


class History:
    """The state that a journal describes, built entry by entry.

    Attributes:
        columns: The labels of the collection that was opened last, with their positions.
        samples: By id, in the order of their first entry.
        last: Edits that were not undone, in order.
        next_number: Number of the next edit.
        tables: Digest of each labels file that may lie on the disk, and the number of entries that it was made from.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.columns: Mapping[str, int] = {}
        self.samples: dict[str, EditedSample] = {}
        self.last: list[Edit] = []
        self.next_number = 1
        self.tables: dict[str, int] = {}
        for entry in entries:
            self.apply(entry)

    def apply(self, entry: Entry) -> None:
        """Applies the next entry."""
        getattr(self, f"_{entry['kind']}")(entry)

    def _labels(self, entry: Entry) -> None:
        self.columns = {name: position for position, name in enumerate(entry["names"])}

    def _sample(self, entry: Entry) -> None:
        sample = self.samples.setdefault(entry["id"], EditedSample("", None))
        sample.path, sample.split = entry["path"], entry["split"]

    def _edit(self, entry: Entry) -> None:
        edit = Edit(entry["number"], entry["id"], entry["labels"], entry["done"])
        sample = self.samples.setdefault(edit.sample, EditedSample(edit.sample, None))
        sample.edits.append(edit)
        sample.settle()
        self.last.append(edit)
        self.next_number = max(self.next_number, edit.number + 1)

    def _undo(self, entry: Entry) -> None:
        # The last one is nearly always meant; a line that somebody removed by hand is not there to be taken back.
        positions = range(len(self.last) - 1, -1, -1)
        position = next((position for position in positions if self.last[position].number == entry["number"]), None)
        if position is not None:
            edit = self.last.pop(position)
            sample = self.samples[edit.sample]
            sample.edits.remove(edit)
            sample.settle()

    def _table(self, entry: Entry) -> None:
        # Whether it took the place of the one before is not certain until the next entry says so.
        self.tables[entry["sha256"]] = entry["entries"]

    def _wrote(self, entry: Entry) -> None:
        self.tables = {entry["sha256"]: self.tables.get(entry["sha256"], 0)}

    def touched(self) -> dict[str, EditedSample]:
        """The samples of the labels file, by id."""
        return {name: sample for name, sample in self.samples.items() if sample.touched}

    def snapshot(self) -> Snapshot:
        """What the labels file is made from, as it is now."""
        rows = [(name, one.path, one.split, one.cells) for name, one in self.touched().items()]
        return Snapshot(self.columns, rows)

    def table(self) -> LabelsTable:
        """The labels file."""
        return self.snapshot().table()


class Snapshot(NamedTuple):
    """Labels with their places, and of each touched sample id, path, split, and what was said.

    Nothing of it changes any more, so that a table can be made from it while others go on.
    """

    columns: Mapping[str, int]
    rows: Sequence[tuple[str, str, str | None, Mapping[str, int]]]

    def table(self) -> LabelsTable:
        """What was said, and nothing else: old labels would undo what others have repaired meanwhile.

        Labels that the collection does not have follow those that it has, if somebody said something about them.
        """
        positions = dict(self.columns)
        for *_, cells in self.rows:
            for name in cells:
                positions.setdefault(name, len(positions))
        table = LabelsTable(list(positions), [], [], [], [])
        for name, path, split, cells in self.rows:
            row: list[int | None] = [None] * len(positions)
            for label, value in cells.items():
                row[positions[label]] = value
            table.ids.append(name)
            table.paths.append(path)
            table.splits.append(split)
            table.cells.append(row)
        return table


def labels_entry(names: Sequence[str]) -> Entry:
    """That these are the labels from now on."""
    return {"kind": "labels", "names": list(names)}


def sample_entry(name: str, path: str, split: str | None) -> Entry:
    """How the labels file names a sample, and its split."""
    return {"kind": "sample", "id": name, "path": path, "split": split}


def edit_entry(edit: Edit, *, at: str, by: str) -> Entry:
    """What was said, when, and where: "studio", or "file" for a labels file that was changed by hand."""
    labels = dict(edit.labels)
    return {
        "kind": "edit",
        "number": edit.number,
        "id": edit.sample,
        "labels": labels,
        "done": edit.done,
        "at": at,
        "by": by,
    }


def is_valid_entry(entry: Entry) -> bool:
    """Whether an object of a journal is an entry that `History` understands; what else is in it says nothing."""
    kinds = {
        "labels": {"names": _are_texts},
        "sample": {"id": _is_text, "path": _is_text, "split": _is_optional_text},
        "edit": {"number": _is_count, "id": _is_text, "labels": _are_cells, "done": _is_optional_bool},
        "undo": {"number": _is_count},
        "table": {"sha256": _is_text, "entries": _is_count},
        "wrote": {"sha256": _is_text},
    }
    kind = entry.get("kind")
    checks = kinds.get(kind) if isinstance(kind, str) else None
    return checks is not None and all(name in entry and check(entry[name]) for name, check in checks.items())


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_optional_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_optional_bool(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def is_target(value: Any) -> bool:
    """Whether this is 1, 0 or -1."""
    return isinstance(value, int) and not isinstance(value, bool) and value in (PRESENT, ABSENT, UNKNOWN)


def _are_cells(value: Any) -> bool:
    return isinstance(value, dict) and all(one is None or is_target(one) for one in value.values())
