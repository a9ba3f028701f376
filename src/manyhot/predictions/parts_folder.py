"""A growing folder of Parquet parts: which images were scored, with which classifier, and which have changed."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout  # torch requires it

from manyhot.data import Dataset, ImageSource
from manyhot.errors import InputError
from manyhot.files import atomic_write
from manyhot.labels import Labels
from manyhot.predictions.parquet import Part, PredictionsWriter, check_same_table
from manyhot.tables.arrow import as_strings, pa
from manyhot.tables.metadata import STATE_COLUMN, TEXT_COLUMNS

OWNER = "predict_with_ray"

WORK_FILE, LEFT_OUT_FILE, RUN_LOCK = "work.json", "left-out.csv", ".lock"
# 2: parts hold the states of their images, and name those that could not be read. In format 1, which is read as well,
# a list beside each part did.
FORMAT = 2
LEFT_OUT_KEY = b"manyhot.left_out"
IMAGE_LISTS, LIST_COLUMNS = "seen", ["id", "state", "left_out"]
PART_NAME = re.compile(r"part-\d{5,}\.parquet")


class ProcessedImage(NamedTuple):
    """The state of an image that was processed.

    Attributes:
        state: A digest that changes when the image may have changed; empty if it was not recorded.
        left_out: Why it could not be read; empty if it was scored.
        part: The name of the part it belongs to; empty while that is not there.
    """

    state: str
    left_out: str
    part: str = ""


class PartsFolder:
    """Parts of one table, `part-00000.parquet` and so on, which record what is done.

    `work.json` says which classifier the folder was begun with. Each part holds the states of its images, and in its
    metadata names those that could not be read. Parts that were put there by other means count as well.

    Args:
        path: The folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    def begin(self, classifier: str, *, earlier: Collection[str] = (), overwrite: bool = False) -> None:
        """Records the classifier of the folder; raises an error if it has another one.

        Args:
            classifier: Digest of what scores.
            earlier: Digests that older versions took of the same.
            overwrite: Whether to remove the parts that are there.
        """
        if overwrite:
            parts = [path for path in self._files() if PART_NAME.fullmatch(path.name)]
            for path in (*parts, *(self.path / IMAGE_LISTS).glob("part-*.csv"), self.path / LEFT_OUT_FILE):
                path.unlink(missing_ok=True)
        elif (begun_with := self._begun_with()) not in (None, classifier, *earlier):
            rule = f"have been begun with this classifier and rule, {classifier}"
            hint = "Choose another folder, or pass {overwrite} to replace its parts."
            raise InputError("folder", OWNER, rule, f"{str(self.path)!r}, begun with {begun_with}", hint)
        with atomic_write(self.path / WORK_FILE) as part:
            part.write_text(json.dumps({"format": FORMAT, "classifier": classifier}, indent=1) + "\n", encoding="utf-8")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Makes the folder and keeps other runs out of it: two at once would score everything twice."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError("folder", OWNER, "be a folder", f"{str(self.path)!r}, a file", "Name a folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / WORK_FILE).is_file() and any(not name.name.startswith(".") for name in self.path.iterdir()):
            got = f"{str(self.path)!r} with other files"
            raise InputError("folder", OWNER, "be empty or one that it began itself", got, "Choose another folder.")
        try:
            run = FileLock(self.path / RUN_LOCK, timeout=0).acquire()
        except Timeout:
            got, hint = f"{str(self.path)!r}, which another run writes to", "Wait for that run, or end it."
            raise InputError("folder", OWNER, "be free", got, hint) from None
        with run:
            # Processes outlive a run that is killed by some seconds, and may finish a part meanwhile.
            for part_lock in self.path.glob(".part-*.lock"):
                with FileLock(part_lock):
                    part_lock.unlink(missing_ok=True)
            for stale in self.path.rglob(".*.part"):
                stale.unlink()
            yield

    def part(self, number: int) -> Path:
        """Where a part lies."""
        return self.path / f"part-{number:05d}.parquet"

    def free_numbers(self) -> Iterator[int]:
        """Numbers of parts that are not there, rising: after a crash the gaps come first."""
        return (number for number in count() if not self.part(number).exists())

    @contextmanager
    def write_part(
        self, number: int, labels: Labels, states: Mapping[str, str]
    ) -> Iterator[tuple[PredictionsWriter, dict[str, str]]]:
        """A writer of a part, and a dictionary to be filled with the ids that could not be read and the reasons.

        Args:
            number: The number of the part.
            labels: The labels of the table.
            states: The state of each image, by id.
        """
        left_out: dict[str, str] = {}
        path, lock = self.part(number), self.path / f".part-{number:05d}.lock"
        with FileLock(lock, thread_local=False):  # lets the next run know that this process still writes
            if path.exists():  # written by a run that was killed, and outlived by its processes
                raise InputError("folder", OWNER, "be free", repr(str(path)), "Start the run again.")
            with PredictionsWriter(path, labels, states=states) as writer:
                yield writer, left_out
                records = {name: [states[name], reason] for name, reason in left_out.items()}
                writer.metadata[LEFT_OUT_KEY] = json.dumps(records).encode()
            lock.unlink(missing_ok=True)

    def processed(self) -> dict[str, ProcessedImage]:
        """The state of each image in the parts; raises an error for damaged parts and parts of several tables."""
        left_out: dict[str, ProcessedImage] = {}
        scored: dict[str, ProcessedImage] = {}
        parts = [Part(path) for path in self._files()]
        check_same_table(parts)
        for part in parts:
            listed = self._listed(part)
            left_out |= {n: ProcessedImage(state, why, part.path.name) for n, (state, why) in listed.items() if why}
            columns = [column for column in (TEXT_COLUMNS["ids"], STATE_COLUMN) if column in part.names]
            for piece in part.pieces(columns, None):
                names, *recorded = (as_strings(column).to_pylist() for column in piece.columns)
                states = recorded[0] if recorded else [listed.get(name, ("", ""))[0] for name in names]
                for name, state in zip(names, states, strict=True):
                    scored[name] = ProcessedImage(state, "", part.path.name if state else "")
        return left_out | scored  # what could not be read may have been scored later

    def _listed(self, part: Part) -> dict[str, Sequence[str]]:
        """State and reason of the images that a part left out; in format 1, of all its images."""
        if STATE_COLUMN in part.names:
            return dict(json.loads(part.entries.get(LEFT_OUT_KEY, b"{}")))
        path = self.path / IMAGE_LISTS / f"{part.path.stem}.csv"
        if not path.is_file():
            return {}
        with path.open(newline="", encoding="utf-8") as file:
            columns, *rows = list(csv.reader(file)) or [[]]
        if columns != LIST_COLUMNS:
            hint = "Remove it; its images are then not checked."
            raise InputError("folder", OWNER, f"hold lists as it wrote them in {IMAGE_LISTS!r}", repr(str(path)), hint)
        return {name: (state, why) for name, state, why in rows}

    def rows(self) -> int:
        """How many rows the parts have."""
        return sum(int(pa.parquet.read_metadata(path).num_rows) for path in self._files())

    def list_left_out(self) -> dict[str, str]:
        """Writes `left-out.csv`, the images that could not be read, and returns them with the reasons."""
        left_out = {name: record.left_out for name, record in self.processed().items() if record.left_out}
        path = self.path / LEFT_OUT_FILE
        if left_out:
            with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([("id", "reason"), *left_out.items()])
        else:
            path.unlink(missing_ok=True)
        return left_out

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("*.parquet"))

    def _begun_with(self) -> str | None:
        """The classifier that the folder was begun with, if it was begun."""
        path = self.path / WORK_FILE
        if not path.is_file():
            return None
        content = None
        with suppress(ValueError):
            content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("format") not in (1, FORMAT):
            rule, got = f"hold a {WORK_FILE} of this version of manyhot", f"{str(path)!r}, which is none"
            raise InputError("folder", OWNER, rule, got, "Choose another folder, or update manyhot.")
        return str(content.get("classifier"))


