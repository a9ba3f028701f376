"""Names of columns, splits and cells as they occur in tables; one list for every reader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.errors import InputError, suggest

# Names of columns in lower case without separators (see `normalise_name`); the likeliest first.
# fmt: off
PATH_COLUMNS = (
    "path", "filepath", "imagepath", "imgpath", "file", "filename", "fname", "imagefile", "imagefilename", "image",
    "img", "imagename", "imgname", "photo", "picture", "imageindex",
)
ID_COLUMNS = ("imageid", "id", "sampleid")
# Columns that identify rows in a table without paths and ids.
KEY_COLUMNS = ("key", "name")
# What pandas and Arrow call an index that was written as a column.
INDEX_COLUMNS = ("", "unnamed:0", "indexlevel0")
LABEL_COLUMNS = (
    "labels", "tags", "label", "tag", "classes", "class", "categories", "category", "labelnames", "classnames",
    "findinglabels", "keywords", "target", "targets",
)
# fmt: on
SPLIT_COLUMNS = ("split", "subset", "partition", "set")
# Columns of true and false, where true is for validation rows.
FLAG_COLUMNS = ("isvalid",)

CANONICAL_SPLITS = {
    name: split
    for split, names in {
        "train": ("train", "training"),
        "val": ("val", "valid", "validation", "dev"),
        "test": ("test", "testing", "eval"),
    }.items()
    for name in names
}

# What a cell of a label says, in small letters, and what stands for a blank.
CELL_VALUES = {
    token: value
    for value, tokens in {
        1: ("1", "1.0", "true", "yes", "present"),
        0: ("0", "0.0", "false", "no", "absent"),
        -1: ("-1", "-1.0"),
    }.items()
    for token in tokens
}
BLANK_CELLS = ("", "NA", "N/A", "na", "n/a", "NaN", "NAN", "nan", "NULL", "Null", "null", "None", "NONE", "none")


def normalise_name(name: str) -> str:
    """A name in lower case without the separators of its words.

    Example:
        >>> normalise_name("Image_Name")
        'imagename'
    """
    return "".join(character for character in name.lower() if character not in "_ -.")


def find_column(names: Sequence[str], among: Iterable[str]) -> str | None:
    """The column with the likeliest of some names."""
    by_name: dict[str, str] = {}
    for column in among:
        by_name.setdefault(normalise_name(column), column)
    return next((by_name[name] for name in names if name in by_name), None)


def canonical_split(name: str, *, flag: bool = False) -> str:
    """The usual name of a split; a name that is none of the known ones stays as it is.

    Args:
        name: As it came.
        flag: Whether it is true or false, with true for a validation row.

    Example:
        >>> canonical_split("Validation"), canonical_split("fold3"), canonical_split("True", flag=True)
        ('val', 'fold3', 'val')
    """
    token = name.strip().lower()
    if flag and CELL_VALUES.get(token, -1) >= 0:
        return "val" if CELL_VALUES[token] else "train"
    return CANONICAL_SPLITS.get(token, name.strip())


def is_flag(column: str) -> bool:
    """Whether a column of splits holds true and false, with true for validation rows."""
    return normalise_name(column) in FLAG_COLUMNS


def split_from_name(name: str) -> str | None:
    """The split that the name of a file or folder speaks of, such as "train" for `instances_train2017`."""
    tokens = {CANONICAL_SPLITS[token] for token in re.split(r"[^a-z]+", name.lower()) if token in CANONICAL_SPLITS}
    return tokens.pop() if len(tokens) == 1 else None


COLUMN_PREFIXES = {"scores": "score:", "probs": "prob:", "targets": "target:", "decisions": "decision:"}

Array = np.ndarray[Any, Any]


def splits_from_paths(paths: Sequence[Path]) -> list[str] | None:
    """The split of each file by its own name, or else by its folder's; None unless all have one and some differ."""
    for names in ([path.stem for path in paths], [path.parent.name for path in paths]):
        splits = [split_from_name(name) for name in names]
        if all(splits) and len(set(splits)) > 1:
            return [str(split) for split in splits]
    return None


def canonical_splits(
    owner: str, codes: Array, names: Sequence[str], *, flag: bool = False
) -> tuple[Array | None, list[str]]:
    """The split of each row under its usual name, and notes; None if all names are blank.

    Args:
        owner: The function that was called, for errors.
        codes: (N,) which of the names each row has.
        names: The names as they came.
        flag: Whether they are true and false, with true for validation rows.
    """
    canonical = [canonical_split(name, flag=flag) for name in names]
    blank = np.array([not name for name in canonical], dtype=bool)
    if len(codes) and blank[codes].all():
        return None, ["The column of splits is blank, so there are no splits."]
    if blank[codes].any():
        got = f"{int(blank[codes].sum()):,} rows without one"
        raise InputError("split", owner, "be there in every row", got, "Fill them in, or pass `{split_column=''}`.")
    changed = {name: new for name, new in zip(names, canonical, strict=True) if name != new}
    notes = [f"Split {name!r} is read as {new!r}." for name, new in changed.items()]
    return np.array(canonical, dtype=object)[codes], notes


def check_split(owner: str, name: str, splits: Sequence[str], *, hint: str) -> None:
    """Raises an error for a split that is not among `splits`; `hint` is for the case that there are none."""
    if name in splits:
        return
    usual = canonical_split(str(name))  # tables that were read have their splits under these names
    rule = f"be one of the splits, {', '.join(map(repr, splits))}"
    if splits:
        hint = suggest(usual if usual in splits else str(name), splits, "Pass one of these.", show=repr)
    else:
        rule = "be a split of the table, which has none"
    raise InputError("split", owner, rule, repr(name), hint)
