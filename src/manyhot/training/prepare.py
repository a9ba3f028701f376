"""Data prepared for training: splits, labels with enough rows, and batches of frozen features or images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.backbones import Backbone, create_backbone, extract_features
from manyhot.data import read_corrections, read_data
from manyhot.data.dataset import Dataset
from manyhot.data.loading import Batches, FeatureBatches, ImageBatches, augmentation
from manyhot.data.sources import Files, ImageSource
from manyhot.data.split import stratified_split
from manyhot.data.targets import SparseTargets
from manyhot.engine.devices import device_of
from manyhot.errors import InputError
from manyhot.heads import LinearHead, MLPHead, TwoHeads
from manyhot.settings import DataSource, TrainSettings

Array = np.ndarray[Any, Any]
SPLITS = ("train", "val", "test")
# Bytes at either end of a file that are compared to find duplicates.
EDGE_BYTES = 4096
# Given the number of images, opens what is called with how many more of them are done.
Watch = Callable[[int], AbstractContextManager[Callable[[int], None]]]
Notes = Callable[[str], None]


def read_source(source: DataSource, settings: TrainSettings | None = None, notes: Notes | None = None) -> Dataset:
    """The data of a source, with its corrections.

    Missing splits are drawn before labels are corrected, because the draw depends on the labels: a held-out image
    stays held out when its labels are corrected.

    Args:
        source: Paths, options of `read_data` and files of corrected labels.
        settings: How missing splits are drawn; without, none are.
        notes: Called with each note on the data.
    """
    options = {name: value for name, value in source.to_dict().items() if name not in ("paths", "corrections")}
    if "root" in options:
        options["root"] = Path(options["root"])
    dataset = read_data(source.paths[0] if len(source.paths) == 1 else list(source.paths), **options)
    known, prefix = 0, ""
    for path in (None, *source.corrections):
        if path is not None:
            dataset = dataset.corrected(read_corrections(path))
            prefix = f"{Path(path).name}: "
        elif source.corrections and settings is not None:
            dataset = with_all_splits(dataset, settings)
        if notes is not None:
            for note in dataset.notes[known:]:
                notes(f"{prefix}{note}")
        known = len(dataset.notes)
    return dataset


def with_all_splits(data: Dataset, settings: TrainSettings) -> Dataset:
    """The data with the splits "train", "val" and "test".

    Existing splits are used. Missing ones are drawn from "train", stratified by label, and a note says so. They are
    drawn by the labels before any correction, and rows that corrections added are trained on, so that a correction
    never moves a row to another split.
    """
    if data.targets is None:
        hint = "Pass a table with labels; see `manyhot inspect --help`."
        raise InputError("data", "train", "have labels", "samples without any", hint)
    splits = np.full(len(data), "train", dtype=object) if data.splits is None else data.splits.copy()
    present = [name for name in SPLITS if (splits == name).any()]
    if "train" not in present:
        got = ", ".join(map(repr, data.split_sizes())) or "no rows"
        raise InputError("split", "train", "have rows called 'train'", got, "Rename one, or leave out the column.")
    missing = {
        name: getattr(settings, name) for name in ("val", "test") if name not in present and getattr(settings, name)
    }
    notes = []
    if missing:
        rows, targets = rows_to_split(data, np.flatnonzero(splits == "train"))
        shares = {"train": 1 - sum(missing.values()), **missing}
        groups = None if data.images is None else duplicate_groups(data.images)
        splits[rows] = stratified_split(
            targets, shares, seed=settings.seed, groups=None if groups is None else groups[rows]
        )
        taken = " and ".join(f"{share:.0%} for {name!r}" for name, share in missing.items())
        notes = [f"Took {taken} out of the rows to train on, so that every label keeps its rate."]
    others = [name for name in dict.fromkeys(splits.tolist()) if name not in SPLITS]
    if others:
        notes.append(f"Rows of the splits {', '.join(map(repr, others))} are not used.")
    result = replace(data.with_splits(splits), notes=[*data.notes, *notes])
    return result.take(np.isin(splits, SPLITS)) if others else result


def rows_to_split(data: Dataset, rows: Array) -> tuple[Array, SparseTargets]:
    """The rows that splits are drawn from, and their targets, by which they are stratified."""
    assert data.targets is not None
    before = data.uncorrected
    if before is None or before.targets is None:
        return rows, data.targets.take(rows)
    row_of = {name: row for row, name in enumerate(before.ids)}
    rows = np.array([row for row in rows.tolist() if data.ids[row] in row_of], dtype=np.int64)
    known = before.select_labels([name for name in data.labels.names if name in before.labels.names]).targets
    assert known is not None
    return rows, known.take([row_of[data.ids[row]] for row in rows.tolist()])


def duplicate_groups(images: ImageSource) -> Array | None:
    """(N,) one number per image, the same for duplicate files; None where images are not in files.

    Files of the same size whose first and last bytes agree count as duplicates. Duplicates of a training image must
    not be in another split.
    """
    if not isinstance(images, Files):
        return None
    known: dict[object, int] = {}
    groups = np.empty(len(images), dtype=np.int64)
    sizes = [_size(images.path(row)) for row in range(len(images))]
    common_sizes = {size for size, count in Counter(sizes).items() if count > 1 and size}
    for row, size in enumerate(sizes):
        key: object = row if size not in common_sizes else (size, _edge_bytes(images.path(row), size))
        groups[row] = known.setdefault(key, row)
    return groups


def _size(path: Path) -> int:
    """The size of a file; 0 where there is none, which the decoder reports later."""
    return path.stat().st_size if path.is_file() else 0


def _edge_bytes(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        first = file.read(EDGE_BYTES)
        file.seek(max(0, size - EDGE_BYTES))
        return first + file.read(EDGE_BYTES)


def with_learnable_labels(data: Dataset, min_count: int) -> Dataset:
    """The data without labels that too few rows of the training split have; rows that lose all labels stay."""
    assert data.targets is not None
    counts = data.of_split("train").targets.counts()  # type: ignore[union-attr]
    columns = np.flatnonzero(counts >= min_count)
    if not len(columns):
        got = f"at most {int(counts.max(initial=0))}"
        rule = f"have a label with {min_count} rows to train on"
        raise InputError("data", "train", rule, got, "Lower --set min_count, or bring more data.")
    if len(columns) == len(counts):
        return data
    dropped = [data.labels.names[column] for column in np.flatnonzero(counts < min_count)]
    examples = ", ".join(dropped[:5]) + (", ..." if len(dropped) > 5 else "")
    note = f"Left out {len(dropped)} labels with fewer than {min_count} rows to train on: {examples}."
    return replace(data.select_labels([data.labels.names[column] for column in columns]), notes=[*data.notes, note])


@dataclass(frozen=True)
class PreparedData:
    """A data set as networks are trained on it.

    Attributes:
        data: The rows that can be read, in the order of `parts`.
        backbone: What gives the features; None for a matrix of features.
        width: Number D of features.
        parts: Batches of each split.
        mean: (D,) of frozen features in the rows to train on; None when the backbone is trained.
        scale: (D,) how much these features vary, one number for all of them; infinite for those that never do.
        bad: Images that could not be read, and why.
    """

    data: Dataset
    backbone: Backbone | None
    width: int
    parts: dict[str, Batches]
    mean: Tensor | None = None
    scale: Tensor | None = None
    bad: dict[str, str] = field(default_factory=dict)

    @property
    def frozen(self) -> bool:
        """Whether only the head is trained."""
        return self.mean is not None

    def rates(self) -> Tensor:
        """(K,) how often each label is present in the rows to train on."""
        return self.parts["train"].targets.rates()


def prepare(data: Dataset, settings: TrainSettings, *, watch: Watch | None = None) -> PreparedData:
    """Reads every row of the data, and extracts its features for a frozen backbone.

    Args:
        data: With the splits "train", "val" and "test".
        settings: Backbone, size, augmentation, and how to handle unreadable images.
        watch: Shows how many images are done.
    """
    centre = settings.head != "cosine"
    if data.features is not None:
        return with_features(data, data.features, None, centre=centre)
    weights = None if settings.weights is None else Path(settings.weights)
    backbone = create_backbone(settings.backbone, pretrained=settings.pretrained, size=settings.size, weights=weights)
    if settings.tune == "head":
        cache = False if settings.cache in ("none", "None") else settings.cache
        with watch(len(data)) if watch is not None else nullcontext() as advance:
            features, rows, bad = extract_features(
                backbone,
                data,
                cache=cache,
                workers=settings.workers,
                on_bad_image=settings.on_bad_image,
                advance=advance,
                device=device_of(settings),
            )
        backbone.cpu()
        readable = data.take(rows)
        if "train" not in readable.split_sizes():
            rule, hint = "have images to train on that can be read", "Run `manyhot inspect` on the data."
            raise InputError("data", "train", rule, f"{len(bad)} that cannot", hint)
        readable = with_learnable_labels(readable, settings.min_count)
        return with_features(readable, features, backbone, centre=centre, bad=bad)
    return with_images(data, backbone, settings)


def with_features(
    data: Dataset,
    features: np.ndarray[Any, Any] | Tensor,
    backbone: Backbone | None,
    *,
    centre: bool = True,
    bad: dict[str, str] | None = None,
) -> PreparedData:
    """Features centred and divided by their standard deviation; unchanged for cosine heads.

    One scale is used for all features: informative features of a network vary most, and a scale per feature would
    amplify the noise of the others.
    """
    splits, targets = data.splits, data.targets
    assert splits is not None
    assert targets is not None
    values = torch.as_tensor(features, dtype=torch.float32)
    mean, scale = torch.zeros(values.shape[1]), torch.ones(values.shape[1])
    if centre:
        train = values[torch.from_numpy(np.flatnonzero(splits == "train"))]
        mean, variance = train.mean(0), train.var(0, correction=0)
        # A feature that is constant in the training rows carries no information.
        scale = torch.where(variance > 1e-12 * mean.square(), variance.mean().sqrt(), torch.inf)
    parts: dict[str, Batches] = {}
    for name in splits_of(data):
        rows = np.flatnonzero(splits == name)
        parts[name] = FeatureBatches((values[rows] - mean) / scale, targets.take(rows))
    return PreparedData(data, backbone, values.shape[1], parts, mean, scale, bad or {})


def with_images(data: Dataset, backbone: Backbone, settings: TrainSettings) -> PreparedData:
    """Images that are read again in each epoch, with augmentation."""
    parts: dict[str, Batches] = {}
    for name in splits_of(data):
        changes = augmentation(
            settings.augmentation if name == "train" else "none", flip=None if settings.flip else False
        )
        parts[name] = ImageBatches(
            data.of_split(name),
            backbone.preprocessing,
            augmentation=changes,
            seed=settings.seed,
            workers=settings.workers,
            on_bad_image=settings.on_bad_image,
        )
    return PreparedData(data, backbone, backbone.width, parts)


def on_raw_features(head: nn.Module, prepared: PreparedData) -> nn.Module:
    """The head, changed in place so that it takes features as the backbone gives them, not centred and scaled.

    A hidden layer takes the centre into its bias. A linear head keeps it, so that its bias stays the learnt one.
    """
    if prepared.mean is None or prepared.scale is None:
        return head
    if isinstance(head, TwoHeads) and head.layer is None:
        for part in (head.single, head.multi):
            on_raw_features(part, prepared)
    with torch.no_grad():
        if isinstance(head, LinearHead):  # a cosine head took the features as they are
            head.weight.div_(prepared.scale)
            head.centre = prepared.mean.to(head.weight)
        elif isinstance(head, MLPHead | TwoHeads) and head.layer is not None:
            weight, bias = head.layer.weight, head.layer.bias
            shift = (weight.double() * (prepared.mean / prepared.scale).double()).sum(1)
            bias.sub_(shift.to(bias.dtype))
            weight.div_(prepared.scale)
    return head


def splits_of(data: Dataset) -> list[str]:
    """The splits that have rows, in the order in which they are used."""
    return [name for name in SPLITS if name in data.split_sizes()]
