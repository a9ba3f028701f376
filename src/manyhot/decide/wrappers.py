"""Rules around other rules: predicting "none of these", and abstaining where many errors are expected."""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor, nn

from manyhot.checks import check_number, describe_type
from manyhot.decide.rule import Decision, Rule, Unclipped, strict_midpoint
from manyhot.errors import InputError


class Wrapper(Rule):
    """A rule around another one, which decides by values as they came.

    `fit` fits the inner rule as well, unless it is fitted already; a fitted one is not changed.
    """

    rule: Rule

    def __init__(self, rule: object) -> None:
        super().__init__()
        if not isinstance(rule, Rule):
            hint = "Pass for example `Threshold(0.5)`."
            raise InputError("rule", type(self).__name__, "be a rule", describe_type(rule), hint)
        self.rule = rule

    def fit_inner(self, values: Any, targets: Any) -> None:
        """Fits the inner rule if it is not fitted."""
        if not bool(self.rule.fitted):
            self.rule.fit(values, targets)

    def decide(self, values: Tensor) -> Decision:
        """As `forward`."""
        return self.forward(values)


class NoneOfThese(Wrapper):
    """Predicts no label for rows whose largest value does not exceed a limit, and decides the others by another rule.

    For samples without any of the labels, around rules that always predict some, such as `TopK`. The limit is an
    argument, or `fit` chooses it: the highest one that accepts a share of the held-out rows with labels, so that it
    rejects the most others. A row whose largest value equals the limit is rejected.

    `fit` fits the inner rule as well, unless it is fitted already; a fitted one is not changed. Where the inner rule
    abstains, so does this one.

    Args:
        rule: The rule that decides the accepted rows.
        keep: The share of rows with a present label to accept, above 0 and up to 1; 0.95 without a threshold.
        threshold: The limit itself, instead of a fitted one.

    Attributes:
        limit: The largest value of a row must exceed it.

    Reference: the decision of Li, Jia, Zhou, Shen and Duan, Rediscovering BCE Loss for Uniform Classification; to keep
        95 % is the usual operating point of out-of-distribution detection.

    Example:
        >>> rule = NoneOfThese(mh.TopK(1), threshold=0.3)
        >>> rule(torch.tensor([[0.6, 0.2], [0.3, 0.1]])).labels
        tensor([[ True, False],
                [False, False]])
    """

    def __init__(self, rule: Rule, *, keep: float | None = None, threshold: float | None = None) -> None:
        super().__init__(rule)
        _check_exclusive("NoneOfThese", keep=keep, threshold=threshold)
        self.threshold = None if threshold is None else check_number("threshold", "NoneOfThese", threshold)
        share = 0.95 if keep is None and threshold is None else keep
        self.keep = None if share is None else check_number("keep", "NoneOfThese", share, "(0, 1]")
        self.needs_probs = rule.needs_probs
        self.needs_targets = rule.needs_targets or self.keep is not None
        limit = torch.nan if self.threshold is None else self.threshold
        self.limit: Tensor = nn.Buffer(torch.tensor(limit, dtype=torch.float64))
        self.fitted = rule.fitted & (self.threshold is not None)

    def fit(self, values: Any, targets: Any = None) -> Self:
        """Learns the limit, and fits the inner rule if it is not fitted, on held-out values and targets (N, K)."""
        self.fit_inner(values, targets)
        compared = self._compared(values)
        if self.keep is None:
            return self.learn()
        known = self.check_targets(targets, compared)
        largest = _row_maximum(compared)
        labelled = largest[(known == 1).any(1)].sort(descending=True).values
        if len(labelled) == 0:
            return self.learn(limit=largest.new_tensor(-torch.inf).double())
        last = labelled[max(1, math.ceil(self.keep * len(labelled) - 1e-6)) - 1]
        below = largest.where((known >= 0).any(1) & (largest < last), -torch.inf).amax()
        return self.learn(limit=strict_midpoint(below, last).double())

    def forward(self, values: Any) -> Decision:
        """The decision of the inner rule, but no label for rows without a value above the limit."""
        self.require_fitted()
        compared = self._compared(values)
        inner: Decision = self.rule(values)
        accepted = _row_maximum(compared) > self.limit.to(compared)
        return Decision(inner.labels & accepted.unsqueeze(1), inner.abstain)

    def _compared(self, values: Any) -> Tensor:
        """The values to compare with the limit, which may be above 1 even where the inner rule needs probabilities."""
        checked = self.check_values(values)
        return values.values if isinstance(values, Unclipped) else checked


