"""Ids, paths and splits: one text a row, as a list only when somebody asks for a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from manyhot.predictions.arrow import as_numpy, import_arrow
from manyhot.refusal import refusal


class Texts:
    """One text a row.

    Args:
        values: A list of texts, a range of row numbers, or a column of Arrow. The latter two become a list when it is
            asked for, because a million texts take longer than the probabilities of three labels.
    """

    def __init__(self, values: Any) -> None:
        self.values = values
        self._list: list[str] | None = values if isinstance(values, list) else None

    @property
    def numbered(self) -> bool:
        """Whether these are row numbers that nobody chose."""
        return isinstance(self.values, range)

    @classmethod
    def check(cls, name: str, values: Iterable[Any], rows: int) -> Texts:
        """The texts of an argument, numbers as digits; refuses another count than `rows` and missing values."""
        texts = values.tolist() if hasattr(values, "tolist") else values
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            got = repr(texts) if isinstance(texts, str) else type(texts).__name__
            raise refusal(name, "Predictions", "be a list with one text a row", got, "Pass a list of strings.")
        texts = list(texts)
        if len(texts) != rows:
            remedy = "Pass one for each row, in the order of the rows."
            raise refusal(name, "Predictions", f"have one text a row, {rows}", str(len(texts)), remedy)
        for row, text in enumerate(texts):
            if isinstance(text, str):
                continue
            if isinstance(text, bool) or not isinstance(text, Integral):
                got = f"{text!r} in row {row}"
                raise refusal(name, "Predictions", "be texts or whole numbers", got, "Fill or drop these rows.")
            texts[row] = str(int(text))
        return cls(texts)

    @classmethod
    def joined(cls, parts: Sequence[Texts]) -> Texts:
        """The texts of several tables, one after the other."""
        if any(isinstance(part.values, list | range) for part in parts):
            return cls([text for part in parts for text in part.tolist()])
        pa = import_arrow()
        chunks = [chunk for part in parts for chunk in getattr(part.values, "chunks", [part.values])]
        return cls(pa.chunked_array(chunks, pa.string()))

    def __len__(self) -> int:
        return len(self.values)

    def tolist(self) -> list[str]:
        """The texts as a list, made once."""
        if self._list is None:
            self._list = [str(number) for number in self.values] if self.numbered else self.values.to_pylist()
        return self._list

    def slice(self, start: int, stop: int) -> Texts:
        """The texts of consecutive rows."""
        sliceable = isinstance(self.values, list | range)
        return Texts(self.values[start:stop] if sliceable else self.values.slice(start, stop - start))

    def take(self, rows: np.ndarray[Any, Any]) -> Texts:
        """The texts of the rows of these numbers."""
        if isinstance(self.values, list | range):
            return Texts([str(self.values[row]) for row in rows.tolist()])
        return Texts(self.values.take(import_arrow().array(rows)))

    def equal(self, text: str) -> np.ndarray[Any, Any]:
        """(N,) bool, true where a row has this text."""
        if isinstance(self.values, list | range):
            return np.fromiter((str(value) == text for value in self.values), dtype=np.bool_, count=len(self))
        return as_numpy(import_arrow().compute.equal(self.values, text))

    def counts(self) -> dict[str, int]:
        """How many rows have each text, in the order in which the texts first occur."""
        if isinstance(self.values, list | range):
            found: dict[str, int] = {}
            for value in self.values:
                found[str(value)] = found.get(str(value), 0) + 1
            return found
        counted = import_arrow().compute.value_counts(self.values)
        return {pair["values"]: pair["counts"] for pair in counted.to_pylist()}

    def repeated(self) -> str | None:
        """A text that occurs twice, or None if all differ."""
        if isinstance(self.values, range):
            return None
        if isinstance(self.values, list):
            if len(set(self.values)) == len(self.values):
                return None
        elif import_arrow().compute.count_distinct(self.values).as_py() == len(self.values):
            return None
        return next(text for text, count in self.counts().items() if count > 1)

    def arrow(self, name: str) -> Any:
        """The texts as a column of Arrow; refuses what UTF-8 cannot hold."""
        if not isinstance(self.values, list | range):
            return self.values
        texts = self.tolist()
        try:
            return import_arrow().array(texts, import_arrow().string())
        except UnicodeEncodeError:
            bad = next(text for text in texts if not encodable(text))
            raise refusal(name, "save", "be valid Unicode", repr(bad), "Rename it, or replace the bad bytes.") from None


def encodable(text: str) -> bool:
    """Whether UTF-8 can hold a text: not so the odd bytes of a file name that is in another encoding."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
