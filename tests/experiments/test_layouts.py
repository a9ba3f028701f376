"""Every data set in its original layout: found, and read back against what was written."""

import sys
from contextlib import suppress

import numpy as np
import pytest
from scipy.io import savemat

from experiments.datasets import LAYOUTS, find_layout, read_layout
from manyhot.data.sources import read_image
from manyhot.errors import InputError
from manyhot.image_paths import is_image
from tests.errors.expected import raises_input_error
from tests.experiments import unpacked_sets
from tests.experiments.unpacked_sets import BLUE, SETS, matlab, paint, write


def rows(data):
    """Labels and split of each id; a label that is unknown ends with a question mark."""
    signs = {1: "", -1: "?"}
    result = {}
    for name, targets, split in zip(data.ids, data.targets.dense().tolist(), data.splits.tolist(), strict=True):
        known = [data.labels.names[k] + signs[value] for k, value in enumerate(targets) if value]
        result[name] = (" ".join(known), split)
    return result


def message(folder, name=None):
    with pytest.raises(InputError) as caught:
        read_layout(folder, name)
    return str(caught.value).replace(str(folder), "HERE")


def test_every_layout_has_a_set_to_be_tested_by():
    assert set(SETS) == set(LAYOUTS)


@pytest.mark.parametrize("name", SETS)
def test_layouts_are_found_and_read(tmp_path, name):
    build, shown, colour = SETS[name]
    expected = build(tmp_path)
    assert find_layout(tmp_path) == name
    data = read_layout(tmp_path)
    assert rows(data) == expected
    assert set(data.splits) <= {"train", "val", "test"}
    assert data.notes
    image = np.asarray(read_image(data.images, data.ids.index(shown)))
    assert image.shape[2] == 3
    assert np.abs(image.astype(int) - colour).max() <= 12
    for row in range(len(data)):
        read_image(data.images, row)


@pytest.mark.parametrize("name", [name for name, layout in LAYOUTS.items() if layout.folders])
def test_the_folder_itself_is_as_good_as_the_one_above(tmp_path, name):
    expected = SETS[name][0](tmp_path)
    base = LAYOUTS[name].base(tmp_path)
    assert find_layout(base) == name
    assert rows(read_layout(base, name)) == expected


@pytest.mark.parametrize("name", SETS)
def test_pictures_stay_with_their_rows(tmp_path, name):
    SETS[name][0](tmp_path)
    data = read_layout(tmp_path)
    turned = data.take(np.arange(len(data))[::-1])
    for row, id_ in enumerate(turned.ids):
        before = data.ids.index(id_)
        assert turned.images.identity(row) == data.images.identity(before)
        assert read_image(turned.images, row).tobytes() == read_image(data.images, before).tobytes()
    assert len({data.images.identity(row) for row in range(len(data))}) >= len(data) - (name == "arrays")


def test_labels_keep_the_order_of_the_original_lists(tmp_path):
    unpacked_sets.aircraft(tmp_path / "aircraft")
    assert read_layout(tmp_path / "aircraft").labels.names == ["707-320", "Falcon 2000", "F/A-18"]
    unpacked_sets.cars(tmp_path / "cars")
    assert read_layout(tmp_path / "cars").labels.names == ["AM General Hummer SUV 2000", "Acura RL Sedan 2012"]
    unpacked_sets.coco(tmp_path / "coco")
    assert read_layout(tmp_path / "coco").labels.names == ["person", "dog"]
    unpacked_sets.tiny_imagenet(tmp_path / "tiny")
    assert read_layout(tmp_path / "tiny").labels.names == ["n01443537 goldfish", "n02124075 Egyptian cat"]


