"""Materials by name: which data, what was made of them, and what learns from them."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.harness.networks import Restarted, start_of
from experiments.harness.pixels import Changes
from experiments.harness.sets import Rows, decoded, feature_rows, made_once, reduced, rows_of
from experiments.harness.training import Material
from experiments.layouts import long_tailed, read_layout, superclasses_of, zero_label_columns
from manyhot.backbones import create_backbone, extract_features
from manyhot.engine import Plan
from manyhot.refusal import refusal


@dataclass(frozen=True)
class Kind:
    """How the pictures of a set are learnt from.

    Attributes:
        size: Side in pixels.
        backbone: What learns; see `start_of`.
        width: Its number of features.
        val: Rows to set aside where the set has no split "val".
        changes: What training does to pictures.
        plan: How to train, but for the seed.
    """

    size: int
    backbone: str
    width: int
    val: int
    changes: Changes
    plan: Plan


SCRATCH = Plan(epochs=7, batch_size=500, lr=3e-3, weight_decay=0.05, schedule="one-cycle", warmup=0.2, precision="bf16")
TUNED = Plan(
    epochs=4,
    batch_size=250,
    lr=1e-3,
    head_lr=3e-3,
    weight_decay=0.05,
    schedule="one-cycle",
    warmup=0.2,
    ema=0.998,
    precision="bf16",
)
# Small sets get four times as many epochs.
FEATURES = Plan(epochs=10, batch_size=250, lr=1e-3, weight_decay=0.05, schedule="cosine")
SMALL = Kind(32, "small-resnet18", 512, 5000, Changes(area=0.5), SCRATCH)
FINE = Kind(128, "efficientnet_lite0", 1280, 800, Changes(area=0.35), replace(TUNED, epochs=8, batch_size=125))
KINDS = {
    "cifar10": replace(SMALL, plan=replace(SCRATCH, epochs=12)),
    "cifar100": replace(SMALL, plan=replace(SCRATCH, epochs=30)),
    "tiny-imagenet": replace(SMALL, size=64, changes=Changes(area=0.35, sizes=(32, 48))),
    "flowers": FINE,
    "cub": replace(FINE, size=224),
    "cars": replace(FINE, size=224),
    "dogs": replace(FINE, size=224),
    "aircraft": replace(FINE, size=224),
    "plantnet300k": replace(FINE, size=224, val=3000),
    "imagenet": Kind(128, "resnet18", 512, 10000, Changes(area=0.35), replace(SCRATCH, epochs=16)),
    "voc": replace(FINE, size=224),
    "nus-wide": Kind(128, "efficientnet_lite0", 1280, 6000, Changes(area=0.35), TUNED),
    "coco": Kind(128, "efficientnet_lite0", 1280, 6081, Changes(area=0.35), TUNED),
}
REDUCED = 384  # principal components of frozen features that are kept


class Catalogue:
    """Opens materials and keeps them open.

    Args:
        folder: Where the data lie, one folder a set, in any layout that `read_layout` knows.
        weights: A safetensors file with the weights of EfficientNet-Lite0, where their package is not installed.
        cache: For decoded pictures and frozen features; below `folder` by default.
    """

    def __init__(self, folder: Path, *, weights: Path | None = None, cache: Path | None = None) -> None:
        self.folder, self.weights = Path(folder), weights
        self.cache = Path(cache) if cache is not None else self.folder / "cache"
        self._rows: dict[str, Rows] = {}
        self._nets: dict[tuple[str, int], Restarted] = {}

    def __getstate__(self) -> dict[str, object]:
        """For processes of their own, which open what they need."""
        return {**self.__dict__, "_rows": {}, "_nets": {}}

    def __call__(self, name: str) -> Material:
        """The material of a name."""
        kind, rows = kind_of(name), self._variant(name)
        if is_features(name):
            return rows.features()
        key = kind.backbone, kind.size
        if key not in self._nets:
            self._nets[key] = Restarted(start_of(*key, self.weights), device())
        return rows.pictures(self._nets[key], kind.width, kind.changes)

    def _variant(self, name: str) -> Rows:
        whole, _, variant = name.partition(": ")
        if whole not in self._rows:
            opened = self._features(whole) if is_features(whole) else self._pictures(whole)
            self._rows[whole] = opened.with_val(kind_of(whole).val)
        if name not in self._rows:
            self._rows[name] = MAKERS[variant](self._rows[whole], name)
        return self._rows[name]

    def _pictures(self, name: str) -> Rows:
        data, size = read_layout(self.folder / name), kind_of(name).size
        pixels = decoded(data, size, self.cache / f"{name}-{size}.npy")
        return rows_of(data, pixels.to(device()), name)

    def _features(self, name: str) -> Rows:
        source = name.removesuffix(" features")
        file = self.cache / f"{source}-features.npz"
        with made_once(file) as missing:
            if missing:
                data = read_layout(self.folder / source)
                backbone = create_backbone(weights=self.weights, size=feature_size(kind_of(name)))
                kept = self.cache / "backbones"
                found = extract_features(backbone, data, cache=kept, device=device(), on_bad_image="fail")
                reduced(file, found.features, data, REDUCED)
        return feature_rows(file, name)


def kind_of(name: str) -> Kind:
    """How a set is learnt from."""
    whole, colon, variant = name.partition(": ")
    source = whole.removesuffix(" features")
    if source not in KINDS:
        raise refusal("set", "experiments", f"be one of {', '.join(KINDS)}", repr(source), "Name its folder so.")
    if colon and variant not in MAKERS:
        raise refusal("variant", source, f"be one of {', '.join(filter(None, MAKERS))}", repr(variant), "Pick one.")
    return KINDS[source]


def plan_for(name: str) -> Plan:
    """How arms are trained on a material, but for the seed."""
    kind = kind_of(name)
    if is_features(name):
        return replace(FEATURES, epochs=4 * FEATURES.epochs) if kind.val < 1000 else FEATURES
    # A long tail has a fifth of the rows; with twice the epochs each arm still has fewer steps than on all of them.
    return replace(kind.plan, epochs=2 * kind.plan.epochs) if name.endswith(": long-tailed") else kind.plan


def learnt_from(name: str) -> dict[str, Any]:
    """What else decides a run on a material: size, network, and what is done to pictures."""
    kind = kind_of(name)
    if is_features(name):
        return {"features": REDUCED, "of": "efficientnet_lite0", "size": feature_size(kind), "val": kind.val}
    return {"size": kind.size, "backbone": kind.backbone, "changes": asdict(kind.changes), "val": kind.val}


def feature_size(kind: Kind) -> int:
    """Side of the pictures that frozen features are of."""
    return 192 if kind.size > 64 else 128


def is_features(name: str) -> bool:
    """Whether a material is of frozen features."""
    return name.partition(": ")[0].endswith(" features")


def device() -> torch.device:
    """Where networks learn."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def without_some_labels(rows: Rows, name: str) -> Rows:
    """Two labels of every group of five are dropped; samples that had no other become samples without a label.

    Where samples carry several labels, a third of the labels is dropped, spread evenly over their frequencies.
    """
    if (rows.targets.sizes() > 1).any():
        by_count = np.argsort(-rows.targets.counts(), kind="stable")
        return rows.select(sorted(by_count[np.arange(len(by_count)) % 3 != 1].tolist()), name)
    return rows.select(zero_label_columns(rows.labels, superclasses_of(rows.labels)), name)


