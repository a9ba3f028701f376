"""The table of predictions: what a model said about a set of samples, in memory or on disk."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyhot.predictions.importers import from_csv, from_frame, from_npz, from_parquet
    from manyhot.predictions.importing import import_predictions
    from manyhot.predictions.memory import Predictions
    from manyhot.predictions.stored import StoredPredictions, open_predictions
    from manyhot.predictions.table import Table
    from manyhot.predictions.targets import index_targets
    from manyhot.predictions.writer import PredictionsWriter

# Where each name lives. Imported when it is first used: what a file on disk holds can be told without torch.
PLACES = {
    "Predictions": "memory",
    "PredictionsWriter": "writer",
    "StoredPredictions": "stored",
    "Table": "table",
    "from_csv": "importers",
    "from_frame": "importers",
    "from_npz": "importers",
    "from_parquet": "importers",
    "import_predictions": "importing",
    "index_targets": "targets",
    "open_predictions": "stored",
}


def __getattr__(name: str) -> Any:
    if name in PLACES:
        return getattr(import_module(f"manyhot.predictions.{PLACES[name]}"), name)
    raise AttributeError(f"module 'manyhot.predictions' has no attribute {name!r}")


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
