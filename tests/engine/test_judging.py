"""What is measured after each epoch."""

import math

import torch

import manyhot as mh
from manyhot.engine import StandardJudge

SCORES = torch.tensor([[2.0, -1.0], [-1.0, 0.5], [0.0, -2.0]])
TARGETS = torch.tensor([[1, 0], [0, 1], [0, 0]], dtype=torch.int8)


def test_ranking_and_probabilities():
    figures = StandardJudge(mh.SigmoidLink())(SCORES, TARGETS)
    assert figures["mAP"] == 1.0
    expected = torch.nn.functional.binary_cross_entropy_with_logits(SCORES, TARGETS.float())
    assert math.isclose(figures["log loss"], float(expected), rel_tol=1e-6)


def test_scores_that_mean_nothing_are_ranked_alone():
    assert set(StandardJudge(mh.TwoWayLoss().link)(SCORES, TARGETS)) == {"mAP"}
    assert StandardJudge(mh.TwoWayLoss().link).names() == ["mAP"]


def test_a_link_that_has_seen_no_label_has_no_log_loss_yet():
    link = mh.QuasibinaryLoss().link
    assert math.isnan(StandardJudge(link)(SCORES, TARGETS)["log loss"])
    link.fit([(SCORES, TARGETS)])
    assert StandardJudge(link)(SCORES, TARGETS)["log loss"] > 0
