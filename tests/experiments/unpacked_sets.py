"""A tiny instance of every data set, laid out as the original is after unpacking."""

import json

import numpy as np
from PIL import Image
from scipy.io import savemat

RED, GREEN, BLUE = (250, 10, 10), (10, 250, 10), (10, 10, 250)


def paint(path, colour=RED):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), colour).save(path, format="JPEG", quality=95)


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def matlab(path, **content):
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, content)


def cell(*texts):
    """A column of texts as Matlab keeps them."""
    column = np.empty((len(texts), 1), dtype=object)
    column[:, 0] = texts
    return column


def records(path, labels, colours):
    """A file of CIFAR: for each picture its labels, then all of red, green and blue."""
    path.parent.mkdir(parents=True, exist_ok=True)
    planes = [
        bytes(own) + b"".join(bytes([level]) * 1024 for level in c) for own, c in zip(labels, colours, strict=True)
    ]
    path.write_bytes(b"".join(planes))


def plain(top):
    write(
        top / "labels.csv",
        "path,labels,split",
        "images/a.jpg,dog|cat,train",
        "images/b.jpg,,val",
        "images/c.jpg,cat,test",
    )
    paint(top / "images/a.jpg", BLUE)
    paint(top / "images/b.jpg")
    paint(top / "images/c.jpg")
    return {"images/a.jpg": ("cat dog", "train"), "images/b.jpg": ("", "val"), "images/c.jpg": ("cat", "test")}


def cifar10(top):
    base = top / "cifar-10-batches-bin"
    for number in range(1, 6):
        records(base / f"data_batch_{number}.bin", [[number % 3]], [RED])
    records(base / "test_batch.bin", [[2], [0]], [RED, BLUE])
    write(base / "batches.meta.txt", "airplane", "automobile", "bird", "")
    names = ["airplane", "automobile", "bird"]
    result = {f"data_batch_{number}.bin/0": (names[number % 3], "train") for number in range(1, 6)}
    return result | {"test_batch.bin/0": ("bird", "test"), "test_batch.bin/1": ("airplane", "test")}


def cifar100(top):
    base = top / "cifar-100-binary"
    write(base / "fine_label_names.txt", "apple", "baby", "beaver")
    write(base / "coarse_label_names.txt", "aquatic_mammals", "fruit_and_vegetables", "people")
    # First the coarse byte, then the fine one.
    records(base / "train.bin", [[2, 1], [0, 2]], [RED, GREEN])
    records(base / "test.bin", [[1, 0]], [BLUE])
    return {"train.bin/0": ("baby", "train"), "train.bin/1": ("beaver", "train"), "test.bin/0": ("apple", "test")}


def arrays(top):
    top.mkdir(parents=True, exist_ok=True)
    for split, colour, labels in (("train", RED, [1, 0]), ("test", BLUE, [1])):
        images = np.broadcast_to(np.array(colour, dtype=np.uint8), (len(labels), 8, 8, 3))
        np.savez(top / f"{split}.npz", images=images, labels=np.uint8(labels), names=np.array(["cat", "dog"]))
    return {"train/0": ("dog", "train"), "train/1": ("cat", "train"), "test/0": ("dog", "test")}


def tiny_imagenet(top):
    base = top / "tiny-imagenet-200"
    write(base / "wnids.txt", "n02124075", "n01443537")
    write(base / "words.txt", "n00001740\tentity", "n01443537\tgoldfish, Carassius auratus", "n02124075\tEgyptian cat")
    write(base / "val/val_annotations.txt", "val_0.JPEG\tn02124075\t0\t32\t44\t62", "val_1.JPEG\tn01443537\t0\t0\t1\t1")
    for code in ("n01443537", "n02124075"):
        write(base / f"train/{code}/{code}_boxes.txt", f"{code}_0.JPEG\t0\t10\t63\t58")
        paint(base / f"train/{code}/images/{code}_0.JPEG")
    paint(base / "val/images/val_0.JPEG", GREEN)
    paint(base / "val/images/val_1.JPEG")
    paint(base / "test/images/test_0.JPEG")
    return {
        "train/n01443537/images/n01443537_0.JPEG": ("n01443537 goldfish", "train"),
        "train/n02124075/images/n02124075_0.JPEG": ("n02124075 Egyptian cat", "train"),
        "val/images/val_0.JPEG": ("n02124075 Egyptian cat", "test"),
        "val/images/val_1.JPEG": ("n01443537 goldfish", "test"),
    }


