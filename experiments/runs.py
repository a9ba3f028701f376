"""Runs and their results: one JSON file per run, named by a digest of its settings, so that none is repeated."""

import hashlib
import json
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty
from typing import Any, Protocol

import torch
import torch.multiprocessing as processes

from experiments.data import ExperimentDataset, fit_settings_for, input_settings, is_features
from experiments.metrics import trial
from experiments.training import Method, RunOutput, old_spelling, train
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
POLL_SECONDS = 5.0
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Job:
    """One run: a method trained on a dataset, and the metrics of its scores.

    Attributes:
        dataset: Name in the catalogue.
        method: Loss and head.
        fit_settings: How to train; its seed is that of the run.
        metrics: Names in `METRICS`, or "trial".
    """

    dataset: str
    method: Method
    fit_settings: FitSettings
    metrics: tuple[str, ...]

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
        digest = hashlib.sha256(json.dumps(self.settings(), sort_keys=True).encode()).hexdigest()[:8]
        loss = slug(old_spelling(self.method.loss))[:48]
        return Path(slug(self.dataset)) / f"{loss}-s{self.fit_settings.seed}-{digest}.json"


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

    def figures(self, jobs: Iterable[Job], metric: str) -> list[dict[str, Any]]:
        """The figures of a metric for each run that is done."""
        runs = [self.find(job) for job in jobs]
        return [run["figures"].get(metric) for run in runs if run is not None]

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
        "figures": {name: metric_of(name)(output) for name in job.metrics},
    }
    link = output.loss.link
    if output.trace and isinstance(link, QuasibinaryLink):
        run["normaliser"] = {
            "steps": [point["step"] for point in output.trace],
            "log C": [round(point["average"], 4) for point in output.trace],
            "of all rows": float(link.log_normaliser),
        }
    return run


def metric_of(name: str) -> Callable[[RunOutput], dict[str, Any]]:
    """A metric by name."""
    if name == "trial":
        return trial
    from experiments.metrics import METRICS

    return METRICS[name]


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
    end = None if minutes is None else time.time() + 60 * minutes
    if workers < 2 or len(missing) < 2:
        return _run_jobs(iter(missing), open_dataset, store, end, log)
    return _run_in_processes(missing, open_dataset, store, end, log, workers)


def _run_in_processes(
    jobs: Sequence[Job],
    open_dataset: Callable[[str], ExperimentDataset],
    store: RunStore,
    end: float | None,
    log: Callable[[str], None],
    workers: int,
) -> int:
    """The runs in several processes; one that is killed from outside counts as a failure and blocks no other."""
    context = processes.get_context("spawn")
    queue, messages = context.Queue(), context.Queue()
    for job in [*jobs, *(None for _ in range(workers))]:
        queue.put(job)
    common = queue, messages, open_dataset, store, end
    pool = [context.Process(target=_worker, args=(index, *common)) for index in range(workers)]
    for process in pool:
        process.start()
    failures: dict[int, int] = {}
    while len(failures) < len(pool):
        try:
            index, message = messages.get(timeout=POLL_SECONDS)
        except Empty:
            failures |= {n: 1 for n, one in enumerate(pool) if one.exitcode is not None and n not in failures}
            continue
        if isinstance(message, int):
            failures[index] = message
        else:
            log(message)
    for process in pool:
        process.join()
    return sum(failures.values())


def _worker(
    index: int,
    queue: Any,
    messages: Any,
    open_dataset: Callable[[str], ExperimentDataset],
    store: RunStore,
    end: float | None,
) -> None:
    torch.set_num_threads(1)
    failed = 1  # unless it finishes
    try:
        failed = _run_jobs(iter(queue.get, None), open_dataset, store, end, lambda line: messages.put((index, line)))
    finally:
        messages.put((index, failed))


def _run_jobs(
    jobs: Iterable[Job],
    open_dataset: Callable[[str], ExperimentDataset],
    store: RunStore,
    end: float | None,
    log: Callable[[str], None],
) -> int:
    failed = 0
    for job in jobs:
        if end is not None and time.time() > end:
            log(f"left for later: {job.dataset}, {job.method.name}, seed {job.fit_settings.seed}")
            continue
        start = time.time()
        try:
            run = carry_out(job, open_dataset(job.dataset))
        except InputError as error:
            failed += 1
            log(f"FAILED {job.dataset}, {job.method.name}, seed {job.fit_settings.seed}: {error}")
            continue
        except Exception:  # one failure must not end a long session; it is reported, counted and run again
            failed += 1
            log(f"FAILED {job.dataset}, {job.method.name}, seed {job.fit_settings.seed}\n{traceback.format_exc()}")
            continue
        store.save(job, run)
        took = time.time() - start
        speed = run["samples a second"]
        log(f"{job.dataset}, {job.method.name}, seed {job.fit_settings.seed}: {took:.1f} s, {speed:,} samples/s")
    return failed


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
