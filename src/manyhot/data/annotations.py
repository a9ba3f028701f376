"""Annotation formats: COCO and LVIS, Pascal VOC, and Open Images."""

from __future__ import annotations

import csv
import gc
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.image_tables import TableRows, conflicting_splits_error, join_splits, splits_by_file
from manyhot.data.sources import Files
from manyhot.data.targets import SparseTargets, index_names
from manyhot.errors import InputError, as_input_error, first_line
from manyhot.image_paths import resolve_image_files
from manyhot.labels import Labels
from manyhot.tables.arrow import as_numpy, pa
from manyhot.tables.columns import CANONICAL_SPLITS, ColumnRoles, ReadOptions
from manyhot.tables.reader import open_table


def read_coco(files: Sequence[Path], options: ReadOptions) -> Dataset:
    """Images of one or several files, which may be splits of one data set."""
    # The row of each image, by where it lies, and its name: two files may speak of one image, and two images may have
    # one name, in different folders.
    located: dict[str, tuple[int, str]] = {}
    names: dict[str, int] = {}
    image_rows, cells, federated = [], [], False
    notes = [f"Read COCO annotations of {', '.join(path.name for path in files)}; images without any have no labels."]
    for path in files:
        with _garbage_collection_off():
            images, categories, annotations, has_absent = _load_coco(path)
        columns = {category: names.setdefault(name, len(names)) for category, name in categories.items()}
        # Where the images usually lie: `annotations/instances_train2017.json` beside `train2017/`.
        parent, end = path.parent.parent, path.stem.split("_")[-1]
        hints = [folder / name for folder in (parent, parent / "images", path.parent) for name in (end, "")]
        paths, root, more = resolve_image_files(list(images.values()), path.parent, options, hints=hints)
        notes += [note for note in more if note not in notes]
        row_of: dict[Any, int] = {}
        for (image, name), image_path in zip(images.items(), paths, strict=True):
            location = os.path.join(root, image_path)
            row_of[image], _ = located.setdefault(location, (len(located), name))
        try:
            table = [(row_of[image], columns[category], value) for image, category, value in annotations]
        except KeyError:
            image, category, _ = next(one for one in annotations if one[0] not in row_of or one[1] not in columns)
            unknown = f"image {image!r}" if image not in row_of else f"category {category!r}"
            rule, hint = "annotate images and categories that are listed", "Add it to the list, or drop the annotation."
            raise InputError("path", rule=rule, got=f"{unknown} in {str(path)!r}", hint=hint) from None
        cells.append(np.array(table, dtype=np.int64).reshape(-1, 3))
        image_rows.append(np.array(list(row_of.values()), dtype=np.int64))
        federated |= has_absent
    unlisted = options.unlisted or ("unknown" if federated else "absent")
    targets = SparseTargets.from_cells(*np.concatenate(cells).T, shape=(len(located), len(names)), unlisted=unlisted)
    if federated:
        notes.append("Labels are known where an image lists them as present or absent, as in LVIS; others are unknown.")
    written = [name for _, name in located.values()]
    ids = written if len(set(written)) == len(written) else list(located)
    splits, more = splits_by_file(files, np.repeat(range(len(files)), list(map(len, image_rows))), options)
    splits = join_splits(ids, np.concatenate(image_rows), splits)
    return Dataset(Labels(list(names)), targets, ids, images=Files(list(located)), splits=splits, notes=notes + more)


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """No search for garbage among millions of new objects of which none is any: it takes as long as reading them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _load_coco(path: Path) -> tuple[dict[Any, str], dict[Any, str], list[tuple[Any, Any, int]], bool]:
    """One file.

    Returns:
        The file of each image and the name of each category, by their numbers; image, category and value of each
        annotation, 1 for present and 0 for known to be absent; and whether images list what is absent.
    """
    with as_input_error(repr(str(path)), ValueError, "be JSON", "Repair the file."):
        content = json.loads(path.read_bytes())
    keys = ("images", "categories", "annotations")
    if not (isinstance(content, dict) and all(isinstance(content.get(key), list) for key in keys)):
        rule, got = "hold lists of images, categories and annotations", f"{str(path)!r} without them"
        raise InputError("path", rule=rule, got=got, hint="Pass a file of instances.")
    try:
        images = {image["id"]: _image_file_name(image) for image in content["images"]}
        categories = {one["id"]: str(one["name"]) for one in content["categories"]}
        annotations = [(one["image_id"], one["category_id"], 1) for one in content["annotations"]]
    except (KeyError, TypeError) as error:
        rule, got = "describe every image, category and annotation", f"{str(path)!r} with one that has no {error}"
        raise InputError("path", rule=rule, got=got, hint="Repair the file.") from None
    annotations += [
        (image["id"], category, 0) for image in content["images"] for category in image.get("neg_category_ids", ())
    ]
    return images, categories, annotations, any("neg_category_ids" in image for image in content["images"])


def _image_file_name(image: dict[str, Any]) -> str:
    """The file of an image; LVIS has the address at COCO alone, of which folder and file matter."""
    return str(image["file_name"]) if "file_name" in image else "/".join(str(image["coco_url"]).split("/")[-2:])


def find_voc(folder: Path) -> list[Path]:
    """The folders of VOC at a path or right below it, each with `Annotations`: one a year in a `VOCdevkit`."""

    def is_voc(path: Path) -> bool:
        return (path / "Annotations").is_dir() and (path / "JPEGImages").is_dir()

    tops = [top for top in (folder, folder / "VOCdevkit") if top.is_dir()]
    years = (Path(entry.path) for top in tops for entry in os.scandir(top) if entry.is_dir())
    return [top for top in tops if is_voc(top)] or sorted(filter(is_voc, years))


def read_voc(folders: Sequence[Path], options: ReadOptions) -> Dataset:
    """Images of one or several years."""
    top = Path(os.path.commonpath(folders)) if len(folders) > 1 else folders[0]
    ids: list[str] = []
    splits: list[str] = []
    cells: list[tuple[int, str, int]] = []
    unannotated = 0
    for folder in folders:
        split_of = _read_split_lists(folder)
        files = {os.path.splitext(entry.name)[0]: entry.name for entry in os.scandir(folder / "JPEGImages")}
        for stem in split_of or sorted(path.stem for path in (folder / "Annotations").glob("*.xml")):
            path = folder / "Annotations" / f"{stem}.xml"
            if not path.is_file():
                unannotated += 1
                continue
            cells += [(len(ids), name, value) for name, value in _read_objects(path).items()]
            ids.append(os.path.relpath(folder / "JPEGImages" / files.get(stem, f"{stem}.jpg"), top))
            splits.append(split_of.get(stem, ""))
    rows, names, values = zip(*cells, strict=True) if cells else ((), (), ())
    labels, targets = index_names(rows, names, values, num_rows=len(ids), unlisted=options.unlisted or "absent")
    notes = [f"Read VOC annotations of {', '.join(repr(folder.name) for folder in folders)}."]
    unknown = values.count(-1)
    notes += [f"{unknown:,} labels are unknown, because all their objects are marked as difficult."] if unknown else []
    notes += [f"Left out {unannotated:,} listed images without annotations."] if unannotated else []
    has_splits = all(splits) and bool(splits) and options.split_column is None
    notes += ["Splits are the lists in ImageSets/Main."] if has_splits else []
    split_array = np.array(splits, dtype=object) if has_splits else None
    return Dataset(labels, targets, ids, images=Files(ids, root=top), splits=split_array, notes=notes)


def _read_split_lists(folder: Path) -> dict[str, str]:
    """The split of each image; `trainval` counts for what neither train nor val lists."""
    entries: dict[str, str] = {}
    for name in ("train", "val", "test", "trainval"):
        path = folder / "ImageSets" / "Main" / f"{name}.txt"
        split = CANONICAL_SPLITS.get(name, "train")
        for line in path.read_text(encoding="utf-8").split("\n") if path.is_file() else ():
            for stem in line.split()[:1]:
                if entries.setdefault(stem, split) != split and name != "trainval":
                    raise conflicting_splits_error(stem, entries[stem], split)
    return entries


def _read_objects(path: Path) -> dict[str, int]:
    """1 for each label with an object that is not difficult, -1 for each with difficult ones only."""
    with as_input_error(repr(str(path)), ElementTree.ParseError, "hold whole XML files", "Repair or remove it."):
        root = ElementTree.parse(path).getroot()
    values: dict[str, int] = {}
    for item in root.iter("object"):
        name = (item.findtext("name") or "").strip()
        difficult = (item.findtext("difficult") or "0").strip() == "1"
        if name:
            values[name] = max(values.get(name, -1), -1 if difficult else 1)
    return values


OPEN_IMAGES_COLUMNS = ("ImageID", "LabelName", "Confidence")


def read_open_images(files: Sequence[Path], options: ReadOptions) -> Dataset:
    """Images of one or several tables, with verified negatives."""
    image, label, confidence = OPEN_IMAGES_COLUMNS
    tables = [open_table(path, delimiter=options.delimiter) for path in files]
    for column in OPEN_IMAGES_COLUMNS:
        options.column("path", column, tables[0].columns)
    rows = TableRows(tables, ColumnRoles(path=image, lists=label, id=confidence), options)
    ids, image_rows, images, image_notes = rows.images()
    codes, label_codes = rows.encode(label)
    try:
        values = as_numpy(rows.columns.column(confidence).cast(pa.float64()))
    except pa.ArrowInvalid as error:
        got, hint = first_line(error), "Write 1 for present and 0 for absent."
        raise InputError(confidence, rule="be a number in every row", got=got, hint=hint) from None
    verified = (values == 0) | (values == 1)
    names, unlisted = describe_codes(codes, _descriptions(files, options)), options.unlisted or "unknown"
    cells = {"values": values[verified], "codes": label_codes[verified]}
    labels, targets = index_names(image_rows[verified], names, **cells, num_rows=len(ids), unlisted=unlisted)
    notes = [f"Read {len(image_rows):,} rows of Open Images; confidence 1 is present, 0 absent.", *image_notes]
    notes.append(f"Labels that are not listed for an image are {unlisted}.")
    if not verified.all():
        count = np.count_nonzero(~verified)
        notes.append(f"Left out {count:,} rows of a confidence between 0 and 1, which are not verified.")
    splits, more = rows.splits()
    splits = join_splits(ids, image_rows, splits)
    return Dataset(labels, targets, ids, images=images, splits=splits, notes=notes + more)


def _descriptions(files: Sequence[Path], options: ReadOptions) -> dict[str, str]:
    """The name of each code, from the file that the user named or one beside the tables."""
    path = options.descriptions or min(files[0].parent.glob("*class-descriptions*.csv"), default=None)
    if path is None:
        return {}
    if not path.is_file():
        rule, got = "be a file of codes and names", f"{str(path)!r}, where there is none"
        raise InputError("descriptions", rule=rule, got=got, hint="Check the path.")
    with path.open(encoding="utf-8-sig", newline="") as file:
        return {row[0]: row[1] for row in csv.reader(file) if len(row) > 1}


def describe_codes(codes: Sequence[str], descriptions: dict[str, str]) -> list[str]:
    """A name for each code; a name that two codes share is followed by the code.

    Example:
        >>> describe_codes(["/m/1", "/m/2", "/m/3"], {"/m/1": "Bat", "/m/2": "Bat"})
        ['Bat (/m/1)', 'Bat (/m/2)', '/m/3']
    """
    names = [descriptions.get(code, code) for code in codes]
    shared = Counter(names)
    return [f"{name} ({code})" if shared[name] > 1 else name for name, code in zip(names, codes, strict=True)]
