"""Every value of an evaluation is that of its metric, in memory and on disk, in one piece and in many."""

import math

import pytest
import sklearn.metrics
import torch

import manyhot as mh
from manyhot import metrics
from manyhot.calibrate.calibrator import Calibrator
from manyhot.decide.rule import Decision
from manyhot.evaluation import pipeline
from tests.evaluation import tables


def measured(metric, values, targets):
    return metric.update(values, targets).compute()


def expected(values, probs, decisions, targets):
    """All values of the first three groups, each by its own metric."""
    found = {
        "map": measured(metrics.MeanAveragePrecision(), values, targets).value,
        "map_sample": measured(metrics.MeanAveragePrecision("samples"), values, targets).value,
        "map_cell": measured(metrics.MeanAveragePrecision("micro"), values, targets).value,
        "auroc": measured(metrics.AUROC(), values, targets).value,
        "auroc_cell": measured(metrics.AUROC("micro"), values, targets).value,
    }
    plain = (metrics.CoverageError(), metrics.RankingLoss(), metrics.RankingAtK((1, 3, 5)))
    for metric in plain:
        found |= measured(metric, values, targets).values
    calibration = {
        "": metrics.CalibrationError(),
        "label_": metrics.CalibrationError(average="macro"),
        "top_": metrics.CalibrationError(top_k=4),
        "mass_": metrics.CalibrationError(mass="equal"),
    }
    for prefix, metric in calibration.items():
        found |= {f"{prefix}{name}": value for name, value in measured(metric, probs, targets).values.items()}
    for metric in (metrics.BrierScore(), metrics.LogLoss()):
        found |= measured(metric, probs, targets).values
    for metric in (metrics.FScores(), metrics.SetAccuracy()):
        found |= measured(metric, decisions, targets).values
    answered = decisions if isinstance(decisions, torch.Tensor) else decisions.labels[~decisions.abstain]
    found |= {"known_size": found["mean_size"], "mean_size": answered.sum(1).double().mean().item()}
    inside = measured(metrics.OpenSetScores(), probs, targets).values
    return found | {"no_label_auroc" if name == "auroc" else name: value for name, value in inside.items()}


def check_same(got, want, tolerance=1e-12):
    assert set(got) == set(want)
    for name, value in want.items():
        assert got[name] == pytest.approx(value, rel=tolerance, nan_ok=True), name


def test_scores_with_a_link():
    table = tables.with_link()
    probs = torch.sigmoid(table.scores)
    check_same(mh.evaluate(table).values, expected(table.scores, probs, probs >= 0.5, table.targets))


def test_probabilities_with_decisions():
    table = tables.with_decisions()
    assert table.abstain.any()
    decision = Decision(table.decisions, table.abstain)
    evaluation = mh.evaluate(table)
    check_same(evaluation.values, expected(table.probs, table.probs, decision, table.targets))
    assert evaluation["coverage"] < 1
    assert evaluation.groups["ranking"].notes == ["Ranked by probabilities, since there are no scores."]


def test_probabilities_are_what_is_judged_where_there_are_scores_as_well():
    scores, targets = tables.drawn()
    probs = torch.sigmoid(-scores)  # the opposite, to tell them apart
    evaluation = mh.evaluate(mh.Predictions(scores=scores, probs=probs, targets=targets))
    check_same(evaluation.values, expected(probs, probs, probs >= 0.5, targets))


class ByLabel(Calibrator):
    """Steeper for one label and flatter for the next, as calibration by label is."""

    def fit_cells(self, input_log_odds, targets, weights):
        return self.learn()

    def map(self, input_log_odds):
        return input_log_odds * torch.linspace(0.3, 1.5, input_log_odds.shape[1]) - torch.linspace(
            -1, 1, input_log_odds.shape[1]
        )


@pytest.mark.parametrize("stored", [False, True])
def test_calibrated_rows_and_cells_are_ranked_by_calibrated_probabilities(stored):
    scores, targets = tables.drawn()
    calibrator = ByLabel().fit(scores, targets)
    table = mh.Predictions(scores=scores, targets=targets, link=mh.SigmoidLink(), calibrator=calibrator)
    if stored:
        table = table.replace(probs=calibrator(scores), calibrator=calibrator)
    evaluation, log_odds = mh.evaluate(table), calibrator.log_odds(scores)
    for average in ("samples", "micro", "macro"):
        name = {"samples": "map_sample", "micro": "map_cell", "macro": "map"}[average]
        want = measured(metrics.MeanAveragePrecision(average), log_odds, targets)["map"]
        assert evaluation[name] == pytest.approx(want, rel=1e-9)
        by_scores = measured(metrics.MeanAveragePrecision(average), scores, targets)["map"]
        assert (evaluation[name] == pytest.approx(by_scores, rel=1e-4)) == (average == "macro")
    assert "Ranked by the probabilities of ByLabel" in evaluation.groups["ranking"].notes[0]


