"""Batches: rows of a data set as tensors, in the order that was asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyhot.data.targets import SparseTargets


class Batch(NamedTuple):
    """Some rows of a data set.

    Attributes:
        inputs: What the network takes: (n, 3, H, W) uint8 pixels or (n, D) float32 features.
        targets: (n, K) int8: 1 present, 0 absent, -1 unknown.
        rows: (n,) int64, which rows of the data set these are; images that could not be read are left out.
    """

    inputs: Tensor
    targets: Tensor
    rows: Tensor


class Batches(ABC):
    """A data set as an engine reads it.

    Attributes:
        targets: (N, K), of all rows.
    """

    targets: SparseTargets

    def __len__(self) -> int:
        """The number N of rows."""
        return len(self.targets)

    @abstractmethod
    def load(self, groups: Iterable[Sequence[int]], *, epoch: int | None) -> Iterator[Batch]:
        """One batch for each group of row numbers, in their order.

        Args:
            groups: Row numbers of each batch.
            epoch: Decides, with the row and the seed alone, how a sample is augmented, so that a run which goes on
                after a break sees what it would have seen; None for no augmentation.
        """


class FeatureBatches(Batches):
    """Rows of a matrix of features.

    Args:
        features: (N, D).
        targets: (N, K).

    Example:
        >>> data = FeatureBatches(torch.eye(3), SparseTargets.from_rows([[0], [], [1]], num_labels=2))
        >>> next(data.load([[2, 0]], epoch=0)).targets
        tensor([[0, 1],
                [1, 0]], dtype=torch.int8)
    """

    def __init__(self, features: Any, targets: SparseTargets) -> None:
        self.features, self.targets = torch.as_tensor(features), targets
        self._dense = targets.dense() if np.prod(targets.shape) < 2**28 else None

    def load(self, groups: Iterable[Sequence[int]], *, epoch: int | None) -> Iterator[Batch]:
        """Looks the rows up; there is nothing to augment."""
        for group in groups:
            rows = torch.as_tensor(group, dtype=torch.int64)
            targets = self.targets.dense(rows) if self._dense is None else self._dense.index_select(0, rows)
            yield Batch(self.features.index_select(0, rows), targets, rows)
