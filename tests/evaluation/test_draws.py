"""Intervals of an evaluation are those of its metrics, for the same rows."""

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot import metrics
from manyhot.decide.rule import Decision
from manyhot.evaluation import bootstrap as draws
from manyhot.evaluation import pipeline as judging
from manyhot.metrics.bootstrapping import draw_rows, interval_of
from tests.evaluation import tables


def check_interval(got, want):
    assert (got.value, got.low, got.high) == pytest.approx((want.value, want.low, want.high), rel=1e-9, nan_ok=True)
    assert got.undefined == want.undefined


def test_every_value_has_the_interval_of_its_metric():
    table = tables.with_decisions(rows=120)
    decision = Decision(table.decisions, table.abstain)
    evaluation = mh.evaluate(table, intervals=0.8, replicates=30, seed=5)
    assert evaluation.level == 0.8
    assert evaluation.intervals.keys() == evaluation.values.keys()
    wanted = [
        (metrics.MeanAveragePrecision, table.probs, {"map": "map"}),
        (lambda: metrics.MeanAveragePrecision("micro"), table.probs, {"map": "map_cell"}),
        (lambda: metrics.MeanAveragePrecision("samples"), table.probs, {"map": "map_sample"}),
        (metrics.AUROC, table.probs, {"auroc": "auroc"}),
        (lambda: metrics.AUROC("micro"), table.probs, {"auroc": "auroc_cell"}),
        (metrics.LogLoss, table.probs, {"log_loss": "log_loss"}),
        (lambda: metrics.CalibrationError(average="macro"), table.probs, {"ece": "label_ece"}),
        (lambda: metrics.CalibrationError(mass="equal"), table.probs, {"ece": "mass_ece"}),
        (metrics.FScores, decision, {"f_of_means": "f_of_means"}),
        (metrics.OpenSetScores, table.probs, {"auroc": "no_label_auroc", "mmc": "mmc"}),
    ]
    for make, values, names in wanted:
        found = metrics.bootstrap(make, values, table.targets, replicates=30, level=0.8, seed=5)
        for key, name in names.items():
            check_interval(evaluation.intervals[name], found[key])


def test_average_k_sets_are_made_anew_for_each_draw():
    table = tables.one_label(rows=100)
    probs = torch.softmax(table.scores, 1)
    evaluation = mh.evaluate(table, intervals=0.8, replicates=20)
    want = metrics.bootstrap(lambda: metrics.AverageKAccuracy(3), probs, table.targets, replicates=20, level=0.8)
    check_interval(evaluation.intervals["average_k_accuracy@3"], want["accuracy"])


def test_labels_by_training_images():
    table = tables.with_link(rows=100)
    counts = [1, 1, 500, 50, 50, 500]
    evaluation = mh.evaluate(table, intervals=0.8, replicates=20, train_counts=counts)
    drawn = [
        metrics.by_shots(metrics.average_precision(table.scores[rows], table.targets[rows]), counts)["few"]
        for rows in draw_rows(100, 20, 0)
    ]
    check_interval(evaluation.intervals["few_map"], interval_of(evaluation["few_map"], drawn, 0.8))


@pytest.mark.parametrize("rounding", [10.0, 1.0])
def test_ordered_cells_are_ranked_as_the_metrics_do(rounding, monkeypatch):
    """Ties, unknown cells, and labels that a draw misses altogether."""
    scores, targets = tables.drawn(rows=30)
    scores = (scores * rounding).round() / rounding
    targets[:, 5] = 0
    targets[11, 5] = 1
    rows = list(draw_rows(30, 25, 0))
    monkeypatch.setattr(draws, "CELLS_AT_ONCE", 70)
    every_ap, every_auroc = draws.draw_rankings(scores, targets, replicates=25, seed=0)
    (ap, cell_ap), (auroc, cell_auroc) = ((one[:, :-1], one[:, -1]) for one in (every_ap, every_auroc))
    for place, one in enumerate(rows):
        taken = scores[one], targets[one]
        np.testing.assert_allclose(ap[place], metrics.average_precision(*taken), rtol=1e-12)
        np.testing.assert_allclose(auroc[place], metrics.auroc(*taken), rtol=1e-12)
        cells = metrics.AUROC("micro").update(*taken).compute().value
        assert cell_ap[place].item() == pytest.approx(metrics.cell_average_precision(*taken), rel=1e-12)
        assert cell_auroc[place].item() == pytest.approx(cells, rel=1e-12)
    assert bool(ap[:, 5].isnan().any())
    assert not bool(ap[:, 5].isnan().all())


def test_tables_on_disk_get_the_same_intervals(tmp_path):
    table = tables.with_link(rows=50)
    table.save(tmp_path / "predictions.parquet")
    stored = mh.evaluate(mh.Predictions.open(tmp_path / "predictions.parquet"), intervals=0.9, replicates=5)
    assert str(stored.intervals) == str(mh.evaluate(table, intervals=0.9, replicates=5).intervals)


def test_large_tables_get_a_note(monkeypatch):
    monkeypatch.setattr(judging, "MOST_DRAWN_CELLS", 100)
    evaluation = mh.evaluate(tables.with_link(rows=50), intervals=0.9)
    assert evaluation.level is None
    assert evaluation.intervals == {}
    assert evaluation.notes == [
        "Intervals are left out: rows are drawn again only from tables of up to 16,777,216 cells."
    ]


def test_the_same_seed_gives_the_same_intervals():
    table = tables.with_link(rows=50)
    first, again, other = (mh.evaluate(table, intervals=0.9, replicates=5, seed=seed) for seed in (1, 1, 2))
    assert str(first.intervals) == str(again.intervals)
    assert first.intervals != other.intervals


def test_a_table_without_labels_has_intervals_of_nothing():
    table = mh.Predictions(probs=torch.zeros(4, 0), targets=torch.zeros(4, 0), labels=[])
    evaluation = mh.evaluate(table, intervals=0.9, replicates=3)
    assert np.isnan(evaluation.intervals["map"].low)
