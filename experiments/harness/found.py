"""What a judge said of the arms of a study, and tables of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.harness.jobs import Job, Ledger
from experiments.harness.statistics import Interval, Spread
from experiments.harness.tables import Column, Table

Figures = dict[str, Any]
Getter = Callable[[Figures], float | None]


class Found:
    """The figures of each arm, one for each seed that was run.

    Args:
        ledger: The runs that are kept.
        jobs: Those of one material.
        judge: Whose figures.
    """

    def __init__(self, ledger: Ledger, jobs: Sequence[Job], judge: str) -> None:
        self.arms: dict[str, list[Figures]] = {}
        self.diverged: dict[str, str] = {}
        for job in jobs:
            run = ledger.find(job)
            if run is None:
                continue
            if "diverged" in run:
                self.diverged[job.arm.name] = run["diverged"]
            elif judge in run["figures"]:
                self.arms.setdefault(job.arm.name, []).append(run["figures"][judge])

    def __bool__(self) -> bool:
        return bool(self.arms)

    def values(self, arm: str, get: Getter) -> list[float | None]:
        """One figure of an arm, by seed; empty where it was not run."""
        return [get(figures) for figures in self.arms.get(arm, [])]

    def spread(self, get: Getter) -> Spread:
        """How much a figure varies over seeds."""
        return Spread.of(self.values(arm, get) for arm in self.arms)

    def mean(self, arm: str, get: Getter) -> Interval | None:
        """A figure of an arm with its interval."""
        return self.spread(get).mean(self.values(arm, get))

    def gap(self, one: str, other: str, get: Getter) -> Interval | None:
        """By how much one arm is above another."""
        return self.spread(get).gap(self.values(one, get), self.values(other, get))

    def table(self, columns: Mapping[Column, Getter], *, names: Mapping[str, str] | None = None) -> str:
        """A row for each arm: the figures with their intervals, and the number of seeds."""
        arms = {arm: names[arm] for arm in names if arm in self.arms} if names else {arm: arm for arm in self.arms}
        rows: list[list[Any]] = []
        for arm, shown in arms.items():
            cells = [self.mean(arm, get) for get in columns.values()]
            rows.append([shown, *cells, float(len(self.arms[arm]))])
        rows += [[arm, *(None for _ in columns), 0.0] for arm in self.diverged if arm not in self.arms]
        head = [Column("", best=None), *columns, Column("seeds", "plain", 0, None)]
        return Table(head, rows).markdown()


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
