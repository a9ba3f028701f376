"""Readers of tables: CSV, TSV, JSON, Parquet, data frames and NumPy archives, in record batches of Arrow."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Protocol, cast
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np

from manyhot.errors import InputError
from manyhot.images import is_image
from manyhot.tables.arrow import arrow_as_input_error, first_line, import_arrow, read_footer, with_constant_columns
from manyhot.tables.columns import (
    BLANK,
    BOOLEAN,
    IMAGE,
    INDEX,
    INTEGER,
    LIST,
    NUMBER,
    NUMBERS_AND_TEXT,
    TARGET_PREFIX,
    TEXT,
    ColumnRoles,
    ReadOptions,
    TablePreview,
    preview_names,
)
from manyhot.tables.formats import find_parquet, hive_partitions, is_text
from manyhot.tables.vocabulary import (
    BLANK_CELLS,
    CELL_VALUES,
    ID_COLUMNS,
    PATH_COLUMNS,
    SPLIT_COLUMNS,
    canonical_split,
    find_column,
)

if TYPE_CHECKING:
    import torch

DELIMITERS = (",", "\t", ";", "|")
SAMPLE_ROWS = 1000
# What Arrow parses at once, and so also what is in memory of a file that is not.
BLOCK_BYTES = 2**23
# What a spreadsheet writes above the header to say what separates the columns.
SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
BOOLEAN_WORDS = {text for text, value in CELL_VALUES.items() if value >= 0}


class DelimitedText:
    """A CSV or TSV file, also one compressed by gzip; its first rows are sampled to detect what it holds.

    Args:
        path: The file.
        owner: The function that was called, for errors.
        delimiter: What separates the columns; detected by default.
        dtype: The type of scores and probabilities.

    Attributes:
        columns: What each column holds, by name.
        sample: The first texts of each column.
        form: Notes about the format of the file.
        notes: All notes about what was detected.
    """

    def __init__(self, path: Path, owner: str, delimiter: str | None, dtype: torch.dtype) -> None:
        import torch

        self.path, self.owner, self._dtype = path, owner, dtype
        if dtype not in (torch.float32, torch.float64):
            hint = "Read the numbers in one of these, and convert them later."
            raise InputError("dtype", owner, "be torch.float32 or torch.float64", str(dtype), hint)
        if delimiter is not None and len(delimiter) != 1:
            raise InputError(
                "delimiter", owner, "be one character", repr(delimiter), "Leave it out to have it detected."
            )
        self._encoding = "utf-8-sig"
        self._skipped = 0  # lines above the header
        header_line = self._header_line()
        separator_line = SEPARATOR_LINE.fullmatch(header_line)
        if separator_line is not None:
            self._skipped = 1
            header_line = self._header_line()
        detected = self._find_delimiter(header_line) if separator_line is None else separator_line[1]
        self.delimiter = detected if delimiter is None else delimiter
        self.header, rows = self._first_rows()
        if '"' not in header_line:  # spaces within quotes are meant
            self.header = [name.strip() for name in self.header]
        header = self.header
        self.sample = {name: [row[index] for row in rows if index < len(row)] for index, name in enumerate(header)}
        self.decimal = self._find_decimal()
        self.columns = {name: self._kind_of(texts) for name, texts in self.sample.items()}
        self._check_header(header)
        self.form = []
        if self._encoding == "utf-16":
            self.form.append(f"{path.name} is in UTF-16.")
        if delimiter is None and self.delimiter != ",":
            self.form.append(f"Columns of {path.name} are separated by {self.delimiter!r}.")
        self.notes = list(self.form)
        if self.decimal == ",":
            self.notes.append(f"Numbers of {path.name} are written with a comma.")

    def dtype(self, roles: ColumnRoles) -> torch.dtype:
        """What the user chose: text says nothing about it."""
        return self._dtype

    def pieces(self, roles: ColumnRoles) -> Iterator[Any]:
        """Record batches of the columns that have a role."""
        import torch

        pa = import_arrow()
        floats = {torch.float32: pa.float32(), torch.float64: pa.float64()}[self._dtype]
        types = dict.fromkeys(roles.cells.values(), floats)
        for name in roles.targets.values():
            types[name] = pa.string() if self.columns[name] in (BOOLEAN, TEXT, NUMBERS_AND_TEXT) else pa.float32()
        types |= dict.fromkeys(roles.texts, pa.string())
        hint = "Repair the file[, or say which columns to read with {labels}]."
        with (
            arrow_as_input_error("path", self.owner, "be a whole table of text in UTF-8", self.path, hint),
            self._in_utf8(),
        ):
            reader = pa.csv.open_csv(
                pa.input_stream(self.path, compression="gzip" if self._is_gzip() else None),
                read_options=pa.csv.ReadOptions(
                    block_size=BLOCK_BYTES,
                    encoding="utf-16" if self._encoding == "utf-16" else "utf8",
                    skip_rows=self._skipped + self._header_lines,
                    column_names=self.header,  # without the spaces around them
                ),
                parse_options=pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(
                    column_types=types,
                    include_columns=roles.used,
                    decimal_point=self.decimal,
                    null_values=BLANK_CELLS,
                ),
            )
            rows = 0
            for piece in reader:
                rows += len(piece)
                yield piece
        self._check_open_quote(rows)

    def _check_open_quote(self, rows: int) -> None:
        """Checks that no unclosed quote has turned all following lines into one cell."""
        quotes = 0
        with self._open_bytes() as file:
            while block := file.read(BLOCK_BYTES):
                quotes += block.count(b'"')
        if quotes % 2 == 0:
            return
        with self._open() as text:
            lines = sum(1 for line in text if line.strip())
        # A mark for inches may make the number odd, but then no row has several lines.
        if rows < lines - self._header_lines:
            got = f"{str(self.path)!r} with {rows:,} rows in {lines:,} lines and an odd number of quotes"
            raise InputError("path", self.owner, "close every quote", got, "Repair the file.")

    @contextmanager
    def _open(self) -> Iterator[IO[str]]:
        """The text from the header on."""
        with self._open_bytes() as raw, io.TextIOWrapper(raw, encoding=self._encoding, newline="") as file:
            for _ in range(self._skipped):
                file.readline()
            yield file

    def _open_bytes(self) -> BinaryIO:
        return cast(BinaryIO, gzip.open(self.path) if self._is_gzip() else self.path.open("rb"))

    def _is_gzip(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    def _header_line(self) -> str:
        try:
            with self._open_bytes() as file:
                start = file.read(1024)
            if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                self._encoding = "utf-16"
            elif 4 * start.count(b"\0") > len(start):  # every other byte of UTF-16, for the most part
                got, hint = f"{str(self.path)!r} with zero bytes", "Convert it: iconv -f UTF-16LE -t UTF-8."
                raise InputError("path", self.owner, "be text in UTF-8", got, hint)
            with self._in_utf8(), self._open() as text:
                line = text.readline()
        except (gzip.BadGzipFile, EOFError) as error:
            got = f"{str(self.path)!r} ({error})"
            raise InputError("path", self.owner, "be text in UTF-8", got, "Convert it first.") from None
        if not line.strip():
            raise InputError(
                "path", self.owner, "have a header", f"{str(self.path)!r} without one", "Name the columns."
            )
        return line

    @contextmanager
    def _in_utf8(self) -> Iterator[None]:
        """Says where a file in another encoding has the first byte that UTF-8 does not have."""
        try:
            yield
        except UnicodeDecodeError:
            raise self._not_utf8() from None
        except import_arrow().ArrowInvalid as error:
            if "UTF8" not in str(error):
                raise
            raise self._not_utf8() from None

    def _not_utf8(self) -> InputError:
        got = f"{str(self.path)!r} in another encoding"
        with self._open_bytes() as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode(self._encoding)
                except UnicodeDecodeError as error:
                    got = f"{str(self.path)!r} with the byte 0x{line[error.start]:02X} in line {number:,}"
                    break
        hint = 'Save it as UTF-8 ("CSV UTF-8" in a spreadsheet), or convert it: iconv -f WINDOWS-1252 -t UTF-8.'
        return InputError("path", self.owner, "be text in UTF-8", got, hint)

    def _find_delimiter(self, header_line: str) -> str:
        """Tabs for TSV; otherwise what makes the most of the header."""
        if ".tsv" in (suffix.lower() for suffix in self.path.suffixes):
            return "\t"
        return find_delimiter(header_line)

    def _first_rows(self) -> tuple[list[str], list[list[str]]]:
        try:
            with self._in_utf8(), self._open() as file:
                # Strict: a quote that is never closed would make one cell of all rows that follow.
                reader = csv.reader(file, delimiter=self.delimiter, strict=True)
                header = next(reader)
                self._header_lines = reader.line_num
                rows = list(islice(reader, SAMPLE_ROWS))
        except (csv.Error, EOFError) as error:
            at = "" if isinstance(error, EOFError) else f" in or before line {reader.line_num:,}"
            got, hint = f"{str(self.path)!r} ({error}{at})", "Repair the file; a quote is perhaps not closed."
            raise InputError("path", self.owner, "be a table of text in UTF-8", got, hint) from None
        return header, [row for row in rows if row]

    def _check_header(self, header: list[str]) -> None:
        twice = next((name for name in header if header.count(name) > 1), None)
        if twice is not None:
            got = f"{twice!r} twice in {str(self.path)!r}"
            raise InputError("path", self.owner, "have columns of different names", got, "Rename one of them.")
        if find_column((*PATH_COLUMNS, *ID_COLUMNS, *SPLIT_COLUMNS), header) is not None:
            return  # labels may have numbers for names
        numbers = [name for name in header if self.columns[name] in (NUMBER, INTEGER)] or header
        if all(_is_number(name, self.decimal) for name in numbers) and any(self.decimal in name for name in numbers):
            got = f"{str(self.path)!r}, which begins with numbers"
            raise InputError("path", self.owner, "have a header", got, "Write the names of the columns above them.")

    def _find_decimal(self) -> str:
        """A comma if whole columns are numbers only that way, and none is a number with a point."""
        columns = [_without_blanks(texts) for texts in self.sample.values()]
        commas = any(_are_numbers(texts, ",") and any("," in text for text in texts) for texts in columns)
        points = any(_are_numbers(texts, ".") and any("." in text for text in texts) for texts in columns)
        return "," if commas and not points and self.delimiter != "," else "."

    def _kind_of(self, texts: list[str]) -> str:
        """What a column holds, according to its first rows."""
        filled = _without_blanks(texts)
        if not filled:
            return BLANK
        numbers = sum(_is_number(text, self.decimal) for text in filled)
        if numbers < len(filled) and all(text.lower() in BOOLEAN_WORDS for text in filled):
            return BOOLEAN
        if numbers < len(filled):
            return NUMBERS_AND_TEXT if 2 * numbers > len(filled) else TEXT
        return INTEGER if all(text.isdigit() for text in filled) else NUMBER


def find_delimiter(header_line: str) -> str:
    """The delimiter that splits a header into the most columns; those within quoted names do not count.

    Example:
        >>> find_delimiter('path,"cats; dogs; birds; fish"')
        ','
    """
    bare = re.sub(r'"[^"]*("|$)', "", header_line)
    return max(DELIMITERS, key=bare.count)


def _without_blanks(texts: list[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip() not in BLANK_CELLS]


def _are_numbers(texts: list[str], decimal: str) -> bool:
    return all(_is_number(text, decimal) for text in texts)


def _is_number(text: str, decimal: str = ".") -> bool:
    """Whether a text is a number with this decimal separator."""
    if "_" in text or (decimal != "." and "." in text):  # Python would take 1_000 for a number
        return False
    try:
        float(text.replace(decimal, "."))
    except ValueError:
        return False
    return True


BATCH_ROWS = 8192


class TableSource(Protocol):
    """A foreign table.

    Attributes:
        columns: What each column holds, by name.
        notes: What was found out about the form of the table.
    """

    columns: dict[str, str]
    notes: list[str]

    def pieces(self, roles: ColumnRoles) -> Iterator[Any]:
        """Record batches of the columns that have a role; numbers of any type."""

    def dtype(self, roles: ColumnRoles) -> torch.dtype:
        """The type in which scores or probabilities are kept."""


class ParquetFiles:
    """Parquet files of any origin, with the same columns."""

    def __init__(self, path: str | os.PathLike[str], owner: str) -> None:
        self.paths, self.owner = find_parquet(path, owner), owner
        self._schema = read_footer(self.paths[0], owner).schema.to_arrow_schema()
        self.columns = _kinds_of_schema(self._schema) | _pandas_index(self._schema)
        self._partitions = {path: hive_partitions(path) for path in self.paths}
        # What the folders of all files say, such as `split=test`, is a column too.
        shared = [
            name
            for name in self._partitions[self.paths[0]]
            if all(name in partition_values for partition_values in self._partitions.values())
        ]
        self.columns |= {name: TEXT for name in shared if name not in self.columns}
        self.notes: list[str] = []

    def dtype(self, roles: ColumnRoles) -> torch.dtype:
        """As wide as the widest column."""
        return _widest_dtype(self._schema, roles)

    def pieces(self, roles: ColumnRoles) -> Iterator[Any]:
        """Record batches of the columns that have a role, file by file."""
        pa = import_arrow()
        for path in self.paths:
            columns_in_file = read_footer(path, self.owner).schema.to_arrow_schema().names
            partition_values = {
                name: text for name, text in self._partitions[path].items() if name not in self._schema.names
            }
            file_columns = [name for name in roles.used if name not in partition_values]
            for name in file_columns:
                if name not in columns_in_file:
                    got, hint = f"{str(path)!r} without {name!r}", "Read files of the same columns."
                    raise InputError("path", self.owner, "hold the same columns in all files", got, hint)
            with (
                arrow_as_input_error("path", self.owner, "be a whole Parquet file", path, "Write or copy it again."),
                pa.parquet.ParquetFile(path, pre_buffer=False) as file,
            ):
                for piece in file.iter_batches(BATCH_ROWS, columns=file_columns):
                    yield with_constant_columns(piece, partition_values, roles.used)


class DataFrameTable:
    """A data frame of pandas or polars, or a table of Arrow."""

    def __init__(self, frame: Any, owner: str) -> None:
        pa = import_arrow()
        self.notes: list[str] = []
        if not (isinstance(frame, pa.Table) or hasattr(frame, "to_arrow") or _is_pandas(frame)):
            rule = "be a data frame of pandas or polars or a table of Arrow"
            raise InputError("frame", owner, rule, type(frame).__name__, "Pass arrays to `Predictions` itself.")
        names = frame.column_names if isinstance(frame, pa.Table) else [str(name) for name in frame.columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(
                "frame", owner, "have columns of different names", f"{twice!r} twice", "Rename one of them."
            )
        if isinstance(frame, pa.Table):
            self._table = frame
        else:
            self._table = _from_pandas(frame, owner) if _is_pandas(frame) else frame.to_arrow()
        self.columns = _kinds_of_schema(self._table.schema)

    def dtype(self, roles: ColumnRoles) -> torch.dtype:
        """As wide as the widest column."""
        return _widest_dtype(self._table.schema, roles)

    def pieces(self, roles: ColumnRoles) -> Iterator[Any]:
        """Record batches of the columns that have a role."""
        yield from self._table.select(roles.used).to_batches()


def open_source(path: str | os.PathLike[str], owner: str) -> TableSource:
    """A file of text or of Parquet, by the ending of its name."""
    import torch

    return open_text(path, owner, dtype=torch.float32) if is_text(path) else ParquetFiles(path, owner)


def open_text(
    path: str | os.PathLike[str], owner: str, *, delimiter: str | None = None, dtype: torch.dtype
) -> DelimitedText:
    """A CSV or TSV file."""
    if not os.path.isfile(path):
        raise InputError("path", owner, "be a file", f"{os.fspath(path)!r}, where there is none", "Check the path.")
    return DelimitedText(Path(path), owner, delimiter, dtype)


def _is_pandas(frame: Any) -> bool:
    return hasattr(frame, "columns") and hasattr(frame, "iloc")


def _from_pandas(frame: Any, owner: str) -> Any:
    pa = import_arrow()
    # An index of one level may identify rows; its name must not be taken for a label.
    flat = frame.rename_axis(index=None) if frame.index.nlevels == 1 else frame.reset_index(drop=True)
    try:
        return pa.Table.from_pandas(flat.rename(columns=str))
    except (pa.ArrowException, TypeError, ValueError) as error:
        got = f"one that Arrow cannot take ({first_line(error)})"
        raise InputError("frame", owner, "have columns of one type each", got, "Convert or drop that column.") from None


def _kinds_of_schema(schema: Any) -> dict[str, str]:
    """What the columns of a schema hold, by name."""
    return {field.name: _kind_of_type(field.type) for field in schema}


def _pandas_index(schema: Any) -> dict[str, str]:
    """The index that pandas wrote as a column, if it is one of one level; it is no label, whatever its name."""
    metadata = (schema.metadata or {}).get(b"pandas")
    names = json.loads(metadata).get("index_columns", []) if metadata else []
    is_column = len(names) == 1 and isinstance(names[0], str) and names[0] in schema.names
    return {names[0]: INDEX} if is_column else {}


def _widest_dtype(schema: Any, roles: ColumnRoles) -> torch.dtype:
    import torch

    float64 = import_arrow().float64()
    return torch.float64 if any(schema.field(name).type == float64 for name in roles.cells.values()) else torch.float32


def _kind_of_type(kind: Any) -> str:
    types = import_arrow().types
    if types.is_dictionary(kind):
        return _kind_of_type(kind.value_type)
    if types.is_floating(kind):
        return NUMBER
    if types.is_integer(kind):
        return INTEGER
    if types.is_boolean(kind):
        return BOOLEAN
    if types.is_list(kind) or types.is_large_list(kind):
        return LIST
    if types.is_null(kind):
        return BLANK
    return TEXT


class OpenTable(Protocol):
    """A table on disk.

    Attributes:
        path: The file.
        notes: What was found out about its form.
    """

    path: Path
    notes: list[str]

    def preview(self) -> TablePreview:
        """What the first rows show."""

    def pieces(self, texts: Sequence[str], cells: Sequence[str]) -> Iterator[Any]:
        """Record batches of columns of texts or lists, and of columns of 1, 0 and -1."""

    def class_names(self, column: str) -> list[str] | None:
        """Names for the numbers in a column of labels, where the file has them."""


def open_table(path: Path, options: ReadOptions) -> OpenTable:
    """A table by the ending of its name."""
    if not path.is_file():
        raise options.missing_path_error(path)
    if is_text(path):
        return TextTable(path, options)
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        return JsonTable(path, options)
    return ParquetTable(path, options)


class TextTable:
    """CSV or TSV, also compressed by gzip."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        import torch

        self.path, self._owner = path, options.owner
        self._text = DelimitedText(path, options.owner, options.delimiter, torch.float32)
        self.notes = self._text.form
        name = next(
            (name for name in self._text.columns if is_image(name) and not name.startswith(TARGET_PREFIX)), None
        )
        if name is not None:
            got = f"{str(path)!r}, which begins with {name!r}"
            raise InputError("path", options.owner, "have a header", got, "Write `path,labels` as its first line.")

    def preview(self) -> TablePreview:
        """What the first rows show."""
        filled = {
            name: [text.strip().replace(self._text.decimal, ".") for text in texts if text.strip() not in BLANK_CELLS]
            for name, texts in self._text.sample.items()
        }
        binary = [
            name for name, texts in filled.items() if texts and {text.lower() for text in texts} <= CELL_VALUES.keys()
        ]
        gaps = any(len(filled[name]) < len(self._text.sample[name]) for name in binary)
        images = [name for name, texts in filled.items() if _mostly_images(texts)]
        return TablePreview(dict(self._text.columns), binary, gaps, images)

    def pieces(self, texts: Sequence[str], cells: Sequence[str]) -> Iterator[Any]:
        """Record batches of some columns."""
        path, split, lists = (*texts, None, None)[:3]
        return self._text.pieces(
            ColumnRoles(path=path, split=split, lists=lists, targets={name: name for name in cells})
        )

    def class_names(self, column: str) -> list[str] | None:
        """None: text has no place for them."""
        return None


