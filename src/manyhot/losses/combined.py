"""Sums of losses on the same scores: what one does for ranking and another for probabilities, in one head."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from manyhot.checks import Batch, check_number, kind_of
from manyhot.links.additive import AdditiveLink
from manyhot.links.link import Link
from manyhot.links.ratio import RatioLink
from manyhot.losses.binary import (
    AsymmetricFocalLoss,
    AsymmetricLoss,
    BinaryCrossEntropyLoss,
    StrictlyProperAsymmetricLoss,
)
from manyhot.losses.loss import Loss, Term
from manyhot.refusal import refusal

# The losses whose links know their slopes.
KNOWN = (BinaryCrossEntropyLoss, AsymmetricFocalLoss, AsymmetricLoss, StrictlyProperAsymmetricLoss)


class SumLink(AdditiveLink):
    """Scores of a sum of losses that add over labels: slopes add, so each link counts by how steep its loss is there.

    odds = sum of weight * l0' over sum of weight * -l1', with the slopes of the losses that the links belong to

    Args:
        links: Those of the losses: `SigmoidLink`, `AsymmetricLink`, `StrictlyProperAsymmetricLink` or sums of these.
        weights: Of the losses.

    Example:
        >>> link = SumLink([mh.SigmoidLink(), mh.AsymmetricLink(gamma_neg=4)], weights=(1.0, 1.0))
        >>> link.probs(torch.tensor([-3.0, 0.0, 3.0]))
        tensor([0.0243, 0.3819, 0.9589])
    """

    def __init__(self, links: Sequence[Link], weights: Sequence[float]) -> None:
        super().__init__()
        self.weights = check_weights("SumLink", len(links), weights)
        for place, link in enumerate(links):
            if not isinstance(link, AdditiveLink):
                remedy = "Derive the link of the whole sum by `ratio_link`."
                raise refusal("links", "SumLink", "be those of losses of manyhot", kind_of(link), remedy)
            self.add_module(f"link_{place}", link)

    @property
    def links(self) -> tuple[AdditiveLink, ...]:
        """The links, in their order."""
        return tuple(self.get_submodule(f"link_{place}") for place in range(len(self.weights)))  # type: ignore[misc]

    @property
    def range(self) -> tuple[float, float]:
        """From 0 to 1 if any of the links goes there; where all end below, they do so together."""
        if max(link.range[1] for link in self.links) == 1:
            return 0.0, 1.0
        # Labels with weights of their own end at several heights, of which this is the highest.
        return 0.0, float(self.probs(torch.full((1, self._labels()), 1e4, dtype=torch.float64)).max())

    def _labels(self) -> int:
        return max((buffer.numel() for name, buffer in self.named_buffers() if name.endswith("pos_weight")), default=1)

    @property
    def finite(self) -> bool:
        """Whether that is so for any of the links."""
        return any(link.finite for link in self.links)

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """The ratio of the two sums."""
        absent, present = self.log_slopes(scores.double())
        return (absent - present).to(scores.dtype)

    def log_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Each a sum over the losses, by logarithms."""
        absent, present = [], []
        for link, weight in zip(self.links, self.weights, strict=True):
            rising, falling = link.log_slopes(scores)
            absent.append(rising + math.log(weight))
            present.append(falling + math.log(weight) + link.log_pos_weight(falling))
        return torch.logsumexp(torch.stack(absent), 0), torch.logsumexp(torch.stack(present), 0)


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
        if additive and link is None:
            known = all(isinstance(loss, KNOWN) or isinstance(loss.link, SumLink) for loss in losses)
            link = SumLink([loss.link for loss in losses], weights) if known else RatioLink(self)
        super().__init__(link)
        self.losses, self.weights = nn.ModuleList(losses), weights
        self.mixes_rows = any(loss.mixes_rows for loss in losses)
        # What other losses know by their class, a sum knows by its parts.
        self.adds_over_labels = additive  # type: ignore[misc]
        self.soft_targets = all(loss.soft_targets for loss in losses)  # type: ignore[misc]
        self.single_label = any(loss.single_label for loss in losses)  # type: ignore[misc]

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
