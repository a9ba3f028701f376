"""Linear evaluation of frozen features: heads for many strengths of a penalty, and the choice among them."""

from manyhot.linear.path import fit_path
from manyhot.linear.result import Choice, LinearPath

__all__ = ["Choice", "LinearPath", "fit_path"]
