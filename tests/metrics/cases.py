"""Every metric, as the laws and the two processes try it."""

from manyhot import metrics
from manyhot.testing.metrics import MetricCase

QUERIES = [([0], []), ([1], [2]), ([3, 4], []), ([0, 5], [1, 2]), ([2], [0, 1, 4, 5]), ([0, 1, 2, 3, 4, 5], [])]

CASES = {
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
