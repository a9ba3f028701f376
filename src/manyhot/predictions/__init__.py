"""Predictions: scores, probabilities, targets and decisions of a set of samples, in memory or on disk."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyhot.predictions.columns import index_targets
    from manyhot.predictions.parquet import PredictionsWriter, StoredPredictions, open_predictions
    from manyhot.predictions.predictions import Predictions, PredictionTable
    from manyhot.predictions.read import read_predictions

# The module of each name, imported on first use: the metadata of a file can be read without torch.
SUBMODULES = {
    "Predictions": "predictions",
    "PredictionsWriter": "parquet",
    "StoredPredictions": "parquet",
    "PredictionTable": "predictions",
    "read_predictions": "read",
    "index_targets": "columns",
    "open_predictions": "parquet",
}


def __getattr__(name: str) -> Any:
    if name in SUBMODULES:
        return getattr(import_module(f"manyhot.predictions.{SUBMODULES[name]}"), name)
    raise AttributeError(f"module 'manyhot.predictions' has no attribute {name!r}")


__all__ = [
    "PredictionTable",
    "Predictions",
    "PredictionsWriter",
    "StoredPredictions",
    "index_targets",
    "open_predictions",
    "read_predictions",
]
