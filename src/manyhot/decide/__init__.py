"""Rules: from probabilities to decisions."""

from manyhot.decide.average_k import AverageK
from manyhot.decide.expected_f import ExpectedF
from manyhot.decide.fixed import CostThresholds, Threshold, TopK
from manyhot.decide.label_thresholds import LabelThresholds
from manyhot.decide.risk import RiskControl
from manyhot.decide.rule import Decision, Rule
from manyhot.decide.uniform import ClassThresholds, UniformThreshold
from manyhot.decide.wrapping import AskPerson, NoneOfThese

__all__ = [
    "AskPerson",
    "AverageK",
    "ClassThresholds",
    "CostThresholds",
    "Decision",
    "ExpectedF",
    "LabelThresholds",
    "NoneOfThese",
    "RiskControl",
    "Rule",
    "Threshold",
    "TopK",
    "UniformThreshold",
]
