"""Training: the same weights on one process or many, in one go or with breaks."""

from manyhot.engine.fitting import Fit, fit
from manyhot.engine.interrupting import Stopped
from manyhot.engine.judging import StandardJudge
from manyhot.engine.plan import Plan
from manyhot.engine.progress import Bar, Lines, Progress, Silent
from manyhot.engine.running import NotFinite
from manyhot.engine.scoring import score

__all__ = [
    "Bar",
    "Fit",
    "Lines",
    "NotFinite",
    "Plan",
    "Progress",
    "Silent",
    "StandardJudge",
    "Stopped",
    "fit",
    "score",
]
