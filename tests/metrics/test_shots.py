"""Means over labels with few, some and many training images."""

import math
import re

import numpy as np
import pytest
import torch

from manyhot.metrics import by_shots
from tests.errors.expected import raises_input_error

COUNTS = [0, 19, 20, 100, 101, 5000, 50]
VALUES = torch.tensor([0.1, 0.3, 0.5, 0.6, 0.7, 0.9, math.nan])


def test_the_edges_belong_to_the_middle():
    outcome = by_shots(VALUES, COUNTS)
    assert outcome.values == pytest.approx({"few": 0.2, "medium": 0.55, "many": 0.8})
    assert outcome.counts == {"few": 2, "medium": 2, "many": 2, "labels without a value": 1}


def test_other_bounds_and_arrays():
    outcome = by_shots(VALUES.numpy(), np.array(COUNTS), few=1, many=0)
    assert outcome.counts == {"few": 1, "medium": 0, "many": 5, "labels without a value": 1}
    assert math.isnan(outcome["medium"])


def test_no_labels():
    assert all(math.isnan(value) for value in by_shots([], []).values.values())


@pytest.mark.parametrize(
    ("values", "counts", "bounds", "sentence"),
    [
        ([0.5], [1, 2], {}, "`train_counts` of `by_shots` must have one number for each of the 1 labels; got 2."),
        ([[0.5]], [1], {}, "`values_by_label` of `by_shots` must be (K,) of numbers; got (1, 1)."),
        ([0.5], ["many"], {}, "`train_counts` of `by_shots` must be (K,) of numbers; got list."),
        ([0.5], [-1], {}, "`train_counts` of `by_shots` must not be negative; got -1."),
        ([0.5], [1], {"few": 30, "many": 10}, "`few` of `by_shots` must be at most `many` + 1 = 11; got 30."),
    ],
)
def test_refusals(values, counts, bounds, sentence):
    with raises_input_error(match=f"^{re.escape(sentence)}"):
        by_shots(values, counts, **bounds)


def test_arrays_that_run_backwards():
    assert by_shots(VALUES.numpy()[:6][::-1], np.array(COUNTS)[:6][::-1]).values == pytest.approx(
        by_shots(VALUES[:6], COUNTS[:6]).values
    )
