"""Corrections of single labels, matched to the images of a dataset and overlaid on its targets."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from pathlib import PurePath

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.image_tables import read_image_tables
from manyhot.data.read import expand_paths, finish_dataset
from manyhot.data.sources import Files
from manyhot.data.targets import SparseTargets
from manyhot.errors import InputError, owned
from manyhot.formatting import count_noun
from manyhot.labels import Labels
from manyhot.tables.columns import Array, ReadOptions, preview_names


@owned("read_corrections")
def read_corrections(path: str | os.PathLike[str]) -> Dataset:
    """Reads a table of corrections, such as the `reviewed.csv` of the studio, for `Dataset.corrected`.

    Unlike `read_data`, it takes names of images that are in no file of their own, as in tar shards.

    Args:
        path: A table as `read_data` takes it; with one column per label, blank cells are unknown.
    """
    options = ReadOptions(allow_missing=True)
    return finish_dataset(read_image_tables(expand_paths(path), options), options)


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
    larger = _extended(data, corrections, matched.added)
    assert larger.targets is not None
    cells = corrections.targets.dense(np.concatenate([matched.correction_rows, matched.added])).numpy()
    positions, columns = np.nonzero(cells >= 0)
    rows = np.concatenate([matched.data_rows, np.arange(len(data), len(larger))])[positions]
    label_columns = np.array([larger.labels.column(name) for name in corrections.labels.names], dtype=np.int64)
    targets, changed, filled = overlay(larger.targets, rows, label_columns[columns], cells[positions, columns])
    notes = [*data.notes, *_notes(data, corrections, matched, changed, filled)]
    return replace(larger, targets=targets, notes=notes, uncorrected=data.uncorrected or data)


def _extended(data: Dataset, corrections: Dataset, added: Array) -> Dataset:
    """The data with the images and labels that only the corrections have, of which nothing is known."""
    labels = Labels(list(dict.fromkeys([*data.labels.names, *corrections.labels.names])))
    targets = data.targets or SparseTargets.from_rows([()] * len(data), num_labels=0, unlisted="unknown")
    larger = targets.extended(len(added), len(labels) - targets.num_labels)
    ids, images, splits = data.ids, data.images, data.splits
    if len(added):
        assert isinstance(images, Files)
        paths, taken = real_paths(corrections.images), set(ids)
        images = Files([*images.paths, *(paths[row] for row in added)], root=images.root)
        ids = [*ids, *(paths[row] if corrections.ids[row] in taken else corrections.ids[row] for row in added)]
        if splits is not None:
            new = ["train"] * len(added) if corrections.splits is None else corrections.splits[added]
            splits = np.array([*splits, *new], dtype=object)
    return replace(data, labels=labels, targets=larger, ids=ids, images=images, splits=splits)


def overlay(targets: SparseTargets, rows: Array, columns: Array, values: Array) -> tuple[SparseTargets, Array, Array]:
    """Targets in which some cells are replaced; of a cell that comes twice, 1 holds.

    Returns:
        The targets; (C,) the rows of the cells that were known otherwise; (F,) those of the cells that were unknown.
    """
    rows, columns, values = SparseTargets.from_cells(rows, columns, values, shape=targets.shape).cells()
    corrected, positions = np.unique(rows, return_inverse=True)
    before = targets.dense(corrected).numpy()[positions, columns]
    old, K = targets.cells(), targets.num_labels
    remaining = ~np.isin(old[0] * K + old[1], rows * K + columns)
    stored = values != targets.background[columns]
    pairs = zip(old, (rows, columns, values), strict=True)
    merged = (np.concatenate([part[remaining], new[stored]]) for part, new in pairs)
    result = SparseTargets.from_cells(
        *merged, shape=targets.shape, unlisted=targets.unlisted, unknown_labels=targets.unknown_labels
    )
    return result, rows[(before >= 0) & (before != values)], rows[before < 0]


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
    by_name = {name: row for row, name in enumerate(corrections.ids) if row not in elsewhere}
    by_name |= {path: row for row, path in enumerate(from_corrections)}
    pairs: list[tuple[int, int]] = []
    for row, id_ in enumerate(data.ids):
        names = [id_] if data.images is None else [id_, data.images.name(row)]
        names = [from_data[row], *names] if from_data else names
        pairs += [(by_name[name], row) for name in names if name in by_name][:1]
    moved = not pairs
    if moved:
        remaining = {row: name for row, name in enumerate(from_corrections or corrections.ids) if row not in elsewhere}
        pairs = match_by_path_end(remaining, dict(enumerate(from_data or data.ids)))
    matched = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    rest = set(range(len(corrections))) - set(matched[:, 0].tolist())
    added, unmatched = (np.array(sorted(rows), dtype=np.int64) for rows in (rest & elsewhere, rest - elsewhere))
    return MatchedRows(matched[:, 0], matched[:, 1], added, unmatched, by_path_end=moved)


def match_by_path_end(from_corrections: Mapping[int, str], from_data: Mapping[int, str]) -> list[tuple[int, int]]:
    """Pairs of rows whose paths end alike, in the file name or longer, where no other path of either side does so.

    Example:
        >>> old = {0: "/old/x/1.jpg", 1: "/old/2.jpg"}
        >>> match_by_path_end(old, {0: "new/x/1.jpg", 1: "new/y/1.jpg", 2: "new/y/2.jpg"})
        [(0, 0), (1, 2)]
    """
    corrections_with: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    data_with: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for rows_with, paths in ((corrections_with, from_corrections), (data_with, from_data)):
        for row, path in paths.items():
            parts = PurePath(path).parts
            for depth in range(1, len(parts) + 1):
                end = parts[-depth:]
                # The data may have many more paths, whose other ends need no memory.
                if rows_with is corrections_with or end in corrections_with:
                    rows_with[end].append(row)
    both = ((corrections_with[end], rows) for end, rows in data_with.items())
    pairs = {(ours[0], theirs[0]) for ours, theirs in both if len(ours) == len(theirs) == 1}
    return sorted(pairs, key=itemgetter(1))


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


def _notes(data: Dataset, corrections: Dataset, matched: MatchedRows, changed: Array, filled: Array) -> Iterator[str]:
    """What the corrections changed, and what is to be checked by the user."""

    def images(rows: Array) -> str:
        return count_noun(len(rows), "image")

    new = [name for name in corrections.labels.names if name not in set(data.labels.names)]
    parts = [f"{count_noun(len(changed), 'cell')} of {images(np.unique(changed))} changed"]
    unknown = f"{count_noun(len(filled), 'cell')} of {images(np.unique(filled))} had been unknown"
    parts += [unknown] if len(filled) else []
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
