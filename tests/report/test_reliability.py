"""Reliability diagrams: points, intervals, and what is left out."""

import json
import math

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from manyhot.errors import InputError
from manyhot.metrics import CalibrationError
from manyhot.report import draw_reliability
from manyhot.report.curves import wilson_interval


@pytest.fixture(scope="module")
def model():
    draw = torch.Generator().manual_seed(0)
    probs = torch.rand(2000, 3, generator=draw) ** 2
    targets = (torch.rand(2000, 3, generator=draw) < probs.sqrt()).int()
    targets[:100] = -1
    return probs, targets


def as_bins(cells, promised, observed):
    return {"cells": cells, "mean_prob": promised, "share_present": observed}


def words(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def curve_of(axis, place=0):
    line, _, (bars,) = axis.containers[place].lines
    return line, [segment[:, 1].tolist() for segment in bars.get_segments()]


def test_points_are_those_of_the_metric(model):
    top, bottom = draw_reliability({"a": model}, bins=10).axes
    outcome = CalibrationError(10).update(*model).compute()
    line, _ = curve_of(top)
    assert line.get_xdata() == pytest.approx(outcome.details["mean_prob"].numpy())
    assert line.get_ydata() == pytest.approx(outcome.details["share_present"].numpy())
    values, edges, _ = bottom.patches[0].get_data()
    assert values.tolist() == outcome.details["cells"].tolist()
    assert sum(values) == 1900 * 3
    assert edges == pytest.approx(np.linspace(0, 1, 11))
    assert bottom.get_yscale() == "log"
    assert top.get_title() == f"a\nECE {100 * outcome['ece']:.1f} %"


@pytest.mark.parametrize(("present", "cells"), [(0, 20), (7, 25), (25, 25), (1, 1), (4990, 5000)])
def test_intervals_are_those_of_wilson(present, cells):
    ends = binomtest(present, cells).proportion_ci(0.95, method="wilson")
    assert wilson_interval(present / cells, cells) == pytest.approx((ends.low, ends.high), abs=1e-12)


def test_intervals_are_drawn():
    bins = as_bins([40, 100], [0.2, 0.7], [0.25, 0.6])
    _, bars = curve_of(draw_reliability({"a": bins}).axes[0])
    assert bars == [pytest.approx(wilson_interval(0.25, 40)), pytest.approx(wilson_interval(0.6, 100))]


def test_points_of_few_cells_are_hidden_but_counted():
    bins = as_bins([19, 20, 0, 500], [0.1, 0.3, None, math.nan], [0.0, 0.5, None, 0.9])
    bins["mean_prob"][3] = 0.8
    top, bottom = draw_reliability({"a": bins}).axes
    assert curve_of(top)[0].get_xdata().tolist() == [0.3, 0.8]
    assert bottom.patches[0].get_data().values.tolist() == [19, 20, 0, 500]
    assert curve_of(draw_reliability({"a": bins}, fewest=0).axes[0])[0].get_xdata().tolist() == [0.1, 0.3, 0.8]


@pytest.mark.parametrize("error", ["ece", "ace"])
def test_tensors_outcomes_and_kept_bins_are_drawn_the_same(model, error):
    outcome = CalibrationError(12).update(*model).compute()
    kept = json.loads(json.dumps({name: detail.tolist() for name, detail in outcome.details.items()}))
    axes = draw_reliability({"a": model, "b": outcome, "c": kept}, bins=12, error=error).axes
    tops = axes[:3]
    assert {axis.get_title().split("\n")[1] for axis in tops} == {f"{error.upper()} {100 * outcome[error]:.1f} %"}
    for axis in tops[1:]:
        assert curve_of(axis)[0].get_xydata().tolist() == curve_of(tops[0])[0].get_xydata().tolist()


def test_bins_of_equal_mass_keep_their_edges(model):
    outcome = CalibrationError(8, mass="equal").update(*model).compute()
    _, edges, _ = draw_reliability({"a": outcome}).axes[1].patches[0].get_data()
    assert edges == pytest.approx(outcome.details["edges"].numpy())


def test_a_reading_looks_the_same_in_every_panel():
    one, two = as_bins([50, 50], [0.2, 0.7], [0.25, 0.6]), as_bins([50, 50], [0.2, 0.7], [0.1, 0.9])
    figure = draw_reliability({"BCE": {"before": one, "after": two}, "SPA": {"after": two}})
    first, second = figure.axes[:2]
    assert [axis.get_title() for axis in (first, second)] == ["BCE", "SPA"]
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["before: 7.5 %", "after: 15.0 %"]
    assert curve_of(first, 1)[0].get_color() == curve_of(second)[0].get_color() != curve_of(first)[0].get_color()
    assert curve_of(first, 1)[0].get_marker() == curve_of(second)[0].get_marker()


def test_an_overlay_has_one_panel_and_a_legend_beside_it():
    bins = as_bins([50, 50], [0.2, 0.7], [0.25, 0.6])
    figure = draw_reliability({"BCE": {"before": bins}, **dict.fromkeys("abcd", bins)}, overlay=True)
    top, bottom = figure.axes
    assert [text.get_text().split(":")[0] for text in top.get_legend().get_texts()] == ["BCE, before", *"abcd"]
    assert len({curve_of(top, place)[0].get_marker() for place in range(5)}) == 5
    assert len(bottom.patches) == 5
    figure.draw_without_rendering()
    assert top.get_legend().get_window_extent().x0 >= top.get_window_extent().x1


def test_panels_that_are_left_are_empty():
    figure = draw_reliability(dict.fromkeys("abc", as_bins([50], [0.2], [0.25])), columns=2)
    assert [axis.axison for axis in figure.axes] == [True] * 5 + [False, True, False]


def test_no_cells_at_all():
    figure = draw_reliability({"a": as_bins([0, 0], [None, None], [None, None])})
    assert figure.axes[0].get_title() == "a\nECE –"
    figure.draw_without_rendering()


def test_what_is_refused():
    probs = torch.tensor([[0.5, 1.5]])
    assert words(lambda: draw_reliability({"a": (probs, probs)})) == (
        "`curves['a'][0]` of `draw_reliability` must lie between 0 and 1; got 1.5. "
        "Turn scores into probabilities with a link or a calibrator."
    )
    assert words(lambda: draw_reliability({})) == (
        "`curves` of `draw_reliability` must be a mapping with at least one name; got an empty one. "
        'Pass what is to be drawn by its name, such as {"BCE": ...}.'
    )
    assert words(lambda: draw_reliability({"a": {"cells": [1], "mean_prob": [0.5]}})) == (
        "`curves['a']` of `draw_reliability` must have 'cells', 'mean_prob' and 'share_present'; got none called "
        "'share_present'. Pass (probs, targets), or what `CalibrationError` computed, or its details as lists."
    )
    assert words(lambda: draw_reliability({"a": as_bins([30], [50.0], [0.5])})) == (
        "`curves['a']['mean_prob']` of `draw_reliability` must lie between 0 and 1; got 50. "
        "Pass fractions, not percent, for every bin with cells."
    )
    assert words(lambda: draw_reliability({"a": as_bins([30, 2.5], [0.5, 0.5], [0.5, 0.5])})) == (
        "`curves['a']['cells']` of `draw_reliability` must be whole numbers, none negative; got 2.5. "
        "Pass how many there are, not shares."
    )
    assert words(lambda: draw_reliability({"a": 3})) == (
        "`curves['a']` of `draw_reliability` must be probabilities with their targets, or bins; got int. "
        "Pass (probs, targets), or what `CalibrationError` computed, or its details as lists."
    )
    by_label = CalibrationError(average="macro").update(torch.rand(5, 2), torch.ones(5, 2)).compute()
    assert words(lambda: draw_reliability({"a": by_label})) == (
        "`curves['a']['cells']` of `draw_reliability` must be a row of finite numbers; got lists in it. "
        "Pass a list, an array or a tensor of one axis."
    )
    assert words(lambda: draw_reliability({"a": as_bins([30], [0.5], [0.5]) | {"edges": [0.5]}})) == (
        "`curves['a']['edges']` of `draw_reliability` must be 2 edges of 1 bins; got 1. "
        "Pass the lower edge of the first bin and the upper edges of all."
    )
    assert words(lambda: draw_reliability({"a": as_bins([30], [0.5], [0.5])}, error="mce")) == (
        "`error` of `draw_reliability` must be one of 'ece', 'ace'; got 'mce'. Pick one of these."
    )
