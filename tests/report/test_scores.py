"""Distributions of scores and the thresholds between them."""

import json

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot.errors import InputError
from manyhot.report import count_scores, draw_scores


@pytest.fixture(scope="module")
def single():
    draw = torch.Generator().manual_seed(0)
    targets = mh.one_hot(torch.randint(6, (500,), generator=draw), 6)
    return torch.randn(500, 6, generator=draw) + 3 * targets, targets


def words(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def upright(axis):
    return {line.get_label(): line.get_xdata()[0] for line in axis.lines}


class TestCounting:
    def test_rows_are_counted_by_label_and_largest_other(self, single):
        scores, targets = single
        own = scores[targets == 1].numpy()
        other = torch.where(targets == 1, -torch.inf, scores).amax(1).numpy()
        counted = count_scores(scores, targets, per="row", bins=20)
        for side, values in (("present", own), ("absent", other)):
            inside = np.clip(values.astype(float), counted["edges"][0], counted["edges"][-1])
            assert counted[side] == np.histogram(inside, counted["edges"])[0].tolist()
            assert sum(counted[side]) == 500
        assert counted["best"] == mh.metrics.UniformAccuracy().update(scores, targets).compute()["threshold"]

    def test_cells_without_the_unknown(self):
        scores = torch.tensor([[1.0, 2.0, 9.0], [3.0, 4.0, 9.0]])
        targets = torch.tensor([[1, 0, -1], [1, 1, -1]])
        counted = count_scores(scores, targets, bins=3)
        assert (counted["present"], counted["absent"]) == ([1, 0, 2], [0, 1, 0])
        assert counted["best"] is None
        assert counted["edges"] == [1, 2, 3, 4]

    def test_a_score_far_out_does_not_press_the_others_together(self):
        scores = torch.cat([torch.linspace(-3, 3, 9999), torch.tensor([1e6])]).reshape(-1, 1)
        counted = count_scores(scores, torch.ones(10000, 1), bins=10)
        assert counted["edges"][-1] < 3.1
        assert sum(counted["present"]) == 10000

    def test_rare_present_cells_keep_their_bars(self):
        scores = torch.cat([torch.zeros(99_990), torch.full((10,), 5.0)]).reshape(-1, 1)
        counted = count_scores(scores, (scores > 1).int(), bins=5)
        assert counted["edges"][-1] == 5
        assert counted["present"] == [0, 0, 0, 0, 10]

    def test_equal_scores_and_rows_without_labels(self):
        targets = torch.tensor([[1, 0], [0, 0]])
        counted = count_scores(torch.tensor([[2.0, 2.0], [7.0, 7.0]]), targets, per="row", bins=3)
        assert (counted["present"], counted["absent"], counted["best"]) == ([0, 1, 0], [0, 1, 0], None)

    def test_it_can_be_kept(self, single):
        counted = count_scores(*single, per="row", learned=0.5)
        assert json.loads(json.dumps(counted)) == counted

    def test_what_is_refused(self, single):
        assert words(lambda: count_scores(single[0], torch.ones(500, 6), per="row")) == (
            "`targets` of `count_scores` must have at most one label per row for per='row'; got a row with several. "
            "Pass per='cell' to count all cells."
        )
        assert words(lambda: count_scores(*single, per="label")) == (
            "`per` of `count_scores` must be one of 'row', 'cell'; got 'label'. Pick one of these."
        )
        assert words(lambda: count_scores(single[0], torch.zeros(500, 6), per="row")) == (
            "`scores` of `count_scores` must have finite scores of known cells; got none. "
            "Pass rows with labels, or `per='cell'`."
        )


class TestDrawing:
    def test_both_sides_are_shares_of_their_own(self, single):
        (axis,) = draw_scores({"a": single}, per="row", bins=20).axes
        counted = count_scores(*single, per="row", bins=20)
        lines = [patch for patch in axis.patches if patch.get_label() in ("label of the row", "largest other")]
        for patch, side in zip(lines, ("present", "absent"), strict=True):
            values, edges, _ = patch.get_data()
            assert values == pytest.approx(np.array(counted[side]) / 5)
            assert edges == pytest.approx(counted["edges"])
        assert lines[0].get_linestyle() != lines[1].get_linestyle()

    def test_thresholds_are_marked(self, single):
        kept = json.loads(json.dumps(count_scores(*single, per="row", learned=-1.25)))
        first, second = draw_scores({"raw": single, "kept": kept}, per="row", learned={"raw": 0.5}).axes
        best = kept["best"]
        assert upright(first) == {f"best threshold {best:.2f}": best, "learned threshold 0.50": 0.5}
        assert upright(second) == {f"best threshold {best:.2f}": best, "learned threshold -1.25": -1.25}
        assert first.get_ylabel() == "% of rows"

    def test_cells_have_no_best_threshold(self, single):
        (axis,) = draw_scores({"a": single}).axes
        assert upright(axis) == {}
        assert [text.get_text() for text in axis.get_legend().get_texts()] == ["present", "absent"]
        assert axis.get_ylabel() == "% of cells"

    def test_the_legend_hides_no_bar(self, single):
        figure = draw_scores({"a": single}, per="row", learned={"a": 0.0})
        figure.draw_without_rendering()
        (axis,) = figure.axes
        highest = max(patch.get_data().values.max() for patch in axis.patches)
        assert axis.get_legend().get_window_extent().y0 > axis.transData.transform((0, highest))[1]

    def test_what_is_refused(self, single):
        assert words(lambda: draw_scores({"a": single}, learned={"b": 0.0})) == (
            "`learned` of `draw_scores` must name what is drawn, 'a'; got 'b'. Pass these names only."
        )
        assert words(lambda: draw_scores({"a": {"edges": [0, 1]}})) == (
            "`scores['a']` of `draw_scores` must have 'edges', 'present' and 'absent'; got none called 'present'. "
            "Pass (scores, targets), or what `count_scores` returned."
        )
        assert words(lambda: draw_scores({"a": {"edges": [0, 2, 1], "present": [1, 2], "absent": [0, 0]}})) == (
            "`scores['a']['edges']` of `draw_scores` must rise; got edges out of order. "
            "Pass the lower edge of the first bin and the upper edges of all."
        )
        assert words(lambda: draw_scores({"a": torch.ones(3)})) == (
            "`scores['a']` of `draw_scores` must be scores with their targets, or a histogram; got Tensor. "
            "Pass (scores, targets), or what `count_scores` returned."
        )
