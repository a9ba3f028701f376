"""The data of the experiments by name: images on the device or frozen features, their variants, and the backbones."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from filelock import FileLock  # torch requires it
from torch import Tensor, nn

from experiments.datasets import long_tailed, read_layout, superclasses_of, zero_label_columns
from manyhot.backbones import Backbone, create_backbone, extract_features
from manyhot.backbones.backbone import wrap
from manyhot.data.dataset import Dataset
from manyhot.data.loading import Batch, Batches, FeatureBatches
from manyhot.data.sources import read_image
from manyhot.data.targets import SparseTargets
from manyhot.engine import FitSettings
from manyhot.engine.optim import mix_seeds
from manyhot.errors import InputError
from manyhot.files import atomic_write
from manyhot.preprocessing import Preprocessing


@dataclass(frozen=True)
class ExperimentDataset:
    """The data that methods are trained on.

    Attributes:
        name: Of the data and what was made of them, such as "tiny-imagenet 120+80".
        labels: Their names.
        width: Number of features.
        parts: Gives the batches of "train", "val" and "test" for fit settings, whose seed decides what is drawn.
        backbone: Builds, for a seed, the network that turns images into features; None where the samples are features.
    """

    name: str
    labels: tuple[str, ...]
    width: int
    parts: Callable[[FitSettings], dict[str, Batches]]
    backbone: Callable[[int], Backbone] | None = None


@dataclass(frozen=True)
class Augmentation:
    """Random changes to an image in training.

    Attributes:
        area: Smallest share of the image that a crop covers; 1 for no cropping.
        flip: Whether half of the images are mirrored.
        sizes: Sides in pixels through the run, shared out evenly over its epochs: (32, 64) sees small images in the
            first half, which costs a quarter, and full ones in the second. Empty for the size of the data.
    """

    area: float = 0.5
    flip: bool = True
    sizes: tuple[int, ...] = ()


class PixelBatches(Batches):
    """Rows of a tensor of images, for `manyhot.engine.fit`.

    What is drawn for a row depends on seed and epoch alone, as the engine requires.

    Args:
        pixels: (M, 3, H, W) uint8, on the device where the network learns.
        rows: (N,) indices into the images.
        targets: (N, K).
        augmentation: For training; None for rows that are only scored.
        seed: Of the random changes.
        epochs: Of the run, to share out the sizes.
    """

    def __init__(
        self,
        pixels: Tensor,
        rows: Tensor,
        targets: SparseTargets,
        *,
        augmentation: Augmentation | None = None,
        seed: int = 0,
        epochs: int = 1,
    ) -> None:
        self.pixels, self.targets, self.augmentation = pixels, targets, augmentation
        self.seed, self.epochs = seed, epochs
        self._rows = rows.to(pixels.device)
        self._dense = targets.dense().to(pixels.device)
        self._scaled: dict[int, Tensor] = {}

    def load(self, groups: Iterable[Sequence[int]], *, epoch: int | None) -> Iterator[Batch]:
        """One batch for each group of rows, augmented if an epoch and an augmentation are set."""
        device = self.pixels.device
        draws, source = None, self.pixels
        if epoch is not None and self.augmentation is not None:
            draws = self._draw(self.augmentation, epoch)
            source = self._at(self._size(self.augmentation, epoch))
        for group in groups:
            rows = torch.as_tensor(group, dtype=torch.int64)
            index = rows.to(device, non_blocking=True)
            pixels = source.index_select(0, self._rows.index_select(0, index))
            if draws is not None:
                pixels = change(pixels, draws.index_select(0, index))
            pixels = pixels.contiguous(memory_format=torch.channels_last)
            yield Batch(pixels, self._dense.index_select(0, index), index)

    def _size(self, augmentation: Augmentation, epoch: int) -> int:
        sizes = augmentation.sizes
        return sizes[min(len(sizes) * epoch // self.epochs, len(sizes) - 1)] if sizes else self.pixels.shape[-1]

    def _at(self, size: int) -> Tensor:
        """All images at another size, computed once."""
        if size == self.pixels.shape[-1]:
            return self.pixels
        if size not in self._scaled:
            parts = [
                F.interpolate(part.float(), size=(size, size), mode="bilinear", antialias=True, align_corners=False)
                for part in self.pixels.split(4096)
            ]
            self._scaled[size] = torch.cat([part.round().clamp(0, 255).to(torch.uint8) for part in parts])
        return self._scaled[size]

    def _draw(self, augmentation: Augmentation, epoch: int) -> Tensor:
        """(N, 4) for each row: scale, shifts across and down, and whether it is mirrored as 1 or -1."""
        generator = torch.Generator().manual_seed(mix_seeds(self.seed, 7, epoch))
        uniform = torch.rand(len(self), 4, generator=generator)
        scale = (augmentation.area + (1 - augmentation.area) * uniform[:, 0]).sqrt()
        shifts = (2 * uniform[:, 1:3] - 1) * (1 - scale).unsqueeze(1)
        mirror = torch.where((uniform[:, 3] < 0.5) & torch.tensor(augmentation.flip), -1.0, 1.0)
        return torch.cat([scale[:, None], shifts, mirror[:, None]], 1).to(self.pixels.device)


def change(pixels: Tensor, draws: Tensor) -> Tensor:
    """Crops, scales back to the same size and mirrors, each image as drawn; floats from 0 to 255."""
    scale, shift_x, shift_y, mirror = draws.unbind(1)
    zero = torch.zeros_like(scale)
    maps = torch.stack([scale * mirror, zero, shift_x, zero, scale, shift_y], 1).view(-1, 2, 3)
    grid = F.affine_grid(maps, list(pixels.shape), align_corners=False)
    wide = pixels.half() if pixels.is_cuda else pixels.float()
    return F.grid_sample(wide, grid.to(wide.dtype), mode="bilinear", padding_mode="reflection", align_corners=False)


# Of ImageNet, for pixels from 0 to 255.
MEAN, STD = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)


def small_resnet(name: str = "resnet18", *, stride: int = 1) -> Any:
    """A ResNet of timm for small images: the first layer sees 3 x 3 pixels, without pooling after it.

    Args:
        name: Of the model.
        stride: Of the first layer: 1 for images of 32 pixels, 2 for 64, which then cost the same.
    """
    import timm

    model: Any = timm.create_model(name, num_classes=0)
    model.conv1 = nn.Conv2d(3, model.conv1.out_channels, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.maxpool = nn.Identity()
    return model


def backbone_builder(name: str, size: int, weights: Path | None = None) -> Callable[[int], Backbone]:
    """A function that builds a backbone with its initial weights from a seed.

    Args:
        name: "small-resnet18", "efficientnet_lite0", or a model of timm from scratch.
        size: Side of the images.
        weights: A safetensors file to start from, where published weights are not installed.
    """

    def build(seed: int) -> Backbone:
        if name.startswith("small-"):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                module = small_resnet(name.removeprefix("small-"), stride=1 if size < 48 else 2)
            return wrap(module, module.num_features, Preprocessing(size=(size, size), mean=MEAN, std=STD), name=name)
        pretrained = name == "efficientnet_lite0"
        return create_backbone(name, pretrained=pretrained and weights is None, size=size, seed=seed, weights=weights)

    return build


class ReusableBackbone:
    """A backbone that every run initialises again in the same memory.

    It is not compiled: on a large GPU these networks are bound by kernel launches, which several concurrent runs make
    up for, and compiling gained nothing over that.

    Args:
        build: From a seed to a backbone with its initial weights.
        device: Where it is trained.
    """

    def __init__(self, build: Callable[[int], Backbone], device: torch.device) -> None:
        self.build, self.device = build, device
        self._backbone: Backbone | None = None

    def __call__(self, seed: int) -> Backbone:
        """The backbone with the initial weights of a seed."""
        fresh = self.build(seed)
        if self._backbone is None:
            self._backbone = fresh.to(self.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        else:
            self._backbone.load_state_dict(fresh.state_dict())
        return self._backbone.train()


SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Rows:
    """Labelled samples of an experiment, whatever they are made of.

    Attributes:
        name: For tables and files.
        labels: Names of the K labels.
        targets: (N, K).
        splits: (N,) "train", "val" or "test"; rows of other splits are not used.
        samples: (M, 3, H, W) uint8 images, or (M, D) features.
        positions: (N,) the index of each row's sample; several datasets may share their samples.
    """

    name: str
    labels: tuple[str, ...]
    targets: SparseTargets
    splits: np.ndarray
    samples: Tensor
    positions: Tensor

    def take(self, rows: Any, name: str) -> "Rows":
        """Only these rows."""
        rows = np.asarray(rows)
        own = {"targets": self.targets.take(rows), "splits": self.splits[rows]}
        return replace(self, name=name, positions=self.positions[torch.from_numpy(rows)], **own)

    def select(self, columns: Sequence[int], name: str) -> "Rows":
        """Only these labels; samples that lose all of theirs stay, as samples without a label."""
        labels = tuple(self.labels[column] for column in columns)
        return replace(self, name=name, labels=labels, targets=self.targets.select(columns))

    def with_val(self, count: int, *, seed: int = 0) -> "Rows":
        """With `count` training rows set aside as "val", the same share of each label; unchanged if it has a "val"."""
        if (self.splits == "val").any():
            return self
        train = np.flatnonzero(self.splits == "train")
        if count >= len(train):
            rule = f"have more than {count} rows to train on, since so many are set aside as 'val'"
            raise InputError("data", self.name, rule, str(len(train)), "Give the set a split 'val' of its own.")
        order = np.random.default_rng(seed).permutation(train)
        first = self.first_labels()[order]
        position_in_label = np.empty(len(order), dtype=np.int64)
        for label in np.unique(first):
            own = np.flatnonzero(first == label)
            position_in_label[own] = np.arange(len(own)) * len(order) // len(own)
        chosen = order[np.argsort(position_in_label, kind="stable")[:count]]
        splits = self.splits.copy()
        splits[chosen] = "val"
        return replace(self, splits=splits)

    def of(self, split: str) -> tuple[Tensor, SparseTargets]:
        """Positions and targets of a split."""
        rows = np.flatnonzero(self.splits == split)
        return self.positions[torch.from_numpy(rows)], self.targets.take(rows)

    def first_labels(self) -> np.ndarray:
        """(N,) the lowest label of each row, -1 for none."""
        first = np.full(len(self.targets), -1, dtype=np.int64)
        rows, columns = self.targets.present()
        first[rows[::-1]] = columns[::-1]
        return first

    def images(self, backbone: ReusableBackbone, width: int, augmentation: Augmentation) -> ExperimentDataset:
        """The dataset to train a network on."""

        def parts(fit_settings: FitSettings) -> dict[str, Batches]:
            batches: dict[str, Batches] = {}
            for split in SPLITS:
                positions, targets = self.of(split)
                drawn = {"seed": fit_settings.seed, "epochs": fit_settings.epochs}
                own = augmentation if split == "train" else None
                batches[split] = PixelBatches(self.samples, positions, targets, augmentation=own, **drawn)
            return batches

        return ExperimentDataset(self.name, self.labels, width, parts, backbone)

    def features(self) -> ExperimentDataset:
        """The dataset to train a head on: features centred and scaled to a mean variance of 1."""
        positions, _ = self.of("train")
        train = self.samples[positions].float()
        mean, scale = train.mean(0), train.var(0, correction=0).mean().sqrt()

        def parts(fit_settings: FitSettings) -> dict[str, Batches]:
            batches: dict[str, Batches] = {}
            for split in SPLITS:
                positions, targets = self.of(split)
                batches[split] = FeatureBatches((self.samples[positions].float() - mean) / scale, targets)
            return batches

        return ExperimentDataset(self.name, self.labels, self.samples.shape[1], parts)


def rows_of(dataset: Dataset, samples: Tensor, name: str) -> Rows:
    """A dataset of manyhot with its images or features in one tensor."""
    if dataset.splits is None or dataset.targets is None:
        raise InputError("data", name, "have labels and splits", "none", "See experiments/README.md for the layouts.")
    splits = np.asarray(dataset.splits)
    return Rows(name, tuple(dataset.labels.names), dataset.targets, splits, samples, torch.arange(len(dataset)))


def decoded(dataset: Dataset, size: int, cache: Path, *, workers: int | None = None) -> Tensor:
    """(N, 3, size, size) uint8 of all images of a dataset, decoded once and cached in a file.

    Args:
        dataset: With images; one that cannot be read raises.
        size: Side in pixels, both sides scaled to it.
        cache: The file, an .npy.
        workers: Processes that decode.
    """
    with made_once(cache) as missing:
        if missing:
            with atomic_write(cache) as part:
                _decode(dataset, size, part, workers or os.cpu_count() or 1)
    # Changes stay in memory, and what goes to a GPU is read once from the file.
    return torch.from_numpy(np.load(cache, mmap_mode="c"))


def _decode(dataset: Dataset, size: int, file: Path, workers: int) -> None:
    pixels = np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=(len(dataset), 3, size, size))
    _READING[0] = dataset.images, Preprocessing(size=(size, size))
    with get_context("fork").Pool(workers) as pool:
        for row, image in enumerate(pool.imap(_read, range(len(dataset)), chunksize=64)):
            pixels[row] = image
    _READING.clear()
    pixels.flush()


@contextmanager
def made_once(file: Path) -> Iterator[bool]:
    """Whether the file is missing and must be made in the block; other processes wait for it meanwhile."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_suffix(".lock")):
        yield not file.is_file()