def test_cifar_is_not_read_into_memory_as_a_whole(tmp_path):
    unpacked_sets.cifar100(tmp_path)
    data = read_layout(tmp_path)
    file = tmp_path / "cifar-100-binary/train.bin"
    content = bytearray(file.read_bytes())
    content[2:1026] = bytes([77]) * 1024
    file.write_bytes(bytes(content))
    assert data.images.read(0)[..., 0].min() == 77
    file.write_bytes(bytes(content[:5000]))
    with raises_input_error(match=r"train.bin/1' cannot be read: .* ends within record 1"):
        read_image(data.images, 1)


def test_rows_of_pixels_of_cifar_are_rows(tmp_path):
    unpacked_sets.cifar10(tmp_path)
    planes = np.zeros((3, 32, 32), dtype=np.uint8)
    planes[1, 0, 5] = 200  # green, in the first row and the sixth column
    (tmp_path / "cifar-10-batches-bin/test_batch.bin").write_bytes(b"\x01" + planes.tobytes())
    data = read_layout(tmp_path)
    pixels = np.asarray(read_image(data.images, data.ids.index("test_batch.bin/0")))
    assert np.argwhere(pixels).tolist() == [[0, 5, 1]]


def test_arrays_may_have_validation_data_and_be_called_by_the_name_of_the_set(tmp_path):
    expected = unpacked_sets.arrays(tmp_path)
    (tmp_path / "val.npz").write_bytes((tmp_path / "test.npz").read_bytes())
    assert rows(read_layout(tmp_path, "cifar10")) == expected | {"val/0": ("dog", "val")}


def test_voc_without_published_test_data_is_tested_on_its_validation_data(tmp_path):
    unpacked_sets.voc(tmp_path, "VOC2012", {"train": "000001", "val": "000002"})
    data = read_layout(tmp_path)
    assert data.split_sizes() == {"train": 1, "test": 1}
    assert any("official validation data" in note for note in data.notes)


def test_voc_of_two_years_is_tested_on_the_one_that_has_test_data(tmp_path):
    unpacked_sets.voc(tmp_path)
    unpacked_sets.voc(tmp_path, "VOC2012", {"train": "000001", "val": "000002"})
    data = read_layout(tmp_path)
    assert data.split_sizes() == {"train": 2, "val": 2, "test": 1}
    assert rows(data)["VOC2012/JPEGImages/000001.jpg"] == ("dog person?", "train")


def test_voc_is_read_by_lists_of_classes_where_there_are_no_annotations(tmp_path):
    main = tmp_path / "VOCdevkit/VOC2007/ImageSets/Main"
    write(main / "dog_train.txt", "000001  1")
    write(main / "person_train.txt", "000001  0")
    write(main / "dog_trainval.txt", "000001  1", "000004 -1")
    write(main / "person_trainval.txt", "000001  0", "000004  1")
    write(main / "dog_test.txt", "000003 -1")
    write(main / "person_test.txt", "000003 -1")
    for stem in ("000001", "000003", "000004"):
        paint(tmp_path / f"VOCdevkit/VOC2007/JPEGImages/{stem}.jpg")
    assert rows(read_layout(tmp_path)) == {
        "VOC2007/JPEGImages/000001.jpg": ("dog person?", "train"),
        "VOC2007/JPEGImages/000003.jpg": ("", "test"),
        "VOC2007/JPEGImages/000004.jpg": ("person", "train"),
    }


def test_coco_of_two_years_is_read_as_2014(tmp_path):
    expected = unpacked_sets.coco(tmp_path)
    unpacked_sets.coco(tmp_path, "2017")
    data = read_layout(tmp_path)
    assert rows(data) == expected
    assert any("2014 was read" in note for note in data.notes)


def test_nus_wide_leaves_out_pictures_that_are_gone(tmp_path):
    unpacked_sets.nus_wide(tmp_path)
    assert "Left out 1 of 4 listed images, which do not exist." in read_layout(tmp_path).notes


def flat_imagenet(top):
    """As Kaggle packs it: validation images in one folder."""
    for code in ("n01440764", "n02085620"):
        paint(top / f"ILSVRC/Data/CLS-LOC/train/{code}/{code}_1.JPEG")
    for number in (1, 2):
        paint(top / f"ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_{number:08d}.JPEG")


