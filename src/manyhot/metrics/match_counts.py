"""How many samples match a query: what the probabilities add up to, against how many there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from manyhot.checks import check_number
from manyhot.metrics.matching import Samples
from manyhot.metrics.metric import Metric, Outcome, State
from manyhot.metrics.retrieval import check_labels, named_queries, narrowed
from manyhot.metrics.rows import divide, zeros
from manyhot.metrics.sorting import CELLS_AT_ONCE

# Up to this count probabilities are added up one by one; beyond, the normal curve with its skewness is as good.
LISTED = 400
# Added to both counts before they are divided, so that none and one are comparable.
HALF = 0.5


class MatchCounts(Metric):
    """Whether the expected number of matches of a tag query, the sum of probabilities, is the number that there are.

    If probabilities are honest and labels are independent given the sample, the number of matches has the
    Poisson-binomial distribution of these probabilities; whether it lies in its central interval is looked up in the
    binomial distribution of the same mean and variance. Values, each over the queries:

    - `count_error`: mean of |log((expected + 1/2) / (true + 1/2))|; 0.1 says that counts are off by 10 %.
    - `count_bias`: the same without the bars: above 0 if too many are expected.
    - `count_ratio`: all expected matches over all true ones.
    - `count_coverage`: the share of queries whose true number lies in the interval; `level` or more if all is well,
      since counts are whole. The interval takes the probabilities as they are; those of a calibrator that learnt from
      fewer rows than are judged are themselves off by more than such counts scatter.

    No-label rows: Samples that match no query that names a present label, as any others.
    Empty queries: A query without a match counts like any other: to expect none is right.
    Unknown cells: A sample is left out of the queries that name one of its unknown labels.
    Memory: Three numbers a query.

    Args:
        queries: Pairs (present, absent) of label numbers, or `TagQueries`.
        level: The probability that the interval holds the number of matches.

    Reference: Ehm, Binomial approximation to the Poisson binomial distribution, 1991. Hong, On computing the
        distribution function for the Poisson binomial distribution, 2013, for the skewed normal curve.

    Example:
        >>> log_odds = torch.tensor([[2.0, -1.0], [1.0, 3.0], [-2.0, 0.5]])
        >>> metric = MatchCounts([([0], []), ([0], [1])]).update(log_odds, torch.tensor([[1, 0], [1, 1], [0, 1]]))
        >>> outcome = metric.compute()
        >>> outcome.details["expected"], outcome.details["true"]
        (tensor([1.7311, 0.7236], dtype=torch.float64), tensor([2, 1]))
        >>> outcome["count_coverage"]
        1.0
    """

    def __init__(self, queries: Sequence[Any], *, level: float = 0.95) -> None:
        self.queries = named_queries(queries, "MatchCounts")
        self.labels = self.queries.labels()
        self.level = check_number("level", "MatchCounts", level, low=0, high=1, low_open=True, high_open=True)
        super().__init__()

    def start(self) -> State:
        """Sums of probabilities, of their squares, and of matches; by query."""
        return zeros(("expected", "squares"), torch.float64) | zeros(("true",), torch.int64)

    def update(self, values: Any, targets: Any) -> Self:
        """Collects log-odds (N, K), as `link.log_odds(scores)` gives them, and targets (N, K); returns itself."""
        values, targets = self._check(values, targets)
        check_labels(self.labels, values.shape[1], "MatchCounts")
        if not len(values):
            return self
        samples = Samples.of(values[:, self.labels], targets[:, self.labels])
        clauses = samples.clauses(narrowed(self.queries, self.labels))
        sums = []
        for some in clauses.split(max(1, CELLS_AT_ONCE // 8 // samples.rows)):
            probs = samples.scores(some).exp_()
            sums.append(torch.stack([probs.sum(1), probs.square_().sum(1)]))
        expected, squares = torch.cat(sums, 1)
        return self.collect(expected=expected, squares=squares, true=samples.match_counts(clauses))

    def compute(self) -> Outcome:
        """The four values, and by query `expected`, its standard `deviation`, `true`, and if that is `within`."""
        expected, squares, true = self.total("expected"), self.total("squares"), self.total("true")
        if not expected.ndim:
            names = ("count_error", "count_bias", "count_ratio", "count_coverage")
            return Outcome(dict.fromkeys(names, math.nan), {"queries": 0, "queries without matches": 0})
        at_most, at_least = count_tails(expected, squares, true)
        outside = (1 - self.level) / 2
        within = (at_most > outside) & (at_least > outside)
        ratios = torch.log((expected + HALF) / (true + HALF))
        values = {
            "count_error": float(ratios.abs().mean()),
            "count_bias": float(ratios.mean()),
            "count_ratio": divide(float(expected.sum()), float(true.sum())),
            "count_coverage": float(within.double().mean()),
        }
        counts = {"queries": len(true), "queries without matches": int((true == 0).sum())}
        deviation = (expected - squares).clamp(min=0).sqrt()
        details = {"expected": expected, "true": true, "deviation": deviation, "within": within}
        return Outcome(values, counts, details)


def count_tails(mean: Tensor, squares: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The probabilities (Q,) of not more and of not fewer than `counts` matches; nearly.

    They are off by less than 0.01 for a thousand samples, and by some hundredths for twenty.

    Args:
        mean: (Q,) float64, the sums of the probabilities that samples match.
        squares: (Q,) float64, the sums of their squares.
        counts: (Q,), whole numbers.
    """
    trials = torch.maximum((mean * mean / squares).nan_to_num(1.0).round(), mean.ceil()).clamp(min=1)
    chance = (mean / trials).clamp(max=1)
    tails = torch.stack(_normal_tails(trials, chance, counts), 1)
    listed = counts <= LISTED
    rows = [
        torch.stack(_binomial_tails(*some), 1)
        for some in zip(
            *(column[listed].split(CELLS_AT_ONCE // LISTED) for column in (trials, chance, counts)), strict=True
        )
    ]
    tails[listed] = torch.cat(rows)
    at_most, at_least = tails.clamp(0, 1).unbind(1)
    return at_most, at_least


def _binomial_tails(trials: Tensor, chance: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of the binomial distribution up to and from a small number on."""
    trials, chance, counts = trials.unsqueeze(1), chance.unsqueeze(1), counts.unsqueeze(1)
    numbers = torch.arange(LISTED + 1, dtype=torch.float64, device=trials.device)
    others = trials - numbers
    ways = torch.lgamma(trials + 1) - torch.lgamma(numbers + 1) - torch.lgamma(others.clamp(min=0) + 1)
    logs = ways + torch.xlogy(numbers, chance) + torch.special.xlog1py(others, -chance)
    shares = torch.where(others >= 0, logs.exp(), 0.0)
    at_most = torch.where(numbers <= counts, shares, 0.0).sum(1)
    return at_most, 1 - torch.where(numbers < counts, shares, 0.0).sum(1)


def _normal_tails(trials: Tensor, chance: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The same for large numbers, by the normal curve with a term for skewness."""
    deviation = (trials * chance * (1 - chance)).sqrt()

    def below(number: Tensor) -> Tensor:
        # Further out than this the curve is flat, and infinity times zero is no number.
        place = ((number - trials * chance) / deviation).nan_to_num(0.0).clamp(-30, 30)
        height = torch.exp(-place * place / 2) / math.sqrt(2 * math.pi)
        skew = ((1 - 2 * chance) / deviation).nan_to_num(0.0, 0.0, 0.0)
        total: Tensor = torch.special.ndtr(place) + skew * (1 - place * place) * height / 6
        return total

    return below(counts + HALF), 1 - below(counts - HALF)
