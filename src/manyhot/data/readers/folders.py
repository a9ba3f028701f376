"""Folders: `label/image.jpg` and `split/label/image.jpg`; an image in several label folders has several labels."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from manyhot.data.readers.found import Found
from manyhot.data.readers.names import index_names
from manyhot.data.readers.places import walk_images
from manyhot.data.readers.said import Said
from manyhot.data.readers.splits import name_splits
from manyhot.data.sources import Files
from manyhot.predictions.roles import listed
from manyhot.refusal import refusal
from manyhot.vocabulary import CANONICAL, canonical_split


def read_folders(folder: Path, said: Said) -> Found:
    """All images below a folder, labelled by the folders they lie in."""
    paths, skipped = walk_images(folder)
    by_split = said.split_column is None and _splits_above(paths, said)
    depth = 1 if by_split else 0
    inside = [path for path in paths if path.count(os.sep) > depth]
    if not inside:
        got, remedy = skipped.instead(folder, " without images")
        if paths:
            got = f"{str(folder)!r}, whose images lie in no label's folder"
            remedy = "Use `read_images` for images without labels, or pass the table that has them."
        raise refusal("path", said.owner, "have a folder for each label", got, remedy)
    tops = [path.split(os.sep)[0] if by_split else "" for path in inside]
    owners, firsts = join_copies(folder, inside, tops)
    rows: list[list[str]] = [[] for _ in firsts]
    for owner, path in zip(owners, inside, strict=True):
        rows[owner].append("/".join(path.split(os.sep)[depth:-1]))
    names, targets = index_names(rows)
    targets.unlisted = said.means("absent")
    notes = [*_notes(names, len(paths), len(inside), len(firsts)), *skipped.notes()]
    ids = [inside[first] for first in firsts]
    splits = None
    if by_split:
        order = sorted(set(tops))
        codes = np.array([order.index(tops[first]) for first in firsts])
        splits, more = name_splits(said.owner, codes, order)
        notes += ["Splits are the folders above them.", *more]
    return Found(ids, Files(ids, root=folder), names, targets, splits, notes)


def _splits_above(paths: Sequence[str], said: Said) -> bool:
    """Whether the folders at the top are splits; refuses splits beside something else."""
    tops = {path.split(os.sep)[0] for path in paths if os.sep in path}
    deep = {path.split(os.sep)[0] for path in paths if path.count(os.sep) > 1}
    splits = {name for name in deep if name.lower() in CANONICAL}
    others = sorted(name for name in tops if name.lower() not in CANONICAL)
    if splits and others:
        got = f"the split {min(splits)!r} beside {listed(others)}"
        remedy = "Move one kind elsewhere, or pass `split_column=''` if none are splits."
        raise refusal("path", said.owner, "have folders of splits or of labels at the top", got, remedy)
    return bool(splits)


def _notes(names: Sequence[str], files: int, inside: int, images: int) -> list[str]:
    notes = [f"Labels are the folders of images: {listed(names)}."]
    if images < inside:
        notes.append(f"{inside:,} files are {images:,} images: copies in several folders have several labels.")
    if any("/" in name for name in names):
        notes.append("Folders within folders of labels are labels of their own, such as 'animal/dog'.")
    if inside < files:
        notes.append(f"Left out {files - inside:,} images outside of the folders of labels.")
    return notes


def join_copies(folder: Path, paths: Sequence[str], tops: Sequence[str]) -> tuple[list[int], list[int]]:
    """Which image each file is, and the first file of each image.

    Files are one image if they have the same name and content and lie in the same split: the same name alone is often
    a number that starts anew in each folder.
    """
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, (path, top) in enumerate(zip(paths, tops, strict=True)):
        groups[canonical_split(top), os.path.basename(path)].append(place)
    same = list(range(len(paths)))
    for places in groups.values():
        seen: dict[tuple[int, str], int] = {}
        for place in places if len(places) > 1 else ():
            same[place] = seen.setdefault(_content(folder / paths[place]), place)
    firsts = sorted(set(same))
    image = {first: number for number, first in enumerate(firsts)}
    return [image[first] for first in same], firsts


def _content(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
