"""Precision against recall, and where rules stand."""

import pytest
import torch

from manyhot.errors import InputError
from manyhot.report import count_curve, draw_precision_recall

POINT = {"precision": 0.6, "recall": 0.5, "label": "LabelThresholds()"}


@pytest.fixture(scope="module")
def model():
    draw = torch.Generator().manual_seed(0)
    targets = (torch.rand(300, 6, generator=draw) < 0.3).int()
    return torch.rand(300, 6, generator=draw) + 0.5 * targets, targets


def words(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def entries(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


def test_the_curve_is_drawn_in_percent(model):
    curve = count_curve(*model)
    (axis,) = draw_precision_recall({"BCE": model}).axes
    (line,) = [line for line in axis.lines if line.get_label().startswith("BCE")]
    assert list(line.get_xdata()) == pytest.approx([100 * one for one in curve["recall"]])
    assert list(line.get_ydata()) == pytest.approx([100 * one for one in curve["precision"]])
    assert entries(axis) == [f"BCE, AP {100 * curve['ap']:.1f} %"]


def test_rules_are_marked(model):
    (axis,) = draw_precision_recall({"BCE": model}, marked={"BCE": POINT}).axes
    mark = axis.lines[-1]
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (50, 60)
    assert entries(axis)[1] == "LabelThresholds()"


def test_marks_of_several_models_are_told_apart(model):
    figure = draw_precision_recall({"a": model, "b": model}, marked={"a": POINT, "b": {**POINT, "label": None}})
    (axis,) = figure.axes
    marks = [line for line in axis.lines if line.get_marker() != "None"]
    assert len({mark.get_marker() for mark in marks}) == 2
    assert [entries(axis)[place] for place in (1, 3)] == ["a, LabelThresholds()", "b, chosen"]
    curves = [line for line in axis.lines if "AP" in line.get_label()]
    assert len({line.get_linestyle() for line in curves}) == 2


def test_f1_is_the_same_all_along_a_level(model):
    (axis,) = draw_precision_recall({"a": model}).axes
    levels = [line for line in axis.lines if line.get_label().startswith("_")]
    assert len(levels) == 4
    for line, text in zip(levels, axis.texts, strict=True):
        recall, precision = line.get_xdata(), line.get_ydata()
        found = [2 * p * r / (p + r) for p, r in zip(precision, recall, strict=True)]
        assert found == pytest.approx([found[0]] * len(found))
        assert text.get_text() == f"F1 {found[0]:.0f} %"
        assert max(precision) == pytest.approx(100)


def test_a_curve_without_its_average_precision(model):
    kept = {key: value for key, value in count_curve(*model).items() if key not in ("ap", "rate")}
    (axis,) = draw_precision_recall({"kept": kept}).axes
    assert entries(axis) == ["kept"]


def test_a_legend_of_many_models_hides_no_curve(model):
    figure = draw_precision_recall({f"model {place}": model for place in range(7)})
    figure.draw_without_rendering()
    (axis,) = figure.axes
    legend = axis.get_legend().get_window_extent()
    assert legend.x0 > max(text.get_window_extent().x1 for text in axis.texts)
    assert legend.x1 <= figure.bbox.x1


def test_what_is_refused(model):
    assert words(lambda: draw_precision_recall({"a": model}, marked={"b": POINT})) == (
        "`marked` of `draw_precision_recall` must name what is drawn, 'a'; got 'b'. Pass these names only."
    )
    assert words(lambda: draw_precision_recall({"a": model}, marked={"a": {"precision": 0.5}})) == (
        "`marked['a']` of `draw_precision_recall` must have 'precision' and 'recall'; got none called 'recall'. "
        'Pass {"precision": ..., "recall": ..., "label": ...} of the decisions of a rule.'
    )
    assert words(lambda: draw_precision_recall({"a": model}, marked={"a": {**POINT, "recall": 50}})) == (
        "`marked['a']['recall']` of `draw_precision_recall` must lie between 0 and 1; got 50. "
        "Pass fractions, not percent."
    )
    assert words(lambda: draw_precision_recall({})).startswith("`curves` of `draw_precision_recall` must be a mapping")
