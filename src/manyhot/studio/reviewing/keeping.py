"""Journal and labels file side by side: every edit goes into the one at once, and into the other soon after."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from glob import escape
from pathlib import Path

from manyhot.files import keep_names, whole_file
from manyhot.predictions.roles import listed
from manyhot.refusal import Refusal
from manyhot.studio.reviewing.edits import Edit, History
from manyhot.studio.reviewing.entries import edit_entry, is_entry, labels_entry, sample_entry
from manyhot.studio.reviewing.hand_changes import HandChange, Naming, differences, moved, nearest, settled
from manyhot.studio.reviewing.journal import Entry, Journal, check_own_file, not_saved
from manyhot.studio.reviewing.labels_file import LabelsTable, read_table, write_table
from manyhot.studio.reviewing.samples import Samples

JOURNAL = ".journal"
# A labels file that takes long to write is written less often: this many times as long as the writing takes.
REST = 5.0
# Seconds after which a file that somebody else wrote counts as whole, and the longest wait for that.
QUIET, LONGEST_WAIT = 1.0, 10.0
KEPT = "Make room or let the folder be written to; all edits are in the journal beside it."

State = tuple[int, int, int]


class Keeper:
    """Edits by id and label name, each in the journal before `say` returns; see `Review`.

    Args:
        file: The labels file.
        samples: The collection that is open.
        delay: Seconds from an edit to the writing of the labels file.

    Attributes:
        history: All that was said.
        lock: Held while something is said.
        notes: What was found at opening, in plain sentences.
        trouble: Why the labels file could not be written, or None.
    """

    def __init__(self, file: Path, samples: Samples, *, delay: float) -> None:
        self.file, self.samples, self.delay = file, samples, delay
        self.trouble: str | None = None
        # The first guards what was said, the second the labels file; where both are needed, the second comes first.
        self.lock, self._writing = threading.RLock(), threading.RLock()
        self._timer: threading.Timer | None = None
        self._seconds, self._closed = 0.0, False
        check_own_file(file)
        self.journal = Journal(file.with_name(file.name + JOURNAL), is_entry=is_entry)
        try:
            self._begin()
        except BaseException:
            self.journal.close()
            raise

    def _begin(self) -> None:
        """Brings journal, labels file and collection together."""
        for stale in self.file.parent.glob(f".{escape(self.file.name)}.*.part"):  # of a process that was killed
            stale.unlink(missing_ok=True)
        entries, self.journal.entries = self.journal.entries, []
        self.history = History(entries)
        self.notes = list(self.journal.notes)
        self._state, data = self._look(), self._read()
        self._digest = None if data is None else _digest(data)
        written = {digest: History(entries[:count]).table() for digest, count in self.history.tables.items()}
        self._base = written.get(self._digest or "", History().table())
        if data is not None and self._digest not in written:
            self._take_over(data, list(written.values()) or [self._base])
        elif self._digest is not None and len(self.history.tables) > 1:
            # The process ended after the file had been written and before that could be noted.
            self._keep([{"kind": "wrote", "sha256": self._digest}])
        self._describe_again()
        if self.history.samples:
            self._soon()

    def say(self, name: str, labels: Mapping[str, int | None], done: bool | None) -> None:
        """Keeps what somebody said about a sample of the collection."""
        with self.lock:
            self._keep(self._entries_for([HandChange(name, dict(labels), done)], by="studio"))
            self._soon()

    def take_back(self, edit: Edit) -> None:
        """Keeps that an edit does not hold any more."""
        with self.lock:
            self._keep([{"kind": "undo", "number": edit.number, "at": _now()}])
            self._soon()

    def _keep(self, entries: Sequence[Entry]) -> None:
        """Into the journal, and only then into memory."""
        self.journal.append(entries)
        for entry in entries:
            self.history.apply(entry)

    def _entries_for(self, changes: Sequence[HandChange], *, by: str) -> list[Entry]:
        """Edits, and before them the labels and the samples that the journal does not know yet."""
        entries: list[Entry] = []
        described: set[str] = set()
        if list(self.history.columns) != self.samples.labels.names:
            entries.append(labels_entry(self.samples.labels.names))
        at = _now()
        for number, change in enumerate(changes, self.history.next_number):
            name = change.sample
            if name not in self.history.samples and name not in described:
                found = self.samples.describe(name) or (change.path, change.split)
                entries.append(sample_entry(name, *found))
                described.add(name)
            entries.append(edit_entry(Edit(number, name, change.labels, change.done), at=at, by=by))
        return entries

    def _describe_again(self) -> None:
        """Notes which labels, paths and splits are others than in the collection that was open before."""
        names, entries = self.samples.labels.names, []
        if self.history.samples and list(self.history.columns) != names:
            entries.append(labels_entry(names))
        for name, sample in self.history.samples.items():
            found = self.samples.describe(name)
            if found is not None and found != (sample.path, sample.split):
                entries.append(sample_entry(name, *found))
        if entries:
            self._keep(entries)

    def write(self) -> None:
        """Writes the labels file now, if something was said since it was written last.

        Raises:
            NotSaved: It cannot be written; all edits are in the journal.
            Refusal: Somebody changed the file into something that is no labels file; it is left as it is.
        """
        with self._writing:
            if self._closed:
                return
            try:
                self._write()
            except Refusal as error:  # also for whoever asks later; the next edit tries again, and so does `close`
                self.trouble = str(error)
                raise
            self.trouble = None

    def _write(self) -> None:
        self._wait_for_others()
        begun = time.monotonic()
        with self.lock:
            self._absorb()
            said, count = self.history.snapshot(), self.journal.count
        table = said.table()
        text, notes = write_table(table)
        data = text.encode()
        digest = _digest(data)
        if digest != self._digest and (table.paths or self._digest is not None):
            with self.lock:
                self._keep([{"kind": "table", "sha256": digest, "entries": count}])
            self._put(data)
            with self.lock:
                self._keep([{"kind": "wrote", "sha256": digest}])
                self._digest, self._base = digest, table
                self.notes += [note for note in notes if note not in self.notes]
        self._seconds = time.monotonic() - begun

    def _put(self, data: bytes) -> None:
        """The labels file on the disk, whole or not at all, and under its name also after a power cut."""
        try:
            with whole_file(self.file) as part:
                part.write_bytes(data)
            keep_names(self.file.parent)
            self._state = self._look()
        except OSError as error:
            raise not_saved(self.file, error, KEPT) from error

    def _look(self) -> State | None:
        """What tells whether somebody wrote the labels file since, or None where there is none."""
        try:
            stat = self.file.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise not_saved(self.file, error, KEPT) from error
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _read(self) -> bytes | None:
        """The labels file as it is on the disk, or None where there is none."""
        try:
            return self.file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise not_saved(self.file, error, "Name another labels file.") from error

    def _wait_for_others(self) -> None:
        """Waits while somebody else writes the labels file: half of it would look as if rows had been removed."""
        end = time.monotonic() + LONGEST_WAIT
        while (state := self._look()) not in (None, self._state) and time.monotonic() < end:
            assert state is not None
            if time.time() - state[0] / 1e9 > QUIET:
                return
            time.sleep(QUIET / 10)

    def _absorb(self) -> None:
        """Takes over what somebody wrote to the labels file while it was open here."""
        state = self._look()
        if state == self._state:
            return
        data = self._read()
        if data is not None and _digest(data) != self._digest:
            self._take_over(data, [self._base])
        self._digest = None if data is None else _digest(data)
        self._state = state

    def _take_over(self, data: bytes, bases: Sequence[LabelsTable]) -> None:
        """Turns what somebody changed in the labels file into edits.

        Args:
            data: What is in the file.
            bases: What the studio may have written last.
        """
        table, digest = read_table(self.file, data), _digest(data)
        naming = self._naming()
        base = nearest(table, bases, naming)
        said = [
            replace(change, labels=dict(news[0]), done=news[1])
            for change in differences(table, base, naming)
            if (news := settled(change, self.history.samples.get(change.sample))) is not None
        ]
        entries = self._entries_for(said, by="file") if said else []
        # From here on the file counts as written here, so that nothing is taken over twice.
        count = self.journal.count + len(entries)
        entries += [{"kind": "table", "sha256": digest, "entries": count}, {"kind": "wrote", "sha256": digest}]
        self._keep(entries)
        self._digest, self._base = digest, self.history.table()
        gone = [name for name in base.labels if name not in table.labels]
        self.notes += _told(self.file.name, said, gone, moved(table, base))

    def _naming(self) -> Naming:
        """Which sample a path of the labels file is about, also if the collection does not have it."""
        others = {name: one.path for name, one in self.history.samples.items() if name not in self.samples.rows}
        return Naming(self.file.parent, [*self.samples.ids, *others], [*self.samples.paths, *others.values()])

    def _soon(self) -> None:
        """Has the labels file written after a while, once for all that is said until then."""
        if self._timer is None and not self._closed:
            self._timer = threading.Timer(max(self.delay, REST * self._seconds), self._write_later)
            self._timer.daemon = True
            self._timer.start()

    def _write_later(self) -> None:
        with self.lock:
            self._timer = None
        with suppress(Refusal):  # `trouble` tells it
            self.write()

    def close(self) -> None:
        """Writes the labels file, and lets others open it, also if that fails.

        Raises:
            NotSaved, Refusal: As `write`; the journal holds all edits, and is closed nevertheless.
        """
        try:
            self.write()
        finally:
            with self._writing, self.lock:
                self._closed = True
                if self._timer is not None:
                    self._timer.cancel()
                self.journal.close()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _told(file: str, said: Sequence[HandChange], gone: Sequence[str], moved: int) -> list[str]:
    """What people should know about a file that was changed by hand."""
    cells, rows = sum(len(change.labels) for change in said), len({change.sample for change in said})
    counts = f"{cells:,} cell{'s' * (cells != 1)} of {rows:,} row{'s' * (rows != 1)}"
    notes = [f"{file} had been changed by hand: {counts} became edits."]
    if gone:
        notes.append(f"Columns that are gone from {file} are written again: {listed(gone)}.")
    if moved:
        notes.append(f"Splits that were changed in {file} ({moved:,}) are written as they were: the data tell them.")
    return notes
