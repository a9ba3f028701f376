"""A column means the same to whoever reads the table: data, predictions, targets and the labels file of the studio."""

import subprocess
import sys

import numpy as np
import pandas
import pytest
import torch

from manyhot.data import read_data
from manyhot.predictions import read_predictions
from tests.errors.expected import raises_input_error

ROWS = ("a.jpg", "b.jpg", "c.jpg")
NAMED_LABELS = [["cat", "dog"], ["dog"], []]


@pytest.fixture
def folder(tmp_path):
    for name in ROWS:
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def written(folder, *columns, name="table.csv"):
    """A CSV file of columns, each a name with its three cells."""
    lines = zip(*([head, *cells] for head, cells in columns), strict=True)
    (folder / name).write_text("".join(",".join(line) + "\n" for line in lines))
    return folder / name


def columns_of(**given):
    """The columns of a table with a path, a split and labels under these names."""
    names = {"path": "path", "split": "split", "labels": "labels"} | given
    return (
        (names["path"], ROWS),
        (names["split"], ("train", "Validation", "TEST")),
        (names["labels"], ("cat|dog", "dog", "")),
    )


SCORES = (("cat", ("0.9", "0.2", "0.1")), ("dog", ("0.8", "0.7", "0.3")))


def as_data(folder, columns):
    data = read_data(written(folder, *columns))
    return data.ids, data.splits.tolist(), data.labels.decode(data.targets.dense())


def as_predictions(folder, columns):
    return meant(read_predictions(written(folder, *columns, *SCORES), kind="probs"))


def as_frame(folder, columns):
    frame = pandas.read_csv(written(folder, *columns, *SCORES))
    return meant(read_predictions(frame, kind="probs"))


def as_parquet(folder, columns):
    pandas.read_csv(written(folder, *columns, *SCORES)).to_parquet(folder / "table.parquet")
    return meant(read_predictions(folder / "table.parquet", kind="probs"))


def as_targets(folder, columns):
    scores = written(folder, ("path", ROWS), *SCORES, name="scores.csv")
    return meant(read_predictions(scores, kind="probs", targets=written(folder, *columns)))


def meant(table):
    return table.ids, table.splits, table.labels.decode(table.targets)


READERS = (as_data, as_predictions, as_frame, as_parquet, as_targets)
EXPECTED = list(ROWS), ["train", "val", "test"], NAMED_LABELS


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "names",
    [
        {"labels": "keywords"},
        {"labels": "Finding Labels"},
        {"split": "partition"},
        {"split": "set"},
        {"path": "image_name"},
        {"path": "Image Index"},
        {"path": "IMG_PATH", "split": "Subset", "labels": "class-names"},
        {"path": "name", "labels": "category"},
    ],
    ids=lambda names: "-".join(names.values()),
)
def test_columns_mean_the_same_to_every_reader(folder, read, names):
    assert read(folder, columns_of(**names)) == EXPECTED


@pytest.mark.parametrize("read", READERS)
def test_every_name_of_the_vocabulary_is_understood_by_every_reader(folder, read):
    from manyhot.tables.columns import ID_COLUMNS, KEY_COLUMNS, LABEL_COLUMNS, PATH_COLUMNS, SPLIT_COLUMNS

    for role, names in (
        ("path", (*PATH_COLUMNS, *ID_COLUMNS, *KEY_COLUMNS)),
        ("split", SPLIT_COLUMNS),
        ("labels", LABEL_COLUMNS),
    ):
        for name in names:
            assert read(folder, columns_of(**{role: name})) == EXPECTED, name


@pytest.mark.parametrize("read", READERS)
def test_every_name_of_a_split_is_understood_by_every_reader(folder, read):
    from manyhot.tables.columns import CANONICAL_SPLITS

    for name, usual in CANONICAL_SPLITS.items():
        columns = (("path", ROWS), ("split", (name, name.upper(), f" {name.title()} ")), ("labels", ("dog", "cat", "")))
        assert read(folder, columns)[1] == [usual] * 3, name


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("words", [("True", "False", "True"), ("1", "0", "1"), ("yes", "no", "YES")])
def test_a_column_that_tells_rows_for_validation_is_a_split_to_every_reader(folder, read, words):
    columns = (("path", ROWS), ("is_valid", words), ("labels", ("cat|dog", "dog", "")))
    assert read(folder, columns) == (list(ROWS), ["val", "train", "val"], NAMED_LABELS)


