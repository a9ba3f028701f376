"""The state of one studio (predictions, thumbnails, model and review), and how it is opened."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from manyhot.data.corrections import real_path
from manyhot.decide import Decision
from manyhot.errors import InputError, owned
from manyhot.evaluation.pipeline import split_to_evaluate
from manyhot.image_paths import find_image_roots, sort_image_roots
from manyhot.predictions import Predictions, read_predictions
from manyhot.search import Collection
from manyhot.studio.decisions import DecisionChoice, DecisionExplorer
from manyhot.studio.items import MAX_SHOWN_ALONE, Cells, ItemBuilder, LabelCompleter
from manyhot.studio.review import Review
from manyhot.studio.schemas import Item
from manyhot.studio.thumbnails import Thumbnails
from manyhot.tables.columns import check_split

if TYPE_CHECKING:
    from manyhot.predictions.predictions import PredictionTable
    from manyhot.studio.classify import UploadClassifier


class RequestError(Exception):
    """Raised for a request that this collection cannot answer.

    Args:
        message: What is missing, and what to do about it.
        status: The HTTP status.
    """

    def __init__(self, message: str, *, status: int = 404) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Studio:
    """The state that requests are answered from.

    Attributes:
        name: The display name of what was opened.
        table: In memory, with probabilities.
        thumbnails: The images of its rows.
        review: The edits; None if nothing can be edited.
        upload_classifier: Classifies uploaded images; None without a model.
        explorer: Makes the decisions.
        labels_file: The file of corrected labels.
        evaluated_split: The default split of evaluations; None for all rows.
        why_no_review: Why nothing can be edited, or None.
    """

    name: str
    table: Predictions
    thumbnails: Thumbnails
    review: Review | None
    upload_classifier: UploadClassifier | None
    explorer: DecisionExplorer
    labels_file: Path
    evaluated_split: str | None = None
    why_no_review: str | None = None
    _collections: dict[str | None, Collection] = field(default_factory=dict)
    _completers: dict[str | None, LabelCompleter] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def items(self) -> ItemBuilder:
        """Makes items from row numbers."""
        table = self.table
        return ItemBuilder(
            table.labels.names,
            self.explorer.probs,
            table.targets,
            ids=self.ids,
            paths=table.paths,
            splits=self.splits,
            why=self.thumbnails.why,
            edits=self.edits,
            done=self.is_done,
        )

    @cached_property
    def ids(self) -> list[str]:
        """The id of each row."""
        return self.table.ids

    @cached_property
    def splits(self) -> list[str] | None:
        """The split of each row, or None."""
        return self.table.splits

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row number of each id."""
        return {name: row for row, name in enumerate(self.ids)}

    def expected(self, split: str | None) -> list[float]:
        """How many rows of a split, or of all, are expected to have each label."""
        rows = self.rows_of_split(split)
        probs = self.explorer.probs if rows is None else self.explorer.probs[rows]
        result: list[float] = probs.sum(0, dtype=torch.float64).tolist()
        return result

    def completer(self, split: str | None) -> LabelCompleter:
        """Completes label names, the frequent ones of a split first."""
        with self._lock:
            if split not in self._completers:
                self._completers[split] = LabelCompleter(self.table.labels.names, self.expected(split))
            return self._completers[split]

    @property
    def labels_name(self) -> str:
        """The path of the labels file, relative to the current folder if it lies inside."""
        here = Path.cwd()
        file = self.labels_file
        return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)

    def rows_of_split(self, split: str | None) -> Tensor | None:
        """The numbers of the rows of a split; None for all rows."""
        if split is None:
            return None
        check_split("studio", split, list(self.table.split_sizes()), hint="Leave it out to see all images.")
        return torch.tensor([row for row, name in enumerate(self.splits or ()) if name == split], dtype=torch.int64)

    def evaluated_rows(self, split: str | None) -> Tensor | None:
        """The numbers of the rows to evaluate: those of a split, or those that a report evaluates."""
        return self.rows_of_split(self.evaluated_split if split is None else split)

    def collection(self, split: str | None) -> Collection:
        """The collection to search: all rows, or those of a split."""
        with self._lock:
            if split not in self._collections:
                rows = self.rows_of_split(split)
                table = self.table if rows is None else self.table.take(rows)
                self._collections[split] = Collection.of(table)
            return self._collections[split]

    def check_row(self, row: int) -> int:
        """The row number; raises if there is no such row."""
        if 0 <= row < len(self.table):
            return row
        raise NoSuchRow(f"There is no image {row}: the collection has {len(self.table):,} images, counted from 0.")

    def decision(self, rows: Sequence[int], choice: DecisionChoice) -> Decision:
        """The decisions for some rows."""
        return self.explorer.decision(choice, torch.tensor(list(rows), dtype=torch.int64))

    def whole_item(self, row: int, choice: DecisionChoice) -> Item:
        """A row with all its labels."""
        return self.items.make([row], self.decision([row], choice), probable=MAX_SHOWN_ALONE, most=MAX_SHOWN_ALONE)[0]

    def edits(self, row: int) -> Cells:
        """The edits of a row, by column."""
        return {} if self.review is None else self.review.cells(row)

    def is_done(self, row: int) -> bool:
        """Whether the review of a row is finished."""
        return self.review is not None and self.review.is_done(row)

    def require_review(self) -> Review:
        """The review; raises if nothing can be edited."""
        if self.review is None:
            why = self.why_no_review or "this studio was opened for reading only"
            raise InputError("labels", "studio", "be kept in a file", why, "Start it with --labels FILE.")
        return self.review

    def close(self) -> None:
        """Finishes the images in progress, and writes the labels file."""
        try:
            if self.upload_classifier is not None:
                self.upload_classifier.close()
        finally:
            if self.review is not None:
                self.review.close()


