"""What the properties of all kinds of objects share: random batches, edge cases, comparisons and expected errors."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple
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
        if not any(some in str(error) for some in words):
            raise AssertionError(f"the error does not hold {words[0]!r}: {error}") from error
    else:
        raise AssertionError(otherwise)


def restored(fitted: Fitted, fresh: Fitted) -> Iterator[tuple[str, Any]]:
    """A calibrator or rule after `save` and `load`, as a fresh one with its `state_dict`, and after `half`."""
    own = {type(part).__name__: type(part) for part in fitted.modules() if isinstance(part, Fitted)}
    with tempfile.TemporaryDirectory() as folder, patch.dict("manyhot.registry._registered", own):
        save(fitted, Path(folder) / "saved.json")
        yield "saved", load(Path(folder) / "saved.json").to(fitted.fitted.device)
    fresh.to(fitted.fitted.device).load_state_dict(fitted.state_dict())
    yield "refilled", fresh
    yield "halved", fitted.half()