def test_probabilities_rounded_to_1_keep_the_order_of_their_scores():
    scores, targets = tables.drawn()
    table = mh.Predictions(scores=scores + 25, probs=torch.sigmoid(scores + 25), targets=targets)
    assert float((table.probs == 1).float().mean()) > 0.5
    assert mh.evaluate(table)["map"] == pytest.approx(mh.evaluate(tables.with_link())["map"], rel=1e-3)


def test_probabilities_that_tie_in_their_link_are_ranked_as_ties():
    scores, targets = tables.drawn()
    link = mh.links.AsymmetricLink(4, 0, margin=0.2)
    probs = link.probs(scores)
    assert bool((probs == 0).any())
    for table in (
        mh.Predictions(scores=scores, targets=targets, link=link),
        mh.Predictions(scores=scores, probs=probs, targets=targets, link=link),
    ):
        evaluation = mh.evaluate(table)
        assert evaluation["map"] == measured(metrics.MeanAveragePrecision(), probs, targets)["map"]
        assert evaluation["map"] < measured(metrics.MeanAveragePrecision(), scores, targets)["map"]
        assert evaluation.groups["ranking"].notes[0].startswith("Ranked by the probabilities of AsymmetricLink")


def test_probabilities_cut_off_at_1_are_ranked_by_what_was_cut_off():
    scores, targets = tables.drawn()
    link = mh.links.QuasibinaryLink().fit([(scores - 2, targets)])  # too small a constant
    probs = link.probs(scores)
    assert float((probs == 1).double().mean()) > 0.05
    inside = measured(metrics.OpenSetScores(), scores, targets)["auroc"]
    assert inside > measured(metrics.OpenSetScores(), probs, targets)["auroc"] + 0.005
    for table in (
        mh.Predictions(scores=scores, targets=targets, link=link),
        mh.Predictions(scores=scores, probs=probs, targets=targets, link=link),
    ):
        evaluation = mh.evaluate(table)
        assert evaluation["no_label_auroc"] == pytest.approx(inside, rel=1e-9)
        assert evaluation["mmc"] == measured(metrics.OpenSetScores(), probs, targets)["mmc"]
        want = measured(metrics.MeanAveragePrecision("samples"), scores, targets)["map"]
        assert evaluation["map_sample"] == pytest.approx(want, rel=1e-9)


class Halved(Calibrator):
    """Believes half of what scores say."""

    def fit_cells(self, input_log_odds, targets, weights):
        return self.learn()

    def map(self, input_log_odds):
        return input_log_odds / 2


def test_the_calibrator_of_the_table_comes_before_its_link():
    scores, targets = tables.drawn()
    calibrator = Halved().fit(scores, targets)
    table = mh.Predictions(scores=scores, targets=targets, link=mh.SigmoidLink(), calibrator=calibrator)
    evaluation = mh.evaluate(table)
    want = measured(metrics.BrierScore(), torch.sigmoid(scores / 2), targets)
    assert evaluation["brier"] == pytest.approx(want.value, rel=1e-6)
    assert "Probabilities are those of Halved." in evaluation.groups["probabilities"].notes


@pytest.mark.parametrize("make", [tables.with_link, tables.with_decisions, tables.one_label])
def test_a_table_on_disk_in_small_pieces(make, tmp_path, monkeypatch):
    table = make()
    whole = mh.evaluate(table, train_counts=range(len(table.labels)))
    table.save(tmp_path / "predictions.parquet")
    monkeypatch.setattr(pipeline, "CELLS_AT_ONCE", 100)
    stored = mh.Predictions.open(tmp_path / "predictions.parquet")
    pieces = mh.evaluate(stored, train_counts=range(len(table.labels)))
    check_same(pieces.values, whole.values)
    assert pieces.counts == whole.counts
    for name, group in whole.groups.items():
        for key, value in group.values.items():
            assert pieces.groups[name].values[key].counts == value.counts
        for key, detail in group.details.items():
            torch.testing.assert_close(pieces.groups[name].details[key], detail, equal_nan=True)
    for name, column in whole.by_label().columns.items():
        torch.testing.assert_close(pieces.by_label().columns[name], column, equal_nan=True)


def test_no_more_than_a_piece_is_ever_read(tmp_path, monkeypatch):
    table = tables.with_link(rows=1000)
    table.save(tmp_path / "predictions.parquet")
    stored = mh.Predictions.open(tmp_path / "predictions.parquet")
    monkeypatch.setattr(pipeline, "CELLS_AT_ONCE", 600)
    sizes = []

    whole_read, whole_batches = type(stored).read, type(stored).batches

    def read(self, **options):
        part = whole_read(self, **options)
        sizes.append(len(part) * len(part.labels))
        return part

    def batches(self, rows=65536, *, kinds=None):
        for part in whole_batches(self, rows, kinds=kinds):
            sizes.append(len(part) * len(part.labels))
            yield part

    monkeypatch.setattr(type(stored), "read", read)
    monkeypatch.setattr(type(stored), "batches", batches)
    mh.evaluate(stored)
    assert max(sizes) <= 4 * 600
    assert sum(sizes) >= 6000


