"""Reviews: edits of labels in a journal, and the labels file made from it."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import NamedTuple, Self

from manyhot.errors import InputError
from manyhot.files import atomic_write, sync_folder
from manyhot.labels import Labels
from manyhot.studio.review_file import (
    FileChange,
    LabelsTable,
    SampleResolver,
    count_moved_splits,
    diff_tables,
    format_labels_file,
    nearest_base,
    parse_labels_file,
)
from manyhot.studio.review_journal import (
    Edit,
    EditedSample,
    Entry,
    History,
    Journal,
    check_own_file,
    edit_entry,
    is_target,
    is_valid_entry,
    labels_entry,
    sample_entry,
    write_error,
)
from manyhot.tables.columns import preview_names


def effective_change(
    change: FileChange, sample: EditedSample | None
) -> tuple[Mapping[str, int | None], bool | None] | None:
    """What of a change is news; None if nothing is."""
    cells: Mapping[str, int] = {} if sample is None else sample.cells
    if change.done is False:
        return (dict.fromkeys(cells), False) if sample is not None and sample.touched else None
    labels = {name: value for name, value in change.labels.items() if cells.get(name) != value}
    done = change.done if sample is None or sample.done != change.done else None
    return (labels, done) if labels or done is not None else None


class ReviewSamples:
    """Ids, paths and splits of a collection; see `Review`."""

    def __init__(
        self,
        labels: Labels,
        ids: Sequence[str],
        paths: Sequence[str | None],
        splits: Sequence[str] | None = None,
    ) -> None:
        self.labels, self.ids = labels, list(ids)
        self.rows = {name: row for row, name in enumerate(self.ids)}
        self.columns: Mapping[str, int] = {name: index for index, name in enumerate(labels.names)}
        self.splits = splits
        self._check(paths)
        self.paths = [path or name for path, name in zip(paths, self.ids, strict=True)]

    def _check(self, paths: Sequence[str | None]) -> None:
        """Raises if the arguments do not fit together."""
        if len(self.rows) < len(self.ids):
            twice = next(name for row, name in enumerate(self.ids) if self.rows[name] != row)
            raise InputError("ids", "Review", "be distinct", f"{twice!r} twice", "Give every sample an id of its own.")
        for name, part in (("paths", paths), ("splits", self.splits)):
            if part is not None and len(part) != len(self.ids):
                rule = f"have one entry for each of the {len(self.ids):,} samples"
                raise InputError(name, "Review", rule, f"{len(part):,}", "Pass one for each sample.")

    def describe(self, name: str) -> tuple[str, str | None] | None:
        """The path of a sample in the labels file, and its split; None for a sample outside the collection."""
        row = self.rows.get(name)
        if row is None:
            return None
        return self.paths[row], None if self.splits is None else self.splits[row]


JOURNAL_SUFFIX = ".journal"
# A labels file that is slow to write is written less often: the pause is this many times the duration of a write.
WRITE_PAUSE_FACTOR = 5.0
# Seconds after which a file written by another program counts as complete, and the longest wait for that.
QUIET, MAX_WAIT = 1.0, 10.0
WRITE_ERROR_HINT = "Free disk space or make the folder writable; all edits are in the journal beside it."

FileState = tuple[int, int, int]


class ReviewStore:
    """Edits by id and label name, each in the journal before `record` returns; see `Review`.

    Args:
        file: The labels file.
        samples: The collection that is open.
        delay: Seconds from an edit to the writing of the labels file.

    Attributes:
        history: All edits.
        lock: Held while an edit is recorded.
        notes: Messages about the state of the files at opening.
        trouble: Why the labels file could not be written, or None.
    """

    def __init__(self, file: Path, samples: ReviewSamples, *, delay: float) -> None:
        self.file, self.samples, self.delay = file, samples, delay
        self.trouble: str | None = None
        # The first guards the edits, the second the labels file; if both are needed, the second comes first.
        self.lock, self._writing = threading.RLock(), threading.RLock()
        self._timer: threading.Timer | None = None
        self._seconds, self._closed = 0.0, False
        check_own_file(file)
        self.journal = Journal(file.with_name(file.name + JOURNAL_SUFFIX), is_entry=is_valid_entry)
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
        self._state, data = self._file_state(), self._read()
        self._digest = None if data is None else _digest(data)
        written = {digest: History(entries[:count]).table() for digest, count in self.history.tables.items()}
        self._base = written.get(self._digest or "", History().table())
        if data is not None and self._digest not in written:
            self._import_changes(data, list(written.values()) or [self._base])
        elif self._digest is not None and len(self.history.tables) > 1:
            # The process ended after the file had been written and before that could be noted.
            self._append([{"kind": "wrote", "sha256": self._digest}])
        self._describe_again()
        if self.history.samples:
            self._schedule_write()

    def record(self, name: str, labels: Mapping[str, int | None], done: bool | None) -> None:
        """Keeps what somebody said about a sample of the collection."""
        with self.lock:
            self._append(self._entries_for([FileChange(name, dict(labels), done)], by="studio"))
            self._schedule_write()

    def undo_edit(self, edit: Edit) -> None:
        """Keeps that an edit does not hold any more."""
        with self.lock:
            self._append([{"kind": "undo", "number": edit.number, "at": _now()}])
            self._schedule_write()

    def _append(self, entries: Sequence[Entry]) -> None:
        """Into the journal, and only then into memory."""
        self.journal.append(entries)
        for entry in entries:
            self.history.apply(entry)

    def _entries_for(self, changes: Sequence[FileChange], *, by: str) -> list[Entry]:
        """Edits, and before them the labels and the samples that the journal does not know yet."""
        entries: list[Entry] = []
        described: set[str] = set()
        if list(self.history.columns) != self.samples.labels.names:
            entries.append(labels_entry(self.samples.labels.names))
        at = _now()
        for number, change in enumerate(changes, self.history.next_number):
            name = change.sample
            if name not in self.history.samples and name not in described:
                description = self.samples.describe(name) or (change.path, change.split)
                entries.append(sample_entry(name, *description))
                described.add(name)
            entries.append(edit_entry(Edit(number, name, change.labels, change.done), at=at, by=by))
        return entries

    def _describe_again(self) -> None:
        """Notes which labels, paths and splits are others than in the collection that was open before."""
        names, entries = self.samples.labels.names, []
        if self.history.samples and list(self.history.columns) != names:
            entries.append(labels_entry(names))
        for name, sample in self.history.samples.items():
            description = self.samples.describe(name)
            if description is not None and description != (sample.path, sample.split):
                entries.append(sample_entry(name, *description))
        if entries:
            self._append(entries)

    def write(self) -> None:
        """Writes the labels file now, if there are edits since the last write.

        Raises:
            WriteError: It cannot be written; all edits are in the journal.
            InputError: The file was changed and is no labels file any more; it is left as it is.
        """
        with self._writing:
            if self._closed:
                return
            try:
                self._write()
            except InputError as error:  # kept for later callers; the next edit and `close` try again
                self.trouble = str(error)
                raise
            self.trouble = None

    def _write(self) -> None:
        self._wait_for_others()
        begun = time.monotonic()
        with self.lock:
            self._absorb()
            recorded, count = self.history.snapshot(), self.journal.count
        table = recorded.table()
        text, notes = format_labels_file(table)
        data = text.encode()
        digest = _digest(data)
        if digest != self._digest and (table.paths or self._digest is not None):
            with self.lock:
                self._append([{"kind": "table", "sha256": digest, "entries": count}])
            self._put(data)
            with self.lock:
                self._append([{"kind": "wrote", "sha256": digest}])
                self._digest, self._base = digest, table
                self.notes += [note for note in notes if note not in self.notes]
        self._seconds = time.monotonic() - begun

    def _put(self, data: bytes) -> None:
        """Writes the labels file atomically and durably."""
        try:
            with atomic_write(self.file) as part:
                part.write_bytes(data)
            sync_folder(self.file.parent)
            self._state = self._file_state()
        except OSError as error:
            raise write_error(self.file, error, WRITE_ERROR_HINT) from error

    def _file_state(self) -> FileState | None:
        """Modification time, size and inode of the labels file, which show changes by others; None without a file."""
        try:
            stat = self.file.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise write_error(self.file, error, WRITE_ERROR_HINT) from error
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _read(self) -> bytes | None:
        """The labels file as it is on the disk, or None where there is none."""
        try:
            return self.file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise write_error(self.file, error, "Name another labels file.") from error

    def _wait_for_others(self) -> None:
        """Waits while somebody else writes the labels file: half of it would look as if rows had been removed."""
        end = time.monotonic() + MAX_WAIT
        while (state := self._file_state()) not in (None, self._state) and time.monotonic() < end:
            assert state is not None
            if time.time() - state[0] / 1e9 > QUIET:
                return
            time.sleep(QUIET / 10)

    def _absorb(self) -> None:
        """Takes over what somebody wrote to the labels file while it was open here."""
        state = self._file_state()
        if state == self._state:
            return
        data = self._read()
        if data is not None and _digest(data) != self._digest:
            self._import_changes(data, [self._base])
        self._digest = None if data is None else _digest(data)
        self._state = state

    def _import_changes(self, data: bytes, bases: Sequence[LabelsTable]) -> None:
        """Turns what somebody changed in the labels file into edits.

        Args:
            data: What is in the file.
            bases: What the studio may have written last.
        """
        table, digest = parse_labels_file(self.file, data), _digest(data)
        naming = self._naming()
        base = nearest_base(table, bases, naming)
        recorded = [
            replace(change, labels=dict(news[0]), done=news[1])
            for change in diff_tables(table, base, naming)
            if (news := effective_change(change, self.history.samples.get(change.sample))) is not None
        ]
        entries = self._entries_for(recorded, by="file") if recorded else []
        # From here on the file counts as written here, so that nothing is taken over twice.
        count = self.journal.count + len(entries)
        entries += [{"kind": "table", "sha256": digest, "entries": count}, {"kind": "wrote", "sha256": digest}]
        self._append(entries)
        self._digest, self._base = digest, self.history.table()
        gone = [name for name in base.labels if name not in table.labels]
        self.notes += _describe_changes(self.file.name, recorded, gone, count_moved_splits(table, base))

    def _naming(self) -> SampleResolver:
        """Which sample a path of the labels file is about, also if the collection does not have it."""
        others = {name: one.path for name, one in self.history.samples.items() if name not in self.samples.rows}
        return SampleResolver(self.file.parent, [*self.samples.ids, *others], [*self.samples.paths, *others.values()])

    def _schedule_write(self) -> None:
        """Schedules one write of the labels file for all edits until then."""
        if self._timer is None and not self._closed:
            self._timer = threading.Timer(max(self.delay, WRITE_PAUSE_FACTOR * self._seconds), self._write_later)
            self._timer.daemon = True
            self._timer.start()

    def _write_later(self) -> None:
        with self.lock:
            self._timer = None
        with suppress(InputError):  # `trouble` holds it
            self.write()

    def close(self) -> None:
        """Writes the labels file, and releases it even if that fails.

        Raises:
            WriteError, InputError: As `write`; the journal holds all edits, and is closed nevertheless.
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


