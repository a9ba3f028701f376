"""What an inspection says: its warnings, and its tables in a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from manyhot.formatting import count_noun, printable

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

    from manyhot.data.inspection import Duplicates, ImageFacts, Inspection

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


SHOWN_LABELS = 20
SHOWN_PAIRS = 10


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
        for pair in inspection.close_pairs[:SHOWN_PAIRS]
    ]
    heads = ("label", "label", "rows", "more than by chance", "npmi")
    yield ("Labels that keep close together", heads, (0, 1), pairs)
    yield ("Labels that never come without another", ("label", "the other"), (0, 1), inspection.implied[:SHOWN_PAIRS])
    if inspection.images is not None:
        yield ("Images", ("", ""), (0, 1), list(_image_rows(inspection.images)))


def _labels_table(inspection: Inspection, *, all_labels: bool) -> TableParts:
    title, labels = "Labels", sorted(inspection.labels, key=lambda label: -label.count)
    rows: list[Sequence[Cell]] = [(one.name, one.count, one.rate, *one.by_split.values()) for one in labels]
    if not all_labels and len(rows) > SHOWN_LABELS:
        half = SHOWN_LABELS // 2
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