class NoSuchRow(Exception):
    """Raised for a row number that the collection does not have."""


RUN_TABLE, RUN_MODEL, REVIEWED = "predictions.parquet", "classifier.json", "reviewed.csv"
# Probabilities, targets and decisions of this many cells take about a gigabyte.
MOST_CELLS = 2**27
# Paths that are checked to find their root folder.
MAX_PATHS_TRIED = 200


@owned("studio")
def open_studio(
    path: str | os.PathLike[str],
    *,
    split: str | None = None,
    kind: str | None = None,
    targets: str | os.PathLike[str] | None = None,
    roots: Sequence[str | os.PathLike[str]] = (),
    labels_file: str | os.PathLike[str] | None = None,
    model: str | os.PathLike[str] | None = None,
    read_only: bool = False,
) -> tuple[Studio, list[str]]:
    """Opens predictions to browse, search and correct; returns the studio and notes.

    Args:
        path: The folder of a run, or a table of predictions of any origin.
        split: The split to open; all rows by default.
        kind: The kind of the numbers of a table of other origin, "scores" or "probs".
        targets: A file of true labels, if the table has none.
        roots: The folders that images may be read from; by default this folder, that of the table, and those of the
            data that the run was trained on.
        labels_file: The file of corrected labels; `reviewed.csv` in the run or beside the table by default.
        model: The run whose model classifies uploaded images; the run itself by default.
        read_only: Whether nothing can be edited.
    """
    source = Path(path)
    table, notes = _open_table(source, split, kind, targets)
    is_run = source.is_dir() and (source / RUN_TABLE).is_file()
    thumbnails = _open_thumbnails(table, str(path), [Path(root) for root in roots])
    explorer = DecisionExplorer(table)
    upload_classifier, more = _open_classifier(model, source if is_run else None, explorer)
    notes += more
    # With links of folders resolved: one such as `runs/last` may soon have another target.
    file = Path(real_path(labels_file if labels_file is not None else _default_labels_file(source, is_run=is_run)))
    if labels_file is not None and not file.parent.is_dir():
        rule, hint = "lie in an existing folder", "Make the folder first."
        raise InputError("--labels", rule=rule, got=repr(str(file)), hint=hint)
    review, why = (None, "it was opened with --read-only") if read_only else _open_review(file, table, thumbnails)
    notes += [thumbnails.summary(), *(review.notes if review is not None else ())]
    notes += [f"Nothing can be edited: {why}."] if why and not read_only else []
    studio = Studio(
        _display_name(source),
        table,
        thumbnails,
        review,
        upload_classifier,
        explorer,
        labels_file=file,
        evaluated_split=split_to_evaluate(table),
        why_no_review=why,
    )
    return studio, notes


def _open_table(
    source: Path, split: str | None, kind: str | None, targets: str | os.PathLike[str] | None
) -> tuple[Predictions, list[str]]:
    """The table in memory, with probabilities."""
    if source.is_dir() and (source / RUN_MODEL).is_file() and not (source / RUN_TABLE).is_file():
        hint = f"Let it finish, or open what `manyhot predict {source} IMAGES... -o new.parquet` writes."
        rule = f"be a run with a {RUN_TABLE}"
        raise InputError("RUN_OR_PREDICTIONS", rule=rule, got=repr(str(source)), hint=hint)
    file = source / RUN_TABLE if source.is_dir() and (source / RUN_TABLE).is_file() else source
    opened = read_predictions(file, kind=kind, targets=targets)
    chosen = opened if split is None else opened.of_split(split)
    check_size(chosen)
    table = chosen.read()
    table = table.replace(probs=table.probabilities(), calibrator=table.calibrator)
    ids = table.ids
    if len(set(ids)) < len(ids):
        twice = next(name for name, count in Counter(ids).items() if count > 1)
        rule, hint = "have distinct ids", "Write each row once."
        raise InputError("RUN_OR_PREDICTIONS", rule=rule, got=f"{twice!r} twice", hint=hint)
    return table, list(opened.notes)


