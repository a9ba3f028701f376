"""Targets in common forms: sparse matrices, lists of label names, lists of column indices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import rows_as_lists, sparse_entries, to_dense_tensor
from manyhot.errors import InputError
from manyhot.labels import Labels


def index_targets(rows: Iterable[Iterable[int]], num_labels: int) -> Tensor:
    """Targets (N, K) of a list of label columns for each row; what is not listed is absent.

    Args:
        rows: For each row the columns of its labels, of any number.
        num_labels: K.

    Example:
        >>> index_targets([[2, 0], []], 3)
        tensor([[1, 0, 1],
                [0, 0, 0]], dtype=torch.int8)
    """
    columns = [np.asarray(list(row)) for row in rows]
    for row, entries in enumerate(columns):
        if entries.size and not np.issubdtype(entries.dtype, np.integer):
            hint = "Pass column numbers; encode names with `Labels`."
            raise InputError("rows", "index_targets", "hold whole numbers", f"{entries[0]!r} in row {row}", hint)
    lengths = [len(row) for row in columns]
    flat = np.concatenate([np.empty(0, np.int64), *(row.astype(np.int64) for row in columns)])
    if flat.size and not (flat.min() >= 0 and flat.max() < num_labels):
        invalid = flat.min() if flat.min() < 0 else flat.max()
        hint = "Count the labels from 0, or raise `num_labels`."
        raise InputError("rows", "index_targets", f"lie between 0 and {num_labels - 1}", str(invalid), hint)
    targets = torch.zeros(len(columns), num_labels, dtype=torch.int8)
    targets[torch.from_numpy(np.repeat(np.arange(len(columns)), lengths)), torch.from_numpy(flat)] = 1
    return targets


def as_dense_targets(targets: Any, labels: Labels) -> Any:
    """Targets as a table of numbers: sparse matrices filled in, names encoded, anything else as it came."""
    if isinstance(targets, Tensor):
        return to_dense_tensor("Predictions", targets)
    if hasattr(targets, "tocoo") and hasattr(targets, "nnz"):
        return _from_sparse_matrix(targets)
    targets = rows_as_lists(targets)
    if not isinstance(targets, list | tuple):
        return targets
    other = next((position for position, row in enumerate(targets) if not _may_be_names(row)), None)
    if other is None:
        return labels.encode(targets)
    if any(isinstance(row, str) or (_may_be_names(row) and row) for row in targets):
        hint = "Pass ['cat', 'dog'] for a row of these two, and [] for one without labels."
        got = f"{targets[other]!r} in row {other}"
        raise InputError("targets", "Predictions", "be a list of label names for each row", got, hint)
    return targets


def _may_be_names(row: Any) -> bool:
    """Whether a row is a list of label names, which may be empty."""
    return isinstance(row, list | tuple | set | frozenset) and all(isinstance(name, str) for name in row)


def _from_sparse_matrix(matrix: Any) -> Tensor:
    """A sparse matrix of SciPy as int8; cells that are not stored are 0."""
    rows, columns, values = sparse_entries("Predictions", matrix)
    filled = np.zeros(matrix.shape, dtype=np.int8)
    filled[rows, columns] = values
    return torch.from_numpy(filled)
