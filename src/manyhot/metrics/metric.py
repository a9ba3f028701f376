"""The base classes of metrics, and their result."""

from __future__ import annotations

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor

from manyhot.checks import as_probs, as_scores, as_targets
from manyhot.distributed import gather, world_size
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


State = dict[str, Tensor | list[Tensor]]


class Metric(ABC):
    """Collects batches and computes its values from all of them, the same whatever the batches were.

    A subclass returns in `start` what it collects: tensors, which are added up, and lists of tensors, which are
    concatenated. `merge` and `sync` follow from that.

    Attributes:
        state: What was collected, by name.
        num_labels: The number K of labels, None before the first batch.
    """

    def __init__(self) -> None:
        self.state: State = self.start()
        self.num_labels: int | None = None

    @abstractmethod
    def start(self) -> State:
        """What is collected before the first batch; a sum of unknown shape starts as a zero without dimensions."""

    @abstractmethod
    def update(self, values: Any, targets: Any) -> Self:
        """Collects a batch: values (N, K), and targets (N, K) of 1 present, 0 absent, -1 unknown; returns itself."""

    @abstractmethod
    def compute(self) -> MetricResult:
        """The result of all collected batches."""

    def reset(self) -> Self:
        """Forgets what was collected; returns itself."""
        self.state = self.start()
        self.num_labels = None
        return self

    def collect(self, **batch: Tensor) -> Self:
        """Adds a batch to the sums and puts it at the end of the lists of these names; returns itself."""
        for name, value in batch.items():
            collected = self.state[name]
            if isinstance(collected, list):
                collected.append(value)
            else:
                self.state[name] = collected + value
        return self

    def total(self, name: str) -> Tensor:
        """The sum of this name."""
        total = self.state[name]
        assert isinstance(total, Tensor)
        return total

    def parts(self, name: str) -> list[Tensor]:
        """The list of this name."""
        parts = self.state[name]
        assert isinstance(parts, list)
        return parts

    def concatenated(self, name: str) -> Tensor:
        """The list of this name as one new tensor, (0,) before the first batch."""
        return _concatenate(self.parts(name))

    @property
    def settings(self) -> dict[str, Any]:
        """What the metric was made with: the arguments of its constructor, which it keeps under their names."""
        return {name: vars(self)[name] for name in inspect.signature(type(self)).parameters if name in vars(self)}

    def merge(self, other: Self) -> Self:
        """Takes over what another metric of the same settings has collected; returns itself."""
        if type(other) is not type(self) or other.settings != self.settings:
            rule = f"be a `{type(self).__name__}` of the same settings"
            raise InputError("other", type(self).__name__, rule, type(other).__name__, "Merge metrics that are alike.")
        self._check_labels(other.num_labels)
        # `+` adds tensors and concatenates lists, which are the two ways of merging.
        self.state = {name: collected + other.state[name] for name, collected in self.state.items()}  # type: ignore[operator]
        return self

    def sync(self) -> Self:
        """A metric that has collected the batches of all processes, in the order of ranks; itself without a group."""
        if world_size() == 1:
            return self
        device = _device_of_backend()
        parts = {name: gather(_concatenate(value).to(device)) for name, value in self.state.items()}
        synced = copy.copy(self)
        labels = gather(torch.tensor(-1 if self.num_labels is None else self.num_labels, device=device))
        for num_labels in labels:
            synced._check_labels(None if int(num_labels) < 0 else int(num_labels))
        synced.state = {
            # A process without batches has sent an empty list, whose shape cannot be concatenated with the others.
            name: [part for part, num_labels in zip(parts[name], labels, strict=True) if int(num_labels) >= 0]
            if isinstance(value, list)
            else sum(parts[name][1:], start=parts[name][0])
            for name, value in self.state.items()
        }
        return synced

    def _check_labels(self, num_labels: int | None) -> None:
        """Raises an error for another number of labels than that of the batches before."""
        if self.num_labels is not None and num_labels is not None and num_labels != self.num_labels:
            rule = f"have the {self.num_labels} labels of the batches before"
            raise InputError(
                "values", type(self).__name__, rule, str(num_labels), "Use a metric for each set of labels."
            )
        self.num_labels = self.num_labels if num_labels is None else num_labels

    def _check(self, values: Any, targets: Any, *, probs: bool = False) -> tuple[Tensor, Tensor]:
        owner = type(self).__name__
        name = "probs" if probs else "values"
        checked = as_probs(owner, values) if probs else as_scores(owner, values, name="values")
        known = as_targets(owner, targets, checked, of=name)
        self._check_labels(checked.shape[1])
        return checked, known


def mean_of_defined(values: Tensor) -> float:
    """The mean of the values that are not NaN, and NaN if there are none."""
    defined = values[~values.isnan()]
    return float(defined.double().mean()) if len(defined) else math.nan


def _device_of_backend() -> torch.device:
    """The device that the backend sends from; a process without batches has no tensor to take it from."""
    if dist.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _concatenate(value: Tensor | list[Tensor]) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return torch.cat(value) if value else torch.empty(0)


class RowMetric(Metric):
    """A metric that collects sums to which each row adds its own part."""

    @abstractmethod
    def rows(self, values: Any, targets: Any) -> dict[str, Tensor] | None:
        """What each row adds to the state, each (N, ...); None where a setting needs more than such sums."""

    def update(self, values: Any, targets: Any) -> Self:
        """Collects a batch of values and targets, both (N, K); returns itself."""
        parts = self.rows(values, targets)
        assert parts is not None, "a metric that is not a sum over rows must override `update`"
        return self.collect(**{name: part.sum(0) for name, part in parts.items()})


def zeros(names: Iterable[str], dtype: torch.dtype) -> State:
    """Zeros of these names before the first batch, which determines their shape."""
    return {name: torch.zeros((), dtype=dtype) for name in names}


def by_label(total: Tensor) -> Tensor:
    """A sum by label, (K,); (0,) before the first batch, which determines the number of labels."""
    return total if total.ndim else total.new_zeros(0)


def divide(part: float, whole: float) -> float:
    """`part / whole`, NaN where there is nothing."""
    return part / whole if whole else math.nan
