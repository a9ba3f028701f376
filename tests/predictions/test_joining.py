"""Targets that come from elsewhere."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import torch

from manyhot.predictions import Predictions, read_predictions
from tests.errors.expected import raises_input_error
from tests.predictions.tables import PLAIN, refused


def test_targets_of_another_file(write):
    names = write("id,labels,split\nb,cat;dog,val\nz,dog,val\na,,test\n", "labels.csv")
    read = read_predictions(write(PLAIN + "c,0.5,0.5,0.5\n"), kind="probs", targets=names)
    assert read.targets.tolist() == [[0, 0, 0], [1, 1, 0], [-1, -1, -1]]
    assert read.splits == ["test", "val", ""]
    assert read.notes[2:] == [
        "Targets are the label names in column 'labels' of labels.csv, separated by ';' as detected.",
        "Targets of labels.csv are joined by column 'id': 2 of 3 rows have some.",
        "All labels of the other 1 rows are unknown.",
        "1 ids of labels.csv are not among the predictions.",
        "Splits come from the same file as the targets.",
    ]


def test_targets_of_another_file_with_one_column_a_label(write):
    columns = write("name,id,dog,width,cat\nx,b,1,640,\ny,a,0,480,-1\n", "labels.tsv".replace("tsv", "csv"))
    read = read_predictions(write(PLAIN), kind="probs", targets=columns)
    assert read.targets.tolist() == [[-1, 0, -1], [-1, 1, -1]]
    assert read.notes[-1] == "labels.csv has no column for 'bird': unknown in all rows."


def test_targets_from_elsewhere_replace_those_of_the_table(write):
    text = "id,cat,dog,labels,target:cow\na,0.5,0.5,zebra,1\n"
    targets = write("id,tags\na,dog\n", "labels.csv")
    read = read_predictions(write(text), kind="probs", targets=targets, labels_column="tags")
    assert read.targets.tolist() == [[0, 1]]
    assert "Left out columns: 'labels', 'target:cow'." in read.notes


def test_one_row_a_label_in_another_file(write):
    long = write("path,label\nx.jpg,cat\ny.jpg,dog\nx.jpg,dog\n", "labels.csv")
    read = read_predictions(write("id,path,cat,dog\n1,x.jpg,0.5,0.5\n2,y.jpg,0.1,0.1\n"), kind="probs", targets=long)
    assert read.targets.tolist() == [[1, 1], [0, 1]]
    assert "Targets of labels.csv are joined by column 'path': 2 of 2 rows have some." in read.notes


def test_targets_in_parquet_and_in_our_own_tables(write, tmp_path):
    pq.write_table(pa.table({"id": ["b", "a"], "labels": [["cat"], []]}), tmp_path / "labels.parquet")
    read = read_predictions(write(PLAIN), kind="probs", targets=tmp_path / "labels.parquet")
    assert read.targets.tolist() == [[0, 0, 0], [1, 0, 0]]
    ours = Predictions(
        scores=torch.zeros(2, 3), targets=[[1, -1, 0], [0, 0, 1]], labels=["bird", "cat", "dog"], ids=["b", "a"]
    )
    ours.save(tmp_path / "ours.parquet")
    read = read_predictions(write(PLAIN), kind="probs", targets=tmp_path / "ours.parquet")
    assert read.targets.tolist() == [[0, 1, 0], [-1, 0, 1]]


def test_targets_row_by_row(write, tmp_path):
    true = np.array([[1, 0, -1], [0, 1, 0]])
    np.savez(tmp_path / "true.npz", targets=true)
    np.save(tmp_path / "true.npy", true)
    sparse = np.array([[1, 0, 0], [0, 1, 1]])
    scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.csr_matrix(sparse))
    for given in (true, torch.tensor(true), tmp_path / "true.npz", str(tmp_path / "true.npy")):
        assert read_predictions(write(PLAIN), kind="probs", targets=given).targets.tolist() == true.tolist()
    for given in (tmp_path / "sparse.npz", [["cat"], ["dog", "bird"]]):
        assert read_predictions(write(PLAIN), kind="probs", targets=given).targets.tolist() == sparse.tolist()
    for rows in (1, 3):
        with raises_input_error(match=f"`targets` of `read_predictions` must have as many rows as the.*; got {rows}"):
            read_predictions(write(PLAIN), kind="probs", targets=np.zeros((rows, 3)))
    with raises_input_error("targets", "read_predictions", rule="have as many rows as the predictions", got="1"):
        read_predictions(write(PLAIN), kind="probs", targets=np.array(1))


def test_targets_that_are_no_numbers(write):
    with raises_input_error("targets", "read_predictions", rule="be a table of real numbers", got="dict"):
        read_predictions(write(PLAIN), kind="probs", targets={"cat": 1})


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        (
            "id,labels\n1,cat\n",
            "`targets` of `read_predictions` must share the ids in column 'id' with the predictions; "
            "got '1' where the predictions have 'a'. Name the column of ids with `id_column`.",
        ),
        (
            "id,zebra\na,1\n",
            "`targets` of `read_predictions` must have a column of label names or one column per label; "
            "got the columns 'id', 'zebra'. Name the column of label names `labels`, or pass `labels_column`.",
        ),
        (
            "cat,dog\n1,0\n",
            "`targets` of `read_predictions` must have a column of ids or paths; got the columns 'cat', 'dog'. "
            "Name it with `id_column`.",
        ),
        (
            "id,cat\na,1\na,0\n",
            "`targets` of `read_predictions` must have one row per id; got 'a' twice. Keep one row of each.",
        ),
        (
            "id,cat\na,2\n",
            "`targets` of `read_predictions` must hold 1, 0, -1 or blank for each label; got 2 in column 'cat', row 1. "
            "Repair or remove that column, or name the columns of labels with `labels`.",
        ),
    ],
)
def test_targets_that_do_not_fit(write, targets, sentence):
    with refused(sentence):
        read_predictions(write(PLAIN), kind="probs", targets=write(targets, "labels.csv"))
