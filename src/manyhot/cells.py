"""Scores, probabilities and targets of many samples, checked as everything after the model takes them.

Losses have checks of their own (`checks.check_batch`), which must not make a device wait; here every value is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import check_dense, check_values, kind_of
from manyhot.refusal import Refusal, refusal

Array = np.ndarray[Any, Any]


def as_scores(owner: str, values: Any, *, name: str = "scores") -> Tensor:
    """(N, K) as float32, or float64 if it came so; refuses NaN. Arrays are taken as they are, without a copy."""
    scores = as_tensor(owner, values, name)
    if not scores.is_floating_point():
        remedy = "Call `.float()` on them."
        raise refusal(name, owner, "be floating-point numbers", kind_of(scores), remedy)
    if scores.ndim != 2:
        remedy = "Pass one row a sample, one column a label."
        raise refusal(name, owner, "be (N, K)", str(tuple(scores.shape)), remedy)
    scores = scores.detach() if scores.dtype == torch.float64 else scores.detach().float()
    if scores.numel() and math.isnan(float(scores.sum())) and bool(scores.isnan().any()):
        row, column = (int(place) for place in scores.isnan().nonzero()[0])
        raise refusal(name, owner, "be numbers", f"NaN at row {row}, column {column}", "Drop or repair these rows.")
    return scores


def as_probs(owner: str, values: Any, *, name: str = "probs") -> Tensor:
    """(N, K) in [0, 1]; refuses anything else, because what lies outside is a score.

    Also the K arrays (N, 2) of `predict_proba` of scikit-learn: absent and present, which add up to 1.
    """
    if isinstance(values, list | tuple) and values and all(len(getattr(one, "shape", ())) == 2 for one in values):
        values = _present_column(owner, values, name)
    probs = as_scores(owner, values, name=name)
    if probs.numel():
        low, high = (float(bound) for bound in torch.aminmax(probs))
        if low < 0 or high > 1:
            remedy = "Turn scores into probabilities with a link or a calibrator."
            raise refusal(name, owner, "lie between 0 and 1", f"{low if low < 0 else high:g}", remedy)
    return probs


def _present_column(owner: str, values: Sequence[Any], name: str) -> Tensor:
    """(N, K) of one array (N, 2) a label, of which the second column is the probability that it is present."""
    tables = [as_tensor(owner, one, name) for one in values]
    odd = [table for table in tables if table.shape != (len(tables[0]), 2) or not _adds_to_one(table)]
    if odd:
        rule = "be (N, K), or one array (N, 2) a label of two columns that add up to 1"
        got = f"a list with {tuple(odd[0].shape)} in it"
        remedy = "Pass one column a label; where a label never occurs, scikit-learn gives no column for its presence."
        raise refusal(name, owner, rule, got, remedy)
    return torch.stack([table[:, 1] for table in tables], dim=1)


def _adds_to_one(table: Tensor) -> bool:
    return bool(((table.double().sum(dim=1) - 1).abs() < 1e-3).all())


def as_targets(owner: str, values: Any, like: Tensor, *, name: str = "targets", of: str = "scores") -> Tensor:
    """(N, K) as int8 on the device of `like`: 1 present, 0 absent, -1 unknown; refuses another shape or value."""
    targets = as_tensor(owner, values, name)
    if targets.shape != like.shape:
        remedy = "Pass `manyhot.one_hot(targets, K)` for class indices, or encode names with `Labels`."
        rule = f"be (N, K) like `{of}` {tuple(like.shape)}"
        raise refusal(name, owner, rule, str(tuple(targets.shape)), remedy)
    # Torch finds no extremes of unsigned integers but those of one byte.
    targets = targets.double() if targets.dtype in _UNSIGNED else targets
    check_values(owner, targets)
    return targets.detach().to(like.device, torch.int8)


def as_weights(owner: str, values: Any, like: Tensor) -> Tensor | None:
    """(N, K) of finite numbers that are not negative, as float64; one weight a row (N,) holds for all its cells."""
    if values is None:
        return None
    weights = as_tensor(owner, values, "weights").detach().to(like.device, torch.float64)
    if weights.ndim == 1 and weights.shape[0] == like.shape[0]:
        weights = weights.unsqueeze(1).expand(like.shape)
    if weights.shape != like.shape:
        rule = f"be (N,) or (N, K) like `scores` {tuple(like.shape)}"
        raise refusal("weights", owner, rule, str(tuple(weights.shape)), "Pass one weight a row or a cell.")
    if not bool((weights.isfinite() & (weights >= 0)).all()):
        bad = float(weights[~(weights.isfinite() & (weights >= 0))][0])
        raise refusal("weights", owner, "be finite and not negative", f"{bad:g}", "Pass 0 for cells to leave out.")
    return weights


def check_columns(owner: str, values: Tensor, expected: int) -> None:
    """Refuses values with another number of labels than was fitted."""
    if values.shape[1] != expected:
        rule = f"have the {expected} labels that were fitted"
        raise refusal("values", owner, rule, str(values.shape[1]), "Fit it on these labels, in this order.")


def listed_rows(values: Any) -> Any:
    """A column of lists or texts, such as a series of pandas or polars, as a list; anything else as it came."""
    as_list = getattr(values, "tolist", None) or getattr(values, "to_list", None)  # pandas and NumPy, or polars
    if isinstance(values, Tensor) or as_list is None or len(getattr(values, "shape", ())) != 1:
        return values
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in as_list()]
    return rows if any(isinstance(row, list | tuple | set | frozenset | str) for row in rows) else values


def sparse_cells(owner: str, matrix: Any) -> tuple[Array, Array, Array]:
    """Rows, columns and values of the cells that a sparse matrix of SciPy stores; refuses one that is stored twice."""
    stored = matrix.tocoo()
    rows, columns, values = (np.asarray(part) for part in (stored.row, stored.col, stored.data))
    keys = rows.astype(np.int64) * matrix.shape[1] + columns
    distinct, counts = np.unique(keys, return_counts=True)
    if len(distinct) < len(keys):
        raise _stored_twice(owner, int(distinct[counts > 1][0]), matrix.shape[1], "matrix.sum_duplicates()")
    if values.dtype.kind == "c" or not np.isin(values, (1, 0, -1)).all():
        bad = "complex numbers" if values.dtype.kind == "c" else f"{values[~np.isin(values, (1, 0, -1))][0]:g}"
        raise refusal("targets", owner, "be 1, 0 or -1 where they are stored", bad, "Store a 1 for each label.")
    return rows, columns, values


def filled_tensor(owner: str, targets: Tensor) -> Tensor:
    """A sparse tensor with all its cells; refuses one that stores a cell twice, of which torch would take the sum."""
    if targets.layout == torch.sparse_coo and not targets.is_coalesced():
        rows, columns = targets._indices()[:2]
        distinct, counts = (rows * targets.shape[1] + columns).unique(return_counts=True)
        if len(distinct) < len(rows):
            raise _stored_twice(owner, int(distinct[counts > 1][0]), targets.shape[1], "targets.coalesce()")
    return targets if targets.layout == torch.strided else targets.to_dense()


def _stored_twice(owner: str, key: int, width: int, call: str) -> Refusal:
    row, column = divmod(key, width)
    got = f"row {row}, column {column} more than once"
    remedy = f"Join them with `{call}`, and store 1, 0 or -1 there."
    return refusal("targets", owner, "store each cell once", got, remedy)


_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def as_tensor(owner: str, values: Any, name: str) -> Tensor:
    """A tensor as it is; arrays, data frames and lists as a tensor; refuses anything but real numbers and booleans."""
    try:
        tensor = values if isinstance(values, Tensor) else torch.as_tensor(_writable(values))
    except (TypeError, ValueError, RuntimeError):
        got = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else kind_of(values)
        remedy = "Pass a tensor or an array."
        raise refusal(name, owner, "be a table of real numbers", got, remedy) from None
    if tensor.is_complex():
        raise refusal(name, owner, "be a table of real numbers", kind_of(tensor), "Take the real part.")
    check_dense(name, owner, tensor)
    return tensor


def _writable(values: Any) -> Any:
    """Arrays and data frames as arrays that torch takes: in order in memory, and not shared with what is read-only."""
    if not hasattr(values, "__array__"):
        return values
    array = np.require(values, requirements=["C", "W"])
    return array.astype(array.dtype.newbyteorder("="), copy=False)
