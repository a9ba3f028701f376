"""A table as a small HTML table, for notebooks."""

from __future__ import annotations

from html import escape

from torch import Tensor

from manyhot.predictions.memory import Predictions
from manyhot.predictions.table import Table

ROWS, BEST = 5, 3


def html(table: Table) -> str:
    """The first rows: what is most probable, what is true, what was decided."""
    first = next(table.batches(ROWS))
    columns = {"id": first.ids, "path": first.paths, "split": first.splits}
    for kind in ("probs", "scores"):
        cells = getattr(first, kind)
        columns[f"highest {kind}"] = None if cells is None else best(cells, first)
    for kind in ("targets", "decisions"):
        cells = getattr(first, kind)
        columns[kind] = None if cells is None else [", ".join(names) or "none" for names in first.labels.decode(cells)]
    shown = {name: texts for name, texts in columns.items() if texts is not None}
    head = "".join(f"<th>{escape(name)}</th>" for name in shown)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>"
        for row in zip(*shown.values(), strict=True)
    )
    rest = len(table) - len(first)
    more = f"<p>and {rest:,} more rows</p>" if rest else ""
    return f"<p>{escape(repr(table))}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def best(cells: Tensor, table: Predictions) -> list[str]:
    """The highest cells of each row with the names of their labels."""
    top = cells.topk(min(BEST, cells.shape[1]), dim=1)
    return [
        ", ".join(f"{table.labels.names[column]} {value:.3g}" for value, column in zip(values, columns, strict=True))
        for values, columns in zip(top.values.tolist(), top.indices.tolist(), strict=True)
    ]
