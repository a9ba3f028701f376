"""What is shown of a rule, and what is said about bad arguments."""

import re

import numpy as np
import pytest
import torch

import manyhot as mh
from tests.errors.expected import raises_input_error

NAN = float("nan")

SHOWN = {
    "Threshold(0.5)": lambda: mh.Threshold(),
    "Threshold(3)": lambda: mh.Threshold(3),
    "Threshold(0.25)": lambda: mh.Threshold(np.float32(0.25)),
    "CostThresholds(1, 4)": lambda: mh.decide.CostThresholds(false_negative=4),
    "CostThresholds([1, 2], 3)": lambda: mh.decide.CostThresholds([1, 2], 3),
    "TopK(3)": lambda: mh.TopK(3),
    "AverageK(2.5)": lambda: mh.AverageK(2.5),
    "ExpectedFBeta(1)": lambda: mh.ExpectedFBeta(),
    "LabelThresholds(beta=1, shrink=10)": lambda: mh.LabelThresholds(),
    "LabelThresholds(precision=0.9, shrink=0)": lambda: mh.LabelThresholds(precision=0.9),
    "UniformThreshold()": lambda: mh.decide.UniformThreshold(),
    "ClassThresholds()": lambda: mh.decide.ClassThresholds(),
    "ConformalRiskControl(0.1, 'false_negatives')": lambda: mh.ConformalRiskControl(0.1),
    "ConformalRiskControl(0.1, 'false_discoveries', delta=0.05)": lambda: mh.ConformalRiskControl(
        0.1, "false_discoveries", delta=0.05
    ),
    "NoneOfThese(TopK(3), keep=0.95)": lambda: mh.NoneOfThese(mh.TopK(3)),
    "Abstain(NoneOfThese(TopK(3), threshold=0.2), max_errors=1)": lambda: mh.Abstain(
        mh.NoneOfThese(mh.TopK(3), threshold=0.2), max_errors=1
    ),
}


@pytest.mark.parametrize("shown", SHOWN)
def test_a_rule_is_shown_as_the_call_that_makes_it(shown):
    rule = SHOWN[shown]()
    assert repr(rule) == shown
    assert repr(eval(shown, vars(mh.decide).copy())) == shown


def test_a_rule_of_ones_own_is_shown_too():
    class Anything(mh.Rule):
        def decide(self, values):
            return values == values

    assert repr(Anything(fitted=True)) == "Anything(fitted=True)"
    assert repr(Anything()) == "Anything()"


