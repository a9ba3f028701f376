"""A table of figures with their intervals, one row a method, as the frontier and the intervals draw it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from manyhot.refusal import refusal
from manyhot.report.reading import Span, check_known, check_named, read_span

Table = dict[str, dict[str, Span]]


def read_table(owner: str, rows: Mapping[str, Any], figures: Sequence[str] | None, percent: Collection[str]) -> Table:
    """The spans of each row by figure, those of `percent` times 100; a figure that a row lacks is left out of it."""
    check_named("rows", owner, rows)
    for name, row in rows.items():
        check_named(f"rows[{name!r}]", owner, row)
    known = list(dict.fromkeys(figure for row in rows.values() for figure in row))
    wanted = known if figures is None else list(figures)
    if not wanted:
        raise refusal("figures", owner, "name at least one figure", "none", "Leave it out to draw all.")
    check_known("figures", owner, wanted, known)
    check_known("percent", owner, percent, known)
    return {
        name: {
            figure: scaled(read_span(f"rows[{name!r}][{figure!r}]", owner, row[figure]), figure in percent)
            for figure in wanted
            if row.get(figure) is not None
        }
        for name, row in rows.items()
    }


def scaled(span: Span, percent: bool) -> Span:
    """The span as it is drawn."""
    return Span(*(100 * number for number in span)) if percent else span


def title_of(figure: str, titles: Mapping[str, str] | None, percent: Collection[str]) -> str:
    """What stands at an axis: the given title or the figure's own name, with its unit."""
    title = (titles or {}).get(figure, figure)
    return f"{title} %" if figure in percent else title
