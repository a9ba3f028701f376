"""Which rows are learnt from, which tune and calibrate, and which judge."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files, ImageSource
from manyhot.data.split import stratified_split
from manyhot.data.targets import SparseTargets
from manyhot.refusal import refusal
from manyhot.training.recipe import Recipe

Array = np.ndarray[Any, Any]
ROLES = ("train", "val", "test")
# Bytes at either end of a file that are looked at for copies.
ENDS = 4096


def with_all_splits(data: Dataset, recipe: Recipe) -> Dataset:
    """The data with rows to train on, to tune and calibrate on ("val"), and to judge by ("test").

    Splits that are there are kept. Those that are missing are taken out of the rows to train on, so that every label
    keeps its rate; the notes say so. They are drawn by the labels from before any correction, and rows that came with
    corrections are trained on: no row changes its split because somebody corrected it.
    """
    if data.targets is None:
        remedy = "Pass a table with labels; see `manyhot inspect --help`."
        raise refusal("data", "train", "have labels", "samples without any", remedy)
    splits = np.full(len(data), "train", dtype=object) if data.splits is None else data.splits.copy()
    there = [name for name in ROLES if (splits == name).any()]
    if "train" not in there:
        got = ", ".join(map(repr, data.split_sizes())) or "no rows"
        raise refusal("split", "train", "have rows called 'train'", got, "Rename one, or leave out the column.")
    missing = {name: getattr(recipe, name) for name in ("val", "test") if name not in there and getattr(recipe, name)}
    notes = []
    if missing:
        rows, targets = drawn_by(data, np.flatnonzero(splits == "train"))
        shares = {"train": 1 - sum(missing.values()), **missing}
        groups = None if data.images is None else copies(data.images)
        splits[rows] = stratified_split(
            targets, shares, seed=recipe.plan.seed, groups=None if groups is None else groups[rows]
        )
        taken = " and ".join(f"{share:.0%} for {name!r}" for name, share in missing.items())
        notes = [f"Took {taken} out of the rows to train on, so that every label keeps its rate."]
    others = [name for name in dict.fromkeys(splits.tolist()) if name not in ROLES]
    if others:
        notes.append(f"Rows of the splits {', '.join(map(repr, others))} are not used.")
    found = replace(data.with_splits(splits), notes=[*data.notes, *notes])
    return found.take(np.isin(splits, ROLES)) if others else found


def drawn_by(data: Dataset, rows: Array) -> tuple[Array, SparseTargets]:
    """Those of `rows` that splits are drawn of, and the targets that decide the draw."""
    assert data.targets is not None
    before = data.uncorrected
    if before is None or before.targets is None:
        return rows, data.targets.take(rows)
    place = {name: row for row, name in enumerate(before.ids)}
    rows = np.array([row for row in rows.tolist() if data.ids[row] in place], dtype=np.int64)
    known = before.select_labels([name for name in data.labels.names if name in before.labels.names]).targets
    assert known is not None
    return rows, known.take([place[data.ids[row]] for row in rows.tolist()])


def copies(images: ImageSource) -> Array | None:
    """(N,) one number for each picture, the same for files that are alike; None where pictures are in no files.

    Files of the same size whose first and last bytes agree are taken for copies. A copy of a picture to train on must
    not judge what was learnt from it.
    """
    if not isinstance(images, Files):
        return None
    known: dict[object, int] = {}
    groups = np.empty(len(images), dtype=np.int64)
    sizes = [_size(images.path(row)) for row in range(len(images))]
    shared = {size for size, count in Counter(sizes).items() if count > 1 and size}
    for row, size in enumerate(sizes):
        mark: object = row if size not in shared else (size, _ends(images.path(row), size))
        groups[row] = known.setdefault(mark, row)
    return groups


def _size(path: Path) -> int:
    """The size of a file; 0 where there is none, which the decoder will tell."""
    return path.stat().st_size if path.is_file() else 0


def _ends(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        first = file.read(ENDS)
        file.seek(max(0, size - ENDS))
        return first + file.read(ENDS)


def with_learnable_labels(data: Dataset, min_count: int) -> Dataset:
    """The data without labels that too few rows of the training split have; rows that lose all labels stay."""
    assert data.targets is not None
    counts = data.of_split("train").targets.counts()  # type: ignore[union-attr]
    kept = np.flatnonzero(counts >= min_count)
    if not len(kept):
        got = f"{int(counts.max(initial=0))} at the most"
        rule = f"have a label with {min_count} rows to train on"
        raise refusal("data", "train", rule, got, "Lower --set min_count, or bring more data.")
    if len(kept) == len(counts):
        return data
    dropped = [data.labels.names[column] for column in np.flatnonzero(counts < min_count)]
    some = ", ".join(dropped[:5]) + (", ..." if len(dropped) > 5 else "")
    note = f"Left out {len(dropped)} labels with fewer than {min_count} rows to train on: {some}."
    return replace(data.select_labels([data.labels.names[column] for column in kept]), notes=[*data.notes, note])
