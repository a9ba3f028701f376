"""Everything that is worth knowing about a table of predictions."""

from manyhot.evaluation.judging import evaluate
from manyhot.evaluation.label_table import LabelTable
from manyhot.evaluation.result import Evaluation, Group, Value

__all__ = ["Evaluation", "Group", "LabelTable", "Value", "evaluate"]