def test_imagenet_with_all_validation_pictures_in_one_folder_is_read_by_its_list(tmp_path):
    flat_imagenet(tmp_path)
    lines = (
        "ILSVRC2012_val_00000002,n01440764 1 2 3 4 ",
        "ILSVRC2012_val_00000001,n02085620 1 2 3 4 n02085620 5 6 7 8 ",
    )
    write(tmp_path / "LOC_val_solution.csv", "ImageId,PredictionString", *lines)
    result = rows(read_layout(tmp_path))
    assert result["ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG"] == ("n02085620", "test")
    assert result["ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000002.JPEG"] == ("n01440764", "test")
    write(tmp_path / "LOC_val_solution.csv", "ImageId,PredictionString", lines[0])
    assert message(tmp_path) == (
        "`folder` of `read_layout` must have a label for each image in 'LOC_val_solution.csv'; "
        "got ILSVRC2012_val_00000001.JPEG. Unpack the whole data set."
    )


def test_imagenet_is_read_by_the_numbers_of_its_development_kit(tmp_path):
    flat_imagenet(tmp_path)
    assert "'LOC_val_solution.csv' or 'ILSVRC2012_validation_ground_truth.txt', as ImageNet has" in message(tmp_path)
    kit = tmp_path / "ILSVRC2012_devkit_t12/data"
    write(kit / "ILSVRC2012_validation_ground_truth.txt", "2", "1")
    kind = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O")]
    synsets = [(np.uint16(1), "n02085620", "Chihuahua"), (np.uint16(2), "n01440764", "tench, Tinca tinca")]
    matlab(kit / "meta.mat", synsets=np.array(synsets, dtype=kind))
    result = rows(read_layout(tmp_path))
    assert result["ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG"] == ("n01440764", "test")
    assert result["ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000002.JPEG"] == ("n02085620", "test")
    write(kit / "ILSVRC2012_validation_ground_truth.txt", "2")
    assert "that has a line for each of the 2 images, as ImageNet has; got 1" in message(tmp_path)


def test_cars_in_folders_of_classes_are_read(tmp_path):
    for path in (
        "train/Audi TT RS Coupe 2012/1.jpg",
        "test/Audi TT RS Coupe 2012/2.jpg",
        "train/BMW M3 Coupe 2012/3.jpg",
    ):
        paint(tmp_path / "car_data/car_data" / path)
    result = rows(read_layout(tmp_path))
    assert result["car_data/car_data/test/Audi TT RS Coupe 2012/2.jpg"] == ("Audi TT RS Coupe 2012", "test")
    assert len(result) == 3
    assert find_layout(tmp_path / "car_data/car_data") == "cars"
    assert len(read_layout(tmp_path / "car_data/car_data")) == 3


def test_plantnet_has_two_forms(tmp_path):
    expected = unpacked_sets.plantnet(tmp_path, "images_{}")
    assert rows(read_layout(tmp_path)) == expected


def test_lists_of_dogs_may_lie_in_a_folder(tmp_path):
    expected = unpacked_sets.dogs(tmp_path)
    (tmp_path / "lists").mkdir()
    for name in ("train_list.mat", "test_list.mat"):
        (tmp_path / name).rename(tmp_path / "lists" / name)
    assert rows(read_layout(tmp_path)) == expected


def test_a_folder_of_something_else_is_not_taken_for_any(tmp_path):
    paint(tmp_path / "holiday/1.jpg", BLUE)
    assert find_layout(tmp_path) is None
    assert "must hold one of these data sets: a plain table, CIFAR-10," in message(tmp_path)
    assert message(tmp_path, "mnist").startswith("`name` of `read_layout` must be one of 'plain', 'cifar10'")
    with raises_input_error("folder", "find_layout", rule="be a folder"):
        find_layout(tmp_path / "nowhere")


