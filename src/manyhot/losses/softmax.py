"""Softmax losses, losses for sets of labels, and uniform classification."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor, nn

from manyhot.checks import LossBatch, check_choice, check_int, check_number
from manyhot.errors import InputError
from manyhot.heads import CosineHead, Head, LinearHead
from manyhot.links import SoftmaxLink
from manyhot.losses.binary import BinaryCrossEntropyLoss
from manyhot.losses.loss import Loss, RowLoss, Term
from manyhot.numerics import softplus


def log_softmax(batch: LossBatch) -> Tensor:
    """log p over the known labels of every row; unknown cells are masked."""
    return torch.log_softmax(batch.masked_scores, dim=1)


def softmax_rows(log_p: Tensor, targets: Tensor) -> Tensor:
    """-sum_k (y_k / sum y) log p_k of every row, (N,); 0 for rows without labels."""
    return -(targets * log_p).sum(1) / targets.sum(1).clamp(min=1)


def uniform_divergence(batch: LossBatch, log_p: Tensor) -> Tensor:
    """KL(uniform || p) of every row, (N,): zero when no label is preferred."""
    sizes = batch.row_sizes().clamp(min=1)
    return -torch.log(sizes) - batch.mask(log_p).sum(1) / sizes


def largest_log_prob(batch: LossBatch, log_p: Tensor) -> Tensor:
    """max_k log p_k of every row, (N,): smallest when no label is preferred."""
    return log_p.amax(1) if log_p.shape[1] else log_p.sum(1)


class SoftmaxCrossEntropyLoss(RowLoss):
    """Softmax cross-entropy for one label per row, with a choice of the term for rows without a label.

    row = LSE(s) - s_y
    loss = mean over labelled rows + no_label_weight * mean over no-label rows of the chosen term

    Shape: scores (N, K), targets (N, K) in {1, 0, -1} with at most one label per row; returns (), or (N,) for
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
        >>> loss = SoftmaxCrossEntropyLoss(no_label="uniform")
        >>> loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 0]]))
        tensor(0.2470)
    """

    single_label = True
    link: SoftmaxLink

    def __init__(self, *, no_label: str = "ignore", no_label_weight: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.link = SoftmaxLink()
        self.no_label = check_choice("no_label", "SoftmaxCrossEntropyLoss", no_label, ("ignore", "uniform", "maxconf"))
        self.no_label_weight = check_number("no_label_weight", "SoftmaxCrossEntropyLoss", no_label_weight, "[0, inf)")
        if no_label != "ignore":
            check_choice("reduction", "SoftmaxCrossEntropyLoss with no-label term", reduction, ("mean",))

    def terms(self, batch: LossBatch) -> list[Term]:
        """The mean over labelled rows, and that over no-label rows where one is wanted."""
        log_p, labelled = log_softmax(batch), batch.labelled_rows()
        terms = [Term(softmax_rows(log_p, batch.targets), labelled.sum())]
        if self.no_label != "ignore":
            empty = batch.rows() - labelled
            term = uniform_divergence if self.no_label == "uniform" else largest_log_prob
            terms.append(Term(self.no_label_weight * empty * term(batch, log_p), empty.sum()))
        return terms


class MultiLabelSoftmaxLoss(RowLoss):
    """Softmax cross-entropy with a row's labels sharing the target evenly: the simplest way from one label to several.

    row = -sum_k (y_k / sum y) log softmax_k(s)

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; returns (), or (N,) for reduction "none".
    Link: none. The probabilities of a row sum to 1 however many labels it has, so they need a fitted
        calibrator. With one label per row it is `SoftmaxCrossEntropyLoss`, which has a link.
    No-label rows: left out of the mean.

    Args:
        reduction: "mean" over labelled rows, "sum" or "none".

    Example:
        >>> MultiLabelSoftmaxLoss()(torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([[1, 0, 1]]))
        tensor(0.9076)
    """

    def terms(self, batch: LossBatch) -> list[Term]:
        """The mean over labelled rows."""
        return [Term(softmax_rows(log_softmax(batch), batch.targets), batch.labelled_rows().sum())]


class AverageKLoss(Loss):
    """Trains sets whose size follows the ambiguity of the sample and averages K, from one label per row.

    One head learns by cross-entropy and proposes candidates: the (K-1) N most probable cells of the batch besides the
    labels. The other learns with sigmoids that labels and candidates are present and the rest absent.

    loss = CE(first head) + mean_labels softplus(-s) + alpha mean_candidates softplus(-s) + alpha mean_rest softplus(s)

    Shape: scores (N, 2, K) as `TwoHeads` gives them, first the proposing head; targets (N, K) in {1, 0, -1} with at
        most one label per row; returns ().
    Link: none: candidates are not observations. Fit a calibrator to read either head's scores as probabilities.
    No-label rows: left out of every term.

    Args:
        k: The mean set size, at least 1; need not be whole.
        alpha: Weight of candidates and rest; the paper tunes it between 0.1 and 10.

    Reference: Garcin, Servajean, Joly and Salmon, A Two-Head Loss Function for Deep Average-K Classification. Means are
        over the actual counts as in their equation 9, which stays defined where equation 14 divides 0 by 0.

    Example:
        >>> scores = torch.tensor([[[2.0, 1.0, 0.0], [1.0, 1.0, -1.0]]])
        >>> AverageKLoss(2)(scores, torch.tensor([[1, 0, 0]]))
        tensor(1.3474)
    """

    mixes_rows = True
    single_label = True
    heads = 2

    def __init__(self, k: float, *, alpha: float = 1.0) -> None:
        super().__init__()
        self.k = check_number("k", "AverageKLoss", k, "[1, inf)")
        self.alpha = check_number("alpha", "AverageKLoss", alpha, "[0, inf)")

    def candidates(self, batch: LossBatch) -> Tensor:
        """(N, K), 1 for the cells that the first head proposes; no gradient."""
        return self._propose(batch, log_softmax(dataclasses.replace(batch, scores=batch.scores[:, 0])))

    def _propose(self, batch: LossBatch, log_p: Tensor) -> Tensor:
        """The most probable cells besides the labels, ties by row-major order."""
        labelled = batch.labelled_rows()
        eligible = batch.absent * labelled.unsqueeze(1)
        # By log-softmax, since probabilities themselves would tie at 0 and 1.
        keys = torch.where(eligible > 0, log_p.detach(), -torch.inf).flatten()
        # A bound of the count that does not depend on values.
        most = min(math.floor((self.k - 1) * labelled.shape[0] + 1e-6), keys.numel())
        if most == 0:
            return torch.zeros_like(eligible)
        count = torch.minimum(torch.floor((self.k - 1) * labelled.double().sum() + 1e-6), eligible.sum()).long()
        level = torch.topk(keys, most).values.gather(0, (count - 1).clamp(0, most - 1).view(1))
        # Everything above the level of the last candidate is in; of the cells that tie at the level, the first ones.
        above, level_cells = keys > level, keys == level
        chosen = above | (level_cells & (torch.cumsum(level_cells, dim=0) <= count - above.sum()))
        return (chosen & (count > 0)).view_as(eligible).to(log_p.dtype) * eligible

    def terms(self, batch: LossBatch) -> list[Term]:
        """Cross-entropy of the first head; labels, candidates and rest of the second."""
        labelled = batch.labelled_rows()
        log_p = log_softmax(dataclasses.replace(batch, scores=batch.scores[:, 0]))
        candidates, scores = self._propose(batch, log_p), batch.scores[:, 1]
        rest = batch.absent * labelled.unsqueeze(1) - candidates
        present, absent = softplus(-scores), softplus(scores)
        return [
            Term(softmax_rows(log_p, batch.targets), labelled.sum()),
            Term(batch.targets * present, labelled.sum()),
            Term(self.alpha * candidates * present, candidates.sum()),
            Term(self.alpha * rest * absent, rest.sum()),
        ]


class NoisedTopKLoss(RowLoss):
    """Hinge against the (K+1)-th largest score, smoothed by noise: for returning exactly K labels.

    row = max(0, 1 + top - s_y), top = mean over draws of the (k+1)-th largest of s + epsilon * noise

    Shape: scores (N, K), targets (N, K) in {1, 0, -1} with at most one label per row; returns (), or (N,) for
        reduction "none". Optional: `noise` (N, draws, K); without it, standard normal noise is drawn.
    Link: none, the scores only rank. Fit a calibrator to read them as probabilities.
    No-label rows: left out of the mean.

    Args:
        k: Size of the sets, at least 1 and below the number of labels.
        epsilon: Size of the noise.
        draws: How many draws are averaged.
        reduction: "mean" over labelled rows, "sum" or "none".

    Reference: Garcin et al., Stochastic Smoothing of the Top-K Calibrated Hinge Loss for Deep Imbalanced
        Classification, ICML 2022, the balanced form.

    Example:
        >>> loss = NoisedTopKLoss(1, epsilon=0.0)
        >>> loss(torch.tensor([[2.0, 1.5, 0.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.5000)
    """

    single_label = True
    extra = "noise"

    def __init__(self, k: int, *, epsilon: float = 1.0, draws: int = 5, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.k = check_int("k", "NoisedTopKLoss", k, low=1)
        self.epsilon = check_number("epsilon", "NoisedTopKLoss", epsilon, "[0, inf)")
        self.draws = check_int("draws", "NoisedTopKLoss", draws, low=1)

    def forward(self, scores: Tensor, targets: Tensor, noise: Tensor | None = None) -> Tensor:
        """The loss of a batch, with this noise or with a new one."""
        return super().forward(scores, targets, noise)

    def terms(self, batch: LossBatch) -> list[Term]:
        """The mean over labelled rows."""
        rows, num_labels = batch.scores.shape
        if self.k >= num_labels:
            hint = "Use a smaller set size: with all labels in the set nothing is left to learn."
            raise InputError("k", "NoisedTopKLoss", f"be below the number of labels {num_labels}", str(self.k), hint)
        noise = self.sample_noise(batch.scores) if batch.extra is None else batch.extra.to(batch.scores)
        if noise.ndim != 3 or noise.shape[0] != rows or noise.shape[2] != num_labels:
            rule = f"be (N, draws, K) with N = {rows} and K = {num_labels}"
            raise InputError("noise", "NoisedTopKLoss", rule, str(tuple(noise.shape)), "Leave it out to have it drawn.")
        noised = torch.add(batch.masked_scores.unsqueeze(1), noise, alpha=self.epsilon)
        top = torch.topk(noised, self.k + 1, dim=2).values[..., -1].mean(1)
        labelled = batch.labelled_rows()
        own = (batch.targets * batch.scores).sum(1)
        return [Term(labelled * (1 + top - own).clamp(min=0), labelled.sum())]

    def sample_noise(self, scores: Tensor) -> Tensor:
        """New noise from the global generator of the scores' device."""
        return torch.randn(scores.shape[0], self.draws, scores.shape[1], dtype=scores.dtype, device=scores.device)


UNIFORM_LOSSES = tuple(f"{kind}-{head}{bias}" for kind in ("soft", "bce") for head in ("", "n") for bias in "0du")


def uniform_classifier(name: str, in_features: int, num_labels: int, *, scale: float = 96.0) -> tuple[Head, Loss]:
    """Head and loss of one of the twelve combinations {softmax, BCE} x {linear, cosine} x {no, diverse, unified bias}.

    Args:
        name: "soft" or "bce", a dash, "n" for a normalised (cosine) head, and "0" (no bias), "d" (one per label) or
            "u" (one for all). "bce-nu" is the one that the paper calls UCE.
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
    loss = SoftmaxCrossEntropyLoss() if kind == "soft" else BinaryCrossEntropyLoss(reduction="batchmean")
    if head_name.startswith("n"):
        return CosineHead(in_features, num_labels, bias=bias, scale=scale), loss
    return LinearHead(in_features, num_labels, bias=bias), loss


class ClassWiseLoss(RowLoss):
    """BCE in which all scores of a row are compared with the threshold of the row's own label: class-wise uniformity.

    row = softplus(b_y - s_y) + sum over other labels j of softplus(s_j - b_y)

    Shape: scores (N, K) without a bias, targets (N, K) in {1, 0, -1} with at most one label per row; returns (), or
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

    single_label = True

    def __init__(self, num_labels: int, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.bias = nn.Parameter(torch.zeros(check_int("num_labels", "ClassWiseLoss", num_labels, low=1)))

    def terms(self, batch: LossBatch) -> list[Term]:
        """The mean over labelled rows."""
        if self.bias.shape[0] != batch.scores.shape[1]:
            got, hint = f"{batch.scores.shape[1]} labels", "Build the loss with the number of labels of the head."
            raise InputError("scores", "ClassWiseLoss", f"have K = {self.bias.shape[0]} labels", got, hint)
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
        hint = "With one label, or equal scores, no finite threshold is best."
        raise InputError("num_labels", "optimal_bias", "be at least 2 with low < high", got, hint)
    others = num_labels - 1
    skew = (num_labels - 2) * math.exp((low - high) / 2) / (2 * math.sqrt(others))
    return (low + high) / 2 + math.log(others) / 2 + math.asinh(skew)
