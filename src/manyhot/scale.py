"""Scoring with Ray on many processes and machines, in Parquet parts that survive a crash; no image is scored twice.

Ray Data would map and retry batches as well, but its Parquet sink knows no earlier run: the same 2,000 rows, written to
a folder twice, are 4,000 (Ray 2.60). The record of what is done, of changed images and of those that cannot be read is
what this module consists of, so Ray's actors are used directly.
"""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import math
import os
import re
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout  # torch requires it

from manyhot.checks import Array, check_choice, check_int
from manyhot.classifier import Classifier
from manyhot.classifier.classifier import as_images, read_content
from manyhot.data import Dataset, ImageSource
from manyhot.decide.rule import Rule
from manyhot.errors import InputError, owned, require
from manyhot.files import atomic_write, available_cores
from manyhot.labels import Labels
from manyhot.predictions.parquet import Part, PredictionsWriter, check_same_table
from manyhot.serialization import earlier_spellings, from_dict, to_dict
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


MAX_READERS = 8


def import_ray() -> Any:
    """Ray; raises an error that says how to install it."""
    # Read when Ray is imported or started: no usage statistics, no warnings about environment variables.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    return require("ray", "Runs on a cluster", extra="ray")


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to the cluster of an address or to one on this machine that lasts as long as the block.

    A connection that the program already has is used, and stays.

    Args:
        address: Such as "auto" or "head:6379"; that of RAY_ADDRESS by default, if that is set.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    if address is not None and address.startswith("ray://"):
        hint = "Run it on a machine of the cluster, with 'auto'."
        raise InputError("address", "", "be that of a cluster which this machine is part of", repr(address), hint)
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        # Only lists of images go through the store. Ray would take a third of the memory for it.
        options |= {"include_dashboard": False, "num_cpus": available_cores(), "object_store_memory": 2**28}
    try:
        ray.init(address=address, **options)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        message = " ".join(str(error).split())[:200].rstrip(".")
        hint = "Start one with `ray start --head`, or leave it out for one on this machine."
        raise InputError("address", "", "lead to a running cluster of Ray", f"{address!r} ({message})", hint) from None
    try:
        yield ray
    finally:
        ray.shutdown()


@dataclass(frozen=True)
class Workers:
    """The processes that score.

    Attributes:
        size: How many there are.
        gpus: GPUs of each, 0 or 1.
        readers: How many more processes each of them has to read images.
    """

    size: int
    gpus: int
    readers: int


