"""Batches of features and of images, read, decoded and augmented by worker processes."""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from manyhot.checks import check_choice, check_int, check_number
from manyhot.data.dataset import Dataset
from manyhot.data.sources import ImageSource, read_image
from manyhot.data.targets import SparseTargets
from manyhot.errors import InputError, require
from manyhot.files import available_cores
from manyhot.images import UnreadableImage
from manyhot.preprocessing import Preprocessing

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class Augmentation:
    """Random changes of each image in each epoch; the defaults change nothing.

    Attributes:
        crop: The smallest share of the image that is kept, 1 for all of it. Small shares cut off labelled objects.
        stretch: By which factor the aspect ratio of a crop may differ from that of the image, 1 for none.
        flip: Whether half of the images are mirrored left to right. Wrong for text, digits and left-or-right labels.
        flip_vertical: Whether half of them are turned upside down. Right for what is seen from above.
        colour: How far brightness, contrast and saturation may change, as a share; 0 for not at all.
        trivial: Whether one change of colour or shape of random strength is made (TrivialAugment).
        erase: The share of the images in which a random rectangle is blackened.

    Reference: TrivialAugment: Müller and Hutter, Tuning-free Yet State-of-the-Art Data Augmentation, ICCV 2021.
        Random erasing: Zhong et al., Random Erasing Data Augmentation, AAAI 2020.

    Example:
        >>> augmentation("light")
        Augmentation(crop=0.6, stretch=1.333..., flip=True, flip_vertical=False, colour=0.0, trivial=False, erase=0.0)
        >>> augmentation("light", flip=False).flip
        False
    """

    crop: float = 1.0
    stretch: float = 1.0
    flip: bool = False
    flip_vertical: bool = False
    colour: float = 0.0
    trivial: bool = False
    erase: float = 0.0

    def __post_init__(self) -> None:
        for name, interval in {"crop": "(0, 1]", "stretch": "[1, inf)", "colour": "[0, 1]", "erase": "[0, 1]"}.items():
            check_number(name, "Augmentation", getattr(self, name), interval)

    def apply(self, image: Image.Image, preprocessing: Preprocessing, *, seed: int) -> Tensor:
        """The pixels (3, H, W) uint8 of a changed image; the same seed gives the same change."""
        # torchvision draws from torch's own generator. Not `torch.manual_seed`, which would also reseed the GPUs, whose
        # state is not restored.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            pixels = self._cropped(image, preprocessing)
            for change in _transforms_of(self):
                pixels = change(pixels)
        return pixels

    def _cropped(self, image: Image.Image, preprocessing: Preprocessing) -> Tensor:
        if self.crop == 1 and self.stretch == 1:
            return preprocessing.prepare(image)
        area, tilt, horizontal, vertical = torch.rand(4).tolist()
        area = self.crop + (1 - self.crop) * area
        ratio = math.exp((2 * tilt - 1) * math.log(self.stretch))
        # What the network would see of the whole image: all of it if squashed, the largest box of its shape if not.
        width, height = float(image.width), float(image.height)
        if preprocessing.resize == "crop":
            shape = preprocessing.size[1] / preprocessing.size[0]
            width, height = min(width, height * shape), min(height, width / shape)
        width = max(1.0, min(image.width, width * math.sqrt(area * ratio)))
        height = max(1.0, min(image.height, height * math.sqrt(area / ratio)))
        left, top = horizontal * (image.width - width), vertical * (image.height - height)
        x, y = round(left), round(top)
        box = (x, y, max(x + 1, round(left + width)), max(y + 1, round(top + height)))
        return replace(preprocessing, resize="squash").prepare(image.crop(box))


@cache
def _transforms_of(spec: Augmentation) -> list[Callable[[Tensor], Tensor]]:
    """The transforms of pixels, in their order."""
    v2 = require("torchvision.transforms.v2", "Augmentations", extra="vision")
    possible = [
        (spec.flip, v2.RandomHorizontalFlip()),
        (spec.flip_vertical, v2.RandomVerticalFlip()),
        (spec.colour, v2.ColorJitter(spec.colour, spec.colour, spec.colour)),
        (spec.trivial, v2.TrivialAugmentWide()),
        (spec.erase, v2.RandomErasing(spec.erase)),
    ]
    return [change for size, change in possible if size]


AUGMENTATIONS = {
    "none": Augmentation(),
    "light": Augmentation(crop=0.6, stretch=4 / 3, flip=True),
    "strong": Augmentation(crop=0.6, stretch=4 / 3, flip=True, trivial=True, erase=0.25),
}


