"""Means over seeds with 95 % intervals, and Markdown tables with the best in bold, and all not significantly worse."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance
from typing import Any

from scipy import stats

from experiments.runs import SEEDS, Job, RunStore, jobs_of
from experiments.training import Method
from manyhot.errors import InputError


@dataclass(frozen=True)
class MeanInterval:
    """A mean with its 95 % interval.

    Attributes:
        mean: Of the values.
        half: Half the width of the interval; None for a single value, which gives none.
        n: Number of values.
    """

    mean: float
    half: float | None
    n: int

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.half is not None and abs(self.mean) > self.half


def over_seeds(values: Sequence[float | None]) -> MeanInterval | None:
    """The mean over seeds with its 95 % interval by Student's t; None if a value is undefined.

    Args:
        values: One for each seed.
    """
    if not values:
        raise InputError("values", "over_seeds", "hold a value for each seed", "none", "Pass at least one.")
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    count = len(known)
    half = half_width(stdev(known), count - 1, 1 / count) if count > 1 else None
    return MeanInterval(fmean(known), half, count)


def paired(a: Sequence[float | None], b: Sequence[float | None]) -> MeanInterval | None:
    """The mean of `a` less `b`, seed by seed, so that effects of the seed cancel; None if a value is undefined.

    Args:
        a: One value for each seed.
        b: Values of the same seeds in the same order.
    """
    if len(a) != len(b):
        raise InputError("b", "paired", f"have the {len(a)} seeds of `a`", str(len(b)), "Run both with the same seeds.")
    both = zip(a, b, strict=True)
    return over_seeds([None if one is None or other is None else one - other for one, other in both])


def half_width(deviation: float, degrees: int, share: float) -> float:
    """Half the 95 % interval by Student's t of a mean whose variance is this share of the squared deviation."""
    return float(stats.t.ppf(0.975, degrees)) * deviation * math.sqrt(share)


