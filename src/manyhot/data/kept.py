"""Decoded pixels in a temporary file that all processes share, for epochs after the first."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manyhot.refusal import refusal

if TYPE_CHECKING:
    from PIL import Image

    from manyhot.backbones.preprocessing import Preprocessing

Array = np.ndarray[Any, Any]
Read = Callable[[int], "Image.Image"]


class KeptPixels:
    """Pixels by row, each decoded once.

    The file has no name from the start, so that nothing is left behind, however the program ends.

    Args:
        n: Number of images.
        preprocessing: What is done to an image before it is kept.
        exact: Whether to keep what the network sees, or pictures of 8/7 of its size, to cut crops from.
    """

    def __init__(self, n: int, preprocessing: Preprocessing, *, exact: bool) -> None:
        height, width = preprocessing.size
        size = (height, width) if exact else (math.ceil(height * 8 / 7), math.ceil(width * 8 / 7))
        self.exact, self.preprocessing = exact, replace(preprocessing, size=size)
        needed, free = n * 3 * size[0] * size[1], shutil.disk_usage(tempfile.gettempdir()).free
        if needed > free:
            rule = f"leave room for {needed / 1e9:.1f} GB of pixels in {tempfile.gettempdir()!r}"
            remedy = "Leave it out, or set TMPDIR to a larger disk."
            raise refusal("keep", "ImageBatches", rule, f"{free / 1e9:.1f} GB free", remedy)
        self._pixels = _shared_array((n, 3, *size))
        self._there = _shared_array((n,))

    def pixels(self, row: int, read: Read) -> Tensor:
        """(3, H, W), read and prepared if it has not been yet."""
        if not self._there[row]:
            # First the pixels, then the word that they are there: another process may look at any time.
            self._pixels[row] = self.preprocessing.prepare(read(row)).numpy()
            self._there[row] = 1
        return torch.from_numpy(np.array(self._pixels[row]))

    def image(self, row: int, read: Read) -> Image.Image:
        """The same as a picture."""
        from PIL import Image

        return Image.fromarray(self.pixels(row, read).permute(1, 2, 0).contiguous().numpy())


def _shared_array(shape: tuple[int, ...]) -> Array:
    """Bytes of 0 in a file without a name, which processes that are forked from this one share."""
    if 0 in shape:
        return np.zeros(shape, dtype=np.uint8)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype=np.uint8, mode="w+", shape=shape)
