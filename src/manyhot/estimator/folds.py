"""Scores of samples by heads that have not seen them: what strength, calibrator and rule are learnt from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from manyhot.linear.result import LinearPath
from manyhot.links import NoLink, QuasibinaryLink
from manyhot.losses.loss import Loss
from manyhot.metrics.precision import average_precision
from manyhot.metrics.probability import LogLoss

Fit = Callable[[Tensor, Tensor], LinearPath]


class Unseen(NamedTuple):
    """What cross-validation found.

    Attributes:
        best: The number of the best strength on the path.
        scores: (N, K) of each sample by the head of the best strength that has not seen it.
    """

    best: int
    scores: Tensor


def deal(targets: Tensor, folds: int, *, seed: int) -> Tensor:
    """(N,) a fold for each row, so that folds are of one size and rare labels are spread over them."""
    present = targets == 1
    order = present.sum(0).argsort(stable=True)
    # The place of a row's rarest label; rows without any come last.
    rarest = torch.where(present[:, order].any(1), present[:, order].int().argmax(1), targets.shape[1])
    shuffled = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))
    ordered = shuffled[rarest[shuffled].argsort(stable=True)]
    dealt = torch.empty(len(targets), dtype=torch.int64)
    dealt[ordered] = torch.arange(len(targets)) % folds
    return dealt


def cross_validate(features: Tensor, targets: Tensor, loss: Loss, fit: Fit, *, folds: int, seed: int) -> Unseen:
    """Fits each path on all folds but one, judges it on that one, and scores it by the best strength of all."""
    dealt = deal(targets, folds, seed=seed)
    judge = judge_of(loss)
    paths, total = [], torch.zeros(())
    for fold in range(folds):
        held_out = dealt == fold
        path = fit(features[~held_out], targets[~held_out])
        figures = path.choose(features[held_out], targets[held_out], by=judge).figures
        # A fold without any label that could be judged has no say.
        total = total + figures.nan_to_num(0.0) * int(held_out.sum())
        paths.append(path)
    best = int(total.argmax())
    scores = torch.zeros(targets.shape, dtype=paths[0].weights.dtype)
    for fold, path in enumerate(paths):
        scores[dealt == fold] = path.scores(features[dealt == fold], best)
    return Unseen(best, scores)


def judge_of(loss: Loss) -> Callable[[Tensor, Tensor], Tensor]:
    """Log-likelihood where the scores mean probabilities, and mean average precision where they only rank.

    Those of the quasibinary loss mean probabilities but for a constant, which is another one for each head.
    """
    if isinstance(loss.link, NoLink | QuasibinaryLink):
        return lambda scores, targets: average_precision(scores, targets).nanmean()

    def log_likelihood(scores: Tensor, targets: Tensor) -> Tensor:
        probs = loss.link.probs(scores.double())
        if loss.single_label:
            return (probs.clamp(min=1e-15).log() * (targets == 1)).sum(1).mean()
        return -torch.tensor(LogLoss().update(probs, targets).compute()["log_loss"])

    return log_likelihood
