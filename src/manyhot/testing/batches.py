"""What all kinds of objects share: batches, cases, comparisons, and the properties of several kinds."""

from __future__ import annotations

import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from manyhot.serialization import Fitted, load, save


class Example(NamedTuple):
    """A named batch: scores (N, K), or (N, heads, K) for several heads, and targets (N, K)."""

    name: str
    scores: Tensor
    targets: Tensor

    def rows(self, rows: Tensor | slice) -> Example:
        """Some of the rows, or all in another order."""
        return self._replace(scores=self.scores[rows], targets=self.targets[rows])

    def labels(self, order: Tensor) -> Example:
        """The labels in another order."""
        return self._replace(scores=self.scores[..., order], targets=self.targets[:, order])

    @property
    def unknown(self) -> Tensor:
        """Where targets are unknown, in a shape that is broadcast to that of the scores."""
        return (self.targets < 0) if self.scores.ndim == 2 else (self.targets < 0).unsqueeze(1)

    def with_unknown_at(self, score: float) -> Example:
        """With this score in unknown cells."""
        return self._replace(scores=torch.where(self.unknown, score, self.scores))

    def with_unknown_line(self, dim: int) -> Example:
        """With one more row (0) or one more label (-1) of which nothing is known."""
        scores = torch.full_like(self.scores.narrow(dim, 0, 1), 3.0)
        targets = torch.full_like(self.targets.narrow(dim, 0, 1), -1)
        name = f"a line of unknown cells along axis {dim}"
        return Example(name, torch.cat([self.scores, scores], dim), torch.cat([self.targets, targets], dim))

    def transposed(self) -> Example:
        """The same numbers in another order in memory."""
        return self._replace(scores=self.scores.mT.contiguous().mT, targets=self.targets.mT.contiguous().mT)


def random_batch(
    rows: int, labels: int, *, single_label: bool = False, heads: int = 1, unknown: float = 0.15, seed: int = 0
) -> Example:
    """A batch without ties, whose scores depend on the targets.

    It holds a row without labels, one with all of them unless rows carry one label, and one of which nothing is known
    unless all is.
    """
    draw = torch.Generator().manual_seed(seed)
    if single_label:
        targets = torch.nn.functional.one_hot(torch.randint(labels, (rows,), generator=draw), labels)
    else:
        targets = (torch.rand(rows, labels, generator=draw) < 0.35).long()
        targets[1:2] = 1
    targets[:1] = 0
    noise = torch.randn(rows, heads, labels, generator=draw, dtype=torch.float64)
    scores = (1.5 * noise + 2.0 * targets.unsqueeze(1) - 1.0).squeeze(1) if heads == 1 else 2.0 * noise
    # The present label of a row with one stays known, or the row would be of another kind.
    hidden = (torch.rand(rows, labels, generator=draw) < unknown) & ~(single_label & (targets > 0))
    hidden[:2], hidden[2:3] = False, unknown > 0
    return Example("a random batch", scores, torch.where(hidden, -1, targets).to(torch.int8))


def edge_batches(
    make: Callable[..., Example], *, single_label: bool = False, any_labels: bool = True
) -> Iterator[Example]:
    """Batches at the edges: nothing in them, one of everything, all present, all absent, all unknown, all equal.

    Args:
        make: Makes a random batch, as `random_batch` does, with `rows`, `labels` and `unknown` by default.
        single_label: Whether rows carry at most one label.
        any_labels: Whether other numbers of labels are tried.
    """
    base, mixed = make(unknown=0.0), make()
    scores, targets = base.scores, base.targets
    signs = 2.0 * mixed.targets.clamp(min=0) - 1
    signs = (signs if scores.ndim == 2 else signs.unsqueeze(1)).expand_as(scores)
    batches = [
        ("no rows", scores[:0], targets[:0]),
        ("one row", scores[2:3], targets[2:3]),
        ("one row without labels", scores[:1], targets[:1]),
        ("rows without labels", scores, torch.zeros_like(targets)),
        ("unknown cells only", scores, torch.full_like(targets, -1)),
        ("unknown and present cells only", scores, torch.where(targets > 0, 1, -1).to(torch.int8)),
        ("one column never known", scores, targets.index_fill(1, torch.tensor([2]), -1)),
        ("one label never present", scores, targets.index_fill(1, torch.tensor([1]), 0)),
        ("ties", torch.zeros_like(scores), targets),
        ("scores of 1e4 for the targets", 1e4 * signs, mixed.targets),
        ("scores of 1e4 against the targets", -1e4 * signs, mixed.targets),
        ("scores of 1e4 at random", 1e4 * scores.sign(), mixed.targets),
        ("all scores 1e4", torch.full_like(scores, 1e4), mixed.targets),
        ("all scores -1e4", torch.full_like(scores, -1e4), mixed.targets),
    ]
    if single_label:
        batches.append(("the same label in all rows", scores, targets[2:3].expand_as(targets)))
    else:
        batches.append(("one row with all labels", scores[1:2], targets[1:2]))
        batches.append(("rows with all labels", scores, torch.ones_like(targets)))
    yield from starmap(Example, batches)
    if any_labels:
        yield make(labels=1, unknown=0.0)._replace(name="one label")
        yield make(rows=4, labels=12, unknown=0.0)._replace(name="more labels than rows")


