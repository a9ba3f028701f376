"""Data: where samples and their targets come from."""

from manyhot.data.scenes import Scenes, digit_scenes, template_features

__all__ = ["Scenes", "digit_scenes", "template_features"]
