"""Many tag queries at once over one set of samples: who matches, with what probability, and how well that ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from manyhot.metrics import bits
from manyhot.metrics.sorting import CELLS_AT_ONCE, sort_in_place
from manyhot.metrics.tag_queries import TagQueries


@dataclass(frozen=True)
class Samples:
    """What queries need to know of N samples with K labels, by clause: label present, label absent.

    Row 0 of each table is the empty clause, which fills up the queries that are shorter than others; row 1 + label
    says that the label is present, row 1 + K + label that it is absent.

    Attributes:
        log_probs: (1 + 2K, N) float64, the logarithm of the probability; minus infinity where the label is unknown.
        holds: (1 + 2K, W), bits of the samples for which it is known to be true.
        known: (1 + 2K, W), bits of the samples for which it is known whether it is; None if it always is.
        rows: How many samples there are.
    """

    log_probs: Tensor
    holds: Tensor
    known: Tensor | None
    rows: int

    @classmethod
    def of(cls, log_odds: Tensor, targets: Tensor) -> Samples:
        """From log-odds and targets (N, K)."""
        marks = targets.T
        everyone = marks.new_ones(1, len(targets)).bool()
        holds = torch.cat([everyone, marks == 1, marks == 0])
        # Sums of float32 tie or swap samples that float64 tells apart, and one swap can move a precision by a half.
        columns = log_odds.T.double().contiguous()
        nothing = columns.new_zeros(1, len(targets))
        log_probs = torch.cat([nothing, F.logsigmoid(columns), F.logsigmoid(-columns)])
        if not bool((targets < 0).any()):
            return cls(log_probs, bits.pack(holds), None, len(targets))
        known = torch.cat([everyone, marks >= 0, marks >= 0])
        return cls(log_probs.masked_fill(~known, -math.inf), bits.pack(holds), bits.pack(known), len(targets))

    def clauses(self, queries: TagQueries) -> Tensor:
        """(Q, L), the rows of the tables that each query is made of."""
        codes = queries.codes.to(self.log_probs.device).long()
        return torch.where(codes < 0, len(self.log_probs) // 2 - codes, codes)

    def scores(self, clauses: Tensor) -> Tensor:
        """(Q, N), the log-probability that a sample matches a query if its labels are independent.

        A sum of logarithms, because products of probabilities would be rounded to 0, and order would turn into ties.
        """
        return F.embedding_bag(clauses, self.log_probs, mode="sum")

    def matches(self, clauses: Tensor) -> Tensor:
        """(Q, N) bool, the samples that are known to match."""
        return bits.unpack(bits.intersect(self.holds, clauses), self.rows)

    def match_counts(self, clauses: Tensor) -> Tensor:
        """(Q,), how many samples match each query."""
        return self._counts(self.holds, clauses)

    def known_counts(self, clauses: Tensor) -> Tensor:
        """(Q,), for how many samples it is known whether they match, by the labels that the query names."""
        if self.known is None:
            return clauses.new_full((len(clauses),), self.rows)
        return self._counts(self.known, clauses)

    def _counts(self, words: Tensor, clauses: Tensor) -> Tensor:
        step = max(1, CELLS_AT_ONCE // 8 // words.shape[1])
        parts = [bits.count(bits.intersect(words, some)) for some in clauses.split(step)]
        return torch.cat(parts) if parts else clauses.new_zeros(0)


def precision_of_queries(samples: Samples, queries: TagQueries) -> Tensor:
    """(Q,) in float64, the average precision of each query; NaN for one without a match.

    Queries without a match are found by their bits and never scored. The others are judged in blocks of about as many
    matches; nothing is read back from a device but the counts, once, and the number of matches of a block.
    """
    clauses = samples.clauses(queries)
    counts = samples.match_counts(clauses)
    found = torch.full((len(queries),), math.nan, dtype=torch.float64, device=counts.device)
    order = counts.argsort(stable=True)
    for block, most in _blocks(counts[order], samples.rows):
        places = order[block]
        found[places] = _precision(samples, clauses[places], counts[places], most)
    return found


def _blocks(counts: Tensor, rows: int) -> Iterator[tuple[slice, int]]:
    """Slices of queries in the order of their matches, and the most matches in each; those without are left out."""
    numbers = counts.cpu()
    # A processor is faster with what stays in its cache.
    cells = CELLS_AT_ONCE // 8 if counts.device.type == "cpu" else CELLS_AT_ONCE
    step = max(1, cells // max(1, rows))
    for start in range(int((numbers == 0).sum()), len(numbers), step):
        stop = min(start + step, len(numbers))
        yield slice(start, stop), int(numbers[stop - 1])


def _precision(samples: Samples, clauses: Tensor, counts: Tensor, most: int) -> Tensor:
    """(Q,), the average precision of queries with at least one match and `most` at the most."""
    scores = samples.scores(clauses)
    present = _matching_scores(scores, samples.matches(clauses), counts, most)
    hits = counts.unsqueeze(1) - torch.searchsorted(present, present)
    # Samples that are not known lie at minus infinity, where they cannot be told from others: hence the clamp.
    ranks = _at_or_above(scores, present).clamp(max=samples.known_counts(clauses).unsqueeze(1))
    valid = torch.arange(most, device=counts.device) < counts.unsqueeze(1)
    return torch.where(valid, hits.double() / ranks.clamp(min=1), 0.0).sum(1) / counts


def _matching_scores(scores: Tensor, matches: Tensor, counts: Tensor, most: int) -> Tensor:
    """(Q, most), the scores of the samples that match in rising order, then infinities."""
    if matches.device.type == "cpu":
        # Several times faster than what torch does.
        where = torch.from_numpy(np.flatnonzero(matches.numpy()))
    else:
        where = matches.flatten().nonzero().flatten()
    row = where // scores.shape[1]
    place = torch.arange(len(where), device=where.device) - (counts.cumsum(0) - counts)[row]
    found = torch.full((len(scores), most), math.inf, dtype=scores.dtype, device=scores.device)
    found[row, place] = scores.flatten()[where]
    return sort_in_place(found)


def _at_or_above(scores: Tensor, wanted: Tensor) -> Tensor:
    """(Q, P), how many of the scores (Q, N), which are given up, lie at or above each wanted one; in rising order."""
    # What lies below every wanted one matters by its number alone; equal values are sorted several times faster.
    ordered = sort_in_place(scores.masked_fill_(scores < wanted[:, :1], -math.inf))
    return scores.shape[1] - torch.searchsorted(ordered, wanted)
