"""ImageNet and Tiny-ImageNet, whose labels are WordNet ids; their official validation data become "test"."""

import csv
import os

from experiments.layouts.unpacked import OWNER, VAL_IS_TEST, Sample, Unpacked, in_folders, one_label, titled
from manyhot.data.dataset import Dataset
from manyhot.image_formats import is_image
from manyhot.refusal import refusal

PLACES = ("", "ILSVRC/Data/CLS-LOC/", "Data/CLS-LOC/")
DEVKITS = ("", "ILSVRC2012_devkit_t12/data/", "data/", "devkit/data/")


def read_tiny_imagenet(folder: Unpacked) -> Dataset:
    """200 classes of 500 pictures to train on and 50 to test."""
    ids = sorted(folder.lines("wnids.txt"))
    words = dict(folder.pairs("words.txt"))
    samples = list(in_folders(folder.need("train"), folder.path, "train", below="images"))
    folder.need("val/images")
    for line in folder.lines("val/val_annotations.txt"):
        file, _, rest = line.partition("\t")
        samples.append(Sample(f"val/images/{file}", rest.split("\t")[0], "test"))
    names = {code: titled(code, _first(words, code)) for code in ids}
    return one_label(folder, samples, names=names, notes=[VAL_IS_TEST])


def read_imagenet(folder: Unpacked) -> Dataset:
    """1,000 classes; validation pictures in folders of classes, or all in one with a list beside it."""
    train = folder.need(*(f"{place}train" for place in PLACES))
    val = folder.need(*(f"{place}val" for place in PLACES))
    samples = list(in_folders(train, folder.path, "train"))
    sorted_in = list(in_folders(val, folder.path, "test"))
    prefix = os.path.relpath(val, folder.path)
    samples += sorted_in or [Sample(f"{prefix}/{name}", code, "test") for name, code in _flat_val(folder, val)]
    words = dict(folder.pairs("LOC_synset_mapping.txt")) if folder.find("LOC_synset_mapping.txt") else {}
    names = {
        code: titled(code, _first(words, code)) for code in sorted({s.label for s in samples if s.split == "train"})
    }
    return one_label(folder, samples, names=names, notes=[VAL_IS_TEST])


def _first(words: dict[str, str], code: str) -> str:
    """The first of the synonyms of a WordNet id."""
    return words.get(code, "").split(",")[0].strip()


def _flat_val(folder: Unpacked, val: os.PathLike[str]) -> list[tuple[str, str]]:
    """File and WordNet id of each validation picture."""
    files = sorted(entry.name for entry in os.scandir(val) if is_image(entry.name))
    truth = folder.find(*(f"{place}ILSVRC2012_validation_ground_truth.txt" for place in DEVKITS))
    if folder.find("LOC_val_solution.csv") or truth is None:
        return _by_solution(folder, files)
    metas = [f"{place}meta.mat" for place in DEVKITS]
    synsets = folder.matrix("synsets", *metas)
    if not {"ILSVRC2012_ID", "WNID"} <= set(synsets.dtype.names or ()):
        raise folder.damaged(folder.need(*metas), "numbers its synsets", "none with a number and a WordNet id")
    codes = {int(one["ILSVRC2012_ID"]): str(one["WNID"]) for one in synsets}
    numbers = folder.lines(os.path.relpath(truth, folder.path))
    if len(numbers) != len(files):
        raise folder.damaged(truth, f"has a line for each of the {len(files):,} pictures", f"{len(numbers):,}")
    # The number of a line is that of the picture, ILSVRC2012_val_00000001.JPEG and so on, hence their order by name.
    return [(file, codes.get(int(n), n) if n.isdecimal() else n) for file, n in zip(files, numbers, strict=True)]


def _by_solution(folder: Unpacked, files: list[str]) -> list[tuple[str, str]]:
    """By Kaggle's list, of which each line has a picture, then the class and box of each object."""
    lines = list(csv.reader(folder.lines("LOC_val_solution.csv", "ILSVRC2012_validation_ground_truth.txt")))
    codes = {line[0]: line[1].split()[0] for line in lines[1:] if len(line) > 1 and line[1].split()}
    stems = {file: os.path.splitext(file)[0] for file in files}
    untold = next((file for file, stem in stems.items() if stem not in codes), None)
    if untold is not None:
        remedy = "Unpack the whole data set."
        raise refusal("folder", OWNER, "have a label for each picture in 'LOC_val_solution.csv'", untold, remedy)
    return [(file, codes[stem]) for file, stem in stems.items()]
