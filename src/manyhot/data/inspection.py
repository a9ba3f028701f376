"""Inspection of a dataset before training: labels, images, duplicates and warnings."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.sources import ImageSource, read_source
from manyhot.data.targets import SparseTargets
from manyhot.images import NO_SUCH_FILE, UnreadableImage, decode, open_header

if TYPE_CHECKING:
    from PIL import Image

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LabelFacts:
    """One label.

    Attributes:
        name: The label.
        count: Rows in which it is present.
        known: Rows in which it is known to be present or absent.
        rate: Share of the known rows in which it is present; None where there are none.
        by_split: Rows in which it is present, by split.
        rate_by_split: Share of the known rows of each split.
    """

    name: str
    count: int
    known: int
    rate: float | None
    by_split: dict[str, int]
    rate_by_split: dict[str, float | None]


@dataclass(frozen=True)
class LabelPair:
    """Two labels that occur together.

    Attributes:
        first: The rarer label.
        second: The other one.
        count: Rows with both.
        lift: How many times as often they meet as they would by chance.
        npmi: The same on a scale from -1 (never together) over 0 (by chance) to 1 (never apart).
    """

    first: str
    second: str
    count: int
    lift: float
    npmi: float


@dataclass(frozen=True)
class Duplicates:
    """Images with the same content.

    Attributes:
        names: Which images.
        splits: The splits that they lie in.
        same_labels: Whether all of them have the same targets.
    """

    names: list[str]
    splits: list[str]
    same_labels: bool


@dataclass(frozen=True)
class ImageFacts:
    """The images of a data set.

    Attributes:
        read: How many could be read.
        decoded: Whether their pixels were looked at, or only their headers.
        missing: Images that are not there.
        unreadable: Images that are there and cannot be read, with the reason.
        formats: How many there are of each format.
        modes: How many there are of each kind of pixel, as Pillow calls them.
        widths: Smallest, middle and largest width.
        heights: Smallest, middle and largest height.
        gigabytes: Size of all of them together, as they are stored.
        duplicates: Sets of images with the same bytes.
        near_duplicates: Sets of images that look the same when small, without those with the same bytes; None if not
            looked for.
    """

    read: int
    decoded: bool
    missing: list[str]
    unreadable: dict[str, str]
    formats: dict[str, int]
    modes: dict[str, int]
    widths: tuple[int, int, int] | None
    heights: tuple[int, int, int] | None
    gigabytes: float
    duplicates: list[Duplicates]
    near_duplicates: list[Duplicates] | None


@dataclass(frozen=True)
class Inspection:
    """What is in a data set.

    Attributes:
        samples: Number of rows.
        splits: Rows of each split, by name.
        labels: Every label, in the order of the columns.
        empty: Rows without a label.
        empty_by_split: The same by split.
        mean_labels: Labels per row, on average.
        max_labels: Most labels in one row.
        set_sizes: Rows by their number of labels.
        frequent_pairs: Labels that occur together most often.
        close_pairs: Labels that keep closest together, by `npmi`.
        inseparable: Sets of labels that never occur apart.
        implied: Pairs of labels of which the first never occurs without the second.
        images: What the images are like; None where they were not looked at.
        warnings: What should be looked into before training, the most important first.
        notes: What was detected when the data were read.
        duplicate_of: (N,) the first row with the same content, for `stratified_split(..., groups=...)`; None where
            images were not looked at.
    """

    samples: int
    splits: dict[str, int]
    labels: list[LabelFacts]
    empty: int
    empty_by_split: dict[str, int]
    mean_labels: float
    max_labels: int
    set_sizes: dict[int, int]
    frequent_pairs: list[LabelPair]
    close_pairs: list[LabelPair]
    inseparable: list[list[str]]
    implied: list[tuple[str, str]]
    images: ImageFacts | None = None
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    duplicate_of: Array | None = field(default=None, repr=False, compare=False)

    def __rich__(self) -> Any:
        """Tables for a terminal."""
        from manyhot.data.inspection_report import as_rich

        return as_rich(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but `duplicate_of`, as values that JSON can hold."""
        content: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "labels":
                content["labels"] = [asdict(label) for label in value]
            elif item.name in ("frequent_pairs", "close_pairs"):
                content[item.name] = [asdict(pair) for pair in value]
            elif item.name == "images":
                content["images"] = None if value is None else asdict(value)
            elif item.name != "duplicate_of":
                content[item.name] = value
        return content


