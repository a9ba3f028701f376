"""Frozen features of a dataset, and their cache on disk."""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from manyhot.backbones.backbone import Backbone
from manyhot.checks import Array, check_choice, check_int, describe_type
from manyhot.data import Dataset
from manyhot.data.loading import ImageBatches
from manyhot.errors import InputError, owned
from manyhot.files import atomic_write
from manyhot.network import score_batch

# Part of every key, so that features of another format are computed again. A spec names no class of manyhot.
FORMAT = 1
METADATA_FILE = "backbone.json"
FEATURES_SUFFIX, KEYS_SUFFIX = ".features.npy", ".keys.npy"


class CachedBackbone(NamedTuple):
    """What a cache holds of one backbone.

    Attributes:
        name: Of the backbone.
        images: How many images there are features of.
        bytes: Their size on disk.
    """

    name: str
    images: int
    bytes: int


class FeatureCache:
    """A folder of features, which several processes may read and write at once.

    For each backbone (its weights, its architecture and its preprocessing) there is a folder, in it pairs of files:
    features (n, D) in float32, and keys (n, 16), the hashes of what the images are. Files are only ever added, each
    written whole or not at all, the keys last. A pair that is damaged counts as not there.

    Args:
        folder: Where it lies. By default `features` in the folder that the environment variable MANYHOT_CACHE names,
            else in `manyhot` under XDG_CACHE_HOME, else in `~/.cache/manyhot`.

    Example:
        >>> import tempfile
        >>> cache = FeatureCache(tempfile.mkdtemp())
        >>> cache.size(), cache.contents()
        (0, [])
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        shared = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "manyhot"
        default = Path(os.environ.get("MANYHOT_CACHE") or shared) / "features"
        self.folder = default if folder is None else Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError("cache", "FeatureCache", "be a folder", repr(str(folder)), "Pass another path.")

    def __repr__(self) -> str:
        return f"FeatureCache({str(self.folder)!r})"

    def of(self, backbone: Backbone, *, precision: str = "32") -> FeatureStore:
        """The features of one backbone; `precision` is that of the arithmetic they are computed in."""
        key = fingerprint(backbone, precision=precision)
        return FeatureStore(self.folder / key, width=backbone.width, metadata=backbone.spec)

    def contents(self) -> list[CachedBackbone]:
        """What there is, a line for each backbone, the largest first."""
        entries = []
        for folder in self._folders():
            keys = [_open_array(path, np.uint8, 16) for path in folder.glob(f"*{KEYS_SUFFIX}")]
            images = sum(len(stored) for stored in keys if stored is not None)
            entries.append(CachedBackbone(_read_name(folder), images, _folder_bytes(folder)))
        return sorted(entries, key=lambda entry: (-entry.bytes, entry.name))

    def size(self) -> int:
        """Bytes that the cache takes."""
        return sum(map(_folder_bytes, self._folders()))

    def clear(self) -> int:
        """Removes all features, and no file that is not the cache's own; returns how many bytes that freed."""
        freed = self.size()
        for folder in self._folders():
            # The keys go first: features without keys are not there for a reader.
            for pattern in (f"*{KEYS_SUFFIX}", f"*{FEATURES_SUFFIX}", METADATA_FILE):
                for path in list(folder.glob(pattern)):
                    path.unlink(missing_ok=True)
            if not any(folder.iterdir()):
                folder.rmdir()
        return freed

    def _folders(self) -> list[Path]:
        return sorted(path.parent for path in self.folder.glob(f"*/{METADATA_FILE}"))


class FeatureStore:
    """The features of one backbone in a cache.

    Args:
        folder: Where the pairs of files lie; made when something is added.
        width: Number D of features.
        metadata: Description of the backbone, for `backbone.json`.
    """

    def __init__(self, folder: Path, *, width: int, metadata: dict[str, Any]) -> None:
        self.folder, self.width, self.metadata = folder, width, metadata

    def read(self, keys: Array) -> tuple[Array, Array]:
        """Features (n, D) of the images of these keys (n, 16), and which of them were found, (n,) bool."""
        features = np.zeros((len(keys), self.width), dtype=np.float32)
        is_cached = np.zeros(len(keys), dtype=bool)
        for stored_keys, stored in self._pairs():
            rows = np.flatnonzero(~is_cached)
            if not len(rows):
                break
            stored_rows = _find_rows(stored_keys, keys[rows])
            hits = stored_rows >= 0
            features[rows[hits]] = stored[stored_rows[hits]]
            is_cached[rows[hits]] = True
        return features, is_cached

    def make(self) -> None:
        """Makes the folder; raises an error before anything is computed if it cannot be written to."""
        text = json.dumps({"format": FORMAT, **self.metadata}, indent=1) + "\n"
        try:
            with atomic_write(self.folder / METADATA_FILE) as part:
                part.write_text(text, encoding="utf-8")
        except OSError as error:
            got = f"{str(self.folder.parent)!r} ({error.strerror})"
            hint = "Pass another folder as `cache`, or False to keep nothing."
            raise InputError("cache", "", "be a folder that can be written to", got, hint) from None

    def add(self, keys: Array, features: Array) -> None:
        """Keeps features (n, D) under keys (n, 16)."""
        if not (self.folder / METADATA_FILE).exists():
            self.make()
        # A name of its own, so that processes that write at the same time do not meet.
        name = uuid.uuid4().hex
        for suffix, array in ((FEATURES_SUFFIX, np.asarray(features, dtype=np.float32)), (KEYS_SUFFIX, keys)):
            with atomic_write(self.folder / f"{name}{suffix}") as part, part.open("wb") as file:
                np.save(file, array, allow_pickle=False)

    def _pairs(self) -> Iterator[tuple[Array, Array]]:
        for path in sorted(self.folder.glob(f"*{KEYS_SUFFIX}")):
            keys = _open_array(path, np.uint8, 16)
            features_path = path.with_name(path.name.removesuffix(KEYS_SUFFIX) + FEATURES_SUFFIX)
            features = _open_array(features_path, np.float32, self.width)
            if keys is not None and features is not None and len(keys) == len(features) > 0:
                yield np.asarray(keys), features