# Forked processes read it here; as an argument it would be sent to them with every image.
_READING: dict[int, Any] = {}


def _read(row: int) -> np.ndarray:
    images, preprocessing = _READING[0]
    pixels: np.ndarray = preprocessing.prepare(read_image(images, row)).numpy()
    return pixels


def reduced(file: Path, features: np.ndarray, dataset: Dataset, width: int) -> None:
    """Writes the first principal components of features, fitted on the training rows, as `feature_rows` reads them."""
    assert dataset.targets is not None
    train = np.asarray(dataset.splits) == "train"
    centred = features - features[train].mean(0)
    _, axes = np.linalg.eigh(centred[train].T @ centred[train])
    x = centred @ axes[:, ::-1][:, : min(width, axes.shape[1])]
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as part, part.open("wb") as stream:
        names = np.array(dataset.labels.names, dtype=str)
        y = dataset.targets.dense().numpy()
        np.savez(stream, x=x.astype(np.float16), y=y, splits=np.array(dataset.splits, dtype=str), names=names)


def feature_rows(file: Path, name: str) -> Rows:
    """Features from an npz file with x (N, D), y (N, K), splits (N,) and optionally names (K,)."""
    with np.load(file) as content:
        x, y, splits = content["x"], content["y"], content["splits"]
        names = content["names"] if "names" in content else np.arange(y.shape[1])
    targets = SparseTargets.from_dense(y.astype(np.int8))
    return Rows(name, tuple(map(str, names)), targets, splits, torch.from_numpy(x), torch.arange(len(x)))


