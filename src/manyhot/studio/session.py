"""What one studio has open: a table of predictions, its pictures, perhaps a model, and the edits of people."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from manyhot.checks import check_split
from manyhot.decide import Decision
from manyhot.predictions import Predictions
from manyhot.refusal import refusal
from manyhot.search import Collection
from manyhot.studio.completing import Completing
from manyhot.studio.deciding import Choice, Deciding
from manyhot.studio.items import ALL_SHOWN, Cells, Items
from manyhot.studio.messages import Item
from manyhot.studio.pictures import Pictures
from manyhot.studio.reviewing import Review

if TYPE_CHECKING:
    from manyhot.studio.classifying import Classifying


@dataclass
class Studio:
    """All that requests are answered from.

    Attributes:
        name: What was opened, for people.
        table: In memory, with probabilities.
        pictures: Those of its rows.
        review: What people said about them; None where nothing can be kept.
        classifying: What answers for new pictures; None without a model.
        deciding: Which labels are given.
        labels_file: Where corrected labels go.
        judged: The split that figures are of where no other is asked for; None for all rows.
        why_no_review: Why nothing can be edited, where that is so.
    """

    name: str
    table: Predictions
    pictures: Pictures
    review: Review | None
    classifying: Classifying | None
    deciding: Deciding
    labels_file: Path
    judged: str | None = None
    why_no_review: str | None = None
    _collections: dict[str | None, Collection] = field(default_factory=dict)
    _completing: dict[str | None, Completing] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def items(self) -> Items:
        """Makes items of row numbers."""
        table = self.table
        return Items(
            table.labels.names,
            self.deciding.probs,
            table.targets,
            ids=self.ids,
            paths=table.paths,
            splits=self.splits,
            why=self.pictures.why,
            edits=self.edits,
            done=self.is_done,
        )

    @cached_property
    def ids(self) -> list[str]:
        """The id of each row."""
        return self.table.ids

    @cached_property
    def splits(self) -> list[str] | None:
        """The split of each row, or None."""
        return self.table.splits

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row number of each id."""
        return {name: row for row, name in enumerate(self.ids)}

    def expected(self, split: str | None) -> list[float]:
        """How many rows of a split, or of all, are expected to have each label."""
        rows = self.rows_of_split(split)
        probs = self.deciding.probs if rows is None else self.deciding.probs[rows]
        found: list[float] = probs.sum(0, dtype=torch.float64).tolist()
        return found

    def completing(self, split: str | None) -> Completing:
        """Labels for what somebody types, the frequent ones of a split first."""
        with self._lock:
            if split not in self._completing:
                self._completing[split] = Completing(self.table.labels.names, self.expected(split))
            return self._completing[split]

    @property
    def labels_name(self) -> str:
        """The labels file as it is called from here."""
        here = Path.cwd()
        file = self.labels_file
        return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)

    def rows_of_split(self, split: str | None) -> Tensor | None:
        """The numbers of the rows of a split; None for all rows."""
        if split is None:
            return None
        check_split("studio", split, list(self.table.split_sizes()), remedy="Leave it out to see all pictures.")
        return torch.tensor([row for row, name in enumerate(self.splits or ()) if name == split], dtype=torch.int64)

    def judged_rows(self, split: str | None) -> Tensor | None:
        """The numbers of the rows that figures are of: those of a split, or those that a report judges."""
        return self.rows_of_split(self.judged if split is None else split)

    def collection(self, split: str | None) -> Collection:
        """What is searched: all rows, or those of a split."""
        with self._lock:
            if split not in self._collections:
                rows = self.rows_of_split(split)
                table = self.table if rows is None else self.table.take(rows)
                self._collections[split] = Collection.of(table)
            return self._collections[split]

    def check_row(self, row: int) -> int:
        """The row number, or the error that says which there are."""
        if 0 <= row < len(self.table):
            return row
        raise NoSuchRow(f"There is no picture {row}: the collection has {len(self.table):,} pictures, counted from 0.")

    def decision(self, rows: Sequence[int], choice: Choice) -> Decision:
        """What is decided about some rows."""
        return self.deciding.decision(choice, torch.tensor(list(rows), dtype=torch.int64))

    def whole_item(self, row: int, choice: Choice) -> Item:
        """A row with all its labels."""
        return self.items.make([row], self.decision([row], choice), probable=ALL_SHOWN, most=ALL_SHOWN)[0]

    def edits(self, row: int) -> Cells:
        """What people said about a row, by column."""
        return {} if self.review is None else self.review.cells(row)

    def is_done(self, row: int) -> bool:
        """Whether a person has finished with a row."""
        return self.review is not None and self.review.is_done(row)

    def reviewing(self) -> Review:
        """Where edits go, or the error that says why they cannot be kept."""
        if self.review is None:
            why = self.why_no_review or "this studio was opened for reading only"
            raise refusal("labels", "studio", "be kept in a file", why, "Start it with --labels FILE.")
        return self.review

    def close(self) -> None:
        """Answers what is under way, and writes what is to be kept."""
        try:
            if self.classifying is not None:
                self.classifying.close()
        finally:
            if self.review is not None:
                self.review.close()


class NoSuchRow(Exception):
    """A row number that the collection does not have."""
