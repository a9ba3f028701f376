"""Birds, cars, dogs, aircraft, flowers and plants: one label a picture, of many that are alike."""

import json
import os

from experiments.layouts.unpacked import Sample, Unpacked, in_folders, one_label, titled
from manyhot.data.dataset import Dataset

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
                raise folder.damaged(folder.need(file), "tells of every picture", f"none of number {number}")
        split = "train" if trains[number] == "1" else "test"
        samples.append(Sample(f"images/{path}", labels[number], split))
    return one_label(folder, samples, names=classes)


def read_cars(folder: Unpacked) -> Dataset:
    """Stanford Cars, by the tables of its development kit or in folders of classes."""
    sorted_in = next((place for place in CAR_FOLDERS if (folder.path / place / "train").is_dir()), None)
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
    places = (f"devkit/{file}", file)
    cars = folder.matrix("annotations", *places)
    if not {"class", "fname"} <= set(cars.dtype.names or ()):
        raise folder.damaged(folder.need(*places), "gives a class and a file to each car", str(cars.dtype.names))
    pictures = os.path.relpath(folder.need(f"cars_{split}/cars_{split}", f"cars_{split}"), folder.path)
    return [Sample(f"{pictures}/{car['fname']}", str(int(car["class"])), split) for car in cars]


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
    pictures = os.path.relpath(folder.need("images", "data/images"), folder.path)
    samples = []
    for split in ("train", "val", "test"):
        file = f"images_variant_{split}.txt"
        pairs = folder.pairs(file, f"data/{file}")
        samples += [Sample(f"{pictures}/{number}.jpg", name, split) for number, name in pairs]
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
                raise folder.damaged(file, "has a label for every picture", f"none of number {number}")
            samples.append(Sample(f"jpg/image_{number:05d}.jpg", f"{labels[number - 1]:03d}", split))
    words = _read_words(folder, "cat_to_name.json")
    names = {f"{number:03d}": titled(f"{number:03d}", words.get(str(number))) for number in range(1, max(labels) + 1)}
    note = "Splits are 'trnid', 'valid' and 'tstid' of setid.mat: most of the pictures are to be tested."
    return one_label(folder, samples, names=names, notes=[note])


def read_plantnet(folder: Unpacked) -> Dataset:
    """Pl@ntNet-300K, with labels such as "1355868 Lactuca virosa L."."""
    samples: list[Sample] = []
    for split in ("train", "val", "test"):
        top = folder.need(f"images/{split}", f"images_{split}")
        samples += in_folders(top, folder.path, split)
    words = _read_words(folder, "plantnet300K_species_id_2_name.json")
    names = {code: titled(code, words.get(code)) for code in sorted({sample.label for sample in samples})}
    return one_label(folder, samples, names=names)


def _read_words(folder: Unpacked, name: str) -> dict[str, str]:
    """The names of codes in a file of JSON; none where there is no such file."""
    file = folder.find(name)
    if file is None:
        return {}
    try:
        words = json.loads(file.read_bytes())
    except ValueError as error:
        raise folder.damaged(file, "is JSON", str(error)) from None
    if not isinstance(words, dict):
        raise folder.damaged(file, "maps numbers to names", type(words).__name__)
    return {str(code): str(word) for code, word in words.items()}
