"""CIFAR-10 and CIFAR-100 in their binary version, and pictures of any kind in .npz archives."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.layouts.subsets import CIFAR100
from experiments.layouts.unpacked import OWNER, Unpacked
from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files, ImageSource, Pixels
from manyhot.data.targets import SparseTargets
from manyhot.labels import Labels
from manyhot.refusal import Refusal, refusal

SIDE = 32
PIXELS = 3 * SIDE**2
SPLITS = ("train", "val", "test")


class Records(ImageSource):
    """Pictures of CIFAR's binary version, each read from its place in its file.

    Args:
        files: The files.
        places: (N, 2) which file each picture is in, and which record of it.
        before: Bytes of labels at the start of a record.
    """

    def __init__(self, files: Sequence[Path], places: Any, *, before: int) -> None:
        self.files, self.places, self.before = list(files), np.asarray(places).reshape(-1, 2), before

    def __len__(self) -> int:
        return len(self.places)

    def name(self, row: int) -> str:
        """The file, and the number of the record in it."""
        file, record = self.places[row].tolist()
        return f"{self.files[file].name}/{record}"

    def read(self, row: int) -> np.ndarray:
        """(32, 32, 3) uint8."""
        file, record = self.places[row].tolist()
        start = record * (self.before + PIXELS) + self.before
        planes = np.fromfile(self.files[file], dtype=np.uint8, count=PIXELS, offset=start)
        if len(planes) < PIXELS:
            raise OSError(f"{self.files[file]} ends within record {record}")
        return np.ascontiguousarray(planes.reshape(3, SIDE, SIDE).transpose(1, 2, 0))

    def identity(self, row: int) -> str:
        """What tells the file, and the record."""
        file, record = self.places[row].tolist()
        return f"{Files([str(self.files[file])]).identity(0)}|{record}"

    def take(self, rows: Any) -> "Records":
        """The pictures of these row numbers."""
        return Records(self.files, self.places[np.asarray(rows, dtype=np.int64)], before=self.before)


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
    """Fine labels; the coarse ones are held against those that `superclasses_of` gives."""
    if folder.find("train.npz"):
        return read_npz_splits(folder)
    if (folder.path / "train").is_file() and (folder.path / "meta").is_file():
        raise _pickled(folder, "cifar-100-binary.tar.gz")
    fine, coarse = folder.lines("fine_label_names.txt"), folder.lines("coarse_label_names.txt")
    dataset, labels = _read_records(folder, {"train.bin": "train", "test.bin": "test"}, fine, before=2)
    for above, below in np.unique(labels, axis=0).tolist():
        told = coarse[above] if above < len(coarse) else f"number {above}"
        if CIFAR100.get(fine[below]) != told:
            file = folder.need("coarse_label_names.txt")
            raise folder.damaged(file, "names the coarse label of every fine one", f"{told!r} for {fine[below]!r}")
    return dataset


def _pickled(folder: Unpacked, archive: str) -> Refusal:
    rule = f"hold the binary version of {folder.title}"
    got = f"the Python version in {str(folder.path)!r}, which is pickled and could run any code once it is opened"
    return refusal("folder", OWNER, rule, got, f"Download {archive!r} from the same page and unpack it.")


def _read_records(
    folder: Unpacked, parts: dict[str, str], names: Sequence[str], *, before: int
) -> tuple[Dataset, np.ndarray]:
    """The data set, and (N, before) all labels of each record, of which the last is the one that counts."""
    files = [folder.need(name) for name in parts]
    labels = [_labels_of(folder, file, len(names), before) for file in files]
    sizes = [len(part) for part in labels]
    places = np.stack([np.repeat(np.arange(len(files)), sizes), np.concatenate([np.arange(n) for n in sizes])], 1)
    table = np.concatenate(labels)
    images = Records(files, places, before=before)
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
    """One label a picture, of pictures that have no files of their own."""
    targets = SparseTargets(np.arange(len(columns) + 1), columns, num_labels=len(names))
    ids = [images.name(row) for row in range(len(images))]
    return Dataset(Labels(names), targets, ids, images=images, splits=splits, notes=[f"Read as {folder.title}."])
