"""Options for reading a table, and the role of each column: paths, ids, labels, splits, targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from manyhot.errors import InputError, suggest
from manyhot.tables.vocabulary import (
    COLUMN_PREFIXES,
    FLAG_COLUMNS,
    ID_COLUMNS,
    INDEX_COLUMNS,
    KEY_COLUMNS,
    LABEL_COLUMNS,
    PATH_COLUMNS,
    SPLIT_COLUMNS,
    find_column,
    normalise_name,
)

if TYPE_CHECKING:
    from manyhot.labels import Labels

NUMBER, INTEGER, BOOLEAN, TEXT, LIST, BLANK = "number", "whole number", "truth", "text", "list", "blank"
# Numbers with some text among them, and the index of a data frame.
NUMBERS_AND_TEXT, INDEX = "numbers and text", "index"


@dataclass(frozen=True)
class PredictionReadOptions:
    """Options of the functions that read predictions of other programs.

    Attributes:
        owner: The function that was called, for errors.
        kind: "scores" or "probs".
        labels: The columns to take as labels; None for all that can be.
        id_column: The column of ids; None to look for one.
        labels_column: The column of lists of label names; None to look for one.
        separator: What separates these names; None to detect it.
        leave_out: Whether names in these lists that are no labels are left out, instead of raising an error.
    """

    owner: str
    kind: str
    labels: Sequence[str] | None = None
    id_column: str | None = None
    labels_column: str | None = None
    separator: str | None = None
    leave_out: bool = False


@dataclass
class ColumnRoles:
    """The columns by what they hold.

    Attributes:
        id: The column of ids, or None; likewise `path`, `split` and `lists`, the lists of label names.
        cells: The column of scores or probabilities of each label.
        targets: The column of targets of each label that has one.
        left_out: All other columns.
    """

    id: str | None = None
    path: str | None = None
    split: str | None = None
    lists: str | None = None
    cells: dict[str, str] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

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


def assign_prediction_roles(
    columns: Mapping[str, str], options: PredictionReadOptions, *, with_targets: bool
) -> ColumnRoles:
    """The roles in a table of predictions.

    Args:
        columns: What each column holds, by name: such as "number", "text" or "blank".
        options: Options of the user.
        with_targets: Whether to look for targets as well.
    """
    label_names = [] if options.labels is None else list(options.labels)
    roles = _assign_row_roles(columns, options, excluded=label_names)
    if options.labels is None:
        roles.cells = _find_value_columns(columns, options, roles)
    else:
        prefix = COLUMN_PREFIXES[options.kind]
        roles.cells = {
            n: prefix + n if prefix + n in columns else _named_column(columns, n, options, "labels")
            for n in label_names
        }
    if with_targets:
        _assign_targets(columns, options, roles)
    else:
        roles.lists = None
    _check_numbers(columns, options, roles)
    roles.left_out = [name for name in columns if name not in roles.used]
    return roles


def assign_target_roles(columns: Mapping[str, str], options: PredictionReadOptions, labels: Labels) -> ColumnRoles:
    """The roles in a table of targets: lists of names, or one column per label, named `name` or `target:name`."""
    roles = _assign_row_roles(columns, options, excluded=labels.names)
    if roles.lists is None:
        for name in labels.names:
            for column in (COLUMN_PREFIXES["targets"] + name, name):
                if column in columns and column not in roles.texts:
                    roles.targets.setdefault(name, column)
        _check_numbers(columns, options, roles)
        if not roles.targets:
            rule = "have a column of label names or one column per label"
            hint = "Name the column of label names `labels`, or pass {labels_column}."
            raise InputError("targets", options.owner, rule, f"the columns {preview_names(columns)}", hint)
    roles.left_out = [name for name in columns if name not in roles.used]
    return roles


def _assign_row_roles(
    columns: Mapping[str, str], options: PredictionReadOptions, *, excluded: Sequence[str]
) -> ColumnRoles:
    """Ids, paths, splits and lists of names; a column that the user called a label is none of these."""

    def find(names: Sequence[str], *unusable: str) -> str | None:
        return find_column(
            names, [name for name, kind in columns.items() if name not in excluded and kind not in unusable]
        )

    # Images, splits and classes are often numbered, but a fraction is a score or a probability.
    roles = ColumnRoles(
        id=find(ID_COLUMNS) or find(INDEX_COLUMNS, BLANK),
        path=find(PATH_COLUMNS, NUMBER, BOOLEAN, LIST),
        split=find(SPLIT_COLUMNS, NUMBER, BOOLEAN, LIST) or find(FLAG_COLUMNS, NUMBER, LIST),
        lists=find(LABEL_COLUMNS, NUMBER, BOOLEAN),
    )
    if roles.id is None:
        roles.id = next((name for name, kind in columns.items() if kind == INDEX and name not in excluded), None)
    if roles.key is None:
        roles.path = find(KEY_COLUMNS, NUMBER, INTEGER, BOOLEAN, LIST)
    if options.id_column is not None:
        roles.id = _named_column(columns, options.id_column, options, "id_column")
    if options.labels_column is not None:
        roles.lists = _named_column(columns, options.labels_column, options, "labels_column")
    return roles


def _find_value_columns(
    columns: Mapping[str, str], options: PredictionReadOptions, roles: ColumnRoles
) -> dict[str, str]:
    """The columns of labels where the user named none: those named `score:` or `prob:`, or all other numbers."""
    prefix = COLUMN_PREFIXES[options.kind]
    prefixed = {name.removeprefix(prefix): name for name in columns if name.startswith(prefix)}
    if prefixed:
        return prefixed
    # In a table without rows nothing shows what is a number.
    usable = (NUMBER, INTEGER) if set(columns.values()) != {BLANK} else (BLANK,)
    excluded = {*roles.texts, *(name for name in columns if normalise_name(name) in (*ID_COLUMNS, *INDEX_COLUMNS))}
    numbers = [name for name, kind in columns.items() if kind in (*usable, NUMBERS_AND_TEXT) and name not in excluded]
    unprefixed = {name: name for name in numbers if not name.startswith(tuple(COLUMN_PREFIXES.values()))}
    if not unprefixed:
        hint = "Name the columns with {labels}."
        rule = f"have a column of {options.kind} for each label"
        raise InputError("table", options.owner, rule, f"the columns {preview_names(columns)}", hint)
    return unprefixed


def _assign_targets(columns: Mapping[str, str], options: PredictionReadOptions, roles: ColumnRoles) -> None:
    prefix = COLUMN_PREFIXES["targets"]
    prefixed = {name.removeprefix(prefix): name for name in columns if name.startswith(prefix)}
    for label in prefixed if options.labels is None else ():
        if label not in roles.cells:
            hint = suggest(label, roles.cells, "Name the labels to read with {labels}.", show=repr)
            rule = f"have {options.kind} for every label with targets"
            raise InputError("table", options.owner, rule, f"{prefix + label!r} alone", hint)
    roles.targets = {label: column for label, column in prefixed.items() if label in roles.cells}


def _check_numbers(columns: Mapping[str, str], options: PredictionReadOptions, roles: ColumnRoles) -> None:
    """Checks that the columns of labels hold numbers."""
    for name in (*roles.cells.values(), *roles.targets.values()):
        unusable = (LIST,) if name in roles.targets.values() else (TEXT, LIST, NUMBERS_AND_TEXT)
        if columns[name] in unusable:
            hint = "Write scores and probabilities as numbers, and targets as 1, 0 and blank."
            if columns[name] == NUMBERS_AND_TEXT and name in roles.cells:
                hint = "Repair the file, or name the columns of labels with {labels}."
            raise InputError("table", options.owner, "hold numbers for each label", f"text in column {name!r}", hint)


def _named_column(columns: Mapping[str, str], name: str, options: PredictionReadOptions, argument: str) -> str:
    """A column that the user named, or the error that says what there is."""
    if name in columns:
        return name
    hint = suggest(name, columns, f"The columns are {preview_names(columns)}.", show=repr)
    rule = "name a column of the table" if argument.endswith("column") else "name columns of the table"
    raise InputError(argument, options.owner, rule, repr(name), hint)


def preview_names(names: Mapping[str, str] | Sequence[str], limit: int = 6) -> str:
    """The first of some names, for an error or a note."""
    first = ", ".join(repr(name) for name in list(names)[:limit])
    return f"{first} and {len(names) - limit:,} more" if len(names) > limit else first


@dataclass(frozen=True)
class ReadOptions:
    """Options of the functions that read datasets; None to detect a property.

    Attributes:
        owner: The function that was called, for errors.
        path_column: The column of paths.
        labels_column: The column of label names, or the key of such a list in JSON.
        split_column: The column of splits; empty for none.
        separator: What separates label names in one text; empty where each text is one label.
        delimiter: What separates the columns of a table of text.
        root: The folder of the images.
        labels: The labels to keep, in this order; names of `Labels` need not occur.
        unlisted: What a cell that is not listed means, "absent" or "unknown".
        descriptions: The file of names for the codes of Open Images.
        allow_missing: Whether images may be in no files at all; their names are then kept as they are.
    """

    owner: str
    path_column: str | None = None
    labels_column: str | None = None
    split_column: str | None = None
    separator: str | None = None
    delimiter: str | None = None
    root: Path | None = None
    labels: Sequence[str] | Labels | None = None
    unlisted: str | None = None
    descriptions: Path | None = None
    allow_missing: bool = False

    def __post_init__(self) -> None:
        """Checks the options that do not depend on the layout."""
        from manyhot.checks import check_choice
        from manyhot.labels import Labels

        if self.unlisted is not None:
            check_choice("unlisted", self.owner, self.unlisted, ("absent", "unknown"))
        if self.root is not None and not self.root.is_dir():
            got = f"{str(self.root)!r}, where there is none"
            raise InputError("root", self.owner, "be a folder", got, "Check the path.")
        if self.labels is not None and not isinstance(self.labels, Labels):
            Labels(self.labels)

    def unlisted_or(self, default: str) -> str:
        """What an unlisted cell means here."""
        return default if self.unlisted is None else self.unlisted

    @property
    def label_names(self) -> list[str] | None:
        """The labels to keep, or None for all."""
        from manyhot.labels import Labels

        if self.labels is None:
            return None
        return self.labels.names if isinstance(self.labels, Labels) else list(self.labels)

    def column(self, argument: str, name: str, columns: Sequence[str]) -> str:
        """A column that the user named, or the error that says what there is."""
        if name in columns:
            return name
        by_lower = {column.lower(): column for column in reversed(columns)}
        otherwise = f"The columns are {preview_names(columns)}."
        hint = suggest(name.lower(), by_lower, otherwise, show=lambda lower: repr(by_lower[lower]))
        raise InputError(argument, self.owner, "name a column of the table", repr(name), hint)

    def missing_path_error(self, path: object) -> InputError:
        """The error for a path that leads nowhere."""
        return InputError(
            "path", self.owner, "lead to data", f"{str(path)!r}, where there is nothing", "Check the path."
        )


IMAGE = "image"  # bytes of images, alone or in a structure beside their path
# Columns that name an image, in a table where some column must.
IMAGE_COLUMNS = (*PATH_COLUMNS, *ID_COLUMNS, *KEY_COLUMNS)
# The prefix of label columns, needed where the label alone would be taken for another role.
TARGET_PREFIX = COLUMN_PREFIXES["targets"]


@dataclass
class TablePreview:
    """What the first rows of a table show.

    Attributes:
        kinds: What each column holds, by name.
        binary: Columns of nothing but 1, 0, -1, yes, no, true, false and blanks.
        gaps: Whether some of these have blanks.
        images: Columns of texts of which most end like images.
    """

    kinds: dict[str, str]
    binary: list[str]
    gaps: bool
    images: list[str]


@dataclass
class ImageTableRoles:
    """The columns by what they hold; one of `lists` and `cells` is there where labels were asked for."""

    path: str
    split: str | None = None
    lists: str | None = None
    cells: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def used(self) -> list[str]:
        """All columns that are read."""
        names = (self.path, self.split, self.lists, *self.cells)
        return list(dict.fromkeys(name for name in names if name is not None))


def choose_columns(preview: TablePreview, options: ReadOptions, *, with_labels: bool = True) -> ImageTableRoles:
    """The columns that the user named, and detected ones for the other roles."""
    path = _path_column(preview, options)
    roles = ImageTableRoles(path, _split_column(preview, options, path))
    if with_labels:
        _choose_labels(roles, preview, options)
    roles.left_out = [name for name in preview.kinds if name not in roles.used]
    return roles


def _path_column(preview: TablePreview, options: ReadOptions) -> str:
    columns = list(preview.kinds)
    if options.path_column is not None:
        return options.column("path_column", options.path_column, columns)
    image_columns = [name for name, kind in preview.kinds.items() if kind == IMAGE]
    excluded = {options.labels_column, options.split_column, *(options.label_names or ())}
    usable = [name for name in columns if name not in excluded and preview.kinds[name] != LIST]
    usable.sort(key=lambda name: preview.kinds[name] == BLANK)
    column = find_column(IMAGE_COLUMNS, image_columns) or next(iter(image_columns), None)
    column = (
        column
        or find_column(IMAGE_COLUMNS, preview.images)
        or next(iter(preview.images), None)
        or find_column(IMAGE_COLUMNS, usable)
    )
    if column is None:
        hint = "Name it with {path_column}."
        raise InputError(
            "path", options.owner, "have a column of image paths", f"the columns {preview_names(columns)}", hint
        )
    return column


def _split_column(preview: TablePreview, options: ReadOptions, path: str) -> str | None:
    if options.split_column == "":
        return None
    if options.split_column is not None:
        return options.column("split_column", options.split_column, list(preview.kinds))
    excluded = {path, options.labels_column, *(options.label_names or ())}
    return find_column(
        (*SPLIT_COLUMNS, *FLAG_COLUMNS),
        [name for name, kind in preview.kinds.items() if name not in excluded and kind != LIST],
    )


def _choose_labels(roles: ImageTableRoles, preview: TablePreview, options: ReadOptions) -> None:
    """A column of names, or one column per label."""
    if options.labels_column is not None:
        roles.lists = options.column("labels_column", options.labels_column, list(preview.kinds))
        return
    excluded = (roles.path, roles.split)
    rest = [name for name, kind in preview.kinds.items() if name not in excluded and kind != IMAGE]
    label_names = options.label_names
    marked = [name for name in rest if name.startswith(TARGET_PREFIX)]
    if marked:
        roles.cells = marked
        return
    if label_names and all(name in rest for name in label_names):
        roles.cells = label_names
        return
    # Numbers of rows are 0 and 1 in a table of two rows.
    binary = [name for name in preview.binary if name in rest and normalise_name(name) not in INDEX_COLUMNS]
    if preview.gaps and binary:
        binary = [name for name in rest if name in binary or preview.kinds[name] == BLANK]
    named = find_column(LABEL_COLUMNS, [name for name in rest if preview.kinds[name] != BLANK])
    lists = [name for name in rest if preview.kinds[name] == LIST]
    texts = [name for name in rest if preview.kinds[name] in (TEXT, NUMBERS_AND_TEXT)]
    if named is not None and named in binary and len(binary) > 1:
        got = f"both {named!r} and columns of 1 and 0 such as {next(n for n in binary if n != named)!r}"
        hint = "Pass {labels_column}[, or the columns of labels as {labels}]."
        raise InputError("path", options.owner, "have labels in one way", got, hint)
    if named is not None:
        roles.lists = named
    elif binary:
        roles.cells = binary
    elif len(lists or texts) == 1:
        (roles.lists,) = lists or texts
    else:
        blank = [name for name in rest if preview.kinds[name] == BLANK]
        roles.lists = find_column(LABEL_COLUMNS, blank)
    if roles.lists is None and not roles.cells:
        hint = "Name it with {labels_column}[, or the columns of labels with {labels}]."
        rule = "have a column of label names or one column per label"
        raise InputError("path", options.owner, rule, f"the columns {preview_names(list(preview.kinds))}", hint)
