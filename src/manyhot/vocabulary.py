"""The words by which people call columns, splits and cells of tables: one list, which every reader of tables uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Names of columns without case and without what stands between words (see `plain_name`); the likeliest first.
# fmt: off
PATHS = (
    "path", "filepath", "imagepath", "imgpath", "file", "filename", "fname", "imagefile", "imagefilename", "image",
    "img", "imagename", "imgname", "photo", "picture", "imageindex",
)
IDS = ("imageid", "id", "sampleid")
# Rows are told apart by these where a table has neither paths nor ids.
KEYS = ("key", "name")
# What pandas and Arrow call an index that was written as a column.
INDEXES = ("", "unnamed:0", "indexlevel0")
LABELS = (
    "labels", "tags", "label", "tag", "classes", "class", "categories", "category", "labelnames", "classnames",
    "findinglabels", "keywords", "target", "targets",
)
# fmt: on
SPLITS = ("split", "subset", "partition", "set")
# Columns that tell by true and false whether a row is for validation.
FLAGS = ("isvalid",)

CANONICAL = {
    name: split
    for split, names in {
        "train": ("train", "training"),
        "val": ("val", "valid", "validation", "dev"),
        "test": ("test", "testing", "eval"),
    }.items()
    for name in names
}

# What a cell of a label says, in small letters, and what stands for a blank.
CELLS = {
    word: value
    for value, words in {
        1: ("1", "1.0", "true", "yes", "present"),
        0: ("0", "0.0", "false", "no", "absent"),
        -1: ("-1", "-1.0"),
    }.items()
    for word in words
}
MISSING = ("", "NA", "N/A", "na", "n/a", "NaN", "NAN", "nan", "NULL", "Null", "null", "None", "NONE", "none")


def plain_name(name: str) -> str:
    """A name without case and without what people put between its words.

    Example:
        >>> plain_name("Image_Name")
        'imagename'
    """
    return "".join(sign for sign in name.lower() if sign not in "_ -.")


def known_column(names: Sequence[str], among: Iterable[str]) -> str | None:
    """The column with the likeliest of some names."""
    plain: dict[str, str] = {}
    for column in among:
        plain.setdefault(plain_name(column), column)
    return next((plain[name] for name in names if name in plain), None)


def canonical_split(name: str, *, flag: bool = False) -> str:
    """The usual name of a split; a name that is none of the known ones stays as it is.

    Args:
        name: As it came.
        flag: Whether it tells by true or false whether a row is for validation.

    Example:
        >>> canonical_split("Validation"), canonical_split("fold3"), canonical_split("True", flag=True)
        ('val', 'fold3', 'val')
    """
    word = name.strip().lower()
    if flag and CELLS.get(word, -1) >= 0:
        return "val" if CELLS[word] else "train"
    return CANONICAL.get(word, name.strip())


def is_flag(column: str) -> bool:
    """Whether a column of splits tells by true and false whether a row is for validation."""
    return plain_name(column) in FLAGS


def split_in_name(name: str) -> str | None:
    """The split that the name of a file or folder speaks of, such as "train" for `instances_train2017`."""
    words = {CANONICAL[word] for word in re.split(r"[^a-z]+", name.lower()) if word in CANONICAL}
    return words.pop() if len(words) == 1 else None
