"""Tables as text, and what is bold in them."""

from experiments.tables import Column, MeanInterval, Table, best_cells
from tests.errors.expected import raises_input_error

LOW = Column("log loss", "plain", 2, "low")


def test_markdown():
    rows = [
        ["BCE", [0.610, 0.620, 0.615], [3.10, 3.11, 3.12]],
        ["a | b", [0.612, 0.619, 0.617], [3.50, 3.60, 3.55]],
        ["ASL", [0.50, 0.50, 0.51], None],
    ]
    assert Table([Column("arm"), Column("mAP"), LOW], rows).markdown() == (
        "| arm | mAP | log loss |\n"
        "| --- | ---: | ---: |\n"
        "| BCE | **61.5 ± 1.2** | **3.11 ± 0.02** |\n"
        "| a \\| b | **61.6 ± 0.9** | 3.55 ± 0.12 |\n"
        "| ASL | 50.3 ± 1.4 | – |\n"
    )


def test_single_figures_are_bold_only_when_equal():
    assert best_cells([0.5, 0.6, 0.6, 0.599], "high") == {1, 2}
    assert best_cells([0.5, 0.6], "low") == {0}
    assert best_cells([0.5, 0.6], None) == set()
    assert best_cells([None, 0.6], "high") == set()


def test_pairs_decide_where_seeds_are_the_same():
    # The intervals of both overlap widely, but one is better by the same in every seed.
    assert best_cells([[0.50, 0.60, 0.70], [0.51, 0.61, 0.711]], "high") == {1}
    assert best_cells([[0.50, 0.60, 0.70], [0.51, 0.61]], "high") == {0, 1}


def test_intervals_are_compared_without_pairs():
    first, near, far = MeanInterval(0.6, 0.02, 3), MeanInterval(0.58, 0.02, 3), MeanInterval(0.56, 0.02, 3)
    assert best_cells([first, near, far], "high") == {0, 1}


def test_one_half_is_no_negative_zero():
    assert Column("gap").shown(-0.0001) == "0.0"
    assert Column("gap", "plain", 3).shown([0.25]) == "0.250"


def test_refusals():
    with raises_input_error("rows", "Table", rule="have a cell for each of the 2 columns"):
        Table([Column("arm"), LOW], [["BCE"]])
    with raises_input_error("unit", "Column", rule="be 'percent' or 'plain'", got="'seconds'"):
        Column("time", "seconds")
    with raises_input_error("best", "Column", rule="be 'high', 'low' or None", got="'max'"):
        Column("time", best="max")
