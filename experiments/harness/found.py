"""What a judge said of the arms of a study, and tables of it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.harness.jobs import Job, Ledger
from experiments.harness.statistics import Interval, Spread, over_seeds, paired
from experiments.harness.tables import Column, Table

Figures = dict[str, Any]
Getter = Callable[[Figures], float | None]
ENOUGH = 3  # seeds


class Found:
    """The figures of each arm, one for each seed that was run.

    Args:
        ledger: The runs that are kept.
        jobs: Those of one material.
        judge: Whose figures.
    """

    def __init__(self, ledger: Ledger, jobs: Sequence[Job], judge: str) -> None:
        self.arms: dict[str, list[Figures]] = {}
        self.seeds: dict[str, list[int]] = {}
        self.diverged: Counter[str] = Counter()
        for job in jobs:
            run = ledger.find(job)
            if run is None:
                continue
            if "diverged" in run:
                self.diverged[job.arm.name] += 1
            elif judge in run["figures"]:
                self.arms.setdefault(job.arm.name, []).append(run["figures"][judge])
                self.seeds.setdefault(job.arm.name, []).append(job.plan.seed)

    def __bool__(self) -> bool:
        return bool(self.arms)

    def values(self, arm: str, get: Getter) -> list[float | None]:
        """One figure of an arm, by seed; empty where it was not run."""
        return [get(figures) for figures in self.arms.get(arm, [])]

    def spread(self, get: Getter) -> Spread:
        """How much a figure varies over seeds."""
        return Spread.of(self.values(arm, get) for arm in self.arms)

    def mean(self, arm: str, get: Getter) -> Interval | None:
        """A figure of an arm with its interval: by its own seeds where there are three, else by those of all arms."""
        values = self.values(arm, get)
        known = len(values) >= ENOUGH and None not in values
        return over_seeds(values) if known else self.spread(get).mean(values)

    def gap(self, one: str, other: str, get: Getter, get_other: Getter | None = None) -> Interval | None:
        """By how much one arm is above another, seed by seed where they share three.

        Two arms with one run each are not compared if their seeds differ: the difference may be that of the seeds.
        """
        ours, theirs = self.values(one, get), self.values(other, get_other or get)
        same = self.seeds.get(one) == self.seeds.get(other)
        if same and len(ours) >= ENOUGH:
            return paired(ours, theirs)
        if len(ours) == len(theirs) == 1 and not same:
            return None
        return self.spread(get).gap(ours, theirs)

    def table(self, columns: Mapping[Column, Getter], *, names: Mapping[str, str] | None = None) -> str:
        """A row for each arm: the figures with their intervals, and the number of seeds."""
        arms = {arm: names[arm] for arm in names if arm in self.arms} if names else {arm: arm for arm in self.arms}
        rows: list[list[Any]] = []
        for arm, shown in arms.items():
            cells = [self.mean(arm, get) for get in columns.values()]
            rows.append([shown, *cells, self._count(arm)])
        rows += [[arm, *(None for _ in columns), self._count(arm)] for arm in self.diverged if arm not in self.arms]
        head = [Column("", best=None), *columns, Column("seeds", best=None)]
        return Table(head, rows).markdown()

    def _count(self, arm: str) -> str:
        lost = self.diverged[arm]
        return f"{len(self.arms.get(arm, []))}" + (f" ({lost} diverged)" if lost else "")


def at(*path: str) -> Getter:
    """What lies at the end of a path of keys; None where it breaks off."""

    def get(figures: Figures) -> float | None:
        found: Any = figures
        for key in path:
            if not isinstance(found, Mapping) or key not in found:
                return None
            found = found[key]
        return found

    return get


def own(*path: str) -> Getter:
    """A figure of the reading that belongs to the loss."""

    def get(figures: Figures) -> float | None:
        return at("readings", figures["own"], *path)(figures)

    return get