class ParquetTable:
    """One Parquet file."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path, self._owner = path, options.owner
        self.notes: list[str] = []
        with self._open() as file:
            self._schema, self.rows = file.schema_arrow, file.metadata.num_rows

    def _open(self) -> Any:
        pa = import_arrow()
        with arrow_as_input_error("path", self._owner, "be a whole Parquet file", self.path, "Write or copy it again."):
            return pa.parquet.ParquetFile(self.path, pre_buffer=False)

    def preview(self) -> TablePreview:
        """What the first rows show; images are not read for it."""
        kinds = {field.name: arrow_kind(field.type) for field in self._schema}
        readable = [name for name, kind in kinds.items() if kind not in (IMAGE, LIST)]
        with self._open() as file:
            first = next(file.iter_batches(SAMPLE_ROWS, columns=readable), None)
        return preview_batch(kinds, first)

    def pieces(self, texts: Sequence[str], cells: Sequence[str]) -> Iterator[Any]:
        """Record batches of some columns."""
        broken = arrow_as_input_error(
            "path", self._owner, "be a whole Parquet file", self.path, "Write or copy it again."
        )
        with broken, self._open() as file:
            yield from file.iter_batches(BATCH_ROWS, columns=[*texts, *cells])

    def class_names(self, column: str) -> list[str] | None:
        """The names that Hugging Face's `ClassLabel` keeps in the footer."""
        footer = (self._schema.metadata or {}).get(b"huggingface")
        features = json.loads(footer).get("info", {}).get("features", {}) if footer else {}
        feature = features.get(column, {})
        feature = feature.get("feature", feature) if isinstance(feature, dict) else {}
        names = feature.get("names") if isinstance(feature, dict) else None
        return names if isinstance(names, list) else None