def _describe_changes(file: str, recorded: Sequence[FileChange], gone: Sequence[str], moved: int) -> list[str]:
    """Notes about a file that was changed by hand."""
    cells, rows = sum(len(change.labels) for change in recorded), len({change.sample for change in recorded})
    counts = f"{cells:,} cell{'s' * (cells != 1)} of {rows:,} row{'s' * (rows != 1)}"
    notes = [f"{file} had been changed by hand: {counts} became edits."]
    if gone:
        notes.append(f"Columns that are gone from {file} are written again: {preview_names(gone)}.")
    if moved:
        notes.append(
            f"Splits that were changed in {file} ({moved:,}) are written as they were: splits come from the data."
        )
    return notes


class ReviewCounts(NamedTuple):
    """Which rows are done and edited after so many entries of the journal."""

    entries: int
    done: list[int]
    edited: list[int]


class Review:
    """Edits of labels, each on the disk before `edit` returns. Several threads may call it.

    `reviewed.csv.journal` holds every edit, by the id of the sample and the name of the label. `reviewed.csv` is
    generated from it alone, a table that `read_corrections` reads: one row per edited or finished sample, one column
    per label, with 1, 0 or -1 for edited cells and blanks for all others, whatever the data hold. So it can be applied
    to data that were fixed meanwhile, and on top of other corrections, without undoing them. It is written atomically,
    soon after each edit.

    A collection of other samples or labels may be opened with the same file. Edits of samples and labels that it does
    not have are not shown, and stay in the journal and in the labels file, such a label as a column behind those of
    the collection.

    If the labels file was changed by hand, the cells that differ from what was written become edits when it is opened,
    or before it is written again; a blanked cell withdraws its edit. `notes` holds their number.

    Args:
        file: The labels file.
        labels: The K labels of the collection.
        ids: N distinct texts.
        paths: The path of each image in the labels file, relative to its folder or absolute; None for the id.
        splits: N names of splits, or None.
        delay: Seconds from an edit to the writing of the labels file.

    Attributes:
        file: The labels file.

    Raises:
        WriteError: The folder is not writable, or the disk is full. Nothing has changed then.
        InputError: Another studio has the file open, or it is no labels file.

    Example:
        >>> from tempfile import mkdtemp
        >>> file = Path(mkdtemp()) / "reviewed.csv"
        >>> with Review(file, labels=["dog", "cat"], ids="ab", paths=["a.jpg", "b.jpg"]) as review:
        ...     review.edit(1, {"dog": 1}, done=True)
        ...     review.cells(1)
        {0: 1}
        >>> print(file.read_text(), end="")
        path,dog,cat
        b.jpg,1,
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        *,
        labels: Labels | Sequence[str],
        ids: Sequence[str],
        paths: Sequence[str | None],
        splits: Sequence[str] | None = None,
        delay: float = 0.5,
    ) -> None:
        self.file = Path(file)
        self._samples = ReviewSamples(labels if isinstance(labels, Labels) else Labels(labels), ids, paths, splits)
        self._store = ReviewStore(self.file, self._samples, delay=delay)
        self._cached_counts = ReviewCounts(-1, [], [])

    @property
    def notes(self) -> list[str]:
        """Messages about the journal and the labels file."""
        return list(self._store.notes)

    @property
    def trouble(self) -> str | None:
        """Why the labels file could not be written last time, or None; all edits are in the journal."""
        return self._store.trouble

    @property
    def done(self) -> int:
        """The number of finished samples of the collection."""
        return len(self.done_rows())

    @property
    def edited(self) -> int:
        """The number of samples of the collection with an edited label."""
        return len(self.edited_rows())

    def done_rows(self) -> list[int]:
        """The finished rows, in rising order."""
        return self._counts().done

    def edited_rows(self) -> list[int]:
        """The rows with an edited label, in rising order."""
        return self._counts().edited

    def _counts(self) -> ReviewCounts:
        """The finished and edited rows, recomputed after new edits."""
        with self._store.lock:
            if self._cached_counts.entries != self._store.journal.count:
                rows, samples = self._samples.rows, self._store.history.touched()
                known = sorted((rows[name], sample) for name, sample in samples.items() if name in rows)
                done = [row for row, sample in known if sample.done]
                edited = [row for row, sample in known if self._shown(sample)]
                self._cached_counts = ReviewCounts(self._store.journal.count, done, edited)
            return self._cached_counts

    def cells(self, row: int) -> dict[int, int]:
        """The edited labels of a row, by column: 1 present, 0 absent, -1 unknown."""
        return self._shown(self._sample(row))

    def is_done(self, row: int) -> bool:
        """Whether the review of a row is finished."""
        sample = self._sample(row)
        return sample is not None and sample.done

    def edit(self, row: int, labels: Mapping[str, int | None], done: bool | None = None) -> None:
        """Records an edit of a row; it is on the disk when this returns.

        Args:
            row: Row number in the collection.
            labels: 1 present, 0 absent, -1 unknown, None to withdraw an edit, by label.
            done: Whether the review of the row is finished; None leaves that as it is.

        Raises:
            WriteError: It could not be written, and nothing has changed.
        """
        name = self._samples.ids[self._check_row(row)]
        self._check_edit(labels, done)
        with self._store.lock:
            if _changes_state(self._sample(row), labels, done):
                self._store.record(name, labels, done)

    def undo(self) -> int | None:
        """Undoes the last edit of the collection that was not undone; repeated calls go back to the first.

        Returns:
            The row of the edit; None if there is none.
        """
        with self._store.lock:
            last = reversed(self._store.history.last)
            edit: Edit | None = next((edit for edit in last if edit.sample in self._samples.rows), None)
            if edit is None:
                return None
            self._store.undo_edit(edit)
            return self._samples.rows[edit.sample]

    def write(self) -> None:
        """Writes the labels file now instead of soon; raises `WriteError` where that fails."""
        self._store.write()

    def close(self) -> None:
        """Writes the labels file, and releases it even if that fails; later edits raise.

        Raises:
            WriteError: The labels file could not be written; all edits are in the journal, and `trouble` is set.
            InputError: The labels file was changed into something else; it is left as it is.
        """
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _sample(self, row: int) -> EditedSample | None:
        return self._store.history.samples.get(self._samples.ids[self._check_row(row)])

    def _shown(self, sample: EditedSample | None) -> dict[int, int]:
        columns = self._samples.columns
        cells = {} if sample is None else sample.cells
        return {columns[name]: value for name, value in cells.items() if name in columns}

    def _check_row(self, row: int) -> int:
        if 0 <= row < len(self._samples.ids):
            return row
        rule = f"lie between 0 and {len(self._samples.ids) - 1}"
        raise InputError("row", "Review", rule, str(row), "Count the rows from 0.")

    def _check_edit(self, labels: Mapping[str, int | None], done: bool | None) -> None:
        for name, value in labels.items():
            self._samples.labels.column(name)
            if value is not None and not is_target(value):
                rule = "be 1, 0, -1 or None for each label"
                hint = "Pass 1 for present, 0 for absent, -1 for unknown, and None to withdraw the edit."
                raise InputError("labels", "Review", rule, f"{value!r} for {name!r}", hint)
        if done is not None and not isinstance(done, bool):
            raise InputError("done", "Review", "be true, false or None", repr(done), "Pass None to leave it as it is.")


def _changes_state(sample: EditedSample | None, labels: Mapping[str, int | None], done: bool | None) -> bool:
    """Whether an edit changes anything."""
    if sample is None:
        return bool(done) or any(value is not None for value in labels.values())
    return done not in (None, sample.done) or any(sample.cells.get(name) != value for name, value in labels.items())
