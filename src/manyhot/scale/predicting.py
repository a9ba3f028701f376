"""Predictions of more images than one process should score: in parts, by Ray, and never twice."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.checks import check_choice, check_count
from manyhot.classifier.bundle import read_content
from manyhot.classifier.samples import as_images
from manyhot.data import Dataset
from manyhot.decide.rule import Rule
from manyhot.refusal import refusal
from manyhot.saving import describe
from manyhot.scale.cluster import Crew, connected, crew_of, import_ray
from manyhot.scale.folder import OWNER, PartsFolder, digest_of
from manyhot.scale.pool import Numbered, score_parts
from manyhot.scale.remaining import rows_to_score
from manyhot.scale.scorer import Job

MOST_ROWS = 16384
# Parts that a process gets, at least, so that none is idle for long while the others finish.
SHARES = 8

Array = np.ndarray[Any, Any]
Watch = Callable[[int], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True)
class PartsWritten:
    """What lies in the folder now.

    Attributes:
        folder: The folder; `open_predictions` opens it as one table.
        rows: Its rows.
        scored: How many of these are new.
        left_out: Those of the images that could not be read, by id, with the reasons.
    """

    folder: Path
    rows: int
    scored: int
    left_out: dict[str, str]


def predict_with_ray(
    classifier: str | os.PathLike[str],
    samples: Any,
    folder: str | os.PathLike[str],
    *,
    rule: Rule | None = None,
    rows: int | None = None,
    batch_size: int = 64,
    workers: int | None = None,
    device: str | None = None,
    address: str | None = None,
    on_bad_image: str = "skip",
    overwrite: bool = False,
    watch: Watch | None = None,
) -> PartsWritten:
    """Scores images on a cluster of Ray, or all cores or GPUs of this machine, into a folder of Parquet parts.

    Only what is not in the folder yet is scored. So it goes on after a crash where it was, and adds what is new to a
    collection that grows. Each part appears whole or not at all.

    Args:
        classifier: The folder of a run, or one that `Classifier.save` wrote. Each process reads it.
        samples: Images as `Classifier.predict` takes them: paths, folders, patterns, tables, tars or a data set.
        folder: Where the parts go: a new folder, or one that was begun with the same classifier and rule.
        rule: Another rule than that of the classifier.
        rows: Images of a part; by default 16,384, or fewer where some processes would get none.
        batch_size: How many images the network sees at once.
        workers: Processes that score; by default one for each GPU, or for each core where there are no GPUs.
        device: "cpu" or "cuda"; by default "cuda" if the cluster has GPUs.
        address: Of a cluster, such as "auto". Classifier, images and folder must lie on a disk that all its machines
            share. By default Ray is started on this machine, and ended again.
        on_bad_image: "skip" leaves out what cannot be read and lists it in `left-out.csv`; "fail" refuses. What was
            left out is tried again once it has changed.
        overwrite: Whether to remove the parts that are in the folder, and begin anew.
        watch: Called with how many images there are to score; gives a context with a function that is told how many
            have been dealt with since the last call.
    """
    import_ray()
    check_count("batch_size", OWNER, batch_size, low=1)
    for name, value in (("rows", rows), ("workers", workers)):
        if value is not None:
            check_count(name, OWNER, value, low=1)
    check_choice("on_bad_image", OWNER, on_bad_image, ("skip", "fail"))
    if device is not None:
        check_choice("device", OWNER, device, ("cpu", "cuda"))
    source = Path(classifier).absolute()
    described = None if rule is None else describe(rule)
    digest = _digest(source, described)
    dataset, parts = as_images(samples), PartsFolder(folder)
    with parts.alone():
        parts.begin(digest, overwrite=overwrite)
        before = parts.rows()
        todo = rows_to_score(dataset, parts.seen(), again=on_bad_image == "fail")
        with (watch or _unwatched)(len(todo)) as advance, connected(address) if len(todo) else nullcontext() as ray:
            if len(todo):
                crew = crew_of(ray, workers=workers, device=device)
                size = rows or _rows_of_a_part(len(dataset), crew, batch_size)
                crew = replace(crew, size=min(crew.size, math.ceil(len(todo) / size)))
                job = Job(source, described, parts.path, Path.cwd(), batch_size, on_bad_image, crew)
                score_parts(ray, job, _cut(dataset, todo, size, parts), one=dataset.take(todo[:1]), advance=advance)
        left_out = parts.list_left_out()
        named = {name: left_out[name] for name in dataset.ids if name in left_out}
        return PartsWritten(parts.path, parts.rows(), parts.rows() - before, named)


def _digest(source: Path, rule: dict[str, Any] | None) -> str:
    """What tells the classifier: all that is in its JSON, which names the weights by a digest."""
    content = read_content(source)
    backbone = content.get("backbone")
    if not isinstance(backbone, dict):
        remedy = "Call `Classifier.predict`, which scores a million rows in seconds."
        raise refusal("classifier", OWNER, "be one of images", "one of features", remedy)
    if backbone.get("kind") == "wrapped":
        got, remedy = f"a network of your own, {backbone.get('name')!r}", "Score with `Classifier.predict_parts`."
        raise refusal("classifier", OWNER, "be such that its folder is enough to build it", got, remedy)
    content.pop("manyhot", None)  # a newer version gives the same scores
    return digest_of(json.dumps(content if rule is None else content | {"rule": rule}, sort_keys=True))


def _rows_of_a_part(total: int, crew: Crew, batch_size: int) -> int:
    """Whole batches; of all images, not of those that are left, so that a second run cuts them as the first."""
    share = math.ceil(total / (SHARES * crew.size * batch_size)) * batch_size
    return max(batch_size, min(share, MOST_ROWS // batch_size * batch_size))


def _cut(dataset: Dataset, todo: Array, size: int, parts: PartsFolder) -> Iterator[Numbered]:
    """The parts with their numbers, each made when it is asked for."""
    for start, number in zip(range(0, len(todo), size), parts.free_numbers(), strict=False):
        yield number, dataset.take(todo[start : start + size])


@contextmanager
def _unwatched(total: int) -> Iterator[Callable[[int], None]]:
    yield lambda count: None
