"""The data model of a page: header, sections, figures, tables and cards. Nothing here knows HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure


@dataclass(frozen=True)
class Figure:
    """A figure, drawn on request.

    Attributes:
        key: Its name in the report, and the stem of its file.
        caption: How to read it.
        alt: What it shows, in numbers, for those who cannot see it.
        draw: Returns the figure for a light (False) or a dark page (True).
        on_page: Whether the page shows it; others, such as those of cards, are for files only.
    """

    key: str
    caption: str
    alt: str
    draw: Callable[[bool], MatplotlibFigure]
    on_page: bool = True


@dataclass(frozen=True)
class RowGroup:
    """Rows of a table that belong together, with a title unless it is empty."""

    title: str
    rows: list[list[str]]


@dataclass(frozen=True)
class Table:
    """A table of strings whose first column names the rows.

    Attributes:
        caption: What the table holds.
        head: The titles of the columns.
        groups: Its rows.
        notes: Explanations by name of the row.
        folded: Whether it is collapsed at first.
    """

    caption: str
    head: list[str]
    groups: list[RowGroup]
    notes: dict[str, str] = field(default_factory=dict)
    folded: bool = False


@dataclass(frozen=True)
class Bar:
    """The probability, decision and target of one label of a sample.

    Attributes:
        name: The label.
        prob: Its probability.
        predicted: Whether the label was predicted.
        target: 1 present, 0 absent, -1 unknown.
        marked: Whether it is the reason why the sample is shown.
    """

    name: str
    prob: float
    predicted: bool
    target: int
    marked: bool = False


@dataclass(frozen=True)
class Card:
    """One sample.

    Attributes:
        name: The name of its file, or its id.
        note: Why it is shown.
        bars: The labels to show.
        image: A thumbnail as a data URL; None if there is none.
        why: Why there is no image; None if there is one, or none is expected.
    """

    name: str
    note: str
    bars: list[Bar]
    image: str | None = None
    why: str | None = None


@dataclass(frozen=True)
class Gallery:
    """Samples shown for the same reason."""

    key: str
    title: str
    paragraphs: list[str]
    cards: list[Card]


@dataclass(frozen=True)
class Section:
    """A part of the page with a title.

    Attributes:
        key: Its anchor within the page.
        title: Its title.
        paragraphs: Its paragraphs.
        findings: Statements, shown as a list.
        plots: Its figures.
        tables: Its tables.
        galleries: Its cards.
        code: Verbatim texts by title, collapsed at first.
    """

    key: str
    title: str
    paragraphs: Sequence[str] = ()
    findings: Sequence[str] = ()
    plots: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    galleries: Sequence[Gallery] = ()
    code: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Header:
    """The head of the page: title, lead paragraph, and facts by name."""

    title: str
    lead: str
    facts: list[tuple[str, str]]
