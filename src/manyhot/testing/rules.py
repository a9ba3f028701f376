"""Properties of decision rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from manyhot.decide.rule import Decision, Rule
from manyhot.testing.batches import FITTED_PROPERTIES, Case, Example, assert_error, check_unknown, require


@dataclass(frozen=True)
class RuleCase(Case):
    """A rule under test.

    Args:
        make: Builds a fresh rule; also for other numbers of labels than 5, unless it names labels.
        names_labels: Whether the rule itself names labels by their number, so that they cannot change places.
        reads_unknown: Whether values of cells with an unknown target take part in fitting.
        device: The device to test on.
    """

    make: Callable[[], Rule]
    reads_unknown: bool = False

    shape = 30, 5

    def learn(self, values: Any, targets: Any) -> Rule:
        """A fresh rule that was fitted on values, and on targets if it needs them."""
        rule = self.make()
        fitted = rule.fit(values, targets if rule.needs_targets else None)
        require(fitted is rule, "`fit` does not return the rule itself")
        return rule

    def results(self, learnt: Rule, values: Any) -> dict[str, Any]:
        """The decision of a rule, checked for shape, type and device."""
        decision: Decision = learnt(values)
        shapes = tuple(decision.labels.shape), tuple(decision.abstain.shape)
        require(shapes == (tuple(values.shape), (len(values),)), f"labels and abstain have the shapes {shapes}")
        for part in (decision.labels, decision.abstain):
            alike = part.dtype == torch.bool and part.device.type == torch.device(self.device).type
            require(alike, f"a decision of {part.dtype} on {part.device}")
        return vars(decision)

    def as_values(self, scores: Tensor) -> Tensor:
        """Scores as what the rule takes: probabilities if it needs them."""
        scores = scores.to(self.device)
        return torch.sigmoid(scores) if self.make().needs_probs else scores

    def edges(self) -> Iterator[Example]:
        """Batches at the edges, and one without any label."""
        yield from super().edges()
        if not self.names_labels:
            yield self.example(unknown=0.0).labels(torch.arange(0))._replace(name="no label at all")


def check_rule(make: Callable[[], Rule], **options: Any) -> None:
    """Checks every property of rules.

    Args:
        make: Builds a fresh rule.
        **options: As in `RuleCase`.

    Example:
        >>> check_rule(lambda: mh.Threshold(0.5))
        >>> check_rule(lambda: mh.AverageK(1.5), reads_unknown=True)
    """
    RuleCase(make, **options).check(RULE_PROPERTIES)


def check_rule_rows(case: RuleCase) -> None:
    """Each row is decided by itself: one by one, in another order, or at once is the same."""
    rule, values = case.fit(case.example()), case.as_values(case.example(seed=1).scores)
    whole = case.results(rule, values)
    single = [case.results(rule, row) for row in values.split(1)]
    concatenated = {name: torch.cat([one[name] for one in single]) for name in whole}
    case.same(concatenated, whole, "rows one by one and at once differ")
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(2)).to(case.device)
    reordered = {name: part[order] for name, part in whole.items()}
    case.same(case.results(rule, values[order]), reordered, "the order of new rows matters")


def check_rule_unknown(case: RuleCase) -> None:
    """Unknown cells teach nothing: not by rows or labels of which nothing is known, nor by their values."""
    if case.make().needs_targets and not case.reads_unknown:
        check_unknown(case)


def check_rule_invalid_input(case: RuleCase) -> None:
    """Invalid values and targets raise an error that names the rule, and leave it unchanged."""
    batch = case.example()
    rule = case.fit(batch)
    values, targets = case.as_values(batch.scores), batch.targets.to(case.device)
    want = case.results(rule, values)
    invalid: list[Callable[[], Any]] = [partial(rule, one) for one in (values * math.nan, values[0], "values")]
    invalid.append(partial(rule.fit, values * math.nan, targets))
    if rule.needs_targets:
        invalid += [partial(case.make().fit, values, one) for one in (None, targets[:, :-1], targets * 2)]
    if rule.needs_probs:
        invalid += [partial(rule, values + 1), partial(rule.fit, values - 1, targets)]
    owners = [f"of `{type(part).__name__}` must" for part in rule.modules()]
    for call in invalid:
        assert_error(call, "invalid input raises no error", *owners)
    case.same(case.results(rule, values), want, "an invalid input changes the rule")


RULE_PROPERTIES = *FITTED_PROPERTIES, check_rule_rows, check_rule_unknown, check_rule_invalid_input