def fingerprint(backbone: Backbone, *, precision: str = "32") -> str:
    """A text that is another one as soon as the features may be others: weights, architecture and preprocessing.

    Of a network of your own the weights count, and how it prints. What its code computes cannot be seen: clear the
    cache, or give it another `name`, after changing that.
    """
    own = repr(backbone.module) if backbone.spec["kind"] == "wrapped" else ""
    digest = hashlib.sha256(json.dumps([FORMAT, precision, backbone.spec, own], sort_keys=True).encode())
    for key, tensor in backbone.module.state_dict().items():
        if not key.endswith("num_batches_tracked"):
            digest.update(f"|{key}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]


def image_keys(identities: Sequence[str]) -> Array:
    """(n, 16) uint8, a hash of each text."""
    hashes = (hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest() for text in identities)
    return np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(-1, 16)


def _find_rows(stored: Array, requested: Array) -> Array:
    """(n,) where each requested key is among the stored ones, -1 where it is not."""
    # Each key as two numbers, which NumPy can sort and compare.
    stored, requested = (np.ascontiguousarray(keys).view(np.uint64) for keys in (stored, requested))
    order = np.argsort(stored[:, 0], kind="stable")
    insertion = np.searchsorted(stored[order, 0], requested[:, 0])
    stored_rows = order[np.minimum(insertion, len(order) - 1)]
    # A key that shares only its first half with another one counts as missing: its features are computed again,
    # which is rare and never wrong.
    return np.where((stored[stored_rows] == requested).all(1), stored_rows, -1)


def _open_array(path: Path, dtype: type[np.generic], width: int) -> Array | None:
    """Rows on disk, mapped and not read; None where the file is gone, damaged or another one: as good as not cached."""
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return array if array.dtype == dtype and array.shape[1:] == (width,) else None


def _read_name(folder: Path) -> str:
    try:
        return str(json.loads((folder / METADATA_FILE).read_text(encoding="utf-8"))["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"


def _folder_bytes(folder: Path) -> int:
    total = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process has just cleared it
            total += path.stat().st_size
    return total


Cache = FeatureCache | str | os.PathLike[str] | bool | None

FLUSH_ROWS = 4096
FLUSH_SECONDS = 60.0


class ExtractedFeatures(NamedTuple):
    """Features of the images that could be read.

    Attributes:
        features: (n, D) float32.
        rows: (n,) int64, which rows of the data set they are of, ascending.
        unreadable: Images that could not be read: names and reasons.
    """

    features: Array
    rows: Array
    unreadable: dict[str, str]


@owned("extract_features")
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
) -> ExtractedFeatures:
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
        >>> images = from_arrays(torch.zeros(5, 32, 32, 3, dtype=torch.uint8).numpy(), [["night"]] * 5)
        >>> features, rows, bad = extract_features(create_backbone(size=32), images, cache=False)
        >>> features.shape, len(rows), bad
        ((5, 1280), 5, {})
    """
    if not isinstance(backbone, Backbone):
        raise InputError("backbone", "", "be a Backbone", describe_type(backbone), "Use `create_backbone` or `wrap`.")
    if dataset.images is None:
        got = "features" if dataset.features is not None else "none"
        raise InputError("dataset", "", "hold images", got, "Use `dataset.features` as they are.")
    check_int("batch_size", "", batch_size, low=1)
    check_choice("precision", "", precision, ("32", "bf16"))
    store, keys = None, image_keys([])
    features, done = np.zeros((len(dataset), backbone.width), dtype=np.float32), np.zeros(len(dataset), dtype=bool)
    if cache is not False:
        cache = cache if isinstance(cache, FeatureCache) else FeatureCache(None if cache is True else cache)
        store = cache.of(backbone, precision=precision)
        keys = image_keys([dataset.images.identity(row) for row in range(len(dataset))])
        features, done = store.read(keys)
    report = advance or (lambda count: None)
    if done.any():
        report(int(done.sum()))
    if done.all():
        return ExtractedFeatures(features, np.arange(len(dataset)), {})
    missing = np.flatnonzero(~done)
    groups = [missing[start : start + batch_size].tolist() for start in range(0, len(missing), batch_size)]
    data = ImageBatches(dataset, backbone.preprocessing, workers=workers, on_bad_image=on_bad_image)
    if store is not None:
        store.make()
    original = backbone.mean.device
    target = original if device is None else torch.device(device)
    autocast = partial(torch.autocast, target.type, dtype=torch.bfloat16, enabled=precision == "bf16")
    new, since = list[int](), time.monotonic()

    def keep() -> None:
        if store is not None and new:
            store.add(keys[new], features[new])
            new.clear()

    try:
        backbone.to(target)
        for group, batch in zip(groups, data.load(groups, epoch=None), strict=True):
            rows = batch.rows.tolist()
            if rows:
                features[rows] = score_batch(backbone, batch.inputs, autocast=autocast).numpy()
                done[rows] = True
            new += rows
            if len(new) >= FLUSH_ROWS or time.monotonic() - since >= FLUSH_SECONDS:
                keep()
                since = time.monotonic()
            report(len(group))
    finally:
        backbone.to(original)
        keep()
    done_rows = np.flatnonzero(done)
    return ExtractedFeatures(features if done.all() else features[done_rows], done_rows, data.unreadable)