def voc(top, year="VOC2007", lists=None):
    base = top / "VOCdevkit" / year
    for split, stem in (lists or {"train": "000001", "val": "000002", "test": "000003"}).items():
        write(base / f"ImageSets/Main/{split}.txt", stem)
    objects = {"000001": [("dog", 0), ("person", 1)], "000002": [], "000003": [("person", 0), ("person", 1)]}
    for stem, result in objects.items():
        inside = "".join(f"<object><name>{n}</name><difficult>{d}</difficult></object>" for n, d in result)
        write(base / f"Annotations/{stem}.xml", f"<annotation>{inside}</annotation>")
        paint(base / f"JPEGImages/{stem}.jpg", GREEN if stem == "000003" else RED)
    return {
        "JPEGImages/000001.jpg": ("dog person?", "train"),
        "JPEGImages/000002.jpg": ("", "val"),
        "JPEGImages/000003.jpg": ("person", "test"),
    }


def coco(top, year="2014"):
    for split, numbers in (("train", (1, 2)), ("val", (3,))):
        images = [{"id": n, "file_name": f"COCO_{split}{year}_{n:012d}.jpg"} for n in numbers]
        marks = [{"image_id": 1, "category_id": 18}] * 2 if split == "train" else [{"image_id": 3, "category_id": 1}]
        names = [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}]
        content = json.dumps({"images": images, "annotations": marks, "categories": names})
        write(top / f"annotations/instances_{split}{year}.json", content)
        for image in images:
            paint(top / f"{split}{year}" / image["file_name"], BLUE)
    return {
        f"COCO_train{year}_000000000001.jpg": ("dog", "train"),
        f"COCO_train{year}_000000000002.jpg": ("", "train"),
        f"COCO_val{year}_000000000003.jpg": ("person", "test"),
    }


def nus_wide(top):
    write(top / "ConceptsList/Concepts81.txt", "airport", "water")
    write(top / "ImageList/TrainImagelist.txt", "actor\\0001_21.jpg", "actor\\0002_22.jpg", "zoo\\0003_23.jpg")
    write(top / "ImageList/TestImagelist.txt", "zoo\\0004_24.jpg")
    labels = {"airport_Train": "101", "water_Train": "101", "airport_Test": "0", "water_Test": "1"}
    for name, digits in labels.items():
        write(top / f"Groundtruth/TrainTestLabels/Labels_{name}.txt", *digits)
    for path in ("actor/0001_21.jpg", "actor/0002_22.jpg", "zoo/0004_24.jpg"):
        paint(top / "Flickr" / path)
    return {
        "Flickr/actor/0001_21.jpg": ("airport water", "train"),
        "Flickr/actor/0002_22.jpg": ("", "train"),
        "Flickr/zoo/0004_24.jpg": ("water", "test"),
    }


def imagenet(top):
    write(top / "LOC_synset_mapping.txt", "n01440764 tench, Tinca tinca", "n02085620 Chihuahua")
    expected = {}
    for split, stored in (("train", "train"), ("val", "test")):
        for code, name in (("n01440764", "tench"), ("n02085620", "Chihuahua")):
            paint(top / split / code / f"{code}_{split}.JPEG", BLUE)
            expected[f"{split}/{code}/{code}_{split}.JPEG"] = (f"{code} {name}", stored)
    return expected


def cub(top):
    base = top / "CUB_200_2011"
    write(base / "classes.txt", "1 001.Black_footed_Albatross", "2 002.Laysan_Albatross")
    write(base / "images.txt", "1 001.Black_footed_Albatross/a.jpg", "2 002.Laysan_Albatross/b.jpg")
    write(base / "image_class_labels.txt", "1 1", "2 2")
    write(base / "train_test_split.txt", "1 0", "2 1")
    paint(base / "images/001.Black_footed_Albatross/a.jpg", GREEN)
    paint(base / "images/002.Laysan_Albatross/b.jpg")
    return {
        "images/001.Black_footed_Albatross/a.jpg": ("001.Black_footed_Albatross", "test"),
        "images/002.Laysan_Albatross/b.jpg": ("002.Laysan_Albatross", "train"),
    }


