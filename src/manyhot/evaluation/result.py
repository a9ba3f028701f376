"""The result of an evaluation: groups of values, a table of labels, and their text, terminal and HTML forms."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

from torch import Tensor

from manyhot.errors import InputError
from manyhot.evaluation.catalog import GROUP_TITLES, format_value, metric_title
from manyhot.formatting import html_table, printable
from manyhot.metrics.bootstrapping import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Group as RichGroup
    from rich.table import Table as RichTable

# Columns that are counts; the others but those in NUMBERS are shares, in percent.
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
        result: dict[str, list[Any]] = {"label": list(self.names)}
        for name, column in self.columns.items():
            result[name] = [None if isinstance(v, float) and not math.isfinite(v) else v for v in column.tolist()]
        return result

    def head(self) -> list[str]:
        """The titles of the columns."""
        return ["label", *(COLUMN_TITLES[name] for name in self.columns)]

    def rows(self) -> Iterator[list[str]]:
        """The texts of each row, shares in percent."""
        cells = [
            [
                "–" if self.too_small and name not in COUNT_COLUMNS else format_label_value(name, value)
                for value in column.tolist()
            ]
            for name, column in self.columns.items()
        ]
        return (list(row) for row in zip(map(printable, self.names), *cells, strict=True))

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
            table.add_row(*(Text(text) for text in row))  # a name in brackets is not markup
        return table

    def _repr_html_(self) -> str:

        return html_table([self.head(), *self.rows()])


def format_label_value(name: str, value: float) -> str:
    """A value of a label, formatted."""
    if value != value:
        return "–"
    if name in COUNT_COLUMNS:
        return f"{int(value):,}"
    return f"{value:.4f}" if name in UNSCALED_COLUMNS else f"{100 * value:.1f}"


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
            result |= {
                "low": _finite_or_none(self.interval.low),
                "high": _finite_or_none(self.interval.high),
                "undefined draws": self.interval.undefined,
            }
        return result


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
                    "details": {key: _nested_lists(detail) for key, detail in group.details.items()},
                }
                for name, group in self.groups.items()
            },
            "by_label": self.label_table.to_dict(),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)

    def __repr__(self) -> str:

        return headline(self)

    def __str__(self) -> str:

        return as_text(self)

    def __rich__(self) -> RichGroup:

        return as_rich(self)

    def _repr_html_(self) -> str:

        return as_html(self)


def too_small(counts: Mapping[str, int]) -> str | None:
    """A message if the counts of an `Evaluation` are too small to evaluate; None where there are enough rows.

    Example:
        >>> too_small({"rows": 1, "rows without known cells": 0})
        'Too few rows to evaluate: 1 row with known labels, and at least 30 are needed. So no figures are given.'
    """
    rows = counts["rows"] - counts["rows without known cells"]
    if rows >= MIN_ROWS:
        return None
    result = f"{rows} row{'' if rows == 1 else 's'} with known labels"
    return f"Too few rows to evaluate: {result}, and at least {MIN_ROWS} are needed. So no figures are given."


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _nested_lists(values: Tensor) -> Any:
    """Nested lists with None for what is not finite."""
    if values.ndim == 0:
        return _finite_or_none(values.item())
    return [_nested_lists(value) for value in values]


def headline(evaluation: Evaluation) -> str:
    """What was evaluated, in one line."""
    counts = evaluation.counts
    split = "" if evaluation.split is None else f" of the split {evaluation.split!r}"
    return f"Evaluation of {counts['rows']:,} rows{split} x {counts['labels']:,} labels ({', '.join(evaluation.kinds)})"


def all_notes(evaluation: Evaluation) -> list[str]:
    """What must be known before any value is read."""
    return [*filter(None, [evaluation.too_small]), *evaluation.notes]


def counts_line(evaluation: Evaluation) -> str:
    """What is present, unknown and empty, in one line."""
    return format_counts({name: count for name, count in evaluation.counts.items() if name not in ("rows", "labels")})


def format_counts(counts: dict[str, int]) -> str:
    """Counts in words, without those that are zero.

    Example:
        >>> format_counts({"labels": 1078, "labels without positives": 2, "labels without negatives": 0})
        'labels: 1,078, labels without positives: 2'
    """
    return ", ".join(f"{name}: {count:,}" for name, count in counts.items() if count)


def value_rows(group: Group, evaluation: Evaluation) -> list[list[str]]:
    """Title, value, interval and counts of each value of a group; counts only where they change."""
    output, before, too_small = [], None, evaluation.too_small is not None
    for name, value in group.values.items():
        interval = None if too_small else value.interval
        between = (
            "" if interval is None else f"[{format_value(name, interval.low)}, {format_value(name, interval.high)}]"
        )
        output.append(
            [
                metric_title(name),
                format_value(name, None if too_small else value.value),
                between,
                "" if value.counts == before else format_counts(value.counts),
            ]
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


def as_text(evaluation: Evaluation) -> str:
    """Plain text, as `print` shows it."""
    output = [headline(evaluation), *filter(None, [counts_line(evaluation)]), *all_notes(evaluation)]
    for name, group in evaluation.groups.items():
        output += ["", GROUP_TITLES[name]]
        output += [f"  {line}" for line in text_table(value_rows(group, evaluation), left=(0, 3))]
        output += [f"  Note: {note}" for note in group.notes]
    return "\n".join(output)


def as_rich(evaluation: Evaluation) -> RichGroup:
    """For a terminal, by rich."""
    from rich.console import Group as RichGroup
    from rich.table import Table
    from rich.text import Text

    parts: list[Table | Text] = [Text(headline(evaluation), style="bold"), Text(counts_line(evaluation), style="dim")]
    parts += [Text(note) for note in all_notes(evaluation)]
    for name, group in evaluation.groups.items():
        table = Table(title=GROUP_TITLES[name], title_justify="left", title_style="bold", show_header=False, box=None)
        for justify, style in (("left", ""), ("right", "bold"), ("right", "dim"), ("left", "dim")):
            table.add_column(justify=justify, style=style)  # type: ignore[arg-type]
        for line in value_rows(group, evaluation):
            table.add_row(*(Text(text) for text in line))
        parts += [Text(""), table if group.values else Text(GROUP_TITLES[name], style="bold")]
        parts += [Text(f"  Note: {note}", style="italic") for note in group.notes]
    return RichGroup(*parts)


def as_html(evaluation: Evaluation) -> str:
    """For a notebook."""
    output = [f"<h3>{escape(headline(evaluation))}</h3><p>{escape(counts_line(evaluation))}</p>"]
    output += [f"<p>{escape(note)}</p>" for note in all_notes(evaluation)]
    for name, group in evaluation.groups.items():
        output.append(f"<h4>{escape(GROUP_TITLES[name])}</h4>")
        output += (
            [html_table([["", "value", "interval", "from"], *value_rows(group, evaluation)])] if group.values else []
        )
        output += [f"<p><em>{escape(note)}</em></p>" for note in group.notes]
    return "".join(output)
