"""The set of labels with the largest expected F-beta."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from manyhot.checks import check_number
from manyhot.decide.cuts import BLOCK_CELLS, row_blocks
from manyhot.decide.rule import Rule

# What may be lost of an expected F-beta, out of 1, by leaving out what hardly ever happens.
NEGLIGIBLE = 1e-10
# Sets whose expected F-beta differs by no more than this are taken to be equally good, and the smallest of them wins.
EQUAL = 5e-10
# Cells worked on at once on the CPU: few enough to stay in the cache.
CELLS = 1 << 16


class ExpectedF(Rule):
    """Gives each row the set of labels with the largest expected F-beta: for samples judged one by one by F1.

    The expectation is over the labels that may be present, taken as independent with the given probabilities. The best
    set of each size holds the most probable labels, so K + 1 sets are compared, exactly. Unlike a threshold, the rule
    looks at a row as a whole: a label of 40 % is worth giving where nothing is certain, and not beside a sure one.

    The F-beta of an empty set is 1 if no label is present and 0 otherwise, so "none of these" is given where it is
    probable enough. Equally good sets go to the smallest, and equal probabilities to the lower index.

    Nothing is left out but numbers of present labels so large that together their probability is below 1e-10. Time
    grows with K times the largest number that is left, not with the square or cube of K.

    Args:
        beta: Above 1 recall counts more, below 1 precision.

    Reference: Ye, Chai, Lee and Chieu, Optimizing F-Measures: A Tale of Two Approaches, ICML 2012; Waegeman,
        Dembczynski, Jachnik, Cheng and Huellermeier, On the Bayes-Optimality of F-Measure Maximizers, JMLR 2014. The
        former take beta squared to be a ratio of small whole numbers; here any beta does, because the number of other
        labels is found by taking each label out of the number of all.

    Example:
        >>> ExpectedF()(torch.tensor([[0.9, 0.5, 0.1], [0.5, 0.4, 0.2], [0.2, 0.1, 0.1]])).labels
        tensor([[ True,  True, False],
                [ True,  True, False],
                [False, False, False]])
    """

    needs_probs = True

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__(fitted=True)
        self.beta = check_number("beta", "ExpectedF", beta, low=0, low_open=True)

    def decide(self, values: Tensor) -> Tensor:
        """The set of each row with the largest expected F-beta."""
        labels = torch.zeros_like(values, dtype=torch.bool)
        # Rows with similar numbers of labels need sums of similar length.
        order = values.sum(1, dtype=torch.float64).argsort()
        for block in row_blocks(values.shape, CELLS if values.device.type == "cpu" else BLOCK_CELLS):
            rows = order[block]
            labels[rows] = self._best_sets(values[rows].double())
        return labels

    def _best_sets(self, probs: Tensor) -> Tensor:
        ordered, places = probs.sort(dim=1, descending=True, stable=True)
        expected = expected_f(ordered, self.beta, _largest_set(ordered, self.beta))
        best = expected.amax(1, keepdim=True)
        sizes = (expected >= best - EQUAL).to(torch.int8).argmax(1, keepdim=True)
        given = torch.arange(probs.shape[1], device=probs.device) < sizes
        return torch.zeros_like(given).scatter(1, places, given)


def _largest_set(probs: Tensor, beta: float) -> int:
    """How many of the most probable labels the best set of any row can hold at the most.

    Two bounds by Jensen's inequality on the expected F-beta of the first k labels, of which s are right on average:
    not above (1 + beta^2) s / (beta^2 s + k), which falls with k, nor below (1 + beta^2) s / (beta^2 (1 + mean) + k).
    """
    right, weight = probs.cumsum(1), beta**2
    sizes = torch.arange(1, probs.shape[1] + 1, dtype=torch.float64, device=probs.device)
    at_most = right / (weight * right + sizes)
    at_least = (right / (weight * (1 + right[:, -1:]) + sizes)).amax(1, keepdim=True) if probs.numel() else right
    return int((at_most >= at_least).any(0).sum())


def expected_f(probs: Tensor, beta: float, largest: int) -> Tensor:
    """The expected F-beta of giving the first k labels, for each k from 0 to the largest.

    Args:
        probs: (N, K) in float64, the probabilities of independent labels; descending to make these the best sets.
        beta: The weight of recall.
        largest: The largest k.

    Example:
        >>> expected_f(torch.tensor([[0.9, 0.4]], dtype=torch.float64), 1.0, 2)
        tensor([[0.0600, 0.7800, 0.7467]], dtype=torch.float64)
    """
    numbers = _number_of_labels(probs, _most_labels(probs))
    probs = probs[:, :largest].contiguous()
    total = torch.zeros_like(probs)
    weight, sizes = beta**2, torch.arange(1, largest + 1, dtype=torch.float64, device=probs.device)
    for number, chance in _others(probs, numbers):
        # A label present together with that many others, summed over the first k labels: how many of them are right on
        # average in the cases where number + 1 labels are present.
        total.addcdiv_((probs * chance).cumsum(1), weight * (number + 1) + sizes)
    return torch.cat([numbers[:, :1], (1 + weight) * total], dim=1)


def _most_labels(probs: Tensor) -> int:
    """How many labels can be present in any of the rows, but for a negligible probability (Chernoff's bound)."""
    labels, mean = probs.shape[1], float(probs.sum(1).max()) if probs.numel() else 0.0
    most = math.floor(mean) + 1
    while most < labels and most - mean - most * math.log(most / max(mean, 1e-300)) > math.log(NEGLIGIBLE):
        most += 1
    return min(most, labels)


def _number_of_labels(probs: Tensor, most: int) -> Tensor:
    """(N, most + 1), the probability that this many labels are present: the product of the labels' own spectra.

    More labels than that would appear as fewer, which is as negligible as they are.
    """
    frequencies = torch.arange((most + 1) // 2 + 1, dtype=torch.float64, device=probs.device)
    turns = torch.polar(torch.ones_like(frequencies), -2 * math.pi * frequencies / (most + 1))
    # Into one tensor, because small ones between large ones would leave the memory in pieces.
    spectrum = turns.new_empty(len(probs), len(turns))
    for place, turn in enumerate(turns):
        spectrum[:, place] = torch.prod(probs * (turn - 1) + 1, dim=1)
    numbers: Tensor = torch.fft.irfft(spectrum, n=most + 1, dim=1)
    return numbers


def _others(probs: Tensor, numbers: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Numbers of other labels, each with its probability (N, K) for some of the labels and 0 for the rest of them.

    Each label has its probability once for each number; a tensor is valid until the next is asked for. From
    P(number = j) = (1 - p) P(others = j) + p P(others = j - 1). Solved upwards, an error shrinks by p / (1 - p) each
    time, and solved downwards by (1 - p) / p, so the one serves labels up to 1/2 and the other those above.
    """
    above, most = probs > 0.5, numbers.shape[1] - 1
    rare, frequent = (~above).double(), above.double()
    if bool((rare * probs).any()):
        low = probs.clamp(max=0.5)
        carried, added = low / (low - 1), rare / (1 - low)
        chance = torch.zeros_like(probs)
        for number in range(most):
            yield number, chance.mul_(carried).addcmul_(numbers[:, number, None], added)
    if bool(above.any()):
        high = probs.clamp(min=0.5)
        carried, added = (high - 1) / high, frequent / high
        chance = torch.zeros_like(probs)
        for number in reversed(range(most)):
            yield number, chance.mul_(carried).addcmul_(numbers[:, number + 1, None], added)
