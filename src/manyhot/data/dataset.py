"""A dataset: samples, their targets, and the split each one belongs to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np

from manyhot.checks import check_int
from manyhot.data.sources import ImageSource
from manyhot.data.targets import SparseTargets, as_row_numbers
from manyhot.errors import InputError
from manyhot.formatting import html_table
from manyhot.labels import Labels
from manyhot.tables.columns import Array, check_split

SHOWN_LABELS = 8


@dataclass(frozen=True, repr=False)
class Dataset:
    """Samples with their labels.

    Attributes:
        labels: The names of the labels; empty for samples of which nothing is known.
        targets: (N, K), or None for samples of which nothing is known.
        ids: N distinct texts.
        images: Where the images lie, or None for a matrix of features.
        features: (N, D) float32, or None for images.
        splits: (N,) names of splits, or None where the data came without.
        notes: What was detected while reading, one message per item.
        uncorrected: The data before `corrected`, by which splits are drawn; None for data without corrections.

    Example:
        >>> from manyhot.data import from_arrays
        >>> data = from_arrays(torch.eye(3), [["dog"], [], ["dog", "cat"]], splits=["train", "train", "val"])
        >>> data
        Dataset(3 rows of 3 features x 2 labels; train 2, val 1)
        >>> data.drop_rare(2).labels
        Labels(1: dog)
    """

    labels: Labels
    targets: SparseTargets | None
    ids: list[str]
    images: ImageSource | None = None
    features: Array | None = None
    splits: Array | None = None
    notes: list[str] = field(default_factory=list)
    uncorrected: Dataset | None = None

    def __post_init__(self) -> None:
        """Checks that all parts have the same length."""
        for name in ("targets", "images", "features", "splits"):
            part = getattr(self, name)
            if part is not None and len(part) != len(self.ids):
                rule = f"have one entry for each of the {len(self.ids):,} samples"
                raise InputError(name, "Dataset", rule, f"{len(part):,}", "Pass parts of the same samples.")
        if self.targets is not None and self.targets.num_labels != len(self.labels):
            rule, got = f"have the {len(self.labels)} columns of `labels`", str(self.targets.num_labels)
            raise InputError("targets", "Dataset", rule, got, "Pass labels and targets that fit.")

    def __len__(self) -> int:
        """The number N of samples."""
        return len(self.ids)

    def __repr__(self) -> str:
        """Sizes and splits."""
        kind = "images" if self.features is None else f"rows of {self.features.shape[1]:,} features"
        labels = "no labels" if self.targets is None else f"{len(self.labels):,} labels"
        splits = ", ".join(f"{name} {size:,}" for name, size in self.split_sizes().items())
        return f"Dataset({len(self):,} {kind} x {labels}{'; ' if splits else ''}{splits})"

    def _repr_html_(self) -> str:
        """What notebooks show: sizes, the most frequent labels, and what was detected."""
        table = ""
        if self.targets is not None and len(self.labels):
            counts, known = self.targets.counts(), self.targets.known()
            order = np.argsort(-counts, kind="stable")[:SHOWN_LABELS].tolist()
            rows = [[self.labels.names[k], f"{counts[k]:,}", f"{known[k]:,}"] for k in order]
            rest = len(self.labels) - len(order)
            table = html_table([["label", "present", "known"], *rows])
            table += f"<p>and {rest:,} more labels</p>" if rest else ""
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return f"<p>{escape(repr(self))}</p>{table}<ul>{notes}</ul>"

    def take(self, rows: Any) -> Dataset:
        """The samples of these row numbers in their order, or those where a mask is true."""
        rows = as_row_numbers("Dataset.take", rows, len(self))
        return replace(
            self,
            targets=None if self.targets is None else self.targets.take(rows),
            ids=[self.ids[row] for row in rows.tolist()],
            images=None if self.images is None else self.images.take(rows),
            features=None if self.features is None else self.features[rows],
            splits=None if self.splits is None else self.splits[rows],
        )

    def split_sizes(self) -> dict[str, int]:
        """The number of samples of each split, by name, in the order in which they first occur."""
        return {} if self.splits is None else dict(Counter(map(str, self.splits)))

    def of_split(self, name: str) -> Dataset:
        """The samples of one split."""
        check_split("Dataset", name, list(self.split_sizes()), hint="Call `with_splits` first.")
        return self.take(self.splits == name)

    def with_splits(self, splits: Sequence[str] | Array) -> Dataset:
        """The same samples in other splits."""
        return replace(self, splits=np.asarray(splits, dtype=object))

    def corrected(self, corrections: Dataset) -> Dataset:
        """The same samples with what corrections know: their cells of 1 and 0 replace those of the data.

        Images are paired by where their files lie, and by id or name where one of them is in no file. Those that the
        data do not have are added, to the split that the corrections give or else to "train"; all others stay in
        their splits, also where `train` draws these later. Labels that only the corrections have are unknown elsewhere.
        The last of `notes` say how much was changed.

        Args:
            corrections: What `read_corrections` gives; those of several files are applied one after the other.

        Example:
            >>> from manyhot.data import from_arrays
            >>> data = from_arrays(torch.eye(3), [["dog"], [], ["dog", "cat"]], ids=["a", "b", "c"])
            >>> found = from_arrays(torch.eye(3)[:1], torch.tensor([[1, -1]]), labels=["cat", "dog"], ids=["b"])
            >>> better = data.corrected(found)
            >>> better.labels.decode(better.targets.dense())
            [['dog'], ['cat'], ['cat', 'dog']]
            >>> better.notes[-1]
            'Corrections of 1 image: 1 cell of 1 image changed.'
        """
        from manyhot.data.corrections import apply_corrections

        return apply_corrections(self, corrections)

    def select_labels(self, names: Sequence[str] | Labels) -> Dataset:
        """The same samples with some of their labels, in this order; rows that lose all of them stay, without any."""
        selected = names if isinstance(names, Labels) else Labels(names)
        columns = [self.labels.column(name) for name in selected.names]
        return replace(self, labels=selected, targets=None if self.targets is None else self.targets.select(columns))

    def drop_rare(self, min_count: int) -> Dataset:
        """The same samples without the labels that are present in fewer than `min_count` of them."""
        check_int("min_count", "Dataset.drop_rare", min_count, low=1)
        if self.targets is None:
            return self
        frequent = np.flatnonzero(self.targets.counts() >= min_count)
        return self.select_labels([self.labels.names[column] for column in frequent])
