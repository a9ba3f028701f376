"""Importers by form of table. Whether it holds scores or probabilities is said, never guessed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from manyhot.checks import check_choice
from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.predictions.archives import read_archive
from manyhot.predictions.foreign import Import, collect, watched, with_targets
from manyhot.predictions.joining import open_targets
from manyhot.predictions.memory import Predictions
from manyhot.predictions.roles import Wish
from manyhot.predictions.sources import Frame, ParquetFiles, Source, open_text
from manyhot.refusal import refusal

OTHER_LABELS = ("refuse", "leave out")


@dataclass(frozen=True)
class Incoming:
    """Batches on their way in.

    Attributes:
        batches: Tables in memory, one after the other; to be gone through once.
        labels: Their labels.
        notes: What was found out; complete when the last batch has come.
    """

    batches: Iterable[Predictions]
    labels: Labels
    notes: list[str]

    def with_targets(self, targets: Any, wish: Wish) -> Incoming:
        """The same with targets from elsewhere, if there are any."""
        if targets is None:
            return self
        source = open_targets(targets, self.labels, wish)
        return replace(self, batches=with_targets(self.batches, source, self.notes))


def from_csv(
    path: str | os.PathLike[str],
    *,
    kind: str,
    labels: Sequence[str] | None = None,
    targets: Any = None,
    id_column: str | None = None,
    labels_column: str | None = None,
    separator: str | None = None,
    other_labels: str = "refuse",
    delimiter: str | None = None,
    link: Link | None = None,
    dtype: torch.dtype = torch.float32,
) -> Predictions:
    r"""A table in memory from CSV or TSV, also compressed by gzip: a row a sample, a column a label.

    Columns of numbers are labels, except for ids (`id`, `image_id`, `sample_id`). Columns such as `path`, `split` and
    `labels` are known by the same names as in `read_data`, and splits get their usual names. Targets come from columns
    `target:dog`, from a column of label names, or from elsewhere. `notes` of the table say what was taken for what. A
    file that does not fit in memory can be streamed to Parquet with `import_predictions(..., to=...)`.

    Args:
        path: The file, with a header.
        kind: What the numbers are, "scores" or "probs"; there is no default.
        labels: The columns to take as labels; all columns of numbers by default.
        targets: Another file (CSV, TSV or Parquet), joined by id or path: with a column of label names, or one column
            a label with 1, 0, and blank or -1 for unknown. Or targets in the order of the rows, as an .npz or .npy
            file or as `Predictions` takes them. Rows that are not in the file are unknown.
        id_column: The column of ids, if it has another name.
        labels_column: The column of label names, if it has another name.
        separator: What separates these names; by default the sign among `|`, `;`, `,` and space that fits them best.
        other_labels: What to do with names that are none of the labels, "refuse" or "leave out".
        delimiter: What separates the columns; found out by default.
        link: What the scores mean, if you know.
        dtype: `torch.float32` or `torch.float64`.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "scores.csv")
        >>> _ = path.write_text("id,cat,dog,labels\na,0.9,0.2,cat\nb,0.1,0.3,\n")
        >>> table = from_csv(path, kind="probs")
        >>> table.targets
        tensor([[1, 0],
                [0, 0]], dtype=torch.int8)
        >>> table.notes[0]
        "Read 2 columns as probs of labels: 'cat', 'dog'."
    """
    wish = make_wish("from_csv", kind, labels, id_column, labels_column, separator, other_labels)
    source = open_text(path, "from_csv", delimiter=delimiter, dtype=dtype)
    return in_memory(incoming_table(source, wish, targets, link))


def from_parquet(
    path: str | os.PathLike[str],
    *,
    kind: str,
    labels: Sequence[str] | None = None,
    targets: Any = None,
    id_column: str | None = None,
    labels_column: str | None = None,
    separator: str | None = None,
    other_labels: str = "refuse",
    link: Link | None = None,
) -> Predictions:
    """A table in memory from Parquet files of another program: a row a sample, a column a label.

    Columns and arguments are those of `from_csv`; label names may also be lists, and numbers keep their precision.

    Args:
        path: A file, a folder or a pattern.
        kind: What the numbers are, "scores" or "probs"; there is no default.
        labels: The columns to take as labels; all columns of numbers by default.
        targets: Targets from elsewhere, as in `from_csv`.
        id_column: The column of ids, if it has another name.
        labels_column: The column of label names, if it has another name.
        separator: What separates these names in a text.
        other_labels: What to do with names that are none of the labels, "refuse" or "leave out".
        link: What the scores mean, if you know.
    """
    wish = make_wish("from_parquet", kind, labels, id_column, labels_column, separator, other_labels)
    return in_memory(incoming_table(ParquetFiles(path, "from_parquet"), wish, targets, link))


def from_frame(
    frame: Any,
    *,
    kind: str,
    labels: Sequence[str] | None = None,
    targets: Any = None,
    id_column: str | None = None,
    labels_column: str | None = None,
    separator: str | None = None,
    other_labels: str = "refuse",
    link: Link | None = None,
) -> Predictions:
    """A table in memory from a data frame of pandas or polars, or a table of Arrow: a row a sample, a column a label.

    Columns and arguments are those of `from_parquet`. An index of pandas that is not a mere count becomes the ids.

    Args:
        frame: The data frame.
        kind: What the numbers are, "scores" or "probs"; there is no default.
        labels: The columns to take as labels; all columns of numbers by default.
        targets: Targets from elsewhere, as in `from_csv`.
        id_column: The column of ids, if it has another name.
        labels_column: The column of label names, if it has another name.
        separator: What separates these names in a text.
        other_labels: What to do with names that are none of the labels, "refuse" or "leave out".
        link: What the scores mean, if you know.

    Example:
        >>> import pandas
        >>> frame = pandas.DataFrame({"cat": [2.0, -1.0], "dog": [0.5, 3.0]}, index=["a", "b"])
        >>> from_frame(frame, kind="scores", link=mh.SigmoidLink())
        Predictions(2 rows x 2 labels; scores; link SigmoidLink)
    """
    wish = make_wish("from_frame", kind, labels, id_column, labels_column, separator, other_labels)
    return in_memory(incoming_table(Frame(frame, "from_frame"), wish, targets, link))


def from_npz(
    path: str | os.PathLike[str],
    *,
    kind: str,
    labels: Sequence[str] | None = None,
    targets: Any = None,
    id_column: str | None = None,
    labels_column: str | None = None,
    separator: str | None = None,
    other_labels: str = "refuse",
    link: Link | None = None,
) -> Predictions:
    """A table in memory from a NumPy archive, of which nothing is ever executed.

    The archive holds `scores` or `probs` (N, K), or one table of another name, and where there are any `targets`,
    `labels` or `names`, `ids`, `paths` and `splits`. An .npy file holds the scores or probabilities alone.

    Args:
        path: The .npz or .npy file.
        kind: What the numbers are, "scores" or "probs"; there is no default.
        labels: The labels to take, if the archive names its columns; otherwise the names of all columns.
        targets: Targets from elsewhere, as in `from_csv`.
        id_column: The column of ids in a file of targets.
        labels_column: The column of label names in a file of targets.
        separator: What separates these names.
        other_labels: What to do with names that are none of the labels, "refuse" or "leave out".
        link: What the scores mean, if you know.
    """
    wish = make_wish("from_npz", kind, labels, id_column, labels_column, separator, other_labels)
    return in_memory(incoming_archive(path, wish, targets, link))


def incoming_table(source: Source, wish: Wish, targets: Any, link: Link | None) -> Incoming:
    """A table of rows, with targets from elsewhere if there are any."""
    # Where targets come from another file, the column of label names is one of that file.
    own = wish if targets is None else replace(wish, labels_column=None)
    table = Import(source, own, link, with_targets=targets is None)
    return Incoming(table.batches(), table.labels, table.notes).with_targets(targets, wish)


def incoming_archive(path: str | os.PathLike[str], wish: Wish, targets: Any, link: Link | None) -> Incoming:
    """A NumPy archive, with targets from elsewhere if there are any."""
    columns, notes = read_archive(Path(path), wish.owner, wish.kind)
    if targets is not None:
        columns.pop("targets", None)
    named = "labels" in columns
    if not named:
        columns["labels"] = wish.labels
    table = Predictions(**columns, link=link)
    if named and wish.labels is not None:
        table = table.read(labels=wish.labels)
    return Incoming([table], table.labels, notes).with_targets(targets, wish)


def in_memory(incoming: Incoming) -> Predictions:
    """All batches together."""
    return collect(watched(incoming.batches, incoming.notes), incoming.notes)


def make_wish(
    owner: str,
    kind: str | None,
    labels: Sequence[str] | None,
    id_column: str | None,
    labels_column: str | None,
    separator: str | None,
    other_labels: str,
) -> Wish:
    """What the user said, checked."""
    if kind not in ("scores", "probs"):
        remedy = "Say 'scores' for any real numbers and 'probs' for probabilities: nothing is guessed."
        raise refusal("kind", owner, "be 'scores' or 'probs'", repr(kind), remedy)
    check_choice("other_labels", owner, other_labels, OTHER_LABELS)
    if separator == "":
        raise refusal("separator", owner, "be a sign", "''", "Leave it out to have it found.")
    names = None if labels is None else Labels(labels).names
    return Wish(owner, kind, names, id_column, labels_column, separator, other_labels == "leave out")
