"""Small pictures for these tests: smooth shapes, so that scaling has something to keep."""

from pathlib import Path

import numpy as np
from PIL import Image

from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files
from manyhot.labels import Labels


def photo(height: int, width: int, *, seed: int = 0) -> Image.Image:
    """A picture with gradients, edges and a little noise."""
    draw = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    waves = [np.sin(x * draw.uniform(3, 30) + y * draw.uniform(3, 30) + draw.uniform(0, 6)) for _ in range(3)]
    pixels = 127 + 90 * np.stack(waves, axis=2)
    top, left = (int(draw.uniform(0.1, 0.5) * side) for side in (height, width))
    pixels[top : top + height // 3, left : left + width // 3] = draw.uniform(0, 255, 3)
    noisy = pixels + draw.normal(0, 4, pixels.shape)
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def save_photos(folder: Path, n: int, *, first_seed: int = 0) -> list[str]:
    """Names of `n` PNG files of changing sizes."""
    names = [f"{number}.png" for number in range(n)]
    for number, name in enumerate(names):
        photo(30 + number % 7, 40 - number % 5, seed=first_seed + number).save(folder / name)
    return names


def dataset_of(folder: Path, names: list[str]) -> Dataset:
    """The files as samples of which nothing is known."""
    return Dataset(Labels([]), None, list(names), images=Files(names, root=folder))
