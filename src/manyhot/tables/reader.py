"""Files of tables by name and folder; CSV, TSV, JSON, Parquet and data frames as record batches, archives as arrays."""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import json
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, islice, product, zip_longest
from pathlib import Path
from typing import IO, Any, BinaryIO, cast
from urllib.parse import unquote
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np

from manyhot.errors import InputError, as_input_error, first_line, owned
from manyhot.image_paths import is_image
from manyhot.tables.arrow import arrow_as_input_error, as_numpy, as_strings, pa, with_constant_columns
from manyhot.tables.columns import (
    BLANK_CELLS,
    CELL_VALUES,
    ID_COLUMNS,
    PATH_COLUMNS,
    SPLIT_COLUMNS,
    TARGET_PREFIX,
    ColumnRoles,
    Kind,
    encode,
    find_column,
    kind_of_type,
)

TEXT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
ARCHIVE_SUFFIXES = (".npz", ".npy")
RUN_TABLE = "predictions.parquet"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # the folder of rows that have none
PARQUET_MAGIC = b"PAR1"  # the first bytes of every Parquet file

DELIMITERS = (",", "\t", ";", "|")
# Numbers as Python reads them, but for 1_000, by their decimal separators.
NUMBER_PATTERN = r"[+-]?(?:(?:\d+(?:{0}\d*)?|{0}\d+)(?:[eE][+-]?\d+)?|(?i:inf|infinity|nan))"
NUMBERS = {decimal: re.compile(NUMBER_PATTERN.format(re.escape(decimal))) for decimal in (".", ",")}
SAMPLE_ROWS = 1000
BATCH_ROWS = 8192
# What Arrow parses at once, and so also what is in memory of a file that is not.
BLOCK_BYTES = 2**23
# What a spreadsheet writes above the header to say what separates the columns.
SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether a file is CSV or TSV."""
    return os.fspath(path).lower().endswith(TEXT_SUFFIXES)


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file is an array or an archive of NumPy."""
    return os.fspath(path).lower().endswith(ARCHIVE_SUFFIXES)


def is_parquet(path: Path) -> bool:
    """Whether a file begins like Parquet."""
    with path.open("rb") as file:
        return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


def find_parquet(path: str | os.PathLike[str], owner: str = "") -> list[Path]:
    """The files of a path, sorted: one file, a pattern, or a folder with parts in it or in its folders.

    Of the folder of a run it is the table of the run. Names that begin with a dot or an underscore are left out: such
    files are being written, or are none of the parts.
    """
    text, folder = os.fspath(path), Path(path)
    is_folder = os.path.isdir(text)
    if os.path.isfile(text):
        return [folder]
    if not is_folder:
        candidates = [Path(name) for name in glob.glob(text, recursive=True)]
    elif (folder / RUN_TABLE).is_file() and (folder / "classifier.json").is_file():
        candidates = [folder / RUN_TABLE]
    else:
        names = folder.rglob("*.parquet")
        candidates = [name for name in names if not any(part[0] in "._" for part in name.relative_to(folder).parts)]
    files = sorted(file for file in candidates if file.is_file())
    if not files:
        got = f"{text!r}, {'a folder without any' if is_folder else 'where there is nothing'}"
        hint = "Check the path, or write the table there first."
        raise InputError("path", owner, "be a Parquet file, a folder of them or a pattern", got, hint)
    return files


def hive_partitions(path: Path) -> dict[str, str]:
    """What folders such as `split=test` say about all rows of a file.

    Example:
        >>> hive_partitions(Path("parts/split=test/fold=3/0.parquet"))
        {'split': 'test', 'fold': '3'}
    """
    pairs = (part.partition("=") for part in path.parts[:-1])
    return {name: "" if value == NULL_PARTITION else unquote(value) for name, equals, value in pairs if equals and name}


def read_metadata(path: str | os.PathLike[str]) -> dict[bytes, bytes]:
    """The metadata in the first Parquet file of a path, none of other files; or the error that they are unknown."""
    if is_text(path) or is_archive(path):
        if os.path.isfile(path):
            return {}
        got = f"{os.fspath(path)!r}, where there is none"
        raise InputError("path", rule="be a file", got=got, hint="Check the path.")
    file = find_parquet(path)[0]
    if not is_parquet(file):
        rule = f"be a Parquet file or end with {', '.join((*TEXT_SUFFIXES, *ARCHIVE_SUFFIXES))}"
        hint = "Rename the file, or convert it first."
        raise InputError("path", rule=rule, got=repr(os.fspath(path)), hint=hint)
    metadata: dict[bytes, bytes] | None = read_footer(file, "").metadata
    return metadata or {}


