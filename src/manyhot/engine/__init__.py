"""The training engine: the same weights on one process or many, with or without interruptions."""

from manyhot.engine.progress import NoProgress, Progress, ProgressBar, ProgressLines
from manyhot.engine.trainer import FitResult, NotFinite, Stopped, fit
from manyhot.engine.validation import StandardMetrics, score
from manyhot.settings import FitSettings

__all__ = [
    "FitResult",
    "FitSettings",
    "NoProgress",
    "NotFinite",
    "Progress",
    "ProgressBar",
    "ProgressLines",
    "StandardMetrics",
    "Stopped",
    "fit",
    "score",
]
