"""Which samples are worth a look: probable mistakes of the table first, then surprises, the worst and the best."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyhot.report.page.gathering import Subject

# From here on a model is more sure than not of a label that the table does not have.
SURE = 0.5
# Up to here it holds a label that the table has for all but impossible.
IMPOSSIBLE = 0.05
# So that one saturated cell is not all that counts.
LEAST = 1e-7


class Pick(NamedTuple):
    """A row that is shown, and the label that it is shown for, None if for the whole of it."""

    row: int
    label: int | None = None


def unlabelled(subject: Subject, most: int, seen: Collection[int] = ()) -> list[Pick]:
    """Rows of which the model is sure that they have a label which the table says they have not, the surest first."""
    assert subject.probs is not None
    cells = (subject.targets == 0) & (subject.probs >= SURE)
    return _picks(subject, cells, -1, most, seen)


def impossible(subject: Subject, most: int, seen: Collection[int] = ()) -> list[Pick]:
    """Rows with a label that the model holds for all but impossible, the least probable first."""
    assert subject.probs is not None
    cells = (subject.targets == 1) & (subject.probs <= IMPOSSIBLE)
    return _picks(subject, cells, 1, most, seen)


def _picks(subject: Subject, cells: Tensor, sign: int, most: int, seen: Collection[int]) -> list[Pick]:
    """Some of the cells by probability, one a row; where probabilities are equal, scores tell cells apart."""
    assert subject.probs is not None
    places = cells.nonzero().numpy()
    probs, values = (sign * table[cells].double().numpy() for table in (subject.probs, subject.values))
    found: dict[int, int] = {}
    for place in np.lexsort((values, probs)):
        row, label = places[place].tolist()
        if row not in seen:
            found.setdefault(row, label)
        if len(found) == most:
            break
    return [Pick(row, label) for row, label in found.items()]


def surprising(subject: Subject, most: int, seen: Collection[int] = ()) -> list[Pick]:
    """Rows whose labels as a whole the model held for far less likely than it usually does."""
    loss, expected = log_losses(subject)
    surprise = loss - expected
    return _rows([-surprise], surprise > 0, most, seen)


def worst(subject: Subject, most: int, seen: Collection[int] = ()) -> list[Pick]:
    """Rows with the most wrong labels, given or missed."""
    assert subject.decision is not None
    errors = wrong_cells(subject)
    loss, _ = log_losses(subject)
    return _rows([-errors.double(), -loss], (errors > 0) & ~subject.decision.abstain, most, seen)


def best(subject: Subject, most: int, seen: Collection[int] = ()) -> list[Pick]:
    """Rows with labels that were all given and no others, those with the most labels first, then the surest."""
    assert subject.decision is not None
    right = (wrong_cells(subject) == 0) & ~subject.decision.abstain
    labels = (subject.targets > 0).sum(1)
    loss, _ = log_losses(subject)
    return _rows([-labels.double(), loss], right & (labels > 0), most, seen)


def wrong_cells(subject: Subject) -> Tensor:
    """(N,), how many labels of a row are given and not there, or there and not given."""
    assert subject.decision is not None
    wrong = (subject.decision.labels != (subject.targets > 0)) & (subject.targets >= 0)
    return wrong.sum(1)


def log_losses(subject: Subject) -> tuple[Tensor, Tensor]:
    """(N,), the log loss of each row over its known cells, and the one that its own probabilities expect."""
    assert subject.probs is not None
    known = subject.targets >= 0
    probs = subject.probs.double().clamp(LEAST, 1 - LEAST)
    there, not_there = -probs.log(), -torch.log1p(-probs)
    loss = torch.where(subject.targets > 0, there, not_there)
    expected = probs * there + (1 - probs) * not_there
    return (loss * known).sum(1), (expected * known).sum(1)


def _rows(keys: list[Tensor], allowed: Tensor, most: int, seen: Collection[int]) -> list[Pick]:
    """The allowed rows that come first by these keys, the first key before the second."""
    order = np.lexsort([key.numpy() for key in reversed(keys)])
    order = order[allowed.numpy()[order]]
    # No row is in `seen` twice, so this is more than enough.
    first = order[: most + len(seen)].tolist()
    return [Pick(row) for row in first if row not in seen][:most]
