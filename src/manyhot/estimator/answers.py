"""What comes as `y`, and decisions given back in the same form."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.cells import as_targets, as_tensor
from manyhot.labels import Labels, one_hot
from manyhot.refusal import refusal

Array = np.ndarray[Any, Any]
OWNER = "ManyHotClassifier"


class Answers(ABC):
    """A form of `y`.

    Attributes:
        classes: (K,) the classes or labels, in the order of the columns.
        single: Whether each sample has exactly one of them.
    """

    classes: Array
    single: bool = False

    @abstractmethod
    def encode(self, y: Any) -> Tensor:
        """Targets (N, K) int8 of `y`."""

    @abstractmethod
    def decode(self, labels: Tensor) -> Any:
        """Decisions (N, K) bool in the form of `y`."""


class Classes(Answers):
    """One class a sample, (N,)."""

    single = True

    def __init__(self, y: Array) -> None:
        self.classes = np.unique(y)

    def encode(self, y: Any) -> Tensor:
        """One column a class."""
        return one_hot(torch.from_numpy(np.searchsorted(self.classes, np.asarray(y))), len(self.classes))

    def decode(self, labels: Tensor) -> Array:
        """The class of each sample."""
        chosen: Array = self.classes[labels.int().argmax(1).numpy()]
        return chosen


class Indicators(Answers):
    """A table (N, K) of 1 present, 0 absent, -1 unknown; a sparse matrix comes back as one.

    Args:
        y: The table; the columns of a data frame are its classes.
        sparse: Whether it came as a sparse matrix.
    """

    def __init__(self, y: Any, *, sparse: bool) -> None:
        self.sparse = sparse
        table = y if hasattr(y, "dtype") or hasattr(y, "dtypes") else np.asarray(y)
        names = getattr(table, "columns", None)
        self.classes = np.arange(table.shape[1]) if names is None else np.asarray(names)
        self.kind = np.asarray(table).dtype if not sparse else table.dtype

    def encode(self, y: Any) -> Tensor:
        """The cells as they are."""
        table = as_tensor(OWNER, y.toarray() if self.sparse else np.asarray(y), "y")
        return as_targets(OWNER, table, table, name="y")

    def decode(self, labels: Tensor) -> Any:
        """1 for a label that is given and 0 for another one."""
        table = labels.numpy().astype(self.kind)
        if not self.sparse:
            return table
        from scipy.sparse import csr_matrix

        return csr_matrix(table)


class Names(Answers):
    """A list of names for each sample, which may be empty."""

    def __init__(self, y: Any) -> None:
        found = sorted({name for row in y for name in row})
        if not found:
            raise refusal("y", OWNER, "name at least one label", "lists without any", "Pass some labelled samples.")
        self.labels = Labels([str(name) for name in found])
        self.classes = np.asarray(self.labels.names)

    def encode(self, y: Any) -> Tensor:
        """One column a name."""
        return self.labels.encode(y)

    def decode(self, labels: Tensor) -> list[list[str]]:
        """The names of each sample."""
        return self.labels.decode(labels)


def form_of(y: Any) -> tuple[Answers, Any]:
    """The form of `y`, and `y` as that form takes it."""
    from scipy.sparse import issparse
    from sklearn.exceptions import DataConversionWarning
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_y

    if y is None:
        message = "requires y to be passed, but the target y is None"
        raise ValueError(f"This {OWNER} estimator {message}.")
    if issparse(y):
        return Indicators(y, sparse=True), y
    if lists_of_names(y):
        rows = [list(row) for row in y]
        return Names(rows), rows
    table = y if hasattr(y, "shape") else np.asarray(y)
    if table.ndim == 2 and table.shape[1] == 1 and not is_indicator(np.asarray(table)):
        message = "A column-vector y was passed when a 1d array was expected. Please change the shape of y."
        warnings.warn(message, DataConversionWarning, stacklevel=3)
        table = np.asarray(table).ravel()
    if table.ndim == 2:
        return Indicators(table, sparse=False), table
    flat = _check_y(np.asarray(table), multi_output=False, y_numeric=False)
    check_classification_targets(flat)
    return Classes(flat), flat


def is_indicator(table: Array) -> bool:
    """Whether a table holds 1, 0 and -1 alone."""
    return table.dtype.kind in "biuf" and bool(np.isin(table, (-1, 0, 1)).all())


def lists_of_names(y: Any) -> bool:
    """Whether `y` is a list of collections of strings, of which some may be empty."""
    if isinstance(y, np.ndarray) and (y.dtype != object or y.ndim != 1):
        return False
    if not isinstance(y, list | tuple | np.ndarray) or not len(y):
        return False
    if not all(isinstance(row, list | tuple | set | frozenset) for row in y):
        return False
    return all(isinstance(name, str) for row in y for name in row)
