"""Writing a table to a Parquet file, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.calibrate.calibrator import Calibrator
from manyhot.decide.rule import Rule
from manyhot.files import whole_file
from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.predictions.arrow import import_arrow
from manyhot.predictions.cells import to_columns
from manyhot.predictions.columns import made_by, numbered_labels
from manyhot.predictions.header import KEY, TEXT_COLUMNS, Header
from manyhot.predictions.layout import check_names, schema
from manyhot.predictions.memory import Predictions, concatenate
from manyhot.predictions.texts import Texts
from manyhot.refusal import refusal
from manyhot.saving import describe

OWNER = "PredictionsWriter"
# A row group is what engines read, skip or give to a thread as a whole. Of many labels it has fewer rows, so that it
# fits in memory while it is gathered.
GROUP_ROWS, LEAST_GROUP_ROWS, GROUP_CELLS = 65536, 2048, 2**25


class PredictionsWriter:
    """Writes a table that need not fit in memory: one batch after the other, to one file.

    The file appears when the block ends well. After an error, or if the process is killed, the path is as it was.

    Args:
        path: The Parquet file; one that is there is replaced.
        labels: The names of the labels. Batches must have the same, or none of their own.
        link: What the scores mean; that of the first batch by default, as are the following.
        calibrator: What gave the probabilities.
        rule: What gave the decisions.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/predictions.parquet"
        >>> with PredictionsWriter(path, ["cat", "dog"]) as writer:
        ...     for split in ("val", "test"):
        ...         writer.write(Predictions(probs=torch.rand(3, 2), splits=split))
        >>> mh.Predictions.open(path)
        StoredPredictions(6 rows x 2 labels; probs; split 'val' 3; split 'test' 3)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        labels: Sequence[str] | Labels,
        *,
        link: Link | None = None,
        calibrator: Calibrator | None = None,
        rule: Rule | None = None,
    ) -> None:
        import_arrow()
        self.path = os.fspath(path)
        self.labels = labels if isinstance(labels, Labels) else Labels(labels)
        self.rows = self._written = 0
        self._made_by = dict(zip(("link", "calibrator", "rule"), made_by(link, calibrator, rule), strict=True))
        self._session = ExitStack()
        self._part: Path | None = None
        self._shape: Shape | None = None
        self._file: Any = None
        self._waiting: list[Predictions] = []
        check_names(self.labels.names)
        if os.path.isdir(self.path):
            remedy = "Name a file in it, such as 'predictions.parquet'."
            raise refusal("path", OWNER, "be a file", f"{self.path!r}, a folder", remedy)

    def __enter__(self) -> Self:
        self._session.enter_context(self._writing())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, error, traceback)

    def write(self, batch: Predictions) -> None:
        """Appends the rows of a table in memory.

        Args:
            batch: Has the kinds and columns of the first batch. Ids that are mere row numbers are counted on.
        """
        if self._part is None:
            raise refusal(
                "batch", OWNER, "be written in a `with` block", "it outside of one", "Write `with` before it."
            )
        self._check_labels(batch)
        shape = Shape.of(batch)
        if self._shape is None:
            self._start(batch, shape)
        elif shape != self._shape:
            rule = f"hold {self._shape} like the first one"
            raise refusal("batch", OWNER, rule, str(shape), "Give every batch the same columns.")
        for piece in batch.batches(self._group_rows):
            self._waiting.append(self._own(piece))
            self.rows += len(piece)
            if self.rows - self._written >= self._group_rows:
                self._flush(self._group_rows)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """From the first batch to the last; what was written takes its place only if all went well."""
        self.rows, self._written, self._shape, self._file = 0, 0, None, None
        try:
            with whole_file(self.path) as self._part:
                try:
                    yield
                    self._finish()
                finally:
                    if self._file is not None:
                        self._file.close()
        finally:
            self._part = None
            self._waiting = []

    def _finish(self) -> None:
        if self._shape is None:
            remedy = "Write a table without rows if there are none."
            raise refusal("batch", OWNER, "be written at least once", "none", remedy)
        self._flush(self.rows - self._written)

    def _start(self, first: Predictions, shape: Shape) -> None:
        """Opens the file with the columns of the first batch."""
        pa = import_arrow()
        self._shape = shape
        modules = {name: getattr(first, name) if made is None else made for name, made in self._made_by.items()}
        described = {name: None if made is None else describe(made) for name, made in modules.items()}
        header = Header(self.labels.names, first.kinds, **described)
        self._schema = schema(header, dict(shape.dtypes), shape.texts, abstain=shape.abstain)
        # Whole numbers and names repeat, so that a dictionary shrinks them; scores do not.
        repeating = [field.name for field in self._schema if pa.types.is_int8(field.type)] + [TEXT_COLUMNS["splits"]]
        self._file = pa.parquet.ParquetWriter(
            self._part,
            self._schema,
            compression="zstd",
            use_dictionary=repeating,
            store_schema=False,
            write_page_checksum=True,
        )
        self._file.add_key_value_metadata({KEY: header.dump()})

    def _own(self, piece: Predictions) -> Predictions:
        """A copy, because callers use their tensors again; with ids that count on if they are mere row numbers."""
        columns = piece.columns()
        if columns["ids"].numbered:
            columns["ids"] = Texts(range(self.rows, self.rows + len(piece)))
        copies = {name: column.clone() if isinstance(column, Tensor) else column for name, column in columns.items()}
        return Predictions.trusted(self.labels, copies, {})

    def _flush(self, rows: int) -> None:
        """Writes the first `rows` rows of those that wait, as one row group."""
        if rows == 0:
            return
        table = concatenate(self._waiting)
        self._file.write_table(self._to_arrow(table.slice(0, rows)), row_group_size=rows)
        self._written += rows
        self._waiting = [table.slice(rows, len(table))] if rows < len(table) else []

    def _to_arrow(self, table: Predictions) -> Any:
        """The table as one of Arrow."""
        assert self._shape is not None
        rows = table.columns()
        columns = [rows[name].arrow(name) for name in self._shape.texts]
        columns += [import_arrow().array(table.abstain.cpu().numpy())] if table.abstain is not None else []
        columns += [column for kind, _ in self._shape.dtypes for column in to_columns(rows[kind])]
        return import_arrow().Table.from_arrays(columns, schema=self._schema)

    @property
    def _group_rows(self) -> int:
        assert self._shape is not None
        cells = max(len(self.labels) * len(self._shape.dtypes), 1)
        return min(GROUP_ROWS, max(LEAST_GROUP_ROWS, GROUP_CELLS // cells))

    def _check_labels(self, batch: Predictions) -> None:
        if batch.labels.names in (self.labels.names, numbered_labels(len(self.labels)).names):
            return
        other = next((name for name in batch.labels.names if name not in self.labels.names), None)
        got = f"{other!r} among them" if other is not None else f"{len(batch.labels)} in another order or number"
        rule = f"have the {len(self.labels)} labels of the writer"
        raise refusal("batch", OWNER, rule, got, "Read the batch with these labels, in this order.")


@dataclass(frozen=True)
class Shape:
    """Which columns a batch has.

    Attributes:
        dtypes: Kinds with their types.
        texts: Which of ids, paths and splits.
        abstain: Whether it says where a rule abstained.
    """

    dtypes: tuple[tuple[str, torch.dtype], ...]
    texts: tuple[str, ...]
    abstain: bool

    @classmethod
    def of(cls, batch: Predictions) -> Shape:
        """The columns of a batch."""
        rows = batch.columns()
        dtypes = tuple((kind, rows[kind].dtype) for kind in batch.kinds)
        return cls(dtypes, tuple(name for name in TEXT_COLUMNS if rows[name] is not None), batch.abstain is not None)

    def __str__(self) -> str:
        kinds = [f"{kind} of {str(dtype).removeprefix('torch.')}" for kind, dtype in self.dtypes]
        return ", ".join([*kinds, *self.texts, *["abstain"] * self.abstain])
