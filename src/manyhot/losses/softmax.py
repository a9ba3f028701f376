"""Softmax losses: one label a row, several labels a row, and what to do with rows that have none."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from manyhot.checks import Batch, check_choice, check_number
from manyhot.links.normalised import SoftmaxLink
from manyhot.losses.loss import Loss, Term


def log_softmax(batch: Batch) -> Tensor:
    """log p over the known labels of every row; unknown cells lie out of sight."""
    return torch.log_softmax(batch.visible_scores, dim=1)


def softmax_rows(log_p: Tensor, targets: Tensor) -> Tensor:
    """-sum_k (y_k / sum y) log p_k of every row, (N,); 0 for rows without labels."""
    return -(targets * log_p).sum(1) / targets.sum(1).clamp(min=1)


def uniform_divergence(batch: Batch, log_p: Tensor) -> Tensor:
    """KL(uniform || p) of every row, (N,): zero when no label is preferred."""
    sizes = batch.row_sizes().clamp(min=1)
    return -torch.log(sizes) - batch.mask(log_p).sum(1) / sizes


def largest_log_prob(batch: Batch, log_p: Tensor) -> Tensor:
    """max_k log p_k of every row, (N,): smallest when no label is preferred."""
    return log_p.amax(1) if log_p.shape[1] else log_p.sum(1)


class CrossEntropyLoss(Loss):
    """Softmax cross-entropy for one label a row, with a choice of what a row without a label should teach.

    row = LSE(s) - s_y
    loss = mean over labelled rows + no_label_weight * mean over no-label rows of the chosen term

    Shape: scores (N, K), targets (N, K) in {1, 0, -1} with one label a row at the most; returns (), or (N,) for
        reduction "none", which needs `no_label` "ignore".
    Link: softmax, the probability of each class given that exactly one is present; rows sum to 1.
    No-label rows: `no_label` "ignore" leaves them out; "uniform" adds KL(uniform || p); "maxconf" adds max_k log p_k.

    Args:
        no_label: What rows without a label contribute.
        no_label_weight: Weight of that term.
        reduction: "mean", "sum" or "none".

    Reference: "uniform": Lee et al., Training Confidence-Calibrated Classifiers for Detecting Out-of-Distribution
        Samples, ICLR 2018, without the generator. "maxconf": Hein et al., Why ReLU Networks Yield High-Confidence
        Predictions Far Away From the Training Data, CVPR 2019 (CEDA): the logarithm of the largest probability.

    Example:
        >>> loss = CrossEntropyLoss(no_label="uniform")
        >>> loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 0]]))
        tensor(0.2470)
    """

    reductions = ("mean", "sum", "none")
    single_label: ClassVar[bool] = True
    link: SoftmaxLink

    def __init__(self, *, no_label: str = "ignore", no_label_weight: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(SoftmaxLink(), reduction)
        self.no_label = check_choice("no_label", "CrossEntropyLoss", no_label, ("ignore", "uniform", "maxconf"))
        self.no_label_weight = check_number("no_label_weight", "CrossEntropyLoss", no_label_weight, low=0)
        if no_label != "ignore":
            check_choice("reduction", "CrossEntropyLoss with no-label term", reduction, ("mean",))

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The mean over labelled rows, and that over no-label rows where one is wanted."""
        log_p, labelled = log_softmax(batch), batch.labelled_rows()
        terms = [Term(softmax_rows(log_p, batch.targets), labelled.sum())]
        if self.no_label != "ignore":
            empty = batch.rows() - labelled
            term = uniform_divergence if self.no_label == "uniform" else largest_log_prob
            terms.append(Term(self.no_label_weight * empty * term(batch, log_p), empty.sum()))
        return terms


class SoftmaxLoss(Loss):
    """Softmax cross-entropy with a row's labels sharing the target evenly: the simplest way from one label to several.

    row = -sum_k (y_k / sum y) log softmax_k(s)

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; returns (), or (N,) for reduction "none".
    Link: none. The probabilities of a row sum to 1 however many labels it has, so they mean nothing until a calibrator
        has been fitted. With one label a row it is `CrossEntropyLoss`, which has a link.
    No-label rows: left out of the mean.

    Args:
        reduction: "mean" over labelled rows, "sum" or "none".

    Example:
        >>> SoftmaxLoss()(torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([[1, 0, 1]]))
        tensor(0.9076)
    """

    reductions = ("mean", "sum", "none")

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The mean over labelled rows."""
        return [Term(softmax_rows(log_softmax(batch), batch.targets), batch.labelled_rows().sum())]
