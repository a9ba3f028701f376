"""Sums of losses on the same scores: what one does for ranking and another for probabilities, in one head."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhot.checks import Batch, check_number, kind_of
from manyhot.links.additive import AsymmetricLink, SigmoidLink, StrictlyProperAsymmetricLink
from manyhot.links.link import Link
from manyhot.links.ratio import RatioLink
from manyhot.losses.additive import Curve
from manyhot.losses.curves import CrossEntropyCurve, FocalCurve, ShiftedFocalCurve, StrictlyProperAsymmetricCurve
from manyhot.losses.loss import Loss, Term
from manyhot.refusal import refusal

# Slopes of curves underflow further out; what their ratio is by then, it stays.
FAR = 300.0


class SumLink(Link):
    """Scores of a sum of losses that add over labels: slopes add, so each link counts by how steep its loss is there.

    odds = sum of weight * slope * p over sum of weight * slope * (1 - p), with p what each link says, and slope =
    l0' - l1' of its loss

    Args:
        links: Those of the losses: `SigmoidLink`, `AsymmetricLink` or `StrictlyProperAsymmetricLink`.
        weights: Of the losses.

    Example:
        >>> link = SumLink([SigmoidLink(), AsymmetricLink(gamma_neg=4)], weights=(1.0, 1.0))
        >>> link.probs(torch.tensor([-3.0, 0.0, 3.0]))
        tensor([0.0243, 0.3819, 0.9589])
    """

    def __init__(self, links: Sequence[Link], weights: Sequence[float]) -> None:
        super().__init__()
        self.weights = check_weights("SumLink", len(links), weights)
        self._curves: list[Curve] = []
        for place, link in enumerate(links):
            curve = curve_of(link)
            if curve is None:
                remedy = "Derive the link of the whole sum by `ratio_link`."
                raise refusal("links", "SumLink", "be those of losses of manyhot", kind_of(link), remedy)
            self._curves.append(curve)
            self.add_module(f"link_{place}", link)

    @property
    def links(self) -> tuple[Link, ...]:
        """The links, in their order."""
        return tuple(self.get_submodule(f"link_{place}") for place in range(len(self.weights)))  # type: ignore[misc]

    @property
    def range(self) -> tuple[float, float]:
        """From 0 to 1 if any of the links goes there; where all end below, they do so together."""
        if max(link.range[1] for link in self.links) == 1:
            return 0.0, 1.0
        # Labels with weights of their own end at several heights, of which this is the highest.
        return 0.0, float(self.probs(torch.full((1, self._labels()), FAR, dtype=torch.float64)).max())

    def _labels(self) -> int:
        weights = [link.pos_weight for link in self.links if link.pos_weight is not None]
        return max((weight.numel() for weight in weights), default=1)

    @property
    def finite(self) -> bool:
        """Whether that is so for any of the links."""
        return any(link.finite for link in self.links)

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """Present over absent, each a sum over the losses, by logarithms."""
        wide, near = scores.double(), scores.double().clamp(-FAR, FAR)
        present, absent = [], []
        for link, curve, weight in zip(self.links, self._curves, self.weights, strict=True):
            _, _, present_slope, absent_slope = curve.branches(near)
            pos_weight = link.pos_weight_like(wide)
            steepness = absent_slope - (present_slope if pos_weight is None else pos_weight * present_slope)
            height, log_odds = torch.log(weight * steepness), link.log_odds(wide)
            present.append(height + F.logsigmoid(log_odds))
            absent.append(height + F.logsigmoid(-log_odds))
        odds = torch.logsumexp(torch.stack(present), 0) - torch.logsumexp(torch.stack(absent), 0)
        return odds.to(scores.dtype)


class SumLoss(Loss):
    """Several losses on the same scores, each with its weight: to rank by one and keep the probabilities of another.

    loss = sum of weight * loss over the parts

    Binary cross-entropy with a little of the two-way loss is what `manyhot train` takes on frozen features: it ranks
    like the two-way loss, and its probabilities are as good as those of cross-entropy.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}, and in [0, 1] where all parts allow it; returns ().
    Link: exact where all parts add over labels, by the slopes of their sum. A part that compares labels or rows leaves
        none, unless `link` says how to read the scores; they are then as good as held-out data show, so calibrate.
    No-label rows: what each part makes of them.

    Args:
        *losses: The parts: of one head, and means.
        weights: Of the parts; 1 for each by default.
        link: How the scores are read where the parts have no common link, usually that of the heaviest part.

    Reference: the parts are those of Cheng and Vasconcelos, Towards Calibrated Multi-label Deep Neural Networks, CVPR
        2024, and Kobayashi, Two-way Multi-Label Loss, CVPR 2023; their sum is ours.

    Example:
        >>> import manyhot
        >>> loss = SumLoss(manyhot.BinaryCrossEntropyLoss(), manyhot.TwoWayLoss(), weights=(1, 0.01))
        >>> loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 1]]))
        tensor(0.4610)
        >>> SumLoss(manyhot.BinaryCrossEntropyLoss(), manyhot.StrictlyProperAsymmetricLoss()).link.probs(torch.zeros(1))
        tensor([0.3457])
    """

    def __init__(self, *losses: Loss, weights: Sequence[float] | None = None, link: Link | None = None) -> None:
        _check_parts(losses)
        weights = check_weights("SumLoss", len(losses), (1.0,) * len(losses) if weights is None else weights)
        additive = all(loss.adds_over_labels for loss in losses)
        if additive and link is None and all(curve_of(loss.link) is not None for loss in losses):
            link = SumLink([loss.link for loss in losses], weights)
        super().__init__(link)
        self.losses, self.weights = nn.ModuleList(losses), weights
        self.mixes_rows = any(loss.mixes_rows for loss in losses)
        # What other losses know by their class, a sum knows by its parts.
        self.adds_over_labels = additive  # type: ignore[misc]
        self.soft_targets = all(loss.soft_targets for loss in losses)  # type: ignore[misc]
        self.single_label = any(loss.single_label for loss in losses)  # type: ignore[misc]
        if additive and link is None:  # a curve that somebody else wrote
            self.link = RatioLink(self)

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The means of all parts, weighted."""
        return [
            Term(weight * term.values, term.count)
            for loss, weight in zip(self.parts(), self.weights, strict=True)
            for term in loss.terms(batch)
        ]

    def parts(self) -> list[Loss]:
        """The losses that are added."""
        return [loss for loss in self.losses if isinstance(loss, Loss)]


