"""What the figures say, in plain language."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from manyhot.report.page.gathering import Subject
from manyhot.report.page.promises import kept_promises
from manyhot.report.page.shares import counted, one_in, percent, share_of

# Fewer labels say more about chance.
FEWEST = 10


def readings(subject: Subject) -> list[str]:
    """All that can be said about one subject in sentences."""
    return [*promises(subject), *calibration(subject), *sets(subject), *empty_rows(subject), *labels(subject)]


def promises(subject: Subject) -> Iterator[str]:
    """Whether probabilities came true, for those who act on them."""
    if subject.probs is None:
        yield "These scores rank, but mean no probabilities until they are calibrated: manyhot calibrate."
        return
    yield from kept_promises(subject.probs, subject.targets)


def calibration(subject: Subject) -> Iterator[str]:
    """How far probabilities are off, and what the calibrator did about it."""
    error = subject.evaluation.values.get("ece")
    if error is None or error != error:
        return
    before = None if subject.evaluation_before is None else subject.evaluation_before["ece"]
    earlier = "" if before is None else f" (before calibration {100 * before:.1f})"
    single = subject.evaluation.values.get("label_ece")
    alone = "" if single is None or single != single else f"; those of a single label by {100 * single:.1f} on average"
    yield (
        f"Taken together, the promised probabilities of all labels are off by {100 * error:.1f} percentage points"
        f"{earlier}{alone}."
    )


def sets(subject: Subject) -> Iterator[str]:
    """What the decisions are worth."""
    decision, noun = subject.decision, subject.noun
    if decision is None:
        return
    answered = ~decision.abstain
    known = (subject.targets >= 0) & answered.unsqueeze(1)
    given, true = decision.labels & known, (subject.targets > 0) & known
    rows = int(known.any(1).sum())
    if not rows:
        return
    every = f"A {noun} is given {float(decision.sizes[answered].double().mean()):.2f} labels on average"
    if not bool(known[answered].all()):
        every += f". Of labels whose truth is known it is given {float(given.sum()) / rows:.2f}"
    yield (
        f"{every} and has {float(true.sum()) / rows:.2f}; "
        f"that is {one_in(float((given & ~true).sum()) / rows, 'label too many', noun)}, "
        f"and {one_in(float((true & ~given).sum()) / rows, 'label missed', noun)}."
    )
    yield from right_labels(given, true)
    exact = int(((given == true).all(1) & known.any(1)).sum())
    yield f"Of {counted(rows, noun)}, {exact:,} ({percent(exact / rows)}) get exactly the right labels."
    asked = int(decision.abstain.sum())
    if asked:
        yield f"Left to a person: {counted(asked, noun)} ({percent(asked / len(answered))})."


def right_labels(given: Tensor, true: Tensor) -> Iterator[str]:
    """Precision and recall, with intervals."""
    right, found = share_of(true, given), share_of(given, true)
    if right is not None:
        yield f"Of the {right.cells:,} labels that are given, {percent(right.value)} are right ({right.ends})."
    if found is not None:
        yield f"Of the {found.cells:,} labels that are there, {percent(found.value)} are found ({found.ends})."


def empty_rows(subject: Subject) -> Iterator[str]:
    """What is done with rows that have no label."""
    facts, noun = subject.facts, subject.noun
    if subject.decision is None or not facts.empty_rows:
        return
    labelled = (subject.targets > 0).any(1) & subject.answered
    empty = subject.answered & ~labelled
    nothing = ~(subject.decision.labels & (subject.targets >= 0)).any(1)
    if not bool(empty.any()):
        return
    rows, right, wrong = int(empty.sum()), int((nothing & empty).sum()), int((nothing & labelled).sum())
    others = f"; so are {wrong:,} of the {int(labelled.sum()):,} with labels" if bool(labelled.any()) else ""
    yield f"Of {counted(rows, noun)} without labels, {right:,} ({percent(right / rows)}) are given none{others}."


def labels(subject: Subject) -> Iterator[str]:
    """The labels that are easiest and hardest to tell, of those with enough rows to know."""
    columns = subject.evaluation.by_label().columns
    ap, present = columns["ap"], columns["present"]
    enough = [label for label in range(len(ap)) if present[label] >= FEWEST and ap[label] == ap[label]]
    if len(enough) < 3:
        return
    order = sorted(enough, key=lambda label: (-float(ap[label]), label))
    few = min(3, len(order) // 2)
    easy, hard = (
        ", ".join(f"{subject.labels[label]} ({percent(float(ap[label]))})" for label in some)
        for some in (order[:few], order[: -few - 1 : -1])
    )
    yield f"Easiest to find (average precision): {easy}. Hardest: {hard}."


def mean_size(targets: Tensor) -> float:
    """How many labels a row with known cells has in the mean."""
    rows = int((targets >= 0).any(1).sum())
    return float((targets > 0).sum(dtype=torch.int64)) / max(rows, 1)
