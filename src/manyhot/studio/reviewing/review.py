"""What people say about the labels of pictures, kept for good: a journal of edits, and the labels file made from it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from manyhot.labels import Labels
from manyhot.refusal import refusal
from manyhot.studio.reviewing.edits import Edit, Sample
from manyhot.studio.reviewing.entries import is_value
from manyhot.studio.reviewing.keeping import Keeper
from manyhot.studio.reviewing.samples import Samples


class Tally(NamedTuple):
    """Which rows are done and edited after so many entries of the journal."""

    entries: int
    done: list[int]
    edited: list[int]


class Review:
    """Edits of labels, each on the disk before `edit` returns. Several threads may call it.

    `reviewed.csv.journal` holds every edit, by the id of the sample and the name of the label. From it alone
    `reviewed.csv` is made, a table that `read_corrections` reads: the samples that somebody edited or finished, one
    column a label, 1, 0 or -1 where somebody said so, and blank where nobody said anything, whatever the data say. So
    it can be laid over data that were repaired meanwhile, and over other corrections, without undoing them. It is
    written soon after each edit, whole or not at all.

    A collection of other samples or labels may be opened with the same file. Edits of samples and labels that it does
    not have are not shown, and stay in the journal and in the labels file, such a label as a column behind those of
    the collection.

    If somebody changed the labels file by hand, the cells that differ from what was written become edits when it is
    opened, or before it is written again; a cell that was blanked withdraws what was said. `notes` tell how many.

    Args:
        file: The labels file.
        labels: The K labels of the collection.
        ids: N distinct texts.
        paths: How the labels file shall name each picture, relative to its own folder or absolute; None for the id.
        splits: N names of splits, or None.
        delay: Seconds from an edit to the writing of the labels file.

    Attributes:
        file: The labels file.

    Raises:
        NotSaved: The folder cannot be written to, the disk is full. Nothing has changed then.
        Refusal: Another studio has the file open, or it is none of ours.

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
        self._samples = Samples(labels if isinstance(labels, Labels) else Labels(labels), ids, paths, splits)
        self._keeper = Keeper(self.file, self._samples, delay=delay)
        self._tally = Tally(-1, [], [])

    @property
    def notes(self) -> list[str]:
        """What people should know about journal and labels file, in plain sentences."""
        return list(self._keeper.notes)

    @property
    def trouble(self) -> str | None:
        """Why the labels file could not be written last time, or None; all edits are in the journal."""
        return self._keeper.trouble

    @property
    def done(self) -> int:
        """How many samples of the collection somebody has finished."""
        return len(self.done_rows())

    @property
    def edited(self) -> int:
        """How many samples of the collection have an edited label."""
        return len(self.edited_rows())

    def done_rows(self) -> list[int]:
        """The rows that somebody has finished, rising."""
        return self._tallied().done

    def edited_rows(self) -> list[int]:
        """The rows with an edited label, rising."""
        return self._tallied().edited

    def _tallied(self) -> Tally:
        """Which rows are done and edited, counted anew if something was said meanwhile."""
        with self._keeper.lock:
            if self._tally.entries != self._keeper.journal.count:
                rows, samples = self._samples.rows, self._keeper.history.touched()
                here = sorted((rows[name], sample) for name, sample in samples.items() if name in rows)
                done = [row for row, sample in here if sample.done]
                edited = [row for row, sample in here if self._shown(sample)]
                self._tally = Tally(self._keeper.journal.count, done, edited)
            return self._tally

    def cells(self, row: int) -> dict[int, int]:
        """What somebody said about labels of a row, by column: 1 present, 0 absent, -1 unknown."""
        return self._shown(self._sample(row))

    def is_done(self, row: int) -> bool:
        """Whether somebody has finished with a row."""
        sample = self._sample(row)
        return sample is not None and sample.done

    def edit(self, row: int, labels: Mapping[str, int | None], done: bool | None = None) -> None:
        """Keeps what somebody says about a row; it is on the disk when this returns.

        Args:
            row: Row number in the collection.
            labels: 1 present, 0 absent, -1 unknown, None to withdraw what was said, by label.
            done: Whether somebody has finished with the row; None leaves that as it is.

        Raises:
            NotSaved: It could not be written, and nothing has changed.
        """
        name = self._samples.ids[self._check_row(row)]
        self._check_edit(labels, done)
        with self._keeper.lock:
            if _is_news(self._sample(row), labels, done):
                self._keeper.say(name, labels, done)

    def undo(self) -> int | None:
        """Takes back the last edit of the collection that still holds, and so on back to the first one.

        Returns:
            The row that it was about; None where there is no such edit.
        """
        with self._keeper.lock:
            last = reversed(self._keeper.history.last)
            edit: Edit | None = next((edit for edit in last if edit.sample in self._samples.rows), None)
            if edit is None:
                return None
            self._keeper.take_back(edit)
            return self._samples.rows[edit.sample]

    def write(self) -> None:
        """Writes the labels file now instead of soon; raises `NotSaved` where that fails."""
        self._keeper.write()

    def close(self) -> None:
        """Writes the labels file, and lets others open it, also where that fails; edits are refused from now on.

        Raises:
            NotSaved: The labels file could not be written; all edits are in the journal, and `trouble` says it too.
            Refusal: Somebody changed the labels file into something else; it is left as it is.
        """
        self._keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _sample(self, row: int) -> Sample | None:
        return self._keeper.history.samples.get(self._samples.ids[self._check_row(row)])

    def _shown(self, sample: Sample | None) -> dict[int, int]:
        columns = self._samples.columns
        cells = {} if sample is None else sample.cells
        return {columns[name]: value for name, value in cells.items() if name in columns}

    def _check_row(self, row: int) -> int:
        if 0 <= row < len(self._samples.ids):
            return row
        rule = f"lie between 0 and {len(self._samples.ids) - 1}"
        raise refusal("row", "Review", rule, str(row), "Count the rows from 0.")

    def _check_edit(self, labels: Mapping[str, int | None], done: bool | None) -> None:
        for name, value in labels.items():
            self._samples.labels.column(name)
            if value is not None and not is_value(value):
                rule = "be 1, 0, -1 or None for each label"
                remedy = (
                    "Pass 1 where it is there, 0 where it is not, -1 where nobody can tell, and None to withdraw it."
                )
                raise refusal("labels", "Review", rule, f"{value!r} for {name!r}", remedy)
        if done is not None and not isinstance(done, bool):
            raise refusal("done", "Review", "be true, false or None", repr(done), "Pass None to leave it as it is.")


def _is_news(sample: Sample | None, labels: Mapping[str, int | None], done: bool | None) -> bool:
    """Whether an edit says something that does not hold already."""
    if sample is None:
        return bool(done) or any(value is not None for value in labels.values())
    return done not in (None, sample.done) or any(sample.cells.get(name) != value for name, value in labels.items())
