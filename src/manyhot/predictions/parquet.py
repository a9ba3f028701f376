"""Predictions in Parquet files: writing them batch by batch, and reading only what is needed."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.calibrate.calibrator import Calibrator
from manyhot.checks import as_probs, as_scores, check_target_values
from manyhot.decide.rule import Rule
from manyhot.errors import InputError, owned
from manyhot.files import atomic_write
from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.predictions.columns import StringColumn, fill_from_arrow, is_encodable, to_arrow_columns
from manyhot.predictions.predictions import Predictions, PredictionTable, check_label_names, check_modules, concatenate
from manyhot.serialization import from_dict, to_dict
from manyhot.tables.arrow import arrow_as_input_error, as_strings, import_arrow, pa, with_constant_columns
from manyhot.tables.metadata import DEFAULT_OWNER, ROW_COLUMNS, STATE_COLUMN, TEXT_COLUMNS, Metadata, column_names
from manyhot.tables.reader import find_parquet, hive_partitions, read_footer

TEXT = "string"
# Of scores and probabilities it is that of the numbers.
KIND_DTYPES = {**dict.fromkeys(TEXT_COLUMNS, TEXT), "abstain": "bool", "targets": "int8", "decisions": "bool"}
SPLIT = TEXT_COLUMNS["splits"]
CHECKS: dict[str, Callable[[str, Tensor], object]]
CHECKS = {"scores": as_scores, "probs": as_probs, "targets": check_target_values}
# The columns of a file, of a batch, or of what is read: the type of each kind, as Arrow and torch call it, in the order
# of the file. Kinds are those of `Predictions.columns`.
Layout = dict[str, str]


def layout_of(batch: Predictions) -> Layout:
    """The columns of a batch."""
    return {
        kind: TEXT if isinstance(column, StringColumn) else str(column.dtype).removeprefix("torch.")
        for kind, column in batch.columns().items()
    }


def describe_layout(layout: Layout) -> str:
    """The columns, for an error."""
    cells = [f"{kind} of {dtype}" for kind, dtype in layout.items() if dtype != TEXT]
    return ", ".join([*cells, *(kind for kind in TEXT_COLUMNS if kind in layout)])


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
        self._temporary: Path | None = None  # in the block
        self._layout: Layout = {}
        self._pending: list[Predictions] = []
        unusable = next((name for name in self.labels.names if not is_encodable(name)), None)
        if unusable is not None:
            hint = "Replace the bad characters of the name."
            raise InputError("labels", WRITER_OWNER, "be valid Unicode", repr(unusable), hint)
        if os.path.isdir(self.path):
            hint = "Name a file in it, such as 'predictions.parquet'."
            raise InputError("path", WRITER_OWNER, "be a file", f"{self.path!r}, a folder", hint)

    def __enter__(self) -> Self:
        self._session = self._write_file()
        self._session.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._temporary = None
        self._session.__exit__(*error)

    @contextmanager
    def _write_file(self) -> Iterator[None]:
        """Completes the file when the block ends; after an error it is only closed."""
        self.rows, self._layout, self._pending = 0, {}, []
        with atomic_write(self.path) as self._temporary, ExitStack() as self._opened:
            yield
            if not self._layout:
                hint = "Write a table without rows if there are none."
                raise InputError("batch", WRITER_OWNER, "be written at least once", "none", hint)
            self._flush()
            self._file.add_key_value_metadata(self.metadata)

    def write(self, batch: Predictions) -> None:
        """Appends the rows of a table in memory.

        Args:
            batch: Has the kinds and columns of the first batch. Ids that are mere row numbers are counted on.
        """
        if self._temporary is None:
            got, hint = "it outside of one", "Write `with` before it."
            raise InputError("batch", WRITER_OWNER, "be written in a `with` block", got, hint)
        self._check_labels(batch)
        layout = layout_of(batch)
        if not self._layout:
            self._layout = layout
            self._open_file(batch)
        elif layout != self._layout:
            rule, got = f"hold {describe_layout(self._layout)} like the first one", describe_layout(layout)
            raise InputError("batch", WRITER_OWNER, rule, got, "Give every batch the same columns.")
        kinds = sum(dtype != TEXT for dtype in layout.values())
        group_rows = min(GROUP_ROWS, max(MIN_GROUP_ROWS, GROUP_CELLS // max(len(self.labels) * kinds, 1)))
        for start in range(-(self.rows % group_rows), len(batch), group_rows):
            piece = batch.slice(max(start, 0), start + group_rows)
            self._pending.append(self._copy_batch(piece))
            self.rows += len(piece)
            if self.rows % group_rows == 0:
                self._flush()

    def _open_file(self, first: Predictions) -> None:
        """Opens the file with the columns of the first batch."""
        modules = {name: getattr(first, name) if module is None else module for name, module in self._modules.items()}
        described = {name: None if module is None else to_dict(module) for name, module in modules.items()}
        self.metadata |= Metadata(self.labels.names, first.kinds, **described).entries()
        fields = [
            pa.field(name, pa.type_for_alias(dtype), nullable=kind == "targets")
            for kind, dtype in self._layout.items()
            for name in column_names(kind, self.labels.names)
        ]
        fields += [] if self._states is None else [pa.field(STATE_COLUMN, pa.string(), nullable=False)]
        self._schema = pa.schema(fields)
        # Whole numbers and names repeat, so that a dictionary shrinks them; scores do not.
        repeating = [field.name for field in self._schema if pa.types.is_int8(field.type)] + [SPLIT]
        options = {"use_dictionary": repeating, "store_schema": False, "write_page_checksum": True}
        file = pa.parquet.ParquetWriter(self._temporary, self._schema, compression="zstd", **options)
        self._file = self._opened.enter_context(file)

    def _copy_batch(self, piece: Predictions) -> Predictions:
        """A copy, because callers use their tensors again; with ids that count on if they are mere row numbers."""
        columns = piece.columns()
        if columns["ids"].numbered:
            columns["ids"] = StringColumn(range(self.rows, self.rows + len(piece)))
        copies = {name: column.clone() if isinstance(column, Tensor) else column for name, column in columns.items()}
        return Predictions.from_checked(self.labels, copies, {})

    def _flush(self) -> None:
        """Writes the rows that wait, as one row group."""
        if not self._pending:
            return
        columns, arrays = concatenate(self._pending).columns(), []
        self._pending = []
        for kind, column in columns.items():
            arrays += [column.arrow(kind)] if isinstance(column, StringColumn) else to_arrow_columns(column)
        if self._states is not None:
            arrays.append(StringColumn([self._states[name] for name in columns["ids"].tolist()]).arrow(STATE_COLUMN))
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        self._file.write_table(table, row_group_size=len(table))

    def _check_labels(self, batch: Predictions) -> None:
        if batch.labels.names in (self.labels.names, check_label_names(None, len(self.labels)).names):
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
        layout: Its columns; scores and probabilities are of float64 if those of any label are.
        names: The names of all columns in the file, also those that are none of predictions.
        rows: How many rows it has.
        entries: The metadata of the file as it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = _stamp(path)
        self._footer = read_footer(path)
        self.entries: dict[bytes, bytes] = self._footer.metadata or {}
        self.metadata = Metadata.parse(self.entries, path)
        self.rows: int = self._footer.num_rows
        types = {field.name: field.type for field in self._footer.schema.to_arrow_schema()}
        self.names = list(types)
        # The column of a file counts more than the folder that it lies in.
        folders = hive_partitions(path)
        self._folder_values = {SPLIT: folders[SPLIT]} if SPLIT in folders and SPLIT not in types else {}
        present, missing = {*types, *self._folder_values}, None
        self.layout: Layout = {}
        in_rows = [kind for kind, name in ROW_COLUMNS.items() if kind == "ids" or name in present]
        for kind in (*in_rows, *self.metadata.kinds):
            names = column_names(kind, self.metadata.labels)
            wide = pa.float64() in map(types.get, names)
            self.layout[kind] = KIND_DTYPES.get(kind, "float64" if wide else "float32")
            missing = missing or next((name for name in names if name not in present), None)
        if missing is not None:
            got = f"{str(path)!r} without {missing!r}"
            raise InputError("path", DEFAULT_OWNER, "hold the columns of its metadata", got, "Write the file again.")

    def pieces(self, columns: list[str], split: str | None) -> Iterator[Any]:
        """Record batches of these columns, in order, restricted to a split if one is named."""
        if split is not None and self._folder_values.get(SPLIT, split) != split:
            return
        selected = columns if split is None or SPLIT in columns else [*columns, SPLIT]
        inside = [name for name in selected if name not in self._folder_values] or [TEXT_COLUMNS["ids"]]
        rows = min(DECODED_ROWS, max(MIN_DECODED_ROWS, DECODED_CELLS // max(len(selected), 1)))
        groups = [group for group in range(self._footer.num_row_groups) if self._may_hold(group, split)]
        reading = {"buffer_size": BUFFER_BYTES, "pre_buffer": False, "page_checksum_verification": True}
        errors = arrow_as_input_error(self.path, "be a whole Parquet file", "Write it again.")
        with owned(DEFAULT_OWNER), errors, pa.parquet.ParquetFile(self.path, metadata=self._footer, **reading) as file:
            if self._stamp != _stamp(self.path):  # the pages of another file would be at other positions
                rule, got = "stay as it is while it is read", f"{str(self.path)!r}, which changed"
                raise InputError("path", DEFAULT_OWNER, rule, got, "Open it again.")
            for piece in file.iter_batches(rows, row_groups=groups, columns=inside):
                piece = with_constant_columns(piece, self._folder_values, selected)
                if split is not None:
                    piece = piece.filter(pa.compute.equal(as_strings(piece.column(SPLIT)), split))
                if len(piece):
                    yield piece

    def _may_hold(self, group: int, split: str | None) -> bool:
        """Whether a row group can have rows of a split, as far as its statistics say."""
        if not split or self._folder_values:  # a null, of which statistics say nothing, is read as an empty name
            return True
        bounds = self._footer.row_group(group).column(self.names.index(SPLIT)).statistics
        known = bounds is not None and bounds.has_min_max and isinstance(bounds.min, str)
        return not known or bool(bounds.min <= split <= bounds.max)


def check_same_table(parts: list[Part]) -> None:
    """Rejects parts that do not belong to one table."""
    facts = [vars(part.metadata) | {"columns for rows": list(part.layout)} for part in parts]
    for part, own in zip(parts, facts, strict=True):
        different = next((name for name, fact in own.items() if fact != facts[0][name]), None)
        if different is not None:
            texts = ", ".join(kind for kind in TEXT_COLUMNS if kind in part.layout)
            got = {"kinds": f"others ({', '.join(own['kinds'])})", "columns for rows": texts}.get(different, "others")
            rule = f"hold parts with the same {different} as {parts[0].path.name!r}"
            hint = "Open the parts that belong together, by a pattern or a folder of their own."
            raise InputError("path", DEFAULT_OWNER, rule, f"{part.path.name!r} with {got}", hint)


def _restore_module(name: str, content: dict[str, Any] | None) -> Any:
    """The link, calibrator or rule of metadata; None where there is none."""
    try:
        return None if content is None else from_dict(content)
    except InputError:
        rule, got = f"name a {name} that is known", type(content).__name__
        got = repr(content.get("kind")) if isinstance(content, dict) else got
        hint = "Update manyhot, or register your own class with `manyhot.registry.register`."
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        rule, got = f"hold a {name} as `save` wrote it", f"{type(error).__name__}: {error}"
        hint = "Write the file again with `save`."
    raise InputError("path", DEFAULT_OWNER, rule, got, hint)


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
        self.link, self.calibrator, self.rule = (
            _restore_module(name, getattr(metadata, name)) for name in ("link", "calibrator", "rule")
        )
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
            sizes: Counter[str] = Counter()
            for part in self._parts if "splits" in self._parts[0].layout else ():
                for piece in part.pieces([SPLIT], None):
                    sizes.update(StringColumn(as_strings(piece.column(SPLIT))).counts())
            self._sizes = sizes
        return dict(self._sizes)

    def _pieces(self, labels: Labels, kinds: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        """Filled piece by piece as these come from the files."""
        wanted = {*(ROW_COLUMNS if "decisions" in kinds else TEXT_COLUMNS), *kinds}
        layout = {  # in the widest type of any part
            kind: max(part.layout[kind] for part in self._parts) for kind in self._parts[0].layout if kind in wanted
        }
        names = {kind: column_names(kind, labels.names) for kind in layout}
        columns = [name for kind in layout for name in names[kind]]
        pieces = chain.from_iterable(part.pieces(columns, self._split) for part in self._parts)
        total, piece = len(self), None
        for start in range(0, max(total, 1), rows):
            count, filled = min(rows, total - start), 0
            read: dict[str, Any] = {
                kind: [] if dtype == TEXT else torch.empty(count, len(names[kind]), dtype=getattr(torch, dtype))
                for kind, dtype in layout.items()
            }
            while filled < count:
                piece = piece if piece is not None and len(piece) else next(pieces)
                fitting, piece = piece[: count - filled], piece[count - filled :]
                for kind, column in read.items():
                    arrays = fitting.select(names[kind]).columns
                    if layout[kind] == TEXT:
                        column.append(as_strings(arrays[0]))
                    else:
                        fill_from_arrow(column[filled : filled + len(fitting)], arrays)
                filled += len(fitting)
            for kind, column in read.items():
                if kind in CHECKS:  # because another program may have written the file
                    CHECKS[kind]("StoredPredictions", column)
                elif isinstance(column, list):
                    read[kind] = StringColumn(pa.chunked_array(column, "string"))
                elif kind == "abstain":
                    read[kind] = column.flatten()
            yield read
