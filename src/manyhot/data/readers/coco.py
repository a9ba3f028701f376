"""COCO JSON: images, categories and annotations; an image without annotations is an image without labels."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.data.readers.found import Found
from manyhot.data.readers.places import place_images
from manyhot.data.readers.said import Said
from manyhot.data.readers.splits import splits_of_files
from manyhot.data.readers.tables import join_splits
from manyhot.data.sources import Files
from manyhot.data.targets import SparseTargets
from manyhot.refusal import refusal

KEYS = ("images", "categories", "annotations")


def is_coco(content: Any) -> bool:
    """Whether a JSON file has the three lists of COCO."""
    return isinstance(content, dict) and all(isinstance(content.get(key), list) for key in KEYS)


def read_coco(files: Sequence[Path], said: Said) -> Found:
    """Images of one or several files, which may be splits of one data set."""
    with _without_collection():
        parts = [_Part(path, said) for path in files]
    by_file = splits_of_files(files) if said.split_column is None else None
    names = list(dict.fromkeys(name for part in parts for name in part.names.values()))
    # Two files may speak of one image; two images may have one name, in different folders.
    written: dict[str, str] = {}
    owners, cells = [], []
    notes = [f"Read COCO annotations of {', '.join(path.name for path in files)}; images without any have no labels."]
    for part in parts:
        found, more = place_images(list(part.images.values()), part.path.parent, said, hints=part.folders())
        notes += [note for note in more if note not in notes]
        paths = [os.path.join(found.root, path) for path in found.paths]
        written |= {path: name for path, name in zip(paths, part.images.values(), strict=True) if path not in written}
        rows = {path: row for row, path in enumerate(written)}
        owners.append(np.array([rows[path] for path in paths], dtype=np.int64))
        cells.append(part.cells(owners[-1], names))
    table = np.concatenate(cells)
    federated = any(part.federated for part in parts)
    unlisted = said.means("unknown" if federated else "absent")
    targets = SparseTargets.from_cells(*table.T, shape=(len(written), len(names)), unlisted=unlisted)
    if federated:
        notes.append("Labels are known where an image lists them as present or absent, as in LVIS; others are unknown.")
    ids = list(written.values()) if len(set(written.values())) == len(written) else list(written)
    splits = None
    if by_file:
        told = np.repeat(np.array(by_file, dtype=object), [len(part.images) for part in parts])
        splits = join_splits(said.owner, ids, np.concatenate(owners), told)
        notes.append("Splits are told by the names of the files.")
    return Found(ids, Files(list(written)), names, targets, splits, notes)


@contextmanager
def _without_collection() -> Iterator[None]:
    """No search for garbage among millions of new objects of which none is any: it takes as long as reading them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class _Part:
    """One file.

    Attributes:
        images: The file name of each image, by its number.
        names: The name of each category, by its number.
        federated: Whether images list the categories that are known to be absent, and say nothing of the others.
    """

    def __init__(self, path: Path, said: Said) -> None:
        self.path, self._owner = path, said.owner
        content = _load(path, said)
        try:
            self.images = {image["id"]: _file_name(image) for image in content["images"]}
            self.names = {category["id"]: str(category["name"]) for category in content["categories"]}
            self._present = [(one["image_id"], one["category_id"]) for one in content["annotations"]]
        except (KeyError, TypeError) as error:
            got, remedy = f"{str(path)!r} with one that has no {error}", "Repair the file."
            raise refusal("path", said.owner, "describe every image, category and annotation", got, remedy) from None
        self.federated = any("neg_category_ids" in image for image in content["images"])
        self._absent = [(one["id"], number) for one in content["images"] for number in one.get("neg_category_ids", ())]

    def folders(self) -> list[Path]:
        """Where the images of COCO usually lie: `annotations/instances_train2017.json` beside `train2017/`."""
        above, end = self.path.parent.parent, self.path.stem.split("_")[-1]
        return [folder / name for folder in (above, above / "images", self.path.parent) for name in (end, "")]

    def cells(self, owners: np.ndarray[Any, Any], names: Sequence[str]) -> np.ndarray[Any, Any]:
        """(M, 3): row, column and value, 1 for each annotation and 0 for each category that is known to be absent.

        Args:
            owners: The row of each image of this file.
            names: The labels in the order of the columns.
        """
        rows = dict(zip(self.images, owners.tolist(), strict=True))
        places = {name: place for place, name in enumerate(names)}
        columns = {number: places[name] for number, name in self.names.items()}
        cells = []
        for pairs, value in ((self._present, 1), (self._absent, 0)):
            try:
                cells += [(rows[image], columns[category], value) for image, category in pairs]
            except KeyError:
                self._refuse(pairs)
        return np.array(cells, dtype=np.int64).reshape(-1, 3)

    def _refuse(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Names the first annotation of something that is not listed."""
        image, category = next((i, c) for i, c in pairs if i not in self.images or c not in self.names)
        stray = f"image {image!r}" if image not in self.images else f"category {category!r}"
        remedy = "Add it to the list, or drop the annotation."
        rule = "annotate images and categories that are listed"
        raise refusal("path", self._owner, rule, f"{stray} in {str(self.path)!r}", remedy)


def _file_name(image: dict[str, Any]) -> str:
    """The file of an image; LVIS has the address at COCO alone, of which folder and file matter."""
    return str(image["file_name"]) if "file_name" in image else "/".join(str(image["coco_url"]).split("/")[-2:])


def _load(path: Path, said: Said) -> dict[str, Any]:
    if not path.is_file():
        raise said.no_file(path)
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        got = f"{str(path)!r} ({error})"
        raise refusal("path", said.owner, "be JSON", got, "Repair the file.") from None
    if not is_coco(content):
        got, remedy = f"{str(path)!r} without them", "Pass a file of instances."
        raise refusal("path", said.owner, "hold lists of images, categories and annotations", got, remedy)
    found: dict[str, Any] = content
    return found
