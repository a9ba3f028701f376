"""A growing folder of Parquet parts: which images were scored, with which classifier, and which have changed."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout  # torch requires it

from manyhot.data import Dataset
from manyhot.data.sources import ImageSource
from manyhot.errors import InputError
from manyhot.files import atomic_write
from manyhot.predictions.metadata import TEXT_COLUMNS
from manyhot.predictions.parquet import Part, check_same_table
from manyhot.tables.arrow import as_strings, import_arrow

OWNER = "predict_with_ray"

WORK_FILE, IMAGE_LISTS, LEFT_OUT_FILE = "work.json", "seen", "left-out.csv"
RUN_LOCK = ".lock"
FORMAT = 1
PART_NAME = re.compile(r"part-(\d{5,})\.parquet")
LIST_COLUMNS = ["id", "state", "left_out"]


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
    """Parts of one table, `part-00000.parquet` and so on, and beside them what the next run has to know.

    `work.json` says which classifier it was begun with. `seen/part-00000.csv` lists the images of a part with their
    state, and why some were left out. It is written before its part, which thereby completes the pair: parts are the
    one thing that decides what is done, also those that were put there by other means.

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
            self._clear()
        elif (begun_with := self._begun_with()) not in (None, classifier, *earlier):
            rule = f"have been begun with this classifier and rule, {classifier}"
            hint = "Choose another folder, or pass {overwrite} to replace its parts."
            raise InputError("folder", OWNER, rule, f"{str(self.path)!r}, begun with {begun_with}", hint)
        with atomic_write(self.path / WORK_FILE) as part:
            content = {"format": FORMAT, "classifier": classifier}
            part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Makes the folder and keeps other runs out of it: two at once would score everything twice."""
        self._make()
        with ExitStack() as session:
            try:
                session.enter_context(FileLock(self.path / RUN_LOCK, timeout=0))
            except Timeout:
                got = f"{str(self.path)!r}, which another run writes to"
                raise InputError("folder", OWNER, "be free", got, "Wait for that run, or end it.") from None
            # Processes outlive a run that is killed by some seconds, and may finish a part meanwhile.
            for part_lock in self.path.glob(".part-*.lock"):
                with FileLock(part_lock):
                    part_lock.unlink(missing_ok=True)
            for stale in (*self.path.glob(".*.part"), *(self.path / IMAGE_LISTS).glob(".*.part")):
                stale.unlink()
            yield

    def write_lock(self, number: int) -> FileLock:
        """Lets the next run know that a process still writes this part."""
        return FileLock(self.path / f".part-{number:05d}.lock")

    def part(self, number: int) -> Path:
        """Where a part lies."""
        return self.path / f"part-{number:05d}.parquet"

    def free_numbers(self) -> Iterator[int]:
        """Numbers of parts that are not there, rising: after a crash the gaps come first."""
        taken = {int(match[1]) for path in self._files() if (match := PART_NAME.fullmatch(path.name))}
        return (number for number in count() if number not in taken)

    def write_image_list(self, number: int, ids: Iterable[str], images: Iterable[ProcessedImage]) -> None:
        """Lists the images of a part, which must not be there yet."""
        rows = ((name, record.state, record.left_out) for name, record in zip(ids, images, strict=True))
        _write_rows(self._image_list(self.part(number)), LIST_COLUMNS, rows)

    def processed(self) -> dict[str, ProcessedImage]:
        """The state of each image in the parts; raises an error for damaged parts and parts of several tables."""
        processed: dict[str, ProcessedImage] = {}
        parts = [Part(path) for path in self._files()]
        if parts:
            check_same_table(parts)
        scored = {name for part in parts for name in _read_ids(part)}
        for part in parts:
            # What could not be read may have been scored later, and a list may be that of a part which was removed.
            listed = self._read_image_list(part.path)
            processed |= {name: record for name, record in listed if (name in scored) != bool(record.left_out)}
        return processed | {name: ProcessedImage("", "") for name in scored if name not in processed}

    def rows(self) -> int:
        """How many rows the parts have."""
        return sum(int(import_arrow().parquet.read_metadata(path).num_rows) for path in self._files())

    def list_left_out(self) -> dict[str, str]:
        """Writes `left-out.csv`, the images that could not be read, and returns them with the reasons."""
        left_out = {name: record.left_out for name, record in self.processed().items() if record.left_out}
        if not left_out:
            (self.path / LEFT_OUT_FILE).unlink(missing_ok=True)
            return left_out
        _write_rows(self.path / LEFT_OUT_FILE, ["id", "reason"], left_out.items())
        return left_out

    def _make(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise InputError("folder", OWNER, "be a folder", f"{str(self.path)!r}, a file", "Name a folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / WORK_FILE).is_file() and any(not name.name.startswith(".") for name in self.path.iterdir()):
            got = f"{str(self.path)!r} with other files"
            raise InputError("folder", OWNER, "be empty or one that it began itself", got, "Choose another folder.")

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("*.parquet"))

    def _image_list(self, part: Path) -> Path:
        return self.path / IMAGE_LISTS / f"{part.stem}.csv"

    def _read_image_list(self, part: Path) -> Iterator[tuple[str, ProcessedImage]]:
        path = self._image_list(part)
        if not path.is_file():
            return
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            if next(rows, None) != LIST_COLUMNS:
                rule, hint = (
                    f"hold lists as it wrote them in {IMAGE_LISTS!r}",
                    "Remove it; its images are then not checked.",
                )
                raise InputError("folder", OWNER, rule, repr(str(path)), hint)
            yield from ((name, ProcessedImage(state, left_out, part.name)) for name, state, left_out in rows)

    def _clear(self) -> None:
        parts = [path for path in self._files() if PART_NAME.fullmatch(path.name)]
        for path in (*parts, *(self.path / IMAGE_LISTS).glob("part-*.csv"), self.path / LEFT_OUT_FILE):
            path.unlink(missing_ok=True)

    def _begun_with(self) -> str | None:
        """The classifier that the folder was begun with, if it was begun."""
        path = self.path / WORK_FILE
        if not path.is_file():
            return None
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            content = None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            rule, got = f"hold a {WORK_FILE} of this version of manyhot", f"{str(path)!r}, which is none"
            raise InputError("folder", OWNER, rule, got, "Choose another folder, or update manyhot.")
        return str(content.get("classifier"))


def text_digest(text: str) -> str:
    """A short text that stands for a long one."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _write_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def _read_ids(part: Part) -> Iterator[str]:
    column = TEXT_COLUMNS["ids"]
    for piece in part.pieces([column], None):
        yield from as_strings(piece.column(column)).to_pylist()


