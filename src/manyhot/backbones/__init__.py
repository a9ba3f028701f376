"""Backbones: from pictures to features, and features kept on disk."""

from manyhot.backbones.backbone import Backbone, freeze, wrap
from manyhot.backbones.cache import FeatureCache
from manyhot.backbones.creating import create_backbone, rebuild
from manyhot.backbones.extraction import Extracted, extract_features
from manyhot.backbones.preprocessing import Preprocessing

__all__ = [
    "Backbone",
    "Extracted",
    "FeatureCache",
    "Preprocessing",
    "create_backbone",
    "extract_features",
    "freeze",
    "rebuild",
    "wrap",
]