def check_size(table: PredictionTable) -> None:
    """Raises if the table would not fit into memory."""
    cells = len(table) * len(table.labels)
    if cells > MOST_CELLS:
        got = f"{len(table):,} x {len(table.labels):,}"
        hint = "Open one split with --split, or use `manyhot search`, which reads files of any size."
        rule = f"have at most {MOST_CELLS:,} cells, rows times labels"
        raise InputError("RUN_OR_PREDICTIONS", rule=rule, got=got, hint=hint)


def _open_thumbnails(table: Predictions, path: str, roots: Sequence[Path]) -> Thumbnails:
    """The images of a table; an id may serve as the path."""
    for root in roots:
        if not root.is_dir():
            hint = "Name a folder with images."
            raise InputError("--root", rule="be a folder", got=repr(str(root)), hint=hint)
    paths = table.paths or table.ids
    ordered = sort_image_roots(roots or find_image_roots(path), paths[:MAX_PATHS_TRIED])
    return Thumbnails(paths, ordered)


def _open_classifier(
    model: str | os.PathLike[str] | None, run: Path | None, explorer: DecisionExplorer
) -> tuple[UploadClassifier | None, list[str]]:
    """The classifier of uploaded images if there is a suitable model, and notes."""
    folder = Path(model) if model is not None else run
    if folder is None:
        return None, []
    from manyhot.classifier import Classifier
    from manyhot.studio.classify import UploadClassifier

    try:
        classifier = Classifier.load(folder)
    except InputError as error:
        if model is not None:
            raise
        return None, [f"New images cannot be classified: {error}"]
    why = None
    if classifier.preprocessing is None:
        why = "the model takes features, not images"
    elif not classifier.gives_probs:
        why = "the scores of the model are no probabilities"
    if why is not None:
        return None, [f"New images cannot be classified: {why}."]
    notes = []
    if classifier.labels.names != explorer.table.labels.names:
        notes.append("The model has other labels than the table: new images get those of the model.")
    return UploadClassifier(classifier, explorer), notes


def _default_labels_file(source: Path, *, is_run: bool) -> Path:
    """The default file of corrected labels: in the run, or beside the table."""
    if is_run:
        return source / REVIEWED
    name = source.name if source.is_dir() else source.name.removesuffix(".gz").rsplit(".", 1)[0]
    stem = re.sub(r"[*?\[\]{}]+", "", name).strip("-_.") or "predictions"  # a pattern is no name
    return source.parent / f"{stem}.{REVIEWED}"


def _open_review(file: Path, table: Predictions, thumbnails: Thumbnails) -> tuple[Review | None, str | None]:
    """The review, or why nothing can be edited."""
    folder = file.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return None, f"you may not write to {str(folder)!r}; name another file with --labels"
    paths = [relative_image_path(file, thumbnails, row, path) for row, path in enumerate(table.paths or table.ids)]
    review = Review(
        file,
        labels=table.labels.names,
        ids=review_keys(paths, table.ids, thumbnails),
        paths=paths,
        splits=table.splits,
    )
    return review, None


def review_keys(paths: Sequence[str], ids: Sequence[str], thumbnails: Thumbnails) -> list[str]:
    """The keys of edits: paths of images, because the same id may mean another image in another table.

    The id is used if there is no such file, and if two rows have the same image.
    """
    used: set[str] = set()
    names = []
    for row, (path, name) in enumerate(zip(paths, ids, strict=True)):
        names.append(path if thumbnails.file(row) is not None and path not in used else f"id:{name}")
        used.add(path)
    return names


def relative_image_path(file: Path, thumbnails: Thumbnails, row: int, path: str) -> str:
    """The path of an image relative to the folder of a file; unchanged if the image was not found."""
    image_file = thumbnails.file(row)
    return path if image_file is None else os.path.relpath(real_path(image_file), file.parent)


def _display_name(source: Path) -> str:
    return str(source.readlink()) if source.is_symlink() else str(source)
