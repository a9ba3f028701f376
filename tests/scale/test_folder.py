"""A folder of parts: what it remembers, what it refuses, and what a crash may leave behind."""

import csv
import json
import sys
from itertools import islice

import pytest
import torch

import manyhot as mh
from manyhot.errors import InputError
from manyhot.scale import PartsFolder, ProcessedImage
from manyhot.search import Collection


@pytest.fixture
def folder(tmp_path):
    """A folder that was begun."""
    parts = PartsFolder(tmp_path / "scores")
    with parts.exclusive():
        parts.begin("abc")
    return parts


def add_part(folder, number, ids, *, left_out=(), labels=("cat", "dog")):
    """A finished part, some of whose images could not be read."""
    scored = [name for name in ids if name not in left_out]
    probs = torch.full((len(scored), len(labels)), 0.5)
    with folder.write_part(number, mh.Labels(labels), {name: f"state of {name}" for name in ids}) as (writer, reasons):
        writer.write(mh.Predictions(probs=probs, labels=labels, ids=scored))
        reasons |= dict.fromkeys(left_out, "it is a folder")


def write_list(folder, number, ids, *, left_out=()):
    """The list of images beside a part of format 1."""
    path = folder.path / "seen" / f"part-{number:05d}.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        rows = [(name, f"state of {name}", "it is a folder" if name in left_out else "") for name in ids]
        csv.writer(file).writerows([("id", "state", "left_out"), *rows])


def add_old_part(folder, number, ids, *, left_out=()):
    """A finished part of format 1."""
    write_list(folder, number, ids, left_out=left_out)
    scored = [name for name in ids if name not in left_out]
    probs = torch.full((len(scored), 2), 0.5)
    mh.Predictions(probs=probs, labels=["cat", "dog"], ids=scored).save(folder.part(number))


