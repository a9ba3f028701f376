"""Extracting features of image files, and finding them again, beside a plain loop of timm and a DataLoader.

python benchmarks/features.py [--images 512] [--size 128] [--workers 1] [--rounds 3] [--json features.json]
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from timing import Step, interleaved, ratio
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from manyhot.backbones import Backbone, create_backbone, extract_features
from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files
from manyhot.labels import Labels


def make_photos(folder: Path, n: int) -> Dataset:
    """JPEGs of 256 x 192 pixels that are as rough as photos: about 20 KB each."""
    draw = np.random.default_rng(0)
    names = [f"{number}.jpg" for number in range(n)]
    for name in names:
        coarse = Image.fromarray(draw.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((256, 192), Image.Resampling.BICUBIC), dtype=np.float32)
        noisy = smooth + draw.normal(0, 8, smooth.shape)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(folder / name, quality=90)
    return Dataset(Labels([]), None, names, images=Files(names, root=folder))


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


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, dict[str, float]]:
    """Images a second of each way, and its time over that of the plain loop."""
    (folder / "photos").mkdir()
    dataset = make_photos(folder / "photos", arguments.images)
    backbone = create_backbone(size=arguments.size).eval()

    def extract(cache: Path | bool) -> np.ndarray:
        return extract_features(backbone, dataset, cache=cache, workers=arguments.workers).features

    expected = plain_loop(backbone, dataset, arguments.size, arguments.workers)
    difference = float(np.abs(extract(folder / "cache") - expected).max())
    steps: dict[str, Step] = {
        "plain timm and DataLoader": lambda: plain_loop(backbone, dataset, arguments.size, arguments.workers),
        "extract_features without a cache": lambda: extract(False),
        "extract_features, all in the cache": lambda: extract(folder / "cache"),
    }
    seconds = interleaved(steps, rounds=arguments.rounds, warm_up=0)
    print(f"largest difference to the plain loop: {difference:.4f}\n")
    return {
        name: {
            "images/s": arguments.images / statistics.median(times),
            "time": ratio(seconds, name, "plain timm and DataLoader"),
        }
        for name, times in seconds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=512, help="how many images (default: 512)")
    parser.add_argument("--size", type=int, default=128, help="pixels the network sees a side (default: 128)")
    parser.add_argument("--workers", type=int, default=1, help="processes that decode (default: 1)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: 3)")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(arguments, Path(folder))
    print(f"{'':38}{'images/s':>10}{'time':>10}")
    for name, figures in results.items():
        print(f"{name:38}{figures['images/s']:10,.0f}{figures['time']:10.3f}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
