"""What the images of a data set are like: which cannot be read, which are there twice, how large they are."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.images import MISSING, BadImage, decode, open_image, read_data
from manyhot.data.sources import ImageSource
from manyhot.data.survey.likeness import alike_sets, likeness
from manyhot.data.survey.result import Duplicates, ImageFacts

Array = np.ndarray[Any, Any]

CHUNK = 1024  # images between two reports of progress
SMALL = 64  # the side that is needed of an image whose pixels are only looked over


class Look(NamedTuple):
    """What was seen of one image.

    Attributes:
        digest: Tells its content from any other; None where nothing could be read.
        reason: Why it cannot be used; None where it can.
        format: Such as "JPEG".
        mode: Its kind of pixels, as Pillow calls it.
        size: Width and height as stored.
        length: Bytes as stored.
        likeness: What `likeness` gives; None if not asked for.
    """

    digest: bytes | None
    reason: str | None = None
    format: str = ""
    mode: str = ""
    size: tuple[int, int] = (0, 0)
    length: int = 0
    likeness: bytes | None = None


def look_at_all(
    images: ImageSource, *, pixels: bool, near: bool, workers: int | None, advance: Callable[[int], None] | None
) -> list[Look]:
    """Every image, seen by several threads at once: Pillow decodes without holding the others up."""
    look = partial(look_at, images, pixels=pixels, near=near)
    with ThreadPoolExecutor(workers or min(os.cpu_count() or 1, 16)) as pool:
        found: list[Look] = []
        for start in range(0, len(images), CHUNK):
            found += pool.map(look, range(start, min(start + CHUNK, len(images))))
            if advance is not None:
                advance(len(found) - start)
    return found


def look_at(images: ImageSource, row: int, *, pixels: bool, near: bool) -> Look:
    """One image."""
    try:
        data = read_data(images, row)
    except BadImage as error:
        return Look(None, error.reason)
    look = _header(data, images.name(row))
    if look.reason is not None or not pixels:
        return look
    try:
        image = decode(data, name=images.name(row), at_least=SMALL)
    except BadImage as error:
        return look._replace(reason=error.reason)
    return look._replace(likeness=likeness(image)) if near else look


def _header(data: bytes | Array, name: str) -> Look:
    if isinstance(data, np.ndarray):
        digest = blake2b(repr((data.shape, data.dtype)).encode() + data.tobytes(), digest_size=16).digest()
        height, width = (*data.shape, 0, 0)[:2]
        mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}.get(data.shape[2] if data.ndim == 3 else 1, "?")
        return Look(digest, None, "array", mode, (width, height), data.nbytes)
    digest = blake2b(data, digest_size=16).digest()
    try:
        header = open_image(data, name=name)
    except BadImage as error:
        return Look(digest, error.reason, length=len(data))
    return Look(digest, None, header.format or "?", header.mode, header.size, len(data))


def image_facts(dataset: Dataset, looks: Sequence[Look], *, pixels: bool, near: bool) -> ImageFacts:
    """The images in figures."""
    assert dataset.images is not None
    names = [dataset.images.name(row) for row in range(len(looks))]
    bad = {name: look.reason for name, look in zip(names, looks, strict=True) if look.reason is not None}
    good = [look for look in looks if look.reason is None]
    near_sets = alike_sets([look.likeness for look in looks]) if near else []
    near_sets = [rows for rows in near_sets if len({looks[row].digest for row in rows}) > 1]
    return ImageFacts(
        read=len(good),
        decoded=pixels,
        missing=[name for name, reason in bad.items() if reason == MISSING],
        unreadable={name: reason for name, reason in bad.items() if reason != MISSING},
        formats=dict(Counter(look.format for look in good).most_common()),
        modes=dict(Counter(look.mode for look in good).most_common()),
        widths=_spread([look.size[0] for look in good]),
        heights=_spread([look.size[1] for look in good]),
        gigabytes=sum(look.length for look in looks) / 1e9,
        duplicates=_described(dataset, names, _copies(looks)),
        near_duplicates=_described(dataset, names, near_sets) if near else None,
    )


def first_alike(looks: Sequence[Look]) -> Array:
    """(N,) the first row with the same content; a row that could not be read is like itself alone."""
    found = np.arange(len(looks))
    for rows in _copies(looks):
        found[rows] = rows[0]
    return found


def _copies(looks: Sequence[Look]) -> Iterator[list[int]]:
    """The rows of each content that occurs more than once; empty and broken files are no images, so no copies."""
    rows: dict[bytes, list[int]] = {}
    for row, look in enumerate(looks):
        if look.digest is not None and look.reason is None:
            rows.setdefault(look.digest, []).append(row)
    return (some for some in rows.values() if len(some) > 1)


def _described(dataset: Dataset, names: list[str], sets: Iterator[list[int]] | list[list[int]]) -> list[Duplicates]:
    found = []
    for rows in sets:
        splits = [] if dataset.splits is None else list(dict.fromkeys(str(name) for name in dataset.splits[rows]))
        same = True
        if dataset.targets is not None:
            targets = dataset.targets.dense(rows)
            same = bool((targets == targets[0]).all())
        found.append(Duplicates([names[row] for row in rows], splits, same))
    return found


def _spread(lengths: list[int]) -> tuple[int, int, int] | None:
    if not lengths:
        return None
    return min(lengths), int(np.median(lengths)), max(lengths)
