"""Which samples of a data set a table of corrections is about."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import Any

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files

Array = np.ndarray[Any, Any]
Pairs = list[tuple[int, int]]


@dataclass
class Matched:
    """Which samples of the data corrections are about.

    Attributes:
        theirs: (M,) rows of the corrections.
        ours: (M,) the row of the data that each is about.
        added: (A,) rows of the corrections that the data lack and that can be added.
        lost: (B,) rows of the corrections that are about nothing that is there.
        by_end: Whether nothing but the ends of paths told which is which.
    """

    theirs: Array
    ours: Array
    added: Array
    lost: Array
    by_end: bool


def match(data: Dataset, corrections: Dataset) -> Matched:
    """Pairs samples by where their files lie; by id or name where one of them is in no file.

    Where that pairs nothing at all, as after data were moved, the ends of paths do; see `by_end`.
    """
    theirs, ours = places(corrections.images), places(data.images)
    there = {row for row, place in enumerate(theirs) if os.path.isfile(place)}
    # Two pictures may go by one name: what lies elsewhere is another one.
    others = there if ours else set()
    pairs = _by_place(data, corrections, others)
    moved = not pairs
    if moved:
        strays = {row: name for row, name in enumerate(theirs or corrections.ids) if row not in others}
        pairs = by_end(strays, dict(enumerate(ours or data.ids)))
    matched = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    rest = set(range(len(corrections))) - {found for found, _ in pairs}
    added, lost = (np.array(sorted(rows), dtype=np.int64) for rows in (rest & others, rest - others))
    return Matched(matched[:, 0], matched[:, 1], added, lost, by_end=moved)


def _by_place(data: Dataset, corrections: Dataset, others: set[int]) -> Pairs:
    """Rows of corrections and data by place, or by id or name but for those that lie elsewhere."""
    ours = places(data.images)
    by_place = {place: row for row, place in enumerate(places(corrections.images))}
    texts = {name: row for row, name in enumerate(corrections.ids)}
    pairs: Pairs = []
    for row, name in enumerate(data.ids):
        found = by_place.get(ours[row]) if ours else None
        if found is None:
            names = (name,) if data.images is None else (name, data.images.name(row))
            found = next((texts[one] for one in names if one in texts), None)
            found = None if found in others else found
        if found is not None:
            pairs.append((found, row))
    return pairs


def by_end(theirs: Mapping[int, str], ours: Mapping[int, str]) -> Pairs:
    """Pairs of rows whose paths end alike, in the file name or longer, where no other path of either side does so.

    Example:
        >>> by_end({0: "/old/x/1.jpg", 1: "/old/2.jpg"}, {0: "new/x/1.jpg", 1: "new/y/1.jpg", 2: "new/y/2.jpg"})
        [(0, 0), (1, 2)]
    """
    left, right = ({row: PurePath(path).parts for row, path in side.items()} for side in (theirs, ours))
    pairs: Pairs = []
    depth = 1
    while left and right:
        a, b = _ends(left, depth), _ends(right, depth)
        both = a.keys() & b.keys()
        sure = {end for end in both if len(a[end]) == len(b[end]) == 1}
        pairs += [(a[end][0], b[end][0]) for end in sure]
        # Only what is still in doubt may be told apart by more of the path.
        left = {row: left[row] for end in both - sure for row in a[end]}
        right = {row: right[row] for end in both - sure for row in b[end]}
        depth += 1
    return sorted(pairs, key=lambda pair: pair[1])


def _ends(paths: Mapping[int, tuple[str, ...]], depth: int) -> dict[tuple[str, ...], list[int]]:
    """The rows by the last parts of their paths, without paths that are shorter."""
    found: dict[tuple[str, ...], list[int]] = {}
    for row, parts in paths.items():
        if len(parts) >= depth:
            found.setdefault(parts[-depth:], []).append(row)
    return found


def places(images: object) -> list[str]:
    """Where each file lies, see `place_of`; empty for images that are in no files of their own."""
    if not isinstance(images, Files):
        return []
    real = cache(os.path.realpath)
    return [place_of(os.path.join(images.root, path), real=real) for path in images.paths]


def place_of(path: str | os.PathLike[str], *, real: Callable[[str], str] = os.path.realpath) -> str:
    """Where a file lies: its own name in the folder that links to folders lead to.

    A file that is itself a link stays what it is called: several may lead to one picture, with other labels each.

    Args:
        path: The file, which need not be there.
        real: Follows the links of a folder.
    """
    folder, name = os.path.split(path)
    return os.path.join(real(folder), name)
