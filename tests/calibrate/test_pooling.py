"""Isotonic regression of all labels at once against one that takes a cell at a time, and the curves through it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhot as mh
from manyhot.calibrate.isotonic import Blocks, bin_cells, curves_through, half_of_rows, pooled_blocks, smoothed
from manyhot.calibrate.partial_pooling import Cells


def one_at_a_time(cells):
    """Rates of the blocks of one column, by a stack."""
    ties = {}
    for place, target, weight in sorted(cells):
        if weight > 0:
            total = ties.setdefault(place, [0.0, 0.0])
            total[0] += weight
            total[1] += weight * target
    stack = []
    for weight, present in ties.values():
        stack.append([weight, present])
        while len(stack) > 1 and stack[-2][1] / stack[-2][0] >= stack[-1][1] / stack[-1][0] - 1e-12:
            weight, present = stack.pop()
            stack[-1][0] += weight
            stack[-1][1] += present
    return [present / weight for weight, present in stack]


cell = st.tuples(st.integers(-5, 5), st.integers(0, 1), st.sampled_from([0.0, 0.5, 1.0, 2.0]))


@settings(deadline=None)
@given(st.lists(st.tuples(cell, cell), min_size=1, max_size=40))
def test_blocks_are_those_of_pooling_one_at_a_time(rows):
    table = torch.tensor(rows, dtype=torch.float64)
    blocks = pooled_blocks(Cells(*table.unbind(2)))
    for label in (0, 1):
        want = torch.tensor(one_at_a_time([row[label] for row in rows]), dtype=torch.float64)
        torch.testing.assert_close(blocks.rate[blocks.label == label], want)


def draws(rows, labels=2, seed=0):
    draw = torch.Generator().manual_seed(seed)
    input_log_odds = 2 * torch.randn(rows, labels, generator=draw, dtype=torch.float64)
    targets = (torch.rand(rows, labels, generator=draw) < torch.sigmoid(input_log_odds)).double()
    return Cells(input_log_odds, targets, torch.ones_like(input_log_odds))


def test_a_long_fall_is_joined_to_one_block():
    input_log_odds = torch.arange(2000, dtype=torch.float64).unsqueeze(1)
    blocks = pooled_blocks(Cells(input_log_odds, 1 - input_log_odds / 2000, torch.ones_like(input_log_odds)))
    assert len(blocks.label) == 1
    assert blocks.rate.item() == pytest.approx(float(1 - (input_log_odds / 2000).mean()))


def test_a_rise_that_ends_in_a_deep_fall():
    """Block after block is drawn down, one in each round."""
    targets = torch.cat([torch.linspace(0, 1, 300, dtype=torch.float64), torch.tensor([-200.0])]).unsqueeze(1)
    input_log_odds = torch.arange(301, dtype=torch.float64).unsqueeze(1)
    blocks = pooled_blocks(Cells(input_log_odds, targets, torch.ones_like(input_log_odds)))
    assert len(blocks.label) == 1


def test_smoothing_leaves_no_certainty_and_no_fall():
    cells = draws(300, labels=3)
    blocks = smoothed(pooled_blocks(cells))
    assert bool(((blocks.rate > 0) & (blocks.rate < 1)).all())
    steps, same = blocks.rate.diff(), blocks.label.diff() == 0
    assert bool((steps[same] > 0).all())
    never = smoothed(pooled_blocks(cells._replace(targets=torch.zeros_like(cells.targets))))
    torch.testing.assert_close(never.rate, torch.full((3,), 0.5 / 301, dtype=torch.float64))


def test_curves_pass_the_centres_and_go_on_with_slope_1():
    parts = ([1, 1], [4.0, 4.0], [1.0, 3.0], [-4.0, 8.0], [-1.0, 2.0], [-1.0, 2.0])
    blocks = Blocks(*(torch.tensor(part) for part in parts))
    curves = curves_through(Blocks(blocks.label, *(part.double() for part in blocks[1:])), 2)
    input_log_odds = torch.tensor([[3.0, -1.0], [3.0, 2.0], [3.0, 0.5], [3.0, -2.5], [3.0, 9.0]], dtype=torch.float64)
    third = torch.log(torch.tensor(3.0, dtype=torch.float64)).item()
    want = torch.tensor([-third, third, 0.0, -third - 1.5, third + 7], dtype=torch.float64)
    torch.testing.assert_close(curves.apply(input_log_odds)[:, 1], want)
    assert curves.apply(input_log_odds)[:, 0].tolist() == [3.0] * 5, "a label without blocks keeps its evidence"


def test_curves_rise_strictly_on_noise():
    cells = draws(2000)
    curves = curves_through(smoothed(pooled_blocks(cells)), 2)
    ladder = torch.linspace(-20, 20, 5001, dtype=torch.float64).unsqueeze(1).repeat(1, 2)
    assert bool((curves.apply(ladder).diff(dim=0) > 0).all())


def test_a_column_too_long_to_sort_gives_nearly_the_same_curve(monkeypatch):
    cells = draws(20000, labels=1)
    exact = curves_through(smoothed(pooled_blocks(cells)), 1)
    monkeypatch.setattr("manyhot.calibrate.isotonic.CELLS_AT_ONCE", 5000)
    assert len(bin_cells(cells).input_log_odds) < 12000
    coarse = curves_through(smoothed(pooled_blocks(cells)), 1)
    ladder = torch.linspace(-4, 4, 200, dtype=torch.float64).unsqueeze(1)
    assert float((coarse.apply(ladder) - exact.apply(ladder)).abs().mean()) < 0.02


def test_gathering_keeps_every_sum():
    cells = draws(3000, labels=1)
    cells = cells._replace(input_log_odds=100 * cells.input_log_odds, weights=torch.rand_like(cells.weights))
    few = bin_cells(cells)
    for power in (0, 1):
        got, want = ((part.weights * part.input_log_odds**power).sum() for part in (few, cells))
        torch.testing.assert_close(got, want)
    torch.testing.assert_close((few.weights * few.targets).sum(), (cells.weights * cells.targets).sum())


def test_equal_rows_may_change_places_whatever_their_weights():
    draw = torch.Generator().manual_seed(0)
    scores = torch.randint(-3, 4, (300, 1), generator=draw).double()
    targets = (torch.rand(300, 1, generator=draw) < torch.sigmoid(scores + torch.sin(3 * scores))).int()
    weights = torch.rand(300, generator=draw, dtype=torch.float64).square()
    order = torch.randperm(300, generator=draw)
    want, found = (
        mh.IsotonicCalibration().fit(scores[rows], targets[rows], weights=weights[rows]).log_odds(scores)
        for rows in (torch.arange(300), order)
    )
    torch.testing.assert_close(found, want)


def test_halves_vary_as_random_ones_do_and_hold_the_same_of_equal_rows():
    input_log_odds = torch.randn(4000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    share = half_of_rows(Cells(input_log_odds, torch.zeros_like(input_log_odds), torch.ones_like(input_log_odds)))
    assert set(share.tolist()) == {0.0, 1.0}
    assert float(share.mean()) == pytest.approx(0.5, abs=0.03)
    tied = input_log_odds[:400].repeat(9, 1)
    share = half_of_rows(Cells(tied, torch.zeros_like(tied), torch.ones_like(tied)))
    torch.testing.assert_close(share.unique(), torch.tensor([1 / 3, 2 / 3], dtype=torch.float64))
    assert torch.equal(share.view(9, 400), share[:400].expand(9, -1))


@pytest.mark.parametrize("sharing", ["all", "none", "partial"])
def test_a_table_without_labels(sharing):
    calibrator = mh.IsotonicCalibration(sharing=sharing).fit(torch.zeros(3, 0), torch.zeros(3, 0))
    assert calibrator(torch.zeros(5, 0)).shape == (5, 0)
