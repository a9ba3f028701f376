"""What an evaluation found: groups of named values, each with what it was computed from."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from manyhot.evaluation.label_table import LabelTable
from manyhot.metrics.intervals import Interval
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Group as RichGroup

# With fewer rows, up to a tenth of all answers may be wrong (at a level of 95 %) although not one of these is.
FEWEST_ROWS = 30


@dataclass(frozen=True)
class Value:
    """One number, and what it was computed from.

    Attributes:
        value: A share as a fraction; NaN where it is not defined.
        counts: How many rows, labels or cells took part, and how many were left out.
        interval: What other samples would have made of it, where that was asked for.
    """

    value: float
    counts: dict[str, int] = field(default_factory=dict)
    interval: Interval | None = None

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        found: dict[str, Any] = {"value": _number(self.value), "counts": self.counts}
        if self.interval is not None:
            found |= {
                "low": _number(self.interval.low),
                "high": _number(self.interval.high),
                "undefined draws": self.interval.undefined,
            }
        return found


@dataclass(frozen=True)
class Group:
    """Values that belong together.

    Attributes:
        values: By name, the headline first; empty if the group was left out, which the notes explain.
        notes: What a reader must know, in sentences.
        details: Curves and histograms behind the values.
    """

    values: dict[str, Value] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    details: dict[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.values[name].value


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Everything that is worth knowing about a table of predictions; `evaluate` makes one.

    Print it for a table in percent; a notebook shows it by itself. The API speaks in fractions.

    Attributes:
        groups: "ranking", "probabilities", "sets" and, where they apply, "no_label", "one_label" and "shots".
        counts: How many rows, labels and cells there are, and what is unknown or empty.
        kinds: What the table holds.
        label_table: The values of each label.
        level: The level of the intervals, None without them.
        notes: What a reader must know about all of it.
        split: The split that was judged; None for all rows.
    """

    groups: dict[str, Group]
    counts: dict[str, int]
    kinds: tuple[str, ...]
    label_table: LabelTable
    level: float | None = None
    notes: list[str] = field(default_factory=list)
    split: str | None = None

    @property
    def too_small(self) -> str | None:
        """Why there are too few rows to judge by, in a sentence; None where there are enough.

        Printed tables then show no figures. The values are still here, for those who know what they do.
        """
        return too_small(self.counts)

    @property
    def values(self) -> dict[str, float]:
        """All values by name."""
        return {name: value.value for group in self.groups.values() for name, value in group.values.items()}

    @property
    def intervals(self) -> dict[str, Interval]:
        """All intervals by name; empty if they were not asked for."""
        return {
            name: value.interval
            for group in self.groups.values()
            for name, value in group.values.items()
            if value.interval is not None
        }

    def __getitem__(self, name: str) -> float:
        """The value of this name, such as `evaluation["map"]`."""
        values = self.values
        if name not in values:
            remedy = f"There are {', '.join(values)}."
            raise refusal("name", "Evaluation", "be one of its values", repr(name), remedy)
        return values[name]

    def by_label(self) -> LabelTable:
        """The values of each label as a table that can be printed."""
        return self.label_table

    def to_dict(self) -> dict[str, Any]:
        """All of it as values that JSON can hold; None for what is not defined."""
        return {
            "kinds": list(self.kinds),
            "split": self.split,
            "too_small": self.too_small,
            "counts": self.counts,
            "level": self.level,
            "notes": self.notes,
            "groups": {
                name: {
                    "values": {key: value.to_dict() for key, value in group.values.items()},
                    "notes": group.notes,
                    "details": {key: _numbers(detail) for key, detail in group.details.items()},
                }
                for name, group in self.groups.items()
            },
            "by_label": self.label_table.to_dict(),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)

    def __repr__(self) -> str:
        from manyhot.evaluation.showing import headline

        return headline(self)

    def __str__(self) -> str:
        from manyhot.evaluation.showing import as_text

        return as_text(self)

    def __rich__(self) -> RichGroup:
        from manyhot.evaluation.showing import as_rich

        return as_rich(self)

    def _repr_html_(self) -> str:
        from manyhot.evaluation.showing import as_html

        return as_html(self)


def too_small(counts: Mapping[str, int]) -> str | None:
    """Why rows of these counts, those of an `Evaluation`, are too few to judge by; None where there are enough.

    Example:
        >>> too_small({"rows": 1, "rows without known cells": 0})
        'Too small to judge by: 1 row with known labels, and at least 30 are needed. So no figures are given.'
    """
    rows = counts["rows"] - counts["rows without known cells"]
    if rows >= FEWEST_ROWS:
        return None
    found = f"{rows} row{'' if rows == 1 else 's'} with known labels"
    return f"Too small to judge by: {found}, and at least {FEWEST_ROWS} are needed. So no figures are given."


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _numbers(values: Tensor) -> Any:
    """Nested lists with None for what is not finite."""
    if values.ndim == 0:
        return _number(values.item())
    return [_numbers(value) for value in values]