def read_footer(path: Path, owner: str = "open_predictions") -> Any:
    """The Parquet metadata of a file, or the error that says what the file is instead."""
    if not is_parquet(path):
        empty = path.stat().st_size == 0
        got = f"{str(path)!r}, which {'is empty' if empty else 'is not one'}"
        hint = "Write it again." if empty else "Import other files with {read_predictions}."
        raise InputError("path", owner, "be a Parquet file", got, hint)
    hint = "It was cut short; write or copy it again."
    with owned(owner), arrow_as_input_error(path, "be a whole Parquet file", hint):
        return pa.parquet.read_metadata(path)


class TableFile(ABC):
    """One table: its columns by kind, and its rows as record batches of Arrow.

    Attributes:
        path: The file; empty for a table in memory.
        columns: What each column holds, by name.
        notes: What was detected about its form.
        doubles: The columns that hold numbers of double precision.
    """

    path: Path
    columns: dict[str, Kind]
    notes: list[str]
    doubles: set[str]

    @abstractmethod
    def sample(self) -> dict[str, list[str]]:
        """The first texts of each column, but for images and lists; empty texts for nulls."""

    @abstractmethod
    def _pieces(self, roles: ColumnRoles) -> Iterator[Any]:
        """Record batches of the columns that have a role, as the file has them."""

    def batches(self, roles: ColumnRoles) -> Iterator[Any]:
        """Record batches of the columns that have a role, in the same types whatever the file has.

        Targets are as `read_cells` gives them, texts as `read_texts`, and lists hold strings.
        """
        targets, texts, rows = set(roles.targets.values()), set(roles.texts), 0
        for piece in self._pieces(roles):
            for index, (name, column) in enumerate(zip(piece.schema.names, piece.columns, strict=True)):
                if name in targets:
                    piece = piece.set_column(index, name, read_cells(column, name, rows))
                elif name in texts:
                    piece = piece.set_column(index, name, read_texts(column))
            rows += len(piece)
            yield piece

    def class_names(self, column: str) -> list[str] | None:
        """Names for the numbers in a column of labels, where the file has them."""
        return None


def open_table(path: Path, *, delimiter: str | None = None, double: bool = False) -> TableFile:
    """A file by the ending of its name; `double` is the precision in which numbers of text are read."""
    if is_text(path):
        return TextTable(path, delimiter, double=double)
    return open_json(path) if path.suffix.lower() in (".jsonl", ".ndjson", ".json") else open_parquet(path)


def open_tables(source: Any, *, delimiter: str | None = None, double: bool = False) -> list[TableFile]:
    """A data frame, a file of text, or Parquet files by file, folder or pattern, of which folders may name columns."""
    if not isinstance(source, str | os.PathLike):
        return [open_frame(source)]
    if is_text(source):
        return [open_table(Path(source), delimiter=delimiter, double=double)]
    tables = [open_parquet(path) for path in find_parquet(source)]
    # What the folders of all files say, such as `split=test`, is a column too.
    partitions = [hive_partitions(table.path) for table in tables]
    shared = set.intersection(*map(set, partitions)) - tables[0].columns.keys()
    for table, values in zip(tables, partitions, strict=True):
        table.constants = {name: text for name, text in values.items() if name in shared}
        table.columns |= dict.fromkeys(table.constants, "text")
    return list(tables)


def check_same_columns(tables: Sequence[TableFile], names: Sequence[str]) -> None:
    """Checks that all tables have these columns, and either lists or no lists in each."""
    for table, name in product(tables, names):
        if name not in table.columns:
            rule, hint = "hold the same columns in all files", "Read files of the same columns."
            raise _file_error(table.path, rule, f" without {name!r}", hint)
        if (table.columns[name] == "list") != (tables[0].columns[name] == "list"):
            rule, got = "hold either lists or texts in a column", f"both in column {name!r}"
            raise InputError("path", rule=rule, got=got, hint="Write it in the same way in all files.")


