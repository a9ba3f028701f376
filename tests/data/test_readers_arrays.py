"""Arrays as data sets, and what a data set can do."""

import numpy as np
import pandas
import pytest
import torch
from scipy import sparse

import manyhot as mh
from manyhot.data import Dataset, Files, Pixels, SparseTargets, from_arrays
from tests.errors.expected import raises_input_error

X = np.arange(12, dtype=np.float64).reshape(3, 4)
Y = [[1, 0, -1], [0, 0, 0], [1, 1, 0]]


@pytest.mark.parametrize(
    "y",
    [
        np.array(Y),
        torch.tensor(Y),
        np.array(Y, dtype=float),
        sparse.csr_matrix(Y),
        SparseTargets.from_dense(np.array(Y)),
    ],
)
def test_tables_of_targets(y):
    data = from_arrays(X, y, labels=["a", "b", "c"])
    assert data.targets.dense().tolist() == Y
    assert data.features.dtype == np.float32
    assert data.features.tolist() == X.tolist()
    assert (data.ids, data.labels.names) == (["0", "1", "2"], ["a", "b", "c"])
    assert from_arrays(X, y).labels.names == ["0", "1", "2"]


def test_data_frames_name_their_labels():
    data = from_arrays(pandas.DataFrame(X), pandas.DataFrame(Y, columns=["dog", "cat", "🐦"]))
    assert data.labels.names == ["dog", "cat", "🐦"]
    assert data.targets.dense().tolist() == Y


def test_lists_of_labels():
    by_name = from_arrays(X, [["dog", "cat"], [], "cat"])
    assert (by_name.labels.names, by_name.targets.dense().tolist()) == (["cat", "dog"], [[1, 1], [0, 0], [1, 0]])
    by_number = from_arrays(X, [[1, 0], (), 2])
    assert by_number.targets.dense().tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    # Lists are numbers of labels, whatever they look like; a table of 1 and 0 is an array.
    assert from_arrays(X, [[0, 1], [1, 0], [0]]).targets.dense().tolist() == [[1, 1], [1, 1], [1, 0]]
    assert from_arrays(X, [["a"], [], []], labels=["b", "a"]).targets.dense().tolist() == [[0, 1], [0, 0], [0, 0]]


def test_images_in_memory_and_on_disk():
    pixels = np.zeros((2, 5, 4, 3), np.uint8)
    assert isinstance(from_arrays(pixels, [["x"], []]).images, Pixels)
    assert isinstance(from_arrays(torch.zeros(2, 5, 4).byte(), [["x"], []]).images, Pixels)
    data = from_arrays(["a.jpg", "b.jpg"], [["x"], []], splits=["training", "dev"])
    assert isinstance(data.images, Files)
    assert (data.ids, data.splits.tolist()) == (["a.jpg", "b.jpg"], ["train", "val"])


@pytest.mark.parametrize(
    ("x", "y", "options", "sentence"),
    [
        (X, np.zeros(3), {}, r"`y` of `from_arrays` must be \(N, K\); got \(3,\)\. Pass `manyhot.one_hot"),
        (X, np.zeros((2, 2)), {}, r"`y` of `from_arrays` must have one row for each of the 3 samples; got 2\."),
        (X, np.array(Y), {"labels": ["a"]}, r"`labels` of `from_arrays` must name the 3 columns of `y`; got 1 names"),
        (X, [["a"], [1], []], {}, r"`y` of `from_arrays` must list labels by name or by number; got int among them"),
        (X, [[0, 1], [1, 0], [0, 0]], {}, r"must list the number of a label once .* got \[0, 0\]\. Pass"),
        (X, [["dgo"], [], []], {"labels": ["dog"]}, r"Did you mean 'dog'\?"),
        (X, [[5], [], []], {"labels": ["dog"]}, r"must name columns from 0 to 0; got 5"),
        (X, np.array(Y), {"ids": ["a", "a", "b"]}, r"`ids` of `from_arrays` must be distinct; got 'a' twice"),
        (X, np.array(Y), {"splits": ["train"]}, r"`splits` of `Dataset` must have one entry for each of the 3 samples"),
        (X * np.nan, np.array(Y), {}, r"`x` of `from_arrays` must be finite numbers; got NaN or infinity in row 0"),
        (np.zeros((3, 4, 4)), np.array(Y), {}, r"must be features \(N, D\), images .* got \(3, 4, 4\) of float64"),
        (sparse.csr_matrix(X), np.array(Y), {}, r"must be a dense array; got a sparse matrix"),
        (
            np.array([1.5, "a", None], object),
            np.array(Y),
            {},
            r"must be a table of real numbers; got an array of object",
        ),
        ("photos", np.array(Y), {}, r"`x` of `from_arrays` must be a table of real numbers; got str"),
    ],
)
def test_refusals(x, y, options, sentence):
    with raises_input_error(match=sentence):
        from_arrays(x, y, **options)


def test_what_a_data_set_can_do():
    data = from_arrays(X, np.array(Y), labels=["a", "<b>", "c"], splits=["val", "train", "val"])
    assert repr(data) == "Dataset(3 rows of 4 features x 3 labels; val 2, train 1)"
    assert data.of_split("val").targets.dense().tolist() == [Y[0], Y[2]]
    assert data.select_labels(["c", "a"]).targets.dense().tolist() == [[-1, 1], [0, 0], [0, 1]]
    assert data.drop_rare(2).labels.names == ["a"]
    assert data.drop_rare(1).labels.names == ["a", "<b>"]
    assert "<td>&lt;b&gt;</td><td>1</td><td>3</td>" in data._repr_html_()
    assert data.take([2]).features.tolist() == [X[2].tolist()]
    with raises_input_error(
        "split", "Dataset", rule="be one of the splits, 'val', 'train'", got="'vla'", hint="Did you mean 'val'?"
    ):
        data.of_split("vla")
    with raises_input_error(rule="be one of the 3 names", got="'d'"):
        data.select_labels(["d"])
    with raises_input_error("min_count", "Dataset.drop_rare", rule="be a whole number, at least 1"):
        data.drop_rare(0)
    with raises_input_error("targets", "Dataset", rule="have the 1 columns of `labels`"):
        Dataset(mh.Labels(["a"]), data.targets, data.ids)
