"""Frozen features of a data set: each image goes through the backbone once, whatever is trained on them afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyhot.backbones.backbone import Backbone, evaluating
from manyhot.backbones.cache import FeatureCache, FeatureStore, image_keys
from manyhot.checks import check_choice, check_count, kind_of
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from manyhot.data.dataset import Dataset

Array = np.ndarray[Any, Any]

Cache = FeatureCache | str | os.PathLike[str] | bool | None

FLUSH_ROWS = 4096
FLUSH_SECONDS = 60.0


class Extracted(NamedTuple):
    """Features of the images that could be read.

    Attributes:
        features: (n, D) float32.
        rows: (n,) int64, which rows of the data set they are of, ascending.
        bad: Images that could not be read: names and reasons.
    """

    features: Array
    rows: Array
    bad: dict[str, str]


def extract_features(
    backbone: Backbone,
    dataset: Dataset,
    *,
    cache: Cache = None,
    batch_size: int = 64,
    workers: int | None = None,
    on_bad_image: str = "skip",
    advance: Callable[[int], None] | None = None,
    device: str | torch.device | None = None,
    precision: str = "32",
) -> Extracted:
    """Features of all images of a data set. Those computed before, for the same weights, come from a cache on disk.

    What is done is kept every minute and when the work is broken off, so that the next call goes on from there. On the
    CPU, features do not depend on the number of workers, and on the batch size only by rounding (parts in a million).

    Args:
        backbone: From pixels to features; used in evaluation mode, and left as it was.
        dataset: Samples with images.
        cache: A folder or a `FeatureCache`; the folder of `FeatureCache()` by default, False for none.
        batch_size: Images at a time.
        workers: Processes that read and decode; as many as there are cores by default.
        on_bad_image: "skip" or "fail", for images that cannot be read.
        advance: Called with the number of rows that are done, as they get done.
        device: Where to compute; where the backbone is by default.
        precision: "32", or "bf16" for autocast, which is faster on newer GPUs and has 3 digits.

    Example:
        >>> from manyhot.backbones import create_backbone
        >>> from manyhot.data import from_arrays
        >>> pictures = from_arrays(torch.zeros(5, 32, 32, 3, dtype=torch.uint8).numpy(), [["night"]] * 5)
        >>> features, rows, bad = extract_features(create_backbone(size=32), pictures, cache=False)
        >>> features.shape, len(rows), bad
        ((5, 1280), 5, {})
    """
    _check_inputs(backbone, dataset, batch_size, precision)
    store = _choose_store(cache, backbone, precision)
    progress = _Progress(store, dataset, backbone.width, advance)
    missing = np.flatnonzero(~progress.done)
    groups = [missing[start : start + batch_size].tolist() for start in range(0, len(missing), batch_size)]
    bad: dict[str, str] = {}
    if groups:
        from manyhot.data.loading_images import ImageBatches

        loader = ImageBatches(dataset, backbone.preprocessing, workers=workers, on_bad_image=on_bad_image)
        bad = loader.bad
        with progress, _computing(backbone, device, precision) as compute:
            for group, batch in zip(groups, loader.load(groups, epoch=None), strict=True):
                progress.take(batch.rows.numpy(), compute(batch.inputs), handled=len(group))
    kept = np.flatnonzero(progress.done)
    complete = len(kept) == len(dataset)
    return Extracted(progress.features if complete else progress.features[kept], kept, bad)


class _Progress:
    """The features so far; on leaving the block, by whatever way, those that are new go to the store."""

    def __init__(
        self, store: FeatureStore | None, dataset: Dataset, width: int, advance: Callable[[int], None] | None
    ) -> None:
        self.store, self.advance = store, advance
        n = len(dataset)
        if store is None:
            self.features, self.done = np.zeros((n, width), dtype=np.float32), np.zeros(n, dtype=bool)
        else:
            assert dataset.images is not None
            self.keys = image_keys([dataset.images.identity(row) for row in range(n)])
            self.features, self.done = store.read(self.keys)
        self._new: list[Array] = []
        self._since = time.monotonic()
        self._tell(int(self.done.sum()))

    def take(self, rows: Array, features: Array, *, handled: int) -> None:
        """Takes features of rows; `handled` also counts images that could not be read."""
        self.features[rows] = features
        self.done[rows] = True
        self._new.append(rows)
        if sum(map(len, self._new)) >= FLUSH_ROWS or time.monotonic() - self._since >= FLUSH_SECONDS:
            self._flush()
        self._tell(handled)

    def __enter__(self) -> _Progress:
        if self.store is not None:
            self.store.make()
        return self

    def __exit__(self, *error: object) -> None:
        self._flush()

    def _flush(self) -> None:
        if self.store is not None and self._new:
            rows = np.concatenate(self._new)
            self.store.add(self.keys[rows], self.features[rows])
        self._new, self._since = [], time.monotonic()

    def _tell(self, count: int) -> None:
        if self.advance is not None and count:
            self.advance(count)


@contextmanager
def _computing(
    backbone: Backbone, device: str | torch.device | None, precision: str
) -> Iterator[Callable[[Tensor], Array]]:
    """A function from pixels to features, with the backbone on its device and in evaluation mode for the block."""
    home = backbone.mean.device
    place = home if device is None else torch.device(device)

    def compute(pixels: Tensor) -> Array:
        with (
            torch.inference_mode(),
            torch.autocast(place.type, dtype=torch.bfloat16, enabled=precision == "bf16"),
        ):
            features: Tensor = backbone(pixels.to(place, non_blocking=True))
            return features.float().cpu().numpy()

    with evaluating(backbone):
        try:
            backbone.to(place)
            yield compute
        finally:
            backbone.to(home)


def _check_inputs(backbone: object, dataset: Dataset, batch_size: int, precision: str) -> None:
    owner = "extract_features"
    if not isinstance(backbone, Backbone):
        remedy = "Use `create_backbone` or `wrap`."
        raise refusal("backbone", owner, "be a Backbone", kind_of(backbone), remedy)
    if dataset.images is None:
        got = "features" if dataset.features is not None else "none"
        raise refusal("dataset", owner, "hold images", got, "Use `dataset.features` as they are.")
    check_count("batch_size", owner, batch_size, low=1)
    check_choice("precision", owner, precision, ("32", "bf16"))


def _choose_store(cache: Cache, backbone: Backbone, precision: str) -> FeatureStore | None:
    if cache is False:
        return None
    if cache is None or cache is True:
        cache = FeatureCache()
    elif not isinstance(cache, FeatureCache):
        cache = FeatureCache(cache)
    return cache.of(backbone, precision=precision)
