"""Folders of images to score, and what is looked for in folders of parts."""

from contextlib import contextmanager

import numpy as np
import torch
from PIL import Image

import manyhot as mh


def draw_images(folder, numbers):
    """Writes small pictures of noise; the same ones for the same numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        pixels = np.random.default_rng(number).integers(0, 256, (20 + number, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:02d}.png")
    return folder


def watching(told):
    """A watch that puts what it is told into a list: the total first."""

    @contextmanager
    def watch(total):
        told.append(total)
        yield told.append

    return watch


def check_same(folder, wanted):
    """The parts hold what one process predicts, in the same order and to the last bit, since batches are the same."""
    table = mh.Predictions.open(folder).load()
    assert (table.ids, table.paths) == (wanted.ids, wanted.paths)
    for kind in ("scores", "probs", "decisions"):
        assert torch.equal(getattr(table, kind), getattr(wanted, kind)), kind
    assert table.labels.names == wanted.labels.names


def stamps(folder):
    """What changes if a part is written again."""
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.glob("part-*.parquet")}
