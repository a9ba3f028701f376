"""The head of the page, and the table that people look at first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from manyhot.evaluation.names import GROUPS, shown, title
from manyhot.evaluation.result import Evaluation, Value
from manyhot.report.page.gathering import Subject
from manyhot.report.page.pieces import Grid, Rows, Section
from manyhot.report.page.shares import counted
from manyhot.report.page.words import mean_size, promises, readings

# What is told first of each group, and what it says.
HEADLINES = {
    "ranking": {
        "map": "{noun}s with a label stand before those without it, mean over labels",
        "map_sample": "labels of a {noun} stand before the others, mean over {noun}s",
        "map_cell": "all cells in one ranking",
        "auroc": "chance that a {noun} with a label stands before one without it",
    },
    "probabilities": {
        "ece": "how far promises are off, mean over cells",
        "ace": "how far promises are off, mean over bins",
        "log_loss_per_row": "price of the probabilities of a {noun}, less is better",
        "brier": "mean squared error of the probabilities, less is better",
    },
    "sets": {
        "micro_f": "precision and recall of all cells in one figure",
        "macro_f": "the same of each label, mean over labels",
        "micro_precision": "labels given that are right",
        "micro_recall": "labels there that are given",
        "exact_match": "{noun}s with exactly the right labels",
        "mean_size": "mean number of labels",
        "known_size": "the same of those whose truth is known",
        "coverage": "{noun}s that are not left to a person",
    },
    "no_label": {
        "no_label_auroc": "chance that a {noun} with labels has the higher top confidence",
        "mmc": "mean top confidence in {noun}s without labels, less is better",
    },
    "one_label": {
        "sample_wise_accuracy": "the label has the highest score of its {noun}",
        "class_wise_accuracy": "and one threshold a class tells it from the others",
        "uniform_accuracy": "and one threshold for all tells it from the others",
        "softmax_uniform_accuracy": "the same by log-probabilities, so that losses can be compared",
    },
}
# What goes without saying where it has this value.
USUAL = {"coverage": 1.0}


@dataclass(frozen=True)
class Header:
    """What the page is about: its title, a sentence, and facts by name."""

    title: str
    lead: str
    facts: list[tuple[str, str]]


def header(subjects: Sequence[Subject]) -> Header:
    """The head of the page."""
    if len(subjects) > 1:
        same = dict.fromkeys(map(judged, subjects))
        if len(same) == 1:
            facts_of_each = [(one.name, model_of(one)) for one in subjects]
            return Header(f"{len(subjects)} models compared", f"Judged on {next(iter(same))}.", facts_of_each)
        lead = "Judged on different rows, so that part of a difference may be due to the rows."
        found = [(one.name, f"{model_of(one)}, judged on {judged(one)}") for one in subjects]
        return Header(f"{len(subjects)} models compared", lead, found)
    (subject,) = subjects
    what = "a trained classifier" if subject.run is not None else "a table of predictions"
    return Header(subject.name, f"Report on {what}, judged on {judged(subject)}.", facts(subject))


def model_of(subject: Subject) -> str:
    """What a model is, in a few words."""
    return "a table of predictions" if subject.run is None else str(subject.run.config.get("loss"))


def judged(subject: Subject) -> str:
    """Which rows were judged, in words."""
    drawn = "" if len(subject.table) == subject.rows else ", drawn at random"
    labels = counted(len(subject.labels), "label")
    return f"{rows_of(subject)}{drawn}{honesty(subject)}, with {labels}"


def rows_of(subject: Subject) -> str:
    """How many rows of what were judged."""
    count, all_rows = len(subject.table), counted(subject.rows, subject.noun)
    some = all_rows if count == subject.rows else f"{count:,} of {all_rows}"
    return some if subject.split is None else f"{some} of the split {subject.split!r}"


def honesty(subject: Subject) -> str:
    """Whether a model has seen the rows that it is judged by, as far as their splits tell."""
    if subject.split is None:
        return all_splits(subject.table.split_sizes())
    known = {
        "test": ", none of them seen in training",
        "val": ", which it was tuned on (so that the figures are too rosy)",
        "train": ", which it was trained on (so that the figures are far too rosy)",
    }
    # Who made a table may have used its splits for something else.
    unsure = {"val": ", which models are often tuned on (so that the figures may be too rosy)", "train": known["train"]}
    return (unsure if subject.run is None else known).get(subject.split, "")


def all_splits(sizes: dict[str, int]) -> str:
    """That rows of all splits were judged together; nothing for a table without splits."""
    if not sizes:
        return ""
    counts = ", ".join(f"{name} {count:,}" for name, count in sizes.items())
    seen = ": training rows are among them, so that the figures are too rosy" if "train" in sizes else ""
    return f" of all splits together ({counts}{seen})"


def facts(subject: Subject) -> list[tuple[str, str]]:
    """What was trained on what, and what the judged rows are like."""
    found = trained(subject)
    table, counts = subject.table, subject.facts.counts()
    made_by = {"Link": table.link, "Calibrator": table.calibrator}
    found += [(name, type(part).__name__) for name, part in made_by.items() if part is not None]
    found += [] if table.rule is None else [("Rule", repr(table.rule))]
    sizes = f"{mean_size(subject.targets):.2f} on average, {subject.facts.most} at the most"
    found.append((f"Labels of a {subject.noun}", sizes))
    for name, words in (
        ("rows without labels", f"{subject.noun.capitalize()}s without labels"),
        ("rows without known cells", f"{subject.noun.capitalize()}s of which nothing is known"),
        ("unknown cells", "Unknown cells"),
        ("labels without positives", "Labels that no row has"),
    ):
        if counts[name]:
            found.append((words, f"{counts[name]:,}"))
    return found


def trained(subject: Subject) -> list[tuple[str, str]]:
    """What a run was trained with and on; nothing for a table."""
    if subject.run is None:
        return []
    config, figures = subject.run.config, subject.run.figures
    what = {"Loss": "loss", "Backbone": "backbone", "Trained": "tune"}
    words = {"head": "the head, on frozen features", "all": "all of the network"}
    found = [(name, str(config[key])) for name, key in what.items() if config.get(key) is not None]
    found = [(name, words.get(text, text) if name == "Trained" else text) for name, text in found]
    rows = ", ".join(f"{name} {count:,}" for name, count in figures["rows"].items())
    found += [("Rows", rows), ("Training time", f"{figures['seconds']:.0f} s")]
    if figures["bad images"]:
        found.append(("Unreadable images", f"{len(figures['bad images']):,}, left out"))
    return found


def summary(subjects: Sequence[Subject]) -> Section:
    """The figures with their intervals, and what they say."""
    first, notes = subjects[0], []
    small = [(subject, subject.evaluation.too_small) for subject in subjects if subject.evaluation.too_small]
    if small:
        names = [f"{subject.name}: " if len(subjects) > 1 else "" for subject, _ in small]
        return Section("summary", "Summary", [f"{name}{why}" for name, (_, why) in zip(names, small, strict=True)])
    if any(subject.evaluation.level is None for subject in subjects):
        notes.append(
            "Intervals are left out, because drawing so many rows again takes long: manyhot evaluate --intervals 0.95."
        )
    else:
        notes.append(
            "Intervals: 95 of 100 such intervals hold the value that endlessly many rows of this kind would give. "
            "Training again is not in them."
        )
    if len(subjects) > 1:
        grids = [comparison_grid(subjects)]
        said = [f"{subject.name}: {line}" for subject in subjects for line in islice(promises(subject), 1)]
        return Section("summary", "Summary", notes, said, grids=grids)
    groups = first.evaluation.groups.items()
    notes += [f"{GROUPS[name]}: {note}" for name, group in groups for note in group.notes if not group.values]
    return Section("summary", "Summary", notes, readings(first), grids=[headline_grid(first), full_grid(first)])


def headline_grid(subject: Subject) -> Grid:
    """What people look at first, with the values before calibration where there was one."""
    before = subject.evaluation_before
    head = ["figure", "value, 95 % interval", *(["before calibration"] if before else [])]
    groups = []
    for name, group in subject.evaluation.groups.items():
        rows = [
            [title(key), cell(key, value), *earlier(before, name, key)]
            for key, value in group.values.items()
            if key in HEADLINES.get(name, {}) and USUAL.get(key) != value.value
        ]
        if rows:
            groups.append(Rows(GROUPS[name], rows))
    return Grid(f"Figures of {rows_of(subject)}", head, groups, notes=notes_of(subject.noun))


def earlier(before: Evaluation | None, group: str, key: str) -> list[str]:
    """A value before calibration, where calibration could change it; decisions were made after it."""
    if before is None:
        return []
    changes = group in ("probabilities", "ranking") or key in ("mmc", "no_label_auroc")
    return [shown(key, before.values.get(key)) if changes else ""]


def notes_of(noun: str) -> dict[str, str]:
    """What the figures say, by their titles."""
    return {title(key): text.format(noun=noun) for group in HEADLINES.values() for key, text in group.items()}


def interval(key: str, value: Value) -> str:
    """The interval of a value, for people."""
    found = value.interval
    if found is None or found.low != found.low:
        return ""
    low, high = shown(key, found.low), shown(key, found.high)
    return f"{low.removesuffix(' %')} to {high}"


def full_grid(subject: Subject) -> Grid:
    """All values, for those who look for another one."""
    groups = [
        Rows(
            GROUPS[name],
            [[title(key), shown(key, value.value), interval(key, value)] for key, value in group.values.items()],
        )
        for name, group in subject.evaluation.groups.items()
        if group.values
    ]
    return Grid("All figures", ["figure", "value", "95 % interval"], groups, folded=True)


def comparison_grid(subjects: Sequence[Subject]) -> Grid:
    """One column a subject, with the intervals below the values."""
    groups = []
    names = dict.fromkeys(name for subject in subjects for name in subject.evaluation.groups)
    for name in names:
        rows = []
        for key in HEADLINES.get(name, {}):
            values = [
                subject.evaluation.groups[name].values.get(key) if name in subject.evaluation.groups else None
                for subject in subjects
            ]
            if any(value is not None and USUAL.get(key) != value.value for value in values):
                rows.append([title(key), *(cell(key, value) for value in values)])
        if rows:
            groups.append(Rows(GROUPS[name], rows))
    head = ["figure", *(subject.name for subject in subjects)]
    return Grid("Figures of each model", head, groups, notes=notes_of(subjects[0].noun))


def cell(key: str, value: Value | None) -> str:
    """A value, and below it its interval."""
    if value is None:
        return "–"
    ends = interval(key, value)
    return f"{shown(key, value.value)}\n{ends}" if ends else shown(key, value.value)