def plan_workers(ray: Any, *, workers: int | None, device: str | None) -> Workers:
    """One process for each GPU of a cluster, or for each core where there are none; not more than `workers`."""
    total = ray.cluster_resources()
    gpus, cpus = (int(total.get(kind, 0)) for kind in ("GPU", "CPU"))
    if device == "cuda" and not gpus:
        raise InputError("device", "", "be one that the cluster has", "'cuda' without GPUs", "Leave it out.")
    if gpus and device != "cpu":
        # What one core can decode, a GPU waits for, so that the cores of a machine are shared among its GPUs.
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0) >= 1]
        shares = [int(node.get("CPU", 0) // node["GPU"]) for node in nodes]
        return Workers(min(workers or gpus, gpus), 1, max(0, min([MAX_READERS, *(share - 1 for share in shares)])))
    if not cpus:
        raise InputError("address", "", "lead to a cluster with cores or GPUs", "none", "Add machines to the cluster.")
    return Workers(min(workers or cpus, cpus), 0, 0)


@dataclass(frozen=True)
class RayScorer:
    """Scores parts; lives in a process of its own, and may be started again there at any time.

    Attributes:
        folder: The folder of the classifier.
        rule: Another rule than that of the folder, as `serialization.to_dict` returns it.
        parts: Where the parts go.
        working_directory: The folder that relative paths start from.
        batch_size: How many images the network sees at once.
        on_bad_image: "skip" or "fail".
        workers: How many processes there are, and with what.
    """

    folder: Path
    rule: dict[str, Any] | None
    parts: PartsFolder
    working_directory: Path
    batch_size: int
    on_bad_image: str
    workers: Workers

    def __post_init__(self) -> None:
        if self.working_directory.is_dir():
            os.chdir(self.working_directory)

    @cached_property
    def _classifier(self) -> Classifier:
        classifier = Classifier.load(self.folder, device="cuda" if self.workers.gpus else "cpu")
        if self.rule is not None:
            classifier.rule = from_dict(self.rule)
        return classifier

    def prepare(self, probe: Dataset, state: str) -> None:
        """Loads the classifier; raises an error on a machine that does not see the same files.

        Args:
            probe: An image to check.
            state: The expected state of that image.
        """
        assert probe.images is not None
        needed = (self.folder / "classifier.json", self.parts.path / WORK_FILE)
        missing = [str(path) for path in needed if not path.is_file()]
        if missing or image_states(probe.images) != [state]:
            name = missing[0] if missing else probe.images.name(0)
            got = f"{name!r}, which {socket.gethostname()!r} does not see as it is here"
            rule = "lie, as images and classifier do, where every machine finds it"
            raise InputError("folder", "", rule, got, "Use paths of a disk that all machines share.")
        assert self._classifier is not None

    def score(self, number: int, part: Dataset) -> Iterator[int]:
        """Writes one part; yields how many images have been processed since the last time."""
        assert part.images is not None
        # Before the images are read: of one that changes meanwhile, the next run then knows.
        states = dict(zip(part.ids, image_states(part.images), strict=True))
        names = {name: part.images.name(row) for row, name in enumerate(part.ids)}
        unreadable: dict[str, str] = {}
        classifier = self._classifier
        with self.parts.write_part(number, classifier.labels, states) as (writer, left_out):
            reading: dict[str, Any] = {"workers": self.workers.readers, "on_bad_image": self.on_bad_image}
            for table in classifier.predict_parts(part, rows=1, batch_size=self.batch_size, **reading):
                writer.write(table)
                unreadable |= table.unreadable
                for name in table.ids:
                    del names[name]
                yield len(table) + len(table.unreadable)
            left_out |= {name: unreadable.get(shown, "cannot be read") for name, shown in names.items()}


# A machine may go at any time, and what it was at is given to another. A part whose images end every process is not.
RETRIES = 3


def score_parts(
    ray: Any, scorer: RayScorer, parts: Iterator[tuple[int, Dataset]], *, probe: Dataset, advance: Callable[[int], None]
) -> None:
    """Scores all parts; the first error ends it, and the parts that are finished by then stay.

    Args:
        ray: The module, connected.
        scorer: What each of the processes becomes.
        parts: Numbers and images, made when a process asks for them.
        probe: An image by which machines are checked to see the same files.
        advance: Called with the number of images that have been processed.
    """
    assert probe.images is not None
    options = {"num_cpus": 1, "num_gpus": scorer.workers.gpus, "max_restarts": RETRIES, "max_task_retries": RETRIES}
    kind = ray.remote(**options)(type(scorer))
    processes = [kind.remote(**vars(scorer)) for _ in range(scorer.workers.size)]
    (state,) = image_states(probe.images)
    # Parts go to processes that are ready. On a busy cluster some never start, and the others do not wait for them.
    busy = {process.prepare.remote(probe, state): (process, "The start") for process in processes}
    try:
        while busy:
            ready, _ = ray.wait(list(busy), num_returns=1)
            process, task = busy[ready[0]]
            if _is_finished(ray, ready[0], task, advance):
                del busy[ready[0]]
                numbered = next(parts, None)
                if numbered is not None:
                    number, part = numbered
                    stream = process.score.options(num_returns="streaming").remote(number, part)
                    # With its images, because one of them may be the cause of an error.
                    busy[stream] = process, f"Part {number}, {part.ids[0]!r} to {part.ids[-1]!r},"
                elif all(message == "The start" for _, message in busy.values()):
                    return
    finally:
        for process in processes:
            ray.kill(process)


def _is_finished(ray: Any, item: Any, task: str, advance: Callable[[int], None]) -> bool:
    """Handles a result of a process; True if its task is finished."""
    errors = ray.exceptions
    try:
        if not isinstance(item, ray.ObjectRefGenerator):
            ray.get(item)
            return True
        advance(ray.get(next(item)))
    except StopIteration:
        return True
    except errors.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, InputError | ImportError):
            raise cause from None
        text = " ".join(f"{type(cause).__name__}: {cause}".split()).rstrip(".:")
        hint = "Try a smaller batch size." if "out of memory" in text else ""
        raise InputError(got=f"{task} failed in a process of Ray: {text}.", hint=hint) from error
    except errors.RayError as error:
        got = f"{task} was given up, because its process ended {RETRIES + 1} times."
        hint = "Perhaps there is too little memory: use fewer workers, or look for the cause in the logs of Ray."
        raise InputError(got=got, hint=hint) from error
    return False


MAX_PART_ROWS = 16384
# Parts that a process gets, at least, so that none is idle for long while the others finish.
PARTS_PER_WORKER = 8


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


@owned("predict_with_ray")
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
    watch: Callable[[int], AbstractContextManager[Callable[[int], None]]] | None = None,
) -> PartsWritten:
    """Scores images on a cluster of Ray, or all cores or GPUs of this machine, into a folder of Parquet parts.

    Images that are in the folder already are not scored again, so that a run resumes after a crash, and new images of a
    growing collection are added. Each part is written atomically.

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
        on_bad_image: "skip" leaves out what cannot be read and lists it in `left-out.csv`; "fail" raises an
            error. An image that was left out is tried again once it has changed.
        overwrite: Whether to remove the parts that are in the folder, and start again.
        watch: Called with the number of images to score; returns a context with a function that is called with the
            number of images processed since its last call.
    """
    import_ray()
    for name, value in (("batch_size", batch_size), ("rows", rows), ("workers", workers)):
        if value is not None or name == "batch_size":
            check_int(name, "", value, low=1)
    check_choice("on_bad_image", "", on_bad_image, ("skip", "fail"))
    check_choice("device", "", "cpu" if device is None else device, ("cpu", "cuda"))
    source = Path(classifier).absolute()
    described = None if rule is None else to_dict(rule)
    digest, *earlier = _classifier_digests(source, described)
    dataset, parts = as_images(samples), PartsFolder(folder)
    with parts.exclusive():
        parts.begin(digest, earlier=earlier, overwrite=overwrite)
        before = parts.rows()
        todo = rows_to_score(dataset, parts.processed(), retry=on_bad_image == "fail")
        with watch(len(todo)) if watch else nullcontext(lambda count: None) as advance:
            if len(todo):
                with connected(address) as ray:
                    planned = plan_workers(ray, workers=workers, device=device)
                    # Whole batches; of all images, not of those that are left, so that a second run cuts as the first.
                    share = math.ceil(len(dataset) / (PARTS_PER_WORKER * planned.size * batch_size)) * batch_size
                    size = rows or max(batch_size, min(share, MAX_PART_ROWS // batch_size * batch_size))
                    planned = replace(planned, size=min(planned.size, math.ceil(len(todo) / size)))
                    scorer = RayScorer(source, described, parts, Path.cwd(), batch_size, on_bad_image, planned)
                    groups = (dataset.take(todo[start : start + size]) for start in range(0, len(todo), size))
                    numbered = zip(parts.free_numbers(), groups, strict=False)
                    score_parts(ray, scorer, numbered, probe=dataset.take(todo[:1]), advance=advance)
        left_out = parts.list_left_out()
        named = {name: left_out[name] for name in dataset.ids if name in left_out}
        return PartsWritten(parts.path, parts.rows(), parts.rows() - before, named)


def _classifier_digests(source: Path, rule: dict[str, Any] | None) -> list[str]:
    """Digests of the classifier and the rule: that of today, and those that older versions took of the same.

    They cover the whole JSON of the classifier as it was written, in which the weights are named by a digest.
    """
    content = read_content(source)
    backbone = content.get("backbone")
    if not isinstance(backbone, dict):
        hint = "Call `Classifier.predict`, which scores a million rows in seconds."
        raise InputError("classifier", "", "be one of images", "one of features", hint)
    if backbone.get("kind") == "wrapped":
        got, hint = f"a network of your own, {backbone.get('name')!r}", "Score with `Classifier.predict_parts`."
        raise InputError("classifier", "", "be such that its folder is enough to build it", got, hint)
    content.pop("manyhot", None)  # a newer version gives the same scores
    rules = [content.get("rule")] if rule is None else [rule, *earlier_spellings(rule)]
    return [text_digest(json.dumps(content | {"rule": one}, sort_keys=True)) for one in rules]
