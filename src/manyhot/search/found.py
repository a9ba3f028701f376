"""What a search gives: the samples that probably match, and how many are to be expected."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hit:
    """One sample that was found.

    Attributes:
        id: The id of its row.
        path: Where the sample lies, or None if the table does not say.
        prob: The probability that it matches.
        log_prob: The logarithm of it, which tells samples apart whose probabilities are rounded to the same number.
    """

    id: str
    path: str | None
    prob: float
    log_prob: float


@dataclass(frozen=True)
class Expectation:
    """How many samples match, as far as probabilities can tell.

    Attributes:
        mean: The expected number: the sum of the probabilities.
        low: The number is this or more, and `high` or less, with probability `level`.
        high: See `low`.
        level: The probability.
        rows: How many samples there are.
    """

    mean: float
    low: int
    high: int
    level: float
    rows: int


@dataclass(frozen=True)
class Found:
    """The answer to a query.

    Attributes:
        query: The query in its plain form.
        hits: What was found, the most probable first.
        expected: How many samples of the whole collection match; None if that was not asked for.
        precision: The expected share of `hits` that match; NaN if there are none.
        recall: The expected share of all matches that are among `hits`; None without `expected`, NaN if none match.
    """

    query: str
    hits: list[Hit]
    expected: Expectation | None
    precision: float
    recall: float | None
