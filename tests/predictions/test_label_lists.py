"""Lists of label names in a column of text."""

import numpy as np
import pyarrow as pa
import pytest

from manyhot.data.targets import LabelLists
from manyhot.labels import Labels
from manyhot.tables.columns import PredictionReadOptions
from manyhot.tables.label_cells import LabelNameReader, separator_for_labels
from tests.errors.expected import raises_input_error
from tests.predictions.tables import LABELS


@pytest.mark.parametrize(
    ("texts", "separator"),
    [
        (["cat|dog", "dog"], "|"),
        (["cat;dog", "traffic light"], ";"),
        (["cat, dog", "traffic light"], ","),
        (["cat dog", "dog"], " "),
        (["traffic light|cat"], "|"),
        (["traffic light"], "|"),
        (["", ""], "|"),
        ([], "|"),
        (["cat|zebra", "zebra|dog"], "|"),
    ],
)
def test_separator(texts, separator):
    assert separator_for_labels(texts, Labels(LABELS)) == separator


def targets(column, separator=None, *, leave_out=False):
    reader = LabelNameReader(
        Labels(LABELS), PredictionReadOptions("from_csv", "probs", separator=separator, leave_out=leave_out)
    )
    owners, columns = reader.read(pa.array(column))
    rows = np.arange(len(column))
    return LabelLists(owners, columns, len(column)).targets(rows, 3).tolist(), reader.notes("labels", "")


def test_texts():
    found, notes = targets(["cat | traffic light", "", "dog|", None, "dog|dog"])
    assert found == [[1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 1]]
    assert notes == ["Targets are the label names in column 'labels', separated by '|' as detected."]


def test_lists():
    found, notes = targets([["cat", "dog"], [], None, ["traffic light"]])
    assert found == [[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert notes == ["Targets are the label names in column 'labels'."]


def test_other_names():
    with raises_input_error("targets", "from_csv", rule="name the 3 labels", got="'dgo'"):
        targets(["cat|dgo"], "|")
    found, notes = targets(["cat|zebra", "zebra"], "|", leave_out=True)
    assert found == [[1, 0, 0], [0, 0, 0]]
    assert notes[1] == "Left out 2 entries of column 'labels' that are none of the labels."


def test_rows_in_any_order_and_more_than_once():
    lists = LabelLists(np.array([2, 0, 2, 1]), np.array([1, 0, 2, 2]), 4)
    assert lists.targets(np.array([3, 2, 0, 2]), 3).tolist() == [[0, 0, 0], [0, 1, 1], [1, 0, 0], [0, 1, 1]]
    assert lists.targets(np.array([], dtype=np.int64), 3).shape == (0, 3)
