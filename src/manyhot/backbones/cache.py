"""Features on disk: computed once for an image and a backbone, found again as long as neither has changed."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyhot.backbones.backbone import Backbone
from manyhot.files import whole_file
from manyhot.refusal import refusal

Array = np.ndarray[Any, Any]

FORMAT = 1  # Part of every key: a new one leaves what older versions computed alone.
ABOUT = "backbone.json"
FEATURES, KEYS = ".features.npy", ".keys.npy"


class CachedBackbone(NamedTuple):
    """What a cache holds of one backbone.

    Attributes:
        name: Of the backbone.
        images: How many images there are features of.
        bytes: How much room they take.
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
        self.folder = default_folder() if folder is None else Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise refusal("cache", "FeatureCache", "be a folder", repr(str(folder)), "Pass another path.")

    def __repr__(self) -> str:
        return f"FeatureCache({str(self.folder)!r})"

    def of(self, backbone: Backbone, *, precision: str = "32") -> FeatureStore:
        """The features of one backbone; `precision` is that of the arithmetic they are computed in."""
        key = fingerprint(backbone, precision=precision)
        return FeatureStore(self.folder / key, width=backbone.width, about=backbone.spec)

    def contents(self) -> list[CachedBackbone]:
        """What there is, a line for each backbone, the largest first."""
        found = []
        for folder in self._folders():
            images = sum(len(keys) for keys in map(_open, folder.glob(f"*{KEYS}")) if keys is not None)
            found.append(CachedBackbone(_name_in(folder), images, _bytes_in(folder)))
        return sorted(found, key=lambda entry: (-entry.bytes, entry.name))

    def size(self) -> int:
        """Bytes that the cache takes."""
        return sum(map(_bytes_in, self._folders()))

    def clear(self) -> int:
        """Removes all features, and no file that is not the cache's own; returns how many bytes that freed."""
        freed = 0
        for folder in self._folders():
            freed += _bytes_in(folder)
            # The keys go first: features without keys are not there for a reader.
            own = sorted(folder.glob(f"*{KEYS}")) + sorted(folder.glob(f"*{FEATURES}")) + [folder / ABOUT]
            for path in own:
                path.unlink(missing_ok=True)
            if not any(folder.iterdir()):
                folder.rmdir()
        return freed

    def _folders(self) -> list[Path]:
        return sorted(path.parent for path in self.folder.glob(f"*/{ABOUT}"))


class FeatureStore:
    """The features of one backbone in a cache.

    Args:
        folder: Where the pairs of files lie; made when something is added.
        width: Number D of features.
        about: What people are told about the backbone.
    """

    def __init__(self, folder: Path, *, width: int, about: dict[str, Any]) -> None:
        self.folder, self.width, self.about = folder, width, about

    def read(self, keys: Array) -> tuple[Array, Array]:
        """Features (n, D) of the images of these keys (n, 16), and which of them were found, (n,) bool."""
        features = np.zeros((len(keys), self.width), dtype=np.float32)
        found = np.zeros(len(keys), dtype=bool)
        wanted = _halves(keys)
        for stored_keys, stored in self._pairs():
            rows = np.flatnonzero(~found)
            if not len(rows):
                break
            places = _places(_halves(stored_keys), wanted[rows])
            hits = places >= 0
            features[rows[hits]] = stored[places[hits]]
            found[rows[hits]] = True
        return features, found

    def make(self) -> None:
        """Makes the folder; refuses one that cannot be written to, before anything is computed for it."""
        text = json.dumps({"format": FORMAT, **self.about}, indent=1) + "\n"
        try:
            with whole_file(self.folder / ABOUT) as part:
                part.write_text(text, encoding="utf-8")
        except OSError as error:
            got = f"{str(self.folder.parent)!r} ({error.strerror})"
            remedy = "Pass another folder as `cache`, or False to keep nothing."
            raise refusal("cache", "extract_features", "be a folder that can be written to", got, remedy) from None

    def add(self, keys: Array, features: Array) -> None:
        """Keeps features (n, D) under keys (n, 16)."""
        if not (self.folder / ABOUT).exists():
            self.make()
        # A name of its own, so that processes that write at the same time do not meet.
        name = uuid.uuid4().hex
        _write(self.folder / f"{name}{FEATURES}", np.ascontiguousarray(features, dtype=np.float32))
        _write(self.folder / f"{name}{KEYS}", np.ascontiguousarray(keys, dtype=np.uint8))

    def _pairs(self) -> Iterator[tuple[Array, Array]]:
        for path in sorted(self.folder.glob(f"*{KEYS}")):
            keys, features = _open(path), _open(path.with_name(path.name.removesuffix(KEYS) + FEATURES))
            if keys is None or features is None or keys.ndim != 2 or keys.dtype != np.uint8 or keys.shape[1] != 16:
                continue
            if features.dtype == np.float32 and features.shape == (len(keys), self.width):
                yield np.asarray(keys), features


def default_folder() -> Path:
    """Where features lie if nothing else was said."""
    own, shared = os.environ.get("MANYHOT_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if own:
        return Path(own) / "features"
    return (Path(shared) if shared else Path.home() / ".cache") / "manyhot" / "features"


def fingerprint(backbone: Backbone, *, precision: str = "32") -> str:
    """A text that is another one as soon as the features may be others: weights, architecture and preprocessing.

    Of a network of your own the weights count, and how it prints. What its code computes cannot be seen: clear the
    cache, or give it another `name`, after changing that.
    """
    own = repr(backbone.module) if backbone.spec["kind"] == "wrapped" else ""
    digest = hashlib.sha256(json.dumps([FORMAT, precision, backbone.spec, own], sort_keys=True).encode())
    for key, tensor in backbone.module.state_dict().items():
        if key.endswith("num_batches_tracked"):
            continue
        digest.update(f"|{key}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(_raw(tensor).data)
    return digest.hexdigest()[:32]


def image_keys(identities: Sequence[str]) -> Array:
    """(n, 16) uint8, a hash of each text."""
    hashes = (hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest() for text in identities)
    return np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(-1, 16)


def _raw(tensor: Tensor) -> Array:
    """The bytes of a tensor of any kind of number."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()


def _halves(keys: Array) -> Array:
    """(n, 2) uint64, each key as two numbers, which NumPy can sort and compare."""
    return np.ascontiguousarray(keys).view(np.uint64)


def _places(stored: Array, wanted: Array) -> Array:
    """(n,) where each wanted key is among the stored ones, -1 where it is not."""
    if not len(stored):
        return np.full(len(wanted), -1)
    order = np.argsort(stored[:, 0], kind="stable")
    spots = np.searchsorted(stored[order, 0], wanted[:, 0])
    places = order[np.minimum(spots, len(order) - 1)]
    # A key that only begins like another one counts as not there: its image is computed anew, rarely and never wrongly.
    return np.where((stored[places] == wanted).all(1), places, -1)


def _open(path: Path) -> Array | None:
    """An array on disk, mapped and not read; None where the file is gone or damaged, which is as good as not cached."""
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return array


def _write(path: Path, array: Array) -> None:
    with whole_file(path) as part, part.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def _name_in(folder: Path) -> str:
    try:
        return str(json.loads((folder / ABOUT).read_text(encoding="utf-8"))["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.iterdir():
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # another process has just cleared it
            continue
    return total
