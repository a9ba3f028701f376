"""Uniform accuracy: against every candidate threshold, and a population with a known answer."""

import math

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot import metrics
from tests.metrics import naive


def measure(scores, labels):
    targets = mh.one_hot(torch.tensor(labels), scores.shape[1])
    return metrics.UniformAccuracy().update(scores, targets).compute()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("levels", [None, 4])
def test_against_all_candidates(seed, levels):
    draw = np.random.default_rng(seed)
    labels = draw.integers(4, size=60)
    scores = draw.normal(size=(60, 4)) if levels is None else draw.integers(levels, size=(60, 4)).astype(float)
    scores[np.arange(60), labels] += 1
    outcome = measure(scores, labels)
    sample_wise, class_wise, uniform = naive.uniform(scores.tolist(), labels.tolist())
    assert outcome["sample_wise_accuracy"] == sample_wise / 60
    assert outcome["class_wise_accuracy"] == class_wise / 60
    assert outcome["uniform_accuracy"] == uniform / 60
    assert uniform <= class_wise <= sample_wise
    right = scores > outcome["threshold"]
    assert (right == np.eye(4)[labels]).all(1).sum() == uniform
    assert outcome.details["right"].sum() == class_wise
    assert outcome.details["rows"].tolist() == np.bincount(labels, minlength=4).tolist()


def test_a_tie_is_an_error():
    assert measure(np.array([[1.0, 1.0]]), [0])["sample_wise_accuracy"] == 0.0


def test_no_row_can_be_right():
    outcome = measure(np.array([[1.0, 2.0]]), [0])
    assert outcome["uniform_accuracy"] == 0.0
    assert math.isnan(outcome["threshold"])


def test_one_label_has_nothing_to_stand_against():
    outcome = measure(np.array([[1.0], [-3.0]]), [0, 0])
    assert outcome["uniform_accuracy"] == 1.0
    assert outcome["threshold"] == -math.inf
    assert outcome.details["region"].tolist() == [-math.inf, -3.0]


def test_rows_without_labels_are_left_out():
    outcome = measure(np.array([[3.0, 1.0], [9.0, 9.0]]), [0, -1])
    assert outcome["uniform_accuracy"] == 1.0
    assert outcome.counts == {"rows": 1, "rows without labels": 1}


def test_rows_with_several_labels_are_refused():
    words = (
        "`targets` of `UniformAccuracy` must have at most one label per row; got a row with several. "
        "Leave out rows with several labels, or use a metric for them, such as `MeanAveragePrecision`."
    )
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the words are compared below
        metrics.UniformAccuracy().update(np.zeros((1, 2)), np.ones((1, 2)))
    assert str(error.value) == words


def test_only_three_numbers_a_row_are_kept():
    metric = metrics.UniformAccuracy().update(np.zeros((7, 50)), mh.one_hot(torch.arange(7), 50))
    assert sum(part.numel() for name in ("low", "high", "label") for part in metric.parts(name)) == 21