def read_texts(column: Any) -> Any:
    """A column of texts as strings without nulls and without spaces around them; one of lists as lists of strings."""
    kind = kind_of_type(column.type)
    if kind == "structure" or (kind == "list" and pa.types.is_nested(column.type.value_type)):
        return column
    return column.cast(pa.list_(pa.string())) if kind == "list" else pa.compute.utf8_trim_whitespace(as_strings(column))


def read_cells(column: Any, name: str, rows_before: int) -> Any:
    """A column of a label as int8: 1, 0 and -1, also for words such as yes, and null for a blank.

    Args:
        column: Of Arrow.
        name: Its name, for errors.
        rows_before: How many rows of the table come before it.
    """
    got = f"text in column {name!r}"
    with suppress(pa.ArrowException):
        if kind_of_type(column.type) == "text":
            texts, codes = encode(as_strings(column))
            words = [text.strip() for text in texts]
            other = next((word for word in words if word not in BLANK_CELLS and word.lower() not in CELL_VALUES), None)
            if other is not None:
                rule, got = "hold 1, 0, -1, yes, no or blank for each label", f"{other!r} in column {name!r}"
                hint = "Write 1 for present, 0 for absent and nothing for unknown."
                raise InputError("path", rule=rule, got=got, hint=hint)
            return pa.array([CELL_VALUES.get(word.lower()) for word in words], pa.int8()).take(pa.array(codes))
        cells = as_numpy(column.cast(pa.float32(), safe=False).fill_null(math.nan))
        blank = np.isnan(cells)
        valid = blank | np.isin(cells, (1, 0, -1))
        if valid.all():
            return pa.array(np.where(blank, 0, cells).astype(np.int8), mask=blank)
        row = int(np.argmin(valid))
        got = f"{cells[row]:g} in column {name!r}, row {rows_before + row + 1}"
    hint = "Repair or remove that column[, or name the columns of labels with {labels}]."
    raise InputError("path", rule="hold 1, 0, -1 or blank for each label", got=got, hint=hint)


def _file_error(path: Path, rule: str, got: str, hint: str) -> InputError:
    return InputError("path", rule=rule, got=f"{str(path)!r}{got}", hint=hint)


