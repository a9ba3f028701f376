"""What everything after the model takes, and the words of what it refuses."""

import numpy as np
import pandas as pd
import pytest
import torch

from manyhot.checks import as_probs, as_scores, as_targets, as_weights, check_num_labels
from tests.errors.expected import raises_input_error


def test_arrays_and_tensors_are_the_same():
    array = np.array([[0.5, 1.0]], dtype=np.float32)
    assert torch.equal(as_scores("f", array), as_scores("f", torch.tensor(array)))
    assert as_scores("f", np.zeros((2, 3))).dtype == torch.float64
    assert as_scores("f", torch.zeros(2, 3, dtype=torch.bfloat16)).dtype == torch.float32
    assert as_scores("f", torch.zeros(0, 3)).shape == (0, 3)


def test_arrays_that_torch_does_not_take_as_they_are():
    array = np.arange(6.0).reshape(2, 3)
    array.flags.writeable = False
    assert as_scores("f", array).tolist() == array.tolist()
    assert as_scores("f", array[::-1, ::-1]).tolist() == array[::-1, ::-1].tolist()
    assert as_scores("f", array.astype(">f8")).tolist() == array.tolist()
    assert as_targets("f", np.ones((2, 3), np.uint16), torch.zeros(2, 3)).tolist() == [[1, 1, 1]] * 2
    frame = pd.DataFrame({"cat": [0.5, 1.0], "dog": [0.25, 0.0]})
    assert as_probs("f", frame).tolist() == [[0.5, 0.25], [1.0, 0.0]]
    with raises_input_error(rule="be a table of real numbers", got="DataFrame"):
        as_probs("f", pd.DataFrame({"cat": ["a", "b"]}))


def test_infinite_scores_pass_and_nan_does_not():
    assert as_scores("f", torch.tensor([[torch.inf, -torch.inf]])).isinf().all()
    with raises_input_error("scores", "f", rule="be numbers", got="NaN at row 1, column 0", hint="Drop or repair"):
        as_scores("f", torch.tensor([[0.0, torch.inf], [torch.nan, -torch.inf]]))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (torch.zeros(3), r"must be \(N, K\); got \(3,\)\. Pass one row per sample"),
        (torch.zeros(2, 2, dtype=torch.int64), r"must be floating-point numbers; got a tensor of torch.int64"),
        ("text", r"must be a table of real numbers; got str\. Pass a tensor or an array\."),
        (np.array([["a"]], object), "must be a table of real numbers; got an array of object"),
        ([[1.0], [2.0, 3.0]], "must be a table of real numbers; got list"),
        (torch.zeros(2, 2, dtype=torch.complex64), "must be a table of real numbers; got a tensor of torch.complex64"),
    ],
)
def test_refused_scores(values, words):
    with raises_input_error(match=words):
        as_scores("f", values)


@pytest.mark.parametrize("bad", [-0.001, 1.5])
def test_scores_are_not_taken_for_probabilities(bad):
    with raises_input_error(
        "probs", "f", rule="lie between 0 and 1", hint="Turn scores into probabilities with a link or a calibrator"
    ):
        as_probs("f", torch.tensor([[0.5, bad]]))


def test_targets():
    like = torch.zeros(2, 2)
    assert as_targets("f", [[True, False], [True, True]], like).tolist() == [[1, 0], [1, 1]]
    assert as_targets("f", np.array([[1.0, 0.0], [-1.0, 1.0]]), like).dtype == torch.int8
    with raises_input_error(rule="be (N, K) like `scores` (2, 2)", got="(2,)", hint="Pass `manyhot.one_hot"):
        as_targets("f", torch.tensor([0, 1]), like)
    with raises_input_error(rule="be 1, 0 or -1"):
        as_targets("f", torch.tensor([[2, 0], [0, 0]]), like)


def test_weights():
    like = torch.zeros(2, 3)
    assert as_weights("f", None, like) is None
    assert as_weights("f", [1, 2], like).tolist() == [[1, 1, 1], [2, 2, 2]]
    with raises_input_error(rule="be (N,) or (N, K) like `scores` (2, 3)", got="(3,)"):
        as_weights("f", torch.ones(3), like)
    with raises_input_error(rule="be finite and not negative", got="-1"):
        as_weights("f", torch.tensor([1.0, -1.0]), like)


def test_columns():
    with raises_input_error(rule="have the 4 labels that were fitted"):
        check_num_labels("f", torch.zeros(2, 3), 4)
