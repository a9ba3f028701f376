"""Names of columns, splits and cells as they occur in tables; the role of each column, and the labels that cells name.

One vocabulary and one set of options for every reader: of data, predictions, targets and the labels file of the studio.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from manyhot.errors import InputError, suggest
from manyhot.image_paths import is_image
from manyhot.tables.arrow import as_numpy, as_strings, pa

if TYPE_CHECKING:
    from manyhot.labels import Labels
    from manyhot.tables.reader import TableFile

Array = np.ndarray[Any, Any]

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
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "eval"), "test"),
}

COLUMN_PREFIXES = {"scores": "score:", "probs": "prob:", "targets": "target:", "decisions": "decision:"}
# The prefix of label columns, needed where the label alone would be taken for another role.
TARGET_PREFIX = COLUMN_PREFIXES["targets"]
# Columns that name an image, in a table where some column must.
IMAGE_COLUMNS = (*PATH_COLUMNS, *ID_COLUMNS, *KEY_COLUMNS)

# What a cell of a label says, in small letters, and what stands for a blank.
CELL_VALUES = {
    **dict.fromkeys(("1", "1.0", "true", "yes", "present"), 1),
    **dict.fromkeys(("0", "0.0", "false", "no", "absent"), 0),
    **dict.fromkeys(("-1", "-1.0"), -1),
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
    by_name = {normalise_name(column): column for column in reversed(list(among))}
    return next((by_name[name] for name in names if name in by_name), None)


def canonical_split(name: str, column: str = "") -> str:
    """The usual name of a split; a name that is none of the known ones stays as it is.

    Args:
        name: As it came.
        column: Where it came from: one such as `is_valid` says true for a validation row.

    Example:
        >>> canonical_split("Validation"), canonical_split("fold3"), canonical_split("True", "is_valid")
        ('val', 'fold3', 'val')
    """
    token = name.strip().lower()
    if normalise_name(column) in FLAG_COLUMNS and CELL_VALUES.get(token, -1) >= 0:
        return "val" if CELL_VALUES[token] else "train"
    return CANONICAL_SPLITS.get(token, name.strip())


def rename_splits(names: Sequence[str], column: str = "") -> tuple[list[str], list[str]]:
    """The usual names of the splits in a column, and notes about those that were called otherwise."""
    canonical = [canonical_split(name, column) for name in names]
    changed = {name: new for name, new in zip(names, canonical, strict=True) if name != new}
    return canonical, [f"Split {name!r} is read as {new!r}." for name, new in changed.items()]


def split_from_name(name: str) -> str | None:
    """The split that the name of a file or folder speaks of, such as "train" for `instances_train2017`."""
    tokens = {CANONICAL_SPLITS[token] for token in re.split(r"[^a-z]+", name.lower()) if token in CANONICAL_SPLITS}
    return tokens.pop() if len(tokens) == 1 else None


def splits_from_paths(paths: Sequence[Path]) -> list[str] | None:
    """The split of each file by its own name, or else by its folder's; None unless all have one and some differ."""
    for names in ([path.stem for path in paths], [path.parent.name for path in paths]):
        splits = [split_from_name(name) for name in names]
        if all(splits) and len(set(splits)) > 1:
            return [str(split) for split in splits]
    return None


def canonical_splits(codes: Array, names: Sequence[str], column: str = "") -> tuple[Array | None, list[str]]:
    """The split of each row under its usual name, and notes; None if all names are blank.

    Args:
        codes: (N,) which of the names each row has.
        names: The names as they came.
        column: Where they came from.
    """
    canonical, notes = rename_splits(names, column)
    splits = np.array(canonical, dtype=object)[codes]
    blank = np.count_nonzero(splits == "")
    if blank and blank == len(splits):
        return None, ["The column of splits is blank, so there are no splits."]
    if blank:
        hint = "Fill them in, or pass `{split_column=''}`."
        raise InputError("split", rule="be there in every row", got=f"{blank:,} rows without one", hint=hint)
    return splits, notes


def check_split(owner: str, name: str, splits: Sequence[str], *, hint: str) -> None:
    """Raises an error for a split that is not among `splits`; `hint` is for the case that there are none."""
    if name in splits:
        return
    rule = "be a split of the table, which has none"
    if splits:
        rule = f"be one of the splits, {', '.join(map(repr, splits))}"
        usual = canonical_split(str(name))  # tables that were read have their splits under these names
        hint = suggest(usual if usual in splits else str(name), splits, "Pass one of these.", show=repr)
    raise InputError("split", owner, rule, repr(name), hint)


