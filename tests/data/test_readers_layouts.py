"""Folders, COCO, VOC, Open Images, Parquet, tar shards, archives: each read back against what was written."""

import io
import json
import os
import sys
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhot.data import read_data, read_images
from manyhot.data.sources import Files, ParquetImages, Pixels, TarMembers
from manyhot.image_paths import locate_images
from manyhot.tables.arrow import import_arrow
from tests.errors.expected import raises_input_error


def rows(data):
    """The labels of each id, by name."""
    return dict(zip(data.ids, data.labels.decode(data.targets.dense()), strict=True))


def put(folder, **files):
    """Writes files; a name's double underscore is a slash and its last single one a dot."""
    for name, content in files.items():
        head, _, end = name.replace("__", "/").rpartition("_")
        path = folder / f"{head}.{end}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def pack(path, members):
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            data = content if isinstance(content, bytes) else content.encode()
            header = tarfile.TarInfo(name)
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))


def test_label_folders(tmp_path):
    put(tmp_path, dog__1_jpg="one", dog__2_jpg="two", cat__1_jpg="another", cat__2_jpg="two", stray_jpg="x")
    data = read_data(tmp_path)
    assert rows(data) == {"cat/1.jpg": ["cat"], "cat/2.jpg": ["cat", "dog"], "dog/1.jpg": ["dog"]}
    assert data.splits is None
    assert "4 files are 3 images: copies in several folders have several labels." in data.notes
    assert "Left out 1 images outside of the folders of labels." in data.notes
    assert data.images.read(1) == b"two"


def test_label_folders_of_splits(tmp_path):
    put(tmp_path, train__dog__1_jpg="x", train__cat__1_jpg="x", valid__dog__1_jpg="x", valid__big__cat__2_jpg="y")
    data = read_data(tmp_path)
    assert rows(data) == {
        "train/cat/1.jpg": ["cat", "dog"],
        "valid/big/cat/2.jpg": ["big/cat"],
        "valid/dog/1.jpg": ["dog"],
    }
    assert data.splits.tolist() == ["train", "val", "val"]
    assert "Split 'valid' is read as 'val'." in data.notes
    zero = read_data(tmp_path, labels=["dog"])
    assert rows(zero)["valid/big/cat/2.jpg"] == []


def test_a_folder_of_images_alone(tmp_path):
    put(tmp_path, a_jpg="x", sub__b_PNG="y", notes_txt="z")
    data = read_images(tmp_path)
    assert (data.ids, data.targets, data.labels.names) == (["a.jpg", "sub/b.PNG"], None, [])
    assert read_images(str(tmp_path / "*.jpg")).images.read(0) == b"x"
    assert read_images([tmp_path / "a.jpg", tmp_path / "sub"]).ids == [
        str(tmp_path / "a.jpg"),
        str(tmp_path / "sub/b.PNG"),
    ]
    put(tmp_path / "other", a_jpg="x")
    with raises_input_error(rule="have a folder for each label"):
        read_data(tmp_path / "other")
    (tmp_path / "empty").mkdir()
    with raises_input_error("path", "read_images", rule="lead to images"):
        read_images(tmp_path / "empty")
    with raises_input_error(rule="lead to data"):
        read_data(tmp_path / "empty")
    with raises_input_error(rule="be images"):
        read_images([tmp_path / "a.jpg", tmp_path / "notes.txt"])


def test_images_of_a_table(tmp_path):
    put(tmp_path, a_jpg="x", b_jpg="y", list_csv="photo,comment\nb.jpg,nice\na.jpg,\n")
    assert read_images(tmp_path / "list.csv").ids == ["b.jpg", "a.jpg"]
    with raises_input_error(rule="be images and folders, or tables, or tars", got="2 paths of several kinds"):
        read_images([tmp_path / "list.csv", tmp_path / "a.jpg"])


def coco(images, annotations, categories=("cat", "traffic light", "dog")):
    numbers = {name: 7 * place + 1 for place, name in enumerate(categories)}
    return json.dumps(
        {
            "images": [{"id": n, "file_name": name, **more} for n, (name, more) in enumerate(images.items())],
            "categories": [{"id": number, "name": name} for name, number in numbers.items()],
            "annotations": [
                {"id": n, "image_id": list(images).index(image), "category_id": numbers[name]}
                for n, (image, name) in enumerate(annotations)
            ],
        }
    )


