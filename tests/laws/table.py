"""All public losses, calibrators, rules and metrics as cases, and the properties that those of each kind must have."""

import manyhot as mh
from manyhot import metrics
from manyhot.testing import (
    CALIBRATOR_PROPERTIES,
    LOSS_PROPERTIES,
    METRIC_PROPERTIES,
    RULE_PROPERTIES,
    CalibratorCase,
    MetricCase,
    RuleCase,
)
from tests.losses import CASES as LOSSES

LINKS = {
    "": lambda: None,
    "-spa": mh.links.StrictlyProperAsymmetricLink,
    "-margin": lambda: mh.links.AsymmetricLink(4, 0, 0.05),
}
CALIBRATOR_KINDS = {
    "temperature": mh.TemperatureScaling,
    "affine": mh.PlattScaling,
    "beta": mh.BetaCalibration,
    "isotonic": mh.IsotonicCalibration,
}

CALIBRATORS = {
    f"{name}-{sharing}": CalibratorCase(lambda kind=kind, sharing=sharing: kind(sharing=sharing))
    for name, kind in CALIBRATOR_KINDS.items()
    for sharing in ("all", "none", "partial")
}
CALIBRATORS |= {
    f"{name}{suffix}": CalibratorCase(lambda kind=kind, link=link: kind(link=link()))
    for name, kind in CALIBRATOR_KINDS.items()
    for suffix, link in LINKS.items()
    if suffix
}
CALIBRATORS["quasibinary"] = CalibratorCase(mh.calibrate.QuasibinaryConstant)
CALIBRATORS["softmax"] = CalibratorCase(mh.calibrate.SoftmaxTemperature, single_label=True)

RULES = {
    "threshold": RuleCase(lambda: mh.Threshold(0.3)),
    "nothing": RuleCase(lambda: mh.Threshold(float("inf"))),
    "costs": RuleCase(lambda: mh.decide.CostThresholds(1.0, 3.0)),
    "costs-of-labels": RuleCase(lambda: mh.decide.CostThresholds([1.0, 2.0, 1.0, 5.0, 0.0], 3.0), names_labels=True),
    "top-k": RuleCase(lambda: mh.TopK(2)),
    "top-none": RuleCase(lambda: mh.TopK(0)),
    "top-more-than-there-are": RuleCase(lambda: mh.TopK(9)),
    "label-thresholds": RuleCase(lambda: mh.LabelThresholds()),
    "label-thresholds-unshrunk": RuleCase(lambda: mh.LabelThresholds(beta=2, shrink=0)),
    "label-thresholds-precision": RuleCase(lambda: mh.LabelThresholds(precision=0.8)),
    "label-thresholds-precision-shrunk": RuleCase(lambda: mh.LabelThresholds(precision=0.8, shrink=5)),
    "label-thresholds-recall": RuleCase(lambda: mh.LabelThresholds(recall=0.9)),
    "average-k": RuleCase(lambda: mh.AverageK(1.3), reads_unknown=True),
    "average-0": RuleCase(lambda: mh.AverageK(0), reads_unknown=True),
    "average-more-than-there-are": RuleCase(lambda: mh.AverageK(99), reads_unknown=True),
    "uniform": RuleCase(lambda: mh.decide.UniformThreshold()),
    "classes": RuleCase(lambda: mh.decide.ClassThresholds(), reads_unknown=True),
    "expected-f": RuleCase(lambda: mh.ExpectedFBeta()),
    "expected-f-2": RuleCase(lambda: mh.ExpectedFBeta(2.0)),
    "misses": RuleCase(lambda: mh.ConformalRiskControl(0.2)),
    "misses-delta": RuleCase(lambda: mh.ConformalRiskControl(0.4, delta=0.2)),
    "errors": RuleCase(lambda: mh.ConformalRiskControl(0.3, "false_discoveries")),
    "errors-delta": RuleCase(lambda: mh.ConformalRiskControl(0.4, "false_discoveries", delta=0.2)),
    "risk-out-of-reach": RuleCase(lambda: mh.ConformalRiskControl(0.01)),
    "none-of-these": RuleCase(lambda: mh.NoneOfThese(mh.TopK(2), keep=0.8), reads_unknown=True),
    "none-of-these-given": RuleCase(lambda: mh.NoneOfThese(mh.LabelThresholds(), threshold=0.5)),
    "ask": RuleCase(lambda: mh.Abstain(mh.Threshold(0.5), at_most=0.2), reads_unknown=True),
    "ask-errors": RuleCase(lambda: mh.Abstain(mh.LabelThresholds(), max_errors=0.5), reads_unknown=True),
    "ask-none": RuleCase(
        lambda: mh.Abstain(mh.NoneOfThese(mh.AverageK(1.5), threshold=0.4), at_most=0.3), reads_unknown=True
    ),
    "none-ask": RuleCase(lambda: mh.NoneOfThese(mh.Abstain(mh.ExpectedFBeta(), max_errors=1.0)), reads_unknown=True),
}