def test_by_label_is_what_scikit_learn_says():
    scores, targets = tables.drawn(unknown=0.0)
    targets[7], targets[:, 4] = 0, 0
    targets[5, 4] = 1
    evaluation = mh.evaluate(mh.Predictions(scores=scores, targets=targets, link=mh.SigmoidLink()))
    columns = evaluation.by_label().columns
    probs = torch.sigmoid(scores)
    for k in (0, 1, 2, 4, 5):
        true, column = targets[:, k].numpy(), scores[:, k].numpy()
        assert columns["ap"][k].item() == pytest.approx(sklearn.metrics.average_precision_score(true, column))
        assert columns["auroc"][k].item() == pytest.approx(sklearn.metrics.roc_auc_score(true, column))
        assert columns["f"][k].item() == pytest.approx(sklearn.metrics.f1_score(true, probs[:, k] >= 0.5))
        assert columns["brier"][k].item() == pytest.approx(sklearn.metrics.brier_score_loss(true, probs[:, k].numpy()))
        assert columns["present"][k].item() == true.sum()
    assert math.isnan(columns["ap"][3])
    assert evaluation.by_label().to_dict()["ap"][3] is None


def test_one_label_a_row():
    table = tables.one_label()
    probs = torch.softmax(table.scores, 1)
    values = mh.evaluate(table).groups["one_label"].values
    uniform = measured(metrics.UniformAccuracy(), table.scores, table.targets)
    for name in ("uniform_accuracy", "class_wise_accuracy", "sample_wise_accuracy"):
        assert values[name].value == uniform[name]
    assert values["uniform_threshold"].value == uniform["threshold"]
    softmax = measured(metrics.UniformAccuracy(), table.scores.double().log_softmax(1), table.targets)
    for name in ("uniform_accuracy", "class_wise_accuracy"):
        assert values[f"softmax_{name}"].value == softmax[name]
    assert softmax["uniform_accuracy"] != uniform["uniform_accuracy"]
    for k in (1, 3):
        average = measured(metrics.AverageKAccuracy(k), probs, table.targets)
        assert values[f"average_k_accuracy@{k}"].value == average["accuracy"]
        assert values[f"average_k_size@{k}"].value == average["mean_size"]
    assert "average_k_accuracy@5" not in values  # all five labels


def test_a_threshold_for_all_names_the_reading_that_it_cuts():
    """Raw scores and log-softmax of one model have different values, and each stands under a name of its own."""
    raw = tables.one_label()
    stored = raw.replace(scores=raw.scores.log_softmax(1))  # as a training with cross-entropy leaves them
    of_raw, of_stored = mh.evaluate(raw).groups["one_label"], mh.evaluate(stored).groups["one_label"]
    assert "uniform_accuracy" in of_raw.values
    assert "uniform_accuracy" not in of_stored.values
    assert "log-probabilities by softmax" in of_stored.notes[1]
    for name in ("softmax_uniform_accuracy", "softmax_class_wise_accuracy", "sample_wise_accuracy"):
        assert of_stored.values[name].value == pytest.approx(of_raw.values[name].value)
    alone = mh.evaluate(mh.Predictions(probs=raw.scores.softmax(1), targets=raw.targets)).groups["one_label"]
    assert "probs_uniform_accuracy" in alone.values
    shown = str(mh.evaluate(raw))
    assert "A_Uni of raw scores" in shown
    assert "A_Uni of log-softmax" in shown


def test_by_training_images():
    table = tables.with_link()
    counts = [5, 50, 500, 50, 500, 19]
    by_name = dict(zip(table.labels.names, counts, strict=True))
    ap = metrics.average_precision(table.scores, table.targets)
    want = metrics.by_shots(ap, counts)
    for given in (counts, torch.tensor(counts), by_name):
        group = mh.evaluate(table, train_counts=given).groups["shots"]
        for name in ("few", "medium", "many"):
            value = group.values[f"{name}_map"]
            assert value.value == pytest.approx(want[name], nan_ok=True)
            assert value.counts["labels"] == want.counts[name]
    assert group.values["few_map"].counts == {"labels": 2, "labels without a value": 2}


def test_options_reach_the_metrics():
    table = tables.with_link()
    probs = torch.sigmoid(table.scores)
    evaluation = mh.evaluate(table, bins=4, ks=(2, 9), top_k=2)
    assert evaluation["ece"] == measured(metrics.CalibrationError(4), probs, table.targets)["ece"]
    assert evaluation["top_ece"] == measured(metrics.CalibrationError(4, top_k=2), probs, table.targets)["ece"]
    assert evaluation["mass_ece"] == pytest.approx(
        measured(metrics.CalibrationError(4, mass="equal"), probs, table.targets)["ece"], rel=1e-12
    )
    assert "precision@2" in evaluation.values
    assert "precision@6" in evaluation.values  # there are no more labels
    assert "precision@9" not in evaluation.values
