"""The base classes of metrics, and their result."""

from __future__ import annotations

import copy
import inspect
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor

from manyhot.checks import as_probs, as_scores, as_targets
from manyhot.distributed import world_size
from manyhot.errors import InputError


@dataclass(frozen=True)
class MetricResult:
    """The values of a metric by name, with counts and details.

    Attributes:
        values: The headline first; NaN where a value is not defined.
        counts: How many rows, labels or cells took part and how many had no value, such as
            {"labels": 78, "labels without positives": 2}.
        details: Values of each label, curves, histograms.
    """

    values: dict[str, float]
    counts: dict[str, int] = field(default_factory=dict)
    details: dict[str, Tensor] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """The headline."""
        return next(iter(self.values.values()))

    def __getitem__(self, name: str) -> float:
        return self.values[name]


State = dict[str, Any]


class Metric(ABC):
    """Collects batches and computes its values from all of them, the same whatever the batches were.

    What a subclass gives to `collect` is added up, and what it gives to `keep` is put into lists. `merge` and `sync`
    follow from that.

    Attributes:
        state: What was collected, by name: sums, and lists of tensors.
        num_labels: The number K of labels, None before the first batch.
    """

    def __init__(self) -> None:
        self.reset()

    @abstractmethod
    def update(self, values: Any, targets: Any) -> Self:
        """Collects a batch: values (N, K), and targets (N, K) of 1 present, 0 absent, -1 unknown; returns itself."""

    @abstractmethod
    def compute(self) -> MetricResult:
        """The result of all collected batches."""

    def reset(self) -> Self:
        """Forgets what was collected; returns itself."""
        self.state: State = {}
        self.num_labels: int | None = None
        return self

    def collect(self, **batch: Tensor) -> Self:
        """Adds a batch to the sums of these names; returns itself."""
        return self._add(batch)

    def keep(self, **batch: Tensor) -> Self:
        """Puts a batch at the end of the lists of these names; returns itself."""
        return self._add({name: [value] for name, value in batch.items()})

    def _add(self, state: State) -> Self:
        # `+` adds tensors and concatenates lists, which are the two ways of merging.
        self.state |= {name: self.state[name] + value if name in self.state else value for name, value in state.items()}
        return self

    def total(self, name: str, *shape: int) -> Tensor:
        """The sum of this name; zeros of this shape before the first batch."""
        return torch.as_tensor(self.state.get(name, torch.zeros(shape, dtype=torch.int64)))

    def parts(self, name: str) -> list[Tensor]:
        """The list of this name."""
        return list(self.state.get(name, []))

    def concatenated(self, name: str) -> Tensor:
        """The list of this name as one new tensor, (0,) before the first batch."""
        return torch.cat(self.parts(name) or [torch.empty(0)])

    @property
    def settings(self) -> dict[str, Any]:
        """What the metric was made with: the arguments of its constructor, which it keeps under their names."""
        return {name: vars(self)[name] for name in inspect.signature(type(self)).parameters if name in vars(self)}

    def merge(self, other: Self) -> Self:
        """Takes over what another metric of the same settings has collected; returns itself."""
        if type(other) is not type(self) or not all(map(_equal, self.settings.values(), other.settings.values())):
            rule = f"be a `{type(self).__name__}` of the same settings"
            raise InputError("other", type(self).__name__, rule, type(other).__name__, "Merge metrics that are alike.")
        self._check_labels(other.num_labels)
        return self._add(other.state)

    def sync(self) -> Self:
        """A metric that has collected the batches of all processes, in the order of ranks; itself without a group."""
        if world_size() == 1:
            return self
        # By way of the CPU, because a device has another name in each process; back to the one that the backend uses.
        device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else "cpu"
        gathered: list[Any] = [None] * world_size()
        dist.all_gather_object(gathered, (self.num_labels, _moved(self.state, "cpu")))
        synced = copy.copy(self).reset()
        for num_labels, state in gathered:
            synced._check_labels(num_labels)
            synced._add(_moved(state, device))
        return synced

    def _check_labels(self, num_labels: int | None) -> None:
        """Raises an error for another number of labels than that of the batches before."""
        if self.num_labels is not None and num_labels is not None and num_labels != self.num_labels:
            rule = f"have the {self.num_labels} labels of the batches before"
            hint = "Use a metric for each set of labels."
            raise InputError("values", type(self).__name__, rule, str(num_labels), hint)
        self.num_labels = self.num_labels if num_labels is None else num_labels

    def _check(self, values: Any, targets: Any, *, probs: bool = False) -> tuple[Tensor, Tensor]:
        owner = type(self).__name__
        checked = as_probs(owner, values) if probs else as_scores(owner, values, name="values")
        known = as_targets(owner, targets, checked, of="probs" if probs else "values")
        self._check_labels(checked.shape[1])
        return checked, known


def mean_of_defined(values: Tensor) -> float:
    """The mean of the values that are not NaN, and NaN if there are none."""
    defined = values[~values.isnan()]
    return float(defined.double().mean()) if len(defined) else math.nan


def _equal(one: Any, other: Any) -> bool:
    tensors = isinstance(one, Tensor) and isinstance(other, Tensor)
    return torch.equal(one, other) if tensors else bool(one == other)


def _moved(state: State, device: torch.device | str) -> State:
    return {
        name: value.to(device) if isinstance(value, Tensor) else [part.to(device) for part in value]
        for name, value in state.items()
    }


class TableMetric(Metric):
    """A metric that keeps all values and targets, as copies."""

    def update(self, values: Any, targets: Any) -> Self:
        """Collects a batch of values and targets, both (N, K); returns itself."""
        values, targets = self._check(values, targets)
        return self.keep(values=values.clone(), targets=targets.clone())

    def table_parts(self) -> list[tuple[Tensor, Tensor]]:
        """The values and targets of each batch."""
        return list(zip(self.parts("values"), self.parts("targets"), strict=True))


class RowMetric(Metric):
    """A metric that collects sums to which each row adds its own part.

    Attributes:
        row_sums: Whether it does so with its settings; if not, it overrides `update`.
    """

    row_sums = True

    @abstractmethod
    def rows(self, values: Any, targets: Any) -> dict[str, Tensor]:
        """What each row adds to the sums, each (N, ...)."""

    def update(self, values: Any, targets: Any) -> Self:
        """Collects a batch of values and targets, both (N, K); returns itself."""
        return self.collect(**{name: part.sum(0) for name, part in self.rows(values, targets).items()})


def divide(part: float, whole: float) -> float:
    """`part / whole`, NaN where there is nothing."""
    return part / whole if whole else math.nan
