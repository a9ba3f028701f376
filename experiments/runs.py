"""Runs and their results: one JSON file per run, named by a digest of its settings, so that none is repeated."""

import hashlib
import json
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import torch

from experiments.data import ExperimentDataset, fit_settings_for, input_settings, is_features
from experiments.metrics import METRICS
from experiments.training import Method, old_spelling, train
from manyhot.engine import FitSettings, NotFinite
from manyhot.errors import InputError
from manyhot.files import atomic_write
from manyhot.links import QuasibinaryLink
from manyhot.training.comparison import slug

# The fit settings that decide the figures; the others do not, or are chosen by the machine.
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
SEEDS = (0, 1, 2)


def digest_of(settings: dict[str, Any]) -> str:
    """Eight digits that name a stored run by its settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Job:
    """One run: a method trained on a dataset, and the metrics of its scores.

    Attributes:
        dataset: Name in the catalogue.
        method: Loss and head.
        fit_settings: How to train; its seed is that of the run.
        metrics: Names in `METRICS`.
    """

    dataset: str
    method: Method
    fit_settings: FitSettings
    metrics: tuple[str, ...]

    @property
    def title(self) -> str:
        """What it is, for messages."""
        return f"{self.dataset}, {self.method.name}, seed {self.fit_settings.seed}"

    def settings(self) -> dict[str, Any]:
        """All that decides the figures, as JSON. The keys name the stored results: a new one needs a migration."""
        fit_settings = {name: getattr(self.fit_settings, name) for name in DECIDING}
        content = {
            "material": self.dataset,
            "learnt from": input_settings(self.dataset),
            "arm": self.method.settings(),
            "plan": fit_settings,
            "judges": sorted(self.metrics),
        }
        settings: dict[str, Any] = json.loads(json.dumps(content))
        return settings

    def file(self) -> Path:
        """The file of its figures, below the folder of the store."""
        loss = slug(old_spelling(self.method.loss))[:48]
        return Path(slug(self.dataset)) / f"{loss}-s{self.fit_settings.seed}-{digest_of(self.settings())}.json"


class Storable(Protocol):
    """A run that a `RunStore` takes."""

    @property
    def method(self) -> Method:
        """Its method, whose name goes into the record."""

    def settings(self) -> dict[str, Any]:
        """All that decides the figures."""

    def file(self) -> Path:
        """The file of its figures, below the folder of the store."""


class RunStore:
    """The runs that are done, one file each.

    Args:
        folder: Of their files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def find(self, job: Storable) -> dict[str, Any] | None:
        """The record of a run: "settings", "figures", "seconds", "samples a second", "device"; None if not done."""
        path = self.folder / job.file()
        return json.loads(path.read_text()) if path.is_file() else None

    def save(self, job: Storable, run: dict[str, Any]) -> None:
        """Writes the record of a run atomically."""
        path = self.folder / job.file()
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as part:
            part.write_text(json.dumps({"arm": job.method.name, "settings": job.settings(), **run}) + "\n")


