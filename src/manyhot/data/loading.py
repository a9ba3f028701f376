"""Batches of features and of images, read, decoded and augmented by worker processes."""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import sys
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from manyhot.checks import check_choice, check_int, check_number
from manyhot.data.sources import read_image
from manyhot.data.targets import SparseTargets
from manyhot.errors import InputError, require, suggest
from manyhot.images import UnreadableImage

if TYPE_CHECKING:
    from PIL import Image

    from manyhot.data.dataset import Dataset
    from manyhot.data.sources import ImageSource
    from manyhot.preprocessing import Preprocessing


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
        owner = "Augmentation"
        check_number("crop", owner, self.crop, low=0, high=1, low_open=True)
        check_number("stretch", owner, self.stretch, low=1)
        check_number("colour", owner, self.colour, low=0, high=1)
        check_number("erase", owner, self.erase, low=0, high=1)

    def describe(self) -> dict[str, Any]:
        """The sizes of all effects, as values that JSON can hold."""
        return asdict(self)

    @classmethod
    def restore(cls, content: Mapping[str, Any]) -> Augmentation:
        """What `describe` described."""
        names = [field.name for field in fields(cls)]
        for name in content:
            if name not in names:
                hint = suggest(str(name), names, "Pass one of these.", show=repr)
                raise InputError("augmentation", "Augmentation", "hold known effects", repr(name), hint)
        return cls(**content)

    def apply(self, image: Image.Image, preprocessing: Preprocessing, *, seed: int) -> Tensor:
        """The pixels (3, H, W) uint8 of a changed image; the same seed gives the same change."""
        with seeded_torch(seed):
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
    v2 = _import_transforms()
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


def augmentation(spec: str | Mapping[str, Any] | Augmentation, *, flip: bool | None = None) -> Augmentation:
    """The augmentation of a name, of what `describe` gave, or itself.

    Args:
        spec: "none", "light" (crops and flips) or "strong" (changes of colour and shape, and erased parts, too).
        flip: Whether to mirror images; by default as the name says.
    """
    if isinstance(spec, str) and spec not in AUGMENTATIONS:
        rule = f"be one of {', '.join(map(repr, AUGMENTATIONS))}"
        raise InputError(
            "augmentation",
            "augmentation",
            rule,
            repr(spec),
            suggest(str(spec), AUGMENTATIONS, "Pass one of these.", show=repr),
        )
    if isinstance(spec, str):
        result = AUGMENTATIONS[spec]
    else:
        result = spec if isinstance(spec, Augmentation) else Augmentation.restore(spec)
    return result if flip is None else replace(result, flip=flip)


def sample_seed(seed: int, epoch: int, row: int) -> int:
    """One number of three, so that what is drawn for a sample depends on nothing else."""
    return int(np.random.SeedSequence([seed, epoch, row]).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextmanager
def seeded_torch(seed: int) -> Iterator[None]:
    """Lets torchvision, which draws from torch's own generator, draw from this seed; puts the generator back after."""
    # Not `torch.manual_seed`, which would also reseed the GPUs, whose state is not restored.
    generator = torch.default_generator
    state = generator.get_state()
    generator.manual_seed(seed)
    try:
        yield
    finally:
        generator.set_state(state)


def _import_transforms() -> Any:
    return require("torchvision.transforms.v2", "Augmentations", extra="vision")


Array = np.ndarray[Any, Any]
ReadImage = Callable[[int], "Image.Image"]


class PixelCache:
    """Pixels by row, each decoded once.

    The file has no name from the start, so that nothing is left behind, however the program ends.

    Args:
        n: Number of images.
        preprocessing: What is done to an image before it is kept.
        exact: Whether to keep what the network sees, or images of 8/7 of its size, to cut crops from.
    """

    def __init__(self, n: int, preprocessing: Preprocessing, *, exact: bool) -> None:
        height, width = preprocessing.size
        size = (height, width) if exact else (math.ceil(height * 8 / 7), math.ceil(width * 8 / 7))
        self.exact, self.preprocessing = exact, replace(preprocessing, size=size)
        needed, free = n * 3 * size[0] * size[1], shutil.disk_usage(tempfile.gettempdir()).free
        if needed > free:
            rule = f"leave space for {needed / 1e9:.1f} GB of pixels in {tempfile.gettempdir()!r}"
            hint = "Leave it out, or set TMPDIR to a larger disk."
            raise InputError("cache", "ImageBatches", rule, f"{free / 1e9:.1f} GB free", hint)
        self._pixels = _shared_array((n, 3, *size))
        self._is_cached = _shared_array((n,))

    def pixels(self, row: int, read: ReadImage) -> Tensor:
        """(3, H, W), read and prepared if it has not been yet."""
        if not self._is_cached[row]:
            # First the pixels, then the word that they are there: another process may look at any time.
            self._pixels[row] = self.preprocessing.prepare(read(row)).numpy()
            self._is_cached[row] = 1
        return torch.from_numpy(np.array(self._pixels[row]))

    def image(self, row: int, read: ReadImage) -> Image.Image:
        """The same as an image."""
        from PIL import Image

        return Image.fromarray(self.pixels(row, read).permute(1, 2, 0).contiguous().numpy())


def _shared_array(shape: tuple[int, ...]) -> Array:
    """Bytes of 0 in a file without a name, which processes that are forked from this one share."""
    if 0 in shape:
        return np.zeros(shape, dtype=np.uint8)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype=np.uint8, mode="w+", shape=shape)


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
        for group in groups:
            rows = torch.as_tensor(group, dtype=torch.int64)
            targets = self.targets.dense(rows) if self._dense is None else self._dense.index_select(0, rows)
            yield Batch(self.features.index_select(0, rows), targets, rows)


