"""Corrections laid over a data set: which images they are about, which cells they replace, and what is said."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyhot.data import SparseTargets, from_arrays, read_corrections, read_data, read_images
from manyhot.data.corrections import overlay
from manyhot.errors import InputError
from tests.errors.expected import raises_input_error


@pytest.fixture
def write(tmp_path):
    """Writes a table below the folder, and pictures for names."""

    def table(text, name="photos.csv", pictures=()):
        for picture in pictures:
            path = tmp_path / picture
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture.encode())
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return table


@pytest.fixture
def photos(write):
    text = "path,labels,split\nimages/a.jpg,dog,train\nimages/b.jpg,dog|cat,val\nimages/c.jpg,,test\n"
    return read_data(write(text, pictures=[f"images/{name}.jpg" for name in "abc"]))


def cells(data):
    """What is known of each image, by label."""
    rows = data.targets.dense().tolist()
    return {
        name: {label: value for label, value in zip(data.labels.names, row, strict=True) if value >= 0}
        for name, row in zip(data.ids, rows, strict=True)
    }


def test_known_cells_replace_those_of_the_data_and_blanks_say_nothing(photos, write):
    table = write(
        "path,split,dog,cat\n../../images/a.jpg,train,0,1\n../../images/c.jpg,test,1,\n", "runs/x/reviewed.csv"
    )
    better = photos.corrected(read_corrections(table))
    assert cells(better) == {
        "images/a.jpg": {"dog": 0, "cat": 1},
        "images/b.jpg": {"dog": 1, "cat": 1},
        "images/c.jpg": {"dog": 1, "cat": 0},
    }
    assert better.splits.tolist() == ["train", "val", "test"]
    assert better.notes[:-1] == photos.notes
    assert better.notes[-1] == "Corrections of 2 images: 3 cells of 2 images changed."
    assert cells(photos)["images/a.jpg"] == {"dog": 1, "cat": 0}


def test_images_and_labels_that_the_data_lack_are_added(photos, write):
    text = "path,split,dog,bird\nimages/a.jpg,train,1,1\nimages/new.jpg,test,,1\nimages/gone.jpg,test,1,0\n"
    table = write(text, "reviewed.csv", pictures=["images/new.jpg"])
    better = photos.corrected(read_corrections(table))
    assert cells(better) == {
        "images/a.jpg": {"dog": 1, "cat": 0, "bird": 1},
        "images/b.jpg": {"dog": 1, "cat": 1},
        "images/c.jpg": {"dog": 0, "cat": 0},
        "images/new.jpg": {"bird": 1},
    }
    assert better.splits.tolist() == ["train", "val", "test", "test"]
    assert better.images.read(3) == b"images/new.jpg"
    assert better.images.read(0) == b"images/a.jpg"
    assert better.notes[-1] == (
        "Corrections of 3 images: 0 cells of 0 images changed, 2 cells of 2 images had been unknown, "
        "1 new label ('bird'), 1 image added, 1 image not found and left out."
    )


def test_added_images_are_to_train_on_if_nothing_else_is_said(photos, write):
    table = write("path,dog\nimages/a.jpg,0\nimages/new.jpg,1\n", "reviewed.csv", pictures=["images/new.jpg"])
    assert photos.corrected(read_corrections(table)).splits.tolist() == ["train", "val", "test", "train"]


def test_an_added_image_does_not_take_the_id_of_another_one(photos, write, tmp_path):
    text = f"path,dog\n{tmp_path}/images/a.jpg,0\nimages/a.jpg,1\n"
    table = write(text, "other/reviewed.csv", pictures=["other/images/a.jpg"])
    better = photos.corrected(read_corrections(table))
    assert len(better) == 4
    assert better.ids[3] == str(tmp_path / "other" / "images" / "a.jpg")
    assert cells(better)["images/a.jpg"]["dog"] == 0
    assert better.images.read(3) == b"other/images/a.jpg"


def test_a_correction_stays_in_the_split_of_the_data(photos, write):
    table = write("path,split,dog\nimages/b.jpg,train,0\nimages/c.jpg,train,1\n", "reviewed.csv")
    better = photos.corrected(read_corrections(table))
    assert better.splits.tolist() == ["train", "val", "test"]
    assert better.notes[-1] == (
        "2 images of the corrections are in other splits of the data, such as 'val' instead of 'train', and stay there."
    )


def test_files_are_the_same_through_links(photos, write, tmp_path):
    (tmp_path / "linked").symlink_to(tmp_path / "images")
    table = write("path,dog\nlinked/./a.jpg,0\n", "reviewed.csv")
    assert cells(photos.corrected(read_corrections(table)))["images/a.jpg"]["dog"] == 0


def test_a_picture_that_is_a_link_goes_by_its_own_name(write, tmp_path):
    # Two links to one picture, in a folder that is itself reached through a link.
    text = "path,labels\nlinked/a.jpg,dog\nlinked/b.jpg,dog\n"
    (tmp_path / "linked").symlink_to(tmp_path / "images")
    table = write(text, pictures=["store/0f.jpg", "images/c.jpg"])
    for name in "ab":
        (tmp_path / "images" / f"{name}.jpg").symlink_to(tmp_path / "store" / "0f.jpg")
    reviewed = write("path,dog\n../images/a.jpg,0\n../linked/b.jpg,1\n", "runs/reviewed.csv")
    better = read_data(table).corrected(read_corrections(reviewed))
    assert cells(better) == {"linked/a.jpg": {"dog": 0}, "linked/b.jpg": {"dog": 1}}
    assert better.notes[-1] == "Corrections of 2 images: 1 cell of 1 image changed."


def test_pictures_that_were_moved_are_paired_by_the_ends_of_their_paths(write):
    pictures = ["new/x/1.jpg", "new/y/1.jpg", "new/y/2.jpg", "new/z/3.jpg", "new/w/3.jpg"]
    table = write("path,labels\n" + "".join(f"{name},dog\n" for name in pictures), pictures=pictures)
    text = "path,dog\n/old/y/1.jpg,0\n/old/v/2.jpg,0\n/old/v/3.jpg,0\n/old/4.jpg,0\n"
    better = read_data(table).corrected(read_corrections(write(text, "reviewed.csv")))
    assert [name for name, said in cells(better).items() if said == {"dog": 0}] == ["new/y/1.jpg", "new/y/2.jpg"]
    assert "2 cells of 2 images changed, 2 images not found and left out." in better.notes[-2]
    assert better.notes[-1].startswith("No image lies where the corrections say: 2 images were paired by the ends of ")
    assert "such as '/old/y/1.jpg' with " in better.notes[-1]


def test_ends_of_paths_that_corrections_have_twice_tell_nothing(photos, write):
    table = write("path,dog\n/old/x/a.jpg,0\n/old/y/a.jpg,0\n", "reviewed.csv")
    with raises_input_error(rule="be about images of the data", got="none"):
        photos.corrected(read_corrections(table))


def test_ends_of_paths_are_asked_only_where_nothing_else_pairs(photos, write):
    table = write("path,dog\nimages/a.jpg,0\n/old/b.jpg,0\n", "reviewed.csv")
    better = photos.corrected(read_corrections(table))
    assert cells(better)["images/b.jpg"]["dog"] == 1
    assert better.notes[-1].endswith("1 image not found and left out.")


def test_pictures_that_are_not_where_they_were_go_by_their_id(photos, write):
    table = write("path,dog\nimages/a.jpg,0\n", "elsewhere/reviewed.csv")
    assert cells(photos.corrected(read_corrections(table)))["images/a.jpg"]["dog"] == 0


def test_another_picture_of_the_same_name_is_another_picture(photos, write):
    table = write("path,dog\nimages/a.jpg,0\n", "elsewhere/reviewed.csv", pictures=["elsewhere/images/a.jpg"])
    with pytest.raises(InputError) as error:
        photos.corrected(read_corrections(table))
    words = str(error.value)
    assert words.startswith("`corrections` of `corrected` must be about images of the data; got none: ")
    assert "elsewhere/images/a.jpg" in words
    assert "the data " in words


def test_corrections_that_come_later_hold(photos, write):
    first = read_corrections(write("path,dog,cat\nimages/a.jpg,0,1\n", "first.csv"))
    second = read_corrections(write("path,dog,cat\nimages/a.jpg,1,\n", "second.csv"))
    assert cells(photos.corrected(first).corrected(second))["images/a.jpg"] == {"dog": 1, "cat": 1}


def test_lists_of_labels_correct_all_labels_that_occur_in_them(photos, write):
    table = write("path,labels\nimages/b.jpg,cat\nimages/a.jpg,dog|cat\n", "reviewed.csv")
    found = cells(photos.corrected(read_corrections(table)))
    assert found["images/b.jpg"] == {"dog": 0, "cat": 1}
    assert found["images/a.jpg"] == {"dog": 1, "cat": 1}


def test_features_and_pixels_go_by_id(write):
    data = from_arrays(torch.eye(3), [["dog"], [], ["cat"]], ids=["a", "b", "c"])
    table = write("path,dog\nb,1\nnowhere,1\n", "reviewed.csv")
    better = data.corrected(read_corrections(table))
    assert cells(better)["b"] == {"dog": 1, "cat": 0}
    assert len(better) == 3
    assert better.splits is None
    assert "1 image not found and left out" in better.notes[-1]
    pixels = from_arrays(np.zeros((2, 4, 4), dtype=np.uint8), [["dog"], []])
    named = write("path,dog\nimage 1,1\n", "named.csv")
    assert cells(pixels.corrected(read_corrections(named)))["1"] == {"dog": 1}


def test_images_without_labels_get_those_of_the_corrections(write, photos, tmp_path):
    better = read_images(tmp_path / "images").corrected(read_corrections(write("path,dog\nimages/a.jpg,1\n", "r.csv")))
    assert cells(better) == {"a.jpg": {"dog": 1}, "b.jpg": {}, "c.jpg": {}}


def test_corrections_without_labels_are_refused(photos, tmp_path):
    with raises_input_error("corrections", "corrected", rule="have labels", got="samples without any"):
        photos.corrected(read_images(tmp_path / "images"))


def test_a_table_that_is_not_there_is_named(tmp_path):
    with raises_input_error("path", "read_corrections", rule="lead to data"):
        read_corrections(tmp_path / "gone.csv")


def test_columns_may_be_marked_as_labels(photos, write):
    data = read_data(
        write("path,target:path,target:labels,split\nimages/a.jpg,1,0,val\nimages/b.jpg,,1,test\n", "m.csv")
    )
    assert data.labels.names == ["path", "labels"]
    assert cells(data) == {"images/a.jpg": {"path": 1, "labels": 0}, "images/b.jpg": {"labels": 1}}
    assert read_data(write("path,target:x.jpg\nimages/a.jpg,1\n", "n.csv"), labels=["x.jpg"]).labels.names == ["x.jpg"]


@st.composite
def overlays(draw):
    """Targets, a larger shape, and cells to put into it."""
    values = st.sampled_from([1, 0, -1])
    N, K = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    dense = draw(st.lists(st.lists(values, min_size=K, max_size=K), min_size=N, max_size=N))
    shape = N + draw(st.integers(0, 2)), K + draw(st.integers(0, 2))
    places = [(row, column) for row in range(shape[0]) for column in range(shape[1])]
    cells = st.lists(st.tuples(st.sampled_from(places), st.sampled_from([0, 1])), max_size=8) if places else st.just([])
    return torch.tensor(dense, dtype=torch.int8).reshape(N, K), shape, draw(cells)


@given(overlays(), st.sampled_from(["absent", "unknown"]))
def test_an_overlay_is_what_writing_into_a_dense_table_gives(case, unlisted):
    dense, shape, put = case
    usual = 0 if unlisted == "absent" else -1
    rows, columns = np.nonzero(dense.numpy() != usual)
    targets = SparseTargets.from_cells(
        rows, columns, dense.numpy()[rows, columns], shape=tuple(dense.shape), unlisted=unlisted
    )
    wanted = torch.full(shape, -1, dtype=torch.int8)
    wanted[: dense.shape[0], : dense.shape[1]] = dense
    before = wanted.clone()
    for (row, column), value in sorted(put, key=lambda one: one[1]):  # of a cell that comes twice, 1 holds
        wanted[row, column] = value
    places = {place for place, _ in put}
    arrays = [np.array([one[k] for one, _ in put], dtype=np.int64) for k in range(2)]
    larger = targets.extended(shape[0] - dense.shape[0], shape[1] - dense.shape[1])
    found, changed, filled = overlay(larger, *arrays, np.array([value for _, value in put], dtype=np.int8))
    assert found.dense().tolist() == wanted.tolist()
    assert found.known().tolist() == (wanted >= 0).sum(0).tolist()
    assert found.unlisted == unlisted
    differ = [row for row, column in places if before[row, column] >= 0 and before[row, column] != wanted[row, column]]
    assert sorted(changed.tolist()) == sorted(differ)
    assert sorted(filled.tolist()) == sorted(row for row, column in places if before[row, column] == -1)


def test_a_new_label_stores_nothing_for_images_that_are_not_corrected(write):
    rows = 1000
    data = from_arrays(torch.zeros(rows, 2), [["dog"]] * rows, ids=[f"{row}.jpg" for row in range(rows)])
    targets = data.corrected(read_corrections(write("path,bird\n3.jpg,1\n4.jpg,0\n", "reviewed.csv"))).targets
    assert targets.known().tolist() == [rows, 2]
    assert len(targets.columns) == rows + 2
    assert targets.take([2, 3, 4]).dense().tolist() == [[1, -1], [1, 1], [1, 0]]
    assert targets.select([1, 0]).dense([2, 3]).tolist() == [[-1, 1], [1, 1]]
    assert targets.extended(1, 1).dense([2, rows]).tolist() == [[1, -1, -1], [-1, -1, -1]]
