"""Metrics: exact, mergeable, and explicit about empty rows and labels."""

from manyhot.metrics.bootstrapping import Interval, bootstrap, by_shots
from manyhot.metrics.calibration import BrierScore, CalibrationError, LogLoss
from manyhot.metrics.metric import Metric, MetricResult
from manyhot.metrics.ranking import (
    AUROC,
    CoverageError,
    MeanAveragePrecision,
    RankingAtK,
    RankingLoss,
    auroc,
    average_precision,
    cell_average_precision,
    sample_average_precision,
    sample_coverage,
    sample_ranking_loss,
)
from manyhot.metrics.retrieval import (
    MatchCounts,
    RetrievalCurve,
    RetrievalPrecision,
    TagQueries,
    TagQuery,
    all_queries,
    count_queries,
    sample_queries,
    stratified_mean,
    stratified_queries,
)
from manyhot.metrics.sets import AverageKAccuracy, FScores, OpenSetScores, SetAccuracy, UniformAccuracy

__all__ = [
    "AUROC",
    "AverageKAccuracy",
    "BrierScore",
    "CalibrationError",
    "CoverageError",
    "FScores",
    "Interval",
    "LogLoss",
    "MatchCounts",
    "MeanAveragePrecision",
    "Metric",
    "MetricResult",
    "OpenSetScores",
    "RankingAtK",
    "RankingLoss",
    "RetrievalCurve",
    "RetrievalPrecision",
    "SetAccuracy",
    "TagQueries",
    "TagQuery",
    "UniformAccuracy",
    "all_queries",
    "auroc",
    "average_precision",
    "bootstrap",
    "by_shots",
    "cell_average_precision",
    "count_queries",
    "sample_average_precision",
    "sample_coverage",
    "sample_queries",
    "sample_ranking_loss",
    "stratified_mean",
    "stratified_queries",
]
