"""Backbones: from images to features, and a cache of features on disk."""

from manyhot.backbones.backbone import Backbone, freeze, wrap
from manyhot.backbones.create import create_backbone, rebuild
from manyhot.backbones.features import ExtractedFeatures, FeatureCache, extract_features
from manyhot.preprocessing import Preprocessing

__all__ = [
    "Backbone",
    "ExtractedFeatures",
    "FeatureCache",
    "Preprocessing",
    "create_backbone",
    "extract_features",
    "freeze",
    "rebuild",
    "wrap",
]