class TextTable(TableFile):
    """A CSV or TSV file, also one compressed by gzip; its first rows are sampled to detect what it holds.

    Args:
        path: The file.
        delimiter: What separates the columns; detected by default.
        double: The precision in which scores and probabilities are read.
    """

    def __init__(self, path: Path, delimiter: str | None = None, *, double: bool = False) -> None:
        if delimiter is not None and len(delimiter) != 1:
            hint = "Leave it out to have it detected."
            raise InputError("delimiter", rule="be one character", got=repr(delimiter), hint=hint)
        self.path = path
        self._compression = "gzip" if path.suffix.lower() == ".gz" else None
        self._encoding = self._find_encoding()
        with self._reading(), self._open() as file:
            rows = self._read_first_rows(file, delimiter)
        columns = islice(zip_longest(self.header, *rows), len(self.header))
        self._texts = {name: [text.strip() for text in texts if text is not None] for name, *texts in columns}
        filled = {name: [text for text in texts if text not in BLANK_CELLS] for name, texts in self._texts.items()}
        self.decimal = self._find_decimal(filled.values())
        self.columns = {name: self._kind_of(texts) for name, texts in filled.items()}
        self.doubles = set(self.header) if double else set()
        self._check_header()
        self.notes = [f"{path.name} is in UTF-16."] if self._encoding == "utf-16" else []
        if delimiter is None and self.delimiter != ",":
            self.notes.append(f"Columns of {path.name} are separated by {self.delimiter!r}.")
        if self.decimal == ",":
            self.notes.append(f"Numbers of {path.name} are written with a comma.")

    def _find_encoding(self) -> str:
        with self._reading(), self._open_bytes() as file:
            start = file.read(1024)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if 4 * start.count(b"\0") > len(start):  # every other byte of UTF-16, for the most part
            hint = "Convert it: iconv -f UTF-16LE -t UTF-8."
            raise _file_error(self.path, "be text in UTF-8", " with zero bytes", hint)
        return "utf-8-sig"

    def _read_first_rows(self, file: IO[str], delimiter: str | None) -> list[list[str]]:
        """Some rows, after the header and what says how it is written."""
        line = file.readline()
        separator_line = SEPARATOR_LINE.fullmatch(line)
        if separator_line is not None:
            detected, line = separator_line[1], file.readline()
        else:
            is_tsv = ".tsv" in (suffix.lower() for suffix in self.path.suffixes)
            detected = "\t" if is_tsv else find_delimiter(line)
        if not line.strip():
            raise _file_error(self.path, "have a header", " without one", "Name the columns.")
        self.delimiter = detected if delimiter is None else delimiter
        # Strict: a quote that is never closed would make one cell of all rows that follow.
        reader = csv.reader(chain([line], file), delimiter=self.delimiter, strict=True)
        try:
            header = next(reader)
            self.header = header if '"' in line else [name.strip() for name in header]  # spaces in quotes are meant
            self._header_lines = reader.line_num + (separator_line is not None)
            return [row for row in islice(reader, SAMPLE_ROWS) if row]
        except csv.Error as error:
            got = f" ({error} in or before line {reader.line_num:,})"
            hint = "Repair the file; a quote is perhaps not closed."
            raise _file_error(self.path, "be a table of text in UTF-8", got, hint) from None

    def sample(self) -> dict[str, list[str]]:
        """The first texts of each column, numbers with a point."""
        return {name: [text.replace(self.decimal, ".") for text in texts] for name, texts in self._texts.items()}

    def _pieces(self, roles: ColumnRoles) -> Iterator[Any]:
        types = dict.fromkeys(roles.cells.values(), pa.float64() if self.doubles else pa.float32())
        for name in roles.targets.values():
            is_text = self.columns[name] in ("boolean", "text", "numbers and text")
            types[name] = pa.string() if is_text else pa.float32()
        types |= dict.fromkeys(roles.texts, pa.string())
        hint, rows = "Repair the file[, or say which columns to read with {labels}].", 0
        with arrow_as_input_error(self.path, "be a whole table of text in UTF-8", hint), self._reading():
            encoding = "utf-16" if self._encoding == "utf-16" else "utf8"
            reader = pa.csv.open_csv(
                pa.input_stream(self.path, compression=self._compression),
                pa.csv.ReadOptions(
                    block_size=BLOCK_BYTES, encoding=encoding, skip_rows=self._header_lines, column_names=self.header
                ),
                pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                pa.csv.ConvertOptions(
                    column_types=types, include_columns=roles.used, decimal_point=self.decimal, null_values=BLANK_CELLS
                ),
            )
            for piece in reader:
                rows += len(piece)
                yield piece
        self._check_open_quote(rows)

    def _check_open_quote(self, rows: int) -> None:
        """Checks that no unclosed quote has turned all following lines into one cell."""
        with self._open_bytes() as file:
            quotes = sum(block.count(b'"') for block in iter(partial(file.read, BLOCK_BYTES), b""))
        if quotes % 2 == 0:
            return
        with self._open() as text:
            lines = sum(1 for line in text if line.strip())
        # A mark for inches may make the number odd, but then no row has several lines.
        if rows < lines - self._header_lines:
            got = f" with {rows:,} rows in {lines:,} lines and an odd number of quotes"
            raise _file_error(self.path, "close every quote", got, "Repair the file.")

    def _open(self) -> IO[str]:
        return io.TextIOWrapper(self._open_bytes(), encoding=self._encoding, newline="")

    def _open_bytes(self) -> BinaryIO:
        return cast(BinaryIO, gzip.open(self.path) if self._compression else self.path.open("rb"))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turns errors of the compression or the encoding into an `InputError`."""
        try:
            yield
            return
        except (gzip.BadGzipFile, EOFError, ZlibError) as error:
            got, hint = f" ({error})", "Convert it first."
        except (UnicodeDecodeError, pa.ArrowInvalid) as error:
            if not isinstance(error, UnicodeDecodeError) and "UTF8" not in str(error):
                raise
            got = self._find_undecodable()
            hint = 'Save it as UTF-8 ("CSV UTF-8" in a spreadsheet), or convert it: iconv -f WINDOWS-1252 -t UTF-8.'
        raise _file_error(self.path, "be text in UTF-8", got, hint) from None

    def _find_undecodable(self) -> str:
        """Where a file in another encoding has the first byte that this one does not have."""
        with self._open_bytes() as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode(self._encoding)
                except UnicodeDecodeError as error:
                    return f" with the byte 0x{line[error.start]:02X} in line {number:,}"
        return " in another encoding"

    def _check_header(self) -> None:
        _check_distinct(self.header, f" in {str(self.path)!r}")
        if find_column((*PATH_COLUMNS, *ID_COLUMNS, *SPLIT_COLUMNS), self.header) is not None:
            return  # labels may have numbers for names
        numbers = [name for name in self.header if self.columns[name] in ("number", "integer")] or self.header
        image = next((name for name in self.header if is_image(name) and not name.startswith(TARGET_PREFIX)), None)
        if all(map(NUMBERS[self.decimal].fullmatch, numbers)) and any(self.decimal in name for name in numbers):
            start, hint = "numbers", "Write the names of the columns above them."
        elif image is not None:
            start, hint = repr(image), "Write `path,labels` as its first line."
        else:
            return
        raise _file_error(self.path, "have a header", f", which begins with {start}", hint)

    def _find_decimal(self, columns: Iterable[list[str]]) -> str:
        """A comma if whole columns are numbers only that way, and none is a number with a point."""
        commas, points = (
            any(all(map(NUMBERS[mark].fullmatch, texts)) and any(mark in text for text in texts) for texts in columns)
            for mark in (",", ".")
        )
        return "," if commas and not points and self.delimiter != "," else "."

    def _kind_of(self, filled: list[str]) -> Kind:
        """What a column holds, according to its first texts that are not blank."""
        if not filled:
            return "blank"
        numbers = len(list(filter(NUMBERS[self.decimal].fullmatch, filled)))
        if numbers == len(filled):
            return "integer" if all(text.isdigit() for text in filled) else "number"
        if all(CELL_VALUES.get(text.lower(), -1) >= 0 for text in filled):
            return "boolean"
        return "numbers and text" if 2 * numbers > len(filled) else "text"


def _check_distinct(columns: list[str], of_file: str = "") -> None:
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        rule, got = "have columns of different names", f"{twice!r} twice{of_file}"
        raise InputError("path", rule=rule, got=got, hint="Rename one of them.")


def find_delimiter(header_line: str) -> str:
    """The delimiter that splits a header into the most columns; those within quoted names do not count.

    Example:
        >>> find_delimiter('path,"cats; dogs; birds; fish"')
        ','
    """
    bare = re.sub(r'"[^"]*("|$)', "", header_line)
    return max(DELIMITERS, key=bare.count)


class ArrowTable(TableFile):
    """A table in columns of Arrow, in memory or in a Parquet file.

    Args:
        path: The file; empty for a data frame.
        schema: Of all columns.
        read: Gives record batches of some columns.

    Attributes:
        constants: Columns that are not in the file, with one text for all rows.
    """

    def __init__(self, path: Path, schema: Any, read: Callable[[Sequence[str]], Iterator[Any]]) -> None:
        self.path, self.notes, self._schema, self._read = path, [], schema, read
        self.columns = {field.name: kind_of_type(field.type) for field in schema}
        self.doubles = {field.name for field in schema if field.type == pa.float64()}
        self.constants: dict[str, str] = {}

    def sample(self) -> dict[str, list[str]]:
        """The first texts of each column; images are not read for it."""
        names = [name for name in self._schema.names if self.columns[name] not in ("image", "list")]
        rows = next(self._read(names), None)
        columns = {} if rows is None else rows.slice(0, SAMPLE_ROWS).to_pydict()
        return {
            name: ["" if value is None else str(value).strip() for value in values] for name, values in columns.items()
        }

    def _pieces(self, roles: ColumnRoles) -> Iterator[Any]:
        for piece in self._read([name for name in roles.used if name not in self.constants]):
            yield with_constant_columns(piece, self.constants, roles.used)

    def class_names(self, column: str) -> list[str] | None:
        """The names that Hugging Face's `ClassLabel` keeps in the footer."""
        with suppress(KeyError, TypeError, AttributeError):
            feature = json.loads(self._schema.metadata[b"huggingface"])["info"]["features"][column]
            return list(feature.get("feature", feature)["names"])
        return None


