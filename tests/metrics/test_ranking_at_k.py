"""Precision, recall and discounted gain of the labels ranked first: against loops."""

import math

import numpy as np
import pytest
import torch

from manyhot import metrics
from manyhot.metrics.ranking import first_labels
from tests.metrics import naive


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 0},
        {"seed": 1, "levels": 3},
        {"seed": 2, "unknown": 0.4},
        {"seed": 3, "levels": 2, "unknown": 0.4},
        {"seed": 4, "rate": 0.9},
        {"seed": 5, "levels": 1, "rate": 0.1},
    ],
    ids=str,
)
def test_against_loops(options):
    scores, targets = naive.table(40, 6, **options)
    outcome = metrics.RankingAtK(ks=(1, 2, 4, 9)).update(scores, targets).compute()
    for k in (1, 2, 4, 9):
        rows = [naive.ranking_at(s, t, k) for s, t in zip(scores, targets, strict=True)]
        for name, values in zip(("precision", "recall", "ndcg"), zip(*rows, strict=True), strict=True):
            assert outcome[f"{name}@{k}"] == pytest.approx(naive.mean(values), abs=1e-12)


def test_ties_go_to_the_lower_index():
    targets = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7]], dtype=torch.int8)  # the numbers of the labels themselves
    values = torch.tensor([[0.5, 0.9, 0.5, 0.1, 0.5, 0.9, 0.5, 0.5]])
    assert first_labels(values, targets, 4).tolist() == [[1, 5, 0, 2]]
    assert first_labels(torch.zeros(1, 8), targets, 3).tolist() == [[0, 1, 2]]


def test_unknown_labels_stand_behind_those_scored_minus_infinity():
    targets = torch.tensor([[-1, 1, -1, 0]], dtype=torch.int8)
    values = torch.full((1, 4), -math.inf)
    assert first_labels(values, targets, 3).tolist() == [[1, 0, -1]]


def test_more_wanted_than_there_are():
    outcome = metrics.RankingAtK(ks=(4,)).update(np.array([[0.9, 0.1]]), np.array([[1, 0]])).compute()
    assert outcome.values == {"precision@4": 0.25, "recall@4": 1.0, "ndcg@4": 1.0}


def test_rows_without_labels_are_left_out():
    scores, targets = np.array([[0.9, 0.1], [0.3, 0.2], [0.3, 0.2]]), np.array([[1, 0], [0, 0], [-1, -1]])
    outcome = metrics.RankingAtK(ks=(1,)).update(scores, targets).compute()
    assert outcome.values == {"precision@1": 1.0, "recall@1": 1.0, "ndcg@1": 1.0}
    assert outcome.counts == {"rows": 1, "rows without positives": 1}