def carry_out(job: Job, dataset: ExperimentDataset) -> dict[str, Any]:
    """Trains and evaluates; that a method diverges is a result as well."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    try:
        output = train(job.method, dataset, job.fit_settings)
    except NotFinite as error:
        return {"diverged": str(error), "samples a second": 0, "device": device, "figures": {}}
    run: dict[str, Any] = {
        "seconds": round(output.seconds, 2),
        "samples a second": round(output.speed),
        "device": device,
        "torch": torch.__version__,
        "figures": {name: METRICS[name](output) for name in job.metrics},
    }
    link = output.loss.link
    if output.trace and isinstance(link, QuasibinaryLink):
        run["normaliser"] = {
            "steps": [point["step"] for point in output.trace],
            "log C": [round(point["average"], 4) for point in output.trace],
            "of all rows": float(link.log_normaliser),
        }
    return run


def distinct(jobs: Sequence[Job]) -> list[Job]:
    """Each run once, whatever its method is called; ordered by seed, so that all first seeds come first."""
    return sorted({job.file(): job for job in jobs}.values(), key=lambda job: job.fit_settings.seed)


def run_all(
    jobs: Sequence[Job],
    open_dataset: Callable[[str], ExperimentDataset],
    store: RunStore,
    *,
    workers: int = 1,
    minutes: float | None = None,
    log: Callable[[str], None] = print,
) -> int:
    """Carries out the runs that are not done yet; returns how many failed.

    A small network does not keep a large GPU busy, so several are trained at once, each in a process with its own copy
    of the data.

    Args:
        jobs: To run.
        open_dataset: From a name to the dataset; must be importable if there are workers.
        store: Of the runs.
        workers: Processes.
        minutes: After which no further run is started.
        log: Called with a line for each run.
    """
    missing = [job for job in distinct(jobs) if store.find(job) is None]
    log(f"{len(missing)} runs to do, {len(distinct(jobs)) - len(missing)} done before.")
    session = Session(open_dataset, store, None if minutes is None else time.time() + 60 * minutes)
    if workers < 2 or len(missing) < 2:
        outcomes: Iterable[tuple[bool, str]] = map(session, missing)
    else:
        outcomes = _in_processes(session, missing, workers)
    failed = 0
    for succeeded, line in outcomes:
        failed += not succeeded
        log(line)
    return failed


@dataclass(frozen=True)
class Session:
    """Carries out runs one by one and stores them.

    Attributes:
        open_dataset: From a name to the dataset.
        store: Of the runs.
        end: When to start no further run, in seconds since the epoch; None for never.
    """

    open_dataset: Callable[[str], ExperimentDataset]
    store: RunStore
    end: float | None

    def __call__(self, job: Job) -> tuple[bool, str]:
        """Whether the run succeeded or was left for later, and a line about it."""
        if self.end is not None and time.time() > self.end:
            return True, f"left for later: {job.title}"
        start = time.time()
        try:
            run = carry_out(job, self.open_dataset(job.dataset))
        except InputError as error:
            return False, f"FAILED {job.title}: {error}"
        except Exception:  # one failure must not end a long session; it is reported, counted and run again
            return False, f"FAILED {job.title}\n{traceback.format_exc()}"
        self.store.save(job, run)
        return True, f"{job.title}: {time.time() - start:.1f} s, {run['samples a second']:,} samples/s"


# The session of a worker process, which keeps the datasets that it has opened from run to run.
_SESSION: dict[str, Session] = {}


def _start_worker(session: Session) -> None:
    torch.set_num_threads(1)
    _SESSION["own"] = session


def _work(job: Job) -> tuple[bool, str]:
    return _SESSION["own"](job)


def _in_processes(session: Session, jobs: Sequence[Job], workers: int) -> Iterator[tuple[bool, str]]:
    """What came of the runs, as they end; if a worker is killed, those that were not done count as failures."""
    options: dict[str, Any] = {"mp_context": get_context("spawn"), "initializer": _start_worker, "initargs": (session,)}
    with ProcessPoolExecutor(min(workers, len(jobs)), **options) as pool:
        futures = {pool.submit(_work, job): job for job in jobs}
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool as error:
                yield False, f"FAILED {futures[future].title}: {error}"


def jobs_of(methods: Sequence[Method], dataset: str, metrics: Sequence[str], seeds: Sequence[int]) -> list[Job]:
    """Every method with every seed on one dataset."""
    fit_settings = fit_settings_for(dataset)
    result = []
    for method in methods:
        own = replace(fit_settings, lr=fit_settings.lr * method.lr) if is_features(dataset) else fit_settings
        result += [Job(dataset, method, replace(own, seed=seed), tuple(metrics)) for seed in seeds]
    return result


def shorten(job: Job) -> Job:
    """The same run in two short epochs."""
    return replace(job, fit_settings=replace(job.fit_settings, epochs=2, batch_size=40, precision="32"))
