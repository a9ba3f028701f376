"""Corrections: what people found out about single labels of single images, laid over a data set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.pairing import Matched, match, places
from manyhot.data.readers.detection import expand
from manyhot.data.readers.said import Said
from manyhot.data.readers.tables import read_tables
from manyhot.data.sources import Files
from manyhot.data.targets import SparseTargets
from manyhot.labels import Labels
from manyhot.predictions.roles import listed
from manyhot.refusal import Refusal, refusal

Array = np.ndarray[Any, Any]

# Rows of corrections that are unfolded at once.
CHUNK = 4096


def read_corrections(path: str | os.PathLike[str]) -> Dataset:
    """Reads a table of corrections, such as the `reviewed.csv` of the studio, for `Dataset.corrected`.

    Unlike `read_data`, it takes names of images that are in no file of their own, as in tar shards.

    Args:
        path: A table as `read_data` takes it; with one column a label, blank cells say nothing.
    """
    said = Said("read_corrections", elsewhere=True)
    return read_tables(expand(path, said), said).dataset(said)


def correct(data: Dataset, corrections: Dataset) -> Dataset:
    """The data with what corrections know; see `Dataset.corrected`."""
    if corrections.targets is None:
        remedy = "Read them with `read_corrections`."
        raise refusal("corrections", "corrected", "have labels", "samples without any", remedy)
    matched = match(data, corrections)
    if not len(matched.theirs):
        raise _strangers(data, corrections)
    old = data.labels.names
    new = [name for name in corrections.labels.names if name not in set(old)]
    labels = Labels([*old, *new])
    N, added = len(data), matched.added
    rows = np.concatenate([matched.ours, np.arange(N, N + len(added))])
    known = _known_cells(corrections.targets, np.concatenate([matched.theirs, added]))
    columns = np.array([labels.column(name) for name in corrections.labels.names], dtype=np.int64)
    cells = _Cells(rows[known.rows], columns[known.columns], known.values)
    base = data.targets or SparseTargets(np.zeros(N + 1), np.empty(0), num_labels=0, unlisted="unknown")
    targets, changed, filled = overlay(base, cells, shape=(N + len(added), len(labels)))
    notes = [
        _summary(changed, filled, new, matched, len(corrections)),
        *_ends_note(data, corrections, matched),
        *_split_note(data, corrections, matched),
    ]
    whole = _with_rows(data, corrections, added)
    before = data.uncorrected or data
    return replace(whole, labels=labels, targets=targets, notes=[*data.notes, *notes], uncorrected=before)


@dataclass
class _Cells:
    """Single cells of targets."""

    rows: Array
    columns: Array
    values: Array


def _known_cells(targets: SparseTargets, rows: Array) -> _Cells:
    """The cells of these rows that are 1 or 0, by place in `rows`."""
    parts = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int8))]
    for start in range(0, len(rows), CHUNK):
        dense = targets.dense(rows[start : start + CHUNK]).numpy()
        found, columns = np.nonzero(dense >= 0)
        parts.append((found + start, columns, dense[found, columns]))
    return _Cells(*(np.concatenate(some) for some in zip(*parts, strict=True)))


def overlay(targets: SparseTargets, cells: _Cells, *, shape: tuple[int, int]) -> tuple[SparseTargets, Array, Array]:
    """Targets in which some cells are replaced, and which of these changed and which were unknown before.

    Rows and columns that `targets` do not have are unknown but for these cells.

    Args:
        targets: (N, K).
        cells: What replaces them, 1 or 0; of a cell that comes twice, 1 holds.
        shape: Of the result, at least (N, K).

    Returns:
        The targets; (C,) the rows of the cells that were known otherwise; (F,) those of the cells that were unknown.
    """
    N, K = targets.shape
    order = np.lexsort((-cells.values, cells.columns, cells.rows))
    keys = cells.rows[order] * shape[1] + cells.columns[order]
    keys, first = np.unique(keys, return_index=True)
    values = cells.values[order][first]
    rows, columns, stored = targets.cells()
    old_keys = rows * shape[1] + columns.astype(np.int64)
    usual = 0 if targets.unlisted == "absent" else -1
    before = np.where((keys // shape[1] < N) & (keys % shape[1] < K), usual, -1)
    place = np.searchsorted(old_keys, keys)
    hit = np.isin(keys, old_keys)
    before[hit] = stored[place[hit]]
    blank = np.empty(0, dtype=np.int64)
    if usual == 0:  # what is unknown has to be said
        blank = np.setdiff1d(_beyond((N, K), shape), keys, assume_unique=True)
    kept = ~np.isin(old_keys, keys)
    all_keys = np.concatenate([old_keys[kept], keys, blank])
    all_values = np.concatenate([stored[kept], values, np.full(len(blank), -1)])
    said = all_values != usual
    merged = SparseTargets.from_cells(
        all_keys[said] // shape[1],
        all_keys[said] % shape[1],
        all_values[said],
        shape=shape,
        unlisted=targets.unlisted,
    )
    owners = keys // shape[1]
    return merged, owners[(before >= 0) & (before != values)], owners[before == -1]


def _beyond(inner: tuple[int, int], outer: tuple[int, int]) -> Array:
    """The keys of all cells of an outer shape that are not in an inner one."""
    right = np.arange(inner[0])[:, None] * outer[1] + np.arange(inner[1], outer[1])
    below = np.arange(inner[0] * outer[1], outer[0] * outer[1])
    return np.concatenate([right.ravel(), below])


def _with_rows(data: Dataset, corrections: Dataset, added: Array) -> Dataset:
    """The data with images that only the corrections have; targets are left for later."""
    if not len(added):
        return replace(data, targets=None)
    assert isinstance(data.images, Files)
    found = places(corrections.images)
    taken = set(data.ids)
    ids = [name if (name := corrections.ids[row]) not in taken else found[row] for row in added.tolist()]
    images = Files([*data.images.paths, *(found[row] for row in added.tolist())], root=data.images.root)
    splits = data.splits
    if splits is not None:
        given = ["train"] * len(added) if corrections.splits is None else corrections.splits[added].tolist()
        splits = np.array([*splits.tolist(), *given], dtype=object)
    return replace(data, targets=None, ids=[*data.ids, *ids], images=images, splits=splits)


def _summary(changed: Array, filled: Array, new: Sequence[str], matched: Matched, total: int) -> str:
    """What the corrections did, in one sentence."""
    parts = [f"{_cells_of(changed)} changed"]
    parts += [f"{_cells_of(filled)} had been unknown"] if len(filled) else []
    parts += [f"{len(new):,} new label{'s' * (len(new) > 1)} ({listed(new)})"] if new else []
    parts += [f"{_images(len(matched.added))} added"] if len(matched.added) else []
    parts += [f"{_images(len(matched.lost))} not found and left out"] if len(matched.lost) else []
    return f"Corrections of {_images(total)}: {', '.join(parts)}."


def _cells_of(rows: Array) -> str:
    return f"{len(rows):,} cell{'s' * (len(rows) != 1)} of {_images(len(np.unique(rows)))}"


def _images(count: int) -> str:
    return f"{count:,} image{'s' * (count != 1)}"


def _ends_note(data: Dataset, corrections: Dataset, matched: Matched) -> list[str]:
    """Says that images were paired by less than where they lie, for somebody to check."""
    if not matched.by_end:
        return []
    first = int(matched.theirs[0]), int(matched.ours[0])
    theirs, ours = ((places(one.images) or one.ids)[row] for one, row in zip((corrections, data), first, strict=True))
    count = len(matched.theirs)
    return [
        f"No image lies where the corrections say: {_images(count)} {'was' if count == 1 else 'were'} paired by the "
        f"ends of paths, such as {theirs!r} with {ours!r}."
    ]


def _split_note(data: Dataset, corrections: Dataset, matched: Matched) -> list[str]:
    """Says that images stay in the splits that the data have them in."""
    if data.splits is None or corrections.splits is None:
        return []
    other = data.splits[matched.ours] != corrections.splits[matched.theirs]
    if not other.any():
        return []
    first = int(np.argmax(other))
    ours, theirs = data.splits[matched.ours[first]], corrections.splits[matched.theirs[first]]
    count = f"{_images(int(other.sum()))} of the corrections {'is' if other.sum() == 1 else 'are'}"
    return [f"{count} in other splits of the data, such as {ours!r} instead of {theirs!r}, and stay there."]


def _strangers(data: Dataset, corrections: Dataset) -> Refusal:
    """The error for corrections of other images."""
    theirs, ours = (repr((places(one.images) or one.ids or ["nothing"])[0]) for one in (corrections, data))
    got = f"none: the corrections have {theirs}, the data {ours}"
    remedy = "Pass the corrections of these data, or check where their paths lead."
    return refusal("corrections", "corrected", "be about images of the data", got, remedy)
