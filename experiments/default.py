"""The default recipe against the methods of the papers, on tables of features: chosen on "val", judged once on "test".

Every method has the same network, plan and calibrator, and as many trials of numbers of its own; the trial with the
best mAP over labels on "val" is trained again with other seeds. The default is taken as it ships, without trials. It
was found on rows to train on of the same sets. Its weight of the two-way loss was looked at again, on such rows,
after a first table of test rows had shown that 0.01 was little; so these tables are the second look at the test rows,
not the first.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.arms import Arm
from experiments.harness.jobs import Ledger
from experiments.harness.statistics import paired
from experiments.harness.tables import Column, Table
from manyhot.data import from_arrays
from manyhot.data.dataset import Dataset
from manyhot.engine import Silent
from manyhot.metrics import CalibrationError, LogLoss, MeanAveragePrecision
from manyhot.predictions import Predictions
from manyhot.refusal import refusal
from manyhot.training import Recipe
from manyhot.training.comparing import slug
from manyhot.training.fitting import fit_recipe
from manyhot.training.preparing import prepare
from manyhot.training.recipe import LOSSES
from manyhot.training.splitting import with_all_splits, with_learnable_labels

SETS = ("coco, 6000", "scene", "yeast", "corel5k", "demo")
SEEDS = (0, 1, 2)
TRIALS = 4
SHIPPED = "default"
Settings = dict[str, Any]


def losses(pattern: str, numbers: Sequence[object]) -> list[Settings]:
    """Trials of a loss with numbers of its own."""
    texts = [pattern.format(*number) if isinstance(number, tuple) else pattern.format(number) for number in numbers]
    return [{"loss": text} for text in texts]


def plans(loss: str) -> list[Settings]:
    """Trials of a loss that has no numbers of its own."""
    return [{"loss": loss, **change} for change in ({}, {"lr": 5e-4}, {"lr": 4e-3}, {"weight_decay": 0.3})]


SPA = "StrictlyProperAsymmetricLoss(zeta_neg={}, k_neg={}, b_neg={})"
PAPERS = {
    "BCE": plans("BinaryCrossEntropyLoss()"),
    "ASL": losses("AsymmetricLoss({}, {}, {})", [(4, 0, 0.05), (4, 1, 0.05), (2, 0, 0.05), (2, 0, 0)]),
    "SPA": losses(SPA, [(5, 3, 1), (2, 2, 0.5), (5, 2, 0.5), (2, 1.5, 0)]),
    "SPA + LPR": losses("LabelPairRegulariser(StrictlyProperAsymmetricLoss(), weight={})", [0.01, 0.1, 0.3, 1]),
    "two-way": losses("TwoWayLoss(temperature_pos={})", [4, 1, 2, 8]),
    "quasibinary": losses("QuasibinaryLoss(penalty_weight={})", [1, 0.3, 3, 10]),
    "softmax": plans("SoftmaxLoss()"),
}
# What each part of the default does by itself.
PARTS = {
    "one head": {"loss": LOSSES["head"], "heads": 1},
    "BCE, two heads": {"loss": "BinaryCrossEntropyLoss()", "heads": 2},
    "two-way, two heads": {"loss": "TwoWayLoss()", "heads": 2},
}
# The default at the first look at the test rows had less of the two-way loss: its runs are shown and not made again.
FIRST_LOOK = {"loss": "SumLoss(BinaryCrossEntropyLoss(), TwoWayLoss(), weights=(1, 0.01), link=SigmoidLink())"}
FIRST_METHODS = ("one head", SHIPPED)
FIGURES = (
    Column("mAP by class %", digits=2),
    Column("mAP by sample %", digits=2),
    Column("log loss a row", "plain", 3, "low"),
    Column("ACE %", digits=2, best="low"),
)
NAMES = ("map", "map_sample", "log_loss", "ace")


@dataclass(frozen=True)
class RecipeJob:
    """A run of `manyhot train` on a table of features.

    Attributes:
        material: Name of the set, and after a comma how many rows of it to train on.
        method: As tables call it.
        changes: Settings of the recipe that are not the default, as JSON.
        seed: Of the run.
    """

    material: str
    method: str
    changes: str
    seed: int

    @cached_property
    def recipe(self) -> Recipe:
        """The whole recipe."""
        return Recipe.build({"accelerator": "cpu", "devices": 1, **json.loads(self.changes), "seed": self.seed})

    @property
    def arm(self) -> Arm:
        """What the ledger calls it by."""
        return Arm(self.method, self.recipe.loss)

    def settings(self) -> Settings:
        """All that decides the figures."""
        return {"material": self.material, "recipe": self.recipe.settings()}

    def file(self) -> Path:
        """Where its figures are kept, below the folder of the ledger."""
        digest = hashlib.sha256(json.dumps(self.settings(), sort_keys=True).encode()).hexdigest()[:8]
        return Path("default") / slug(self.material) / f"{slug(self.method)}-s{self.seed}-{digest}.json"


@dataclass(frozen=True)
class Comparison:
    """The default and the methods of the papers, with what has been run of them.

    Attributes:
        ledger: Where runs are kept.
        seeds: Of the runs in the tables; the first is that of the trials.
        common: Settings for all runs, for a quick look.
    """

    ledger: Ledger
    seeds: Sequence[int] = SEEDS
    common: Mapping[str, Any] = field(default_factory=dict)

    def job(self, material: str, method: str, changes: Settings, seed: int) -> RecipeJob:
        """A run; the methods of the papers have one head."""
        own = changes if method == SHIPPED else {"heads": 1, **changes}
        return RecipeJob(material, method, json.dumps({**self.common, **own}, sort_keys=True), seed)

    def trials(self, material: str) -> list[RecipeJob]:
        """What the methods of the papers are tuned by."""
        assert all(len(found) == TRIALS for found in PAPERS.values())
        return [self.job(material, name, own, self.seeds[0]) for name, found in PAPERS.items() for own in found]

    def methods(self, material: str) -> dict[str, Settings]:
        """The rows of a table with their settings: those of the papers as their best trial on "val" has them."""

        def on_val(name: str, changes: Settings) -> float | None:
            run = self.ledger.find(self.job(material, name, changes, self.seeds[0]))
            return None if run is None else run["figures"]["val"]["map"]

        tuned = {}
        for name, found in PAPERS.items():
            values = [on_val(name, changes) for changes in found]
            if None not in values:  # nothing is chosen from half of the trials
                tuned[name] = found[values.index(max(values))]
        return {**tuned, **PARTS, SHIPPED: {}}

    def jobs(self, material: str) -> list[RecipeJob]:
        """The runs of a table, once its trials are done."""
        methods = self.methods(material)
        return [self.job(material, name, own, seed) for name, own in methods.items() for seed in self.seeds]

    def first_jobs(self, material: str, method: str) -> list[RecipeJob]:
        """The runs of a method at the first look at the test rows."""
        return [self.job(material, method, FIRST_LOOK, seed) for seed in self.seeds]

    def run(self, open_set: Callable[[str], Dataset], materials: Sequence[str] = SETS) -> None:
        """Carries out what is missing: first the trials of a set, then what they chose with every seed."""
        for material in materials:
            data = open_set(material)
            for wanted in (self.trials, self.jobs):
                for job in wanted(material):
                    if self.ledger.find(job) is None:
                        done = carry_out(job, data)
                        self.ledger.keep(job, done)
                        print(f"{material}, {job.method}, seed {job.seed}: {done['seconds']} s")

    def figures(self, jobs: Sequence[RecipeJob]) -> list[dict[str, float]]:
        """Of "test", one for each run; empty where one is missing."""
        runs = [self.ledger.find(job) for job in jobs]
        return [] if any(run is None for run in runs) else [run["figures"]["test"] for run in runs]

    def table(self, material: str) -> str:
        """What the methods come to on the test rows of a set, and by how much the default is ahead of each."""
        methods = self.methods(material)
        jobs = {name: [self.job(material, name, own, seed) for seed in self.seeds] for name, own in methods.items()}
        jobs |= {f"{name}, first look": self.first_jobs(material, name) for name in FIRST_METHODS}
        found = {name: by_seed(runs) for name, own in jobs.items() if (runs := self.figures(own))}
        if SHIPPED not in found:
            return f"### {material}\n\nNo runs yet.\n"
        own = found[SHIPPED]
        rows = [[name, *columns] for name, columns in found.items()]
        gaps = [
            [name, *(paired(ours, theirs) for ours, theirs in zip(own, columns, strict=True))]
            for name, columns in found.items()
            if name != SHIPPED
        ]
        plain = [replace(column, best=None) for column in FIGURES]
        first = Table([Column("method", best=None), *FIGURES], rows).markdown()
        second = Table([Column("default less", best=None), *plain], gaps).markdown()
        return f"### {material}\n\n{first}\n{second}"

    def page(self, materials: Sequence[str] = SETS) -> str:
        """All tables."""
        return "\n".join(self.table(material) for material in materials)


def by_seed(runs: Sequence[dict[str, float]]) -> list[list[float]]:
    """Runs as one list a figure."""
    return [[run[name] for run in runs] for name in NAMES]


def carry_out(job: RecipeJob, data: Dataset) -> dict[str, Any]:
    """Trains and judges; "test" is measured here and looked at only in the tables."""
    data = with_learnable_labels(with_all_splits(data, job.recipe), job.recipe.min_count)
    start = time.monotonic()
    trained = fit_recipe(prepare(data, job.recipe), job.recipe, progress=Silent())
    figures = {split: judged(trained.predictions.of_split(split)) for split in ("val", "test")}
    return {"seconds": round(trained.seconds, 2), "in all": round(time.monotonic() - start, 2), "figures": figures}


def judged(rows: Predictions) -> dict[str, float]:
    """What the tables show of the calibrated probabilities."""
    bins = CalibrationError().update(rows.probs, rows.targets).compute()
    return {
        "map": float(MeanAveragePrecision().update(rows.probs, rows.targets).compute().value),
        "map_sample": float(MeanAveragePrecision(over="sample").update(rows.probs, rows.targets).compute().value),
        "log_loss": float(LogLoss().update(rows.probs, rows.targets).compute()["log_loss_per_row"]),
        "ace": float(bins["ace"]),
        "ece": float(bins["ece"]),
    }


class FeatureFiles:
    """Data sets by name from a folder of npz files, as `Comparison.run` wants them.

    A file holds x and y with splits, x_train, y_train, x_test and y_test, or x and y alone, of which the last tenth is
    then the test.

    Args:
        folder: With `<name>.npz`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def __call__(self, material: str) -> Dataset:
        """The data set of "name", or of "name, rows" for only so many rows to train on, those of "val" among them."""
        name, _, rows = material.partition(", ")
        path = self.folder / f"{name}.npz"
        if not path.is_file():
            raise refusal("set", "experiments", "have a file", str(path), "Put its features there.")
        with np.load(path) as content:
            x, y, splits = _arrays(dict(content))
        if rows:
            kept = _fewer(splits, int(rows))
            x, y, splits = x[kept], y[kept], splits[kept]
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
    """Which rows to keep: some of "train", and all of "test"."""
    train = np.random.default_rng(0).permutation(np.flatnonzero(splits == "train"))[:rows]
    return np.sort(np.concatenate([train, np.flatnonzero(splits == "test")]))
