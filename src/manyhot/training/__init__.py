"""From a data set to a run folder: the recipe, the run, and the comparison of losses."""

from manyhot.training.comparing import Comparison, compare
from manyhot.training.recipe import Recipe
from manyhot.training.run import Run
from manyhot.training.running import train

__all__ = ["Comparison", "Recipe", "Run", "compare", "train"]