# What a column holds: "numbers and text" are numbers with some text among them, "index" that of a data frame, and
# "image" bytes of images, alone or in a structure with their path; "structure" is any other one.
Kind = Literal[
    "number", "integer", "boolean", "text", "numbers and text", "list", "blank", "index", "image", "structure"
]
# What its first rows may show: 1, 0, -1, yes, no, true and false alone, or with blanks; texts that end like images.
SampledKind = Kind | Literal["cells", "cells and blanks", "image paths"]


def kind_of_type(kind: Any) -> Kind:
    """What a column of a type of Arrow holds."""
    types = pa.types
    if types.is_dictionary(kind):
        return kind_of_type(kind.value_type)
    if types.is_struct(kind):
        return "structure" if kind.get_field_index("bytes") < 0 else "image"
    checks: dict[Kind, tuple[Callable[[Any], bool], ...]] = {
        "image": (types.is_binary, types.is_large_binary),
        "list": (types.is_list, types.is_large_list),
        "boolean": (types.is_boolean,),
        "integer": (types.is_integer,),
        "number": (types.is_floating, types.is_decimal),
        "blank": (types.is_null,),
    }
    return next((held for held, fits in checks.items() if any(check(kind) for check in fits)), "text")


def preview_names(names: Mapping[str, Any] | Sequence[str], limit: int = 6) -> str:
    """The first of some names, for an error or a note."""
    first = ", ".join(repr(name) for name in list(names)[:limit])
    return f"{first} and {len(names) - limit:,} more" if len(names) > limit else first


@dataclass(frozen=True)
class ReadOptions:
    """Options of the functions that read tables; None to detect a property.

    Attributes:
        path_column: The column of paths.
        id_column: The column of ids.
        labels_column: The column of label names, or the key of such a list in JSON.
        split_column: The column of splits; empty for none.
        separator: What separates label names in one text; empty where each text is one label.
        delimiter: What separates the columns of a table of text.
        label_names: The labels to keep, in this order; None for all.
        allow_unseen: Whether some of these need not occur.
        root: The folder of the images.
        unlisted: What a cell that is not listed means, "absent" or "unknown".
        descriptions: The file of names for the codes of Open Images.
        allow_missing: Whether images may be in no files at all; their names are then kept as they are.
        leave_out: Whether names in lists that are no labels are left out, instead of raising an error.
    """

    path_column: str | None = None
    id_column: str | None = None
    labels_column: str | None = None
    split_column: str | None = None
    separator: str | None = None
    delimiter: str | None = None
    label_names: list[str] | None = None
    allow_unseen: bool = False
    root: Path | None = None
    unlisted: str | None = None
    descriptions: Path | None = None
    allow_missing: bool = False
    leave_out: bool = False

    def __post_init__(self) -> None:
        """Checks the folder."""
        if self.root is not None and not self.root.is_dir():
            got = f"{str(self.root)!r}, where there is none"
            raise InputError("root", rule="be a folder", got=got, hint="Check the path.")

    def column(self, argument: str, name: str, columns: Iterable[str]) -> str:
        """A column that the user named, or the error that says what there is."""
        columns = list(columns)
        if name in columns:
            return name
        by_lower = {column.lower(): column for column in reversed(columns)}
        otherwise = f"The columns are {preview_names(columns)}."
        hint = suggest(name.lower(), by_lower, otherwise, show=lambda lower: repr(by_lower[lower]))
        rule = "name columns of the table" if argument == "labels" else "name a column of the table"
        raise InputError(argument, rule=rule, got=repr(name), hint=hint)


@dataclass
class ColumnRoles:
    """The columns by what they hold.

    Attributes:
        id: The column of ids, or None; likewise `path`, `split` and `lists`, the lists of label names.
        cells: The column of scores or probabilities of each label.
        targets: The column of targets of each label that has one.
    """

    id: str | None = None
    path: str | None = None
    split: str | None = None
    lists: str | None = None
    cells: dict[str, str] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str | None:
        """The column that identifies rows: ids, or else paths."""
        return self.path if self.id is None else self.id

    @property
    def texts(self) -> list[str]:
        """The columns of text."""
        return [name for name in (self.id, self.path, self.split, self.lists) if name is not None]

    @property
    def used(self) -> list[str]:
        """All columns that are read; one may be read for two purposes."""
        return list(dict.fromkeys([*self.texts, *self.cells.values(), *self.targets.values()]))

    def left_out(self, columns: Iterable[str]) -> list[str]:
        """All other columns of a table."""
        used = set(self.used)
        return [name for name in columns if name not in used]