def text_digest(text: str) -> str:
    """A short text that stands for a long one."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def image_states(images: ImageSource) -> list[str]:
    """A digest of each image that changes when the image may have changed."""
    return [text_digest(images.identity(row)) for row in range(len(images))]


def rows_to_score(dataset: Dataset, processed: dict[str, ProcessedImage], *, retry: bool) -> np.ndarray[Any, Any]:
    """The rows of images that are not in the folder yet.

    Rejects images that changed since they were scored, and images that were scored under other ids: one id would stand
    for two images, or one image would have two ids.

    Args:
        dataset: The images.
        processed: What the folder knows, by id.
        retry: Whether to try those again that could not be read, and have not changed since.
    """
    if not processed:
        return np.arange(len(dataset))
    assert dataset.images is not None
    states = image_states(dataset.images)
    scored = {record.state: name for name, record in processed.items() if record.state and not record.left_out}
    ids = set(dataset.ids)
    rows, changed, renamed = [], [], []
    for row, (name, state) in enumerate(zip(dataset.ids, states, strict=True)):
        record = processed.get(name)
        if record is None or (record.left_out and (retry or record.state != state)):
            rows.append(row)
        elif not record.left_out and record.state not in ("", state):
            changed.append(name)
        if record is None and scored.get(state, name) not in ids:
            renamed.append(f"{name!r}, which was scored as {scored[state]!r}")
    if changed:
        parts = sorted({processed[name].part for name in changed})
        listed = f"{', '.join(parts[:3])}{' ...' if len(parts) > 3 else ''}"
        got = f"{len(changed):,} that changed or lie elsewhere, such as {changed[0]!r}"
        hint = f"Choose another folder, or remove {listed} from this one to have the images scored again."
        raise InputError("samples", OWNER, "be the images that were scored under these ids", got, hint)
    if renamed:
        hint = "Name the folder, pattern or table as before, or choose another folder."
        raise InputError("samples", OWNER, "have the ids that they were scored under", renamed[0], hint)
    return np.array(rows, dtype=np.int64)