def image_states(images: ImageSource) -> list[str]:
    """A digest of each image that changes when the image may have changed."""
    return [text_digest(images.identity(row)) for row in range(len(images))]


Array = np.ndarray[Any, Any]


def rows_to_score(dataset: Dataset, processed: dict[str, ProcessedImage], *, retry: bool) -> Array:
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
    records = [processed.get(name) for name in dataset.ids]
    changed = [
        row
        for row, record in enumerate(records)
        if record and not record.left_out and record.state not in ("", states[row])
    ]
    if changed:
        raise _changed_error([dataset.ids[row] for row in changed], processed)
    new = [row for row, record in enumerate(records) if record is None]
    _check_renamed(dataset, [(row, states[row]) for row in new], processed)
    tried = [
        row
        for row, record in enumerate(records)
        if record and record.left_out and (retry or record.state != states[row])
    ]
    return np.array(sorted(new + tried), dtype=np.int64)


def _changed_error(names: list[str], processed: dict[str, ProcessedImage]) -> Exception:
    parts = sorted({processed[name].part for name in names})
    listed = f"{', '.join(parts[:3])}{' ...' if len(parts) > 3 else ''}"
    got = f"{len(names):,} that changed or lie elsewhere, such as {names[0]!r}"
    hint = f"Choose another folder, or remove {listed} from this one to have the images scored again."
    return InputError("samples", OWNER, "be the images that were scored under these ids", got, hint)


def _check_renamed(dataset: Dataset, new: list[tuple[int, str]], processed: dict[str, ProcessedImage]) -> None:
    """Rejects images that were scored under another id: ids depend on how images are passed."""
    scored = {record.state: name for name, record in processed.items() if record.state and not record.left_out}
    ids = set(dataset.ids)
    for row, state in new:
        if state in scored and scored[state] not in ids:
            got = f"{dataset.ids[row]!r}, which was scored as {scored[state]!r}"
            hint = "Name the folder, pattern or table as before, or choose another folder."
            raise InputError("samples", OWNER, "have the ids that they were scored under", got, hint)