def test_coco(tmp_path):
    train = coco({"1.jpg": {}, "2.jpg": {}}, [("1.jpg", "dog"), ("1.jpg", "dog"), ("1.jpg", "cat")])
    val = coco({"3.jpg": {}}, [("3.jpg", "dog")], ("dog", "bird"))
    put(tmp_path, annotations__instances_train2017_json=train, annotations__instances_val2017_json=val)
    put(tmp_path, train2017__1_jpg="one", train2017__2_jpg="two", val2017__3_jpg="three")
    data = read_data(tmp_path)
    assert rows(data) == {"1.jpg": ["cat", "dog"], "2.jpg": [], "3.jpg": ["dog"]}
    assert data.labels.names == ["cat", "traffic light", "dog", "bird"]
    assert data.splits.tolist() == ["train", "train", "val"]
    assert [data.images.read(row) for row in range(3)] == [b"one", b"two", b"three"]
    single = read_data(tmp_path / "annotations/instances_train2017.json")
    assert (len(single), single.splits) == (2, None)


def test_coco_with_known_absences(tmp_path):
    """As LVIS does: unlisted categories are unknown."""
    text = coco({"1.jpg": {"neg_category_ids": [8]}, "2.jpg": {"neg_category_ids": []}}, [("1.jpg", "dog")])
    put(tmp_path, lvis_json=text, images__1_jpg="x", images__2_jpg="y")
    assert read_data(tmp_path / "lvis.json").targets.dense().tolist() == [[-1, 0, 1], [-1, -1, -1]]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda c: c["annotations"].append({"image_id": 0, "category_id": 99}),
            "must annotate images and categories that are listed; got category 99 in",
        ),
        (
            lambda c: c["annotations"].append({"image_id": 77, "category_id": 1}),
            "must annotate images and categories that are listed; got image 77 in",
        ),
        (
            lambda c: c["images"].append({"file_name": "x.jpg"}),
            r"must describe every image, category and annotation; got .* with one that has no 'id'",
        ),
        (lambda c: c.pop("categories"), "must hold lists of images, categories and annotations; got"),
    ],
)
def test_broken_coco(tmp_path, change, sentence):
    content = json.loads(coco({"1.jpg": {}}, [("1.jpg", "dog")]))
    change(content)
    put(tmp_path, c_json=json.dumps(content), **{"1_jpg": "x"})
    with raises_input_error(match=sentence):
        read_data(tmp_path / "c.json")


def test_coco_without_images(tmp_path):
    put(tmp_path, train_json=coco({}, []), val_json=coco({}, []))
    with raises_input_error("path", "read_data", rule="lead to images", got="none at all"):
        read_data([tmp_path / "train.json", tmp_path / "val.json"])


def voc(*objects):
    parts = "".join(f"<object><name>{name}</name><difficult>{hard}</difficult></object>" for name, hard in objects)
    return f"<annotation><filename>x.jpg</filename>{parts}</annotation>"


def test_voc(tmp_path):
    put(
        tmp_path / "VOC2007",
        Annotations__000001_xml=voc(("dog", 0), ("dog", 1), ("sofa", 1)),
        Annotations__000002_xml=voc(),
        Annotations__000003_xml=voc(("sofa", 0)),
        JPEGImages__000001_jpg="one",
        JPEGImages__000002_jpg="two",
        JPEGImages__000003_jpg="three",
        ImageSets__Main__train_txt="000001\n000002\n",
        ImageSets__Main__val_txt="000003\n000004\n",
        ImageSets__Main__trainval_txt="000001\n000002\n000003\n",
    )
    data = read_data(tmp_path)
    assert data.labels.names == ["dog", "sofa"]
    assert data.targets.dense().tolist() == [[1, -1], [0, 0], [0, 1]]
    assert data.splits.tolist() == ["train", "train", "val"]
    assert data.images.read(2) == b"three"
    assert "1 labels are unknown, because all their objects are marked as difficult." in data.notes
    assert "Left out 1 listed images without annotations." in data.notes
    put(tmp_path / "other", Annotations__1_xml=voc(("10", 0), ("9", 0)), JPEGImages__1_jpg="one")
    assert read_data(tmp_path / "other").labels.names == ["9", "10"]
    put(tmp_path / "VOC2007", ImageSets__Main__val_txt="000001\n")
    with raises_input_error(rule="be one for each image", got="'000001' in 'train' and 'val'"):
        read_data(tmp_path / "VOC2007")
    put(tmp_path / "VOC2007", Annotations__000002_xml="<annotation>", ImageSets__Main__val_txt="")
    with raises_input_error(rule="hold whole XML files"):
        read_data(tmp_path / "VOC2007")


