"""A run and a comparison in a notebook."""

from __future__ import annotations

import base64
import importlib.util
from html import escape
from typing import TYPE_CHECKING, Any

from manyhot.evaluation.names import NAMES, shown
from manyhot.evaluation.result import too_small

if TYPE_CHECKING:
    from manyhot.training.comparing import Comparison
    from manyhot.training.run import Run

FACTS = {"loss": "Loss", "backbone": "Backbone", "tune": "Trained", "calibrator": "Calibrator", "rule": "Rule"}
WAYS = {"before": "own link", "after": "calibrated"}


def summary(figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Title, value before and value after calibration of the figures that people look at first."""
    from manyhot.training.comparing import values_of

    before = None if figures["before"] is None else values_of(figures["before"])
    after, rows = values_of(figures["after"]), []
    for name, value in after.items():
        if value is None:
            continue
        earlier = None if before is None else before[name]
        rows.append((NAMES[name].title, shown(name, earlier), shown(name, value)))
    return rows


def too_small_of(figures: dict[str, Any]) -> str | None:
    """Why the judged rows of a run are too few to give figures, in a sentence; None where they are enough."""
    return None if figures["judged"] is None else too_small(figures["after"]["counts"])


def ways(figures: dict[str, Any]) -> list[str]:
    """How the probabilities that were judged came about."""
    return list(WAYS.values()) if figures["calibrated"] else ["as trained"]


def run_as_html(run: Run) -> str:
    """What was trained, how good it is, and whether its promises come true."""
    config = run.config
    facts = "; ".join(f"{title}: {config[name]}" for name, title in FACTS.items() if config.get(name) is not None)
    found = [f"<h3>{escape(repr(run))}</h3><p>{escape(facts)}</p>"]
    if not run.finished:
        return "".join(found)
    figures = run.figures
    rows = ", ".join(f"{name} {count:,}" for name, count in figures["rows"].items())
    judged = "" if figures["judged"] is None else f"; judged on {figures['judged']!r}"
    found.append(f"<p>{escape(f'Rows: {rows}{judged}')}</p>")
    small = too_small_of(figures)
    if small is not None:
        found.append(f"<p>{escape(small)}</p>")
    elif figures["judged"] is not None:
        columns = ways(figures)
        found.append(table(["", *columns], [[title, *values[-len(columns) :]] for title, *values in summary(figures)]))
        found.append(reliability(figures))
    return "".join(found)


def reliability(figures: dict[str, Any]) -> str:
    """The reliability diagram as a picture in the text; nothing where nothing draws it, or nothing is promised."""
    kept = {
        title: figures[way]["groups"]["probabilities"]["details"]
        for way, title in WAYS.items()
        if figures[way] is not None and figures[way]["groups"]["probabilities"]["details"]
    }
    if not kept or importlib.util.find_spec("matplotlib") is None:
        return ""
    from manyhot.report import as_png, draw_reliability

    name = "promised against observed frequency"
    picture = base64.b64encode(as_png(draw_reliability({name: kept}))).decode()
    return f'<img src="data:image/png;base64,{picture}" alt="{name}">'


def comparison_as_html(comparison: Comparison) -> str:
    """One row a loss, the best value of each column in bold."""
    if comparison.too_small is not None:
        return f"<p>{escape(comparison.too_small)}</p>"
    names = {name for row in comparison.rows.values() for name, value in row["after"].items() if value is not None}
    columns = [name for name in NAMES if name in names]
    best = {name: comparison.best(name) for name in columns}
    head = "".join(f"<th>{escape(title)}</th>" for title in ("loss", *(NAMES[name].title for name in columns)))
    body = []
    for loss, row in comparison.rows.items():
        texts = [(shown(name, row["after"].get(name)), best[name] == loss) for name in columns]
        cells = "".join(f"<td>{f'<b>{escape(text)}</b>' if first else escape(text)}</td>" for text, first in texts)
        body.append(f"<tr><td>{escape(loss)}</td>{cells}</tr>")
    judged = escape(f"Losses on the rows of {comparison.judged!r}, after calibration")
    return f"<h3>{judged}</h3><table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Rows of texts as an HTML table."""
    from manyhot.evaluation.showing import html_table

    return html_table([head, *rows])
