"""Extracting features of image files, and finding them again, beside a plain loop of timm and a DataLoader.

python benchmarks/features.py [--images 512] [--size 128] [--workers 1] [--rounds 3] [--small] [--json features.json]
"""

import argparse
import io
import statistics
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from timing import Seconds, Step, interleaved, print_times, read_options, write_figures
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from manyhot.backbones import Backbone, create_backbone, extract_features
from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files
from manyhot.labels import Labels


def rough_photos(count: int, *, width: int, height: int) -> list[bytes]:
    """JPEGs that are as rough as photos: about 100 KB at 640 x 480."""
    draw, photos = np.random.default_rng(0), []
    for _ in range(count):
        coarse = Image.fromarray(draw.integers(0, 256, (height // 20, width // 20, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float32)
        noisy = smooth + draw.normal(0, 10, smooth.shape)
        file = io.BytesIO()
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=85)
        photos.append(file.getvalue())
    return photos


def make_photos(folder: Path, n: int) -> Dataset:
    """JPEGs of 256 x 192 pixels: about 20 KB each."""
    names = [f"{number}.jpg" for number in range(n)]
    for name, photo in zip(names, rough_photos(n, width=256, height=192), strict=True):
        (folder / name).write_bytes(photo)
    return Dataset(Labels([]), None, names, images=Files(names, root=folder))


PLAIN = "plain timm and DataLoader"


class PlainFiles(torch.utils.data.Dataset[torch.Tensor]):
    """What one would write by hand."""

    def __init__(self, paths: list[Path], size: int) -> None:
        self.paths = paths
        self.transform = v2.Compose(
            [
                v2.Resize((size, size), interpolation=v2.InterpolationMode.BICUBIC, antialias=True),
                v2.ToImage(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([127 / 255] * 3, [128 / 255] * 3),
            ]
        )

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> torch.Tensor:
        tensor: torch.Tensor = self.transform(Image.open(self.paths[row]).convert("RGB"))
        return tensor


def plain_loop(backbone: Backbone, dataset: Dataset, size: int, workers: int) -> np.ndarray:
    assert isinstance(dataset.images, Files)
    paths = [dataset.images.path(row) for row in range(len(dataset))]
    loader = DataLoader(PlainFiles(paths, size), batch_size=64, num_workers=workers)
    with torch.inference_mode():
        return torch.cat([backbone.module(batch) for batch in loader]).numpy()


def measure(options: argparse.Namespace, folder: Path) -> Seconds:
    """Seconds of each way; features may differ a little."""
    (folder / "photos").mkdir()
    dataset = make_photos(folder / "photos", options.images)
    backbone = create_backbone(size=options.size).eval()

    def extract(cache: Path | bool) -> np.ndarray:
        return extract_features(backbone, dataset, cache=cache, workers=options.workers).features

    expected = plain_loop(backbone, dataset, options.size, options.workers)
    difference = float(np.abs(extract(folder / "cache") - expected).max())
    print(f"{options.images} images; largest difference to the plain loop: {difference:.4f}\n")
    steps: dict[str, Step] = {
        PLAIN: lambda: plain_loop(backbone, dataset, options.size, options.workers),
        "extract_features without a cache": lambda: extract(False),
        "extract_features, all in the cache": lambda: extract(folder / "cache"),
    }
    return interleaved(steps, rounds=options.rounds, warm_up=0)


def main() -> None:
    options = read_options(
        __doc__,
        images=(512, 8, "how many images"),
        size=(128, 32, "pixels the network sees a side"),
        workers=(1, 0, "processes that decode"),
        rounds=(3, 1, "rounds, of which the median counts"),
    )
    with tempfile.TemporaryDirectory() as folder:
        seconds = measure(options, Path(folder))
    rates = {name: f"{options.images / statistics.median(times):,.0f}" for name, times in seconds.items()}
    print_times(seconds, {PLAIN: "plain"}, more={"images/s": rates})
    write_figures(options, {"seconds": seconds})


if __name__ == "__main__":
    main()
