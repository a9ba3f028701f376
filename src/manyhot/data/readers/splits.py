"""The names of splits, of which every community has its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.refusal import refusal

Array = np.ndarray[Any, Any]

CANONICAL = {
    name: split
    for split, names in {
        "train": ("train", "training"),
        "val": ("val", "valid", "validation", "dev"),
        "test": ("test", "testing", "eval"),
    }.items()
    for name in names
}


def canonical_split(name: str) -> str:
    """The usual name of a split; a name that is none of the known ones stays as it is.

    Example:
        >>> canonical_split("Validation"), canonical_split("fold3")
        ('val', 'fold3')
    """
    return CANONICAL.get(name.strip().lower(), name.strip())


def split_in_name(name: str) -> str | None:
    """The split that the name of a file or folder speaks of, such as "train" for `instances_train2017`."""
    words = {CANONICAL[word] for word in re.split(r"[^a-z]+", name.lower()) if word in CANONICAL}
    return words.pop() if len(words) == 1 else None


def splits_of_files(paths: Sequence[Path]) -> list[str] | None:
    """The split of each file by its own name, or else by its folder's; None unless all have one and some differ."""
    for names in ([path.stem for path in paths], [path.parent.name for path in paths]):
        found = [split_in_name(name) for name in names]
        if all(found) and len(set(found)) > 1:
            return [str(split) for split in found]
    return None


def name_splits(owner: str, codes: Array, names: Sequence[str]) -> tuple[Array | None, list[str]]:
    """The split of each row under its usual name, and what to tell about it; None where every name is blank.

    Args:
        owner: The function that was called, for errors.
        codes: (N,) which of the names each row has.
        names: The names as they came.
    """
    usual = [canonical_split(name) for name in names]
    blank = np.array([not name for name in usual], dtype=bool)
    if len(codes) and blank[codes].all():
        return None, ["The column of splits is blank, so there are no splits."]
    if blank[codes].any():
        got = f"{int(blank[codes].sum()):,} rows without one"
        raise refusal("split", owner, "be there in every row", got, "Fill them in, or pass `split_column=''`.")
    changed = {name: new for name, new in zip(names, usual, strict=True) if name != new}
    notes = [f"Split {name!r} is read as {new!r}." for name, new in changed.items()]
    return np.array(usual, dtype=object)[codes], notes