def test_open_images(tmp_path):
    head = "ImageID,Source,LabelName,Confidence\n"
    put(
        tmp_path,
        train_annotations_human_imagelabels_csv=head
        + "aa,verification,/m/1,1\naa,verification,/m/2,0\nbb,machine,/m/1,0.7\n",
        validation_annotations_human_imagelabels_csv=head + "cc,verification,/m/2,1\ncc,crowd,/m/2,0\n",
        images__aa_jpg="a",
        images__bb_jpg="b",
        images__cc_jpg="c",
    )
    for path in list(tmp_path.glob("*_csv")) + list(tmp_path.glob("*.csv")):
        path.rename(path.with_name(path.name.replace("human_imagelabels", "human-imagelabels")))
    (tmp_path / "class-descriptions.csv").write_text("/m/1,Dog\n/m/2,Traffic light\n")
    data = read_data(tmp_path)
    assert data.labels.names == ["Dog", "Traffic light"]
    assert data.targets.dense().tolist() == [[1, 0], [-1, -1], [-1, 1]]
    assert data.splits.tolist() == ["train", "train", "val"]
    assert data.images.read(1) == b"b"
    assert "Left out 1 rows of a confidence between 0 and 1, which are not verified." in data.notes
    single = read_data(tmp_path / "train_annotations_human-imagelabels.csv", unlisted="absent")
    assert single.targets.dense().tolist() == [[1, 0], [0, 0]]


def test_confidences_of_open_images_are_numbers_and_blank_names_are_no_labels(tmp_path):
    table = "ImageID,LabelName,Confidence\naa,Dog,1\naa,,1\naa,Cat,{}\n"
    put(tmp_path, aa_jpg="a", labels_csv=table.format("0"))
    assert rows(read_data(tmp_path / "labels.csv")) == {"aa": ["Dog"]}
    put(tmp_path, labels_csv=table.format("likely"))
    with raises_input_error("Confidence", "read_data", rule="be a number in every row", got="'likely'"):
        read_data(tmp_path / "labels.csv")


def test_parquet_of_paths(tmp_path):
    put(tmp_path, a_jpg="x", b_jpg="y")
    table = pa.table(
        {"path": ["a.jpg", "b.jpg"], "labels": [["dog", "traffic light"], None], "split": ["train", "test"]}
    )
    pq.write_table(table, tmp_path / "photos.parquet")
    data = read_data(tmp_path / "photos.parquet")
    assert rows(data) == {"a.jpg": ["dog", "traffic light"], "b.jpg": []}
    assert data.splits.tolist() == ["train", "test"]
    wide = pa.table({"path": ["a.jpg", "b.jpg"], "dog": pa.array([1, None], pa.int8()), "cat": [False, True]})
    pq.write_table(wide, tmp_path / "photos.parquet")
    assert read_data(tmp_path).targets.dense().tolist() == [[1, 0], [-1, 1]]


def test_parquet_of_images(tmp_path):
    """As Hugging Face writes them: structures of bytes and path, names of classes in the footer, a file a split."""
    feature = {"labels": {"feature": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "_type": "Sequence"}}
    meta = {b"huggingface": json.dumps({"info": {"features": feature}}).encode()}
    for split, labels in (("train", [[0], [1, 0], []]), ("test", [[1]])):
        images = [{"bytes": f"{split}{n}".encode(), "path": f"{n}.jpg"} for n in range(len(labels))]
        table = pa.table({"image": images, "labels": labels}).replace_schema_metadata(meta)
        (tmp_path / "data").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "data" / f"{split}-00000-of-00001.parquet", row_group_size=2)
    data = read_data(tmp_path)
    assert list(rows(data).values()) == [["dog"], ["cat"], ["cat", "dog"], []]
    assert data.splits.tolist() == ["test", "train", "train", "train"]
    assert isinstance(data.images, ParquetImages)
    assert [data.images.read(row) for row in (3, 0, 1)] == [b"train2", b"test0", b"train0"]
    assert "images in column 'image'" in data.notes[0]
    assert read_images(tmp_path / "data" / "test-00000-of-00001.parquet").images.read(0) == b"test0"


