"""Predictions in Parquet files: writing them batch by batch, and reading only what is needed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.calibrate.calibrator import Calibrator
from manyhot.checks import as_probs, as_scores, check_int, check_target_values
from manyhot.decide.rule import Rule
from manyhot.errors import InputError
from manyhot.files import atomic_write
from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.predictions.columns import StringColumn, fill_from_arrow, is_encodable, to_arrow_columns
from manyhot.predictions.metadata import (
    ABSTAIN_COLUMN,
    DEFAULT_OWNER,
    METADATA_KEY,
    TEXT_COLUMNS,
    Metadata,
    column_names,
)
from manyhot.predictions.predictions import (
    Predictions,
    PredictionTable,
    check_modules,
    column_indices,
    concatenate,
    needs_all_labels,
    numbered_labels,
    select_labels,
    select_link,
)
from manyhot.serialization import to_dict
from manyhot.tables.arrow import (
    arrow_as_input_error,
    as_numpy,
    as_strings,
    find_parquet,
    hive_partitions,
    import_arrow,
    read_footer,
    with_constant_columns,
)

KIND_DTYPES = {"targets": torch.int8, "decisions": torch.bool}


def arrow_schema(
    metadata: Metadata, dtypes: dict[str, torch.dtype], text_columns: Iterable[str], *, abstain: bool
) -> Any:
    """The columns of a file: first what each row has once, then kind by kind what it has of each label."""
    pa = import_arrow()
    types = {
        torch.float32: pa.float32(),
        torch.float64: pa.float64(),
        torch.int8: pa.int8(),
        torch.bool: pa.bool_(),
    }
    fields = [pa.field(TEXT_COLUMNS[name], pa.string(), nullable=False) for name in text_columns]
    fields += [pa.field(ABSTAIN_COLUMN, pa.bool_(), nullable=False)] if abstain else []
    for kind in metadata.kinds:
        named = column_names(kind, metadata.labels)
        fields += [pa.field(name, types[dtypes[kind]], nullable=kind == "targets") for name in named]
    return pa.schema(fields)


def check_encodable(labels: Iterable[str]) -> None:
    """Rejects names that cannot be column names."""
    for name in labels:
        if not is_encodable(name):
            hint = "Replace the bad characters of the name."
            raise InputError("labels", "PredictionsWriter", "be valid Unicode", repr(name), hint)


WRITER_OWNER = "PredictionsWriter"
# A row group is what engines read, skip or give to a thread as a whole. Of many labels it has fewer rows, so that it
# fits in memory while it is gathered.
GROUP_ROWS, MIN_GROUP_ROWS, GROUP_CELLS = 65536, 2048, 2**25


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
        self._modules = dict(zip(("link", "calibrator", "rule"), check_modules(link, calibrator, rule), strict=True))
        self._session = ExitStack()
        self._temporary: Path | None = None
        self._batch_schema: BatchSchema | None = None
        self._file: Any = None
        self._pending: list[Predictions] = []
        check_encodable(self.labels.names)
        if os.path.isdir(self.path):
            hint = "Name a file in it, such as 'predictions.parquet'."
            raise InputError("path", WRITER_OWNER, "be a file", f"{self.path!r}, a folder", hint)

    def __enter__(self) -> Self:
        self._session.enter_context(self._write_session())
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
        if self._temporary is None:
            raise InputError(
                "batch", WRITER_OWNER, "be written in a `with` block", "it outside of one", "Write `with` before it."
            )
        self._check_labels(batch)
        batch_schema = BatchSchema.of(batch)
        if self._batch_schema is None:
            self._open_file(batch, batch_schema)
        elif batch_schema != self._batch_schema:
            rule = f"hold {self._batch_schema} like the first one"
            raise InputError("batch", WRITER_OWNER, rule, str(batch_schema), "Give every batch the same columns.")
        for piece in batch.batches(self._group_rows):
            self._pending.append(self._copy_batch(piece))
            self.rows += len(piece)
            if self.rows - self._written >= self._group_rows:
                self._flush(self._group_rows)

    @contextmanager
    def _write_session(self) -> Iterator[None]:
        """From the first batch to the last; what was written takes its place only if all went well."""
        self.rows, self._written, self._batch_schema, self._file = 0, 0, None, None
        try:
            with atomic_write(self.path) as self._temporary:
                try:
                    yield
                    self._finish()
                finally:
                    if self._file is not None:
                        self._file.close()
        finally:
            self._temporary = None
            self._pending = []

    def _finish(self) -> None:
        if self._batch_schema is None:
            hint = "Write a table without rows if there are none."
            raise InputError("batch", WRITER_OWNER, "be written at least once", "none", hint)
        self._flush(self.rows - self._written)

    def _open_file(self, first: Predictions, batch_schema: BatchSchema) -> None:
        """Opens the file with the columns of the first batch."""
        pa = import_arrow()
        self._batch_schema = batch_schema
        modules = {name: getattr(first, name) if module is None else module for name, module in self._modules.items()}
        described = {name: None if module is None else to_dict(module) for name, module in modules.items()}
        metadata = Metadata(self.labels.names, first.kinds, **described)
        self._schema = arrow_schema(
            metadata, dict(batch_schema.dtypes), batch_schema.text_columns, abstain=batch_schema.abstain
        )
        # Whole numbers and names repeat, so that a dictionary shrinks them; scores do not.
        repeating = [field.name for field in self._schema if pa.types.is_int8(field.type)] + [TEXT_COLUMNS["splits"]]
        self._file = pa.parquet.ParquetWriter(
            self._temporary,
            self._schema,
            compression="zstd",
            use_dictionary=repeating,
            store_schema=False,
            write_page_checksum=True,
        )
        self._file.add_key_value_metadata({METADATA_KEY: metadata.to_json()})

    def _copy_batch(self, piece: Predictions) -> Predictions:
        """A copy, because callers use their tensors again; with ids that count on if they are mere row numbers."""
        columns = piece.columns()
        if columns["ids"].numbered:
            columns["ids"] = StringColumn(range(self.rows, self.rows + len(piece)))
        copies = {name: column.clone() if isinstance(column, Tensor) else column for name, column in columns.items()}
        return Predictions.from_checked(self.labels, copies, {})

    def _flush(self, rows: int) -> None:
        """Writes the first `rows` rows of those that wait, as one row group."""
        if rows == 0:
            return
        table = concatenate(self._pending)
        self._file.write_table(self._to_arrow(table.slice(0, rows)), row_group_size=rows)
        self._written += rows
        self._pending = [table.slice(rows, len(table))] if rows < len(table) else []

    def _to_arrow(self, table: Predictions) -> Any:
        """The table as one of Arrow."""
        assert self._batch_schema is not None
        rows = table.columns()
        columns = [rows[name].arrow(name) for name in self._batch_schema.text_columns]
        columns += [import_arrow().array(table.abstain.cpu().numpy())] if table.abstain is not None else []
        columns += [column for kind, _ in self._batch_schema.dtypes for column in to_arrow_columns(rows[kind])]
        return import_arrow().Table.from_arrays(columns, schema=self._schema)

    @property
    def _group_rows(self) -> int:
        assert self._batch_schema is not None
        cells = max(len(self.labels) * len(self._batch_schema.dtypes), 1)
        return min(GROUP_ROWS, max(MIN_GROUP_ROWS, GROUP_CELLS // cells))

    def _check_labels(self, batch: Predictions) -> None:
        if batch.labels.names in (self.labels.names, numbered_labels(len(self.labels)).names):
            return
        other = next((name for name in batch.labels.names if name not in self.labels.names), None)
        got = f"{other!r} among them" if other is not None else f"{len(batch.labels)} in another order or number"
        rule = f"have the {len(self.labels)} labels of the writer"
        raise InputError("batch", WRITER_OWNER, rule, got, "Read the batch with these labels, in this order.")


@dataclass(frozen=True)
class BatchSchema:
    """Which columns a batch has.

    Attributes:
        dtypes: Kinds with their types.
        text_columns: Which of ids, paths and splits.
        abstain: Whether it says where a rule abstained.
    """

    dtypes: tuple[tuple[str, torch.dtype], ...]
    text_columns: tuple[str, ...]
    abstain: bool

    @classmethod
    def of(cls, batch: Predictions) -> BatchSchema:
        """The columns of a batch."""
        rows = batch.columns()
        dtypes = tuple((kind, rows[kind].dtype) for kind in batch.kinds)
        return cls(dtypes, tuple(name for name in TEXT_COLUMNS if rows[name] is not None), batch.abstain is not None)

    def __str__(self) -> str:
        kinds = [f"{kind} of {str(dtype).removeprefix('torch.')}" for kind, dtype in self.dtypes]
        return ", ".join([*kinds, *self.text_columns, *["abstain"] * self.abstain])


# What is decoded at once. Arrow holds a few times as many cells beyond the result; with fewer rows than these the time
# for each piece begins to count.
DECODED_ROWS, MIN_DECODED_ROWS, DECODED_CELLS = 8192, 1024, 2**21
# What is read ahead of each column. Without it a whole column chunk would be held: other programs write a million rows
# in one.
BUFFER_BYTES = 65536


class Part:
    """One file of a table.

    Args:
        path: The file.

    Attributes:
        metadata: What its metadata says.
        text_columns: Which of ids, paths and splits it holds.
        abstain: Whether it says where a rule abstained.
        rows: How many rows it has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = _stamp(path)
        self._footer = read_footer(path)
        self.metadata = Metadata.parse(self._footer.metadata, path)
        self.rows: int = self._footer.num_rows
        self._types = {field.name: field.type for field in self._footer.schema.to_arrow_schema()}
        self._check_columns()
        split = TEXT_COLUMNS["splits"]
        # The column of a file counts more than the folder that it lies in.
        folder_values = {} if split in self._types else hive_partitions(path)
        self._folder_values = {split: folder_values[split]} if split in folder_values else {}
        available = (*self._types, *self._folder_values)
        self.text_columns = tuple(name for name, column in TEXT_COLUMNS.items() if column in available)
        self.abstain = ABSTAIN_COLUMN in self._types

    def dtype(self, kind: str) -> torch.dtype:
        """The type in which a kind is read: what was written, or float64 if any label has that."""
        if kind in KIND_DTYPES:
            return KIND_DTYPES[kind]
        wide = import_arrow().float64()
        named = column_names(kind, self.metadata.labels)
        return torch.float64 if any(self._types[name] == wide for name in named) else torch.float32

    def pieces(self, columns: list[str], split: str | None) -> Iterator[Any]:
        """Record batches of these columns, in order, restricted to a split if one is named."""
        pa = import_arrow()
        split_column = TEXT_COLUMNS["splits"]
        selected = columns if split is None or split_column in columns else [*columns, split_column]
        if split is not None and self._folder_values.get(split_column, split) != split:
            return
        inside = [name for name in selected if name not in self._folder_values] or [TEXT_COLUMNS["ids"]]
        rows = min(DECODED_ROWS, max(MIN_DECODED_ROWS, DECODED_CELLS // max(len(selected), 1)))
        groups = [group for group in range(self._footer.num_row_groups) if self._may_hold(group, split)]
        with (
            arrow_as_input_error("path", DEFAULT_OWNER, "be a whole Parquet file", self.path, "Write it again."),
            pa.parquet.ParquetFile(
                self.path,
                metadata=self._footer,
                buffer_size=BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            ) as file,
        ):
            self._check_unchanged()
            for piece in file.iter_batches(rows, row_groups=groups, columns=inside):
                piece = with_constant_columns(piece, self._folder_values, selected) if self._folder_values else piece
                if split is not None:
                    piece = piece.filter(pa.compute.equal(as_strings(piece.column(split_column)), split))
                if len(piece):
                    yield piece

    def _check_unchanged(self) -> None:
        """Rejects a file that was replaced after its footer was read: its pages would be at other positions."""
        if self._stamp != _stamp(self.path):
            rule, got = "stay as it is while it is read", f"{str(self.path)!r}, which changed"
            raise InputError("path", DEFAULT_OWNER, rule, got, "Open it again.")

    def _may_hold(self, group: int, split: str | None) -> bool:
        """Whether a row group can have rows of a split, as far as its statistics say."""
        if not split or self._folder_values:  # a null, of which statistics say nothing, is read as an empty name
            return True
        position = list(self._types).index(TEXT_COLUMNS["splits"])
        bounds = self._footer.row_group(group).column(position).statistics
        if bounds is None or not bounds.has_min_max or not isinstance(bounds.min, str):
            return True
        return bool(bounds.min <= split <= bounds.max)

    def _check_columns(self) -> None:
        """Rejects a file that lacks columns of its metadata."""
        for kind in self.metadata.kinds:
            for name in column_names(kind, self.metadata.labels):
                if name not in self._types:
                    got = f"{str(self.path)!r} without {name!r}"
                    raise InputError(
                        "path", DEFAULT_OWNER, "hold the columns of its metadata", got, "Write the file again."
                    )
        if TEXT_COLUMNS["ids"] not in self._types:
            got = f"{str(self.path)!r} without 'id'"
            raise InputError("path", DEFAULT_OWNER, "hold the columns of its metadata", got, "Write the file again.")


def check_same_table(parts: list[Part]) -> None:
    """Rejects parts that do not belong to one table."""
    first = parts[0]
    for part in parts[1:]:
        for name in ("labels", "kinds", "link", "calibrator", "rule"):
            mine, others = getattr(part.metadata, name), getattr(first.metadata, name)
            if mine != others:
                detail = f" ({', '.join(mine)})" if name == "kinds" else ""
                _raise_mismatch(part, first, name, f"others{detail}")
        if (part.text_columns, part.abstain) != (first.text_columns, first.abstain):
            _raise_mismatch(part, first, "columns for rows", ", ".join(part.text_columns))


def _raise_mismatch(part: Part, first: Part, item: str, got: str) -> None:
    rule = f"hold parts with the same {item} as {first.path.name!r}"
    hint = "Open the parts that belong together, by a pattern or a folder of their own."
    raise InputError("path", DEFAULT_OWNER, rule, f"{part.path.name!r} with {got}", hint)


def _stamp(path: Path) -> tuple[int, int, int]:
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


@dataclass(frozen=True)
class ColumnSelection:
    """What is to be read of each row.

    Attributes:
        labels: Of which labels.
        dtypes: Which kinds, and in which types.
        text_columns: Which of ids, paths and splits.
        abstain: Whether also where a rule abstained.
    """

    labels: Labels
    dtypes: dict[str, torch.dtype]
    text_columns: tuple[str, ...]
    abstain: bool

    @classmethod
    def of(cls, parts: list[Part], labels: Labels, kinds: tuple[str, ...]) -> ColumnSelection:
        """What the parts of a table hold of these labels and kinds; float64 if any part has that."""
        dtypes = {}
        for kind in kinds:
            part_dtypes = {part.dtype(kind) for part in parts}
            dtypes[kind] = torch.float64 if torch.float64 in part_dtypes else part_dtypes.pop()
        return cls(labels, dtypes, parts[0].text_columns, parts[0].abstain and "decisions" in kinds)

    @property
    def columns(self) -> list[str]:
        """The names of these columns in the files."""
        of_rows = [TEXT_COLUMNS[name] for name in self.text_columns] + [ABSTAIN_COLUMN] * self.abstain
        return of_rows + [name for kind in self.dtypes for name in column_names(kind, self.labels.names)]


class PredictionsBuilder:
    """A table of a known number of rows, to be filled.

    Args:
        selection: What each row holds.
        rows: How many rows there will be.

    Attributes:
        remaining: How many rows are still to come.
    """

    def __init__(self, selection: ColumnSelection, rows: int) -> None:
        self.selection, self.rows, self.remaining = selection, rows, rows
        shape = rows, len(selection.labels)
        self._cells = {kind: torch.empty(shape, dtype=dtype) for kind, dtype in selection.dtypes.items()}
        self._abstain = torch.empty(rows, dtype=torch.bool) if selection.abstain else None
        self._strings: dict[str, list[Any]] = {name: [] for name in selection.text_columns}

    def add(self, piece: Any) -> Any:
        """Takes as many rows of a record batch as fit, and returns the rest of it."""
        fitting = piece.slice(0, self.remaining)
        start = self.rows - self.remaining
        stop = start + len(fitting)
        positions = {name: position for position, name in enumerate(fitting.schema.names)}
        for kind, cells in self._cells.items():
            named = column_names(kind, self.selection.labels.names)
            fill_from_arrow(cells[start:stop], [fitting.column(positions[name]) for name in named])
        for name, chunks in self._strings.items():
            chunks.append(as_strings(fitting.column(positions[TEXT_COLUMNS[name]])))
        if self._abstain is not None:
            self._abstain.numpy()[start:stop] = as_numpy(fitting.column(positions[ABSTAIN_COLUMN]))
        self.remaining -= len(fitting)
        return piece.slice(len(fitting))

    def table(self, modules: dict[str, Any]) -> Predictions:
        """The filled table; its values are checked, because other programs may have written them."""
        owner = "StoredPredictions"
        for kind, cells in self._cells.items():
            if kind == "targets":
                check_target_values(owner, cells)
            elif kind != "decisions":
                (as_probs if kind == "probs" else as_scores)(owner, cells, name=kind)
        pa = import_arrow()
        text_columns = {
            name: StringColumn(pa.chunked_array(chunks, pa.string())) for name, chunks in self._strings.items()
        }
        return Predictions.from_checked(
            self.selection.labels, self._cells | text_columns | {"abstain": self._abstain}, modules
        )


def open_predictions(
    path: str | os.PathLike[str],
) -> StoredPredictions:
    """Opens a table on disk; its rows are read when they are asked for.

    Args:
        path: A Parquet file, a folder with parts in it or in its folders, a pattern such as "scores/*.parquet", or the
            folder of a run. Parts come in the order of their names and must agree in labels and kinds. Folders such as
            `split=test` give the splits of parts that have no such column.
    """
    return open_parts(find_parquet(path, DEFAULT_OWNER))


def open_parts(
    files: Sequence[Path],
) -> StoredPredictions:
    """Opens files as one table, in their order; see `open_predictions`."""
    parts = [Part(file) for file in files]
    check_same_table(parts)
    return StoredPredictions(parts, parts[0].metadata.modules())


class StoredPredictions(PredictionTable):
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

    def __init__(self, parts: list[Part], modules: dict[str, Any], split: str | None = None) -> None:
        metadata = parts[0].metadata
        self.labels, self.kinds = Labels(metadata.labels), metadata.kinds
        self.link, self.calibrator, self.rule = modules["link"], modules["calibrator"], modules["rule"]
        self.notes = []
        self._parts, self._split = parts, split
        self._sizes: dict[str, int] | None = None

    def __len__(self) -> int:
        return sum(part.rows for part in self._parts) if self._split is None else self.split_sizes()[self._split]

    def load(self) -> Predictions:
        """The whole table, in memory."""
        return self.read()

    def batches(self, rows: int = 65536, *, kinds: Iterable[str] | None = None) -> Iterator[Predictions]:
        """The table in pieces, read one after the other; see `PredictionTable.batches`."""
        check_int("rows", "StoredPredictions.batches", rows, low=1)
        return self._read_batches(self.labels, self._check_kinds(kinds), rows, self._modules())

    def read(
        self,
        *,
        labels: Sequence[str] | Labels | None = None,
        kinds: Iterable[str] | None = None,
        split: str | None = None,
    ) -> Predictions:
        """Some of the table, in memory; only the columns of these labels are read. See `PredictionTable.read`."""
        if split is not None:
            return self.of_split(split).read(labels=labels, kinds=kinds)
        selected = select_labels(self, labels)
        if kinds is None and needs_all_labels(self, selected):
            return concatenate([batch.read(labels=selected) for batch in self.batches()])
        modules = self._modules()
        if selected.names != self.labels.names:
            modules = {"link": select_link(self, column_indices(self, selected))}
        return next(self._read_batches(selected, self._check_kinds(kinds), max(len(self), 1), modules))

    def of_split(self, name: str) -> StoredPredictions:
        """The rows of one split; still on disk."""
        self._check_split(name)
        table = StoredPredictions(self._parts, self._modules(), name)
        table._sizes = {name: self.split_sizes()[name]}
        return table

    def split_sizes(self) -> dict[str, int]:
        """The number of rows of each split, in the order in which they first occur; read once."""
        if self._sizes is None:
            self._sizes = {}
            column = TEXT_COLUMNS["splits"]
            for part in self._parts if "splits" in self._parts[0].text_columns else ():
                for piece in part.pieces([column], None):
                    for name, count in StringColumn(as_strings(piece.column(column))).counts().items():
                        self._sizes[name] = self._sizes.get(name, 0) + count
        return dict(self._sizes)

    def _modules(self) -> dict[str, Any]:
        return {"link": self.link, "calibrator": self.calibrator, "rule": self.rule}

    def _read_batches(
        self, labels: Labels, kinds: tuple[str, ...], rows: int, modules: dict[str, Any]
    ) -> Iterator[Predictions]:
        """Tables of `rows` rows each, filled piece by piece as these come from the files."""
        selected = ColumnSelection.of(self._parts, labels, kinds)
        pieces = chain.from_iterable(part.pieces(selected.columns, self._split) for part in self._parts)
        total, piece = len(self), None
        for start in range(0, max(total, 1), rows):
            builder = PredictionsBuilder(selected, min(rows, total - start))
            while builder.remaining:
                piece = builder.add(piece if piece is not None and len(piece) else next(pieces))
            yield builder.table(modules)
