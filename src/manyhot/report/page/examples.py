"""Which samples are worth a look: probable mistakes of the table first, then surprises, the worst and the best."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from torch import Tensor

from manyhot.report.page.gathering import Subject

# From here on a model is sure of a label.
SURE = 0.9
# Up to here it holds a label that the table has for all but impossible.
IMPOSSIBLE = 0.05


class Against(NamedTuple):
    """Cells in which the table says the opposite of a sure model.

    Attributes:
        cells: (N, K), which they are.
        expected: How many there would be if every promise were true and the table without mistakes.
    """

    cells: Tensor
    expected: float


class Pick(NamedTuple):
    """A row that is shown, and the label that it is shown for, None if for the whole of it."""

    row: int
    label: int | None = None


def unlabelled(subject: Subject, most: int, seen: Collection[int] = ()) -> list[Pick]:
    """Rows of which the model is sure that they have a label which the table says they have not, the surest first."""
    return _picks(subject, sure_of(subject).cells, -1, most, seen)


def impossible(subject: Subject, most: int, seen: Collection[int] = ()) -> list[Pick]:
    """Rows with a label that the model holds for all but impossible, the least probable first."""
    return _picks(subject, ruled_out(subject).cells, 1, most, seen)


def sure_of(subject: Subject) -> Against:
    """Cells of labels that the model is sure of and the table does not have."""
    assert subject.probs is not None
    sure = (subject.probs >= SURE) & (subject.targets >= 0)
    return Against(sure & (subject.targets == 0), float((1 - subject.probs[sure].double()).sum()))


def ruled_out(subject: Subject) -> Against:
    """Cells of labels that the model all but rules out and the table has."""
    assert subject.probs is not None
    out = (subject.probs <= IMPOSSIBLE) & (subject.targets >= 0)
    return Against(out & (subject.targets == 1), float(subject.probs[out].double().sum()))


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
    loss, expected = subject.log_losses
    surprise = loss - expected
    return _rows([-surprise], surprise > 0, most, seen)


def worst(subject: Subject, most: int, seen: Collection[int] = ()) -> list[Pick]:
    """Rows with the most wrong labels, given or missed."""
    assert subject.decision is not None
    errors = wrong_cells(subject)
    loss, _ = subject.log_losses
    return _rows([-errors.double(), -loss], (errors > 0) & ~subject.decision.abstain, most, seen)


def best(subject: Subject, most: int, seen: Collection[int] = ()) -> list[Pick]:
    """Rows with labels that were all given and no others, those with the most labels first, then the surest."""
    assert subject.decision is not None
    right = (wrong_cells(subject) == 0) & ~subject.decision.abstain
    labels = (subject.targets > 0).sum(1)
    loss, _ = subject.log_losses
    return _rows([-labels.double(), loss], right & (labels > 0), most, seen)


def wrong_cells(subject: Subject) -> Tensor:
    """(N,), how many labels of a row are given and not there, or there and not given."""
    assert subject.decision is not None
    wrong = (subject.decision.labels != (subject.targets > 0)) & (subject.targets >= 0)
    return wrong.sum(1)


def _rows(keys: list[Tensor], allowed: Tensor, most: int, seen: Collection[int]) -> list[Pick]:
    """The allowed rows that come first by these keys, the first key before the second."""
    order = np.lexsort([key.numpy() for key in reversed(keys)])
    order = order[allowed.numpy()[order]]
    # No row is in `seen` twice, so this is more than enough.
    first = order[: most + len(seen)].tolist()
    return [Pick(row) for row in first if row not in seen][:most]
