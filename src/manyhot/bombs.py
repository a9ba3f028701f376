"""Pictures that are small as files and cost hours or gigabytes to decode, told apart before that."""

from __future__ import annotations

import re
from typing import Any, BinaryIO

# Programs write about ten scans. Each costs a walk through all pixels, and may take no more than 75 bytes.
MOST_SCANS = 100
# As much of a JPEG as is looked at: more than any camera writes.
READ_BYTES = 2**28
_END, _SCAN = b"\xd9", b"\xda"
# What stands for a byte of the pixels (00), fills (FF), or has no length (01, D0 to D7) is no marker to stop at.
_MARKER = re.compile(rb"\xff+([^\x00\x01\xd0-\xd7\xff])")
_TILE_SIDES = (322, 323)
_KIND_BYTES = {1: 1, 3: 2, 4: 4, 6: 1, 8: 2, 9: 4}


def why_costly(image: Any, file: BinaryIO, *, max_pixels: int) -> str | None:
    """Why a picture that was opened must not be decoded; None if nothing speaks against it.

    Args:
        image: As Pillow has opened it, with its header read and its pixels not.
        file: Where it was opened from; it stays where it was.
        max_pixels: How many pixels may be decoded at once.
    """
    place = file.tell()
    try:
        if image.format in ("JPEG", "MPO") and image.info.get("progressive"):
            file.seek(0)
            if scans(file.read(READ_BYTES)) > MOST_SCANS:
                return f"it has more than {MOST_SCANS} scans, which no camera writes"
        if image.format == "TIFF":
            pixels = largest_tile(file)
            if pixels > max_pixels:
                return f"it has tiles of {pixels:,} pixels, more than the {max_pixels:,} allowed"
    finally:
        file.seek(place)
    return None


def scans(data: bytes) -> int:
    r"""How many scans a JPEG has, as far as its end: a camera may have put a film behind it.

    Example:
        >>> scans(b"\xff\xd8\xff\xda\x00\x04..pixels\xff\x00pixels\xff\xda\x00\x04..pixels\xff\xd9\xff\xda")
        2
    """
    place, count = 2, 0
    while count <= MOST_SCANS and (found := _MARKER.search(data, place)) and found[1] != _END:
        count += found[1] == _SCAN
        place = found.end() + int.from_bytes(data[found.end() : found.end() + 2], "big")
    return count


def largest_tile(file: BinaryIO) -> int:
    """How many pixels a tile of a TIFF has, by its first directory; 0 where it has none.

    Decoders ask for the memory of a whole tile, also where the picture is smaller. Where the directory names a side
    twice, they do not agree which one counts; here the larger does.
    """
    file.seek(0)
    head = file.read(16)
    big = 43 in head[2:4]  # the kind for files of more than four gigabytes, whose numbers are longer
    field = 8 if big else 4

    def number(data: bytes) -> int:
        return int.from_bytes(data, "little" if head[:2] == b"II" else "big")

    file.seek(number(head[field : 2 * field]))
    size = 4 + 2 * field
    entries = file.read(size * min(number(file.read(8 if big else 2)), 2**16))
    sides = dict.fromkeys(_TILE_SIDES, 0)
    for start in range(0, len(entries), size):
        entry = entries[start : start + size]
        tag, kind = number(entry[:2]), number(entry[2:4])
        if tag in sides:
            sides[tag] = max(sides[tag], number(entry[-field:][: _KIND_BYTES.get(kind, field)]))
    return sides[322] * sides[323]
