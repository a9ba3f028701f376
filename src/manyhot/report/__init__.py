"""Pictures of what a model does: functions that draw matplotlib figures from tensors or from numbers that were kept."""

from manyhot.report.co_occurrence import count_pairs, draw_co_occurrence
from manyhot.report.curves import count_curve
from manyhot.report.examples import draw_examples
from manyhot.report.frontier import draw_frontier
from manyhot.report.history import draw_history
from manyhot.report.intervals import draw_intervals
from manyhot.report.labels import label_curves
from manyhot.report.looks import as_png, save_png
from manyhot.report.normaliser import draw_normaliser
from manyhot.report.page import Report, write_report
from manyhot.report.precision_recall import draw_precision_recall
from manyhot.report.reliability import draw_reliability
from manyhot.report.retrieval import draw_counts, draw_retrieval
from manyhot.report.scores import count_scores, draw_scores
from manyhot.report.set_sizes import count_sizes, draw_set_sizes
from manyhot.report.thresholds import draw_thresholds
from manyhot.report.zero_labels import count_zero_labels, draw_zero_labels

__all__ = [
    "Report",
    "as_png",
    "count_curve",
    "count_pairs",
    "count_scores",
    "count_sizes",
    "count_zero_labels",
    "draw_co_occurrence",
    "draw_counts",
    "draw_examples",
    "draw_frontier",
    "draw_history",
    "draw_intervals",
    "draw_normaliser",
    "draw_precision_recall",
    "draw_reliability",
    "draw_retrieval",
    "draw_scores",
    "draw_set_sizes",
    "draw_thresholds",
    "draw_zero_labels",
    "label_curves",
    "save_png",
    "write_report",
]
