"""Losses for sets of labels: average-K with two heads, and top-K with noise."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from manyhot.checks import Batch, check_count, check_number
from manyhot.losses.loss import Loss, Term
from manyhot.losses.softmax import log_softmax, softmax_rows
from manyhot.numerics import floor_count, softplus
from manyhot.refusal import refusal


def propose_candidates(log_p: Tensor, eligible: Tensor, count: Tensor, most: int) -> Tensor:
    """Marks the `count` most probable eligible cells of a batch, ties by row-major order; (N, K), 1 or 0.

    Args:
        log_p: (N, K), log-softmax: probabilities themselves would tie at 0 and 1.
        eligible: (N, K), 1 for cells that may be chosen.
        count: (), how many to choose.
        most: An upper bound of `count` that does not depend on values.
    """
    keys = torch.where(eligible > 0, log_p, -torch.inf).flatten()
    count = torch.minimum(count, eligible.sum()).long()
    if most == 0 or keys.numel() == 0:
        return torch.zeros_like(eligible)
    ranked = torch.topk(keys, min(most, keys.numel())).values
    level = ranked.gather(0, (count - 1).clamp(0, ranked.numel() - 1).view(1))
    # Everything above the level of the last candidate is in; of the cells that tie at the level, the first ones are.
    above, level_cells = keys > level, keys == level
    room = count - above.sum()
    chosen = above | (level_cells & (torch.cumsum(level_cells, dim=0) <= room))
    return ((chosen & (count > 0)).view_as(eligible)).to(log_p.dtype) * eligible


class AverageKLoss(Loss):
    """Trains sets whose size follows the ambiguity of the sample and averages K, from one label a row.

    One head learns by cross-entropy and proposes candidates: the (K-1) N most probable cells of the batch besides the
    labels. The other learns with sigmoids that labels and candidates are present and the rest absent.

    loss = CE(first head) + mean_labels softplus(-s) + alpha mean_candidates softplus(-s) + alpha mean_rest softplus(s)

    Shape: scores (N, 2, K) as `TwoHeads` gives them, first the proposing head; targets (N, K) in {1, 0, -1} with one
        label a row at the most; returns ().
    Link: none: candidates are not observations. Fit a calibrator to read either head's scores as probabilities.
    No-label rows: left out of every term.

    Args:
        k: Mean set size wanted, at least 1; need not be whole.
        alpha: Weight of candidates and rest; the paper tunes it between 0.1 and 10.

    Reference: Garcin, Servajean, Joly and Salmon, A Two-Head Loss Function for Deep Average-K Classification. Means are
        over the actual counts as in their equation 9, which stays defined where equation 14 divides 0 by 0.

    Example:
        >>> scores = torch.tensor([[[2.0, 1.0, 0.0], [1.0, 1.0, -1.0]]])
        >>> AverageKLoss(2)(scores, torch.tensor([[1, 0, 0]]))
        tensor(1.3474)
    """

    mixes_rows = True
    single_label: ClassVar[bool] = True
    heads: ClassVar[int] = 2

    def __init__(self, k: float, *, alpha: float = 1.0) -> None:
        super().__init__()
        self.k = check_number("k", "AverageKLoss", k, low=1)
        self.alpha = check_number("alpha", "AverageKLoss", alpha, low=0)

    def candidates(self, batch: Batch) -> Tensor:
        """(N, K), 1 for the cells that the first head proposes; no gradient."""
        return self._propose(batch, log_softmax(batch._replace(scores=batch.scores[:, 0])))

    def _propose(self, batch: Batch, log_p: Tensor) -> Tensor:
        labelled = batch.labelled_rows()
        eligible = batch.absent * labelled.unsqueeze(1)
        count = floor_count((self.k - 1) * labelled.double().sum())
        most = math.floor((self.k - 1) * labelled.shape[0] + 1e-6)
        return propose_candidates(log_p.detach(), eligible, count, most)

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """Cross-entropy of the first head; labels, candidates and rest of the second."""
        labelled = batch.labelled_rows()
        log_p = log_softmax(batch._replace(scores=batch.scores[:, 0]))
        entropy = softmax_rows(log_p, batch.targets)
        candidates, scores = self._propose(batch, log_p), batch.scores[:, 1]
        rest = batch.absent * labelled.unsqueeze(1) - candidates
        present, absent = softplus(-scores), softplus(scores)
        return [
            Term(entropy, labelled.sum()),
            Term(batch.targets * present, labelled.sum()),
            Term(self.alpha * candidates * present, candidates.sum()),
            Term(self.alpha * rest * absent, rest.sum()),
        ]


class NoisedTopKLoss(Loss):
    """Hinge against the (K+1)-th largest score, smoothed by noise: for returning exactly K labels.

    row = max(0, 1 + top - s_y), top = mean over draws of the (k+1)-th largest of s + epsilon * noise

    Shape: scores (N, K), targets (N, K) in {1, 0, -1} with one label a row at the most; returns (), or (N,) for
        reduction "none". Optional third argument: noise (N, draws, K); without it, standard normal noise is drawn.
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

    reductions = ("mean", "sum", "none")
    single_label: ClassVar[bool] = True
    most_aligned: ClassVar[int] = 1

    def __init__(self, k: int, *, epsilon: float = 1.0, draws: int = 5, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.k = check_count("k", "NoisedTopKLoss", k, low=1)
        self.epsilon = check_number("epsilon", "NoisedTopKLoss", epsilon, low=0)
        self.draws = check_count("draws", "NoisedTopKLoss", draws, low=1)

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The mean over labelled rows."""
        rows, num_labels = batch.scores.shape
        if self.k >= num_labels:
            remedy = "Use a smaller set size: with all labels in the set nothing is left to learn."
            raise refusal("k", "NoisedTopKLoss", f"be below the number of labels {num_labels}", str(self.k), remedy)
        noise = aligned[0].to(batch.scores) if aligned else self.draw(batch.scores)
        if noise.ndim != 3 or noise.shape[0] != rows or noise.shape[2] != num_labels:
            rule = f"be (N, draws, K) with N = {rows} and K = {num_labels}"
            raise refusal("noise", "NoisedTopKLoss", rule, str(tuple(noise.shape)), "Leave it out to have it drawn.")
        noised = torch.add(batch.visible_scores.unsqueeze(1), noise, alpha=self.epsilon)
        top = torch.topk(noised, self.k + 1, dim=2).values[..., -1].mean(1)
        labelled = batch.labelled_rows()
        own = (batch.targets * batch.scores).sum(1)
        return [Term(labelled * (1 + top - own).clamp(min=0), labelled.sum())]

    def draw(self, scores: Tensor) -> Tensor:
        """Fresh noise from the global generator of the scores' device."""
        return torch.randn(scores.shape[0], self.draws, scores.shape[1], dtype=scores.dtype, device=scores.device)
