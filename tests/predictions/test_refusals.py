"""What a table in memory refuses, in which words."""

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot.predictions import Predictions, index_targets
from tests.errors.expected import raises_input_error
from tests.predictions.tables import table

SCORES = torch.zeros(2, 3)


def test_nothing_given():
    with raises_input_error(
        "scores",
        "Predictions",
        rule="be given, or `probs`",
        got="neither",
        hint="Pass what a head gives as `scores`, or what a link or a calibrator",
    ):
        Predictions(targets=SCORES)


def test_probabilities_out_of_range():
    with raises_input_error(
        "probs",
        "Predictions",
        rule="lie between 0 and 1",
        got="1.5",
        hint="Turn scores into probabilities with a link or a calibrator.",
    ):
        Predictions(probs=SCORES + 1.5)


def test_shapes():
    with raises_input_error(
        "scores", "Predictions", rule="be (N, K)", got="(3,)", hint="Pass one row per sample and one column per label."
    ):
        Predictions(scores=torch.zeros(3))
    with raises_input_error(
        "probs",
        "Predictions",
        rule="be (N, K) like `scores` (2, 3)",
        got="(2, 2)",
        hint="Compute both on the same samples.",
    ):
        Predictions(scores=SCORES, probs=SCORES[:, :2])
    with raises_input_error("targets", "Predictions", rule="be (N, K) like `probs` (2, 3)", got="(2,)"):
        Predictions(probs=SCORES, targets=torch.zeros(2))
    with raises_input_error(
        "decisions", "Predictions", rule="be (N, K) with the shape (2, 3)", got="(3, 2)", hint="Pass what a rule gives."
    ):
        Predictions(scores=SCORES, decisions=SCORES.T)
    with raises_input_error(
        "abstain", "Predictions", rule="be (N,) with the shape (2,)", got="(3,)", hint="Pass what a rule gives."
    ):
        Predictions(scores=SCORES, decisions=SCORES, abstain=torch.zeros(3))


@pytest.mark.parametrize("bad", [float("nan"), np.nan])
def test_nan(bad):
    scores = SCORES.clone()
    scores[1, 2] = bad
    with raises_input_error(
        "scores", "Predictions", rule="be numbers", got="NaN at row 1, column 2", hint="Drop or repair these rows."
    ):
        Predictions(scores=scores)


def test_whole_numbers_are_no_scores():
    with raises_input_error("scores", "Predictions", rule="be floating-point numbers"):
        Predictions(scores=SCORES.long())


def test_decisions():
    with raises_input_error(
        "decisions", "Predictions", rule="be true or false", got="0.5", hint="Apply a rule to the probabilities."
    ):
        Predictions(scores=SCORES, decisions=SCORES + 0.5)
    with raises_input_error(
        "decisions", "Predictions", rule="be true or false", got="str", hint="Pass a tensor or an array of bool."
    ):
        Predictions(scores=SCORES, decisions="yes")
    with raises_input_error(
        "abstain", "Predictions", rule="come with `decisions`", got="it alone", hint="Pass the decisions as well."
    ):
        Predictions(scores=SCORES, abstain=[True, False])


def test_labels():
    with raises_input_error(
        "labels", "Predictions", rule="name the 3 columns", got="2 names", hint="Pass one name per column."
    ):
        Predictions(scores=SCORES, labels=["a", "b"])
    with raises_input_error("names", "Labels", rule="be distinct", got="'a' twice", hint="Remove the repetition."):
        Predictions(scores=SCORES, labels=["a", "b", "a"])
    with raises_input_error("label", "Labels", rule="be one of the 3 names", got="'dgo'", hint="Did you mean 'dog'?"):
        table().read(labels=["dgo"])
    with raises_input_error("label", "Labels", rule="be one of the 3 names", got="'dgo'", hint="Did you mean 'dog'?"):
        Predictions(scores=SCORES, labels=["cat", "x", "dog"], targets=[["cat"], ["dgo"]])


def test_texts():
    with raises_input_error(
        "ids",
        "Predictions",
        rule="be all different",
        got="'a' twice",
        hint="Make them unique, or leave them out to number the rows.",
    ):
        Predictions(scores=SCORES, ids=["a", "a"])
    with raises_input_error(
        "ids", "Predictions", rule="have one text per row, 2", hint="Pass one for each row, in the order of the rows."
    ):
        Predictions(scores=SCORES, ids=["a", "b", "c"])
    with raises_input_error(
        "paths", "Predictions", rule="be texts or whole numbers", got="None in row 1", hint="Fill or drop these rows."
    ):
        Predictions(scores=SCORES, paths=["a", None])
    with raises_input_error(
        "ids", "Predictions", rule="be a list with one text per row", got="'ab'", hint="Pass a list of strings."
    ):
        Predictions(scores=SCORES, ids="ab")
    with raises_input_error(
        "splits", "Predictions", rule="be a list with one text per row", got="int", hint="Pass a list of strings."
    ):
        Predictions(scores=SCORES, splits=7)


def test_links_calibrators_and_rules():
    with raises_input_error(
        "link",
        "Predictions",
        rule="be a `Link` or None",
        got="str",
        hint="Pass `loss.link`, or a link such as `SigmoidLink()`.",
    ):
        Predictions(scores=SCORES, link="sigmoid")
    with raises_input_error(
        "rule", "Predictions", rule="be a `Rule` or None", got="SigmoidLink", hint="Pass the rule itself."
    ):
        Predictions(scores=SCORES, rule=mh.SigmoidLink())


def test_kinds():
    with raises_input_error(
        "kinds",
        "Predictions",
        rule="be among those of the table, scores",
        got="'probs'",
        hint="Ask for these, or call `probabilities()` for what a link gives.",
    ):
        Predictions(scores=SCORES).batches(kinds=["scores", "probs"])
    with raises_input_error("kinds", "Predictions", rule="be among those of the table, scores"):
        Predictions(scores=SCORES).read(kinds=7)
    with raises_input_error("names", "Labels", rule="be a list of strings", got="int"):
        Predictions(scores=SCORES).read(labels=7)


def test_rows():
    with raises_input_error("rows", "Predictions.batches", rule="be a whole number, at least 1", hint="Pass an int."):
        table().batches(0)
    with raises_input_error("rows", "Predictions.take", rule="lie between 0 and 6", hint="Count the rows from 0."):
        table().take([0, 7])
    with raises_input_error(rule="whole numbers or (7,) bool", got="str", hint="Pass row numbers, or a mask with one"):
        table().take("first")
    with raises_input_error("rows", "Predictions.take", rule="be (n,) whole numbers or (7,) bool"):
        table().take([True, False])


def test_columns_of_index_targets():
    with raises_input_error(
        "rows", "index_targets", rule="lie between 0 and 2", hint="Count the labels from 0, or raise `num_labels`."
    ):
        index_targets([[0], [3]], 3)
    with raises_input_error("rows", "index_targets", rule="hold whole numbers", got="np.float64(0.5) in row 1"):
        index_targets([[0], [0.5]], 3)
