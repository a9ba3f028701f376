"""Batches of images: read, decoded and augmented by several processes, the same whatever their number."""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from manyhot.checks import check_choice, check_count
from manyhot.data.augmentation import Augmentation, augmentation, seed_of
from manyhot.data.images import BadImage, read_image
from manyhot.data.kept import KeptPixels
from manyhot.data.loading import Batch, Batches
from manyhot.data.targets import SparseTargets
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from PIL import Image

    from manyhot.backbones.preprocessing import Preprocessing
    from manyhot.data.dataset import Dataset
    from manyhot.data.sources import ImageSource

FEW = 256  # Below it, starting processes takes longer than decoding.
ROOMY = 2**31  # Shared memory that several batches on their way surely fit in.

Wanted = Sequence[tuple[int, int | None]]


class ImageBatches(Batches):
    """The images of a data set as a network takes them.

    What is drawn for a sample depends on the seed, the epoch and the row alone: not on the number of workers, on the
    order of the rows, or on what was drawn before.

    Args:
        dataset: Samples with images.
        preprocessing: From a picture to the pixels that the network was made for.
        augmentation: "none", "light", "strong" or an `Augmentation`; used where `load` gets an epoch.
        seed: Of what is drawn.
        workers: Processes that decode; 0 for none but this one. By default as many as there are cores, 8 at the most.
        on_bad_image: "skip" leaves images that cannot be read out of their batch, "fail" raises `BadImage`.
        keep: "pixels" keeps decoded images in a temporary file, from which later epochs read. Augmentation then starts
            from pictures of 8/7 of the network's size, no longer from the originals.

    Attributes:
        bad: What could not be read so far: names and reasons.

    Example:
        >>> dataset = mh.data.from_arrays(torch.zeros(4, 9, 9, dtype=torch.uint8).numpy(), [[0], [], [1], [0, 1]])
        >>> data = ImageBatches(dataset, mh.backbones.Preprocessing(size=(8, 8)))
        >>> next(data.load([[3, 1]], epoch=0)).inputs.shape
        torch.Size([2, 3, 8, 8])
    """

    def __init__(
        self,
        dataset: Dataset,
        preprocessing: Preprocessing,
        *,
        augmentation: str | Mapping[str, Any] | Augmentation = "none",
        seed: int = 0,
        workers: int | None = None,
        on_bad_image: str = "skip",
        keep: str | None = None,
    ) -> None:
        owner = "ImageBatches"
        if dataset.images is None:
            got = "features" if dataset.features is not None else "nothing"
            raise refusal("dataset", owner, "hold images", got, "Use `FeatureBatches` for features.")
        self.targets = _targets_of(dataset)
        self.on_bad_image = check_choice("on_bad_image", owner, on_bad_image, ("skip", "fail"))
        self.workers = (
            default_workers(len(dataset)) if workers is None else check_count("workers", owner, workers, low=0)
        )
        self.bad: dict[str, str] = {}
        self._samples = Samples(
            dataset.images, preprocessing, _chosen(augmentation), check_count("seed", owner, seed, low=0)
        )
        if keep is not None:
            check_choice("keep", owner, keep, ("pixels",))
            self._samples.keep_pixels()
            # Without fork, each process would keep pixels of its own.
            self.workers = self.workers if _context() == "fork" else 0
        self._turn = _Turn()
        self._pool: DataLoader[Any] | None = None

    def load(self, groups: Iterable[Sequence[int]], *, epoch: int | None) -> Iterator[Batch]:
        """Decodes ahead of what is asked for; images that cannot be read are named in `bad`."""
        wanted = ([(int(row), epoch) for row in group] for group in groups)
        for pixels, rows, bad in self._stream(wanted):
            self.bad.update(bad)
            if bad and self.on_bad_image == "fail":
                raise BadImage(*next(iter(bad.items())))
            kept = torch.as_tensor(rows)
            yield Batch(torch.as_tensor(pixels), self.targets.dense(kept.numpy()), kept)

    def close(self) -> None:
        """Ends the worker processes, which otherwise wait for the next epoch."""
        self._pool = None

    def _stream(self, wanted: Iterable[Wanted]) -> Iterator[Loaded]:
        if self.workers == 0:
            yield from map(self._samples.__getitems__, wanted)
            return
        # The processes serve one reader at a time; a second one gets processes of its own.
        if self._turn.taken:
            turn = _Turn()
            pool = self._make_pool(turn, persistent=False)
        else:
            turn = self._turn
            if self._pool is None:
                self._pool = self._make_pool(turn, persistent=True)
            pool = self._pool
        with turn.of(wanted):
            with _calm():
                batches = iter(pool)
            yield from batches

    def _make_pool(self, turn: _Turn, *, persistent: bool) -> DataLoader[Any]:
        self._samples.as_arrays = not _has_room_to_share()
        with _calm():
            return DataLoader(
                self._samples,  # type: ignore[arg-type]
                batch_sampler=turn,  # type: ignore[arg-type]
                collate_fn=_as_it_is,
                num_workers=self.workers,
                persistent_workers=persistent,
                prefetch_factor=2,
                multiprocessing_context=_context(),
                generator=torch.Generator(),  # or it would draw from everybody's
            )


