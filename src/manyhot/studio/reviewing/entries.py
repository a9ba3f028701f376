"""The entries of the journal of a review: how they are written, and whether one is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manyhot.studio.reviewing.edits import ABSENT, PRESENT, UNKNOWN, Edit
from manyhot.studio.reviewing.journal import Entry


def labels_entry(names: Sequence[str]) -> Entry:
    """That these are the labels from now on."""
    return {"kind": "labels", "names": list(names)}


def sample_entry(name: str, path: str, split: str | None) -> Entry:
    """How the labels file names a sample, and its split."""
    return {"kind": "sample", "id": name, "path": path, "split": split}


def edit_entry(edit: Edit, *, at: str, by: str) -> Entry:
    """What was said, when, and where: "studio", or "file" for a labels file that was changed by hand."""
    labels = dict(edit.labels)
    return {
        "kind": "edit",
        "number": edit.number,
        "id": edit.sample,
        "labels": labels,
        "done": edit.done,
        "at": at,
        "by": by,
    }


def is_entry(entry: Entry) -> bool:
    """Whether an object of a journal is an entry that `History` understands; what else is in it says nothing."""
    kinds = {
        "labels": {"names": _are_texts},
        "sample": {"id": _is_text, "path": _is_text, "split": _may_be_text},
        "edit": {"number": _is_count, "id": _is_text, "labels": _may_be_cells, "done": _may_be_truth},
        "undo": {"number": _is_count},
        "table": {"sha256": _is_text, "entries": _is_count},
        "wrote": {"sha256": _is_text},
    }
    kind = entry.get("kind")
    checks = kinds.get(kind) if isinstance(kind, str) else None
    return checks is not None and all(name in entry and check(entry[name]) for name, check in checks.items())


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _may_be_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _may_be_truth(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def is_value(value: Any) -> bool:
    """Whether this is 1, 0 or -1."""
    return isinstance(value, int) and not isinstance(value, bool) and value in (PRESENT, ABSENT, UNKNOWN)


def _may_be_cells(value: Any) -> bool:
    return isinstance(value, dict) and all(one is None or is_value(one) for one in value.values())
