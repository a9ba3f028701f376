"""Argument checks: settings, batches of a loss, and scores, probabilities, targets and weights of many samples.

Checks of a batch never make a device wait. `as_scores`, `as_probs`, `as_targets` and `as_weights`, used by everything
after the model, read every value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.errors import InputError, suggest
from manyhot.labels import UNKNOWN
from manyhot.numerics import mask_scores

Array = np.ndarray[Any, Any]


def check_number(argument: str, owner: str, value: object, interval: str = "(-inf, inf)") -> float:
    """Returns `value` as a float; raises an error if it is not a number of the interval, such as "[0, 1)"."""
    number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    low, high = (float(bound) for bound in interval[1:-1].split(","))
    left, above = ("above", number > low) if interval.startswith("(") else ("at least", number >= low)
    right, below = ("below", number < high) if interval.endswith(")") else ("at most", number <= high)
    if above and below:
        return number
    bounds = [f"{left} {low:g}"] if low > -math.inf else []
    bounds += [f"{right} {high:g}"] if high < math.inf else []
    rule = " ".join(["be a number", " and ".join(bounds)]).strip()
    raise InputError(argument, owner, rule, repr(value), "Change it, or leave it out for the default.")


def check_int(argument: str, owner: str, value: object, *, low: int) -> int:
    """Returns `value` as an int; raises an error if it is below `low` or not a whole number."""
    number = low - 1 if isinstance(value, bool) or not isinstance(value, Integral) else int(value)
    if number >= low:
        return number
    raise InputError(argument, owner, f"be a whole number, at least {low}", repr(value), "Pass an int.")


def check_choice(argument: str, owner: str, value: str, choices: Sequence[str]) -> str:
    """Returns `value`; raises an error if it is not one of `choices`."""
    if value in choices:
        return value
    allowed = ", ".join(repr(choice) for choice in choices)
    hint = suggest(str(value), choices, "Pick one of these.", show=repr)
    raise InputError(argument, owner, f"be one of {allowed}", repr(value), hint)


def check_bool(argument: str, owner: str, value: object) -> bool:
    """Returns `value`; raises an error if it is not a bool."""
    if isinstance(value, bool):
        return value
    raise InputError(argument, owner, "be True or False", repr(value), "Pass a bool.")


def check_str(argument: str, owner: str, value: object) -> str:
    """Returns `value`; raises an error if it is not a string, or empty."""
    if isinstance(value, str) and value.strip():
        return value
    hint = "Change it, or leave it out for the default."
    raise InputError(argument, owner, "be a text that is not empty", repr(value), hint)


def check_floating(argument: str, owner: str, value: object, hint: str) -> None:
    """Raises an error unless `value` is a tensor of floating-point numbers."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise InputError(argument, owner, "be a tensor of floating-point numbers", describe_type(value), hint)


def check_features(owner: str, features: Tensor, in_features: int) -> None:
    """Raises an error unless `features` are (N, D) of real floating-point numbers."""
    check_floating("features", owner, features, "Call `.float()`.")
    if features.ndim != 2 or features.shape[1] != in_features:
        rule, hint = f"be (N, D) with D = {in_features}", "Flatten or pool first."
        raise InputError("features", owner, rule, str(tuple(features.shape)), hint)


