"""Properties of decision rules."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyhot.decide.rule import Decision, Rule
from manyhot.registry import registered
from manyhot.serialization import load, save
from manyhot.testing.batches import Example


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
    draw = torch.Generator().manual_seed(seed)
    targets = (torch.rand(rows, labels, generator=draw) < 0.4).to(torch.int8)
    targets[:1], targets[1:2] = 0, 1
    scores = torch.randn(rows, labels, generator=draw, dtype=torch.float64) * 1.5 + 2.0 * targets - 1.0
    hidden = torch.rand(rows, labels, generator=draw) < unknown
    hidden[:2], hidden[2:3] = False, unknown > 0
    return Example("a random batch", scores, torch.where(hidden, -1, targets).to(torch.int8))


def check_rule_unfitted(case: RuleCase) -> None:
    """Before `fit`, a rule that learns raises an error; one that does not learn decides at once."""
    rule, batch = case.make(), rule_example()
    if bool(rule.fitted):
        case.decide(rule, batch)
        return
    try:
        rule(case.as_values(batch.scores))
    except ValueError as error:
        if "must be fitted before use" not in str(error):
            raise AssertionError(f"an unfitted rule raises another error: {error}") from error
    else:
        raise AssertionError("an unfitted rule decides")


def check_rule_rows(case: RuleCase) -> None:
    """Each row is decided by itself: one by one, in another order, or at once is the same."""
    batch = rule_example()
    rule = case.fit(batch)
    whole = case.decide(rule, rule_example(seed=1))
    values = case.as_values(rule_example(seed=1).scores)
    single = [rule(row) for row in values.split(1)]
    _same(_concatenate(single), whole, "rows one by one and at once differ")
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(2)).to(case.device)
    _same(rule(values[order]), Decision(whole.labels[order], whole.abstain[order]), "the order of new rows matters")


def check_rule_order(case: RuleCase) -> None:
    """The order of held-out rows does not matter, and labels that change places take their decisions along."""
    batch, new = rule_example(), rule_example(seed=1)
    want = case.decide(case.fit(batch), new)
    rows = torch.randperm(len(batch.scores), generator=torch.Generator().manual_seed(2))
    _same(case.decide(case.fit(_moved(batch, rows, 0)), new), want, "the order of held-out rows matters")
    if not case.names_labels:
        labels = torch.tensor([4, 2, 0, 1, 3])
        moved = case.decide(case.fit(_moved(batch, labels, 1)), _moved(new, labels, 1))
        reordered = Decision(want.labels[:, labels.to(case.device)], want.abstain)
        _same(moved, reordered, "the order of labels matters")


def check_rule_state(case: RuleCase) -> None:
    """A rule that was saved decides as before: through `manyhot.save`, through `state_dict`, and in half precision."""
    batch, new = rule_example(), rule_example(seed=1)
    rule = case.fit(batch)
    want = case.decide(rule, new)
    own = [type(part) for part in rule.modules() if isinstance(part, Rule)]
    with tempfile.TemporaryDirectory() as folder, registered(*own):
        save(rule, Path(folder) / "rule.json")
        loaded = load(Path(folder) / "rule.json")
    _same(case.decide(loaded.to(case.device), new), want, "a saved rule decides otherwise")
    fresh = case.make().to(case.device)
    fresh.load_state_dict(rule.state_dict())
    _same(case.decide(fresh, new), want, "a rule with another's `state_dict` decides otherwise")
    if repr(fresh) != repr(rule) or repr(loaded) != repr(rule):
        raise AssertionError(f"a loaded rule is shown as {loaded!r} and not as {rule!r}")
    _same(case.decide(rule.half(), new), want, "a rule decides otherwise in half precision")


def check_rule_unknown(case: RuleCase) -> None:
    """Unknown cells teach nothing: not by rows in which nothing is known, nor by their values."""
    batch, new = rule_example(), rule_example(seed=1)
    if case.reads_unknown or not case.make().needs_targets:
        return
    want = case.decide(case.fit(batch), new)
    longer = Example(
        "more unknown rows",
        torch.cat([batch.scores, new.scores]),
        torch.cat([batch.targets, torch.full_like(new.targets, -1)]),
    )
    _same(case.decide(case.fit(longer), new), want, "rows of unknown cells matter")
    for other in (-30.0, 30.0):
        changed = batch._replace(scores=torch.where(batch.targets < 0, other, batch.scores))
        _same(case.decide(case.fit(changed), new), want, "the values of unknown cells matter")


def check_rule_edges(case: RuleCase) -> None:
    """At every edge a rule can be fitted and gives decisions, without an error or a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch in rule_edges(case):
            rule = case.fit(batch)
            decision = case.decide(rule, batch)
            case.decide(rule, batch._replace(scores=batch.scores[:0], targets=batch.targets[:0]))
            _same(case.decide(case.fit(batch), batch), decision, f"{batch.name}: the same fit decides otherwise")