def curve_of(link: Link) -> Curve | None:
    """The curve of the loss that a link belongs to; None for links of other losses."""
    if isinstance(link, SigmoidLink):
        return CrossEntropyCurve()
    if isinstance(link, AsymmetricLink):
        if link.margin == 0:
            return FocalCurve(link.gamma_neg, link.gamma_pos)
        return ShiftedFocalCurve(link.gamma_neg, link.gamma_pos, link.margin)
    if isinstance(link, StrictlyProperAsymmetricLink):
        return StrictlyProperAsymmetricCurve(link.shape)
    return None


def check_weights(owner: str, parts: int, weights: Sequence[float]) -> tuple[float, ...]:
    """The weights as numbers, or the error that says what is wrong with them."""
    if not isinstance(weights, list | tuple) or len(weights) != parts or not parts:
        got = f"{len(weights)} for {parts}" if isinstance(weights, list | tuple) else kind_of(weights)
        raise refusal("weights", owner, "be one number for each part", got, "Pass, for example, (1, 0.01).")
    return tuple(check_number("weights", owner, weight, low=0, low_open=True) for weight in weights)


def _check_parts(losses: Sequence[Loss]) -> None:
    remedy = "Pass, for example, BinaryCrossEntropyLoss(), TwoWayLoss()."
    if not losses:
        raise refusal("losses", "SumLoss", "be one or more", "none", remedy)
    for loss in losses:
        if not isinstance(loss, Loss) or loss.heads > 1 or loss.most_aligned:
            rule = "be losses of one head that take scores and targets alone"
            raise refusal("losses", "SumLoss", rule, kind_of(loss), remedy)
        if loss.reduction not in ("mean", "batchmean"):
            remedy = "Build the parts with reduction='mean'."
            raise refusal("losses", "SumLoss", "be means", f"reduction={loss.reduction!r}", remedy)
    reductions = {loss.reduction for loss in losses if loss.adds_over_labels}
    if len(reductions) > 1:
        got, remedy = " and ".join(sorted(reductions)), "Give all of them the same one, and weights for the rest."
        raise refusal("losses", "SumLoss", "have one reduction where they add over labels", got, remedy)