def open_parquet(path: Path) -> ArrowTable:
    """One Parquet file."""
    parquet = pa.parquet
    errors = partial(arrow_as_input_error, path, "be a whole Parquet file", "Write or copy it again.")

    def read(columns: Sequence[str]) -> Iterator[Any]:
        with errors(), parquet.ParquetFile(path, pre_buffer=False) as file:
            yield from file.iter_batches(BATCH_ROWS, columns=list(columns))

    with errors(), parquet.ParquetFile(path) as file:
        table = ArrowTable(path, file.schema_arrow, read)
        # The index that pandas wrote as a column, if it is one of one level, is no label, whatever its name.
        index = (file.schema_arrow.pandas_metadata or {}).get("index_columns", [])
    if len(index) == 1 and isinstance(index[0], str) and index[0] in table.columns:
        table.columns[index[0]] = "index"
    return table


def open_frame(frame: Any) -> ArrowTable:
    """A data frame of pandas or polars, or a table of Arrow."""
    table = frame.to_arrow() if hasattr(frame, "to_arrow") else frame
    if hasattr(frame, "columns") and hasattr(frame, "iloc"):
        _check_distinct([str(name) for name in frame.columns])
        # An index of one level may identify rows; its name must not be taken for a label.
        flat = frame.rename_axis(index=None) if frame.index.nlevels == 1 else frame.reset_index(drop=True)
        try:
            table = pa.Table.from_pandas(flat.rename(columns=str))
        except (pa.ArrowException, TypeError, ValueError) as error:
            rule, got = "have columns of one type each", f"one that Arrow cannot take ({first_line(error)})"
            raise InputError("path", rule=rule, got=got, hint="Convert or drop that column.") from None
    if not isinstance(table, pa.Table):
        rule = "be a path, a data frame of pandas or polars or a table of Arrow"
        raise InputError("path", rule=rule, got=type(frame).__name__, hint="Pass arrays to `Predictions` itself.")
    _check_distinct(table.column_names)
    return _table_in_memory(Path(), table)


