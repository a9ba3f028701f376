"""What people said about samples, and what that comes to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from manyhot.studio.reviewing.journal import Entry
from manyhot.studio.reviewing.labels_file import LabelsTable

PRESENT, ABSENT, UNKNOWN = 1, 0, -1


class Edit(NamedTuple):
    """One thing that somebody said: None withdraws what was said of a label, and leaves `done` as it is."""

    number: int
    sample: str
    labels: Mapping[str, int | None]
    done: bool | None


@dataclass
class Sample:
    """A sample that somebody said something about.

    Attributes:
        path: How the labels file names its picture.
        split: Its split, where known.
        edits: What was said, in order, without what was taken back.
        cells: What that comes to, by label; replaced as a whole, so that others may read it meanwhile.
        done: Whether somebody has finished with it.
    """

    path: str
    split: str | None
    edits: list[Edit] = field(default_factory=list)
    cells: Mapping[str, int] = field(default_factory=dict)
    done: bool = False

    def outcome(self, edits: Iterable[Edit]) -> tuple[dict[str, int], bool]:
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
        self.cells, self.done = self.outcome(self.edits)

    @property
    def touched(self) -> bool:
        """Whether the labels file has it."""
        return bool(self.cells) or self.done


class History:
    """All that a journal tells, entry by entry.

    Attributes:
        columns: The labels of the collection that was opened last, with their places.
        samples: By id, in the order in which they were first spoken of.
        last: Edits that were not taken back, in order.
        next_number: Number of the next edit.
        tables: Digest of each labels file that may lie on the disk, and the number of entries that it was made from.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.columns: Mapping[str, int] = {}
        self.samples: dict[str, Sample] = {}
        self.last: list[Edit] = []
        self.next_number = 1
        self.tables: dict[str, int] = {}
        for entry in entries:
            self.apply(entry)

    def apply(self, entry: Entry) -> None:
        """Takes the next entry."""
        getattr(self, f"_{entry['kind']}")(entry)

    def _labels(self, entry: Entry) -> None:
        self.columns = {name: place for place, name in enumerate(entry["names"])}

    def _sample(self, entry: Entry) -> None:
        sample = self.samples.setdefault(entry["id"], Sample("", None))
        sample.path, sample.split = entry["path"], entry["split"]

    def _edit(self, entry: Entry) -> None:
        edit = Edit(entry["number"], entry["id"], entry["labels"], entry["done"])
        sample = self.samples.setdefault(edit.sample, Sample(edit.sample, None))
        sample.edits.append(edit)
        sample.settle()
        self.last.append(edit)
        self.next_number = max(self.next_number, edit.number + 1)

    def _undo(self, entry: Entry) -> None:
        # The last one is nearly always meant; a line that somebody removed by hand is not there to be taken back.
        places = range(len(self.last) - 1, -1, -1)
        place = next((place for place in places if self.last[place].number == entry["number"]), None)
        if place is not None:
            edit = self.last.pop(place)
            sample = self.samples[edit.sample]
            sample.edits.remove(edit)
            sample.settle()

    def _table(self, entry: Entry) -> None:
        # Whether it took the place of the one before is not certain until the next entry says so.
        self.tables[entry["sha256"]] = entry["entries"]

    def _wrote(self, entry: Entry) -> None:
        self.tables = {entry["sha256"]: self.tables.get(entry["sha256"], 0)}

    def touched(self) -> dict[str, Sample]:
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
        places = dict(self.columns)
        for *_, cells in self.rows:
            for name in cells:
                places.setdefault(name, len(places))
        table = LabelsTable(list(places), [], [], [], [])
        for name, path, split, cells in self.rows:
            row: list[int | None] = [None] * len(places)
            for label, value in cells.items():
                row[places[label]] = value
            table.ids.append(name)
            table.paths.append(path)
            table.splits.append(split)
            table.cells.append(row)
        return table
