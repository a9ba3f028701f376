"""Uniform thresholds, against trying every one."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhot as mh
from manyhot.decide.rule import strict_midpoint
from manyhot.decide.thresholds import row_intervals, sweep, sweep_groups
from tests.errors.expected import raises_input_error

tables = st.integers(1, 4).flatmap(
    lambda labels: st.lists(
        st.tuples(
            st.lists(st.integers(-3, 3), min_size=labels, max_size=labels),
            st.lists(st.sampled_from([-1, 0, 0, 1, 1]), min_size=labels, max_size=labels),
        ),
        min_size=1,
        max_size=9,
    )
)


def as_tensors(table):
    return torch.tensor([row for row, _ in table]).float(), torch.tensor([targets for _, targets in table])


def right(values, targets, threshold):
    """Which rows are wholly right among known cells, and have one."""
    known = targets >= 0
    return (((values > threshold) == (targets == 1)) | ~known).all(1) & known.any(1)


def candidates(values):
    points = sorted(set(values.flatten().tolist()))
    return [points[0] - 1, *points, *((a + b) / 2 for a, b in itertools.pairwise(points))]


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(tables)
def test_no_threshold_makes_more_rows_right(table):
    values, targets = as_tensors(table)
    rule = mh.decide.UniformThreshold().fit(values, targets)
    best = max(int(right(values, targets, t).sum()) for t in candidates(values))
    rows = int((targets >= 0).any(1).sum())
    assert int(right(values, targets, rule.threshold.item()).sum()) == best
    assert rule.accuracy.item() == pytest.approx(best / rows) if rows else rule.accuracy.isnan()
    if best:
        assert rule.low <= rule.threshold < rule.high
        smaller = [t for t in candidates(values) if t < rule.low.item()]
        assert all(int(right(values, targets, t).sum()) < best for t in smaller), "the smallest region wins"
        within = [t for t in candidates(values) if rule.low.item() <= t < rule.high.item()]
        sets = [right(values, targets, t).tolist() for t in within]
        assert all(rows == sets[0] for rows in sets), "the same rows are right in all of the region"
    else:
        assert rule.low.isnan()
        assert not rule(values).labels.any()


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(tables)
def test_thresholds_of_classes_reach_their_accuracy(table):
    values, targets = as_tensors(table)
    rule = mh.decide.ClassThresholds().fit(values, targets)
    known = targets >= 0
    hits = ((rule(values).labels == (targets == 1)) | ~known).all(1) & known.any(1)
    rows = int(known.any(1).sum())
    assert rule.accuracy.item() == pytest.approx(int(hits.sum()) / rows) if rows else rule.accuracy.isnan()
    uniform = mh.decide.UniformThreshold().fit(values, targets)
    assert not rule.accuracy < uniform.accuracy


@pytest.mark.slow
@settings(max_examples=100, deadline=None, derandomize=True)
@given(tables)
def test_single_labels_reach_the_accuracy_of_the_paper(table):
    """The sum over classes of the most rows of the class that one threshold makes right."""
    values, _ = as_tensors(table)
    classes = torch.tensor([sum(map(abs, row)) % len(row) for row, _ in table])
    targets = mh.one_hot(classes, values.shape[1])
    want = 0
    for label in range(values.shape[1]):
        mine = classes == label
        want += max(int(right(values[mine], targets[mine], t).sum()) for t in candidates(values))
    assert mh.decide.ClassThresholds().fit(values, targets).accuracy.item() == pytest.approx(want / len(values))


def test_intervals():
    values = torch.tensor([[3.0, 1.0, 2.0], [1.0, 2.0, 3.0], [0.0, 5.0, 1.0], [4.0, 5.0, 6.0], [1.0, 1.0, 1.0]])
    targets = torch.tensor([[1, 0, 0], [1, 0, -1], [0, 0, 0], [1, 1, 1], [-1, -1, -1]])
    lows, highs = row_intervals(values, targets)
    assert lows.tolist() == [2, 2, 5, -math.inf, math.inf]
    assert highs.tolist() == [3, 1, math.inf, 4, -math.inf]


def test_touching_intervals_do_not_meet():
    found = sweep(torch.tensor([0.0, 1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0]))
    assert found == (1, 0.0, 1.0)
    assert strict_midpoint(*torch.tensor(found[1:])).item() == 0.5


@pytest.mark.parametrize(
    ("lows", "highs", "want", "threshold"),
    [
        ([], [], (0, math.nan, math.nan), math.nan),
        ([1.0], [1.0], (0, math.nan, math.nan), math.nan),
        ([2.0], [1.0], (0, math.nan, math.nan), math.nan),
        ([-math.inf], [4.0], (1, -math.inf, 4.0), -math.inf),
        ([4.0], [math.inf], (1, 4.0, math.inf), 4.0),
        ([-math.inf], [math.inf], (1, -math.inf, math.inf), -math.inf),
        ([0.0, 0.0, 5.0], [1.0, 2.0, 6.0], (2, 0.0, 1.0), 0.5),
    ],
)
def test_ends_of_the_sweep(lows, highs, want, threshold):
    found = sweep(torch.tensor(lows, dtype=torch.float64), torch.tensor(highs, dtype=torch.float64))
    assert strict_midpoint(*torch.tensor(found[1:])).item() == pytest.approx(threshold, nan_ok=True)
    assert list(found) == pytest.approx(list(want), nan_ok=True)


def test_the_threshold_stays_below_the_end_where_no_number_lies_between():
    low = torch.tensor([1.0])
    high = torch.nextafter(low, torch.tensor([2.0]))
    values = torch.stack([high, low], dim=1)
    rule = mh.decide.UniformThreshold().fit(values, torch.tensor([[1, 0]]))
    assert rule(values).labels.tolist() == [[True, False]]


def test_groups_are_swept_by_themselves():
    draw = torch.Generator().manual_seed(0)
    lows = torch.randn(60, generator=draw)
    highs = lows + torch.rand(60, generator=draw) - 0.2
    groups = torch.randint(-1, 5, (60,), generator=draw)
    got = sweep_groups(lows, highs, groups, 6)
    assert got[:5] == [sweep(lows[groups == g], highs[groups == g]) for g in range(5)]
    assert got[5].count == 0


def test_rows_without_labels_push_the_threshold_up():
    values = torch.tensor([[2.0, 0.0], [0.0, 3.0]])
    targets = torch.tensor([[1, 0], [0, 1]])
    assert mh.decide.UniformThreshold().fit(values, targets).threshold.item() == 1.0
    more = torch.cat([values, torch.tensor([[1.5, 1.0]])])
    rule = mh.decide.UniformThreshold().fit(more, torch.cat([targets, torch.zeros(1, 2)]))
    assert (rule.low.item(), rule.high.item(), rule.threshold.item()) == (1.5, 2.0, 1.75)


def test_a_class_without_rows_gets_the_common_threshold():
    values = torch.tensor([[2.0, 0.0, -1.0], [0.0, 3.0, -1.0], [1.0, 4.0, -2.0]])
    rule = mh.decide.ClassThresholds().fit(values, mh.one_hot(torch.tensor([0, 1, 1]), 3))
    common = mh.decide.UniformThreshold().fit(values, mh.one_hot(torch.tensor([0, 1, 1]), 3)).threshold
    assert rule.thresholds[2] == common
    assert rule.low[2].isnan()
    with raises_input_error("values", "ClassThresholds", rule="have the 3 labels that were fitted"):
        rule(torch.zeros(1, 2))
