"""A folder that was taken for a data set: what it must have, and the plain sentence where it has not."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files
from manyhot.data.targets import SparseTargets
from manyhot.image_formats import is_image
from manyhot.labels import Labels
from manyhot.refusal import Refusal, refusal

OWNER = "read_layout"
VAL_IS_TEST = "The official validation data are the split 'test', since the labels of the test data are not published."


@dataclass(frozen=True)
class Unpacked:
    """A folder, taken for a data set.

    Attributes:
        path: The folder that the data set's own paths start from.
        title: What the data set is called.
    """

    path: Path
    title: str

    def find(self, *names: str) -> Path | None:
        """The first of these files or folders that is there; None where there is none."""
        return next((self.path / name for name in names if (self.path / name).exists()), None)

    def need(self, *names: str) -> Path:
        """The first of these files or folders that is there, or the error that names the one that is missing."""
        found = self.find(*names)
        if found is None:
            raise self.missing(*names)
        return found

    def missing(self, *names: str) -> Refusal:
        """The error for files of which none is there."""
        wanted = " or ".join(repr(name) for name in names)
        got = f"{str(self.path)!r}, where it is missing"
        remedy = f"Unpack the whole data set, or pass `name` if it is not {self.title}."
        return refusal("folder", OWNER, f"have {wanted}, as {self.title} has", got, remedy)

    def damaged(self, file: Path, rule: str, got: str) -> Refusal:
        """The error for a file that does not hold what it should."""
        rule = f"have a file {file.name!r} that {rule}, as {self.title} has"
        return refusal("folder", OWNER, rule, got, "Unpack the data set once more.")

    def lines(self, *names: str) -> list[str]:
        """The lines of a text, without blank ones; at least one."""
        file = self.need(*names)
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise self.damaged(file, "is text in UTF-8", "other bytes") from None
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        if not lines:
            raise self.damaged(file, "has lines", "none")
        return lines

    def pairs(self, *names: str) -> list[tuple[str, str]]:
        """The first word of each line, and what follows it."""
        parts = [line.split(maxsplit=1) for line in self.lines(*names)]
        short = next((part[0] for part in parts if len(part) < 2), None)
        if short is not None:
            raise self.damaged(self.need(*names), "has two columns", f"a line of {short!r} alone")
        return [(first, rest) for first, rest in parts]

    def matrix(self, key: str, *names: str) -> np.ndarray:
        """(N,) the entries of a variable in a file of Matlab."""
        file = self.need(*names)
        io = _import_scipy()
        try:
            content = io.loadmat(file, squeeze_me=True, chars_as_strings=True)
        except Exception as error:
            # Damaged files make SciPy raise nearly anything: ValueError, IndexError, MatReadError, zlib.error ...
            raise self.damaged(file, "SciPy can read", str(error) or type(error).__name__) from None
        if key not in content:
            held = ", ".join(repr(name) for name in content if not name.startswith("__"))
            raise self.damaged(file, f"holds {key!r}", held or "nothing")
        return np.atleast_1d(content[key])


def _import_scipy() -> Any:
    try:
        import scipy.io
    except ImportError:
        raise ImportError("Files of Matlab need SciPy. Install it with: pip install 'manyhot[vision]'") from None
    return scipy.io


class Sample(NamedTuple):
    """A picture that has one label.

    Attributes:
        path: Relative to the data set's folder.
        label: The name of its label.
        split: "train", "val" or "test".
    """

    path: str
    label: str
    split: str


def in_folders(top: Path, root: Path, split: str, *, below: str = "") -> Iterator[Sample]:
    """Pictures in one folder a class, in order; the label is the folder's name.

    Args:
        top: The folder of the classes' folders.
        root: The data set's folder.
        split: Of all of them.
        below: The folder within each class that has the pictures.
    """
    for name in sorted(entry.name for entry in os.scandir(top) if entry.is_dir() and not entry.name.startswith(".")):
        folder = top / name / below
        prefix = os.path.relpath(folder, root)
        files = sorted(entry.name for entry in os.scandir(folder)) if folder.is_dir() else []
        yield from (Sample(f"{prefix}/{file}", name, split) for file in files if is_image(file))


def one_label(
    folder: Unpacked, samples: Sequence[Sample], *, names: dict[str, str] | None = None, notes: Sequence[str] = ()
) -> Dataset:
    """The data set of samples with one label each.

    Args:
        folder: Where they lie.
        samples: In the order of the rows.
        names: What to call each label, in the order of the columns; the labels themselves, sorted, by default.
        notes: What the reader took for what.
    """
    if names is None:
        names = {label: label for label in sorted({sample.label for sample in samples})}
    places = {label: place for place, label in enumerate(names)}
    stray = next((sample for sample in samples if sample.label not in places), None)
    if stray is not None:
        got = f"{stray.label!r} of {stray.path!r}"
        rule = f"have no labels but those that {folder.title} lists"
        raise refusal("folder", OWNER, rule, got, "Unpack the data set once more.")
    columns = np.array([places[sample.label] for sample in samples], dtype=np.int64)
    targets = SparseTargets(np.arange(len(samples) + 1), columns, num_labels=len(names))
    splits = [sample.split for sample in samples]
    return of_files(folder, [sample.path for sample in samples], list(names.values()), targets, splits, notes)


def of_files(
    folder: Unpacked,
    paths: Sequence[str],
    names: Sequence[str],
    targets: SparseTargets,
    splits: Sequence[str],
    notes: Sequence[str] = (),
) -> Dataset:
    """The data set of pictures in files of their own; refuses one whose first picture of a split is not there."""
    if not paths:
        got = f"none in {str(folder.path)!r}"
        raise refusal("folder", OWNER, f"have the pictures of {folder.title}", got, "Unpack the whole data set.")
    for split in sorted(set(splits)):
        folder.need(paths[splits.index(split)])
    said = [f"Read as {folder.title}.", *notes]
    images = Files(paths, root=folder.path)
    chosen = np.array(splits, dtype=object)
    return Dataset(Labels(names), targets, list(paths), images=images, splits=chosen, notes=said)


def titled(code: str, name: str | None) -> str:
    """A code with its name: distinct, as names need not be, and still readable."""
    return f"{code} {name}" if name else code
