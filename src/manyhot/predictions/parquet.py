"""Predictions in Parquet files: writing them batch by batch, and reading only what is needed."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.calibrate.calibrator import Calibrator
from manyhot.checks import as_probs, as_scores, check_target_values
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
    STATE_COLUMN,
    TEXT_COLUMNS,
    Metadata,
    column_names,
)
from manyhot.predictions.predictions import (
    Predictions,
    PredictionTable,
    check_modules,
    concatenate,
    numbered_labels,
)
from manyhot.serialization import to_dict
from manyhot.tables.arrow import (
    arrow_as_input_error,
    as_strings,
    find_parquet,
    hive_partitions,
    import_arrow,
    read_footer,
    with_constant_columns,
)

KIND_DTYPES = {"targets": "int8", "decisions": "bool"}


@dataclass(frozen=True)
class Columns:
    """The columns of a file, of a batch, or of what is read.

    Attributes:
        labels: The names of the labels.
        texts: Which of ids, paths and splits there are.
        dtypes: Which kinds there are, in which types; first `abstain`, which is one column, where it is there.
    """

    labels: list[str]
    texts: tuple[str, ...]
    dtypes: dict[str, str]

    @classmethod
    def of(cls, batch: Predictions, labels: Labels) -> Columns:
        """The columns of a batch with these labels."""
        columns = batch.columns()
        kinds = ("abstain",) * (batch.abstain is not None) + batch.kinds
        texts = tuple(name for name in TEXT_COLUMNS if columns[name] is not None)
        return cls(labels.names, texts, {kind: str(columns[kind].dtype).removeprefix("torch.") for kind in kinds})

    def of_kind(self, kind: str) -> list[str]:
        """The names of the columns of a kind."""
        return [ABSTAIN_COLUMN] if kind == "abstain" else column_names(kind, self.labels)

    @property
    def names(self) -> list[str]:
        """The names of all columns: first what each row has once, then kind by kind what it has of each label."""
        texts = [TEXT_COLUMNS[name] for name in self.texts]
        return texts + [name for kind in self.dtypes for name in self.of_kind(kind)]

    def schema(self) -> Any:
        """The same for Arrow."""
        pa = import_arrow()
        fields = [pa.field(TEXT_COLUMNS[name], pa.string(), nullable=False) for name in self.texts]
        for kind, dtype in self.dtypes.items():
            cell = pa.from_numpy_dtype(dtype)
            fields += [pa.field(name, cell, nullable=kind == "targets") for name in self.of_kind(kind)]
        return pa.schema(fields)

    def __str__(self) -> str:
        return ", ".join([*(f"{kind} of {dtype}" for kind, dtype in self.dtypes.items()), *self.texts])


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
        states: A text for each id, such as a digest of its image, to be kept in a column `state` of the file.

    Attributes:
        rows: How many rows have been written.
        metadata: Entries of the metadata of the file, written when the block ends; more can be added.

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
        states: Mapping[str, str] | None = None,
    ) -> None:
        import_arrow()
        self.path = os.fspath(path)
        self.labels = labels if isinstance(labels, Labels) else Labels(labels)
        self.rows = 0
        self.metadata: dict[bytes, bytes] = {}
        self._modules, self._states = check_modules(link=link, calibrator=calibrator, rule=rule), states
        self._temporary: Path | None = None  # while it writes
        unusable = next((name for name in self.labels.names if not is_encodable(name)), None)
        if unusable is not None:
            hint = "Replace the bad characters of the name."
            raise InputError("labels", WRITER_OWNER, "be valid Unicode", repr(unusable), hint)
        if os.path.isdir(self.path):
            hint = "Name a file in it, such as 'predictions.parquet'."
            raise InputError("path", WRITER_OWNER, "be a file", f"{self.path!r}, a folder", hint)

    def __enter__(self) -> Self:
        self.rows = self._written = 0
        self._columns: Columns | None = None
        self._file: Any = None
        self._pending: list[Predictions] = []
        self._session = self._write_file()
        self._session.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._session.__exit__(*error)

    @contextmanager
    def _write_file(self) -> Iterator[None]:
        """Completes the file when the block ends; after an error it is only closed."""
        with atomic_write(self.path) as self._temporary:
            try:
                yield
                if self._columns is None:
                    hint = "Write a table without rows if there are none."
                    raise InputError("batch", WRITER_OWNER, "be written at least once", "none", hint)
                self._flush(self.rows - self._written)
                self._file.add_key_value_metadata(self.metadata)
            finally:
                self._temporary, self._pending = None, []
                if self._file is not None:
                    self._file.close()

    def write(self, batch: Predictions) -> None:
        """Appends the rows of a table in memory.

        Args:
            batch: Has the kinds and columns of the first batch. Ids that are mere row numbers are counted on.
        """
        if self._temporary is None:
            got, hint = "it outside of one", "Write `with` before it."
            raise InputError("batch", WRITER_OWNER, "be written in a `with` block", got, hint)
        self._check_labels(batch)
        columns = Columns.of(batch, self.labels)
        if self._columns is None:
            self._columns = columns
            self._open_file(batch, columns)
        elif columns != self._columns:
            rule = f"hold {self._columns} like the first one"
            raise InputError("batch", WRITER_OWNER, rule, str(columns), "Give every batch the same columns.")
        group_rows = min(GROUP_ROWS, max(MIN_GROUP_ROWS, GROUP_CELLS // max(len(self.labels) * len(columns.dtypes), 1)))
        for piece in batch.batches(group_rows):
            self._pending.append(self._copy_batch(piece))
            self.rows += len(piece)
            if self.rows - self._written >= group_rows:
                self._flush(group_rows)

    def _open_file(self, first: Predictions, columns: Columns) -> None:
        """Opens the file with the columns of the first batch."""
        pa = import_arrow()
        modules = {name: getattr(first, name) if module is None else module for name, module in self._modules.items()}
        described = {name: None if module is None else to_dict(module) for name, module in modules.items()}
        self.metadata[METADATA_KEY] = Metadata(self.labels.names, first.kinds, **described).to_json()
        self._schema = columns.schema()
        if self._states is not None:
            self._schema = self._schema.append(pa.field(STATE_COLUMN, pa.string(), nullable=False))
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
        assert self._columns is not None
        table = concatenate(self._pending)
        columns = table.slice(0, rows).columns()
        arrays = [columns[name].arrow(name) for name in self._columns.texts]
        for kind in self._columns.dtypes:
            arrays += to_arrow_columns(columns[kind][:, None] if kind == "abstain" else columns[kind])
        if self._states is not None:
            arrays.append(StringColumn([self._states[name] for name in columns["ids"].tolist()]).arrow(STATE_COLUMN))
        self._file.write_table(import_arrow().Table.from_arrays(arrays, schema=self._schema), row_group_size=rows)
        self._written += rows
        self._pending = [table.slice(rows, len(table))] if rows < len(table) else []

    def _check_labels(self, batch: Predictions) -> None:
        if batch.labels.names in (self.labels.names, numbered_labels(len(self.labels)).names):
            return
        other = next((name for name in batch.labels.names if name not in self.labels.names), None)
        got = f"{other!r} among them" if other is not None else f"{len(batch.labels)} in another order or number"
        rule = f"have the {len(self.labels)} labels of the writer"
        raise InputError("batch", WRITER_OWNER, rule, got, "Read the batch with these labels, in this order.")


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
        metadata: What its metadata says of the table.
        columns: Its columns; scores and probabilities are of float64 if those of any label are.
        names: The names of all columns in the file, also those that are none of predictions.
        rows: How many rows it has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = _stamp(path)
        self._footer = read_footer(path)
        self.metadata = Metadata.parse(self._footer.metadata, path)
        self.rows: int = self._footer.num_rows
        types = {field.name: field.type for field in self._footer.schema.to_arrow_schema()}
        self.names = list(types)
        split = TEXT_COLUMNS["splits"]
        # The column of a file counts more than the folder that it lies in.
        folder_values = {} if split in types else hive_partitions(path)
        self._folder_values = {split: folder_values[split]} if split in folder_values else {}
        present = {*types, *self._folder_values}
        texts = tuple(name for name, column in TEXT_COLUMNS.items() if name == "ids" or column in present)
        dtypes = {"abstain": "bool"} if ABSTAIN_COLUMN in types else {}
        for kind in self.metadata.kinds:
            wide = import_arrow().float64() in map(types.get, column_names(kind, self.metadata.labels))
            dtypes[kind] = KIND_DTYPES.get(kind, "float64" if wide else "float32")
        self.columns = Columns(self.metadata.labels, texts, dtypes)
        missing = next((name for name in self.columns.names if name not in present), None)
        if missing is not None:
            got = f"{str(path)!r} without {missing!r}"
            raise InputError("path", DEFAULT_OWNER, "hold the columns of its metadata", got, "Write the file again.")

    @property
    def entries(self) -> dict[bytes, bytes]:
        """The metadata of the file as it is."""
        return dict(self._footer.metadata)

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
            if self._stamp != _stamp(self.path):  # the pages of another file would be at other positions
                rule, got = "stay as it is while it is read", f"{str(self.path)!r}, which changed"
                raise InputError("path", DEFAULT_OWNER, rule, got, "Open it again.")
            for piece in file.iter_batches(rows, row_groups=groups, columns=inside):
                piece = with_constant_columns(piece, self._folder_values, selected) if self._folder_values else piece
                if split is not None:
                    piece = piece.filter(pa.compute.equal(as_strings(piece.column(split_column)), split))
                if len(piece):
                    yield piece

    def _may_hold(self, group: int, split: str | None) -> bool:
        """Whether a row group can have rows of a split, as far as its statistics say."""
        if not split or self._folder_values:  # a null, of which statistics say nothing, is read as an empty name
            return True
        position = self.names.index(TEXT_COLUMNS["splits"])
        bounds = self._footer.row_group(group).column(position).statistics
        if bounds is None or not bounds.has_min_max or not isinstance(bounds.min, str):
            return True
        return bool(bounds.min <= split <= bounds.max)


def check_same_table(parts: list[Part]) -> None:
    """Rejects parts that do not belong to one table."""
    facts = [vars(part.metadata) | {"columns for rows": (part.columns.texts, [*part.columns.dtypes])} for part in parts]
    for part, own in zip(parts, facts, strict=True):
        different = next((name for name, fact in own.items() if fact != facts[0][name]), None)
        if different is not None:
            kinds, texts = f"others ({', '.join(part.metadata.kinds)})", ", ".join(part.columns.texts)
            got = {"kinds": kinds, "columns for rows": texts}.get(different, "others")
            rule = f"hold parts with the same {different} as {parts[0].path.name!r}"
            hint = "Open the parts that belong together, by a pattern or a folder of their own."
            raise InputError("path", DEFAULT_OWNER, rule, f"{part.path.name!r} with {got}", hint)


def _stamp(path: Path) -> tuple[int, int, int]:
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


def open_predictions(path: str | os.PathLike[str]) -> StoredPredictions:
    """Opens a table on disk; its rows are read when they are asked for.

    Args:
        path: A Parquet file, a folder with parts in it or in its folders, a pattern such as "scores/*.parquet", or the
            folder of a run. Parts come in the order of their names and must agree in labels and kinds. Folders such as
            `split=test` give the splits of parts that have no such column.
    """
    return StoredPredictions(find_parquet(path, DEFAULT_OWNER))


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

    def __init__(self, files: Sequence[Path]) -> None:
        self._parts = [Part(file) for file in files]
        check_same_table(self._parts)
        metadata = self._parts[0].metadata
        self.labels, self.kinds, self.notes = Labels(metadata.labels), metadata.kinds, []
        self.link, self.calibrator, self.rule = metadata.modules().values()
        self._split: str | None = None
        self._sizes: Counter[str] | None = None

    def __len__(self) -> int:
        return sum(part.rows for part in self._parts) if self._split is None else self.split_sizes()[self._split]

    def load(self) -> Predictions:
        """The whole table, in memory."""
        return self.read()

    def of_split(self, name: str) -> StoredPredictions:
        """The rows of one split; still on disk."""
        self._check_split(name)
        table = copy.copy(self)
        table.notes, table._split, table._sizes = [], name, Counter({name: self.split_sizes()[name]})
        return table

    def split_sizes(self) -> dict[str, int]:
        """The number of rows of each split, in the order in which they first occur; read once."""
        if self._sizes is None:
            self._sizes = Counter()
            column = TEXT_COLUMNS["splits"]
            for part in self._parts if "splits" in self._parts[0].columns.texts else ():
                for piece in part.pieces([column], None):
                    self._sizes.update(StringColumn(as_strings(piece.column(column))).counts())
        return dict(self._sizes)

    def _pieces(
        self, labels: Labels, kinds: tuple[str, ...], modules: dict[str, Any], rows: int
    ) -> Iterator[Predictions]:
        """Tables of `rows` rows each, filled piece by piece as these come from the files."""
        present = self._parts[0].columns
        dtypes = {
            kind: max(part.columns.dtypes[kind] for part in self._parts)  # float64 where any of them has it
            for kind in present.dtypes
            if kind in kinds or (kind == "abstain" and "decisions" in kinds)
        }
        columns = Columns(labels.names, present.texts, dtypes)
        names = {kind: columns.of_kind(kind) for kind in dtypes}
        pieces = chain.from_iterable(part.pieces(columns.names, self._split) for part in self._parts)
        total, piece = len(self), None
        for start in range(0, max(total, 1), rows):
            count, filled = min(rows, total - start), 0
            cells = {
                kind: torch.empty(count, len(names[kind]), dtype=getattr(torch, dtype))
                for kind, dtype in dtypes.items()
            }
            texts: dict[str, list[Any]] = {name: [] for name in columns.texts}
            while filled < count:
                piece = piece if piece is not None and len(piece) else next(pieces)
                fitting, piece = piece[: count - filled], piece[count - filled :]
                for kind, block in cells.items():
                    fill_from_arrow(block[filled : filled + len(fitting)], fitting.select(names[kind]).columns)
                for name, chunks in texts.items():
                    chunks.append(as_strings(fitting.column(TEXT_COLUMNS[name])))
                filled += len(fitting)
            yield Predictions.from_checked(labels, _check_cells(cells) | _join_texts(texts), modules)


def _check_cells(cells: dict[str, Tensor]) -> dict[str, Any]:
    """Checks values, because other programs may have written them."""
    for kind, check in (("scores", as_scores), ("probs", as_probs), ("targets", check_target_values)):
        if kind in cells:
            check("StoredPredictions", cells[kind])
    return {kind: block.flatten() if kind == "abstain" else block for kind, block in cells.items()}


def _join_texts(texts: dict[str, list[Any]]) -> dict[str, Any]:
    pa = import_arrow()
    return {name: StringColumn(pa.chunked_array(chunks, pa.string())) for name, chunks in texts.items()}
