"""A survey finds what is there, and says what is wrong in plain words."""

import io
import json

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from manyhot.data import Dataset, Files, Pixels, SparseTargets, from_arrays
from manyhot.data.inspection import LabelFacts, LabelPair, dhash, inspect_dataset, near_duplicate_sets
from manyhot.data.split import stratified_split
from manyhot.labels import Labels


def table(rows, labels, splits=None, **options):
    """A data set without images."""
    names = Labels(labels)
    targets = SparseTargets.from_rows(
        [[names.column(name) for name in row] for row in rows], num_labels=len(names), **options
    )
    ids = [str(row) for row in range(len(rows))]
    splits = None if splits is None else np.array(splits, dtype=object)
    return Dataset(names, targets, ids=ids, features=np.zeros((len(rows), 1), dtype=np.float32), splits=splits)


def picture(seed, size=(32, 24)):
    coarse = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)


@pytest.fixture
def photos(tmp_path):
    """Ten images with all that can be wrong; a row each: file, labels, split."""
    for row in range(4):
        picture(row).save(tmp_path / f"{row}.png")
    picture(4, (640, 480)).save(tmp_path / "4.jpg", quality=95)
    (tmp_path / "copy.png").write_bytes((tmp_path / "0.png").read_bytes())
    (tmp_path / "twin.png").write_bytes((tmp_path / "1.png").read_bytes())
    picture(4, (640, 480)).save(tmp_path / "again.jpg", quality=60)
    whole = (tmp_path / "3.png").read_bytes()
    (tmp_path / "torn.png").write_bytes(whole[: len(whole) // 2])
    rows = [
        ("0.png", [0], "train"),
        ("1.png", [0, 1], "train"),
        ("2.png", [], "train"),
        ("3.png", [2], "train"),
        ("4.jpg", [1], "train"),
        ("copy.png", [0], "test"),
        ("twin.png", [1], "train"),
        ("again.jpg", [1], "test"),
        ("torn.png", [0], "test"),
        ("gone.png", [0], "test"),
    ]
    targets = SparseTargets.from_rows([labels for _, labels, _ in rows], num_labels=3)
    names = [name for name, _, _ in rows]
    splits = np.array([split for _, _, split in rows], dtype=object)
    return Dataset(Labels(["cat", "dog", "eel"]), targets, ids=names, images=Files(names, root=tmp_path), splits=splits)


def test_labels_and_sets_are_counted():
    rows = [["cat"], ["cat", "dog"], [], ["dog"], [], ["cat", "dog", "eel"]]
    found = inspect_dataset(table(rows, ["cat", "dog", "eel"], ["train"] * 4 + ["test"] * 2))
    assert (found.samples, found.splits) == (6, {"train": 4, "test": 2})
    assert found.labels[0] == LabelFacts("cat", 3, 6, 0.5, {"train": 2, "test": 1}, {"train": 0.5, "test": 0.5})
    assert (found.empty, found.empty_by_split) == (2, {"train": 1, "test": 1})
    assert (found.mean_labels, found.max_labels) == (7 / 6, 3)
    assert found.set_sizes == {0: 2, 1: 2, 2: 1, 3: 1}
    assert found.images is None


def test_rates_are_among_known_cells():
    dense = np.array([[1, -1], [0, -1], [-1, -1], [-1, 1]], dtype=np.int8)
    dataset = Dataset(Labels(["a", "b"]), SparseTargets.from_dense(dense), ids=list("abcd"))
    found = inspect_dataset(dataset)
    assert [(label.count, label.known, label.rate) for label in found.labels] == [(1, 2, 0.5), (1, 1, 1.0)]


def test_company_of_labels_against_sums_by_hand():
    draw = np.random.default_rng(0)
    dense = (draw.random((400, 6)) < [0.5, 0.3, 0.3, 0.2, 0.1, 0.4]).astype(np.int8)
    dense[:, 2] = dense[:, 1]  # never apart
    dense[:, 4] &= dense[:, 0]  # never without
    labels = list("abcdef")
    found = inspect_dataset(
        Dataset(Labels(labels), SparseTargets.from_dense(dense), ids=[str(row) for row in range(400)])
    )
    assert found.inseparable == [["b", "c"]]
    assert found.implied == [("e", "a")]
    assert found.close_pairs[0].npmi == pytest.approx(1)
    counts = {pair.count for pair in found.frequent_pairs}
    together = dense.T.astype(int) @ dense
    assert found.frequent_pairs[0].count == max(together[np.triu_indices(6, 1)])
    assert counts <= set(together[np.triu_indices(6, 1)].tolist())
    pair = next(pair for pair in found.frequent_pairs if {pair.first, pair.second} == {"a", "e"})
    shares = dense.mean(0)
    both = (dense[:, 0] & dense[:, 4]).mean()
    lift = both / (shares[0] * shares[4])
    assert pair == LabelPair(
        "e", "a", int(400 * both), pytest.approx(lift), pytest.approx(np.log(lift) / -np.log(both))
    )
    assert "always occur together, so that no model can distinguish them: 'b' and 'c'." in " ".join(found.warnings)


def test_images_are_looked_at(photos):
    seen = []
    found = inspect_dataset(photos, near=True, workers=3, advance=seen.append)
    images = found.images
    assert sum(seen) == 10
    assert images.read == 8
    assert images.missing == ["gone.png"]
    assert images.unreadable == {"torn.png": "the file ends too early"}
    assert images.formats == {"PNG": 6, "JPEG": 2}
    assert images.modes == {"RGB": 8}
    assert images.widths == (32, 32, 640)
    assert images.heights == (24, 24, 480)
    sizes = [path.stat().st_size for path in photos.images.root.iterdir()]
    assert images.gigabytes == pytest.approx(sum(sizes) / 1e9)
    assert [(some.names, some.splits, some.same_labels) for some in images.duplicates] == [
        (["0.png", "copy.png"], ["train", "test"], True),
        (["1.png", "twin.png"], ["train"], False),
    ]
    assert [some.names for some in images.near_duplicates] == [["4.jpg", "again.jpg"]]
    assert found.duplicate_of.tolist() == [0, 1, 2, 3, 4, 0, 1, 7, 8, 9]


def test_warnings_come_in_plain_words_and_in_order_of_weight(photos):
    found = inspect_dataset(photos, near=True)
    starts = [
        "1 image is not there: 'gone.png'.",
        "1 image is not readable: 'torn.png' (the file ends too early).",
        "1 image is the same in several splits (test and train)",
        "1 image is nearly the same in several splits (test and train)",
        "1 image is there several times with different labels: '1.png', 'twin.png'.",
        "1 label is absent from split 'test' and cannot be evaluated there: 'eel'.",
        "3 labels are present in fewer than 10 rows: 'eel' (1), 'dog' (4), 'cat' (5).",
        "2 images are there more than once: '0.png', 'copy.png', and so on.",
    ]
    assert len(found.warnings) == len(starts)
    for warning, start in zip(found.warnings, starts, strict=True):
        assert warning.startswith(start)


def test_headers_alone_miss_torn_pixels(photos):
    images = inspect_dataset(photos, decode=False).images
    assert not images.decoded
    assert images.unreadable == {}
    assert images.read == 9
    assert images.near_duplicates is None
    assert inspect_dataset(photos, images=False).images is None


def test_duplicates_can_be_kept_together(photos):
    groups = inspect_dataset(photos).duplicate_of
    splits = stratified_split(photos.targets, {"train": 0.5, "test": 0.5}, groups=groups)
    again = inspect_dataset(photos.with_splits(splits))
    assert all(len(some.splits) == 1 for some in again.images.duplicates)


def test_arrays_are_images_too():
    array = np.random.default_rng(0).integers(0, 256, (4, 8, 6), dtype=np.uint8)
    array[3] = array[1]
    dataset = Dataset(Labels([]), None, ids=list("abcd"), images=Pixels(array))
    images = inspect_dataset(dataset).images
    assert images.formats == {"array": 4}
    assert (images.widths, images.heights) == ((6, 6, 6), (8, 8, 8))
    assert [some.names for some in images.duplicates] == [["image 1", "image 3"]]


@pytest.mark.parametrize(
    ("rows", "labels", "splits", "words"),
    [
        ([["a"]] * 20, ["a", "b"], None, "1 label is never present: 'b'."),
        ([["a"]] * 20, ["a", "b"], None, "1 label is never absent, so there is nothing to learn: 'a'."),
        ([["a"], []] * 20, ["a"], None, "The data come in one piece: rows to validate"),
        ([["a"], []] * 20, ["a"], ["val"] * 40, "The data come in one piece"),
        ([["a"]] * 12 + [[]] * 30, ["a"], None, "71% of the rows have no label; check that this is true"),
        (
            [["A b"], ["a_B"]] * 10,
            ["A b", "a_B"],
            None,
            "case, spaces or punctuation, maybe by mistake: 'A b' and 'a_B'.",
        ),
        (
            [["a"], []] * 10 + [[]] * 10,
            ["a"],
            ["val"] * 20 + ["train"] * 10,
            "split 'train' and cannot be learnt: 'a'.",
        ),
    ],
)
def test_what_is_wrong_with_labels(rows, labels, splits, words):
    assert any(words in warning for warning in inspect_dataset(table(rows, labels, splits)).warnings)


def test_good_data_give_no_warning():
    rows = [["a"], ["b"], ["a", "b"], []] * 30
    found = inspect_dataset(table(rows, ["a", "b"], ["train", "val", "test"] * 40))
    assert found.warnings == []
    assert "Nothing seems to be wrong." in shown(found)


def test_nothing_at_all():
    empty = inspect_dataset(table([], []))
    assert (empty.samples, empty.mean_labels, empty.set_sizes, empty.warnings) == (0, 0.0, {}, [])
    assert "0 rows x 0 labels" in shown(empty)
    unlabelled = inspect_dataset(Dataset(Labels([]), None, ids=["a", "b"], features=np.zeros((2, 1))))
    assert unlabelled.labels == []


def shown(found):
    console = Console(file=io.StringIO(), width=140)
    console.print(found)
    return console.file.getvalue()


def test_json_holds_everything(photos):
    found = inspect_dataset(photos, near=True)
    content = json.loads(json.dumps(found.to_dict()))
    assert content["samples"] == 10
    assert content["labels"][0]["by_split"] == {"train": 2, "test": 3}
    assert content["images"]["duplicates"][0]["names"] == ["0.png", "copy.png"]
    assert content["warnings"] == found.warnings
    assert "duplicate_of" not in content


def test_names_cannot_steer_the_terminal():
    rows = [["[red]x[/red]"], ["\x1b[31my"]] * 10
    text = shown(inspect_dataset(table(rows, ["[red]x[/red]", "\x1b[31my"], ["[b]", "b"] * 10)))
    assert "[red]x[/red]" in text
    assert "\\x1b[31my" in text
    assert "\x1b" not in text
    assert "[b]" in text


def test_many_labels_are_shortened():
    labels = [f"label {k}" for k in range(60)]
    text = shown(inspect_dataset(table([labels[k:] for k in range(60)], labels)))
    assert "the 10 most frequent and the 10 rarest of 60" in text
    assert "label 30" not in text.split("Labels per row")[0]


def test_likeness_survives_scaling_and_compression_and_tells_others_apart():
    marks = [dhash(picture(seed, size)) for size in ((320, 240), (200, 150)) for seed in range(30)]
    assert near_duplicate_sets(marks) == [[seed, 30 + seed] for seed in range(30)]
    assert dhash(Image.new("RGB", (50, 50), "grey")) is None
    assert near_duplicate_sets([None, None]) == []


def test_alike_sets_hold_all_who_differ_in_few_bits():
    draw = np.random.default_rng(0)
    base = draw.integers(0, 2, 256, dtype=np.uint8)
    marks = [draw.bytes(32) for _ in range(200)]
    for row in (3, 50, 199):
        flipped = base.copy()
        flipped[draw.choice(256, 5, replace=False)] ^= 1
        marks[row] = np.packbits(flipped).tobytes()
    assert near_duplicate_sets(marks) == [[3, 50, 199]]


def test_broken_files_are_no_copies_of_one_another(tmp_path):
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"")
    for name in ("c.jpg", "d.jpg"):
        (tmp_path / name).write_bytes(b"no picture")
    names = ["a.png", "b.png", "c.jpg", "d.jpg"]
    dataset = from_arrays([tmp_path / name for name in names], [["x"], [], ["x"], []], splits=["train", "test"] * 2)
    found = inspect_dataset(dataset)
    assert found.images.duplicates == []
    assert found.duplicate_of.tolist() == [0, 1, 2, 3]
    assert not any("same" in warning or "several times" in warning for warning in found.warnings)


def test_data_without_labels_are_warned_of():
    found = inspect_dataset(from_arrays(np.eye(3), [[], [], []]))
    assert found.warnings[0] == "No row has a label, so there is nothing to learn; check how the labels were read."
