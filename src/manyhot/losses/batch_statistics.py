"""Losses with statistics of the whole batch: quasibinary and two-way."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from manyhot.autograd import with_slope
from manyhot.checks import LossBatch, check_choice, check_number
from manyhot.links import QuasibinaryLink
from manyhot.losses.loss import Loss, RowLoss, Term
from manyhot.numerics import MASK_OFFSET, mask_scores, softplus, times


def log_batch_normaliser(batch: LossBatch) -> Tensor:
    """log C = log of the sum of e^score over all known cells - log of the number of labels.

    Without a label the true value is infinite; the logarithm of the sum is used instead, with which the loss and its
    gradient are zero as they should be.
    """
    return torch.logsumexp(batch.masked_scores, dim=(0, 1)) - torch.log(batch.targets.sum().clamp(min=1))


class QuasibinaryLoss(RowLoss):
    """One normaliser C for the whole batch: for zero, one or many labels, and as easy to train as a softmax.

    log q = s - log C, log C = LSE(all scores of the batch) - log(number of labels)
    loss = mean over rows of the sum over labels of -y log q + penalty_weight max(log q, 0)

    The gradient flows through C: it is what pushes absent labels down. While the module is in training mode, a moving
    average of C is kept in the link; after training, `loss.link.fit(batches)` replaces it by the exact value.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; returns (), or (N,) for reduction "none".
    Link: q = min(e^s / C, 1), onto (0, 1].
    No-label rows: they enter through C alone, like absent labels of other rows. A batch without any label gives 0.

    Args:
        penalty_weight: Weight of the penalty on probabilities above 1; the paper's value is 1.
        alpha: Weight of the new value in the moving average of C.
        reduction: "mean" over rows, "sum" or "none".

    Attributes:
        violation_share: Share of the last batch's cells with q above 1.
        log_batch_normaliser: log C of the last batch; NaN if it had no label.

    Reference: Liao, Gavves, Oh and Snoek, Quasibinary Classifier for Images with Zero and Multiple Labels. The average
        of equation 13 is printed without its decay, and equation 11 as a gain; both are corrected. The average is that
        of C itself, computed on logarithms.

    Example:
        >>> loss = QuasibinaryLoss()
        >>> loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 0]]))
        tensor(0.2469)
        >>> loss.link.log_normaliser
        tensor(2.4938, dtype=torch.float64)
    """

    mixes_rows = True
    link: QuasibinaryLink
    violation_share: Tensor
    log_batch_normaliser: Tensor

    def __init__(self, *, penalty_weight: float = 1.0, alpha: float = 0.1, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.link = QuasibinaryLink()
        self.penalty_weight = check_number("penalty_weight", "QuasibinaryLoss", penalty_weight, "[0, inf)")
        self.alpha = check_number("alpha", "QuasibinaryLoss", alpha, "(0, 1]")
        self.register_buffer("violation_share", torch.zeros(()))
        self.register_buffer("log_batch_normaliser", torch.zeros(()), persistent=False)

    def terms(self, batch: LossBatch) -> list[Term]:
        """The mean over rows."""
        log_normaliser = log_batch_normaliser(batch)
        if self.training:
            self.track(batch, log_normaliser.detach())
        log_q = batch.mask(batch.scores - log_normaliser)
        cells = torch.addcmul(self.penalty_weight * log_q.clamp(min=0), log_q, batch.targets, value=-1)
        return [Term(cells.sum(1) * (batch.targets.sum() > 0), batch.rows().sum())]

    def diagnostics(self) -> tuple[str, dict[str, Tensor]]:
        """log C of the last batch and its moving average."""
        return "normaliser", {"batch": self.log_batch_normaliser, "average": self.link.log_normaliser}

    @torch.no_grad()
    def track(self, batch: LossBatch, log_normaliser: Tensor) -> None:
        """Moves the average of C towards that of this batch, unless the batch has no label; counts q above 1."""
        # An alias, because torch.compile loses what is written into a float64 tensor without axes itself.
        old = self.link.log_normaliser.detach()
        new = log_normaliser.to(old.dtype)
        log_decay = math.log1p(-self.alpha) if self.alpha < 1 else -math.inf
        moved = torch.where(self.link.fitted, torch.logaddexp(old + log_decay, new + math.log(self.alpha)), new)
        labelled = batch.targets.sum() > 0
        old.copy_(torch.where(labelled, moved, old))
        self.log_batch_normaliser.copy_(torch.where(labelled, log_normaliser, torch.nan))
        self.link.fitted.logical_or_(labelled)
        above = batch.mask((batch.scores > log_normaliser).to(batch.scores.dtype)).sum()
        self.violation_share.copy_(torch.where(labelled, above, 0) / batch.row_sizes().sum().clamp(min=1))


def powers_of_two(exponents: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """2^x relative to its largest along `dim`, written over x; the sum of these; and the logarithm of the sum of 2^x.

    Not `exp`, which on some processors takes ten times as long where the result is zero, as for all masked cells.
    """
    if exponents.shape[dim] == 0:
        nothing = exponents.sum(dim, keepdim=True)
        return exponents, nothing + 1, nothing - MASK_OFFSET
    top = exponents.detach().amax(dim, keepdim=True)
    relative = exponents.sub_(top).exp2_()
    total = relative.sum(dim, keepdim=True)
    return relative, total, top + total.log2()


class TwoWayLoss(Loss):
    """Softmax cross-entropy for several labels, taken along samples and along classes: for the best ranking.

    unit(P, N) = softplus(T_neg LSE_N(s / T_neg) + T_pos LSE_P(-s / T_pos) + margin)
    loss = mean over rows with a label + mean over columns with a label

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; returns ().
    Link: none, the scores only rank. Fit a calibrator to read them as probabilities.
    No-label rows: left out of the mean over rows; in the columns they are absent labels like any other.

    Args:
        axis: "both", "sample" (rows only) or "class" (columns only).
        temperature_pos: Spreads the gradient over all present labels of a unit when above 1.
        temperature_neg: The same for absent labels.
        margin: By how much present labels should lie above absent ones.

    Reference: Kobayashi, Two-way Multi-Label Loss, CVPR 2023, with its defaults. The official code masks cells by
        adding -100, which leaks for large scores; here masked cells count exactly nothing.

    Example:
        >>> loss = TwoWayLoss()
        >>> loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 1]]))
        tensor(0.4402)
    """

    def __init__(
        self, axis: str = "both", *, temperature_pos: float = 4.0, temperature_neg: float = 1.0, margin: float = 0.0
    ) -> None:
        super().__init__()
        self.axis = check_choice("axis", "TwoWayLoss", axis, ("both", "sample", "class"))
        self.temperature_pos = check_number("temperature_pos", "TwoWayLoss", temperature_pos, "(0, inf)")
        self.temperature_neg = check_number("temperature_neg", "TwoWayLoss", temperature_neg, "(0, inf)")
        self.margin = check_number("margin", "TwoWayLoss", margin)
        self.mixes_rows = axis != "sample"

    def terms(self, batch: LossBatch) -> list[Term]:
        """A mean over rows, a mean over columns, or both."""
        # 0 where visible, and far below any score elsewhere.
        not_present = torch.rsub(batch.targets, -MASK_OFFSET, alpha=-MASK_OFFSET)
        not_absent = batch.targets * -MASK_OFFSET
        if batch.known is not None:
            not_absent = mask_scores(not_absent, batch.known)
        units = []
        for dim in {"both": (1, 0), "sample": (1,), "class": (0,)}[self.axis]:
            function = functools.partial(self._units_and_slopes, dim)
            values = with_slope(function, batch.scores, not_absent, not_present).squeeze(dim)
            units.append(Term(values, torch.count_nonzero(batch.targets.sum(dim))))
        return units

    def _units_and_slopes(
        self, dim: int, scores: Tensor, not_absent: Tensor, not_present: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Loss of every row (`dim` 1) or column (`dim` 0), and its derivative by the scores in half the exponentials.

        A unit without a present or an absent label has no loss: its soft maximum is so low that softplus is 0.

        Args:
            dim: What is summed over.
            scores: (N, K).
            not_absent: (N, K), 0 for absent labels and far below 0 for all others.
            not_present: The same for present labels.
        """
        scale_neg, scale_pos = math.log(2) * self.temperature_neg, math.log(2) * self.temperature_pos
        absent, absent_sum, absent_log = powers_of_two(torch.add(not_absent, scores, alpha=1 / scale_neg), dim)
        present, present_sum, present_log = powers_of_two(torch.sub(not_present, scores, alpha=1 / scale_pos), dim)
        gaps = (scale_neg * absent_log).add_(present_log, alpha=scale_pos) + self.margin
        pull = torch.sigmoid(gaps)
        slopes = times(absent, pull / absent_sum).sub_(times(present, pull / present_sum))
        return softplus(gaps), slopes
