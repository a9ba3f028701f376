"""Pictures of how well search works."""

import json
import math

import pytest
import torch

from manyhot import metrics
from manyhot.errors import InputError
from manyhot.report import as_png, draw_counts, draw_retrieval
from manyhot.report.plots_compare import MatchGroup, group_matches


@pytest.fixture(scope="module")
def models():
    draw = torch.Generator().manual_seed(0)
    log_odds = 2 * torch.randn(300, 8, generator=draw) - 1
    targets = (torch.rand(300, 8, generator=draw) < torch.sigmoid(log_odds)).int()
    return {"honest": (log_odds, targets), "bold": (3 * log_odds, targets)}


@pytest.fixture(scope="module")
def curves(models):
    return {name: metrics.RetrievalCurve(most=3, each=30).update(*model).compute() for name, model in models.items()}


class TestRetrieval:
    def test_one_line_a_model_with_its_means(self, curves):
        axis = draw_retrieval(curves).axes[0]
        for place, outcome in enumerate(curves.values()):
            line = axis.containers[place].lines[0]
            assert line.get_ydata().tolist() == pytest.approx((100 * outcome.details["by_length"]).tolist())
            assert [round(x) for x in line.get_xdata()] == [1, 2, 3]
        texts = [text.get_text() for text in axis.get_legend().get_texts()]
        assert texts == [f"{name}, {100 * outcome.value:.1f} over all" for name, outcome in curves.items()]

    def test_kept_as_json_it_looks_the_same(self, curves):
        kept = {
            name: curve.values | {key: curve.details[key].tolist() for key in ("by_length", "low", "high")}
            for name, curve in curves.items()
        }
        assert as_png(draw_retrieval(json.loads(json.dumps(kept)))) == as_png(draw_retrieval(curves))

    def test_a_length_without_queries_leaves_a_gap(self, models):
        curve = metrics.RetrievalCurve(most=9).update(*models["honest"]).compute()
        assert math.isnan(curve["map_length_9"])
        figure = draw_retrieval({"a": curve})
        assert math.isnan(figure.axes[0].containers[0].lines[0].get_ydata()[8])
        assert as_png(figure).startswith(b"\x89PNG")

    def test_the_legend_of_many_models_stands_beside_the_lines(self, curves):
        figure = draw_retrieval({str(place): curves["honest"] for place in range(9)})
        figure.draw_without_rendering()
        (axis,) = figure.axes
        assert axis.get_legend().get_window_extent().x0 >= axis.get_window_extent().x1

    def test_what_is_refused(self, models):
        with pytest.raises(InputError) as caught:
            draw_retrieval({"a": metrics.AUROC().update(*models["honest"]).compute()})
        assert str(caught.value) == (
            "`curves['a']` of `draw_retrieval` must have 'by_length', 'low', 'high' and 'map'; got none called "
            "'by_length'. Pass what `RetrievalCurve` computed."
        )
        with pytest.raises(InputError) as caught:
            draw_retrieval({"a": {"by_length": [0.5], "low": [0.02], "high": [0.03], "map": 0.5}})
        assert str(caught.value) == (
            "`curves['a']` of `draw_retrieval` must have means between 'low' and 'high'; got 0.5 in [0.02, 0.03]. "
            "Pass ends, not margins."
        )


class TestCounts:
    def test_one_panel_a_model(self, models):
        queries = metrics.all_queries(8, 3)
        counts = {name: metrics.MatchCounts(queries).update(*model).compute() for name, model in models.items()}
        figure = draw_counts(counts)
        assert [axis.get_title().split("\n")[0] for axis in figure.axes] == ["honest", "bold"]
        assert as_png(figure).startswith(b"\x89PNG")

    def test_panels_that_are_left_are_empty(self, models):
        outcome = metrics.MatchCounts([([0], [])]).update(*models["honest"]).compute()
        figure = draw_counts({str(number): outcome for number in range(5)})
        assert [axis.axison for axis in figure.axes] == [True] * 5 + [False] * 3

    def test_groups_by_thirds_of_powers_of_ten(self):
        assert group_matches([1.0, 2.0, 2.5, 12.0, 0.01], [0, 3, 5, 10, 7]) == [
            MatchGroup(1.5, 1.5, 0, 3),
            MatchGroup(2.5, 5.0, 5, 5),
            MatchGroup(12.0, 10.0, 10, 10),
        ]

    def test_bars_reach_over_eight_of_ten(self):
        (group,) = group_matches([5.0] * 21, list(range(21)))
        assert (group.low, group.high) == (2, 18)

    def test_what_is_refused(self, curves):
        with pytest.raises(InputError) as caught:
            draw_counts(curves)
        assert str(caught.value) == (
            "`counts['honest']` of `draw_counts` must be what `MatchCounts` computed; got MetricResult. "
            "Call `.update(log_odds, targets).compute()` on it."
        )