def rule_edges(case: RuleCase) -> Iterator[Example]:
    """Batches at the edges: nothing in them, one of everything, all present, all absent, all unknown, all equal."""
    base = rule_example(unknown=0.0)
    scores, targets = base.scores, base.targets
    yield Example("no rows", scores[:0], targets[:0])
    yield Example("one row", scores[3:4], targets[3:4])
    yield Example("one row without labels", scores[:1], targets[:1])
    yield Example("one row with all labels", scores[1:2], targets[1:2])
    yield Example("rows without labels", scores, torch.zeros_like(targets))
    yield Example("rows with all labels", scores, torch.ones_like(targets))
    yield Example("unknown cells only", scores, torch.full_like(targets, -1))
    yield Example("unknown and present cells only", scores, torch.where(targets > 0, 1, -1).to(torch.int8))
    yield Example("one column never known", scores, targets.index_fill(1, torch.tensor([2]), -1))
    yield Example("ties", torch.zeros_like(scores), targets)
    signs = (2 * targets - 1).double()
    yield Example("scores of 1e4 for the targets", 1e4 * signs, targets)
    yield Example("scores of 1e4 against the targets", -1e4 * signs, targets)
    yield Example("scores of 1e4 at random", 1e4 * scores.sign(), targets)
    if not case.names_labels:
        narrow = rule_example(labels=1, unknown=0.0)
        yield Example("one label", narrow.scores, narrow.targets)
        yield Example("no label at all", scores[:, :0], targets[:, :0])


def check_rule_types(case: RuleCase) -> None:
    """Half precision is computed as the same numbers in float32; arrays and tensors are the same."""
    batch = rule_example()
    values, targets = case.as_values(batch.scores), batch.targets.to(case.device)
    if case.device == "cpu":
        array = values.numpy()
        _same(
            case.make().fit(array, batch.targets.numpy())(array), case.fit(batch)(values), "arrays and tensors differ"
        )
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
    invalid: list[Callable[[], Any]] = [
        lambda: rule(values * math.nan),
        lambda: rule(values[0]),
        lambda: rule("values"),
    ]
    invalid += [lambda: rule.fit(values * math.nan, targets)]
    if rule.needs_targets:
        invalid += [lambda: case.make().fit(values), lambda: case.make().fit(values, targets[:, :-1])]
        invalid += [lambda: case.make().fit(values, targets * 2)]
    if rule.needs_probs:
        invalid += [lambda: rule(values + 1), lambda: rule.fit(values - 1, targets)]
    names = [type(part).__name__ for part in rule.modules()]
    for call in invalid:
        try:
            call()
        except ValueError as error:
            if not any(f"of `{name}` must" in str(error) for name in names):
                raise AssertionError(f"the error does not name the rule: {error}") from error
        else:
            raise AssertionError("invalid input raises no error")
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


def _concatenate(decisions: list[Decision]) -> Decision:
    return Decision(torch.cat([d.labels for d in decisions]), torch.cat([d.abstain for d in decisions]))


def _moved(batch: Example, order: Tensor, dim: int) -> Example:
    scores, targets = (tensor.index_select(dim, order) for tensor in (batch.scores, batch.targets))
    return batch._replace(scores=scores, targets=targets)


def _same(got: Decision, want: Decision, message: str) -> None:
    for name in ("labels", "abstain"):
        one, other = getattr(got, name), getattr(want, name)
        if one.shape != other.shape:
            raise AssertionError(f"{message}: {name} of shape {tuple(one.shape)} and {tuple(other.shape)}")
        if not bool((one == other).all()):
            row = int((one != other).nonzero()[0, 0])
            raise AssertionError(f"{message}: {name} of row {row} {one[row].tolist()} and {other[row].tolist()}")
