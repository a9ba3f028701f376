"""Properties of decision rules."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from manyhot.decide.rule import Decision, Rule
from manyhot.testing.batches import Example, assert_error, assert_same, edge_batches, random_batch, restored


@dataclass(frozen=True)
class RuleCase:
    """A rule under test.

    Args:
        make: Builds a fresh rule; also for other numbers of labels than 5, unless it names labels.
        names_labels: Whether the rule itself names labels by their number, so that they cannot change places.
        reads_unknown: Whether values of cells with an unknown target take part in fitting.
        device: The device to test on.
    """

    make: Callable[[], Rule]
    names_labels: bool = False
    reads_unknown: bool = False
    device: str = "cpu"

    def fit(self, batch: Example) -> Rule:
        """A fresh rule that was fitted on a batch."""
        rule = self.make()
        targets = batch.targets.to(self.device) if rule.needs_targets else None
        if rule.fit(self.as_values(batch.scores), targets) is not rule:
            raise AssertionError("`fit` does not return the rule itself")
        return rule

    def decide(self, rule: Rule, batch: Example) -> Decision:
        """The decision of a rule, checked for shape, type and device."""
        values = self.as_values(batch.scores)
        decision: Decision = rule(values)
        shapes = tuple(decision.labels.shape), tuple(decision.abstain.shape)
        if shapes != (tuple(values.shape), (len(values),)):
            raise AssertionError(f"{batch.name}: labels and abstain have the shapes {shapes}")
        for part in (decision.labels, decision.abstain):
            if part.dtype != torch.bool or part.device != values.device:
                raise AssertionError(f"{batch.name}: a decision of {part.dtype} on {part.device}")
        return decision

    def as_values(self, scores: Tensor) -> Tensor:
        """Scores as what the rule takes: probabilities if it needs them."""
        scores = scores.to(self.device)
        return torch.sigmoid(scores) if self.make().needs_probs else scores


def check_rule(make: Callable[[], Rule], **options: Any) -> None:
    """Checks every property of rules.

    Args:
        make: Builds a fresh rule.
        **options: As in `RuleCase`.

    Example:
        >>> check_rule(lambda: mh.Threshold(0.5))
        >>> check_rule(lambda: mh.AverageK(1.5), reads_unknown=True)
    """
    case = RuleCase(make, **options)
    for check in RULE_PROPERTIES:
        check(case)


def rule_example(rows: int = 30, labels: int = 5, *, unknown: float = 0.15, seed: int = 0) -> Example:
    """A random batch without ties, whose scores know something of the targets.

    It holds a row without labels, one with all of them, and one that is not known.
    """
    return random_batch(rows, labels, unknown=unknown, seed=seed)


def check_rule_unfitted(case: RuleCase) -> None:
    """Before `fit`, a rule that learns raises an error; one that does not learn decides at once."""
    rule, batch = case.make(), rule_example()
    if bool(rule.fitted):
        case.decide(rule, batch)
    else:
        assert_error(lambda: case.decide(rule, batch), "an unfitted rule decides", "must be fitted before use")


def check_rule_rows(case: RuleCase) -> None:
    """Each row is decided by itself: one by one, in another order, or at once is the same."""
    batch = rule_example()
    rule = case.fit(batch)
    whole = case.decide(rule, rule_example(seed=1))
    values = case.as_values(rule_example(seed=1).scores)
    single = [rule(row) for row in values.split(1)]
    concatenated = Decision(torch.cat([one.labels for one in single]), torch.cat([one.abstain for one in single]))
    _same(concatenated, whole, "rows one by one and at once differ")
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(2)).to(case.device)
    _same(rule(values[order]), whole[order], "the order of new rows matters")


def check_rule_order(case: RuleCase) -> None:
    """The order of held-out rows does not matter, and labels that change places take their decisions along."""
    batch, new = rule_example(), rule_example(seed=1)
    want = case.decide(case.fit(batch), new)
    rows = torch.randperm(len(batch.scores), generator=torch.Generator().manual_seed(2))
    _same(case.decide(case.fit(batch.rows(rows)), new), want, "the order of held-out rows matters")
    if not case.names_labels:
        labels = torch.tensor([4, 2, 0, 1, 3])
        moved = case.decide(case.fit(batch.labels(labels)), new.labels(labels))
        reordered = Decision(want.labels[:, labels.to(case.device)], want.abstain)
        _same(moved, reordered, "the order of labels matters")


def check_rule_state(case: RuleCase) -> None:
    """A rule that was saved decides as before: through `manyhot.save`, through `state_dict`, and in half precision."""
    batch, new = rule_example(), rule_example(seed=1)
    rule = case.fit(batch)
    want = case.decide(rule, new)
    for name, again in restored(rule, case.make()):
        _same(case.decide(again, new), want, f"a {name} rule decides otherwise")
        if repr(again) != repr(rule):
            raise AssertionError(f"a {name} rule is shown as {again!r} and not as {rule!r}")


def check_rule_unknown(case: RuleCase) -> None:
    """Unknown cells teach nothing: not by rows in which nothing is known, nor by their values."""
    batch, new = rule_example(), rule_example(seed=1)
    if case.reads_unknown or not case.make().needs_targets:
        return
    want = case.decide(case.fit(batch), new)
    for other in (-30.0, 30.0):
        decision = case.decide(case.fit(batch.with_unknown_at(other)), new)
        _same(decision, want, "the values of unknown cells matter")
    longer = batch.with_unknown_line(0)
    _same(case.decide(case.fit(longer), new), want, f"{longer.name} matters")


def check_rule_edges(case: RuleCase) -> None:
    """At every edge a rule can be fitted and gives decisions, without an error or a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch in rule_edges(case):
            rule = case.fit(batch)
            decision = case.decide(rule, batch)
            case.decide(rule, batch.rows(slice(0)))
            _same(case.decide(case.fit(batch), batch), decision, f"{batch.name}: the same fit decides otherwise")