def assign_image_roles(table: TableFile, options: ReadOptions, *, with_labels: bool = True) -> ColumnRoles:
    """The roles in a table of images: paths or images, splits, and labels as lists of names or as one column each."""
    kinds = _kinds_by_content(table)
    excluded = {options.labels_column, options.split_column, *(options.label_names or ())}
    usable = [name for name, kind in kinds.items() if name not in excluded and kind != "list"]
    path, split = options.path_column, options.split_column
    if path is None:
        path = _find_image_column(kinds, usable)
    if split is None:
        split = find_column((*SPLIT_COLUMNS, *FLAG_COLUMNS), [name for name in usable if name != path])
    roles = ColumnRoles(path=options.column("path_column", path, kinds))
    if split:
        roles.split = options.column("split_column", split, kinds)
    if with_labels:
        _assign_labels(roles, kinds, options)
    return roles


def _kinds_by_content(table: TableFile) -> dict[str, SampledKind]:
    """What each column holds, more closely where its first rows show it."""
    kinds: dict[str, SampledKind] = {**table.columns}
    for name, texts in table.sample().items():
        filled = [text for text in texts if text not in BLANK_CELLS]
        if not filled:
            kinds[name] = "blank"
        elif {text.lower() for text in filled} <= CELL_VALUES.keys():
            kinds[name] = "cells" if len(filled) == len(texts) else "cells and blanks"
        elif 2 * sum(is_image(text) for text in filled[:100]) > len(filled[:100]):
            kinds[name] = "image paths"
    return kinds


def _find_image_column(kinds: Mapping[str, SampledKind], usable: Sequence[str]) -> str:
    """A column of images, or else of texts that look like paths, or else one that is named like paths."""
    for kind in ("image", "image paths"):
        columns = [name for name, held in kinds.items() if held == kind]
        if columns:
            return find_column(IMAGE_COLUMNS, columns) or columns[0]
    column = find_column(IMAGE_COLUMNS, sorted(usable, key=lambda name: kinds[name] == "blank"))
    if column is None:
        got, hint = f"the columns {preview_names(kinds)}", "Name it with {path_column}."
        raise InputError("path", rule="have a column of image paths", got=got, hint=hint)
    return column


def _assign_labels(roles: ColumnRoles, kinds: Mapping[str, SampledKind], options: ReadOptions) -> None:
    """A column of names, or one column per label."""
    if options.labels_column is not None:
        roles.lists = options.column("labels_column", options.labels_column, kinds)
        return
    rest = [name for name, kind in kinds.items() if name not in (roles.path, roles.split) and kind != "image"]
    roles.targets = _prefixed_columns(rest, TARGET_PREFIX)
    if not roles.targets and options.label_names and set(options.label_names) <= set(rest):
        roles.targets = {name: name for name in options.label_names}
    if roles.targets:
        return
    # Numbers of rows are 0 and 1 in a table of two rows.
    labels = [name for name in rest if normalise_name(name) not in INDEX_COLUMNS]
    cells = [name for name in labels if kinds[name] in ("cells", "cells and blanks")]
    if cells and "cells and blanks" in kinds.values():
        cells = [name for name in rest if name in cells or kinds[name] == "blank"]
    named = find_column(LABEL_COLUMNS, [name for name in rest if kinds[name] != "blank"])
    texts = [name for name in rest if kinds[name] in ("text", "numbers and text", "image paths")]
    unnamed = [name for name in rest if kinds[name] == "list"] or texts
    if named is not None and named in cells and len(cells) > 1:
        got = f"both {named!r} and columns of 1 and 0 such as {next(name for name in cells if name != named)!r}"
        hint = "Pass {labels_column}[, or the columns of labels as {labels}]."
        raise InputError("path", rule="have labels in one way", got=got, hint=hint)
    if named is None and cells:
        roles.targets = {name: name for name in cells}
        return
    roles.lists = named or (unnamed[0] if len(unnamed) == 1 else find_column(LABEL_COLUMNS, rest))
    if roles.lists is None:
        hint = "Name it with {labels_column}[, or the columns of labels with {labels}]."
        raise _no_labels_error("path", kinds, hint)