MAX_LABELS = 2000  # of which all pairs are counted: the most frequent ones
MIN_ROWS = 5  # with both labels, for a pair to be reported
SHOWN_PAIRS = 20


def rows_of_splits(dataset: Dataset) -> dict[str, Array]:
    """The row numbers of each split."""
    return {name: np.flatnonzero(dataset.splits == name) for name in dataset.split_sizes()}


def label_facts(dataset: Dataset, targets: SparseTargets) -> list[LabelFacts]:
    """Counts and rates of every label, overall and by split."""
    parts = {name: targets.take(rows) for name, rows in rows_of_splits(dataset).items()}
    counts = {name: (part.counts().tolist(), part.known().tolist()) for name, part in parts.items()}
    overall = zip(dataset.labels.names, targets.counts().tolist(), targets.known().tolist(), strict=True)
    return [
        LabelFacts(
            name=name,
            count=count,
            known=known,
            rate=_rate(count, known),
            by_split={split: present[column] for split, (present, _) in counts.items()},
            rate_by_split={
                split: _rate(present[column], known_counts[column]) for split, (present, known_counts) in counts.items()
            },
        )
        for column, (name, count, known) in enumerate(overall)
    ]


def _rate(count: int, known: int) -> float | None:
    return count / known if known else None


class LabelCooccurrence:
    """Which labels keep together.

    Args:
        dataset: Names the labels.
        targets: (N, K). Where there are many labels, the most frequent ones are looked at.
    """

    def __init__(self, dataset: Dataset, targets: SparseTargets) -> None:
        counts = targets.counts()
        chosen = np.sort(np.argsort(-counts, kind="stable")[:MAX_LABELS])
        self.names = [dataset.labels.names[column] for column in chosen.tolist()]
        self.n = max(len(targets), 1)
        self.together = (targets if len(chosen) == len(counts) else targets.select(chosen.tolist())).cooccurrence()
        self.counts = np.diagonal(self.together)

    def pairs(self) -> tuple[list[LabelPair], list[LabelPair]]:
        """The most frequent pairs, and those that keep closest together."""
        first, second = np.nonzero(np.triu(self.together, 1) > 0)
        if not len(first):
            return [], []
        both = self.together[first, second]
        lift = both * self.n / (self.counts[first] * self.counts[second])
        surprise = -np.log(both / self.n)
        npmi = np.divide(np.log(lift), surprise, out=np.zeros(len(lift)), where=surprise > 0)

        def pair(index: int) -> LabelPair:
            columns = (int(first[index]), int(second[index]))
            rarer, other = sorted(columns, key=lambda column: int(self.counts[column]))
            figures = (int(both[index]), float(lift[index]), float(npmi[index]))
            return LabelPair(self.names[rarer], self.names[other], *figures)

        frequent = np.lexsort((-npmi, -both))[:SHOWN_PAIRS]
        close = [index for index in np.lexsort((-both, -npmi)) if both[index] >= MIN_ROWS and npmi[index] > 0]
        return [pair(index) for index in frequent], [pair(index) for index in close[:SHOWN_PAIRS]]

    def inseparable(self) -> list[list[str]]:
        """Sets of labels that are present in exactly the same rows."""
        same = (self.together == self.counts[:, None]) & (self.together == self.counts[None, :])
        same &= (self.counts >= MIN_ROWS)[:, None]
        sets = {tuple(np.flatnonzero(row).tolist()) for row in same if np.count_nonzero(row) > 1}
        return [[self.names[column] for column in some] for some in sorted(sets)]

    def implied(self) -> list[tuple[str, str]]:
        """Pairs of which the first is never present without the second, though the second is without the first."""
        implied_by = (self.together == self.counts[:, None]) & (self.counts >= MIN_ROWS)[:, None]
        # A label that every row has follows from all others, which says nothing.
        implied_by &= (self.counts[:, None] < self.counts[None, :]) & (self.counts < self.n)[None, :]
        return [(self.names[a], self.names[b]) for a, b in zip(*np.nonzero(implied_by), strict=True)]


