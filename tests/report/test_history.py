"""Losses and figures by epoch."""

from manyhot.report import draw_history
from tests.errors.expected import raises_input_error

FIRST = {
    "epoch": [1, 2, 3],
    "train loss": [3.0, 2.0, 1.0],
    "mAP": [0.3, 0.5, 0.6],
    "log loss per row": [0.2, 0.1, 0.3],
    "kept": 2,
}


def marks(axis):
    return [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in axis.lines if len(line.get_xdata()) == 1
    ]


def test_the_epoch_that_was_kept_is_marked_in_every_panel():
    axes = draw_history({"a": FIRST}).axes
    assert [marks(axis) for axis in axes] == [[(2, 2.0)], [(2, 0.5)], [(2, 0.1)]]
    unknown = {name: values for name, values in FIRST.items() if name != "kept"}
    assert [marks(axis) for axis in draw_history({"a": unknown}).axes] == [[], [], []]


def test_the_legend_names_all_runs_also_those_that_lack_a_figure():
    figure = draw_history({"a": FIRST, "b": {"epoch": [1, 2], "mAP": [0.1, None]}})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert [len(axis.lines) for axis in figure.axes] == [3, 2]
    assert "training loss" not in [axis.get_title() for axis in figure.axes]


def test_the_log_of_a_run_can_be_drawn_as_it_is():
    rows = [{"epoch": "1", "lr": "0.1", "mAP": ""}, {"epoch": "2", "lr": "0.1", "mAP": "0.5"}]
    (axis,) = draw_history({"a": rows}).axes
    assert axis.lines[0].get_ydata()[1] == 0.5


def test_the_log_loss_says_what_it_is_of():
    course = {"epoch": [1, 2], "log loss per row": [3.0, 2.0]}
    old = {"epoch": [1, 2], "log loss": [0.3, 0.2]}
    titles = [draw_history({"a": one}).axes[0].get_title() for one in (course, old)]
    assert titles == ["log loss per row, validation", "log loss per cell, validation"]


def test_what_is_refused():
    for given, words in (
        ({}, "`courses` of `draw_history` must be a mapping with at least one name; got an empty one"),
        ({"a": 3}, r"must be a log or a mapping of lists; got int. Pass what `Run.history` returns"),
        ({"a": {"mAP": [1]}}, "must have 'epoch'"),
        (
            {"a": {"epoch": [1]}},
            "must have one of 'train loss', 'mAP', 'log loss per row' and 'log loss'; got none",
        ),
        ({"a": {"epoch": [1], "mAP": [1, 2]}}, "must be as long as the others, 1; got 2"),
    ):
        with raises_input_error(match=words):
            draw_history(given)
