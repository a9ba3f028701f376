"""Which data set a folder holds, and the door to all of them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from experiments.layouts.cifar import read_cifar10, read_cifar100, read_npz_splits
from experiments.layouts.fine_grained import (
    read_aircraft,
    read_cars,
    read_cub,
    read_dogs,
    read_flowers,
    read_plantnet,
)
from experiments.layouts.many_labels import read_coco, read_nus_wide, read_plain, read_voc
from experiments.layouts.unpacked import OWNER, Unpacked
from experiments.layouts.wordnet import read_imagenet, read_tiny_imagenet
from manyhot.checks import check_choice
from manyhot.data.dataset import Dataset
from manyhot.refusal import refusal


@dataclass(frozen=True)
class Layout:
    """A data set as it lies on disk.

    Attributes:
        title: What people call it.
        folders: What it unpacks into.
        marks: Patterns of paths of which one alone, or several in a tuple, tell it from all that come after it.
        read: Its reader.
    """

    title: str
    folders: tuple[str, ...]
    marks: tuple[str | tuple[str, ...], ...]
    read: Callable[[Unpacked], Dataset]

    def base(self, folder: Path) -> Path | None:
        """The folder that has the marks: this one, or one right below it; None where neither does."""
        bases = (folder, *(folder / name for name in self.folders))
        return next((base for base in bases if self.is_at(base)), None)

    def is_at(self, folder: Path) -> bool:
        """Whether a mark is right here."""
        together = [(mark,) if isinstance(mark, str) else mark for mark in self.marks]
        return any(all(next(folder.glob(part), None) is not None for part in mark) for mark in together)


# The order matters: marks of later ones may occur in earlier ones, as `train/n01443537` of ImageNet in Tiny-ImageNet.
LAYOUTS = {
    "plain": Layout("a plain table", (), ("labels.csv",), read_plain),
    "cifar10": Layout(
        "CIFAR-10",
        ("cifar-10-batches-bin", "cifar-10-batches-py"),
        ("batches.meta.txt", "data_batch_*.bin", "batches.meta", "data_batch_1"),
        read_cifar10,
    ),
    "arrays": Layout("a pair of .npz archives", (), ("train.npz", "test.npz"), read_npz_splits),
    "tiny-imagenet": Layout(
        "Tiny-ImageNet",
        ("tiny-imagenet-200",),
        ("wnids.txt", "val/val_annotations.txt", "train/n[0-9]*/images"),
        read_tiny_imagenet,
    ),
    "voc": Layout(
        "Pascal VOC",
        ("VOCdevkit",),
        ("JPEGImages", "VOC20[0-9][0-9]/JPEGImages", "VOC20[0-9][0-9]/ImageSets"),
        read_voc,
    ),
    "coco": Layout("MS-COCO", ("coco", "COCO"), ("annotations/instances_*201[47].json",), read_coco),
    "nus-wide": Layout(
        "NUS-WIDE",
        ("NUS-WIDE", "NUS_WIDE", "nuswide"),
        ("ImageList/*Imagelist.txt", "Groundtruth/TrainTestLabels", "Concepts81.txt", "TrainImagelist.txt"),
        read_nus_wide,
    ),
    "cub": Layout(
        "CUB-200-2011",
        ("CUB_200_2011",),
        ("image_class_labels.txt", "train_test_split.txt", "images/001.Black_footed_Albatross"),
        read_cub,
    ),
    "cars": Layout(
        "Stanford Cars",
        ("stanford_cars", "car_data"),
        ("devkit/cars_*.mat", "cars_*.mat", "cars_train", "car_data", "train/* [12][09][0-9][0-9]/"),
        read_cars,
    ),
    "dogs": Layout(
        "Stanford Dogs",
        ("stanford_dogs", "dogs"),
        ("Images/n[0-9]*-*/", "train_list.mat", "lists/train_list.mat"),
        read_dogs,
    ),
    "aircraft": Layout(
        "FGVC Aircraft",
        ("fgvc-aircraft-2013b",),
        ("images_variant_*.txt", "data/images_variant_*.txt", "variants.txt", "data/variants.txt"),
        read_aircraft,
    ),
    "flowers102": Layout(
        "Flowers102",
        ("flowers-102", "flowers102", "oxford-102-flowers"),
        ("imagelabels.mat", "setid.mat", "jpg/image_00001.jpg"),
        read_flowers,
    ),
    "plantnet": Layout(
        "Pl@ntNet-300K",
        ("plantnet_300K",),
        ("plantnet300K_*.json", "images_train/[0-9]*/", "images/train/[0-9]*/"),
        read_plantnet,
    ),
    "imagenet": Layout(
        "ImageNet",
        ("imagenet", "ImageNet", "ILSVRC2012"),
        ("train/n[0-9]*/", "LOC_synset_mapping.txt", "ILSVRC/Data/CLS-LOC", "Data/CLS-LOC", "val/n[0-9]*/"),
        read_imagenet,
    ),
    "cifar100": Layout(
        "CIFAR-100",
        ("cifar-100-binary", "cifar-100-python"),
        ("fine_label_names.txt", "coarse_label_names.txt", "train.bin", ("meta", "train", "test")),
        read_cifar100,
    ),
}


def find_layout(folder: str | os.PathLike[str]) -> str | None:
    """The name of the data set that a folder holds, itself or in the folder that it was unpacked into.

    Args:
        folder: Where to look.

    Returns:
        A key of `LAYOUTS`; None where there is nothing that is known.
    """
    path = _check_folder(folder, "find_layout")
    direct = next((name for name, layout in LAYOUTS.items() if layout.is_at(path)), None)
    if direct is not None:
        return direct
    below = [name for name, layout in LAYOUTS.items() if layout.base(path) is not None]
    if len(below) > 1:
        got = f"{' and '.join(map(repr, below))} in {str(path)!r}"
        raise refusal("folder", "find_layout", "hold one data set", got, "Pass the folder of one of them.")
    return below[0] if below else None


def read_layout(folder: str | os.PathLike[str], name: str | None = None) -> Dataset:
    """The data set that a folder holds, with the splits "train", "val" and "test" that it officially has.

    Pictures are not opened here. Where the labels of the test data were never published, the official validation
    data are "test". A data set without validation data is read without: what to set aside is the experiment's choice.

    Args:
        folder: As it was unpacked, or the folder right above.
        name: A key of `LAYOUTS`; found out by default.
    """
    path = _check_folder(folder, OWNER)
    if name is None:
        name = find_layout(path)
    if name is None:
        titles = ", ".join(layout.title for layout in LAYOUTS.values())
        got = f"{str(path)!r}, where no file tells one of them"
        raise refusal("folder", OWNER, f"hold one of these data sets: {titles}", got, "Check the path.")
    layout = LAYOUTS[check_choice("name", OWNER, name, tuple(LAYOUTS))]
    return layout.read(Unpacked(layout.base(path) or path, layout.title))


def _check_folder(folder: str | os.PathLike[str], owner: str) -> Path:
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise refusal("folder", owner, "be a folder", f"{str(path)!r}, where there is none", "Check the path.")
    return path