MIN_IMAGES_FOR_WORKERS = 256  # Below it, starting processes takes longer than decoding.
MIN_SHARED_MEMORY = 2**31  # Shared memory that several batches on their way surely fit in.

Requests = Sequence[tuple[int, int | None]]


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
        cache: "pixels" keeps decoded images in a temporary file, from which later epochs read. Augmentation then starts
            from images of 8/7 of the network's size, no longer from the originals.

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
        augmentation: str | Mapping[str, Any] | Augmentation = "none",
        seed: int = 0,
        workers: int | None = None,
        on_bad_image: str = "skip",
        cache: str | None = None,
    ) -> None:
        owner = "ImageBatches"
        if dataset.images is None:
            got = "features" if dataset.features is not None else "nothing"
            raise InputError("dataset", owner, "hold images", got, "Use `FeatureBatches` for features.")
        self.targets = _targets_or_empty(dataset)
        self.on_bad_image = check_choice("on_bad_image", owner, on_bad_image, ("skip", "fail"))
        self.workers = default_workers(len(dataset)) if workers is None else check_int("workers", owner, workers, low=0)
        self.unreadable: dict[str, str] = {}
        self._samples = ImageSamples(
            dataset.images, preprocessing, _resolve_augmentation(augmentation), check_int("seed", owner, seed, low=0)
        )
        if cache is not None:
            check_choice("cache", owner, cache, ("pixels",))
            self._samples.cache_pixels()
            # Without fork, each process would keep pixels of its own.
            self.workers = self.workers if _start_method() == "fork" else 0
        self._sampler = _RequestSampler()
        self._pool: DataLoader[Any] | None = None

    def load(self, groups: Iterable[Sequence[int]], *, epoch: int | None) -> Iterator[Batch]:
        """Decodes ahead of what is asked for; images that cannot be read are named in `unreadable`."""
        requests = ([(int(row), epoch) for row in group] for group in groups)
        for pixels, rows, unreadable in self._stream(requests):
            self.unreadable.update(unreadable)
            if unreadable and self.on_bad_image == "fail":
                raise UnreadableImage(*next(iter(unreadable.items())))
            loaded_rows = torch.as_tensor(rows)
            yield Batch(torch.as_tensor(pixels), self.targets.dense(loaded_rows.numpy()), loaded_rows)

    def close(self) -> None:
        """Ends the worker processes, which otherwise wait for the next epoch."""
        self._pool = None

    def _stream(self, requests: Iterable[Requests]) -> Iterator[LoadedImages]:
        if self.workers == 0:
            yield from map(self._samples.load, requests)
            return
        # The processes serve one reader at a time; a second one gets processes of its own.
        if self._sampler.busy:
            sampler = _RequestSampler()
            pool = self._make_pool(sampler, persistent=False)
        else:
            sampler = self._sampler
            if self._pool is None:
                self._pool = self._make_pool(sampler, persistent=True)
            pool = self._pool
        with sampler.serving(requests):
            with _ignore_worker_warnings():
                batches = iter(pool)
            for loaded in batches:
                if isinstance(loaded, InputError):
                    raise loaded
                yield loaded

    def _make_pool(self, sampler: _RequestSampler, *, persistent: bool) -> DataLoader[Any]:
        self._samples.as_arrays = not _has_shared_memory()
        with _ignore_worker_warnings():
            return DataLoader(
                self._samples,  # type: ignore[arg-type]
                batch_sampler=sampler,  # type: ignore[arg-type]
                collate_fn=_identity,
                num_workers=self.workers,
                persistent_workers=persistent,
                prefetch_factor=2,
                multiprocessing_context=_start_method(),
                generator=torch.Generator(),  # or it would draw from everybody's
            )


