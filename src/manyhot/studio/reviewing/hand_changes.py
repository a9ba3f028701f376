"""What somebody changed in a labels file by hand, as edits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from manyhot.studio.reviewing.edits import Sample
from manyhot.studio.reviewing.labels_file import DEFAULT_SPLIT, LabelsTable, written_path


@dataclass
class HandChange:
    """What a person said about one sample in the file.

    Attributes:
        sample: Its id.
        labels: As in an edit.
        done: As in an edit.
        path: How the file names it; for samples that are new.
        split: What the file says; for samples that are new.
    """

    sample: str
    labels: dict[str, int | None] = field(default_factory=dict)
    done: bool | None = None
    path: str = ""
    split: str | None = None


class Naming:
    """Which sample a path of the file is about.

    Args:
        folder: The folder of the file.
        ids: The samples of the collection.
        paths: Their paths, as the file has them.
    """

    def __init__(self, folder: Path, ids: list[str], paths: list[str]) -> None:
        self.folder = os.path.abspath(folder)
        # Where two samples have one path, the first one is meant.
        self._by_text = dict(zip(map(written_path, reversed(paths)), reversed(ids), strict=True))
        self._by_place: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        """The sample by its path, or by where that leads; otherwise the path is the id of a new one."""
        if path in self._by_text:
            return self._by_text[path]
        if not self._by_place:
            self._by_place = {self._place(text): name for text, name in self._by_text.items()}
        return self._by_place.get(self._place(path), path)

    def _place(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.folder, path))


def differences(file: LabelsTable, base: LabelsTable, naming: Naming) -> list[HandChange]:
    """What is in a file and was not in what the studio had written.

    Only the cells that differ are edits, so that what was said in the studio since then stays; one that was blanked
    withdraws what was said. A row that is gone takes back all that was said about it. A row that is new says what its
    cells hold; if all are blank, somebody has put it there to say that all is well. A column that is gone says nothing.

    Args:
        file: What is in the file.
        base: What the studio wrote.
        naming: Which sample a path is about.
    """
    pairs, gone = _pair(file, base, naming)
    places = {name: place for place, name in enumerate(base.labels)}
    found: list[HandChange] = []
    for row, (path, before) in enumerate(zip(file.paths, pairs, strict=True)):
        name = naming(path) if before is None else base.ids[before]
        change = HandChange(name, path=path, split=file.splits[row])
        for label, value in zip(file.labels, file.cells[row], strict=True):
            was = base.cells[before][places[label]] if before is not None and label in places else None
            if value != was:
                change.labels[label] = value
        if before is None and not change.labels:
            change.done = True
        if before is None or change.labels:
            found.append(change)
    return found + [HandChange(name, done=False) for name in gone]


def _pair(file: LabelsTable, base: LabelsTable, naming: Naming) -> tuple[list[int | None], list[str]]:
    """The row that each row of the file had before, or None for a new one; and the samples whose rows are gone."""
    waiting = base.rows()
    pairs = [rows.pop(0) if (rows := waiting.get(path)) else None for path in file.paths]
    left = {base.ids[row]: row for rows in waiting.values() for row in rows}
    for row, path in enumerate(file.paths):
        if pairs[row] is None:  # perhaps it only names its picture in another way
            pairs[row] = left.pop(naming(path), None)
    return pairs, list(left)


def settled(change: HandChange, sample: Sample | None) -> tuple[Mapping[str, int | None], bool | None] | None:
    """What of a change is news; None if nothing is."""
    cells: Mapping[str, int] = {} if sample is None else sample.cells
    if change.done is False:
        return (dict.fromkeys(cells), False) if sample is not None and sample.touched else None
    labels = {name: value for name, value in change.labels.items() if cells.get(name) != value}
    done = change.done if sample is None or sample.done != change.done else None
    return (labels, done) if labels or done is not None else None


def nearest(file: LabelsTable, bases: Sequence[LabelsTable], naming: Naming) -> LabelsTable:
    """Of the tables that the studio may have written last, the one that the file differs least from, or the latest."""

    def distance(base: LabelsTable) -> int:
        changes = differences(file, base, naming)
        return sum(max(len(change.labels), 1) for change in changes)

    return bases[0] if len(bases) == 1 else min(reversed(bases), key=distance)


def moved(file: LabelsTable, base: LabelsTable) -> int:
    """How many rows have another split than was written."""
    before = {path: base.splits[rows[0]] or DEFAULT_SPLIT for path, rows in base.rows().items()}
    pairs = zip(file.paths, file.splits, strict=True)
    return sum(split is not None and before.get(path, split) != split for path, split in pairs)
