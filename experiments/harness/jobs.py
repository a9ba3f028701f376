"""Runs that are kept: one JSON file for each, found again by what decides it, so that nothing is trained twice."""

import hashlib
import json
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import torch
import torch.multiprocessing as processes

from experiments.harness.arms import Arm
from experiments.harness.catalogue import learnt_from
from experiments.harness.training import Material, Outcome, train
from experiments.harness.trial import trial
from manyhot.engine import NotFinite, Plan
from manyhot.files import whole_file
from manyhot.refusal import Refusal
from manyhot.training.comparing import slug

# What else a plan says has no bearing on the figures, or is chosen by the machine.
DECIDING = (
    "epochs",
    "batch_size",
    "optimizer",
    "lr",
    "head_lr",
    "weight_decay",
    "schedule",
    "warmup",
    "milestones",
    "drop",
    "ema",
    "clip",
    "precision",
    "seed",
)


POLL_SECONDS = 5.0


@dataclass(frozen=True)
class Job:
    """One run: what is trained on what, how, and what is asked of the scores.

    Attributes:
        material: Name in the catalogue.
        arm: Loss and head.
        plan: How to train; its seed is that of the run.
        judges: Names of the judges.
    """

    material: str
    arm: Arm
    plan: Plan
    judges: tuple[str, ...]

    def settings(self) -> dict[str, Any]:
        """All that decides the figures, as JSON holds it."""
        plan = {name: getattr(self.plan, name) for name in DECIDING}
        return json.loads(
            json.dumps(
                {
                    "material": self.material,
                    "learnt from": learnt_from(self.material),
                    "arm": self.arm.settings(),
                    "plan": plan,
                    "judges": sorted(self.judges),
                }
            )
        )

    def file(self) -> Path:
        """Where its figures are kept, below the folder of the ledger."""
        digest = hashlib.sha256(json.dumps(self.settings(), sort_keys=True).encode()).hexdigest()[:8]
        return Path(slug(self.material)) / f"{slug(self.arm.loss)[:48]}-s{self.plan.seed}-{digest}.json"


class Ledger:
    """The runs that are done.

    Args:
        folder: Where their files lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def find(self, job: Job) -> dict[str, Any] | None:
        """What is known of a run: "settings", "figures", "seconds", "samples a second", "device"; None if not done."""
        path = self.folder / job.file()
        return json.loads(path.read_text()) if path.is_file() else None

    def figures(self, jobs: Iterable[Job], judge: str) -> list[dict[str, Any]]:
        """What a judge said of each run that is done."""
        found = [self.find(job) for job in jobs]
        return [run["figures"].get(judge) for run in found if run is not None]

    def keep(self, job: Job, run: dict[str, Any]) -> None:
        """Writes what a run gave, whole or not at all."""
        path = self.folder / job.file()
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as part:
            part.write_text(json.dumps({"arm": job.arm.name, "settings": job.settings(), **run}) + "\n")


def carry_out(job: Job, material: Material) -> dict[str, Any]:
    """Trains and judges; that an arm diverges is a result as well."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    try:
        outcome = train(job.arm, material, job.plan)
    except NotFinite as error:
        return {"diverged": str(error), "samples a second": 0, "device": device, "figures": {}}
    run: dict[str, Any] = {
        "seconds": round(outcome.seconds, 2),
        "samples a second": round(outcome.speed),
        "device": device,
        "torch": torch.__version__,
        "figures": {name: judge_of(name)(outcome) for name in job.judges},
    }
    if outcome.trace:
        run["normaliser"] = {
            "steps": [point.step for point in outcome.trace],
            "log C": [round(point.average, 4) for point in outcome.trace],
            "of all rows": float(outcome.loss.link.log_normaliser),
        }
    return run


def judge_of(name: str) -> Callable[[Outcome], dict[str, Any]]:
    """A judge by name."""
    if name == "trial":
        return trial
    from experiments.harness.judges import JUDGES

    return JUDGES[name]


