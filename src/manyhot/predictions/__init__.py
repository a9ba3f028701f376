"""The table of predictions: what a model said about a set of samples, in memory or on disk."""

from manyhot.predictions.importers import from_csv, from_frame, from_npz, from_parquet
from manyhot.predictions.importing import import_predictions
from manyhot.predictions.memory import Predictions
from manyhot.predictions.stored import StoredPredictions, open_predictions
from manyhot.predictions.table import Table
from manyhot.predictions.targets import index_targets
from manyhot.predictions.writer import PredictionsWriter

__all__ = [
    "Predictions",
    "PredictionsWriter",
    "StoredPredictions",
    "Table",
    "from_csv",
    "from_frame",
    "from_npz",
    "from_parquet",
    "import_predictions",
    "index_targets",
    "open_predictions",
]