def assign_value_roles(
    columns: Mapping[str, Kind], options: ReadOptions, kind: str, *, with_targets: bool
) -> ColumnRoles:
    """The roles in a table of scores or probabilities, as `kind` says."""
    names, prefix = options.label_names, COLUMN_PREFIXES[kind]
    roles = _assign_row_roles(columns, options, excluded=names or ())
    if names is None:
        roles.cells = _prefixed_columns(columns, prefix) or _find_value_columns(columns, roles, kind)
    else:
        roles.cells = {
            name: prefix + name if prefix + name in columns else options.column("labels", name, columns)
            for name in names
        }
    if with_targets:
        targets = _prefixed_columns(columns, TARGET_PREFIX)
        other = next((name for name in targets if name not in roles.cells), None)
        if other is not None and names is None:
            hint = suggest(other, roles.cells, "Name the labels to read with {labels}.", show=repr)
            rule = f"have {kind} for every label with targets"
            raise InputError("table", rule=rule, got=f"{TARGET_PREFIX + other!r} alone", hint=hint)
        roles.targets = {label: column for label, column in targets.items() if label in roles.cells}
    else:
        roles.lists = None
    for name in roles.cells.values():
        if columns[name] in ("text", "numbers and text", "list", "image", "structure"):
            hint = "Write scores and probabilities as numbers, and targets as 1, 0 and blank."
            if columns[name] == "numbers and text" and name in roles.cells:
                hint = "Repair the file, or name the columns of labels with {labels}."
            raise InputError("table", rule="hold numbers for each label", got=f"text in column {name!r}", hint=hint)
    return roles


def assign_target_roles(columns: Mapping[str, Kind], options: ReadOptions, labels: Labels) -> ColumnRoles:
    """The roles in a table of targets: lists of names, or one column per label, named `name` or `target:name`."""
    roles = _assign_row_roles(columns, options, excluded=labels.names)
    if roles.lists is None:
        usable = columns.keys() - set(roles.texts)
        pairs = ((name, column) for name in labels.names for column in (name, TARGET_PREFIX + name))
        roles.targets = {name: column for name, column in pairs if column in usable}
        if not roles.targets:
            hint = "Name the column of label names `labels`, or pass {labels_column}."
            raise _no_labels_error("targets", columns, hint)
    return roles


def _assign_row_roles(columns: Mapping[str, Kind], options: ReadOptions, *, excluded: Sequence[str]) -> ColumnRoles:
    """Ids, paths, splits and lists of names; a column that the user called a label is none of these."""
    usable = {name: kind for name, kind in columns.items() if name not in excluded}

    def find(names: Sequence[str], *unusable: Kind) -> str | None:
        unusable = ("image", "structure", *unusable)
        return find_column(names, [name for name, kind in usable.items() if kind not in unusable])

    # Images, splits and classes are often numbered, but a fraction is a score or a probability.
    roles = ColumnRoles(
        id=find(ID_COLUMNS) or find(INDEX_COLUMNS, "blank"),
        path=find(PATH_COLUMNS, "number", "boolean", "list"),
        split=find(SPLIT_COLUMNS, "number", "boolean", "list") or find(FLAG_COLUMNS, "number", "list"),
        lists=find(LABEL_COLUMNS, "number", "boolean"),
    )
    if roles.id is None:
        roles.id = next((name for name, kind in usable.items() if kind == "index"), None)
    if roles.key is None:
        roles.path = find(KEY_COLUMNS, "number", "integer", "boolean", "list")
    if options.id_column is not None:
        roles.id = options.column("id_column", options.id_column, columns)
    if options.labels_column is not None:
        roles.lists = options.column("labels_column", options.labels_column, columns)
    return roles


def _prefixed_columns(columns: Iterable[str], prefix: str) -> dict[str, str]:
    """The columns of this prefix, by the rest of their names."""
    return {name.removeprefix(prefix): name for name in columns if name.startswith(prefix)}


