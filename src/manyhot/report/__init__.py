"""Plots of model performance, and a report as one HTML page. Imports neither torch nor matplotlib."""

from manyhot.report.curves import count_curve, count_pairs, count_scores, count_sizes, count_zero_labels, label_curves
from manyhot.report.page import Report, write_report
from manyhot.report.plots import (
    draw_precision_recall,
    draw_reliability,
    draw_scores,
    draw_set_sizes,
    draw_thresholds,
    draw_zero_labels,
)
from manyhot.report.plots_compare import (
    draw_co_occurrence,
    draw_counts,
    draw_examples,
    draw_frontier,
    draw_history,
    draw_intervals,
    draw_normaliser,
    draw_retrieval,
)
from manyhot.report.style import as_png, save_png

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
