"""Corrections of single labels, matched to the images of a dataset and overlaid on its targets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import Any

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.image_tables import read_image_tables
from manyhot.data.read import expand_paths, finish_dataset
from manyhot.data.sources import Files, ImageSource
from manyhot.data.targets import SparseTargets
from manyhot.errors import InputError, owned
from manyhot.formatting import count_noun
from manyhot.labels import Labels
from manyhot.tables.columns import ReadOptions, preview_names

Array = np.ndarray[Any, Any]
RowPairs = list[tuple[int, int]]


@owned("read_corrections")
def read_corrections(path: str | os.PathLike[str]) -> Dataset:
    """Reads a table of corrections, such as the `reviewed.csv` of the studio, for `Dataset.corrected`.

    Unlike `read_data`, it takes names of images that are in no file of their own, as in tar shards.

    Args:
        path: A table as `read_data` takes it; with one column per label, blank cells are unknown.
    """
    options = ReadOptions("read_corrections", allow_missing=True)
    return finish_dataset(read_image_tables(expand_paths(path, options), options), options)


def apply_corrections(data: Dataset, corrections: Dataset) -> Dataset:
    """The data with what corrections know; see `Dataset.corrected`."""
    if corrections.targets is None:
        hint = "Read them with `read_corrections`."
        raise InputError("corrections", "corrected", "have labels", "samples without any", hint)
    matched = match_rows(data, corrections)
    if not len(matched.data_rows):
        first = ((real_paths(part.images) or part.ids or ["nothing"])[0] for part in (corrections, data))
        got = "none: the corrections have {!r}, the data {!r}".format(*first)
        hint = "Pass the corrections of these data, or check where their paths lead."
        raise InputError("corrections", "corrected", "be about images of the data", got, hint)
    new = [name for name in corrections.labels.names if name not in set(data.labels.names)]
    labels = Labels([*data.labels.names, *new])
    N, added = len(data), matched.added
    positions, columns, values = _known_cells(
        corrections.targets.take(np.concatenate([matched.correction_rows, added]))
    )
    rows = np.concatenate([matched.data_rows, np.arange(N, N + len(added))])[positions]
    columns = np.array([labels.column(name) for name in corrections.labels.names], dtype=np.int64)[columns]
    base = data.targets or SparseTargets(np.zeros(N + 1), np.empty(0), num_labels=0, unlisted="unknown")
    targets, changed, filled = overlay(base.extended(len(added), len(new)), rows, columns, values)
    notes = [*data.notes, *_notes(data, corrections, matched, changed, filled)]
    ids, images, splits = _extend_images(data, corrections, added)
    before = data.uncorrected or data
    return Dataset(
        labels, targets, ids, images=images, features=data.features, splits=splits, notes=notes, uncorrected=before
    )


def _known_cells(targets: SparseTargets) -> tuple[Array, Array, Array]:
    """Rows, columns and values of the cells that are 1 or 0."""
    rows, columns, values = targets.cells()
    if targets.unlisted == "absent":  # then most cells are known
        values = targets.dense().numpy()
        rows, columns = np.nonzero(values >= 0)
        return rows, columns, values[rows, columns]
    return rows[values >= 0], columns[values >= 0], values[values >= 0]


def overlay(targets: SparseTargets, rows: Array, columns: Array, values: Array) -> tuple[SparseTargets, Array, Array]:
    """Targets in which some cells are replaced; of a cell that comes twice, 1 holds.

    Returns:
        The targets; (C,) the rows of the cells that were known otherwise; (F,) those of the cells that were unknown.
    """
    rows, columns, values = SparseTargets.from_cells(rows, columns, values, shape=targets.shape).cells()
    old, K, usual = targets.cells(), targets.num_labels, targets.background[columns]
    keys = old[0] * K + old[1], rows * K + columns
    _, replaced, replacing = np.intersect1d(*keys, assume_unique=True, return_indices=True)
    before = usual.copy()
    before[replacing] = old[2][replaced]
    merged = (
        np.concatenate([np.delete(part, replaced), replacement[values != usual]])
        for part, replacement in zip(old, (rows, columns, values), strict=True)
    )
    changed = (before >= 0) & (before != values)
    result = SparseTargets.from_cells(
        *merged, shape=targets.shape, unlisted=targets.unlisted, unknown_labels=targets.unknown_labels
    )
    return result, rows[changed], rows[before < 0]


@dataclass
class MatchedRows:
    """Which samples of the data corrections are about.

    Attributes:
        correction_rows: (M,) rows of the corrections.
        data_rows: (M,) the row of the data that each is about.
        added: (A,) rows of the corrections that the data lack and that can be added.
        unmatched: (B,) rows of the corrections that are about nothing that is there.
        by_path_end: Whether samples were matched by the ends of their paths alone.
    """

    correction_rows: Array
    data_rows: Array
    added: Array
    unmatched: Array
    by_path_end: bool


def match_rows(data: Dataset, corrections: Dataset) -> MatchedRows:
    """Pairs samples by where their files lie; by id or name where one of them is in no file.

    Where that pairs nothing at all, as after data were moved, the ends of paths do; see `by_path_end`.
    """
    from_corrections, from_data = real_paths(corrections.images), real_paths(data.images)
    existing = {row for row, path in enumerate(from_corrections) if os.path.isfile(path)}
    # Two images may have the same name: a file in another folder is another image.
    elsewhere = existing if from_data else set()
    by_path = {path: row for row, path in enumerate(from_corrections)}
    by_id = {name: row for row, name in enumerate(corrections.ids)}
    pairs: RowPairs = []
    for row, name in enumerate(data.ids):
        match = by_path.get(from_data[row]) if from_data else None
        if match is None:
            names = (name,) if data.images is None else (name, data.images.name(row))
            match = next((by_id[key] for key in names if key in by_id), None)
            match = None if match in elsewhere else match
        if match is not None:
            pairs.append((match, row))
    moved = not pairs
    if moved:
        remaining = {row: name for row, name in enumerate(from_corrections or corrections.ids) if row not in elsewhere}
        pairs = match_by_path_end(remaining, dict(enumerate(from_data or data.ids)))
    matched = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    rest = set(range(len(corrections))) - set(matched[:, 0].tolist())
    added, unmatched = (np.array(sorted(rows), dtype=np.int64) for rows in (rest & elsewhere, rest - elsewhere))
    return MatchedRows(matched[:, 0], matched[:, 1], added, unmatched, by_path_end=moved)


def match_by_path_end(from_corrections: Mapping[int, str], from_data: Mapping[int, str]) -> RowPairs:
    """Pairs of rows whose paths end alike, in the file name or longer, where no other path of either side does so.

    Example:
        >>> old = {0: "/old/x/1.jpg", 1: "/old/2.jpg"}
        >>> match_by_path_end(old, {0: "new/x/1.jpg", 1: "new/y/1.jpg", 2: "new/y/2.jpg"})
        [(0, 0), (1, 2)]
    """
    left, right = ({row: PurePath(path).parts for row, path in side.items()} for side in (from_corrections, from_data))
    pairs: RowPairs = []
    depth = 1
    while left and right:
        groups: list[dict[tuple[str, ...], list[int]]] = [{}, {}]
        for group, side in zip(groups, (left, right), strict=True):
            for row, parts in side.items():
                if len(parts) >= depth:  # shorter paths have no such end
                    group.setdefault(parts[-depth:], []).append(row)
        both = [(rows, groups[1][end]) for end, rows in groups[0].items() if end in groups[1]]
        pairs += [(ours[0], theirs[0]) for ours, theirs in both if len(ours) == len(theirs) == 1]
        # Ambiguous rows are compared by a longer part of the path.
        rest = [pair for pair in both if len(pair[0]) + len(pair[1]) > 2]
        left, right = ({row: side[row] for pair in rest for row in pair[k]} for k, side in enumerate((left, right)))
        depth += 1
    return sorted(pairs, key=lambda pair: pair[1])


def real_paths(images: object) -> list[str]:
    """Where each file lies, see `real_path`; empty for images that are in no files of their own."""
    if not isinstance(images, Files):
        return []
    real = cache(os.path.realpath)
    return [real_path(os.path.join(images.root, path), real=real) for path in images.paths]


def real_path(path: str | os.PathLike[str], *, real: Callable[[str], str] = os.path.realpath) -> str:
    """Where a file lies: its own name in the folder that links to folders lead to.

    A file that is itself a link stays what it is called: several may lead to one image, with other labels each.

    Args:
        path: The file, which need not be there.
        real: Follows the links of a folder.
    """
    folder, name = os.path.split(path)
    return os.path.join(real(folder), name)


def _extend_images(
    data: Dataset, corrections: Dataset, added: Array
) -> tuple[list[str], ImageSource | None, Array | None]:
    """Ids, images and splits of the data, with those of images that only the corrections have."""
    if not len(added):
        return data.ids, data.images, data.splits
    assert isinstance(data.images, Files)
    paths, taken, splits = real_paths(corrections.images), set(data.ids), data.splits
    new_paths = [paths[row] for row in added]
    ids = [paths[row] if corrections.ids[row] in taken else corrections.ids[row] for row in added]
    if splits is not None:
        new_splits = ["train"] * len(added) if corrections.splits is None else corrections.splits[added]
        splits = np.array([*splits, *new_splits], dtype=object)
    return [*data.ids, *ids], Files([*data.images.paths, *new_paths], root=data.images.root), splits


def _notes(data: Dataset, corrections: Dataset, matched: MatchedRows, changed: Array, filled: Array) -> Iterator[str]:
    """What the corrections changed, and what is to be checked by the user."""

    def images(rows: Array) -> str:
        return count_noun(len(rows), "image")

    new = [name for name in corrections.labels.names if name not in set(data.labels.names)]
    parts = [f"{count_noun(len(changed), 'cell')} of {images(np.unique(changed))} changed"]
    parts += (
        [f"{count_noun(len(filled), 'cell')} of {images(np.unique(filled))} had been unknown"] if len(filled) else []
    )
    parts += [f"{count_noun(len(new), 'new label')} ({preview_names(new)})"] if new else []
    parts += [f"{images(matched.added)} added"] if len(matched.added) else []
    parts += [f"{images(matched.unmatched)} not found and left out"] if len(matched.unmatched) else []
    yield f"Corrections of {count_noun(len(corrections), 'image')}: {', '.join(parts)}."
    if matched.by_path_end:
        ours, theirs = (real_paths(part.images) or part.ids for part in (data, corrections))
        pair = f"{theirs[matched.correction_rows[0]]!r} with {ours[matched.data_rows[0]]!r}"
        count = f"{images(matched.data_rows)} {'was' if len(matched.data_rows) == 1 else 'were'}"
        yield f"No image lies where the corrections say: {count} paired by the ends of paths, such as {pair}."
    if data.splits is not None and corrections.splits is not None:
        current, given = data.splits[matched.data_rows], corrections.splits[matched.correction_rows]
        other = np.flatnonzero(current != given)
        if len(other):
            count = f"{images(other)} of the corrections {'is' if len(other) == 1 else 'are'}"
            such = f"such as {current[other[0]]!r} instead of {given[other[0]]!r}"
            yield f"{count} in other splits of the data, {such}, and stay there."