BITS = 256
MAX_DIFFERENT_BITS = 20  # of them, between images that pass for the same; unlike ones differ in about half
BANDS = 8


def dhash(image: Image.Image) -> bytes | None:
    """256 bits: where a small grey image gets brighter to the right; None for a uniform image, whose bits are noise."""
    from PIL.Image import Resampling

    small = np.asarray(image.convert("L").resize((17, 16), Resampling.BILINEAR)).astype(np.int16)
    return None if np.ptp(small) < 16 else np.packbits(np.diff(small, axis=1) > 0).tobytes()


def near_duplicate_sets(hashes: Sequence[bytes | None]) -> list[list[int]]:
    """Sets of rows whose marks differ in a few bits, found in time that grows with the number of rows alone.

    Marks that differ in few bits agree in one of eight parts nearly always. So the rows are sorted by each part in
    turn, and neighbours are compared.
    """
    rows = np.array([row for row, value in enumerate(hashes) if value is not None], dtype=np.int64)
    if not len(rows):
        return []
    bits = np.frombuffer(b"".join(value for value in hashes if value is not None), dtype=np.uint8).reshape(
        len(rows), -1
    )
    parts = bits.view(np.uint32)
    leader = list(range(len(rows)))
    for band in range(BANDS):
        order = np.lexsort(np.roll(parts, band, axis=1).T)
        left, right = order[:-1], order[1:]
        close = np.unpackbits(bits[left] ^ bits[right], axis=1).sum(1) <= MAX_DIFFERENT_BITS
        for one, other in zip(left[close].tolist(), right[close].tolist(), strict=True):
            first, second = sorted((_find_root(leader, one), _find_root(leader, other)))
            leader[second] = first
    sets: dict[int, list[int]] = {}
    for index in range(len(rows)):
        sets.setdefault(_find_root(leader, index), []).append(int(rows[index]))
    return [some for some in sets.values() if len(some) > 1]


def _find_root(leader: list[int], index: int) -> int:
    """The first member of a row's set."""
    while leader[index] != index:
        leader[index] = leader[leader[index]]
        index = leader[index]
    return index


IMAGES_PER_PROGRESS = 1024  # images between two reports of progress
MIN_SIDE = 64  # the side that is needed of an image whose pixels are only looked over


class ImageSummary(NamedTuple):
    """What was seen of one image.

    Attributes:
        digest: A digest of the content; None for an image that could not be read.
        reason: Why it cannot be used; None where it can.
        format: Such as "JPEG".
        mode: Its kind of pixels, as Pillow calls it.
        size: Width and height as stored.
        length: Bytes as stored.
        dhash: What `dhash` gives; None if not asked for.
    """

    digest: bytes | None
    reason: str | None = None
    format: str = ""
    mode: str = ""
    size: tuple[int, int] = (0, 0)
    length: int = 0
    dhash: bytes | None = None


def summarise_images(
    images: ImageSource, *, pixels: bool, near: bool, workers: int | None, advance: Callable[[int], None] | None
) -> list[ImageSummary]:
    """Every image, seen by several threads at once: Pillow decodes without holding the others up."""
    summarise_row = partial(summarise_image, images, pixels=pixels, near=near)
    with ThreadPoolExecutor(workers or min(os.cpu_count() or 1, 16)) as pool:
        result: list[ImageSummary] = []
        for start in range(0, len(images), IMAGES_PER_PROGRESS):
            result += pool.map(summarise_row, range(start, min(start + IMAGES_PER_PROGRESS, len(images))))
            if advance is not None:
                advance(len(result) - start)
    return result


def summarise_image(images: ImageSource, row: int, *, pixels: bool, near: bool) -> ImageSummary:
    """One image."""
    try:
        data = read_source(images, row)
    except UnreadableImage as error:
        return ImageSummary(None, error.reason)
    summary = _summarise_header(data, images.name(row))
    if summary.reason is not None or not pixels:
        return summary
    try:
        image = decode(data, name=images.name(row), min_side=MIN_SIDE)
    except UnreadableImage as error:
        return summary._replace(reason=error.reason)
    return summary._replace(dhash=dhash(image)) if near else summary