class Loaded(NamedTuple):
    """What a worker sends back."""

    pixels: Any
    rows: Any
    bad: dict[str, str]


class Samples:
    """What a worker does: from row numbers to pixels.

    Args:
        images: Where they lie.
        preprocessing: From a picture to pixels.
        chosen: The augmentation.
        seed: Of what is drawn.
    """

    def __init__(self, images: ImageSource, preprocessing: Preprocessing, chosen: Augmentation, seed: int) -> None:
        self.images, self.preprocessing, self.chosen, self.seed = images, preprocessing, chosen, seed
        # A crop is enlarged again, so it must be cut from more pixels.
        self.at_least = math.ceil(max(preprocessing.size) / math.sqrt(chosen.crop))
        self.as_arrays = False
        self.kept: KeptPixels | None = None

    def keep_pixels(self) -> None:
        """Makes room for the pixels of all images."""
        self.kept = KeptPixels(len(self.images), self.preprocessing, exact=self.chosen == Augmentation())

    def __len__(self) -> int:
        return len(self.images)

    def __getitems__(self, wanted: Wanted) -> Loaded:
        """The batch of these rows and epochs."""
        pixels: list[Tensor] = []
        rows: list[int] = []
        bad: dict[str, str] = {}
        for row, epoch in wanted:
            try:
                pixels.append(self.sample(row, epoch))
                rows.append(row)
            except BadImage as error:
                bad[error.name] = error.reason
        stacked = torch.stack(pixels) if pixels else torch.empty(0, 3, *self.preprocessing.size, dtype=torch.uint8)
        numbers = np.array(rows, dtype=np.int64)
        return Loaded(stacked.numpy() if self.as_arrays else stacked, numbers, bad)

    def sample(self, row: int, epoch: int | None) -> Tensor:
        """The pixels of one row."""
        if epoch is None or self.chosen == Augmentation():
            if self.kept is not None and self.kept.exact:
                return self.kept.pixels(row, self._image)
            return self.preprocessing.prepare(self._image(row))
        image = self._image(row) if self.kept is None else self.kept.image(row, self._image)
        return self.chosen.apply(image, self.preprocessing, seed=seed_of(self.seed, epoch, row))

    def _image(self, row: int) -> Image.Image:
        return read_image(self.images, row, at_least=self.at_least)


class _Turn:
    """The rows that a pool of workers is to read now, as a `DataLoader` asks for them."""

    def __init__(self) -> None:
        self.taken = False
        self._wanted: Iterable[Wanted] = ()

    def of(self, wanted: Iterable[Wanted]) -> _Turn:
        self._wanted = wanted
        return self

    def __enter__(self) -> None:
        self.taken = True

    def __exit__(self, *error: object) -> None:
        self.taken, self._wanted = False, ()

    def __iter__(self) -> Iterator[Wanted]:
        return iter(self._wanted)


def default_workers(n: int) -> int:
    """How many processes decode `n` images well: one a core of this process's share, 8 at the most, none for a few."""
    if n < FEW:
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, cores // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))))


def _chosen(value: str | Mapping[str, Any] | Augmentation) -> Augmentation:
    return augmentation(value)


def _targets_of(dataset: Dataset) -> SparseTargets:
    """The targets, or those of no label at all where nothing is known."""
    if dataset.targets is not None:
        return dataset.targets
    return SparseTargets(np.zeros(len(dataset) + 1), np.zeros(0), num_labels=0)


def _context() -> str | None:
    """How workers start: by fork where that is safe, because a script without a main guard cannot start them else."""
    return "fork" if sys.platform == "linux" and "fork" in multiprocessing.get_all_start_methods() else None


@contextmanager
def _calm() -> Iterator[None]:
    """Python warns of forking beside threads, torch of more workers than cores; workers do nothing but decode."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield


def _has_room_to_share() -> bool:
    """Whether tensors may travel in shared memory: containers often have little, and who overfills it is killed."""
    shared = "/dev/shm"
    return not os.path.isdir(shared) or shutil.disk_usage(shared).free >= ROOMY


def _as_it_is(loaded: Any) -> Any:
    return loaded
