"""What an experiment is: the runs it needs, and the page that is made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from experiments.harness.arms import Arm
from experiments.harness.catalogue import is_features, plan_for
from experiments.harness.jobs import Job, Ledger

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Scope:
    """How much of a study is run.

    Attributes:
        sets: Data sets to use instead of those of the study; empty for its own.
        seeds: Of the runs.
        shorten: Changes the plan of a run, for a quick look; None to train in full.
    """

    sets: tuple[str, ...] = ()
    seeds: tuple[int, ...] = SEEDS
    shorten: Callable[[Job], Job] | None = None

    def of(self, jobs: list[Job]) -> list[Job]:
        """Runs as this scope has them."""
        return jobs if self.shorten is None else [self.shorten(job) for job in jobs]


@dataclass(frozen=True)
class Study:
    """An experiment.

    Attributes:
        name: Of the command that repeats it.
        title: Of its section.
        sets: Data sets it uses by default.
        jobs: The runs that it needs.
        page: Its section, as Markdown, of the runs that are done.
    """

    name: str
    title: str
    sets: tuple[str, ...]
    jobs: Callable[["Study", Scope], list[Job]]
    page: Callable[["Study", Scope, Ledger], str]

    def runs(self, scope: Scope) -> list[Job]:
        """The runs of this study, shortened if that is wanted."""
        return scope.of(self.jobs(self, scope))


def jobs_of(arms: Sequence[Arm], material: str, judges: Sequence[str], seeds: Sequence[int]) -> list[Job]:
    """Every arm with every seed on one material."""
    plan = plan_for(material)
    found = []
    for arm in arms:
        own = replace(plan, lr=plan.lr * arm.lr) if is_features(material) else plan
        found += [Job(material, arm, replace(own, seed=seed), tuple(judges)) for seed in seeds]
    return found