def test_a_folder_above_several_sets_is_read_by_name(tmp_path):
    unpacked_sets.cifar10(tmp_path)
    expected = unpacked_sets.cub(tmp_path)
    with raises_input_error(rule="hold one data set", got="'cifar10' and 'cub' in"):
        find_layout(tmp_path)
    assert rows(read_layout(tmp_path, "cub")) == expected


# What to remove of each set, and how the error calls it.
NEEDED = [
    ("cifar10", "cifar-10-batches-bin/data_batch_3.bin", "'data_batch_3.bin', as CIFAR-10 has"),
    ("cifar10", "cifar-10-batches-bin/batches.meta.txt", "'batches.meta.txt', as CIFAR-10 has"),
    ("cifar100", "cifar-100-binary/coarse_label_names.txt", "'coarse_label_names.txt', as CIFAR-100 has"),
    ("arrays", "test.npz", "'test.npz', as a pair of .npz archives has"),
    ("tiny-imagenet", "tiny-imagenet-200/words.txt", "'words.txt', as Tiny-ImageNet has"),
    ("tiny-imagenet", "tiny-imagenet-200/val/images/val_0.JPEG", "'val/images/val_0.JPEG', as Tiny-ImageNet has"),
    ("voc", "VOCdevkit/VOC2007/ImageSets/Main/test.txt", "'VOC2007/ImageSets/Main/test.txt', as Pascal VOC has"),
    ("coco", "annotations/instances_val2014.json", "'annotations/instances_val2014.json', as MS-COCO has"),
    ("nus-wide", "ConceptsList/Concepts81.txt", "'Concepts81.txt' or 'ConceptsList/Concepts81.txt' or "),
    ("nus-wide", "Groundtruth/TrainTestLabels/Labels_water_Test.txt", "Labels_water_Test.txt', as NUS-WIDE has"),
    ("cub", "CUB_200_2011/classes.txt", "'classes.txt', as CUB-200-2011 has"),
    ("cars", "devkit/cars_test_annos_withlabels.mat", "'cars_test_annos_withlabels.mat', as Stanford Cars has"),
    ("dogs", "test_list.mat", "'test_list.mat' or 'lists/test_list.mat', as Stanford Dogs has"),
    ("aircraft", "fgvc-aircraft-2013b/data/images_variant_val.txt", "images_variant_val.txt', as FGVC Aircraft has"),
    ("flowers102", "setid.mat", "'setid.mat', as Flowers102 has"),
]


@pytest.mark.parametrize(("name", "path", "text"), NEEDED)
def test_what_is_missing_is_named(tmp_path, name, path, text):
    SETS[name][0](tmp_path)
    (tmp_path / path).unlink()
    messages = message(tmp_path)
    assert messages.startswith("`folder` of `read_layout` must have ")
    assert text in messages
    assert "where it is missing. Unpack the whole data set, or pass `name` if it is not " in messages


@pytest.mark.parametrize(
    ("folder", "files", "archive"),
    [
        ("cifar-10-batches-py", ("data_batch_1", "test_batch", "batches.meta"), "cifar-10-binary.tar.gz"),
        ("cifar-100-python", ("train", "test", "meta"), "cifar-100-binary.tar.gz"),
    ],
)
def test_pickled_cifar_is_refused_with_the_remedy(tmp_path, folder, files, archive):
    for file in files:
        write(tmp_path / folder / file, "never opened")
    messages = message(tmp_path)
    assert "must hold the binary version of CIFAR-10" in messages
    assert "the Python version in 'HERE" in messages
    assert "which is pickled" in messages
    assert messages.endswith(f"Download '{archive}' from the same page and unpack it.")


def damage_cifar(top):
    unpacked_sets.cifar10(top)
    (top / "cifar-10-batches-bin/test_batch.bin").write_bytes(bytes(3000))


