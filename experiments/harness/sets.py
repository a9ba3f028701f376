"""Data sets as materials: pictures decoded once and kept on the device, or features; whole, cut down or relabelled."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments.harness.networks import Restarted
from experiments.harness.pixels import Changes, PixelBatches
from experiments.harness.training import Material
from manyhot.backbones.preprocessing import Preprocessing
from manyhot.data.dataset import Dataset
from manyhot.data.images import read_image
from manyhot.data.loading import Batches, FeatureBatches
from manyhot.data.targets import SparseTargets
from manyhot.engine import Plan
from manyhot.files import locked, whole_file
from manyhot.refusal import refusal

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Rows:
    """Labelled samples of an experiment, whatever they are made of.

    Attributes:
        name: For tables and files.
        labels: Names of the K labels.
        targets: (N, K).
        splits: (N,) "train", "val" or "test"; rows of other splits are not used.
        samples: (M, 3, H, W) uint8 pictures, or (M, D) features.
        places: (N,) which of the samples each row is; several sets may share their samples.
    """

    name: str
    labels: tuple[str, ...]
    targets: SparseTargets
    splits: np.ndarray
    samples: Tensor
    places: Tensor

    def take(self, rows: Any, name: str) -> "Rows":
        """Only these rows."""
        rows = np.asarray(rows)
        kept = {"targets": self.targets.take(rows), "splits": self.splits[rows]}
        return replace(self, name=name, places=self.places[torch.from_numpy(rows)], **kept)

    def select(self, columns: Sequence[int], name: str) -> "Rows":
        """Only these labels; samples that lose all of theirs stay, as samples without a label."""
        labels = tuple(self.labels[column] for column in columns)
        return replace(self, name=name, labels=labels, targets=self.targets.select(columns))

    def with_val(self, count: int, *, seed: int = 0) -> "Rows":
        """With so many of the rows to train on set aside as "val", the same share of each label; as is where it has."""
        if (self.splits == "val").any():
            return self
        train = np.flatnonzero(self.splits == "train")
        if count >= len(train):
            rule = f"have more than {count} rows to train on, since so many are set aside as 'val'"
            raise refusal("data", self.name, rule, str(len(train)), "Give the set a split 'val' of its own.")
        order = np.random.default_rng(seed).permutation(train)
        first = self.first_labels()[order]
        place_in_label = np.empty(len(order), dtype=np.int64)
        for label in np.unique(first):
            own = np.flatnonzero(first == label)
            place_in_label[own] = np.arange(len(own)) * len(order) // len(own)
        chosen = order[np.argsort(place_in_label, kind="stable")[:count]]
        splits = self.splits.copy()
        splits[chosen] = "val"
        return replace(self, splits=splits)

    def of(self, split: str) -> tuple[Tensor, SparseTargets]:
        """Places and targets of a split."""
        rows = np.flatnonzero(self.splits == split)
        return self.places[torch.from_numpy(rows)], self.targets.take(rows)

    def first_labels(self) -> np.ndarray:
        """(N,) the lowest label of each row, -1 for none."""
        first = np.full(len(self.targets), -1, dtype=np.int64)
        rows, columns = self.targets.present()
        first[rows[::-1]] = columns[::-1]
        return first

    def pictures(self, backbone: Restarted, width: int, changes: Changes) -> Material:
        """As what a network learns from."""

        def parts(plan: Plan) -> dict[str, Batches]:
            found: dict[str, Batches] = {}
            for split in SPLITS:
                places, targets = self.of(split)
                own = changes if split == "train" else None
                found[split] = PixelBatches(
                    self.samples, places, targets, changes=own, seed=plan.seed, epochs=plan.epochs
                )
            return found

        return Material(self.name, self.labels, width, parts, backbone)

    def features(self) -> Material:
        """As what a head learns from: centred, in a unit in which features vary by 1."""
        places, _ = self.of("train")
        train = self.samples[places].float()
        mean, scale = train.mean(0), train.var(0, correction=0).mean().sqrt()

        def parts(plan: Plan) -> dict[str, Batches]:
            found: dict[str, Batches] = {}
            for split in SPLITS:
                places, targets = self.of(split)
                found[split] = FeatureBatches((self.samples[places].float() - mean) / scale, targets)
            return found

        return Material(self.name, self.labels, self.samples.shape[1], parts)


def rows_of(dataset: Dataset, samples: Tensor, name: str) -> Rows:
    """A data set of manyhot with its pictures or features in one tensor."""
    if dataset.splits is None or dataset.targets is None:
        raise refusal("data", name, "have labels and splits", "none", "See experiments/README.md for the layouts.")
    splits = np.asarray(dataset.splits)
    return Rows(name, tuple(dataset.labels.names), dataset.targets, splits, samples, torch.arange(len(dataset)))


def decoded(dataset: Dataset, size: int, kept: Path, *, workers: int | None = None) -> Tensor:
    """(N, 3, size, size) uint8 of all pictures of a data set, read once and then kept in a file.

    Args:
        dataset: With images; one that cannot be read stops everything.
        size: Side in pixels, both sides scaled to it.
        kept: The file, an .npy.
        workers: Processes that read.
    """
    with made_once(kept) as missing:
        if missing:
            with whole_file(kept) as part:
                _decode(dataset, size, part, workers or os.cpu_count() or 1)
    # Changes stay in memory, and what goes to a GPU is read once from the file.
    return torch.from_numpy(np.load(kept, mmap_mode="c"))


def _decode(dataset: Dataset, size: int, file: Path, workers: int) -> None:
    pixels = np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=(len(dataset), 3, size, size))
    _READING[0] = dataset.images, Preprocessing(size=size)
    with get_context("fork").Pool(workers) as pool:
        for row, picture in enumerate(pool.imap(_read, range(len(dataset)), chunksize=64)):
            pixels[row] = picture
    _READING.clear()
    pixels.flush()


@contextmanager
def made_once(file: Path) -> Iterator[bool]:
    """Whether the file has yet to be made; meanwhile other processes that want it wait."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file.with_suffix(".lock")):
        yield not file.is_file()


