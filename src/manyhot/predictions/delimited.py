"""CSV and TSV: which sign separates the columns, what the columns hold, and reading them piece by piece."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch

from manyhot.predictions.arrow import import_arrow, in_our_words
from manyhot.predictions.roles import BLANK, MIXED, NUMBER, TEXT, TRUTH, WHOLE, Roles
from manyhot.refusal import Refusal, refusal
from manyhot.vocabulary import CELLS, MISSING

DELIMITERS = (",", "\t", ";", "|")
SAMPLE_ROWS = 1000
# What Arrow parses at once, and so also what is in memory of a file that is not.
BLOCK_BYTES = 2**23
# What a spreadsheet writes above the header to say what separates the columns.
SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
WORDS = {word for word, value in CELLS.items() if value >= 0}


class DelimitedText:
    """A CSV or TSV file, also one compressed by gzip; its first rows are looked at to learn what it holds.

    Args:
        path: The file.
        owner: The function that was called, for errors.
        delimiter: What separates the columns; found out by default.
        dtype: The type of scores and probabilities.

    Attributes:
        columns: What each column holds, by name.
        sample: The first texts of each column.
        form: What was found out about the file, whatever its columns are.
        notes: All that was found out.
    """

    def __init__(self, path: Path, owner: str, delimiter: str | None, dtype: torch.dtype) -> None:
        self.path, self.owner, self._dtype = path, owner, dtype
        if dtype not in (torch.float32, torch.float64):
            remedy = "Read the numbers in one of these, and convert them later."
            raise refusal("dtype", owner, "be torch.float32 or torch.float64", str(dtype), remedy)
        if delimiter is not None and len(delimiter) != 1:
            raise refusal("delimiter", owner, "be one sign", repr(delimiter), "Leave it out to have it found.")
        self._encoding = "utf-8-sig"
        self._skipped = 0  # lines above the header
        header_line = self._header_line()
        told = SEPARATOR_LINE.fullmatch(header_line)
        if told is not None:
            self._skipped = 1
            header_line = self._header_line()
        found = self._find_delimiter(header_line) if told is None else told[1]
        self.delimiter = found if delimiter is None else delimiter
        self.header, rows = self._first_rows()
        if '"' not in header_line:  # spaces within quotes are meant
            self.header = [name.strip() for name in self.header]
        header = self.header
        self.sample = {name: [row[place] for row in rows if place < len(row)] for place, name in enumerate(header)}
        self.decimal = self._find_decimal()
        self.columns = {name: self._holds(texts) for name, texts in self.sample.items()}
        self._check_header(header)
        self.form = []
        if self._encoding == "utf-16":
            self.form.append(f"{path.name} is in UTF-16.")
        if delimiter is None and self.delimiter != ",":
            self.form.append(f"Columns of {path.name} are separated by {self.delimiter!r}.")
        self.notes = list(self.form)
        if self.decimal == ",":
            self.notes.append(f"Numbers of {path.name} are written with a comma.")

    def dtype(self, roles: Roles) -> torch.dtype:
        """What the user chose: text says nothing about it."""
        return self._dtype

    def pieces(self, roles: Roles) -> Iterator[Any]:
        """Record batches of the columns that have a role."""
        pa = import_arrow()
        floats = {torch.float32: pa.float32(), torch.float64: pa.float64()}[self._dtype]
        types = dict.fromkeys(roles.cells.values(), floats)
        for name in roles.targets.values():
            types[name] = pa.string() if self.columns[name] in (TRUTH, TEXT, MIXED) else pa.float32()
        types |= dict.fromkeys(roles.texts, pa.string())
        remedy = "Repair the file, or say which columns to read with `labels`."
        with in_our_words("path", self.owner, "be a whole table of text in UTF-8", self.path, remedy), self._in_utf8():
            reader = pa.csv.open_csv(
                pa.input_stream(self.path, compression="gzip" if self._zipped() else None),
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
                    null_values=MISSING,
                ),
            )
            rows = 0
            for piece in reader:
                rows += len(piece)
                yield piece
        self._refuse_open_quote(rows)

    def _refuse_open_quote(self, rows: int) -> None:
        """Refuses a file of which a quote that is never closed has made one cell of all lines that follow."""
        quotes = 0
        with self._open_bytes() as file:
            while block := file.read(BLOCK_BYTES):
                quotes += block.count(b'"')
        if quotes % 2 == 0:
            return
        with self._open() as text:
            lines = sum(1 for line in text if line.strip())
        # A sign for inches may make the number odd, but then no row has several lines.
        if rows < lines - self._header_lines:
            got = f"{str(self.path)!r} with {rows:,} rows in {lines:,} lines and an odd number of quotes"
            raise refusal("path", self.owner, "close every quote", got, "Repair the file.")

    @contextmanager
    def _open(self) -> Iterator[IO[str]]:
        """The text from the header on."""
        with self._open_bytes() as raw, io.TextIOWrapper(raw, encoding=self._encoding, newline="") as file:
            for _ in range(self._skipped):
                file.readline()
            yield file

    def _open_bytes(self) -> BinaryIO:
        return cast(BinaryIO, gzip.open(self.path) if self._zipped() else self.path.open("rb"))

    def _zipped(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    def _header_line(self) -> str:
        try:
            with self._open_bytes() as file:
                start = file.read(1024)
            if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                self._encoding = "utf-16"
            elif 4 * start.count(b"\0") > len(start):  # every other byte of UTF-16, for the most part
                got, remedy = f"{str(self.path)!r} with zero bytes", "Convert it: iconv -f UTF-16LE -t UTF-8."
                raise refusal("path", self.owner, "be text in UTF-8", got, remedy)
            with self._in_utf8(), self._open() as text:
                line = text.readline()
        except (gzip.BadGzipFile, EOFError) as error:
            got = f"{str(self.path)!r} ({error})"
            raise refusal("path", self.owner, "be text in UTF-8", got, "Convert it first.") from None
        if not line.strip():
            raise refusal("path", self.owner, "have a header", f"{str(self.path)!r} without one", "Name the columns.")
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

    def _not_utf8(self) -> Refusal:
        got = f"{str(self.path)!r} in another encoding"
        with self._open_bytes() as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode(self._encoding)
                except UnicodeDecodeError as error:
                    got = f"{str(self.path)!r} with the byte 0x{line[error.start]:02X} in line {number:,}"
                    break
        remedy = 'Save it as UTF-8 ("CSV UTF-8" in a spreadsheet), or convert it: iconv -f WINDOWS-1252 -t UTF-8.'
        return refusal("path", self.owner, "be text in UTF-8", got, remedy)

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
            got, remedy = f"{str(self.path)!r} ({error}{at})", "Repair the file; a quote is perhaps not closed."
            raise refusal("path", self.owner, "be a table of text in UTF-8", got, remedy) from None
        return header, [row for row in rows if row]

    def _check_header(self, header: list[str]) -> None:
        twice = next((name for name in header if header.count(name) > 1), None)
        if twice is not None:
            got = f"{twice!r} twice in {str(self.path)!r}"
            raise refusal("path", self.owner, "have columns of different names", got, "Rename one of them.")
        numbers = [name for name in header if self.columns[name] in (NUMBER, WHOLE)] or header
        if all(_is_number(name, self.decimal) for name in numbers) and any(self.decimal in name for name in numbers):
            got = f"{str(self.path)!r}, which begins with numbers"
            raise refusal("path", self.owner, "have a header", got, "Write the names of the columns above them.")

    def _find_decimal(self) -> str:
        """A comma if whole columns are numbers only that way, and none is a number with a point."""
        wholes = [_filled(texts) for texts in self.sample.values()]
        commas = any(_are_numbers(texts, ",") and any("," in text for text in texts) for texts in wholes)
        points = any(_are_numbers(texts, ".") and any("." in text for text in texts) for texts in wholes)
        return "," if commas and not points and self.delimiter != "," else "."

    def _holds(self, texts: list[str]) -> str:
        """What a column holds, as far as its first rows tell."""
        filled = _filled(texts)
        if not filled:
            return BLANK
        numbers = sum(_is_number(text, self.decimal) for text in filled)
        if numbers < len(filled) and all(text.lower() in WORDS for text in filled):
            return TRUTH
        if numbers < len(filled):
            return MIXED if 2 * numbers > len(filled) else TEXT
        return WHOLE if all(text.isdigit() for text in filled) else NUMBER


def find_delimiter(header_line: str) -> str:
    """The sign that makes the most of a header; signs within quoted names separate nothing.

    Example:
        >>> find_delimiter('path,"cats; dogs; birds; fish"')
        ','
    """
    bare = re.sub(r'"[^"]*("|$)', "", header_line)
    return max(DELIMITERS, key=bare.count)


def _filled(texts: list[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip() not in MISSING]


def _are_numbers(texts: list[str], decimal: str) -> bool:
    return all(_is_number(text, decimal) for text in texts)


def _is_number(text: str, decimal: str = ".") -> bool:
    """Whether a text is a number with this sign before the fraction."""
    if "_" in text or (decimal != "." and "." in text):  # Python would take 1_000 for a number
        return False
    try:
        float(text.replace(decimal, "."))
    except ValueError:
        return False
    return True
