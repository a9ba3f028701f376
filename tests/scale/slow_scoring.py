"""Scores a folder of images, writing down each that is read, and never ends; a program for a test to kill."""

import sys
import time
from dataclasses import replace
from pathlib import Path

from manyhot.data import Files, read_images
from manyhot.scale import predict_with_ray

# Images that are read by a program that does not end.
HALF = 15


class Watched(Files):
    """Files that tell which of them are read.

    Args:
        files: Where they lie.
        log: The file to write down paths in.
        ends: Whether the second half can be read.
    """

    def __init__(self, files, log, *, ends=True):
        super().__init__(files.paths, root=files.root)
        self.log, self.ends = log, ends

    def read(self, row):
        """The bytes of the file."""
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(self.paths[row] + "\n")
        while not self.ends and int(Path(self.paths[row]).stem) >= HALF:
            time.sleep(1)
        return super().read(row)

    def take(self, rows):
        """The files of these row numbers."""
        return Watched(super().take(rows), self.log, ends=self.ends)


def score(run, images, folder, log, *, ends=True):
    """Scores in parts of four images."""
    dataset = read_images(images)
    watched = replace(dataset, images=Watched(dataset.images, log, ends=ends))
    return predict_with_ray(run, watched, folder, rows=4, batch_size=2, workers=1)


if __name__ == "__main__":
    score(*sys.argv[1:5], ends=False)
