"""Which column of a foreign table is what."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from manyhot.labels import Labels
from manyhot.predictions.header import PREFIXES
from manyhot.refusal import refusal
from manyhot.vocabulary import FLAGS, IDS, INDEXES, KEYS, LABELS, PATHS, SPLITS, known_column, plain_name

NUMBER, WHOLE, TRUTH, TEXT, LIST, BLANK = "number", "whole number", "truth", "text", "list", "blank"
# Numbers with some text among them, and the index of a data frame.
MIXED, INDEX = "numbers and text", "index"


@dataclass(frozen=True)
class Wish:
    """What the user said about a foreign table.

    Attributes:
        owner: The function that was called, for errors.
        kind: "scores" or "probs".
        labels: The columns to take as labels; None for all that can be.
        id_column: The column of ids; None to look for one.
        labels_column: The column of lists of label names; None to look for one.
        separator: What separates these names; None to find out.
        leave_out: Whether names in these lists that are no labels are left out instead of refused.
    """

    owner: str
    kind: str
    labels: Sequence[str] | None = None
    id_column: str | None = None
    labels_column: str | None = None
    separator: str | None = None
    leave_out: bool = False


@dataclass
class Roles:
    """The columns by what they hold.

    Attributes:
        id: The column of ids, or None; likewise `path`, `split` and `lists`, the lists of label names.
        cells: The column of scores or probabilities of each label.
        targets: The column of targets of each label that has one.
        left_out: Columns that are nothing of all that.
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
        """The column that tells rows apart: ids, or else paths."""
        return self.path if self.id is None else self.id

    @property
    def texts(self) -> list[str]:
        """The columns of text."""
        return [name for name in (self.id, self.path, self.split, self.lists) if name is not None]

    @property
    def used(self) -> list[str]:
        """All columns that are read; one may be read for two purposes."""
        return list(dict.fromkeys([*self.texts, *self.cells.values(), *self.targets.values()]))


def assign_predictions(columns: Mapping[str, str], wish: Wish, *, with_targets: bool) -> Roles:
    """The roles in a table of predictions.

    Args:
        columns: What each column holds, by name: such as "number", "text" or "blank".
        wish: What the user said.
        with_targets: Whether to look for targets as well.
    """
    chosen = [] if wish.labels is None else list(wish.labels)
    roles = _assign_rows(columns, wish, barred=chosen)
    if wish.labels is None:
        roles.cells = _find_cells(columns, wish, roles)
    else:
        prefix = PREFIXES[wish.kind]
        roles.cells = {n: prefix + n if prefix + n in columns else _column(columns, n, wish, "labels") for n in chosen}
    if with_targets:
        _assign_targets(columns, wish, roles)
    else:
        roles.lists = None
    _check_numbers(columns, wish, roles)
    roles.left_out = [name for name in columns if name not in roles.used]
    return roles


def assign_targets_file(columns: Mapping[str, str], wish: Wish, labels: Labels) -> Roles:
    """The roles in a table of targets: lists of names, or one column a label, called by its name or `target:name`."""
    roles = _assign_rows(columns, wish, barred=labels.names)
    if roles.lists is None:
        for name in labels.names:
            for column in (PREFIXES["targets"] + name, name):
                if column in columns and column not in roles.texts:
                    roles.targets.setdefault(name, column)
        _check_numbers(columns, wish, roles)
        if not roles.targets:
            rule = "have a column of label names or one column a label"
            remedy = "Name the column of label names `labels`, or pass `labels_column`."
            raise refusal("targets", wish.owner, rule, f"the columns {listed(columns)}", remedy)
    roles.left_out = [name for name in columns if name not in roles.used]
    return roles