def _find_value_columns(columns: Mapping[str, Kind], roles: ColumnRoles, kind: str) -> dict[str, str]:
    """All other numbers, in a table whose columns of labels the user has not named, nor a prefix."""
    # In a table without rows nothing shows what is a number.
    usable = ("number", "integer", "numbers and text") if set(columns.values()) != {"blank"} else ("blank",)
    excluded = {*roles.texts, *(name for name in columns if normalise_name(name) in (*ID_COLUMNS, *INDEX_COLUMNS))}
    numbers = [name for name, held in columns.items() if held in usable and name not in excluded]
    unprefixed = {name: name for name in numbers if not name.startswith(tuple(COLUMN_PREFIXES.values()))}
    if not unprefixed:
        got, hint = f"the columns {preview_names(columns)}", "Name the columns with {labels}."
        raise InputError("table", rule=f"have a column of {kind} for each label", got=got, hint=hint)
    return unprefixed


def _no_labels_error(argument: str, columns: Mapping[str, Any], hint: str) -> InputError:
    rule, got = "have a column of label names or one column per label", f"the columns {preview_names(columns)}"
    return InputError(argument, rule=rule, got=got, hint=hint)


SEPARATORS = ("|", ";", ",", " ")
LIST_LITERAL = "[]"  # stands for lists as Python or JSON writes them
SAMPLE_TEXTS, MAX_TEXTS = 1000, 20_000
BLANK_NAME, UNKNOWN_NAME = -1, -2