def test_broken_parquet(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and nothing else")
    with raises_input_error(rule="be a whole Parquet file"):
        read_data(tmp_path / "x.parquet")


def test_tar_shards(tmp_path):
    pack(
        tmp_path / "train-000.tar",
        {"k1.jpg": "one", "k1.json": '{"tags": ["dog", "stop sign"]}', "k2.JPG": "two", "k2.json": '{"tags": []}'},
    )
    pack(tmp_path / "train-001.tar", {"k3.png": "three", "k3.json": '{"tags": ["dog"]}', "k4.jpg": "four"})
    pack(tmp_path / "val-000.tar", {"k5.json": '{"tags": "dog"}', "k5.jpg": "five"})
    for path in (
        tmp_path,
        [f"{tmp_path}/train-{{000..001}}.tar", f"{tmp_path}/{{val,val}}-000.tar"],
        sorted(tmp_path.glob("*.tar")),
    ):
        data = read_data(path)
        assert rows(data) == {"k1": ["dog", "stop sign"], "k2": [], "k3": ["dog"], "k5": ["dog"]}
        assert data.splits.tolist() == ["train", "train", "train", "val"]
        assert [data.images.read(row) for row in range(4)] == [b"one", b"two", b"three", b"five"]
        assert "Left out 1 images without a .json file." in data.notes
    assert isinstance(data.images, TarMembers)
    assert len(read_images(tmp_path / "train-001.tar")) == 2


@pytest.mark.parametrize(
    ("side", "texts", "names"), [("cls", ["3", "0"], ["0", "3"]), ("txt", ["dog|cat", "cat"], ["cat", "dog"])]
)
def test_tar_shards_with_texts(tmp_path, side, texts, names):
    pack(tmp_path / "x.tar", {"a/1.jpg": "x", f"a/1.{side}": texts[0], "a/2.jpg": "y", f"a/2.{side}": texts[1]})
    data = read_data(tmp_path / "x.tar")
    assert (data.ids, data.labels.names) == (["a/1", "a/2"], names)
    assert data.targets.sizes().sum() == (2 if side == "cls" else 3)


@pytest.mark.parametrize(
    ("side", "texts", "names", "note"),
    [
        (
            "txt",
            ["dog|cat", "none"],
            [["cat", "dog"], []],
            "separated by '|' as detected, and 'none' for a row without any.",
        ),
        ("cls", ["traffic light", ""], [["traffic light"], []], "one a sample."),
        ("json", ['{"tags": ["dog", null]}', '{"tags": null}'], [["dog"], []], "under 'tags', as lists."),
        ("json", ['{"tags": "stop sign"}', '{"tags": ["dog"]}'], [["stop sign"], ["dog"]], "under 'tags', as lists."),
        ("json", ["3", "12"], [["3"], ["12"]], "one a sample as detected."),
    ],
)
def test_labels_in_tars_are_read_like_those_of_tables(tmp_path, side, texts, names, note):
    pack(tmp_path / "x.tar", {"1.jpg": "x", f"1.{side}": texts[0], "2.jpg": "y", f"2.{side}": texts[1]})
    data = read_data(tmp_path / "x.tar")
    assert rows(data) == {"1": names[0], "2": names[1]}
    assert f"Labels are in the .{side} files, {note}" in data.notes


def test_labels_that_are_no_names(tmp_path):
    pack(tmp_path / "x.tar", {"1.jpg": "x", "1.json": '{"tags": {"dog": 1}}'})
    with raises_input_error("labels_column", "read_data", rule="hold lists of names", got="struct"):
        read_data(tmp_path / "x.tar")


def test_what_tars_can_lack(tmp_path):
    pack(tmp_path / "x.tar", {"1.jpg": "x"})
    with raises_input_error(rule="have labels in key.json, key.cls or key.txt", got="images alone"):
        read_data(tmp_path / "x.tar")
    pack(tmp_path / "x.tar", {"1.jpg": "x", "1.json": '{"caption": "dog"}'})
    with raises_input_error(rule="have labels under a known key of the JSON", got="the keys 'caption'"):
        read_data(tmp_path / "x.tar")
    assert rows(read_data(tmp_path / "x.tar", labels_column="caption")) == {"1": ["dog"]}
    pack(tmp_path / "x.tar", {"1.jpg": "x", "1.json": "{"})
    with raises_input_error(rule="hold whole JSON files", got="1.json"):
        read_data(tmp_path / "x.tar")
    (tmp_path / "x.tar").write_bytes(b"\x1f\x8b" + bytes(2000))
    with raises_input_error(rule="be a plain tar archive"):
        read_data(tmp_path / "x.tar")


def test_archives_of_arrays(tmp_path):
    x, y = np.eye(3, dtype=np.float32), np.array([[1, 0], [0, -1], [1, 1]])
    np.savez(tmp_path / "a.npz", x=x, y=y, names=np.array(["cat", "dog"]), splits=np.array(["training", "val", "val"]))
    data = read_data(tmp_path / "a.npz")
    assert data.features.tolist() == x.tolist()
    assert data.targets.dense().tolist() == y.tolist()
    assert (data.labels.names, data.split_sizes()) == (["cat", "dog"], {"train": 1, "val": 2})
    assert read_data(tmp_path / "a.npz", labels=["dog"]).targets.dense().tolist() == [[0], [-1], [1]]
    np.savez(
        tmp_path / "a.npz",
        train_images=np.zeros((2, 8, 8), np.uint8),
        train_labels=y[:2],
        test_images=np.ones((1, 8, 8), np.uint8),
        test_labels=y[2:],
    )
    data = read_data(tmp_path / "a.npz")
    assert isinstance(data.images, Pixels)
    assert data.splits.tolist() == ["train", "train", "test"]
    np.savez(tmp_path / "a.npz", x=x)
    with raises_input_error(rule="hold arrays `x` and `y`", got="the arrays 'x'"):
        read_data(tmp_path / "a.npz")


def test_layout_can_be_said(tmp_path):
    put(tmp_path, dog__1_jpg="x", cat__2_jpg="y", notes_csv="path,label\ndog/1.jpg,brown\n")
    assert rows(read_data(tmp_path)) == {"dog/1.jpg": ["brown"]}
    assert rows(read_data(tmp_path, layout="folders")) == {"cat/2.jpg": ["cat"], "dog/1.jpg": ["dog"]}
    assert isinstance(read_data(tmp_path).images, Files)
    with raises_input_error("layout", "read_data", rule="fit the folder: 'coco' has files of its own"):
        read_data(tmp_path, layout="coco")
    with raises_input_error(rule="be one folder for layout 'folders'"):
        read_data(tmp_path / "notes.csv", layout="folders")


def test_files_of_several_layouts(tmp_path):
    put(tmp_path, a_csv="path,label\nx.jpg,y\n")
    pack(tmp_path / "b.tar", {"1.jpg": "x"})
    with raises_input_error(rule="be files of one layout"):
        read_data([tmp_path / "a.csv", tmp_path / "b.tar"])
    with raises_input_error(rule="lead to data", got="an empty list"):
        read_data([])


def test_splits_beside_labels(tmp_path):
    put(tmp_path, train__dog__1_jpg="x", extra__cat__2_jpg="y")
    with raises_input_error(
        rule="have folders of splits or of labels at the top", got="the split 'train' beside 'extra'"
    ):
        read_data(tmp_path)
    assert read_data(tmp_path, split_column="").labels.names == ["extra/cat", "train/dog"]


def test_labels_may_be_called_like_splits(tmp_path):
    put(tmp_path, test__1_jpg="x", blood__2_jpg="y")
    assert rows(read_data(tmp_path)) == {"blood/2.jpg": ["blood"], "test/1.jpg": ["test"]}


def test_links_in_circles(tmp_path):
    put(tmp_path, dog__1_jpg="x")
    (tmp_path / "dog" / "again").symlink_to(tmp_path)
    assert read_data(tmp_path).ids == ["dog/1.jpg"]


def test_parquet_deep_below(tmp_path):
    put(tmp_path / "pictures", a_jpg="x")
    (tmp_path / "hub" / "default").mkdir(parents=True)
    table = pa.table({"path": [str(tmp_path / "pictures" / "a.jpg")], "label": ["dog"]})
    pq.write_table(table, tmp_path / "hub" / "default" / "0000.parquet")
    assert list(rows(read_data(tmp_path / "hub")).values()) == [["dog"]]


def test_shards_that_webdataset_wrote(tmp_path):
    import webdataset

    samples = {f"{n:04d}": (bytes([n]) * (n + 1), ["dog", "cat", "red fox"][: n % 4]) for n in range(8)}
    with webdataset.TarWriter(str(tmp_path / "x.tar")) as writer:
        for key, (image, labels) in samples.items():
            writer.write({"__key__": key, "jpg": image, "json": {"labels": labels}})
    data = read_data(tmp_path / "x.tar")
    assert rows(data) == {key: sorted(labels) for key, (_, labels) in samples.items()}
    assert [data.images.read(row) for row in range(8)] == [image for image, _ in samples.values()]


def test_parquet_files_of_several_types(tmp_path):
    put(tmp_path, a_jpg="x", b_jpg="y")
    pq.write_table(pa.table({"path": ["a.jpg"], "labels": [["dog"]]}), tmp_path / "0.parquet")
    empty = pa.table(
        {"path": pa.array(["b.jpg"], pa.large_string()), "labels": pa.array([[]], pa.large_list(pa.null()))}
    )
    pq.write_table(empty, tmp_path / "1.parquet")
    assert rows(read_data(tmp_path)) == {"a.jpg": ["dog"], "b.jpg": []}
    pq.write_table(pa.table({"path": ["b.jpg"], "labels": ["dog|cat"]}), tmp_path / "1.parquet")
    with raises_input_error(rule="hold either lists or texts in a column", got="both in column 'labels'"):
        read_data(tmp_path)


def test_labels_in_structures_are_refused(tmp_path):
    put(tmp_path, a_jpg="x")
    pq.write_table(pa.table({"path": ["a.jpg"], "labels": [{"dog": 1}]}), tmp_path / "0.parquet")
    with raises_input_error("labels_column", "read_data", rule="hold lists of names", got="struct"):
        read_data(tmp_path / "0.parquet")


def test_folders_need_no_pyarrow_and_tables_say_that_they_do(tmp_path, monkeypatch):
    put(tmp_path, dog__1_jpg="x")
    put(tmp_path / "other", a_jpg="x", t_csv="path,label\na.jpg,dog\n")
    import_arrow.cache_clear()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert read_data(tmp_path / "dog" / "..", layout="folders").labels.names == ["dog", "other"]
    assert read_images(tmp_path / "dog").ids == ["1.jpg"]
    with pytest.raises(ImportError, match=r"need pyarrow\. Install it with: pip install 'manyhot\[tables\]'"):
        read_data(tmp_path / "other" / "t.csv")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (tarfile.REGTYPE, "a file of a negative size"),
        (tarfile.GNUTYPE_SPARSE, "a file of a negative size"),
        (tarfile.GNUTYPE_LONGNAME, "a damaged header"),
    ],
)
def test_a_tar_member_of_negative_size_is_refused(tmp_path, kind, reason):
    """Its end lies at its own start, so that who looks for the next member finds the same one again, for ever."""
    member = tarfile.TarInfo("b.png")
    member.type = kind
    head = bytearray(member.tobuf(tarfile.GNU_FORMAT)[:512])
    head[124:136] = (2**96 - 512).to_bytes(12, "big")
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    (tmp_path / "x.tar").write_bytes(tarfile.TarInfo("a.png").tobuf(tarfile.GNU_FORMAT)[:512] + head + bytes(1024))
    for read in (read_images, read_data):
        with raises_input_error("path", rule="be a plain tar archive", got=reason):
            read(tmp_path / "x.tar")
    (place,) = locate_images(["x.tar/c.png"], [tmp_path])
    assert place.reason == "the archive cannot be read"


def test_a_folder_is_walked_once(tmp_path, monkeypatch):
    put(tmp_path, **{f"label{number}__1_jpg": str(number) for number in range(20)})
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(os.fspath(path)) or scandir(path))
    assert len(read_data(tmp_path)) == 20
    below = [path for path in listed if "label" in path]
    assert len(below) <= 21  # the first folder again, by which the layout is known
