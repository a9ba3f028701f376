"""Metrics: exact, mergeable, and plain about what is empty."""

from manyhot.metrics.average_k import AverageKAccuracy
from manyhot.metrics.calibration import CalibrationError
from manyhot.metrics.intervals import Interval, bootstrap
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
from manyhot.metrics.retrieval import RetrievalPrecision, TagQuery, sample_queries
from manyhot.metrics.sets import FScores, SetAccuracy
from manyhot.metrics.shots import by_shots
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
    "MeanAveragePrecision",
    "Metric",
    "OpenSetScores",
    "Outcome",
    "RankingAtK",
    "RankingLoss",
    "RetrievalPrecision",
    "SetAccuracy",
    "TagQuery",
    "UniformAccuracy",
    "auroc",
    "average_precision",
    "bootstrap",
    "by_shots",
    "cell_average_precision",
    "sample_average_precision",
    "sample_coverage",
    "sample_queries",
    "sample_ranking_loss",
]