class JsonTable:
    """Lines of JSON objects, or one JSON list of them."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        self.notes: list[str] = []
        rows = _read_objects(path, options)
        keys = list(dict.fromkeys(key for row in rows for key in row))
        self._table = import_arrow().table({key: _as_column([row.get(key) for row in rows]) for key in keys})

    def preview(self) -> TablePreview:
        """What the first rows show."""
        kinds = {field.name: arrow_kind(field.type) for field in self._table.schema}
        first = self._table.slice(0, SAMPLE_ROWS).combine_chunks().to_batches()
        return preview_batch(kinds, first[0] if first else None)

    def pieces(self, texts: Sequence[str], cells: Sequence[str]) -> Iterator[Any]:
        """Record batches of some columns."""
        yield from self._table.select([*texts, *cells]).to_batches()

    def class_names(self, column: str) -> list[str] | None:
        """None: JSON has no place for them."""
        return None


def _read_objects(path: Path, options: ReadOptions) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = text.lstrip().startswith("[") and path.suffix.lower() == ".json"
        rows = json.loads(text) if lines else [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        got = f"{str(path)!r} ({error})"
        raise InputError("path", options.owner, "be JSON, one object a line", got, "Repair the file.") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(
            "path", options.owner, "hold JSON objects", repr(str(path)), "Write one object for each image."
        )
    return rows


def _as_column(values: list[Any]) -> Any:
    """Values of JSON as a column; those of several types, such as numbers beside texts, are texts."""
    pa = import_arrow()
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, OverflowError):
        if not any(isinstance(value, list) for value in values):
            return pa.array([None if value is None else str(value) for value in values])
        lists = [value if isinstance(value, list) else [] if value is None else [value] for value in values]
        return pa.array([[str(item) for item in sample if item is not None] for sample in lists])


def arrow_kind(kind: Any) -> str:
    """What a column of a type of Arrow holds."""
    types = import_arrow().types
    if types.is_dictionary(kind):
        return arrow_kind(kind.value_type)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return IMAGE
    if types.is_struct(kind):
        return IMAGE if any(kind.field(i).name == "bytes" for i in range(kind.num_fields)) else "structure"
    checks = (
        (types.is_list, LIST),
        (types.is_large_list, LIST),
        (types.is_boolean, BOOLEAN),
        (types.is_integer, INTEGER),
        (types.is_floating, NUMBER),
        (types.is_null, BLANK),
    )
    return next((name for check, name in checks if check(kind)), TEXT)


def preview_batch(kinds: dict[str, str], first: Any) -> TablePreview:
    """What the first rows of a table of Arrow show."""
    if first is None:
        return TablePreview(kinds, [], False, [])
    binary, images, gaps = [], [], False
    for name, kind in kinds.items():
        if name not in first.schema.names or kind in (IMAGE, LIST, BLANK):
            continue
        values = first.column(name)
        texts = [str(value).strip() for value in values.to_pylist() if value is not None]
        filled = [text for text in texts if text not in BLANK_CELLS]
        if not filled:
            kinds[name] = BLANK
        elif {text.lower() for text in filled} <= CELL_VALUES.keys():
            binary.append(name)
            gaps = gaps or len(filled) < len(values)
        elif kind == TEXT and _mostly_images(filled):
            images.append(name)
    return TablePreview(kinds, binary, gaps, images)


def _mostly_images(texts: Sequence[str]) -> bool:
    sample = list(islice(texts, 100))
    return bool(sample) and 2 * sum(is_image(os.path.basename(text)) for text in sample) > len(sample)


ARRAY_NAMES = {
    "targets": ("targets",),
    "labels": ("labels", "names"),
    "ids": ("ids", "id"),
    "paths": ("paths", "path"),
    "splits": ("splits", "split"),
}


def read_arrays(path: Path, owner: str) -> dict[str, Any]:
    """The arrays of an archive by name, or the one array of an .npy file under its stem; nothing in it is executed."""
    if not path.is_file():
        raise InputError("path", owner, "be a file", f"{str(path)!r}, where there is none", "Check the path.")
    try:
        with path.open("rb") as file:  # NumPy itself would leave it open where it is no archive
            content = np.load(file, allow_pickle=False)
            return {path.stem: content} if isinstance(content, np.ndarray) else dict(content.items())
    except (ValueError, OSError, EOFError, BadZipFile, ZlibError) as error:
        # What NumPy says about pickles also says how to load them all the same.
        reason = (
            "which holds Python objects" if "pickle" in str(error) else f"which cannot be read ({first_line(error)})"
        )
        hint = "Save names as `np.array(names)`, and the file with `np.savez`."
        rule = "be arrays of numbers and texts without Python objects"
        raise InputError("path", owner, rule, f"{str(path)!r}, {reason}", hint) from None


def read_archive(path: Path, owner: str, kind: str) -> tuple[dict[str, Any], list[str]]:
    """Arguments for `Predictions` from an archive, and what was taken from where."""
    arrays = read_arrays(path, owner)
    taken = {role: next((n for n in names if n in arrays), None) for role, names in ARRAY_NAMES.items()}
    if taken["labels"] == "labels" and arrays["labels"].ndim == 2:  # often the name of the targets
        taken["targets"] = taken["targets"] or "labels"
        taken["labels"] = "names" if "names" in arrays else None
    cells = kind if kind in arrays else _only_table(arrays, [name for name in taken.values() if name], owner, kind)
    columns = {role: arrays[name] for role, name in taken.items() if name is not None}
    notes = [f"Read array {cells!r} as {kind}."]
    notes += [f"Read array {name!r} as {role}." for role, name in taken.items() if name is not None]
    left_out = [name for name in arrays if name != cells and name not in taken.values()]
    notes += [f"Left out {preview_names(left_out)}."] if left_out else []
    if "labels" in columns:
        columns["labels"] = columns["labels"].astype(str).tolist()
    if "splits" in columns and columns["splits"].ndim == 1:
        original = [str(name) for name in columns["splits"].tolist()]
        columns["splits"] = [canonical_split(name) for name in original]
        renamed = dict(zip(original, columns["splits"], strict=True))
        notes += [f"Split {name!r} is read as {new!r}." for name, new in renamed.items() if name != new]
    return columns | {kind: arrays[cells]}, notes


def read_target_array(path: Path, owner: str) -> Any:
    """The targets of an archive: its array `targets`, its only array, or the sparse matrix that SciPy saved there."""
    arrays = read_arrays(path, owner)
    if {"format", "shape", "data"} <= set(arrays):
        return import_module("scipy.sparse").load_npz(path)
    if "targets" in arrays:
        return arrays["targets"]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    rule, got = "hold an array `targets`", f"the arrays {preview_names(list(arrays))}"
    raise InputError("targets", owner, rule, got, "Save them under that name.")


def _only_table(arrays: dict[str, Any], others: Sequence[str], owner: str, kind: str) -> str:
    """The one array that can hold scores or probabilities where none has that name."""
    other_kind = "probs" if kind == "scores" else "scores"
    tables = [
        name
        for name, array in arrays.items()
        if array.ndim == 2 and np.issubdtype(array.dtype, np.floating) and name not in (other_kind, *others)
    ]
    if len(tables) == 1:
        return tables[0]
    rule, got = f"hold an array `{kind}`", f"the arrays {preview_names(list(arrays))}"
    raise InputError("path", owner, rule, got, f"Save them with `np.savez(path, {kind}={kind})`.")
