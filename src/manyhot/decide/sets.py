"""Rules that choose a set of labels for each row: the k largest, k on average, or the largest expected F-beta."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.checks import Array, check_int, check_number
from manyhot.decide.rule import Rule, midpoint, reaches_threshold
from manyhot.errors import InputError
from manyhot.sorting import CELLS_IN_CACHE, k_largest, row_blocks


class TopK(Rule):
    """Predicts the k labels with the largest values of each row, of equal ones the lower index.

    Args:
        k: The number of labels per row; all labels are predicted if there are fewer.

    Example:
        >>> TopK(2)(torch.tensor([[0.9, 0.5, 0.5]])).labels
        tensor([[ True,  True, False]])
    """

    def __init__(self, k: int) -> None:
        super().__init__(fitted=True)
        self.k = check_int("k", "TopK", k, low=0)

    def decide(self, values: Tensor) -> Tensor:
        """The k largest labels of each row."""
        labels = torch.zeros_like(values, dtype=torch.bool)
        for rows in row_blocks(values.shape) if self.k else ():
            labels[rows] = k_largest(values[rows], self.k)
        return labels


class AverageK(Rule):
    """Predicts k labels per row on average, more where a row is ambiguous and fewer where it is clear.

    Of the N K values that it is fitted on, the floor(k N) largest are predicted: the threshold lies halfway between the
    last of them and the next one. It uses values only, so it needs no targets, and cells whose target is unknown
    count like all others. Values must be comparable between rows: probabilities, or scores of a loss that adds over
    labels.

    Ties at the threshold are all predicted, so the average can be larger than k then. A k below 1 / N predicts nothing,
    one of at least K predicts all values that are not smaller than those of the fit.

    Args:
        k: The mean number of labels per row, at least 0.

    Attributes:
        threshold: What a value must reach.

    Reference: Garcin, Servajean, Joly and Salmon, A Two-Head Loss Function for Deep Average-K Classification,
        algorithm 1. They apply a softmax to the scores of every model; here the values are not changed.

    Example:
        >>> rule = AverageK(1.5).fit(torch.tensor([[0.9, 0.6, 0.1], [0.8, 0.3, 0.2]]))
        >>> rule(torch.tensor([[0.9, 0.6, 0.1], [0.8, 0.3, 0.2]])).sizes
        tensor([2, 1])
    """

    def __init__(self, k: float) -> None:
        super().__init__()
        self.k = check_number("k", "AverageK", k, "[0, inf)")
        self.threshold: Tensor = nn.Buffer(torch.tensor(torch.nan, dtype=torch.float64))

    def fit_cells(self, values: Tensor, targets: Tensor) -> Self:
        """Learns the threshold from the values."""
        return self.fit_batches([values])

    def fit_batches(self, batches: Iterable[Any] | Callable[[], Iterable[Any]]) -> Self:
        """Learns from more values than fit into memory: the same threshold as `fit` on all of them, to the last bit.

        The batches are read twice for float32 and four times for float64, and never stored.

        Args:
            batches: Values (n, K) in batches, the same in every pass; an iterable that can be iterated several times,
                or a function that returns a new iterator.

        Example:
            >>> parts = torch.tensor([[0.9, 0.6, 0.1], [0.8, 0.3, 0.2]]).split(1)
            >>> f"{AverageK(1.5).fit_batches(parts).threshold:.2f}"
            '0.45'
        """
        if not callable(batches) and iter(batches) is batches:
            hint = "Pass a list, a data loader, or a function that returns a new iterator."
            raise InputError("batches", "AverageK", "allow several passes", "an iterator that ends after one", hint)
        checked = _CheckedBatches(self, batches)

        def positions(cells: int) -> list[int]:
            last = cells - math.floor(min(self.k * checked.rows, cells) + 1e-6)
            return [position for position in (last, last - 1) if position >= 0] if last < cells else []

        selected = order_statistics(checked, positions)
        # The last predicted value and the next one; none where nothing is predicted, one where everything is.
        threshold = np.inf
        if selected:
            last, following = (*(value.numpy() for value in selected), -np.inf)[:2]
            threshold = midpoint(following, last)
        device = None if checked.first is None else checked.first.device
        return self.learn(threshold=torch.tensor(float(threshold), dtype=torch.float64, device=device))

    def decide(self, values: Tensor) -> Tensor:
        """Labels with a value of at least the threshold."""
        return reaches_threshold(values, self.threshold)


class _CheckedBatches:
    """Checked batches that are the same whenever they are gone through."""

    def __init__(self, rule: Rule, batches: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        self.rule, self.batches = rule, batches
        self.rows = 0
        self.first: Tensor | None = None

    def __iter__(self) -> Iterator[Tensor]:
        once_more, rows = self.first is not None, 0
        for batch in self.batches() if callable(self.batches) else self.batches:
            values = self.rule.check_values(batch)
            self.first = values.new_empty(0, values.shape[1]) if self.first is None else self.first
            if values.shape[1] != self.first.shape[1] or values.dtype != self.first.dtype:
                rule = f"have {self.first.shape[1]} labels in {self.first.dtype} like the first one"
                got, hint = f"{values.shape[1]} in {values.dtype}", "Convert them to one type, with the same labels."
                raise InputError("batches", "AverageK", rule, got, hint)
            rows += len(values)
            yield values
        if once_more and rows != self.rows:
            rule, got = "be the same in every pass", f"{self.rows} rows, then {rows}"
            raise InputError("batches", "AverageK", rule, got, "Leave them as they are while fitting.")
        self.rows = rows


DIGIT_BITS = 16  # bits that one pass over the data settles
DIGIT_VALUES = 1 << DIGIT_BITS
INTEGER_TYPES = {torch.float32: torch.int32, torch.float64: torch.int64}


def order_statistics(batches: Iterable[Tensor], choose_positions: Callable[[int], list[int]]) -> list[Tensor]:
    """The numbers at positions of the ascending order, in two passes for float32 and four for float64.

    Each pass counts how often the next 16 bits of the numbers occur, among those that share the bits so far; the bits
    are those of integers in the order of the numbers.

    Args:
        batches: Tensors of any shape, all of one type, without NaN; the same ones in each pass.
        choose_positions: From the number of numbers to the positions to select; the smallest number is at position 0.

    Example:
        >>> order_statistics([torch.tensor([0.3, -2.0]), torch.tensor([7.0])], lambda count: [0, count - 1])
        [tensor(-2.), tensor(7.)]
    """
    lowest = -DIGIT_VALUES // 2
    counts, dtype = _count(batches, {lowest}, 0)
    # The bits of each selected number so far, and its position among the numbers that share them.
    selected = [_descend(counts[lowest], lowest, position) for position in choose_positions(int(counts[lowest].sum()))]
    for digit in range(1, torch.finfo(dtype).bits // DIGIT_BITS) if selected else ():
        counts, _ = _count(batches, {bits << DIGIT_BITS for bits, _ in selected}, digit)
        selected = [_descend(counts[bits << DIGIT_BITS], bits << DIGIT_BITS, position) for bits, position in selected]
    numbers = [_reordered(torch.tensor(bits, dtype=INTEGER_TYPES[dtype])).view(dtype) for bits, _ in selected]
    return [number + 0.0 for number in numbers]  # so that minus zero is zero


def _reordered(bits: Tensor) -> Tensor:
    """The bits of floating-point numbers as integers in the order of the numbers, and the other way round."""
    return bits ^ ((bits >> (torch.iinfo(bits.dtype).bits - 1)) & torch.iinfo(bits.dtype).max)


def _count(batches: Iterable[Tensor], starts: set[int], digit: int) -> tuple[dict[int, Tensor], torch.dtype]:
    """How often each value of the next digit occurs after the bits that end in each start; and the type."""
    counts = {start: torch.zeros(DIGIT_VALUES, dtype=torch.int64) for start in starts}
    dtype = torch.float32
    for batch in batches:
        dtype = batch.dtype
        numbers = batch.reshape(-1).view(INTEGER_TYPES[dtype])
        for block in row_blocks((len(numbers), 1)):
            bits = _reordered(numbers[block]) >> (torch.finfo(dtype).bits - DIGIT_BITS * (digit + 1))
            for start, count in counts.items():
                values = bits - start if digit == 0 else bits[bits >> DIGIT_BITS == start >> DIGIT_BITS] - start
                count += torch.bincount(values, minlength=DIGIT_VALUES).cpu()
    return counts, dtype


def _descend(counts: Tensor, start: int, position: int) -> tuple[int, int]:
    """The bits of the number at a position with its next digit, and its position among those that share them."""
    ends = counts.cumsum(0)
    digit = int(torch.searchsorted(ends, position, right=True))
    return start + digit, position - int(ends[digit] - counts[digit])


# What may be lost of an expected F-beta, out of 1, by leaving out what hardly ever happens.
NEGLIGIBLE = 1e-10
# Sets whose expected F-beta differs by no more than this count as equally good; the smallest of them is predicted.
TIE_TOLERANCE = 5e-10


class ExpectedFBeta(Rule):
    """Predicts the set of labels with the largest expected F-beta for each row: for evaluation by the F1 of samples.

    The expectation is over the labels that may be present, taken as independent with the given probabilities. The best
    set of each size holds the most probable labels, so K + 1 sets are compared, exactly. Unlike a threshold, the rule
    uses the whole row: a label of 40 % is predicted where nothing is certain, but not beside a nearly certain one.

    The F-beta of an empty set is 1 if no label is present and 0 otherwise, so "none of these" is predicted where it
    is probable enough. Equally good sets go to the smallest, and equal probabilities to the lower index.

    Expectations are exact to about 1e-10. Time grows with K times the square root of the number of labels that can be
    present, not with the square or cube of K.

    Args:
        beta: Above 1 recall counts more, below 1 precision.

    Reference: Ye, Chai, Lee and Chieu, Optimizing F-Measures: A Tale of Two Approaches, ICML 2012; Waegeman,
        Dembczynski, Jachnik, Cheng and Huellermeier, On the Bayes-Optimality of F-Measure Maximizers, JMLR 2014. The
        former take beta squared to be a ratio of small whole numbers; here any beta does, because the expectation is an
        integral, computed by quadrature.

    Example:
        >>> ExpectedFBeta()(torch.tensor([[0.9, 0.5, 0.1], [0.5, 0.4, 0.2], [0.2, 0.1, 0.1]])).labels
        tensor([[ True,  True, False],
                [ True,  True, False],
                [False, False, False]])
    """

    needs_probs = True

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__(fitted=True)
        self.beta = check_number("beta", "ExpectedFBeta", beta, "(0, inf)")

    def decide(self, values: Tensor) -> Tensor:
        """The set of each row with the largest expected F-beta."""
        if torch.compiler.is_exporting():
            return self._best_sets(values.double())
        labels = torch.zeros_like(values, dtype=torch.bool)
        # Rows with similar numbers of labels need sums of similar length.
        order = values.sum(1, dtype=torch.float64).argsort()
        for block in row_blocks(values.shape, CELLS_IN_CACHE if values.device.type == "cpu" else None):
            rows = order[block]
            labels[rows] = self._best_sets(values[rows].double())
        return labels

    def _best_sets(self, probs: Tensor) -> Tensor:
        if torch.compiler.is_exporting():  # in ONNX, equal values of `topk` go by their index
            ordered, indices = probs.topk(probs.shape[1], dim=1)
        else:
            ordered, indices = probs.sort(dim=1, descending=True, stable=True)
        expected = expected_f(ordered, self.beta, _largest_set(ordered, self.beta))
        good = expected >= expected.amax(1, keepdim=True) - TIE_TOLERANCE
        sizes = good.long().argmax(1, keepdim=True)
        predicted = (torch.arange(probs.shape[1], device=probs.device) < sizes).long()
        return torch.zeros_like(predicted).scatter(1, indices, predicted) > 0


def _largest_set(probs: Tensor, beta: float) -> int:
    """The largest number of labels that the best set of any row can hold.

    Two bounds by Jensen's inequality on the expected F-beta of the first k labels, of which s are right on average:
    not above (1 + beta^2) s / (beta^2 s + k), which falls with k, nor below (1 + beta^2) s / (beta^2 (1 + mean) + k).
    """
    if torch.compiler.is_exporting():  # the shape of a graph does not depend on the data
        return probs.shape[1]
    right, weight = probs.cumsum(1), beta**2
    sizes = torch.arange(1, probs.shape[1] + 1, dtype=torch.float64, device=probs.device)
    upper_bound = right / (weight * right + sizes)
    lower_bound = (right / (weight * (1 + right[:, -1:]) + sizes)).amax(1, keepdim=True) if probs.numel() else right
    return int((upper_bound >= lower_bound).any(0).sum())


def expected_f(probs: Tensor, beta: float, largest: int) -> Tensor:
    """The expected F-beta of predicting the first k labels, for each k from 0 to the largest.

    With T labels present, R of them among the first k, F-beta is (1 + w) R / (k + w T), w = beta^2. As 1 / a is the
    integral of x^(a - 1) from 0 to 1, the expectation over independent labels is that of

    (1 + w) x^(k - 1) sum over i up to k of p_i x^w product over j other than i of (1 - p_j + p_j x^w)

    of which no term is negative, so that nothing cancels.

    Args:
        probs: (N, K) in float64, the probabilities of independent labels; descending to make these the best sets.
        beta: The weight of recall.
        largest: The largest k.

    Example:
        >>> expected_f(torch.tensor([[0.9, 0.4]], dtype=torch.float64), 1.0, 2)
        tensor([[0.0600, 0.7800, 0.7467]], dtype=torch.float64)
    """
    absent, first = 1 - probs, probs[:, :largest]
    total = torch.zeros_like(first)
    for base, factors in zip(*quadrature(beta**2, _max_labels(probs), largest), strict=True):
        either = torch.add(absent, probs, alpha=float(base))
        hits = (first / either[:, :largest]).cumsum(1)
        total = total + hits * torch.from_numpy(factors).to(probs) * either.prod(1, keepdim=True)
    return torch.cat([absent.prod(1, keepdim=True), total], dim=1)


gauss_nodes = cache(np.polynomial.legendre.leggauss)


def quadrature(weight: float, most: int, largest: int) -> tuple[Array, Array]:
    """x^w at nodes of x, and there (1 + w) x^(w + k - 1) for each k with the weight of the node.

    Weighted sums over the nodes are integrals from 0 to 1, to about 1e-12. Gauss's rule is exact for polynomials up to
    twice the number of nodes, and nearly so up to its square, since its nodes crowd at the ends. Where powers are not
    whole, they are made large by a change of variable, so that they are smooth; where w is large, small enough.

    Args:
        weight: w.
        most: The largest number of present labels that matters, that is the largest power of x^w.
        largest: The largest k.
    """
    power = 1.0 if weight in (1, 2, 3, 4) else 4 / max(weight, 1)
    degree = power * (weight * most + largest)
    number = math.ceil(min(degree / 2 + 2, 2.5 * math.sqrt(degree) + 16))
    whole = power.is_integer() and (power * weight).is_integer()
    nodes, node_weights = gauss_nodes(number if whole else max(number, 64))
    nodes, node_weights = (nodes + 1) / 2, node_weights / 2
    bases = nodes ** (power * weight)
    factors = (1 + weight) * power * node_weights * bases / nodes
    return bases, factors[:, None] * nodes[:, None] ** (power * np.arange(1, largest + 1))


def _max_labels(probs: Tensor) -> int:
    """How many labels can be present in any of the rows, but for a negligible probability (Chernoff's bound)."""
    labels = probs.shape[1]
    if torch.compiler.is_exporting():
        return labels
    mean = float(probs.sum(1).max()) if len(probs) else 0.0
    numbers = np.arange(math.floor(mean) + 1, labels)
    possible = numbers - mean - numbers * np.log(numbers / max(mean, 1e-300)) > math.log(NEGLIGIBLE)
    return min(math.floor(mean) + 1 + int(possible.sum()), labels)
