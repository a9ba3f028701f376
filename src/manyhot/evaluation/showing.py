"""An evaluation for people: as plain text, for a terminal, for a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from manyhot.evaluation.names import GROUPS, shown, title

if TYPE_CHECKING:
    from rich.console import Group as RichGroup

    from manyhot.evaluation.result import Evaluation, Group


def headline(evaluation: Evaluation) -> str:
    """What was evaluated, in one line."""
    counts = evaluation.counts
    split = "" if evaluation.split is None else f" of the split {evaluation.split!r}"
    return f"Evaluation of {counts['rows']:,} rows{split} x {counts['labels']:,} labels ({', '.join(evaluation.kinds)})"


def remarks(evaluation: Evaluation) -> list[str]:
    """What must be known before any value is read."""
    return [*filter(None, [evaluation.too_small]), *evaluation.notes]


def facts(evaluation: Evaluation) -> str:
    """What is present, unknown and empty, in one line."""
    return counted({name: count for name, count in evaluation.counts.items() if name not in ("rows", "labels")})


def counted(counts: dict[str, int]) -> str:
    """Counts in words, without those that are zero.

    Example:
        >>> counted({"labels": 1078, "labels without positives": 2, "labels without negatives": 0})
        'labels: 1,078, labels without positives: 2'
    """
    return ", ".join(f"{name}: {count:,}" for name, count in counts.items() if count)


def lines(group: Group, evaluation: Evaluation) -> list[list[str]]:
    """Title, value, interval and counts of each value of a group; counts only where they change."""
    found, before, too_small = [], None, evaluation.too_small is not None
    for name, value in group.values.items():
        interval = None if too_small else value.interval
        between = "" if interval is None else f"[{shown(name, interval.low)}, {shown(name, interval.high)}]"
        found.append(
            [
                title(name),
                shown(name, None if too_small else value.value),
                between,
                "" if value.counts == before else counted(value.counts),
            ]
        )
        before = value.counts
    return found


def text_table(rows: list[list[str]], *, left: tuple[int, ...] = (0,)) -> list[str]:
    """Rows of texts as lines with columns one below the other; numbers to the right, `left` columns to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if place in left else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def as_text(evaluation: Evaluation) -> str:
    """Plain text, as `print` shows it."""
    found = [headline(evaluation), *filter(None, [facts(evaluation)]), *remarks(evaluation)]
    for name, group in evaluation.groups.items():
        found += ["", GROUPS[name]]
        found += [f"  {line}" for line in text_table(lines(group, evaluation), left=(0, 3))]
        found += [f"  Note: {note}" for note in group.notes]
    return "\n".join(found)


def as_rich(evaluation: Evaluation) -> RichGroup:
    """For a terminal, by rich."""
    from rich.console import Group as RichGroup
    from rich.table import Table
    from rich.text import Text

    parts: list[Table | Text] = [Text(headline(evaluation), style="bold"), Text(facts(evaluation), style="dim")]
    parts += [Text(note) for note in remarks(evaluation)]
    for name, group in evaluation.groups.items():
        table = Table(title=GROUPS[name], title_justify="left", title_style="bold", show_header=False, box=None)
        for justify, style in (("left", ""), ("right", "bold"), ("right", "dim"), ("left", "dim")):
            table.add_column(justify=justify, style=style)  # type: ignore[arg-type]
        for line in lines(group, evaluation):
            table.add_row(*(Text(text) for text in line))
        parts += [Text(""), table if group.values else Text(GROUPS[name], style="bold")]
        parts += [Text(f"  Note: {note}", style="italic") for note in group.notes]
    return RichGroup(*parts)


def as_html(evaluation: Evaluation) -> str:
    """For a notebook."""
    found = [f"<h3>{escape(headline(evaluation))}</h3><p>{escape(facts(evaluation))}</p>"]
    found += [f"<p>{escape(note)}</p>" for note in remarks(evaluation)]
    for name, group in evaluation.groups.items():
        found.append(f"<h4>{escape(GROUPS[name])}</h4>")
        found += [html_table([["", "value", "interval", "from"], *lines(group, evaluation)])] if group.values else []
        found += [f"<p><em>{escape(note)}</em></p>" for note in group.notes]
    return "".join(found)


def html_table(rows: list[list[str]]) -> str:
    """Rows of texts as an HTML table, the first of them its head."""
    head = "".join(f"<th>{escape(text)}</th>" for text in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