def damage_coarse(top):
    unpacked_sets.cifar100(top)
    write(top / "cifar-100-binary/coarse_label_names.txt", "people", "fruit_and_vegetables", "aquatic_mammals")


def damage_names(top):
    unpacked_sets.arrays(top)
    np.savez(top / "test.npz", images=np.zeros((1, 8, 8, 3)), labels=np.zeros(1, int), names=np.array(["cat", "dog"]))


def damage_matrix(top):
    unpacked_sets.flowers(top)
    write(top / "imagelabels.mat", "<html>moved</html>" * 20)


def damage_key(top):
    unpacked_sets.flowers(top)
    savemat(top / "setid.mat", {"other": np.ones(2)})


def damage_concepts(top):
    unpacked_sets.nus_wide(top)
    write(top / "Groundtruth/TrainTestLabels/Labels_water_Test.txt", "1", "0")


def damage_classes(top):
    unpacked_sets.aircraft(top)
    write(top / "fgvc-aircraft-2013b/data/variants.txt", "707-320", "F/A-18")


def damage_table(top):
    unpacked_sets.plain(top)
    write(top / "labels.csv", "file,labels,split", "a.jpg,dog,train")


def damage_columns(top):
    unpacked_sets.cub(top)
    write(top / "CUB_200_2011/images.txt", "1")


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (
            damage_cifar,
            "'test_batch.bin' that is made of records of 3,073 bytes, as CIFAR-10 has; got 3,000 bytes.",
        ),
        (damage_coarse, "names the coarse label of every fine one, as CIFAR-100 has; got 'people' for 'beaver'"),
        (
            damage_names,
            "holds images (N, H, W, 3) of uint8 and labels (N,), as a pair of .npz archives has; got images (1, 8",
        ),
        (damage_matrix, "have a file 'imagelabels.mat' that SciPy can read, as Flowers102 has; got "),
        (
            damage_key,
            "file 'setid.mat' that holds 'trnid', as Flowers102 has; got 'other'. Unpack the data set once more.",
        ),
        (
            damage_concepts,
            "'Labels_water_Test.txt' that has 0 or 1 for each of 1 images, as NUS-WIDE has; got 2 lines of 0, 1",
        ),
        (
            damage_classes,
            "have no labels but those that FGVC Aircraft lists; got 'Falcon 2000' of 'data/images/0034309.jpg'",
        ),
        (damage_table, "`path_column` of `read_data` must name a column of the table; got 'path'."),
        (damage_columns, "have a file 'images.txt' that has two columns, as CUB-200-2011 has; got a line of '1' alone"),
    ],
)
def test_what_is_damaged_is_named(tmp_path, damage, text):
    damage(tmp_path)
    assert text in message(tmp_path)


def test_tables_of_matlab_need_scipy(tmp_path, monkeypatch):
    unpacked_sets.flowers(tmp_path)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(ImportError, match=r"need SciPy. Install it with: pip install 'manyhot\[vision\]'"):
        read_layout(tmp_path)


DAMAGES = {
    "removed": lambda file: file.unlink(),
    "emptied": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "bytes": lambda file: file.write_bytes(bytes(range(255, 128, -1)) * 3),
    "words": lambda file: file.write_bytes(b"one\ntwo three four\n5,6,7\n"),
    "list": lambda file: file.write_bytes(b"[1, 2]"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", SETS)
def test_whatever_is_wrong_with_a_file_is_said_in_one_sentence(tmp_path, name, damage):
    SETS[name][0](tmp_path / "0")
    files = [path.relative_to(tmp_path / "0") for path in sorted((tmp_path / "0").rglob("*.*")) if path.is_file()]
    lists = [file for file in files if not is_image(file.name)]
    for number, file in enumerate(lists, start=1):
        folder = tmp_path / str(number)
        SETS[name][0](folder)
        damage(folder / file)
        # Some files can be done without; but nothing else than a refusal may come of it.
        with suppress(InputError):
            assert len(read_layout(folder, name))
