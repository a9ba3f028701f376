"""Precision, recall and labels given by threshold, counted exactly at few of many thresholds."""

import json

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot.errors import InputError, owned
from manyhot.report import count_curve
from manyhot.report.curves import read_curve


@pytest.fixture(scope="module")
def many():
    """More different values than points are kept, some cells unknown and a row without any known one."""
    draw = torch.Generator().manual_seed(0)
    targets = (torch.rand(3000, 8, generator=draw) < 0.2).int()
    probs = (torch.randn(3000, 8, generator=draw) + 2 * targets - 2).sigmoid()
    targets[torch.rand(3000, 8, generator=draw) < 0.1] = -1
    targets[7] = -1
    return probs, targets


def words(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def by_hand(values, targets, threshold):
    known, present = targets >= 0, targets == 1
    given = (values >= threshold) & known
    hits = float((given & present).sum())
    rows = int(known.any(1).sum())
    return hits / float(given.sum()), hits / float(present.sum()), float(given.sum()) / rows


def test_it_is_exact_at_every_threshold(many):
    values, targets = many
    curve = count_curve(values, targets)
    assert len(curve["thresholds"]) > 150
    assert curve["thresholds"] == sorted(curve["thresholds"])
    for threshold, *found in list(zip(*(curve[key] for key in list(curve)[:4]), strict=True))[::7]:
        assert found == pytest.approx(by_hand(values, targets, np.float32(threshold)), rel=1e-12)
    assert curve["rate"] == pytest.approx(float((targets == 1).sum() / (targets >= 0).sum()))
    assert curve["ap"] == mh.metrics.cell_average_precision(values, targets)


def test_it_reaches_from_all_labels_to_the_last_one(many):
    values, targets = many
    curve = count_curve(values, targets, points=20)
    known = values[targets >= 0]
    assert 15 <= len(curve["thresholds"]) <= 20
    assert (curve["thresholds"][0], curve["thresholds"][-1]) == (float(known.min()), float(known.max()))
    assert (curve["recall"][0], curve["precision"][0]) == (1.0, pytest.approx(curve["rate"]))
    assert curve["given"][-1] * 2999 == pytest.approx(1)


def test_lines_between_its_points_look_exact(many):
    """By hand at thresholds that were not kept, no curve is further from the line than a hundredth of its height."""
    values, targets = many
    curve = count_curve(values, targets)
    for threshold in torch.linspace(0.05, 0.95, 37).tolist():
        exact = by_hand(values, targets, threshold)
        for key, wanted, height in zip(("precision", "recall", "given"), exact, (1, 1, 8), strict=True):
            drawn = np.interp(threshold, curve["thresholds"], curve[key])
            assert abs(drawn - wanted) < 0.01 * height, (key, threshold)


def test_of_few_values_all_are_kept():
    values = torch.tensor([[0.75, 0.25, 0.9], [0.5, 0.5, 0.9]])
    targets = torch.tensor([[1, 0, -1], [1, 0, -1]])
    assert count_curve(values, targets) == {
        "thresholds": [0.25, 0.5, 0.75],
        "precision": [0.5, pytest.approx(2 / 3), 1.0],
        "recall": [1.0, 1.0, 0.5],
        "given": [2.0, 1.5, 0.5],
        "rate": 0.5,
        "ap": pytest.approx(5 / 6),
    }


def test_scores_without_bounds_and_equal_ones():
    values = torch.tensor([[torch.inf, -torch.inf, 1.0], [2.0, 2.0, 2.0]])
    curve = count_curve(values, torch.tensor([[1, 0, 0], [1, 0, 1]]))
    assert curve["thresholds"] == [1.0, 2.0]
    assert curve["given"] == [2.5, 2.0]
    assert curve["recall"] == [1.0, 1.0]


def test_it_can_be_kept(many):
    curve = count_curve(*many)
    kept = json.loads(json.dumps(curve, allow_nan=False))
    assert read_curve("a", kept) == read_curve("a", many)


def test_f1_is_that_of_the_package(many):
    values, targets = many
    curve = read_curve("a", (values, targets))
    place = 60
    decided = mh.Threshold(curve.thresholds[place])(values).labels
    wanted = mh.metrics.FScores().update(decided, targets).compute()
    assert curve.f1[place] == pytest.approx(wanted["micro_f"], rel=1e-6)


def test_what_is_refused(many):
    assert words(lambda: count_curve(many[0], torch.zeros(3000, 8))) == (
        "`values` of `count_curve` must have finite values of known and of present cells; got none that are present. "
        "Pass rows with labels, and leave out models without."
    )
    assert words(lambda: count_curve(many[0], torch.full((3000, 8), -1))).startswith(
        "`values` of `count_curve` must have finite values of known and of present cells; got none. "
    )
    assert words(lambda: count_curve(*many, points=1)) == (
        "`points` of `count_curve` must be a whole number, at least 2; got 1. Pass an int."
    )
    assert words(lambda: owned("draw")(read_curve)("curves['a']", torch.ones(3))) == (
        "`curves['a']` of `draw` must be values with their targets, or a curve; got Tensor. "
        "Pass (values, targets), or what `count_curve` returned."
    )
    kept = {"thresholds": [0.5], "precision": [60], "recall": [0.5], "given": [1.0]}
    assert words(lambda: owned("draw")(read_curve)("curves['a']", kept)) == (
        "`curves['a']['precision']` of `draw` must lie between 0 and 1; got 60. Pass fractions, not percent."
    )
    assert words(lambda: owned("draw")(read_curve)("curves['a']", kept | {"precision": []})) == (
        "`curves['a']['precision']` of `draw` must be as long as the others, 1; got 0. Pass one number for each."
    )
