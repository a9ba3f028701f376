"""Small changes to training pictures that leave their labels true."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import check_number
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from PIL import Image

    from manyhot.backbones.preprocessing import Preprocessing


@dataclass(frozen=True)
class Augmentation:
    """What is drawn anew for each picture in each epoch; the defaults change nothing.

    Attributes:
        crop: The smallest share of the picture that is kept, 1 for all of it. Small shares cut labelled things off.
        stretch: By which factor a crop may be wider or higher than the picture, 1 for none.
        flip: Whether half of the pictures are mirrored left to right. Wrong for text, digits and left-or-right labels.
        flip_vertical: Whether half of them are turned upside down. Right for what is seen from above.
        colour: How far brightness, contrast and saturation may change, as a share; 0 for not at all.
        trivial: Whether one change of colour or shape of random strength is made (TrivialAugment).
        erase: The share of the pictures in which a random rectangle is blackened.

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
                raise refusal("augmentation", "Augmentation", "hold known effects", repr(name), _nearest(name, names))
        return cls(**content)

    def apply(self, image: Image.Image, preprocessing: Preprocessing, *, seed: int) -> Tensor:
        """The pixels (3, H, W) uint8 of a changed picture; the same seed gives the same change."""
        with drawing_from(seed):
            pixels = self._cropped(image, preprocessing)
            for change in _changes(self):
                pixels = change(pixels)
        return pixels

    def _cropped(self, image: Image.Image, preprocessing: Preprocessing) -> Tensor:
        if self.crop == 1 and self.stretch == 1:
            return preprocessing.prepare(image)
        area, tilt, across, down = torch.rand(4).tolist()
        area = self.crop + (1 - self.crop) * area
        ratio = math.exp((2 * tilt - 1) * math.log(self.stretch))
        # What the network would see of the whole picture: all of it if squashed, the largest box of its shape if not.
        width, height = float(image.width), float(image.height)
        if preprocessing.resize == "crop":
            shape = preprocessing.size[1] / preprocessing.size[0]
            width, height = min(width, height * shape), min(height, width / shape)
        width = max(1.0, min(image.width, width * math.sqrt(area * ratio)))
        height = max(1.0, min(image.height, height * math.sqrt(area / ratio)))
        left, top = across * (image.width - width), down * (image.height - height)
        x, y = round(left), round(top)
        box = (x, y, max(x + 1, round(left + width)), max(y + 1, round(top + height)))
        return replace(preprocessing, resize="squash").prepare(image.crop(box))


@cache
def _changes(chosen: Augmentation) -> list[Callable[[Tensor], Tensor]]:
    """The transforms of pixels, in their order."""
    v2 = _transforms()
    possible = [
        (chosen.flip, v2.RandomHorizontalFlip()),
        (chosen.flip_vertical, v2.RandomVerticalFlip()),
        (chosen.colour, v2.ColorJitter(chosen.colour, chosen.colour, chosen.colour)),
        (chosen.trivial, v2.TrivialAugmentWide()),
        (chosen.erase, v2.RandomErasing(chosen.erase)),
    ]
    return [change for size, change in possible if size]


PRESETS = {
    "none": Augmentation(),
    "light": Augmentation(crop=0.6, stretch=4 / 3, flip=True),
    "strong": Augmentation(crop=0.6, stretch=4 / 3, flip=True, trivial=True, erase=0.25),
}


def augmentation(chosen: str | Mapping[str, Any] | Augmentation, *, flip: bool | None = None) -> Augmentation:
    """The augmentation of a name, of what `describe` gave, or itself.

    Args:
        chosen: "none", "light" (crops and flips) or "strong" (changes of colour and shape, and erased parts, too).
        flip: Whether to mirror pictures, if not as the name says.
    """
    if isinstance(chosen, str) and chosen not in PRESETS:
        rule = f"be one of {', '.join(map(repr, PRESETS))}"
        raise refusal("augmentation", "augmentation", rule, repr(chosen), _nearest(chosen, list(PRESETS)))
    if isinstance(chosen, str):
        found = PRESETS[chosen]
    else:
        found = chosen if isinstance(chosen, Augmentation) else Augmentation.restore(chosen)
    return found if flip is None else replace(found, flip=flip)


def seed_of(seed: int, epoch: int, row: int) -> int:
    """One number of three, so that what is drawn for a sample depends on nothing else."""
    return int(np.random.SeedSequence([seed, epoch, row]).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """Lets torchvision, which draws from torch's own generator, draw from this seed; puts the generator back after."""
    # Not `torch.manual_seed`, which would also reseed the GPUs, where nobody puts it back.
    generator = torch.default_generator
    before = generator.get_state()
    generator.manual_seed(seed)
    try:
        yield
    finally:
        generator.set_state(before)


def _transforms() -> Any:
    try:
        from torchvision.transforms import v2
    except ImportError:
        raise ImportError("Augmentation needs torchvision. Install it with: pip install 'manyhot[vision]'") from None
    return v2


def _nearest(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(str(name), names, n=1)
    return f"Did you mean {near[0]!r}?" if near else "Pass one of these."
