"""The samples of the collection that is open, as a journal describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from manyhot.labels import Labels
from manyhot.refusal import refusal


class Samples:
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
        self.columns: Mapping[str, int] = {name: place for place, name in enumerate(labels.names)}
        self.splits = splits
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

    def describe(self, name: str) -> tuple[str, str | None] | None:
        """How the labels file names a sample, and its split; None for one that the collection does not have."""
        row = self.rows.get(name)
        if row is None:
            return None
        return self.paths[row], None if self.splits is None else self.splits[row]
