"""Label names of each row: texts such as "dog|traffic light" or lists, and the sign that separates the names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from manyhot.data.targets import SparseTargets
from manyhot.predictions.arrow import as_numpy, as_strings, import_arrow
from manyhot.predictions.label_lists import LITERAL, SEPARATORS, literal_names
from manyhot.refusal import refusal
from manyhot.vocabulary import MISSING

MOST_TEXTS = 20_000


class Named(NamedTuple):
    """Labels of rows.

    Attributes:
        names: All label names, sorted.
        targets: (N, K), with present cells only.
        how: How the names were separated, as the end of a sentence.
    """

    names: list[str]
    targets: SparseTargets
    how: str


def detect_separator(texts: Counter[str], wanted: Sequence[str] | None = None) -> str:
    """What separates the names in some texts; empty where each text is one name.

    A sign counts as a separator if the pieces it leaves turn up in different company: "dog cat" beside "cat bird".
    Pieces that are always together, as in "traffic light", are one name. Bars and semicolons hardly occur in names.

    Args:
        texts: How often each text occurs.
        wanted: Names that should be among them, if any are known: the sign that brings out most of them is right.

    Example:
        >>> detect_separator(Counter(["traffic light, dog", "traffic light", "dog, stop sign"]))
        ','
        >>> detect_separator(Counter(["traffic light", "dog", "stop sign"]))
        ''
    """
    if texts and all(text.startswith("[") and text.endswith("]") for text in texts):
        return LITERAL
    guess = _guess_separator(texts)
    if wanted is None:
        return guess
    known = set(wanted)
    signs = (guess, *SEPARATORS, "")
    hits = [sum(name in known for text in texts for name in split_names("", text, sign)) for sign in signs]
    return signs[hits.index(max(hits))]


def _guess_separator(texts: Counter[str]) -> str:
    with_sign = {sign: [text for text in texts if sign in text] for sign in SEPARATORS}
    spaced = 2 * len(with_sign[" "]) > len(texts) and _mixing(texts, " ") >= 0.5
    for sign in ("|", ";"):
        rare = spaced and 100 * len(with_sign[sign]) < len(texts)
        if with_sign[sign] and not rare:
            return sign
    commas = with_sign[","]
    if commas and not (spaced and 100 * len(commas) < len(texts)):
        # Whole texts that come again and again, with pieces that never part, are names with a comma in them.
        again = sum(texts[text] for text in commas) >= 2 * len(commas)
        if not (again and _mixing(texts, ",") < 0.2):
            return ","
    return " " if with_sign[" "] and _mixing(texts, " ") >= 0.5 else ""


def _mixing(texts: Iterable[str], sign: str) -> float:
    """Share of pieces, among those of texts with several, that also occur in another text."""
    pieces = [[piece.strip() for piece in text.split(sign) if piece.strip()] for text in texts]
    occurs = Counter(piece for some in pieces for piece in set(some))
    several = [piece for some in pieces if len(some) > 1 for piece in set(some)]
    return sum(occurs[piece] > 1 for piece in several) / max(len(several), 1)


def read_names(owner: str, column: Any, separator: str | None, wanted: Sequence[str] | None) -> Named:
    """Labels of a column of texts or lists of Arrow.

    Spaces around a name are not part of it, and a blank text or an empty list is a row without labels.

    Args:
        owner: The function that was called, for errors.
        column: A chunked array.
        separator: What the user said; None to find out.
        wanted: The labels to keep, if the user said so, by which a separator is found more surely.
    """
    pa = import_arrow()
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return _read_lists(owner, column)
    encoded = as_strings(column).combine_chunks().dictionary_encode()
    texts, codes = encoded.dictionary.to_pylist(), as_numpy(encoded.indices).astype(np.int64)
    found = separator is None
    if separator is None:
        separator = _find_separator(texts, np.bincount(codes, minlength=len(texts)), wanted)
    # Programs write a blank cell as "nan" or "NULL", and people write "none".
    blank = [text for text in texts if text.strip() in MISSING and text.strip() and text.strip() not in (wanted or ())]
    rows = [[] if text in blank else split_names(owner, text, separator) for text in texts]
    names, targets = index_names(rows)
    how = f"{describe_separator(separator, 'row')}{' as detected' if found else ''}"
    how += f", and {blank[0]!r} for a row without any" if blank else ""
    if found and not separator and any(" " in text.strip() for text in texts):
        how += " (pass separator=' ' if spaces separate names)"
    return Named(names, targets.take(codes), how)


def describe_separator(separator: str, unit: str) -> str:
    """How names are separated, as the end of a sentence."""
    if separator == LITERAL:
        return "written as lists"
    return f"separated by {separator!r}" if separator else f"one a {unit}"


def _find_separator(texts: Sequence[str], counts: np.ndarray[Any, Any], wanted: Sequence[str] | None) -> str:
    step = max(1, len(texts) // MOST_TEXTS)
    sample = Counter({text.strip(): int(count) for text, count in zip(texts[::step], counts[::step], strict=True)})
    for text in MISSING:
        del sample[text]
    return detect_separator(sample, wanted)


def split_names(owner: str, text: str, separator: str) -> list[str]:
    """The names in one text."""
    if separator == LITERAL:
        return literal_names(text, owner)
    return [name.strip() for name in (text.split(separator) if separator else [text])]


def index_names(rows: Sequence[Sequence[str]]) -> tuple[list[str], SparseTargets]:
    """All names in order, and the targets of rows of names; a blank name is none."""
    names = sort_names({name for row in rows for name in row if name})
    columns = {name: column for column, name in enumerate(names)}
    places = [[columns[name] for name in row if name] for row in rows]
    return names, SparseTargets.from_rows(places, num_labels=len(names))


def sort_names(names: Iterable[str]) -> list[str]:
    """Names in the order of the alphabet, or by value if all are whole numbers."""
    names = list(names)
    return sorted(names, key=int) if all(name.isdecimal() for name in names) else sorted(names)


def _read_lists(owner: str, column: Any) -> Named:
    pa = import_arrow()
    values = pa.compute.list_flatten(column)
    if pa.types.is_nested(values.type):
        raise refusal("labels_column", owner, "hold lists of names", str(column.type), "Name another column.")
    texts = pa.compute.utf8_trim_whitespace(as_strings(values))
    owners = as_numpy(pa.compute.list_parent_indices(column)).astype(np.int64)
    encoded = texts.combine_chunks().dictionary_encode()
    found = encoded.dictionary.to_pylist()
    names = sort_names({name for name in found if name})
    columns = {name: place for place, name in enumerate(names)}
    places = np.array([columns.get(name, -1) for name in found], dtype=np.int64)[as_numpy(encoded.indices)]
    kept = places >= 0
    targets = SparseTargets.from_cells(owners[kept], places[kept], shape=(len(column), len(names)))
    return Named(names, targets, "as lists")