def _assign_rows(columns: Mapping[str, str], wish: Wish, *, barred: Sequence[str]) -> Roles:
    """Ids, paths, splits and lists of names; a column that the user called a label is none of these."""

    def find(names: Sequence[str], *unfit: str) -> str | None:
        return known_column(
            names, [name for name, holds in columns.items() if name not in barred and holds not in unfit]
        )

    # Images, splits and classes are often numbered, but a fraction is a score or a probability.
    roles = Roles(
        id=find(IDS) or find(INDEXES, BLANK),
        path=find(PATHS, NUMBER, TRUTH, LIST),
        split=find(SPLITS, NUMBER, TRUTH, LIST) or find(FLAGS, NUMBER, LIST),
        lists=find(LABELS, NUMBER, TRUTH),
    )
    if roles.id is None:
        roles.id = next((name for name, holds in columns.items() if holds == INDEX and name not in barred), None)
    if roles.key is None:
        roles.path = find(KEYS, NUMBER, WHOLE, TRUTH, LIST)
    if wish.id_column is not None:
        roles.id = _column(columns, wish.id_column, wish, "id_column")
    if wish.labels_column is not None:
        roles.lists = _column(columns, wish.labels_column, wish, "labels_column")
    return roles


def _find_cells(columns: Mapping[str, str], wish: Wish, roles: Roles) -> dict[str, str]:
    """The columns of labels where the user named none: those named `score:` or `prob:`, or all other numbers."""
    prefix = PREFIXES[wish.kind]
    marked = {name.removeprefix(prefix): name for name in columns if name.startswith(prefix)}
    if marked:
        return marked
    # In a table without rows nothing shows what is a number.
    usable = (NUMBER, WHOLE) if set(columns.values()) != {BLANK} else (BLANK,)
    barred = {*roles.texts, *(name for name in columns if plain_name(name) in (*IDS, *INDEXES))}
    numbers = [name for name, holds in columns.items() if holds in (*usable, MIXED) and name not in barred]
    plain = {name: name for name in numbers if not name.startswith(tuple(PREFIXES.values()))}
    if not plain:
        remedy = "Name the columns with `labels`."
        rule = f"have a column of {wish.kind} for each label"
        raise refusal("table", wish.owner, rule, f"the columns {listed(columns)}", remedy)
    return plain


def _assign_targets(columns: Mapping[str, str], wish: Wish, roles: Roles) -> None:
    prefix = PREFIXES["targets"]
    marked = {name.removeprefix(prefix): name for name in columns if name.startswith(prefix)}
    for label in marked if wish.labels is None else ():
        if label not in roles.cells:
            near = difflib.get_close_matches(label, roles.cells, n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else "Name the labels to read with `labels`."
            rule = f"have {wish.kind} for every label with targets"
            raise refusal("table", wish.owner, rule, f"{prefix + label!r} alone", remedy)
    roles.targets = {label: column for label, column in marked.items() if label in roles.cells}


def _check_numbers(columns: Mapping[str, str], wish: Wish, roles: Roles) -> None:
    """Refuses text where numbers are needed."""
    for name in (*roles.cells.values(), *roles.targets.values()):
        unfit = (LIST,) if name in roles.targets.values() else (TEXT, LIST, MIXED)
        if columns[name] in unfit:
            remedy = "Write scores and probabilities as numbers, and targets as 1, 0 and blank."
            if columns[name] == MIXED and name in roles.cells:
                remedy = "Repair the file, or name the columns of labels with `labels`."
            raise refusal("table", wish.owner, "hold numbers for each label", f"text in column {name!r}", remedy)


def _column(columns: Mapping[str, str], name: str, wish: Wish, argument: str) -> str:
    """A column that the user named, or the error that says what there is."""
    if name in columns:
        return name
    near = difflib.get_close_matches(name, columns, n=1)
    remedy = f"Did you mean {near[0]!r}?" if near else f"The columns are {listed(columns)}."
    rule = "name a column of the table" if argument.endswith("column") else "name columns of the table"
    raise refusal(argument, wish.owner, rule, repr(name), remedy)


def listed(names: Mapping[str, str] | Sequence[str], most: int = 6) -> str:
    """The first of some names, for an error or a note."""
    first = ", ".join(repr(name) for name in list(names)[:most])
    return f"{first} and {len(names) - most:,} more" if len(names) > most else first