@dataclass(frozen=True)
class LossBatch:
    """Scores and targets as a loss computes with them.

    Attributes:
        scores: (N, K), or (N, 2, K) for two heads; float32 or float64.
        targets: (N, K) in the type of the scores; unknown cells hold 0.
        known: (N, K), 1 where the target is known and 0 where not; None when every cell is known.
        integral: Whether the targets came as integers, so that none of them can be soft.
        extra: What some losses take besides: numbers of the rows, or noise.
    """

    scores: Tensor
    targets: Tensor
    known: Tensor | None
    integral: bool
    extra: Tensor | None = None

    @property
    def masked_scores(self) -> Tensor:
        """The scores, those of unknown cells so low that they vanish from every sum of exponentials; for one head."""
        return self.scores if self.known is None else mask_scores(self.scores, self.known)

    @property
    def absent(self) -> Tensor:
        """(N, K), 1 where the label is known to be absent."""
        return 1 - self.targets if self.known is None else self.known - self.targets

    def no_soft_targets(self) -> bool:
        """Whether every target is certain to be 0 or 1; False where that would need reading values on a device."""
        return self.integral or (can_read_values(self.targets) and _all_hard(self.targets, 0.0))

    def mask(self, cells: Tensor) -> Tensor:
        """`cells` with zeros where the target is unknown."""
        return cells if self.known is None else cells * self.known

    def row_sizes(self) -> Tensor:
        """(N,), the number of known cells of each row."""
        if self.known is None:
            return self.targets.new_full((self.targets.shape[0],), self.targets.shape[1])
        return self.known.sum(1)

    def rows(self) -> Tensor:
        """(N,), 1 for rows with a known cell: a row without any is treated as if it were not there."""
        return (self.row_sizes() > 0).to(self.targets.dtype)

    def labelled_rows(self) -> Tensor:
        """(N,), 1 for rows in which a label is present."""
        return (self.targets.sum(1) > 0).to(self.targets.dtype)


def describe_type(value: object) -> str:
    """`value` as an error message describes it: its type, and for a tensor the type of its numbers."""
    return f"a tensor of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def check_dense(argument: str, owner: str, values: Tensor) -> None:
    """Raises an error for a sparse tensor."""
    if values.layout != torch.strided:
        raise InputError(argument, owner, "be dense", "a sparse tensor", "Call `.to_dense()` on them.")


def check_targets_shape(argument: str, owner: str, targets: Tensor, shape: tuple[int, ...], of: str) -> None:
    """Raises an error for targets of another shape than that of the scores, or of what else they belong to."""
    if tuple(targets.shape) != shape:
        hint = "Pass `manyhot.one_hot(targets, K)` for class indices, or encode names with `Labels`."
        raise InputError(argument, owner, f"be (N, K) like `{of}` {shape}", str(tuple(targets.shape)), hint)


def prepare_batch(
    owner: str, scores: Tensor, targets: Tensor, *, soft: bool = False, single: bool = False, heads: int = 1
) -> LossBatch:
    """Checks scores and targets and brings them to the form in which losses compute.

    Shapes and kinds are always checked. Values of targets are read only where that costs no synchronisation: on the
    CPU, outside of `torch.compile`. On an accelerator, call `check_targets` once on the data instead.

    Args:
        owner: Name of the loss, for the error.
        scores: (N, K), or (N, heads, K) for several heads.
        targets: (N, K), 1 present, 0 absent, -1 unknown.
        soft: Whether targets between 0 and 1 are allowed.
        single: Whether a row may carry at most one label.
        heads: How many heads the scores come from.
    """
    check_floating("scores", owner, scores, "Call `.float()` on them.")
    axes, rank = ("(N, K)", 2) if heads == 1 else (f"(N, {heads}, K)", 3)
    if scores.ndim != rank or (heads > 1 and scores.shape[1] != heads):
        hint = "Pass one row per sample and one column per label." if heads == 1 else "Pass what `TwoHeads` returns."
        raise InputError("scores", owner, f"be {axes}", str(tuple(scores.shape)), hint)
    if not isinstance(targets, Tensor) or targets.is_complex():
        hint = "Pass `torch.as_tensor(targets)`, or encode names with `Labels`."
        raise InputError("targets", owner, "be a tensor of real numbers", describe_type(targets), hint)
    check_dense("targets", owner, targets)
    check_targets_shape("targets", owner, targets, (scores.shape[0], scores.shape[-1]), "scores")

    scores = scores if scores.dtype == torch.float64 else scores.float()
    readable = can_read_values(targets)
    all_known = check_target_values(owner, targets, soft=soft) if readable else targets.dtype == torch.bool
    integral = not targets.is_floating_point()
    targets = targets.to(scores.dtype)
    known = None
    if not all_known:
        # Not `targets >= 0`: where values are not read, a NaN must reach the loss and not pass as unknown.
        known = 1 - (targets < 0).to(scores.dtype)
        targets = targets.clamp(min=0)
    if single and readable and targets.numel() and targets.sum(1).amax() > 1:
        hint = "Use a loss for several labels, such as `MultiLabelSoftmaxLoss` or `BinaryCrossEntropyLoss`."
        raise InputError("targets", owner, "have at most one label per row", "a row with several", hint)
    return LossBatch(scores, targets, known, integral)


