"""The data model of a page: header, sections, figures, tables and cards. Nothing here knows HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure


@dataclass(frozen=True)
class Figure:
    """A figure, drawn when it is asked for.

    Attributes:
        key: Its name among the figures of a report, and as a file.
        caption: How to read it.
        alt: What it shows, in numbers, for those who cannot see it.
        draw: Gives the figure for a light (False) or a dark page (True).
        on_page: Whether the page shows it; other ones, such as those of cards, are for files alone.
    """

    key: str
    caption: str
    alt: str
    draw: Callable[[bool], MatplotlibFigure]
    on_page: bool = True


@dataclass(frozen=True)
class RowGroup:
    """Rows of a table that belong together, below a title of their own where it is not empty."""

    title: str
    rows: list[list[str]]


@dataclass(frozen=True)
class Table:
    """A table of texts, the first column of which names the rows.

    Attributes:
        caption: What the table holds.
        head: The titles of the columns.
        groups: Its rows.
        notes: What a row says, by its name.
        folded: Whether it is shown only when asked for.
    """

    caption: str
    head: list[str]
    groups: list[RowGroup]
    notes: dict[str, str] = field(default_factory=dict)
    folded: bool = False


@dataclass(frozen=True)
class Bar:
    """The probability of one label of a sample, what was decided, and what is true.

    Attributes:
        name: The label.
        prob: Its probability.
        predicted: Whether the sample was given the label.
        target: 1 present, 0 absent, -1 unknown.
        marked: Whether it is why the sample is shown.
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
        bars: Labels that are worth seeing.
        image: A small picture as a data address; None where there is none.
        why: Why there is no picture; None where there is one, or nobody expects one.
    """

    name: str
    note: str
    bars: list[Bar]
    image: str | None = None
    why: str | None = None


@dataclass(frozen=True)
class Gallery:
    """Samples that are shown for the same reason."""

    key: str
    title: str
    paragraphs: list[str]
    cards: list[Card]


@dataclass(frozen=True)
class Section:
    """A part of the page with a title.

    Attributes:
        key: Its address within the page.
        title: What it is about.
        paragraphs: Paragraphs.
        findings: Sentences that stand by themselves, as a list.
        plots: Its figures.
        tables: Its tables.
        galleries: Its cards.
        code: A text that is shown letter by letter, when asked for, by its title.
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
    """What the page is about: its title, a sentence, and facts by name."""

    title: str
    lead: str
    facts: list[tuple[str, str]]
