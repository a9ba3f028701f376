"""Datasets from arrays: features, pixels or paths, with targets in any common form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from manyhot.checks import as_tensor, describe_type, rows_as_lists, to_dense_tensor
from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files, ImageSource, Pixels
from manyhot.data.targets import SparseTargets
from manyhot.errors import InputError
from manyhot.labels import Labels
from manyhot.tables.columns import CANONICAL_SPLITS, Array, ReadOptions, canonical_split, preview_names, sort_names
from manyhot.tables.reader import read_arrays

OWNER = "from_arrays"

INPUT_ARRAYS = ("x", "X", "features", "images", "paths")
TARGET_ARRAYS = ("y", "Y", "targets", "labels")
NAME_ARRAYS = ("names", "label_names", "class_names", "classes", "labels")


def from_arrays(
    x: Any,
    y: Any,
    *,
    labels: Sequence[str] | Labels | None = None,
    splits: Sequence[str] | Array | None = None,
    ids: Sequence[str] | None = None,
) -> Dataset:
    """A data set of what is in memory.

    Args:
        x: Features (N, D), images (N, H, W) or (N, H, W, C) of uint8, or N paths.
        y: Targets. A tensor, an array, a data frame or a sparse matrix (N, K) holds 1, 0 and -1 for unknown. A list
            holds for each sample its labels, by name or by number: a list of them, or one. A series of pandas or polars
            may hold such lists.
        labels: K names; those of a data frame, or the names that occur, or else "0", "1" and so on by default.
        splits: N names of splits.
        ids: N distinct texts; the paths, or else row numbers by default.

    Example:
        >>> from_arrays(torch.eye(3), [["dog"], [], ["dog", "cat"]]).targets.dense()
        tensor([[0, 1],
                [0, 0],
                [1, 1]], dtype=torch.int8)
        >>> from_arrays(torch.zeros(2, 4, 4, 3).byte(), torch.tensor([[1, 0], [0, -1]]), labels=["cat", "dog"])
        Dataset(2 images x 2 labels)
    """
    features, images = _inputs(x)
    count = len(features) if features is not None else len(images or ())
    names, targets = _targets(y, labels if labels is None or isinstance(labels, Labels) else Labels(labels))
    if len(targets) != count:
        rule = f"have one row for each of the {count:,} samples"
        raise InputError("y", OWNER, rule, f"{len(targets):,}", "Pass inputs and targets of the same samples.")
    if ids is None:
        ids = images.paths if isinstance(images, Files) else [str(row) for row in range(count)]
    id_strings = [str(text) for text in ids]
    if len(set(id_strings)) < len(id_strings):
        twice = Counter(id_strings).most_common(1)[0][0]
        raise InputError("ids", OWNER, "be distinct", f"{twice!r} twice", "Join the rows, or pass other `ids`.")
    canonical = None if splits is None else np.array([canonical_split(str(name)) for name in splits], dtype=object)
    return Dataset(names, targets, id_strings, images=images, features=features, splits=canonical)


def _inputs(x: Any) -> tuple[Array | None, ImageSource | None]:
    """Features or images."""
    if isinstance(x, ImageSource):
        return None, x
    paths = x.tolist() if isinstance(x, np.ndarray) and x.dtype.kind in "UO" and x.ndim == 1 else x
    if isinstance(paths, list | tuple) and paths and all(isinstance(path, str | Path) for path in paths):
        return None, Files([str(path) for path in paths])
    if hasattr(x, "tocsr"):
        raise InputError("x", OWNER, "be a dense array", "a sparse matrix", "Pass `x.toarray()`.")
    array = as_tensor(OWNER, x, "x").detach().cpu().numpy()
    if array.dtype == np.uint8 and (array.ndim == 3 or (array.ndim == 4 and array.shape[3] in (1, 3, 4))):
        return None, Pixels(array)
    if array.ndim != 2:
        got = f"{tuple(array.shape)} of {array.dtype}"
        rule = "be features (N, D), images (N, H, W) or (N, H, W, C) of uint8, or paths"
        raise InputError("x", OWNER, rule, got, "Move the channels last, and scale pixels to 0 to 255.")
    features = array.astype(np.float32)
    if not np.isfinite(features).all():
        row = int(np.argmax(~np.isfinite(features).all(axis=1)))
        raise InputError("x", OWNER, "be finite numbers", f"NaN or infinity in row {row}", "Fill or drop these rows.")
    return features, None


def _targets(y: Any, labels: Labels | None) -> tuple[Labels, SparseTargets]:
    """Names and targets."""
    y = rows_as_lists(y)
    if isinstance(y, list | tuple):
        return _listed_targets(y, labels)
    names = None if isinstance(y, SparseTargets) else getattr(y, "columns", None)
    if isinstance(y, SparseTargets):
        targets = y
    elif hasattr(y, "tocoo") and hasattr(y, "nnz"):
        targets = SparseTargets.from_sparse(y)
    else:
        table = to_dense_tensor(OWNER, y if isinstance(y, Tensor) else as_tensor(OWNER, y, "y"))
        if table.ndim != 2:
            hint = "Pass `manyhot.one_hot(y, K)` for class indices, or a list of labels for each sample."
            raise InputError("y", OWNER, "be (N, K)", str(tuple(table.shape)), hint)
        targets = SparseTargets.from_dense(table)
    if labels is None:
        labels = Labels([str(name) for name in (range(targets.num_labels) if names is None else names)])
    if len(labels) != targets.num_labels:
        rule = f"name the {targets.num_labels} columns of `y`"
        raise InputError("labels", OWNER, rule, f"{len(labels)} names", "Pass one name a column.")
    return labels, targets


def _listed_targets(y: Sequence[Any], labels: Labels | None) -> tuple[Labels, SparseTargets]:
    """Labels of each row by name or by number, never both."""
    unsplit = next((row for row in y if isinstance(row, str) and ("|" in row or ";" in row)), None)
    if unsplit is not None:
        hint = "Split the texts first: `[text.split('|') for text in y]`."
        raise InputError("y", OWNER, "hold one label or a list of labels for each sample", repr(unsplit), hint)
    rows = [list(row) if isinstance(row, list | tuple | set | frozenset | np.ndarray) else [row] for row in y]
    flat = [item for row in rows for item in row]
    if all(isinstance(item, str) for item in flat):
        labels = Labels(sort_names(set(flat))) if labels is None else labels
        columns = [[labels.column(name) for name in row] for row in rows]
    elif all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in flat):
        labels = Labels([str(column) for column in range(max(flat) + 1)]) if labels is None else labels
        columns = [[int(item) for item in row] for row in rows]
        twice = next((row for row in columns if len(set(row)) < len(row)), None)
        if twice is not None:
            hint = "Pass `np.array(y)` if y is a table of 1 and 0 with one column per label."
            raise InputError("y", OWNER, "list the number of a label once a sample", repr(twice), hint)
    else:
        other = next(item for item in flat if not isinstance(item, str))
        got = f"{describe_type(other)} among them"
        hint = "Pass an array of 1, 0 and -1 instead, or names alone, or numbers alone."
        raise InputError("y", OWNER, "list labels by name or by number", got, hint)
    return labels, SparseTargets.from_rows(columns, num_labels=len(labels))


def read_npz(files: Sequence[Path], options: ReadOptions) -> Dataset:
    """A NumPy archive: `x` and `y` with `names`, `ids` and `splits`; or `train_images`, `train_labels` and so on."""
    if len(files) > 1:
        raise InputError("path", rule="be one .npz archive", got=f"{len(files)} archives", hint="Pass one of them.")
    arrays, name = read_arrays(files[0]), files[0].name

    def find(choices: Sequence[str], prefix: str = "") -> str | None:
        return next((prefix + choice for choice in choices if prefix + choice in arrays), None)

    names = next((name for name in NAME_ARRAYS if name in arrays and arrays[name].ndim == 1), None)
    label_names = None if names is None else [str(name) for name in arrays[names].tolist()]
    pairs = {split: (find(INPUT_ARRAYS, f"{split}_"), find(TARGET_ARRAYS, f"{split}_")) for split in CANONICAL_SPLITS}
    parts = {split: (x, y) for split, (x, y) in pairs.items() if x is not None and y is not None}
    if parts:
        inputs, targets = (np.concatenate([arrays[pair[side]] for pair in parts.values()]) for side in (0, 1))
        splits = np.repeat(list(parts), [len(arrays[x]) for x, _ in parts.values()])
        data = from_arrays(inputs, targets, labels=label_names, splits=splits)
        data.notes.append(f"Read arrays {preview_names([name for pair in parts.values() for name in pair])} of {name}.")
    else:
        x, y = find(INPUT_ARRAYS), find([choice for choice in TARGET_ARRAYS if choice != names])
        if x is None or y is None:
            rule, got = "hold arrays `x` and `y`", f"the arrays {preview_names(list(arrays))}"
            raise InputError("path", rule=rule, got=got, hint="Save it with `np.savez(path, x=x, y=y, names=names)`.")
        data = from_arrays(arrays[x], arrays[y], labels=label_names, splits=arrays.get("splits"), ids=arrays.get("ids"))
        more = f", names from {names!r}" if names else ""
        data.notes.append(f"Read inputs from array {x!r} and targets from array {y!r} of {name}{more}.")
    return data if options.label_names is None else data.select_labels(options.label_names)
