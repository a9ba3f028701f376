"""Uniform classification: one threshold for all samples, the twelve losses, and the class-wise loss."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from manyhot.checks import Batch, check_choice, check_count
from manyhot.heads import CosineHead, Head, LinearHead
from manyhot.losses.binary import BinaryCrossEntropyLoss
from manyhot.losses.loss import Loss, Term
from manyhot.losses.softmax import CrossEntropyLoss
from manyhot.numerics import softplus
from manyhot.refusal import refusal

UNIFORM_LOSSES = tuple(f"{kind}-{head}{bias}" for kind in ("soft", "bce") for head in ("", "n") for bias in "0du")


def uniform_classifier(name: str, in_features: int, num_labels: int, *, scale: float = 96.0) -> tuple[Head, Loss]:
    """Head and loss of one of the twelve combinations {softmax, BCE} x {linear, cosine} x {no, diverse, unified bias}.

    Args:
        name: "soft" or "bce", a dash, "n" for a normalised (cosine) head, and "0" (no bias), "d" (one a label) or "u"
            (one for all). "bce-nu" is the one that the paper calls UCE.
        in_features: Width of the features.
        num_labels: Number of labels.
        scale: The factor gamma on the cosine.

    Reference: Li, Jia, Zhou, Shen and Duan, Rediscovering BCE Loss for Uniform Classification, table I. BCE sums over
        labels and averages over rows; without label mixing it also takes rows with zero or many labels.

    Example:
        >>> head, loss = uniform_classifier("bce-nu", in_features=8, num_labels=3)
        >>> head
        CosineHead(in_features=8, num_labels=3, bias='shared', scale=96)
        >>> head.threshold()
        tensor(0.)
    """
    kind, head_name = check_choice("name", "uniform_classifier", name, UNIFORM_LOSSES).split("-")
    bias = {"0": "none", "d": "label", "u": "shared"}[head_name[-1]]
    loss = CrossEntropyLoss() if kind == "soft" else BinaryCrossEntropyLoss(reduction="batchmean")
    if head_name.startswith("n"):
        return CosineHead(in_features, num_labels, bias=bias, scale=scale), loss
    return LinearHead(in_features, num_labels, bias=bias), loss


class ClassWiseLoss(Loss):
    """BCE in which all scores of a row are compared with the threshold of the row's own label: class-wise uniformity.

    row = softplus(b_y - s_y) + sum over other labels j of softplus(s_j - b_y)

    Shape: scores (N, K) without a bias, targets (N, K) in {1, 0, -1} with one label a row at the most; returns (), or
        (N,) for reduction "none".
    Link: none: an absent label's score is compared with another label's threshold. Fit a calibrator.
    No-label rows: left out of the mean, since they have no threshold.

    Args:
        num_labels: Number of labels.
        reduction: "mean" over labelled rows, "sum" or "none".

    Attributes:
        bias: (K,), the thresholds; a parameter, to be given to the optimiser.

    Reference: Li et al., Rediscovering BCE Loss for Uniform Classification, equation 63.

    Example:
        >>> loss = ClassWiseLoss(2)
        >>> loss(torch.tensor([[1.0, -1.0]]), torch.tensor([[1, 0]]))
        tensor(0.6265, grad_fn=<DivBackward0>)
    """

    reductions = ("mean", "sum", "none")
    single_label: ClassVar[bool] = True

    def __init__(self, num_labels: int, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.bias = nn.Parameter(torch.zeros(check_count("num_labels", "ClassWiseLoss", num_labels, low=1)))

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The mean over labelled rows."""
        if self.bias.shape[0] != batch.scores.shape[1]:
            got, remedy = f"{batch.scores.shape[1]} labels", "Build the loss with the number of labels of the head."
            raise refusal("scores", "ClassWiseLoss", f"have K = {self.bias.shape[0]} labels", got, remedy)
        labelled = batch.labelled_rows()
        own = (batch.targets * self.bias.to(batch.scores.dtype)).sum(1, keepdim=True)
        distance = batch.scores - own
        cells = batch.targets * softplus(-distance) + batch.absent * softplus(distance)
        return [Term(labelled * cells.sum(1), labelled.sum())]


def optimal_bias(num_labels: int, low: float, high: float) -> float:
    """The shared threshold that BCE learns when every row's own label scores `high` and all others score `low`.

    It separates the two (low < b < high) only if there are fewer than (e^(high - low) + 3) / 2 labels.

    Args:
        num_labels: Number of labels, at least 2.
        low: Score of absent labels.
        high: Score of the present label.

    Reference: Li et al., corollary 1, equation 45, in a form that does not overflow.

    Example:
        >>> round(optimal_bias(1000, -1.0, 1.0), 4)
        5.9131
    """
    if num_labels < 2 or not low < high:
        got = f"{num_labels} labels from {low:g} to {high:g}"
        remedy = "With one label, or equal scores, no finite threshold is best."
        raise refusal("num_labels", "optimal_bias", "be at least 2 with low < high", got, remedy)
    others = num_labels - 1
    skew = (num_labels - 2) * math.exp((low - high) / 2) / (2 * math.sqrt(others))
    return (low + high) / 2 + math.log(others) / 2 + math.asinh(skew)
