"""Scoring by many processes and machines, in parts that survive a crash."""

from manyhot.scale.predicting import PartsWritten, predict_with_ray

__all__ = ["PartsWritten", "predict_with_ray"]
