"""From a run or a table of predictions to a studio."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from manyhot.data.pairing import place_of
from manyhot.evaluation.judging import judged_split
from manyhot.predictions import Predictions, import_predictions
from manyhot.refusal import Refusal, refusal
from manyhot.search.places import likeliest_first
from manyhot.search.roots import roots_of
from manyhot.studio.deciding import Deciding
from manyhot.studio.pictures import Pictures
from manyhot.studio.reviewing import Review
from manyhot.studio.session import Studio

if TYPE_CHECKING:
    from manyhot.predictions.table import Table
    from manyhot.studio.classifying import Classifying

OWNER = "studio"
RUN_TABLE, RUN_MODEL, REVIEWED = "predictions.parquet", "classifier.json", "reviewed.csv"
# Probabilities, targets and decisions of so many cells take about a gigabyte.
MOST_CELLS = 2**27
# Paths that are looked for to find the folder that they begin in.
TRIED = 200


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
    """Opens predictions to be looked at, searched and corrected; and says in plain sentences what was found.

    Args:
        path: The folder of a run, or a table of predictions of any origin.
        split: The split to open; all rows by default.
        kind: What the numbers of a table from elsewhere are, "scores" or "probs".
        targets: A file of true labels, where the table has none.
        roots: The folders that pictures may be read from; by default this folder, that of the table, and those of the
            data that the run was trained on.
        labels_file: Where corrected labels are kept; `reviewed.csv` in the run or beside the table by default.
        model: The run whose model classifies pictures that are dropped on the page; the run itself by default.
        read_only: Whether nothing can be edited.
    """
    place = Path(path)
    table, notes = _table(place, split, kind, targets)
    is_run = place.is_dir() and (place / RUN_TABLE).is_file()
    pictures = _pictures(table, str(path), [Path(root) for root in roots])
    deciding = Deciding(table)
    classifying, more = _classifying(model, place if is_run else None, deciding)
    notes += more
    # With the links of folders followed: one such as `runs/last` may soon lead on.
    file = Path(place_of(labels_file if labels_file is not None else _labels_file(place, is_run=is_run)))
    if labels_file is not None and not file.parent.is_dir():
        raise refusal("--labels", OWNER, "lie in a folder that is there", repr(str(file)), "Make the folder first.")
    review, why = (None, "it was opened with --read-only") if read_only else _review(file, table, pictures)
    notes += [pictures.words(), *(review.notes if review is not None else ())]
    notes += [f"Nothing can be edited: {why}."] if why and not read_only else []
    studio = Studio(
        _name(place),
        table,
        pictures,
        review,
        classifying,
        deciding,
        labels_file=file,
        judged=judged_split(table),
        why_no_review=why,
    )
    return studio, notes


def _table(
    place: Path, split: str | None, kind: str | None, targets: str | os.PathLike[str] | None
) -> tuple[Predictions, list[str]]:
    """The table in memory, with probabilities."""
    if place.is_dir() and (place / RUN_MODEL).is_file() and not (place / RUN_TABLE).is_file():
        remedy = f"Let it finish, or open what `manyhot predict {place} IMAGES... -o new.parquet` writes."
        raise refusal("RUN_OR_PREDICTIONS", OWNER, f"be a run with a {RUN_TABLE}", repr(str(place)), remedy)
    file = place / RUN_TABLE if place.is_dir() and (place / RUN_TABLE).is_file() else place
    opened, notes = import_predictions(file, kind=kind, targets=targets)
    chosen = opened if split is None else opened.of_split(split)
    check_size(chosen)
    table = chosen.read()
    table = table.replace(probs=table.probabilities(), calibrator=table.calibrator)
    ids = table.ids
    if len(set(ids)) < len(ids):
        twice = next(name for name, count in Counter(ids).items() if count > 1)
        raise refusal("RUN_OR_PREDICTIONS", OWNER, "have ids that differ", f"{twice!r} twice", "Write each row once.")
    return table, list(notes)


def check_size(table: Table) -> None:
    """Refuses what would not fit into memory."""
    cells = len(table) * len(table.labels)
    if cells > MOST_CELLS:
        got = f"{len(table):,} x {len(table.labels):,}"
        remedy = "Open one split with --split, or use `manyhot search`, which reads files of any size."
        rule = f"have at most {MOST_CELLS:,} cells, rows times labels"
        raise refusal("RUN_OR_PREDICTIONS", OWNER, rule, got, remedy)


def _pictures(table: Predictions, path: str, roots: Sequence[Path]) -> Pictures:
    """The pictures of a table; an id that is the path of a file serves as one."""
    for root in roots:
        if not root.is_dir():
            raise refusal("--root", OWNER, "be a folder", repr(str(root)), "Name a folder that pictures lie in.")
    paths = table.paths or table.ids
    ordered = likeliest_first(roots or roots_of(path), paths[:TRIED])
    return Pictures(paths, ordered)


def _classifying(
    model: str | os.PathLike[str] | None, run: Path | None, deciding: Deciding
) -> tuple[Classifying | None, list[str]]:
    """What classifies new pictures, if there is a model that can; otherwise why not."""
    folder = Path(model) if model is not None else run
    if folder is None:
        return None, []
    from manyhot.classifier import Classifier
    from manyhot.studio.classifying import Classifying

    try:
        classifier = Classifier.load(folder)
    except Refusal as error:
        if model is not None:
            raise
        return None, [f"New pictures cannot be classified: {error}"]
    why = None
    if classifier.preprocessing is None:
        why = "the model takes features, not pictures"
    elif not classifier.gives_probs:
        why = "the scores of the model mean no probability"
    if why is not None:
        return None, [f"New pictures cannot be classified: {why}."]
    notes = []
    if classifier.labels.names != deciding.table.labels.names:
        notes.append("The model has other labels than the table: new pictures are answered with those of the model.")
    return Classifying(classifier, deciding), notes


def _labels_file(place: Path, *, is_run: bool) -> Path:
    """Where corrected labels go: into the run, or beside the table."""
    if is_run:
        return place / REVIEWED
    name = place.name if place.is_dir() else place.name.removesuffix(".gz").rsplit(".", 1)[0]
    stem = re.sub(r"[*?\[\]{}]+", "", name).strip("-_.") or "predictions"  # a pattern is no name
    return place.parent / f"{stem}.{REVIEWED}"


def _review(file: Path, table: Predictions, pictures: Pictures) -> tuple[Review | None, str | None]:
    """Where edits go, or why they cannot be kept."""
    folder = file.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return None, f"you may not write to {str(folder)!r}; name another file with --labels"
    paths = [path_from(file, pictures, row, path) for row, path in enumerate(table.paths or table.ids)]
    review = Review(
        file,
        labels=table.labels.names,
        ids=names_of_pictures(paths, table.ids, pictures),
        paths=paths,
        splits=table.splits,
    )
    return review, None


def names_of_pictures(paths: Sequence[str], ids: Sequence[str], pictures: Pictures) -> list[str]:
    """What edits are kept under: where a picture lies, because the same id may mean another one in another table.

    The id serves where there is no such file, and where two rows are of one picture.
    """
    seen: set[str] = set()
    names = []
    for row, (path, name) in enumerate(zip(paths, ids, strict=True)):
        names.append(path if pictures.file(row) is not None and path not in seen else f"id:{name}")
        seen.add(path)
    return names


def path_from(file: Path, pictures: Pictures, row: int, path: str) -> str:
    """The path of a picture as it leads from the folder of a file; as it is where the picture was not found."""
    found = pictures.file(row)
    return path if found is None else os.path.relpath(place_of(found), file.parent)


def _name(place: Path) -> str:
    return str(place.readlink()) if place.is_symlink() else str(place)
