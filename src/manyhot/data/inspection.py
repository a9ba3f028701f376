"""Inspection of a dataset before training: labels, images, duplicates and warnings, and tables of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.sources import ImageSource, read_source
from manyhot.data.targets import SparseTargets
from manyhot.files import available_cores
from manyhot.formatting import count_noun, printable
from manyhot.images import Array, UnreadableImage, decode, open_header

if TYPE_CHECKING:
    from PIL import Image
    from rich.console import Group, RenderableType


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
    with ThreadPoolExecutor(workers or min(available_cores(), 16)) as pool:
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


FEW_ROWS = 10  # Rows with a label, below which little can be learnt and less be measured.
EXAMPLES = 3


def find_warnings(inspection: Inspection) -> list[str]:
    """Warnings, the most important first."""
    images = inspection.images
    result = [] if images is None else list(_image_warnings(images))
    result += _label_warnings(inspection)
    if images is not None:
        result += _warn(images.duplicates, "image", "there more than once", _preview_sets(images.duplicates))
    if inspection.samples and len(inspection.splits) < 2:
        result.append("The data come in one piece: rows to validate and to test on have to be set aside.")
    return result


def _image_warnings(images: ImageFacts) -> Iterator[str]:
    yield from _warn(images.missing, "image", "not there", _preview(map(repr, images.missing)))
    unreadable = [f"{name!r} ({reason})" for name, reason in images.unreadable.items()]
    yield from _warn(unreadable, "image", "not readable", _preview(unreadable))
    for sets, same in ((images.duplicates, "the same"), (images.near_duplicates or [], "nearly the same")):
        leaking = [some for some in sets if len(some.splits) > 1]
        splits = " and ".join(sorted({split for some in leaking for split in some.splits}))
        problem = f"{same} in several splits ({splits}), which makes figures look better than they are"
        examples = f"{_preview_sets(leaking)}. Split again with duplicates kept together"
        yield from _warn(leaking, "image", problem, examples)
    conflicting = [some for some in images.duplicates if not some.same_labels]
    yield from _warn(conflicting, "image", "there several times with different labels", _preview_sets(conflicting))


def _label_warnings(inspection: Inspection) -> Iterator[str]:
    labels, samples = inspection.labels, inspection.samples
    if samples and not labels:
        yield "No row has a label, so there is nothing to learn; check how the labels were read."
    problems = {
        "never present": [label for label in labels if label.known and not label.count],
        "never absent, so there is nothing to learn": [label for label in labels if 0 < label.known == label.count],
        "unknown in all rows": [label for label in labels if not label.known and samples],
    }
    # What cannot be learnt comes before what cannot be measured.
    for split in sorted(inspection.splits, key=lambda name: name != "train"):
        action = "learnt" if split == "train" else "evaluated there"
        absent = [label for label in labels if label.count and not label.by_split[split]]
        problems[f"absent from split {split!r} and cannot be {action}"] = absent
    for problem, affected in problems.items():
        yield from _warn(affected, "label", problem, _preview(repr(label.name) for label in affected))
    if labels and inspection.empty > samples / 2:
        share = inspection.empty / samples
        yield f"{share:.0%} of the rows have no label; check that this is true and not an error of reading."
    by_spelling: dict[str, list[str]] = {}
    for label in labels:
        by_spelling.setdefault(re.sub(r"[\W_]+", "", label.name).casefold(), []).append(label.name)
    similar = [names for key, names in by_spelling.items() if key and len(names) > 1]
    for problem, sets in (
        ("Labels whose names differ only in case, spaces or punctuation, maybe by mistake", similar),
        ("Labels that always occur together, so that no model can distinguish them", inspection.inseparable),
    ):
        if sets:
            yield f"{problem}: {_preview(' and '.join(map(repr, names)) for names in sets)}."
    rare = sorted((label for label in labels if 0 < label.count < FEW_ROWS), key=lambda label: label.count)
    examples = _preview(f"{label.name!r} ({label.count})" for label in rare)
    yield from _warn(rare, "label", f"present in fewer than {FEW_ROWS} rows", examples)


def _warn(affected: Sequence[object], noun: str, problem: str, examples: str) -> list[str]:
    """The warning that a problem affects some images or labels; none if it affects none."""
    are = "is" if len(affected) == 1 else "are"
    return [f"{count_noun(len(affected), noun)} {are} {problem}: {examples}."] if affected else []


def _preview_sets(sets: Sequence[Duplicates]) -> str:
    return _preview(repr(name) for some in sets[:1] for name in some.names) + (", and so on" if len(sets) > 1 else "")


def _preview(examples: Iterable[str]) -> str:
    examples = list(examples)
    more = len(examples) - EXAMPLES
    return ", ".join(examples[:EXAMPLES]) + (f" and {more:,} more" if more > 0 else "")


TABLE_LABELS = 20
TABLE_PAIRS = 10


def as_rich(inspection: Inspection, *, all_labels: bool = False) -> Group:
    """The tables, what is wrong last, where it stays in sight.

    Args:
        inspection: What was found.
        all_labels: Whether to show every label, not only the most frequent and the rarest ones.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = [Text(_headline(inspection), style="bold")]
    for title, heads, left, rows in _tables(inspection, all_labels=all_labels):
        table = Table(box=None, header_style="dim", show_header=any(heads))
        for index, head in enumerate(heads):
            table.add_column(Text(printable(head)), justify="left" if index in left else "right")
        for row in rows:
            table.add_row(*(Text(printable(_format_cell(cell))) for cell in row))
        parts += [Text(""), Text(title, style="bold"), table] if rows else []
    verdict = "Look into these before you train" if inspection.warnings else "Nothing seems to be wrong."
    warnings = Table.grid(padding=(0, 1))
    warnings.add_column(justify="right", min_width=4)
    warnings.add_column(overflow="fold")
    for number, text in enumerate(inspection.warnings, 1):
        warnings.add_row(f"{number}.", Text(printable(text)))
    return Group(*parts, Text(""), Text(verdict, style="bold"), warnings)


