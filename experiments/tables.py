"""Means over seeds with 95 % intervals, and Markdown tables of them: the best is bold, with all that are not worse."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.runs import Job, RunStore
from manyhot.errors import InputError

# What 97.5 % of Student's t stay below, for 1 to 10 degrees of freedom; beyond, an expansion is as exact.
QUANTILES = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139)
NORMAL_QUANTILE = 1.959963985


@dataclass(frozen=True)
class MeanInterval:
    """A mean, and how far it may be off.

    Attributes:
        mean: Of the values.
        half: Half the width of the 95 % interval; None for a single value, which tells nothing about it.
        n: How many values there were.
    """

    mean: float
    half: float | None
    n: int

    @property
    def is_significant(self) -> bool:
        """Whether 0 lies outside."""
        return self.half is not None and abs(self.mean) > self.half


def over_seeds(values: Sequence[float | None]) -> MeanInterval | None:
    """The mean over seeds with its 95 % interval by Student's t; None if a value is not defined.

    Args:
        values: One for each seed.
    """
    if not values:
        raise InputError("values", "over_seeds", "hold a value for each seed", "none", "Pass at least one.")
    if any(value is None for value in values):
        return None
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return MeanInterval(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return MeanInterval(mean, student_quantile(count - 1) * math.sqrt(variance / count), count)


def paired(a: Sequence[float | None], b: Sequence[float | None]) -> MeanInterval | None:
    """The mean of `a` less `b`, seed by seed: what the seeds share cancels out; None if a value is not defined.

    Args:
        a: One value for each seed.
        b: Values of the same seeds in the same order.
    """
    if len(a) != len(b):
        raise InputError("b", "paired", f"have the {len(a)} seeds of `a`", str(len(b)), "Run both with the same seeds.")
    both = zip(a, b, strict=True)
    return over_seeds([None if one is None or other is None else one - other for one, other in both])


def student_quantile(degrees: int) -> float:
    """What 97.5 % of Student's t with so many degrees of freedom stay below."""
    if degrees <= len(QUANTILES):
        return QUANTILES[degrees - 1]
    z = NORMAL_QUANTILE
    # Cornish and Fisher, in powers of 1 / degrees.
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / degrees**power for power, term in enumerate(terms))