def with_long_tail(rows: Rows, name: str) -> Rows:
    """The rows to train on thinned out so that the most frequent label has 100 times those of the rarest."""
    train = np.flatnonzero(rows.splits == "train")
    first = rows.first_labels()
    kept = train[long_tailed(first[train], ratio=100)]
    return rows.take(np.sort(np.concatenate([kept, np.flatnonzero(rows.splits != "train")])), name)


def with_strangers(rows: Rows, name: str) -> Rows:
    """As `without_some_labels`, but only the test has samples without a label: nothing is learnt about them."""
    cut = without_some_labels(rows, name)
    empty = cut.targets.sizes() == 0
    return cut.take(np.flatnonzero(~empty | (cut.splits == "test")), name)


def part_of(rows: Rows, name: str) -> Rows:
    """For trials of hyperparameters: 20,000 of the rows to train on, and "val" halved, to calibrate and to judge."""
    generator = np.random.default_rng(1)
    train = generator.permutation(np.flatnonzero(rows.splits == "train"))[:20_000]
    val = generator.permutation(np.flatnonzero(rows.splits == "val"))
    taken = rows.take(np.concatenate([train, val]), name)
    splits = taken.splits.copy()
    splits[len(train) + len(val) // 2 :] = "test"
    return replace(taken, splits=splits)


# Materials are "set", "set: variant", or either with " features" behind the set: "tiny-imagenet features: long-tailed".
MAKERS: dict[str, Callable[[Rows, str], Rows]] = {
    "": lambda rows, name: rows,
    "zero labels": without_some_labels,
    "long-tailed": with_long_tail,
    "open set": with_strangers,
    "part": part_of,
    "zero labels, part": lambda rows, name: part_of(without_some_labels(rows, name), name),
}
