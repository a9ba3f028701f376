"""Samples as cards: a small picture, and the probabilities of the labels that are worth seeing."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from manyhot.report.page.examples import Pick
from manyhot.report.page.gathering import Subject
from manyhot.report.page.pieces import Bar, Card, Drawing
from manyhot.search.found import Hit
from manyhot.search.places import Unreadable, find, likeliest_first
from manyhot.search.sheet import read_pictures
from manyhot.terminal import percent, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL import Image

# Pixels of the longer side: twice as many as are shown, for screens that have them.
SIDE = 224
QUALITY = 78
# Bars on a card: up to so many, and the likeliest labels until there are so many.
MOST_BARS, USUAL_BARS = 8, 4


@dataclass(frozen=True)
class Sight:
    """What can be seen of samples: pictures by row, or why there is none. Rows that are not in it have no picture."""

    pictures: Mapping[int, Image.Image | Unreadable]

    @property
    def missing(self) -> int:
        """How many pictures could not be read."""
        return sum(isinstance(picture, Unreadable) for picture in self.pictures.values())


def look_at(subject: Subject, rows: Sequence[int]) -> Sight:
    """Reads the pictures of some rows, all at once; none where the table does not lead to any."""
    table = subject.table.take(list(rows))
    paths: list[str] | list[None] = table.paths or [None] * len(table)
    hits = [Hit(id_, path, 0.0, 0.0) for id_, path in zip(table.ids, paths, strict=True)]
    if table.paths is None:
        roots = likeliest_first(subject.roots, table.ids)
        # Ids may be paths; where none of them is, nobody expects pictures.
        if not any(find(id_, roots) for id_ in table.ids):
            return Sight({})
    return Sight(dict(zip(rows, read_pictures(hits, subject.roots, SIDE), strict=True)))


def make_card(subject: Subject, pick: Pick, sight: Sight) -> Card:
    """The card of one row."""
    picture = sight.pictures.get(pick.row)
    return Card(
        name=name_of(subject, pick.row),
        note=note_of(subject, pick),
        bars=bars_of(subject, pick),
        picture=None if picture is None or isinstance(picture, Unreadable) else as_address(picture),
        why=str(picture) if isinstance(picture, Unreadable) else None,
    )


def name_of(subject: Subject, row: int) -> str:
    """The name of a row's file without its folders, or its id."""
    one = subject.table.take([row])
    path = None if one.paths is None else one.paths[0]
    return (PurePosixPath(path).name or path) if path else one.ids[0]


def note_of(subject: Subject, pick: Pick) -> str:
    """Why a row is shown, in a few words."""
    if pick.label is None:
        asked = subject.decision is not None and bool(subject.decision.abstain[pick.row])
        return "left to a person" if asked else ""
    assert subject.probs is not None
    prob, name = float(subject.probs[pick.row, pick.label]), subject.labels[pick.label]
    if subject.targets[pick.row, pick.label] > 0:
        return f"{name}: labelled, but {percent(prob)}"
    return f"{name}: {percent(prob)}, but not labelled"


def bars_of(subject: Subject, pick: Pick) -> list[Bar]:
    """The labels of a row that are worth seeing, the likeliest first: the marked one, errors, given, true, likely."""
    assert subject.probs is not None
    probs, targets = subject.probs[pick.row].tolist(), subject.targets[pick.row].tolist()
    given = [False] * len(probs) if subject.decision is None else subject.decision.labels[pick.row].tolist()

    def worth(label: int) -> tuple[bool, bool, bool, float]:
        wrong = targets[label] >= 0 and given[label] != (targets[label] > 0)
        return label == pick.label, wrong, given[label] or targets[label] > 0, probs[label]

    order = sorted(range(len(probs)), key=worth, reverse=True)
    chosen = [label for place, label in enumerate(order) if place < USUAL_BARS or any(worth(label)[:3])][:MOST_BARS]
    return [
        Bar(subject.labels[label], probs[label], given[label], int(targets[label]), label == pick.label)
        for label in sorted(chosen, key=lambda label: (-probs[label], label))
    ]


def as_address(picture: Image.Image) -> str:
    """A picture as a data address, which needs no request."""
    bytes_ = io.BytesIO()
    picture.save(bytes_, format="JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(bytes_.getvalue()).decode()}"


def as_drawing(key: str, title: str, subject: Subject, picks: Sequence[Pick], sight: Sight) -> Drawing:
    """The same cards as a figure, for files; the page shows them as text that can be read and copied."""
    examples = []
    for pick in picks:
        picture = sight.pictures.get(pick.row)
        bars = [(printable(bar.name), bar.prob, bar.given, bar.target) for bar in bars_of(subject, pick)]
        examples.append(
            {
                "picture": None if isinstance(picture, Unreadable) else picture,
                "title": printable(name_of(subject, pick.row)),
                "note": printable(note_of(subject, pick)),
                "labels": bars,
            }
        )
    return Drawing(key, title, title, partial(_draw, examples), on_page=False)


def _draw(examples: list[dict[str, Any]], dark: bool) -> Figure:
    from manyhot.report.examples import draw_examples

    return draw_examples(examples, dark=dark)