REFUSED = [
    (
        lambda: mh.Threshold(NAN),
        "`threshold` of `Threshold` must be a number; got nan. Change it, or leave it out for the default.",
    ),
    (
        lambda: mh.Threshold("0.5"),
        "`threshold` of `Threshold` must be a number; got '0.5'. Change it, or leave it out for the default.",
    ),
    (lambda: mh.TopK(1.5), "`k` of `TopK` must be a whole number, at least 0; got 1.5. Pass an int."),
    (lambda: mh.AverageK(-1), "`k` of `AverageK` must be a number at least 0; got -1. Change it"),
    (lambda: mh.ExpectedFBeta(0), "`beta` of `ExpectedFBeta` must be a number above 0; got 0. Change it"),
    (
        lambda: mh.decide.CostThresholds(-1),
        "`false_positive` of `CostThresholds` must be one number or (K,), finite and not negative; got -1. Pass what",
    ),
    (
        lambda: mh.decide.CostThresholds("much"),
        "`false_positive` of `CostThresholds` must be one number or (K,), finite and not negative; got 'much'.",
    ),
    (
        lambda: mh.decide.CostThresholds([1, 2], [1, 2, 3]),
        "`false_negative` of `CostThresholds` must have one cost per label like `false_positive` (2); got 3. Pass one",
    ),
    (
        lambda: mh.decide.CostThresholds([1, 0], 0.0),
        "`false_negative` of `CostThresholds` must be above 0 where `false_positive` is 0; got 0. Pass what",
    ),
    (
        lambda: mh.decide.CostThresholds([1, 2])(torch.zeros(1, 3)),
        "`values` of `CostThresholds` must have the 2 labels that costs are given for; got 3. Pass one cost per label.",
    ),
    (
        lambda: mh.decide.CostThresholds()(torch.tensor([[2.0]])),
        "`probs` of `CostThresholds` must lie between 0 and 1; got 2. Turn scores into probabilities with a link",
    ),
    (
        lambda: mh.LabelThresholds(beta=1, recall=0.5),
        "`goal` of `LabelThresholds` must be one of `beta`, `precision` and `recall`; got `beta` and `recall`. Fit one",
    ),
    (lambda: mh.LabelThresholds(beta=0), "`beta` of `LabelThresholds` must be a number above 0; got 0."),
    (
        lambda: mh.LabelThresholds(precision=1.2),
        "`precision` of `LabelThresholds` must be a number above 0 and at most 1; got 1.2.",
    ),
    (lambda: mh.LabelThresholds(shrink=-1), "`shrink` of `LabelThresholds` must be a number at least 0; got -1."),
    (
        lambda: mh.LabelThresholds().fit(torch.zeros(2, 3)),
        "`targets` of `LabelThresholds` must be given, because they are what it learns from; got none. Call",
    ),
    (
        lambda: mh.LabelThresholds().fit(torch.zeros(2, 3), torch.zeros(2, 2)),
        "`targets` of `LabelThresholds` must be (N, K) like `values` (2, 3); got (2, 2).",
    ),
    (
        lambda: mh.AverageK(2)(torch.zeros(2, 3)),
        "`state` of `AverageK` must be fitted before use; got an unfitted one. Call `fit` on held-out data",
    ),
    (
        lambda: mh.ConformalRiskControl(0),
        "`alpha` of `ConformalRiskControl` must be a number above 0 and below 1; got 0.",
    ),
    (
        lambda: mh.ConformalRiskControl(0.1, delta=1),
        "`delta` of `ConformalRiskControl` must be a number above 0 and below 1; got 1.",
    ),
    (
        lambda: mh.ConformalRiskControl(0.1, "recall"),
        "`risk` of `ConformalRiskControl` must be one of 'false_negatives', 'false_discoveries'; got 'recall'.",
    ),
    (lambda: mh.NoneOfThese(3), "`rule` of `NoneOfThese` must be a rule; got int. Pass for example `Threshold(0.5)`."),
    (
        lambda: mh.NoneOfThese(mh.TopK(1), keep=0.9, threshold=0.5),
        "`threshold` of `NoneOfThese` must be left out when `keep` is given; got 0.5. Name one of the two.",
    ),
    (
        lambda: mh.NoneOfThese(mh.TopK(1), keep=0),
        "`keep` of `NoneOfThese` must be a number above 0 and at most 1; got 0.",
    ),
    (
        lambda: mh.Abstain(mh.TopK(1), at_most=0.1, max_errors=1),
        "`max_errors` of `Abstain` must be left out when `at_most` is given; got 1. Name one of the two.",
    ),
    (lambda: mh.Abstain(mh.TopK(1), at_most=2), "`at_most` of `Abstain` must be a number at least 0 and at most 1"),
    (
        lambda: mh.Abstain(mh.TopK(1), max_errors=-1),
        "`max_errors` of `Abstain` must be a number at least 0; got -1",
    ),
    (
        lambda: mh.Abstain(mh.TopK(1)).fit(torch.tensor([[3.0]])),
        "`probs` of `Abstain` must lie between 0 and 1; got 3.",
    ),
    (lambda: mh.TopK(1)(torch.zeros(3)), "`values` of `TopK` must be (N, K); got (3,). Pass one row per sample"),
    (lambda: mh.TopK(1)(torch.tensor([[NAN]])), "`values` of `TopK` must be numbers; got NaN at row 0, column 0."),
    (lambda: mh.TopK(1)(torch.zeros(1, 2).int()), "`values` of `TopK` must be floating-point numbers; got a tensor of"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words[:60] for _, words in REFUSED])
def test_refused(call, words):
    with raises_input_error(match=re.escape(words)):
        call()
