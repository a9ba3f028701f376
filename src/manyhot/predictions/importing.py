"""Tables of any origin: those of this package are opened, others imported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from manyhot.links import Link
from manyhot.predictions.foreign import stream, watched
from manyhot.predictions.forms import check_form, find_parquet, is_archive, is_text
from manyhot.predictions.header import KEY, read_footer
from manyhot.predictions.importers import Incoming, in_memory, incoming_archive, incoming_table, make_wish
from manyhot.predictions.roles import Wish
from manyhot.predictions.sources import open_source
from manyhot.predictions.stored import StoredPredictions, open_predictions
from manyhot.predictions.table import Table, own_labels
from manyhot.refusal import refusal


def import_predictions(
    path: str | os.PathLike[str],
    *,
    kind: str | None,
    labels: Sequence[str] | None = None,
    targets: Any = None,
    id_column: str | None = None,
    labels_column: str | None = None,
    separator: str | None = None,
    other_labels: str = "refuse",
    split: str | None = None,
    link: Link | None = None,
    to: str | os.PathLike[str] | None = None,
) -> tuple[Table, list[str]]:
    """A table of any origin, and in plain sentences what was detected in it.

    Tables of this package are opened and stay on disk. CSV, TSV, .npz, .npy and other Parquet files are read into
    memory, or streamed to Parquet if they do not fit there.

    Args:
        path: A file, or a folder or pattern of Parquet files.
        kind: What the numbers are, "scores" or "probs". None only for tables of this package, which know it.
        labels: The labels to take; all by default.
        targets: Targets from elsewhere, as in `from_csv`.
        id_column: The column of ids, if it has another name.
        labels_column: The column of label names, if it has another name.
        separator: What separates these names.
        other_labels: What to do with names that are none of the labels, "refuse" or "leave out".
        split: The split to restrict the table to; all rows by default.
        link: What the scores mean, if you know; by default what the table says.
        to: A Parquet file to stream the table to. Then only a piece of it is in memory at a time, and the returned
            table is that file.
    """
    owner = "import_predictions"
    ours = is_ours(path, owner)
    given = "probs" if ours and kind is None else kind  # a table of ours knows its kinds, and the wish needs one
    wish = make_wish(owner, given, labels, id_column, labels_column, separator, other_labels)
    table: Table
    if ours:
        table = open_ours(path, kind, owner)
        notes = [f"Opened {table!r}."]
        if targets is not None or labels is not None or link is not None or to is not None:
            table = gather(incoming_ours(table, wish, targets, link, notes), to)
    else:
        incoming = incoming_file(path, wish, targets, link)
        table, notes = gather(incoming, to), incoming.notes
    table = table if split is None else table.of_split(split)
    table.notes = notes
    return table, notes


def incoming_file(path: str | os.PathLike[str], wish: Wish, targets: Any, link: Link | None) -> Incoming:
    """A file of another program, by the ending of its name."""
    if is_archive(path):
        return incoming_archive(path, wish, targets, link)
    return incoming_table(open_source(path, wish.owner), wish, targets, link)


def incoming_ours(table: Table, wish: Wish, targets: Any, link: Link | None, notes: list[str]) -> Incoming:
    """A table of this package of which something is to be changed."""
    labels = own_labels(table, wish.labels)
    batches = (batch.read(labels=labels) for batch in table.batches())
    linked = batches if link is None else (batch.replace(link=link) for batch in batches)
    return Incoming(linked, labels, notes).with_targets(targets, wish)


def gather(incoming: Incoming, to: str | os.PathLike[str] | None) -> Table:
    """All batches in memory, or in a file."""
    return in_memory(incoming) if to is None else stream(watched(incoming.batches, incoming.notes), incoming.labels, to)


def open_ours(path: str | os.PathLike[str], kind: str | None, owner: str) -> StoredPredictions:
    """A table of this package; refuses one that does not hold the stated kind."""
    table = open_predictions(path)
    if kind is not None and kind not in table.kinds:
        rule = f"be among those of the table, {', '.join(table.kinds)}"
        raise refusal("kind", owner, rule, repr(kind), "Leave it out: the table knows what it holds.")
    return table


def is_ours(path: str | os.PathLike[str], owner: str) -> bool:
    """Whether a path leads to tables of this package; refuses one that leads to nothing that can be read."""
    check_form(path, owner, "path")
    if is_text(path) or is_archive(path):
        return False
    return KEY in (read_footer(find_parquet(path, owner)[0], owner).metadata or {})
