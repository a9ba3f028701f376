"""Pascal VOC, MS-COCO, NUS-WIDE and the plain table: zero, one or many labels a picture."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.layouts.unpacked import OWNER, VAL_IS_TEST, Unpacked, of_files
from manyhot.data import read_data
from manyhot.data.dataset import Dataset
from manyhot.data.targets import SparseTargets
from manyhot.refusal import refusal

YEARS = ("2014", "2017")
FLICKR = ("Flickr", "images", "Images", "")
SAMPLE = 200


def read_plain(folder: Unpacked) -> Dataset:
    """`labels.csv` with columns path, labels and split; labels are joined by "|", and blank for none."""
    table = folder.need("labels.csv")
    return read_data(table, path_column="path", labels_column="labels", split_column="split", separator="|")


def read_coco(folder: Unpacked) -> Dataset:
    """MS-COCO of one year, 2014 where both are there; the official validation data become "test"."""
    trains = [f"annotations/instances_train{year}.json" for year in YEARS]
    train = folder.need(*trains)
    year = train.stem[-4:]
    val = folder.need(f"annotations/instances_val{year}.json")
    for split in ("train", "val"):
        folder.need(f"{split}{year}", f"images/{split}{year}", "images")
    dataset = read_data([train, val], layout="coco")
    both = folder.find(trains[0]) and folder.find(trains[1])
    more = [f"Of two years, {year} was read, as in most papers."] if both else []
    return _val_as_test(replace(dataset, notes=[f"Read as {folder.title}.", *dataset.notes, *more]))


def _val_as_test(dataset: Dataset) -> Dataset:
    splits = ["test" if split == "val" else split for split in np.asarray(dataset.splits).tolist()]
    return replace(dataset.with_splits(splits), notes=[*dataset.notes, VAL_IS_TEST])


def read_voc(folder: Unpacked) -> Dataset:
    """Pascal VOC of one or several years; a label of which all objects are difficult is unknown.

    Where no test data are published, as in 2012, the official validation data become "test".
    """
    here = (folder.path / "JPEGImages").is_dir()
    years = [folder.path] if here else sorted(path.parent for path in folder.path.glob("VOC*/JPEGImages"))
    if not years:
        raise folder.missing("JPEGImages")
    for year in years:
        prefix = "" if here else f"{year.name}/"
        folder.need(f"{prefix}ImageSets/Main")
        for split in ("train", "val", "test", "trainval"):
            if folder.find(f"{prefix}ImageSets/Main/{split}.txt"):
                folder.lines(f"{prefix}ImageSets/Main/{split}.txt")
        if year.name == "VOC2007" and not list((year / "ImageSets" / "Main").glob("*test.txt")):
            raise folder.missing(f"{prefix}ImageSets/Main/test.txt")
    annotated = all((year / "Annotations").is_dir() for year in years)
    dataset = read_data(folder.path, layout="voc") if annotated else _read_class_lists(folder, years)
    if dataset.splits is None:
        raise folder.missing("ImageSets/Main/train.txt")
    return dataset if "test" in dataset.split_sizes() else _val_as_test(dataset)


def _read_class_lists(folder: Unpacked, years: Sequence[Path]) -> Dataset:
    """By the lists of each class, in which 1 is present, -1 absent and 0 means difficult objects only."""
    splits: dict[str, str] = {}
    cells: dict[tuple[str, str], int] = {}
    for year in years:
        pictures = os.path.relpath(year / "JPEGImages", folder.path)
        # What neither train nor val lists is to train on, hence their order.
        for ending, split in (("train", "train"), ("val", "val"), ("test", "test"), ("trainval", "train")):
            for file in sorted((year / "ImageSets" / "Main").glob(f"*_{ending}.txt")):
                name = file.stem.removesuffix(f"_{ending}")
                for stem, value in folder.pairs(os.path.relpath(file, folder.path)):
                    path = f"{pictures}/{stem}.jpg"
                    splits.setdefault(path, split)
                    if value not in ("1", "0", "-1"):
                        raise folder.damaged(file, "has 1, 0 or -1 for each picture", repr(value))
                    cells[path, name] = {"1": 1, "0": -1, "-1": 0}[value]
    if not splits:
        raise folder.missing("Annotations", "ImageSets/Main/aeroplane_train.txt")
    rows, names = {path: row for row, path in enumerate(splits)}, sorted({name for _, name in cells})
    columns = {name: column for column, name in enumerate(names)}
    table = np.array([(rows[path], columns[name], value) for (path, name), value in cells.items() if value])
    targets = SparseTargets.from_cells(*table.reshape(-1, 3).T, shape=(len(rows), len(names)))
    notes = ["Labels are the lists of classes in ImageSets/Main, since there are no annotations."]
    return of_files(folder, list(splits), names, targets, list(splits.values()), notes)


def read_nus_wide(folder: Unpacked) -> Dataset:
    """NUS-WIDE with its 81 concepts; pictures that could no longer be downloaded are left out."""
    concepts = folder.lines("Concepts81.txt", "ConceptsList/Concepts81.txt", "Groundtruth/Concepts81.txt")
    paths: list[str] = []
    splits: list[str] = []
    blocks = []
    for part, split in (("Train", "train"), ("Test", "test")):
        listed = folder.lines(f"ImageList/{part}Imagelist.txt", f"{part}Imagelist.txt")
        paths += [line.replace("\\", "/") for line in listed]
        splits += [split] * len(listed)
        blocks.append(np.stack([_concept(folder, concept, part, len(listed)) for concept in concepts], 1))
    top = _picture_folder(folder, paths)
    kept = [row for row, there in enumerate(_are_there(folder.path / top, paths)) if there]
    if not kept:
        got, remedy = f"none in {str(folder.path / top)!r}, such as {paths[0]!r}", "Download them."
        raise refusal("folder", OWNER, "have the pictures of NUS-WIDE", got, remedy)
    targets = SparseTargets.from_dense(np.concatenate(blocks)).take(kept)
    lost = len(paths) - len(kept)
    notes = [f"Left out {lost:,} of {len(paths):,} listed pictures, which are not there."] if lost else []
    found = [os.path.join(top, paths[row]) for row in kept]
    return of_files(folder, found, concepts, targets, [splits[row] for row in kept], notes)


def _concept(folder: Unpacked, concept: str, part: str, count: int) -> np.ndarray:
    """(count,) 1 where the concept is present."""
    name = f"Labels_{concept}_{part}.txt"
    places = (f"Groundtruth/TrainTestLabels/{name}", f"TrainTestLabels/{name}")
    lines = folder.lines(*places)
    if len(lines) != count or not set(lines) <= {"0", "1"}:
        got = f"{len(lines):,} lines of {', '.join(sorted(set(lines))[:4])}"
        raise folder.damaged(folder.need(*places), f"has 0 or 1 for each of {count:,} pictures", got)
    return np.array([line == "1" for line in lines])


def _picture_folder(folder: Unpacked, paths: Sequence[str]) -> str:
    """Where most of the first pictures lie."""
    return max(FLICKR, key=lambda top: sum((folder.path / top / path).is_file() for path in paths[:SAMPLE]))


def _are_there(root: Path, paths: Sequence[str]) -> list[bool]:
    """Whether each picture is there; a look into each folder takes a fraction of the time of one at each file."""
    inside: dict[str, set[str]] = {}
    for above in {os.path.dirname(path) for path in paths}:
        folder = root / above
        inside[above] = {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()
    return [os.path.basename(path) in inside[os.path.dirname(path)] for path in paths]
