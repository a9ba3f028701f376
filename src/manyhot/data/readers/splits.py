"""The names of splits, of which every community has its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.refusal import refusal
from manyhot.vocabulary import canonical_split, split_in_name

Array = np.ndarray[Any, Any]


def splits_of_files(paths: Sequence[Path]) -> list[str] | None:
    """The split of each file by its own name, or else by its folder's; None unless all have one and some differ."""
    for names in ([path.stem for path in paths], [path.parent.name for path in paths]):
        found = [split_in_name(name) for name in names]
        if all(found) and len(set(found)) > 1:
            return [str(split) for split in found]
    return None


def name_splits(
    owner: str, codes: Array, names: Sequence[str], *, flag: bool = False
) -> tuple[Array | None, list[str]]:
    """The split of each row under its usual name, and what to tell about it; None where every name is blank.

    Args:
        owner: The function that was called, for errors.
        codes: (N,) which of the names each row has.
        names: The names as they came.
        flag: Whether they tell by true and false whether a row is for validation.
    """
    usual = [canonical_split(name, flag=flag) for name in names]
    blank = np.array([not name for name in usual], dtype=bool)
    if len(codes) and blank[codes].all():
        return None, ["The column of splits is blank, so there are no splits."]
    if blank[codes].any():
        got = f"{int(blank[codes].sum()):,} rows without one"
        raise refusal("split", owner, "be there in every row", got, "Fill them in, or pass `split_column=''`.")
    changed = {name: new for name, new in zip(names, usual, strict=True) if name != new}
    notes = [f"Split {name!r} is read as {new!r}." for name, new in changed.items()]
    return np.array(usual, dtype=object)[codes], notes