def augmentation(spec: str | Augmentation, *, flip: bool | None = None) -> Augmentation:
    """The augmentation of a name, or itself.

    Args:
        spec: "none", "light" (crops and flips) or "strong" (changes of colour and shape, and erased parts, too).
        flip: Whether to mirror images; by default as the name says.
    """
    if isinstance(spec, str):
        spec = AUGMENTATIONS[check_choice("augmentation", "augmentation", spec, list(AUGMENTATIONS))]
    return spec if flip is None else replace(spec, flip=flip)


class Batch(NamedTuple):
    """Some rows of a data set.

    Attributes:
        inputs: What the network takes: (n, 3, H, W) uint8 pixels or (n, D) float32 features.
        targets: (n, K) int8: 1 present, 0 absent, -1 unknown.
        rows: (n,) int64, which rows of the data set these are; images that could not be read are left out.
    """

    inputs: Tensor
    targets: Tensor
    rows: Tensor


class Batches(ABC):
    """A data set as an engine reads it.

    Attributes:
        targets: (N, K), of all rows.
    """

    targets: SparseTargets

    def __len__(self) -> int:
        """The number N of rows."""
        return len(self.targets)

    @abstractmethod
    def load(self, groups: Iterable[Sequence[int]], *, epoch: int | None) -> Iterator[Batch]:
        """One batch for each group of row numbers, in their order.

        Args:
            groups: Row numbers of each batch.
            epoch: Decides, with the row and the seed alone, how a sample is augmented, so that a run which goes on
                after a break sees what it would have seen; None for no augmentation.
        """


class FeatureBatches(Batches):
    """Rows of a matrix of features.

    Args:
        features: (N, D).
        targets: (N, K).

    Example:
        >>> data = FeatureBatches(torch.eye(3), SparseTargets.from_rows([[0], [], [1]], num_labels=2))
        >>> next(data.load([[2, 0]], epoch=0)).targets
        tensor([[0, 1],
                [1, 0]], dtype=torch.int8)
    """

    def __init__(self, features: Any, targets: SparseTargets) -> None:
        self.features, self.targets = torch.as_tensor(features), targets
        self._dense = targets.dense() if np.prod(targets.shape) < 2**28 else None

    def load(self, groups: Iterable[Sequence[int]], *, epoch: int | None) -> Iterator[Batch]:
        """Looks the rows up; there is nothing to augment."""
        # All groups at once, which takes a third of the time that each on its own does.
        for rows in [torch.from_numpy(np.asarray(group, dtype=np.int64)) for group in groups]:
            targets = self.targets.dense(rows) if self._dense is None else self._dense.index_select(0, rows)
            yield Batch(self.features.index_select(0, rows), targets, rows)


MIN_IMAGES_FOR_WORKERS = 256  # Below it, starting processes takes longer than decoding.
MIN_SHARED_MEMORY = 2**31  # Shared memory that several batches on their way surely fit in.

# The row number and the epoch of each sample of a batch, and what a worker gives for them: pixels, the numbers of the
# rows that could be read, names and reasons of the others, and an error. Torch keeps no fields of those that workers
# raise.
Requests = Sequence[tuple[int, int | None]]
LoadedImages = tuple[Any, Any, dict[str, str], InputError | None]


