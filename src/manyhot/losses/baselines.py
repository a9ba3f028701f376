"""Baselines of the literature: pairwise ranking (WARP, RML) and single positive labels (AN, EPR, ROLE)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyhot.checks import LossBatch, can_read_values, check_number, check_target_values
from manyhot.errors import InputError
from manyhot.losses.loss import Loss, RowLoss, Term
from manyhot.numerics import MASK_OFFSET, logit, softplus


def pair_hinges(batch: LossBatch, *margins: float) -> list[tuple[Tensor, Tensor]]:
    """Sum over a row's absent labels n of max(0, s_n + margin - s) for every score s, and the number of these above 0.

    The pair sums of piecewise linear losses need no pairs: a sort and running sums give them in K log K for each row.
    """
    ranked, order = torch.where(batch.absent > 0, batch.scores, -MASK_OFFSET).sort(dim=1, descending=True)
    counted = torch.gather(batch.absent, 1, order)
    # In float64, since hinges are differences of running sums.
    running = torch.cumsum(torch.where(counted > 0, ranked, 0.0).double(), dim=1)
    pairs = []
    for margin in margins:
        levels = batch.scores - margin
        count = torch.searchsorted(-ranked.detach().contiguous(), -levels.detach().contiguous())
        sums = running.gather(1, (count - 1).clamp(min=0)) * (count > 0)
        pairs.append(((sums - count * levels.double()).to(levels.dtype), count))
    return pairs


def rank_weights(ranks: Tensor, dtype: torch.dtype) -> Tensor:
    """1 + 1/2 + ... + 1/rank, as digamma(rank + 1) plus Euler's constant: no table, no gradient."""
    return (torch.digamma(ranks.double() + 1) + 0.5772156649015329).to(dtype)


class WARPLoss(RowLoss):
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

    def terms(self, batch: LossBatch) -> list[Term]:
        """The mean over rows with a label."""
        [(hinges, ranks)] = pair_hinges(batch, 1)
        rows = (batch.targets * rank_weights(ranks, hinges.dtype) * hinges).sum(1)
        return [Term(rows, batch.labelled_rows().sum())]


