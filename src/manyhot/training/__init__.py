"""From a dataset to a run folder: training, the run, and the comparison of losses."""

from manyhot.settings import TrainSettings
from manyhot.training.comparison import Comparison, compare
from manyhot.training.pipeline import train
from manyhot.training.run import Run

__all__ = ["Comparison", "Run", "TrainSettings", "compare", "train"]
