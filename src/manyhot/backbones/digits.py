"""A backbone for the demonstration: likeness to typical handwritten digits, without a network and in no time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyhot.backbones.backbone import Backbone
from manyhot.backbones.preprocessing import Preprocessing
from manyhot.data.scenes import DIGIT, digit_templates, likeness

DIGITS = "digit_templates"
PER_LABEL = 20
RIVALRY = 0.5


class DigitTemplates(nn.Module):
    """Features of scenes of digits: how much any place of a picture is like each of the typical digits.

    Args:
        templates: (10, M, 64) typical digits of each label; zeros to be loaded into by default.
    """

    templates: Tensor

    def __init__(self, templates: Tensor | None = None) -> None:
        super().__init__()
        empty = torch.zeros(10, PER_LABEL, DIGIT * DIGIT)
        self.register_buffer("templates", empty if templates is None else templates)

    def forward(self, pictures: Tensor) -> Tensor:
        """(N, 10 M) features of pictures (N, 3, H, W) in [0, 1]."""
        grey = pictures.mean(1)
        if torch.compiler.is_compiling():
            return likeness(grey, self.templates, RIVALRY)
        # Small batches stay in the processor's cache.
        return torch.cat([likeness(part, self.templates, RIVALRY) for part in grey.split(16)])


def digits_backbone(*, size: tuple[int, int] | None = None, empty: bool = False) -> Backbone:
    """The backbone, with templates that were found among scikit-learn's digits, or empty ones to be loaded into."""
    module = DigitTemplates(None if empty else digit_templates(PER_LABEL))
    preprocessing = Preprocessing(size=size or (32, 32), mean=(0.0,) * 3, std=(255.0,) * 3)
    spec = {"kind": "digits"}
    return Backbone(module, name=DIGITS, width=10 * PER_LABEL, preprocessing=preprocessing, spec=spec)
