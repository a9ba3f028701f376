"""Properties that every loss, link, calibrator, rule and metric must have, for those of this package and for your own.

    from manyhot.testing import check_loss
    check_loss(lambda targets: MyLoss())

Each property is a function that raises an AssertionError which says what failed; `check_loss`, `check_link`,
`check_calibrator`, `check_rule` and `check_metric` run all that apply. The properties themselves are in the modules
`batches` (those of several kinds), `losses`, `calibrators`, `rules` and `metrics`.
"""

from manyhot.testing.batches import Example
from manyhot.testing.calibrators import CALIBRATOR_PROPERTIES, CalibratorCase, check_calibrator
from manyhot.testing.losses import LINK_PROPERTIES, LOSS_PROPERTIES, LossCase, check_link, check_loss
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
    "check_link",
    "check_loss",
    "check_metric",
    "check_rule",
]