def _summarise_header(data: bytes | Array, name: str) -> ImageSummary:
    if isinstance(data, np.ndarray):
        digest = blake2b(repr((data.shape, data.dtype)).encode() + data.tobytes(), digest_size=16).digest()
        height, width = (*data.shape, 0, 0)[:2]
        mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}.get(data.shape[2] if data.ndim == 3 else 1, "?")
        return ImageSummary(digest, None, "array", mode, (width, height), data.nbytes)
    digest = blake2b(data, digest_size=16).digest()
    try:
        header = open_header(data, name=name)
    except UnreadableImage as error:
        return ImageSummary(digest, error.reason, length=len(data))
    return ImageSummary(digest, None, header.format or "?", header.mode, header.size, len(data))


def image_facts(dataset: Dataset, summaries: Sequence[ImageSummary], *, pixels: bool, near: bool) -> ImageFacts:
    """The images in figures."""
    assert dataset.images is not None
    names = [dataset.images.name(row) for row in range(len(summaries))]
    unreadable = {
        name: summary.reason for name, summary in zip(names, summaries, strict=True) if summary.reason is not None
    }
    good = [summary for summary in summaries if summary.reason is None]
    near_sets = near_duplicate_sets([summary.dhash for summary in summaries]) if near else []
    near_sets = [rows for rows in near_sets if len({summaries[row].digest for row in rows}) > 1]
    return ImageFacts(
        read=len(good),
        decoded=pixels,
        missing=[name for name, reason in unreadable.items() if reason == NO_SUCH_FILE],
        unreadable={name: reason for name, reason in unreadable.items() if reason != NO_SUCH_FILE},
        formats=dict(Counter(summary.format for summary in good).most_common()),
        modes=dict(Counter(summary.mode for summary in good).most_common()),
        widths=_min_median_max([summary.size[0] for summary in good]),
        heights=_min_median_max([summary.size[1] for summary in good]),
        gigabytes=sum(summary.length for summary in summaries) / 1e9,
        duplicates=_describe_sets(dataset, names, _exact_duplicates(summaries)),
        near_duplicates=_describe_sets(dataset, names, near_sets) if near else None,
    )


def first_duplicates(summaries: Sequence[ImageSummary]) -> Array:
    """(N,) the first row with the same content; a row that could not be read is like itself alone."""
    result = np.arange(len(summaries))
    for rows in _exact_duplicates(summaries):
        result[rows] = rows[0]
    return result


def _exact_duplicates(summaries: Sequence[ImageSummary]) -> Iterator[list[int]]:
    """The rows of each content that occurs more than once; empty and broken files are no images, so no copies."""
    rows: dict[bytes, list[int]] = {}
    for row, summary in enumerate(summaries):
        if summary.digest is not None and summary.reason is None:
            rows.setdefault(summary.digest, []).append(row)
    return (some for some in rows.values() if len(some) > 1)


def _describe_sets(dataset: Dataset, names: list[str], sets: Iterator[list[int]] | list[list[int]]) -> list[Duplicates]:
    result = []
    for rows in sets:
        splits = [] if dataset.splits is None else list(dict.fromkeys(str(name) for name in dataset.splits[rows]))
        same = True
        if dataset.targets is not None:
            targets = dataset.targets.dense(rows)
            same = bool((targets == targets[0]).all())
        result.append(Duplicates([names[row] for row in rows], splits, same))
    return result


def _min_median_max(lengths: list[int]) -> tuple[int, int, int] | None:
    if not lengths:
        return None
    return min(lengths), int(np.median(lengths)), max(lengths)


FEW_ROWS = 10  # Rows with a label, below which little can be learnt and less be measured.
EXAMPLES = 3


def find_warnings(inspection: Inspection) -> list[str]:
    """Warnings, the most important first."""
    return [message for check in WARNING_CHECKS for message in check(inspection)]


def _unreadable_images(inspection: Inspection) -> Iterator[str]:
    if inspection.images is None:
        return
    if inspection.images.missing:
        yield f"{_count(inspection.images.missing, 'image')} not there: {_preview_names(inspection.images.missing)}."
    unreadable = [f"{name!r} ({reason})" for name, reason in inspection.images.unreadable.items()]
    if unreadable:
        yield f"{_count(unreadable, 'image')} not readable: {_preview(unreadable)}."