def check_targets(targets: Tensor, *, soft: bool = False) -> None:
    """Raises an error for targets other than 1 (present), 0 (absent) and -1 (unknown); reads every value.

    Losses do this themselves on the CPU. On an accelerator reading values would make the device wait, so do it once
    for the whole data set.

    Args:
        targets: Any shape.
        soft: Whether values between 0 and 1 are allowed, as in losses that add over labels.

    Example:
        >>> check_targets(torch.tensor([[1, 0, -1]]))
        >>> check_targets(torch.tensor([[0.5]]))
        Traceback (most recent call last):
        manyhot.errors.InputError: `targets` of `check_targets` must be 1, 0 or -1; got 0.5. Round them, or use a
            loss that adds over labels.
    """
    check_target_values("check_targets", targets, soft=soft)


def is_traced() -> bool:
    """Whether tensors stand for others: in a compiler, or inside a transform of `torch.func`."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def can_read_values(tensor: Tensor) -> bool:
    """Whether looking at values costs nothing: a real tensor on the CPU."""
    return tensor.device.type == "cpu" and type(tensor) in (Tensor, torch.nn.Parameter) and not is_traced()


MARK_UNKNOWN = f"Mark unknown cells with manyhot.UNKNOWN, which is {UNKNOWN}."


def check_target_values(owner: str, targets: Tensor, *, soft: bool = False) -> bool:
    """Raises an error for targets of any other value; returns whether all targets are known."""
    if targets.numel() == 0 or targets.dtype == torch.bool:
        return True
    low, high = (bound.item() for bound in torch.aminmax(targets))
    hint, real = MARK_UNKNOWN, targets.is_floating_point()
    if math.isnan(low) or math.isnan(high):
        got = "NaN"
    elif low < UNKNOWN or high > 1:
        got, hint = f"{low if low < UNKNOWN else high:g}", f"Mark present cells with 1. {MARK_UNKNOWN}"
    elif real and low < 0 and (between := targets[(targets < 0) & (targets > UNKNOWN)]).numel():
        got = f"{float(between[0]):g}"
    elif real and not soft and not _all_hard(targets, low):
        got = f"{float(targets[targets.square() != targets.abs()][0]):g}"
        hint = "Round them, or use a loss that adds over labels."
    else:
        return low >= 0
    rule = "be 1, 0, -1 or between 0 and 1" if soft else "be 1, 0 or -1"
    raise InputError("targets", owner, rule, got, hint)


def _all_hard(targets: Tensor, low: float) -> bool:
    """Whether every target is 1, 0 or -1, for targets that lie between -1 and 1."""
    # Between 0 and 1 a square lies below its number, so these differences are not negative, and their sum is zero only
    # if each of them is.
    sizes = (targets if low >= 0 else targets.abs()).detach()
    return not bool(torch.addcmul(sizes, sizes, sizes, value=-1).sum())


def check_weights(owner: str, parts: int, weights: Sequence[float]) -> tuple[float, ...]:
    """The weights as numbers; raises an error if they are invalid."""
    if not isinstance(weights, list | tuple) or len(weights) != parts or not parts:
        got = f"{len(weights)} for {parts}" if isinstance(weights, list | tuple) else describe_type(weights)
        raise InputError("weights", owner, "be one number for each part", got, "Pass, for example, (1, 0.01).")
    return tuple(check_number("weights", owner, weight, "(0, inf)") for weight in weights)


def as_floats(owner: str, values: Any, name: str) -> Tensor:
    """A tensor of any shape as float64 if it is that already, else as float32; other numbers raise an error."""
    tensor = as_tensor(owner, values, name)
    if not tensor.is_floating_point():
        hint = "Call `.float()` on them." if isinstance(values, Tensor) else "Convert them to float32."
        raise InputError(name, owner, "be floating-point numbers", describe_type(tensor), hint)
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def as_scores(owner: str, values: Any, *, name: str = "scores") -> Tensor:
    """(N, K) as float64 if it is that already, else as float32; NaN raises an error. Arrays are not copied."""
    scores = as_floats(owner, values, name).detach()
    if scores.ndim != 2:
        hint = "Pass one row per sample and one column per label."
        raise InputError(name, owner, "be (N, K)", str(tuple(scores.shape)), hint)
    if scores.numel() and math.isnan(float(scores.sum())) and bool(scores.isnan().any()):
        row, column = (int(index) for index in scores.isnan().nonzero()[0])
        raise InputError(name, owner, "be numbers", f"NaN at row {row}, column {column}", "Drop or repair these rows.")
    return scores


def as_probs(owner: str, values: Any, *, name: str = "probs") -> Tensor:
    """(N, K) in [0, 1]; anything outside raises an error, because it is a score.

    Also the K arrays (N, 2) of `predict_proba` of scikit-learn: absent and present, which add up to 1.
    """
    if isinstance(values, list | tuple) and values and all(len(getattr(one, "shape", ())) == 2 for one in values):
        values = _present_column(owner, values, name)
    probs = as_scores(owner, values, name=name)
    if probs.numel():
        low, high = (float(bound) for bound in torch.aminmax(probs))
        if low < 0 or high > 1:
            hint = "Turn scores into probabilities with a link or a calibrator."
            raise InputError(name, owner, "lie between 0 and 1", f"{low if low < 0 else high:g}", hint)
    return probs


def _present_column(owner: str, values: Sequence[Any], name: str) -> Tensor:
    """(N, K) of one array (N, 2) per label, of which the second column is the probability that it is present."""
    tables = [as_tensor(owner, one, name) for one in values]
    rows = len(tables[0])
    fits = [table.shape == (rows, 2) and bool(((table.double().sum(1) - 1).abs() < 1e-3).all()) for table in tables]
    if not all(fits):
        rule = "be (N, K), or one array (N, 2) per label of two columns that add up to 1"
        got = f"a list with {tuple(tables[fits.index(False)].shape)} in it"
        hint = "Pass one column per label; where a label never occurs, scikit-learn gives no column for its presence."
        raise InputError(name, owner, rule, got, hint)
    return torch.stack([table[:, 1] for table in tables], dim=1)


def as_targets(owner: str, values: Any, like: Tensor, *, name: str = "targets", of: str = "scores") -> Tensor:
    """(N, K) as int8 on the device of `like`: 1 present, 0 absent, -1 unknown; anything else raises an error."""
    targets = as_tensor(owner, values, name)
    check_targets_shape(name, owner, targets, tuple(like.shape), of)
    # `torch.aminmax` supports no unsigned integers but those of one byte.
    targets = targets.double() if targets.dtype in _WIDE_UNSIGNED else targets
    check_target_values(owner, targets)
    return targets.detach().to(like.device, torch.int8)


def as_weights(owner: str, values: Any, like: Tensor) -> Tensor | None:
    """(N, K) of finite numbers that are not negative, as float64; one weight per row (N,) holds for all its cells."""
    if values is None:
        return None
    weights = as_tensor(owner, values, "weights").detach().to(like.device, torch.float64)
    if weights.ndim == 1 and weights.shape[0] == like.shape[0]:
        weights = weights.unsqueeze(1).expand(like.shape)
    if weights.shape != like.shape:
        rule = f"be (N,) or (N, K) like `scores` {tuple(like.shape)}"
        raise InputError("weights", owner, rule, str(tuple(weights.shape)), "Pass one weight per row or per cell.")
    invalid = weights[~(weights.isfinite() & (weights >= 0))]
    if invalid.numel():
        hint = "Pass 0 for cells to leave out."
        raise InputError("weights", owner, "be finite and not negative", f"{float(invalid[0]):g}", hint)
    return weights


def check_num_labels(owner: str, values: Tensor, expected: int) -> None:
    """Raises an error for values with another number of labels than was fitted."""
    if values.shape[1] != expected:
        rule = f"have the {expected} labels that were fitted"
        raise InputError("values", owner, rule, str(values.shape[1]), "Fit it on these labels, in this order.")


def rows_as_lists(values: Any) -> Any:
    """A column of lists or strings, such as a series of pandas or polars, as a list; anything else unchanged."""
    as_list = getattr(values, "tolist", None) or getattr(values, "to_list", None)  # pandas and NumPy, or polars
    if isinstance(values, Tensor) or as_list is None or len(getattr(values, "shape", ())) != 1:
        return values
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in as_list()]
    return rows if any(isinstance(row, list | tuple | set | frozenset | str) for row in rows) else values


def sparse_entries(owner: str, matrix: Any) -> tuple[Array, Array, Array]:
    """Rows, columns and values of the cells that a sparse matrix of SciPy stores; duplicates raise an error."""
    stored = matrix.tocoo()
    rows, columns, values = (np.asarray(part) for part in (stored.row, stored.col, stored.data))
    _check_distinct_cells(owner, rows, columns, matrix.shape[1], "matrix.sum_duplicates()")
    if values.dtype.kind == "c" or not np.isin(values, (1, 0, UNKNOWN)).all():
        invalid = "complex numbers" if values.dtype.kind == "c" else f"{values[~np.isin(values, (1, 0, UNKNOWN))][0]:g}"
        raise InputError("targets", owner, "be 1, 0 or -1 where they are stored", invalid, "Store a 1 for each label.")
    return rows, columns, values


def to_dense_tensor(owner: str, targets: Tensor) -> Tensor:
    """A sparse tensor as a dense one; duplicate cells, which torch would add up, raise an error."""
    if targets.layout == torch.sparse_coo and targets.ndim == 2 and not targets.is_coalesced():
        rows, columns = targets._indices().cpu().numpy()
        _check_distinct_cells(owner, rows, columns, targets.shape[1], "targets.coalesce()")
    return targets if targets.layout == torch.strided else targets.to_dense()


def _check_distinct_cells(owner: str, rows: Array, columns: Array, width: int, call: str) -> None:
    cells, counts = np.unique(rows.astype(np.int64) * width + columns, return_counts=True)
    if len(cells) < len(rows):
        row, column = divmod(int(cells[counts > 1][0]), width)
        hint = f"Join them with `{call}`, and store 1, 0 or -1 there."
        raise InputError("targets", owner, "store each cell once", f"row {row}, column {column} more than once", hint)


_WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def as_tensor(owner: str, values: Any, name: str) -> Tensor:
    """Tensors, arrays, data frames and lists as a tensor; anything but real numbers and booleans raises an error."""
    try:
        tensor = values if isinstance(values, Tensor) else torch.as_tensor(_writable(values))
    except (TypeError, ValueError, RuntimeError):
        got = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else describe_type(values)
        raise InputError(name, owner, "be a table of real numbers", got, "Pass a tensor or an array.") from None
    if tensor.is_complex():
        raise InputError(name, owner, "be a table of real numbers", describe_type(tensor), "Take the real part.")
    check_dense(name, owner, tensor)
    return tensor


def _writable(values: Any) -> Any:
    """Arrays and data frames as arrays that torch takes: in order in memory, and not shared with what is read-only."""
    if not hasattr(values, "__array__"):
        return values
    array = np.require(values, requirements=["C", "W"])
    return array.astype(array.dtype.newbyteorder("="), copy=False)
