"""Open Images: one row an image and label, verified as present or as absent; what is not listed is unknown."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.data.readers.found import Found
from manyhot.data.readers.names import sort_names
from manyhot.data.readers.opening import TextTable
from manyhot.data.readers.places import place_images
from manyhot.data.readers.said import Said
from manyhot.data.readers.splits import splits_of_files
from manyhot.data.readers.tables import join_splits
from manyhot.data.targets import SparseTargets
from manyhot.predictions.arrow import as_numpy, as_strings, import_arrow
from manyhot.refusal import refusal

COLUMNS = ("ImageID", "LabelName", "Confidence")


def is_open_images(columns: Sequence[str]) -> bool:
    """Whether a table has the columns of the image labels of Open Images."""
    return set(COLUMNS) <= set(columns)


def read_open_images(files: Sequence[Path], said: Said) -> Found:
    """Images of one or several tables, with verified negatives."""
    tables = [_read_columns(path, said) for path in files]
    rows = import_arrow().concat_tables(tables)
    images, labels = (as_strings(rows[name]).combine_chunks().dictionary_encode() for name in COLUMNS[:2])
    ids, codes = images.dictionary.to_pylist(), labels.dictionary.to_pylist()
    owners, columns = (as_numpy(part.indices).astype(np.int64) for part in (images, labels))
    confidence = _confidence(rows["Confidence"], said)
    verified = (confidence == 0) | (confidence == 1)
    described = describe_codes(codes, _descriptions(files, said))
    names = sort_names(described)
    order = {name: place for place, name in enumerate(names)}
    places = np.array([order[name] for name in described], dtype=np.int64)[columns]
    cells = (owners[verified], places[verified], confidence[verified])
    targets = SparseTargets.from_cells(*cells, shape=(len(ids), len(names)), unlisted=said.means("unknown"))
    found, notes = place_images(ids, files[0].parent, said)
    notes.insert(0, f"Read {len(owners):,} rows of Open Images; confidence 1 is present, 0 absent.")
    notes.append(f"Labels that are not listed for an image are {targets.unlisted}.")
    if not verified.all():
        count = int((~verified).sum())
        notes.append(f"Left out {count:,} rows of a confidence between 0 and 1, which nobody verified.")
    splits = None
    by_file = splits_of_files(files) if said.split_column is None else None
    if by_file:
        told = np.repeat(np.array(by_file, dtype=object), [table.num_rows for table in tables])
        splits = join_splits(said.owner, ids, owners, told)
        notes.append("Splits are told by the names of the files.")
    return Found(ids, found, names, targets, splits, notes)


def _read_columns(path: Path, said: Said) -> Any:
    pa = import_arrow()
    table = TextTable(path, said)
    for column in COLUMNS:
        said.column("path", column, list(table.look().kinds))
    return pa.Table.from_batches(table.pieces(COLUMNS, ()), pa.schema([(name, pa.string()) for name in COLUMNS]))


def _confidence(column: Any, said: Said) -> np.ndarray[Any, Any]:
    pa = import_arrow()
    try:
        numbers = as_numpy(as_strings(column).cast(pa.float64()))
    except pa.ArrowInvalid as error:
        got, remedy = f"{error}".splitlines()[0], "Write 1 for present and 0 for absent."
        raise refusal("Confidence", said.owner, "be a number in every row", got, remedy) from None
    return numbers


def _descriptions(files: Sequence[Path], said: Said) -> dict[str, str]:
    """The name of each code, from the file that the user named or one beside the tables."""
    path = said.descriptions
    if path is None:
        path = next(iter(sorted(files[0].parent.glob("*class-descriptions*.csv"))), None)
    elif not path.is_file():
        got = f"{str(path)!r}, where there is none"
        raise refusal("descriptions", said.owner, "be a file of codes and names", got, "Check the path.")
    if path is None:
        return {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        return {row[0]: row[1] for row in csv.reader(file) if len(row) > 1}


def describe_codes(codes: Sequence[str], descriptions: dict[str, str]) -> list[str]:
    """A name for each code; a name that two codes share is followed by the code.

    Example:
        >>> describe_codes(["/m/1", "/m/2", "/m/3"], {"/m/1": "Bat", "/m/2": "Bat"})
        ['Bat (/m/1)', 'Bat (/m/2)', '/m/3']
    """
    names = [descriptions.get(code, code) for code in codes]
    shared = Counter(names)
    return [f"{name} ({code})" if shared[name] > 1 else name for name, code in zip(names, codes, strict=True)]