def test_renamed_splits_are_told(folder):
    columns = columns_of()
    for notes in (
        read_data(written(folder, *columns)).notes,
        read_predictions(written(folder, *columns, *SCORES), kind="probs").notes,
        read_predictions(
            written(folder, ("path", ROWS), *SCORES, name="scores.csv"), kind="probs", targets=written(folder, *columns)
        ).notes,
    ):
        assert "Split 'Validation' is read as 'val'." in notes


def test_splits_of_an_archive_get_their_usual_names(folder):
    np.savez(folder / "probs.npz", probs=np.full((3, 2), 0.5), splits=np.array(["Training", "valid", "fold3"]))
    table = read_predictions(folder / "probs.npz", kind="probs")
    assert table.splits == ["train", "val", "fold3"]
    assert "Split 'valid' is read as 'val'." in table.notes


def test_a_label_that_is_called_like_a_column_keeps_its_numbers(folder):
    table = read_predictions(written(folder, ("image_id", ROWS), ("set", ("0.1", "0.2", "0.3")), *SCORES), kind="probs")
    assert table.labels.names == ["set", "cat", "dog"]
    assert table.splits is None
    named = read_predictions(
        written(folder, ("path", ROWS), ("class", ("1", "0", "1")), *SCORES), kind="probs", labels=["class", "cat"]
    )
    assert named.probs[:, 0].tolist() == [1.0, 0.0, 1.0]


def test_whole_numbers_under_labels_are_classes_and_not_a_score(folder):
    path = written(folder, ("id", ROWS), ("0", ("0.9", "0.2", "0.1")), ("1", ("0.1", "0.8", "0.9")), ("label", "011"))
    table = read_predictions(path, kind="probs")
    assert table.labels.names == ["0", "1"]
    assert torch.equal(table.targets, torch.tensor([[1, 0], [0, 1], [0, 1]], dtype=torch.int8))
    with raises_input_error(rule="name the 2 labels", got="'0'"):
        read_predictions(written(folder, ("id", ROWS), *SCORES, ("label", "011")), kind="probs")


def test_an_index_that_pandas_wrote_is_no_label(folder):
    frame = pandas.DataFrame({"path": ["a.jpg", "b.jpg"], "cat": [1, 0], "dog": [0, 1]})
    frame.to_csv(folder / "table.csv")
    assert read_data(folder / "table.csv").labels.names == ["cat", "dog"]


def test_a_labels_file_of_the_studio_takes_the_same_names(tmp_path):
    from manyhot.studio.review_file import parse_labels_file
    from manyhot.tables.columns import ID_COLUMNS, KEY_COLUMNS, PATH_COLUMNS, SPLIT_COLUMNS

    for name in (*PATH_COLUMNS, *ID_COLUMNS, *KEY_COLUMNS):
        assert parse_labels_file(tmp_path / "x.csv", f"{name},cat\na.jpg,yes\n".encode()).paths == ["a.jpg"]
    for name in SPLIT_COLUMNS:
        table = parse_labels_file(tmp_path / "x.csv", f"path,{name},cat\na.jpg,val,no\n".encode())
        assert (table.splits, table.cells) == (["val"], [[0]])


@pytest.mark.process
def test_the_vocabulary_loads_without_torch():
    code = "import sys, manyhot.tables.columns; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_split_by_its_old_name_is_pointed_to_the_usual_one(folder):
    table = read_predictions(written(folder, *columns_of(), *SCORES), kind="probs")
    with raises_input_error(got="'Validation'", hint="Did you mean 'val'?"):
        table.of_split("Validation")


def test_labels_may_have_numbers_for_names_where_another_column_says_that_there_is_a_header(folder):
    columns = (("path", ROWS), ("0.5", ("1", "0", "1")), ("1.5", ("0", "1", "1")))
    assert read_data(written(folder, *columns)).labels.names == ["0.5", "1.5"]
    table = read_predictions(written(folder, *columns), kind="probs")
    assert table.labels.names == ["0.5", "1.5"]
    assert table.ids == list(ROWS)
