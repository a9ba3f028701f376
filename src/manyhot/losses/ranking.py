"""Pairwise ranking losses that the literature compares with: WARP and RML."""

from __future__ import annotations

import torch
from torch import Tensor

from manyhot.checks import Batch, check_number
from manyhot.losses.loss import Loss, Term
from manyhot.numerics import OUT_OF_SIGHT


class RankedAbsent:
    """The absent labels of every row in falling order, ready to answer for all scores at once who lies above them.

    The pair sums of piecewise linear losses need no pairs: a sort and running sums give them in K log K for each row.
    """

    def __init__(self, batch: Batch) -> None:
        keys = torch.where(batch.absent > 0, batch.scores, -OUT_OF_SIGHT)
        self.sorted, order = keys.sort(dim=1, descending=True)
        counted = torch.gather(batch.absent, 1, order)
        # In float64, since differences of running sums are taken at the edge of the hinge.
        self.sums = torch.cumsum(torch.where(counted > 0, self.sorted, 0.0).double(), dim=1)

    def above(self, levels: Tensor) -> Tensor:
        """How many absent labels of the row lie above each level, (N, K)."""
        return torch.searchsorted(-self.sorted.detach().contiguous(), -levels.detach().contiguous())

    def hinges(self, levels: Tensor, count: Tensor) -> Tensor:
        """Sum over the row's absent labels n of max(0, s_n - level), for each level (N, K) and the `count` above it."""
        sums = self.sums.gather(1, (count - 1).clamp(min=0)) * (count > 0)
        return (sums - count * levels.double()).to(levels.dtype)


def rank_weights(ranks: Tensor, dtype: torch.dtype) -> Tensor:
    """1 + 1/2 + ... + 1/rank, as digamma(rank + 1) plus Euler's constant: no table, no gradient."""
    return (torch.digamma(ranks.double() + 1) + 0.5772156649015329).to(dtype)


class WARPLoss(Loss):
    """Hinge on every pair of a present and an absent label, weighted by rank: a ranking baseline that minds the top.

    row = sum over present p of L(r_p) sum over absent n of max(0, 1 - s_p + s_n), L(r) = 1 + 1/2 + ... + 1/r
    r_p = number of absent n with s_n + 1 > s_p, a constant for the gradient

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; returns (), or (N,) for reduction "none".
    Link: none, the scores only rank. Fit a calibrator to read them as probabilities.
    No-label rows: left out of the mean.

    Args:
        reduction: "mean" over rows with a label, "sum" or "none".

    Reference: Gong et al., Deep Convolutional Ranking for Multilabel Image Annotation, 2013. This is the deterministic
        form: the exact rank, and all violating pairs. The paper estimates the rank by drawing absent labels until one
        violates the margin, and uses only that one.

    Example:
        >>> WARPLoss()(torch.tensor([[0.0, 0.5, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(1.5000)
    """

    reductions = ("mean", "sum", "none")

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The mean over rows with a label."""
        absent, levels = RankedAbsent(batch), batch.scores - 1
        ranks = absent.above(levels)
        rows = (batch.targets * rank_weights(ranks, levels.dtype) * absent.hinges(levels, ranks)).sum(1)
        return [Term(rows, batch.labelled_rows().sum())]


class RMLLoss(Loss):
    """WARP with a ramp, which stops paying for hopeless pairs, and a ramp for every label by itself.

    row = sum over present p of L(r_p) sum over absent n of R(s_p - s_n) + class_weight sum over labels of R(+-s)
    R(z) = min(1 - floor, max(0, 1 - z))

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; returns (), or (N,) for reduction "none".
    Link: none, the scores only rank. Fit a calibrator to read them as probabilities.
    No-label rows: they have no pairs and pay only for their absent labels by themselves.

    Args:
        floor: Where the ramp becomes flat, in (-1, 0].
        class_weight: Weight of the labels by themselves.
        reduction: "mean" over rows, "sum" or "none".

    Reference: Cevikalp et al., Semi-Supervised Robust Deep Neural Networks for Multi-Label Classification, CVPRW 2019.
        The form is theirs; the exact weights of their two parts could not be verified, hence `class_weight`.

    Example:
        >>> RMLLoss(floor=-0.5)(torch.tensor([[-1.0, 0.5, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(4.5000)
    """

    reductions = ("mean", "sum", "none")

    def __init__(self, *, floor: float = -0.5, class_weight: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.floor = check_number("floor", "RMLLoss", floor, low=-1, high=0, low_open=True)
        self.class_weight = check_number("class_weight", "RMLLoss", class_weight, low=0)

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The mean over rows."""
        absent, levels, flat = RankedAbsent(batch), batch.scores - 1, batch.scores - self.floor
        ranks = absent.above(levels)
        weights = rank_weights(ranks, levels.dtype)
        # A ramp is the difference of two hinges.
        ramps = absent.hinges(levels, ranks) - absent.hinges(flat, absent.above(flat))
        alone = batch.mask(self.ramp(torch.where(batch.targets > 0, batch.scores, -batch.scores)))
        rows = (batch.targets * weights * ramps + self.class_weight * alone).sum(1)
        return [Term(rows, batch.rows().sum())]

    def ramp(self, margins: Tensor) -> Tensor:
        """R(z)."""
        return (1 - margins).clamp(0, 1 - self.floor)
