"""What a survey of a data set found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LabelFacts:
    """One label.

    Attributes:
        name: The label.
        count: Rows in which it is present.
        known: Rows in which it is known to be present or absent.
        rate: Share of the known rows in which it is present; None where there are none.
        by_split: Rows in which it is present, by split.
        rate_by_split: Share of the known rows of each split.
    """

    name: str
    count: int
    known: int
    rate: float | None
    by_split: dict[str, int]
    rate_by_split: dict[str, float | None]


@dataclass(frozen=True)
class LabelPair:
    """Two labels that occur together.

    Attributes:
        first: The rarer label.
        second: The other one.
        count: Rows with both.
        lift: How many times as often they meet as they would by chance.
        npmi: The same on a scale from -1 (never together) over 0 (by chance) to 1 (never apart).
    """

    first: str
    second: str
    count: int
    lift: float
    npmi: float


@dataclass(frozen=True)
class Duplicates:
    """Images with the same content.

    Attributes:
        names: Which images.
        splits: The splits that they lie in.
        same_labels: Whether all of them have the same targets.
    """

    names: list[str]
    splits: list[str]
    same_labels: bool


@dataclass(frozen=True)
class ImageFacts:
    """The images of a data set.

    Attributes:
        read: How many could be read.
        decoded: Whether their pixels were looked at, or only their headers.
        missing: Images that are not there.
        unreadable: Images that are there and cannot be read, with the reason.
        formats: How many there are of each format.
        modes: How many there are of each kind of pixel, as Pillow calls them.
        widths: Smallest, middle and largest width.
        heights: Smallest, middle and largest height.
        gigabytes: Size of all of them together, as they are stored.
        duplicates: Sets of images with the same bytes.
        near_duplicates: Sets of images that look the same when small, without those with the same bytes; None if not
            looked for.
    """

    read: int
    decoded: bool
    missing: list[str]
    unreadable: dict[str, str]
    formats: dict[str, int]
    modes: dict[str, int]
    widths: tuple[int, int, int] | None
    heights: tuple[int, int, int] | None
    gigabytes: float
    duplicates: list[Duplicates]
    near_duplicates: list[Duplicates] | None


@dataclass(frozen=True)
class Survey:
    """What is in a data set.

    Attributes:
        samples: Number of rows.
        splits: Rows of each split, by name.
        labels: Every label, in the order of the columns.
        empty: Rows without a label.
        empty_by_split: The same by split.
        mean_labels: Labels a row, on average.
        max_labels: Most labels in one row.
        set_sizes: Rows by their number of labels.
        frequent_pairs: Labels that occur together most often.
        close_pairs: Labels that keep closest together, by `npmi`.
        inseparable: Sets of labels that never occur apart.
        implied: Pairs of labels of which the first never occurs without the second.
        images: What the images are like; None where they were not looked at.
        warnings: What should be looked into before training, the most important first.
        notes: What was detected when the data were read.
        duplicate_of: (N,) the first row with the same content, for `stratified_split(..., groups=...)`; None where
            images were not looked at.
    """

    samples: int
    splits: dict[str, int]
    labels: list[LabelFacts]
    empty: int
    empty_by_split: dict[str, int]
    mean_labels: float
    max_labels: int
    set_sizes: dict[int, int]
    frequent_pairs: list[LabelPair]
    close_pairs: list[LabelPair]
    inseparable: list[list[str]]
    implied: list[tuple[str, str]]
    images: ImageFacts | None = None
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    duplicate_of: Array | None = field(default=None, repr=False, compare=False)

    def __rich__(self) -> Any:
        """Tables for a terminal."""
        from manyhot.data.survey.showing import as_rich

        return as_rich(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but `duplicate_of`, as values that JSON can hold."""
        found: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "labels":
                found["labels"] = [asdict(label) for label in value]
            elif item.name in ("frequent_pairs", "close_pairs"):
                found[item.name] = [asdict(pair) for pair in value]
            elif item.name == "images":
                found["images"] = None if value is None else asdict(value)
            elif item.name != "duplicate_of":
                found[item.name] = value
        return found
