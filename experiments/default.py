"""The default settings against the methods of the papers, on tables of features; chosen on "val", tested once.

Every method has the same network, settings and calibrator, and as many trials of numbers of its own; the trial with the
best mAP over labels on "val" is trained again with other seeds. The default is used as it ships, without trials. It
was chosen on training rows of the same sets. Its weight of the two-way loss was tuned again, on such rows, after a
first table of test rows had shown that 0.01 was little; so these tables are the second use of the test rows, not the
first.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from experiments.runs import RunStore, digest_of
from experiments.tables import Cell, Column, Table, paired
from experiments.training import Method, old_spelling
from manyhot.data import from_arrays
from manyhot.data.dataset import Dataset
from manyhot.engine import NoProgress
from manyhot.errors import InputError
from manyhot.metrics import CalibrationError, LogLoss, MeanAveragePrecision
from manyhot.predictions import Predictions
from manyhot.settings import LOSSES
from manyhot.training import TrainSettings
from manyhot.training.comparison import slug
from manyhot.training.pipeline import fit_classifier
from manyhot.training.prepare import prepare, with_all_splits, with_learnable_labels

SETS = ("coco, 6000", "scene", "yeast", "corel5k", "demo")
SEEDS = (0, 1, 2)
TRIALS = 4
SHIPPED = "default"
Settings = dict[str, Any]


def losses(pattern: str, numbers: Sequence[object]) -> list[Settings]:
    """Trials of a loss with numbers of its own."""
    calls = [pattern.format(*number) if isinstance(number, tuple) else pattern.format(number) for number in numbers]
    return [{"loss": text} for text in calls]


def fit_settings_trials(loss: str) -> list[Settings]:
    """Trials of a loss that has no numbers of its own."""
    return [{"loss": loss, **change} for change in ({}, {"lr": 5e-4}, {"lr": 4e-3}, {"weight_decay": 0.3})]


SPA = "StrictlyProperAsymmetricLoss(zeta_neg={}, k_neg={}, b_neg={})"
PAPERS = {
    "BCE": fit_settings_trials("BinaryCrossEntropyLoss()"),
    "ASL": losses("AsymmetricLoss({}, {}, {})", [(4, 0, 0.05), (4, 1, 0.05), (2, 0, 0.05), (2, 0, 0)]),
    "SPA": losses(SPA, [(5, 3, 1), (2, 2, 0.5), (5, 2, 0.5), (2, 1.5, 0)]),
    "SPA + LPR": losses("LabelPairRegulariser(StrictlyProperAsymmetricLoss(), weight={})", [0.01, 0.1, 0.3, 1]),
    "two-way": losses("TwoWayLoss(temperature_pos={})", [4, 1, 2, 8]),
    "quasibinary": losses("QuasibinaryLoss(penalty_weight={})", [1, 0.3, 3, 10]),
    "softmax": fit_settings_trials("MultiLabelSoftmaxLoss()"),
}
# The parts of the default alone.
PARTS = {
    "one head": {"loss": LOSSES["head"], "heads": 1},
    "BCE, two heads": {"loss": "BinaryCrossEntropyLoss()", "heads": 2},
    "two-way, two heads": {"loss": "TwoWayLoss()", "heads": 2},
}
# The default at the first look at the test rows had less of the two-way loss: its runs are shown, not run again.
FIRST_DEFAULT = {"loss": "SumLoss(BinaryCrossEntropyLoss(), TwoWayLoss(), weights=(1, 0.01), link=SigmoidLink())"}
FIRST_METHODS = ("one head", SHIPPED)
FIGURES = (
    Column("mAP by class %", digits=2),
    Column("mAP by sample %", digits=2),
    Column("log loss a row", "plain", 3, "low"),
    Column("ACE %", digits=2, best="low"),
)
NAMES = ("map", "map_sample", "log_loss", "ace")


# Settings that stored results do not know: they count only where they are not at their defaults.
ADDED_SETTINGS = ("find_unused_parameters", "momentum", "nesterov", "bias_lr", "decay_all", "bias", "scale")


@dataclass(frozen=True)
class TrainingJob:
    """A run of `manyhot train` on a table of features.

    Attributes:
        dataset: Name of the set, and after a comma how many rows of it to train on.
        method_name: As tables call it.
        changes: Train settings that are not the default, as JSON.
        seed: Of the run.
    """

    dataset: str
    method_name: str
    changes: str
    seed: int

    @cached_property
    def train_settings(self) -> TrainSettings:
        """All train settings."""
        return TrainSettings.build({"accelerator": "cpu", "devices": 1, **json.loads(self.changes), "seed": self.seed})

    @property
    def method(self) -> Method:
        """The method, for the record of the run."""
        return Method(self.method_name, self.train_settings.loss)

    def settings(self) -> Settings:
        """All that decides the figures, as stored results spell it."""
        settings = self.train_settings.to_dict()
        texts = {name: old_spelling(settings[name]) for name in ("loss", "calibrator", "rule")}
        defaults = TrainSettings()
        for name in ADDED_SETTINGS:
            if settings[name] == getattr(defaults, name):
                del settings[name]
        return {"material": self.dataset, "recipe": settings | texts | {"nodes": 1, "strategy": "auto"}}

    def file(self) -> Path:
        """The file of its figures, below the folder of the store."""
        name = f"{slug(self.method_name)}-s{self.seed}-{digest_of(self.settings())}.json"
        return Path("default") / slug(self.dataset) / name


@dataclass(frozen=True)
class DefaultComparison:
    """The default and the methods of the papers, with their runs.

    Attributes:
        store: Of the runs.
        seeds: Of the runs in the tables; the first is that of the trials.
        common: Settings for all runs, for a quick look.
    """

    store: RunStore
    seeds: Sequence[int] = SEEDS
    common: Mapping[str, Any] = field(default_factory=dict)

    def job(self, dataset: str, method: str, changes: Settings, seed: int) -> TrainingJob:
        """A run; the methods of the papers have one head."""
        own = changes if method == SHIPPED else {"heads": 1, **changes}
        return TrainingJob(dataset, method, json.dumps({**self.common, **own}, sort_keys=True), seed)

    def trials(self, dataset: str) -> list[TrainingJob]:
        """The runs that the methods of the papers are tuned on."""
        assert all(len(results) == TRIALS for results in PAPERS.values())
        return [self.job(dataset, name, own, self.seeds[0]) for name, results in PAPERS.items() for own in results]

    def methods(self, dataset: str) -> dict[str, Settings]:
        """The rows of a table with their settings: those of the papers as their best trial on "val" has them."""

        def on_val(name: str, changes: Settings) -> float | None:
            run = self.store.find(self.job(dataset, name, changes, self.seeds[0]))
            return None if run is None else run["figures"]["val"]["map"]

        tuned = {}
        for name, results in PAPERS.items():
            values = [value for changes in results if (value := on_val(name, changes)) is not None]
            if len(values) == len(results):  # nothing is chosen from half of the trials
                tuned[name] = results[values.index(max(values))]
        return {**tuned, **PARTS, SHIPPED: {}}

    def jobs(self, dataset: str) -> list[TrainingJob]:
        """The runs of a table, once its trials are done."""
        methods = self.methods(dataset)
        return [self.job(dataset, name, own, seed) for name, own in methods.items() for seed in self.seeds]

    def first_jobs(self, dataset: str, method: str) -> list[TrainingJob]:
        """The runs of a method at the first look at the test rows."""
        return [self.job(dataset, method, FIRST_DEFAULT, seed) for seed in self.seeds]

    def run(self, open_set: Callable[[str], Dataset], datasets: Sequence[str] = SETS) -> None:
        """Carries out what is missing: first the trials of a dataset, then the chosen settings with every seed."""
        for dataset in datasets:
            data = open_set(dataset)
            for make_jobs in (self.trials, self.jobs):
                for job in make_jobs(dataset):
                    if self.store.find(job) is None:
                        done = carry_out(job, data)
                        self.store.save(job, done)
                        print(f"{dataset}, {job.method_name}, seed {job.seed}: {done['seconds']} s")

    def figures(self, jobs: Sequence[TrainingJob]) -> list[dict[str, float]]:
        """Of "test", one for each run; empty if one is missing."""
        runs = [run for job in jobs if (run := self.store.find(job)) is not None]
        return [run["figures"]["test"] for run in runs] if len(runs) == len(jobs) else []

    def table(self, dataset: str) -> str:
        """The figures of the methods on the test rows of a dataset, and the default less each of them."""
        methods = self.methods(dataset)
        jobs = {name: [self.job(dataset, name, own, seed) for seed in self.seeds] for name, own in methods.items()}
        jobs |= {f"{name}, first look": self.first_jobs(dataset, name) for name in FIRST_METHODS}
        results = {name: by_seed(runs) for name, own in jobs.items() if (runs := self.figures(own))}
        if SHIPPED not in results:
            return f"### {dataset}\n\nNo runs yet.\n"
        own = results[SHIPPED]
        rows: list[list[Cell]] = [[name, *columns] for name, columns in results.items()]
        gaps: list[list[Cell]] = [
            [name, *(paired(ours, theirs) for ours, theirs in zip(own, columns, strict=True))]
            for name, columns in results.items()
            if name != SHIPPED
        ]
        plain = [replace(column, best=None) for column in FIGURES]
        first = Table([Column("method", best=None), *FIGURES], rows).markdown()
        second = Table([Column("default less", best=None), *plain], gaps).markdown()
        return f"### {dataset}\n\n{first}\n{second}"

    def page(self, datasets: Sequence[str] = SETS) -> str:
        """All tables."""
        return "\n".join(self.table(dataset) for dataset in datasets)


def by_seed(runs: Sequence[dict[str, float]]) -> list[list[float]]:
    """Runs as one list a figure."""
    return [[run[name] for run in runs] for name in NAMES]


def carry_out(job: TrainingJob, data: Dataset) -> dict[str, Any]:
    """Trains and evaluates; "test" is evaluated here, but nothing is chosen by it."""
    data = with_learnable_labels(with_all_splits(data, job.train_settings), job.train_settings.min_count)
    start = time.monotonic()
    trained = fit_classifier(prepare(data, job.train_settings), job.train_settings, progress=NoProgress())
    figures = {split: evaluated(trained.predictions.of_split(split)) for split in ("val", "test")}
    return {"seconds": round(trained.seconds, 2), "in all": round(time.monotonic() - start, 2), "figures": figures}


def evaluated(rows: Predictions) -> dict[str, float]:
    """The figures of calibrated probabilities in the tables."""
    bins = CalibrationError().update(rows.probs, rows.targets).compute()
    return {
        "map": float(MeanAveragePrecision().update(rows.probs, rows.targets).compute().value),
        "map_sample": float(MeanAveragePrecision(average="samples").update(rows.probs, rows.targets).compute().value),
        "log_loss": float(LogLoss().update(rows.probs, rows.targets).compute()["log_loss_per_row"]),
        "ace": float(bins["ace"]),
        "ece": float(bins["ece"]),
    }


class FeatureFiles:
    """Data sets by name from a folder of npz files, for `DefaultComparison.run`.

    A file holds x and y with splits, x_train, y_train, x_test and y_test, or x and y alone, whose last tenth is then
    the test split.

    Args:
        folder: With `<name>.npz`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def __call__(self, dataset: str) -> Dataset:
        """The data set of "name", or of "name, rows" for only `rows` training rows, those of "val" included."""
        name, _, rows = dataset.partition(", ")
        path = self.folder / f"{name}.npz"
        if not path.is_file():
            raise InputError("set", "experiments", "have a file", str(path), "Put its features there.")
        with np.load(path) as content:
            x, y, splits = _arrays(dict(content))
        if rows:
            selected = _fewer(splits, int(rows))
            x, y, splits = x[selected], y[selected], splits[selected]
        return from_arrays(x.astype(np.float32), y.astype(np.int8), splits=splits)


def _arrays(content: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if "x_train" in content:
        x, y = (np.concatenate([content[f"{part}_train"], content[f"{part}_test"]]) for part in "xy")
        return x, y, np.repeat(["train", "test"], [len(content["x_train"]), len(content["x_test"])])
    x, y = content["x"], content["y"]
    if "splits" in content:
        return x, y, content["splits"]
    test = len(x) // 10
    return x, y, np.repeat(["train", "test"], [len(x) - test, test])


def _fewer(splits: np.ndarray, rows: int) -> np.ndarray:
    """Indices of some rows of "train", and of all of "test"."""
    train = np.random.default_rng(0).permutation(np.flatnonzero(splits == "train"))[:rows]
    return np.sort(np.concatenate([train, np.flatnonzero(splits == "test")]))
