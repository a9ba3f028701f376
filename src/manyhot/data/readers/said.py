"""What the user said about the data, and the columns and names that it must be held against."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from manyhot.checks import check_choice
from manyhot.labels import Labels
from manyhot.predictions.roles import listed
from manyhot.refusal import Refusal, refusal


@dataclass(frozen=True)
class Said:
    """What the user said; None stands for "find out".

    Attributes:
        owner: The function that was called, for errors.
        path_column: The column of paths.
        labels_column: The column of label names, or the key of such a list in JSON.
        split_column: The column of splits; empty for none.
        separator: What separates label names in one text; empty where each text is one label.
        delimiter: What separates the columns of a table of text.
        root: The folder of the images.
        labels: The labels to keep, in this order; names of `Labels` need not occur.
        unlisted: What a cell that nothing is said about means, "absent" or "unknown".
        descriptions: The file of names for the codes of Open Images.
        elsewhere: Whether images may be in no files at all; their names are then kept as they are.
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
    elsewhere: bool = False

    def __post_init__(self) -> None:
        """Refuses what no layout could take."""
        if self.unlisted is not None:
            check_choice("unlisted", self.owner, self.unlisted, ("absent", "unknown"))
        if self.root is not None and not self.root.is_dir():
            got = f"{str(self.root)!r}, where there is none"
            raise refusal("root", self.owner, "be a folder", got, "Check the path.")
        if self.labels is not None and not isinstance(self.labels, Labels):
            Labels(self.labels)

    def means(self, default: str) -> str:
        """What an unlisted cell means here."""
        return default if self.unlisted is None else self.unlisted

    @property
    def label_names(self) -> list[str] | None:
        """The labels to keep, or None for all."""
        if self.labels is None:
            return None
        return self.labels.names if isinstance(self.labels, Labels) else list(self.labels)

    def column(self, argument: str, name: str, columns: Sequence[str]) -> str:
        """A column that the user named, or the error that says what there is."""
        if name in columns:
            return name
        near = difflib.get_close_matches(name.lower(), [column.lower() for column in columns], n=1)
        real = next((column for column in columns if near and column.lower() == near[0]), None)
        remedy = f"The columns are {listed(columns)}." if real is None else f"Did you mean {real!r}?"
        raise refusal(argument, self.owner, "name a column of the table", repr(name), remedy)

    def no_file(self, path: object) -> Refusal:
        """The error for a path that leads nowhere."""
        return refusal("path", self.owner, "lead to data", f"{str(path)!r}, where there is nothing", "Check the path.")
