"""What is measured after each epoch."""

import math

import pytest
import torch

import manyhot as mh
from manyhot.engine import StandardMetrics
from manyhot.engine.validation import is_better
from manyhot.evaluation.catalog import METRIC_INFO

SCORES = torch.tensor([[2.0, -1.0], [-1.0, 0.5], [0.0, -2.0]])
TARGETS = torch.tensor([[1, 0], [0, 1], [0, 0]], dtype=torch.int8)


def test_ranking_and_probabilities():
    figures = StandardMetrics(mh.SigmoidLink())(SCORES, TARGETS)
    assert figures["mAP"] == 1.0
    expected = torch.nn.functional.binary_cross_entropy_with_logits(SCORES, TARGETS.float(), reduction="sum")
    assert math.isclose(figures["log loss per row"], float(expected) / 3, rel_tol=1e-6)


def test_the_log_loss_is_that_of_tables():
    targets = TARGETS.clone()
    targets[0, 1] = -1
    figures = StandardMetrics(mh.SigmoidLink())(SCORES, targets)
    table = mh.evaluate(mh.Predictions(probs=SCORES.sigmoid(), targets=targets))
    assert figures["log loss per row"] == pytest.approx(table["log_loss_per_row"])


@pytest.mark.parametrize(
    "name", ["ECE", "ACE", "MCE", "label_ece", "mass_ace", "log loss", "Brier score", "Hamming loss"]
)
def test_less_is_better_of_errors(name):
    assert is_better(name, 0.1, than=0.2)
    assert not is_better(name, 0.3, than=0.2)


@pytest.mark.parametrize("name", ["mAP", "F1", "accuracy", "precision", "recall", "AUROC", "face recall"])
def test_more_is_better_of_the_others(name):
    assert is_better(name, 0.3, than=0.2)
    assert not is_better(name, 0.1, than=0.2)


def test_every_value_of_an_evaluation_has_its_direction():
    lower = {name for name in METRIC_INFO if is_better(name, 0.1, than=0.2)}
    errors = {f"{kind}{error}" for kind in ("", "label_", "top_", "mass_") for error in ("ece", "ace", "mce")}
    losses = {"coverage_error", "ranking_loss", "hamming_loss", "fpr95", "mmc"}
    assert lower == errors | losses | {"brier", "brier_per_row", "log_loss", "log_loss_per_row"}


def test_scores_that_mean_nothing_are_ranked_alone():
    assert set(StandardMetrics(mh.TwoWayLoss().link)(SCORES, TARGETS)) == {"mAP"}
    assert StandardMetrics(mh.TwoWayLoss().link).names() == ["mAP"]


def test_a_link_that_has_seen_no_label_has_no_log_loss_yet():
    link = mh.QuasibinaryLoss().link
    assert math.isnan(StandardMetrics(link)(SCORES, TARGETS)["log loss per row"])
    link.fit([(SCORES, TARGETS)])
    assert StandardMetrics(link)(SCORES, TARGETS)["log loss per row"] > 0
