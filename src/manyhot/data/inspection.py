"""Inspection of a dataset before training: labels, images, duplicates and warnings."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.inspection_report import as_rich, find_warnings
from manyhot.data.sources import ImageSource, read_source
from manyhot.data.targets import SparseTargets
from manyhot.images import Array, UnreadableImage, decode, open_header

if TYPE_CHECKING:
    from PIL import Image


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
        return as_rich(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but `duplicate_of`, as values that JSON can hold."""
        return {name: value for name, value in asdict(self).items() if name != "duplicate_of"}


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
        near = near and decode
        summaries = _summarise_images(dataset.images, pixels=decode, near=near, workers=workers, advance=advance)
        first: dict[bytes | int, int] = {}
        keys = (row if summary.digest is None else summary.digest for row, summary in enumerate(summaries))
        duplicate_of = np.array([first.setdefault(key, row) for row, key in enumerate(keys)], dtype=np.int64)
        facts = _image_facts(dataset, summaries, duplicate_of, decoded=decode, near=near)
        inspection = replace(inspection, images=facts, duplicate_of=duplicate_of)
    return replace(inspection, warnings=find_warnings(inspection))


def _inspect_targets(dataset: Dataset) -> Inspection:
    targets = dataset.targets or SparseTargets.from_rows([()] * len(dataset), num_labels=len(dataset.labels))
    parts = {name: targets.take(dataset.splits == name) for name in dataset.split_sizes()}
    sizes = targets.sizes()
    return Inspection(
        samples=len(dataset),
        splits=dataset.split_sizes(),
        labels=_label_facts(dataset.labels.names, targets, parts),
        empty=int((sizes == 0).sum()),
        empty_by_split={name: int((part.sizes() == 0).sum()) for name, part in parts.items()},
        mean_labels=float(sizes.mean()) if len(sizes) else 0.0,
        max_labels=int(sizes.max(initial=0)),
        set_sizes=dict(sorted(Counter(sizes.tolist()).items())),
        notes=list(dataset.notes),
        **_cooccurrence_facts(dataset.labels.names, targets),
    )


def _label_facts(names: Sequence[str], targets: SparseTargets, parts: Mapping[str, SparseTargets]) -> list[LabelFacts]:
    """Counts and rates of every label, overall and by split."""
    tables = [targets, *parts.values()]
    counts = np.stack([table.counts() for table in tables], axis=1).tolist()
    known = np.stack([table.known() for table in tables], axis=1).tolist()
    facts = []
    for name, present, total in zip(names, counts, known, strict=True):
        rates = [count / rows if rows else None for count, rows in zip(present, total, strict=True)]
        by_split, rate_by_split = dict(zip(parts, present[1:], strict=True)), dict(zip(parts, rates[1:], strict=True))
        facts.append(LabelFacts(name, present[0], total[0], rates[0], by_split, rate_by_split))
    return facts


MAX_LABELS = 2000  # of which all pairs are counted: the most frequent ones
MIN_ROWS = 5  # with both labels, for a pair to be reported
SHOWN_PAIRS = 20


def _cooccurrence_facts(names: Sequence[str], targets: SparseTargets) -> dict[str, Any]:
    """Which labels keep together: frequent and close pairs, inseparable and implied labels, among the most frequent."""
    chosen = np.sort(np.argsort(-targets.counts(), kind="stable")[:MAX_LABELS]).tolist()
    names, n = [names[column] for column in chosen], max(len(targets), 1)
    together = (targets if len(chosen) == targets.shape[1] else targets.select(chosen)).cooccurrence()
    counts = np.diagonal(together)
    first, second = np.nonzero(np.triu(together, 1) > 0)
    both = together[first, second]
    lift = both * n / (counts[first] * counts[second])
    surprise = -np.log(both / n)
    npmi = np.divide(np.log(lift), surprise, out=np.zeros(len(lift)), where=surprise > 0)

    def pair(index: int) -> LabelPair:
        rarer, other = sorted((int(first[index]), int(second[index])), key=lambda column: int(counts[column]))
        return LabelPair(names[rarer], names[other], int(both[index]), float(lift[index]), float(npmi[index]))

    close = [index for index in np.lexsort((-both, -npmi)) if both[index] >= MIN_ROWS and npmi[index] > 0]
    # Whether the row's label is never present without the column's.
    within = (together == counts[:, None]) & (counts >= MIN_ROWS)[:, None]
    same = {tuple(np.flatnonzero(row).tolist()) for row in within & within.T if np.count_nonzero(row) > 1}
    # A label that every row has follows from all others, which says nothing.
    implied = within & (counts[:, None] < counts[None, :]) & (counts < n)[None, :]
    return {
        "frequent_pairs": [pair(index) for index in np.lexsort((-npmi, -both))[:SHOWN_PAIRS]],
        "close_pairs": [pair(index) for index in close[:SHOWN_PAIRS]],
        "inseparable": [[names[column] for column in some] for some in sorted(same)],
        "implied": [(names[a], names[b]) for a, b in zip(*np.nonzero(implied), strict=True)],
    }


IMAGES_PER_PROGRESS = 1024  # images between two reports of progress
MIN_SIDE = 64  # the side that is needed of an image whose pixels are only looked over


