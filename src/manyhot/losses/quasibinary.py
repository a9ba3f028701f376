"""The quasibinary loss: one normaliser shared by all classes and samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from manyhot.checks import Batch, check_number
from manyhot.links.normalised import QuasibinaryLink
from manyhot.losses.loss import Loss, Term


def log_batch_normaliser(batch: Batch) -> Tensor:
    """log C = log of the sum of e^score over all known cells - log of the number of labels.

    Without a label the true value is infinite; the logarithm of the bare sum stands in for it, with which the loss and
    its gradient are zero as they should be.
    """
    return torch.logsumexp(batch.visible_scores, dim=(0, 1)) - torch.log(batch.targets.sum().clamp(min=1))


def quasibinary_rows(batch: Batch, log_normaliser: Tensor, penalty_weight: float) -> Tensor:
    """Loss of every row, (N,): the surprise of its labels, and a penalty for every probability above 1."""
    log_q = batch.mask(batch.scores - log_normaliser)
    cells = torch.addcmul(penalty_weight * log_q.clamp(min=0), log_q, batch.targets, value=-1)
    return cells.sum(1)


class QuasibinaryLoss(Loss):
    """One normaliser C for the whole batch: for zero, one or many labels with a softmax's ease of training.

    log q = s - log C, log C = LSE(all scores of the batch) - log(number of labels)
    loss = mean over rows of the sum over labels of -y log q + penalty_weight max(log q, 0)

    The gradient flows through C: it is what pushes absent labels down. While the module is in training mode, a moving
    average of C is kept in the link; after training, `loss.link.fit(batches)` replaces it by the exact value.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; returns (), or (N,) for reduction "none".
    Link: q = min(e^s / C, 1), onto (0, 1].
    No-label rows: they enter through C alone, like absent labels of other rows. A batch without any label gives 0.

    Args:
        penalty_weight: Price of probabilities above 1; the paper's value is 1.
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
    reductions = ("mean", "sum", "none")
    link: QuasibinaryLink
    violation_share: Tensor
    log_batch_normaliser: Tensor

    def __init__(self, *, penalty_weight: float = 1.0, alpha: float = 0.1, reduction: str = "mean") -> None:
        super().__init__(QuasibinaryLink(), reduction)
        self.penalty_weight = check_number("penalty_weight", "QuasibinaryLoss", penalty_weight, low=0)
        self.alpha = check_number("alpha", "QuasibinaryLoss", alpha, low=0, high=1, low_open=True)
        self.register_buffer("violation_share", torch.zeros(()))
        self.register_buffer("log_batch_normaliser", torch.zeros(()), persistent=False)

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The mean over rows."""
        log_normaliser = log_batch_normaliser(batch)
        if self.training:
            self.track(batch, log_normaliser.detach())
        rows = quasibinary_rows(batch, log_normaliser, self.penalty_weight)
        return [Term(rows * (batch.targets.sum() > 0), batch.rows().sum())]

    @torch.no_grad()
    def track(self, batch: Batch, log_normaliser: Tensor) -> None:
        """Moves the average of C towards that of this batch, unless the batch has no label; counts q above 1."""
        old, new = self.link.log_normaliser, log_normaliser.to(self.link.log_normaliser.dtype)
        log_keep = math.log1p(-self.alpha) if self.alpha < 1 else -math.inf
        moved = torch.where(self.link.fitted, torch.logaddexp(old + log_keep, new + math.log(self.alpha)), new)
        labelled = batch.targets.sum() > 0
        self.link.log_normaliser.copy_(torch.where(labelled, moved, old))
        self.log_batch_normaliser.copy_(torch.where(labelled, log_normaliser, torch.nan))
        self.link.fitted.logical_or_(labelled)
        above = batch.mask((batch.scores > log_normaliser).to(batch.scores.dtype)).sum()
        self.violation_share.copy_(torch.where(labelled, above, 0) / batch.row_sizes().sum().clamp(min=1))