def _table_in_memory(path: Path, table: Any) -> ArrowTable:
    return ArrowTable(path, table.schema, lambda names: iter(table.select(list(names)).to_batches()))


def open_json(path: Path) -> ArrowTable:
    """Lines of JSON objects, or one JSON list of them."""
    with as_input_error(repr(str(path)), ValueError, "be JSON, one object a line", "Repair the file."):
        text = path.read_text(encoding="utf-8-sig")
        is_one_list = text.lstrip().startswith("[") and path.suffix.lower() == ".json"
        # Not `splitlines`, which also divides at characters that JSON allows within texts.
        rows = json.loads(text) if is_one_list else [json.loads(line) for line in text.split("\n") if line.strip()]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _file_error(path, "hold JSON objects", "", "Write one object for each image.")
    keys = list(dict.fromkeys(key for row in rows for key in row))
    columns = {key: as_column([row.get(key) for row in rows]) for key in keys}
    return _table_in_memory(path, pa.table(columns))


def as_column(values: list[Any]) -> Any:
    """Values of JSON as a column; those of several types, such as numbers beside texts, are texts."""
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, OverflowError):
        if not any(isinstance(value, list) for value in values):
            return pa.array([None if value is None else str(value) for value in values])
        lists = [value if isinstance(value, list) else [] if value is None else [value] for value in values]
        return pa.array([[str(item) for item in sample if item is not None] for sample in lists])


def read_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an archive by name, or the one array of an .npy file under its stem; nothing in it is executed."""
    try:
        with path.open("rb") as file:  # NumPy itself would leave it open where it is no archive
            content = np.load(file, allow_pickle=False)
            return {path.stem: content} if isinstance(content, np.ndarray) else dict(content.items())
    except (ValueError, OSError, EOFError, BadZipFile, ZlibError) as error:
        # What NumPy says about pickles also says how to load them all the same.
        reason = "holds Python objects" if "pickle" in str(error) else f"cannot be read ({first_line(error)})"
        rule = "be arrays of numbers and texts without Python objects"
        hint = "Save names as `np.array(names)`, and the file with `np.savez`."
        raise _file_error(path, rule, f", which {reason}", hint) from None
