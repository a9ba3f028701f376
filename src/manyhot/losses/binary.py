"""Losses that add over labels, each with its link in closed form."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from manyhot.autograd import in_chunks, is_differentiated, with_slope
from manyhot.checks import LossBatch
from manyhot.curves import Asymmetry, Curve
from manyhot.links import AsymmetricLink, Link, PosWeight, SigmoidLink, StrictlyProperAsymmetricLink
from manyhot.losses.loss import Loss, Term


class AdditiveLoss(Loss):
    """A loss that adds over labels: a curve, and the link that follows from it.

    Write your own by passing both; `manyhot.testing.check_loss` checks that they match, and
    `manyhot.ratio_link` computes the link of a curve for which there is no formula.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1} or [0, 1]; returns (), or (N, K) for reduction "none".
    Link: p = l0' / (l0' - l1') with the slopes of the two branches.
    No-label rows: K absent labels, as in any other row.

    Args:
        curve: The loss of present and absent labels.
        link: What the scores mean; its `pos_weight` also weights the loss of present labels.
        reduction: "mean" over known cells, "batchmean" (sum over labels, mean over rows), "sum" or "none".
    """

    adds_over_labels = True
    reductions = ("mean", "batchmean", "sum", "none")
    soft_targets = True
    link: Link

    def __init__(self, curve: Curve, link: Link, reduction: str = "mean") -> None:
        super().__init__(link, reduction)
        self.curve = curve

    def slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """How steeply the loss of an absent label rises with its score, and that of a present one falls."""
        _, _, present, absent = self.curve.branches(scores)
        weight = self.link.pos_weight_like(scores)
        return absent, -present if weight is None else -weight * present

    def terms(self, batch: LossBatch) -> list[Term]:
        """The mean over known cells, or the sum over cells by the number of rows for "batchmean"."""
        weight = self.link.pos_weight_like(batch.scores)
        if is_differentiated(batch.targets):
            values = batch.mask(self._mixture(batch, weight))
        else:
            hard = self.curve.quicker_if_hard and batch.no_soft_targets()
            function = functools.partial(in_chunks, functools.partial(self._cells, hard))
            weights = None if weight is None else weight.expand_as(batch.targets)
            values = with_slope(function, batch.scores, batch.targets, batch.known, weights)
        known = batch.targets.numel() if batch.known is None else batch.known.sum()
        return [Term(values, batch.rows().sum() if self.reduction == "batchmean" else known)]

    def _cells(
        self, hard: bool, scores: Tensor, targets: Tensor, known: Tensor | None, pos_weight: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Values and slopes of cells; one value, their sum, unless they are all wanted."""
        values, slopes = self.curve.cells(scores, targets, pos_weight, hard=hard)
        if known is not None:
            values, slopes = values * known, slopes * known
        return values if self.reduction == "none" else values.sum(), slopes

    def _mixture(self, batch: LossBatch, weight: Tensor | None) -> Tensor:
        """Loss of every cell by its two branches, for soft targets that are learned."""
        present = with_slope(lambda scores: self.curve.branches(scores)[0::2], batch.scores)
        absent = with_slope(lambda scores: self.curve.branches(scores)[1::2], batch.scores)
        return torch.lerp(absent, present if weight is None else present * weight, batch.targets)


class BinaryCrossEntropyLoss(AdditiveLoss):
    """Cross-entropy of every label by itself: the plain choice, whose scores are log-odds.

    l1(s) = softplus(-s), l0(s) = softplus(s)

    Shape: scores (N, K), targets (N, K) in {1, 0, -1} or [0, 1]; returns (), or (N, K) for reduction "none".
    Link: sigmoid, onto (0, 1); with `pos_weight` w it is sigmoid(s - log w).
    No-label rows: K absent labels, as in any other row.

    Args:
        pos_weight: (K,) or one number, the factor on present labels. It does not spoil the probabilities: the link
            knows it.
        reduction: "mean" over known cells, "batchmean" (sum over labels, mean over rows), "sum" or "none".

    Example:
        >>> loss = BinaryCrossEntropyLoss()
        >>> loss(torch.tensor([[2.0, -1.0, 5.0]]), torch.tensor([[1, 0, -1]]))
        tensor(0.2201)
    """

    def __init__(self, *, pos_weight: PosWeight = None, reduction: str = "mean") -> None:
        link = SigmoidLink(pos_weight)
        super().__init__(link.curve, link, reduction)

    def forward(self, scores: Tensor, targets: Tensor, extra: Tensor | None = None) -> Tensor:
        """The loss of a batch; by torch's own function where no cell is unknown, which is the fastest."""
        batch = self.check(scores, targets, extra)
        if batch.known is not None or self.reduction not in ("mean", "sum") or scores.numel() == 0:
            return self.reduce(self.terms(batch))
        weight = self.link.pos_weight_like(batch.scores)
        return F.binary_cross_entropy_with_logits(
            batch.scores, batch.targets, pos_weight=weight, reduction=self.reduction
        )