def require(condition: object, message: str) -> None:
    """Raises an AssertionError unless the condition holds; unlike `assert`, also in optimised mode."""
    if not condition:
        raise AssertionError(message)


def assert_same(got: Any, want: Any, message: str, rtol: float = 0.0, atol: float | None = None) -> None:
    """Asserts that tensors, or dicts of tensors or numbers, agree; the message names the property that failed."""
    torch.testing.assert_close(
        got,
        want,
        rtol=rtol,
        atol=rtol if atol is None else atol,
        equal_nan=isinstance(want, dict),
        msg=lambda difference: f"{message}: {difference}",
    )


def assert_error(call: Callable[[], Any], otherwise: str, *words: str) -> None:
    """Asserts that a call raises a `ValueError` with one of these words; `otherwise` says what it does instead."""
    try:
        call()
    except ValueError as error:
        require(any(some in str(error) for some in words), f"the error does not hold {words[0]!r}: {error}")
    else:
        raise AssertionError(otherwise)


@dataclass(frozen=True)
class Case(ABC):
    """A calibrator, rule or metric under test.

    Args:
        make: Builds a fresh one.
        single_label: Whether rows carry at most one label.
        names_labels: Whether it names labels by their number, so that they cannot change places.
        device: The device to test on.

    Attributes:
        shape: The numbers of rows and labels of a batch.
        tolerance: How far results may differ that should be the same, relative and absolute.
    """

    make: Callable[[], Any]
    single_label: bool = False
    names_labels: bool = False
    device: str = "cpu"

    shape: ClassVar[tuple[int, int]]
    tolerance: ClassVar[tuple[float, float]] = (0.0, 0.0)

    @abstractmethod
    def learn(self, values: Any, targets: Any) -> Any:
        """A fresh one that was fitted on, or updated with, values and targets (N, K)."""

    @abstractmethod
    def results(self, learnt: Any, values: Any) -> dict[str, Any]:
        """What it makes of values (N, K), checked for form: tensors, or numbers in which new values have no part."""

    def as_values(self, scores: Tensor) -> Tensor:
        """Scores as what it takes."""
        return scores.to(self.device)

    def fit(self, batch: Example) -> Any:
        """A fresh one that was fitted on, or updated with, a batch."""
        return self.learn(self.as_values(batch.scores), batch.targets.to(self.device))

    def evaluate(self, batch: Example, new: Example) -> dict[str, Any]:
        """What a fresh one makes of new values after it has learnt from a batch."""
        return self.results(self.fit(batch), self.as_values(new.scores))

    def same(self, got: dict[str, Any], want: dict[str, Any], message: str) -> None:
        """Asserts that results agree; the message names the property that failed."""
        assert_same(got, want, message, *self.tolerance)

    def example(
        self, rows: int | None = None, labels: int | None = None, *, unknown: float = 0.15, seed: int = 0
    ) -> Example:
        """A random batch without ties, with a row without labels and one with all of them unless rows carry one."""
        shape = rows or self.shape[0], labels or self.shape[1]
        return random_batch(*shape, single_label=self.single_label, unknown=unknown, seed=seed)

    def edges(self) -> Iterator[Example]:
        """Batches at the edges: nothing in them, one of everything, all present, all absent, all unknown, all equal."""
        return edge_batches(self.example, single_label=self.single_label, any_labels=not self.names_labels)

    def check(self, properties: Iterable[Callable[[Any], None]]) -> None:
        """Checks every one of the properties."""
        for check in properties:
            check(self)


def of_labels(results: dict[str, Any], labels: Tensor | slice) -> dict[str, Any]:
    """Some of the labels of results, or all in another order; what does not belong to labels as it is."""
    of_cells = {name for name, value in results.items() if isinstance(value, Tensor) and value.ndim == 2}
    return {name: value[:, labels] if name in of_cells else value for name, value in results.items()}


