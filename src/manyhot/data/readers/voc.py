"""Pascal VOC: XML annotations, and lists of images for each split."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from manyhot.data.readers.found import Found
from manyhot.data.readers.said import Said
from manyhot.data.sources import Files
from manyhot.data.targets import SparseTargets
from manyhot.refusal import refusal
from manyhot.vocabulary import CANONICAL


def find_voc(folder: Path) -> list[Path]:
    """The folders of VOC at a path or right below it, each with `Annotations`: one a year in a `VOCdevkit`."""
    below = [folder, folder / "VOCdevkit"]
    found = [top for top in below if _is_voc(top)]
    years = (Path(entry.path) for top in below if top.is_dir() for entry in os.scandir(top) if entry.is_dir())
    return found or sorted(path for path in years if _is_voc(path))


def _is_voc(folder: Path) -> bool:
    return (folder / "Annotations").is_dir() and (folder / "JPEGImages").is_dir()


def read_voc(folders: Sequence[Path], said: Said) -> Found:
    """Images of one or several years."""
    top = Path(os.path.commonpath(folders)) if len(folders) > 1 else folders[0]
    ids: list[str] = []
    splits: list[str] = []
    objects: list[dict[str, int]] = []
    untold = 0
    for folder in folders:
        listed = _read_lists(folder, said)
        files = {os.path.splitext(entry.name)[0]: entry.name for entry in os.scandir(folder / "JPEGImages")}
        for stem in listed or sorted(path.stem for path in (folder / "Annotations").glob("*.xml")):
            path = folder / "Annotations" / f"{stem}.xml"
            if not path.is_file():
                untold += 1
                continue
            objects.append(_read_objects(path, said))
            name = files.get(stem, f"{stem}.jpg")
            ids.append(os.path.relpath(folder / "JPEGImages" / name, top))
            splits.append(listed.get(stem, ""))
    names = sorted({name for row in objects for name in row})
    columns = {name: column for column, name in enumerate(names)}
    cells = [(row, columns[name], value) for row, found in enumerate(objects) for name, value in found.items()]
    table = np.array(cells, dtype=np.int64).reshape(-1, 3)
    targets = SparseTargets.from_cells(*table.T, shape=(len(ids), len(names)), unlisted=said.means("absent"))
    notes = [f"Read VOC annotations of {', '.join(repr(folder.name) for folder in folders)}."]
    hidden = int((table[:, 2] == -1).sum())
    notes += [f"{hidden:,} labels are unknown, because all their objects are marked as difficult."] if hidden else []
    notes += [f"Left out {untold:,} listed images without annotations."] if untold else []
    has_splits = all(splits) and bool(splits) and said.split_column is None
    notes += ["Splits are the lists in ImageSets/Main."] if has_splits else []
    found_splits = np.array(splits, dtype=object) if has_splits else None
    return Found(ids, Files(ids, root=top), names, targets, found_splits, notes)


def _read_lists(folder: Path, said: Said) -> dict[str, str]:
    """The split of each image; `trainval` counts for what neither train nor val lists."""
    found: dict[str, str] = {}
    for name in ("train", "val", "test", "trainval"):
        path = folder / "ImageSets" / "Main" / f"{name}.txt"
        split = CANONICAL.get(name, "train")
        for line in path.read_text(encoding="utf-8").split("\n") if path.is_file() else ():
            stem = line.split()[0] if line.split() else ""
            if name != "trainval" and found.get(stem, split) != split:
                got = f"{stem!r} in {found[stem]!r} and {split!r}"
                remedy = "Keep one of them: an image seen in training proves nothing in a test."
                raise refusal("split", said.owner, "be one for each image", got, remedy)
            if stem:
                found.setdefault(stem, split)
    return found


def _read_objects(path: Path, said: Said) -> dict[str, int]:
    """1 for each label with an object that is not difficult, -1 for each with difficult ones only."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        got = f"{str(path)!r} ({error})"
        raise refusal("path", said.owner, "hold whole XML files", got, "Repair or remove it.") from None
    values: dict[str, int] = {}
    for item in root.iter("object"):
        name = (item.findtext("name") or "").strip()
        difficult = (item.findtext("difficult") or "0").strip() == "1"
        if name:
            values[name] = max(values.get(name, -1), -1 if difficult else 1)
    return values