class ImageBatches(Batches):
    """The images of a data set as a network takes them.

    What is drawn for a sample depends on the seed, the epoch and the row alone: not on the number of workers, on the
    order of the rows, or on what was drawn before.

    Args:
        dataset: Samples with images.
        preprocessing: From an image to the input of the network.
        augmentation: "none", "light", "strong" or an `Augmentation`; used where `load` gets an epoch.
        seed: Of what is drawn.
        workers: Processes that decode; 0 for none but this one. By default as many as there are cores, at most 8.
        on_bad_image: "skip" leaves images that cannot be read out of their batch, "fail" raises `UnreadableImage`.

    Attributes:
        unreadable: What could not be read so far: names and reasons.

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
        augmentation: str | Augmentation = "none",
        seed: int = 0,
        workers: int | None = None,
        on_bad_image: str = "skip",
    ) -> None:
        owner = "ImageBatches"
        if dataset.images is None:
            got = "features" if dataset.features is not None else "nothing"
            raise InputError("dataset", owner, "hold images", got, "Use `FeatureBatches` for features.")
        # Without targets there are no labels either.
        unlabelled = SparseTargets(np.zeros(len(dataset) + 1), np.zeros(0), num_labels=0)
        self.targets = unlabelled if dataset.targets is None else dataset.targets
        self.on_bad_image = check_choice("on_bad_image", owner, on_bad_image, ("skip", "fail"))
        self.workers = default_workers(len(dataset)) if workers is None else check_int("workers", owner, workers, low=0)
        self.unreadable: dict[str, str] = {}
        seed = check_int("seed", owner, seed, low=0)
        self._samples = _ImageSamples(dataset.images, preprocessing, augmentation, seed)
        self._pool: DataLoader[Any] | None = None

    def load(self, groups: Iterable[Sequence[int]], *, epoch: int | None) -> Iterator[Batch]:
        """Decodes ahead of what is asked for; images that cannot be read are named in `unreadable`."""
        requests = ([(int(row), epoch) for row in group] for group in groups)
        for pixels, rows, unreadable, error in self._stream(requests):
            if error is not None:
                raise error
            self.unreadable.update(unreadable)
            if unreadable and self.on_bad_image == "fail":
                raise UnreadableImage(*next(iter(unreadable.items())))
            yield Batch(torch.as_tensor(pixels), self.targets.dense(rows), torch.as_tensor(rows))

    def close(self) -> None:
        """Ends the worker processes, which otherwise wait for the next epoch."""
        self._pool = None

    def _stream(self, requests: Iterable[Requests]) -> Iterator[LoadedImages]:
        if self.workers == 0:
            yield from map(self._samples.__getitems__, requests)
            return
        # Python warns of forking beside threads, torch of more workers than cores; workers do nothing but decode.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", UserWarning)
            pool = self._free_pool()
            pool.batch_sampler.requests = requests  # type: ignore[union-attr]
            batches = iter(pool)
        try:
            yield from batches
        finally:
            pool.batch_sampler.requests = None  # type: ignore[union-attr]

    def _free_pool(self) -> DataLoader[Any]:
        """The worker processes, which serve one reader at a time; a second one gets processes of its own."""
        if self._pool is not None and self._pool.batch_sampler.requests is None:  # type: ignore[union-attr]
            return self._pool
        # Containers often have little shared memory, and who overfills it is killed.
        shared = "/dev/shm"
        self._samples.as_arrays = os.path.isdir(shared) and shutil.disk_usage(shared).free < MIN_SHARED_MEMORY
        # By fork where that is safe, because a script without a main guard cannot start them else.
        fork = sys.platform == "linux" and "fork" in multiprocessing.get_all_start_methods()
        pool: DataLoader[Any] = DataLoader(
            self._samples,  # type: ignore[arg-type]
            batch_sampler=_RequestSampler(),  # type: ignore[arg-type]
            collate_fn=tuple,
            num_workers=self.workers,
            persistent_workers=True,
            prefetch_factor=2,
            multiprocessing_context="fork" if fork else None,
            generator=torch.Generator(),  # or it would draw from everybody's
        )
        if self._pool is None:
            self._pool = pool
        return pool


class _RequestSampler:
    """The rows that a pool of workers is to read now, as a `DataLoader` asks for them; None while it is free."""

    requests: Iterable[Requests] | None = None

    def __iter__(self) -> Iterator[Requests]:
        return iter(self.requests or ())


class _ImageSamples:
    """What a worker does: from row numbers to pixels."""

    def __init__(self, images: ImageSource, preprocessing: Preprocessing, spec: str | Augmentation, seed: int) -> None:
        self.images, self.preprocessing, self.augmentation, self.seed = images, preprocessing, augmentation(spec), seed
        # A crop is enlarged again, so it must be cut from more pixels.
        self.min_side = math.ceil(max(preprocessing.size) / math.sqrt(self.augmentation.crop))
        self.as_arrays = False  # whether not to send tensors, which travel in shared memory

    def __getitems__(self, requests: Requests) -> LoadedImages:
        """The batch of these rows and epochs."""
        pixels = torch.empty(len(requests), 3, *self.preprocessing.size, dtype=torch.uint8)
        rows: list[int] = []
        unreadable: dict[str, str] = {}
        failure = None
        for row, epoch in requests:
            try:
                pixels[len(rows)] = self._sample(row, epoch)
                rows.append(row)
            except UnreadableImage as error:
                unreadable[error.name] = error.reason
            except InputError as error:
                failure = error
                break
        pixels = pixels[: len(rows)]
        return pixels.numpy() if self.as_arrays else pixels, np.array(rows, dtype=np.int64), unreadable, failure

    def _sample(self, row: int, epoch: int | None) -> Tensor:
        image = read_image(self.images, row, min_side=self.min_side)
        if epoch is None or self.augmentation == Augmentation():
            return self.preprocessing.prepare(image)
        # One number of three, so that what is drawn for a sample depends on nothing else.
        drawn = np.random.SeedSequence([self.seed, epoch, row]).generate_state(1, np.uint64)[0]
        return self.augmentation.apply(image, self.preprocessing, seed=int(drawn >> np.uint64(1)))


def default_workers(n: int) -> int:
    """How many processes decode `n` images well: one per core of this process's share, at most 8, none for a few."""
    if n < MIN_IMAGES_FOR_WORKERS:
        return 0
    return max(1, min(8, available_cores() // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))))
