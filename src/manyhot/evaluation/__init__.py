"""Metrics of a table of predictions."""

from manyhot.evaluation.pipeline import evaluate
from manyhot.evaluation.result import Evaluation, Group, LabelTable, Value

__all__ = ["Evaluation", "Group", "LabelTable", "Value", "evaluate"]