class Abstain(Wrapper):
    """Abstains on the rows with the most expected errors, and decides the others by another rule.

    The expected errors of a row are the expected number of wrong cells of its decision under the probabilities: the sum
    of 1 - p over predicted labels and p over the others. They are only as good as the probabilities, so calibrate them
    first. The rule abstains where they exceed a limit, which `fit` chooses: so that it abstains on at most a share of
    the held-out rows, or so that the decided held-out rows have few errors on average.

    `fit` fits the inner rule as well, unless it is fitted already; a fitted one is not changed. Rows on which the inner
    rule abstains count first.

    Args:
        rule: The rule that decides the other rows.
        at_most: The largest share of rows to abstain on; 0.1 if `max_errors` is not given.
        max_errors: The largest mean number of wrong cells of the decided rows, among known cells. As many rows as
            possible are decided. It is a mean over held-out rows, not a guarantee.

    Attributes:
        limit: The largest number of expected errors of a decided row; minus infinity if the rule always abstains.
        reached: Whether the wanted number of errors is possible with at least one decided row.

    Example:
        >>> probs = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.8, 0.1], [0.2, 0.0]])
        >>> rule = Abstain(mh.Threshold(0.5), at_most=0.25).fit(probs)
        >>> rule(probs).abstain
        tensor([False,  True, False, False])
    """

    needs_probs = True

    def __init__(self, rule: Rule, *, at_most: float | None = None, max_errors: float | None = None) -> None:
        super().__init__(rule)
        _check_exclusive("Abstain", at_most=at_most, max_errors=max_errors)
        share = 0.1 if at_most is None and max_errors is None else at_most
        self.at_most = None if share is None else check_number("at_most", "Abstain", share, "[0, 1]")
        self.max_errors = None if max_errors is None else check_number("max_errors", "Abstain", max_errors, "[0, inf)")
        self.needs_targets = rule.needs_targets or self.max_errors is not None
        self.limit: Tensor = nn.Buffer(torch.tensor(torch.nan, dtype=torch.float64))
        self.reached: Tensor = nn.Buffer(torch.tensor(False))

    def fit(self, values: Any, targets: Any = None) -> Self:
        """Learns the limit, and fits the inner rule if it is not fitted, on held-out values and targets (N, K)."""
        checked = self.check_values(values)
        self.fit_inner(values, targets)
        decision: Decision = self.rule(values)
        expected = _expected_errors(checked, decision)
        if self.max_errors is None:
            limit, reached = self._limit_by_share(expected), True
        else:
            known = self.check_targets(targets, checked)
            wrong = ((decision.labels != (known == 1)) & (known >= 0)).sum(1)
            counted = (known >= 0).any(1)
            limit, reached = _limit_by_errors(expected[counted], wrong[counted], self.max_errors)
        return self.learn(limit=limit, reached=torch.tensor(reached, device=checked.device))

    def forward(self, values: Any) -> Decision:
        """The decision of the inner rule, with abstention where the expected errors exceed the limit."""
        self.require_fitted()
        checked = self.check_values(values)
        inner: Decision = self.rule(values)
        doubtful = _expected_errors(checked, inner) > self.limit.to(checked.device)
        return Decision(inner.labels, inner.abstain | doubtful)

    def _limit_by_share(self, expected: Tensor) -> Tensor:
        """A limit that at most the wanted share of the expected errors exceeds."""
        num_abstained = math.floor((self.at_most or 0.0) * len(expected) + 1e-6)
        if num_abstained in (0, len(expected)):
            return expected.new_tensor(-torch.inf if num_abstained else torch.inf)
        ordered = expected.sort(descending=True).values
        return strict_midpoint(ordered[num_abstained], ordered[num_abstained - 1])


def _limit_by_errors(expected: Tensor, wrong: Tensor, max_mean: float) -> tuple[Tensor, bool]:
    """The highest limit up to which rows have at most that many errors on average, and whether there is one."""
    ordered, order = expected.sort()
    errors = wrong[order].double().cumsum(0)
    answered = torch.arange(1, len(ordered) + 1, device=ordered.device)
    # Rows with equal expected errors are decided together; those on which the inner rule abstains never are.
    upper = torch.cat([ordered, ordered.new_tensor([torch.inf])])[1:]
    good = (errors <= max_mean * answered + 1e-9) & (ordered < upper)
    if not bool(good.any()):
        return expected.new_tensor(-torch.inf), False
    low, high = (ends[good][-1] for ends in (ordered, upper))
    return torch.where(high.isinf(), high, strict_midpoint(low, high)), True


def expected_errors(probs: Tensor, labels: Tensor) -> Tensor:
    """(N,) in float64, the expected number of wrong cells of decisions (N, K) under probabilities (N, K)."""
    return torch.where(labels, 1 - probs, probs).sum(1, dtype=torch.float64)


def _expected_errors(probs: Tensor, decision: Decision) -> Tensor:
    """(N,) in float64, the expected number of wrong cells; infinite for rows on which the rule abstains."""
    return expected_errors(probs, decision.labels).masked_fill(decision.abstain, torch.inf)


def _row_maximum(values: Tensor) -> Tensor:
    return values.amax(1) if values.shape[1] else values.new_full((len(values),), -torch.inf)


def _check_exclusive(owner: str, **options: float | None) -> None:
    first, second = options
    if options[first] is not None and options[second] is not None:
        rule, hint = f"be left out when `{first}` is given", "Name one of the two."
        raise InputError(second, owner, rule, repr(options[second]), hint)
