"""What each process does: it loads the classifier once, then scores one part after the other into the folder."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from manyhot.classifier import Classifier
from manyhot.data import Dataset
from manyhot.data.sources import ImageSource
from manyhot.predictions import PredictionsWriter
from manyhot.refusal import refusal
from manyhot.saving import restore
from manyhot.scale.cluster import Crew
from manyhot.scale.folder import OWNER, WORK, PartsFolder, Seen, digest_of


@dataclass(frozen=True)
class Job:
    """What all processes need to know.

    Attributes:
        classifier: The folder of the classifier.
        rule: Another rule than that of the folder, as `describe` gives it.
        folder: Where the parts go.
        place: The folder that relative paths start from.
        batch_size: How many images the network sees at once.
        on_bad_image: "skip" or "fail".
        crew: How many processes there are, and with what.
    """

    classifier: Path
    rule: dict[str, Any] | None
    folder: Path
    place: Path
    batch_size: int
    on_bad_image: str
    crew: Crew


class Scorer:
    """Scores parts; lives in a process of its own, and may be started again there at any time.

    Args:
        job: What all processes need to know.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        if job.place.is_dir():
            os.chdir(job.place)

    @cached_property
    def _classifier(self) -> Classifier:
        classifier = Classifier.load(self.job.classifier, device=self.job.crew.device)
        if self.job.rule is not None:
            classifier.rule = restore(self.job.rule)
        return classifier

    def get_ready(self, one: Dataset, state: str) -> None:
        """Loads the classifier; refuses a machine that does not see the same files.

        Args:
            one: An image to look at.
            state: What it must look like.
        """
        for path in (self.job.classifier / "classifier.json", self.job.folder / WORK):
            if not path.is_file():
                raise self._not_shared(str(path))
        assert one.images is not None
        if states_of(one.images) != [state]:
            raise self._not_shared(one.images.name(0))
        assert self._classifier is not None

    def _not_shared(self, name: str) -> Exception:
        got = f"{name!r}, which {socket.gethostname()!r} does not see as it is here"
        remedy = "Use paths of a disk that all machines share."
        return refusal("folder", OWNER, "lie, as images and classifier do, where every machine finds it", got, remedy)

    def score(self, number: int, part: Dataset) -> Iterator[int]:
        """Writes one part; gives how many images have been dealt with since the last time."""
        assert part.images is not None
        folder = PartsFolder(self.job.folder)
        with folder.writing():
            if folder.part(number).exists():  # written by a run that was killed, and outlived by its processes
                raise refusal("folder", OWNER, "be free", f"{str(folder.part(number))!r}", "Start the run again.")
            # Before the images are read: of one that changes meanwhile, the next run then knows.
            states = states_of(part.images)
            yield from self._write(folder, number, part, states)

    def _write(self, folder: PartsFolder, number: int, part: Dataset, states: list[str]) -> Iterator[int]:
        classifier, handled = self._classifier, [0]
        unreadable: dict[str, str] = {}
        scored: set[str] = set()
        with PredictionsWriter(folder.part(number), classifier.labels) as writer:
            for table in classifier.predict_parts(
                replace(part, notes=[]),
                rows=1,
                batch_size=self.job.batch_size,
                workers=self.job.crew.readers,
                on_bad_image=self.job.on_bad_image,
                advance=handled.append,
            ):
                writer.write(table)
                unreadable |= table.unreadable
                scored.update(table.ids)
                yield sum(handled)
                handled.clear()
            folder.note(number, part.ids, map(Seen, states, _reasons(part, scored, unreadable)))


def states_of(images: ImageSource) -> list[str]:
    """A digest of each image that is another one as soon as the image may be another one."""
    return [digest_of(images.identity(row)) for row in range(len(images))]


def _reasons(part: Dataset, scored: set[str], unreadable: dict[str, str]) -> Iterator[str]:
    """Why each image was left out, empty for those that were not."""
    assert part.images is not None
    for row in range(len(part)):
        yield "" if part.ids[row] in scored else unreadable.get(part.images.name(row), "cannot be read")
