"""What a table in memory refuses, in which words."""

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot.predictions import Predictions, index_targets
from tests.predictions.tables import refused, table

SCORES = torch.zeros(2, 3)


def test_nothing_given():
    with refused(
        "`scores` of `Predictions` must be given, or `probs`; got neither. "
        "Pass what a head gives as `scores`, or what a link or a calibrator gives as `probs`."
    ):
        Predictions(targets=SCORES)


def test_probabilities_out_of_range():
    with refused(
        "`probs` of `Predictions` must lie between 0 and 1; got 1.5. "
        "Turn scores into probabilities with a link or a calibrator."
    ):
        Predictions(probs=SCORES + 1.5)


def test_shapes():
    with refused(
        "`scores` of `Predictions` must be (N, K); got (3,). Pass one row per sample and one column per label."
    ):
        Predictions(scores=torch.zeros(3))
    with refused(
        "`probs` of `Predictions` must be (N, K) like `scores` (2, 3); got (2, 2). Compute both on the same samples."
    ):
        Predictions(scores=SCORES, probs=SCORES[:, :2])
    with pytest.raises(
        ValueError, match=r"`targets` of `Predictions` must be \(N, K\) like `probs` \(2, 3\); got \(2,\)"
    ):
        Predictions(probs=SCORES, targets=torch.zeros(2))
    with refused(
        "`decisions` of `Predictions` must be (N, K) with the shape (2, 3); got (3, 2). Pass what a rule gives."
    ):
        Predictions(scores=SCORES, decisions=SCORES.T)
    with refused("`abstain` of `Predictions` must be (N,) with the shape (2,); got (3,). Pass what a rule gives."):
        Predictions(scores=SCORES, decisions=SCORES, abstain=torch.zeros(3))


@pytest.mark.parametrize("bad", [float("nan"), np.nan])
def test_nan(bad):
    scores = SCORES.clone()
    scores[1, 2] = bad
    with refused("`scores` of `Predictions` must be numbers; got NaN at row 1, column 2. Drop or repair these rows."):
        Predictions(scores=scores)


def test_whole_numbers_are_no_scores():
    with pytest.raises(ValueError, match="`scores` of `Predictions` must be floating-point numbers"):
        Predictions(scores=SCORES.long())


def test_decisions():
    with refused("`decisions` of `Predictions` must be true or false; got 0.5. Apply a rule to the probabilities."):
        Predictions(scores=SCORES, decisions=SCORES + 0.5)
    with refused("`decisions` of `Predictions` must be true or false; got str. Pass a tensor or an array of bool."):
        Predictions(scores=SCORES, decisions="yes")
    with refused("`abstain` of `Predictions` must come with `decisions`; got it alone. Pass the decisions as well."):
        Predictions(scores=SCORES, abstain=[True, False])


def test_labels():
    with refused("`labels` of `Predictions` must name the 3 columns; got 2 names. Pass one name per column."):
        Predictions(scores=SCORES, labels=["a", "b"])
    with refused("`names` of `Labels` must be distinct; got 'a' twice. Remove the repetition."):
        Predictions(scores=SCORES, labels=["a", "b", "a"])
    with refused("`label` of `Labels` must be one of the 3 names; got 'dgo'. Did you mean 'dog'?"):
        table().read(labels=["dgo"])
    with refused("`label` of `Labels` must be one of the 3 names; got 'dgo'. Did you mean 'dog'?"):
        Predictions(scores=SCORES, labels=["cat", "x", "dog"], targets=[["cat"], ["dgo"]])


def test_texts():
    with refused(
        "`ids` of `Predictions` must be all different; got 'a' twice. "
        "Make them unique, or leave them out to number the rows."
    ):
        Predictions(scores=SCORES, ids=["a", "a"])
    with refused(
        "`ids` of `Predictions` must have one text per row, 2; got 3. Pass one for each row, in the order of the rows."
    ):
        Predictions(scores=SCORES, ids=["a", "b", "c"])
    with refused(
        "`paths` of `Predictions` must be texts or whole numbers; got None in row 1. Fill or drop these rows."
    ):
        Predictions(scores=SCORES, paths=["a", None])
    with refused("`ids` of `Predictions` must be a list with one text per row; got 'ab'. Pass a list of strings."):
        Predictions(scores=SCORES, ids="ab")
    with refused("`splits` of `Predictions` must be a list with one text per row; got int. Pass a list of strings."):
        Predictions(scores=SCORES, splits=7)


def test_links_calibrators_and_rules():
    with refused(
        "`link` of `Predictions` must be a `Link` or None; got str. "
        "Pass `loss.link`, or a link such as `SigmoidLink()`."
    ):
        Predictions(scores=SCORES, link="sigmoid")
    with refused("`rule` of `Predictions` must be a `Rule` or None; got SigmoidLink. Pass the rule itself."):
        Predictions(scores=SCORES, rule=mh.SigmoidLink())


def test_kinds():
    with refused(
        "`kinds` of `Predictions` must be among those of the table, scores; got 'probs'. "
        "Ask for these, or call `probabilities()` for what a link gives."
    ):
        Predictions(scores=SCORES).batches(kinds=["scores", "probs"])
    with pytest.raises(ValueError, match="`kinds` of `Predictions` must be among those of the table, scores; got 7"):
        Predictions(scores=SCORES).read(kinds=7)
    with pytest.raises(ValueError, match="`names` of `Labels` must be a list of strings; got int"):
        Predictions(scores=SCORES).read(labels=7)


def test_rows():
    with refused("`rows` of `Predictions.batches` must be a whole number, at least 1; got 0. Pass an int."):
        table().batches(0)
    with refused("`rows` of `Predictions.take` must lie between 0 and 6; got 7. Count the rows from 0."):
        table().take([0, 7])
    with pytest.raises(
        ValueError, match=r"whole numbers or \(7,\) bool; got str\. Pass row numbers, or a mask with one"
    ):
        table().take("first")
    with pytest.raises(ValueError, match=r"`rows` of `Predictions.take` must be \(n,\) whole numbers or \(7,\) bool"):
        table().take([True, False])


def test_columns_of_index_targets():
    with refused(
        "`rows` of `index_targets` must lie between 0 and 2; got 3. Count the labels from 0, or raise `num_labels`."
    ):
        index_targets([[0], [3]], 3)
    with pytest.raises(ValueError, match=r"`rows` of `index_targets` must hold whole numbers; got .*0.5.* in row 1"):
        index_targets([[0], [0.5]], 3)
