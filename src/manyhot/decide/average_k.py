"""Sets of a wanted average size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.checks import check_number
from manyhot.decide.cuts import midway, reached
from manyhot.decide.rule import Rule
from manyhot.decide.selecting import order_statistics
from manyhot.refusal import refusal


class AverageK(Rule):
    """Gives k labels a row on average, more where the row is ambiguous and fewer where it is plain.

    Of the N K values that it is fitted on, the floor(k N) largest are given: the threshold lies halfway between the
    last of them and the next one. It looks at values only, so it needs no targets, and cells whose target is unknown
    count like all others. Values must be comparable between rows: probabilities, or scores of a loss that adds over
    labels.

    Ties at the threshold are all given, so the average can be larger than k then. A k below 1 / N gives nothing, one
    of at least K gives all that is not smaller than what was seen.

    Args:
        k: The wanted mean number of labels a row, any number from 0 on.

    Attributes:
        threshold: What a value must reach.

    Reference: Garcin, Servajean, Joly and Salmon, A Two-Head Loss Function for Deep Average-K Classification,
        algorithm 1. They apply a softmax to the scores of every model; here the values are taken as they come.

    Example:
        >>> rule = AverageK(1.5).fit(torch.tensor([[0.9, 0.6, 0.1], [0.8, 0.3, 0.2]]))
        >>> rule(torch.tensor([[0.9, 0.6, 0.1], [0.8, 0.3, 0.2]])).sizes
        tensor([2, 1])
    """

    threshold: Tensor

    def __init__(self, k: float) -> None:
        super().__init__()
        self.k = check_number("k", "AverageK", k, low=0)
        self.register_buffer("threshold", torch.tensor(torch.nan, dtype=torch.float64))

    def fit(self, values: Any, targets: Any = None) -> Self:
        """Learns the threshold from held-out values (N, K); targets are not used."""
        return self._learn_from([self.check_values(values)])

    def fit_batches(self, batches: Iterable[Any] | Callable[[], Iterable[Any]]) -> Self:
        """Learns from more values than fit into memory: the same threshold as `fit` on all of them, to the last bit.

        The batches are gone through twice for float32 and four times for float64, and never kept.

        Args:
            batches: Values (n, K) in batches, the same in every pass; something that can be iterated again and again,
                or a function that starts anew each time.

        Example:
            >>> parts = torch.tensor([[0.9, 0.6, 0.1], [0.8, 0.3, 0.2]]).split(1)
            >>> f"{AverageK(1.5).fit_batches(parts).threshold:.2f}"
            '0.45'
        """
        if not callable(batches) and iter(batches) is batches:
            remedy = "Pass a list, a data loader, or a function that returns a new iterator."
            raise refusal("batches", "AverageK", "allow several passes", "an iterator that ends after one", remedy)
        return self._learn_from(batches)

    def _learn_from(self, batches: Iterable[Any] | Callable[[], Iterable[Any]]) -> Self:
        checked = _Batches(self, batches)

        def places(cells: int) -> list[int]:
            given = math.floor(min(self.k * checked.rows, cells) + 1e-6)
            if given == 0 or cells == 0:
                return []
            return [cells - given, cells - given - 1] if given < cells else [0]

        found = order_statistics(checked, places)
        # The last value that is given and the next one; none where nothing is given, one where everything is.
        threshold = torch.tensor(torch.inf)
        if found:
            threshold = midway(found[1] if len(found) > 1 else torch.full_like(found[0], -torch.inf), found[0])
        return self.learn(threshold=threshold.to(checked.device, torch.float64))

    def decide(self, values: Tensor) -> Tensor:
        """Labels with a value of at least the threshold."""
        return reached(values, self.threshold)


class _Batches:
    """Checked batches that are the same whenever they are gone through."""

    def __init__(self, rule: Rule, batches: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        self.rule, self.batches = rule, batches
        self.rows = 0
        self.first: Tensor | None = None

    @property
    def device(self) -> torch.device:
        return torch.device("cpu") if self.first is None else self.first.device

    def __iter__(self) -> Iterator[Tensor]:
        once_more, rows = self.first is not None, 0
        for batch in self.batches() if callable(self.batches) else self.batches:
            values = self.rule.check_values(batch)
            self.first = values.new_empty(0, values.shape[1]) if self.first is None else self.first
            if values.shape[1] != self.first.shape[1] or values.dtype != self.first.dtype:
                rule = f"have {self.first.shape[1]} labels in {self.first.dtype} like the first one"
                got, remedy = f"{values.shape[1]} in {values.dtype}", "Convert them to one type, with the same labels."
                raise refusal("batches", "AverageK", rule, got, remedy)
            rows += len(values)
            yield values
        if once_more and rows != self.rows:
            rule, got = "be the same in every pass", f"{self.rows} rows, then {rows}"
            raise refusal("batches", "AverageK", rule, got, "Leave them as they are while fitting.")
        self.rows = rows
