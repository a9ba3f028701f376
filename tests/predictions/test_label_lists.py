"""Lists of label names in a column of text."""

import pyarrow as pa
import pytest

from manyhot.data.targets import SparseTargets
from manyhot.errors import owned
from manyhot.predictions import read_predictions
from manyhot.tables.columns import LabelNameReader
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
    _, notes = targets(texts, leave_out=True)
    assert notes[0].endswith(f", separated by {separator!r} as detected." if texts else "'labels'.")


def targets(column, separator=None, *, leave_out=False):
    reader = LabelNameReader(LABELS, separator, leave_out=leave_out)
    with owned("read_predictions"):
        rows, columns = reader.read(pa.array(column, None if column else pa.string()))
    cells = SparseTargets.from_cells(rows, columns, shape=(len(column), 3))
    return cells.dense().tolist(), reader.notes("labels")


def test_a_bar_may_separate_names_that_come_late(write):
    text = "id,cat,dog,labels\n" + "".join(f"{row},0.5,0.5,cat\n" for row in range(1200)) + "x,0.5,0.5,cat|dog\n"
    assert read_predictions(write(text), kind="probs").targets[-1].tolist() == [1, 1]


def test_texts():
    found, notes = targets(["cat | traffic light", "", "dog|", None, "dog|dog"])
    assert found == [[1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 1]]
    assert notes == ["Targets are the label names in column 'labels', separated by '|' as detected."]


def test_lists():
    found, notes = targets([["cat", "dog"], [], None, ["traffic light"]])
    assert found == [[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert notes == ["Targets are the label names in column 'labels'."]


def test_other_names():
    with raises_input_error("targets", "read_predictions", rule="name the 3 labels", got="'dgo'"):
        targets(["cat|dgo"], "|")
    found, notes = targets(["cat|zebra", "zebra"], "|", leave_out=True)
    assert found == [[1, 0, 0], [0, 0, 0]]
    assert notes[1] == "Left out 2 entries of column 'labels' that are none of the labels."


def test_rows_in_any_order_and_more_than_once():
    lists = SparseTargets.from_cells([2, 0, 2, 1], [1, 0, 2, 2], shape=(4, 3))
    assert lists.dense([3, 2, 0, 2]).tolist() == [[0, 0, 0], [0, 1, 1], [1, 0, 0], [0, 1, 1]]
    assert lists.dense([]).shape == (0, 3)


def test_other_names_do_not_hide_the_separator():
    found, notes = targets(["cat, zebra", "zebra, horse", "dog"], leave_out=True)
    assert found == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert notes[0].endswith("separated by ',' as detected.")
