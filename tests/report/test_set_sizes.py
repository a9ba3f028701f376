"""Histograms of set sizes."""

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot.errors import InputError
from manyhot.report import count_sizes, draw_set_sizes


def words(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def heights(axis):
    return [bar.get_height() for bar in axis.patches]


class TestCounting:
    def test_every_form_counts_the_same(self):
        probs = torch.rand(200, 7, generator=torch.Generator().manual_seed(0))
        decision = mh.Threshold(0.6)(probs)
        expected = torch.bincount(decision.sizes).tolist()
        for form in (decision, decision.labels, decision.labels.numpy(), decision.sizes, decision.sizes.tolist()):
            assert count_sizes(form) == expected

    def test_what_is_refused(self):
        assert words(lambda: count_sizes(torch.rand(3, 2))) == (
            "`decisions` of `count_sizes` must be decisions, (N, K) of booleans; got torch.float32. "
            "Pass the result of a rule, such as `Threshold(0.5)(probs)`."
        )
        assert words(lambda: count_sizes([1, -1])) == (
            "`decisions` of `count_sizes` must be whole numbers, none negative; got -1. "
            "Pass how many there are, not shares."
        )
        assert words(lambda: count_sizes([])) == (
            "`decisions` of `count_sizes` must have at least one row; got none. "
            "Leave out models and groups without rows."
        )


class TestDrawing:
    def test_bars_are_percent_of_rows_and_the_mean_is_marked(self):
        (axis,) = draw_set_sizes({"a": {"counts": [1, 2, 0, 5]}}).axes
        assert heights(axis) == pytest.approx([12.5, 25, 0, 62.5])
        assert axis.lines[0].get_xdata()[0] == pytest.approx(17 / 8)
        assert [text.get_text() for text in axis.get_legend().get_texts()] == ["mean 2.12"]
        assert [tick.get_text() for tick in axis.get_xticklabels()] == ["0", "1", "2", "3"]

    def test_numbers_of_rows(self):
        figure = draw_set_sizes({"a": [0, 1, 1]}, share=False)
        assert heights(figure.axes[0]) == [1, 2]
        assert figure.get_supylabel() == "rows"

    def test_large_sets_are_gathered_but_count_in_the_mean(self):
        (axis,) = draw_set_sizes({"a": [1, 1, 8, 20]}, most=4).axes
        assert heights(axis) == [0, 50, 0, 0, 50]
        assert axis.get_xticklabels()[-1].get_text() == "4+"
        assert axis.lines[0].get_xdata()[0] == 7.5

    def test_a_mean_that_was_kept_counts_more_than_the_bars(self):
        (axis,) = draw_set_sizes({"a": {"counts": [0, 2, 2], "mean": 4.25}}).axes
        assert axis.lines[0].get_xdata()[0] == 4.25

    @pytest.mark.parametrize("largest", [0, 1, 9, 12, 30, 47, 250])
    def test_sizes_below_the_bars_have_room(self, largest):
        (axis,) = draw_set_sizes({"a": [largest]}, most=300).axes
        ticks = axis.get_xticks()
        assert 1 <= len(ticks) <= 12
        assert len(set(np.diff(ticks))) <= 1

    def test_no_panel_cuts_the_bars_of_another(self):
        figure = draw_set_sizes({"flat": list(range(10)), "steep": [3] * 10})
        assert figure.axes[1].get_ylim()[1] > 100
        assert figure.axes[0].get_ylim()[0] == 0

    def test_groups_are_lines_of_one_panel(self):
        groups = {"few": [3, 3, 4], "many": {"counts": [0, 9, 1]}}
        (axis,) = draw_set_sizes({"a": groups}).axes
        curves = {line.get_label(): line for line in axis.lines if not line.get_label().startswith("_")}
        assert list(curves) == ["few, mean 3.33", "many, mean 1.10"]
        assert curves["few, mean 3.33"].get_ydata() == pytest.approx([0, 0, 0, 200 / 3, 100 / 3])
        assert curves["many, mean 1.10"].get_ydata() == pytest.approx([0, 90, 10, 0])
        assert len({line.get_marker() for line in curves.values()}) == 2

    def test_what_is_refused(self):
        assert words(lambda: draw_set_sizes({"a": {"counts": [0, 0]}})) == (
            "`sizes['a']['counts']` of `draw_set_sizes` must count at least one row; got none. "
            "Leave out models and groups without rows."
        )
        assert words(lambda: draw_set_sizes({"a": [1]}, most=0)) == (
            "`most` of `draw_set_sizes` must be a whole number, at least 1; got 0. Pass an int."
        )
        assert words(lambda: draw_set_sizes([1, 2])) == (
            "`sizes` of `draw_set_sizes` must be a mapping with at least one name; got list. "
            'Pass what is to be drawn by its name, such as {"BCE": ...}.'
        )
        assert words(lambda: draw_set_sizes({"a": {"few": {"sizes": [1]}}})) == (
            "`sizes['a']['few']` of `draw_set_sizes` must have 'counts'; got none called 'counts'. "
            'Pass decisions, sizes, or what `count_sizes` returned as "counts".'
        )
