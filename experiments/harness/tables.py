"""Tables of figures as Markdown: means over seeds with intervals, and in bold the best with all that are not worse."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.harness.statistics import Interval, over_seeds, paired
from manyhot.refusal import refusal

# Text, a single figure, one for each seed in the same order in all rows, an interval, or nothing.
Cell = str | float | Sequence[float | None] | Interval | None
MISSING = "–"


@dataclass(frozen=True)
class Column:
    """How the figures of a column are shown.

    Attributes:
        name: In the head of the table.
        unit: "percent" for fractions, which are shown times 100, or "plain".
        digits: After the point.
        best: "high" or "low", which of the figures are set in bold; None for none.
    """

    name: str
    unit: str = "percent"
    digits: int = 1
    best: str | None = "high"

    def __post_init__(self) -> None:
        if self.unit not in ("percent", "plain"):
            raise refusal("unit", "Column", "be 'percent' or 'plain'", repr(self.unit), "Pick one.")
        if self.best not in ("high", "low", None):
            raise refusal("best", "Column", "be 'high', 'low' or None", repr(self.best), "Pick one.")

    def shown(self, cell: Cell) -> str:
        """A cell as text."""
        if isinstance(cell, str):
            return cell.replace("|", "\\|")
        found = summary(cell)
        if found is None:
            return MISSING
        factor = 100 if self.unit == "percent" else 1
        mean = f"{factor * found.mean:z.{self.digits}f}"
        return mean if found.half is None else f"{mean} ± {factor * found.half:.{self.digits}f}"


@dataclass(frozen=True)
class Table:
    """Columns, and rows with a cell for each."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                rule = f"have a cell for each of the {len(self.columns)} columns"
                raise refusal("rows", "Table", rule, str(len(row)), "Put None where there is no figure.")

    def markdown(self) -> str:
        """The table as text; a figure that is not significantly worse than the best of its column is bold too."""
        texts, marks = [], []
        for column, cells in zip(self.columns, self._cells(), strict=True):
            shown, bold = [column.shown(cell) for cell in cells], best_cells(cells, column.best)
            texts.append([f"**{text}**" if place in bold else text for place, text in enumerate(shown)])
            marks.append("---" if any(isinstance(cell, str) for cell in cells) else "---:")
        lines = [[column.name.replace("|", "\\|") for column in self.columns], marks, *zip(*texts, strict=True)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"

    def _cells(self) -> list[list[Cell]]:
        """Column by column."""
        return [[row[place] for row in self.rows] for place in range(len(self.columns))]


def summary(cell: Cell) -> Interval | None:
    """The mean of a cell, and its interval where it has one; None for text and for what is not defined."""
    if isinstance(cell, Interval | None):
        return cell
    if isinstance(cell, str):
        return None
    return over_seeds(cell if isinstance(cell, Sequence) else [cell])


def best_cells(cells: Sequence[Cell], best: str | None) -> set[int]:
    """The places of the best cell and of those tied with it; none where there is nothing to choose from."""
    means = {place: found.mean for place, found in enumerate(map(summary, cells)) if found is not None}
    if best is None or len(means) < 2:
        return set()
    first = (max if best == "high" else min)(means, key=means.__getitem__)
    return {place for place in means if means[place] == means[first] or _tied(cells[first], cells[place])}


def _tied(one: Cell, other: Cell) -> bool:
    """Whether two figures may be equal for all that their intervals tell; single figures tell nothing."""
    by_seed = (isinstance(cell, Sequence) for cell in (one, other))
    if all(by_seed) and len(one) == len(other):
        gap = paired(one, other)
    else:
        a, b = summary(one), summary(other)
        half = None if a.half is None or b.half is None else math.hypot(a.half, b.half)
        gap = Interval(a.mean - b.mean, half, min(a.n, b.n))
    return gap is not None and gap.half is not None and not gap.is_significant
