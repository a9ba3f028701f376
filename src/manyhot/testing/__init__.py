"""The laws that every loss and link must obey, for those of this package and for your own.

    from manyhot.testing import check_loss
    check_loss(lambda targets: MyLoss())

Each law is a function that raises an AssertionError which says what was broken; `check_loss` and `check_link` run all
that apply.
"""

from manyhot.testing.batches import Case, Example, edge_examples, example
from manyhot.testing.links import (
    LINK_LAWS,
    check_link,
    check_link_is_increasing,
    check_link_is_slope_ratio,
    check_link_round_trip,
)
from manyhot.testing.losses import (
    LOSS_LAWS,
    check_compiles,
    check_edges,
    check_extremes,
    check_gradient,
    check_loss,
    check_no_synchronisation,
    check_nothing_to_learn,
    check_permutations,
    check_soft_targets,
    check_state,
    check_unknown_cells,
)

__all__ = [
    "LINK_LAWS",
    "LOSS_LAWS",
    "Case",
    "Example",
    "check_compiles",
    "check_edges",
    "check_extremes",
    "check_gradient",
    "check_link",
    "check_link_is_increasing",
    "check_link_is_slope_ratio",
    "check_link_round_trip",
    "check_loss",
    "check_no_synchronisation",
    "check_nothing_to_learn",
    "check_permutations",
    "check_soft_targets",
    "check_state",
    "check_unknown_cells",
    "edge_examples",
    "example",
]