def _headline(inspection: Inspection) -> str:
    head = f"{count_noun(inspection.samples, 'row')} x {count_noun(len(inspection.labels), 'label')}"
    if not inspection.labels:
        return head
    empty = f"{count_noun(inspection.empty, 'row')} ({inspection.empty / max(inspection.samples, 1):.1%})"
    return f"{head}: {inspection.mean_labels:.2f} labels per row, at most {inspection.max_labels}; {empty} without any"


# Text, a count, or a share, of which nothing may be known.
Cell = str | int | float | None
# A title, the heads of columns, which of these hold text, and rows; not shown without any.
TableParts = tuple[str, Sequence[str], Sequence[int], Sequence[Sequence[Cell]]]


def _tables(inspection: Inspection, *, all_labels: bool) -> Iterator[TableParts]:
    samples = inspection.samples
    rows = [(name, size, size / samples, inspection.empty_by_split[name]) for name, size in inspection.splits.items()]
    yield ("Splits", ("split", "rows", "share", "without labels"), (0,), rows)
    yield _labels_table(inspection, all_labels=all_labels)
    if inspection.labels and samples:
        yield _sizes_table(inspection.set_sizes, samples)
    pairs = [
        (pair.first, pair.second, pair.count, f"{pair.lift:,.1f} x", f"{pair.npmi:.2f}")
        for pair in inspection.close_pairs[:TABLE_PAIRS]
    ]
    heads = ("label", "label", "rows", "more than by chance", "npmi")
    yield ("Labels that keep close together", heads, (0, 1), pairs)
    yield ("Labels that never come without another", ("label", "the other"), (0, 1), inspection.implied[:TABLE_PAIRS])
    if inspection.images is not None:
        yield ("Images", ("", ""), (0, 1), list(_image_rows(inspection.images)))


def _labels_table(inspection: Inspection, *, all_labels: bool) -> TableParts:
    title, labels = "Labels", sorted(inspection.labels, key=lambda label: -label.count)
    rows: list[Sequence[Cell]] = [(one.name, one.count, one.rate, *one.by_split.values()) for one in labels]
    if not all_labels and len(rows) > TABLE_LABELS:
        half = TABLE_LABELS // 2
        title = f"Labels: the {half} most frequent and the {half} rarest of {len(rows):,}"
        rows = [*rows[:half], tuple("..." for _ in rows[0]), *rows[-half:]]
    return (title, ("label", "rows", "rate", *inspection.splits), (0,), rows)


def _sizes_table(set_sizes: dict[int, int], samples: int) -> TableParts:
    lines = {str(size): rows for size, rows in set_sizes.items() if size < 10}
    if len(lines) < len(set_sizes):
        lines["10 or more"] = samples - sum(lines.values())
    largest = max(set_sizes.values())
    rows = [(text, n, n / samples, "█" * round(30 * min(n / largest, 1))) for text, n in lines.items()]
    return ("Labels per row", ("labels", "rows", "share", ""), (0, 3), rows)


def _image_rows(facts: ImageFacts) -> Iterator[tuple[str, Cell]]:
    yield f"read ({'decoded' if facts.decoded else 'headers read'})", facts.read
    yield "missing", len(facts.missing)
    yield "unreadable", len(facts.unreadable)
    for name, counts in (("formats", facts.formats), ("pixels", facts.modes)):
        yield name, ", ".join(f"{kind} {count:,}" for kind, count in counts.items()) or "–"
    for name, spread in (("width", facts.widths), ("height", facts.heights)):
        if spread is not None:
            low, middle, high = spread
            yield name, f"{low:,}" if low == high else f"{low:,} to {high:,}, half of them up to {middle:,}"
    yield "size", _format_bytes(1e9 * facts.gigabytes)
    yield "images with copies", len(facts.duplicates)
    if facts.near_duplicates is not None:
        yield "images with near copies", len(facts.near_duplicates)


def _format_bytes(count: float) -> str:
    unit, name = next(((unit, name) for unit, name in ((1e9, "GB"), (1e6, "MB")) if count >= unit), (1e3, "kB"))
    return f"{count / unit:.1f} {name}"


def _format_cell(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{100 * cell:.2f} %"
    return "–" if cell is None else cell if isinstance(cell, str) else f"{cell:,}"
