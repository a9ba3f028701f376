"""Predictions: scores, probabilities, targets and decisions of a set of samples, in memory or on disk."""

from manyhot.predictions.columns import index_targets
from manyhot.predictions.parquet import PredictionsWriter, StoredPredictions, open_predictions
from manyhot.predictions.predictions import Predictions, PredictionTable
from manyhot.predictions.read import read_predictions

__all__ = [
    "PredictionTable",
    "Predictions",
    "PredictionsWriter",
    "StoredPredictions",
    "index_targets",
    "open_predictions",
    "read_predictions",
]
