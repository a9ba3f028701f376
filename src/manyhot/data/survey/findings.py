"""What is likely to go wrong with a data set, in plain words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from manyhot.data.survey.result import Duplicates, Survey

FEW = 10  # Rows with a label, below which little can be learnt and less be measured.
EXAMPLES = 3


def findings(survey: Survey) -> list[str]:
    """Sentences, the most important first."""
    return [sentence for look in LOOKS for sentence in look(survey)]


def _missing(survey: Survey) -> Iterator[str]:
    if survey.images is None:
        return
    if survey.images.missing:
        yield f"{_count(survey.images.missing, 'image')} not there: {_some(survey.images.missing)}."
    bad = [f"{name!r} ({reason})" for name, reason in survey.images.unreadable.items()]
    if bad:
        yield f"{_count(bad, 'image')} not readable: {_listed(bad)}."


def _leaks(survey: Survey) -> Iterator[str]:
    for sets, same in ((_duplicates(survey), "the same"), (_near(survey), "nearly the same")):
        across = [some for some in sets if len(some.splits) > 1]
        if across:
            splits = " and ".join(sorted({split for some in across for split in some.splits}))
            yield (
                f"{_count(across, 'image')} {same} in several splits ({splits}), which makes figures look better than "
                f"they are: {_some(across[0].names)}{_and_so_on(across)}. Split anew with duplicates kept together."
            )


def _conflicts(survey: Survey) -> Iterator[str]:
    torn = [some for some in _duplicates(survey) if not some.same_labels]
    if torn:
        shown = f"{_some(torn[0].names)}{_and_so_on(torn)}"
        yield f"{_count(torn, 'image')} there several times with different labels: {shown}."


def _repeats(survey: Survey) -> Iterator[str]:
    sets = _duplicates(survey)
    if sets:
        yield f"{_count(sets, 'image')} there more than once: {_some(sets[0].names)}{_and_so_on(sets)}."


def _no_labels(survey: Survey) -> Iterator[str]:
    if survey.samples and not survey.labels:
        yield "No row has a label, so there is nothing to learn; check how the labels were read."


def _useless_labels(survey: Survey) -> Iterator[str]:
    never = [label.name for label in survey.labels if label.known and not label.count]
    always = [label.name for label in survey.labels if label.known and label.count == label.known]
    unknown = [label.name for label in survey.labels if not label.known and survey.samples]
    if never:
        yield f"{_count(never, 'label')} never present: {_some(never)}."
    if always:
        yield f"{_count(always, 'label')} never absent, so there is nothing to learn: {_some(always)}."
    if unknown:
        yield f"{_count(unknown, 'label')} unknown in all rows: {_some(unknown)}."


def _absent_from_splits(survey: Survey) -> Iterator[str]:
    # What cannot be learnt comes before what cannot be measured.
    for split in sorted(survey.splits, key=lambda name: name != "train"):
        gone = [label.name for label in survey.labels if label.count and not label.by_split[split]]
        if gone:
            what = "learnt" if split == "train" else "judged there"
            yield f"{_count(gone, 'label')} absent from split {split!r} and cannot be {what}: {_some(gone)}."


def _rare(survey: Survey) -> Iterator[str]:
    rare = sorted((label for label in survey.labels if 0 < label.count < FEW), key=lambda label: label.count)
    if rare:
        shown = [f"{label.name!r} ({label.count})" for label in rare]
        yield f"{_count(rare, 'label')} present in fewer than {FEW} rows: {_listed(shown)}."


def _alike_names(survey: Survey) -> Iterator[str]:
    spelt: dict[str, list[str]] = {}
    for label in survey.labels:
        spelt.setdefault(re.sub(r"[\W_]+", "", label.name).casefold(), []).append(label.name)
    twins = [names for key, names in spelt.items() if key and len(names) > 1]
    if twins:
        shown = [" and ".join(map(repr, names)) for names in twins]
        yield f"Labels whose names differ in nothing but case, spaces or signs, perhaps by mistake: {_listed(shown)}."


def _company(survey: Survey) -> Iterator[str]:
    if survey.inseparable:
        shown = [" and ".join(map(repr, names)) for names in survey.inseparable]
        yield f"Labels that never occur apart, so that no model can tell them apart: {_listed(shown)}."


def _empty(survey: Survey) -> Iterator[str]:
    if survey.labels and survey.samples and survey.empty > survey.samples / 2:
        share = survey.empty / survey.samples
        yield f"{share:.0%} of the rows have no label; check that this is true and not an error of reading."


def _no_splits(survey: Survey) -> Iterator[str]:
    if survey.samples and len(survey.splits) < 2:
        yield "The data come in one piece: rows to validate and to test on have to be set aside."


LOOKS: Sequence[Callable[[Survey], Iterator[str]]] = (
    _missing,
    _leaks,
    _conflicts,
    _no_labels,
    _useless_labels,
    _absent_from_splits,
    _empty,
    _alike_names,
    _company,
    _rare,
    _repeats,
    _no_splits,
)


def _duplicates(survey: Survey) -> list[Duplicates]:
    return [] if survey.images is None else survey.images.duplicates


def _near(survey: Survey) -> list[Duplicates]:
    return [] if survey.images is None else survey.images.near_duplicates or []


def _and_so_on(sets: Sequence[Duplicates]) -> str:
    return "" if len(sets) == 1 else ", and so on"


def _count(things: Sequence[object], noun: str) -> str:
    """How many there are, with the verb that most sentences go on with."""
    return f"{len(things):,} {noun} is" if len(things) == 1 else f"{len(things):,} {noun}s are"


def _some(names: Sequence[str]) -> str:
    return _listed([repr(name) for name in names])


def _listed(shown: Sequence[str]) -> str:
    more = len(shown) - EXAMPLES
    return ", ".join(shown[:EXAMPLES]) + (f" and {more:,} more" if more > 0 else "")
