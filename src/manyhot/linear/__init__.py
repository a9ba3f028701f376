"""Linear evaluation of frozen features: heads for many penalty strengths, and the choice among them."""

from manyhot.linear.path import LinearPath, SelectedStrength, fit_path

__all__ = ["LinearPath", "SelectedStrength", "fit_path"]
