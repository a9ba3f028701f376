"""Rows with labels against rows without, by how sure a model is of them."""

import json

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot.errors import InputError
from manyhot.report import count_zero_labels, draw_zero_labels


@pytest.fixture(scope="module")
def model():
    draw = torch.Generator().manual_seed(0)
    targets = (torch.rand(600, 4, generator=draw) < 0.2).int()
    targets[5] = -1
    return (torch.randn(600, 4, generator=draw) + 2 * targets - 1).sigmoid(), targets


def words(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


class TestCounting:
    def test_rows_are_counted_by_their_largest_probability(self, model):
        probs, targets = model
        counted = count_zero_labels(probs, targets, bins=10)
        known, labelled = (targets >= 0).all(1), (targets == 1).any(1)
        for side, rows in (("in", labelled), ("out", known & ~labelled)):
            largest = probs[rows].amax(1).double().numpy()
            assert counted[side] == np.histogram(largest, np.linspace(0, 1, 11))[0].tolist()
            assert counted[f"mmc_{side}"] == pytest.approx(largest.mean())
        assert sum(counted["in"]) + sum(counted["out"]) == 599
        wanted = mh.metrics.OpenSetScores().update(probs, targets).compute()
        assert (counted["auroc"], counted["mmc_out"]) == (wanted["auroc"], pytest.approx(wanted["mmc"]))

    def test_it_can_be_kept(self, model):
        for targets in (model[1], torch.ones(600, 4)):
            counted = count_zero_labels(model[0], targets)
            assert json.loads(json.dumps(counted, allow_nan=False)) == counted

    def test_one_kind_of_rows_alone_has_no_auroc(self, model):
        counted = count_zero_labels(model[0], torch.ones(600, 4))
        assert (counted["auroc"], counted["mmc_out"], sum(counted["out"])) == (None, None, 0)

    def test_what_is_refused(self, model):
        assert words(lambda: count_zero_labels(3 * model[0], model[1])).startswith(
            "`values` of `count_zero_labels` must lie between 0 and 1; got "
        )
        assert words(lambda: count_zero_labels(model[0], torch.full((600, 4), -1))) == (
            "`values` of `count_zero_labels` must have rows with known cells; got none. Pass rows with known cells."
        )


class TestDrawing:
    def test_both_kinds_are_shares_of_their_own(self, model):
        (axis,) = draw_zero_labels({"BCE": model}, bins=10).axes
        counted = count_zero_labels(*model, bins=10)
        outlines = [patch for patch in axis.patches if "labels" in patch.get_label()]
        for patch, side in zip(outlines, ("in", "out"), strict=True):
            values, edges, _ = patch.get_data()
            assert values == pytest.approx(100 * np.array(counted[side]) / sum(counted[side]))
            assert edges == pytest.approx(100 * np.array(counted["edges"]))
        assert outlines[0].get_linestyle() != outlines[1].get_linestyle()
        assert axis.get_title() == f"BCE\nAUROC {100 * counted['auroc']:.1f} %"

    def test_means_are_marked(self, model):
        counted = count_zero_labels(*model)
        (axis,) = draw_zero_labels({"BCE": counted}).axes
        marks = {line.get_label(): line.get_xdata()[0] for line in axis.lines}
        assert marks == {f"MMC {100 * counted[key]:.1f} %": 100 * counted[key] for key in ("mmc_in", "mmc_out")}

    def test_numbers_that_were_kept_look_the_same(self, model):
        kept = json.loads(json.dumps(count_zero_labels(*model)))
        first, second = draw_zero_labels({"raw": model, "kept": kept}).axes
        for one, other in zip(first.patches, second.patches, strict=True):
            assert list(one.get_data().values) == list(other.get_data().values)
        assert first.get_ylim() == second.get_ylim()

    def test_one_kind_of_rows_alone_is_drawn(self, model):
        (axis,) = draw_zero_labels({"BCE": (model[0], torch.ones(600, 4))}).axes
        assert axis.get_title() == "BCE\nAUROC –"
        texts = [text.get_text() for text in axis.get_legend().get_texts()]
        assert texts[0] == "with labels (IN), 600"
        assert len(texts) == 2

    def test_the_legend_hides_no_bar(self, model):
        figure = draw_zero_labels({"a": model, "b": model})
        figure.draw_without_rendering()
        for axis in figure.axes:
            highest = max(patch.get_data().values.max() for patch in axis.patches)
            assert axis.get_legend().get_window_extent().y0 > axis.transData.transform((0, highest))[1]

    def test_what_is_refused(self, model):
        hint = "Pass (probs, targets), or what `count_zero_labels` returned."
        assert words(lambda: draw_zero_labels({"a": torch.ones(3)})) == (
            "`groups['a']` of `draw_zero_labels` must be probabilities with their targets, or histograms; got Tensor. "
            f"{hint}"
        )
        assert words(lambda: draw_zero_labels({"a": {"edges": [0, 1], "in": [1]}})) == (
            f"`groups['a']` of `draw_zero_labels` must have 'edges', 'in' and 'out'; got none called 'out'. {hint}"
        )
