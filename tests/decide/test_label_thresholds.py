"""Thresholds of labels, against plain loops over every cut-off."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_recall_curve

import manyhot as mh
from manyhot.decide import thresholds
from manyhot.decide.thresholds import f_beta, precision_at_recall, recall_at_precision
from tests.errors.expected import raises_input_error


def naive_cut_off(values, targets, *, beta=None, precision=None, recall=None):
    """The smallest value that is given by the best cut-off, tried one by one; None if none reaches the goal."""
    cells = [(v, t) for v, t in zip(values, targets, strict=True) if t >= 0]
    positives = sum(t for _, t in cells)
    best, best_key = None, None
    for cut in sorted({v for v, _ in cells}):
        given = [t for v, t in cells if v >= cut]
        right = sum(given)
        if right == 0:
            continue
        if beta is not None:
            key = ((1 + beta**2) * right / (beta**2 * positives + len(given)), cut)
        elif precision is not None:
            key = (right, cut) if right / len(given) >= precision - 1e-12 else None
        else:
            key = (right / len(given), cut) if right / positives >= recall - 1e-12 else None
        if key is not None and (best_key is None or key > best_key):
            best, best_key = cut, key
    return best


def problem(rows, labels, seed=0, *, unknown=0.2, digits=None):
    draw = torch.Generator().manual_seed(seed)
    targets = (torch.rand(rows, labels, generator=draw) < 0.3).int()
    values = torch.randn(rows, labels, generator=draw, dtype=torch.float64) + targets
    values = values if digits is None else values.round(decimals=digits)
    hidden = torch.rand(rows, labels, generator=draw) < unknown
    return values, torch.where(hidden, -1, targets)


GOALS = [{"beta": 1.0}, {"beta": 2.0}, {"beta": 0.4}, {"precision": 0.6}, {"precision": 1.0}, {"recall": 0.7}]
GOALS += [{"recall": 1.0}, {"precision": 0.01}, {"recall": 0.01}]


@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("digits", [None, 0], ids=["distinct", "ties"])
def test_every_cut_off_is_considered(goal, digits):
    values, targets = problem(40, 7, digits=digits)
    rule = mh.LabelThresholds(**goal, shrink=0).fit(values, targets)
    for k in range(7):
        cut = naive_cut_off(values[:, k].tolist(), targets[:, k].tolist(), **goal)
        if cut is None:
            assert rule.thresholds[k] == torch.inf
            assert not rule.reached[k]
            continue
        known = values[targets[:, k] >= 0, k]
        lower = known[known < cut]
        middle = (cut + lower.max().item()) / 2 if len(lower) else cut
        assert rule.thresholds[k].item() == pytest.approx(middle, abs=1e-15)
        assert rule.reached[k]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([-1, 0, 1, 1])), min_size=1, max_size=14),
    st.sampled_from(GOALS),
)
def test_any_column(cells, goal):
    values, targets = torch.tensor([[float(v)] for v, _ in cells]), torch.tensor([[t] for _, t in cells])
    rule = mh.LabelThresholds(**goal, shrink=0).fit(values, targets)
    cut = naive_cut_off(values[:, 0].tolist(), targets[:, 0].tolist(), **goal)
    if cut is None:
        assert not rule(values).labels.any()
    else:
        known = targets >= 0
        assert torch.equal(rule(values).labels[known], (values >= cut)[known])


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_leaving_out_what_cannot_matter_changes_nothing(goal, monkeypatch):
    """Large sets of cells are narrowed down before they are sorted; here all are large, and blocks are small."""
    values, targets = problem(700, 5, unknown=0.05)
    values = values.float()
    want = mh.LabelThresholds(**goal).fit(values, targets)
    monkeypatch.setattr("manyhot.decide.thresholds.FULL_SORT_CELLS", 0)
    monkeypatch.setattr("manyhot.decide.thresholds.CELLS_IN_CACHE", 100)
    monkeypatch.setattr("manyhot.sorting.CELLS_AT_ONCE", 1400)
    monkeypatch.setattr("manyhot.sorting.LABELS_AT_ONCE", 2)
    monkeypatch.setattr("manyhot.sorting.ROWS_IN_CACHE", 64)
    got = mh.LabelThresholds(**goal).fit(values, targets)
    assert torch.equal(got.thresholds, want.thresholds)
    assert torch.equal(got.common, want.common) or (got.common.isnan() and want.common.isnan())


@pytest.mark.parametrize(
    "goal",
    [f_beta(1.0), f_beta(3.0), recall_at_precision(0.5), precision_at_recall(0.5), precision_at_recall(0.01)],
)
def test_the_floor_is_below_the_best_and_saves_work(goal):
    draw = np.random.default_rng(0)
    targets = draw.random(200_000) < 0.03
    values = draw.normal(size=200_000) + 2 * targets
    present = np.sort(values[targets])
    floor = thresholds.best_floor(present, np.array_split(values, 3), goal)
    assert (values >= floor).mean() < 0.5
    hits = len(present) - np.arange(len(present))
    score = goal(hits, len(values) - np.searchsorted(np.sort(values), present), len(present))
    assert present[len(score) - 1 - score[::-1].argmax()] >= floor


def test_a_lower_cut_off_of_more_precision_serves_recall_better():
    values = torch.tensor([[6.0], [5.0], [4.0], [3.0], [2.0], [1.0]])
    rule = mh.LabelThresholds(recall=0.25).fit(values, torch.tensor([[0], [1], [1], [1], [1], [0]]))
    assert rule(values).labels.flatten().tolist() == [True, True, True, True, True, False]


def test_large_columns_agree_with_scikit_learn():
    draw = torch.Generator().manual_seed(0)
    targets = torch.rand(100_000, 3, generator=draw) < 0.03
    values = torch.sigmoid(torch.randn(100_000, 3, generator=draw) + 2 * targets)
    labels = mh.LabelThresholds(shrink=0).fit(values, targets)(values).labels
    for k in range(3):
        precision, recall, cuts = precision_recall_curve(targets[:, k].numpy(), values[:, k].numpy())
        scores = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
        best = cuts[np.nanargmax(scores[:-1])]
        assert torch.equal(labels[:, k], values[:, k] >= float(best))


class TestShrinking:
    def test_against_the_formula(self):
        values, targets = problem(60, 4)
        own = mh.LabelThresholds(shrink=0).fit(values, targets).thresholds
        rule = mh.LabelThresholds(shrink=7).fit(values, targets)
        cells = targets >= 0
        pooled = naive_cut_off(values[cells].tolist(), targets[cells].tolist(), beta=1.0)
        below = values[cells & (values < pooled)].max().item()
        assert rule.common.item() == pytest.approx((pooled + below) / 2, abs=1e-15)
        for k in range(4):
            column = values[cells[:, k], k]
            positives = int((targets[:, k] == 1).sum())
            numbers = [int((column >= cut).sum()) for cut in (own[k], rule.common)]
            weight = positives / (positives + 7)
            want = (numbers[0] + 0.5) ** weight * (numbers[1] + 0.5) ** (1 - weight) - 0.5
            assert int((column >= rule.thresholds[k]).sum()) == round(want)
            low, high = sorted([own[k].item(), rule.common.item()])
            assert low <= rule.thresholds[k].item() <= high

    def test_a_label_without_positives_gets_the_common_threshold(self):
        values, targets = problem(50, 4, unknown=0.0)
        targets[:, 1], targets[:, 2] = 0, -1
        for options in ({}, {"shrink": 0}, {"precision": 0.5}, {"recall": 0.9}):
            rule = mh.LabelThresholds(**options).fit(values, targets)
            assert rule.reached.tolist() == [True, False, False, True]
            assert rule.thresholds[1] == rule.thresholds[2] == rule.common
            assert rule.common.isfinite()

    def test_nobody_asks_for_a_common_threshold_without_need(self):
        values, targets = problem(50, 3)
        assert mh.LabelThresholds(shrink=0).fit(values, targets).common.isnan()

    def test_much_shrinking_ends_at_the_common_threshold(self):
        values, targets = problem(50, 3)
        rule = mh.LabelThresholds(shrink=1e12).fit(values, targets)
        assert torch.equal(rule(values).labels, values >= rule.common)

    @pytest.mark.parametrize("function", [torch.sigmoid, lambda x: x**3 + 5, torch.exp])
    def test_the_scale_of_the_values_plays_no_part(self, function):
        values, targets = problem(80, 5)
        for options in ({}, {"precision": 0.5, "shrink": 4}, {"recall": 0.8}):
            want = mh.LabelThresholds(**options).fit(values, targets)(values).labels
            got = mh.LabelThresholds(**options).fit(function(values), targets)(function(values)).labels
            assert torch.equal(got[targets >= 0], want[targets >= 0])

    def test_it_helps_rare_labels_on_new_data(self):
        """Labels alike, few positives each: tuning every label by itself does worse than drawing them together."""
        scores = []
        for seed in range(20):
            values, targets = problem(120, 30, seed=seed, unknown=0.0)
            targets = targets * (torch.rand(targets.shape, generator=torch.Generator().manual_seed(seed)) < 0.2)
            values = values.where(targets > 0, values - 1)
            held_out, new = slice(0, 60), slice(60, None)
            scores.append(
                [
                    f1_score(
                        targets[new].numpy(),
                        mh.LabelThresholds(shrink=shrink).fit(values[held_out], targets[held_out])(values[new]).labels,
                        average="macro",
                        zero_division=0,
                    )
                    for shrink in (0, 10)
                ]
            )
        plain, shrunk = np.mean(scores, axis=0)
        assert shrunk > plain + 0.01


def test_without_any_positive_nothing_is_given():
    values, targets = problem(20, 3)
    for options in ({}, {"precision": 0.5}, {"recall": 0.5}, {"shrink": 0}):
        rule = mh.LabelThresholds(**options).fit(values, targets.clamp(max=0))
        assert not rule(values).labels.any()
        assert not rule.reached.any()
        assert rule.common == torch.inf


def test_an_unreachable_precision_is_never_given():
    values = torch.tensor([[3.0, 1.0], [2.0, 3.0], [1.0, 2.0]])
    targets = torch.tensor([[0, 0], [1, 1], [1, 1]])
    rule = mh.LabelThresholds(precision=0.9).fit(values, targets)
    assert rule.reached.tolist() == [False, True]
    assert rule.thresholds.tolist() == [math.inf, 1.5]
    assert rule(values).labels.tolist() == [[False, False], [False, True], [False, True]]
    assert mh.LabelThresholds(precision=0.9, shrink=100).fit(values, targets).thresholds[0] == torch.inf


def test_neighbours_without_a_number_between_them():
    low = torch.tensor(1.0)
    high = torch.nextafter(low, torch.tensor(2.0))
    values = torch.stack([low, high]).unsqueeze(1)
    rule = mh.LabelThresholds(shrink=0).fit(values, torch.tensor([[0], [1]]))
    assert rule(values).labels.flatten().tolist() == [False, True]


def test_infinite_values():
    values = torch.tensor([[-torch.inf], [torch.inf], [0.0], [torch.inf]])
    targets = torch.tensor([[0], [1], [0], [1]])
    rule = mh.LabelThresholds().fit(values, targets)
    assert rule(values).labels.flatten().tolist() == [False, True, False, True]
    rule = mh.LabelThresholds().fit(values[:2], targets[:2])
    assert rule(values[:2]).labels.flatten().tolist() == [False, True]


def test_another_number_of_labels_is_refused():
    rule = mh.LabelThresholds().fit(*problem(20, 3))
    with raises_input_error("values", "LabelThresholds", rule="have the 3 labels that were fitted"):
        rule(torch.zeros(1, 2))


def test_nothing_reaches_an_infinite_threshold():
    values = torch.tensor([[torch.inf, torch.inf], [1.0, 2.0], [-torch.inf, torch.inf]])
    rule = mh.LabelThresholds(precision=1.0).fit(values, torch.tensor([[1, 0], [0, 1], [0, 0]]))
    assert rule.reached.tolist() == [True, False]
    assert rule(values).labels.tolist() == [[True, False], [False, False], [False, False]]