@dataclass(frozen=True)
class Spread:
    """How much a figure varies from seed to seed, as all arms of a table tell it together.

    Two or three seeds of one arm tell next to nothing about it; those of twenty arms do, if it is about the same for
    all of them.

    Attributes:
        deviation: Standard deviation over seeds; None where no arm has two.
        degrees: Degrees of freedom: seeds beyond the first, over all arms.
    """

    deviation: float | None
    degrees: int

    @classmethod
    def of(cls, methods: Iterable[Sequence[float | None]]) -> "Spread":
        """From the values of each arm, one for each seed; those that are not defined are left out."""
        squares, degrees = 0.0, 0
        for values in methods:
            known = [value for value in values if value is not None]
            if len(known) > 1:
                mean = math.fsum(known) / len(known)
                squares += math.fsum((value - mean) ** 2 for value in known)
                degrees += len(known) - 1
        return cls(math.sqrt(squares / degrees) if degrees else None, degrees)

    def mean(self, values: Sequence[float | None]) -> MeanInterval | None:
        """The mean of an arm with its 95 % interval; None where nothing is defined."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return MeanInterval(math.fsum(known) / len(known), self._half(1 / len(known)), len(known))

    def gap(self, one: Sequence[float | None], other: Sequence[float | None]) -> MeanInterval | None:
        """The mean of one arm less that of another, whose seeds may be others."""
        a, b = self.mean(one), self.mean(other)
        if a is None or b is None:
            return None
        return MeanInterval(a.mean - b.mean, self._half(1 / a.n + 1 / b.n), min(a.n, b.n))

    def _half(self, share: float) -> float | None:
        if self.deviation is None:
            return None
        return student_quantile(self.degrees) * self.deviation * math.sqrt(share)


# Text, a single figure, one for each seed in the same order in all rows, an interval, or nothing.
Cell = str | float | Sequence[float | None] | MeanInterval | None
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
            raise InputError("unit", "Column", "be 'percent' or 'plain'", repr(self.unit), "Pick one.")
        if self.best not in ("high", "low", None):
            raise InputError("best", "Column", "be 'high', 'low' or None", repr(self.best), "Pick one.")

    def shown(self, cell: Cell) -> str:
        """A cell as text."""
        if isinstance(cell, str):
            return cell.replace("|", "\\|")
        interval = summary(cell)
        if interval is None:
            return MISSING
        factor = 100 if self.unit == "percent" else 1
        mean = f"{factor * interval.mean:z.{self.digits}f}"
        return mean if interval.half is None else f"{mean} ± {factor * interval.half:.{self.digits}f}"


@dataclass(frozen=True)
class Table:
    """Columns, and rows with a cell for each."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                rule = f"have a cell for each of the {len(self.columns)} columns"
                raise InputError("rows", "Table", rule, str(len(row)), "Put None where there is no figure.")

    def markdown(self) -> str:
        """The table as text; a figure that is not significantly worse than the best of its column is bold too."""
        rendered, alignments = [], []
        for column, cells in zip(self.columns, self._cells(), strict=True):
            shown, bold = [column.shown(cell) for cell in cells], best_cells(cells, column.best)
            rendered.append([f"**{text}**" if index in bold else text for index, text in enumerate(shown)])
            alignments.append("---" if any(isinstance(cell, str) for cell in cells) else "---:")
        lines = [[column.name.replace("|", "\\|") for column in self.columns], alignments, *zip(*rendered, strict=True)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"

    def _cells(self) -> list[list[Cell]]:
        """Column by column."""
        return [[row[index] for row in self.rows] for index in range(len(self.columns))]


def summary(cell: Cell) -> MeanInterval | None:
    """The mean of a cell, and its interval where it has one; None for text and for what is not defined."""
    if isinstance(cell, MeanInterval | None):
        return cell
    if isinstance(cell, str):
        return None
    return over_seeds(cell if isinstance(cell, Sequence) else [cell])


def best_cells(cells: Sequence[Cell], best: str | None) -> set[int]:
    """The places of the best cell and of those tied with it; none where there is nothing to choose from."""
    means = {index: interval.mean for index, interval in enumerate(map(summary, cells)) if interval is not None}
    if best is None or len(means) < 2:
        return set()
    first = (max if best == "high" else min)(means, key=means.__getitem__)
    return {index for index in means if means[index] == means[first] or _tied(cells[first], cells[index])}


def _tied(one: Cell, other: Cell) -> bool:
    """Whether two figures may be equal for all that their intervals tell; single figures tell nothing."""
    by_seed = (isinstance(cell, Sequence) for cell in (one, other))
    if all(by_seed) and len(one) == len(other):
        gap = paired(one, other)
    else:
        a, b = summary(one), summary(other)
        half = None if a.half is None or b.half is None else math.hypot(a.half, b.half)
        gap = MeanInterval(a.mean - b.mean, half, min(a.n, b.n))
    return gap is not None and gap.half is not None and not gap.is_significant


Figures = dict[str, Any]
Getter = Callable[[Figures], float | None]
MIN_PAIRED_SEEDS = 3  # seeds


class MethodResults:
    """The figures of each arm, one for each seed that was run.

    Args:
        store: The runs that are kept.
        jobs: Those of one material.
        metric: Whose figures.
    """

    def __init__(self, store: RunStore, jobs: Sequence[Job], metric: str) -> None:
        self.methods: dict[str, list[Figures]] = {}
        self.seeds: dict[str, list[int]] = {}
        self.diverged: Counter[str] = Counter()
        for job in jobs:
            run = store.find(job)
            if run is None:
                continue
            if "diverged" in run:
                self.diverged[job.method.name] += 1
            elif metric in run["figures"]:
                self.methods.setdefault(job.method.name, []).append(run["figures"][metric])
                self.seeds.setdefault(job.method.name, []).append(job.fit_settings.seed)

    def __bool__(self) -> bool:
        return bool(self.methods)

    def values(self, method: str, get: Getter) -> list[float | None]:
        """One figure of an arm, by seed; empty where it was not run."""
        return [get(figures) for figures in self.methods.get(method, [])]

    def spread(self, get: Getter) -> Spread:
        """How much a figure varies over seeds."""
        return Spread.of(self.values(method, get) for method in self.methods)

    def mean(self, method: str, get: Getter) -> MeanInterval | None:
        """A figure of an arm with its interval: by its own seeds where there are three, else by those of all arms."""
        values = self.values(method, get)
        known = len(values) >= MIN_PAIRED_SEEDS and None not in values
        return over_seeds(values) if known else self.spread(get).mean(values)

    def gap(self, one: str, other: str, get: Getter, get_other: Getter | None = None) -> MeanInterval | None:
        """By how much one arm is above another, seed by seed where they share three.

        Two arms with one run each are not compared if their seeds differ: the difference may be that of the seeds.
        """
        ours, theirs = self.values(one, get), self.values(other, get_other or get)
        same = self.seeds.get(one) == self.seeds.get(other)
        if same and len(ours) >= MIN_PAIRED_SEEDS:
            return paired(ours, theirs)
        if len(ours) == len(theirs) == 1 and not same:
            return None
        return self.spread(get).gap(ours, theirs)

    def table(self, columns: Mapping[Column, Getter], *, names: Mapping[str, str] | None = None) -> str:
        """A row for each arm: the figures with their intervals, and the number of seeds."""
        methods = (
            {method: names[method] for method in names if method in self.methods}
            if names
            else {method: method for method in self.methods}
        )
        rows: list[list[Any]] = []
        for method, shown in methods.items():
            cells = [self.mean(method, get) for get in columns.values()]
            rows.append([shown, *cells, self._count(method)])
        rows += [
            [method, *(None for _ in columns), self._count(method)]
            for method in self.diverged
            if method not in self.methods
        ]
        head = [Column("", best=None), *columns, Column("seeds", best=None)]
        return Table(head, rows).markdown()

    def _count(self, method: str) -> str:
        lost = self.diverged[method]
        return f"{len(self.methods.get(method, []))}" + (f" ({lost} diverged)" if lost else "")


def at(*path: str) -> Getter:
    """What lies at the end of a path of keys; None where it breaks off."""

    def get(figures: Figures) -> float | None:
        value: Any = figures
        for key in path:
            if not isinstance(value, Mapping) or key not in value:
                return None
            value = value[key]
        return value

    return get


def own(*path: str) -> Getter:
    """A figure of the reading that belongs to the loss."""

    def get(figures: Figures) -> float | None:
        return at("readings", figures["own"], *path)(figures)

    return get
