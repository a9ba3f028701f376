"""NumPy archives: arrays of scores or probabilities, with targets and names beside them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np

from manyhot.predictions.arrow import first_line
from manyhot.predictions.roles import listed
from manyhot.refusal import refusal
from manyhot.vocabulary import canonical_split

NAMES = {
    "targets": ("targets",),
    "labels": ("labels", "names"),
    "ids": ("ids", "id"),
    "paths": ("paths", "path"),
    "splits": ("splits", "split"),
}


def read_arrays(path: Path, owner: str) -> dict[str, Any]:
    """The arrays of an archive by name, or the one array of an .npy file under its stem; nothing in it is executed."""
    if not path.is_file():
        raise refusal("path", owner, "be a file", f"{str(path)!r}, where there is none", "Check the path.")
    try:
        with path.open("rb") as file:  # NumPy itself would leave it open where it is no archive
            content = np.load(file, allow_pickle=False)
            return {path.stem: content} if isinstance(content, np.ndarray) else dict(content.items())
    except (ValueError, OSError, EOFError, BadZipFile, ZlibError) as error:
        # What NumPy says about pickles also says how to load them all the same.
        why = "which holds Python objects" if "pickle" in str(error) else f"which cannot be read ({first_line(error)})"
        remedy = "Save names as `np.array(names)`, and the file with `np.savez`."
        rule = "be arrays of numbers and texts without Python objects"
        raise refusal("path", owner, rule, f"{str(path)!r}, {why}", remedy) from None


def read_archive(path: Path, owner: str, kind: str) -> tuple[dict[str, Any], list[str]]:
    """Arguments for `Predictions` from an archive, and what was taken from where."""
    arrays = read_arrays(path, owner)
    taken = {role: next((n for n in names if n in arrays), None) for role, names in NAMES.items()}
    if taken["labels"] == "labels" and arrays["labels"].ndim == 2:  # often the name of the targets
        taken["targets"] = taken["targets"] or "labels"
        taken["labels"] = "names" if "names" in arrays else None
    cells = kind if kind in arrays else _only_table(arrays, [name for name in taken.values() if name], owner, kind)
    columns = {role: arrays[name] for role, name in taken.items() if name is not None}
    notes = [f"Read array {cells!r} as {kind}."]
    notes += [f"Read array {name!r} as {role}." for role, name in taken.items() if name is not None]
    left_out = [name for name in arrays if name != cells and name not in taken.values()]
    notes += [f"Left out {listed(left_out)}."] if left_out else []
    if "labels" in columns:
        columns["labels"] = columns["labels"].astype(str).tolist()
    if "splits" in columns and columns["splits"].ndim == 1:
        given = [str(name) for name in columns["splits"].tolist()]
        columns["splits"] = [canonical_split(name) for name in given]
        renamed = dict(zip(given, columns["splits"], strict=True))
        notes += [f"Split {name!r} is read as {new!r}." for name, new in renamed.items() if name != new]
    return columns | {kind: arrays[cells]}, notes


def read_targets(path: Path, owner: str) -> Any:
    """The targets of an archive: its array `targets`, its only array, or the sparse matrix that SciPy saved there."""
    arrays = read_arrays(path, owner)
    if {"format", "shape", "data"} <= set(arrays):
        return import_module("scipy.sparse").load_npz(path)
    if "targets" in arrays:
        return arrays["targets"]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    rule, got = "hold an array `targets`", f"the arrays {listed(list(arrays))}"
    raise refusal("targets", owner, rule, got, "Save them under that name.")


def _only_table(arrays: dict[str, Any], others: Sequence[str], owner: str, kind: str) -> str:
    """The one array that can hold scores or probabilities where none has that name."""
    other_kind = "probs" if kind == "scores" else "scores"
    tables = [
        name
        for name, array in arrays.items()
        if array.ndim == 2 and np.issubdtype(array.dtype, np.floating) and name not in (other_kind, *others)
    ]
    if len(tables) == 1:
        return tables[0]
    rule, got = f"hold an array `{kind}`", f"the arrays {listed(list(arrays))}"
    raise refusal("path", owner, rule, got, f"Save them with `np.savez(path, {kind}={kind})`.")