def _leaking_duplicates(inspection: Inspection) -> Iterator[str]:
    for sets, same in (
        (_duplicate_sets(inspection), "the same"),
        (_near_duplicate_sets(inspection), "nearly the same"),
    ):
        leaking = [some for some in sets if len(some.splits) > 1]
        if leaking:
            splits = " and ".join(sorted({split for some in leaking for split in some.splits}))
            yield (
                f"{_count(leaking, 'image')} {same} in several splits ({splits}), which makes figures look better than "
                f"they are: {_preview_names(leaking[0].names)}{_more_than_one(leaking)}. "
                "Split again with duplicates kept together."
            )


def _conflicting_labels(inspection: Inspection) -> Iterator[str]:
    conflicting = [some for some in _duplicate_sets(inspection) if not some.same_labels]
    if conflicting:
        examples = f"{_preview_names(conflicting[0].names)}{_more_than_one(conflicting)}"
        yield f"{_count(conflicting, 'image')} there several times with different labels: {examples}."


def _repeated_images(inspection: Inspection) -> Iterator[str]:
    sets = _duplicate_sets(inspection)
    if sets:
        yield f"{_count(sets, 'image')} there more than once: {_preview_names(sets[0].names)}{_more_than_one(sets)}."


def _no_labels(inspection: Inspection) -> Iterator[str]:
    if inspection.samples and not inspection.labels:
        yield "No row has a label, so there is nothing to learn; check how the labels were read."


def _useless_labels(inspection: Inspection) -> Iterator[str]:
    never = [label.name for label in inspection.labels if label.known and not label.count]
    always = [label.name for label in inspection.labels if label.known and label.count == label.known]
    unknown = [label.name for label in inspection.labels if not label.known and inspection.samples]
    if never:
        yield f"{_count(never, 'label')} never present: {_preview_names(never)}."
    if always:
        yield f"{_count(always, 'label')} never absent, so there is nothing to learn: {_preview_names(always)}."
    if unknown:
        yield f"{_count(unknown, 'label')} unknown in all rows: {_preview_names(unknown)}."


def _absent_from_splits(inspection: Inspection) -> Iterator[str]:
    # What cannot be learnt comes before what cannot be measured.
    for split in sorted(inspection.splits, key=lambda name: name != "train"):
        absent = [label.name for label in inspection.labels if label.count and not label.by_split[split]]
        if absent:
            action = "learnt" if split == "train" else "evaluated there"
            count, names = _count(absent, "label"), _preview_names(absent)
            yield f"{count} absent from split {split!r} and cannot be {action}: {names}."


def _rare_labels(inspection: Inspection) -> Iterator[str]:
    rare = sorted((label for label in inspection.labels if 0 < label.count < FEW_ROWS), key=lambda label: label.count)
    if rare:
        examples = [f"{label.name!r} ({label.count})" for label in rare]
        yield f"{_count(rare, 'label')} present in fewer than {FEW_ROWS} rows: {_preview(examples)}."


def _similar_names(inspection: Inspection) -> Iterator[str]:
    by_spelling: dict[str, list[str]] = {}
    for label in inspection.labels:
        by_spelling.setdefault(re.sub(r"[\W_]+", "", label.name).casefold(), []).append(label.name)
    similar = [names for key, names in by_spelling.items() if key and len(names) > 1]
    if similar:
        examples = [" and ".join(map(repr, names)) for names in similar]
        yield f"Labels whose names differ only in case, spaces or punctuation, maybe by mistake: {_preview(examples)}."


def _inseparable_labels(inspection: Inspection) -> Iterator[str]:
    if inspection.inseparable:
        examples = [" and ".join(map(repr, names)) for names in inspection.inseparable]
        yield f"Labels that always occur together, so that no model can distinguish them: {_preview(examples)}."


def _many_empty_rows(inspection: Inspection) -> Iterator[str]:
    if inspection.labels and inspection.samples and inspection.empty > inspection.samples / 2:
        share = inspection.empty / inspection.samples
        yield f"{share:.0%} of the rows have no label; check that this is true and not an error of reading."


def _no_splits(inspection: Inspection) -> Iterator[str]:
    if inspection.samples and len(inspection.splits) < 2:
        yield "The data come in one piece: rows to validate and to test on have to be set aside."


