"""Scores a folder of images slowly, and writes down each image that is read; a program for a test to kill."""

import sys
import time
from dataclasses import replace

from manyhot.data import Files, read_images
from manyhot.scale import predict_with_ray


class Watched(Files):
    """Files that tell which of them are read.

    Args:
        files: Where they lie.
        log: The file to write down paths in.
        pause: Seconds that reading takes longer.
    """

    def __init__(self, files, log, pause=0.0):
        super().__init__(files.paths, root=files.root)
        self.log, self.pause = log, pause

    def read(self, row):
        """The bytes of the file."""
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(self.paths[row] + "\n")
        time.sleep(self.pause)
        return super().read(row)

    def take(self, rows):
        """The files of these row numbers."""
        return Watched(super().take(rows), self.log, self.pause)


def score(run, images, folder, log, *, pause=0.0):
    """Scores in parts of four images."""
    dataset = read_images(images)
    watched = replace(dataset, images=Watched(dataset.images, log, pause))
    return predict_with_ray(run, watched, folder, rows=4, batch_size=2, workers=1)


if __name__ == "__main__":
    score(*sys.argv[1:5], pause=0.2)
