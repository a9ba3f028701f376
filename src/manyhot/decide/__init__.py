"""Decision rules: from probabilities to sets of labels."""

from manyhot.decide.risk import ConformalRiskControl
from manyhot.decide.rule import Decision, Rule
from manyhot.decide.sets import AverageK, ExpectedFBeta, TopK
from manyhot.decide.thresholds import ClassThresholds, CostThresholds, LabelThresholds, Threshold, UniformThreshold
from manyhot.decide.wrappers import Abstain, NoneOfThese

__all__ = [
    "Abstain",
    "AverageK",
    "ClassThresholds",
    "ConformalRiskControl",
    "CostThresholds",
    "Decision",
    "ExpectedFBeta",
    "LabelThresholds",
    "NoneOfThese",
    "Rule",
    "Threshold",
    "TopK",
    "UniformThreshold",
]
