"""Losses for data in which one label a row was observed and nothing is known of the others."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from manyhot.checks import Batch, check_number, check_values, values_can_be_read
from manyhot.losses.loss import Loss, Term
from manyhot.numerics import logit, softplus
from manyhot.refusal import refusal


class AssumeNegativeLoss(Loss):
    """Takes every label that was not observed for absent, at a small weight: the simplest loss for single labels.

    row = softplus(-s_y) + negative_weight sum over other labels of softplus(s)

    Shape: scores (N, K), targets (N, K): 1 observed, 0 not observed, -1 left out; returns (), or (N,) for "none".
    Link: none: a target of 0 does not say that the label is absent. Fit a calibrator on rows that say so.
    No-label rows: their labels are assumed absent like any other that was not observed.

    Args:
        negative_weight: None for 1 / (K - 1), which weighs the others together like the observed one ("weak assume
            negative"); 1 for plain "assume negative".
        reduction: "mean" over rows, "sum" or "none".

    Reference: Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021 (their WAN divides by K as
        well); the form without that division is equation 5 of Garcin et al.

    Example:
        >>> AssumeNegativeLoss()(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.8201)
    """

    reductions = ("mean", "sum", "none")

    def __init__(self, *, negative_weight: float | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        if negative_weight is not None:
            check_number("negative_weight", "AssumeNegativeLoss", negative_weight, low=0)
        self.negative_weight = negative_weight

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The mean over rows."""
        others = (batch.absent * softplus(batch.scores)).sum(1)
        if self.negative_weight is None:
            others = others / (batch.row_sizes() - 1).clamp(min=1)
        else:
            others = others * self.negative_weight
        return [Term((batch.targets * softplus(-batch.scores)).sum(1) + others, batch.rows().sum())]


class ExpectedCount(nn.Module):
    """Difference between the mean number of labels that the scores promise and the number expected."""

    def __init__(self, expected: float, owner: str) -> None:
        super().__init__()
        self.expected = check_number("expected_labels", owner, expected, low=0)

    def forward(self, batch: Batch, probs: Tensor) -> Tensor:
        """Mean row sum of the probabilities, less the expected number; 0 for a batch without rows."""
        rows = batch.rows().sum()
        excess = batch.mask(probs).sum() / rows.clamp(min=1) - self.expected
        return torch.where(rows > 0, excess, 0 * probs.sum())


class EPRLoss(Loss):
    """Expected positive regularisation: observed labels are present, and rows have so many labels on average.

    loss = mean over labelled rows of softplus(-s_y) + beta (k_hat - expected_labels)^2
    k_hat = mean row sum of sigmoid(s)

    Shape: scores (N, K), targets (N, K): 1 observed, 0 not observed, -1 left out; returns ().
    Link: none: a target of 0 does not say that the label is absent. Fit a calibrator on rows that say so.
    No-label rows: they count in k_hat only.

    Args:
        expected_labels: Mean number of labels of a row.
        beta: Weight of the regulariser. Cole et al. divide both the first term and the difference by K: their weight 1
            is a beta of 1 / K, with all of the loss divided by K.

    Reference: Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021; in the form of Garcin et al.

    Example:
        >>> EPRLoss(1.5)(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.2719)
    """

    mixes_rows = True

    def __init__(self, expected_labels: float, *, beta: float = 1.0) -> None:
        super().__init__()
        self.excess = ExpectedCount(expected_labels, "EPRLoss")
        self.beta = check_number("beta", "EPRLoss", beta, low=0)

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The mean over observed labels, and the squared excess."""
        excess = self.excess(batch, torch.sigmoid(batch.scores))
        observed = batch.targets * softplus(-batch.scores)
        return [Term(observed, batch.labelled_rows().sum()), Term(self.beta * excess.square(), 1.0)]


class ROLELoss(Loss):
    """Estimates the labels that were not observed while it trains: scores and a table of guesses teach each other.

    half(f | t) = mean over cells of [1(observed)(-log f) - t log f - (1 - t) log(1 - f)] + excess(f)^2
    excess(f) = (mean row sum of f - expected_labels) / K
    loss = (half(f | t) + half(t | f)) / 2, with f = sigmoid(scores), t = sigmoid(guesses), the other one held constant

    Shape: scores (N, K), targets (N, K): 1 observed, 0 not observed, -1 left out; third argument: rows (N,), the place
        of each row in the training data; returns ().
    Link: none: the guesses are not observations. Fit a calibrator on rows whose labels are known.
    No-label rows: they have guesses like any other row.

    Args:
        targets: (M, K), the targets of the training data. Guesses start at 0.995 for observed labels and at
            random between 0.4 and 0.6 for others, uniformly in log-odds.
        expected_labels: Mean number of labels of a row.
        generator: For reproducible guesses.

    Attributes:
        guesses: (M, K), log-odds of the estimated labels; a parameter, to be given to the optimiser.

    Reference: Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021. Their code adds 1e-5 inside the
        logarithms; here they are exact.

    Example:
        >>> observed = torch.tensor([[1, 0, 0], [0, 1, 0]])
        >>> loss = ROLELoss(observed, expected_labels=1.5, generator=torch.Generator().manual_seed(0))
        >>> loss(torch.zeros(1, 3), observed[1:], torch.tensor([1]))
        tensor(1.1492, grad_fn=<AddBackward0>)
    """

    mixes_rows = True
    most_aligned: ClassVar[int] = 1

    def __init__(self, targets: Tensor, expected_labels: float, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if not isinstance(targets, Tensor) or targets.ndim != 2:
            got = str(tuple(targets.shape)) if isinstance(targets, Tensor) else type(targets).__name__
            raise refusal("targets", "ROLELoss", "be (M, K)", got, "Pass the targets of the training data.")
        check_values("ROLELoss", targets)
        bound = logit(0.6)
        guesses = (2 * torch.rand(targets.shape, generator=generator) - 1) * bound
        self.guesses = nn.Parameter(torch.where(targets.cpu() > 0, logit(0.995), guesses).to(targets.device))
        self.excess = ExpectedCount(expected_labels, "ROLELoss")

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """Half of what the guesses teach the scores, and half of what the scores teach the guesses."""
        guesses = self.guesses_of(batch, aligned).to(batch.scores.dtype)
        halves = [*self.lesson(batch, batch.scores, guesses), *self.lesson(batch, guesses, batch.scores)]
        return [Term(term.values / 2, term.count) for term in halves]

    def lesson(self, batch: Batch, learner: Tensor, teacher: Tensor) -> list[Term]:
        """Cross-entropy of the learner to the teacher's probabilities, and the learner's squared excess of labels."""
        believed = torch.sigmoid(teacher.detach())
        cells = (batch.targets + believed) * softplus(-learner) + (1 - believed) * softplus(learner)
        sizes = batch.row_sizes().sum()
        labels = sizes / batch.rows().sum().clamp(min=1)
        excess = self.excess(batch, torch.sigmoid(learner)) / labels.clamp(min=1)
        return [Term(batch.mask(cells), sizes), Term(excess.square(), 1.0)]

    def guesses_of(self, batch: Batch, aligned: tuple[Tensor, ...]) -> Tensor:
        """The guesses of the batch's rows, (N, K)."""
        if len(aligned) != 1 or aligned[0].shape != batch.targets.shape[:1] or aligned[0].is_floating_point():
            got = ", ".join(f"{tuple(a.shape)} of {a.dtype}" for a in aligned) or "nothing"
            remedy = "Call loss(scores, targets, rows) with the index of each row in the training data."
            raise refusal("rows", "ROLELoss", f"be (N,) = ({batch.targets.shape[0]},) of whole numbers", got, remedy)
        if self.guesses.shape[1] != batch.targets.shape[1]:
            got = f"{batch.targets.shape[1]} labels"
            remedy = "Build the loss with the targets of the same data."
            raise refusal("targets", "ROLELoss", f"have K = {self.guesses.shape[1]} labels", got, remedy)
        rows, count = aligned[0], self.guesses.shape[0]
        if values_can_be_read(rows) and rows.numel() and not (int(rows.min()) >= 0 and int(rows.max()) < count):
            got = f"{int(rows.min())} to {int(rows.max())}"
            remedy = "Count rows as in the targets that the loss was built with."
            raise refusal("rows", "ROLELoss", f"lie between 0 and {count - 1}", got, remedy)
        return self.guesses.index_select(0, rows)