@dataclass(frozen=True)
class Spread:
    """The variation of a figure between seeds, pooled over all methods of a table.

    Two or three seeds of one method hardly estimate it; those of twenty methods do, if it is about the same for all of
    them.

    Attributes:
        deviation: Standard deviation over seeds; None if no method has two.
        degrees: Degrees of freedom: seeds beyond the first, over all methods.
    """

    deviation: float | None
    degrees: int

    @classmethod
    def of(cls, methods: Iterable[Sequence[float | None]]) -> "Spread":
        """From the values of each method, one for each seed; undefined ones are left out."""
        squares, degrees = 0.0, 0
        for values in methods:
            known = [value for value in values if value is not None]
            if len(known) > 1:
                squares += variance(known) * (len(known) - 1)
                degrees += len(known) - 1
        return cls(math.sqrt(squares / degrees) if degrees else None, degrees)

    def mean(self, values: Sequence[float | None]) -> MeanInterval | None:
        """The mean of a method with its 95 % interval; None if no value is defined."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return MeanInterval(fmean(known), self._half(1 / len(known)), len(known))

    def gap(self, one: Sequence[float | None], other: Sequence[float | None]) -> MeanInterval | None:
        """The mean of one method less that of another, whose seeds may differ."""
        a, b = self.mean(one), self.mean(other)
        if a is None or b is None:
            return None
        return MeanInterval(a.mean - b.mean, self._half(1 / a.n + 1 / b.n), min(a.n, b.n))

    def _half(self, share: float) -> float | None:
        return None if self.deviation is None else half_width(self.deviation, self.degrees, share)


# Text, a single figure, one for each seed in the same order in all rows, an interval, or None.
Cell = str | float | Sequence[float | None] | MeanInterval | None
MISSING = "–"


@dataclass(frozen=True)
class Column:
    """How the figures of a column are formatted.

    Attributes:
        name: In the table header.
        unit: "percent" for fractions, which are multiplied by 100, or "plain".
        digits: After the decimal point.
        best: "high" or "low": which figures are bold; None for none.
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
        for index, column in enumerate(self.columns):
            cells = [row[index] for row in self.rows]
            shown, bold = [column.shown(cell) for cell in cells], best_cells(cells, column.best)
            rendered.append([f"**{text}**" if index in bold else text for index, text in enumerate(shown)])
            alignments.append("---" if any(isinstance(cell, str) for cell in cells) else "---:")
        lines = [[column.name.replace("|", "\\|") for column in self.columns], alignments, *zip(*rendered, strict=True)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def summary(cell: Cell) -> MeanInterval | None:
    """The mean of a cell, with its interval if it has one; None for text and undefined values."""
    if cell is None or isinstance(cell, MeanInterval):
        return cell
    if isinstance(cell, str):
        return None
    return over_seeds([cell] if isinstance(cell, float | int) else cell)


def best_cells(cells: Sequence[Cell], best: str | None) -> set[int]:
    """The indices of the best cell and of those tied with it; empty for fewer than two figures."""
    means = {index: interval.mean for index, interval in enumerate(map(summary, cells)) if interval is not None}
    if best is None or len(means) < 2:
        return set()
    first = (max if best == "high" else min)(means, key=means.__getitem__)
    return {index for index in means if means[index] == means[first] or _tied(cells[first], cells[index])}


def _tied(one: Cell, other: Cell) -> bool:
    """Whether the difference of two figures is not significant; single figures have no interval and never tie."""
    if isinstance(one, Sequence) and isinstance(other, Sequence) and len(one) == len(other):
        assert not isinstance(one, str)
        assert not isinstance(other, str)
        gap = paired(one, other)
    else:
        a, b = summary(one), summary(other)
        if a is None or b is None:
            return False
        half = None if a.half is None or b.half is None else math.hypot(a.half, b.half)
        gap = MeanInterval(a.mean - b.mean, half, min(a.n, b.n))
    return gap is not None and gap.half is not None and not gap.is_significant


Figures = dict[str, Any]
Getter = Callable[[Figures], float | None]
MIN_PAIRED_SEEDS = 3  # seeds


class MethodResults:
    """The figures of each method, one for each seed that was run.

    Args:
        store: Of the runs.
        jobs: Those of one dataset.
        metric: Name of the metric.
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
        """One figure of a method, by seed; empty if it was not run."""
        return [get(figures) for figures in self.methods.get(method, [])]

    def spread(self, get: Getter) -> Spread:
        """The pooled variation of a figure over seeds."""
        return Spread.of(self.values(method, get) for method in self.methods)

    def mean(self, method: str, get: Getter) -> MeanInterval | None:
        """A figure of a method with its interval: by its own seeds if it has three, else by those of all methods."""
        values = self.values(method, get)
        known = len(values) >= MIN_PAIRED_SEEDS and None not in values
        return over_seeds(values) if known else self.spread(get).mean(values)

    def gap(self, one: str, other: str, get: Getter, get_other: Getter | None = None) -> MeanInterval | None:
        """The difference between two methods, seed by seed if they share three.

        Two methods with one run each are not compared if their seeds differ: the difference may be that of the seeds.
        """
        ours, theirs = self.values(one, get), self.values(other, get_other or get)
        same = self.seeds.get(one) == self.seeds.get(other)
        if same and len(ours) >= MIN_PAIRED_SEEDS:
            return paired(ours, theirs)
        if len(ours) == len(theirs) == 1 and not same:
            return None
        return self.spread(get).gap(ours, theirs)

    def table(self, columns: Mapping[Column, Getter]) -> str:
        """A row for each method: the figures with their intervals, and the number of seeds."""
        methods = dict.fromkeys([*self.methods, *self.diverged])
        rows = [[name, *(self.mean(name, get) for get in columns.values()), self._count(name)] for name in methods]
        head = [Column("", best=None), *columns, Column("seeds", best=None)]
        return Table(head, rows).markdown()

    def _count(self, method: str) -> str:
        lost = self.diverged[method]
        return f"{len(self.methods.get(method, []))}" + (f" ({lost} diverged)" if lost else "")


def results_of(
    store: RunStore, methods: Iterable[Method], dataset: str, metrics: Sequence[str], metric: str
) -> MethodResults:
    """The figures of methods on a dataset, with the seeds of the studies."""
    return MethodResults(store, jobs_of(list(methods), dataset, metrics, SEEDS), metric)


def at(*path: str) -> Getter:
    """The value at a path of keys; None if a key is missing."""

    def get(figures: Figures) -> float | None:
        value: Any = figures
        for key in path:
            if not isinstance(value, Mapping) or key not in value:
                return None
            value = value[key]
        figure: float | None = value
        return figure

    return get


def own(*path: str) -> Getter:
    """A figure of the loss's own reading."""

    def get(figures: Figures) -> float | None:
        return at("readings", figures["own"], *path)(figures)

    return get
