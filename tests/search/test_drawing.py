"""Pictures of how well search works."""

import builtins
import io
import math

import pytest
import torch

from manyhot import metrics
from manyhot.search.drawing import STYLES, Group, draw_counts, draw_retrieval, group_counts


@pytest.fixture(scope="module")
def models():
    draw = torch.Generator().manual_seed(0)
    log_odds = 2 * torch.randn(300, 8, generator=draw) - 1
    targets = (torch.rand(300, 8, generator=draw) < torch.sigmoid(log_odds)).int()
    return {"honest": (log_odds, targets), "bold": (3 * log_odds, targets)}


class TestRetrieval:
    def test_one_line_a_model_with_its_means(self, models):
        curves = {
            name: metrics.RetrievalCurve(most=3, each=30).update(*model).compute() for name, model in models.items()
        }
        axis = draw_retrieval(curves).axes[0]
        for place, outcome in enumerate(curves.values()):
            line = axis.containers[place].lines[0]
            assert line.get_ydata().tolist() == pytest.approx((100 * outcome.details["by_length"]).tolist())
            assert [round(x) for x in line.get_xdata()] == [1, 2, 3]
        texts = [text.get_text() for text in axis.get_legend().get_texts()]
        assert texts == [f"{name}, {100 * outcome.value:.1f} over all" for name, outcome in curves.items()]

    def test_lines_differ_without_colours(self):
        assert len({(mark, line) for _, mark, line in STYLES}) == len(STYLES)

    def test_can_be_saved(self, models):
        curve = metrics.RetrievalCurve(most=9).update(*models["honest"]).compute()
        assert math.isnan(curve["map_length_9"])
        kept = io.BytesIO()
        draw_retrieval({"a": curve}).savefig(kept, format="png")
        assert kept.getvalue().startswith(b"\x89PNG")


class TestCounts:
    def test_one_panel_a_model(self, models):
        queries = metrics.all_queries(8, 3)
        counts = {name: metrics.MatchCounts(queries).update(*model).compute() for name, model in models.items()}
        figure = draw_counts(counts)
        assert [axis.get_title().split("\n")[0] for axis in figure.axes] == ["honest", "bold"]
        kept = io.BytesIO()
        figure.savefig(kept, format="png")
        assert kept.getvalue().startswith(b"\x89PNG")

    def test_panels_that_are_left_are_empty(self, models):
        outcome = metrics.MatchCounts([([0], [])]).update(*models["honest"]).compute()
        figure = draw_counts({str(number): outcome for number in range(5)})
        assert [axis.axison for axis in figure.axes] == [True] * 5 + [False] * 3

    def test_groups_by_thirds_of_powers_of_ten(self):
        assert group_counts([1.0, 2.0, 2.5, 12.0, 0.01], [0, 3, 5, 10, 7]) == [
            Group(1.5, 1.5, 0, 3),
            Group(2.5, 5.0, 5, 5),
            Group(12.0, 10.0, 10, 10),
        ]

    def test_bars_reach_over_eight_of_ten(self):
        (group,) = group_counts([5.0] * 21, list(range(21)))
        assert (group.low, group.high) == (2, 18)


def test_a_missing_library_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        ImportError, match=r"Pictures need matplotlib. Install it with: pip install 'manyhot\[report\]'"
    ):
        draw_retrieval({})
