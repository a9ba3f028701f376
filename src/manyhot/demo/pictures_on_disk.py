"""Scenes of handwritten digits as a user's data would come: picture files, and a table of their labels."""

from __future__ import annotations

import csv
from pathlib import Path

import torch

from manyhot.data.scenes import Scenes, digit_scenes
from manyhot.files import whole_file


def write_scenes(folder: Path, *, samples: int, seed: int) -> Path:
    """Writes scenes to train on, as many to judge by and a quarter of that to calibrate on, and their table.

    Args:
        folder: Where the pictures go.
        samples: Scenes to train on.
        seed: Of the scenes.

    Returns:
        The table, with the columns path, labels and split.
    """
    # Digits of train scenes are in no other scene; those of val and test come from the same writers.
    parts = {
        "train": digit_scenes(samples, seed=seed),
        "val": digit_scenes(max(samples // 4, 1), seed=seed + 1, split="test"),
        "test": digit_scenes(samples, seed=seed, split="test"),
    }
    table = folder / "scenes.csv"
    with whole_file(table) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "labels", "split"])
        for split, scenes in parts.items():
            write_pictures(folder / split, scenes)
            for number, row in enumerate(scenes.targets.tolist()):
                names = [name for name, present in zip(scenes.names, row, strict=True) if present]
                writer.writerow([f"{split}/{number:05d}.png", "|".join(names), split])
    return table


def write_pictures(folder: Path, scenes: Scenes) -> None:
    """One grey PNG a scene, light ink on black paper."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    pixels = (255 * scenes.images).round().to(torch.uint8).numpy()
    for number, picture in enumerate(pixels):
        Image.fromarray(picture).save(folder / f"{number:05d}.png", compress_level=1)
