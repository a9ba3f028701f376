"""Cells of labels: separators of label names, lists of names, and words such as yes and no."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from manyhot.errors import InputError, suggest
from manyhot.tables.arrow import as_numpy, as_strings, import_arrow
from manyhot.tables.columns import BLANK_CELLS, CELL_VALUES, Array

SEPARATORS = ("|", ";", ",", " ")
LIST_LITERAL = "[]"  # stands for lists as Python or JSON writes them
SAMPLE_TEXTS, MAX_TEXTS = 1000, 20_000
BLANK_NAME, UNKNOWN_NAME = -1, -2


def find_separator(texts: Sequence[str], counts: Array, label_names: Sequence[str] | None = None) -> str:
    """The separator that `detect_separator` finds in a sample of texts, each of which occurs so often."""
    step = max(1, len(texts) // MAX_TEXTS)
    sample: Counter[str] = Counter()
    for text, count in zip(texts[::step], counts[::step].tolist(), strict=True):
        sample[text.strip()] += count
    for text in BLANK_CELLS:
        del sample[text]
    return detect_separator(sample, label_names)


def detect_separator(texts: Counter[str], label_names: Sequence[str] | None = None) -> str:
    """What separates the names in some texts; empty where each text is one name.

    A sign counts as a separator if the pieces it leaves turn up in different company: "dog cat" beside "cat bird".
    Pieces that are always together, as in "traffic light", are one name. Bars and semicolons hardly occur in names.

    Args:
        texts: How often each text occurs.
        label_names: Names that should be among them, if any are known: the sign that brings out most of them is right.

    Example:
        >>> detect_separator(Counter(["traffic light, dog", "traffic light", "dog, stop sign"]))
        ','
        >>> detect_separator(Counter(["traffic light", "dog", "stop sign"]))
        ''
    """
    if texts and all(text.startswith("[") and text.endswith("]") for text in texts):
        return LIST_LITERAL
    guess = _guess_separator(texts)
    if label_names is None:
        return guess
    known = set(label_names)

    def count_known(separator: str) -> int:
        return sum(name in known for text in texts for name in split_names("", text, separator))

    return max((guess, *SEPARATORS, ""), key=count_known)


def _guess_separator(texts: Counter[str]) -> str:
    texts_with = {separator: [text for text in texts if separator in text] for separator in SEPARATORS}
    by_spaces = _mixing_share(texts, " ") >= 0.5
    # Whole texts that come again and again, with pieces that never part, are names with a comma in them.
    again = sum(texts[text] for text in texts_with[","]) >= 2 * len(texts_with[","])
    by_commas = not again or _mixing_share(texts, ",") >= 0.2
    # Where spaces separate the names of most texts, a rare sign is part of a name.
    least = max(1.0, len(texts) / 100) if by_spaces and 2 * len(texts_with[" "]) > len(texts) else 1.0
    separates = {"|": True, ";": True, ",": by_commas, " ": by_spaces}
    return next((sign for sign in SEPARATORS if separates[sign] and len(texts_with[sign]) >= least), "")


def _mixing_share(texts: Iterable[str], separator: str) -> float:
    """Share of pieces, among those of texts with several, that also occur in another text."""
    pieces = [[piece.strip() for piece in text.split(separator) if piece.strip()] for text in texts]
    occurs = Counter(piece for parts in pieces for piece in set(parts))
    several = [piece for parts in pieces if len(parts) > 1 for piece in set(parts)]
    return sum(occurs[piece] > 1 for piece in several) / max(len(several), 1)


def describe_separator(separator: str, unit: str) -> str:
    """How names are separated, as the end of a note."""
    if separator == LIST_LITERAL:
        return "written as lists"
    return f"separated by {separator!r}" if separator else f"one a {unit}"


def split_names(owner: str, text: str, separator: str) -> list[str]:
    """The names in one text."""
    if separator == LIST_LITERAL:
        return _parse_name_list(owner, text)
    return [name.strip() for name in (text.split(separator) if separator else [text])]


def _parse_name_list(owner: str, text: str) -> list[str]:
    """The names in a list as Python or JSON writes it, without the spaces around them; none in a blank text."""
    if text.strip() in BLANK_CELLS:
        return []
    value = None
    with suppress(ValueError, SyntaxError):
        value = ast.literal_eval(text.strip())
    if not isinstance(value, list):
        hint = "Repair it, or pass {separator}."
        raise InputError("labels", owner, "be lists such as ['cat', 'dog']", repr(text), hint)
    return [str(name).strip() for name in value]


def sort_names(names: Iterable[str]) -> list[str]:
    """Names in the order of the alphabet, or by value if all are whole numbers."""
    names = list(names)
    return sorted(names, key=int) if all(name.isdecimal() for name in names) else sorted(names)


def is_list_column(column: Any) -> bool:
    """Whether a column of Arrow holds lists."""
    types = import_arrow().types
    return bool(types.is_list(column.type) or types.is_large_list(column.type))


def split_column(texts: Any, separator: str) -> Any:
    """A column of texts as one of lists of names."""
    pa = import_arrow()
    if separator in (LIST_LITERAL, ""):
        return pa.array([split_names("", text, separator) for text in texts.to_pylist()], pa.list_(pa.string()))
    return pa.compute.split_pattern(texts, separator)


def list_entries(column: Any) -> tuple[Array, Array, list[str]]:
    """The row of each entry of a column of lists, which text it is, and the texts without the spaces around them."""
    compute = import_arrow().compute
    encoded = compute.utf8_trim_whitespace(as_strings(compute.list_flatten(column))).dictionary_encode()
    rows = as_numpy(compute.list_parent_indices(column)).astype(np.int64)
    return rows, as_numpy(encoded.indices), encoded.dictionary.to_pylist()


class LabelNameReader:
    """Reads lists of the names of known labels, batch by batch, and collects notes.

    Args:
        label_names: The known names.
        separator: What separates the names of a text; None to detect it in the first texts.
        leave_out: Whether names that are no labels are left out, instead of raising an error.
    """

    def __init__(self, label_names: Sequence[str], separator: str | None, *, leave_out: bool) -> None:
        self._names, self._separator, self._leave_out = list(label_names), separator, leave_out
        # Programs write a blank cell as "nan" or "NULL", and people write "none".
        self._columns = dict.fromkeys(BLANK_CELLS, BLANK_NAME) | {name: k for k, name in enumerate(label_names)}
        self._detected, self._unknown_count = False, 0

    def read(self, column: Any) -> tuple[Array, Array]:
        """Rows and columns of the labels in a column of texts such as "dog|cat", or of lists of names.

        Spaces around a name are not part of it, and a blank text is a row without labels.
        """
        if not is_list_column(column):
            texts = as_strings(column)
            if self._separator is None and len(texts):
                # Where nothing separates the first names, a bar may separate later ones: it hardly occurs in names.
                sample = texts.slice(0, SAMPLE_TEXTS).to_pylist()
                separator = find_separator(sample, np.ones(len(sample), np.int64), self._names)
                self._separator, self._detected = separator or SEPARATORS[0], True
            column = split_column(texts, self._separator or SEPARATORS[0])
        rows, codes, names = list_entries(column)
        columns = np.array([self._columns.get(name, UNKNOWN_NAME) for name in names], np.int64)[codes]
        unknown = columns == UNKNOWN_NAME
        if unknown.any() and not self._leave_out:
            self._raise_unknown(names[codes[unknown.argmax()]])
        self._unknown_count += int(unknown.sum())
        return rows[columns >= 0], columns[columns >= 0]

    def notes(self, column: str, of_file: str = "") -> list[str]:
        """What was found out about a column; `of_file` names its file."""
        described = "" if self._separator is None else f", {describe_separator(self._separator, 'row')}"
        described += " as detected" if self._detected else ""
        notes = [f"Targets are the label names in column {column!r}{of_file}{described}."]
        if self._unknown_count:
            count = f"{self._unknown_count:,} entries of column {column!r}{of_file}"
            notes.append(f"Left out {count} that are none of the labels.")
        return notes

    def _raise_unknown(self, name: str) -> None:
        suggestion = suggest(name, self._names, show=repr)
        hint = "Pass `{other_labels='leave out'}` to do without such names"
        otherwise = "or rename the column if it does not hold true labels."
        hint = f"{suggestion} {hint}." if suggestion else f"{hint}, {otherwise}"
        raise InputError("targets", rule=f"name the {len(self._names)} labels", got=repr(name), hint=hint)


def numbers_for_words(piece: Any, names: Iterable[str]) -> Any:
    """A record batch with numbers in columns of words such as "yes", "no", "1" and "-1"; nulls for blanks."""
    pa = import_arrow()
    for name in names:
        coded = as_strings(piece.column(name)).dictionary_encode()
        values = []
        for text in map(str.strip, coded.dictionary.to_pylist()):
            if text not in BLANK_CELLS and text.lower() not in CELL_VALUES:
                rule, got = "hold 1, 0, -1, yes, no or blank for each label", f"{text!r} in column {name!r}"
                hint = "Write 1 for present, 0 for absent and nothing for unknown."
                raise InputError("path", rule=rule, got=got, hint=hint)
            values.append(None if text in BLANK_CELLS else float(CELL_VALUES[text.lower()]))
        column = pa.array(values, pa.float32()).take(coded.indices)
        piece = piece.set_column(piece.schema.get_field_index(name), name, column)
    return piece
