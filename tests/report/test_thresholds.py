"""Precision, recall, F1 and labels given by threshold."""

import pytest
import torch

from manyhot.errors import InputError
from manyhot.report import count_curve, draw_thresholds


@pytest.fixture(scope="module")
def model():
    draw = torch.Generator().manual_seed(0)
    targets = (torch.rand(300, 6, generator=draw) < 0.3).int()
    return (torch.randn(300, 6, generator=draw) + 2 * targets - 1).sigmoid(), targets


def words(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def lines(axis):
    return {line.get_label(): line for line in axis.lines}


def test_three_curves_and_the_labels_given(model):
    curve = count_curve(*model)
    top, bottom = draw_thresholds({"BCE": model}).axes
    for name in ("precision", "recall"):
        assert list(lines(top)[name].get_xdata()) == curve["thresholds"]
        assert list(lines(top)[name].get_ydata()) == pytest.approx([100 * one for one in curve[name]])
    assert len({lines(top)[name].get_linestyle() for name in ("precision", "recall", "F1")}) == 3
    assert list(bottom.lines[0].get_ydata()) == pytest.approx(curve["given"])
    assert bottom.get_xlabel() == "threshold"


def test_the_best_f1_is_marked(model):
    top, _ = draw_thresholds({"BCE": model}).axes
    f1 = lines(top)["F1"]
    best = max(f1.get_ydata())
    at = f1.get_xdata()[list(f1.get_ydata()).index(best)]
    mark = lines(top)[f"best F1 {best:.1f} % at {at:.2f}"]
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (at, best)


def test_how_many_labels_there_are_is_marked(model):
    _, bottom = draw_thresholds({"BCE": model}).axes
    there = float((model[1] == 1).sum()) / 300
    assert bottom.lines[1].get_ydata()[0] == pytest.approx(there)
    assert [text.get_text() for text in bottom.texts] == [f"{there:.2g} are true"]


def test_a_rule_of_one_threshold_is_a_line_through_both_panels(model):
    top, bottom = draw_thresholds({"a": model}, marked={"a": {"threshold": 0.31, "label": "Threshold"}}).axes
    assert lines(top)["Threshold, 0.31"].get_xdata()[0] == 0.31
    assert bottom.lines[-1].get_xdata()[0] == 0.31


def test_a_rule_of_many_thresholds_is_only_named(model):
    figure = draw_thresholds({"a": model}, marked={"a": {"threshold": None, "label": "LabelThresholds()"}})
    top, bottom = figure.axes
    assert [text.get_text() for text in top.get_legend().get_texts()][-1] == "LabelThresholds(): no single threshold"
    assert len(bottom.lines) == 2


def test_the_legend_hides_no_curve(model):
    figure = draw_thresholds({"a": model}, marked={"a": {"threshold": 0.5, "label": "Threshold"}})
    figure.draw_without_rendering()
    top = figure.axes[0]
    assert top.get_legend().get_window_extent().y0 > top.transData.transform((0, 100))[1]


def test_models_have_panels_of_their_own(model):
    scores = (model[0].logit(), model[1])
    figure = draw_thresholds({"probs": model, "scores": scores, "more": scores}, columns=2)
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == ["probs", "scores", "more"]
    used = [axis for axis in figure.axes if axis.axison]
    assert len(used) == 6
    assert used[0].get_xlim() == (-0.01, 1.01)
    assert used[1].get_xlim()[0] < -2


def test_what_is_refused(model):
    assert words(lambda: draw_thresholds({"a": model}, marked={"a": 0.5})) == (
        "`marked['a']` of `draw_thresholds` must be a mapping; got float. "
        'Pass {"threshold": 0.5, "label": ...}, or None as the threshold of a rule that has no single one.'
    )
    assert words(lambda: draw_thresholds({"a": model}, marked={"a": {"threshold": "half"}})) == (
        "`marked['a']['threshold']` of `draw_thresholds` must be a row of finite numbers; got 'half'. "
        "Pass a list, an array or a tensor of one axis."
    )
    assert words(lambda: draw_thresholds({"a": model}, columns=0)) == (
        "`columns` of `draw_thresholds` must be a whole number, at least 1; got 0. Pass an int."
    )
