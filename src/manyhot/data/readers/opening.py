"""Tables of text, Parquet and JSON lines, opened so that one reader can take them all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import torch

from manyhot.data.readers.columns import IMAGE, MARK, Look
from manyhot.data.readers.said import Said
from manyhot.image_formats import is_image
from manyhot.predictions.arrow import import_arrow, in_our_words
from manyhot.predictions.delimited import DelimitedText
from manyhot.predictions.forms import is_text
from manyhot.predictions.roles import BLANK, LIST, NUMBER, TEXT, TRUTH, WHOLE, Roles
from manyhot.refusal import refusal
from manyhot.vocabulary import CELLS, MISSING

SAMPLE_ROWS = 1000
BATCH_ROWS = 8192


class OpenTable(Protocol):
    """A table on disk.

    Attributes:
        path: The file.
        notes: What was found out about its form.
    """

    path: Path
    notes: list[str]

    def look(self) -> Look:
        """What the first rows show."""

    def pieces(self, texts: Sequence[str], cells: Sequence[str]) -> Iterator[Any]:
        """Record batches of columns of texts or lists, and of columns of 1, 0 and -1."""

    def class_names(self, column: str) -> list[str] | None:
        """Names for the numbers in a column of labels, where the file has them."""


def open_table(path: Path, said: Said) -> OpenTable:
    """A table by the ending of its name."""
    if not path.is_file():
        raise said.no_file(path)
    if is_text(path):
        return TextTable(path, said)
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        return JsonTable(path, said)
    return ParquetTable(path, said)


class TextTable:
    """CSV or TSV, also compressed by gzip."""

    def __init__(self, path: Path, said: Said) -> None:
        self.path, self._owner = path, said.owner
        self._text = DelimitedText(path, said.owner, said.delimiter, torch.float32)
        self.notes = self._text.form
        name = next((name for name in self._text.columns if is_image(name) and not name.startswith(MARK)), None)
        if name is not None:
            got = f"{str(path)!r}, which begins with {name!r}"
            raise refusal("path", said.owner, "have a header", got, "Write `path,labels` as its first line.")

    def look(self) -> Look:
        """What the first rows show."""
        filled = {
            name: [text.strip().replace(self._text.decimal, ".") for text in texts if text.strip() not in MISSING]
            for name, texts in self._text.sample.items()
        }
        binary = [name for name, texts in filled.items() if texts and {text.lower() for text in texts} <= CELLS.keys()]
        gaps = any(len(filled[name]) < len(self._text.sample[name]) for name in binary)
        images = [name for name, texts in filled.items() if _mostly_images(texts)]
        return Look(dict(self._text.columns), binary, gaps, images)

    def pieces(self, texts: Sequence[str], cells: Sequence[str]) -> Iterator[Any]:
        """Record batches of some columns."""
        path, split, lists = (*texts, None, None)[:3]
        return self._text.pieces(Roles(path=path, split=split, lists=lists, targets={name: name for name in cells}))

    def class_names(self, column: str) -> list[str] | None:
        """None: text has no place for them."""
        return None


class ParquetTable:
    """One Parquet file."""

    def __init__(self, path: Path, said: Said) -> None:
        self.path, self._owner = path, said.owner
        self.notes: list[str] = []
        with self._open() as file:
            self._schema, self.rows = file.schema_arrow, file.metadata.num_rows

    def _open(self) -> Any:
        pa = import_arrow()
        with in_our_words("path", self._owner, "be a whole Parquet file", self.path, "Write or copy it again."):
            return pa.parquet.ParquetFile(self.path, pre_buffer=False)

    def look(self) -> Look:
        """What the first rows show; pictures are not read for it."""
        kinds = {field.name: kind_of_type(field.type) for field in self._schema}
        wanted = [name for name, kind in kinds.items() if kind not in (IMAGE, LIST)]
        with self._open() as file:
            first = next(file.iter_batches(SAMPLE_ROWS, columns=wanted), None)
        return look_at(kinds, first)

    def pieces(self, texts: Sequence[str], cells: Sequence[str]) -> Iterator[Any]:
        """Record batches of some columns."""
        broken = in_our_words("path", self._owner, "be a whole Parquet file", self.path, "Write or copy it again.")
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

    def __init__(self, path: Path, said: Said) -> None:
        self.path = path
        self.notes: list[str] = []
        rows = _read_objects(path, said)
        keys = list(dict.fromkeys(key for row in rows for key in row))
        self._table = import_arrow().table({key: _as_column([row.get(key) for row in rows]) for key in keys})

    def look(self) -> Look:
        """What the first rows show."""
        kinds = {field.name: kind_of_type(field.type) for field in self._table.schema}
        first = self._table.slice(0, SAMPLE_ROWS).combine_chunks().to_batches()
        return look_at(kinds, first[0] if first else None)

    def pieces(self, texts: Sequence[str], cells: Sequence[str]) -> Iterator[Any]:
        """Record batches of some columns."""
        yield from self._table.select([*texts, *cells]).to_batches()

    def class_names(self, column: str) -> list[str] | None:
        """None: JSON has no place for them."""
        return None


def _read_objects(path: Path, said: Said) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = text.lstrip().startswith("[") and path.suffix.lower() == ".json"
        rows = json.loads(text) if lines else [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        got = f"{str(path)!r} ({error})"
        raise refusal("path", said.owner, "be JSON, one object a line", got, "Repair the file.") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise refusal("path", said.owner, "hold JSON objects", repr(str(path)), "Write one object for each image.")
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
        return pa.array([[str(item) for item in some if item is not None] for some in lists])


def kind_of_type(kind: Any) -> str:
    """What a column of a type of Arrow holds."""
    types = import_arrow().types
    if types.is_dictionary(kind):
        return kind_of_type(kind.value_type)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return IMAGE
    if types.is_struct(kind):
        return IMAGE if any(kind.field(i).name == "bytes" for i in range(kind.num_fields)) else "structure"
    checks = (
        (types.is_list, LIST),
        (types.is_large_list, LIST),
        (types.is_boolean, TRUTH),
        (types.is_integer, WHOLE),
        (types.is_floating, NUMBER),
        (types.is_null, BLANK),
    )
    return next((name for check, name in checks if check(kind)), TEXT)


def look_at(kinds: dict[str, str], first: Any) -> Look:
    """What the first rows of a table of Arrow show."""
    if first is None:
        return Look(kinds, [], False, [])
    binary, images, gaps = [], [], False
    for name, kind in kinds.items():
        if name not in first.schema.names or kind in (IMAGE, LIST, BLANK):
            continue
        values = first.column(name)
        texts = [str(value).strip() for value in values.to_pylist() if value is not None]
        filled = [text for text in texts if text not in MISSING]
        if not filled:
            kinds[name] = BLANK
        elif {text.lower() for text in filled} <= CELLS.keys():
            binary.append(name)
            gaps = gaps or len(filled) < len(values)
        elif kind == TEXT and _mostly_images(filled):
            images.append(name)
    return Look(kinds, binary, gaps, images)


def _mostly_images(texts: Sequence[str]) -> bool:
    some = list(islice(texts, 100))
    return bool(some) and 2 * sum(is_image(os.path.basename(text)) for text in some) > len(some)
