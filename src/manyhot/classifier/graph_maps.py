"""From scores to probabilities in operations that an ONNX graph has; computed in float64, as calibrators do."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyhot.calibrate.calibrator import BELIEVED, Calibrator
from manyhot.calibrate.isotonic import Isotonic
from manyhot.calibrate.maps import Maps
from manyhot.calibrate.normalised import QuasibinaryConstant, SoftmaxTemperature, link_of
from manyhot.calibrate.parametric import Affine
from manyhot.calibrate.pooling import Curves
from manyhot.links import Link, SoftmaxLink


class LinkGraph(nn.Module):
    """Probabilities that a link gives."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link

    def forward(self, scores: Tensor) -> Tensor:
        """(N, K) in float32."""
        return self.link.probs(scores.double()).float()


class CalibratorGraph(nn.Module):
    """Probabilities that a calibrator gives; what follows from the learnt numbers alone is computed here, once.

    Args:
        calibrator: A fitted one, on scores.
    """

    def __init__(self, calibrator: Calibrator) -> None:
        super().__init__()
        calibrator.require_kind("scores")
        self.calibrator = calibrator
        self.evidence = believed_by(calibrator)

    def forward(self, scores: Tensor) -> Tensor:
        """(N, K) in float32, never exactly 0 or 1."""
        log_odds = self._map(self.evidence(scores.double()))
        numbers = torch.finfo(torch.float32)
        return torch.sigmoid(log_odds).float().clamp(numbers.tiny, 1 - numbers.eps / 2)

    def _map(self, evidence: Tensor) -> Tensor:
        calibrator = self.calibrator
        if isinstance(calibrator, QuasibinaryConstant | SoftmaxTemperature):
            return evidence
        if not isinstance(calibrator, Isotonic):
            return calibrator.map(evidence)
        straight = Maps(calibrator.slopes, calibrator.intercept).apply(Affine.family, evidence)
        bent = along(Curves(*calibrator.shared_curve), straight)
        if calibrator.per == "all":
            return bent
        return bent + calibrator.own_trust * (along(Curves(*calibrator.own_curves), straight) - bent)


class Believed(nn.Module):
    """`believed_log_odds` of a link whose bounds are known."""

    lowest: Tensor
    highest: Tensor

    def __init__(self, link: Link, bounds: Tensor) -> None:
        super().__init__()
        self.link = link
        self.register_buffer("lowest", bounds[0])
        self.register_buffer("highest", bounds[1])

    def forward(self, scores: Tensor) -> Tensor:
        """Finite log-odds (N, K)."""
        inside = torch.minimum(torch.maximum(scores, self.lowest), self.highest)
        return self.link.log_odds(inside) + (scores - inside)


class BelievedSoftmax(nn.Module):
    """`believed_log_odds` of softmax scores at a temperature."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scores: Tensor) -> Tensor:
        """Each score against the sum of the others of its row."""
        scores = scores / self.temperature
        if scores.shape[1] == 1:
            return BELIEVED + scores
        # Against the largest score the sum of the others is taken without it, because subtracting it would cancel.
        top = scores.argmax(1, keepdim=True)
        is_top = torch.arange(scores.shape[1]) == top
        rest = torch.where(is_top, -torch.inf, scores).logsumexp(1, keepdim=True)
        log_p = torch.log_softmax(scores, dim=1)
        return torch.where(is_top, scores - rest, log_p - torch.log1p(-torch.exp(log_p.clamp(max=-0.5))))


def believed_by(calibrator: Calibrator) -> nn.Module:
    """What turns scores into the evidence that a calibrator maps; for those of one number, into log-odds at once."""
    if isinstance(calibrator, SoftmaxTemperature):
        return BelievedSoftmax(float(calibrator.temperature))
    link = link_of(calibrator.log_normaliser) if isinstance(calibrator, QuasibinaryConstant) else calibrator.link
    if link is None:
        return nn.Identity()
    return BelievedSoftmax(1.0) if isinstance(link, SoftmaxLink) else Believed(link, calibrator.bounds)


def along(curves: Curves, evidence: Tensor) -> Tensor:
    """`Curves.apply` with a binary search of its own, since a graph has no operation that searches."""
    labels, knots = curves.places.shape
    starts = (torch.arange(evidence.shape[1]) * knots) if labels > 1 else torch.zeros(1, dtype=torch.int64)
    places, values = curves.places.flatten(), curves.values.flatten()
    # The last knot that lies before the evidence, the first one if none does and the last but one if all do.
    before = torch.zeros_like(evidence, dtype=torch.int64)
    step = 1 << max(knots - 2, 1).bit_length() - 1
    while step:
        trial = (before + step).clamp(max=knots - 2)
        before = torch.where(places[starts + trial] < evidence, trial, before)
        step //= 2
    left, low = places[starts + before], values[starts + before]
    width, rise = places[starts + before + 1] - left, values[starts + before + 1] - low
    slope = torch.where(width > 0, rise / torch.where(width > 0, width, 1.0), 0.0)
    return low + (evidence - left) * slope