def distinct(jobs: Sequence[Job]) -> list[Job]:
    """Each run once, whatever tables call it; the first seed of everything comes before the second of anything."""
    return sorted({job.file(): job for job in jobs}.values(), key=lambda job: job.plan.seed)


def run_all(
    jobs: Sequence[Job],
    open_material: Callable[[str], Material],
    ledger: Ledger,
    *,
    workers: int = 1,
    minutes: float | None = None,
    tell: Callable[[str], None] = print,
) -> int:
    """Carries out what is not done yet; returns how many runs failed.

    A small network keeps a large GPU busy for part of the time only, so several learn at once, each in a process of
    its own with its own copy of the data.

    Args:
        jobs: What to run.
        open_material: From the name of a material to the material; must be importable where there are workers.
        ledger: Where the runs are kept.
        workers: Processes.
        minutes: After which no further run is begun.
        tell: Called with a line for each run.
    """
    missing = [job for job in distinct(jobs) if ledger.find(job) is None]
    tell(f"{len(missing)} runs to do, {len(distinct(jobs)) - len(missing)} done before.")
    end = None if minutes is None else time.time() + 60 * minutes
    if workers < 2 or len(missing) < 2:
        return _work(iter(missing), open_material, ledger, end, tell)
    return _share(missing, open_material, ledger, end, tell, workers)


def _share(
    jobs: Sequence[Job],
    open_material: Callable[[str], Material],
    ledger: Ledger,
    end: float | None,
    tell: Callable[[str], None],
    workers: int,
) -> int:
    """The runs by several processes; one that is killed from outside counts as a failure and holds nobody up."""
    context = processes.get_context("spawn")
    queue, told = context.Queue(), context.Queue()
    for job in [*jobs, *(None for _ in range(workers))]:
        queue.put(job)
    common = queue, told, open_material, ledger, end
    pool = [context.Process(target=_worker, args=(place, *common)) for place in range(workers)]
    for process in pool:
        process.start()
    failures: dict[int, int] = {}
    while len(failures) < len(pool):
        try:
            place, news = told.get(timeout=POLL_SECONDS)
        except Empty:
            failures |= {n: 1 for n, one in enumerate(pool) if one.exitcode is not None and n not in failures}
            continue
        if isinstance(news, int):
            failures[place] = news
        else:
            tell(news)
    for process in pool:
        process.join()
    return sum(failures.values())


def _worker(
    place: int,
    queue: Any,
    told: Any,
    open_material: Callable[[str], Material],
    ledger: Ledger,
    end: float | None,
) -> None:
    torch.set_num_threads(1)
    failed = 1  # unless it comes to an end
    try:
        failed = _work(iter(queue.get, None), open_material, ledger, end, lambda line: told.put((place, line)))
    finally:
        told.put((place, failed))


def _work(
    jobs: Iterable[Job],
    open_material: Callable[[str], Material],
    ledger: Ledger,
    end: float | None,
    tell: Callable[[str], None],
) -> int:
    failed = 0
    for job in jobs:
        if end is not None and time.time() > end:
            tell(f"left for later: {job.material}, {job.arm.name}, seed {job.plan.seed}")
            continue
        start = time.time()
        try:
            run = carry_out(job, open_material(job.material))
        except Refusal as error:
            failed += 1
            tell(f"FAILED {job.material}, {job.arm.name}, seed {job.plan.seed}: {error}")
            continue
        except Exception:  # one arm that fails must not end the night's work; it is told, counted and run again
            failed += 1
            tell(f"FAILED {job.material}, {job.arm.name}, seed {job.plan.seed}\n{traceback.format_exc()}")
            continue
        ledger.keep(job, run)
        took = time.time() - start
        speed = run["samples a second"]
        tell(f"{job.material}, {job.arm.name}, seed {job.plan.seed}: {took:.1f} s, {speed:,} samples/s")
    return failed
