"""Readers of the original data sets in the layout of their archives, and the subsets that the papers cut from them."""

import csv
import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from manyhot.checks import check_choice, check_int, check_number
from manyhot.data import read_data
from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files, ImageSource, Pixels
from manyhot.data.targets import SparseTargets
from manyhot.errors import InputError
from manyhot.image_paths import is_image
from manyhot.labels import Labels

OWNER = "read_layout"
VAL_IS_TEST = "The official validation data are the split 'test', since the labels of the test data are not published."


@dataclass(frozen=True)
class Unpacked:
    """A folder that holds a data set.

    Attributes:
        path: The folder that the data set's own paths start from.
        title: What the data set is called.
    """

    path: Path
    title: str

    def find(self, *names: str) -> Path | None:
        """The first of these files or folders that exists, or None."""
        return next((self.path / name for name in names if (self.path / name).exists()), None)

    def need(self, *names: str) -> Path:
        """The first of these files or folders that exists; raises an error that names them if none does."""
        path = self.find(*names)
        if path is None:
            raise self.missing(*names)
        return path

    def missing(self, *names: str) -> InputError:
        """The error for files of which none exists."""
        expected = " or ".join(repr(name) for name in names)
        got = f"{str(self.path)!r}, where it is missing"
        hint = f"Unpack the whole data set, or pass `name` if it is not {self.title}."
        return InputError("folder", OWNER, f"have {expected}, as {self.title} has", got, hint)

    def damaged(self, file: Path, rule: str, got: str) -> InputError:
        """The error for a file with unexpected content."""
        rule = f"have a file {file.name!r} that {rule}, as {self.title} has"
        return InputError("folder", OWNER, rule, got, "Unpack the data set once more.")

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
            keys = ", ".join(repr(name) for name in content if not name.startswith("__"))
            raise self.damaged(file, f"holds {key!r}", keys or "nothing")
        return np.atleast_1d(content[key])


def _import_scipy() -> Any:
    try:
        import scipy.io
    except ImportError:
        raise ImportError("Files of Matlab need SciPy. Install it with: pip install 'manyhot[vision]'") from None
    return scipy.io


class Sample(NamedTuple):
    """An image with one label.

    Attributes:
        path: Relative to the data set's folder.
        label: The name of its label.
        split: "train", "val" or "test".
    """

    path: str
    label: str
    split: str


def in_folders(top: Path, root: Path, split: str, *, below: str = "") -> Iterator[Sample]:
    """Images in one folder per class, in order; the label is the folder's name.

    Args:
        top: The folder of the classes' folders.
        root: The data set's folder.
        split: Of all of them.
        below: The folder within each class that has the images.
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
        folder: Of the images.
        samples: In the order of the rows.
        names: What to call each label, in the order of the columns; the labels themselves, sorted, by default.
        notes: How the reader interpreted the folder.
    """
    if names is None:
        names = {label: label for label in sorted({sample.label for sample in samples})}
    positions = {label: position for position, label in enumerate(names)}
    stray = next((sample for sample in samples if sample.label not in positions), None)
    if stray is not None:
        got = f"{stray.label!r} of {stray.path!r}"
        rule = f"have no labels but those that {folder.title} lists"
        raise InputError("folder", OWNER, rule, got, "Unpack the data set once more.")
    columns = np.array([positions[sample.label] for sample in samples], dtype=np.int64)
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
    """The data set of images in separate files; raises if the first image of a split does not exist."""
    if not paths:
        got = f"none in {str(folder.path)!r}"
        raise InputError("folder", OWNER, f"have the images of {folder.title}", got, "Unpack the whole data set.")
    for split in sorted(set(splits)):
        folder.need(paths[splits.index(split)])
    all_notes = [f"Read as {folder.title}.", *notes]
    images = Files(paths, root=folder.path)
    chosen = np.array(splits, dtype=object)
    return Dataset(Labels(names), targets, list(paths), images=images, splits=chosen, notes=all_notes)


def titled(code: str, name: str | None) -> str:
    """A code with its name: distinct, as names need not be, and still readable."""
    return f"{code} {name}" if name else code


GROUP = 5
WORDNET_ID = re.compile(r"n\d{8}\b")

