"""The labels: which occur together, in truth and in what is given, and how well each is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manyhot.evaluation.label_table import TITLES
from manyhot.report.co_occurrence import count_pairs, draw_co_occurrence, side_by_side
from manyhot.report.looks import drawn_names
from manyhot.report.page.choosing import left_out
from manyhot.report.page.gathering import Subject
from manyhot.report.page.pieces import Drawing, Grid, Rows, Section
from manyhot.report.page.shares import percent

# Labels of a heat map, and rows of a table that are shown without being asked for.
MOST, UNFOLDED = 20, 25
# More labels than this nobody reads through on a page.
LONGEST_TABLE = 1000


def together(subjects: Sequence[Subject]) -> Section | None:
    """Which labels occur together: true, and given."""
    subject = subjects[0]
    if len(subject.labels) < 2 or subject.facts.most < 2:
        return None
    names = drawn_names(subject.labels)
    tables = {"true": subject.targets}
    words = ["Each row of a picture: of the samples with its label, how many have the label of the column as well."]
    if subject.decision is not None and bool((subject.targets > 0)[subject.answered].any()):
        # The same rows and what is known of them, so that the two can be held against each other.
        true = subject.targets[subject.answered]
        given = subject.decision.labels[subject.answered] & (true >= 0)
        tables = {"true": true, "given": given.to(true.dtype)}
        words += ["What is given should look like what is true.", *left_out([subject])]
    # The frequent ones of the truth, in an order in which those that go together adjoin; of both pictures.
    frequent = count_pairs(tables["true"], most=MOST)
    order = [frequent["labels"][place] for place in side_by_side(frequent["together"])]
    order = [label for label in order if bool((tables["true"][:, label] > 0).any())]
    drawings = []
    for kind, table in tables.items():
        pairs = count_pairs(table[:, order], most=len(order))
        counts = {"labels": [order[place] for place in pairs["labels"]], "together": pairs["together"]}
        if any(counts["together"][place][place] for place in range(len(order))):
            drawings.append(draw_pairs(kind, counts, names, subject.labels, order))
    if len(subject.labels) > MOST:
        words.append(f"The {MOST} most frequent of {len(subject.labels):,} labels.")
    if len(subjects) > 1:
        words.append(f"Those of {subject.name}.")
    return Section("together", "Labels that occur together", words, drawings=drawings)


def draw_pairs(kind: str, counts: dict[str, Any], names: list[str], plain: list[str], order: list[int]) -> Drawing:
    """The heat map of the true or of the given labels."""
    pairs = [
        (both / row[a], a, b)
        for a, row in enumerate(counts["together"])
        for b, both in enumerate(row)
        if a != b and row[a] >= 5
    ]
    top = sorted(pairs, reverse=True)[:3]
    shown = [plain[column] for column in counts["labels"]]
    told = "; ".join(f"{percent(share)} of {shown[a]} have {shown[b]}" for share, a, b in top)
    caption = {"true": "True labels.", "given": "Labels that are given."}[kind]
    alt = f"Heat map of which labels occur together, {kind}. {told}."
    key = f"co-occurrence-{kind}"
    return Drawing(key, caption, alt, lambda dark: draw_co_occurrence(counts, names=names, order=order, dark=dark))


def every_label(subjects: Sequence[Subject]) -> Section:
    """A table of all labels, one for each subject."""
    grids = [label_grid(subject, several=len(subjects) > 1) for subject in subjects]
    words = ["AP: how well rows with the label stand before those without it. ECE: how far its promises are off."]
    return Section("labels", "All labels", words, grids=grids)


def label_grid(subject: Subject, *, several: bool) -> Grid:
    """The values of each label, the most frequent first."""
    table = subject.evaluation.by_label()
    present = table.columns["present"].tolist()
    order = sorted(range(len(table)), key=lambda label: (-present[label], label))[:LONGEST_TABLE]
    rows = list(table.rows())
    # As the labels are called: the page escapes them, and a terminal is not in sight.
    found = [[subject.labels[label], *rows[label][1:]] for label in order]
    caption = f"{len(found):,} labels" + (f" of {subject.name}" if several else "")
    if len(found) < len(table):
        caption = f"The {len(found):,} most frequent of {len(table):,} labels"
    head = ["label", *(TITLES[name] for name in table.columns)]
    return Grid(caption, head, [Rows("", found)], folded=several or len(found) > UNFOLDED)
