"""The samples of the collection that is open, as a journal describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from manyhot.data.targets import SparseTargets
from manyhot.labels import Labels
from manyhot.refusal import refusal
from manyhot.studio.reviewing.edits import ABSENT, NOTHING, UNKNOWN, Known

Array = np.ndarray[Any, Any]


class Description(NamedTuple):
    """How the labels file names a sample, its split, and what was known of it before all edits."""

    path: str
    split: str | None
    known: Known


class Samples:
    """Ids, paths, splits and targets of a collection; see `Review`."""

    def __init__(
        self,
        labels: Labels,
        ids: Sequence[str],
        paths: Sequence[str | None],
        targets: Any = None,
        splits: Sequence[str] | None = None,
    ) -> None:
        self.labels, self.ids = labels, list(ids)
        self.rows = {name: row for row, name in enumerate(self.ids)}
        self.columns: Mapping[str, int] = {name: place for place, name in enumerate(labels.names)}
        self.targets, self.splits = targets, splits
        self._check(paths)
        self.paths = [path or name for path, name in zip(paths, self.ids, strict=True)]

    def _check(self, paths: Sequence[str | None]) -> None:
        """Refuses parts that do not fit together."""
        if len(self.rows) < len(self.ids):
            twice = next(name for row, name in enumerate(self.ids) if self.rows[name] != row)
            raise refusal("ids", "Review", "be distinct", f"{twice!r} twice", "Give every sample an id of its own.")
        for name, part in (("paths", paths), ("splits", self.splits)):
            if part is not None and len(part) != len(self.ids):
                rule = f"have one entry for each of the {len(self.ids):,} samples"
                raise refusal(name, "Review", rule, f"{len(part):,}", "Pass one for each sample.")
        shape = (len(self.ids), len(self.labels))
        if self.targets is not None and tuple(self.targets.shape) != shape:
            got = str(tuple(self.targets.shape))
            raise refusal("targets", "Review", f"be (N, K) {shape}", got, "Pass one row a sample, one column a label.")

    def targets_of(self, row: int) -> Array:
        """(K,) int8: 1 present, 0 absent, -1 unknown."""
        if self.targets is None:
            return np.full(len(self.labels), UNKNOWN, dtype=np.int8)
        cells = self.targets.dense([row])[0] if isinstance(self.targets, SparseTargets) else self.targets[row]
        return np.asarray(cells).astype(np.int8)

    def describe(self, name: str, remembered: Known = NOTHING) -> Description | None:
        """A sample as the labels file shall have it; None for one that the collection does not have.

        Args:
            name: Its id.
            remembered: What a journal says of it, for labels that the collection lacks, and for all of them in a
                collection without targets.
        """
        row = self.rows.get(name)
        if row is None:
            return None
        split = None if self.splits is None else self.splits[row]
        return Description(self.paths[row], split, self._known(row, remembered))

    def _known(self, row: int, remembered: Known) -> Known:
        if self.targets is None:
            cells = np.array(remembered.cells(self.columns), dtype=np.int8)
        else:
            cells = self.targets_of(row)
        # Whichever of absent and unknown is common is not spelled out.
        rest = UNKNOWN if 2 * np.count_nonzero(cells == UNKNOWN) >= np.count_nonzero(cells <= 0) else ABSENT
        places = np.flatnonzero(cells != rest)
        but = {self.labels.names[place]: int(cells[place]) for place in places.tolist()}
        return Known(self.columns, rest, but | remembered.beyond(self.columns))