class FocalLoss(AdditiveLoss):
    """Cross-entropy with less weight on easy labels, absent ones above all: for many labels of which few are present.

    l1(s) = (1 - p)^gamma_pos softplus(-s), l0(s) = p^gamma_neg softplus(s), p = sigmoid(s)

    Shape: scores (N, K), targets (N, K) in {1, 0, -1} or [0, 1]; returns (), or (N, K) for reduction "none".
    Link: the map phi, onto (0, 1); plain sigmoid is not what these scores mean.
    No-label rows: K absent labels, as in any other row.

    Args:
        gamma_neg: Focusing of absent labels; 0 is cross-entropy.
        gamma_pos: Focusing of present labels.
        pos_weight: (K,) or one number, the factor on present labels.
        reduction: "mean" over known cells, "batchmean" (sum over labels, mean over rows), "sum" or "none".

    Reference: Lin et al., Focal Loss for Dense Object Detection, ICCV 2017; link by Cheng and Vasconcelos, CVPR 2024.

    Example:
        >>> loss = FocalLoss(gamma_neg=2, gamma_pos=2)
        >>> loss.link.probs(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([0.0045, 0.5000, 0.9955])
    """

    link: AsymmetricLink

    def __init__(
        self, gamma_neg: float = 4.0, gamma_pos: float = 1.0, *, pos_weight: PosWeight = None, reduction: str = "mean"
    ) -> None:
        link = AsymmetricLink(gamma_neg, gamma_pos, pos_weight=pos_weight)
        super().__init__(link.curve, link, reduction)


class AsymmetricLoss(AdditiveLoss):
    """ASL: focal loss that ignores absent labels with a probability below a margin: for noisy data with many of them.

    l1(s) = (1 - p)^gamma_pos softplus(-s), l0(s) = r^gamma_neg (-log(1 - r)), r = max(p - margin, 0), p = sigmoid(s)

    Shape: scores (N, K), targets (N, K) in {1, 0, -1} or [0, 1]; returns (), or (N, K) for reduction "none".
    Link: the map phi. With a margin, scores up to logit(margin) all give 0; with `gamma_pos` 0 probabilities have an
        upper limit (0.964 with the defaults).
    No-label rows: K absent labels, as in any other row.

    Args:
        gamma_neg: Focusing of absent labels.
        gamma_pos: Focusing of present labels.
        margin: Probability up to which an absent label costs nothing.
        pos_weight: (K,) or one number, the factor on present labels.
        reduction: "mean" over known cells, "batchmean" (sum over labels, mean over rows), "sum" or "none".

    Reference: Ridnik et al., Asymmetric Loss for Multi-Label Classification, ICCV 2021; defaults of the paper (the
        official code has `gamma_pos` 1, sums over the batch, and clamps at 1e-8, which stops the gradient of present
        labels below a score of -18; here nothing is clamped). Link by Cheng and Vasconcelos, CVPR 2024.

    Example:
        >>> loss = AsymmetricLoss()
        >>> loss(torch.tensor([[2.0, -4.0]]), torch.tensor([[1, 0]]))
        tensor(0.0635)
        >>> loss.link.probs(torch.tensor([0.0, 4.0]))
        tensor([0.1276, 0.9511])
    """

    link: AsymmetricLink

    def __init__(
        self,
        gamma_neg: float = 4.0,
        gamma_pos: float = 0.0,
        margin: float = 0.05,
        *,
        pos_weight: PosWeight = None,
        reduction: str = "mean",
    ) -> None:
        link = AsymmetricLink(gamma_neg, gamma_pos, margin, pos_weight=pos_weight)
        super().__init__(link.curve, link, reduction)


class StrictlyProperAsymmetricLoss(AdditiveLoss):
    """Asymmetric, and minimised by the true probability: for rare labels whose confidence will be acted on.

    l1(s) = softplus(-k_pos (s - b_pos)) / zeta_pos, l0(s) = softplus(k_neg (s - b_neg)) / zeta_neg

    Shape: scores (N, K), targets (N, K) in {1, 0, -1} or [0, 1]; returns (), or (N, K) for reduction "none".
    Link: onto (0, 1); one half lies at a score of 0.952 with the defaults, not at 0.
    No-label rows: K absent labels, as in any other row.

    Args:
        zeta_pos: Divides the loss of present labels.
        k_pos: Steepness of the loss of present labels.
        b_pos: Score about which the loss of present labels bends.
        zeta_neg: Divides the loss of absent labels.
        k_neg: Steepness of the loss of absent labels.
        b_neg: Score about which the loss of absent labels bends.
        pos_weight: (K,) or one number, the factor on present labels.
        reduction: "mean" over known cells, "batchmean" (sum over labels, mean over rows), "sum" or "none".

    Reference: Cheng and Vasconcelos, Towards Calibrated Multi-label Deep Neural Networks, CVPR 2024. Their equation 17
        is printed with the sign of both sigmoid arguments flipped; this is the corrected link.

    Example:
        >>> loss = StrictlyProperAsymmetricLoss()
        >>> loss.link.probs(torch.tensor([0.0, 1.0, 3.0]))
        tensor([0.0538, 0.5273, 0.9266])
    """

    link: StrictlyProperAsymmetricLink

    def __init__(
        self,
        *,
        zeta_pos: float = 1.0,
        k_pos: float = 1.0,
        b_pos: float = 0.0,
        zeta_neg: float = 5.0,
        k_neg: float = 3.0,
        b_neg: float = 1.0,
        pos_weight: PosWeight = None,
        reduction: str = "mean",
    ) -> None:
        shape = Asymmetry(zeta_pos, k_pos, b_pos, zeta_neg, k_neg, b_neg).check("StrictlyProperAsymmetricLoss")
        link = StrictlyProperAsymmetricLink(shape, pos_weight=pos_weight)
        super().__init__(link.curve, link, reduction)