@dataclass(frozen=True)
class Kind:
    """How networks are trained on a dataset.

    Attributes:
        size: Side in pixels.
        backbone: Its name; see `backbone_builder`.
        width: Its number of features.
        val: Rows to set aside where the dataset has no split "val".
        augmentation: Of training images.
        fit_settings: How to train, but for the seed.
    """

    size: int
    backbone: str
    width: int
    val: int
    augmentation: Augmentation
    fit_settings: FitSettings


SCRATCH = FitSettings(
    epochs=7, batch_size=500, lr=3e-3, weight_decay=0.05, schedule="one-cycle", warmup=0.2, precision="bf16"
)
TUNED = FitSettings(
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
FEATURES = FitSettings(epochs=10, batch_size=250, lr=1e-3, weight_decay=0.05, schedule="cosine")
SMALL = Kind(32, "small-resnet18", 512, 5000, Augmentation(area=0.5), SCRATCH)
FINE = Kind(128, "efficientnet_lite0", 1280, 800, Augmentation(area=0.35), replace(TUNED, epochs=8, batch_size=125))
KINDS = {
    "cifar10": replace(SMALL, fit_settings=replace(SCRATCH, epochs=12)),
    "cifar100": replace(SMALL, fit_settings=replace(SCRATCH, epochs=30)),
    "tiny-imagenet": replace(SMALL, size=64, augmentation=Augmentation(area=0.35, sizes=(32, 48))),
    "flowers": FINE,
    "cub": replace(FINE, size=224),
    "cars": replace(FINE, size=224),
    "dogs": replace(FINE, size=224),
    "aircraft": replace(FINE, size=224),
    "plantnet300k": replace(FINE, size=224, val=3000),
    "imagenet": Kind(128, "resnet18", 512, 10000, Augmentation(area=0.35), replace(SCRATCH, epochs=16)),
    "voc": replace(FINE, size=224),
    "nus-wide": Kind(128, "efficientnet_lite0", 1280, 6000, Augmentation(area=0.35), TUNED),
    "coco": Kind(128, "efficientnet_lite0", 1280, 6081, Augmentation(area=0.35), TUNED),
}
REDUCED = 384  # principal components of frozen features


class Catalogue:
    """Opens datasets by name and caches them.

    Args:
        folder: Of the data, one folder per dataset, in any layout that `read_layout` knows.
        weights: A safetensors file with the weights of EfficientNet-Lite0, where their package is not installed.
        cache: For decoded images and frozen features; below `folder` by default.
    """

    def __init__(self, folder: Path, *, weights: Path | None = None, cache: Path | None = None) -> None:
        self.folder, self.weights = Path(folder), weights
        self.cache = Path(cache) if cache is not None else self.folder / "cache"
        self._rows: dict[str, Rows] = {}
        self._nets: dict[tuple[str, int], ReusableBackbone] = {}

    def __getstate__(self) -> dict[str, object]:
        """Without the cached datasets: worker processes open what they need."""
        return {**self.__dict__, "_rows": {}, "_nets": {}}

    def __call__(self, name: str) -> ExperimentDataset:
        """The dataset of a name."""
        kind, rows = kind_of(name), rows_by_name(name, self._rows, self._open)
        if is_features(name):
            return rows.features()
        key = kind.backbone, kind.size
        if key not in self._nets:
            self._nets[key] = ReusableBackbone(backbone_builder(*key, self.weights), default_device())
        return rows.images(self._nets[key], kind.width, kind.augmentation)

    def _open(self, whole: str) -> Rows:
        rows = self._features(whole) if is_features(whole) else self._images(whole)
        return rows.with_val(kind_of(whole).val)

    def _images(self, name: str) -> Rows:
        data, size = read_layout(self.folder / name), kind_of(name).size
        pixels = decoded(data, size, self.cache / f"{name}-{size}.npy")
        return rows_of(data, pixels.to(default_device()), name)

    def _features(self, name: str) -> Rows:
        source = name.removesuffix(" features")
        file = self.cache / f"{source}-features.npz"
        with made_once(file) as missing:
            if missing:
                data = read_layout(self.folder / source)
                backbone = create_backbone(weights=self.weights, size=feature_size(kind_of(name)))
                selected = self.cache / "backbones"
                result = extract_features(backbone, data, cache=selected, device=default_device(), on_bad_image="fail")
                reduced(file, result.features, data, REDUCED)
        return feature_rows(file, name)


def kind_of(name: str) -> Kind:
    """How networks are trained on the dataset of this name."""
    whole, colon, variant = name.partition(": ")
    source = whole.removesuffix(" features")
    if source not in KINDS:
        raise InputError("set", "experiments", f"be one of {', '.join(KINDS)}", repr(source), "Name its folder so.")
    if colon and variant not in MAKERS:
        raise InputError("variant", source, f"be one of {', '.join(filter(None, MAKERS))}", repr(variant), "Pick one.")
    return KINDS[source]


def fit_settings_for(name: str) -> FitSettings:
    """How methods are trained on a dataset, but for the seed."""
    kind = kind_of(name)
    if is_features(name):
        return replace(FEATURES, epochs=4 * FEATURES.epochs) if kind.val < 1000 else FEATURES
    # A long tail has a fifth of the rows; with twice the epochs each method still takes fewer steps than on all.
    factor = 2 if name.endswith(": long-tailed") else 1
    return replace(kind.fit_settings, epochs=factor * kind.fit_settings.epochs)


def input_settings(name: str) -> dict[str, Any]:
    """The inputs of a run on a dataset: image size, backbone and augmentation, by the keys of the stored results."""
    kind = kind_of(name)
    if is_features(name):
        return {"features": REDUCED, "of": "efficientnet_lite0", "size": feature_size(kind), "val": kind.val}
    return {"size": kind.size, "backbone": kind.backbone, "changes": asdict(kind.augmentation), "val": kind.val}


def feature_size(kind: Kind) -> int:
    """Side of the images that frozen features are extracted from."""
    return 192 if kind.size > 64 else 128


def is_features(name: str) -> bool:
    """Whether a dataset consists of frozen features."""
    return name.partition(": ")[0].endswith(" features")


def default_device() -> torch.device:
    """Where networks are trained."""
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
    """Training rows subsampled so that the most frequent label has 100 times as many as the rarest."""
    train = np.flatnonzero(rows.splits == "train")
    first = rows.first_labels()
    selected = train[long_tailed(first[train], ratio=100)]
    return rows.take(np.sort(np.concatenate([selected, np.flatnonzero(rows.splits != "train")])), name)


def with_unknown_classes(rows: Rows, name: str) -> Rows:
    """As `without_some_labels`, but only "test" has samples without a label, so that none is seen in training."""
    cut = without_some_labels(rows, name)
    empty = cut.targets.sizes() == 0
    return cut.take(np.flatnonzero(~empty | (cut.splits == "test")), name)


def part_of(rows: Rows, name: str) -> Rows:
    """For hyperparameter trials: 20,000 of the training rows, and "val" halved, to calibrate and to evaluate on."""
    generator = np.random.default_rng(1)
    train = generator.permutation(np.flatnonzero(rows.splits == "train"))[:20_000]
    val = generator.permutation(np.flatnonzero(rows.splits == "val"))
    taken = rows.take(np.concatenate([train, val]), name)
    splits = taken.splits.copy()
    splits[len(train) + len(val) // 2 :] = "test"
    return replace(taken, splits=splits)


# Datasets are named "set" or "set: variant", where " features" may follow the set, as in
# "tiny-imagenet features: long-tailed".
MAKERS: dict[str, Callable[[Rows, str], Rows]] = {
    "": lambda rows, name: rows,
    "zero labels": without_some_labels,
    "long-tailed": with_long_tail,
    "open set": with_unknown_classes,
    "part": part_of,
    "zero labels, part": lambda rows, name: part_of(without_some_labels(rows, name), name),
}


def rows_by_name(name: str, opened: dict[str, Rows], open_whole: Callable[[str], Rows]) -> Rows:
    """The rows of a dataset, opened once and kept in `opened`; its variants share the samples of the whole."""
    kind_of(name)
    whole, _, variant = name.partition(": ")
    if whole not in opened:
        opened[whole] = open_whole(whole)
    if name not in opened:
        opened[name] = MAKERS[variant](opened[whole], name)
    return opened[name]


MANY_LABEL_SETS = ("coco", "voc", "nus-wide")
LABELS, WIDTH, SIDE = 15, 12, 8
SIZES = {"train": 120, "val": 60, "test": 60}


class Generated:
    """Small generated datasets by name, in the place of `Catalogue`: patterns and noise."""

    def __init__(self) -> None:
        self._rows: dict[str, Rows] = {}
        self._net = ReusableBackbone(_small_backbone, torch.device("cpu"))

    def __call__(self, name: str) -> ExperimentDataset:
        """The dataset of a name."""
        rows = rows_by_name(name, self._rows, generate)
        return rows.features() if is_features(name) else rows.images(self._net, WIDTH, Augmentation())


def generate(name: str) -> Rows:
    """Rows whose samples are the sum of a pattern for each label, and noise."""
    generator = np.random.default_rng(0)
    splits = np.repeat(list(SIZES), list(SIZES.values()))
    n = len(splits)
    if name.partition(" ")[0] in MANY_LABEL_SETS:
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
    return wrap(module, WIDTH, Preprocessing(size=(SIDE, SIDE)), name="small")