@pytest.mark.parametrize("first", [add_part, add_old_part])
@pytest.mark.parametrize("second", [add_part, add_old_part])
def test_parts_tell_what_was_seen(folder, first, second):
    first(folder, 0, ["a", "b, with comma\nand line"])
    second(folder, 1, ["c", "d"], left_out=["d"])
    assert folder.processed() == {
        "a": ProcessedImage("state of a", "", "part-00000.parquet"),
        "b, with comma\nand line": ProcessedImage("state of b, with comma\nand line", "", "part-00000.parquet"),
        "c": ProcessedImage("state of c", "", "part-00001.parquet"),
        "d": ProcessedImage("state of d", "it is a folder", "part-00001.parquet"),
    }
    assert folder.rows() == 3
    assert folder.list_left_out() == {"d": "it is a folder"}
    with (folder.path / "left-out.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [{"id": "d", "reason": "it is a folder"}]
    assert mh.Predictions.open(folder.path).load().ids == ["a", "b, with comma\nand line", "c"]
    assert {hit.id for hit in Collection.open(folder.path).search("cat", k=3).hits} == {*folder.processed()} - {"d"}


@pytest.mark.parametrize("add_part", [add_part, add_old_part])
def test_an_image_that_was_scored_later_is_no_longer_left_out(folder, add_part):
    add_part(folder, 0, ["a", "b"], left_out=["b"])
    folder.list_left_out()
    add_part(folder, 1, ["b"])
    assert folder.processed()["b"] == ProcessedImage("state of b", "", "part-00001.parquet")
    assert folder.list_left_out() == {}
    assert not (folder.path / "left-out.csv").exists()


def test_a_list_without_its_part_says_nothing(folder):
    add_old_part(folder, 0, ["a"])
    write_list(folder, 1, ["b"])
    assert list(folder.processed()) == ["a"]
    # A part that came by other means under this number counts, but not what the list says of other images.
    mh.Predictions(probs=torch.rand(1, 2), labels=["cat", "dog"], ids=["c"]).save(folder.part(1))
    assert folder.processed() == {
        "a": ProcessedImage("state of a", "", "part-00000.parquet"),
        "c": ProcessedImage("", ""),
    }


def test_a_list_beside_a_part_of_now_says_nothing(folder):
    write_list(folder, 0, ["a", "b"], left_out=["b"])
    add_part(folder, 0, ["a"])
    assert list(folder.processed()) == ["a"]


def test_a_part_that_breaks_off_leaves_nothing(folder):
    with pytest.raises(KeyError), folder.write_part(0, mh.Labels(["cat"]), {}) as (writer, _):
        writer.write(mh.Predictions(probs=torch.rand(1, 1), ids=["a"], labels=["cat"]))
    assert sorted(path.name for path in folder.path.iterdir() if path.name[0] != ".") == ["work.json"]


def test_gaps_are_filled_first(folder):
    for number in (0, 1, 3):
        add_part(folder, number, [str(number)])
    (folder.path / "others.parquet").write_bytes(folder.part(0).read_bytes())
    assert list(islice(folder.free_numbers(), 3)) == [2, 4, 5]


def test_a_damaged_part_and_a_part_of_another_table_are_refused(folder):
    add_part(folder, 0, ["a"])
    whole = folder.part(0).read_bytes()
    folder.part(1).write_bytes(whole[:-20])
    with pytest.raises(InputError, match=r"part-00001.parquet.* It was cut short; write or copy it again\."):
        folder.processed()
    folder.part(1).unlink()
    add_part(folder, 1, ["b"], labels=["cat", "bird"])
    with pytest.raises(InputError, match="must hold parts with the same labels as 'part-00000"):
        folder.processed()


def test_other_work_is_refused_and_replaced_on_demand(folder):
    add_part(folder, 0, ["a"], left_out=["a"])
    folder.list_left_out()
    with folder.exclusive():
        folder.begin("abc")
        assert folder.part(0).exists()
        with pytest.raises(InputError) as refused:
            folder.begin("xyz")
        assert str(refused.value) == (
            "`folder` of `predict_with_ray` must have been begun with this classifier and rule, xyz; got "
            f"{str(folder.path)!r}, begun with abc. Choose another folder, or pass `overwrite` to replace its parts."
        )
        folder.begin("xyz", overwrite=True)
        assert folder.processed() == {}
        folder.begin("xyz")
    assert sorted(path.name for path in folder.path.iterdir() if path.name[0] != ".") == ["work.json"]


def test_folders_of_others_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"must be empty or one that it began itself; got .* with other files\."):
        PartsFolder(tmp_path).exclusive().__enter__()
    with pytest.raises(InputError, match=r"must be a folder; got .*notes.txt', a file\. Name a folder\."):
        PartsFolder(tmp_path / "notes.txt").exclusive().__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_note_of_a_newer_version_is_refused(folder):
    (folder.path / "work.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(InputError, match=r"must hold a work.json of this version of manyhot; got .* update manyhot\."):
        folder.begin("abc")
    (folder.path / "work.json").write_text("{")
    with pytest.raises(InputError, match=r"must hold a work.json of this version"):
        folder.begin("abc")


def test_a_list_that_is_none_is_refused(folder):
    add_old_part(folder, 0, ["a"])
    (folder.path / "seen" / "part-00000.csv").write_text("nonsense\n")
    with pytest.raises(InputError, match=r"must hold lists as it wrote them in 'seen'; got .*part-00000.csv"):
        folder.processed()


def test_two_runs_do_not_share_a_folder(folder):
    with folder.exclusive(), pytest.raises(InputError) as refused, PartsFolder(folder.path).exclusive():
        pass
    assert str(refused.value) == (
        f"`folder` of `predict_with_ray` must be free; got {str(folder.path)!r}, which another run writes to. "
        "Wait for that run, or end it."
    )


def test_locks_hold_where_fcntl_is_missing(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    with folder.exclusive(), pytest.raises(InputError, match="must be free"), PartsFolder(folder.path).exclusive():
        pass


def test_what_a_killed_process_left_unfinished_is_removed(folder):
    add_old_part(folder, 0, ["a"])
    for half in (".part-00001.parquet.x.part", "seen/.part-00001.csv.y.part"):
        (folder.path / half).write_bytes(b"half")
    assert list(folder.processed()) == ["a"]
    with folder.exclusive():
        assert not list(folder.path.rglob("*.part"))
    assert len(mh.Predictions.open(folder.path)) == 1
