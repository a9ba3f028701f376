"""Preprocessing of images: resizing and normalisation before the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from manyhot.checks import check_choice, check_int, check_number, describe_type
from manyhot.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

RESIZES = ("squash", "crop")
INTERPOLATIONS = ("bilinear", "bicubic")


@dataclass(frozen=True)
class Preprocessing:
    """Resizing and normalisation: from an image of any size to the input of a network.

    Attributes:
        size: Height and width of what the network sees; one number for a square.
        resize: "squash" (both sides are scaled to `size`) or "crop" (the short side is scaled, the centre is used).
            Objects at the border have labels too, so "squash" is the default.
        interpolation: "bilinear" or "bicubic", always with antialiasing.
        mean: What is subtracted from each channel, for pixels from 0 to 255; one number for all three.
        std: What each channel is divided by, for pixels from 0 to 255; one number for all three.

    Example:
        >>> preprocessing = Preprocessing(size=96, resize="crop")
        >>> preprocessing.size
        (96, 96)
        >>> preprocessing.prepare_tensor(torch.zeros(2, 3, 480, 640, dtype=torch.uint8)).shape
        torch.Size([2, 3, 96, 96])
    """

    size: tuple[int, int] = (224, 224)
    resize: str = "squash"
    interpolation: str = "bilinear"
    mean: tuple[float, float, float] = (127.0, 127.0, 127.0)
    std: tuple[float, float, float] = (128.0, 128.0, 128.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_size("Preprocessing", self.size))
        check_choice("resize", "Preprocessing", self.resize, RESIZES)
        check_choice("interpolation", "Preprocessing", self.interpolation, INTERPOLATIONS)
        object.__setattr__(self, "mean", _channels("mean", self.mean, "(-inf, inf)"))
        object.__setattr__(self, "std", _channels("std", self.std, "(0, inf)"))

    def prepare(self, image: Image) -> Tensor:
        """(3, H, W) uint8 of an image of any size and mode, resized. Normalisation is left to the backbone."""
        from PIL.Image import Resampling

        if image.mode != "RGB":
            image = image.convert("RGB")
        left, top, width, height = self._region(*image.size)
        if (width, height) != image.size:
            image = image.crop((left, top, left + width, top + height))
        # First the width, then the height: versions of Pillow differ in the order, which shows after rounding.
        for size in ((self.size[1], height), (self.size[1], self.size[0])):
            if image.size != size:
                image = image.resize(size, Resampling[self.interpolation.upper()])
        # A copy, because the array of an image is read-only and torch needs writable memory.
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()

    def prepare_tensor(self, pixels: Tensor) -> Tensor:
        """(N, 3, H, W) uint8 of pixels (N, 3, h, w) of any size, as `prepare` does it, to within a grey level or two.

        Uses torch alone and can be exported to ONNX with N, h and w left open.
        """
        check_pixels("Preprocessing.prepare_tensor", pixels)
        left, top, width, height = self._region(pixels.shape[3], pixels.shape[2])
        # Not by slices, whose length an exporter cannot infer from symbolic sizes.
        region = pixels.narrow(2, top, height).narrow(3, left, width).float()
        for side in region.shape[2:]:
            torch._check(side > 0)  # nor that there is something left
        # One side at a time and rounded between, as above: a bicubic curve overshoots and is cut off twice.
        wide = self._scale(region, (height, self.size[1]))
        return self._scale(wide, self.size).to(torch.uint8)

    def _scale(self, pixels: Tensor, size: tuple[int, int]) -> Tensor:
        scaled = F.interpolate(pixels, size=size, mode=self.interpolation, antialias=True, align_corners=False)
        # Pillow rounds a half up, torch to the even number.
        return (scaled + 0.5).floor().clamp(0, 255)

    def _region(self, width: int, height: int) -> tuple[int, int, int, int]:
        """Left, top, width and height of the region of an image that is used, in pixels."""
        if self.resize == "squash":
            return 0, 0, width, height
        crop_width = torch.sym_max(1, torch.sym_min(width, height * self.size[1] // self.size[0]))
        crop_height = torch.sym_max(1, torch.sym_min(height, width * self.size[0] // self.size[1]))
        return (width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height

    def describe(self) -> dict[str, Any]:
        """The values, for JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def restore(cls, content: Mapping[str, Any]) -> Preprocessing:
        """What `describe` described."""
        names = {field.name for field in fields(cls)}
        if not isinstance(content, Mapping) or set(content) != names:
            got = ", ".join(sorted(map(str, content))) if isinstance(content, Mapping) else describe_type(content)
            rule = f"have the entries {', '.join(sorted(names))}"
            raise InputError("content", "Preprocessing.restore", rule, got, "Pass what `describe` gave.")
        # Lists become tuples as the values are checked.
        return cls(**dict(content))


def check_size(owner: str, size: object) -> tuple[int, int]:
    """Height and width, of one number for a square or of two."""
    sides = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2:
        raise InputError("size", owner, "be one number of pixels, or height and width", repr(size), "Pass 224, say.")
    height, width = (check_int("size", owner, side, low=1) for side in sides)
    return height, width


def check_pixels(owner: str, pixels: Tensor) -> None:
    """Raises an error for anything but (N, 3, H, W) of uint8 or of floating-point numbers."""
    if not isinstance(pixels, Tensor) or not (pixels.dtype == torch.uint8 or pixels.is_floating_point()):
        rule = "be a tensor of uint8, or of floating-point numbers from 0 to 255"
        raise InputError("pixels", owner, rule, describe_type(pixels), "Pass `Preprocessing.prepare(image)`, stacked.")
    if pixels.ndim != 4 or pixels.shape[1] != 3:
        hint = "Put the channels second, and repeat a grey one three times."
        raise InputError("pixels", owner, "be (N, 3, H, W)", str(tuple(pixels.shape)), hint)


def _channels(argument: str, value: object, interval: str) -> tuple[float, float, float]:
    numbers = tuple(value) if isinstance(value, tuple | list) else (value,) * 3
    if len(numbers) != 3:
        rule = "be one number, or one for each of red, green and blue"
        raise InputError(argument, "Preprocessing", rule, repr(value), "Pass three numbers in units of 0 to 255.")
    red, green, blue = (check_number(argument, "Preprocessing", number, interval) for number in numbers)
    return red, green, blue