@dataclass(slots=True)
class _ImageSummary:
    """What was seen of one image.

    Attributes:
        name: Where it is.
        digest: A digest of the content, if it is an image; empty and broken files are none, so no copies.
        reason: Why it cannot be used; None where it can.
        missing: Whether there is no such image.
        format: Such as "JPEG".
        mode: Its kind of pixels, as Pillow calls it.
        size: Width and height as stored.
        length: Bytes as stored.
        dhash: What `dhash` gives; None if not asked for.
    """

    name: str
    digest: bytes | None = None
    reason: str | None = None
    missing: bool = False
    format: str = ""
    mode: str = ""
    size: tuple[int, int] = (0, 0)
    length: int = 0
    dhash: bytes | None = None


def _summarise_images(
    images: ImageSource, *, pixels: bool, near: bool, workers: int | None, advance: Callable[[int], None] | None
) -> list[_ImageSummary]:
    """Every image, read by several threads at once: Pillow decodes without holding the others up."""
    summarise = partial(_summarise_image, images, pixels=pixels, near=near)
    with ThreadPoolExecutor(workers or min(os.cpu_count() or 1, 16)) as pool:
        result: list[_ImageSummary] = []
        for start in range(0, len(images), IMAGES_PER_PROGRESS):
            result += pool.map(summarise, range(start, min(start + IMAGES_PER_PROGRESS, len(images))))
            if advance is not None:
                advance(len(result) - start)
    return result


def _summarise_image(images: ImageSource, row: int, *, pixels: bool, near: bool) -> _ImageSummary:
    name = images.name(row)
    summary = _ImageSummary(name)
    try:
        data = read_source(images, row)
        if isinstance(data, np.ndarray):
            content = repr((data.shape, data.dtype)).encode() + data.tobytes()
            height, width = (*data.shape, 0, 0)[:2]
            mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}.get(data.shape[2] if data.ndim == 3 else 1, "?")
            summary.format, summary.mode, summary.size, summary.length = "array", mode, (width, height), data.nbytes
        else:
            content, summary.length = data, len(data)
            header = open_header(data, name=name)
            summary.format, summary.mode, summary.size = header.format or "?", header.mode, header.size
        if pixels:
            image = decode(data, name=name, min_side=MIN_SIDE)
            summary.dhash = dhash(image) if near else None
        summary.digest = blake2b(content, digest_size=16).digest()
    except UnreadableImage as error:
        summary.reason, summary.missing = error.reason, error.missing
    return summary


def _image_facts(
    dataset: Dataset, summaries: Sequence[_ImageSummary], duplicate_of: Array, *, decoded: bool, near: bool
) -> ImageFacts:
    """The images in figures."""
    good = [summary for summary in summaries if summary.reason is None]
    near_sets = near_duplicate_sets([summary.dhash for summary in summaries]) if near else []
    near_sets = [rows for rows in near_sets if len({summaries[row].digest for row in rows}) > 1]
    names = [summary.name for summary in summaries]
    return ImageFacts(
        read=len(good),
        decoded=decoded,
        missing=list(dict.fromkeys(summary.name for summary in summaries if summary.missing)),
        unreadable={summary.name: summary.reason for summary in summaries if summary.reason and not summary.missing},
        formats=dict(Counter(summary.format for summary in good).most_common()),
        modes=dict(Counter(summary.mode for summary in good).most_common()),
        widths=_min_median_max([summary.size[0] for summary in good]),
        heights=_min_median_max([summary.size[1] for summary in good]),
        gigabytes=sum(summary.length for summary in summaries) / 1e9,
        duplicates=[_describe_set(dataset, names, rows) for rows in _equal_rows(duplicate_of)],
        near_duplicates=[_describe_set(dataset, names, rows) for rows in near_sets] if near else None,
    )


def _equal_rows(values: Array) -> list[list[int]]:
    """The rows of each value that occurs more than once."""
    order = np.argsort(values, kind="stable")
    sets = np.split(order, np.flatnonzero(np.diff(values[order])) + 1)
    return [rows.tolist() for rows in sets if len(rows) > 1]


def _describe_set(dataset: Dataset, names: Sequence[str], rows: list[int]) -> Duplicates:
    splits = [] if dataset.splits is None else list(dict.fromkeys(map(str, dataset.splits[rows])))
    targets = np.zeros((1, 0)) if dataset.targets is None else dataset.targets.dense(rows).numpy()
    return Duplicates([names[row] for row in rows], splits, bool((targets == targets[0]).all()))


def _min_median_max(lengths: list[int]) -> tuple[int, int, int] | None:
    return (min(lengths), int(np.median(lengths)), max(lengths)) if lengths else None


MAX_DIFFERENT_BITS = 20  # of 256, between images that pass for the same; unlike ones differ in about half
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
    bits = np.frombuffer(b"".join(filter(None, hashes)), dtype=np.uint8).reshape(len(rows), -1)
    pairs = []
    for band in range(BANDS):
        order = np.lexsort(np.roll(bits.view(np.uint32), band, axis=1).T)
        left, right = order[:-1], order[1:]
        close = np.unpackbits(bits[left] ^ bits[right], axis=1).sum(1) <= MAX_DIFFERENT_BITS
        pairs.append((left[close], right[close]))
    left, right = map(np.concatenate, zip(*pairs, strict=True))
    leader = np.arange(len(rows))
    while (leader[left] != leader[right]).any():
        first, second = leader[left], leader[right]
        np.minimum.at(leader, np.maximum(first, second), np.minimum(first, second))
        leader = leader[leader]
    return [rows[some].tolist() for some in _equal_rows(leader)]
