"""Which column of a table holds the paths, which the labels and which the splits."""

from __future__ import annotations

from dataclasses import dataclass, field

from manyhot.data.readers.said import Said
from manyhot.predictions.header import PREFIXES
from manyhot.predictions.roles import BLANK, LIST, MIXED, TEXT, listed
from manyhot.refusal import refusal
from manyhot.vocabulary import FLAGS, IDS, INDEXES, KEYS, LABELS, PATHS, SPLITS, known_column, plain_name

IMAGE = "image"  # bytes of images, alone or in a structure beside their path
# Columns that name an image, in a table where some column must.
IMAGES = (*PATHS, *IDS, *KEYS)
# What a column of a label begins with whose name alone would say something else, as in tables of predictions.
MARK = PREFIXES["targets"]


@dataclass
class Look:
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
class Columns:
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


def choose_columns(look: Look, said: Said, *, with_labels: bool = True) -> Columns:
    """The columns that the user named, and for the rest those that look right."""
    path = _path_column(look, said)
    chosen = Columns(path, _split_column(look, said, path))
    if with_labels:
        _choose_labels(chosen, look, said)
    chosen.left_out = [name for name in look.kinds if name not in chosen.used]
    return chosen


def _path_column(look: Look, said: Said) -> str:
    columns = list(look.kinds)
    if said.path_column is not None:
        return said.column("path_column", said.path_column, columns)
    pictures = [name for name, kind in look.kinds.items() if kind == IMAGE]
    barred = {said.labels_column, said.split_column, *(said.label_names or ())}
    usable = [name for name in columns if name not in barred and look.kinds[name] != LIST]
    usable.sort(key=lambda name: look.kinds[name] == BLANK)
    found = known_column(IMAGES, pictures) or next(iter(pictures), None)
    found = found or known_column(IMAGES, look.images) or next(iter(look.images), None) or known_column(IMAGES, usable)
    if found is None:
        remedy = "Name it with `path_column`."
        raise refusal("path", said.owner, "have a column of image paths", f"the columns {listed(columns)}", remedy)
    return found


def _split_column(look: Look, said: Said, path: str) -> str | None:
    if said.split_column == "":
        return None
    if said.split_column is not None:
        return said.column("split_column", said.split_column, list(look.kinds))
    barred = {path, said.labels_column, *(said.label_names or ())}
    return known_column(
        (*SPLITS, *FLAGS), [name for name, kind in look.kinds.items() if name not in barred and kind != LIST]
    )


def _choose_labels(chosen: Columns, look: Look, said: Said) -> None:
    """A column of names, or one column a label."""
    if said.labels_column is not None:
        chosen.lists = said.column("labels_column", said.labels_column, list(look.kinds))
        return
    barred = (chosen.path, chosen.split)
    rest = [name for name, kind in look.kinds.items() if name not in barred and kind != IMAGE]
    wanted = said.label_names
    marked = [name for name in rest if name.startswith(MARK)]
    if marked:
        chosen.cells = marked
        return
    if wanted and all(name in rest for name in wanted):
        chosen.cells = wanted
        return
    # Numbers of rows are 0 and 1 in a table of two rows.
    binary = [name for name in look.binary if name in rest and plain_name(name) not in INDEXES]
    if look.gaps and binary:
        binary = [name for name in rest if name in binary or look.kinds[name] == BLANK]
    named = known_column(LABELS, [name for name in rest if look.kinds[name] != BLANK])
    lists = [name for name in rest if look.kinds[name] == LIST]
    texts = [name for name in rest if look.kinds[name] in (TEXT, MIXED)]
    if named is not None and named in binary and len(binary) > 1:
        got = f"both {named!r} and columns of 1 and 0 such as {next(n for n in binary if n != named)!r}"
        remedy = "Pass `labels_column`, or the columns of labels as `labels`."
        raise refusal("path", said.owner, "have labels in one way", got, remedy)
    if named is not None:
        chosen.lists = named
    elif binary:
        chosen.cells = binary
    elif len(lists or texts) == 1:
        (chosen.lists,) = lists or texts
    else:
        blank = [name for name in rest if look.kinds[name] == BLANK]
        chosen.lists = known_column(LABELS, blank)
    if chosen.lists is None and not chosen.cells:
        remedy = "Name it with `labels_column`, or the columns of labels with `labels`."
        rule = "have a column of label names or one column a label"
        raise refusal("path", said.owner, rule, f"the columns {listed(list(look.kinds))}", remedy)