class RMLLoss(RowLoss):
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

    def __init__(self, *, floor: float = -0.5, class_weight: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.floor = check_number("floor", "RMLLoss", floor, "(-1, 0]")
        self.class_weight = check_number("class_weight", "RMLLoss", class_weight, "[0, inf)")

    def terms(self, batch: LossBatch) -> list[Term]:
        """The mean over rows."""
        (steep, ranks), (flat, _) = pair_hinges(batch, 1, self.floor)
        ramps = rank_weights(ranks, steep.dtype) * (steep - flat)  # a ramp is the difference of two hinges
        margins = torch.where(batch.targets > 0, batch.scores, -batch.scores)
        alone = batch.mask((1 - margins).clamp(0, 1 - self.floor))
        rows = (batch.targets * ramps + self.class_weight * alone).sum(1)
        return [Term(rows, batch.rows().sum())]


class AssumeNegativeLoss(RowLoss):
    """Assumes that every label that was not observed is absent, at a small weight: the simplest loss for single labels.

    row = softplus(-s_y) + negative_weight sum over other labels of softplus(s)

    Shape: scores (N, K), targets (N, K): 1 observed, 0 not observed, -1 left out; returns (), or (N,) for "none".
    Link: none: a target of 0 does not mean that the label is absent. Fit a calibrator on fully labelled rows.
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

    def __init__(self, *, negative_weight: float | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        if negative_weight is not None:
            check_number("negative_weight", "AssumeNegativeLoss", negative_weight, "[0, inf)")
        self.negative_weight = negative_weight

    def terms(self, batch: LossBatch) -> list[Term]:
        """The mean over rows."""
        weight = 1 / (batch.row_sizes() - 1).clamp(min=1) if self.negative_weight is None else self.negative_weight
        others = weight * (batch.absent * softplus(batch.scores)).sum(1)
        return [Term((batch.targets * softplus(-batch.scores)).sum(1) + others, batch.rows().sum())]


def count_excess(batch: LossBatch, probs: Tensor, expected: float) -> Tensor:
    """Mean row sum of the probabilities, less the expected number of labels; 0 for a batch without rows."""
    rows = batch.rows().sum()
    excess = batch.mask(probs).sum() / rows.clamp(min=1) - expected
    return torch.where(rows > 0, excess, 0 * probs.sum())


class EPRLoss(Loss):
    """Expected positive regularisation: observed labels are present, and rows have so many labels on average.

    loss = mean over labelled rows of softplus(-s_y) + beta (k_hat - expected_labels)^2
    k_hat = mean row sum of sigmoid(s)

    Shape: scores (N, K), targets (N, K): 1 observed, 0 not observed, -1 left out; returns ().
    Link: none: a target of 0 does not mean that the label is absent. Fit a calibrator on fully labelled rows.
    No-label rows: they count in k_hat only.

    Args:
        expected_labels: Mean number of labels per row.
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
        self.expected_labels = check_number("expected_labels", "EPRLoss", expected_labels, "[0, inf)")
        self.beta = check_number("beta", "EPRLoss", beta, "[0, inf)")

    def terms(self, batch: LossBatch) -> list[Term]:
        """The mean over observed labels, and the squared excess."""
        excess = count_excess(batch, torch.sigmoid(batch.scores), self.expected_labels)
        observed = batch.targets * softplus(-batch.scores)
        return [Term(observed, batch.labelled_rows().sum()), Term(self.beta * excess.square(), 1.0)]


class ROLELoss(Loss):
    """Estimates the labels that were not observed in training: scores and a table of guesses are trained on each other.

    half(f | t) = mean over cells of [1(observed)(-log f) - t log f - (1 - t) log(1 - f)] + excess(f)^2
    excess(f) = (mean row sum of f - expected_labels) / K
    loss = (half(f | t) + half(t | f)) / 2, with f = sigmoid(scores), t = sigmoid(guesses), the other one held constant

    Shape: scores (N, K), targets (N, K): 1 observed, 0 not observed, -1 left out; `rows` (N,), the index of each
        row in the training data; returns ().
    Link: none: the guesses are not observations. Fit a calibrator on rows whose labels are known.
    No-label rows: they have guesses like any other row.

    Args:
        targets: (M, K), the targets of the training data. Guesses start at 0.995 for observed labels and at
            random between 0.4 and 0.6 for others, uniformly in log-odds.
        expected_labels: Mean number of labels per row.
        generator: For reproducible guesses.

    Attributes:
        guesses: (M, K), log-odds of the estimated labels; a parameter, to be given to the optimiser.

    Reference: Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021. Their code adds 1e-5 inside the
        logarithms; here they are exact.

    Example:
        >>> observed = torch.tensor([[1, 0, 0], [0, 1, 0]])
        >>> loss = ROLELoss(observed, expected_labels=1.5, generator=torch.Generator().manual_seed(0))
        >>> loss(torch.zeros(1, 3), observed[1:], rows=torch.tensor([1]))
        tensor(1.1492, grad_fn=<AddBackward0>)
    """

    mixes_rows = True
    extra = "rows"

    def __init__(self, targets: Tensor, expected_labels: float, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if not isinstance(targets, Tensor) or targets.ndim != 2:
            got = str(tuple(targets.shape)) if isinstance(targets, Tensor) else type(targets).__name__
            raise InputError("targets", "ROLELoss", "be (M, K)", got, "Pass the targets of the training data.")
        check_target_values("ROLELoss", targets)
        guesses = (2 * torch.rand(targets.shape, generator=generator) - 1) * logit(0.6)
        self.guesses = nn.Parameter(torch.where(targets.cpu() > 0, logit(0.995), guesses).to(targets.device))
        self.expected_labels = check_number("expected_labels", "ROLELoss", expected_labels, "[0, inf)")

    def forward(self, scores: Tensor, targets: Tensor, rows: Tensor | None = None) -> Tensor:
        """The loss of a batch whose rows have these numbers in the training data."""
        return super().forward(scores, targets, rows)

    def terms(self, batch: LossBatch) -> list[Term]:
        """Half of what the guesses teach the scores, and half of what the scores teach the guesses."""
        guesses = self.batch_guesses(batch).to(batch.scores.dtype)
        halves = [*self.half_terms(batch, batch.scores, guesses), *self.half_terms(batch, guesses, batch.scores)]
        return [Term(term.values / 2, term.count) for term in halves]

    def half_terms(self, batch: LossBatch, student: Tensor, teacher: Tensor) -> list[Term]:
        """Cross-entropy of the learner to the teacher's probabilities, and the learner's squared excess of labels."""
        teacher_probs = torch.sigmoid(teacher.detach())
        cells = (batch.targets + teacher_probs) * softplus(-student) + (1 - teacher_probs) * softplus(student)
        sizes = batch.row_sizes().sum()
        labels = sizes / batch.rows().sum().clamp(min=1)
        excess = count_excess(batch, torch.sigmoid(student), self.expected_labels) / labels.clamp(min=1)
        return [Term(batch.mask(cells), sizes), Term(excess.square(), 1.0)]

    def batch_guesses(self, batch: LossBatch) -> Tensor:
        """The guesses of the batch's rows, (N, K)."""
        rows, count = batch.extra, self.guesses.shape[0]
        if rows is None or rows.shape != batch.targets.shape[:1] or rows.is_floating_point():
            got = "nothing" if rows is None else f"{tuple(rows.shape)} of {rows.dtype}"
            hint = "Call loss(scores, targets, rows) with the index of each row in the training data."
            raise InputError("rows", "ROLELoss", f"be (N,) = ({batch.targets.shape[0]},) of whole numbers", got, hint)
        if self.guesses.shape[1] != batch.targets.shape[1]:
            got = f"{batch.targets.shape[1]} labels"
            hint = "Build the loss with the targets of the same data."
            raise InputError("targets", "ROLELoss", f"have K = {self.guesses.shape[1]} labels", got, hint)
        if can_read_values(rows) and rows.numel() and not (int(rows.min()) >= 0 and int(rows.max()) < count):
            got = f"{int(rows.min())} to {int(rows.max())}"
            hint = "Count rows as in the targets that the loss was built with."
            raise InputError("rows", "ROLELoss", f"lie between 0 and {count - 1}", got, hint)
        return self.guesses.index_select(0, rows)