_SUPERCLASSES = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
# The coarse label of each fine label of CIFAR-100.
CIFAR100 = {fine: coarse for coarse, fines in _SUPERCLASSES.items() for fine in fines.split()}


def superclasses_of(data: Dataset | Sequence[str]) -> list[str]:
    """The superclass of each label, in the order of the columns.

    CIFAR-100 has its own. Labels that start with a WordNet id (ImageNet, Tiny-ImageNet, Stanford Dogs) are sorted by
    it and cut into consecutive groups of five, or a few more where their number is no multiple of five. It
    approximates WordNet's tree, which is not available: ids are positions in a file that follows the tree for animals
    and plants, so that neighbours are related; artefacts are sorted by name in it, and their groups are arbitrary.

    Args:
        data: A data set, or the names of its labels.
    """
    names = list(data.labels.names if isinstance(data, Dataset) else data)
    if names and all(name in CIFAR100 for name in names):
        return [CIFAR100[name] for name in names]
    stray = next((name for name in names if not WORDNET_ID.match(name)), None)
    if stray is not None or not names:
        rule = "have the labels of CIFAR-100, or labels that start with a WordNet id such as 'n01443537'"
        got = "none" if stray is None else repr(stray)
        raise InputError("data", "superclasses_of", rule, got, "Write down the superclass of each label yourself.")
    order = sorted(range(len(names)), key=names.__getitem__)
    groups = [""] * len(names)
    for part in np.array_split(order, max(1, len(names) // GROUP)):
        ids = [names[column][:9] for column in part]
        for column in part:
            groups[column] = f"{ids[0]} to {ids[-1]}"
    return groups


def zero_label_columns(labels: Sequence[str], groups: Sequence[str], drop_per_group: int = 2) -> list[int]:
    """The columns that remain when some labels of each superclass are dropped: 60 of the 100 of CIFAR-100.

    The last names of each group in order are dropped, so that nothing depends on the order of columns or on a seed.
    Samples of the dropped labels become samples without a label: `dataset.select_labels` keeps them.

    Args:
        labels: (K,) the names of the labels.
        groups: (K,) the superclass of each.
        drop_per_group: How many labels of each superclass are dropped.

    Returns:
        The remaining columns, ascending.
    """
    owner = "zero_label_columns"
    if len(groups) != len(labels):
        rule = f"have one entry for each of the {len(labels)} labels"
        raise InputError("groups", owner, rule, str(len(groups)), "Pass what `superclasses_of` returns.")
    check_int("drop_per_group", owner, drop_per_group, low=1)
    members: dict[str, list[int]] = {}
    for column in sorted(range(len(labels)), key=labels.__getitem__):
        members.setdefault(groups[column], []).append(column)
    small = next((group for group, columns in members.items() if len(columns) <= drop_per_group), None)
    if small is not None:
        got, rule = f"{len(members[small])} in {small!r}", f"have more than {drop_per_group} labels each"
        raise InputError("groups", owner, rule, got, "Drop fewer, or join groups.")
    return sorted(column for columns in members.values() for column in columns[:-drop_per_group])


def long_tailed(labels_of_rows: Sequence[int] | np.ndarray, *, ratio: float = 100, seed: int = 0) -> np.ndarray:
    """The rows of an exponentially long-tailed subset, ascending.

    The class of rank i of L keeps n_max * ratio^(-i / (L - 1)) rows, rounded down, where n_max is the size of the
    largest class: `ratio` times as many in the first as in the last. Ranks, and the rows that remain, are drawn at
    random. A class that has fewer keeps all its rows, and every class keeps at least one.

    Args:
        labels_of_rows: (N,) the label of each row to train on, whole numbers from 0.
        ratio: Of the largest class to the smallest.
        seed: Of all that is drawn.
    """
    labels = np.asarray(labels_of_rows)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or (len(labels) and int(labels.min()) < 0):
        got = f"{labels.shape} of {labels.dtype}" if labels.ndim != 1 or labels.dtype.kind not in "iu" else "-1"
        rule, hint = "be (N,) of whole numbers from 0", "Pass one label a row, and leave out rows without any."
        raise InputError("labels_of_rows", "long_tailed", rule, got, hint)
    check_number("ratio", "long_tailed", ratio, "[1, inf)")
    draws = np.random.default_rng(seed)
    classes, sizes = np.unique(labels, return_counts=True)
    selected = [np.zeros(0, dtype=np.int64)]
    for rank, which in enumerate(draws.permutation(len(classes)).tolist()):
        share = ratio ** (-rank / max(len(classes) - 1, 1))
        # The last of 500 rows at a ratio of 100 shall be 5, whatever the power came to in its last digit.
        count = max(1, math.floor(int(sizes.max()) * share + 1e-9))
        selected.append(draws.permutation(np.flatnonzero(labels == classes[which]))[:count])
    return np.sort(np.concatenate(selected))


SIDE = 32
PIXELS = 3 * SIDE**2
SPLITS = ("train", "val", "test")


class Records(ImageSource):
    """Images of CIFAR's binary version, each read from its offset in its file.

    Args:
        files: The files.
        positions: (N, 2) index of the file of each image, and of its record.
        before: Bytes of labels at the start of a record.
    """

    def __init__(self, files: Sequence[Path], positions: Any, *, before: int) -> None:
        self.files, self.positions, self.before = list(files), np.asarray(positions).reshape(-1, 2), before

    def __len__(self) -> int:
        return len(self.positions)

    def name(self, row: int) -> str:
        """The file, and the number of the record in it."""
        file, record = self.positions[row].tolist()
        return f"{self.files[file].name}/{record}"

    def read(self, row: int) -> np.ndarray:
        """(32, 32, 3) uint8."""
        file, record = self.positions[row].tolist()
        start = record * (self.before + PIXELS) + self.before
        planes = np.fromfile(self.files[file], dtype=np.uint8, count=PIXELS, offset=start)
        if len(planes) < PIXELS:
            raise OSError(f"{self.files[file]} ends within record {record}")
        return np.ascontiguousarray(planes.reshape(3, SIDE, SIDE).transpose(1, 2, 0))

    def identity(self, row: int) -> str:
        """An identity of the file, and the record."""
        file, record = self.positions[row].tolist()
        return f"{Files([str(self.files[file])]).identity(0)}|{record}"

    def take(self, rows: Any) -> "Records":
        """The images of these row numbers."""
        return Records(self.files, self.positions[np.asarray(rows, dtype=np.int64)], before=self.before)


def read_cifar10(folder: Unpacked) -> Dataset:
    """Five batches to train on, one to test, ten labels."""
    if folder.find("train.npz"):
        return read_npz_splits(folder)
    if folder.find("batches.meta", "data_batch_1") and not folder.find("data_batch_1.bin"):
        raise _pickled(folder, "cifar-10-binary.tar.gz")
    parts = {f"data_batch_{number}.bin": "train" for number in range(1, 6)} | {"test_batch.bin": "test"}
    names = folder.lines("batches.meta.txt")
    return _read_records(folder, parts, names, before=1)[0]


def read_cifar100(folder: Unpacked) -> Dataset:
    """Fine labels; the coarse ones are checked against those of `superclasses_of`."""
    if folder.find("train.npz"):
        return read_npz_splits(folder)
    if (folder.path / "train").is_file() and (folder.path / "meta").is_file():
        raise _pickled(folder, "cifar-100-binary.tar.gz")
    fine, coarse = folder.lines("fine_label_names.txt"), folder.lines("coarse_label_names.txt")
    dataset, labels = _read_records(folder, {"train.bin": "train", "test.bin": "test"}, fine, before=2)
    for above, below in np.unique(labels, axis=0).tolist():
        listed = coarse[above] if above < len(coarse) else f"number {above}"
        if CIFAR100.get(fine[below]) != listed:
            file = folder.need("coarse_label_names.txt")
            raise folder.damaged(file, "names the coarse label of every fine one", f"{listed!r} for {fine[below]!r}")
    return dataset


def _pickled(folder: Unpacked, archive: str) -> InputError:
    rule = f"hold the binary version of {folder.title}"
    got = f"the Python version in {str(folder.path)!r}, which is pickled and could run any code once it is opened"
    return InputError("folder", OWNER, rule, got, f"Download {archive!r} from the same page and unpack it.")


def _read_records(
    folder: Unpacked, parts: dict[str, str], names: Sequence[str], *, before: int
) -> tuple[Dataset, np.ndarray]:
    """The data set, and (N, before) all labels of each record, of which the last is used."""
    files = [folder.need(name) for name in parts]
    labels = [_labels_of(folder, file, len(names), before) for file in files]
    sizes = [len(part) for part in labels]
    positions = np.stack([np.repeat(np.arange(len(files)), sizes), np.concatenate([np.arange(n) for n in sizes])], 1)
    table = np.concatenate(labels)
    images = Records(files, positions, before=before)
    splits = np.repeat(np.array(list(parts.values()), dtype=object), sizes)
    return _in_memory(folder, images, names, table[:, -1], splits), table


def _labels_of(folder: Unpacked, file: Path, count: int, before: int) -> np.ndarray:
    """(N, before) of one file."""
    size, length = file.stat().st_size, before + PIXELS
    if size % length or not size:
        raise folder.damaged(file, f"is made of records of {length:,} bytes", f"{size:,} bytes")
    labels = np.array(np.memmap(file, dtype=np.uint8, mode="r").reshape(-1, length)[:, :before])
    if int(labels[:, -1].max()) >= count:
        raise folder.damaged(file, f"has labels below {count}", str(labels[:, -1].max()))
    return labels


def read_npz_splits(folder: Unpacked) -> Dataset:
    """`train.npz` and `test.npz`, perhaps `val.npz`: images (N, H, W, 3) uint8, labels (N,) and names (K,)."""
    files = {split: folder.need(f"{split}.npz") for split in SPLITS if split != "val" or folder.find("val.npz")}
    parts = {split: _open_npz(folder, file) for split, file in files.items()}
    names = parts["train"][2].tolist()
    for split, (images, labels, named) in parts.items():
        if named.tolist() != names:
            raise folder.damaged(files[split], "names the labels of 'train.npz'", "others")
        if images.dtype != np.uint8 or images.ndim != 4 or labels.shape != images.shape[:1]:
            got = f"images {images.shape} of {images.dtype} and labels {labels.shape}"
            raise folder.damaged(files[split], "holds images (N, H, W, 3) of uint8 and labels (N,)", got)
        if len(labels) and not (labels.min() >= 0 and labels.max() < len(names)):
            raise folder.damaged(files[split], f"has labels from 0 to {len(names) - 1}", str(labels.max()))
    sizes = [len(labels) for _, labels, _ in parts.values()]
    ids = [f"{split}/{row}" for split, size in zip(parts, sizes, strict=True) for row in range(size)]
    source = Pixels(np.concatenate([images for images, _, _ in parts.values()]), names=ids)
    columns = np.concatenate([labels for _, labels, _ in parts.values()])
    return _in_memory(folder, source, names, columns, np.repeat(np.array(list(parts), dtype=object), sizes))


def _open_npz(folder: Unpacked, file: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    try:
        # NumPy leaves a file open that turns out to be no archive, unless it is ours to close.
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as content:
            return content["images"], content["labels"], content["names"].astype(str)
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise folder.damaged(file, "holds images, labels and names", str(error).strip("'\"")) from None


def _in_memory(
    folder: Unpacked, images: ImageSource, names: Sequence[str], columns: np.ndarray, splits: np.ndarray
) -> Dataset:
    """One label per image, for images without files of their own."""
    targets = SparseTargets(np.arange(len(columns) + 1), columns, num_labels=len(names))
    ids = [images.name(row) for row in range(len(images))]
    return Dataset(Labels(names), targets, ids, images=images, splits=splits, notes=[f"Read as {folder.title}."])


CAR_FOLDERS = ("car_data/car_data/", "car_data/", "")


def read_cub(folder: Unpacked) -> Dataset:
    """CUB-200-2011, with labels such as "001.Black_footed_Albatross"."""
    classes, labels = dict(folder.pairs("classes.txt")), dict(folder.pairs("image_class_labels.txt"))
    trains = dict(folder.pairs("train_test_split.txt"))
    folder.need("images")
    samples = []
    for number, path in folder.pairs("images.txt"):
        for table, file in ((labels, "image_class_labels.txt"), (trains, "train_test_split.txt")):
            if number not in table:
                raise folder.damaged(folder.need(file), "has every image", f"none of number {number}")
        split = "train" if trains[number] == "1" else "test"
        samples.append(Sample(f"images/{path}", labels[number], split))
    return one_label(folder, samples, names=classes)


def read_cars(folder: Unpacked) -> Dataset:
    """Stanford Cars, by the tables of its development kit or in folders of classes."""
    sorted_in = next((prefix for prefix in CAR_FOLDERS if (folder.path / prefix / "train").is_dir()), None)
    if sorted_in is not None:
        samples = [
            sample
            for split in ("train", "test")
            for sample in in_folders(folder.need(f"{sorted_in}{split}"), folder.path, split)
        ]
        return one_label(folder, samples)
    classes = folder.matrix("class_names", "devkit/cars_meta.mat", "cars_meta.mat")
    names = {str(number): str(name) for number, name in enumerate(classes.tolist(), start=1)}
    samples = _annotated_cars(folder, "train", "cars_train_annos.mat")
    samples += _annotated_cars(folder, "test", "cars_test_annos_withlabels.mat")
    return one_label(folder, samples, names=names)


def _annotated_cars(folder: Unpacked, split: str, file: str) -> list[Sample]:
    paths = (f"devkit/{file}", file)
    cars = folder.matrix("annotations", *paths)
    if not {"class", "fname"} <= set(cars.dtype.names or ()):
        raise folder.damaged(folder.need(*paths), "gives a class and a file to each car", str(cars.dtype.names))
    images = os.path.relpath(folder.need(f"cars_{split}/cars_{split}", f"cars_{split}"), folder.path)
    return [Sample(f"{images}/{car['fname']}", str(int(car["class"])), split) for car in cars]


def read_dogs(folder: Unpacked) -> Dataset:
    """Stanford Dogs, with labels such as "n02085620-Chihuahua", the folders of the breeds."""
    folder.need("Images")
    samples = []
    for split in ("train", "test"):
        files = folder.matrix("file_list", f"{split}_list.mat", f"lists/{split}_list.mat").astype(str).tolist()
        samples += [Sample(f"Images/{file}", file.split("/")[0], split) for file in files]
    return one_label(folder, samples)


def read_aircraft(folder: Unpacked) -> Dataset:
    """FGVC Aircraft, of which the variants are the labels."""
    names = {name: name for name in folder.lines("variants.txt", "data/variants.txt")}
    images = os.path.relpath(folder.need("images", "data/images"), folder.path)
    samples = []
    for split in ("train", "val", "test"):
        file = f"images_variant_{split}.txt"
        pairs = folder.pairs(file, f"data/{file}")
        samples += [Sample(f"{images}/{number}.jpg", name, split) for number, name in pairs]
    return one_label(folder, samples, names=names)


def read_flowers(folder: Unpacked) -> Dataset:
    """Flowers102 in its official split; names come from the `cat_to_name.json` that many have beside it."""
    labels = folder.matrix("labels", "imagelabels.mat").astype(int).tolist()
    folder.need("jpg")
    samples = []
    for key, split in (("trnid", "train"), ("valid", "val"), ("tstid", "test")):
        for number in folder.matrix(key, "setid.mat").astype(int).tolist():
            if not 0 < number <= len(labels):
                file = folder.need("imagelabels.mat")
                raise folder.damaged(file, "has a label for every image", f"none of number {number}")
            samples.append(Sample(f"jpg/image_{number:05d}.jpg", f"{labels[number - 1]:03d}", split))
    code_names = _read_code_names(folder, "cat_to_name.json")
    names = {
        f"{number:03d}": titled(f"{number:03d}", code_names.get(str(number))) for number in range(1, max(labels) + 1)
    }
    note = "Splits are 'trnid', 'valid' and 'tstid' of setid.mat: most of the images are test images."
    return one_label(folder, samples, names=names, notes=[note])


def read_plantnet(folder: Unpacked) -> Dataset:
    """Pl@ntNet-300K, with labels such as "1355868 Lactuca virosa L."."""
    samples: list[Sample] = []
    for split in ("train", "val", "test"):
        top = folder.need(f"images/{split}", f"images_{split}")
        samples += in_folders(top, folder.path, split)
    code_names = _read_code_names(folder, "plantnet300K_species_id_2_name.json")
    names = {code: titled(code, code_names.get(code)) for code in sorted({sample.label for sample in samples})}
    return one_label(folder, samples, names=names)


def _read_code_names(folder: Unpacked, name: str) -> dict[str, str]:
    """The names of codes in a JSON file; empty without such a file."""
    file = folder.find(name)
    if file is None:
        return {}
    try:
        code_names = json.loads(file.read_bytes())
    except ValueError as error:
        raise folder.damaged(file, "is JSON", str(error)) from None
    if not isinstance(code_names, dict):
        raise folder.damaged(file, "maps numbers to names", type(code_names).__name__)
    return {str(code): str(code_name) for code, code_name in code_names.items()}


YEARS = ("2014", "2017")
FLICKR = ("Flickr", "images", "Images", "")
SAMPLE = 200


def read_plain(folder: Unpacked) -> Dataset:
    """`labels.csv` with columns path, labels and split; labels are joined by "|", and blank for none."""
    table = folder.need("labels.csv")
    return read_data(table, path_column="path", labels_column="labels", split_column="split", separator="|")


def read_coco(folder: Unpacked) -> Dataset:
    """MS-COCO of one year, 2014 if both exist; the official validation data become "test"."""
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
    flat = (folder.path / "JPEGImages").is_dir()
    years = [folder.path] if flat else sorted(path.parent for path in folder.path.glob("VOC*/JPEGImages"))
    if not years:
        raise folder.missing("JPEGImages")
    for year in years:
        prefix = "" if flat else f"{year.name}/"
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
        images = os.path.relpath(year / "JPEGImages", folder.path)
        # What neither train nor val lists is training data, hence their order.
        for ending, split in (("train", "train"), ("val", "val"), ("test", "test"), ("trainval", "train")):
            for file in sorted((year / "ImageSets" / "Main").glob(f"*_{ending}.txt")):
                name = file.stem.removesuffix(f"_{ending}")
                for stem, value in folder.pairs(os.path.relpath(file, folder.path)):
                    path = f"{images}/{stem}.jpg"
                    splits.setdefault(path, split)
                    if value not in ("1", "0", "-1"):
                        raise folder.damaged(file, "has 1, 0 or -1 for each image", repr(value))
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
    """NUS-WIDE with its 81 concepts; images that could no longer be downloaded are left out."""
    concepts = folder.lines("Concepts81.txt", "ConceptsList/Concepts81.txt", "Groundtruth/Concepts81.txt")
    paths: list[str] = []
    splits: list[str] = []
    blocks = []
    for part, split in (("Train", "train"), ("Test", "test")):
        listed = folder.lines(f"ImageList/{part}Imagelist.txt", f"{part}Imagelist.txt")
        paths += [line.replace("\\", "/") for line in listed]
        splits += [split] * len(listed)
        blocks.append(np.stack([_concept(folder, concept, part, len(listed)) for concept in concepts], 1))
    top = _image_folder(folder, paths)
    available = [row for row, exists in enumerate(_exist(folder.path / top, paths)) if exists]
    if not available:
        got, hint = f"none in {str(folder.path / top)!r}, such as {paths[0]!r}", "Download them."
        raise InputError("folder", OWNER, "have the images of NUS-WIDE", got, hint)
    targets = SparseTargets.from_dense(np.concatenate(blocks)).take(available)
    lost = len(paths) - len(available)
    notes = [f"Left out {lost:,} of {len(paths):,} listed images, which do not exist."] if lost else []
    available_paths = [os.path.join(top, paths[row]) for row in available]
    return of_files(folder, available_paths, concepts, targets, [splits[row] for row in available], notes)


def _concept(folder: Unpacked, concept: str, part: str, count: int) -> np.ndarray:
    """(count,) 1 where the concept is present."""
    name = f"Labels_{concept}_{part}.txt"
    paths = (f"Groundtruth/TrainTestLabels/{name}", f"TrainTestLabels/{name}")
    lines = folder.lines(*paths)
    if len(lines) != count or not set(lines) <= {"0", "1"}:
        got = f"{len(lines):,} lines of {', '.join(sorted(set(lines))[:4])}"
        raise folder.damaged(folder.need(*paths), f"has 0 or 1 for each of {count:,} images", got)
    return np.array([line == "1" for line in lines])


def _image_folder(folder: Unpacked, paths: Sequence[str]) -> str:
    """The folder that holds most of the first images."""
    return max(FLICKR, key=lambda top: sum((folder.path / top / path).is_file() for path in paths[:SAMPLE]))


def _exist(root: Path, paths: Sequence[str]) -> list[bool]:
    """Whether each image exists; listing each folder takes a fraction of the time of checking each file."""
    inside: dict[str, set[str]] = {}
    for above in {os.path.dirname(path) for path in paths}:
        folder = root / above
        inside[above] = {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()
    return [os.path.basename(path) in inside[os.path.dirname(path)] for path in paths]


IMAGE_ROOTS = ("", "ILSVRC/Data/CLS-LOC/", "Data/CLS-LOC/")
DEVKITS = ("", "ILSVRC2012_devkit_t12/data/", "data/", "devkit/data/")


def read_tiny_imagenet(folder: Unpacked) -> Dataset:
    """200 classes with 500 training and 50 test images each."""
    ids = sorted(folder.lines("wnids.txt"))
    synonyms = dict(folder.pairs("words.txt"))
    samples = list(in_folders(folder.need("train"), folder.path, "train", below="images"))
    folder.need("val/images")
    for line in folder.lines("val/val_annotations.txt"):
        file, _, rest = line.partition("\t")
        samples.append(Sample(f"val/images/{file}", rest.split("\t")[0], "test"))
    names = {code: titled(code, _first_synonym(synonyms, code)) for code in ids}
    return one_label(folder, samples, names=names, notes=[VAL_IS_TEST])


def read_imagenet(folder: Unpacked) -> Dataset:
    """1,000 classes; validation images in one folder per class, or all in one folder with a list beside it."""
    train = folder.need(*(f"{root}train" for root in IMAGE_ROOTS))
    val = folder.need(*(f"{root}val" for root in IMAGE_ROOTS))
    samples = list(in_folders(train, folder.path, "train"))
    sorted_in = list(in_folders(val, folder.path, "test"))
    prefix = os.path.relpath(val, folder.path)
    samples += sorted_in or [Sample(f"{prefix}/{name}", code, "test") for name, code in _flat_val(folder, val)]
    synonyms = dict(folder.pairs("LOC_synset_mapping.txt")) if folder.find("LOC_synset_mapping.txt") else {}
    names = {
        code: titled(code, _first_synonym(synonyms, code))
        for code in sorted({s.label for s in samples if s.split == "train"})
    }
    return one_label(folder, samples, names=names, notes=[VAL_IS_TEST])


def _first_synonym(synonyms: dict[str, str], code: str) -> str:
    """The first of the synonyms of a WordNet id."""
    return synonyms.get(code, "").split(",")[0].strip()


def _flat_val(folder: Unpacked, val: os.PathLike[str]) -> list[tuple[str, str]]:
    """File and WordNet id of each validation image."""
    files = sorted(entry.name for entry in os.scandir(val) if is_image(entry.name))
    ground_truth = folder.find(*(f"{root}ILSVRC2012_validation_ground_truth.txt" for root in DEVKITS))
    if folder.find("LOC_val_solution.csv") or ground_truth is None:
        return _by_solution(folder, files)
    metas = [f"{root}meta.mat" for root in DEVKITS]
    synsets = folder.matrix("synsets", *metas)
    if not {"ILSVRC2012_ID", "WNID"} <= set(synsets.dtype.names or ()):
        raise folder.damaged(folder.need(*metas), "numbers its synsets", "none with a number and a WordNet id")
    codes = {int(one["ILSVRC2012_ID"]): str(one["WNID"]) for one in synsets}
    numbers = folder.lines(os.path.relpath(ground_truth, folder.path))
    if len(numbers) != len(files):
        raise folder.damaged(ground_truth, f"has a line for each of the {len(files):,} images", f"{len(numbers):,}")
    # The number of a line is that of the image, ILSVRC2012_val_00000001.JPEG and so on, hence their order by name.
    return [(file, codes.get(int(n), n) if n.isdecimal() else n) for file, n in zip(files, numbers, strict=True)]


def _by_solution(folder: Unpacked, files: list[str]) -> list[tuple[str, str]]:
    """By Kaggle's list, where each line has an image, then the class and box of each object."""
    lines = list(csv.reader(folder.lines("LOC_val_solution.csv", "ILSVRC2012_validation_ground_truth.txt")))
    codes = {line[0]: line[1].split()[0] for line in lines[1:] if len(line) > 1 and line[1].split()}
    stems = {file: os.path.splitext(file)[0] for file in files}
    unlabelled = next((file for file, stem in stems.items() if stem not in codes), None)
    if unlabelled is not None:
        hint = "Unpack the whole data set."
        raise InputError("folder", OWNER, "have a label for each image in 'LOC_val_solution.csv'", unlabelled, hint)
    return [(file, codes[stem]) for file, stem in stems.items()]


@dataclass(frozen=True)
class Layout:
    """The layout of a data set on disk.

    Attributes:
        title: Its usual name.
        folders: That its archives unpack into.
        patterns: Glob patterns, of which one, or all of a tuple, identify it among all later layouts.
        read: Its reader.
    """

    title: str
    folders: tuple[str, ...]
    patterns: tuple[str | tuple[str, ...], ...]
    read: Callable[[Unpacked], Dataset]

    def base(self, folder: Path) -> Path | None:
        """The folder that matches: this one, or one directly below it; None if neither does."""
        bases = (folder, *(folder / name for name in self.folders))
        return next((base for base in bases if self.is_at(base)), None)

    def is_at(self, folder: Path) -> bool:
        """Whether a pattern matches in this folder."""
        together = [(pattern,) if isinstance(pattern, str) else pattern for pattern in self.patterns]
        return any(all(next(folder.glob(part), None) is not None for part in pattern) for pattern in together)


# The order matters: patterns of later ones may match earlier ones, as `train/n01443537` of ImageNet in Tiny-ImageNet.
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
    """The name of the data set in a folder, or in the folder below that it was unpacked into.

    Args:
        folder: To search.

    Returns:
        A key of `LAYOUTS`; None if no layout matches.
    """
    path = _check_folder(folder, "find_layout")
    direct = next((name for name, layout in LAYOUTS.items() if layout.is_at(path)), None)
    if direct is not None:
        return direct
    below = [name for name, layout in LAYOUTS.items() if layout.base(path) is not None]
    if len(below) > 1:
        got = f"{' and '.join(map(repr, below))} in {str(path)!r}"
        raise InputError("folder", "find_layout", "hold one data set", got, "Pass the folder of one of them.")
    return below[0] if below else None


def read_layout(folder: str | os.PathLike[str], name: str | None = None) -> Dataset:
    """The data set in a folder, with its official splits "train", "val" and "test".

    Images are not opened here. Where the labels of the test data were never published, the official validation
    data are "test". A data set without validation data is read without: the experiment chooses what to set aside.

    Args:
        folder: As it was unpacked, or the folder right above.
        name: A key of `LAYOUTS`; detected by default.
    """
    path = _check_folder(folder, OWNER)
    if name is None:
        name = find_layout(path)
    if name is None:
        titles = ", ".join(layout.title for layout in LAYOUTS.values())
        got = f"{str(path)!r}, where no file identifies one of them"
        raise InputError("folder", OWNER, f"hold one of these data sets: {titles}", got, "Check the path.")
    layout = LAYOUTS[check_choice("name", OWNER, name, tuple(LAYOUTS))]
    return layout.read(Unpacked(layout.base(path) or path, layout.title))


def _check_folder(folder: str | os.PathLike[str], owner: str) -> Path:
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise InputError("folder", owner, "be a folder", f"{str(path)!r}, which does not exist", "Check the path.")
    return path
