"""Targets in common forms: sparse matrices, lists of label names, lists of column indices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

from manyhot.checks import rows_as_lists, to_dense_tensor
from manyhot.data.targets import SparseTargets
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
    flat = [int(column) for row in columns for column in row]
    invalid = min(flat, default=0) if min(flat, default=0) < 0 else max(flat, default=0)
    if flat and not 0 <= invalid < num_labels:
        hint = "Count the labels from 0, or raise `num_labels`."
        raise InputError("rows", "index_targets", f"lie between 0 and {num_labels - 1}", str(invalid), hint)
    return SparseTargets.from_rows((row.tolist() for row in columns), num_labels=num_labels).dense()


def as_dense_targets(targets: Any, labels: Labels) -> Any:
    """Targets as a table of numbers: sparse matrices filled in, names encoded, anything else as it came."""
    if isinstance(targets, Tensor):
        return to_dense_tensor("Predictions", targets)
    if hasattr(targets, "tocoo") and hasattr(targets, "nnz"):
        return SparseTargets.from_sparse(targets, owner="Predictions").dense()
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
