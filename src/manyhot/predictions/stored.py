"""The table on disk, of which only what is asked for comes into memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from manyhot.calibrate.calibrator import Calibrator
from manyhot.checks import check_count, check_split
from manyhot.decide.rule import Rule
from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.predictions.arrow import as_strings
from manyhot.predictions.building import Builder, Wanted
from manyhot.predictions.forms import find_parquet
from manyhot.predictions.header import OWNER, TEXT_COLUMNS
from manyhot.predictions.memory import Predictions, concatenate
from manyhot.predictions.narrowing import columns_of, narrow_link, needs_all_labels
from manyhot.predictions.parts import Part, check_alike
from manyhot.predictions.table import Table, own_labels
from manyhot.predictions.texts import Texts


def open_predictions(
    path: str | os.PathLike[str], *, classes: Iterable[type[Link] | type[Calibrator] | type[Rule]] = ()
) -> StoredPredictions:
    """Opens a table on disk; its rows are read when they are asked for.

    Args:
        path: A Parquet file, a folder with parts in it or in its folders, a pattern such as "scores/*.parquet", or the
            folder of a run. Parts come in the order of their names and must agree in labels and kinds. Folders such as
            `split=test` tell the splits of parts that have no such column.
        classes: Links, calibrators and rules of your own that the file may name besides those of this package.
    """
    return open_parts(find_parquet(path, OWNER), classes=classes)


def open_parts(
    files: Sequence[Path], *, classes: Iterable[type[Link] | type[Calibrator] | type[Rule]] = ()
) -> StoredPredictions:
    """Opens files as one table, in their order; see `open_predictions`."""
    parts = [Part(file) for file in files]
    check_alike(parts)
    return StoredPredictions(parts, parts[0].header.modules(classes))


class StoredPredictions(Table):
    """A table on disk, read lazily; `open_predictions` makes one.

    Ids are expected to differ, also between parts, but that is not checked.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/predictions.parquet"
        >>> Predictions(probs=torch.rand(100, 3), splits=["val"] * 50 + ["test"] * 50).save(path)
        >>> table = open_predictions(path)
        >>> table
        StoredPredictions(100 rows x 3 labels; probs; split 'val' 50; split 'test' 50)
        >>> [len(batch) for batch in table.of_split("test").batches(rows=20)]
        [20, 20, 10]
        >>> table.read(labels=["2"]).probs.shape
        torch.Size([100, 1])
    """

    def __init__(self, parts: list[Part], made_by: dict[str, Any], split: str | None = None) -> None:
        header = parts[0].header
        self.labels, self.kinds = Labels(header.labels), header.kinds
        self.link, self.calibrator, self.rule = made_by["link"], made_by["calibrator"], made_by["rule"]
        self.notes = []
        self._parts, self._split = parts, split
        self._sizes: dict[str, int] | None = None

    def __len__(self) -> int:
        return sum(part.rows for part in self._parts) if self._split is None else self.split_sizes()[self._split]

    def load(self) -> Predictions:
        """The whole table, in memory."""
        return self.read()

    def batches(self, rows: int = 65536, *, kinds: Iterable[str] | None = None) -> Iterator[Predictions]:
        """The table in pieces, read one after the other; see `Table.batches`."""
        check_count("rows", "StoredPredictions.batches", rows, low=1)
        return self._gather(self.labels, self._check_kinds(kinds), rows, self._made_by())

    def read(
        self,
        *,
        labels: Sequence[str] | Labels | None = None,
        kinds: Iterable[str] | None = None,
        split: str | None = None,
    ) -> Predictions:
        """Some of the table, in memory; only the columns of these labels are read. See `Table.read`."""
        if split is not None:
            return self.of_split(split).read(labels=labels, kinds=kinds)
        wanted = own_labels(self, labels)
        if kinds is None and needs_all_labels(self, wanted):
            return concatenate([batch.read(labels=wanted) for batch in self.batches()])
        made_by = self._made_by()
        if wanted.names != self.labels.names:
            made_by = {"link": narrow_link(self, columns_of(self, wanted))}
        return next(self._gather(wanted, self._check_kinds(kinds), max(len(self), 1), made_by))

    def of_split(self, name: str) -> StoredPredictions:
        """The rows of one split; still on disk."""
        check_split(
            type(self).__name__, name, list(self.split_sizes()), remedy="Pass `splits` when you make the table."
        )
        table = StoredPredictions(self._parts, self._made_by(), name)
        table._sizes = {name: self.split_sizes()[name]}
        return table

    def split_sizes(self) -> dict[str, int]:
        """The number of rows of each split, in the order in which they first occur; read once."""
        if self._sizes is None:
            self._sizes = {}
            column = TEXT_COLUMNS["splits"]
            for part in self._parts if "splits" in self._parts[0].texts else ():
                for piece in part.pieces([column], None):
                    for name, count in Texts(as_strings(piece.column(column))).counts().items():
                        self._sizes[name] = self._sizes.get(name, 0) + count
        return dict(self._sizes)

    def _made_by(self) -> dict[str, Any]:
        return {"link": self.link, "calibrator": self.calibrator, "rule": self.rule}

    def _gather(
        self, labels: Labels, kinds: tuple[str, ...], rows: int, made_by: dict[str, Any]
    ) -> Iterator[Predictions]:
        """Tables of `rows` rows each, filled piece by piece as these come from the files."""
        wanted = Wanted.of(self._parts, labels, kinds)
        pieces = chain.from_iterable(part.pieces(wanted.columns, self._split) for part in self._parts)
        total, piece = len(self), None
        for start in range(0, max(total, 1), rows):
            builder = Builder(wanted, min(rows, total - start))
            while builder.room:
                piece = builder.add(piece if piece is not None and len(piece) else next(pieces))
            yield builder.table(made_by)
