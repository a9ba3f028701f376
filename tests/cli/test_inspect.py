"""`manyhot inspect` on tables and images as people have them."""

import json

import numpy as np
import pytest
from PIL import Image


def picture(path, seed, size=(24, 16)):
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize(size).save(path)


@pytest.fixture
def table(tmp_path):
    """Twelve photos with a table; one photo is missing, one empty, one is in two splits."""
    (tmp_path / "photos").mkdir()
    lines = ["path,labels,split"]
    for row in range(12):
        picture(tmp_path / "photos" / f"{row}.png", seed=0 if row == 11 else row)
        labels = ["sky", "sky|sea", "", "[red]sun[/red]"][row % 4]
        lines.append(f"photos/{row}.png,{labels},{'train' if row < 8 else 'test'}")
    (tmp_path / "photos" / "5.png").write_bytes(b"")
    (tmp_path / "photos" / "6.png").unlink()
    path = tmp_path / "photos.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_it_shows_what_is_there_and_what_is_wrong(table, run):
    shown = run("inspect", table).out
    assert "12 rows x 3 labels: 1.00 labels per row, at most 2; 3 rows (25.0%) without any" in shown
    assert "[red]sun[/red]" in shown
    for word in ("Splits", "Labels per row", "Images", "PNG 10", "Look into these before you train"):
        assert word in shown
    assert "1. 1 image is not there: 'photos/6.png'." in shown
    assert "2. 1 image is not readable: 'photos/5.png' (the file is empty)." in shown
    assert "3. 1 image is the same in several splits (test and train)" in " ".join(shown.split())


def test_json_is_all_that_is_printed(table, run):
    printed = run("inspect", table, "--json", "--near")
    content = json.loads(printed.out)
    assert content["samples"] == 12
    assert content["splits"] == {"train": 8, "test": 4}
    assert content["images"]["missing"] == ["photos/6.png"]
    assert content["images"]["unreadable"] == {"photos/5.png": "the file is empty"}
    assert content["images"]["duplicates"][0]["names"] == ["photos/0.png", "photos/11.png"]
    assert {label["name"]: label["count"] for label in content["labels"]} == {"sky": 6, "sea": 3, "[red]sun[/red]": 3}
    assert content["notes"]


def test_labels_alone(table, run):
    content = json.loads(run("inspect", table, "--no-images", "--json").out)
    assert content["images"] is None
    assert "Images" not in run("inspect", table, "--no-images").out


def test_columns_can_be_named(tmp_path, run):
    for name in "ab":
        picture(tmp_path / f"{name}.png", ord(name))
    path = tmp_path / "odd.tsv"
    path.write_text("tags\tfile\tpart\nsky;sea\ta.png\tone\nsky\tb.png\ttwo\n")
    options = ["--path-column", "file", "--labels-column", "tags", "--split-column", "part", "--separator", ";"]
    content = json.loads(run("inspect", path, *options, "--json").out)
    assert content["splits"] == {"one": 1, "two": 1}
    assert [label["name"] for label in content["labels"]] == ["sea", "sky"]


def test_an_empty_split_column_is_none(table, run):
    assert json.loads(run("inspect", table, "--no-images", "--json", "--split-column", "").out)["splits"] == {}


def test_every_label_can_be_shown(tmp_path, run):
    labels = [f"label {k}" for k in range(40)]
    picture(tmp_path / "0.jpg", 0)
    path = tmp_path / "many.csv"
    path.write_text("path,labels\n" + "".join(f"{k}.jpg,{'|'.join(labels[k:])}\n" for k in range(40)))
    short, whole = run("inspect", path, "--no-images").out, run("inspect", path, "--no-images", "--all-labels").out
    assert "label 20 " not in short.split("Labels per row")[0]
    assert "label 20 " in whole.split("Labels per row")[0]


def test_what_cannot_be_read_ends_in_one_sentence(tmp_path, run):
    told = run("inspect", tmp_path / "gone.csv", code=2).err
    assert told.startswith("manyhot: ")
    assert "gone.csv" in told


def test_help_has_examples(run):
    assert "manyhot inspect photos.csv" in run("inspect", "--help").out


def test_small_data_are_told_in_units_and_words_that_fit(tmp_path, run):
    picture(tmp_path / "a.png", 0)
    (tmp_path / "one.csv").write_text("path,labels\na.png,sky\n")
    shown = run("inspect", tmp_path / "one.csv").out
    assert "1 row x 1 label:" in shown
    assert " kB" in shown
    assert " GB" not in shown


def test_long_warnings_stay_beside_their_number(table, run):
    lines = run("inspect", table).out.split("Look into these before you train")[1].splitlines()
    assert all(line.startswith("     ") or line[:4].strip().rstrip(".").isdigit() for line in lines if line)


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        ("path,a,b\n0.png,,\n", [], "`DATA` must have a column of label names or one column per label"),
        ("path,a,b\n0.png,,\n", [], "Name it with `--labels-column`."),
        ("path,labels\n0.png,sky\n", ["--labels-column", "tags"], "`--labels-column` must name a column of the table"),
        ("path,labels\n1.png,sky\n", [], "`--root` must be the folder of the images"),
        ("path,labels\n0.png,sky\n", ["--layout", "coc"], "`--layout` must be one of 'table', 'folders'"),
    ],
)
def test_advice_names_what_can_be_typed(content, options, told, tmp_path, run):
    picture(tmp_path / "0.png", 0)
    (tmp_path / "photos.csv").write_text(content)
    said = run("inspect", tmp_path / "photos.csv", *options, code=2).err
    assert told in said
    assert "manyhot import" not in said


def test_images_that_cannot_be_read_are_counted(tmp_path, run):
    (tmp_path / "cat").mkdir()
    picture(tmp_path / "cat" / "a.avif", seed=0)
    for name in ("b.heic", "c.nef", "c.xmp"):
        (tmp_path / "cat" / name).write_bytes(b"x")
    printed = run("inspect", tmp_path)
    assert "Skipped 2 images that Pillow cannot read here: 1 .heic, 1 .nef." in " ".join(printed.err.split())
    assert "AVIF 1" in printed.out
