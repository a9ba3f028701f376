"""Lists of label names in one column of text: which sign separates them, and what they mean as targets."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.labels import Labels
from manyhot.predictions.arrow import as_numpy, as_strings, import_arrow
from manyhot.predictions.roles import Wish
from manyhot.refusal import refusal
from manyhot.vocabulary import MISSING

SEPARATORS = ("|", ";", ",", " ")
LITERAL = "[]"  # stands for lists as Python or JSON writes them
SAMPLE_TEXTS = 1000


def detect_separator(texts: Iterable[str], labels: Labels) -> str:
    """The separator under which most pieces of the texts are names of labels; the first of `SEPARATORS` on a tie.

    Example:
        >>> detect_separator(["traffic light", "dog, traffic light"], mh.Labels(["dog", "traffic light"]))
        ','
    """
    known = set(labels.names)
    shares = {}
    sample = [text for text in texts if text.strip() not in MISSING]
    if sample and all(text.strip().startswith("[") and text.strip().endswith("]") for text in sample):
        return LITERAL
    for separator in SEPARATORS:
        pieces = [piece.strip() for text in sample for piece in text.split(separator) if piece.strip()]
        shares[separator] = sum(piece in known for piece in pieces) / max(len(pieces), 1)
    return max(SEPARATORS, key=shares.__getitem__)


def literal_names(text: str, owner: str) -> list[str]:
    """The names in a list as Python or JSON writes it, without the spaces around them; none in a blank text."""
    if text.strip() in MISSING:
        return []
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, list):
        remedy = "Repair it, or pass `separator`."
        raise refusal("labels", owner, "be lists such as ['cat', 'dog']", repr(text), remedy)
    return [str(name).strip() for name in value]


class LabelLists:
    """The columns of the labels of each row, for rows of any number of labels.

    Args:
        owners: (M,) the row of each label.
        columns: (M,) its column.
        rows: How many rows there are.
    """

    def __init__(self, owners: np.ndarray[Any, Any], columns: np.ndarray[Any, Any], rows: int) -> None:
        order = np.argsort(owners, kind="stable")
        self.columns = columns[order]
        self.starts = np.zeros(rows + 1, dtype=np.int64)
        np.cumsum(np.bincount(owners, minlength=rows), out=self.starts[1:])

    def targets(self, rows: np.ndarray[Any, Any], num_labels: int) -> Tensor:
        """(n, K) of the rows of these numbers: what is not listed is absent."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        owners = np.repeat(np.arange(len(rows)), lengths)
        # Each label's place: where its row starts, plus how far it is from the first label that was repeated for it.
        steps = np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        columns = self.columns[np.repeat(self.starts[rows], lengths) + steps]
        targets = torch.zeros(len(rows), num_labels, dtype=torch.int8)
        targets[torch.from_numpy(owners), torch.from_numpy(columns)] = 1
        return targets


class NameReader:
    """Reads lists of label names, batch after batch, and remembers what it met.

    Args:
        labels: The known names.
        wish: What the user said: which sign separates the names of a text, otherwise found out from the first texts;
            and whether names that are no labels are left out, otherwise refused.
    """

    def __init__(self, labels: Labels, wish: Wish) -> None:
        self._labels, self._wish = labels, wish
        self._separator, self._detected = wish.separator, False
        self._others = 0

    def read(self, column: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Rows and columns of the labels in a column of texts such as "dog|cat", or of lists of names.

        Spaces around a name are not part of it, and a blank text is a row without labels.
        """
        pa = import_arrow()
        if not pa.types.is_list(column.type) and not pa.types.is_large_list(column.type):
            column = self._split(as_strings(column))
        names = pa.compute.utf8_trim_whitespace(as_strings(pa.compute.list_flatten(column)))
        owners = as_numpy(pa.compute.list_parent_indices(column)).astype(np.int64)
        # Programs write a blank cell as "nan" or "NULL", and people write "none".
        blank = pa.array([text for text in MISSING if text not in set(self._labels.names)], pa.string())
        filled = ~as_numpy(pa.compute.is_in(names, value_set=blank))
        places = pa.compute.index_in(names, value_set=pa.array(self._labels.names, pa.string()))
        known = as_numpy(places.is_valid())
        others = filled & ~known
        if others.any() and not self._wish.leave_out:
            self._refuse(names[int(others.argmax())].as_py())
        self._others += int(others.sum())
        columns = as_numpy(places.fill_null(0)).astype(np.int64)
        return owners[filled & known], columns[filled & known]

    def notes(self, column: str, name: str) -> list[str]:
        """What was found out about a column of a file."""
        of_file = f" of {name}" if name else ""
        how = ""
        if self._separator is not None:
            how = ", written as lists" if self._separator == LITERAL else f", separated by {self._separator!r}"
            how += " as detected" if self._detected else ""
        notes = [f"Targets are the label names in column {column!r}{of_file}{how}."]
        if self._others:
            notes.append(
                f"Left out {self._others:,} entries of column {column!r}{of_file} that are none of the labels."
            )
        return notes

    def _refuse(self, name: str) -> None:
        near = difflib.get_close_matches(name, self._labels.names, n=1)
        question = f"Did you mean {near[0]!r}? " if near else ""
        remedy = f"{question}Pass other_labels='leave out' to do without such names."
        if not near:
            remedy = f"{remedy[:-1]}, or rename the column if it does not hold true labels."
        raise refusal("targets", self._wish.owner, f"name the {len(self._labels)} labels", repr(name), remedy)

    def _split(self, texts: Any) -> Any:
        if self._separator is None:
            filled = texts.slice(0, SAMPLE_TEXTS).to_pylist()
            self._separator, self._detected = detect_separator(filled, self._labels), True
        pa = import_arrow()
        if self._separator == LITERAL:
            return pa.array(
                [literal_names(text, self._wish.owner) for text in texts.to_pylist()], pa.list_(pa.string())
            )
        return pa.compute.split_pattern(texts, self._separator)
