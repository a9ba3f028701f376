"""Pictures of what a model does: functions that draw matplotlib figures from tensors or from numbers that were kept."""

from manyhot.report.frontier import draw_frontier
from manyhot.report.intervals import draw_intervals
from manyhot.report.looks import as_png, save_png
from manyhot.report.normaliser import draw_normaliser
from manyhot.report.reliability import draw_reliability
from manyhot.report.retrieval import draw_counts, draw_retrieval
from manyhot.report.scores import count_scores, draw_scores
from manyhot.report.set_sizes import count_sizes, draw_set_sizes

__all__ = [
    "as_png",
    "count_scores",
    "count_sizes",
    "draw_counts",
    "draw_frontier",
    "draw_intervals",
    "draw_normaliser",
    "draw_reliability",
    "draw_retrieval",
    "draw_scores",
    "draw_set_sizes",
    "save_png",
]
