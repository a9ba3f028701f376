"""Metrics: exact, mergeable, and plain about what is empty."""

from manyhot.metrics.average_k import AverageKAccuracy
from manyhot.metrics.calibration import CalibrationError
from manyhot.metrics.intervals import Interval, bootstrap
from manyhot.metrics.match_counts import MatchCounts
from manyhot.metrics.metric import Metric, Outcome
from manyhot.metrics.open_set import OpenSetScores
from manyhot.metrics.precision import (
    MeanAveragePrecision,
    average_precision,
    cell_average_precision,
    sample_average_precision,
)
from manyhot.metrics.probability import BrierScore, LogLoss
from manyhot.metrics.ranking import AUROC, CoverageError, RankingLoss, auroc, sample_coverage, sample_ranking_loss
from manyhot.metrics.retrieval import RetrievalPrecision
from manyhot.metrics.retrieval_curve import RetrievalCurve
from manyhot.metrics.sets import FScores, SetAccuracy
from manyhot.metrics.shots import by_shots
from manyhot.metrics.stratified import stratified_mean
from manyhot.metrics.tag_queries import (
    TagQueries,
    TagQuery,
    all_queries,
    count_queries,
    sample_queries,
    stratified_queries,
)
from manyhot.metrics.top_k import RankingAtK
from manyhot.metrics.uniform import UniformAccuracy

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
    "OpenSetScores",
    "Outcome",
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
