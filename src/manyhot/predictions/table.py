"""The contract of a table of predictions, in memory or on disk."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

from manyhot.calibrate.calibrator import Calibrator
from manyhot.decide.rule import Rule
from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from manyhot.predictions.memory import Predictions

KINDS = ("scores", "probs", "targets", "decisions")


class Table(ABC):
    """What `Predictions` and `StoredPredictions` have in common: the same questions, the same answers.

    Attributes:
        labels: The names of the columns.
        kinds: What the table holds, among "scores", "probs", "targets" and "decisions".
        link: What the scores mean, where known.
        calibrator: What gave the probabilities, if a calibrator did.
        rule: What gave the decisions.
        notes: What was detected when the table was imported, in plain sentences.
    """

    labels: Labels
    kinds: tuple[str, ...]
    link: Link | None
    calibrator: Calibrator | None
    rule: Rule | None
    notes: list[str]

    @abstractmethod
    def __len__(self) -> int:
        """The number N of rows."""

    @abstractmethod
    def batches(self, rows: int = 65536, *, kinds: Iterable[str] | None = None) -> Iterator[Predictions]:
        """The table in pieces of `rows` rows, the last of what is left; an empty table is one empty piece.

        Args:
            rows: How many rows to hold in memory at once.
            kinds: Which of `kinds` to read; all by default.
        """

    @abstractmethod
    def read(
        self,
        *,
        labels: Sequence[str] | Labels | None = None,
        kinds: Iterable[str] | None = None,
        split: str | None = None,
    ) -> Predictions:
        """Some or all of the table, in memory.

        A link that looks at each label alone stays with the labels that are read. One that mixes labels, and a
        calibrator, speak of all of them; where `probs` are not there yet, they are computed before the other labels
        go, and only for that are those read.

        Args:
            labels: Names of the labels to read, in the wanted order; all by default.
            kinds: Which of `kinds` to read; all by default.
            split: Name of the split to read; all rows by default.
        """

    @abstractmethod
    def of_split(self, name: str) -> Self:
        """The rows of one split."""

    @abstractmethod
    def split_sizes(self) -> dict[str, int]:
        """The number of rows of each split, by name; empty if the table has no splits."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the table to one Parquet file, which is there as a whole or not at all.

        Args:
            path: The file; one that is there is replaced.
        """
        from manyhot.predictions.writer import PredictionsWriter

        with PredictionsWriter(path, self.labels, link=self.link, calibrator=self.calibrator, rule=self.rule) as writer:
            for batch in self.batches():
                writer.write(batch)

    def __repr__(self) -> str:
        """Size, kinds and what made them, in one line."""
        made_by = [(name, getattr(self, name)) for name in ("link", "calibrator", "rule")]
        facts = [f"{len(self):,} rows x {len(self.labels):,} labels", ", ".join(self.kinds)]
        facts += [f"{name} {type(module).__name__}" for name, module in made_by if module is not None]
        facts += [f"split {name!r} {size:,}" for name, size in list(self.split_sizes().items())[:4]]
        return f"{type(self).__name__}({'; '.join(facts)})"

    def _repr_html_(self) -> str:
        from manyhot.predictions.showing import html

        return html(self)

    def _check_kinds(self, kinds: Iterable[str] | None) -> tuple[str, ...]:
        """The wanted kinds in their usual order, or the error that says which there are."""
        if kinds is None:
            return self.kinds
        wanted = list(kinds) if isinstance(kinds, Iterable) and not isinstance(kinds, str) else [kinds]
        for kind in wanted:
            if kind not in self.kinds:
                remedy = "Ask for these, or call `probabilities()` for what a link gives."
                rule = f"be among those of the table, {', '.join(self.kinds)}"
                raise refusal("kinds", type(self).__name__, rule, repr(kind), remedy)
        return tuple(kind for kind in self.kinds if kind in wanted)


def own_labels(table: Table, labels: Sequence[str] | Labels | None) -> Labels:
    """The labels to read: those of the table, or of the names that were asked for."""
    if labels is None:
        return table.labels
    wanted = labels if isinstance(labels, Labels) else Labels([labels] if isinstance(labels, str) else labels)
    for name in wanted.names:
        table.labels.column(name)
    return wanted