QUERIES = [([0], []), ([1], [2]), ([3, 4], []), ([0, 5], [1, 2]), ([2], [0, 1, 4, 5]), ([0, 1, 2, 3, 4, 5], [])]

METRICS = {
    "calibration": MetricCase(metrics.CalibrationError, values="probs"),
    "calibration-label": MetricCase(lambda: metrics.CalibrationError(average="macro"), values="probs"),
    "calibration-top": MetricCase(lambda: metrics.CalibrationError(top_k=2), values="probs"),
    "calibration-mass": MetricCase(lambda: metrics.CalibrationError(5, mass="equal"), values="probs"),
    "calibration-mass-label": MetricCase(
        lambda: metrics.CalibrationError(5, mass="equal", average="macro", top_k=3), values="probs"
    ),
    "brier": MetricCase(metrics.BrierScore, values="probs"),
    "log-loss": MetricCase(metrics.LogLoss, values="probs"),
    "f": MetricCase(lambda: metrics.FScores(0.5), values="decisions"),
    "sets": MetricCase(metrics.SetAccuracy, values="decisions"),
    "map-label": MetricCase(metrics.MeanAveragePrecision),
    "map-sample": MetricCase(lambda: metrics.MeanAveragePrecision(average="samples")),
    "map-cell": MetricCase(lambda: metrics.MeanAveragePrecision(average="micro")),
    "auroc-label": MetricCase(metrics.AUROC),
    "auroc-cell": MetricCase(lambda: metrics.AUROC(average="micro")),
    "coverage": MetricCase(metrics.CoverageError),
    "ranking-loss": MetricCase(metrics.RankingLoss),
    "ranking-at-k": MetricCase(metrics.RankingAtK),
    "ranking-at-many": MetricCase(lambda: metrics.RankingAtK(ks=(2, 9))),
    "retrieval": MetricCase(lambda: metrics.RetrievalPrecision(QUERIES), names_labels=True),
    "retrieval-curve": MetricCase(lambda: metrics.RetrievalCurve(most=3)),
    "retrieval-curve-drawn": MetricCase(lambda: metrics.RetrievalCurve(each=1000)),
    "match-counts": MetricCase(lambda: metrics.MatchCounts(QUERIES), names_labels=True),
    "open-set": MetricCase(metrics.OpenSetScores, values="probs"),
    "average-k": MetricCase(lambda: metrics.AverageKAccuracy(1.7)),
    "average-k-threshold": MetricCase(lambda: metrics.AverageKAccuracy(1.7, threshold=0.4), values="probs"),
    "uniform": MetricCase(metrics.UniformAccuracy, single_label=True),
}

# Of each kind: its base class, the subpackage that exports it, its cases and its properties.
TABLE = {
    "loss": (mh.Loss, mh.losses, LOSSES, LOSS_PROPERTIES),
    "calibrator": (mh.Calibrator, mh.calibrate, CALIBRATORS, CALIBRATOR_PROPERTIES),
    "rule": (mh.Rule, mh.decide, RULES, RULE_PROPERTIES),
    "metric": (metrics.Metric, metrics, METRICS, METRIC_PROPERTIES),
}