# Forked processes find it here; as an argument it would travel to them with every picture.
_READING: dict[int, Any] = {}


def _read(row: int) -> np.ndarray:
    images, preprocessing = _READING[0]
    return preprocessing.prepare(read_image(images, row)).numpy()


def reduced(file: Path, features: np.ndarray, dataset: Dataset, width: int) -> None:
    """Keeps the first principal components of features, those of the rows to train on, as `feature_rows` reads them."""
    train = np.asarray(dataset.splits) == "train"
    centred = features - features[train].mean(0)
    _, axes = np.linalg.eigh(centred[train].T @ centred[train])
    x = centred @ axes[:, ::-1][:, : min(width, axes.shape[1])]
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as part, part.open("wb") as stream:
        names = np.array(dataset.labels.names, dtype=str)
        y = dataset.targets.dense().numpy()
        np.savez(stream, x=x.astype(np.float16), y=y, splits=np.array(dataset.splits, dtype=str), names=names)


def feature_rows(file: Path, name: str, *, rename: Mapping[str, str] | None = None) -> Rows:
    """Features from an npz file with x (N, D), y (N, K), splits (N,) and, if they are known, names (K,)."""
    with np.load(file) as content:
        x, y, splits = content["x"], content["y"], content["splits"]
        names = content["names"] if "names" in content else np.arange(y.shape[1])
    splits = np.array([(rename or {}).get(split, split) for split in splits.tolist()])
    targets = SparseTargets.from_dense(y.astype(np.int8))
    return Rows(name, tuple(map(str, names)), targets, splits, torch.from_numpy(x), torch.arange(len(x)))