def cars(top):
    matlab(top / "devkit/cars_meta.mat", class_names=cell("AM General Hummer SUV 2000", "Acura RL Sedan 2012").T)
    kind = [("bbox_x1", "O"), ("class", "O"), ("fname", "O")]
    for split, file, classes in (("train", "cars_train_annos", (2, 1)), ("test", "cars_test_annos_withlabels", (2,))):
        result = [(np.uint16(1), np.uint8(number), f"{i:05d}.jpg") for i, number in enumerate(classes, start=1)]
        matlab(top / f"devkit/{file}.mat", annotations=np.array(result, dtype=kind))
        for _, _, name in result:
            paint(top / f"cars_{split}" / name, BLUE)
    return {
        "cars_train/00001.jpg": ("Acura RL Sedan 2012", "train"),
        "cars_train/00002.jpg": ("AM General Hummer SUV 2000", "train"),
        "cars_test/00001.jpg": ("Acura RL Sedan 2012", "test"),
    }


def dogs(top):
    pictures = {
        "n02085620-Chihuahua/n02085620_1.jpg": "train",
        "n02116738-African_hunting_dog/n02116738_2.jpg": "train",
    }
    pictures["n02085620-Chihuahua/n02085620_3.jpg"] = "test"
    for split in ("train", "test"):
        files = [path for path, own in pictures.items() if own == split]
        matlab(top / f"{split}_list.mat", file_list=cell(*files), labels=np.ones((len(files), 1)))
    for path in pictures:
        paint(top / "Images" / path)
    return {f"Images/{path}": (path.split("/")[0], split) for path, split in pictures.items()}


def aircraft(top):
    base = top / "fgvc-aircraft-2013b" / "data"
    write(base / "variants.txt", "707-320", "Falcon 2000", "F/A-18")
    expected = {}
    for split, number, name in (
        ("train", "0034309", "Falcon 2000"),
        ("val", "0034958", "F/A-18"),
        ("test", "17", "707-320"),
    ):
        write(base / f"images_variant_{split}.txt", f"{number} {name}")
        paint(base / f"images/{number}.jpg", GREEN)
        expected[f"data/images/{number}.jpg"] = (name, split)
    return expected


def flowers(top):
    matlab(top / "imagelabels.mat", labels=np.array([[2, 1, 2, 3]], dtype=np.uint8))
    matlab(top / "setid.mat", trnid=np.array([[3]]), valid=np.array([[1]]), tstid=np.array([[2, 4]]))
    write(top / "cat_to_name.json", json.dumps({"1": "pink primrose", "2": "hard-leaved pocket orchid"}))
    for number in range(1, 5):
        paint(top / f"jpg/image_{number:05d}.jpg", GREEN)
    return {
        "jpg/image_00003.jpg": ("002 hard-leaved pocket orchid", "train"),
        "jpg/image_00001.jpg": ("002 hard-leaved pocket orchid", "val"),
        "jpg/image_00002.jpg": ("001 pink primrose", "test"),
        "jpg/image_00004.jpg": ("003", "test"),
    }


def plantnet(top, form="images/{}"):
    base = top / "plantnet_300K"
    write(base / "plantnet300K_species_id_2_name.json", json.dumps({"1355868": "Lactuca virosa L."}))
    expected = {}
    for split, code in (("train", "1355868"), ("train", "1409238"), ("val", "1355868"), ("test", "1355868")):
        path = f"{form.format(split)}/{code}/{split}.jpg"
        paint(base / path)
        expected[path] = ("1355868 Lactuca virosa L." if code == "1355868" else code, split)
    return expected


# For each layout: who builds it, and a picture with its colour.
SETS = {
    "plain": (plain, "images/a.jpg", BLUE),
    "cifar10": (cifar10, "test_batch.bin/1", BLUE),
    "cifar100": (cifar100, "train.bin/1", GREEN),
    "arrays": (arrays, "test/0", BLUE),
    "tiny-imagenet": (tiny_imagenet, "val/images/val_0.JPEG", GREEN),
    "voc": (voc, "JPEGImages/000003.jpg", GREEN),
    "coco": (coco, "COCO_val2014_000000000003.jpg", BLUE),
    "nus-wide": (nus_wide, "Flickr/actor/0002_22.jpg", RED),
    "imagenet": (imagenet, "val/n02085620/n02085620_val.JPEG", BLUE),
    "cub": (cub, "images/001.Black_footed_Albatross/a.jpg", GREEN),
    "cars": (cars, "cars_test/00001.jpg", BLUE),
    "dogs": (dogs, "Images/n02085620-Chihuahua/n02085620_3.jpg", RED),
    "aircraft": (aircraft, "data/images/0034958.jpg", GREEN),
    "flowers102": (flowers, "jpg/image_00003.jpg", GREEN),
    "plantnet": (plantnet, "images/val/1355868/val.jpg", RED),
}
