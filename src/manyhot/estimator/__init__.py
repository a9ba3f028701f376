"""The scikit-learn front: an estimator for pipelines, grid searches and cross-validation."""

from manyhot.estimator.front import ManyHotClassifier

__all__ = ["ManyHotClassifier"]
