"""Files that people bring by mistake, or that say less than they seem to."""

import json

import numpy as np
import pandas
import pytest

from manyhot.predictions import read_predictions
from tests.errors.expected import raises_input_error


def test_an_id_twice_is_refused_when_streaming_too(write, tmp_path):
    path = write("id,cat\na,0.1\nb,0.2\na,0.3\n")
    with raises_input_error("ids", "Predictions", rule="be all different", got="'a' twice"):
        read_predictions(path, kind="probs", to=tmp_path / "out.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["table.csv"]


def test_a_label_is_not_lost_for_one_bad_cell(write):
    path = write("id,place,cat,dog\na,x,0.1,0.2\nb,y,0.3,hello\nc,7,0.5,0.6\n")
    with raises_input_error(rule="hold numbers for each label", got="text in column 'dog'", hint="Repair the file"):
        read_predictions(path, kind="probs")
    assert read_predictions(path, kind="probs", labels=["cat"]).labels.names == ["cat"]


def test_targets_in_words_are_not_taken_for_unknown(write):
    path = write("id,cat,dog\na,0.1,0.2\nb,0.3,0.4\n")
    truth = write("id,cat,dog\na,yes,1\nb,no,0\n", "truth.csv")
    assert read_predictions(path, kind="probs", targets=truth).targets.tolist() == [[1, 1], [0, 0]]
    truth = write("id,cat,dog\na,yes,1\nb,perhaps,0\n", "truth.csv")
    with raises_input_error(rule="yes, no or blank for each label", got="'perhaps' in column 'cat'"):
        read_predictions(path, kind="probs", targets=truth)


def test_scores_that_look_like_probabilities_are_noted(write, tmp_path):
    note = "All scores lie between 0 and 1. If they are probabilities, choose the kind 'probs'."
    path = write("id,cat\na,0.1\nb,1\n")
    assert note in read_predictions(path, kind="scores").notes
    assert note in read_predictions(path, kind="scores", to=tmp_path / "out.parquet").notes
    assert note not in read_predictions(path, kind="probs").notes
    assert note not in read_predictions(write("id,cat\na,0.1\nb,1.5\n"), kind="scores").notes
    assert note not in read_predictions(write("id,cat\n"), kind="scores").notes


@pytest.mark.parametrize("index", [["x", "y"], [100, 200]])
@pytest.mark.parametrize("name", ["picture", None])
def test_the_index_of_pandas_is_the_ids(tmp_path, index, name):
    frame = pandas.DataFrame({"cat": [0.1, 3.0]}, index=pandas.Index(index, name=name))
    frame.to_parquet(tmp_path / "table.parquet")
    table = read_predictions(tmp_path / "table.parquet", kind="scores")
    assert table.labels.names == ["cat"]
    assert table.ids == [str(value) for value in index]


def test_an_array_of_labels_with_two_axes_is_the_targets(tmp_path):
    path = tmp_path / "table.npz"
    np.savez(path, probs=np.full((2, 2), 0.5), labels=np.array([[1, 0], [0, 1]]), names=np.array(["a", "b"]))
    table = read_predictions(path, kind="probs")
    assert table.targets.tolist() == [[1, 0], [0, 1]]
    assert table.labels.names == ["a", "b"]
    assert "Read array 'labels' as targets." in table.notes


def test_archives_that_are_cut_short_or_hold_objects(tmp_path):
    path = tmp_path / "table.npz"
    np.savez(path, probs=np.full((20, 2), 0.5))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with raises_input_error(got="table.npz', which cannot be read"):
        read_predictions(path, kind="probs")
    np.savez(path, probs=np.full((1, 1), 0.5), names=np.array([json], dtype=str).astype(object))
    with raises_input_error(got="table.npz', which holds Python objects", hint="Save names as"):
        read_predictions(path, kind="probs")
