"""Increasing maps with few parameters, one for every label, and how well they explain what was seen.

log-odds = sum_j slope_j * (feature_j(evidence) - centre_j) / unit + offset + intercept

Features increase with the evidence and slopes are positive, so every map is increasing. The parameters (K, D) are the
slopes, and in the last column the intercept of families that have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from manyhot.calibrate.newton import Likelihood
from manyhot.numerics import softplus

# Cells at a time: few enough for the cache of a processor, many enough to fill an accelerator.
BLOCK_ON_CPU, BLOCK_ELSEWHERE = 1 << 16, 1 << 22
# Smallest slope: a flat map would lose the order of scores.
FLATTEST = 1e-3


class Cells(NamedTuple):
    """Evidence, targets and weights, all (N, K) in float64; the weight of an unknown cell is 0."""

    evidence: Tensor
    targets: Tensor
    weights: Tensor

    @property
    def num_labels(self) -> int:
        """K."""
        return self.evidence.shape[1]

    def pooled(self) -> Cells:
        """All cells in one column, as if of one label."""
        return Cells(*(part.reshape(-1, 1) for part in self))

    def blocks(self) -> Iterator[Cells]:
        """The rows, so many at a time that they are computed with at once; without rows one empty block."""
        size = BLOCK_ON_CPU if self.evidence.device.type == "cpu" else BLOCK_ELSEWHERE
        rows = max(1, size // max(1, self.num_labels))
        for part in zip(*(tensor.split(rows) for tensor in self), strict=True):
            yield Cells(*part)


class Family(NamedTuple):
    """A kind of map: how its features follow from the evidence, how many they are, and whether it has an intercept."""

    features: Callable[[Tensor], tuple[Tensor, ...]]
    num_features: int
    intercept: bool

    def lowest(self, like: Tensor) -> Tensor:
        """The smallest parameters allowed, (D,)."""
        return like.new_tensor([FLATTEST] * self.num_features + [-torch.inf] * self.intercept)


class Frame(NamedTuple):
    """How parameters describe a map: so that they are of the order of 1, and nearly independent of each other.

    Attributes:
        centre: (F, K) or (F, 1), the features at which a map has the value offset + intercept.
        unit: (), the evidence that a slope of 1 turns into log-odds of 1.
        offset: (K,) or (1,).
    """

    centre: Tensor
    unit: Tensor
    offset: Tensor


class Maps(NamedTuple):
    """Maps as they are applied: slopes (F, K) and intercepts (K,), or (F, 1) and (1,) where all labels share one."""

    slopes: Tensor
    intercept: Tensor

    def apply(self, family: Family, evidence: Tensor) -> Tensor:
        """Log-odds of evidence (N, K)."""
        log_odds = self.intercept
        for feature, slope in zip(family.features(evidence), self.slopes, strict=True):
            log_odds = log_odds + slope * feature
        return log_odds


def maps_of(family: Family, frame: Frame, parameters: Tensor) -> Maps:
    """The maps that parameters (K, D) describe."""
    slopes = (parameters[:, : family.num_features] / frame.unit).T
    intercept = parameters[:, -1] if family.intercept else parameters.new_zeros(len(parameters))
    return Maps(slopes, intercept + frame.offset - (slopes * frame.centre).sum(0))


def likelihood_of(family: Family, frame: Frame, cells: Cells, parameters: Tensor) -> Likelihood:
    """How well maps of these parameters (K, D) explain the cells, label by label."""
    slopes, (labels, size) = parameters[:, : family.num_features].T, parameters.shape
    constant = frame.offset + (parameters[:, -1] if family.intercept else 0)
    value, gradient = parameters.new_zeros(labels), parameters.new_zeros(size, labels)
    information = parameters.new_zeros(size, size, labels)
    for evidence, targets, weights in cells.blocks():
        parts = [(x - c) / frame.unit for x, c in zip(family.features(evidence), frame.centre, strict=True)]
        log_odds = sum((slope * part for slope, part in zip(slopes, parts, strict=True)), start=constant)
        if family.intercept:
            parts.append(torch.ones_like(evidence))
        probs = torch.sigmoid(log_odds)
        excess, spread = weights * (probs - targets), weights * probs * (1 - probs)
        value += (weights * (softplus(log_odds) - targets * log_odds)).sum(0)
        for i, part in enumerate(parts):
            gradient[i] += (excess * part).sum(0)
            spread_part = spread * part
            for j in range(i + 1):
                information[i, j] += (spread_part * parts[j]).sum(0)
    lower = information.permute(2, 0, 1).tril()
    return Likelihood(value, gradient.T, lower + lower.tril(-1).mT)


def pooled_frame(family: Family, cells: Cells) -> Frame:
    """The frame of a map that all labels share: in units of the spread of the evidence, around its mean."""
    zero = cells.evidence.new_zeros(())
    total = cells.weights.sum().clamp(min=torch.finfo(torch.float64).tiny)
    middle, features = zero, [zero] * family.num_features
    if family.intercept:
        middle = sum(((e * w).sum() for e, _, w in cells.blocks()), start=zero) / total
        features = list(family.features(middle))
    variance = sum(((e - middle).square().mul(w).sum() for e, _, w in cells.blocks()), start=zero) / total
    # Evidence that is the same everywhere, but for rounding, has no spread to measure by.
    unit = torch.where(variance.sqrt() > 1e-9 * middle.abs(), variance.sqrt(), 1.0)
    return Frame(torch.stack(features).unsqueeze(1), unit, zero.expand(1))


def label_frame(family: Family, cells: Cells, shared: Maps) -> Frame:
    """The frame of the maps of single labels: in units of the shared slope, around where each label is undecided.

    Errors of slope and intercept are independent there, so that one can be shrunk without spoiling the other: a label
    that needs another slope turns around its own undecided cells, and not around those of other labels.
    """
    total = cells.evidence.new_zeros(cells.num_labels)
    sums = cells.evidence.new_zeros(family.num_features, cells.num_labels)
    if family.intercept:
        for evidence, _, weights in cells.blocks():
            probs = torch.sigmoid(shared.apply(family, evidence))
            undecided = weights * probs * (1 - probs)
            total += undecided.sum(0)
            sums += torch.stack([(undecided * x).sum(0) for x in family.features(evidence)])
    tiny = torch.finfo(torch.float64).tiny
    everywhere = sums.sum(1, keepdim=True) / total.sum().clamp(min=tiny)
    centre = torch.where(total > tiny, sums / total.clamp(min=tiny), everywhere)
    return Frame(centre, 1 / shared.slopes.mean(), (shared.slopes * centre).sum(0) + shared.intercept)
