"""The original data sets as people have them after unpacking, and the subsets that the papers cut from them."""

from experiments.layouts.finding import LAYOUTS, find_layout, read_layout
from experiments.layouts.subsets import long_tailed, superclasses_of, zero_label_columns

__all__ = ["LAYOUTS", "find_layout", "long_tailed", "read_layout", "superclasses_of", "zero_label_columns"]