class LoadedImages(NamedTuple):
    """What a worker sends back."""

    pixels: Any
    rows: Any
    unreadable: dict[str, str]


class ImageSamples:
    """What a worker does: from row numbers to pixels.

    Args:
        images: Where they lie.
        preprocessing: From an image to pixels.
        augmentation: The augmentation.
        seed: Of what is drawn.
    """

    def __init__(
        self, images: ImageSource, preprocessing: Preprocessing, augmentation: Augmentation, seed: int
    ) -> None:
        self.images, self.preprocessing, self.augmentation, self.seed = images, preprocessing, augmentation, seed
        # A crop is enlarged again, so it must be cut from more pixels.
        self.min_side = math.ceil(max(preprocessing.size) / math.sqrt(augmentation.crop))
        self.as_arrays = False
        self.pixel_cache: PixelCache | None = None

    def cache_pixels(self) -> None:
        """Allocates the pixels of all images."""
        self.pixel_cache = PixelCache(len(self.images), self.preprocessing, exact=self.augmentation == Augmentation())

    def __len__(self) -> int:
        return len(self.images)

    def __getitems__(self, requests: Requests) -> LoadedImages | InputError:
        """The batch of these rows and epochs, or the error, because torch passes on no fields of errors of workers."""
        try:
            return self.load(requests)
        except InputError as error:
            return error

    def load(self, requests: Requests) -> LoadedImages:
        """The batch of these rows and epochs."""
        pixels: list[Tensor] = []
        rows: list[int] = []
        unreadable: dict[str, str] = {}
        for row, epoch in requests:
            try:
                pixels.append(self.sample(row, epoch))
                rows.append(row)
            except UnreadableImage as error:
                unreadable[error.name] = error.reason
        stacked = torch.stack(pixels) if pixels else torch.empty(0, 3, *self.preprocessing.size, dtype=torch.uint8)
        numbers = np.array(rows, dtype=np.int64)
        return LoadedImages(stacked.numpy() if self.as_arrays else stacked, numbers, unreadable)

    def sample(self, row: int, epoch: int | None) -> Tensor:
        """The pixels of one row."""
        if epoch is None or self.augmentation == Augmentation():
            if self.pixel_cache is not None and self.pixel_cache.exact:
                return self.pixel_cache.pixels(row, self._image)
            return self.preprocessing.prepare(self._image(row))
        image = self._image(row) if self.pixel_cache is None else self.pixel_cache.image(row, self._image)
        return self.augmentation.apply(image, self.preprocessing, seed=sample_seed(self.seed, epoch, row))

    def _image(self, row: int) -> Image.Image:
        return read_image(self.images, row, min_side=self.min_side)


class _RequestSampler:
    """The rows that a pool of workers is to read now, as a `DataLoader` asks for them."""

    def __init__(self) -> None:
        self.busy = False
        self._requests: Iterable[Requests] = ()

    def serving(self, requests: Iterable[Requests]) -> _RequestSampler:
        self._requests = requests
        return self

    def __enter__(self) -> None:
        self.busy = True

    def __exit__(self, *error: object) -> None:
        self.busy, self._requests = False, ()

    def __iter__(self) -> Iterator[Requests]:
        return iter(self._requests)


def default_workers(n: int) -> int:
    """How many processes decode `n` images well: one per core of this process's share, at most 8, none for a few."""
    if n < MIN_IMAGES_FOR_WORKERS:
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, cores // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))))


def _resolve_augmentation(value: str | Mapping[str, Any] | Augmentation) -> Augmentation:
    return augmentation(value)


def _targets_or_empty(dataset: Dataset) -> SparseTargets:
    """The targets, or those of no label at all where nothing is known."""
    if dataset.targets is not None:
        return dataset.targets
    return SparseTargets(np.zeros(len(dataset) + 1), np.zeros(0), num_labels=0)


def _start_method() -> str | None:
    """How workers start: by fork where that is safe, because a script without a main guard cannot start them else."""
    return "fork" if sys.platform == "linux" and "fork" in multiprocessing.get_all_start_methods() else None


@contextmanager
def _ignore_worker_warnings() -> Iterator[None]:
    """Python warns of forking beside threads, torch of more workers than cores; workers do nothing but decode."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield


def _has_shared_memory() -> bool:
    """Whether tensors may travel in shared memory: containers often have little, and who overfills it is killed."""
    shared = "/dev/shm"
    return not os.path.isdir(shared) or shutil.disk_usage(shared).free >= MIN_SHARED_MEMORY


def _identity(loaded: Any) -> Any:
    return loaded
