"""`Evaluation` and `LabelTable`: values, intervals and counts, with text, terminal, HTML and JSON forms."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manyhot.errors import InputError
from manyhot.evaluation.catalog import GROUP_TITLES, format_value, metric_title
from manyhot.formatting import count_noun, html_table, printable
from manyhot.metrics.bootstrapping import Interval

if TYPE_CHECKING:
    from rich.console import Group as RichGroup
    from rich.table import Table as RichTable

# Columns that are counts; the others but those in UNSCALED_COLUMNS are shares, in percent.
COUNT_COLUMNS = ("train_count", "known", "present", "given")
UNSCALED_COLUMNS = ("brier", "log_loss")
# Left out on a terminal, where all the others just fit.
WIDE_COLUMNS = ("known", "brier")
COLUMN_TITLES = {
    "train_count": "training",
    "known": "known",
    "present": "present",
    "given": "given",
    "ap": "AP %",
    "auroc": "AUROC %",
    "ece": "ECE %",
    "brier": "Brier",
    "log_loss": "log loss",
    "precision": "prec. %",
    "recall": "rec. %",
    "f": "F1 %",
}


@dataclass(frozen=True)
class LabelTable:
    """One row per label, one column per value.

    Attributes:
        names: The names of the labels.
        columns: (K,) by name: "known" and "present" cells, "ap", "auroc", and as far as there are probabilities and
            decisions "ece", "brier", "log_loss", "given" (how many known cells are predicted present), "precision",
            "recall", "f"; NaN where a label has no such value.
        too_small: Whether there are too few rows to evaluate, so that only counts are shown.

    Example:
        >>> table = LabelTable(["cat"], {"present": torch.tensor([3]), "ap": torch.tensor([0.5])})
        >>> print(table)
        label  present  AP %
        cat          3  50.0
    """

    names: list[str]
    columns: dict[str, Tensor]
    too_small: bool = False

    def __len__(self) -> int:
        """The number K of labels."""
        return len(self.names)

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns as lists, which a data frame can be made of; None for what is not defined."""
        return {"label": list(self.names)} | {name: _as_lists(column) for name, column in self.columns.items()}

    @classmethod
    def from_dict(cls, columns: Mapping[str, list[Any]], *, too_small: bool = False) -> LabelTable:
        """The table of what `to_dict` gave."""
        tensors = {name: _as_tensor(values) for name, values in columns.items() if name != "label"}
        return cls(list(columns["label"]), tensors, too_small)

    def head(self) -> list[str]:
        """The titles of the columns."""
        return ["label", *(COLUMN_TITLES[name] for name in self.columns)]

    def rows(self) -> Iterator[list[str]]:
        """The texts of each row, shares in percent."""
        cells = [[self._format(name, value) for value in column.tolist()] for name, column in self.columns.items()]
        return (list(row) for row in zip(map(printable, self.names), *cells, strict=True))

    def _format(self, name: str, value: float) -> str:
        if name in COUNT_COLUMNS:
            return f"{int(value):,}"
        if self.too_small or value != value:
            return "–"
        return f"{value:.4f}" if name in UNSCALED_COLUMNS else f"{100 * value:.1f}"

    def __str__(self) -> str:

        return "\n".join(text_table([self.head(), *self.rows()]))

    def __rich__(self) -> RichTable:
        from rich.table import Table
        from rich.text import Text

        # Without lines between the columns, so that all of them fit on a terminal of eighty characters.
        table = Table(title="Labels", title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
        table.add_column("label", min_width=12, max_width=24, overflow="fold")
        narrow = replace(self, columns={name: self.columns[name] for name in self.columns if name not in WIDE_COLUMNS})
        for title in narrow.head()[1:]:
            table.add_column(title, justify="right", no_wrap=True)
        for row in narrow.rows():
            table.add_row(*map(Text, row))  # a name in brackets is not markup
        return table

    def _repr_html_(self) -> str:

        return html_table([self.head(), *self.rows()])


# With fewer rows, up to a tenth of all answers may be wrong (at a level of 95 %) although not one of these is.
MIN_ROWS = 30


@dataclass(frozen=True)
class Value:
    """One number, and what it was computed from.

    Attributes:
        value: A share as a fraction; NaN where it is not defined.
        counts: How many rows, labels or cells took part, and how many were left out.
        interval: The bootstrap interval, where it was requested.
    """

    value: float
    counts: dict[str, int] = field(default_factory=dict)
    interval: Interval | None = None

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        result: dict[str, Any] = {"value": _finite_or_none(self.value), "counts": self.counts}
        if self.interval is not None:
            ends = {"low": _finite_or_none(self.interval.low), "high": _finite_or_none(self.interval.high)}
            result |= ends | {"undefined draws": self.interval.undefined}
        return result

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Value:
        """The value of what `to_dict` gave."""
        value, low, high = (_nan_if_none(content.get(name)) for name in ("value", "low", "high"))
        undefined = content.get("undefined draws")
        interval = None if undefined is None else Interval(value, low, high, undefined)
        return cls(value, content["counts"], interval)


@dataclass(frozen=True)
class Group:
    """Values that belong together.

    Attributes:
        values: By name, the headline first; empty if the group was left out, which the notes explain.
        notes: Remarks on the values.
        details: Curves and histograms behind the values.
    """

    values: dict[str, Value] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    details: dict[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.values[name].value

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        values = {name: value.to_dict() for name, value in self.values.items()}
        details = {name: _as_lists(detail) for name, detail in self.details.items()}
        return {"values": values, "notes": self.notes, "details": details}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Group:
        """The group of what `to_dict` gave."""
        values = {name: Value.from_dict(value) for name, value in content["values"].items()}
        return cls(values, content["notes"], {name: _as_tensor(lists) for name, lists in content["details"].items()})


@dataclass(frozen=True, repr=False)
class Evaluation:
    """All metrics of a table of predictions, as `evaluate` returns them.

    Printed, and shown in a notebook, as tables in percent. Values in Python are fractions.

    Attributes:
        groups: "ranking", "probabilities", "sets" and, where they apply, "no_label", "one_label" and "shots".
        counts: How many rows, labels and cells there are, and what is unknown or empty.
        kinds: What the table holds.
        label_table: The values of each label.
        level: The level of the intervals, None without them.
        notes: Remarks on all of it.
        split: The split that was evaluated; None for all rows.
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
        """A message if there are too few rows to evaluate; None where there are enough.

        Printed tables then show counts only. The values are still here.
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
            hint = f"There are {', '.join(values)}."
            raise InputError("name", "Evaluation", "be one of its values", repr(name), hint)
        return values[name]

    def by_label(self) -> LabelTable:
        """The values of each label as a table that can be printed."""
        return self.label_table

    def to_dict(self) -> dict[str, Any]:
        """All of it as values that JSON can hold, in full precision; None for what is not defined."""
        return {
            "kinds": list(self.kinds),
            "split": self.split,
            "too_small": self.too_small,
            "counts": self.counts,
            "level": self.level,
            "notes": self.notes,
            "groups": {name: group.to_dict() for name, group in self.groups.items()},
            "by_label": self.label_table.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Evaluation:
        """The evaluation of what `to_dict` gave.

        Example:
            >>> table = mh.Predictions(probs=torch.rand(60, 2), targets=torch.randint(2, (60, 2)))
            >>> evaluation = mh.evaluate(table)
            >>> str(Evaluation.from_dict(evaluation.to_dict())) == str(evaluation)
            True
        """
        groups = {name: Group.from_dict(group) for name, group in content["groups"].items()}
        counts = content["counts"]
        by_label = LabelTable.from_dict(content["by_label"], too_small=too_small(counts) is not None)
        kinds, split = tuple(content["kinds"]), content.get("split")  # the first version had no split
        return cls(groups, counts, kinds, by_label, content["level"], content["notes"], split)

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)

    def __repr__(self) -> str:
        """What was evaluated, in one line."""
        rows, labels = self.counts["rows"], self.counts["labels"]
        split = "" if self.split is None else f" of the split {self.split!r}"
        return f"Evaluation of {rows:,} rows{split} x {labels:,} labels ({', '.join(self.kinds)})"

    def _summary(self) -> tuple[str, list[str]]:
        """What is present, unknown and empty, in one line, and what must be known before any value is read."""
        counts = {name: count for name, count in self.counts.items() if name not in ("rows", "labels")}
        return format_counts(counts), [*filter(None, [self.too_small]), *self.notes]

    def __str__(self) -> str:
        counts, notes = self._summary()
        output = [repr(self), *filter(None, [counts]), *notes]
        for name, group in self.groups.items():
            output += ["", GROUP_TITLES[name]]
            output += [f"  {line}" for line in text_table(value_rows(group, self), left=(0, 3))]
            output += [f"  Note: {note}" for note in group.notes]
        return "\n".join(output)

    def __rich__(self) -> RichGroup:
        from rich.console import Group as RichGroup
        from rich.table import Table
        from rich.text import Text

        counts, notes = self._summary()
        parts: list[Table | Text] = [Text(repr(self), style="bold"), Text(counts, style="dim"), *map(Text, notes)]
        for name, group in self.groups.items():
            title = Text(GROUP_TITLES[name], style="bold")
            table = Table(title=title, title_justify="left", show_header=False, box=None)
            for justify, style in (("left", ""), ("right", "bold"), ("right", "dim"), ("left", "dim")):
                table.add_column(justify=justify, style=style)  # type: ignore[arg-type]
            for line in value_rows(group, self):
                table.add_row(*map(Text, line))
            parts += [Text(""), table if group.values else title]
            parts += [Text(f"  Note: {note}", style="italic") for note in group.notes]
        return RichGroup(*parts)

    def _repr_html_(self) -> str:
        counts, notes = self._summary()
        output = [f"<h3>{escape(repr(self))}</h3>", *(f"<p>{escape(text)}</p>" for text in (counts, *notes))]
        for name, group in self.groups.items():
            output.append(f"<h4>{escape(GROUP_TITLES[name])}</h4>")
            if group.values:
                output.append(html_table([["", "value", "interval", "from"], *value_rows(group, self)]))
            output += [f"<p><em>{escape(note)}</em></p>" for note in group.notes]
        return "".join(output)


def too_small(counts: Mapping[str, int]) -> str | None:
    """A message if the counts of an `Evaluation` are too small to evaluate; None where there are enough rows.

    Example:
        >>> too_small({"rows": 1, "rows without known cells": 0})
        'Too few rows to evaluate: 1 row with known labels, and at least 30 are needed. So no figures are given.'
    """
    rows = counts["rows"] - counts["rows without known cells"]
    if rows >= MIN_ROWS:
        return None
    known = f"{count_noun(rows, 'row')} with known labels"
    return f"Too few rows to evaluate: {known}, and at least {MIN_ROWS} are needed. So no figures are given."


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _nan_if_none(value: float | None) -> float:
    return math.nan if value is None else value


def _as_lists(values: Tensor) -> Any:
    """Nested lists with None for what is not finite."""
    array = values.cpu().numpy()
    result = array.astype(object)
    result[~np.isfinite(array)] = None
    return result.tolist()


def _as_tensor(lists: list[Any]) -> Tensor:
    """Nested lists as a tensor: of whole numbers if all of them are, otherwise with NaN for None."""
    array = np.array(lists)
    return torch.from_numpy(array.astype(np.float64) if array.dtype == object else array)


def format_counts(counts: dict[str, int]) -> str:
    """Counts in words, without those that are zero.

    Example:
        >>> format_counts({"labels": 1078, "labels without positives": 2, "labels without negatives": 0})
        'labels: 1,078, labels without positives: 2'
    """
    return ", ".join(f"{name}: {count:,}" for name, count in counts.items() if count)


def value_rows(group: Group, evaluation: Evaluation) -> list[list[str]]:
    """Title, value, interval and counts of each value of a group; counts only where they change."""
    output: list[list[str]] = []
    before, small = None, evaluation.too_small is not None
    for name, value in group.values.items():
        ends = None if small else value.interval
        between = "" if ends is None else f"[{format_value(name, ends.low)}, {format_value(name, ends.high)}]"
        shown = format_value(name, None if small else value.value)
        output.append(
            [metric_title(name), shown, between, "" if value.counts == before else format_counts(value.counts)]
        )
        before = value.counts
    return output


def text_table(rows: list[list[str]], *, left: tuple[int, ...] = (0,)) -> list[str]:
    """Rows of texts as lines with columns one below the other; numbers to the right, `left` columns to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if index in left else text.rjust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