def rule_edges(case: RuleCase) -> Iterator[Example]:
    """Batches at the edges: nothing in them, one of everything, all present, all absent, all unknown, all equal."""
    yield from edge_batches(rule_example, any_labels=not case.names_labels)
    if not case.names_labels:
        yield rule_example(unknown=0.0).labels(torch.arange(0))._replace(name="no label at all")


def check_rule_types(case: RuleCase) -> None:
    """Half precision is computed as the same numbers in float32; arrays and tensors are the same."""
    batch = rule_example()
    values, targets = case.as_values(batch.scores), batch.targets.to(case.device)
    if case.device == "cpu":
        from_arrays = case.make().fit(values.numpy(), targets.numpy())(values.numpy())
        _same(from_arrays, case.fit(batch)(values), "arrays and tensors differ")
    for dtype in (torch.float16, torch.bfloat16):
        rounded = values.to(dtype)
        got, want = (case.make().fit(kind, targets)(kind) for kind in (rounded, rounded.float()))
        _same(got, want, f"{dtype} and the same numbers in float32 differ")


def check_rule_invalid_input(case: RuleCase) -> None:
    """Invalid values and targets raise an error that names the rule, and leave it unchanged."""
    batch = rule_example()
    rule = case.fit(batch)
    values, targets = case.as_values(batch.scores), batch.targets.to(case.device)
    want = rule(values)
    invalid: list[Callable[[], Any]] = [partial(rule, one) for one in (values * math.nan, values[0], "values")]
    invalid.append(partial(rule.fit, values * math.nan, targets))
    if rule.needs_targets:
        invalid += [partial(case.make().fit, values, one) for one in (None, targets[:, :-1], targets * 2)]
    if rule.needs_probs:
        invalid += [partial(rule, values + 1), partial(rule.fit, values - 1, targets)]
    owners = [f"of `{type(part).__name__}` must" for part in rule.modules()]
    for call in invalid:
        assert_error(call, "invalid input raises no error", *owners)
    _same(rule(values), want, "an invalid input changes the rule")


RULE_PROPERTIES = (
    check_rule_unfitted,
    check_rule_rows,
    check_rule_order,
    check_rule_state,
    check_rule_unknown,
    check_rule_edges,
    check_rule_types,
    check_rule_invalid_input,
)


def _same(got: Decision, want: Decision, message: str) -> None:
    assert_same(vars(got), vars(want), message)