WARNING_CHECKS: Sequence[Callable[[Inspection], Iterator[str]]] = (
    _unreadable_images,
    _leaking_duplicates,
    _conflicting_labels,
    _no_labels,
    _useless_labels,
    _absent_from_splits,
    _many_empty_rows,
    _similar_names,
    _inseparable_labels,
    _rare_labels,
    _repeated_images,
    _no_splits,
)


def _duplicate_sets(inspection: Inspection) -> list[Duplicates]:
    return [] if inspection.images is None else inspection.images.duplicates


def _near_duplicate_sets(inspection: Inspection) -> list[Duplicates]:
    return [] if inspection.images is None else inspection.images.near_duplicates or []


def _more_than_one(sets: Sequence[Duplicates]) -> str:
    return "" if len(sets) == 1 else ", and so on"


def _count(items: Sequence[object], noun: str) -> str:
    """How many there are, followed by "is" or "are"."""
    return f"{len(items):,} {noun} is" if len(items) == 1 else f"{len(items):,} {noun}s are"


def _preview_names(names: Sequence[str]) -> str:
    return _preview([repr(name) for name in names])


def _preview(examples: Sequence[str]) -> str:
    more = len(examples) - EXAMPLES
    return ", ".join(examples[:EXAMPLES]) + (f" and {more:,} more" if more > 0 else "")


def inspect_dataset(
    dataset: Dataset,
    *,
    images: bool = True,
    decode: bool = True,
    near: bool = False,
    workers: int | None = None,
    advance: Callable[[int], None] | None = None,
) -> Inspection:
    """Counts labels and looks at images, and says in plain words what is likely to go wrong.

    Args:
        dataset: Samples, with images or features.
        images: Whether to look at images at all: for duplicates, missing and broken files.
        decode: Whether to decode their pixels, which finds every broken file; otherwise headers are read.
        near: Whether to look for images that look the same and differ in their bytes; needs `decode`.
        workers: Threads that read images; one per core by default, at most 16.
        advance: Called with the number of images that were looked at since the last call.

    Example:
        >>> dataset = mh.data.from_arrays(torch.eye(3).numpy(), [["cat"], [], ["cat", "dog"]])
        >>> found = inspect_dataset(dataset)
        >>> found.empty, [(label.name, label.count) for label in found.labels]
        (1, [('cat', 2), ('dog', 1)])
    """
    inspection = _inspect_targets(dataset)
    if images and dataset.images is not None:
        summaries = summarise_images(
            dataset.images, pixels=decode, near=near and decode, workers=workers, advance=advance
        )
        inspection = replace(
            inspection,
            images=image_facts(dataset, summaries, pixels=decode, near=near and decode),
            duplicate_of=first_duplicates(summaries),
        )
    return replace(inspection, warnings=find_warnings(inspection))


def _inspect_targets(dataset: Dataset) -> Inspection:
    targets = dataset.targets
    if targets is None:
        targets = SparseTargets(np.zeros(len(dataset) + 1), np.zeros(0), num_labels=len(dataset.labels))
    sizes = targets.sizes()
    cooccurrence = LabelCooccurrence(dataset, targets)
    frequent, close = cooccurrence.pairs()
    lengths, rows = np.unique(sizes, return_counts=True)
    return Inspection(
        samples=len(dataset),
        splits=dataset.split_sizes(),
        labels=label_facts(dataset, targets),
        empty=int((sizes == 0).sum()),
        empty_by_split=_empty_by_split(dataset, sizes),
        mean_labels=float(sizes.mean()) if len(sizes) else 0.0,
        max_labels=int(sizes.max(initial=0)),
        set_sizes=dict(zip(lengths.tolist(), rows.tolist(), strict=True)),
        frequent_pairs=frequent,
        close_pairs=close,
        inseparable=cooccurrence.inseparable(),
        implied=cooccurrence.implied(),
        notes=list(dataset.notes),
    )


def _empty_by_split(dataset: Dataset, sizes: Any) -> dict[str, int]:
    parts = rows_of_splits(dataset)
    return {name: int((sizes[rows] == 0).sum()) for name, rows in parts.items()}
