"""The values of each label, as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from manyhot.terminal import printable

if TYPE_CHECKING:
    from rich.table import Table as RichTable

# Columns that are counts; the others but those in NUMBERS are shares, in percent.
COUNTS = ("train_count", "known", "present", "given")
NUMBERS = ("brier", "log_loss")
# Left out on a terminal, where all the others just fit.
LONGER = ("known", "brier")
TITLES = {
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
    """One row a label, one column a value.

    Attributes:
        names: The names of the labels.
        columns: (K,) by name: "known" and "present" cells, "ap", "auroc", and as far as there are probabilities and
            decisions "ece", "brier", "log_loss", "given" (how often among known cells), "precision", "recall", "f"; NaN
            where a label has no such value.
        too_small: Whether there are too few rows to judge by, so that only counts are shown.

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
        found: dict[str, list[Any]] = {"label": list(self.names)}
        for name, column in self.columns.items():
            found[name] = [None if isinstance(v, float) and not math.isfinite(v) else v for v in column.tolist()]
        return found

    def head(self) -> list[str]:
        """The titles of the columns."""
        return ["label", *(TITLES[name] for name in self.columns)]

    def rows(self) -> Iterator[list[str]]:
        """The texts of each row, shares in percent."""
        texts = [
            ["–" if self.too_small and name not in COUNTS else shown(name, value) for value in column.tolist()]
            for name, column in self.columns.items()
        ]
        return (list(row) for row in zip(map(printable, self.names), *texts, strict=True))

    def __str__(self) -> str:
        from manyhot.evaluation.showing import text_table

        return "\n".join(text_table([self.head(), *self.rows()]))

    def __rich__(self) -> RichTable:
        from rich.table import Table
        from rich.text import Text

        # Without lines between the columns, so that all of them fit on a terminal of eighty characters.
        table = Table(title="Labels", title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
        table.add_column("label", min_width=12, max_width=24, overflow="fold")
        narrow = replace(self, columns={name: self.columns[name] for name in self.columns if name not in LONGER})
        for title in narrow.head()[1:]:
            table.add_column(title, justify="right", no_wrap=True)
        for row in narrow.rows():
            table.add_row(*(Text(text) for text in row))  # a name in brackets is not markup
        return table

    def _repr_html_(self) -> str:
        from manyhot.evaluation.showing import html_table

        return html_table([self.head(), *self.rows()])


def shown(name: str, value: float) -> str:
    """A value of a label as people read it."""
    if value != value:
        return "–"
    if name in COUNTS:
        return f"{int(value):,}"
    return f"{value:.4f}" if name in NUMBERS else f"{100 * value:.1f}"
