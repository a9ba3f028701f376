"""Sets of a wanted average size, against sorting everything."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhot as mh
from manyhot.decide.sets import order_statistics
from tests.errors.expected import raises_input_error


def naive_threshold(values, k):
    ordered = sorted(values.flatten().tolist(), reverse=True)
    given_cells = int(k * len(values) + 1e-6)
    if given_cells == 0:
        return np.inf
    if given_cells >= len(ordered):
        return ordered[-1]
    return (ordered[given_cells - 1] + ordered[given_cells]) / 2


@pytest.mark.parametrize("k", [0, 0.01, 0.5, 1, 2.3, 3.999, 5, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_against_sorting(k, dtype):
    values = torch.randn(40, 5, generator=torch.Generator().manual_seed(0), dtype=dtype) * 10
    rule = mh.AverageK(k).fit(values)
    assert rule.threshold.item() == pytest.approx(naive_threshold(values, k), rel=1e-6)
    assert rule(values).labels.sum().item() == min(int(k * 40 + 1e-6), 200)


def test_a_product_that_floating_point_rounds_down():
    """0.29 * 100 is 28.999999999999996, and must not lose a label."""
    assert int(0.29 * 100) == 28
    values = torch.rand(100, 5, generator=torch.Generator().manual_seed(0))
    assert mh.AverageK(0.29).fit(values)(values).labels.sum().item() == 29


def test_ties_are_all_given():
    values = torch.full((4, 3), 0.25)
    rule = mh.AverageK(1).fit(values)
    assert rule.threshold.item() == 0.25
    assert rule(values).sizes.tolist() == [3, 3, 3, 3]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=30),
    st.floats(0, 2),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_any_numbers_in_batches(numbers, k, dtype):
    values = torch.tensor(numbers, dtype=dtype).unsqueeze(1)
    whole = mh.AverageK(k).fit(values)
    batches = mh.AverageK(k).fit_batches(list(values.split(4)))
    assert torch.equal(whole.threshold, batches.threshold)
    count = min(int(k * len(values) + 1e-6), len(values))
    if count:
        kth = values.flatten().sort(descending=True).values[count - 1]
        assert torch.equal(whole(values).labels.flatten(), values.flatten() >= kth)
    else:
        assert whole.threshold.item() == np.inf


@pytest.mark.slow
@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=40), st.data())
def test_order_statistics_of_any_numbers(numbers, data):
    values = torch.tensor(numbers, dtype=torch.float64)
    places = data.draw(st.lists(st.integers(0, len(numbers) - 1), min_size=1, max_size=4))
    got = order_statistics([values[:3], values[3:]], lambda count: places)
    ordered = values.sort().values
    assert [number.item() for number in got] == ordered[places].tolist()


class TestBatches:
    values = torch.randn(101, 7, generator=torch.Generator().manual_seed(1))

    def test_the_same_threshold_to_the_bit(self):
        want = mh.AverageK(2.5).fit(self.values).threshold
        parts = self.values.split(10)
        for batches in (parts, lambda: iter(parts), lambda: (part.numpy() for part in parts), [self.values]):
            assert torch.equal(mh.AverageK(2.5).fit_batches(batches).threshold, want)

    def test_memory_stays_bounded(self, monkeypatch):
        """Batches are cut into blocks, which are counted and forgotten."""
        monkeypatch.setattr("manyhot.sorting.CELLS_AT_ONCE", 13)
        want = naive_threshold(self.values, 2.5)
        assert mh.AverageK(2.5).fit(self.values).threshold.item() == pytest.approx(want, rel=1e-6)

    def test_passes_are_counted(self):
        passes = []

        def batches(kind):
            passes.append(kind)
            return [self.values.to(kind)]

        for kind, number in ((torch.float32, 2), (torch.float64, 4), (torch.bfloat16, 2)):
            passes.clear()
            mh.AverageK(2).fit_batches(lambda kind=kind: batches(kind))
            assert len(passes) == number

    def test_no_batches_give_nothing(self):
        assert mh.AverageK(2).fit_batches([]).threshold.item() == np.inf

    def test_an_iterator_is_refused(self):
        words = r"`batches` of `AverageK` must allow several passes; got an iterator that ends after one\. Pass a list"
        with raises_input_error(match=words):
            mh.AverageK(2).fit_batches(iter([self.values]))

    def test_batches_that_change_are_refused(self):
        passes = iter([[self.values], [self.values[:4]]])
        with raises_input_error(rule="be the same in every pass", got="101 rows, then 4", hint="Leave them"):
            mh.AverageK(2).fit_batches(lambda: next(passes))

    @pytest.mark.parametrize("other", [torch.zeros(3, 6), torch.zeros(3, 7, dtype=torch.float64)])
    def test_batches_of_another_kind_are_refused(self, other):
        words = (
            r"`batches` of `AverageK` must have 7 labels in torch\.float32 like the first one; got \d in torch\.float"
        )
        with raises_input_error(match=words):
            mh.AverageK(2).fit_batches([self.values, other])


def test_infinite_values():
    values = torch.tensor([[torch.inf, 1.0], [torch.inf, -torch.inf]])
    for k, sizes in {0: [0, 0], 1: [1, 1], 1.5: [2, 1], 2: [2, 2], 1e308: [2, 2]}.items():
        assert mh.AverageK(k).fit(values)(values).sizes.tolist() == sizes
    everything = torch.full((2, 2), torch.inf)
    assert mh.AverageK(2).fit(everything)(everything).labels.all()
