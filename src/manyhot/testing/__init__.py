"""Properties that every loss, link, calibrator, rule and metric must have, for those of this package and for your own.

    from manyhot.testing import check_loss
    check_loss(lambda targets: MyLoss())

Each property is a function that raises an AssertionError which says what failed; `check_loss`, `check_link`,
`check_calibrator`, `check_rule` and `check_metric` run all that apply.
"""

from manyhot.testing.batches import Example
from manyhot.testing.calibrators import CALIBRATOR_PROPERTIES, CalibratorCase, check_calibrator
from manyhot.testing.losses import (
    LINK_PROPERTIES,
    LOSS_PROPERTIES,
    LossCase,
    check_compiles,
    check_edges,
    check_extremes,
    check_gradient,
    check_link,
    check_link_is_increasing,
    check_link_is_slope_ratio,
    check_link_round_trip,
    check_loss,
    check_no_synchronisation,
    check_nothing_to_learn,
    check_permutations,
    check_soft_targets,
    check_state,
    check_unknown_cells,
)
from manyhot.testing.metrics import METRIC_PROPERTIES, MetricCase, check_metric
from manyhot.testing.rules import RULE_PROPERTIES, RuleCase, check_rule

__all__ = [
    "CALIBRATOR_PROPERTIES",
    "LINK_PROPERTIES",
    "LOSS_PROPERTIES",
    "METRIC_PROPERTIES",
    "RULE_PROPERTIES",
    "CalibratorCase",
    "Example",
    "LossCase",
    "MetricCase",
    "RuleCase",
    "check_calibrator",
    "check_compiles",
    "check_edges",
    "check_extremes",
    "check_gradient",
    "check_link",
    "check_link_is_increasing",
    "check_link_is_slope_ratio",
    "check_link_round_trip",
    "check_loss",
    "check_metric",
    "check_no_synchronisation",
    "check_nothing_to_learn",
    "check_permutations",
    "check_rule",
    "check_soft_targets",
    "check_state",
    "check_unknown_cells",
]
