"""Ids, paths and splits of foreign rows, read as `manyhot.data` reads them, and what was changed for that."""

from __future__ import annotations

from typing import Any

from manyhot.predictions.arrow import as_strings, import_arrow
from manyhot.vocabulary import canonical_split, is_flag


class RowTexts:
    """Reads columns of texts, batch after batch; spaces around a text are not part of it."""

    def __init__(self) -> None:
        self._renamed: dict[str, str] = {}
        self._backslashes = False

    def ids(self, column: Any) -> Any:
        """Ids as they are."""
        return import_arrow().compute.utf8_trim_whitespace(as_strings(column))

    def paths(self, column: Any) -> Any:
        """Paths with slashes, also where Windows wrote them."""
        compute = import_arrow().compute
        texts = self.ids(column)
        if not compute.any(compute.match_substring(texts, "\\")).as_py():
            return texts
        self._backslashes = True
        return with_slashes(texts)

    def splits(self, column: Any, name: str) -> Any:
        """Splits of a column of this name under their usual names."""
        pa = import_arrow()
        texts = self.ids(column)
        coded = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        coded = coded.dictionary_encode()
        names = coded.dictionary.to_pylist()
        usual = [canonical_split(text, flag=is_flag(name)) for text in names]
        self._renamed |= {text: new for text, new in zip(names, usual, strict=True) if text != new}
        return pa.array(usual, pa.string()).take(coded.indices)

    def notes(self) -> list[str]:
        """What was changed."""
        notes = [f"Split {name!r} is read as {new!r}." for name, new in self._renamed.items()]
        return notes + ["Backslashes in paths are read as slashes."] * self._backslashes


def with_slashes(texts: Any) -> Any:
    """Texts of Arrow with slashes for backslashes."""
    return import_arrow().compute.replace_substring(texts, "\\", "/")