def check_order(case: Case) -> None:
    """The order of rows does not matter, and labels that change places take their results along."""
    batch, new = case.example(), case.example(seed=1)
    want = case.evaluate(batch, new)
    rows = torch.randperm(len(batch.targets), generator=torch.Generator().manual_seed(1))
    labels = torch.arange(batch.targets.shape[1]).roll(2)  # none of them stays
    case.same(case.evaluate(batch.rows(rows), new), want, "the order of rows matters")
    if not case.names_labels:
        moved = case.evaluate(batch.labels(labels), new.labels(labels))
        case.same(moved, of_labels(want, labels.to(case.device)), "the order of labels matters")


def check_unknown(case: Case) -> None:
    """Unknown cells change nothing: not by their values, not by being there."""
    batch, new = case.example(), case.example(seed=1, unknown=0.0)
    want = case.evaluate(batch, new)
    for score in (-50.0, 50.0):
        case.same(case.evaluate(batch.with_unknown_at(score), new), want, "the values of unknown cells matter")
    longer, wider = batch.with_unknown_line(0), batch.with_unknown_line(-1)
    case.same(case.evaluate(longer, new), want, f"{longer.name} matters")
    # Far below the others, so that it does not show in a softmax either.
    got = case.evaluate(wider, new.with_unknown_line(-1).with_unknown_at(-1e4))
    # Counts are left out: a label that is never known may be counted as one without a value.
    names = {name for name, value in got.items() if not isinstance(value, int)}
    got, want = ({name: part[name] for name in names} for part in (of_labels(got, slice(case.shape[1])), want))
    case.same(got, want, f"{wider.name} matters")


def check_edge_batches(case: Case) -> None:
    """Every batch at the edge gives results, the same each time, without an error or a warning."""
    for batch in case.edges():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                learnt, values = case.fit(batch), case.as_values(batch.scores)
                case.results(learnt, values[:0])
                want = case.results(learnt, values)
                case.same(case.evaluate(batch, batch), want, "the same batch gives other results")
            except Exception as error:
                error.add_note(f"The batch: {batch.name}.")
                raise


def check_types(case: Case) -> None:
    """Half precision is computed as the same numbers in float32; arrays and tensors are the same."""
    batch = case.example()
    values, targets = case.as_values(batch.scores), batch.targets.to(case.device)
    if case.device == "cpu":
        array = values.numpy()
        from_arrays = case.results(case.learn(array, targets.numpy()), array)
        case.same(from_arrays, case.evaluate(batch, batch), "arrays and tensors differ")
    for dtype in (torch.float16, torch.bfloat16) if values.is_floating_point() else ():
        rounded = values.to(dtype)
        got, want = (case.results(case.learn(kind, targets), kind) for kind in (rounded, rounded.float()))
        case.same(got, want, f"{dtype} and the same numbers in float32 differ")


def check_unfitted(case: Case) -> None:
    """Before `fit`, what learns raises an error; what does not learn gives results at once."""
    unfitted, values = case.make().to(case.device), case.as_values(case.example().scores)
    if bool(unfitted.fitted):
        case.results(unfitted, values)
    else:
        assert_error(lambda: case.results(unfitted, values), "an unfitted one is used", "must be fitted before use")


def check_saved(case: Case) -> None:
    """What was saved gives the same results and is shown alike: by `manyhot.save`, `state_dict`, and after `half()`."""
    fitted, new = case.fit(case.example()), case.as_values(case.example(seed=1).scores)
    want = case.results(fitted, new)
    for name, again in restored(fitted, case.make()):
        case.same(case.results(again, new), want, f"a {name} one gives other results")
        require(repr(again) == repr(fitted), f"a {name} one is shown as {again!r} and not as {fitted!r}")


def restored(fitted: Fitted, fresh: Fitted) -> Iterator[tuple[str, Any]]:
    """A calibrator or rule after `save` and `load`, as a fresh one with its `state_dict`, and after `half`."""
    own = {type(part).__name__: type(part) for part in fitted.modules() if isinstance(part, Fitted)}
    with tempfile.TemporaryDirectory() as folder, patch.dict("manyhot.registry._registered", own):
        save(fitted, Path(folder) / "saved.json")
        yield "saved", load(Path(folder) / "saved.json").to(fitted.fitted.device)
    fresh.to(fitted.fitted.device).load_state_dict(fitted.state_dict())
    yield "refilled", fresh
    yield "halved", fitted.half()


SHARED_PROPERTIES = check_order, check_edge_batches, check_types
FITTED_PROPERTIES = *SHARED_PROPERTIES, check_unfitted, check_saved