def detect_separator(counts: Mapping[str, int], label_names: Sequence[str] | None = None) -> str:
    """What separates the names in some texts; empty where each text is one name.

    A character counts as a separator if the pieces it leaves turn up in different company: "dog cat" beside "cat bird".
    Pieces that are always together, as in "traffic light", are one name. Bars and semicolons hardly occur in names.

    Args:
        counts: How often each text occurs.
        label_names: Names that should be among them, if any are known: what brings out most of them separates them.

    Example:
        >>> detect_separator(Counter(["traffic light, dog", "traffic light", "dog, stop sign"]))
        ','
        >>> detect_separator(Counter(["traffic light", "dog", "stop sign"]))
        ''
    """
    texts: Counter[str] = Counter()
    for text in islice(counts, 0, None, max(1, len(counts) // MAX_TEXTS)):
        texts[text.strip()] += counts[text]
    for blank in BLANK_CELLS:
        del texts[blank]
    if texts and all(text.startswith("[") and text.endswith("]") for text in texts):
        return LIST_LITERAL
    guess = _guess_separator(texts)
    if label_names is None:
        return guess
    known = set(label_names)

    def count_known(separator: str) -> int:
        return sum(name in known for text in texts for name in split_names(text, separator))

    return max((guess, *SEPARATORS, ""), key=count_known)


def _guess_separator(texts: Counter[str]) -> str:
    texts_with = {separator: [text for text in texts if separator in text] for separator in SEPARATORS}
    by_spaces = _mixing_share(texts, " ") >= 0.5
    # Whole texts that come again and again, with pieces that never part, are names with a comma in them.
    again = sum(texts[text] for text in texts_with[","]) >= 2 * len(texts_with[","])
    by_commas = not again or _mixing_share(texts, ",") >= 0.2
    # Where spaces separate the names of most texts, a rare character is part of a name.
    least = max(1.0, len(texts) / 100) if by_spaces and 2 * len(texts_with[" "]) > len(texts) else 1.0
    separates = {"|": True, ";": True, ",": by_commas, " ": by_spaces}
    return next((char for char in SEPARATORS if separates[char] and len(texts_with[char]) >= least), "")


def _mixing_share(texts: Iterable[str], separator: str) -> float:
    """Share of pieces, among those of texts with several, that also occur in another text."""
    pieces = [[piece.strip() for piece in text.split(separator) if piece.strip()] for text in texts]
    occurs = Counter(piece for parts in pieces for piece in set(parts))
    several = [piece for parts in pieces if len(parts) > 1 for piece in set(parts)]
    return sum(occurs[piece] > 1 for piece in several) / max(len(several), 1)


def describe_separator(separator: str, unit: str) -> str:
    """How names are separated, as the end of a note."""
    if separator == LIST_LITERAL:
        return "written as lists"
    return f"separated by {separator!r}" if separator else f"one a {unit}"


def split_names(text: str, separator: str) -> list[str]:
    """The names in one text, without the spaces around them; none in a blank text in place of a list."""
    if separator != LIST_LITERAL:
        return [name.strip() for name in (text.split(separator) if separator else [text])]
    names = None
    with suppress(ValueError, SyntaxError):
        names = ast.literal_eval("[]" if text.strip() in BLANK_CELLS else text.strip())
    if not isinstance(names, list):
        hint = "Repair it, or pass {separator}."
        raise InputError("labels", rule="be lists such as ['cat', 'dog']", got=repr(text), hint=hint)
    return [str(name).strip() for name in names]


def sort_names(names: Iterable[str]) -> list[str]:
    """Names in the order of the alphabet, or by value if all are whole numbers."""
    names = list(names)
    return sorted(names, key=int) if all(name.isdecimal() for name in names) else sorted(names)


def list_entries(column: Any, separator: str) -> tuple[Array, Array, list[str]]:
    """The row of each name in a column of lists or texts, which name it is, and the names without spaces around them.

    Args:
        column: Arrow lists, or strings without nulls.
        separator: What separates the names of a text.
    """
    if kind_of_type(column.type) != "list":
        if separator in (LIST_LITERAL, ""):
            column = pa.array([split_names(text, separator) for text in column.to_pylist()], pa.list_(pa.string()))
        else:
            column = pa.compute.split_pattern(column, separator)
    rows = as_numpy(pa.compute.list_parent_indices(column)).astype(np.int64)
    names, codes = encode(pa.compute.utf8_trim_whitespace(as_strings(pa.compute.list_flatten(column))))
    return rows, codes, names


def encode(column: Any) -> tuple[list[Any], Array]:
    """The distinct values of a column in the order in which they occur, and which of them each row has."""
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), as_numpy(encoded.indices).astype(np.int64)


class LabelNameReader:
    """Reads lists of the names of known labels, batch by batch, and collects notes.

    Args:
        label_names: The known names.
        separator: What separates the names of a text; None to detect it in the first texts.
        leave_out: Whether names that are no labels are left out, instead of raising an error.
    """

    def __init__(self, label_names: Sequence[str], separator: str | None, *, leave_out: bool) -> None:
        self._names, self._separator, self._leave_out = list(label_names), separator, leave_out
        # Programs write a blank cell as "nan" or "NULL", and people write "none".
        self._columns = dict.fromkeys(BLANK_CELLS, BLANK_NAME) | {name: k for k, name in enumerate(label_names)}
        self._detects, self._unknown_count = separator is None, 0

    def read(self, column: Any) -> tuple[Array, Array]:
        """Rows and columns of the labels in a column of texts such as "dog|cat", or of lists of names.

        Spaces around a name are not part of it, and a blank text is a row without labels.
        """
        if kind_of_type(column.type) != "list":
            column = as_strings(column)
            if self._separator is None and len(column):
                # Where nothing separates the first names, a bar may separate later ones: it hardly occurs in names.
                sample = Counter(column.slice(0, SAMPLE_TEXTS).to_pylist())
                self._separator = detect_separator(sample, self._names) or SEPARATORS[0]
        rows, codes, names = list_entries(column, self._separator or SEPARATORS[0])
        columns = np.array([self._columns.get(name, UNKNOWN_NAME) for name in names], np.int64)[codes]
        unknown = columns == UNKNOWN_NAME
        if unknown.any() and not self._leave_out:
            name, hint = names[codes[unknown.argmax()]], "Pass `{other_labels='leave out'}` to do without such names"
            near = suggest(name, self._names, show=repr)
            hint = f"{near} {hint}." if near else f"{hint}, or rename the column if it does not hold true labels."
            raise InputError("targets", rule=f"name the {len(self._names)} labels", got=repr(name), hint=hint)
        self._unknown_count += int(unknown.sum())
        return rows[columns >= 0], columns[columns >= 0]

    def notes(self, column: str, of_file: str = "") -> list[str]:
        """What was found out about a column; `of_file` names its file."""
        described = ""
        if self._separator is not None:
            described = f", {describe_separator(self._separator, 'row')}" + " as detected" * self._detects
        notes = [f"Targets are the label names in column {column!r}{of_file}{described}."]
        if self._unknown_count:
            count = f"{self._unknown_count:,} entries of column {column!r}{of_file}"
            notes.append(f"Left out {count} that are none of the labels.")
        return notes
