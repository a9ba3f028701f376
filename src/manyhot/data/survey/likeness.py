"""Images that look the same though their bytes differ: scaled, or compressed anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL import Image

Array = np.ndarray[Any, Any]

BITS = 256
MOST_DIFFERENT = 20  # of them, between images that pass for the same; unlike ones differ in about half
BANDS = 8


def likeness(image: Image.Image) -> bytes | None:
    """256 bits: where a small grey picture gets brighter to the right; None for an even surface, mere noise."""
    from PIL.Image import Resampling

    small = np.asarray(image.convert("L").resize((17, 16), Resampling.BILINEAR)).astype(np.int16)
    return None if np.ptp(small) < 16 else np.packbits(np.diff(small, axis=1) > 0).tobytes()


def alike_sets(marks: Sequence[bytes | None]) -> list[list[int]]:
    """Sets of rows whose marks differ in a few bits, found in time that grows with the number of rows alone.

    Marks that differ in few bits agree in one of eight parts nearly always. So the rows are sorted by each part in
    turn, and neighbours are compared.
    """
    rows = np.array([row for row, mark in enumerate(marks) if mark is not None], dtype=np.int64)
    if not len(rows):
        return []
    bits = np.frombuffer(b"".join(mark for mark in marks if mark is not None), dtype=np.uint8).reshape(len(rows), -1)
    parts = bits.view(np.uint32)
    leader = list(range(len(rows)))
    for band in range(BANDS):
        order = np.lexsort(np.roll(parts, band, axis=1).T)
        left, right = order[:-1], order[1:]
        close = np.unpackbits(bits[left] ^ bits[right], axis=1).sum(1) <= MOST_DIFFERENT
        for one, other in zip(left[close].tolist(), right[close].tolist(), strict=True):
            first, second = sorted((_lead(leader, one), _lead(leader, other)))
            leader[second] = first
    sets: dict[int, list[int]] = {}
    for place in range(len(rows)):
        sets.setdefault(_lead(leader, place), []).append(int(rows[place]))
    return [some for some in sets.values() if len(some) > 1]


def _lead(leader: list[int], place: int) -> int:
    """The first member of a row's set."""
    while leader[place] != place:
        leader[place] = leader[leader[place]]
        place = leader[place]
    return place
