"""Small generated data under the names of the real sets, to see in seconds that an experiment runs."""

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from experiments.harness.catalogue import MAKERS, is_features, kind_of
from experiments.harness.jobs import Job
from experiments.harness.networks import Restarted
from experiments.harness.pixels import Changes
from experiments.harness.sets import Rows
from experiments.harness.training import Material
from manyhot.backbones import Backbone
from manyhot.backbones.backbone import wrap
from manyhot.backbones.preprocessing import Preprocessing
from manyhot.data.targets import SparseTargets

MANY = ("coco", "voc", "nus-wide")
LABELS, WIDTH, SIDE = 15, 12, 8
SIZES = {"train": 120, "val": 60, "test": 60}


def shorten(job: Job) -> Job:
    """The same run in two short epochs."""
    return replace(job, plan=replace(job.plan, epochs=2, batch_size=40, precision="32"))


class Generated:
    """Materials by name, as `Catalogue` gives them, of patterns and noise."""

    def __init__(self) -> None:
        self._rows: dict[str, Rows] = {}
        self._net = Restarted(_small_backbone, torch.device("cpu"))

    def __call__(self, name: str) -> Material:
        """The material of a name."""
        rows = self._variant(name)
        return rows.features() if is_features(name) else rows.pictures(self._net, WIDTH, Changes())

    def _variant(self, name: str) -> Rows:
        whole, _, variant = name.partition(": ")
        kind_of(whole)
        if whole not in self._rows:
            self._rows[whole] = generate(whole)
        if name not in self._rows:
            self._rows[name] = MAKERS[variant](self._rows[whole], name)
        return self._rows[name]


def generate(name: str) -> Rows:
    """Rows whose samples are the sum of what their labels look like, and noise."""
    generator = np.random.default_rng(0)
    splits = np.repeat(list(SIZES), list(SIZES.values()))
    n = len(splits)
    if name.partition(" ")[0] in MANY:
        y = generator.random((n, LABELS)) < np.linspace(0.4, 0.05, LABELS)
        y[np.arange(n), generator.integers(LABELS, size=n)] = True
    else:
        # In turn, so that every split has every label.
        y = np.eye(LABELS, dtype=bool)[np.arange(n) % LABELS]
    patterns = generator.normal(size=(LABELS, WIDTH if is_features(name) else 3 * SIDE * SIDE))
    samples = y @ patterns + generator.normal(size=(n, patterns.shape[1]))
    if is_features(name):
        tensor = torch.from_numpy(samples).float()
    else:
        pixels = np.clip(127 + 40 * samples, 0, 255).astype(np.uint8)
        tensor = torch.from_numpy(pixels.reshape(n, 3, SIDE, SIDE))
    labels = tuple(f"n{i:08d} label {i}" for i in range(LABELS))
    return Rows(name, labels, SparseTargets.from_dense(y.astype(np.int8)), splits, tensor, torch.arange(n))


def _small_backbone(seed: int) -> Backbone:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [nn.Conv2d(3, WIDTH, 3), nn.BatchNorm2d(WIDTH), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        module = nn.Sequential(*layers)
    return wrap(module, WIDTH, Preprocessing(size=SIDE), name="small")
